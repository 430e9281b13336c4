//! A surface of the gateway: its requests, and checks of its answers, translated or not.

use serde_json::{Value, json};

use crate::harness::answer::Response;
use crate::support::Dialect;

/// A surface of the gateway whose answers may be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    Chat,
    Responses,
    Messages,
    /// Ollama's `/api/chat`.
    Ollama,
    /// Gemini's `generateContent` and `streamGenerateContent`.
    Gemini,
}

/// One event of a stream.
struct Event {
    /// The value of its `event:` line; empty if there is none.
    name: String,
    data: Value,
}

impl Surface {
    pub const ALL: [Surface; 5] =
        [Surface::Chat, Surface::Responses, Surface::Messages, Surface::Ollama, Surface::Gemini];

    /// Of a whole answer, with the model `m` where it names one.
    pub fn path(self) -> &'static str {
        match self {
            Surface::Chat => "/v1/chat/completions",
            Surface::Responses => "/v1/responses",
            Surface::Messages => "/v1/messages",
            Surface::Ollama => "/api/chat",
            Surface::Gemini => "/v1beta/models/m:generateContent",
        }
    }

    /// The path of a request for this model.
    pub fn path_for(self, model: &str, stream: bool) -> String {
        match (self, stream) {
            (Surface::Gemini, true) => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            (Surface::Gemini, false) => format!("/v1beta/models/{model}:generateContent"),
            _ => self.path().to_owned(),
        }
    }

    /// The dialect that gets its requests untranslated.
    pub fn dialect(self) -> Dialect {
        match self {
            Surface::Chat => Dialect::OpenAi,
            Surface::Responses => Dialect::Responses,
            Surface::Messages => Dialect::Anthropic,
            Surface::Ollama => Dialect::Ollama,
            Surface::Gemini => Dialect::Gemini,
        }
    }

    /// A request that every dialect can express.
    pub fn body(self, model: &str, stream: bool) -> Value {
        let mut body = match self {
            // The path has the rest.
            Surface::Gemini => return json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}),
            Surface::Chat | Surface::Ollama => {
                json!({"model": model, "messages": [{"role": "user", "content": "hello"}]})
            }
            Surface::Responses => json!({"model": model, "input": "hello"}),
            Surface::Messages => {
                json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]})
            }
        };
        // Ollama streams by default.
        if stream || self == Surface::Ollama {
            body["stream"] = json!(stream);
        }
        body
    }

    /// The same, for an answer of at most this number of tokens.
    pub fn limited(self, model: &str, stream: bool, tokens: u64) -> Value {
        let mut body = self.body(model, stream);
        match self {
            Surface::Chat | Surface::Messages => body["max_tokens"] = json!(tokens),
            Surface::Responses => body["max_output_tokens"] = json!(tokens),
            Surface::Ollama => body["options"] = json!({ "num_predict": tokens }),
            Surface::Gemini => body["generationConfig"] = json!({ "maxOutputTokens": tokens }),
        }
        body
    }

    /// The text that one event adds; empty if it adds none.
    pub fn text(self, event: &str) -> String {
        let event: Value = serde_json::from_str(event).unwrap_or_default();
        let text = match self {
            Surface::Chat => &event["choices"][0]["delta"]["content"],
            Surface::Responses if event["type"] == "response.output_text.delta" => &event["delta"],
            Surface::Messages if event["type"] == "content_block_delta" => &event["delta"]["text"],
            Surface::Ollama => &event["message"]["content"],
            Surface::Gemini => return gemini_text(&event),
            Surface::Responses | Surface::Messages => &Value::Null,
        };
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The text of a stream.
    pub fn streamed_text(self, response: &Response) -> String {
        response.events().iter().map(|event| self.text(event)).collect()
    }

    /// The text of an answer that came as a whole.
    pub fn whole_text(self, answer: &Value) -> String {
        match self {
            Surface::Chat => answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
            Surface::Responses => {
                let items = answer["output"].as_array().into_iter().flatten();
                let parts = items.flat_map(|item| item["content"].as_array().into_iter().flatten());
                parts.filter_map(|part| part["text"].as_str()).collect()
            }
            Surface::Messages => {
                let blocks = answer["content"].as_array().into_iter().flatten();
                blocks.filter_map(|block| block["text"].as_str()).collect()
            }
            Surface::Ollama => answer["message"]["content"].as_str().unwrap_or_default().to_owned(),
            Surface::Gemini => gemini_text(answer),
        }
    }

    /// The finish reason, in the surface's word.
    pub fn whole_finish(self, answer: &Value) -> &str {
        let reason = match self {
            Surface::Chat => &answer["choices"][0]["finish_reason"],
            Surface::Responses => &answer["status"],
            Surface::Messages => &answer["stop_reason"],
            Surface::Ollama => &answer["done_reason"],
            Surface::Gemini => &answer["candidates"][0]["finishReason"],
        };
        reason.as_str().unwrap_or_default()
    }

    /// Input and output tokens of a whole answer.
    pub fn whole_usage(self, answer: &Value) -> (u64, u64) {
        let count = |name: &str| answer["usage"][name].as_u64().unwrap_or_default();
        match self {
            Surface::Chat => (count("prompt_tokens"), count("completion_tokens")),
            Surface::Responses => (count("input_tokens"), count("output_tokens")),
            // Cached tokens are counted separately.
            Surface::Messages => (count("input_tokens") + count("cache_read_input_tokens"), count("output_tokens")),
            Surface::Gemini => {
                let count = |name: &str| answer["usageMetadata"][name].as_u64().unwrap_or_default();
                (count("promptTokenCount"), count("candidatesTokenCount") + count("thoughtsTokenCount"))
            }
            Surface::Ollama => {
                let count = |name: &str| answer[name].as_u64().unwrap_or_default();
                (count("prompt_eval_count"), count("eval_count"))
            }
        }
    }

    /// Checks that the official client can read the stream to its end without an error.
    pub fn assert_complete(self, response: &Response) {
        assert!(
            response.status == 200 && response.header("content-type").starts_with(self.dialect().content_type()),
            "{response:#?}"
        );
        if self == Surface::Ollama {
            return ollama(response);
        }
        let events = events(&response.body);
        match self {
            Surface::Chat => chat(&events, response),
            Surface::Responses => responses(&events, response),
            Surface::Messages => messages(&events, response),
            Surface::Ollama => {}
            Surface::Gemini => gemini(&events, response),
        }
    }

    /// Checks that the stream breaks off with an error event, without a normal end. Returns the message.
    pub fn assert_broken(self, response: &Response) -> String {
        if self == Surface::Ollama {
            let lines = lines(response);
            assert!(lines.iter().all(|line| line["done"] != true), "{}", response.body);
            let said = lines.last().and_then(|line| line["error"].as_str()).filter(|said| !said.is_empty());
            return said.unwrap_or_else(|| panic!("{}", response.body)).to_owned();
        }
        let events = events(&response.body);
        let ends = ["[DONE]", "message_stop", "response.completed", "response.incomplete"];
        let is_end = |event: &&Event| {
            ends.contains(&event.data["type"].as_str().unwrap_or_default())
                || event.data["candidates"][0]["finishReason"].is_string()
        };
        assert!(!response.body.contains("[DONE]") && !events.iter().any(|event| is_end(&event)), "{}", response.body);
        let last = events.last().unwrap_or_else(|| panic!("no event in {response:#?}"));
        let message = match self {
            Surface::Chat | Surface::Gemini => &last.data["error"]["message"],
            Surface::Responses if last.name == "response.failed" => &last.data["response"]["error"]["message"],
            Surface::Responses => {
                assert_eq!((last.name.as_str(), &last.data["type"]), ("error", &json!("error")), "{}", response.body);
                &last.data["message"]
            }
            Surface::Messages => {
                assert_eq!((last.name.as_str(), &last.data["type"]), ("error", &json!("error")), "{}", response.body);
                assert!(last.data["error"]["type"].is_string(), "{}", response.body);
                &last.data["error"]["message"]
            }
            Surface::Ollama => &Value::Null,
        };
        message.as_str().filter(|message| !message.is_empty()).unwrap_or_else(|| panic!("{}", response.body)).to_owned()
    }

    /// The object with an error's `code` and `attempts`.
    pub fn error_members(self, answer: &Value) -> Value {
        match self {
            Surface::Ollama => answer.clone(),
            Surface::Gemini => {
                let mut error = answer["error"].clone();
                error["code"] = error["details"][0]["reason"].clone();
                error
            }
            _ => answer["error"].clone(),
        }
    }

    /// Checks that the answer is an error in the surface's shape. Returns its `type` and its message.
    pub fn error(self, response: &Response) -> (String, String) {
        let answer = response.json();
        if let (Surface::Ollama, Some(said)) = (self, answer["error"].as_str()) {
            return (answer["type"].as_str().unwrap_or_default().to_owned(), said.to_owned());
        }
        if self == Surface::Messages {
            assert_eq!(answer["type"], "error", "{}", response.body);
        }
        if self == Surface::Gemini && answer["error"]["details"].is_array() {
            assert_eq!(answer["error"]["code"], response.status, "{}", response.body);
            let kind = match answer["error"]["status"].as_str() {
                Some("INVALID_ARGUMENT" | "NOT_FOUND") => "invalid_request_error",
                Some("RESOURCE_EXHAUSTED") => "rate_limit_error",
                Some("INTERNAL" | "UNAVAILABLE" | "DEADLINE_EXCEEDED") => "server_error",
                _ => panic!("{}", response.body),
            };
            return (kind.to_owned(), answer["error"]["message"].as_str().unwrap().to_owned());
        }
        let text =
            |name: &str| answer["error"][name].as_str().unwrap_or_else(|| panic!("{}", response.body)).to_owned();
        (text("type"), text("message"))
    }
}

fn lines(response: &Response) -> Vec<Value> {
    response.events().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The events with their names. Comments are left out, and `[DONE]` is a text.
fn events(body: &str) -> Vec<Event> {
    let mut events = Vec::new();
    for block in body.replace("\r\n", "\n").split("\n\n") {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let Some(data) = field("data:") else { continue };
        let data = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        events.push(Event { name: field("event:").unwrap_or_default().to_owned(), data });
    }
    events
}

/// The text of the first candidate, without its thoughts.
fn gemini_text(answer: &Value) -> String {
    let parts = answer["candidates"][0]["content"]["parts"].as_array().into_iter().flatten();
    parts.filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str()).collect()
}

fn gemini(events: &[Event], response: &Response) {
    let (last, others) = events.split_last().expect("events");
    assert!(events.iter().all(|event| event.name.is_empty() && event.data["error"].is_null()), "{}", response.body);
    assert!(last.data["candidates"][0]["finishReason"].is_string(), "{}", response.body);
    assert!(others.iter().all(|event| event.data["candidates"][0]["finishReason"].is_null()), "{}", response.body);
    // Google's clients take a comment for an event.
    assert!(response.body.lines().all(|line| line.is_empty() || line.starts_with("data: ")), "{}", response.body);
}

fn ollama(response: &Response) {
    let (body, lines) = (&response.body, lines(response));
    let (last, others) = lines.split_last().expect("lines");
    assert!(last["done"] == true && last["done_reason"].is_string(), "{body}");
    assert!(others.iter().all(|line| line["done"] == false && line["message"]["role"] == "assistant"), "{body}");
    assert!(lines.iter().all(|line| line["error"].is_null()), "{body}");
}

fn chat(events: &[Event], response: &Response) {
    let (last, chunks) = events.split_last().expect("events");
    assert_eq!(last.data, "[DONE]", "{}", response.body);
    let with_choice: Vec<&Value> =
        chunks.iter().map(|event| &event.data["choices"][0]).filter(|choice| !choice.is_null()).collect();
    assert!(chunks.iter().all(|event| event.data["object"] == "chat.completion.chunk"), "{}", response.body);
    let finished = with_choice.iter().filter(|choice| choice["finish_reason"].is_string()).count();
    assert_eq!(finished, 1, "{}", response.body);
    assert_eq!(with_choice[0]["delta"]["role"], "assistant", "{}", response.body);
}

fn responses(events: &[Event], response: &Response) {
    let (first, last) = (&events[0], events.last().expect("events"));
    assert_eq!(first.name, "response.created", "{}", response.body);
    assert!(["response.completed", "response.incomplete"].contains(&last.name.as_str()), "{}", response.body);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.data["type"], event.name, "{}", response.body);
        assert_eq!(event.data["sequence_number"], number, "{}", response.body);
    }
    let ids: Vec<&Value> = [first, last].iter().map(|event| &event.data["response"]["id"]).collect();
    assert!(ids[0] == ids[1] && ids[0].is_string(), "{}", response.body);
    let whole = Surface::Responses.whole_text(&last.data["response"]);
    assert_eq!(whole, Surface::Responses.streamed_text(response), "{}", response.body);
    let opened = |event: &&Event| event.name == "response.output_item.added";
    let closed = |event: &&Event| event.name == "response.output_item.done";
    assert_eq!(events.iter().filter(opened).count(), events.iter().filter(closed).count(), "{}", response.body);
}

fn messages(events: &[Event], response: &Response) {
    let body = &response.body;
    assert_eq!(events[0].name, "message_start", "{body}");
    assert_eq!(events.last().expect("events").name, "message_stop", "{body}");
    let (mut open, mut next, mut stopped) = (None, 0, false);
    for event in events {
        assert_eq!(event.data["type"], event.name, "{body}");
        match event.name.as_str() {
            "content_block_start" => {
                assert_eq!((open, &event.data["index"]), (None, &json!(next)), "{body}");
                (open, next) = (Some(next), next + 1);
            }
            "content_block_delta" => assert_eq!(event.data["index"].as_i64(), open, "{body}"),
            "content_block_stop" => {
                assert!(open.is_some() && event.data["index"].as_i64() == open.take(), "{body}");
            }
            "message_delta" => {
                assert!(open.is_none() && !stopped, "{body}");
                stopped = event.data["delta"]["stop_reason"].is_string();
            }
            "message_start" | "message_stop" | "ping" => {}
            other => panic!("{other} in {body}"),
        }
    }
    assert!(stopped, "{body}");
}
