//! Hostile schemas, patterns with look-around, and what cannot be checked.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn check(schema: &Value, value: &Value) -> SchemaVerdict {
    Schema::compile(&schema.to_string()).check(value, value.to_string().len())
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

/// As zod's `z.email()` has it.
const EMAIL: &str = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";

#[test]
fn what_cannot_be_checked_is_never_valid() {
    for schema in [
        json!({"type": "OBJECT"}),
        json!({"type": 7}),
        json!({"$ref": "https://schemas.invalid/x.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"properties": {"a": {"$ref": "other.json#/a"}}}),
        json!({"properties": {"a": {"$ref": "#name"}, "b": {"$id": "#name"}}}),
        json!({"patternProperties": {"(": true}}),
    ] {
        assert_eq!(check(&schema, &json!({"a": 1})), SchemaVerdict::Unknown, "{schema}");
    }
    assert_eq!(Schema::None.check(&json!({"a": 1}), 7), SchemaVerdict::Obeyed, "there is none");
}

#[test]
fn a_pattern_with_look_around_is_matched_and_one_that_is_none_leaves_the_rest_checked() {
    let schema = json!({"type": "object", "required": ["email"], "properties": {
        "email": {"type": "string", "pattern": EMAIL}, "n": {"type": "integer"}, "odd": {"type": "string", "pattern": "(("}}});
    for (value, expected) in [
        (json!({"email": "ann.lee+x@mail.example.org"}), SchemaVerdict::Obeyed),
        (json!({"email": "ann..lee@example.org"}), SchemaVerdict::Broken),
        (json!({"email": ".ann@example.org"}), SchemaVerdict::Broken),
        (json!({"email": 7}), SchemaVerdict::Broken),
        (json!({"email": "ann@example.org", "n": "1"}), SchemaVerdict::Broken),
        (json!({"email": "ann@example.org", "odd": 1}), SchemaVerdict::Broken),
        (json!({"email": "ann@example.org", "odd": "x"}), SchemaVerdict::Unknown),
    ] {
        assert_eq!(check(&schema, &value), expected, "{value}");
    }
    let name = json!({"properties": {"pattern": {"const": {"pattern": "(("}}}});
    assert_eq!(check(&name, &json!({"pattern": {"pattern": "(("}})), SchemaVerdict::Obeyed, "a value, no pattern");
    let denied = json!({"not": {"pattern": "(("}});
    assert_eq!(check(&denied, &json!("x")), SchemaVerdict::Unknown, "either way");
}

#[test]
fn a_pattern_that_goes_back_for_ever_is_not_decided() {
    let schema = json!({"items": {"pattern": "^(a|aa)+(?!a)b$"}}).to_string();
    let value = json!(vec!["a".repeat(60); 200]);
    assert_eq!(hostile("goes back", &schema, &value), SchemaVerdict::Unknown);
    let many = json!({"allOf": vec![json!({"pattern": "^(?=a)"}); 100]}).to_string();
    assert_eq!(hostile("many", &many, &json!("a".repeat(4_000))), SchemaVerdict::Unknown, "it could take too long");
}

#[test]
fn the_draft_is_7_unless_the_schema_says_another() {
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
    let of_ours = json!({"$schema": "https://schemas.invalid/of-ours", "type": "integer"});
    assert_eq!(check(&of_ours, &json!("1")), SchemaVerdict::Broken, "one that is not known is not looked for");
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
