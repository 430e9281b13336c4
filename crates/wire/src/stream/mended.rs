//! Reads events that are not quite what their dialect says: bytes that are no UTF-8, numbers that JSON lacks, JSON
//! without its `data:` line. Only called for an event that could not be read. Not for cut JSON: nothing is guessed.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use serde::de::IgnoredAny;

use super::binary;
use super::event_reader::{EventData, data_of};
use super::framing::Framing;
use super::sse::SseEvent;

/// Members with the arguments of a call. A number that JSON lacks is not replaced in them.
const ARGUMENTS: [&[u8]; 3] = [b"arguments", b"args", b"input"];
/// What Python writes for numbers that JSON lacks.
const NO_NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// The event as valid JSON, if only its encoding or its numbers are wrong: with U+FFFD and `null` in their place. None
/// if it is valid, or cannot be mended.
pub fn mended(framing: Framing, event: &SseEvent) -> Option<SseEvent> {
    let text = mended_json(&data(framing, event)?)?;
    Some(match framing {
        Framing::Sse => written(&text, event.fields().name),
        Framing::Lines => SseEvent { raw: Bytes::from(one_line(&text) + "\n") },
        Framing::Binary => {
            let mut out = BytesMut::new();
            binary::write_event(binary::message(&event.raw)?.name, text.as_bytes(), &mut out);
            SseEvent { raw: out.freeze() }
        }
        Framing::Whole => SseEvent { raw: Bytes::from(text) },
    })
}

/// A JSON text whose encoding or numbers are wrong, as valid JSON.
pub fn mended_json(data: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(data);
    let mended = String::from_utf8(with_json_numbers(text.as_bytes())?.into_owned()).ok()?;
    let is_good = mended.as_bytes() != data && serde_json::from_str::<IgnoredAny>(&mended).is_ok();
    is_good.then_some(mended)
}

/// A server-sent event that lacks its `data:` line, with one: clients of such streams do not read bare JSON. None for
/// other events.
pub fn framed(framing: Framing, event: &SseEvent) -> Option<SseEvent> {
    if framing != Framing::Sse || event.raw.starts_with(b"data:") || event.fields().data.is_some() {
        return None;
    }
    let EventData::Json { data, name } = data_of(event) else { return None };
    Some(written(std::str::from_utf8(&data).ok()?, Some(name)))
}

/// Whether an event that cannot be read cannot have carried a part of an answer either: it has no sign of JSON, as in
/// `data: ping`. However JSON is cut, each piece has one of these signs, unless it is the inside of a text.
pub fn is_noise(framing: Framing, event: &SseEvent) -> bool {
    data(framing, event).is_some_and(|data| !data.iter().any(|byte| matches!(byte, b'{' | b'}' | b'"')))
}

/// The JSON text of an event. None if it has none, or its frame is damaged.
pub fn data(framing: Framing, event: &SseEvent) -> Option<Cow<'_, [u8]>> {
    match framing {
        Framing::Sse => match data_of(event) {
            EventData::Json { data, .. } => Some(data),
            EventData::None | EventData::Done | EventData::Sentence(_) => None,
        },
        Framing::Binary => binary::message(&event.raw).map(|message| Cow::Borrowed(message.payload)),
        Framing::Lines | Framing::Whole => {
            Some(Cow::Borrowed(event.raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&event.raw).trim_ascii()))
        }
    }
}

fn written(text: &str, name: Option<&[u8]>) -> SseEvent {
    let name = name.filter(|name| !name.is_empty()).map(String::from_utf8_lossy);
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    SseEvent { raw: Bytes::from(format!("{name}data: {}\n\n", one_line(text))) }
}

/// JSON has line ends only between values.
fn one_line(text: &str) -> String {
    text.trim().replace(['\r', '\n'], " ")
}

/// The text with `null` for every number that JSON lacks. None if one is in the arguments of a call, where another
/// value would mean something else.
fn with_json_numbers(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if NO_NUMBERS.iter().all(|word| memmem::find(text, word).is_none()) {
        return Some(Cow::Borrowed(text));
    }
    let (mut mended, mut at) = (Vec::with_capacity(text.len()), 0);
    let mut place = Place::default();
    while let Some(byte) = text.get(at) {
        let word = NO_NUMBERS.iter().find(|word| text[at..].starts_with(word) && matches!(byte, b'N' | b'I' | b'-'));
        if let Some(word) = word {
            if place.is_in_arguments() {
                return None;
            }
            mended.extend_from_slice(b"null");
            at += word.len();
            continue;
        }
        let end = if *byte == b'"' { string_end(text, at) } else { at + 1 };
        place.pass(&text[at..end]);
        mended.extend_from_slice(&text[at..end]);
        at = end;
    }
    Some(Cow::Owned(mended))
}

/// Behind the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = text.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}

/// Where a walk through a JSON text is.
#[derive(Default)]
struct Place<'a> {
    depth: usize,
    /// The last string, without its quotes.
    last: &'a [u8],
    /// The next value is the arguments of a call.
    before_arguments: bool,
    /// The depth around the arguments.
    arguments: Option<usize>,
}

impl<'a> Place<'a> {
    fn pass(&mut self, token: &'a [u8]) {
        match token {
            [b'"', inner @ .., b'"'] => self.last = inner,
            b":" => self.before_arguments = ARGUMENTS.contains(&self.last),
            b"," => self.before_arguments = false,
            b"{" | b"[" => {
                if std::mem::take(&mut self.before_arguments) && self.arguments.is_none() {
                    self.arguments = Some(self.depth);
                }
                self.depth += 1;
            }
            b"}" | b"]" => {
                self.depth = self.depth.saturating_sub(1);
                self.arguments = self.arguments.filter(|around| *around < self.depth);
            }
            _ => {}
        }
    }

    fn is_in_arguments(&self) -> bool {
        self.before_arguments || self.arguments.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(raw: &[u8]) -> SseEvent {
        SseEvent { raw: Bytes::copy_from_slice(raw) }
    }

    #[test]
    fn only_encoding_and_numbers_are_mended() {
        let table: &[(&[u8], Option<&str>)] = &[
            (b"{\"a\":\"x\xffy\"}", Some("{\"a\":\"x\u{fffd}y\"}")),
            (b"{\"a\":NaN,\"b\":[Infinity, -Infinity ]}", Some("{\"a\":null,\"b\":[null, null ]}")),
            (b"{\"t\":\"NaN \\\" -Infinity\",\"a\":NaN}", Some("{\"t\":\"NaN \\\" -Infinity\",\"a\":null}")),
            // Its value would be another one.
            (b"{\"arguments\":{\"x\":NaN}}", None),
            (b"{\"input\":NaN}", None),
            (b"{\"args\":[{\"a\":1},NaN]}", None),
            (b"{\"args\":{\"a\":{}},\"b\":NaN}", Some("{\"args\":{\"a\":{}},\"b\":null}")),
            (b"{\"arguments\":\"{\\\"x\\\":NaN}\",\"b\":NaN}", Some("{\"arguments\":\"{\\\"x\\\":NaN}\",\"b\":null}")),
            // Nothing is wrong, or something else.
            (b"{\"a\":1}", None),
            (b"{\"a\":\"NaN\"}", None),
            (b"{\"a\":\"NaN\",\"b\":", None),
            (b"{\"a\":NaNa}", None),
            (b"{\"a\":\"\xff", None),
            (b"{\"a\":NaN", None),
            (b"NaN \"", None),
        ];
        for (data, expected) in table {
            let name = String::from_utf8_lossy(data);
            assert_eq!(mended_json(data).as_deref(), *expected, "{name}");
        }
    }

    #[test]
    fn a_mended_event_keeps_its_frame() {
        let of = |framing, raw: &[u8]| mended(framing, &event(raw)).map(|event| event.raw);
        assert_eq!(
            of(Framing::Sse, b"id: 7\nevent: x\ndata: {\"a\":\ndata: \"\xff\"}\n\n").unwrap(),
            "event: x\ndata: {\"a\": \"\u{fffd}\"}\n\n"
        );
        assert_eq!(of(Framing::Lines, b" {\"a\":NaN}\r\n").unwrap(), "{\"a\":null}\n");
        assert_eq!(of(Framing::Whole, b"{\"a\":\"\xff\"}").unwrap(), "{\"a\":\"\u{fffd}\"}");
        let mut frame = BytesMut::new();
        binary::write_event("e", b"{\"a\":\"\xff\"}", &mut frame);
        let raw = of(Framing::Binary, &frame).unwrap();
        let message = binary::message(&raw).unwrap();
        assert_eq!((message.name, message.payload), ("e", "{\"a\":\"\u{fffd}\"}".as_bytes()));
        assert_eq!(of(Framing::Binary, b"{\"a\":\"\xff\"}"), None);
        assert_eq!(of(Framing::Sse, b"data: [DONE]\n\n"), None);
    }

    #[test]
    fn bare_json_gets_its_data_line() {
        let of = |raw: &[u8]| framed(Framing::Sse, &event(raw)).map(|event| event.raw);
        assert_eq!(of(b"\n{\"a\":\n 1}\n").unwrap(), "data: {\"a\":  1}\n\n");
        assert_eq!(of(b"data: {}\n\n"), None);
        assert_eq!(of(b": {}\n\n"), None);
        assert_eq!(framed(Framing::Lines, &event(b"{}\n")), None);
    }

    #[test]
    fn words_are_no_part_of_an_answer() {
        for (raw, noise) in [
            ("data: ping\n\n", true),
            ("data: [keep-alive]\n\n", true),
            ("data: {\n\n", false),
            ("data: lo\"}}]}\n\n", false),
            ("data: \"lo\n\n", false),
        ] {
            assert_eq!(is_noise(Framing::Sse, &event(raw.as_bytes())), noise, "{raw}");
        }
        assert!(!is_noise(Framing::Binary, &event(b"a damaged frame")));
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_is_valid(data in "[\\[\\]{}\":,a\\\\ NaInfty-]{0,40}") {
            if let Some(text) = mended_json(data.as_bytes()) {
                proptest::prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok());
            }
        }
    }
}
