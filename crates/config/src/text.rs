//! Strings of the config: `${VAR}`, `${VAR:-default}`, `file:/path`, and secrets, which no message may quote.
//!
//! Not for what a string means: see `kinds`.

use std::io;
use std::path::Path;

use secrecy::SecretString;

use super::problem::{self, LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable};
use photofinish_base::files;

/// Bytes of the largest file with a secret.
const SECRET_FILE_MAX: u64 = 64 * 1024;

/// A string with its variables filled in.
#[derive(Clone)]
pub(super) struct ExpandedText {
    /// Where it begins in the file.
    pub(super) offset: usize,
    pub(super) value: String,
    /// The text in the file. Messages quote it, since a variable may contain a secret.
    pub(super) typed: String,
}

/// A secret, or why there is none.
pub(super) enum Secret {
    /// Not empty, and fit for a header.
    Set(SecretString),
    /// These variables (or `file:…` names) are unset, empty or missing.
    Unset(Vec<String>),
    /// Wrong, and reported.
    Bad,
}

impl TomlTable<'_, '_> {
    /// A string with its variables filled in.
    pub(super) fn text(&mut self, key: &'static str) -> Option<ExpandedText> {
        let (string, what) = (self.string(key)?, self.what(key));
        if report_variable(self.scope, &what, &string) {
            return None;
        }
        plain(self.scope, &what, string)
    }

    /// A string or a list of at most `max` strings with their variables filled in. None: the key is absent, or no part of its value
    /// is right.
    pub(super) fn texts(&mut self, key: &'static str, max: usize, noun: &str) -> Option<Vec<ExpandedText>> {
        let typed = self.strings(key)?;
        let what = self.what(key);
        if let Some(first) = typed.get(max) {
            self.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {max} {noun}")));
        }
        let any = !typed.is_empty();
        let texts = typed.into_iter().take(max);
        let texts: Vec<_> = texts
            .filter(|text| !report_variable(self.scope, &what, text))
            .filter_map(|text| plain(self.scope, &what, text))
            .collect();
        (!any || !texts.is_empty()).then_some(texts)
    }

    pub(super) fn bad_value(&self, key: &str, text: &ExpandedText) -> LocatedProblem {
        LocatedProblem::at(text.offset, format!("bad value \"{}\" for {}", shown(&text.typed), self.what(key)))
    }
}

/// A string in which every variable must be set. `what` names it in messages: `"listen" in [server]`.
pub(super) fn plain(scope: &ReaderScope<'_>, what: &str, typed: Located<String>) -> Option<ExpandedText> {
    match expand(&typed.value, scope.env) {
        Err(MalformedVariable) => scope.report(malformed(typed.offset, what)),
        Ok(expanded) if !expanded.unset.is_empty() => {
            scope.report(unset(typed.offset, what, &expanded.unset));
        }
        Ok(expanded) => {
            return Some(ExpandedText { offset: typed.offset, value: expanded.value, typed: typed.value });
        }
    }
    None
}

/// A key or a token, without the white space around it. Messages name its variables and nothing else.
pub(super) fn secret(scope: &ReaderScope<'_>, what: &str, typed: &Located<String>) -> Secret {
    if report_variable(scope, what, typed) {
        return Secret::Bad;
    }
    let Ok(expanded) = expand(&typed.value, scope.env) else {
        scope.report(malformed(typed.offset, what));
        return Secret::Bad;
    };
    if !expanded.unset.is_empty() {
        return Secret::Unset(expanded.unset);
    }
    // Messages show the file name as typed, without the values of variables.
    let by_name = typed.value.starts_with("file:");
    let sources = if by_name { vec![typed.value.clone()] } else { expanded.variables };
    let value = match expanded.value.strip_prefix("file:") {
        None => expanded.value,
        Some(path) => match read_secret_file(scope, path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Secret::Unset(sources),
            Err(error) => {
                scope.report(LocatedProblem::at(typed.offset, format!("cannot read the file of {what}: {error}")));
                return Secret::Bad;
            }
        },
    };
    let value = value.trim();
    if value.is_empty() {
        if sources.is_empty() {
            scope.wrong(typed.offset, format!("{what} is empty"), SECRET_EXPECTED);
            return Secret::Bad;
        }
        return Secret::Unset(sources);
    }
    if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("{what} has spaces or characters that cannot be sent in a header");
        scope.wrong(typed.offset, message, "visible ASCII characters");
        return Secret::Bad;
    }
    if sources.is_empty() {
        scope.note_secret();
    }
    if is_quoted(value) {
        let from = if sources.is_empty() { String::new() } else { format!(" from {}", sources.join(" and ")) };
        scope.warn(format!(
            "{what}: the value{from} has quotes around it, which are sent too: take them away (`docker --env-file` keeps quotes)"
        ));
    }
    Secret::Set(SecretString::from(value))
}

/// No vendor issues a key in quotes. A shell removes them, and what reads an env file may not.
fn is_quoted(value: &str) -> bool {
    ['"', '\''].iter().any(|quote| value.len() > 1 && value.starts_with(*quote) && value.ends_with(*quote))
}

/// Reports a variable in another notation than `${NAME}`.
fn report_variable(scope: &ReaderScope<'_>, what: &str, typed: &Located<String>) -> bool {
    let Some(name) = problem::variable(&typed.value) else { return false };
    let problem = LocatedProblem::at(typed.offset, format!("{what} looks like a variable"));
    scope.report(problem.expected(format!("\"${{{name}}}\"")));
    true
}

/// Where a secret comes from: the names of its variables, or `file:…` as typed. Empty if the file itself contains it.
pub(super) fn sources(typed: &str) -> Vec<String> {
    if typed.starts_with("file:") {
        return vec![typed.to_owned()];
    }
    expand(typed, &|_| None).map(|expanded| expanded.variables).unwrap_or_default()
}

/// The problem of a string whose variables are unset.
pub(super) fn unset(offset: usize, what: &str, names: &[String]) -> LocatedProblem {
    let message = format!("{what} needs {}", not_set(names));
    LocatedProblem::at(offset, message).expected("a value, or ${NAME:-default} in the file")
}

/// `A and B, which are not set`, for messages; `file:…` names are files that are missing or empty.
pub(super) fn not_set(names: &[String]) -> String {
    let plural = if names.len() == 1 { "which is" } else { "which are" };
    let how = if names.iter().any(|name| name.starts_with("file:")) { "missing or empty" } else { "not set" };
    format!("{}, {plural} {how}", names.join(" and "))
}

const SECRET_EXPECTED: &str = "\"${NAME_OF_A_VARIABLE}\" or \"file:/path\"";

/// The result of `expand`.
struct ExpandedString {
    value: String,
    /// All variables in the text.
    variables: Vec<String>,
    /// The variables without a value and a default; `value` then has gaps.
    unset: Vec<String>,
}

/// A `${` without an end or without a valid name. The text is not kept: it may be a secret.
struct MalformedVariable;

/// Fills in the variables; an empty variable counts as unset. `$${` means `${`. Values are not expanded again.
fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<ExpandedString, MalformedVariable> {
    let mut expanded = ExpandedString { value: String::new(), variables: Vec::new(), unset: Vec::new() };
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        if let Some(before) = before.strip_suffix('$') {
            expanded.value.push_str(before);
            expanded.value.push_str("${");
            rest = &reference[2..];
            continue;
        }
        expanded.value.push_str(before);
        let (reference, after) = reference[2..].split_once('}').ok_or(MalformedVariable)?;
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if !is_variable(name) {
            return Err(MalformedVariable);
        }
        match env(name).filter(|value| !value.is_empty()) {
            Some(value) => expanded.value.push_str(&value),
            None => match default {
                Some(default) => expanded.value.push_str(default),
                None => expanded.unset.push(name.to_owned()),
            },
        }
        expanded.variables.push(name.to_owned());
        rest = after;
    }
    expanded.value.push_str(rest);
    Ok(expanded)
}

fn is_variable(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn malformed(offset: usize, what: &str) -> LocatedProblem {
    LocatedProblem::at(offset, format!("{what} has a \"${{\" that is no variable"))
        .expected("${NAME}, ${NAME:-default}, or $${ for the two characters")
}

fn read_secret_file(scope: &ReaderScope<'_>, path: &str) -> io::Result<String> {
    files::read(Path::new(path), SECRET_FILE_MAX, scope.limits)?.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_base::files::FileLimits;

    fn env(name: &str) -> Option<String> {
        match name {
            "SET" => Some("value".into()),
            "NESTED" => Some("${SET}".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn a_key_in_quotes_is_told_of_without_the_key() {
        let env = |name: &str| {
            Some(match name {
                "DOUBLE" => " \"planted\"\n".to_owned(),
                "SINGLE" => "'planted'".to_owned(),
                "BARE" => "planted".to_owned(),
                "ONE" => "\"".to_owned(),
                "INNER" => "pla\"nt\"ed".to_owned(),
                _ => return None,
            })
        };
        for (typed, from) in [
            ("${DOUBLE}", Some(" from DOUBLE")),
            ("${SINGLE}", Some(" from SINGLE")),
            ("'planted'", Some("")),
            ("${BARE}", None),
            ("${ONE}", None),
            ("${INNER}", None),
        ] {
            let scope = ReaderScope::new(&env, FileLimits::once());
            let secret = secret(&scope, "the key", &Located { offset: 0, value: typed.to_owned() });
            assert!(matches!(secret, Secret::Set(_)), "{typed}");
            let (problems, warnings) = scope.finish("", "");
            let expected = from.map(|from| format!("the key: the value{from} has quotes around it"));
            let found = warnings.iter().find(|warning| warning.contains("quotes"));
            assert!(problems.is_empty() && warnings.iter().all(|warning| !warning.contains("planted")), "{warnings:?}");
            assert_eq!(found.map(|found| found.split(',').next().unwrap_or_default()), expected.as_deref(), "{typed}");
        }
    }

    #[test]
    fn variables_are_filled_in() {
        for (text, expected) in [
            ("plain $ text", "plain $ text"),
            ("${SET}", "value"),
            ("a${SET}b${SET}", "avaluebvalue"),
            ("${UNSET:-other}", "other"),
            ("${EMPTY:-other}", "other"),
            ("${UNSET:-}", ""),
            ("${NESTED}", "${SET}"),
            ("$${SET}", "${SET}"),
            ("pa$$word", "pa$$word"),
        ] {
            let expanded = expand(text, &env).ok().unwrap();
            assert_eq!((expanded.value.as_str(), expanded.unset.len()), (expected, 0), "{text}");
        }
    }

    #[test]
    fn unset_and_malformed_are_told_apart() {
        for (text, unset) in [("${UNSET}", "UNSET"), ("x${EMPTY}", "EMPTY")] {
            assert_eq!(expand(text, &env).ok().unwrap().unset, [unset]);
        }
        for text in ["${", "${SET", "${}", "${1X}", "${A B}", "${:-x}"] {
            assert!(expand(text, &env).is_err(), "{text}");
        }
    }
}
