//! The call that a simulated provider makes of an offered tool: valid, or broken in one of three ways. Not for its pace.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Nesting of the arguments.
const DEPTH_MAX: u8 = 8;
/// Bytes of a piece of the arguments: a token.
const PIECE: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimulatedCall {
    pub(super) name: String,
    /// JSON, if it is not broken.
    pub(super) arguments: String,
}

impl SimulatedCall {
    /// Of the first function in `tools`, a JSON text. None: there is none.
    pub(super) fn of(tools: &str) -> Option<SimulatedCall> {
        let tools: Value = serde_json::from_str(tools).ok()?;
        let tool = tools.as_array()?.iter().find(|tool| tool["type"] == "function")?;
        let arguments = sample(&tool["function"]["parameters"], DEPTH_MAX);
        let arguments = if arguments.is_object() { arguments } else { json!({}) };
        Some(SimulatedCall { name: tool["function"]["name"].as_str()?.to_owned(), arguments: arguments.to_string() })
    }

    /// The same call, broken: no JSON, an unknown name, or arguments that are no object.
    pub(super) fn broken(self, rng: &mut Rng) -> SimulatedCall {
        match rng.u8(..3) {
            0 => SimulatedCall { arguments: self.arguments[..self.arguments.len() - 1].to_owned(), ..self },
            1 => SimulatedCall { name: format!("{}_", self.name), ..self },
            _ => SimulatedCall { arguments: "[]".to_owned(), ..self },
        }
    }

    /// The arguments, a piece for each token.
    pub(super) fn pieces(&self) -> Vec<String> {
        let characters: Vec<char> = self.arguments.chars().collect();
        characters.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
    }
}

/// A value that most schemas accept: their first choice, and of an object what it must have.
fn sample(schema: &Value, depth: u8) -> Value {
    let first = |list: &Value| list.as_array().and_then(|list| list.first()).cloned();
    if let Some(value) = schema.get("const").cloned().or_else(|| first(&schema["enum"])) {
        return value;
    }
    let kind =
        schema["type"].as_str().map(str::to_owned).or_else(|| first(&schema["type"])?.as_str().map(str::to_owned));
    match kind.as_deref() {
        Some("string") => json!("text"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") if depth > 0 => json!([sample(&schema["items"], depth - 1)]),
        Some("object") if depth > 0 => {
            let needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let member = |name: &str| (name.to_owned(), sample(&schema["properties"][name], depth - 1));
            Value::Object(needed.map(member).collect::<Map<String, Value>>())
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_follows_the_schema_of_the_first_tool_or_is_broken() {
        let schema = json!({"type": "object", "required": ["city", "unit", "days"], "properties": {
            "city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "array", "items": {"type": "integer"}},
            "note": {"type": "string"}}});
        let tools = json!([{"type": "web_search"}, {"type": "function", "function": {"name": "weather", "parameters": schema}}]);
        let call = SimulatedCall::of(&tools.to_string()).unwrap();
        let (name, arguments) = ("weather", json!({"city": "text", "unit": "c", "days": [1]}).to_string());
        assert_eq!(
            (call.name.as_str(), &call.arguments, call.pieces().concat()),
            (name, &arguments, arguments.clone())
        );
        let mut rng = Rng::with_seed(1);
        let broken: Vec<SimulatedCall> = (0..20).map(|_| call.clone().broken(&mut rng)).collect();
        assert!(broken.iter().all(|broken| *broken != call));
        assert!(
            broken.iter().any(|broken| broken.name != name) && broken.iter().any(|broken| broken.arguments == "[]")
        );
        for none in ["", "[]", "{}", "[{\"type\":\"web_search\"}]", "[{\"type\":\"function\"}]"] {
            assert_eq!(SimulatedCall::of(none), None, "{none}");
        }
    }
}
