//! Long answers and bounds, on every surface.

use bytes::BytesMut;

use crate::SurfaceFormat as _;
use bytes::Bytes;
use photofinish_wire::answer::growing::ITEMS_MAX;
use photofinish_wire::answer::whole::read;
use photofinish_wire::conversation::AnswerPiece;
use photofinish_wire::json::values::json;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::{Dialect, SseEvent, Surface};
use serde_json::Value;

const SURFACES: [Surface; 6] = [
    Surface::Chat,
    Surface::Messages,
    Surface::Responses,
    Surface::OllamaChat,
    Surface::OllamaGenerate,
    Surface::Gemini,
];
/// Chunks of a long answer.
const LONG: usize = 20_000;

fn event(surface: Surface, data: &str) -> SseEvent {
    let is_line = surface.dialect() == Dialect::Ollama;
    SseEvent { raw: if is_line { format!("{data}\n") } else { format!("data: {data}\n\n") }.into() }
}

/// The answer. None if an event was not taken.
fn grown(surface: Surface, events: impl IntoIterator<Item = Value>) -> Option<Value> {
    let mut growing = surface.growing();
    let taken = events.into_iter().all(|data| growing.add(&event(surface, &data.to_string())));
    let whole = growing.finish().filter(|_| taken)?;
    serde_json::from_slice(&whole.body).ok()
}

#[test]
fn a_long_answer_is_whole_on_every_surface() {
    let text = |index: usize| format!("{} ", index % 10);
    let expected: String = (0..LONG).map(text).collect();
    for surface in SURFACES {
        let (mut writer, mut out) = (surface.writer("m", true, false, false, &Default::default()), BytesMut::new());
        writer.write(AnswerPiece::Thinking { index: 0, block: 0, text: "hm".to_owned() }, &mut out);
        (0..LONG).for_each(|index| writer.write(AnswerPiece::Text { index: 0, text: text(index) }, &mut out));
        writer.end(&mut out);
        let (mut decoder, mut growing) = (surface.framing().decoder(usize::MAX), surface.growing());
        decoder.push(out.freeze());
        let mut events = 0;
        while let Some(event) = decoder.next_event().unwrap() {
            assert!(growing.add(&event), "{surface:?}");
            events += 1;
        }
        let whole = growing.finish().unwrap();
        assert!(events >= LONG && !whole.says_nothing, "{surface:?}: {events}");
        assert!(String::from_utf8_lossy(&whole.body).contains(&format!("\"{expected}\"")), "{surface:?}");
    }
}

#[test]
fn what_comes_with_every_token_is_not_bounded() {
    let probability = json!([{ "token": "a", "logprob": -0.5 }]);
    let line = json!({ "message": { "role": "assistant", "content": "a" }, "logprobs": probability, "done": false });
    let answer = grown(Surface::OllamaChat, (0..LONG).map(|_| line.clone())).unwrap();
    assert_eq!(answer["logprobs"].as_array().map(Vec::len), Some(LONG));
    let context: Vec<usize> = (0..LONG).collect();
    let line = json!({ "response": "a", "context": context, "done": true });
    assert_eq!(grown(Surface::OllamaGenerate, [line]).unwrap()["context"], json!(context));
    let chunk = json!({ "choices": [{ "index": 0, "text": "a", "token_ids": [7], "logprobs": { "tokens": ["a"] } }] });
    let answer = grown(Surface::Completions, (0..LONG).map(|_| chunk.clone())).unwrap();
    let length = |pointer: &str| answer.pointer(pointer).and_then(Value::as_array).map(Vec::len);
    assert_eq!((length("/choices/0/token_ids"), length("/choices/0/logprobs/tokens")), (Some(LONG), Some(LONG)));
}

#[test]
fn so_many_parts_calls_and_items_are_kept_at_most() {
    let part = |part: Value| json!({ "candidates": [{ "content": { "parts": [part] } }] });
    let call = || part(json!({ "functionCall": { "name": "f", "args": {} } }));
    let called = || json!({ "message": { "tool_calls": [{ "function": { "name": "f", "arguments": {} } }] } });
    let block = |at: usize| json!({ "type": "content_block_start", "index": at, "content_block": { "type": "text" } });
    let item = |at: usize| json!({ "type": "response.output_item.done", "output_index": at, "item": { "id": "i" } });
    let ways: [(Surface, &dyn Fn(usize) -> Value); 4] = [
        (Surface::Gemini, &|_| call()),
        (Surface::OllamaChat, &|_| called()),
        (Surface::Messages, &block),
        (Surface::Responses, &item),
    ];
    for (surface, event) in ways {
        assert!(grown(surface, (0..ITEMS_MAX).map(event)).is_some(), "{surface:?}");
        assert!(grown(surface, (0..=ITEMS_MAX).map(event)).is_none(), "{surface:?}");
    }
    // Texts that are joined are one part.
    let text = || part(json!({ "text": "a" }));
    let answer = grown(Surface::Gemini, (0..ITEMS_MAX).map(|_| text()).chain([call(), text(), text()])).unwrap();
    assert_eq!(answer["candidates"][0]["content"]["parts"].as_array().map(Vec::len), Some(3));
}

#[test]
fn null_and_other_values_take_nothing_away() {
    let call = json!({ "function": { "name": "f", "arguments": {} } });
    let lines = [
        json!({ "message": { "content": "a", "tool_calls": [call] }, "done_reason": "stop" }),
        json!({ "message": { "content": null, "tool_calls": null }, "done_reason": null }),
    ];
    let message = json!({ "content": "a", "tool_calls": [call] });
    assert_eq!(grown(Surface::OllamaChat, lines).unwrap(), json!({ "message": message, "done_reason": "stop" }));
    let content = |parts: Value| json!({ "candidates": [{ "content": { "parts": parts } }] });
    let answer = grown(Surface::Gemini, [content(json!([{ "text": "a" }])), content(Value::Null)]).unwrap();
    assert_eq!(answer["candidates"][0]["content"]["parts"], json!([{ "text": "a" }]));
    let answer = grown(Surface::Gemini, [content(Value::Null)]).unwrap();
    assert_eq!(answer["candidates"][0]["content"]["parts"], json!([]));
}

#[test]
fn only_events_are_taken() {
    for surface in SURFACES.into_iter().chain([Surface::Completions]) {
        let takes = |data: &str| surface.growing().add(&event(surface, data));
        assert!(takes("{}") && takes("7") && takes("") && takes("[DONE]"), "{surface:?}");
        assert!(!takes("{"), "{surface:?}");
        // A line that is no object was left out before.
        assert!(surface.dialect() == Dialect::Ollama || !takes("[{}]"), "{surface:?}");
    }
}

#[test]
fn an_answer_is_one_event_and_comes_back_as_it_was() {
    let body = "{\n \"data\": [{\"embedding\": [0.1, 2]}],\n \"model\": \"e\", \"usage\": {\"prompt_tokens\": 3}}\n";
    let event = SseEvent { raw: Bytes::from(body) };
    let Frame::Chunk(chunk) = read(&event) else { panic!("no chunk") };
    assert_eq!((chunk.model.as_deref(), chunk.usage.as_deref()), (Some("e"), Some("{\"prompt_tokens\": 3}")));
    assert!(chunk.payload.is_some() && chunk.finished == chunk.choices);
    let mut growing = Surface::Embeddings.growing();
    assert!(growing.add(&event));
    assert_eq!(growing.finish().unwrap().body, body, "byte for byte");
}
