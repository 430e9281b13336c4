//! The calls of a whole message from the fragments of its stream. Not for the question to which call a fragment belongs:
//! see [`AnswerCalls`].

use serde_json::Value;

use super::reader::read_calls;
use photofinish_wire::answer::growing::{
    GrownAnswer, ITEMS_MAX, MemberPlace, Rule, delta_rule, members, objects, with,
};
use photofinish_wire::conversation::outgoing::new_call_id;
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, FinishReason};
use photofinish_wire::json::values::json;

/// The calls of one choice.
#[derive(Default)]
pub(super) struct GrowingCalls {
    calls: AnswerCalls,
    pieces: Vec<AnswerPiece>,
    /// Calls in the order in which they began.
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
        let fragments = if raw.starts_with('{') { vec![raw] } else { objects(raw)? };
        for fragment in &fragments {
            read_calls(0, &format!("[{fragment}]"), &mut self.calls, &mut self.pieces).ok()?;
            self.take_pieces();
            // A fragment without content belongs to none.
            let Some(at) = self.calls.last() else { continue };
            let at = self.unknown.part(at as u64, ITEMS_MAX)?;
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

    /// The `tool_calls`. None if they cannot be separated. Whether their arguments are whole is not checked.
    pub fn finish(mut self) -> Option<Vec<Value>> {
        self.calls.finish(0, &FinishReason::Length, &mut self.pieces);
        self.take_pieces();
        if self.calls.is_broken() {
            return None;
        }
        self.unknown.lay_out(|_, unknown| {
            let call = usize::try_from(unknown.index).ok().and_then(|at| self.grown.get_mut(at)).map(std::mem::take)?;
            let id = if call.id.is_empty() { new_call_id() } else { call.id };
            let (kind, text) = if call.custom { ("custom", "input") } else { ("function", "arguments") };
            // Clients parse the arguments.
            let arguments = if call.arguments.is_empty() && !call.custom { "{}".to_owned() } else { call.arguments };
            let function = with(json!({ "name": (call.name), text: arguments }), unknown.inside);
            Some(with(json!({ "id": id, "type": kind, kind: function }), unknown.members))
        })
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
