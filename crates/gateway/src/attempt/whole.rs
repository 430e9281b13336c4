//! Whole answers for clients that do not stream, assembled from an upstream's stream. Not for streamed answers: see `relay`.

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::item::{ItemKind, StreamItem};
use super::no_answer::ReadyAttempt;
use photofinish_base::failure::{Failure, FailureKind};
use photofinish_base::memory::Lease;
use photofinish_base::pace::aside;
use photofinish_wire::answer::growing::{GrowingAnswer, Whole};
use photofinish_wire::json::unescape;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::template::Template;
use photofinish_wire::{SseEvent, Surface};

/// Bytes of a stream that is assembled.
const ANSWER_MAX: usize = 64 << 20;

/// Assembles a whole answer.
pub struct Assembler {
    parts: AnswerParts,
    /// The answer is there as it came: only its end is awaited.
    is_there: bool,
    /// Bytes so far.
    size: usize,
    /// Memory for the parts and for the whole.
    lease: Lease,
}

impl Assembler {
    /// Begins with the prelude, which it takes. `lease` grows with the answer.
    pub fn new(ready: &mut ReadyAttempt, lease: Lease) -> Assembler {
        let mut parts = AnswerParts::new(ready.stream.surface(), ready.stream.is_translated());
        parts.lenient = ready.stream.is_lenient();
        let prelude = std::mem::take(&mut ready.prelude);
        let size = prelude.len();
        let is_there = ready.stream.is_plain_and_says();
        if !is_there {
            // It ends with the first payload.
            parts.add(prelude, true);
        }
        Assembler { parts, is_there, size, lease }
    }

    /// Continues to read, and returns the answer as JSON at its end. The stream has then won. Do not poll again.
    ///
    /// # Errors
    /// The stream breaks or has no content. Nothing was delivered, so the race continues.
    pub fn poll(&mut self, ready: &mut ReadyAttempt, context: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        let stream = &mut ready.stream;
        let mut has_ended = false;
        while let Some(item) = ready!(stream.poll_served(context)) {
            let item = item?;
            self.size += item.size;
            stream.worked(&item);
            if self.size > ANSWER_MAX {
                let message = format!("an answer of more than {ANSWER_MAX} bytes");
                return Poll::Ready(Err(stream.fail(FailureKind::Endless, message)));
            }
            if self.lease.cover(2 * self.size).is_err() {
                let message = "the memory for bodies and buffers is in use";
                return Poll::Ready(Err(stream.fail(FailureKind::GatewayLimit, message)));
            }
            has_ended = matches!(item.kind, ItemKind::Done);
            match item.kind {
                ItemKind::Error { facts, .. } => return Poll::Ready(Err(stream.fail_with(facts))),
                _ if self.is_there => {}
                _ => {
                    self.parts.lenient = stream.is_lenient();
                    self.parts.add_item(item);
                }
            }
            if has_ended {
                break;
            }
        }
        if !self.parts.taken {
            let message = "an event cannot be put together with the others";
            return Poll::Ready(Err(stream.fail(FailureKind::Malformed, message)));
        }
        if !stream.is_complete() {
            return Poll::Ready(Err(stream.ended_too_early()));
        }
        if self.is_there
            && let Some(body) = stream.plain_answer()
        {
            stream.won();
            return Poll::Ready(Ok(body));
        }
        if !has_ended {
            self.parts.add(stream.ending(), false);
        }
        Poll::Ready(match aside(self.size, || self.parts.answer.finish()) {
            None => {
                stream.note_broken_call();
                Err(stream.fail(FailureKind::Malformed, "the arguments of a tool call cannot be read"))
            }
            Some(Whole { body, says_nothing }) => {
                // As it came, with every member.
                let body = stream.plain_answer().unwrap_or(body);
                if !stream.agrees_with(&body) {
                    stream.note_broken_call();
                    let message = "the calls of the whole answer are not those of its events";
                    return Poll::Ready(Err(stream.fail(FailureKind::Malformed, message)));
                }
                if says_nothing {
                    return Poll::Ready(Err(ready.nothing_said(body)));
                }
                stream.won();
                Ok(body)
            }
        })
    }
}

/// The parts of an answer so far.
struct AnswerParts {
    surface: Surface,
    answer: GrowingAnswer,
    /// The last payload that a translation wrote. An untranslated stream has its own template.
    written: Option<Template>,
    is_translated: bool,
    /// The last part was a payload: the next event may differ from it in its text alone.
    after_payload: bool,
    /// False once an event did not fit the others.
    taken: bool,
    /// Some events may have to be read leniently.
    lenient: bool,
}

impl AnswerParts {
    fn new(surface: Surface, is_translated: bool) -> AnswerParts {
        let answer = surface.growing();
        AnswerParts { surface, answer, written: None, is_translated, after_payload: false, taken: true, lenient: false }
    }

    fn add_item(&mut self, item: StreamItem) {
        let more = match item.kind {
            ItemKind::Payload if self.is_translated => self.more_written(&item.raw),
            _ => item.more,
        };
        let text = more.filter(|_| self.after_payload).and_then(|at| item.raw.get(at));
        if text.is_some_and(|text| self.add_text(text)) {
            return;
        }
        match item.kind {
            // They are left out.
            ItemKind::LeftOut | ItemKind::Heartbeat | ItemKind::Error { .. } => {}
            ItemKind::Payload => self.add(item.raw, true),
            ItemKind::Other | ItemKind::UsageOnly | ItemKind::Done => self.add(item.raw, false),
        }
    }

    /// The place of the text in an event of a translation that differs in it alone from the payload before it.
    fn more_written(&mut self, raw: &Bytes) -> Option<Range<usize>> {
        let event = SseEvent { raw: raw.clone() };
        if let Some(more) = self.written.as_ref().and_then(|template| template.fits(&event)) {
            return Some(more.at);
        }
        self.written = match self.surface.dialect().read(self.surface, &event) {
            Frame::Chunk(chunk) => Template::learn(&event, &chunk),
            _ => None,
        };
        None
    }

    /// Adds the text of an event that differs from the last one in it alone. False if the event must be added instead.
    fn add_text(&mut self, quoted: &[u8]) -> bool {
        let text = std::str::from_utf8(quoted).ok().and_then(unescape);
        text.is_some_and(|text| self.answer.add_text(&text))
    }

    fn add(&mut self, events: Bytes, with_payload: bool) {
        self.after_payload = with_payload;
        // It builds a tree, which takes longer than reading in place.
        self.taken &= aside(events.len().saturating_mul(4), || {
            let mut scanner = self.surface.framing().decoder(usize::MAX);
            scanner.push(events);
            let mut taken = true;
            while let Some(event) = scanner.next_event().ok().flatten().or_else(|| scanner.finish()) {
                taken &= self.add_event(event);
            }
            taken
        });
    }

    fn add_event(&mut self, event: SseEvent) -> bool {
        let mended = if self.lenient { self.surface.mended(&event) } else { None };
        self.answer.add(&mended.unwrap_or(event))
    }
}

/// The JSON answer of an empty stream.
pub fn assemble_events(surface: Surface, events: Bytes) -> Bytes {
    let mut parts = AnswerParts::new(surface, false);
    parts.add(events, false);
    parts.answer.finish().map(|whole| whole.body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The items of a stream, as [`super::super::EventStream`] makes them.
    fn items(surface: Surface, events: &[String]) -> Vec<StreamItem> {
        let mut template: Option<Template> = None;
        let item = |event: &String| {
            let event = SseEvent { raw: Bytes::from(event.clone()) };
            let size = event.raw.len();
            if let Some(more) = template.as_ref().and_then(|template| template.fits(&event)) {
                return StreamItem { raw: event.raw, kind: ItemKind::Payload, size, more: Some(more.at) };
            }
            let kind = match surface.dialect().read(surface, &event) {
                Frame::Chunk(chunk) if chunk.payload.is_some() => {
                    template = Template::learn(&event, &chunk);
                    ItemKind::Payload
                }
                Frame::KeepAlive => ItemKind::Heartbeat,
                Frame::Done(_) => ItemKind::Done,
                Frame::Malformed => ItemKind::LeftOut,
                _ => ItemKind::Other,
            };
            StreamItem::new(event.raw, kind, size)
        };
        events.iter().map(item).collect()
    }

    /// The answer. None if an event could not be read.
    fn whole(mut parts: AnswerParts, items: impl IntoIterator<Item = StreamItem>) -> Option<Whole> {
        items.into_iter().for_each(|item| parts.add_item(item));
        parts.answer.finish().filter(|_| parts.taken)
    }

    /// Writes an event of this kind, with a text and a part that varies too.
    type WriteEvent = fn(usize, &str, &str) -> String;

    fn sse(data: &str) -> String {
        format!("data: {data}\n\n")
    }

    fn chat(id: u8, choices: &str, padding: &str) -> String {
        sse(&format!(
            r#"{{"id":"c{id}","x":[{id}, 1.50],"choices":[{choices}],"usage":null,"obfuscation":"{padding}"}}"#
        ))
    }

    fn chat_event(kind: usize, text: &str, padding: &str) -> String {
        let delta = |delta: &str, rest: &str| chat(0, &format!(r#"{{"index":0,"delta":{{{delta}}}{rest}}}"#), padding);
        match kind {
            0..4 => delta(&format!(r#""content":"{text}""#), r#","logprobs":null,"finish_reason":null"#),
            4 => delta(&format!(r#""role":"assistant","content":"","reasoning":"{text}","calls":[],"n":1"#), ""),
            5 => delta(&format!(r#""content":"{text}","odd":"o""#), ""),
            6 => delta(&format!(r#""content":"{text}","odd":[1]"#), ""),
            7 => delta(&format!(r#""content":"{text}""#), r#","logprobs":{"content":[{"token":"t"}]}"#),
            8 => delta(&format!(r#""content":[{{"type":"text","text":"{text}"}}]"#), ""),
            9 => delta(
                &format!(r#""tool_calls":[{{"index":0,"id":"t","function":{{"name":"f","arguments":"{text}"}}}}]"#),
                "",
            ),
            10 => delta(r#""odd":"o""#, ""),
            11 => delta("", r#","finish_reason":"stop","filter":{"a":"b"}"#),
            12 => chat(1, &format!(r#"{{"index":1,"delta":{{"content":"{text}"}}}}"#), padding),
            13 => {
                chat(0, &format!(r#"{{"index":1,"delta":{{}}}},{{"index":0,"delta":{{"content":"{text}"}}}}"#), padding)
            }
            14 => chat(0, "", padding),
            15 => chat(0, &format!(r#"{{"index":0,"text":"{text}"}}"#), padding),
            _ => ": ping\n\n".to_owned(),
        }
    }

    fn message_event(kind: usize, text: &str, block: &str) -> String {
        let delta =
            |delta: &str| sse(&format!(r#"{{"type":"content_block_delta","index":{block},"delta":{{{delta}}}}}"#));
        match kind {
            0..4 => delta(&format!(r#""type":"text_delta","text":"{text}""#)),
            4 => delta(&format!(r#""type":"thinking_delta","thinking":"{text}","n":1,"no":null"#)),
            5 => delta(&format!(r#""type":"text_delta","text":"{text}","odd":"o""#)),
            6 => delta(r#""type":"signature_delta","signature":"s""#),
            7 => delta(&format!(r#""type":"input_json_delta","partial_json":"{text}""#)),
            8 => delta(r#""type":"citations_delta","citation":{"a":1}"#),
            9 => sse(&format!(r#"{{"type":"content_block_stop","index":{block}}}"#)),
            10 => sse(r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":1}}"#),
            11 => sse(r#"{"type":"message_start","message":{"id":"m","model":"c"}}"#),
            12 => sse(r#"{"type":"ping"}"#),
            _ => sse(&format!(
                r#"{{"type":"content_block_start","index":{block},"content_block":{{"type":"text","text":"{text}"}}}}"#
            )),
        }
    }

    fn response_event(kind: usize, text: &str, number: &str) -> String {
        match kind {
            0..6 => sse(&format!(
                r#"{{"type":"response.output_text.delta","sequence_number":{number},"delta":"{text}","obfuscation":"x"}}"#
            )),
            6..9 => sse(&format!(r#"{{"type":"response.audio.delta","delta":"{text}"}}"#)),
            9..11 => sse(&format!(
                r#"{{"type":"response.output_item.done","output_index":{number},"item":{{"type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}}}"#
            )),
            _ => sse(&format!(r#"{{"type":"response.created","response":{{"id":"r{number}","output":[]}}}}"#)),
        }
    }

    /// Events as kind, text and the part that varies too.
    fn events(kinds: usize) -> impl Strategy<Value = Vec<(usize, String, String)>> {
        let text = prop::collection::vec(
            prop::sample::select(vec!["a", " b", "é", "\\n", "\\u00e9", "\\ud83d\\ude00", "{", "}", "\\\"", ""]),
            0..4,
        );
        let text = prop_oneof![9 => text.prop_map(|words| words.concat()), 1 => "(\\\\ud83d|\\\\ude00|a){1,2}"];
        let run = (0..kinds, prop::collection::vec((text, "[0-2]"), 1..5))
            .prop_map(|(kind, run)| run.into_iter().map(|(text, more)| (kind, text, more)).collect::<Vec<_>>());
        prop::collection::vec(run, 1..8).prop_map(|runs| runs.concat())
    }

    fn agrees(surface: Surface, event: WriteEvent, events: &[(usize, String, String)]) -> Result<(), TestCaseError> {
        let events: Vec<String> = events.iter().map(|(kind, text, more)| event(*kind, text, more)).collect();
        let parts = |is_translated| AnswerParts::new(surface, is_translated);
        let each = || items(surface, &events).into_iter().map(|item| StreamItem { more: None, ..item });
        let expected = whole(parts(false), each());
        prop_assert_eq!(whole(parts(false), items(surface, &events)), expected.clone());
        prop_assert_eq!(whole(parts(true), each()), expected);
        Ok(())
    }

    proptest! {
        /// The answer is that of adding every event.
        #[test]
        fn chat_is_the_same_by_its_texts(events in events(17)) {
            agrees(Surface::Chat, chat_event, &events)?;
        }

        #[test]
        fn messages_are_the_same_by_their_texts(events in events(15)) {
            agrees(Surface::Messages, message_event, &events)?;
        }

        #[test]
        fn responses_are_the_same_by_their_texts(events in events(12)) {
            agrees(Surface::Responses, response_event, &events)?;
        }
    }

    #[test]
    fn an_event_that_differs_in_its_text_alone_is_not_read_again() {
        let ways: [(Surface, WriteEvent, &[usize]); 3] = [
            (Surface::Chat, chat_event, &[0, 4, 11]),
            (Surface::Messages, message_event, &[11, 14, 0, 7, 9]),
            (Surface::Responses, response_event, &[0, 6, 9]),
        ];
        for (surface, event, kinds) in ways {
            let texts = ["{\\\"a\\\":\\\"", "caf\\u00e9", "\\\"}"];
            let events: Vec<String> = kinds.iter().flat_map(|kind| texts.map(|text| event(*kind, text, "0"))).collect();
            let expected = whole(AnswerParts::new(surface, false), items(surface, &events));
            // Only the text is left of each.
            let only_text = |item: StreamItem| match item.more {
                Some(at) => StreamItem { raw: item.raw.slice(at.clone()), more: Some(0..at.len()), ..item },
                None => item,
            };
            let items = items(surface, &events);
            assert!(items.iter().filter(|item| item.more.is_some()).count() >= 4);
            let found = whole(AnswerParts::new(surface, false), items.into_iter().map(only_text));
            assert_eq!(found, expected, "{surface:?}");
            assert!(expected.is_some());
        }
    }
}
