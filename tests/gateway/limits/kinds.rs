//! Every kind of limit that the configuration declares, each with a value that its schema allows: a new one is covered without a line here.

use photofinish_config::{limits_of, schema};
use serde_json::Map;

use super::*;

/// A value that the schema allows and that is no default.
fn sample(of: &Value, whole: &Value) -> Value {
    if let Some(place) = of["$ref"].as_str().or(of["allOf"][0]["$ref"].as_str()) {
        return sample(whole.pointer(place.trim_start_matches('#')).unwrap(), whole);
    }
    if let Some(forms) = of["anyOf"].as_array() {
        let form = forms.iter().find(|form| form.get("const").is_none_or(|name| *name != of["default"]));
        return sample(form.unwrap(), whole);
    }
    match of["type"].as_str() {
        None => of["const"].clone(),
        Some("boolean") => json!(of["default"] != true),
        Some("integer" | "number") => of["minimum"].clone(),
        Some("string") => json!("m"),
        Some("array") => json!([sample(&of["items"], whole)]),
        Some("object") => match of["properties"].as_object().and_then(|keys| keys.iter().next()) {
            Some((key, of)) => json!({ key: sample(of, whole) }),
            None => json!({ "m": sample(&of["additionalProperties"], whole) }),
        },
        Some(other) => panic!("no sample of a {other}"),
    }
}

#[tokio::test]
async fn each_declared_kind_is_enforced_or_shapes_a_budget_and_is_shown() {
    let whole: Value = serde_json::from_str(&schema()).unwrap();
    let kinds = whole["definitions"]["Limits"]["properties"].as_object().unwrap();
    assert!(kinds.len() > 8, "{kinds:?}");
    for (kind, of) in kinds {
        let value = sample(of, &whole);
        let set = limits_of(&Map::from_iter([(kind.clone(), value.clone())]), &[], "limits").unwrap();
        let settings = set.settings();
        assert_eq!(settings.keys().collect::<Vec<_>>(), [kind], "what is set is written as in the file");
        assert_eq!(limits_of(&settings, &[], "limits").unwrap(), set, "{settings:?}");
        let fake = FakeProvider::start(vec![]).await;
        let ann = format!("{ANN}{kind} = {}\n", value.to_string().replace(':', "="));
        let gateway = priced(&[&fake], &ann).start().await;
        let warnings = &gateway.gateway().live().config.warnings;
        let only_shapes = warnings.iter().any(|warning| warning.contains("have no effect without a budget"));
        assert_eq!(set.is_empty(), only_shapes, "{kind}: {warnings:?}");
        let me = get(&gateway, "ann", "/api/me").await.json();
        let levels = me["limits"].as_array().unwrap();
        if only_shapes {
            assert!(levels.is_empty(), "{kind}: {me}");
        } else {
            assert_eq!(levels[0]["set"], json!(settings), "{kind}: {me}");
            let uses = levels.iter().filter(|level| level["uses"] != json!([])).count();
            let is_used_up = set.has_rates() || set.has_budget();
            assert_eq!(uses, usize::from(is_used_up), "{kind}: {me}");
        }
        gateway.stop().await;
    }
}
