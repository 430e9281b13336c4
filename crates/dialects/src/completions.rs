//! OpenAI's other APIs in the chat dialect: legacy completions and embeddings. Their events are read like chat's.

use bytes::{BufMut, BytesMut};
use serde_json::Value;

use super::openai::{ChunkNames, choice_rule, chunk_rule, usage_json, with_choices};
use photofinish_wire::answer::growing::{GrowingForm, GrownAnswer, MemberPlace, Rule, Whole, says, with};
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::members::{
    BOOLEAN, INTEGER, NUMBER, STRING, TypeRule, check_types, empty_list, is_empty_list, kind_of_text, required,
};
use photofinish_wire::conversation::{AnswerPiece, FinishReason, WritePieces};
use photofinish_wire::json::values::{PutMember, json};

const TYPES: [TypeRule; 5] = [
    (&["prompt"], "one of a string or array", &["a string", "an array"]),
    (&["temperature", "top_p", "presence_penalty", "frequency_penalty"], "a decimal number", NUMBER),
    (&["max_tokens", "n", "best_of", "seed", "logprobs"], "an integer", INTEGER),
    (&["echo"], "a boolean", BOOLEAN),
    (&["suffix", "user"], "a string", STRING),
];
const EMBEDDINGS: [TypeRule; 3] = [
    (&["input"], "one of a string or array", &["a string", "an array"]),
    (&["dimensions"], "an integer", INTEGER),
    (&["encoding_format", "user"], "a string", STRING),
];

/// Checks the top level of a completion request.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    required("prompt", member)?;
    check_types(&TYPES, &|name| member(name).map(kind_of_text))
}

/// Checks the top level of an embeddings request.
///
/// # Errors
/// The problem, in the vendor's words.
pub fn check_embeddings<'a>(member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
    if is_empty_list(required("input", member)?) {
        return Err(empty_list("input"));
    }
    check_types(&EMBEDDINGS, &|name| member(name).map(kind_of_text))
}

/// Continues a completion that another upstream began. Nothing else writes completions, because they are never
/// translated.
pub struct CompletionContinuation {
    names: ChunkNames,
    include_usage: bool,
    usage: Option<Usage>,
    finished: bool,
}

impl CompletionContinuation {
    pub fn behind(names: &ChunkNames, include_usage: bool) -> CompletionContinuation {
        CompletionContinuation { names: names.clone(), include_usage, usage: None, finished: false }
    }

    fn chunk(&self, choices: &Value, usage: Option<Value>, out: &mut BytesMut) {
        let ChunkNames { id, model, created } = &self.names;
        let mut chunk = json!({
            "id": id, "object": "text_completion", "created": created, "model": model, "choices": choices,
        });
        chunk.put("usage", usage);
        out.put_slice(format!("data: {chunk}\n\n").as_bytes());
    }

    fn choice(&self, text: &str, finish: Option<&str>, out: &mut BytesMut) {
        let choice = json!({ "text": text, "index": 0, "logprobs": null, "finish_reason": finish });
        self.chunk(&Value::Array(vec![choice]), None, out);
    }

    fn finish(&mut self, reason: &str, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.finished, true) {
            self.choice("", Some(reason), out);
        }
    }
}

impl WritePieces for CompletionContinuation {
    fn write(&mut self, piece: AnswerPiece, out: &mut BytesMut) {
        match piece {
            AnswerPiece::Text { index: 0, text } => self.choice(&text, None, out),
            AnswerPiece::Finish { index: 0, finish } => {
                let reason = match &finish {
                    FinishReason::Length | FinishReason::Other(_) => "length",
                    FinishReason::Filtered | FinishReason::Refusal => "content_filter",
                    FinishReason::Stop
                    | FinishReason::StopSequence(_)
                    | FinishReason::ToolCalls
                    | FinishReason::Pause => "stop",
                };
                self.finish(reason, out);
            }
            AnswerPiece::Usage(usage) => self.usage = Some(usage.or(self.usage.unwrap_or_default())),
            _ => {}
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        self.finish("stop", out);
        if let Some(usage) = self.usage.filter(|_| self.include_usage) {
            self.chunk(&json!([]), Some(usage_json(&usage)), out);
        }
        out.put_slice(b"data: [DONE]\n\n");
    }
}

/// How a whole completion grows.
pub struct CompletionWhole;

impl GrowingForm for CompletionWhole {
    fn add(&mut self, text: &str, _name: &[u8], answer: &mut GrownAnswer) -> Option<()> {
        answer.grow_listed(text, "choices", chunk_rule, |answer, at, name, raw| match name {
            "text" => answer.grow(MemberPlace::Part(at), name, raw, Rule::Text),
            name => answer.grow(MemberPlace::Part(at), name, raw, choice_rule(name)),
        })
    }

    fn finish(&mut self, mut answer: GrownAnswer) -> Option<Whole> {
        // Some providers send no finish reason. The stream was accepted as complete.
        let choices = answer.lay_out(|_, choice| {
            let empty = json!({ "text": "", "index": (choice.index), "logprobs": null, "finish_reason": "stop" });
            Some(with(empty, choice.members))
        })?;
        let says_nothing = !choices.iter().any(|choice| says(&choice["text"]));
        Some(Whole::new(&with_choices("text_completion", choices, answer), says_nothing))
    }
}

#[cfg(test)]
mod tests {
    use crate::SurfaceFormat as _;
    use serde_json::json;

    use super::super::openai;
    use bytes::Bytes;
    use photofinish_wire::Surface;
    use photofinish_wire::stream::frame::{Chunk, Frame};

    use super::*;
    use photofinish_wire::stream::sse::SseEvent;

    fn event(data: &str) -> SseEvent {
        SseEvent { raw: Bytes::from(format!("data: {data}\n\n")) }
    }

    fn assemble(chunks: &[Value]) -> Value {
        let mut growing = Surface::Completions.growing();
        assert!(chunks.iter().all(|chunk| growing.add(&event(&chunk.to_string()))));
        assert!(growing.add(&event("[DONE]")) && growing.add(&SseEvent { raw: Bytes::from(": wait\n\n") }));
        serde_json::from_slice(&growing.finish().unwrap().body).unwrap()
    }

    #[test]
    fn texts_and_probabilities_grow() {
        let answer = assemble(&[
            json!({"id":"cmpl-1","object":"text_completion","created":5,"model":"m","system_fingerprint":"f","choices":[
                {"text":"He","index":0,"logprobs":{"tokens":["He"],"text_offset":[0]},"finish_reason":null,"token_ids":[3]},
                {"text":"x","index":1,"logprobs":null,"finish_reason":null}]}),
            json!({"id":"cmpl-2","choices":[{"text":"y","index":1,"finish_reason":"stop","stop_reason":7}],"usage":null}),
            json!({"choices":[{"text":"y","index":0,"logprobs":{"tokens":["y"],"text_offset":[2]},"finish_reason":"length","token_ids":[4]}]}),
            json!({"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}),
        ]);
        assert_eq!(
            answer,
            json!({"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[
                {"text":"Hey","index":0,"logprobs":{"tokens":["He","y"],"text_offset":[0,2]},"finish_reason":"length","token_ids":[3,4]},
                {"text":"xy","index":1,"logprobs":null,"finish_reason":"stop","stop_reason":7}],
                "usage":{"prompt_tokens":2,"completion_tokens":3},"system_fingerprint":"f"})
        );
        assert!(!Surface::Completions.growing().add(&event("{")));
    }

    #[test]
    fn text_is_payload_unless_it_repeats_a_delta() {
        let chunk = |json: &str| match openai::read(&event(json)) {
            Frame::Chunk(Chunk { payload, finish_reason, finished, .. }) => {
                (payload.map_or(0, |payload| payload.chars), finish_reason.is_some(), finished)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(
            chunk(r#"{"choices":[{"text":"hey","index":0,"logprobs":null,"finish_reason":null}]}"#),
            (3, false, 0)
        );
        assert_eq!(chunk(r#"{"choices":[{"text":"","index":1,"finish_reason":"stop"}]}"#), (0, true, 2));
        assert_eq!(chunk(r#"{"choices":[{"text":"hey","index":0,"delta":{"content":"hey"}}]}"#), (3, false, 0));
        assert_eq!(chunk(r#"{"choices":[{"text":"hey","index":0,"delta":{}}]}"#), (0, false, 0));
    }

    #[test]
    fn a_whole_completion_is_one_event_and_comes_back() {
        let whole = json!({"id":"c","object":"text_completion","created":1,"model":"m",
            "choices":[{"text":"hi","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1}});
        let events = openai::events_of_whole(whole.to_string().as_bytes()).unwrap();
        let text = std::str::from_utf8(&events).unwrap();
        let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\ndata: [DONE]\n\n").unwrap();
        assert_eq!(assemble(&[serde_json::from_str(data).unwrap()]), whole);
        assert_eq!(openai::events_of_whole(br#"{"choices":[{"index":0}]}"#), None);
    }

    #[test]
    fn what_is_required_is_asked_for_in_the_vendor_s_words() {
        type Check = fn(&dyn Fn(&str) -> Option<&'static str>) -> Result<(), Invalid>;
        let completions: Check = check;
        let embeddings: Check = check_embeddings;
        type Members = &'static [(&'static str, &'static str)];
        let cases: [(Check, Members, Option<&str>); 9] = [
            (completions, &[], Some("Missing required parameter: 'prompt'.")),
            (completions, &[("prompt", "null")], Some("Missing required parameter: 'prompt'.")),
            (
                completions,
                &[("prompt", "7")],
                Some("Invalid type for 'prompt': expected one of a string or array, but got an integer instead."),
            ),
            (
                completions,
                &[("prompt", "\"x\""), ("max_tokens", "\"7\"")],
                Some("Invalid type for 'max_tokens': expected an integer, but got a string instead."),
            ),
            (completions, &[("prompt", "[1, 2]"), ("temperature", "1"), ("echo", "true")], None),
            (embeddings, &[], Some("Missing required parameter: 'input'.")),
            (
                embeddings,
                &[("input", "[ ]")],
                Some(
                    "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.",
                ),
            ),
            (
                embeddings,
                &[("input", "{}")],
                Some("Invalid type for 'input': expected one of a string or array, but got an object instead."),
            ),
            (embeddings, &[("input", "\"x\""), ("dimensions", "null")], None),
        ];
        for (check, members, expected) in cases {
            let members: std::collections::HashMap<&str, &'static str> = members.iter().copied().collect();
            let result = check(&|name| members.get(name).copied());
            assert_eq!(result.err().map(|invalid| invalid.message).as_deref(), expected, "{members:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in "[\\[\\]{}\":,a-z0-9]{0,60}") {
            let mut growing = Surface::Completions.growing();
            growing.add(&event(&bytes));
            growing.add(&event(&format!(r#"{{"choices":[{{"index":0,"text":{bytes},"logprobs":{bytes}}}]}}"#)));
            growing.finish();
            check(&|_| Some(Box::leak(bytes.clone().into_boxed_str()))).ok();
            check_embeddings(&|_| Some(Box::leak(bytes.clone().into_boxed_str()))).ok();
        }
    }
}
