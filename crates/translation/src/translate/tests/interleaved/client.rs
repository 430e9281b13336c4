//! What a client of each surface understands, read by parsers of the test's own: none of the crate's readers is used. Not
//! for what was expected: see `truth`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::truth::Finish;
use photofinish_wire::dialect::Surface;

/// An answer, as a client has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub text: String,
    pub reasoning: String,
    /// Base64.
    pub images: Vec<String>,
    /// Id, name and arguments.
    pub calls: Vec<(String, String, Value)>,
    pub finish: Finish,
    pub usage: (i64, i64),
}

/// What was understood so far.
#[derive(Default)]
struct Heard {
    text: String,
    reasoning: String,
    images: Vec<String>,
    calls: Vec<HeardCall>,
    finish: Option<Finish>,
    usage: Option<(i64, i64)>,
}

#[derive(Clone, Debug, Default)]
struct HeardCall {
    id: String,
    name: String,
    arguments: String,
}

type Parsed = Result<Answer, String>;

/// Reads a stream. `native`: as the upstream wrote it, so blocks may overlap.
pub(super) fn streamed(surface: Surface, bytes: &[u8], native: bool) -> Parsed {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    match surface {
        Surface::Chat => chat_stream(text),
        Surface::Responses => responses_stream(text),
        Surface::Messages => messages_stream(text, native),
        Surface::Gemini => gemini(&events(text)?),
        _ => ollama(&text.lines().map(json).collect::<Result<Vec<_>, _>>()?),
    }
}

/// Reads a whole answer.
pub(super) fn whole(surface: Surface, body: &[u8]) -> Parsed {
    let body = json(std::str::from_utf8(body).map_err(|error| error.to_string())?)?;
    match surface {
        Surface::Chat => chat_whole(&body),
        Surface::Responses => responses_whole(&body),
        Surface::Messages => messages_whole(&body),
        Surface::Gemini => gemini(&[body]),
        _ => ollama(&[body]),
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("no JSON: {error}: {text}"))
}

/// The data of server-sent events.
fn events(text: &str) -> Result<Vec<Value>, String> {
    let data = text.split("\n\n").filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.filter(|data| *data != "[DONE]").map(json).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn counts(usage: &Value, input: &str, output: &str) -> Option<(i64, i64)> {
    Some((usage[input].as_i64()?, usage[output].as_i64()?))
}

/// The image of a data URL of a PNG.
fn png(url: &str) -> String {
    url.strip_prefix("data:image/png;base64,").unwrap_or(url).to_owned()
}

impl Heard {
    fn answer(self) -> Parsed {
        let mut answer = Answer {
            text: self.text,
            reasoning: self.reasoning,
            images: self.images,
            calls: Vec::new(),
            finish: self.finish.ok_or("no finish")?,
            usage: self.usage.ok_or("no usage")?,
        };
        for call in self.calls {
            let arguments = json(&call.arguments).map_err(|error| format!("arguments: of {}: {error}", call.name))?;
            answer.calls.push((call.id, call.name, arguments));
        }
        Ok(answer)
    }

    /// Takes images out of a text, where a surface has no other place for them.
    fn with_images_of_text(mut self) -> Heard {
        let mut parts = self.text.split("![image](data:image/png;base64,").map(str::to_owned);
        let mut left = parts.next().unwrap_or_default();
        for part in parts {
            let (image, after) = part.split_once(')').unwrap_or((&part, ""));
            self.images.push(image.to_owned());
            left += after;
        }
        self.text = left;
        self
    }

    /// The end of a surface with one word for an answer with and without calls.
    fn ended(&mut self, good: bool, cut: bool) {
        self.finish = match (good, cut) {
            (true, _) if self.calls.is_empty() => Some(Finish::Stop),
            (true, _) => Some(Finish::Calls),
            (_, true) => Some(Finish::Length),
            _ => None,
        };
    }

    fn call(&mut self, id: &Value, name: &Value, arguments: String) {
        self.calls.push(HeardCall { id: text(id).to_owned(), name: text(name).to_owned(), arguments });
    }
}

fn chat_finish(reason: &Value) -> Option<Finish> {
    match text(reason) {
        "stop" => Some(Finish::Stop),
        "tool_calls" => Some(Finish::Calls),
        "length" => Some(Finish::Length),
        _ => None,
    }
}

fn chat_stream(stream: &str) -> Parsed {
    if !stream.ends_with("data: [DONE]\n\n") {
        return Err("no [DONE] at the end".to_owned());
    }
    let (mut heard, mut calls) = (Heard::default(), BTreeMap::<u64, HeardCall>::new());
    for event in events(stream)? {
        heard.usage = counts(&event["usage"], "prompt_tokens", "completion_tokens").or(heard.usage);
        for choice in list(&event["choices"]) {
            let delta = &choice["delta"];
            heard.text += text(&delta["content"]);
            heard.reasoning += text(delta.get("reasoning_content").unwrap_or(&delta["reasoning"]));
            heard.images.extend(list(&delta["images"]).map(|image| png(text(&image["image_url"]["url"]))));
            for fragment in list(&delta["tool_calls"]) {
                let call = calls.entry(fragment["index"].as_u64().ok_or("a call without index")?).or_default();
                call.id += text(&fragment["id"]);
                call.name += text(&fragment["function"]["name"]);
                call.arguments += text(&fragment["function"]["arguments"]);
            }
            heard.finish = chat_finish(&choice["finish_reason"]).or(heard.finish);
        }
    }
    heard.calls = calls.into_values().collect();
    heard.answer()
}

fn chat_whole(body: &Value) -> Parsed {
    let mut heard = Heard::default();
    let message = &body["choices"][0]["message"];
    heard.text += text(&message["content"]);
    heard.reasoning += text(message.get("reasoning_content").unwrap_or(&message["reasoning"]));
    heard.images.extend(list(&message["images"]).map(|image| png(text(&image["image_url"]["url"]))));
    for call in list(&message["tool_calls"]) {
        let function = &call["function"];
        heard.call(&call["id"], &function["name"], text(&function["arguments"]).to_owned());
    }
    heard.finish = chat_finish(&body["choices"][0]["finish_reason"]);
    heard.usage = counts(&body["usage"], "prompt_tokens", "completion_tokens");
    heard.answer()
}

/// The finished items, the deltas of each, and the last event agree with each other.
fn responses_stream(stream: &str) -> Parsed {
    let (mut items, mut deltas, mut last) = (BTreeMap::new(), BTreeMap::<u64, String>::new(), Value::Null);
    for mut event in events(stream)? {
        let at = event["output_index"].as_u64();
        match text(&event["type"]) {
            "response.output_item.done" => drop(items.insert(at.ok_or("no index")?, event["item"].take())),
            "response.output_text.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.function_call_arguments.delta" => {
                *deltas.entry(at.ok_or("no index")?).or_default() += text(&event["delta"]);
            }
            "response.completed" | "response.incomplete" => last = event["response"].take(),
            "response.failed" | "error" => return Err(format!("an error: {event}")),
            _ => {}
        }
    }
    let items: Vec<(u64, Value)> = items.into_iter().collect();
    for (at, delta) in &deltas {
        let item = items.iter().find(|(index, _)| index == at).map_or(&Value::Null, |(_, item)| item);
        let texts = list(&item["content"]).chain(list(&item["summary"])).map(|part| text(&part["text"]));
        let whole: String = texts.chain([text(&item["arguments"])]).collect();
        if !delta.is_empty() && *delta != whole {
            return Err(format!("deltas are not the item: {delta:?}, {item}"));
        }
    }
    let output: Value = items.into_iter().map(|(_, item)| item).collect();
    if last["output"].as_array().is_some_and(|output| !output.is_empty()) && last["output"] != output {
        return Err(format!("items are not the end's: {output}, {}", last["output"]));
    }
    last["output"] = output;
    responses_whole(&last)
}

fn responses_whole(body: &Value) -> Parsed {
    let mut heard = Heard::default();
    for item in list(&body["output"]) {
        match text(&item["type"]) {
            "message" => heard.text.extend(list(&item["content"]).map(|part| text(&part["text"]))),
            "reasoning" => {
                let parts = list(&item["content"]).chain(list(&item["summary"]));
                heard.reasoning.extend(parts.map(|part| text(&part["text"])));
            }
            "function_call" => heard.call(&item["call_id"], &item["name"], text(&item["arguments"]).to_owned()),
            "image_generation_call" => heard.images.push(text(&item["result"]).to_owned()),
            other => return Err(format!("an item {other}")),
        }
    }
    let is_cut = body["incomplete_details"]["reason"] == "max_output_tokens" && body["status"] == "incomplete";
    heard.ended(body["status"] == "completed", is_cut);
    heard.usage = counts(&body["usage"], "input_tokens", "output_tokens");
    heard.answer()
}

/// Deltas are put into the blocks of a message, as the vendor's clients do.
fn messages_stream(stream: &str, native: bool) -> Parsed {
    let (mut message, mut blocks) = (Value::Null, BTreeMap::<u64, (Value, String)>::new());
    let (mut open, mut ended) = (0, false);
    for mut event in events(stream)? {
        let at = event["index"].as_u64().unwrap_or(0);
        match text(&event["type"]) {
            "message_start" => message = event["message"].take(),
            "content_block_start" => {
                open += 1;
                if !native && (open > 1 || at as usize != blocks.len()) {
                    return Err(format!("blocks overlap: {at}"));
                }
                blocks.insert(at, (event["content_block"].take(), String::new()));
            }
            "content_block_delta" => {
                let (block, input) = blocks.get_mut(&at).ok_or("a delta of no block")?;
                let delta = &event["delta"];
                *input += text(&delta["partial_json"]);
                for member in ["text", "thinking"].into_iter().filter(|member| delta[*member].is_string()) {
                    block[member] = Value::from(text(&block[member]).to_owned() + text(&delta[member]));
                }
            }
            "content_block_stop" => open -= 1,
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].take();
                for (name, count) in event["usage"].as_object().into_iter().flatten() {
                    message["usage"][name.as_str()] = count.clone();
                }
            }
            "message_stop" => ended = true,
            "error" => return Err(format!("an error: {event}")),
            _ => {}
        }
    }
    if !ended {
        return Err("no message_stop".to_owned());
    }
    let blocks = blocks.into_values().map(|(mut block, input)| {
        if !input.is_empty() {
            block["input"] = json(&input)?;
        }
        Ok(block)
    });
    message["content"] = Value::Array(blocks.collect::<Result<_, String>>()?);
    messages_whole(&message)
}

fn messages_whole(body: &Value) -> Parsed {
    let mut heard = Heard::default();
    for block in list(&body["content"]) {
        match text(&block["type"]) {
            "text" => heard.text += text(&block["text"]),
            "thinking" => heard.reasoning += text(&block["thinking"]),
            "tool_use" => heard.call(&block["id"], &block["name"], block["input"].to_string()),
            other => return Err(format!("a block {other}")),
        }
    }
    heard.finish = match text(&body["stop_reason"]) {
        "end_turn" => Some(Finish::Stop),
        "tool_use" => Some(Finish::Calls),
        "max_tokens" => Some(Finish::Length),
        _ => None,
    };
    heard.usage = counts(&body["usage"], "input_tokens", "output_tokens");
    heard.with_images_of_text().answer()
}

fn gemini(chunks: &[Value]) -> Parsed {
    let (mut heard, mut reason) = (Heard::default(), String::new());
    for chunk in chunks {
        let candidate = &chunk["candidates"][0];
        for part in list(&candidate["content"]["parts"]) {
            let call = &part["functionCall"];
            match part["thought"] == true {
                true => heard.reasoning += text(&part["text"]),
                false => heard.text += text(&part["text"]),
            }
            if call.is_object() {
                heard.call(&call["id"], &call["name"], call["args"].to_string());
            }
            heard.images.extend(part["inlineData"]["data"].as_str().map(str::to_owned));
        }
        reason += text(&candidate["finishReason"]);
        let usage = &chunk["usageMetadata"];
        let thoughts = usage["thoughtsTokenCount"].as_i64().unwrap_or(0);
        let now = counts(usage, "promptTokenCount", "candidatesTokenCount");
        heard.usage = now.map(|(input, output)| (input, output + thoughts)).or(heard.usage);
    }
    heard.ended(reason == "STOP", reason == "MAX_TOKENS");
    heard.answer()
}

fn ollama(lines: &[Value]) -> Parsed {
    let (mut heard, mut reason) = (Heard::default(), "");
    for line in lines {
        let message = &line["message"];
        heard.text += text(&message["content"]);
        heard.reasoning += text(&message["thinking"]);
        for call in list(&message["tool_calls"]) {
            let function = &call["function"];
            heard.call(&call["id"], &function["name"], function["arguments"].to_string());
        }
        heard.usage = counts(line, "prompt_eval_count", "eval_count").or(heard.usage);
        reason = text(&line["done_reason"]);
    }
    let is_done = lines.last().is_some_and(|line| line["done"] == true);
    heard.ended(is_done && reason == "stop", is_done && reason == "length");
    heard.with_images_of_text().answer()
}
