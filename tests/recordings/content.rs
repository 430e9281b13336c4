//! The content of a recording's events, computed by simple code: payload, kinds, characters, and the provider's own
//! times. An independent check of the gateway's reader, so it shares no code with it.

use serde_json::{Value, json};

use super::recording::{Event, Recording, choices};

/// With fewer tokens an answer is never a burst. With fewer payload events than this it always is one.
const BURST_TOKENS: i64 = 16;
const BURST_EVENTS: usize = 2;
/// Maximum bytes that a loopback socket returns in one read.
const ONE_READ: usize = 4_000;

/// The payload of one event.
struct Payload {
    text: String,
    /// The payload is only reasoning.
    reasoning: bool,
}

impl Payload {
    fn chars(&self) -> usize {
        self.text.chars().count()
    }
}

impl Recording {
    /// All that the model wrote.
    pub fn text(&self) -> String {
        self.until_its_end().filter_map(payload).map(|payload| payload.text).collect()
    }

    /// The columns that depend on the content; `size`: bytes of each replayed piece.
    pub fn content(&self, size: usize) -> Vec<(&'static str, Value)> {
        let payloads: Vec<Payload> = self.until_its_end().filter_map(payload).collect();
        let reasoning = payloads.iter().filter(|payload| payload.reasoning).count();
        let mut columns = vec![
            ("payload_events", json!(payloads.len())),
            ("reasoning_events", json!(reasoning)),
            ("chars_total", json!(payloads.iter().map(Payload::chars).sum::<usize>())),
            ("chars_first", json!(payloads.first().map_or(0, Payload::chars))),
            ("keepalives", json!(self.until_its_end().filter(|event| event.data.is_none()).count())),
            ("first_answer_us IS NULL", json!(i64::from(reasoning == payloads.len()))),
            ("second_token_us IS NULL", json!(i64::from(payloads.len() < 2))),
            ("gap_max_us IS NULL", json!(i64::from(payloads.len() < 2))),
        ];
        columns.extend(self.burst(payloads.len(), reasoning, size).map(|burst| ("burst", burst)));
        columns
    }

    /// None if it depends on the speed of the machine.
    fn burst(&self, payloads: usize, reasoning: usize, size: usize) -> Option<Value> {
        let count = |name: &str| self.usage().into_iter().find(|(column, _)| *column == name)?.1.as_i64();
        let Some(tokens) = count("output_tokens") else { return Some(Value::Null) };
        let hidden = if reasoning == 0 { count("reasoning_tokens").unwrap_or(0) } else { 0 };
        if tokens - hidden < BURST_TOKENS {
            return Some(json!(0));
        }
        let at_once = size >= self.bytes.len() && self.bytes.len() <= ONE_READ;
        (payloads <= BURST_EVENTS || at_once).then_some(json!(1))
    }

    /// The provider's report of its own times and limits: the index's usage, llama.cpp's `timings`, and the headers.
    pub fn reports(&self) -> Vec<(&'static str, Value)> {
        let usage = self.any_usage();
        // With several values, one for each choice, the longest counts.
        let timing = |name: &str| {
            let all = self.until_its_end().filter_map(|event| event.json["timings"][name].as_f64());
            all.reduce(f64::max)
        };
        let seconds = |name: &str| usage[name].as_f64().map(|seconds| (seconds * 1e6).round());
        let millis = |millis: f64| (millis * 1e3).round();
        let header = |name: &str| self.header(name)?.parse::<f64>().ok();
        let total = seconds("total_time")
            .or(header("openai-processing-ms").map(millis))
            .or(header("x-envoy-upstream-service-time").map(millis));
        let requests = header("x-ratelimit-remaining-requests").or(header("x-ratelimit-remaining"));
        [
            ("server_queue_us", seconds("queue_time")),
            ("server_prefill_us", seconds("prompt_time").or(timing("prompt_ms").map(millis))),
            ("server_decode_us", seconds("completion_time").or(timing("predicted_ms").map(millis))),
            ("server_total_us", total),
            ("ratelimit_remaining_requests", requests),
            ("ratelimit_remaining_tokens", header("x-ratelimit-remaining-tokens")),
        ]
        .map(|(column, value)| (column, value.map_or(Value::Null, |value| json!(value as i64))))
        .to_vec()
    }
}

/// None for an event without generated output.
fn payload(event: &Event) -> Option<Payload> {
    let (mut answer, mut thoughts) = (String::new(), String::new());
    for delta in choices(event).map(|choice| &choice["delta"]) {
        match &delta["content"] {
            Value::Array(parts) => {
                for part in parts {
                    answer += text(&part["text"]);
                    let inner = part["thinking"].as_array().into_iter().flatten();
                    thoughts.extend(inner.map(|thought| text(&thought["text"])));
                }
            }
            content => answer += text(content),
        }
        answer += text(&delta["refusal"]);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            answer.extend([text(&call["function"]["name"]), text(&call["function"]["arguments"])]);
        }
        // The same text under two names is counted once.
        let [one, other] = [&delta["reasoning_content"], &delta["reasoning"]].map(text);
        thoughts += if other.len() > one.len() { other } else { one };
    }
    let reasoning = answer.is_empty();
    let text = answer + &thoughts;
    (!text.is_empty()).then_some(Payload { text, reasoning })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
