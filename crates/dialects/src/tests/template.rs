//! Templates of chunks, learnt from what a dialect reads.

use bytes::Bytes;

use crate::openai::read;
use crate::responses;
use photofinish_wire::SseEvent;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::template::Template;

fn event(json: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {json}\n\n")) }
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
    let payload = |json: &str| template.fits(&event(json)).map(|more| more.payload.chars);
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
    assert!(learn(r#"{"obfuscation":"x","choices":[{"delta":{"content":"a"}}]}"#).is_some());
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
    ] {
        assert!(learn(json).is_none(), "{json}");
    }
}

#[test]
fn the_number_of_an_event_may_differ_wherever_it_stands() {
    for [head, tail] in [
        [r#"{"type":"response.output_text.delta","sequence_number":9,"delta":""#, r#"","obfuscation":"q"}"#],
        [r#"{"type":"response.output_text.delta","delta":""#, r#"","obfuscation":"q","sequence_number":9}"#],
        [r#"{"sequence_number":9,"obfuscation":"q","type":"response.output_text.delta","delta":""#, r#""}"#],
    ] {
        let json = format!("{head}one{tail}");
        let event = event(&json);
        let Frame::Chunk(chunk) = responses::read(&event) else { panic!("no chunk") };
        let template = Template::learn(&event, &chunk).unwrap();
        let chars = |json: &str| template.fits(&self::event(json)).map(|more| more.payload.chars);
        assert_eq!(chars(&json), Some(3), "{json}");
        assert_eq!(chars(&json.replace(":9", ":10").replace("one", "\\u00e9\\n").replace("\"q\"", "\"\"")), Some(2));
        for other in [
            json.replace(":9", ":09"),
            json.replace(":9", ":-9"),
            json.replace(":9", ":9.5"),
            json.replace(":9", ":"),
            json.replace(":9", ":null"),
            json.replace(":9", ":9,\"error\":1"),
            json.replace("output_text", "refusal"),
            json.replace("one", ""),
            json[..json.len() - 1].to_owned(),
        ] {
            assert_eq!(chars(&other), None, "{other}");
        }
    }
    let odd = event(r#"{"type":"response.output_text.delta","sequence_number":1e3,"delta":"a"}"#);
    let Frame::Chunk(chunk) = responses::read(&odd) else { panic!("no chunk") };
    assert!(Template::learn(&odd, &chunk).is_none());
}

proptest::proptest! {
    /// The template gives the same payload as parsing.
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
        if let Some(more) = template.fits(&event) {
            let Frame::Chunk(whole) = read(&event) else { panic!("no chunk") };
            proptest::prop_assert_eq!(Some(more.payload), whole.payload);
            proptest::prop_assert_eq!(Some(&event.raw[more.at]), whole.text.map(str::as_bytes));
            proptest::prop_assert!(whole.finish_reason.is_none() && whole.usage.is_none());
        }
    }

    #[test]
    fn agrees_on_numbered_events(text in "\\PC{0,20}", number: u64, padding in "[a-z]{0,5}", first: bool, cut in 0usize..400) {
        let chunk = |text: &str, number: u64, padding: &str| {
            let number = serde_json::json!({ "sequence_number": number });
            let rest = serde_json::json!({ "type": "response.refusal.delta", "delta": text, "obfuscation": padding });
            let parts = if first { [number, rest] } else { [rest, number] };
            let members = parts.iter().flat_map(|part| part.as_object().unwrap().clone());
            serde_json::Value::Object(members.collect()).to_string()
        };
        let learnt = event(&chunk("one", 9, "abc"));
        let Frame::Chunk(read_whole) = responses::read(&learnt) else { panic!("no chunk") };
        let template = Template::learn(&learnt, &read_whole).unwrap();
        let mut json = chunk(&text, number, &padding);
        proptest::prop_assert_eq!(template.fits(&event(&json)).is_some(), !text.is_empty());
        if cut < json.len() {
            json.remove(json.floor_char_boundary(cut));
        }
        let event = event(&json);
        if let Some(more) = template.fits(&event) {
            let Frame::Chunk(whole) = responses::read(&event) else { panic!("no chunk") };
            proptest::prop_assert_eq!(Some(more.payload), whole.payload);
            proptest::prop_assert_eq!(Some(&event.raw[more.at]), whole.text.map(str::as_bytes));
        }
    }
}
