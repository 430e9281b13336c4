//! The bytes that providers of each dialect send, frame by frame: written by hand from the vendors' documentation, so
//! that it shares no code with the gateway's writers.

use bytes::Bytes;
use serde_json::{Value, json};

use super::eventstream::{message, prelude};

/// The dialect of a fake provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    OpenAi,
    Responses,
    Anthropic,
    Gemini,
    Bedrock,
    Ollama,
}

/// One answer under construction: some dialects repeat earlier parts, and one numbers its events.
#[derive(Clone, Debug, Default)]
pub(super) struct Voice {
    pub(super) dialect: Dialect,
    said: String,
    sequence: u64,
    reason: String,
}

impl Dialect {
    /// The name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Responses => "responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Bedrock => "bedrock",
            Dialect::Ollama => "ollama",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Dialect::Bedrock => "application/vnd.amazon.eventstream",
            Dialect::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        }
    }

    /// The path of a chat with the model `m`, after a base URL with the path `/v1`.
    pub fn path(self) -> &'static str {
        match self {
            Dialect::OpenAi => "/v1/chat/completions",
            Dialect::Responses => "/v1/responses",
            Dialect::Anthropic => "/v1/messages",
            Dialect::Gemini => "/v1/models/m:streamGenerateContent?alt=sse",
            Dialect::Bedrock => "/v1/model/m/converse-stream",
            Dialect::Ollama => "/v1/api/chat",
        }
    }

    /// The first bytes of one event that does not end for 16 MiB.
    pub fn endless(self) -> Bytes {
        match self {
            Dialect::Bedrock => Bytes::from(prelude(16 << 20, 0)),
            Dialect::Ollama => Bytes::from_static(b"{\"message\":{\"content\":\""),
            _ => Bytes::from_static(b"data: "),
        }
    }

    /// An event with a text that is cut in its middle.
    pub fn damaged(self) -> Bytes {
        match self {
            Dialect::OpenAi => Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"lo\n\n"),
            Dialect::Responses => {
                Bytes::from_static(b"data: {\"type\":\"response.output_text.delta\",\"delta\":\"lo\n\n")
            }
            Dialect::Anthropic => Bytes::from_static(
                b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"lo\n\n",
            ),
            Dialect::Gemini => {
                Bytes::from_static(b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo\n\n")
            }
            Dialect::Bedrock => frame("contentBlockDelta", &"{\"contentBlockIndex\":0,\"delta\":{\"text\":\"lo"),
            Dialect::Ollama => Bytes::from_static(b"{\"message\":{\"content\":\"lo\n"),
        }
    }

    /// Events that are no JSON and cannot have carried a part of an answer.
    pub fn noise(self) -> Vec<Bytes> {
        match self {
            Dialect::Bedrock => vec![frame("keepAlive", &""), frame("keepAlive", &"ping")],
            Dialect::Ollama => vec![Bytes::from_static(b"\n"), Bytes::from_static(b"ping\n")],
            _ => [
                ": {\"a\"\n\n",
                "OK\n\n",
                "event: x\n\n",
                "event: x\ndata:\n\n",
                "id: {\"a\"\n\n",
                "data: ping\n\n",
                "data: [keep-alive]\n\n",
                "<html>{\"a\"\n\n",
            ]
            .map(|event| Bytes::from_static(event.as_bytes()))
            .into(),
        }
    }

    /// Cached tokens out of the ten tokens of a prompt. None: the dialect's streams do not report them.
    pub fn cached_tokens(self) -> Option<u64> {
        (!matches!(self, Dialect::OpenAi | Dialect::Ollama)).then_some(3)
    }
}

impl Voice {
    pub(super) fn new(dialect: Dialect) -> Voice {
        Voice { dialect, ..Voice::default() }
    }

    /// The events before the first token, without content.
    pub(super) fn role(&mut self) -> Vec<Bytes> {
        match self.dialect {
            Dialect::OpenAi => vec![delta(json!({"role": "assistant", "content": ""}))],
            Dialect::Responses => {
                let [created, in_progress] = ["response.created", "response.in_progress"]
                    .map(|name| self.numbered(name, json!({"response": response("in_progress", Value::Null)})));
                let item = json!({"type": "message", "id": "msg_fake", "status": "in_progress", "role": "assistant", "content": []});
                let added = self.numbered("response.output_item.added", json!({"output_index": 0, "item": item}));
                let part = self.numbered("response.content_part.added", part(""));
                vec![created, in_progress, added, part]
            }
            Dialect::Anthropic => {
                let message = json!({
                    "id": "msg_fake", "type": "message", "role": "assistant", "model": "fake-model", "content": [],
                    "stop_reason": null, "stop_sequence": null,
                    "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0, "output_tokens": 1},
                });
                vec![
                    named("message_start", json!({ "message": message })),
                    named("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
                    named("ping", json!({})),
                ]
            }
            Dialect::Gemini => vec![candidate(json!({"content": {"role": "model"}, "index": 0}), 0)],
            Dialect::Bedrock => vec![frame("messageStart", &json!({"role": "assistant"}))],
            Dialect::Ollama => vec![line(json!({"message": {"role": "assistant", "content": ""}, "done": false}))],
        }
    }

    pub(super) fn token(&mut self, text: &str) -> Vec<Bytes> {
        self.said.push_str(text);
        vec![match self.dialect {
            Dialect::OpenAi => delta(json!({ "content": text })),
            Dialect::Responses => {
                let of = json!({"item_id": "msg_fake", "output_index": 0, "content_index": 0, "delta": text, "logprobs": []});
                self.numbered("response.output_text.delta", of)
            }
            Dialect::Anthropic => {
                named("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}}))
            }
            Dialect::Gemini => {
                candidate(json!({"content": {"role": "model", "parts": [{ "text": text }]}, "index": 0}), 1)
            }
            Dialect::Bedrock => frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}})),
            Dialect::Ollama => line(json!({"message": {"role": "assistant", "content": text}, "done": false})),
        }]
    }

    /// The end of the text with its reason, in OpenAI's words `stop` or `length`. If a dialect sends the reason only
    /// with its last event, [`Voice::done`] sends that event.
    pub(super) fn finish(&mut self, reason: &str) -> Vec<Bytes> {
        reason.clone_into(&mut self.reason);
        let stop = |stop: &str, length: &str| if reason == "length" { length.to_owned() } else { stop.to_owned() };
        match self.dialect {
            Dialect::OpenAi => vec![chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]))],
            Dialect::Responses => {
                let text = self.said.clone();
                let done =
                    json!({"item_id": "msg_fake", "output_index": 0, "content_index": 0, "text": text, "logprobs": []});
                let item = item(&text);
                vec![
                    self.numbered("response.output_text.done", done),
                    self.numbered("response.content_part.done", part(&text)),
                    self.numbered("response.output_item.done", json!({"output_index": 0, "item": item})),
                ]
            }
            Dialect::Anthropic => {
                let delta = json!({"stop_reason": stop("end_turn", "max_tokens"), "stop_sequence": null});
                let usage = json!({"output_tokens": 2});
                vec![
                    named("content_block_stop", json!({"index": 0})),
                    named("message_delta", json!({"delta": delta, "usage": usage})),
                ]
            }
            Dialect::Gemini => {
                let parts = json!([{"text": ""}]);
                let reason = stop("STOP", "MAX_TOKENS");
                let of = json!({"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0});
                vec![candidate(of, 2)]
            }
            Dialect::Bedrock => vec![
                frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
                frame("messageStop", &json!({"stopReason": stop("end_turn", "max_tokens")})),
            ],
            Dialect::Ollama => Vec::new(),
        }
    }

    /// The end of the stream; empty if the dialect has none.
    pub(super) fn done(&mut self) -> Vec<Bytes> {
        match self.dialect {
            Dialect::OpenAi => vec![Bytes::from_static(b"data: [DONE]\n\n")],
            Dialect::Responses => {
                let cut = self.reason == "length";
                let (name, status) =
                    if cut { ("response.incomplete", "incomplete") } else { ("response.completed", "completed") };
                let mut whole = response(status, json!([item(&self.said)]));
                whole["usage"] = json!({
                    "input_tokens": 10, "input_tokens_details": {"cached_tokens": 3},
                    "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12,
                });
                if cut {
                    whole["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                vec![self.numbered(name, json!({ "response": whole }))]
            }
            Dialect::Anthropic => vec![named("message_stop", json!({}))],
            Dialect::Gemini => Vec::new(),
            Dialect::Bedrock => {
                let usage = json!({"inputTokens": 7, "cacheReadInputTokens": 3, "outputTokens": 2, "totalTokens": 12});
                vec![frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 5}}))]
            }
            Dialect::Ollama => vec![line(json!({
                "message": {"role": "assistant", "content": ""}, "done": true,
                "done_reason": if self.reason.is_empty() { "stop" } else { &self.reason },
                "total_duration": 5_000_000, "load_duration": 1_000, "prompt_eval_count": 10, "prompt_eval_duration": 2_000_000,
                "eval_count": 2, "eval_duration": 3_000_000,
            }))],
        }
    }

    /// Everything that a server may send before it has generated anything, except the role.
    pub(super) fn nothing(&mut self) -> Vec<Bytes> {
        let comment = Bytes::from_static(b": ping\n\n");
        match self.dialect {
            Dialect::OpenAi => vec![
                comment,
                self.token("").remove(0),
                delta(json!({"reasoning_content": "", "tool_calls": [], "refusal": null, "content": null})),
                Bytes::from_static(b"event: ping\ndata: {}\n\n"),
                Bytes::from_static(b"data: {\"choices\":[],\"prompt_filter_results\":[{\"x\":1}]}\n\n"),
            ],
            Dialect::Responses => {
                let thought =
                    json!({"type": "reasoning", "id": "rs_fake", "summary": [], "encrypted_content": "c2VjcmV0"});
                let added = self.numbered("response.output_item.added", json!({"output_index": 1, "item": thought}));
                vec![comment, self.token("").remove(0), added]
            }
            Dialect::Anthropic => {
                let delta = |delta: Value| named("content_block_delta", json!({"index": 1, "delta": delta}));
                let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                vec![
                    comment,
                    named("ping", json!({})),
                    self.token("").remove(0),
                    named("content_block_stop", json!({"index": 0})),
                    named("content_block_start", json!({"index": 1, "content_block": block})),
                    delta(json!({"type": "thinking_delta", "thinking": ""})),
                    delta(json!({"type": "signature_delta", "signature": "c2lnbmF0dXJl"})),
                    named("content_block_stop", json!({"index": 1})),
                ]
            }
            Dialect::Gemini => {
                let usage = json!({"usageMetadata": {"promptTokenCount": 10}, "modelVersion": "fake-model"});
                vec![comment, self.token("").remove(0), Bytes::from(format!("data: {usage}\n\n"))]
            }
            Dialect::Bedrock => {
                let signature = json!({"reasoningContent": {"signature": "c2lnbmF0dXJl"}});
                vec![
                    self.token("").remove(0),
                    frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": signature})),
                    frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
                ]
            }
            Dialect::Ollama => vec![Bytes::from_static(b"\n"), self.token("").remove(0)],
        }
    }

    /// An error inside a 200: the server is overloaded.
    pub(super) fn error(&mut self, said: &str) -> Vec<Bytes> {
        vec![match self.dialect {
            Dialect::OpenAi => data(&json!({"error": {"message": said, "type": "overloaded_error"}})),
            Dialect::Responses => {
                let mut failed = response("failed", Value::Null);
                failed["error"] = json!({"code": "server_error", "message": said});
                self.numbered("response.failed", json!({ "response": failed }))
            }
            Dialect::Anthropic => named("error", json!({"error": {"type": "overloaded_error", "message": said}})),
            Dialect::Gemini => data(&json!({"error": {"code": 503, "message": said, "status": "UNAVAILABLE"}})),
            Dialect::Bedrock => {
                let headers = [(":message-type", "exception"), (":exception-type", "serviceUnavailableException")];
                message(&headers, &json!({ "message": said }))
            }
            Dialect::Ollama => Bytes::from(format!("{}\n", json!({ "error": said }))),
        }]
    }

    /// An event of the Responses surface: `type` is its name, and each has a number.
    fn numbered(&mut self, name: &str, members: Value) -> Bytes {
        let number = self.sequence;
        self.sequence += 1;
        named(name, with(json!({"sequence_number": number}), members))
    }
}

/// A chunk of chat with one choice that has this delta.
pub(super) fn delta(delta: Value) -> Bytes {
    chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]))
}

fn chunk(choices: Value) -> Bytes {
    data(&chunk_json(choices))
}

pub(super) fn chunk_json(choices: Value) -> Value {
    json!({
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "fake-model",
        "choices": choices,
    })
}

fn data(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// An event that also has its name in its data.
fn named(name: &str, members: Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {}\n\n", with(json!({ "type": name }), members)))
}

fn with(mut object: Value, members: Value) -> Value {
    if let (Value::Object(object), Value::Object(members)) = (&mut object, members) {
        object.extend(members);
    }
    object
}

fn response(status: &str, output: Value) -> Value {
    let output = if output.is_null() { json!([]) } else { output };
    json!({
        "id": "resp_fake", "object": "response", "created_at": 1_700_000_000, "status": status, "model": "fake-model",
        "output": output, "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
        "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto", "tools": [],
        "usage": null,
    })
}

fn part(text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"item_id": "msg_fake", "output_index": 0, "content_index": 0, "part": part})
}

fn item(text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": "msg_fake", "status": "completed", "role": "assistant", "content": content})
}

/// A chunk of Gemini; its usage grows.
fn candidate(candidate: Value, output_tokens: u64) -> Bytes {
    data(&json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": 10, "cachedContentTokenCount": 3, "candidatesTokenCount": output_tokens,
            "totalTokenCount": 10 + output_tokens,
        },
        "modelVersion": "fake-model",
        "responseId": "fake",
    }))
}

fn line(members: Value) -> Bytes {
    let head = json!({"model": "fake-model", "created_at": "2026-01-01T00:00:00Z"});
    Bytes::from(format!("{}\n", with(head, members)))
}

/// An event of Bedrock.
pub fn frame(event: &str, payload: &impl std::fmt::Display) -> Bytes {
    let headers = [(":event-type", event), (":content-type", "application/json"), (":message-type", "event")];
    message(&headers, payload)
}
