//! Holds back the events of a tool call until all its arguments are there and something else follows: half a call is useless, and
//! what the client never saw can come from another upstream. Not for the text before and after.

use photofinish_dialects::DialectFormat as _;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

use photofinish_wire::conversation::{AnswerPiece, ReadPieces};
use photofinish_wire::dialect::{Dialect, Surface};

/// Bytes of calls that are held until they are whole. Longer ones are given out as they come, and not rescued.
const HELD_MAX: usize = 1 << 20;

/// What events of a dialect have that begin a call, by dialect. Made once: to make a searcher costs more than to search.
static MARKS: LazyLock<[Finder<'static>; Dialect::ALL.len()]> =
    LazyLock::new(|| Dialect::ALL.map(|dialect| Finder::new(dialect.call_mark())));

/// The held events of one answer.
pub struct HeldCalls {
    surface: Surface,
    reader: Box<dyn ReadPieces>,
    held: BytesMut,
}

impl HeldCalls {
    pub fn new(surface: Surface) -> HeldCalls {
        HeldCalls { surface, reader: surface.dialect().reader(), held: BytesMut::new() }
    }

    /// Takes whole events, and returns those that the client may have.
    pub fn take(&mut self, events: Bytes) -> Bytes {
        let may_begin = || MARKS[self.surface.dialect() as usize].find(&events).is_some();
        if self.held.is_empty() && !may_begin() {
            return events;
        }
        let (mut scanner, mut out) = (self.surface.framing().decoder(usize::MAX), BytesMut::new());
        scanner.push(events);
        while let Some(event) = scanner.next_event().ok().flatten().or_else(|| scanner.finish()) {
            let mut pieces = Vec::new();
            self.reader.read(&event, &mut pieces);
            // The reader keeps the beginning of a call back until it is sure of it.
            let is_open = self.reader.calls().are_open();
            let (mut calls, mut goes_on) = (is_open, false);
            for piece in pieces {
                match piece {
                    AnswerPiece::Call { .. } | AnswerPiece::CallEnd { .. } | AnswerPiece::Arguments { .. } => {
                        calls = true
                    }
                    AnswerPiece::Finish { .. } => goes_on = true,
                    AnswerPiece::Start { .. } | AnswerPiece::Usage(_) => {}
                    _ => goes_on |= !is_open,
                }
            }
            if goes_on || !calls && self.held.is_empty() {
                out.extend_from_slice(&self.held.split());
                out.extend_from_slice(&event.raw);
            } else {
                self.held.extend_from_slice(&event.raw);
            }
        }
        if self.held.len() > HELD_MAX {
            out.extend_from_slice(&self.held.split());
        }
        out.freeze()
    }

    /// What is still held: nothing more comes.
    pub fn release(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    /// Forgets what is held: the answer broke, and another upstream's follows.
    pub fn forget(&mut self) {
        *self = HeldCalls::new(self.surface);
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn chat(delta: &Value, finish: Option<&str>) -> Bytes {
        let chunk =
            json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        format!("data: {chunk}\n\n").into()
    }

    fn call(arguments: &str) -> Value {
        json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}]})
    }

    fn more(arguments: &str) -> Value {
        json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})
    }

    #[test]
    fn a_call_comes_when_it_is_whole_and_something_follows() {
        let mut held = HeldCalls::new(Surface::Chat);
        let text = chat(&json!({"content": "hm", "tool_calls": []}), None);
        assert_eq!(held.take(text.clone()), text, "no call");
        let [begins, ends] = [chat(&call("{\"x"), None), chat(&more("\":1}"), None)];
        assert!(held.take(begins.clone()).is_empty() && held.take(ends.clone()).is_empty());
        assert_eq!(held.bytes(), begins.len() + ends.len());
        let finish = chat(&json!({}), Some("tool_calls"));
        assert_eq!(held.take(finish.clone()), [begins, ends, finish].concat());
        assert_eq!(held.bytes(), 0);
        assert_eq!(held.take("data: [DONE]\n\n".into()), "data: [DONE]\n\n");
    }

    #[test]
    fn the_beginning_of_a_call_is_held_in_every_form() {
        let role = chat(&json!({"role": "assistant", "content": "", "refusal": null}), None);
        for begins in [
            call(""),
            json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{\"x"}}]}),
            json!({"function_call": {"name": "f", "arguments": "{\"x"}}),
            json!({"content": "hm", "tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]}),
        ] {
            let mut held = HeldCalls::new(Surface::Chat);
            let begins = chat(&begins, None);
            assert_eq!(held.take([role.clone(), begins.clone()].concat().into()), role, "{begins:?}");
            assert_eq!(held.bytes(), begins.len());
        }
    }

    #[test]
    fn what_broke_is_forgotten_and_what_has_no_finish_released() {
        let mut held = HeldCalls::new(Surface::Chat);
        assert!(held.take(chat(&call("{\"x"), None)).is_empty());
        held.forget();
        let whole = chat(&call("{}"), None);
        assert!(held.take(whole.clone()).is_empty());
        assert_eq!(held.release(), whole);
        assert!(held.release().is_empty());
    }

    #[test]
    fn long_calls_are_given_out() {
        let mut held = HeldCalls::new(Surface::Chat);
        let long = chat(&call(&format!("{{\"x\":\"{}", "y".repeat(HELD_MAX))), None);
        assert_eq!(held.take(long.clone()), long);
        assert_eq!(held.bytes(), 0);
    }
}
