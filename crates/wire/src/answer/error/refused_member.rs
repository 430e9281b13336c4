//! Detects a 4xx body that says that a member of the request is not taken, and which one. Not for what is done then: see `quirks`.

use serde_json::Value;

/// A member that a vendor does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMember {
    pub name: String,
    /// Its value is not taken; others may be.
    pub by_value: bool,
}

/// Phrases with which vendors refuse a member, whatever its value; lower case.
const BY_NAME: [&str; 10] = [
    "unsupported parameter",
    "unsupported_parameter",
    "unknown parameter",
    "unknown field",
    "unknown name",
    "unrecognized request argument",
    "unexpected keyword",
    "extra inputs are not permitted",
    "extra_forbidden",
    "is deprecated for this model",
];

/// Phrases with which they refuse one value of it.
const BY_VALUE: [&str; 3] = ["unsupported value", "unsupported_value", "only the default"];

/// Where a refusal is about two members, it says nothing of one.
const TOGETHER: [&str; 4] = ["in combination", "together", "both ", "tools with"];

/// The member that a 4xx body refuses. None: it refuses none, or does not say which.
pub fn refused_member(body: &[u8]) -> Option<RefusedMember> {
    let said = Said::of(&serde_json::from_slice(body).ok()?);
    let text = [said.messages.join(" "), said.codes.join(" ")].join(" ").to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let (by_name, by_value) = (says(&BY_NAME), says(&BY_VALUE));
    if says(&TOGETHER) || !(by_name || by_value) {
        return None;
    }
    let name = said.name.or_else(|| said.messages.iter().find_map(|text| name_in(text)))?;
    Some(RefusedMember { name, by_value })
}

/// What an error says, and the member that it names in a place of its own.
#[derive(Default)]
struct Said {
    messages: Vec<String>,
    /// The kinds of the error.
    codes: Vec<String>,
    name: Option<String>,
}

impl Said {
    fn of(value: &Value) -> Said {
        let mut said = Said::default();
        said.read(value, 4);
        said
    }

    fn read(&mut self, value: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            // Of several errors the first.
            Value::Array(values) => values.iter().take(1).for_each(|value| self.read(value, depth)),
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("param", Value::String(param)) if is_name(param) => self.name = Some(param.clone()),
                        ("loc", Value::Array(place)) => {
                            if let [Value::String(body), Value::String(name)] = &place[..]
                                && body == "body"
                                && is_name(name)
                            {
                                self.name = Some(name.clone());
                            } else {
                                // It is within another member.
                                self.name = Some(String::new());
                            }
                        }
                        ("message" | "msg" | "detail", Value::String(text)) => self.messages.push(text.clone()),
                        ("code" | "type", Value::String(code)) => self.codes.push(code.clone()),
                        ("error" | "errors" | "detail" | "details", value) => self.read(value, depth),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// `top_k: Extra inputs are not permitted`, `…argument supplied: seed`, or the only name in quotes.
fn name_in(text: &str) -> Option<String> {
    let (first, last) = (text.split(':').next()?.trim(), text.rsplit(':').next()?.trim());
    let quoted: Vec<&str> = text.split(['`', '\'', '"']).skip(1).step_by(2).filter(|word| is_name(word)).collect();
    let found = match &quoted[..] {
        [only] => only,
        [_, ..] => return None,
        [] if is_name(first) => first,
        [] if is_name(last) => last,
        [] => return None,
    };
    Some(found.to_owned())
}

fn is_name(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_member_that_is_not_taken() {
        for (complaint, expected) in [
            (
                r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}"#,
                Some(("temperature", true)),
            ),
            (
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
                Some(("max_tokens", false)),
            ),
            (
                r#"{"error":{"message":"Unrecognized request argument supplied: seed","param":null}}"#,
                Some(("seed", false)),
            ),
            (
                r#"{"error":{"message":"Unknown parameter: 'verbosity'.","param":"verbosity"}}"#,
                Some(("verbosity", false)),
            ),
            (
                r#"{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"seed\""}}"#,
                Some(("seed", false)),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"top_k: Extra inputs are not permitted"}}"#,
                Some(("top_k", false)),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#,
                Some(("temperature", false)),
            ),
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","logit_bias"],"msg":"Extra inputs are not permitted","input":{"seed":1}}]}"#,
                Some(("logit_bias", false)),
            ),
            // Within another member, of two members, of a value that another one of its kind would be taken for, or of nothing.
            (
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","seed"],"msg":"Extra inputs"}]}"#,
                Some(("", false)),
            ),
            (
                r#"{"error":{"message":"Function tools with reasoning_effort are not supported for this model: unsupported_value"}}"#,
                None,
            ),
            (r#"{"error":{"message":"'temperature' must be 1: 'top_p' is an unknown parameter"}}"#, None),
            (r#"{"error":{"message":"'n' must be at most 8","param":"n"}}"#, None),
            (r#"{"error":{"message":"max_tokens: 200000 > 128000"}}"#, None),
            ("unsupported", None),
            ("", None),
        ] {
            let found = refused_member(complaint.as_bytes());
            let found = found.as_ref().map(|refused| (refused.name.as_str(), refused.by_value));
            assert_eq!(found, expected, "{complaint}");
        }
    }
}
