//! The official suite, hostile schemas, and what is no schema.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn check(schema: &Value, value: &Value) -> SchemaVerdict {
    Schema::compile(&schema.to_string()).check(value, value.to_string().len())
}

/// Draft 7 of the JSON Schema Test Suite (commit 44401e0, © 2012 Julian Berman, MIT licence): the 927 tests that are required, and the
/// 118 optional ones that are not of formats.
const SUITE: &str = include_str!("draft7.json");

/// Groups that are not checked, of 31 schemas with 67 tests: they refer to elsewhere, by `$id`, or by the name of an anchor.
const NOT_CHECKED: [(&str, &[&str]); 7] = [
    ("definitions", &["validate definition against metaschema"]),
    (
        "ref",
        &[
            "$ref prevents a sibling $id from changing the base uri",
            "remote ref, containing refs itself",
            "Recursive references between schemas",
            "Location-independent identifier",
            "Reference an anchor with a non-relative URI",
            "Location-independent identifier with base URI change in subschema",
            "refs with relative uris and defs",
            "relative refs with absolute uris and defs",
            "$id must be resolved against nearest parent, not just immediate parent",
            "simple URN base URI with $ref via the URN",
            "URN base URI with URN and JSON pointer ref",
            "URN base URI with URN and anchor ref",
            "ref to if",
            "ref to then",
            "ref to else",
            "ref with absolute-path-reference",
        ],
    ),
    (
        "refRemote",
        &[
            "remote ref",
            "fragment within remote ref",
            "ref within remote ref",
            "base URI change",
            "base URI change - change folder",
            "base URI change - change folder in subschema",
            "root ref in remote ref",
            "remote ref with ref to definitions",
            "Location-independent identifier in remote ref",
            "retrieved nested refs resolve relative to their URI not $id",
            "$ref to $ref finds location-independent $id",
        ],
    ),
    (
        "optional/content",
        &[
            "validation of string-encoded content based on media type",
            "validation of binary string-encoding",
            "validation of binary-encoded media type documents",
        ],
    ),
    ("optional/cross-draft", &["refs to future drafts are processed as future drafts"]),
    ("optional/id", &["id inside an enum is not a real identifier"]),
    ("optional/unknownKeyword", &["$id inside an unknown keyword is not a real identifier"]),
];

#[test]
fn the_official_suite_agrees() {
    let suite: Map<String, Value> = serde_json::from_str(SUITE).unwrap();
    let (mut checked, mut unchecked) = (0, Vec::new());
    for (file, groups) in &suite {
        for group in groups.as_array().unwrap() {
            let name = (file.as_str(), group["description"].as_str().unwrap());
            let schema = Schema::compile(&group["schema"].to_string());
            for test in group["tests"].as_array().unwrap() {
                let expected = if test["valid"] == true { SchemaVerdict::Obeyed } else { SchemaVerdict::Broken };
                let verdict = match &schema {
                    Schema::None => SchemaVerdict::Unknown,
                    schema => schema.check(&test["data"], test["data"].to_string().len()),
                };
                if verdict == SchemaVerdict::Unknown {
                    unchecked.push(name);
                    break;
                }
                assert_eq!(verdict, expected, "{name:?}: {}", test["description"]);
                checked += 1;
            }
        }
    }
    let expected: Vec<(&str, &str)> =
        NOT_CHECKED.iter().flat_map(|(file, groups)| groups.iter().map(|group| (*file, *group))).collect();
    assert_eq!((checked, unchecked), (968, expected));
}

/// The time of compiling and checking, in a test's build, is many times that of a release.
const HOSTILE_FOR: Duration = Duration::from_secs(60);

fn hostile(name: &str, schema: &str, value: &Value) -> SchemaVerdict {
    let began = Instant::now();
    let verdict = Schema::compile(schema).check(value, value.to_string().len());
    assert!(began.elapsed() < HOSTILE_FOR, "{name}: {:?}", began.elapsed());
    verdict
}

fn nested(depth: usize, open: &str, close: &str) -> String {
    format!("{}true{}", open.repeat(depth), close.repeat(depth))
}

/// References to each other, without any depth, of which the last one begins again a level below.
fn chain(length: usize) -> String {
    let mut links: Map<String, Value> =
        (0..length).map(|at| (format!("l{at}"), json!({"$ref": format!("#/l{}", at + 1)}))).collect();
    links.insert(format!("l{length}"), json!({"items": {"$ref": "#/l0"}}));
    links.insert("$ref".to_owned(), "#/l0".into());
    Value::Object(links).to_string()
}

#[test]
fn a_hostile_schema_is_not_checked_or_soon_done() {
    let long = Value::String("a".repeat(60_000) + "!");
    let tree = |depth: usize| (0..depth).fold(json!({"v": 1}), |inner, _| json!({"a": inner, "b": inner}));
    let unknown = [
        ("huge", format!("{{\"description\": \"{}\"}}", "x".repeat(1 << 20)), json!({})),
        ("deep", nested(60, "{\"not\":", "}"), json!({})),
        ("deeper than is read", nested(500, "{\"not\":", "}"), json!({})),
        ("a long chain", chain(3_000), json!([[1]])),
        ("round in a circle", r##"{"$ref": "#"}"##.to_owned(), json!({})),
        ("round in a circle of two", r##"{"allOf": [{"anyOf": [{"$ref": "#"}]}]}"##.to_owned(), json!({})),
        (
            "twice at each level",
            r##"{"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "required": ["z"]}"##.to_owned(),
            (0..30).fold(json!({}), |inner, _| json!({"a": inner})),
        ),
        ("what a value was looked at for", r#"{"unevaluatedProperties": false}"#.to_owned(), json!({})),
        ("as deep as no call is", "{\"items\": {}}".to_owned(), (0..40).fold(json!(1), |inner, _| json!([inner]))),
        (
            "ten thousand ways",
            json!({"items": {"anyOf": vec![json!({"type": "string"}); 3_000]}}).to_string(),
            json!(vec![1; 20_000]),
        ),
    ];
    for (name, schema, value) in unknown {
        let verdict = hostile(name, &schema, &value);
        assert!(verdict == SchemaVerdict::Unknown || name == "deep", "{name}: {verdict:?}");
    }
    for pattern in ["^(a+)+$", "^(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){20}", "^(\\w{1,300}){1,3}$"] {
        hostile(pattern, &json!({"pattern": pattern}).to_string(), &long);
    }
    hostile("a pattern too large", &json!({"pattern": "(\\p{L}{1000}){1000}"}).to_string(), &long);
    hostile("a number too large", r#"{"multipleOf": 1e-300}"#, &serde_json::from_str("1e300000000").unwrap());
    hostile("many unlike items", r#"{"uniqueItems": true}"#, &json!((0..9_000).collect::<Vec<i32>>()));
    hostile(
        "many patterns",
        &json!({"allOf": vec![json!({"pattern": "^(a+)+$"}); 100]}).to_string(),
        &json!("a".repeat(4_000) + "!"),
    );
    assert_eq!(
        hostile("tree", r##"{"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}"##, &tree(6)),
        SchemaVerdict::Obeyed
    );
}

#[test]
fn a_recursive_schema_is_checked() {
    let schema = json!({"type": "object", "required": ["v"], "properties": {
        "v": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#"}}}});
    let good = json!({"v": 1, "below": [{"v": 2, "below": []}, {"v": 3}]});
    let bad = json!({"v": 1, "below": [{"v": 2, "below": [{"v": "3"}]}]});
    assert_eq!((check(&schema, &good), check(&schema, &bad)), (SchemaVerdict::Obeyed, SchemaVerdict::Broken));
}

#[test]
fn a_pattern_where_only_a_reference_leads_breaks_no_right_answer() {
    let schema = json!({"$ref": "#/components/schemas/Order", "components": {"schemas": {"Order": {
        "properties": {"id": {"pattern": "^A"}}, "patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": false}}}});
    assert_eq!(check(&schema, &json!({"id": "A1", "n1": 2})), SchemaVerdict::Obeyed);
}

#[test]
fn what_is_no_schema_or_is_elsewhere_asks_for_nothing() {
    for schema in [
        json!({"type": "OBJECT"}),
        json!({"type": 7}),
        json!({"$ref": "https://schemas.invalid/x.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"properties": {"a": {"$ref": "other.json#/a"}}}),
        json!({"pattern": "(?=a)"}),
    ] {
        assert_eq!(check(&schema, &json!({"a": 1})), SchemaVerdict::Obeyed, "{schema}");
    }
    let draft_2020 =
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]});
    assert_eq!(check(&draft_2020, &json!([1])), SchemaVerdict::Broken);
    assert_eq!(
        check(&json!({"prefixItems": [{"type": "string"}]}), &json!([1])),
        SchemaVerdict::Obeyed,
        "draft 7 has none"
    );
    assert_eq!(check(&json!({"format": "date"}), &json!("tomorrow")), SchemaVerdict::Obeyed, "an annotation");
}

#[test]
fn what_other_drafts_say_otherwise() {
    let of = |draft: &str, mut schema: Value, value: Value| {
        schema["$schema"] = json!(format!("https://json-schema.org/{draft}/schema"));
        check(&schema, &value) == SchemaVerdict::Obeyed
    };
    let strict = json!({"minimum": 1, "exclusiveMinimum": true});
    assert!(!of("draft-04", strict.clone(), json!(1)) && of("draft-04", strict.clone(), json!(1.5)));
    assert!(of("draft-07", strict, json!(0)), "draft 7 has no such bound, so this is no schema");
    assert!(
        !of("draft-04", json!({"type": "integer"}), json!(1.0))
            && of("draft-06", json!({"type": "integer"}), json!(1.0))
    );
    let reference = json!({"$ref": "#/definitions/text", "maxLength": 1, "definitions": {"text": {"type": "string"}}});
    assert!(of("draft-07", reference.clone(), json!("ab")) && !of("draft/2019-09", reference, json!("ab")));
    let contains = json!({"contains": {"type": "string"}, "minContains": 2, "maxContains": 3});
    let items = |texts: usize| json!(vec!["a"; texts]);
    let fit = |draft| (0..5).map(|texts| of(draft, contains.clone(), items(texts))).collect::<Vec<bool>>();
    assert_eq!(fit("draft/2020-12"), [false, false, true, true, false]);
    assert_eq!(fit("draft-07"), [false, true, true, true, true]);
    let needs = json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": {"required": ["c"]}}});
    assert!(
        !of("draft/2020-12", needs.clone(), json!({"a": 1})) && !of("draft/2020-12", needs.clone(), json!({"b": 1}))
    );
    assert!(of("draft-07", needs, json!({"a": 1})));
    let rest = json!({"prefixItems": [{"type": "string"}], "items": {"type": "null"}});
    assert!(of("draft/2020-12", rest.clone(), json!(["a", null])) && !of("draft/2020-12", rest, json!(["a", 1])));
    assert!(of("draft/2019-09", json!({"items": [{"type": "string"}], "additionalItems": false}), json!(["a"])));
    assert!(!of("draft/2019-09", json!({"items": [{"type": "string"}], "additionalItems": false}), json!(["a", 1])));
}
