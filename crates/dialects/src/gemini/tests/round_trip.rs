//! Gemini gets its own output back unchanged, signatures included.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::gemini::{GeminiReader, request};
use photofinish_wire::conversation::{
    AnswerPiece, Conversation, ConversationTurn, Losses, MessagePart, ReadPieces, ReasoningPart, Role, ToolCall,
};
use photofinish_wire::dialect::Dialect;
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::sse::SseEvent;

/// The parts of one answer, as a client sends them back.
fn parts(pieces: Vec<AnswerPiece>) -> Vec<MessagePart> {
    let mut parts = Vec::new();
    for piece in pieces {
        match (piece, parts.last_mut()) {
            (AnswerPiece::Text { text, .. }, _) => parts.push(MessagePart::Text { text, cache: None }),
            (AnswerPiece::Thinking { text, .. }, _) => {
                parts.push(MessagePart::Thinking(ReasoningPart { text, ..ReasoningPart::default() }))
            }
            (AnswerPiece::Signature { signature, .. }, Some(MessagePart::Thinking(thinking)))
                if thinking.signature.is_none() =>
            {
                thinking.signature = Some(signature);
            }
            (AnswerPiece::Signature { signature, .. }, _) => {
                parts.push(MessagePart::Thinking(ReasoningPart {
                    signature: Some(signature),
                    ..ReasoningPart::default()
                }));
            }
            (AnswerPiece::Call { id, name, signature, .. }, _) => {
                parts.push(MessagePart::Call(ToolCall { id, name, signature, ..ToolCall::default() }));
            }
            (AnswerPiece::Arguments { text, .. }, Some(MessagePart::Call(call))) => call.arguments.push_str(&text),
            (AnswerPiece::CallEnd { .. }, _) => {}
            (other, _) => panic!("{other:?}"),
        }
    }
    parts
}

fn there_and_back(sent: &Value) -> Value {
    let data = json!({ "candidates": [{ "content": { "parts": sent, "role": "model" } }] });
    let event = SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) };
    let mut pieces = Vec::new();
    GeminiReader::default().read(&event, &mut pieces);
    let turns = vec![ConversationTurn { role: Role::Assistant, parts: parts(pieces) }];
    let mut losses = Losses::default();
    let conversation = Conversation { turns, ..Conversation::default() };
    let options = TranslationOptions::of_model(Dialect::Gemini, "gemini-3-pro");
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
