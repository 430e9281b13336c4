//! Limits in a request of the API, in the words and by the rules of the file: the JSON is read as TOML.
//!
//! Not for what is made with them.

use serde_json::{Map, Value};
use toml::de::DeTable;

use super::Limits;
use super::keys::TableKeys as _;
use super::reader::{ReaderScope, TomlTable};
use photofinish_base::files::FileLimits;

/// Reads the limits among these members. `own`: further members of the object, which are known and not looked at. A member that
/// is null counts as left out. `name`: of the object, in messages.
///
/// # Errors
/// A member is unknown or wrong; the text names it.
pub fn limits_of(members: &Map<String, Value>, own: &[&'static str], name: &str) -> Result<Limits, String> {
    let mut text = String::new();
    for (member, value) in members.iter().filter(|(name, value)| !value.is_null() && !own.contains(&name.as_str())) {
        text.push_str(&format!("{} = ", Value::from(member.as_str())));
        write(value, &mut text);
        text.push('\n');
    }
    if text.is_empty() {
        return Ok(Limits::default());
    }
    let document = DeTable::parse(&text).map_err(|error| format!("{name}: {}", error.message()))?.into_inner();
    let no_variables = |_: &str| None;
    let scope = ReaderScope::new(&no_variables, FileLimits::once());
    let mut table = TomlTable::new(&scope, name.to_owned(), 0, document);
    table.know(own);
    let limits = Limits::read(&mut table, &Limits::default());
    table.finish();
    let (found, _) = scope.finish(name, &text);
    let problems = found.into_iter().map(|problem| problem.placed(&text).without_place());
    match problems.collect::<Vec<String>>() {
        none if none.is_empty() => Ok(limits),
        problems => Err(problems.join("; ")),
    }
}

/// JSON as a value of TOML: text, numbers and lists are written alike.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            text.push('{');
            for (at, (member, value)) in members.iter().filter(|(_, value)| !value.is_null()).enumerate() {
                text.push_str(if at == 0 { " " } else { ", " });
                text.push_str(&format!("{} = ", Value::from(member.as_str())));
                write(value, text);
            }
            text.push_str(" }");
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(members: Value) -> Result<Limits, String> {
        limits_of(members.as_object().unwrap(), &["role"], "the user")
    }

    #[test]
    fn limits_are_those_of_the_file() {
        let limits = read(json!({
            "role": [null], "rpm": 60, "tpm": { "tokens": 1_000, "burst": 10, "none": null }, "streams": null,
            "budget": { "day": 0.1, "month": 5 }, "models": ["a-*", "groq/\"q\\\u{e9}"], "reserve": "max",
        }));
        let limits = limits.unwrap();
        assert_eq!((limits.rpm.map(|rate| rate.burst), limits.tpm.map(|rate| rate.burst)), (Some(60), Some(10)));
        assert_eq!((limits.budget.day, limits.budget.month), (Some(100_000_000), Some(5_000_000_000)));
        assert_eq!(limits.models.unwrap()[1].as_str(), "groq/\"q\\\u{e9}");
        assert_eq!(limits.streams, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (members, words) in [
            (json!({ "rmp": 5 }), "unknown key \"rmp\" in the user"),
            (json!({ "rpm": 0 }), "\"rpm\" in the user"),
            (json!({ "rpm": -1 }), "\"rpm\" in the user"),
            (json!({ "rpm": "many" }), "\"rpm\" in the user"),
            (json!({ "budget": { "year": 1 } }), "unknown key \"year\""),
            (json!({ "streams": 1e300 }), "\"streams\" in the user"),
            (json!({ "models": ["a b"] }), "\"models\" in the user"),
            (json!({ "models": [["a"]] }), "\"models\" in the user"),
            (json!({ "models": [null] }), "the user"),
            (json!({ "a\n[b]\u{1}": 5 }), "the user"),
        ] {
            let error = read(members.clone()).unwrap_err();
            assert!(error.contains(words), "{members}: {error}");
        }
    }
}
