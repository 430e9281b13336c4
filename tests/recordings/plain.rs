//! The content of a recorded stream of any dialect, and of an answer of any surface, read by simple code. An
//! independent check of the gateway's readers, so it shares no code with them.

use serde_json::{Value, json};

/// The generated content, streamed or whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    pub text: String,
    pub reasoning: String,
    /// Name and arguments of each call, in order.
    pub calls: Vec<(String, Value)>,
}

impl Said {
    fn call(&mut self, name: &Value, arguments: &str) {
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let value = serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
        self.calls.push((name.as_str().unwrap_or_default().to_owned(), value));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The JSON texts of a stream, each with the name of its event and the position of its end.
pub fn events(protocol: &str, bytes: &[u8]) -> Vec<(usize, String, Value)> {
    match protocol {
        "bedrock-eventstream" => frames(bytes),
        "ollama-ndjson" => {
            let mut end = 0;
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            lines
                .map(|line| {
                    end += line.len();
                    (end, String::new(), serde_json::from_slice(line).unwrap_or(Value::Null))
                })
                .collect()
        }
        _ => blocks(std::str::from_utf8(bytes).unwrap()),
    }
}

/// Comments are events too: the index counts them, despite its description.
fn blocks(stream: &str) -> Vec<(usize, String, Value)> {
    let (mut events, mut name, mut data, mut end) = (Vec::new(), String::new(), String::new(), 0);
    let mut comment = false;
    for line in stream.split_inclusive('\n') {
        end += line.len();
        let line = line.trim_end();
        if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.trim_start());
        } else if let Some(value) = line.strip_prefix("event:") {
            value.trim().clone_into(&mut name);
        } else if line.starts_with(':') && data.is_empty() && name.is_empty() {
            comment = true;
        } else if line.is_empty() && std::mem::take(&mut comment) && data.is_empty() {
            events.push((end, String::new(), Value::Null));
        } else if line.is_empty() && !data.is_empty() {
            let value = serde_json::from_str(&data).unwrap_or_else(|_| json!(data));
            events.push((end, std::mem::take(&mut name), value));
            data.clear();
        }
    }
    if !data.is_empty() {
        events.push((end, name, serde_json::from_str(&data).unwrap_or_else(|_| json!(data))));
    }
    events
}

/// Frames of AWS's event stream: two lengths, a check sum, headers, the payload, a check sum.
fn frames(mut bytes: &[u8]) -> Vec<(usize, String, Value)> {
    let (mut frames, mut end) = (Vec::new(), 0);
    let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    while bytes.len() >= 16 {
        let (total, headers) = (word(bytes, 0), word(bytes, 4));
        end += total;
        let mut rest = &bytes[12..12 + headers];
        let mut name = String::new();
        while !rest.is_empty() {
            let len = usize::from(rest[0]);
            let header = &rest[1..=len];
            // The type of every header here is a string: 7.
            let value = usize::from(u16::from_be_bytes([rest[len + 2], rest[len + 3]]));
            if matches!(header, b":event-type" | b":exception-type") {
                name = String::from_utf8(rest[len + 4..len + 4 + value].to_vec()).unwrap();
            }
            rest = &rest[len + 4 + value..];
        }
        frames.push((end, name, serde_json::from_slice(&bytes[12 + headers..total - 4]).unwrap_or(Value::Null)));
        bytes = &bytes[total..];
    }
    frames
}

/// The content of a recording.
pub fn said(protocol: &str, bytes: &[u8]) -> Said {
    let events = events(protocol, bytes);
    let values = events.iter().map(|(_, name, value)| (name.as_str(), value));
    match protocol {
        "anthropic-messages" => of_messages(values.map(|(_, value)| value)),
        "openai-responses" => of_responses(values.map(|(_, value)| value)),
        "gemini" => of_gemini(&values.map(|(_, value)| value.clone()).collect::<Vec<_>>()),
        "bedrock-eventstream" => of_bedrock(values),
        "ollama-ndjson" => of_ollama(values.map(|(_, value)| value)),
        _ => of_chat(values.map(|(_, value)| value)),
    }
}

/// The content of an Anthropic stream.
pub fn of_messages<'a>(events: impl Iterator<Item = &'a Value>) -> Said {
    let mut said = Said::default();
    let mut call: Option<(Value, String)> = None;
    for event in events {
        match text(&event["type"]) {
            "content_block_start" => {
                let block = &event["content_block"];
                if let Some((name, arguments)) = call.take() {
                    said.call(&name, &arguments);
                }
                match text(&block["type"]) {
                    "tool_use" => call = Some((block["name"].clone(), String::new())),
                    "text" => said.text.push_str(text(&block["text"])),
                    "thinking" => said.reasoning.push_str(text(&block["thinking"])),
                    _ => {}
                }
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                match text(&delta["type"]) {
                    "text_delta" => said.text.push_str(text(&delta["text"])),
                    "thinking_delta" => said.reasoning.push_str(text(&delta["thinking"])),
                    "input_json_delta" => {
                        if let Some((_, arguments)) = &mut call {
                            arguments.push_str(text(&delta["partial_json"]));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if let Some((name, arguments)) = call {
        said.call(&name, &arguments);
    }
    said
}

/// The content of a Responses stream.
pub fn of_responses<'a>(events: impl Iterator<Item = &'a Value>) -> Said {
    let mut said = Said::default();
    for event in events {
        match text(&event["type"]) {
            "response.output_text.delta" => said.text.push_str(text(&event["delta"])),
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                said.reasoning.push_str(text(&event["delta"]));
            }
            "response.output_item.done" => call_of_item(&mut said, &event["item"]),
            _ => {}
        }
    }
    said
}

fn call_of_item(said: &mut Said, item: &Value) {
    match text(&item["type"]) {
        "function_call" => said.call(&item["name"], text(&item["arguments"])),
        "custom_tool_call" => {
            said.calls.push((text(&item["name"]).to_owned(), json!(text(&item["input"]))));
        }
        _ => {}
    }
}

/// The first choice of a chat or a completions stream.
pub fn of_chat<'a>(events: impl Iterator<Item = &'a Value>) -> Said {
    let mut said = Said::default();
    let mut calls: Vec<(Value, String)> = Vec::new();
    for choice in events.filter_map(|event| event["choices"].get(0)) {
        let delta = &choice["delta"];
        said.text.push_str(text(&choice["text"]));
        said.text.push_str(text(&delta["content"]));
        said.reasoning.push_str(text(&delta["reasoning_content"]));
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(call["index"].as_u64().unwrap_or(0)).unwrap();
            if calls.len() <= at {
                calls.resize(at + 1, (Value::Null, String::new()));
            }
            for kind in ["function", "custom"] {
                if call[kind]["name"].is_string() {
                    calls[at].0 = call[kind]["name"].clone();
                }
                calls[at].1.push_str(text(&call[kind]["arguments"]));
                calls[at].1.push_str(text(&call[kind]["input"]));
            }
        }
    }
    calls.iter().for_each(|(name, arguments)| said.call(name, arguments));
    said
}

fn of_gemini(events: &[Value]) -> Said {
    let mut said = Said::default();
    // Without `alt=sse` the stream is one list.
    let flat = events.iter().flat_map(|event| event.as_array().cloned().unwrap_or_else(|| vec![event.clone()]));
    for event in flat {
        for part in event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten() {
            if part["functionCall"].is_object() {
                let arguments = &part["functionCall"]["args"];
                let arguments = if arguments.is_null() { json!({}) } else { arguments.clone() };
                said.calls.push((text(&part["functionCall"]["name"]).to_owned(), arguments));
            } else if part["thought"] == true {
                said.reasoning.push_str(text(&part["text"]));
            } else {
                said.text.push_str(text(&part["text"]));
            }
        }
    }
    said
}

fn of_bedrock<'a>(events: impl Iterator<Item = (&'a str, &'a Value)>) -> Said {
    let mut said = Said::default();
    let mut call: Option<(Value, String)> = None;
    for (name, event) in events {
        if name == "contentBlockStart"
            && let Some(tool) = event["start"].get("toolUse")
            && let Some((name, arguments)) = call.replace((tool["name"].clone(), String::new()))
        {
            said.call(&name, &arguments);
        }
        if name == "contentBlockDelta" {
            said.text.push_str(text(&event["delta"]["text"]));
            said.reasoning.push_str(text(&event["delta"]["reasoningContent"]["text"]));
            if let (Some((_, arguments)), Some(input)) = (&mut call, event["delta"]["toolUse"]["input"].as_str()) {
                arguments.push_str(input);
            }
        }
    }
    if let Some((name, arguments)) = call {
        said.call(&name, &arguments);
    }
    said
}

fn of_ollama<'a>(events: impl Iterator<Item = &'a Value>) -> Said {
    let mut said = Said::default();
    for event in events {
        said.text.push_str(text(&event["response"]));
        said.text.push_str(text(&event["message"]["content"]));
        said.reasoning.push_str(text(&event["message"]["thinking"]));
        for call in event["message"]["tool_calls"].as_array().into_iter().flatten() {
            said.calls.push((text(&call["function"]["name"]).to_owned(), call["function"]["arguments"].clone()));
        }
    }
    said
}

/// The content of a whole answer of a surface.
pub fn of_whole(surface: &str, answer: &Value) -> Said {
    let mut said = Said::default();
    match surface {
        "chat" => {
            let message = &answer["choices"][0]["message"];
            said.text.push_str(text(&message["content"]));
            said.reasoning.push_str(text(&message["reasoning_content"]));
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                for kind in ["function", "custom"].into_iter().filter(|kind| call[kind].is_object()) {
                    let arguments = format!("{}{}", text(&call[kind]["arguments"]), text(&call[kind]["input"]));
                    said.call(&call[kind]["name"], &arguments);
                }
            }
        }
        "messages" => {
            for block in answer["content"].as_array().into_iter().flatten() {
                match text(&block["type"]) {
                    "text" => said.text.push_str(text(&block["text"])),
                    "thinking" => said.reasoning.push_str(text(&block["thinking"])),
                    "tool_use" => said.calls.push((text(&block["name"]).to_owned(), block["input"].clone())),
                    _ => {}
                }
            }
        }
        "gemini" => said = of_gemini(std::slice::from_ref(answer)),
        "ollama" => said = of_ollama(std::iter::once(answer)),
        _ => {
            for item in answer["output"].as_array().into_iter().flatten() {
                for part in item["content"].as_array().into_iter().flatten() {
                    let into = if item["type"] == "reasoning" { &mut said.reasoning } else { &mut said.text };
                    into.push_str(text(&part["text"]));
                }
                for part in item["summary"].as_array().into_iter().flatten() {
                    said.reasoning.push_str(text(&part["text"]));
                }
                call_of_item(&mut said, item);
            }
        }
    }
    said
}
