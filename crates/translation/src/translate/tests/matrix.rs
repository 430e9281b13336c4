//! Every owner's signatures through every surface: the owner gets them back unchanged, and no other vendor gets them.

use bytes::{Bytes, BytesMut};
use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use serde_json::Value;

use photofinish_wire::dialect::{Dialect, Surface};

use crate::request::ApiRequest;
use crate::translate::request::RequestTranslation;
use photofinish_wire::conversation::Losses;
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::values::json;
use photofinish_wire::quirks::TranslationOptions;

/// Signatures in the format of an owner. Only they contain `Sig`.
const SIGNATURES: [&str; 3] = ["SigThought", "SigHidden", "SigCall"];
const SURFACES: [Surface; 3] = [Surface::Chat, Surface::Messages, Surface::Responses];

/// A dialect whose models sign their thoughts.
struct Maker {
    dialect: Dialect,
    model: &'static str,
    /// A whole answer with a thought, text and a call.
    answer: Value,
    /// The signatures that must come back, in this order.
    wants: Vec<Value>,
}

fn makers() -> [Maker; 4] {
    let summary = json!([{ "type": "summary_text", "text": "hm" }]);
    let reasoning =
        |summary: &Value, data: &str| json!({ "type": "reasoning", "summary": summary, "encrypted_content": data });
    let blocks = [
        json!({ "type": "thinking", "thinking": "hm", "signature": "SigThought" }),
        json!({ "type": "redacted_thinking", "data": "SigHidden" }),
    ];
    let of_bedrock = [
        json!({ "reasoningContent": { "reasoningText": { "text": "hm", "signature": "SigThought" } } }),
        json!({ "reasoningContent": { "redactedContent": "SigHidden" } }),
    ];
    let parts = [
        json!({ "text": "hm", "thought": true, "thoughtSignature": "SigThought" }),
        json!({ "text": "So." }),
        json!({ "text": "", "thoughtSignature": "SigHidden" }),
        json!({ "functionCall": { "name": "f", "args": { "a": 1 } }, "thoughtSignature": "SigCall" }),
    ];
    [
        Maker {
            dialect: Dialect::Anthropic,
            model: "claude-sonnet-4-5",
            answer: json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
                "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 2 }, "content": [
                    blocks[0], blocks[1], { "type": "text", "text": "So." },
                    { "type": "tool_use", "id": "call_1", "name": "f", "input": { "a": 1 } },
                ],
            }),
            wants: blocks.to_vec(),
        },
        Maker {
            dialect: Dialect::Responses,
            model: "gpt-5",
            answer: json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [
                reasoning(&summary, "SigThought"), reasoning(&json!([]), "SigHidden"),
                { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "So.", "annotations": [] }] },
                { "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{\"a\":1}" },
            ] }),
            wants: vec![reasoning(&summary, "SigThought"), reasoning(&json!([]), "SigHidden")],
        },
        Maker {
            dialect: Dialect::Gemini,
            model: "gemini-3-pro",
            answer: json!({ "modelVersion": "m", "candidates": [
                { "finishReason": "STOP", "content": { "role": "model", "parts": parts } },
            ] }),
            wants: vec![parts[0].clone(), parts[2].clone(), parts[3].clone()],
        },
        Maker {
            dialect: Dialect::Bedrock,
            model: "anthropic.claude-sonnet-4-5-20250929-v1:0",
            answer: json!({ "stopReason": "tool_use", "output": { "message": { "role": "assistant", "content": [
                of_bedrock[0], of_bedrock[1], { "text": "So." },
                { "toolUse": { "toolUseId": "call_1", "name": "f", "input": { "a": 1 } } },
            ] } } }),
            wants: of_bedrock.to_vec(),
        },
    ]
}

/// The vendor that accepts a dialect's signatures. Claude signs in the same way on every platform.
fn owner(dialect: Dialect) -> Dialect {
    if dialect == Dialect::Bedrock { Dialect::Anthropic } else { dialect }
}

/// The answer as a client of the surface gets it.
pub(super) fn through(dialect: Dialect, surface: Surface, answer: &Value) -> Value {
    let stream = dialect.events_of_whole(surface, answer.to_string().as_bytes()).unwrap();
    let (mut reader, mut pieces) = (dialect.reader(), Vec::new());
    let mut decoder = dialect.framing().decoder(1 << 20);
    decoder.push(stream);
    while let Some(event) = decoder.next_event().unwrap() {
        reader.read(&event, &mut pieces);
    }
    let (mut writer, mut out) = (surface.writer("asked", true, false, false, &Default::default()), BytesMut::new());
    pieces.into_iter().for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    let (mut growing, mut decoder) = (surface.growing(), surface.dialect().framing().decoder(1 << 20));
    decoder.push(out.freeze());
    while let Some(event) = decoder.next_event().unwrap() {
        assert!(growing.add(&event), "{event:?}");
    }
    parse(&growing.finish().unwrap().body).unwrap()
}

/// The next request of a client that sends the answer back, with the tool's result.
pub(super) fn follow_up(surface: Surface, answer: &Value) -> Value {
    let user = json!({ "role": "user", "content": "Hi" });
    match surface {
        Surface::Chat => {
            let message = &answer["choices"][0]["message"];
            let result = json!({ "role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok" });
            json!({ "model": "m", "messages": [user, message, result] })
        }
        Surface::Messages => {
            let blocks = answer["content"].as_array().unwrap();
            let call = blocks.iter().find(|block| block["type"] == "tool_use").unwrap();
            let result = json!([{ "type": "tool_result", "tool_use_id": call["id"], "content": "ok" }]);
            json!({ "model": "m", "max_tokens": 9, "messages": [
                user, { "role": "assistant", "content": blocks }, { "role": "user", "content": result },
            ] })
        }
        _ => {
            let mut input = vec![user];
            input.extend(answer["output"].as_array().unwrap().iter().cloned());
            let call = input.iter().find(|item| item["type"] == "function_call").unwrap();
            let result = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "ok" });
            input.push(result);
            json!({ "model": "m", "input": input })
        }
    }
}

/// Whether an object within `value` has all these members.
fn holds(value: &Value, wanted: &Value) -> bool {
    let has = |(name, wanted): (&String, &Value)| value.get(name) == Some(wanted);
    match value {
        Value::Object(members) => {
            wanted.as_object().unwrap().iter().all(has) || members.values().any(|inner| holds(inner, wanted))
        }
        Value::Array(items) => items.iter().any(|inner| holds(inner, wanted)),
        _ => false,
    }
}

fn bears_no_signature(body: &str, place: &str) {
    for trace in SIGNATURES.into_iter().chain(["photofinish"]) {
        assert!(!body.contains(trace), "{trace} in {place}: {body}");
    }
}

#[test]
fn each_maker_gets_back_what_it_signed_and_nobody_else_does() {
    for maker in makers() {
        for surface in SURFACES {
            let body = follow_up(surface, &through(maker.dialect, surface, &maker.answer)).to_string();
            let conversation = surface.conversation(body.as_bytes()).unwrap();
            assert!(conversation.losses.is_empty(), "{surface:?} {:?}", conversation.losses);
            for to in Dialect::ALL {
                let place = format!("{:?} by {surface:?} to {to:?}", maker.dialect);
                let same = makers().into_iter().find(|maker| maker.dialect == to);
                let model = same.as_ref().map_or("m", |maker| maker.model).to_owned();
                let mut losses = Losses::default();
                let request = to.request(&conversation, &TranslationOptions::of_model(to, model), &mut losses);
                let text = request.to_string();
                match same.filter(|_| owner(to) == owner(maker.dialect)) {
                    None => {
                        bears_no_signature(&text, &place);
                        assert!(losses.keeps_settings(), "{place}: {losses:?}");
                    }
                    Some(same) => {
                        for wanted in &same.wants {
                            assert!(holds(&request, wanted), "{wanted} in {place}: {request}");
                        }
                        let found: Vec<usize> = SIGNATURES.iter().filter_map(|sign| text.find(sign)).collect();
                        assert!(found.is_sorted() && found.len() == same.wants.len(), "{place}: {request}");
                        for sign in SIGNATURES {
                            assert!(text.matches(sign).count() <= 1, "{place}: {request}");
                        }
                        assert!(!text.contains("photofinish"), "{place}: {request}");
                    }
                }
                assert!(text.contains("So."), "{place}: {request}");
            }
        }
    }
}

#[test]
fn upstreams_of_the_surface_s_own_dialect_get_no_other_maker_s_signature() {
    for maker in makers() {
        for surface in SURFACES {
            let place = format!("{:?} by {surface:?}", maker.dialect);
            let body = follow_up(surface, &through(maker.dialect, surface, &maker.answer)).to_string();
            let request = ApiRequest::parse(surface, Bytes::from(body.clone())).unwrap();
            let request_translation = RequestTranslation::untouched(request.into());
            let sent = String::from_utf8(
                request_translation.body_for("m", photofinish_wire::AnswerForm::Streamed).joined().to_vec(),
            )
            .unwrap();
            let cleaned = surface.without_reasoning(body.as_bytes(), RemovedReasoning::Foreign);
            if owner(maker.dialect) == surface.dialect() {
                assert_eq!(cleaned, None, "{place}");
                assert!(
                    request_translation.losses().is_empty() && sent.starts_with(body.trim_end_matches('}')),
                    "{place}: {sent}"
                );
                continue;
            }
            let cleaned = String::from_utf8(cleaned.unwrap()).unwrap();
            assert!(request_translation.losses().keeps_settings() && !request_translation.losses().is_empty());
            for left in [&cleaned, &sent] {
                bears_no_signature(left, &place);
                assert!(left.contains("So.") && left.contains("\"f\""), "{place}: {left}");
                assert!(ApiRequest::parse(surface, Bytes::from(left.clone())).is_ok(), "{place}: {left}");
                assert!(surface.conversation(left.as_bytes()).unwrap().losses.is_empty(), "{place}: {left}");
            }
            assert_eq!(surface.without_reasoning(cleaned.as_bytes(), RemovedReasoning::Foreign), None, "{place}");
        }
    }
}
