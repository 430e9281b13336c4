//! The shortcut of the hot path: the chunks of one stream differ from each other in their text only, so a chunk that is like
//! the last one but for that needs not be read as JSON. What differs elsewhere is read whole.

use std::ops::Range;

use bytes::Bytes;

use super::{Chunk, Payload};
use crate::protocol::PayloadKind;
use crate::protocol::json::{characters, string_end};
use crate::protocol::sse::Event;

/// A chunk that was read, and where in it the text stands that may differ in others.
#[derive(Debug)]
pub struct Template {
    raw: Bytes,
    text: Range<usize>,
    /// OpenAI's padding, behind the text; empty at the end where there is none.
    padding: Option<Range<usize>>,
    kind: PayloadKind,
}

impl Template {
    /// Learns from a chunk that carries one plain string of text or reasoning, and nothing else that could differ.
    pub fn learn(event: &Event, chunk: &Chunk<'_>) -> Option<Template> {
        let other = chunk.finish_reason.is_some()
            || chunk.usage.is_some()
            || chunk.timings.is_some()
            || chunk.time_info.is_some();
        if other {
            return None;
        }
        let text = within(&event.raw, chunk.text?)?;
        let padding = match chunk.padding {
            None => None,
            Some(padding) => Some(within(&event.raw, padding).filter(|padding| padding.start > text.end)?),
        };
        // A copy: a slice would keep the whole read alive that the event came in.
        Some(Template { raw: Bytes::copy_from_slice(&event.raw), text, padding, kind: chunk.payload?.kind })
    }

    /// The payload of an event that differs from the template in its text and padding only.
    pub fn payload_of(&self, event: &Event) -> Option<Payload> {
        let raw = &event.raw[..];
        let (head, after) = (&self.raw[..self.text.start], &self.raw[self.text.end..]);
        let end = if raw.starts_with(head) { string_end(raw, head.len())? } else { return None };
        let text = std::str::from_utf8(&raw[head.len()..end]).ok().filter(|text| !text.is_empty())?;
        let rest = &raw[end..];
        let same = match &self.padding {
            None => rest == after,
            Some(padding) => {
                let (between, tail) = (&self.raw[self.text.end..padding.start], &self.raw[padding.end..]);
                rest.starts_with(between) && string_end(rest, between.len()).is_some_and(|end| &rest[end..] == tail)
            }
        };
        same.then(|| Payload { kind: self.kind, chars: characters(text) })
    }
}

/// Where `part` stands in `whole`, which it was borrowed from. None if it was not.
fn within(whole: &Bytes, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let range = start..start + part.len();
    (whole.get(range.clone()) == Some(part.as_bytes())).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::super::{Frame, read};
    use super::*;

    fn event(json: &str) -> Event {
        Event { raw: Bytes::from(format!("data: {json}\n\n")) }
    }

    fn learn(json: &str) -> Option<Template> {
        let event = event(json);
        match read(&event) {
            Frame::Chunk(chunk) => Template::learn(&event, &chunk),
            _ => None,
        }
    }

    const OPENAI: &str = r#"{"id":"c","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}],"usage":null,"obfuscation":"q1"}"#;

    #[test]
    fn a_chunk_that_differs_in_its_text_needs_no_reading() {
        let template = learn(OPENAI).unwrap();
        let payload = |json: &str| template.payload_of(&event(json)).map(|payload| payload.chars);
        assert_eq!(payload(OPENAI), Some(3));
        assert_eq!(payload(&OPENAI.replace("one", "caf\\u00e9 \\\"").replace("q1", "")), Some(6));
        let others = [
            OPENAI.replace("\"c\"", "\"d\""),
            OPENAI.replace("one", ""),
            OPENAI.replace("one", "a\\q"),
            OPENAI.replace("one\"", "one\",\"refusal\":\"x\""),
            OPENAI.replace("null}", "\"stop\"}"),
            OPENAI.replace("q1\"}", "q1\",\"error\":{\"message\":\"x\"}}"),
            OPENAI.replace("\"index\":0", "\"index\":1"),
            OPENAI[..OPENAI.len() - 2].to_owned(),
        ];
        for other in others {
            assert_eq!(payload(&other), None, "{other}");
        }
    }

    #[test]
    fn only_one_plain_string_is_learnt() {
        assert!(learn(r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#).is_some());
        assert!(learn(r#"{"choices":[{"delta":{"content":"","reasoning":"a"}}]}"#).is_some());
        for json in [
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"a","reasoning":"b"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"a","reasoning":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a","refusal":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"a"}}]}}]}"#,
            r#"{"obfuscation":"x","choices":[{"delta":{"content":"a"}}]}"#,
        ] {
            assert!(learn(json).is_none(), "{json}");
        }
    }

    proptest::proptest! {
        /// Whatever the template accepts is what reading it whole says.
        #[test]
        fn agrees_with_reading_it_whole(first in "\\PC{1,20}", second in "\\PC{0,20}", padding in "[a-z]{0,5}", reasoning: bool, cut in 0usize..400) {
            let member = if reasoning { "reasoning" } else { "content" };
            let chunk = |text: &str, padding: &str| serde_json::json!({
                "id": "c", "choices": [{ "index": 0, "delta": { member: text }, "finish_reason": null }], "obfuscation": padding,
            }).to_string();
            let template = learn(&chunk(&first, "abc")).unwrap();
            let mut json = chunk(&second, &padding);
            if cut < json.len() {
                json.remove(json.floor_char_boundary(cut));
            }
            let event = event(&json);
            if let Some(payload) = template.payload_of(&event) {
                let Frame::Chunk(whole) = read(&event) else { panic!("no chunk") };
                proptest::prop_assert_eq!(Some(payload), whole.payload);
                proptest::prop_assert!(whole.finish_reason.is_none() && whole.usage.is_none());
            }
        }
    }
}
