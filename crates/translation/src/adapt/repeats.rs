//! Results of tools that occur twice in a request of Gemini's, as Gemini CLI sends them when it resumes a session. Google refuses more
//! results than calls. Not for translations: see `Conversation::add_result`.

use serde_json::Value;

use photofinish_wire::dialect::Surface;

const CALL: &str = "\"functionCall\"";
const RESULT: &str = "\"functionResponse\"";

/// Whether there may be more results than calls: a text may have the words too.
pub fn may_repeat_results(surface: Surface, body: &[u8]) -> bool {
    let count = |name: &str| memchr::memmem::find_iter(body, name.as_bytes()).count();
    surface == Surface::Gemini && count(RESULT) > count(CALL)
}

/// Leaves out each result that equals an earlier one of the same turn, its id with it. Returns whether it did.
pub fn fold_results(contents: &mut Value) -> bool {
    let mut changed = false;
    for content in contents.as_array_mut().into_iter().flatten() {
        let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { continue };
        let before = parts.len();
        let mut seen: Vec<Value> = Vec::new();
        parts.retain(|part| {
            let result = &part["functionResponse"];
            let is_repeated = result["id"].is_string() && seen.contains(result);
            if result["id"].is_string() && !is_repeated {
                seen.push(result.clone());
            }
            !is_repeated
        });
        changed |= parts.len() < before;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::super::rewritten;
    use super::*;
    use photofinish_wire::json::values::json;
    use photofinish_wire::quirks::{Quirks, RequestChanges};

    #[test]
    fn a_repeated_result_stands_once() {
        let call = |id: &str| json!({ "functionCall": { "id": id, "name": "f", "args": {} } });
        let result = |id: &str, said: &str| json!({ "functionResponse": { "id": id, "name": "f", "response": { "output": said } } });
        let nameless = json!({ "functionResponse": { "name": "f", "response": { "output": "1" } } });
        let body = |results: Vec<Value>| {
            json!({ "contents": [
            { "role": "model", "parts": [call("a"), call("b")] }, { "role": "user", "parts": results },
            { "role": "user", "parts": [{ "text": "on" }] } ], "generationConfig": { "topK": 1 } })
        };
        for (results, left) in [
            (
                vec![result("a", "1"), result("a", "1"), result("b", "1"), result("b", "1")],
                Some(vec![result("a", "1"), result("b", "1")]),
            ),
            (vec![result("a", "1"), result("b", "1")], None),
            // What differs is content, and what has no id may be another call's.
            (vec![result("a", "1"), result("b", "1"), result("a", "2")], None),
            (vec![nameless.clone(), nameless.clone(), nameless], None),
        ] {
            let text = body(results).to_string();
            let made = rewritten(Surface::Gemini, text.as_bytes(), &Quirks::default(), &RequestChanges::default());
            let made = made.map(|made| serde_json::from_str::<Value>(&made.text).unwrap());
            assert_eq!(made, left.map(body));
        }
    }
}
