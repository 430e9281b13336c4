//! What people write in a first file, and what is right instead: other programs' names of keys, keys in the wrong table, variables
//! in another notation, missing quotes.
//!
//! Not for the nearest spelling: see `problem`.

/// Names that other programs use, and the keys here.
const OTHER_NAMES: [(&str, &str); 22] = [
    ("port", "listen"),
    ("host", "listen"),
    ("bind", "listen"),
    ("address", "listen"),
    ("addr", "listen"),
    ("key", "api_key"),
    ("apikey", "api_key"),
    ("api-key", "api_key"),
    ("api_base", "base_url"),
    ("url", "base_url"),
    ("endpoint", "base_url"),
    ("type", "dialect"),
    ("format", "dialect"),
    ("model", "upstreams"),
    ("providers", "upstreams"),
    ("backends", "upstreams"),
    ("strategy", "policy"),
    ("mode", "policy"),
    ("path", "url"),
    ("database", "url"),
    ("db", "url"),
    ("password", "token"),
];

/// Keys that people look for at the top of the file or in another table, and where they are.
const HOMES: [(&str, &str); 24] = [
    ("listen", "[server]"),
    ("tls", "[server]"),
    ("cors", "[server]"),
    ("hosts", "[server]"),
    ("body_max", "[server]"),
    ("drain", "[server]"),
    ("log", "[server]"),
    ("retention", "[store]"),
    ("policy", "[race]"),
    ("hedge_after", "[race]"),
    ("optimise", "[race]"),
    ("budget", "[race]"),
    ("slo", "[race]"),
    ("max_attempts", "[race]"),
    ("retries", "[race]"),
    ("timeouts", "[race]"),
    ("lossy", "[race]"),
    ("api_key", "[providers.NAME]"),
    ("base_url", "[providers.NAME]"),
    ("dialect", "[providers.NAME]"),
    ("simulate", "[providers.NAME]"),
    ("upstreams", "[models.NAME]"),
    ("aliases", "[models.NAME]"),
    ("token", "[users.NAME]"),
];

/// The key among `known` that other programs call `typed`.
pub(super) fn usual_name(typed: &str, known: &[&'static str]) -> Option<&'static str> {
    let typed = typed.to_ascii_lowercase();
    OTHER_NAMES.iter().find(|(other, key)| *other == typed && known.contains(key)).map(|(_, key)| *key)
}

/// The table that has this key.
pub(super) fn home(key: &str) -> Option<&'static str> {
    HOMES.iter().find(|(known, _)| *known == key).map(|(_, table)| *table)
}

/// The name of a variable in another notation than `${NAME}`: `$NAME`, `{NAME}`, `env:NAME`, or the bare name of a key.
pub(super) fn variable(typed: &str) -> Option<&str> {
    let typed = typed.trim();
    let is_name = |name: &str| {
        let is_letter = |c: char| c.is_ascii_uppercase() || c == '_';
        name.len() > 1 && name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
    };
    let around = [("$(", ")"), ("{{", "}}"), ("{", "}"), ("%", "%")];
    let enclosed = around.iter().find_map(|(start, end)| typed.strip_prefix(start)?.strip_suffix(end));
    let before = ["$env:", "env:", "env.", "os.environ/", "$"];
    let name = enclosed.or_else(|| before.iter().find_map(|start| typed.strip_prefix(start)));
    let ends_as_one = ["_KEY", "_TOKEN", "_SECRET"].iter().any(|end| typed.ends_with(end));
    name.or_else(|| ends_as_one.then_some(typed)).map(str::trim).filter(|name| is_name(name))
}

/// What is wrong with a line that is no TOML, if quotes are missing. It quotes names of tables and keys, never a value, which may be a secret.
pub(super) fn syntax(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (table, name) = header.split_once('.')?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let lacks = !name.contains(['"', '\'']) && !name.chars().all(is_plain);
        return lacks.then(|| format!("a name with such characters needs quotes, as in [{table}.\"{name}\"]"));
    }
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    if value.contains(['“', '”', '„', '‘', '’']) {
        return Some(format!("strings need straight quotes, as in {key} = \"…\""));
    }
    let first = value.trim_start_matches(['[', ' ']);
    let is_bare = first.starts_with(|c: char| c.is_alphanumeric() || "$/.:<".contains(c));
    let is_text = first.contains(|c: char| c.is_alphabetic() || "$:%/".contains(c)) || first.matches('.').count() > 1;
    let form = if value.starts_with('[') { "[\"…\"]" } else { "\"…\"" };
    (is_bare && is_text).then(|| format!("strings need quotes, as in {key} = {form}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    #[test]
    fn every_home_has_its_key() {
        for (key, table) in HOMES {
            let text = format!("{}\nzzz = 1", table.replace("NAME", "x"));
            let problems = parse(&text, Path::new("x"), &|_| None).unwrap_err().to_string();
            let (_, known) = problems.split_once("expected one of ").unwrap();
            let known = known.lines().next().unwrap();
            assert!(known.split(", ").any(|known| known == key), "{key} {table}: {known}");
        }
    }

    #[test]
    fn variables_in_other_notations_are_seen() {
        for typed in
            ["$GROQ_KEY", "$(GROQ_KEY)", "{GROQ_KEY}", "{{ GROQ_KEY }}", "%GROQ_KEY%", "env:GROQ_KEY", "GROQ_KEY"]
        {
            assert_eq!(variable(typed), Some("GROQ_KEY"), "{typed}");
        }
        assert_eq!(variable("os.environ/GROQ_KEY"), Some("GROQ_KEY"));
        for typed in ["${GROQ_KEY}", "gsk_abc", "$ecret", "AKIA1234", "alice", "", "$", "file:/run/KEY", "T"] {
            assert_eq!(variable(typed), None, "{typed}");
        }
    }

    #[test]
    fn lines_without_quotes_are_seen() {
        for (line, expected) in [
            (
                "[models.meta-llama/llama-3]",
                Some("a name with such characters needs quotes, as in [models.\"meta-llama/llama-3\"]"),
            ),
            ("[models.llama3:8b]", Some("a name with such characters needs quotes, as in [models.\"llama3:8b\"]")),
            ("[models.a b]", Some("a name with such characters needs quotes, as in [models.\"a b\"]")),
            ("[models.\"a b]", None),
            ("[race", None),
            ("listen = 127.0.0.1:1", Some("strings need quotes, as in listen = \"…\"")),
            ("policy = race", Some("strings need quotes, as in policy = \"…\"")),
            ("first_token = 20s", Some("strings need quotes, as in first_token = \"…\"")),
            ("api_key = ${PLANTED}", Some("strings need quotes, as in api_key = \"…\"")),
            ("upstreams = [groq/x]", Some("strings need quotes, as in upstreams = [\"…\"]")),
            ("api_key = “planted”", Some("strings need straight quotes, as in api_key = \"…\"")),
            ("budget = 0,1", None),
            ("api_key = \"planted", None),
            ("planted", None),
        ] {
            assert_eq!(syntax(line).as_deref(), expected, "{line}");
        }
    }
}
