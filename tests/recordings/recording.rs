//! One recording and the expected result, read by simple code without the gateway's own readers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

pub struct Recording {
    pub file: String,
    pub status: u16,
    pub content_type: String,
    pub bytes: Vec<u8>,
    /// The kind of the first payload.
    pub first_kind: &'static str,
    /// The recording's entry in the index.
    entry: Value,
    events: Vec<Event>,
    /// The event with the first payload. The index counts comments and `[DONE]` as events, despite its description.
    first_payload: usize,
}

/// A block including its blank line.
pub struct Event {
    start: usize,
    end: usize,
    /// None for comments.
    pub data: Option<String>,
    /// The data if it is JSON; else null.
    pub json: Value,
}

/// The content of one choice, streamed or whole.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    text: String,
    reasoning: String,
    refusal: String,
    /// Id, name and arguments, by index.
    tools: BTreeMap<u64, [String; 3]>,
}

impl Said {
    /// It has neither a text nor a call: at most reasoning.
    pub fn says_nothing(&self) -> bool {
        self.text.trim().is_empty() && self.refusal.trim().is_empty() && self.tools.is_empty()
    }
}

impl Recording {
    pub fn read(folder: &Path, entry: Value) -> Recording {
        let file = entry["file"].as_str().unwrap().to_owned();
        let bytes = std::fs::read(folder.join(&file)).unwrap();
        let status = entry["http_status"].as_u64().map_or(200, |status| u16::try_from(status).unwrap());
        let content_type = entry["response_headers"]["content-type"].as_str().unwrap_or("text/event-stream").to_owned();
        let events = if status == 200 { events(&bytes) } else { Vec::new() };
        let mut recording =
            Recording { file, status, content_type, bytes, entry, events, first_payload: 0, first_kind: "text" };
        if status == 200 {
            assert_eq!(json!(recording.events.len()), recording.entry["events"], "{}", recording.file);
            (recording.first_payload, recording.first_kind) = recording.find_first_payload();
        }
        recording
    }

    /// The text that the client must get: the recording without an unrequested usage chunk, but for what servers move there from
    /// the event before; without everything after an error, and with a missing end added.
    pub fn passed_on(&self, include_usage: bool) -> String {
        let mut bytes = Vec::new();
        let (mut before, mut open) = (&Value::Null, BTreeMap::new());
        for event in &self.events {
            let usage_only =
                event.json["choices"].as_array().is_some_and(Vec::is_empty) && event.json["usage"].is_object();
            for choice in event.json["choices"].as_array().into_iter().flatten() {
                open.insert(choice["index"].as_u64(), choice["finish_reason"].is_null());
            }
            if usage_only && !include_usage {
                // Not while another choice goes on.
                for name in ["system_fingerprint", "timings"].iter().filter(|_| !open.values().any(|open| *open)) {
                    if let (Some(value), None) =
                        (event.json.get(name).filter(|value| !value.is_null()), before.get(name))
                    {
                        let end = bytes.iter().rposition(|byte| *byte == b'}').unwrap();
                        bytes.splice(end..end, format!(",\"{name}\":{value}").into_bytes());
                    }
                }
                continue;
            }
            before = &event.json;
            bytes.extend_from_slice(&self.bytes[event.start..event.end]);
            // A body may end without the last blank line.
            while event.end == self.bytes.len() && !bytes.ends_with(b"\n\n") && !bytes.ends_with(b"\r\n\r\n") {
                bytes.push(b'\n');
            }
            if event.is_error() || event.is_done() {
                return String::from_utf8(bytes).unwrap();
            }
        }
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        String::from_utf8(bytes).unwrap()
    }

    /// The stream contains an error.
    pub fn breaks(&self) -> bool {
        self.events.iter().any(Event::is_error)
    }

    /// The columns of usage, by the index.
    pub fn usage(&self) -> Vec<(&'static str, Value)> {
        let usage = self.any_usage();
        let first = |places: &[&Value]| {
            places.iter().find(|place| place.is_number()).map_or(Value::Null, |place| (**place).clone())
        };
        let (details, of_output) = (&usage["prompt_tokens_details"], &usage["completion_tokens_details"]);
        let (input, output) = (first(&[&usage["prompt_tokens"]]), first(&[&usage["completion_tokens"]]));
        let cached = first(&[&details["cached_tokens"], &usage["prompt_cache_hit_tokens"], &usage["cached_tokens"]]);
        let reasoning = first(&[&of_output["reasoning_tokens"], &usage["reasoning_tokens"]]);
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        // xAI counts reasoning apart, as the total shows. A part is never more than the whole.
        let apart = usage["total_tokens"].as_i64() == Some(number(&input) + number(&output) + number(&reasoning));
        let output = if apart && output.is_number() { json!(number(&output) + number(&reasoning)) } else { output };
        let reasoning = if number(&reasoning) > number(&output) { Value::Null } else { reasoning };
        let cached = if number(&cached) > number(&input) { input.clone() } else { cached };
        vec![
            ("input_tokens", input),
            ("output_tokens", output),
            ("cached_input_tokens", cached),
            ("reasoning_tokens", reasoning),
        ]
    }

    /// The index's usage, from any place; null if there is none.
    pub fn any_usage(&self) -> &Value {
        let usage = [&self.entry["usage"], &self.entry["x_groq_usage"]].into_iter().find(|usage| usage.is_object());
        usage.unwrap_or(&Value::Null)
    }

    /// The recorded headers about the answer, without those about its framing.
    pub fn telling_headers(&self) -> Vec<(&str, &str)> {
        let headers = self.entry["response_headers"].as_object().into_iter().flatten();
        let texts = headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        texts
            .filter(|(name, _)| name.contains("ratelimit") || name.contains("processing") || name.contains("envoy"))
            .collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.entry["response_headers"][name].as_str()
    }

    /// The events up to `[DONE]` or an error; the rest is ignored.
    pub fn until_its_end(&self) -> impl Iterator<Item = &Event> {
        let end = self.events.iter().position(|event| event.is_done() || event.is_error());
        self.events[..end.unwrap_or(self.events.len())].iter()
    }

    /// The finish reason, by the index.
    pub fn finish(&self) -> Value {
        self.entry["finish"].as_array().and_then(|reasons| reasons.last()).cloned().unwrap_or_default()
    }

    /// The last `usage`, unless the index combines several places.
    pub fn last_usage(&self) -> Option<Value> {
        self.events.iter().rev().map(|event| &event.json["usage"]).find(|usage| usage.is_object()).cloned()
    }

    /// Bytes before the event with the first payload, and bytes including it.
    pub fn around_first_payload(&self) -> (usize, usize) {
        let event = &self.events[self.first_payload];
        (event.start, event.end)
    }

    pub fn finishes_by_first_payload(&self) -> bool {
        let (_, behind) = self.around_first_payload();
        let before = self.events.iter().take_while(|event| event.end <= behind);
        before.flat_map(choices).any(|choice| choice["finish_reason"].is_string())
    }

    /// The content of each choice: all pieces joined.
    pub fn said(&self) -> BTreeMap<u64, Said> {
        let mut said: BTreeMap<u64, Said> = BTreeMap::new();
        for choice in self.events.iter().flat_map(choices) {
            said.entry(choice["index"].as_u64().unwrap_or(0)).or_default().add(&choice["delta"]);
        }
        said
    }

    /// From the index. It has no kind for refusals, and calls all of Mistral's parts content.
    fn find_first_payload(&self) -> (usize, &'static str) {
        let at = |name: &str| self.entry[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let kinds =
            [("text", "first_content_event"), ("tool", "first_tool_event"), ("reasoning", "first_reasoning_event")];
        // Of equal positions the first kind counts: the answer comes before reasoning.
        let first = kinds.iter().filter_map(|(kind, name)| Some((at(name)?, *kind))).min_by_key(|(number, _)| *number);
        let Some((number, kind)) = first else {
            let refuses = |event: &Event| choices(event).any(|choice| non_empty(&choice["delta"]["refusal"]));
            let number = self.events.iter().position(refuses);
            return (number.expect("a payload"), "refusal");
        };
        let thinks = |choice: &Value| choice["delta"]["content"][0]["type"] == "thinking";
        let kind = if choices(&self.events[number]).any(thinks) { "reasoning" } else { kind };
        (number, kind)
    }
}

/// The content of a whole answer, by choice.
pub fn said_whole(answer: &Value) -> BTreeMap<u64, Said> {
    let choices = answer["choices"].as_array().expect("choices").iter();
    choices
        .map(|choice| {
            let mut message = choice["message"].clone();
            // The calls of a whole answer are in order and have no index.
            for (index, call) in message["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
                call["index"] = json!(index);
            }
            let mut said = Said::default();
            said.add(&message);
            (choice["index"].as_u64().expect("an index"), said)
        })
        .collect()
}

impl Said {
    /// Adds a delta or a message.
    fn add(&mut self, delta: &Value) {
        match &delta["content"] {
            Value::Array(parts) => {
                for part in parts {
                    self.text.push_str(part["text"].as_str().unwrap_or_default());
                    let thoughts = part["thinking"].as_array().into_iter().flatten();
                    thoughts.for_each(|thought| self.reasoning.push_str(thought["text"].as_str().unwrap_or_default()));
                }
            }
            content => self.text.push_str(content.as_str().unwrap_or_default()),
        }
        for name in ["reasoning_content", "reasoning"] {
            self.reasoning.push_str(delta[name].as_str().unwrap_or_default());
        }
        self.refusal.push_str(delta["refusal"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let [id, name, arguments] = self.tools.entry(call["index"].as_u64().unwrap_or(0)).or_default();
            let function = &call["function"];
            for (known, value) in [(id, &call["id"]), (name, &function["name"])] {
                if known.is_empty() {
                    known.push_str(value.as_str().unwrap_or_default());
                }
            }
            arguments.push_str(function["arguments"].as_str().unwrap_or_default());
        }
    }
}

impl Event {
    fn is_done(&self) -> bool {
        self.data.as_deref() == Some("[DONE]")
    }

    fn is_error(&self) -> bool {
        !self.json["error"].is_null() || !self.json["x_groq"]["error"].is_null()
    }
}

pub fn choices(event: &Event) -> impl Iterator<Item = &Value> {
    event.json["choices"].as_array().into_iter().flatten()
}

fn non_empty(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn events(bytes: &[u8]) -> Vec<Event> {
    let text = std::str::from_utf8(bytes).expect("a stream of UTF-8");
    let (mut events, mut start, mut end, mut data) = (Vec::new(), 0, 0, Vec::new());
    for line in text.split_inclusive('\n') {
        end += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
        if line.is_empty() || end == bytes.len() {
            let data = std::mem::take(&mut data);
            let data = (!data.is_empty()).then(|| data.join("\n"));
            let json = data.as_deref().and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
            events.push(Event { start, end, data, json });
            start = end;
        }
    }
    events
}

/// Input and output tokens of Anthropic's usage; `start`: that of its first event. The cache is counted apart from the
/// input, and a compaction from both.
pub fn of_anthropic(usage: &Value, start: &Value) -> (Option<i64>, Option<i64>) {
    let input = |usage: &Value| {
        let [fresh, read, written] =
            ["input", "cache_read_input", "cache_creation_input"].map(|name| usage[format!("{name}_tokens")].as_i64());
        Some(fresh? + read.unwrap_or(0) + written.unwrap_or(0))
    };
    let output = |usage: &Value| usage["output_tokens"].as_i64();
    let all = usage["iterations"].as_array().into_iter().flatten();
    let compactions: Vec<&Value> = all.filter(|one| one["type"] == "compaction").collect();
    let read: i64 = compactions.iter().filter_map(|one| input(one)).sum();
    let written: i64 = compactions.iter().filter_map(|one| output(one)).sum();
    (input(usage).or(input(start)).map(|all| all + read), output(usage).map(|all| all + written))
}
