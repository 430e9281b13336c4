//! The names that users rely on: `tests/contract.txt`. One that is gone fails the test, and is taken out by hand; `PHOTOFINISH_BLESS=1`
//! adds new ones.

use std::collections::BTreeSet;
use std::path::Path;

use photofinish_facts::record::table::Table as _;
use photofinish_facts::record::{AttemptRecord, RaceRecord};
use photofinish_gateway::proxy::CODES;
use serde_json::Value;

use super::{COMMANDS, help, rows, source};

const FILE: &str = "tests/contract.txt";

#[test]
fn no_name_that_users_rely_on_is_gone() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let now = names();
    let before: BTreeSet<String> =
        std::fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect();
    if std::env::var_os(super::generated::BLESS).is_some() {
        let all: Vec<&str> = now.union(&before).map(String::as_str).collect();
        std::fs::write(&path, all.join("\n") + "\n").unwrap();
    }
    let gone: Vec<&String> = before.difference(&now).collect();
    assert!(
        gone.is_empty(),
        "docs/compatibility.md promises these. If that is meant, take them out of {FILE}: {gone:#?}"
    );
    let new: Vec<&String> = now.difference(&before).collect();
    let is_blessed = std::env::var_os(super::generated::BLESS).is_some();
    assert!(new.is_empty() || is_blessed, "set PHOTOFINISH_BLESS=1 once: {FILE} lacks {new:#?}");
}

fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let schema: Value = serde_json::from_str(&photofinish_config::schema()).unwrap();
    add_keys(&schema, &schema, "", 0, &mut names);
    for (command, options) in commands() {
        names.extend(options.into_iter().map(|option| format!("command {command} {option}")));
        names.insert(format!("command {command}"));
    }
    names.extend(CODES.iter().map(|code| format!("error {}", code.code)));
    for (_, text) in source().into_iter().filter(|(path, _)| !path.to_string_lossy().contains("tests")) {
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        let quoted: Vec<&str> = program.split('"').collect();
        let is_word = |word: &&&str, marks: &str| {
            word.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.as_bytes().contains(&byte))
        };
        let headers = quoted.iter().filter(|word| word.len() > 14 && word.starts_with("x-photofinish-"));
        names.extend(headers.filter(|word| is_word(word, "-")).map(|word| format!("header {word}")));
    }
    let variables = COMMANDS.split('`').filter(|word| word.starts_with("PHOTOFINISH_") && word.len() > 12);
    names.extend(variables.filter(|word| !word.contains([' ', '='])).map(|word| format!("variable {word}")));
    names.extend(RaceRecord::COLUMNS.iter().map(|column| format!("column race.{}", column.name)));
    names.extend(AttemptRecord::COLUMNS.iter().map(|column| format!("column attempt.{}", column.name)));
    let api: Value = serde_json::from_str(include_str!("../../crates/serve/src/server/api/openapi.json")).unwrap();
    names.extend(api["paths"].as_object().unwrap().keys().map(|path| format!("path {path}")));
    let metrics = include_str!("../../docs/operations.md");
    for row in rows(metrics, "Metrics") {
        let quoted = row[0].split('`').skip(1).step_by(2).map(|name| name.split('{').next().unwrap());
        names.extend(quoted.map(|name| format!("metric photofinish_{}", name.trim_start_matches("photofinish_"))));
    }
    names
}

/// The keys of a part of the schema, with those of its tables. A name that users choose is `*`.
fn add_keys(whole: &Value, part: &Value, path: &str, depth: usize, names: &mut BTreeSet<String>) {
    if depth > 12 {
        return;
    }
    if let Some(place) = part["$ref"].as_str() {
        let part = whole.pointer(place.trim_start_matches('#')).unwrap();
        add_keys(whole, part, path, depth + 1, names);
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        part[several].as_array().into_iter().flatten().for_each(|one| add_keys(whole, one, path, depth + 1, names));
    }
    add_items(whole, &part["items"], path, depth, names);
    let member = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, of) in part["properties"].as_object().into_iter().flatten() {
        names.insert(format!("key {}", member(name)));
        add_keys(whole, of, &member(name), depth + 1, names);
    }
    add_items(whole, &part["additionalProperties"], &member("*"), depth, names);
}

fn add_items(whole: &Value, of: &Value, path: &str, depth: usize, names: &mut BTreeSet<String>) {
    if of.is_object() {
        add_keys(whole, of, path, depth + 1, names);
    }
}

/// Each command with its options.
fn commands() -> Vec<(String, BTreeSet<String>)> {
    let listed = help(&[]);
    let (_, listed) = listed.split_once("\nRun:\n").unwrap();
    let (listed, _) = listed.split_once("\nOptions:").unwrap();
    let commands = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let options = |command: &str| {
        let text = help(&[command]);
        let begins = |line: &&str| line.trim_start().starts_with('-');
        let option = |line: &str| {
            let word = line.split([' ', ',']).find(|word| word.starts_with("--"))?;
            Some(word.trim_end_matches([',', '[']).split(['[', '=']).next()?.to_owned())
        };
        text.lines().filter(begins).filter_map(option).collect()
    };
    commands.filter_map(|line| line.split_whitespace().next()).map(|name| (name.to_owned(), options(name))).collect()
}
