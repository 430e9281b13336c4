//! The JSON Schema against the parser, the shipped file and the documents.

use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;

use super::problems::PROBLEMS;
use super::{SHIPPED, bad};
use crate::schema;

fn parsed() -> Value {
    serde_json::from_str(&schema()).unwrap()
}

/// Follows references. Draft 7 wraps one with a description in `allOf`.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match (schema["$ref"].as_str(), schema["allOf"].as_array()) {
        (Some(place), _) => resolve(root, root.pointer(place.trim_start_matches('#')).unwrap()),
        (None, Some(all)) => resolve(root, &all[0]),
        (None, None) => schema,
    }
}

/// What is wrong with a value: as much of JSON Schema as ours uses.
fn problem(root: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    let schema = resolve(root, schema);
    if let Some(choices) = schema["anyOf"].as_array() {
        let problems: Option<Vec<String>> = choices.iter().map(|choice| problem(root, choice, value, place)).collect();
        return problems.map(|problems| problems.join(" / "));
    }
    if let Some(constant) = schema.get("const") {
        return (constant != value).then(|| format!("{place} is not {constant}"));
    }
    let number = value.as_f64();
    let fits = match schema["type"].as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.as_array().is_some_and(|list| list.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0)),
        "boolean" => value.is_boolean(),
        "string" => value.as_str().is_some_and(|text| {
            schema["pattern"].as_str().is_none_or(|pattern| Regex::new(pattern).unwrap().is_match(text))
        }),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        other => panic!("{other} in {schema}"),
    };
    let in_bounds = schema["minimum"].as_f64().is_none_or(|least| number.is_none_or(|number| number >= least))
        && schema["maximum"].as_f64().is_none_or(|most| number.is_none_or(|number| number <= most));
    if !fits || !in_bounds {
        return Some(format!("{place} is not {schema}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Some(format!("{place} lacks {name}"));
        }
    }
    let items = value.as_array().into_iter().flatten();
    let items =
        items.enumerate().find_map(|(at, item)| problem(root, &schema["items"], item, &format!("{place}[{at}]")));
    let mut members = value.as_object().into_iter().flatten();
    items.or_else(|| {
        members.find_map(|(name, member)| {
            let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
            match known {
                Some(Value::Bool(true)) => None,
                Some(known) if known.is_object() => problem(root, known, member, &format!("{place}.{name}")),
                _ => Some(format!("{place} has {name}")),
            }
        })
    })
}

fn problem_of(text: &str) -> Option<String> {
    let schema = parsed();
    match toml::from_str::<Value>(text) {
        Ok(value) => problem(&schema, &schema, &value, "file"),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn the_published_schema_is_the_parsers() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.schema.json");
    if std::env::var_os("PHOTOFINISH_BLESS").is_some() {
        std::fs::write(file, schema()).unwrap();
    }
    let how = "PHOTOFINISH_BLESS=1 cargo test -p photofinish-config schema writes it";
    assert!(std::fs::read_to_string(file).unwrap_or_default() == schema(), "config.schema.json is out of date; {how}");
}

#[test]
fn the_shipped_config_and_the_examples_of_the_documents_fit() {
    assert!(SHIPPED.starts_with("#:schema ./config.schema.json\n"));
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(root.join("docs")).unwrap().map(|page| page.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    let pages = pages.iter().map(|page| std::fs::read_to_string(page).unwrap());
    let mut configs = vec![SHIPPED.to_owned()];
    for page in pages {
        let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
        configs.extend(blocks.map(|(block, _)| block.to_owned()));
    }
    assert!(configs.len() > 3, "the documents have lost their configs");
    for config in configs {
        assert_eq!(problem_of(&config), None, "{config}");
    }
}

/// Texts with a key `zzz` that no table knows, and the way to the schema of that table.
const TABLES: &[(&str, &[&str])] = &[
    ("zzz = 1", &[]),
    ("server.zzz = 1", &["server"]),
    ("server.tls = { cert = \"c\", key = \"k\", zzz = 1 }", &["server", "tls"]),
    ("store.zzz = 1", &["store"]),
    ("race.zzz = 1", &["race"]),
    ("race.slo.zzz = 1", &["race", "slo"]),
    ("race.drains.zzz = 1", &["race", "drains"]),
    ("race.breaker.zzz = 1", &["race", "breaker"]),
    ("race.timeouts.zzz = 1", &["race", "timeouts"]),
    ("providers.groq.zzz = 1", &["providers", "*"]),
    ("providers.bedrock.aws.zzz = 1", &["providers", "*", "aws"]),
    ("providers.groq.token.zzz = 1", &["providers", "*", "token"]),
    ("providers.groq.request.zzz = 1", &["providers", "*", "request"]),
    ("providers.groq.request_for.m.zzz = 1", &["providers", "*", "request_for", "*"]),
    ("providers.s.simulate.zzz = 1", &["providers", "*", "simulate"]),
    ("models.m.zzz = 1", &["models", "*"]),
    ("models.m.slo.zzz = 1", &["models", "*", "slo"]),
    ("models.m.upstreams = [{ zzz = 1 }]", &["models", "*", "upstreams", "[]"]),
    ("models.m.upstreams = [{ timeouts.zzz = 1 }]", &["models", "*", "upstreams", "[]", "timeouts"]),
    ("users.u.zzz = 1", &["users", "*"]),
    ("probes.zzz = 1", &["probes"]),
    ("workloads.w.zzz = 1", &["workloads", "*"]),
];

#[test]
fn the_schema_has_the_keys_that_the_parser_knows_and_no_others() {
    let schema = parsed();
    for (text, way) in TABLES {
        let known = bad(text).list.into_iter().find(|problem| problem.message.contains("unknown key \"zzz\""));
        let known = known.and_then(|problem| problem.expected).unwrap_or_else(|| panic!("{text}"));
        let table = way.iter().fold(&schema, |table, step| match *step {
            "*" => resolve(&schema, &resolve(&schema, table)["additionalProperties"]),
            "[]" => &resolve(&schema, table)["items"]["anyOf"][1],
            key => resolve(&schema, &resolve(&schema, table)["properties"][key]),
        });
        let keys: Vec<&str> = table["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known.trim_start_matches("one of "), keys.join(", "), "{text}");
        assert!(problem_of(text).is_some(), "{text}");
        for (key, property) in table["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|about| about.len() > 8), "{key}: {property}");
        }
    }
}

/// Bounds of durations, sizes and networks, which no pattern can check.
const ONLY_PARSED: [&str; 13] = [
    "server.trusted_proxies = [\"10.0.0.0/33\"]",
    "[store]\nretention = \"23h\"",
    "models.a.upstreams = [\"s/x\"]\nproviders.s.simulate = {}\n[probes]\nmax_cost = 1\nevery = \"4m\"",
    "race.hedge_after = \"366d\"",
    "race.slo.ttft = \"0s\"",
    "race.hold_max = \"5.1s\"",
    "race.keepalive = \"1.9s\"",
    "race.timeouts.idle = \"0s\"",
    "race.breaker.open = \"0s\"",
    "race.retry_wait = \"6m\"",
    "server.body_max = \"1KB\"",
    "providers.s.simulate.stall = \"20s every 2s\"",
    "providers.s.simulate.ttft = \"2h\"",
];

#[test]
fn the_schema_refuses_wrong_keys_types_and_values() {
    let mut accepted = Vec::new();
    for (text, start, also) in PROBLEMS {
        let no_table_decides = start.contains("unknown key \"") && !start.contains("provider")
            || start.contains("bad value")
            || also.starts_with("expected a");
        if no_table_decides && problem_of(text).is_none() {
            accepted.push(*text);
        }
    }
    assert_eq!(accepted, ONLY_PARSED);
}
