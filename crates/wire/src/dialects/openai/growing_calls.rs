//! The calls of a whole message from the fragments of its stream. Not for the question to which call a fragment belongs:
//! see [`ChoiceCalls`].

use serde_json::Value;

use super::reader::ChoiceCalls;
use crate::answer::growing::{GrownAnswer, ITEMS_MAX, MemberPlace, Rule, delta_rule, members, objects, with};
use crate::json::values::json;
use crate::translate::AnswerPiece;

/// The calls of one choice.
#[derive(Default)]
pub(super) struct GrowingCalls {
    calls: ChoiceCalls,
    pieces: Vec<AnswerPiece>,
    /// Calls in the order in which they became known.
    grown: Vec<GrownCall>,
    /// What else fragments have: a part for each call, by its place among all.
    unknown: GrownAnswer,
}

/// What the pieces say of a call.
#[derive(Default)]
struct GrownCall {
    id: String,
    name: String,
    custom: bool,
    arguments: String,
}

impl GrowingCalls {
    /// Adds a list of `tool_calls`. Returns whether it has any. None if it cannot be read, or there are too many.
    pub fn add(&mut self, raw: &str) -> Option<bool> {
        let fragments = objects(raw)?;
        for fragment in &fragments {
            self.calls.read(0, &format!("[{fragment}]"), &mut self.pieces).ok()?;
            self.take_pieces();
            let at = self.unknown.part(self.calls.last as u64, ITEMS_MAX)?;
            let mut others = members(fragment)?.into_iter().filter(|(_, raw)| !matches!(*raw, "null" | "\"\""));
            others.try_for_each(|(name, raw)| match &*name {
                "index" => Some(()),
                "function" | "custom" => self.unknown.grow_all(MemberPlace::Inside(at), raw, |name| match name {
                    "name" | "arguments" | "input" => Rule::Drop,
                    name => delta_rule(name),
                }),
                name => self.unknown.grow(MemberPlace::Part(at), name, raw, delta_rule(name)),
            })?;
        }
        Some(!fragments.is_empty())
    }

    /// The `tool_calls`. A call without a name is left out. None if it has arguments.
    pub fn finish(mut self) -> Option<Vec<Value>> {
        self.calls.close(0, None, &mut self.pieces);
        self.take_pieces();
        let mut whole = self.unknown.lay_out(|_, unknown| {
            let number = self.calls.number_of(unknown.index);
            let Some(call) = number.and_then(|number| self.grown.get_mut(number as usize)).map(std::mem::take) else {
                return Some(Value::Null);
            };
            let (kind, text) = if call.custom { ("custom", "input") } else { ("function", "arguments") };
            let function = with(json!({ "name": (call.name), text: (call.arguments) }), unknown.inside);
            let mut whole = with(json!({ "id": (call.id), "type": kind, kind: function }), unknown.members);
            if whole["id"] == "" {
                whole.as_object_mut()?.shift_remove("id");
            }
            Some(whole)
        })?;
        whole.retain(|call| !call.is_null());
        Some(whole).filter(|_| !self.calls.hold_arguments())
    }

    fn take_pieces(&mut self) {
        for piece in self.pieces.drain(..) {
            match piece {
                AnswerPiece::Call { id, name, custom, .. } => {
                    self.grown.push(GrownCall { id, name, custom, arguments: String::new() });
                }
                AnswerPiece::Arguments { call, text, .. } => {
                    let call = usize::try_from(call).ok().and_then(|call| self.grown.get_mut(call));
                    call.into_iter().for_each(|call| call.arguments.push_str(&text));
                }
                _ => {}
            }
        }
    }
}
