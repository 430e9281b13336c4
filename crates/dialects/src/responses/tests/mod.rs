//! Tables, goldens and properties of the dialect.

mod reading;
mod requests;
mod round_trip;
mod streams;
mod surface;

use crate::SurfaceFormat as _;
use bytes::{Bytes, BytesMut};
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::quirks::TranslationOptions;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use photofinish_wire::conversation::{AnswerPiece, Conversation, Losses, ReadPieces, WritePieces};
use photofinish_wire::stream::sse::SseScanner;

fn event(data: &str) -> SseEvent {
    SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) }
}

fn events(stream: &[u8]) -> Vec<SseEvent> {
    let mut scanner = SseScanner::new(1 << 20);
    scanner.push(Bytes::copy_from_slice(stream));
    std::iter::from_fn(|| scanner.next_event().unwrap()).collect()
}

/// The data of each event.
fn datas(stream: &[u8]) -> Vec<Value> {
    events(stream).iter().map(|event| serde_json::from_slice(&event.fields().data.unwrap()).unwrap()).collect()
}

fn pieces(stream: &[u8]) -> Vec<AnswerPiece> {
    let (mut reader, mut pieces) = (ResponsesReader::default(), Vec::new());
    events(stream).iter().for_each(|event| reader.read(event, &mut pieces));
    photofinish_wire::conversation::sample::without_ends(pieces)
}

fn written(pieces: &[AnswerPiece]) -> Bytes {
    let (mut writer, mut out) = (ResponsesWriter::new("m", Default::default()), BytesMut::new());
    photofinish_wire::conversation::sample::with_ends(pieces)
        .into_iter()
        .for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    out.freeze()
}

fn conversation_of(body: &Value) -> Conversation {
    conversation(body.to_string().as_bytes()).unwrap()
}

fn request_of(conversation: &Conversation) -> (Value, Losses) {
    let mut losses = Losses::default();
    let options = TranslationOptions::of_model(Dialect::Responses, "m");
    (request(conversation, &options, &mut losses), losses)
}

const WORDS: &[&str] = &[
    "type",
    "role",
    "content",
    "text",
    "input",
    "output",
    "name",
    "arguments",
    "call_id",
    "id",
    "summary",
    "item",
    "response",
    "delta",
    "error",
    "usage",
    "tools",
    "tool_choice",
    "reasoning",
    "format",
    "schema",
    "include",
    "image_url",
    "file_data",
    "encrypted_content",
    "output_index",
    "model",
    "incomplete_details",
    "message",
    "user",
    "assistant",
    "function_call",
    "custom_tool_call",
    "function_call_output",
    "input_text",
    "output_text",
    "input_image",
    "input_file",
    "json_schema",
    "function",
    "custom",
    "status",
    "response.completed",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.created",
    "instructions",
    "metadata",
    "data:,",
    "",
];

/// Arbitrary JSON with this dialect's names.
fn any_json() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(WORDS);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..8).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(value in any_json(), other in any_json()) {
        let text = value.to_string();
        read(&event(&text));
        is_error_event(&event(&text));
        events_of_whole(text.as_bytes());
        let mut body = value.clone();
        if let Some(members) = body.as_object_mut() {
            members.insert("model".to_owned(), json!("m"));
            members.entry("input").or_insert(other.clone());
        }
        if let Ok(conversation) = conversation(body.to_string().as_bytes()) {
            request_of(&conversation);
        }
        let (mut reader, mut growing, mut pieces) = (ResponsesReader::default(), Surface::Responses.growing(), Vec::new());
        for value in [&value, &other, &value] {
            reader.read(&event(&value.to_string()), &mut pieces);
                        growing.add(&event(&value.to_string()));
            growing.finish();
        }
        written(&pieces);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let event = SseEvent { raw: Bytes::from(bytes.clone()) };
        read(&event);
        ResponsesReader::default().read(&event, &mut Vec::new());
        events_of_whole(&bytes);
        prop_assert!(conversation(&bytes).is_err());
    }
}
