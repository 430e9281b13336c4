//! What Gemini sent goes back to it as it was, signatures and all.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::protocol::dialect::Options;
use crate::protocol::gemini::{Reader, request};
use crate::protocol::neutral::{Call, Conversation, Losses, Part, Piece, ReadPieces, Role, Thinking, Turn};
use crate::protocol::sse::Event;

/// The parts of one answer, as a client sends them back.
fn parts(pieces: Vec<Piece>) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in pieces {
        match (piece, parts.last_mut()) {
            (Piece::Text { text, .. }, _) => parts.push(Part::Text { text, cache: None }),
            (Piece::Thinking { text, .. }, _) => parts.push(Part::Thinking(Thinking { text, ..Thinking::default() })),
            (Piece::Signature { signature, .. }, Some(Part::Thinking(thinking))) if thinking.signature.is_none() => {
                thinking.signature = Some(signature);
            }
            (Piece::Signature { signature, .. }, _) => {
                parts.push(Part::Thinking(Thinking { signature: Some(signature), ..Thinking::default() }));
            }
            (Piece::Call { id, name, signature, .. }, _) => {
                parts.push(Part::Call(Call { id, name, signature, ..Call::default() }));
            }
            (Piece::Arguments { text, .. }, Some(Part::Call(call))) => call.arguments.push_str(&text),
            (other, _) => panic!("{other:?}"),
        }
    }
    parts
}

fn there_and_back(sent: &Value) -> Value {
    let data = json!({ "candidates": [{ "content": { "parts": sent, "role": "model" } }] });
    let event = Event { raw: Bytes::from(format!("data: {data}\n\n")) };
    let mut pieces = Vec::new();
    Reader::default().read(&event, &mut pieces);
    let turns = vec![Turn { role: Role::Assistant, parts: parts(pieces) }];
    let mut losses = Losses::default();
    let conversation = Conversation { turns, ..Conversation::default() };
    let options = Options { model: "gemini-3-pro".to_owned(), ..Options::default() };
    let body = request(&conversation, &options, &mut losses);
    assert!(losses.is_empty(), "{losses:?}");
    body["contents"][0]["parts"].clone()
}

#[test]
fn an_answer_goes_back_as_it_was() {
    let sent = json!([
        { "text": "hm", "thoughtSignature": "s1", "thought": true },
        { "text": "Let me see." },
        { "functionCall": { "name": "get", "args": { "b": [1.5, null], "a": "é" } }, "thoughtSignature": "s2" },
        { "functionCall": { "name": "put", "args": {} } },
        { "text": "", "thoughtSignature": "s3" },
    ]);
    assert_eq!(there_and_back(&sent), sent);
}

proptest::proptest! {
    #[test]
    fn arguments_go_back_as_they_were(name in "[a-z]{1,5}", text in "\\PC{0,20}", number: i64, flag: bool) {
        let args = json!({ name: { "t": text, "n": [number, flag, null, {}] } });
        let sent = json!([{ "functionCall": { "name": "f", "args": args }, "thoughtSignature": "s" }]);
        proptest::prop_assert_eq!(there_and_back(&sent), sent);
    }
}
