//! What a simulated model answers that does what the request says, and each thing that it can do wrong. It understands only the words
//! of the questions of `verify`; other prompts get sampled words. Not for the pace: see `service`.

use std::sync::{Mutex, PoisonError};

use fastrand::Rng;
use serde_json::{Value, json};

use super::request::tokens_of;
use super::source::WordSource;
use photofinish_base::clock::{DAY_US, wall_micros};
use photofinish_config::{HostFact, Simulation};

/// Choices of one answer.
const CHOICES_MAX: u64 = 8;
/// Tokens of an answer that no `max_tokens` bounds.
const TOKENS: u64 = 60;
/// Tokens of a template, once more for each prompt.
const TEMPLATE: u64 = 17;
/// Tokens of an answer that is always cut.
const CAPPED: u64 = 16;
/// Tokens that a cut context keeps.
const CONTEXT: u64 = 2_000;

pub(super) struct ObedientModel {
    name: String,
    source: WordSource,
    wrong: Vec<HostFact>,
    rng: Mutex<Rng>,
}

/// One choice.
struct ObedientChoice {
    message: Value,
    tokens: u64,
    end: &'static str,
    logprobs: Value,
}

impl ObedientModel {
    pub(super) fn new(name: &str, simulation: &Simulation) -> ObedientModel {
        let rng = simulation.seed.map_or_else(Rng::new, Rng::with_seed);
        let source = WordSource::new(name, simulation);
        ObedientModel { name: name.to_owned(), source, wrong: simulation.wrong.clone(), rng: Mutex::new(rng) }
    }

    fn is_wrong(&self, fact: HostFact) -> bool {
        self.wrong.contains(&fact)
    }

    /// The whole answer; a stream has its usage in `streamed_usage`.
    pub(super) fn answer(&self, request: &Value, id: &str) -> Result<Value, &'static str> {
        if self.is_wrong(HostFact::Temperature) && !request["temperature"].is_null() {
            return Err("temperature is not supported");
        }
        let choices =
            if self.is_wrong(HostFact::N) { 1 } else { request["n"].as_u64().unwrap_or(1).clamp(1, CHOICES_MAX) };
        let seed = request["seed"].as_i64().filter(|_| !self.is_wrong(HostFact::Seed));
        let mut rng = match seed {
            Some(seed) => Rng::with_seed(seed.cast_unsigned()),
            None => self.rng.lock().unwrap_or_else(PoisonError::into_inner).fork(),
        };
        let said: Vec<ObedientChoice> = (0..choices).map(|_| self.choice(request, &mut rng)).collect();
        let tokens: u64 = said.iter().map(|said| said.tokens).sum();
        let json = |index: usize, said: &ObedientChoice| json!({ "index": index, "message": said.message, "finish_reason": said.end, "logprobs": said.logprobs });
        let mut answer = json!({
            "id": id, "object": "chat.completion", "created": 0, "model": request["model"],
            "choices": said.iter().enumerate().map(|(index, said)| json(index, said)).collect::<Vec<_>>(),
        });
        if !self.is_wrong(HostFact::Fingerprint) {
            answer["system_fingerprint"] = json!(format!("simulated-{}", self.name));
        }
        let thought = said
            .iter()
            .filter_map(|said| said.message["reasoning_content"].as_str())
            .map(|text| text.split(' ').count())
            .sum();
        let input = self.prompt_tokens(request);
        let usage = |input: u64, thought: usize| {
            json!({
                "prompt_tokens": input, "completion_tokens": tokens, "total_tokens": input + tokens,
                "completion_tokens_details": { "reasoning_tokens": thought },
            })
        };
        if !self.is_wrong(HostFact::UsageWhole) {
            answer["usage"] = usage(input, thought);
        }
        if !self.is_wrong(HostFact::UsageStream) && request["stream"] == true {
            let more = if self.is_wrong(HostFact::UsageEqual) { 3 } else { 0 };
            answer["streamed_usage"] = usage(input + more, thought);
        }
        Ok(answer)
    }

    fn prompt_tokens(&self, request: &Value) -> u64 {
        let bytes = |name: &str| if request[name].is_null() { 0 } else { request[name].to_string().len() };
        let dropped = match request["messages"][0]["role"] == "system" && self.is_wrong(HostFact::System) {
            true => request["messages"][0].to_string().len(),
            false => 0,
        };
        let template = if self.is_wrong(HostFact::Template) { 2 * TEMPLATE } else { TEMPLATE };
        let tokens = tokens_of(bytes("messages") + bytes("tools") - dropped) + template;
        if self.is_wrong(HostFact::Context) { tokens.min(CONTEXT) } else { tokens }
    }

    fn choice(&self, request: &Value, rng: &mut Rng) -> ObedientChoice {
        let calls = self.calls(request);
        if !calls.is_empty() {
            let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
            return ObedientChoice { message, tokens: 20, end: "tool_calls", logprobs: Value::Null };
        }
        let (text, end, tokens) = self.text(request, rng);
        let mut message = json!({ "role": "assistant", "content": text });
        let mut thought = 0;
        if let Some(effort) = request["reasoning_effort"].as_str() {
            thought = match effort {
                _ if self.is_wrong(HostFact::Effort) => 40,
                "low" => 20,
                _ => 120,
            };
            let thinking = vec!["hm"; thought].join(" ");
            match self.is_wrong(HostFact::ReasoningPlace) {
                true => message["content"] = json!(format!("<think>{thinking}</think>{text}")),
                false => message["reasoning_content"] = json!(thinking),
            }
        }
        let likeliest = request["top_logprobs"].as_u64().unwrap_or(0).min(TOKENS) as usize;
        let likeliest = self.source.likeliest(prompt_of(request), wall_micros() / DAY_US, likeliest).into_iter();
        let shares = likeliest.map(|(word, share)| json!({ "token": word, "logprob": share.ln(), "bytes": null }));
        let token = json!({ "token": "a", "logprob": -0.1, "bytes": null, "top_logprobs": shares.collect::<Vec<_>>() });
        let logprobs = match request["logprobs"] == true && !self.is_wrong(HostFact::Logprobs) {
            true => json!({ "content": vec![token; tokens as usize] }),
            false => Value::Null,
        };
        ObedientChoice { message, tokens: tokens + thought as u64, end, logprobs }
    }

    /// The text, why it ends, and its tokens.
    fn text(&self, request: &Value, rng: &mut Rng) -> (String, &'static str, u64) {
        let prompt = prompt_of(request);
        let asked = request["max_tokens"].as_u64().or(request["max_completion_tokens"].as_u64());
        let max = asked.filter(|_| !self.is_wrong(HostFact::MaxTokens)).unwrap_or(TOKENS).min(TOKENS);
        let max = if self.is_wrong(HostFact::AnswerLength) { max.min(CAPPED) } else { max };
        let schema = &request["response_format"]["json_schema"]["schema"];
        let mut is_sampled = false;
        let whole = if schema.is_object() && !self.is_wrong(HostFact::Schema) {
            return (instance(schema, false).to_string(), "stop", 20);
        } else if prompt.starts_with("Count from 1") {
            (1..=100).map(|number| format!("{number} ")).collect()
        } else if let Some(("Repeat exactly, and write nothing else", text)) = prompt.split_once(": ") {
            match self.is_wrong(HostFact::Unicode) {
                true => text.chars().map(|sign| if sign.is_ascii() { sign } else { '?' }).collect(),
                false => text.to_owned(),
            }
        } else if prompt.starts_with("Antworte auf Deutsch") {
            let english = self.is_wrong(HostFact::Language);
            if english { "The capital of France is Paris." } else { "Die Hauptstadt von Frankreich ist Paris." }
                .to_owned()
        } else {
            let is_cold = request["temperature"].as_f64() == Some(0.0);
            let is_narrow =
                request["top_p"].as_f64().is_some_and(|top_p| top_p < 0.1) && !self.is_wrong(HostFact::TopP);
            let greedy = is_cold || is_narrow || self.is_wrong(HostFact::Fresh);
            let day = wall_micros() / DAY_US;
            is_sampled = true;
            self.source.words(prompt, max as usize, day, greedy, rng).concat()
        };
        let stops = request["stop"].as_array().filter(|_| !self.is_wrong(HostFact::Stop));
        let stop = stops.into_iter().flatten().filter_map(|stop| whole.find(stop.as_str()?)).min();
        let (whole, mut end) = (&whole[..stop.unwrap_or(whole.len())], "stop");
        let words: Vec<&str> = whole.split_inclusive(' ').collect();
        let tokens = (words.len() as u64).min(max);
        if words.len() as u64 > max || is_sampled {
            end = "length";
        }
        (words[..tokens as usize].concat(), end, tokens)
    }

    fn calls(&self, request: &Value) -> Vec<Value> {
        let Some(tools) = request["tools"].as_array() else { return Vec::new() };
        let prompt = request["messages"].to_string();
        let choice = &request["tool_choice"];
        let named = choice["function"]["name"].as_str();
        let is_named = |tool: &&Value| tool["function"]["name"].as_str() == named;
        let mentions = prompt.contains("Use the tool");
        let (tool, wrong) = match (choice.as_str(), named) {
            (_, Some(_)) if self.is_wrong(HostFact::ToolNamed) => (tools.iter().find(|tool| !is_named(tool)), false),
            (_, Some(_)) => (tools.iter().find(is_named), false),
            (Some("none"), _) => (tools.first(), !self.is_wrong(HostFact::ToolNone)),
            (Some("required"), _) => (tools.first(), self.is_wrong(HostFact::ToolRequired)),
            _ => (tools.first(), !mentions || self.is_wrong(HostFact::ToolAuto)),
        };
        let Some(tool) = tool.filter(|_| !wrong) else { return Vec::new() };
        let many = prompt.contains("for each at once") && !self.is_wrong(HostFact::Parallel);
        let function = &tool["function"];
        let arguments = instance(&function["parameters"], self.is_wrong(HostFact::Arguments)).to_string();
        let call = |number: usize| {
            json!({
                "id": format!("call_{number}"), "type": "function",
                "function": { "name": function["name"], "arguments": arguments },
            })
        };
        (0..if many { 3 } else { 1 }).map(call).collect()
    }
}

/// The last message.
fn prompt_of(request: &Value) -> &str {
    request["messages"].as_array().and_then(|all| all.last()?["content"].as_str()).unwrap_or_default()
}

/// The smallest value that keeps to a schema of the kinds that `verify` sends; `wrong`: an enum has a value of its own.
fn instance(schema: &Value, wrong: bool) -> Value {
    if let Some(choices) = schema["enum"].as_array() {
        return if wrong { json!("none of these") } else { choices.first().cloned().unwrap_or_default() };
    }
    match schema["type"].as_str() {
        Some("object") => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members
                .map(|(name, schema)| (name.clone(), instance(schema, wrong)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Some("array") => {
            let items = schema["minItems"].as_u64().unwrap_or(1).clamp(1, CHOICES_MAX);
            (0..items).map(|_| instance(&schema["items"], wrong)).collect()
        }
        Some("integer" | "number") if wrong => json!("one"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(!wrong),
        _ if wrong => json!(1),
        _ => json!("a"),
    }
}
