//! Where each surface has its tools, its calls, and the text of an answer. Not for judging them.

use std::borrow::Cow;

use serde_json::Value;

use crate::dialect::Surface;

/// What an answer says, as far as it is judged.
#[derive(Default)]
pub(super) struct AnswerContent<'a> {
    pub calls: Vec<Call<'a>>,
    /// One for each choice with text.
    pub texts: Vec<Cow<'a, str>>,
    /// Its own limit of tokens ended it.
    pub is_cut: bool,
    pub refuses: bool,
}

pub(super) struct Call<'a> {
    pub name: &'a str,
    arguments: &'a Value,
}

impl<'a> Call<'a> {
    fn new(name: &'a Value, arguments: &'a Value) -> Call<'a> {
        Call { name: name.as_str().unwrap_or_default(), arguments }
    }

    /// Its arguments. None: they are no JSON. None at all are an empty object.
    pub fn value(&self) -> Option<Cow<'a, Value>> {
        match self.arguments {
            Value::String(text) if text.trim().is_empty() => Some(Cow::Owned(Value::Object(serde_json::Map::new()))),
            Value::String(text) => serde_json::from_str(text).ok().map(Cow::Owned),
            Value::Null => Some(Cow::Owned(Value::Object(serde_json::Map::new()))),
            value => Some(Cow::Borrowed(value)),
        }
    }

    /// Bytes of its arguments.
    pub fn size(&self) -> usize {
        match self.arguments {
            Value::String(text) => text.len(),
            Value::Null => 0,
            value => value.to_string().len(),
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

impl<'a> AnswerContent<'a> {
    pub fn of(surface: Surface, answer: &'a Value) -> AnswerContent<'a> {
        let mut content = AnswerContent::default();
        match surface {
            Surface::Chat => items(&answer["choices"]).for_each(|choice| content.choice(choice)),
            Surface::Messages => content.message(answer),
            Surface::Responses => content.response(answer),
            Surface::Gemini => items(&answer["candidates"]).for_each(|candidate| content.candidate(candidate)),
            Surface::OllamaChat | Surface::OllamaGenerate => content.ollama(answer),
            _ => {}
        }
        content
    }

    fn add_text(&mut self, parts: impl Iterator<Item = &'a Value>) {
        let texts: Vec<&str> = parts.filter_map(Value::as_str).filter(|text| !text.is_empty()).collect();
        match texts[..] {
            [] => {}
            [text] => self.texts.push(Cow::Borrowed(text)),
            _ => self.texts.push(Cow::Owned(texts.concat())),
        }
    }

    fn choice(&mut self, choice: &'a Value) {
        let message = &choice["message"];
        self.is_cut |= choice["finish_reason"] == "length";
        self.refuses |= message["refusal"].is_string() || choice["finish_reason"] == "content_filter";
        for call in items(&message["tool_calls"]) {
            let free = &call["custom"];
            self.calls.push(match free {
                Value::Object(_) => Call::new(&free["name"], &Value::Null),
                _ => Call::new(&call["function"]["name"], &call["function"]["arguments"]),
            });
        }
        self.add_text(std::iter::once(&message["content"]));
    }

    fn message(&mut self, answer: &'a Value) {
        self.is_cut = answer["stop_reason"] == "max_tokens";
        self.refuses = answer["stop_reason"] == "refusal";
        let blocks = items(&answer["content"]);
        let calls = blocks.filter(|block| block["type"] == "tool_use");
        self.calls.extend(calls.map(|block| Call::new(&block["name"], &block["input"])));
        self.add_text(items(&answer["content"]).map(|block| &block["text"]));
    }

    fn response(&mut self, answer: &'a Value) {
        self.is_cut = answer["status"] == "incomplete";
        for item in items(&answer["output"]) {
            match item["type"].as_str() {
                Some("function_call") => self.calls.push(Call::new(&item["name"], &item["arguments"])),
                Some("custom_tool_call") => self.calls.push(Call::new(&item["name"], &Value::Null)),
                Some("message") => {
                    self.refuses |= items(&item["content"]).any(|part| part["type"] == "refusal");
                    let texts = items(&item["content"]).filter(|part| part["type"] == "output_text");
                    self.add_text(texts.map(|part| &part["text"]));
                }
                _ => {}
            }
        }
    }

    fn candidate(&mut self, candidate: &'a Value) {
        self.is_cut |= candidate["finishReason"] == "MAX_TOKENS";
        let parts = &candidate["content"]["parts"];
        let calls = items(parts).map(|part| &part["functionCall"]).filter(|call| call.is_object());
        self.calls.extend(calls.map(|call| Call::new(&call["name"], &call["args"])));
        self.add_text(items(parts).filter(|part| part["thought"] != true).map(|part| &part["text"]));
    }

    fn ollama(&mut self, answer: &'a Value) {
        self.is_cut = answer["done_reason"] == "length";
        let message = &answer["message"];
        let calls = items(&message["tool_calls"]).map(|call| &call["function"]);
        self.calls.extend(calls.map(|call| Call::new(&call["name"], &call["arguments"])));
        self.add_text([&message["content"], &answer["response"]].into_iter());
    }
}

/// A tool's name, its schema, and whether its input is free text.
type OfferedTool<'a> = (&'a str, Option<&'a Value>, bool);

/// The tools in one item of the list: None: the names of what it offers are not known here.
pub(super) fn tools_in(surface: Surface, item: &Value) -> Option<Vec<OfferedTool<'_>>> {
    match surface {
        Surface::Gemini => {
            let declared = item.get("functionDeclarations").or_else(|| item.get("function_declarations"))?;
            // `parameters` are of OpenAPI, with other names of types.
            items(declared).map(|one| Some((one["name"].as_str()?, one.get("parametersJsonSchema"), false))).collect()
        }
        Surface::Messages => {
            let is_own = item.get("type").is_none_or(|kind| kind == "custom");
            let name = item["name"].as_str().filter(|_| is_own)?;
            Some(vec![(name, item.get("input_schema"), false)])
        }
        _ => {
            let inner = item.get("function").or_else(|| item.get("custom")).unwrap_or(item);
            let is_free = item["type"] == "custom";
            let name = inner["name"]
                .as_str()
                .filter(|_| is_free || item["type"] == "function" || item.get("type").is_none())?;
            Some(vec![(name, inner.get("parameters"), is_free)])
        }
    }
}

/// The schema in the member that asks for an answer by it. A schema of OpenAPI asks only for JSON.
pub(super) fn schema_in(surface: Surface, format: &str) -> String {
    let format: Value = serde_json::from_str(format).unwrap_or_default();
    let paths: &[&str] = match surface {
        Surface::Chat => &["/json_schema/schema"],
        Surface::Responses => &["/format/schema"],
        Surface::Messages => &["/schema", "/format/schema"],
        Surface::Gemini => &["/responseJsonSchema"],
        _ => &[""],
    };
    paths.iter().find_map(|path| format.pointer(path)).unwrap_or(&Value::Bool(true)).to_string()
}
