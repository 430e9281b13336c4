//! Problems of a config file: each has its place, what was expected, and the nearest valid name. Also what people write in a
//! first file, and what is right instead.
//!
//! A problem never quotes a value that could be a secret. Not for finding problems: see `raw` and `resolve`.
use std::cmp::Reverse;
use std::fmt;

/// More problems than this are counted, not shown.
const SHOWN_MAX: usize = 100;
/// Longer names are shortened in messages and get no proposal.
const NAME_MAX: usize = 64;
/// How alike a misspelt name of a model is to the one that was meant.
const LIKE: f64 = 0.8;
/// Valid names that are compared for a proposal.
const CANDIDATES_MAX: usize = 5_000;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub message: String,
    /// What would be right.
    pub expected: Option<String>,
    /// The valid name that is most similar to the typed one.
    pub nearest: Option<String>,
}

/// The problems of one file, in the order of the file; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The name of the file.
    pub file: String,
    /// At most a hundred.
    pub list: Vec<ConfigProblem>,
    /// The number of further problems.
    pub more: usize,
}

impl Problems {
    /// Sorts by place and turns byte offsets in `text` into lines and columns.
    pub(super) fn new(file: String, text: &str, mut found: Vec<LocatedProblem>) -> Problems {
        found.sort_by_key(|found| found.offset);
        let more = found.len().saturating_sub(SHOWN_MAX);
        found.truncate(SHOWN_MAX);
        let list = found.into_iter().map(|found| found.placed(text)).collect();
        Problems { file, list, more }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            writeln!(f, "{}:{problem}", self.file)?;
        }
        match self.list.len() + self.more {
            1 => write!(f, "1 problem"),
            count if self.more > 0 => write!(f, "{count} problems, the first {} are shown", self.list.len()),
            count => write!(f, "{count} problems"),
        }
    }
}

impl std::error::Error for Problems {}

impl ConfigProblem {
    /// For a text without lines.
    pub(super) fn without_place(&self) -> String {
        self.to_string().split_once(": ").map_or_else(String::new, |(_, problem)| problem.to_owned())
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean \"{nearest}\"?")?;
        }
        Ok(())
    }
}

/// A problem whose place is still a byte offset.
pub(super) struct LocatedProblem {
    offset: usize,
    message: String,
    expected: Option<String>,
    nearest: Option<String>,
}

impl LocatedProblem {
    pub(super) fn at(offset: usize, message: impl Into<String>) -> LocatedProblem {
        LocatedProblem { offset, message: message.into(), expected: None, nearest: None }
    }

    pub(super) fn expected(mut self, expected: impl Into<String>) -> LocatedProblem {
        self.expected = Some(expected.into());
        self
    }

    pub(super) fn nearest<'n>(mut self, name: &str, valid: impl IntoIterator<Item = &'n str>) -> LocatedProblem {
        self.nearest = nearest(name, valid, 1).pop();
        self
    }

    /// The name that was surely meant.
    pub(super) fn meant(mut self, name: &str) -> LocatedProblem {
        self.nearest = Some(name.to_owned());
        self
    }

    pub(super) fn placed(self, text: &str) -> ConfigProblem {
        let before = text.get(..self.offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ConfigProblem {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: self.message,
            expected: self.expected,
            nearest: self.nearest,
        }
    }
}

/// The `valid` names most similar to `name`, best first, at most `limit`.
pub fn nearest<'n>(name: &str, valid: impl IntoIterator<Item = &'n str>, limit: usize) -> Vec<String> {
    if name.chars().nth(NAME_MAX).is_some() {
        return Vec::new();
    }
    let name = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = valid
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|valid| valid.len() <= NAME_MAX)
        .map(|valid| (likeness(&name, &valid.to_lowercase()), valid))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(limit).map(|(_, valid)| valid.to_owned()).collect()
}

/// The models of `valid` most probably meant by `name`, at most `limit`: those that begin with it, hyphens and dots aside, then those that
/// have its words, then those of its family that share most words with it, each the newest first by their versions; and else the most similar.
pub fn nearest_models<'n>(name: &str, valid: impl IntoIterator<Item = &'n str>, limit: usize) -> Vec<String> {
    if name.chars().nth(NAME_MAX).is_some() {
        return Vec::new();
    }
    let typed = name.to_lowercase();
    let words = |name: &str| -> Vec<String> {
        name.split(|c: char| !c.is_alphanumeric() && c != '.')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let wanted = words(&typed);
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    // A name with a slash begins with a provider's.
    let start = Some(plain(&typed)).filter(|_| !typed.contains('/'));
    let begins = |valid: &str| {
        valid.starts_with(&typed) || start.as_deref().is_some_and(|start| plain(valid).starts_with(start))
    };
    let Some(family) = wanted.iter().find(|word| word.starts_with(char::is_alphabetic)) else { return Vec::new() };
    let valid: Vec<&str> = valid.into_iter().take(CANDIDATES_MAX).filter(|valid| valid.len() <= NAME_MAX).collect();
    let rank = |valid: &str| {
        let lower = valid.to_lowercase();
        let own = words(&lower);
        match () {
            () if begins(&lower) => Some(0),
            () if wanted.iter().all(|word| own.contains(word)) => Some(1),
            () if is_misspelt(&typed, &lower) => Some(2),
            () if own.first() == Some(family) => Some(3),
            () => None,
        }
    };
    let shared = |valid: &str| {
        let own = words(&valid.to_lowercase());
        Reverse(wanted.iter().filter(|word| own.contains(word)).count())
    };
    let place = |valid: &str| rank(valid).map(|rank| (rank, if rank == 0 { Reverse(0) } else { shared(valid) }));
    let ranked = valid.iter().filter_map(|valid| Some((place(valid)?, Reverse(version(valid)), valid.len(), *valid)));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort();
    // A far relative is no help where a near one is known.
    let best = ranked.first().map(|(place, ..)| *place);
    ranked.retain(|(place, ..)| Some(*place) == best);
    match best {
        Some((2, _)) | None => nearest(name, valid, limit),
        Some(_) => {
            let mut named: Vec<&str> = Vec::new();
            for (.., valid) in ranked {
                // `us.anthropic.claude-x` is `claude-x` again.
                if named.len() < limit && !named.iter().any(|shorter| valid.ends_with(shorter)) {
                    named.push(valid);
                }
            }
            named.into_iter().map(str::to_owned).collect()
        }
    }
}

/// Names that differ in digits alone are other versions.
pub(super) fn is_misspelt(typed: &str, valid: &str) -> bool {
    let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    strsim::normalized_levenshtein(typed, valid) >= LIKE && letters(typed) != letters(valid)
}

/// The numbers of a model's name, without sizes and dates: 4, 5 of `claude-opus-4-5-20260101`.
fn version(name: &str) -> Vec<u64> {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    let letters = |part: &str| part.trim_start_matches(|c: char| c.is_ascii_alphabetic()).to_owned();
    parts.filter_map(|part| letters(part).parse().ok()).take_while(|number| *number < 1_000).collect()
}

/// A typed name for a message: shortened, without control characters.
pub(super) fn shown(name: &str) -> String {
    let dots = if name.chars().nth(NAME_MAX).is_some() { "…" } else { "" };
    format!("{}{dots}", name.chars().take(NAME_MAX).collect::<String>().escape_debug())
}

/// 0 without similarity. High for a typing error, or if one begins with the other.
fn likeness(a: &str, b: &str) -> f64 {
    let edits = strsim::normalized_levenshtein(a, b);
    let beginning = strsim::jaro_winkler(a, b);
    if edits >= 0.5 || beginning >= 0.85 { edits + beginning } else { 0.0 }
}

/// Names that other programs use, and the keys here, some with the value that is meant.
const OTHER_NAMES: [(&str, &str); 32] = [
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
    ("num_retries", "retries"),
    ("max_retries", "retries"),
    ("routing_strategy", "policy"),
    ("allowed_fails", "breaker"),
    ("cooldown_time", "breaker"),
    ("request_timeout", "timeouts"),
    ("drop_params", "lossy"),
    ("max_budget", "budget"),
    ("fallbacks", "upstreams"),
    // Once a key of its own.
    ("admin", "role = \"admin\""),
];

/// What does the same in another place, by the name that LiteLLM has for it.
const ELSEWHERE: [(&str, &str); 6] = [
    ("fallbacks", "further `upstreams` of [models.NAME], such as { upstream = \"PROVIDER/MODEL\", tier = 2 }"),
    ("master_key", "token under [users.NAME]"),
    ("model_list", LITELLM),
    ("router_settings", LITELLM),
    ("litellm_settings", LITELLM),
    ("general_settings", LITELLM),
];
const LITELLM: &str = "what `photofinish import litellm FILE` writes";

/// What is written in place of a key that is known elsewhere.
pub(super) fn instead(typed: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(name, _)| *name == typed).map(|(_, instead)| *instead)
}

/// The key among `known` that other programs call `typed`.
pub(super) fn usual_name(typed: &str, known: &[&'static str]) -> Option<&'static str> {
    let typed = typed.to_ascii_lowercase();
    let is_known = |written: &str| written.split(" = ").next().is_some_and(|key| known.contains(&key));
    OTHER_NAMES.iter().find(|(other, key)| *other == typed && is_known(key)).map(|(_, key)| *key)
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

/// The whole text is of another language, by its first line.
pub(super) fn other_language(text: &str) -> Option<String> {
    let first =
        text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '/']) && *line != "---")?;
    let is_yaml = |line: &str| {
        let (key, rest) = line.split_once(':')?;
        let is_name = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        (is_name && (rest.is_empty() || rest.starts_with(' '))).then_some("YAML")
    };
    let language = if first.starts_with('{') { Some("JSON") } else { is_yaml(first) }?;
    Some(format!(
        "the file is {language}; write tables such as [models.fast], and in them lines such as upstreams = [\"groq/…\"]"
    ))
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
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let text = "a = 1\nü = 2 # x\n";
        let found = vec![
            LocatedProblem::at(text.find('#').unwrap(), "second"),
            LocatedProblem::at(0, "first"),
            LocatedProblem::at(999, "end"),
        ];
        let problems = Problems::new("f.toml".into(), text, found);
        assert_eq!(problems.to_string(), "f.toml:1:1: first\nf.toml:2:7: second\nf.toml:3:1: end\n3 problems");
    }

    #[test]
    fn the_list_is_bounded() {
        let found = (0..250).map(|_| LocatedProblem::at(0, "x")).collect();
        let problems = Problems::new("f".into(), "", found);
        assert_eq!((problems.list.len(), problems.more), (SHOWN_MAX, 150));
        assert!(problems.to_string().ends_with("250 problems, the first 100 are shown"));
    }

    #[test]
    fn the_newest_version_is_meant_and_each_model_is_named_once() {
        let valid =
            ["gpt-6-sol", "gpt-6.2-astra", "us.anthropic.claude-sonnet-5", "claude-sonnet-5", "claude-sonnet-4-6"];
        assert_eq!(nearest_models("gpt-6", valid, 2), ["gpt-6.2-astra", "gpt-6-sol"]);
        assert_eq!(nearest_models("gpt6", valid, 2), ["gpt-6.2-astra", "gpt-6-sol"]);
        assert_eq!(nearest_models("sonnet", valid, 2), ["claude-sonnet-5", "claude-sonnet-4-6"]);
    }

    #[test]
    fn the_nearest_name() {
        let valid = ["policy", "hedge_after", "max_attempts", "audit", "timeouts"];
        for (typed, expected) in
            [("polcy", Some("policy")), ("Timeout", Some("timeouts")), ("hedge", Some("hedge_after")), ("tls", None)]
        {
            assert_eq!(nearest(typed, valid, 1).pop().as_deref(), expected, "{typed}");
        }
        assert_eq!(nearest("gpt4o", ["gpt-4o-mini", "demo"], 3), ["gpt-4o-mini"]);
        assert!(nearest(&"x".repeat(1_000_000), valid, 1).is_empty());
    }

    #[test]
    fn models_are_found_by_their_meaning() {
        let valid = [
            "gpt-5",
            "gpt-5.4",
            "gpt-5.4-mini",
            "gpt-oss-120b",
            "gpt-4o",
            "claude-opus-4-1",
            "claude-opus-5",
            "claude-sonnet-4-5",
            "claude-sonnet-5",
            "gemini-3.8-flash",
            "gemini-2.5-pro",
            "qwen3-32b",
            "qwen3.8-27b",
            "deepseek-v4-pro",
        ];
        for (typed, expected) in [
            ("claude-opus", &["claude-opus-5", "claude-opus-4-1"][..]),
            ("sonnet", &["claude-sonnet-5", "claude-sonnet-4-5"]),
            ("opus-5", &["claude-opus-5"]),
            ("gpt-6", &["gpt-5.4", "gpt-5.4-mini", "gpt-5"]),
            ("gpt-5.4", &["gpt-5.4", "gpt-5.4-mini"]),
            ("gpt5", &["gpt-5.4", "gpt-5.4-mini", "gpt-5"]),
            ("claude-opus-4.1", &["claude-opus-4-1"]),
            ("gemini3", &["gemini-3.8-flash"]),
            ("gemini", &["gemini-3.8-flash", "gemini-2.5-pro"]),
            ("qwen", &["qwen3.8-27b", "qwen3-32b"]),
            ("gpt-oss-120", &["gpt-oss-120b"]),
            ("gpt-oss-12b", &["gpt-oss-120b"]),
            ("claude-opus-4-9", &["claude-opus-4-1"]),
            ("GPT-5.4-mimi", &["gpt-5.4-mini"]),
            ("deepseak-v4-pro", &["deepseek-v4-pro"]),
            ("c/", &[]),
            ("llama", &[]),
            ("", &[]),
            ("123", &[]),
        ] {
            assert_eq!(nearest_models(typed, valid, 3)[..expected.len().min(3)], *expected, "{typed}");
            assert_eq!(nearest_models(typed, valid, 3).is_empty(), expected.is_empty(), "{typed}");
        }
    }
}

#[cfg(test)]
mod hints_tests {
    use super::*;

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
