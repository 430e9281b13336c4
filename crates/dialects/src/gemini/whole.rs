//! The whole answer of `generateContent` from the events of a stream.

use serde_json::Value;

use photofinish_wire::answer::growing::{GrowingForm, GrownAnswer, MemberPlace, Rule, Whole, says, with};
use photofinish_wire::json::values::json;

/// How the answer grows.
pub struct GeminiWhole;

impl GrowingForm for GeminiWhole {
    fn add(&mut self, text: &str, _name: &[u8], answer: &mut GrownAnswer) -> Option<()> {
        answer.grow_listed(
            text,
            "candidates",
            |_| Rule::Last,
            |answer, at, name, raw| match name {
                "content" => answer.grow_all(MemberPlace::Inside(at), raw, |name| match name {
                    "parts" => Rule::Items(take_part),
                    _ => Rule::Drop,
                }),
                _ => answer.grow(MemberPlace::Part(at), name, raw, Rule::Last),
            },
        )
    }

    fn finish(&mut self, mut answer: GrownAnswer) -> Option<Whole> {
        let mut has_said = false;
        let candidates = answer.lay_out(|_, candidate| {
            let parts = candidate.inside.into_map().shift_remove("parts").filter(Value::is_array);
            let parts = parts.unwrap_or_else(|| json!([]));
            has_said |= parts.as_array().into_iter().flatten().any(part_says);
            // Some servers send no finish reason. The stream was accepted as complete.
            let content = json!({ "parts": parts, "role": "model" });
            let finished = json!({ "content": content, "finishReason": "STOP", "index": (candidate.index) });
            Some(with(finished, candidate.members))
        })?;
        Some(Whole::new(&with(json!({ "candidates": candidates }), answer.members), !has_said))
    }
}

/// A text continues the text before it if both are thoughts or both are not, and nothing is signed.
fn take_part(before: Option<&mut Value>, part: &Value) -> bool {
    let is_plain = |part: &Value| {
        let members = part.as_object();
        members.is_some_and(|members| members.keys().all(|name| ["text", "thought"].contains(&name.as_str())))
    };
    let Some(text) = part.get("text").and_then(Value::as_str).filter(|_| is_plain(part)) else { return false };
    let before = before.filter(|before| is_plain(before) && before.get("thought") == part.get("thought"));
    match before.and_then(|before| before.get_mut("text")) {
        Some(Value::String(before)) => before.push_str(text),
        _ => return text.is_empty(),
    }
    true
}

/// Text that is no thought, a call, media or code.
fn part_says(part: &Value) -> bool {
    let has_other = ["functionCall", "inlineData", "fileData", "executableCode", "codeExecutionResult"];
    part["thought"] != true && (says(&part["text"]) || has_other.iter().any(|name| part[*name].is_object()))
}
