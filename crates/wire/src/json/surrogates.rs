//! Some servers cut a character outside the basic plane in two and escape each half by itself, in one text or at the end
//! of one delta and the beginning of the next. Most readers accept such JSON, serde does not. This joins the halves, and
//! reads a half that has no other half as U+FFFD, so that the surrounding text is kept.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use memchr::memchr;
use serde_json::Value;

use super::numbers::parse;
use crate::json::SERDE_DEPTH_MAX;
use crate::json::{InvalidJson, Json, unescape};

/// Maximum texts of one stream whose first half waits for the second; the oldest is forgotten for a further one.
const HALVES_MAX: usize = 16;
/// Maximum texts of one event that are looked at.
const TEXTS_MAX: usize = 256;
/// Bytes of an escape such as `\ud83d`.
const ESCAPE: usize = 6;
/// Replaces a character that is not known.
const UNKNOWN: u16 = 0xFFFD;

/// The first halves at the end of the texts of one stream. A half that waits when the stream ends is dropped: the text was
/// cut there.
#[derive(Debug, Default)]
pub struct HalfCharacters {
    /// What the text is, and its last half.
    waiting: Vec<(u64, u16)>,
}

impl HalfCharacters {
    /// The JSON text of the next event, with whole characters. It is valid JSON if the event is.
    pub fn joined<'a>(&mut self, json: &'a [u8]) -> Cow<'a, [u8]> {
        let halves = lone_halves(json);
        if halves.is_empty() && self.waiting.is_empty() {
            return Cow::Borrowed(json);
        }
        let mut edits = replaced(&halves);
        let texts = std::str::from_utf8(json).ok().and_then(|text| text_spans(text).ok()).unwrap_or_default();
        for text in texts {
            self.join_text(&text, &halves, &mut edits);
        }
        written(json, edits)
    }

    /// Whether the next text may have to begin with a half.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn join_text(&mut self, text: &TextSpan, halves: &[(usize, u16)], edits: &mut Vec<TextEdit>) {
        let half_at = |at: usize| halves.binary_search_by_key(&at, |(at, _)| *at).ok();
        let (first, last) = (half_at(text.start), text.end.checked_sub(ESCAPE).and_then(half_at));
        let is_empty = text.start == text.end;
        let before = self.waiting.iter().position(|(what, _)| *what == text.what).filter(|_| !is_empty);
        let before = before.map(|position| self.waiting.remove(position).1);
        match (before, first.filter(|first| is_second(halves[*first].1))) {
            (Some(before), Some(first)) => {
                edits[first] = TextEdit { at: text.start, cut: 0, put: Some(before) };
            }
            (Some(_), None) => edits.push(TextEdit { at: text.start, cut: 0, put: Some(UNKNOWN) }),
            (None, _) => {}
        }
        if let Some(last) = last.filter(|last| !is_second(halves[*last].1)) {
            edits[last].put = None;
            if self.waiting.len() >= HALVES_MAX {
                self.waiting.remove(0);
            }
            self.waiting.push((text.what, halves[last].1));
        }
    }
}

/// Parses a JSON text that may contain half characters. None if it is not JSON.
pub fn lenient(data: &[u8]) -> Option<Value> {
    let mended = || written(data, replaced(&lone_halves(data)));
    parse(data).or_else(|_| parse(&mended())).ok()
}

/// Unescapes the text between the quotes of a string with whole characters. Empty if it is invalid.
pub fn words(inner: &str) -> String {
    unescape(inner).map(Cow::into_owned).unwrap_or_default()
}

/// Bytes that are replaced.
#[derive(Clone, Copy)]
struct TextEdit {
    at: usize,
    cut: usize,
    /// The code unit whose escape is put there.
    put: Option<u16>,
}

fn replaced(halves: &[(usize, u16)]) -> Vec<TextEdit> {
    halves.iter().map(|(at, _)| TextEdit { at: *at, cut: ESCAPE, put: Some(UNKNOWN) }).collect()
}

fn written(json: &[u8], mut edits: Vec<TextEdit>) -> Cow<'_, [u8]> {
    if edits.is_empty() {
        return Cow::Borrowed(json);
    }
    edits.sort_by_key(|edit| (edit.at, edit.cut));
    let (mut whole, mut from) = (Vec::with_capacity(json.len() + ESCAPE * edits.len()), 0);
    for TextEdit { at, cut, put } in edits {
        whole.extend_from_slice(&json[from..at]);
        if let Some(unit) = put {
            whole.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
        }
        from = at + cut;
    }
    whole.extend_from_slice(&json[from..]);
    Cow::Owned(whole)
}

/// The escapes that are half a character without an adjacent other half.
fn lone_halves(json: &[u8]) -> Vec<(usize, u16)> {
    let unit = |at: usize| {
        let hex = json.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let (mut halves, mut at) = (Vec::new(), 0);
    while let Some(offset) = json.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += offset;
        at += match (unit(at), unit(at + ESCAPE)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 2 * ESCAPE,
            (Some(half @ 0xD800..=0xDFFF), _) => {
                halves.push((at, half));
                ESCAPE
            }
            _ => 2,
        };
    }
    halves
}

fn is_second(half: u16) -> bool {
    half >= 0xDC00
}

/// A text that the next event may continue.
struct TextSpan {
    /// Its place in the event, without its quotes.
    start: usize,
    end: usize,
    /// What it is: its place, and the numbers and types in its event.
    what: u64,
}

/// The texts of an event, in order.
fn text_spans(json: &str) -> Result<Vec<TextSpan>, InvalidJson> {
    let mut walk = Walk { whole: json, texts: Vec::new(), kind: DefaultHasher::new() };
    walk.value(&mut Json::nested(json, SERDE_DEPTH_MAX), &DefaultHasher::new())?;
    let Walk { mut texts, kind, .. } = walk;
    for text in &mut texts {
        let mut what = kind.clone();
        text.what.hash(&mut what);
        text.what = what.finish();
    }
    Ok(texts)
}

struct Walk<'a> {
    whole: &'a str,
    texts: Vec<TextSpan>,
    /// Everything that distinguishes events: of a choice, a block, an item, a call.
    kind: DefaultHasher,
}

impl<'a> Walk<'a> {
    fn value(&mut self, json: &mut Json<'a>, place: &DefaultHasher) -> Result<(), InvalidJson> {
        match json.peek() {
            Some(b'{') => json.object(|name, json| self.member(name, json, place)),
            Some(b'[') => {
                let mut position = 0_usize;
                json.list(|json| {
                    position += 1;
                    self.value(json, &inside(place, &position))
                })
            }
            Some(b'"') => {
                let Some(text) = json.string_or_skip()? else { return Ok(()) };
                let start = text.as_ptr() as usize - self.whole.as_ptr() as usize;
                if self.texts.len() < TEXTS_MAX {
                    self.texts.push(TextSpan { start, end: start + text.len(), what: place.finish() });
                }
                Ok(())
            }
            _ => json.skip().map(drop),
        }
    }

    fn member(&mut self, name: &'a str, json: &mut Json<'a>, place: &DefaultHasher) -> Result<(), InvalidJson> {
        match name {
            "type" | "index" => (name, json.skip()?).hash(&mut self.kind),
            _ if name.ends_with("_index") || name.ends_with("Index") => (name, json.skip()?).hash(&mut self.kind),
            // Each token is an item of its own.
            "logprobs" | "id" => drop(json.skip()?),
            _ => self.value(json, &inside(place, &name))?,
        }
        Ok(())
    }
}

fn inside(place: &DefaultHasher, step: &impl Hash) -> DefaultHasher {
    let mut inner = place.clone();
    step.hash(&mut inner);
    inner
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined<E: AsRef<str>>(events: &[E]) -> Vec<String> {
        let mut halves = HalfCharacters::default();
        let join = |event: &E| String::from_utf8(halves.joined(event.as_ref().as_bytes()).into_owned()).unwrap();
        events.iter().map(join).collect()
    }

    fn chat(index: u32, member: &str, text: &str) -> String {
        format!(r#"{{"choices":[{{"delta":{{"{member}":"{text}"}},"index":{index}}}]}}"#)
    }

    #[test]
    fn a_half_waits_for_the_next_delta_of_its_kind() {
        let content = |text: &str| chat(0, "content", text);
        let others = [chat(1, "content", "x"), chat(0, "refusal", "y"), content("")];
        let between = |first: &str, last: &str| [&[content(first)], &others[..], &[content(last)]].concat();
        let table: &[(&[String], &[String])] = &[
            (&[content("a\\ud83d"), content("\\uDE00b")], &[content("a"), content("\\ud83d\\uDE00b")]),
            (&between("\\ud83d", "\\ude00"), &between("", "\\ud83d\\ude00")),
            // Nothing fits: neither half is a character.
            (&[content("\\ud83d"), content("b")], &[content(""), content("\\ufffdb")]),
            (&[content("\\ude00"), content("\\ud83da")], &[content("\\ufffd"), content("\\ufffda")]),
            (
                &[content("\\ud83d"), content("\\ud83d"), content("\\ude00")],
                &[content(""), content("\\ufffd"), content("\\ud83d\\ude00")],
            ),
            // A backslash and the letters of a half.
            (&[content("\\\\ud83d"), content("\\\\ude00")], &[content("\\\\ud83d"), content("\\\\ude00")]),
            (&[content("\\\\\\ud83d"), content("\\ude00\\\"")], &[content("\\\\"), content("\\ud83d\\ude00\\\"")]),
        ];
        for (events, expected) in table {
            assert_eq!(&joined(events), expected);
        }
    }

    #[test]
    fn what_does_not_grow_waits_for_nothing() {
        let of = |token: &str| format!(r#"{{"id":"{token}","logprobs":{{"content":[{{"token":"{token}"}}]}}}}"#);
        assert_eq!(joined(&[of("\\ud83d"), of("\\ude00")]), [of("\\ufffd"), of("\\ufffd")]);
        assert_eq!(joined(&["{\"a\":\"\\ud83d", "{\"a\":\"\\ude00\"}"])[0], "{\"a\":\"\\ufffd", "no JSON");
    }

    #[test]
    fn so_many_halves_wait_at_most() {
        let of = |index: usize, text: &str| format!(r#"{{"index":{index},"text":"{text}"}}"#);
        let mut halves = HalfCharacters::default();
        for index in 0..=HALVES_MAX {
            halves.joined(of(index, "\\ud83d").as_bytes());
        }
        assert_eq!(halves.waiting.len(), HALVES_MAX);
        let mut join = |index, text| String::from_utf8(halves.joined(of(index, text).as_bytes()).into_owned()).unwrap();
        assert_eq!((join(0, "a"), join(1, "\\ude00")), (of(0, "a"), of(1, "\\ud83d\\ude00")));
    }

    #[test]
    fn a_text_may_have_half_characters() {
        let read = |text: &str| lenient(format!("[\"{text}\"]").as_bytes()).map(|value| value[0].clone());
        assert_eq!(read("\\u00e9\\ud83d x\\ud83d\\ude00").unwrap(), "é\u{fffd} x\u{1f600}");
        assert_eq!(read("\\ud83"), None);
    }

    /// The text of the events, as a client would join it.
    fn text_of(events: &[String]) -> String {
        let text =
            |event: &String| serde_json::from_str::<Value>(event).unwrap()["choices"][0]["delta"]["content"].clone();
        events.iter().map(|event| text(event).as_str().unwrap_or_default().to_owned()).collect()
    }

    proptest! {
        /// However a text is cut into units, and however other texts come in between, it is the same text.
        #[test]
        fn no_cut_changes_a_text(text in "[a\u{e9}\"\\\\\u{1f600}\u{10ffff}]{0,12}", cuts in prop::collection::vec((1usize..4, any::<bool>()), 1..12)) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let (mut events, mut at) = (Vec::new(), 0);
            for (length, is_between) in cuts.iter().cycle() {
                let end = units.len().min(at + length);
                let escaped: String = units[at..end].iter().map(|unit| format!("\\u{unit:04x}")).collect();
                events.push(chat(0, "content", &escaped));
                events.extend(is_between.then(|| chat(0, "reasoning", &escaped)));
                at = end;
                if at == units.len() {
                    break;
                }
            }
            prop_assert_eq!(text_of(&joined(&events)), text);
        }

        /// What is JSON for readers that accept halves is JSON for all, and other bytes are not changed.
        #[test]
        fn every_text_becomes_valid(units in prop::collection::vec(prop::sample::select(vec![0x61_u16, 0xD83D, 0xDE00, 0xD800, 0xDFFF]), 0..9), cut in 1usize..5) {
            let events: Vec<String> = units.chunks(cut).map(|units| {
                let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                chat(0, "content", &escaped)
            }).collect();
            let mut expected = String::from_utf16_lossy(&units);
            if units.last().is_some_and(|last| (0xD800..0xDC00).contains(last)) {
                // It was cut there.
                expected.pop();
            }
            prop_assert_eq!(text_of(&joined(&events)), expected);
        }

        #[test]
        fn never_panics(bytes in "[\\[\\]{}\":,a\\\\u0-9d]{0,60}") {
            let mut halves = HalfCharacters::default();
            halves.joined(bytes.as_bytes());
            halves.joined(br#"{"a":"\ud83d"}"#);
            halves.joined(bytes.as_bytes());
            lenient(bytes.as_bytes());
        }
    }
}
