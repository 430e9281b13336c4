//! Writes the truth as an upstream of each dialect sends it: as a stream with everything in between, and as a plain
//! whole answer. `chat` has the many ways to number calls. Not for what clients get: see `client`.

mod chat;

use bytes::{BufMut as _, Bytes, BytesMut};
use fastrand::Rng;
use serde_json::{Value, json};

use super::truth::{Finish, Mix, Step, Truth, fragments, shuffled};
use photofinish_wire::dialect::Dialect;
use photofinish_wire::stream::binary::write_event;

/// What is known of a call's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownId {
    Known,
    /// It came when the call may already have been passed on under another.
    Late,
    Never,
}

/// An upstream's stream.
pub(super) struct Written {
    pub bytes: Bytes,
    /// In which of the dialect's ways it is written.
    pub form: &'static str,
    /// A client of this dialect can read it as it is.
    pub plain: bool,
    pub known: KnownOrder,
}

/// What a stream says of its calls.
pub(super) struct KnownOrder {
    /// By call.
    pub ids: Vec<KnownId>,
    /// False if a call became complete enough to be passed on later than one that began after it.
    pub in_order: bool,
}

impl KnownOrder {
    pub fn all(truth: &Truth) -> KnownOrder {
        KnownOrder { ids: vec![KnownId::Known; truth.calls.len()], in_order: true }
    }
}

impl Written {
    fn new(bytes: BytesMut, form: &'static str, truth: &Truth) -> Written {
        Written { bytes: bytes.freeze(), form, plain: true, known: KnownOrder::all(truth) }
    }

    fn without_ids(mut self, without: bool) -> Written {
        self.known.ids.iter_mut().filter(|_| without).for_each(|id| *id = KnownId::Never);
        self
    }
}

/// Whether it has a place for a generated image.
pub(super) fn has_images(dialect: Dialect) -> bool {
    !matches!(dialect, Dialect::Anthropic | Dialect::Ollama)
}

/// The stream of an upstream. `odd`: in any of the dialect's ways, else as its vendor sends it.
pub(super) fn stream(dialect: Dialect, truth: &Truth, odd: bool, rng: &mut Rng) -> Written {
    match dialect {
        Dialect::OpenAi => chat::stream(truth, odd, rng),
        Dialect::Responses => responses(truth, ITEMS[if odd { rng.usize(..ITEMS.len()) } else { 0 }], rng),
        Dialect::Anthropic => anthropic(truth, rng),
        Dialect::Gemini => gemini(truth, rng),
        Dialect::Bedrock => bedrock(truth, rng),
        Dialect::Ollama => ollama(truth, rng),
    }
}

/// The plain whole answer of an upstream.
pub(super) fn whole(dialect: Dialect, truth: &Truth, rng: &mut Rng) -> Bytes {
    let steps = shuffled(truth, &vec![1; truth.calls.len()], Mix::Nothing, rng);
    let (input, output) = truth.usage;
    let reason = reason(dialect, truth.finish);
    let body = match dialect {
        Dialect::OpenAi => chat::whole(truth),
        Dialect::Responses => {
            let items: Vec<Value> =
                steps.iter().enumerate().map(|(at, step)| responses_item(truth, at, step)).collect();
            responses_end(truth, &items)
        }
        Dialect::Anthropic => {
            let blocks = steps.iter().map(|step| match step {
                Step::Text(text) => json!({ "type": "text", "text": text }),
                Step::Reasoning(text) => json!({ "type": "thinking", "thinking": text, "signature": "" }),
                Step::Image(_) => Value::Null,
                Step::Call(call, _) => tool_use(truth, *call, truth.calls[*call].value()),
            });
            json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": reason,
                "stop_sequence": null, "content": blocks.collect::<Vec<_>>(),
                "usage": { "input_tokens": input, "output_tokens": output },
            })
        }
        Dialect::Gemini => gemini_chunk(steps.iter().map(|step| gemini_part(truth, step, true)).collect(), Some(truth)),
        Dialect::Bedrock => {
            let blocks = steps.iter().map(|step| match step {
                Step::Text(text) => json!({ "text": text }),
                Step::Reasoning(text) => json!({ "reasoningContent": { "reasoningText": { "text": text } } }),
                Step::Image(data) => json!({ "image": { "format": "png", "source": { "bytes": data } } }),
                Step::Call(call, _) => {
                    let call = &truth.calls[*call];
                    json!({ "toolUse": { "toolUseId": call.id, "name": call.name, "input": call.value() } })
                }
            });
            json!({
                "output": { "message": { "role": "assistant", "content": blocks.collect::<Vec<_>>() } },
                "stopReason": reason, "metrics": { "latencyMs": 5 },
                "usage": { "inputTokens": input, "outputTokens": output, "totalTokens": input + output },
            })
        }
        Dialect::Ollama => {
            let mut message = json!({
                "role": "assistant", "content": truth.text.concat(), "thinking": truth.reasoning.concat(),
            });
            if !truth.calls.is_empty() {
                message["tool_calls"] = (0..truth.calls.len()).map(|call| ollama_call(truth, call, true)).collect();
            }
            ollama_line(message, Some(truth))
        }
    };
    Bytes::from(body.to_string())
}

/// The dialect's word for an end.
fn reason(dialect: Dialect, finish: Finish) -> &'static str {
    match (dialect, finish) {
        (Dialect::OpenAi, Finish::Calls) => "tool_calls",
        (Dialect::Anthropic | Dialect::Bedrock, Finish::Calls) => "tool_use",
        (Dialect::Anthropic | Dialect::Bedrock, Finish::Stop) => "end_turn",
        (Dialect::Anthropic | Dialect::Bedrock, Finish::Length) => "max_tokens",
        (Dialect::Gemini, Finish::Length) => "MAX_TOKENS",
        (Dialect::Gemini, _) => "STOP",
        (Dialect::Responses, Finish::Length) => "max_output_tokens",
        (_, Finish::Length) => "length",
        _ => "stop",
    }
}

/// Appends a server-sent event.
fn sse(event: &Value, out: &mut BytesMut) {
    if let Some(name) = event["type"].as_str() {
        out.put_slice(format!("event: {name}\n").as_bytes());
    }
    out.put_slice(format!("data: {event}\n\n").as_bytes());
}

/// A part of an answer that comes in blocks or items.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Text,
    Reasoning,
    Image,
    Call(usize),
}

enum BlockEvent {
    Start(usize, Block),
    Delta(usize, Block, String),
    Stop(usize, Block),
}

/// The events of blocks, numbered by their beginnings. `apart`: only one is open at a time.
fn blocks(truth: &Truth, pieces: &[Vec<String>], apart: bool, rng: &mut Rng) -> Vec<BlockEvent> {
    let lengths: Vec<usize> = pieces.iter().map(|pieces| pieces.len() + 2).collect();
    let mix = if apart { Mix::Nothing } else { Mix::All };
    let (mut events, mut open, mut next) = (Vec::new(), Vec::<(usize, Block)>::new(), 0);
    // A long text is one block.
    let may_end = truth.text.len() < 100;
    for step in shuffled(truth, &lengths, mix, rng) {
        let (block, text, is_last) = match step {
            Step::Text(text) => (Block::Text, Some(text), may_end && rng.u8(..4) == 0),
            Step::Reasoning(text) => (Block::Reasoning, Some(text), may_end && rng.u8(..4) == 0),
            Step::Image(data) => (Block::Image, Some(data), true),
            // The first and the last step of a call have no text.
            Step::Call(call, at) => {
                let text = at.checked_sub(1).and_then(|at| pieces[call].get(at)).cloned();
                (Block::Call(call), text, at + 1 == lengths[call])
            }
        };
        let at = open.iter().find(|(_, other)| *other == block).map(|(at, _)| *at);
        if apart && at.is_none() {
            events.extend(open.drain(..).map(|(at, block)| BlockEvent::Stop(at, block)));
        }
        let at = at.unwrap_or_else(|| {
            events.push(BlockEvent::Start(next, block));
            open.push((next, block));
            next += 1;
            next - 1
        });
        events.extend(text.map(|text| BlockEvent::Delta(at, block, text)));
        if is_last {
            open.retain(|(other, _)| *other != at);
            events.push(BlockEvent::Stop(at, block));
        }
    }
    events.extend(open.into_iter().map(|(at, block)| BlockEvent::Stop(at, block)));
    events
}

fn tool_use(truth: &Truth, call: usize, input: Value) -> Value {
    let call = &truth.calls[call];
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

fn anthropic(truth: &Truth, rng: &mut Rng) -> Written {
    let (form, apart) = [("one block at a time", true), ("open blocks mixed", false)][rng.usize(..2)];
    // Some servers send the input with the start.
    let at_start: Vec<bool> = truth
        .calls
        .iter()
        .map(|call| rng.u8(..5) == 0 && serde_json::from_str::<Value>(&call.arguments).is_ok())
        .collect();
    let pieces = truth.calls.iter().zip(&at_start);
    let pieces: Vec<_> =
        pieces.map(|(call, at_start)| if *at_start { vec![] } else { fragments(&call.arguments, rng) }).collect();
    let mut out = BytesMut::new();
    let (input, output) = truth.usage;
    let usage = json!({ "input_tokens": input, "output_tokens": 1 });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage,
    });
    sse(&json!({ "type": "message_start", "message": message }), &mut out);
    for event in blocks(truth, &pieces, apart, rng) {
        let event = match event {
            BlockEvent::Start(at, block) => {
                let content = match block {
                    Block::Text => json!({ "type": "text", "text": "" }),
                    Block::Reasoning => json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    Block::Image => continue,
                    Block::Call(call) if at_start[call] => tool_use(truth, call, truth.calls[call].value()),
                    Block::Call(call) => tool_use(truth, call, json!({})),
                };
                json!({ "type": "content_block_start", "index": at, "content_block": content })
            }
            BlockEvent::Delta(at, block, text) => {
                let delta = match block {
                    Block::Reasoning => json!({ "type": "thinking_delta", "thinking": text }),
                    Block::Call(_) => json!({ "type": "input_json_delta", "partial_json": text }),
                    _ => json!({ "type": "text_delta", "text": text }),
                };
                json!({ "type": "content_block_delta", "index": at, "delta": delta })
            }
            BlockEvent::Stop(at, _) => json!({ "type": "content_block_stop", "index": at }),
        };
        sse(&event, &mut out);
    }
    let delta = json!({ "stop_reason": reason(Dialect::Anthropic, truth.finish), "stop_sequence": null });
    sse(&json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": output } }), &mut out);
    sse(&json!({ "type": "message_stop" }), &mut out);
    Written::new(out, form, truth)
}

fn bedrock(truth: &Truth, rng: &mut Rng) -> Written {
    let (form, apart) = [("one block at a time", true), ("open blocks mixed", false)][rng.usize(..2)];
    let pieces: Vec<_> = truth.calls.iter().map(|call| fragments(&call.arguments, rng)).collect();
    let mut out = BytesMut::new();
    let mut write = |name: &str, payload: Value| write_event(name, payload.to_string().as_bytes(), &mut out);
    write("messageStart", json!({ "role": "assistant" }));
    for event in blocks(truth, &pieces, apart, rng) {
        match event {
            BlockEvent::Start(at, Block::Call(call)) => {
                let call = &truth.calls[call];
                let start = json!({ "toolUse": { "toolUseId": call.id, "name": call.name } });
                write("contentBlockStart", json!({ "contentBlockIndex": at, "start": start }));
            }
            BlockEvent::Start(at, Block::Image) => {
                let start = json!({ "image": { "format": "png" } });
                write("contentBlockStart", json!({ "contentBlockIndex": at, "start": start }));
            }
            BlockEvent::Start(..) => {}
            BlockEvent::Delta(at, block, text) => {
                let delta = match block {
                    Block::Text => json!({ "text": text }),
                    Block::Reasoning => json!({ "reasoningContent": { "text": text } }),
                    Block::Image => json!({ "image": { "source": { "bytes": text } } }),
                    Block::Call(_) => json!({ "toolUse": { "input": text } }),
                };
                write("contentBlockDelta", json!({ "contentBlockIndex": at, "delta": delta }));
            }
            BlockEvent::Stop(at, _) => write("contentBlockStop", json!({ "contentBlockIndex": at })),
        }
    }
    let (input, output) = truth.usage;
    write("messageStop", json!({ "stopReason": reason(Dialect::Bedrock, truth.finish) }));
    let usage = json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
    write("metadata", json!({ "usage": usage, "metrics": { "latencyMs": 5 } }));
    Written::new(out, form, truth)
}

/// How a Responses server says which item an event is of.
const ITEMS: [(&str, bool, bool); 3] =
    [("items by index", false, true), ("items by id", false, false), ("one index for all items", true, false)];

fn responses(truth: &Truth, (form, apart, by_index): (&'static str, bool, bool), rng: &mut Rng) -> Written {
    // Some servers send arguments only with the finished item.
    let pieces: Vec<_> = truth
        .calls
        .iter()
        .map(|call| if rng.u8(..5) == 0 { vec![] } else { fragments(&call.arguments, rng) })
        .collect();
    let (mut out, mut number, mut items) = (BytesMut::new(), 0, Vec::<Value>::new());
    let mut emit = |kind: &str, item: Option<usize>, mut members: Value| {
        members["type"] = Value::from(kind);
        members["sequence_number"] = Value::from(number);
        number += 1;
        if let Some(item) = item {
            if apart || by_index {
                members["output_index"] = Value::from(if apart { 0 } else { item });
            }
            if members.get("item").is_none() {
                members["item_id"] = Value::from(format!("item_{item}"));
            }
        }
        sse(&members, &mut out);
    };
    let created = json!({ "id": "resp_1", "model": "m", "status": "in_progress", "output": [] });
    emit("response.created", None, json!({ "response": created }));
    for event in blocks(truth, &pieces, apart, rng) {
        match event {
            BlockEvent::Start(at, block) => {
                items.push(responses_begun(truth, at, block));
                let mut begun = items[at].clone();
                begun["status"] = json!("in_progress");
                for (name, empty) in [("arguments", json!("")), ("content", json!([])), ("summary", json!([]))] {
                    begun.get_mut(name).into_iter().for_each(|member| *member = empty.clone());
                }
                emit("response.output_item.added", Some(at), json!({ "item": begun }));
            }
            BlockEvent::Delta(at, block, text) => {
                let (kind, place) = match block {
                    Block::Text => ("output_text", "/content/0/text"),
                    Block::Reasoning => ("reasoning_summary_text", "/summary/0/text"),
                    Block::Call(_) => ("function_call_arguments", ""),
                    Block::Image => {
                        items[at]["result"] = Value::from(text);
                        continue;
                    }
                };
                if let Some(Value::String(whole)) = items[at].pointer_mut(place) {
                    whole.push_str(&text);
                }
                emit(&format!("response.{kind}.delta"), Some(at), json!({ "delta": text, "content_index": 0 }));
            }
            BlockEvent::Stop(at, block) => {
                if matches!(block, Block::Call(_)) {
                    let members = json!({ "arguments": items[at]["arguments"], "name": items[at]["name"] });
                    emit("response.function_call_arguments.done", Some(at), members);
                }
                emit("response.output_item.done", Some(at), json!({ "item": items[at] }));
            }
        }
    }
    let kind = if truth.finish == Finish::Length { "response.incomplete" } else { "response.completed" };
    let mut response = responses_end(truth, &items);
    // Some servers leave the items out here.
    if form != ITEMS[1].0 && rng.u8(..4) == 0 {
        response["output"] = json!([]);
    }
    emit(kind, None, json!({ "response": response }));
    Written { plain: form == ITEMS[0].0, ..Written::new(out, form, truth) }
}

/// The item of a block before its text, but with its arguments.
fn responses_begun(truth: &Truth, at: usize, block: Block) -> Value {
    let step = match block {
        Block::Text => Step::Text(String::new()),
        Block::Reasoning => Step::Reasoning(String::new()),
        Block::Image => Step::Image(String::new()),
        Block::Call(call) => Step::Call(call, 0),
    };
    responses_item(truth, at, &step)
}

fn responses_item(truth: &Truth, at: usize, step: &Step) -> Value {
    let mut item = match step {
        Step::Text(text) => {
            let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
            json!({ "type": "message", "role": "assistant", "content": content })
        }
        Step::Reasoning(text) => json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": text }] }),
        Step::Image(data) => json!({ "type": "image_generation_call", "output_format": "png", "result": data }),
        Step::Call(call, _) => {
            let call = &truth.calls[*call];
            json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments })
        }
    };
    item["id"] = Value::from(format!("item_{at}"));
    item["status"] = Value::from("completed");
    item
}

fn responses_end(truth: &Truth, items: &[Value]) -> Value {
    let (input, output) = truth.usage;
    let (status, details) = match truth.finish {
        Finish::Length => ("incomplete", json!({ "reason": reason(Dialect::Responses, truth.finish) })),
        _ => ("completed", Value::Null),
    };
    json!({
        "id": "resp_1", "object": "response", "model": "m", "status": status, "incomplete_details": details,
        "output": items,
        "usage": { "input_tokens": input, "output_tokens": output, "total_tokens": input + output },
    })
}

fn gemini(truth: &Truth, rng: &mut Rng) -> Written {
    let (form, with_ids) = [("calls with ids", true), ("calls without ids", false)][rng.usize(..2)];
    let mut out = BytesMut::new();
    let mut parts = Vec::new();
    for step in shuffled(truth, &vec![1; truth.calls.len()], Mix::All, rng) {
        parts.push(gemini_part(truth, &step, with_ids));
        if rng.bool() {
            sse(&gemini_chunk(std::mem::take(&mut parts), None), &mut out);
        }
    }
    sse(&gemini_chunk(parts, Some(truth)), &mut out);
    Written::new(out, form, truth).without_ids(!with_ids)
}

fn gemini_part(truth: &Truth, step: &Step, with_id: bool) -> Value {
    match step {
        Step::Text(text) => json!({ "text": text }),
        Step::Reasoning(text) => json!({ "text": text, "thought": true }),
        Step::Image(data) => json!({ "inlineData": { "mimeType": "image/png", "data": data } }),
        Step::Call(call, _) => {
            let call = &truth.calls[*call];
            match with_id {
                true => json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.value() } }),
                false => json!({ "functionCall": { "name": call.name, "args": call.value() } }),
            }
        }
    }
}

/// `last`: it ends this answer.
fn gemini_chunk(parts: Vec<Value>, last: Option<&Truth>) -> Value {
    let content = json!({ "role": "model", "parts": parts });
    let mut chunk =
        json!({ "candidates": [{ "content": content, "index": 0 }], "modelVersion": "m", "responseId": "r" });
    if let Some(truth) = last {
        let (input, output) = truth.usage;
        chunk["candidates"][0]["finishReason"] = Value::from(reason(Dialect::Gemini, truth.finish));
        chunk["usageMetadata"] = json!({
            "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
        });
    }
    chunk
}

fn ollama(truth: &Truth, rng: &mut Rng) -> Written {
    let (form, with_ids) = [("calls with ids", true), ("calls without ids", false)][rng.usize(..2)];
    let mut out = BytesMut::new();
    let empty = || json!({ "role": "assistant", "content": "" });
    let mut message = empty();
    for step in shuffled(truth, &vec![1; truth.calls.len()], Mix::All, rng) {
        let place = match &step {
            Step::Text(_) => "content",
            Step::Reasoning(_) => "thinking",
            _ => "tool_calls",
        };
        // Calls come together, in lines of their own or with text.
        if rng.u8(..3) > 0 {
            out.put_slice(format!("{}\n", ollama_line(std::mem::replace(&mut message, empty()), None)).as_bytes());
        }
        match step {
            Step::Text(text) | Step::Reasoning(text) => {
                let before = message[place].as_str().unwrap_or_default().to_owned();
                message[place] = Value::from(before + &text);
            }
            Step::Call(call, _) => {
                let mut calls = message[place].as_array().cloned().unwrap_or_default();
                calls.push(ollama_call(truth, call, with_ids));
                message[place] = Value::Array(calls);
            }
            Step::Image(_) => {}
        }
    }
    out.put_slice(format!("{}\n{}\n", ollama_line(message, None), ollama_line(empty(), Some(truth))).as_bytes());
    Written::new(out, form, truth).without_ids(!with_ids)
}

fn ollama_call(truth: &Truth, call: usize, with_id: bool) -> Value {
    let call = &truth.calls[call];
    let function = json!({ "name": call.name, "arguments": call.value() });
    if with_id { json!({ "id": call.id, "function": function }) } else { json!({ "function": function }) }
}

/// `last`: it ends this answer.
fn ollama_line(message: Value, last: Option<&Truth>) -> Value {
    let mut line = json!({ "model": "m", "created_at": "2026-11-29T00:00:00Z", "message": message, "done": false });
    if let Some(truth) = last {
        line["done"] = Value::from(true);
        line["done_reason"] = Value::from(reason(Dialect::Ollama, truth.finish));
        (line["prompt_eval_count"], line["eval_count"]) = (Value::from(truth.usage.0), Value::from(truth.usage.1));
    }
    line
}
