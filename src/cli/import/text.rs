//! Words of TOML, and what is said of an import.

use super::yaml::{YamlForm, YamlValue};

/// What has no equal, by line.
#[derive(Default)]
pub(super) struct ImportNotes(Vec<(usize, String)>);

impl ImportNotes {
    pub fn add(&mut self, line: usize, note: impl Into<String>) {
        self.0.push((line, note.into()));
    }

    /// In the order of the lines.
    pub fn into_lines(mut self) -> Vec<String> {
        self.0.sort();
        self.0.dedup();
        self.0.into_iter().map(|(line, note)| format!("line {line}: {note}")).collect()
    }
}

/// A string that is taken as it is.
pub(super) fn quoted(text: &str) -> String {
    toml_string(&text.replace("${", "$${"))
}

/// A string that may be LiteLLM's `os.environ/NAME`.
pub(super) fn reference(text: &str) -> String {
    variable(text).map_or_else(|| quoted(text), |name| toml_string(&format!("${{{name}}}")))
}

/// The variable that `os.environ/NAME` names.
pub(super) fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("os.environ/")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// A key of a table.
pub(super) fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { toml_string(name) }
}

/// JSON's strings are TOML's, but for DEL.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text.replace('\u{7f}', "")).to_string()
}

/// A value with all that is in it. None: it holds nothing.
pub(super) fn value(of: &YamlValue) -> Option<String> {
    Some(match &of.form {
        YamlForm::Nothing => return None,
        YamlForm::Text { text, plain: true } if matches!(text.to_lowercase().as_str(), "true" | "false") => {
            text.to_lowercase()
        }
        YamlForm::Text { text, plain: true } if text.parse::<i64>().is_ok() => text.parse::<i64>().ok()?.to_string(),
        YamlForm::Text { plain: true, .. } if of.number().is_some() => format!("{:?}", of.number()?),
        YamlForm::Text { text, .. } => reference(text),
        YamlForm::List(values) => format!("[{}]", values.iter().filter_map(value).collect::<Vec<_>>().join(", ")),
        YamlForm::Map(members) => {
            let member = |(name, of): &(String, YamlValue)| Some(format!("{} = {}", key(name), value(of)?));
            format!("{{ {} }}", members.iter().filter_map(member).collect::<Vec<_>>().join(", "))
        }
    })
}

/// A number of seconds as a duration.
pub(super) fn duration(of: &YamlValue) -> Option<String> {
    of.number().filter(|seconds| *seconds > 0.0).map(seconds_text)
}

pub(super) fn seconds_text(seconds: f64) -> String {
    if seconds.fract() == 0.0 { format!("\"{seconds}s\"") } else { format!("\"{}ms\"", (seconds * 1e3).round()) }
}
