//! The whole answer of `/api/chat` or `/api/generate` from its lines, as the vendor gives it with `"stream": false`.

use serde_json::Value;

use photofinish_wire::answer::growing::{GrowingForm, GrownAnswer, MemberPlace, Rule, Whole, members, says};
use photofinish_wire::json::values::PutMember;

/// How the answer grows: a line has new members, and more of some.
pub struct OllamaWhole;

impl GrowingForm for OllamaWhole {
    fn add(&mut self, text: &str, _name: &[u8], answer: &mut GrownAnswer) -> Option<()> {
        members(text)?.into_iter().try_for_each(|(name, raw)| match &*name {
            "message" if raw.starts_with('{') => {
                // Its place.
                answer.grow(MemberPlace::Answer, &name, "null", Rule::First)?;
                let message = answer.part(0, 1)?;
                answer.grow_all(MemberPlace::Inside(message), raw, rule)
            }
            name => answer.grow(MemberPlace::Answer, name, raw, rule(name)),
        })
    }

    fn finish(&mut self, mut answer: GrownAnswer) -> Option<Whole> {
        let message = answer.lay_out(|_, line| Some(Value::Object(line.inside.into_map())))?.pop();
        let mut whole = Value::Object(answer.members.into_map());
        whole.put("message", message);
        // `/api/generate` has these members at the top level.
        let message = whole.get("message").unwrap_or(&whole);
        let has = |name: &str| message[name].as_array().is_some_and(|items| !items.is_empty());
        let has_said = says(&message["content"])
            || says(&message["response"])
            || has("tool_calls")
            || has("images")
            || message["image"].is_string();
        Some(Whole::new(&whole, !has_said))
    }
}

/// Texts and lists continue from line to line.
fn rule(name: &str) -> Rule {
    match name {
        "content" | "thinking" | "response" => Rule::Text,
        "tool_calls" => Rule::Items(|_, _| false),
        _ => Rule::Extend,
    }
}
