//! What a client calls and how it reads the answers: the judge of everything that the gateway writes, translated or not.

use serde_json::{Value, json};

use crate::harness::answer::Heard;
use crate::support::Dialect;

/// A surface of the gateway whose answers may be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    Chat,
    Responses,
    Messages,
}

/// One event of a stream.
struct Event {
    /// Of its `event:` line; empty where there is none.
    name: String,
    data: Value,
}

impl Called {
    pub const ALL: [Called; 3] = [Called::Chat, Called::Responses, Called::Messages];

    pub fn path(self) -> &'static str {
        match self {
            Called::Chat => "/v1/chat/completions",
            Called::Responses => "/v1/responses",
            Called::Messages => "/v1/messages",
        }
    }

    /// What an upstream speaks that gets its requests as they are.
    pub fn dialect(self) -> Dialect {
        match self {
            Called::Chat => Dialect::OpenAi,
            Called::Responses => Dialect::Responses,
            Called::Messages => Dialect::Anthropic,
        }
    }

    /// A request that every dialect can express.
    pub fn body(self, model: &str, stream: bool) -> Value {
        let mut body = match self {
            Called::Chat => json!({"model": model, "messages": [{"role": "user", "content": "hello"}]}),
            Called::Responses => json!({"model": model, "input": "hello"}),
            Called::Messages => {
                json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]})
            }
        };
        if stream {
            body["stream"] = json!(true);
        }
        body
    }

    /// The text that one event adds; none of an event that adds no text.
    pub fn text(self, event: &str) -> String {
        let event: Value = serde_json::from_str(event).unwrap_or_default();
        let text = match self {
            Called::Chat => &event["choices"][0]["delta"]["content"],
            Called::Responses if event["type"] == "response.output_text.delta" => &event["delta"],
            Called::Messages if event["type"] == "content_block_delta" => &event["delta"]["text"],
            Called::Responses | Called::Messages => &Value::Null,
        };
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The text of a stream.
    pub fn said(self, heard: &Heard) -> String {
        heard.events().iter().map(|event| self.text(event)).collect()
    }

    /// The text of an answer that came as a whole.
    pub fn whole_text(self, answer: &Value) -> String {
        match self {
            Called::Chat => answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
            Called::Responses => {
                let items = answer["output"].as_array().into_iter().flatten();
                let parts = items.flat_map(|item| item["content"].as_array().into_iter().flatten());
                parts.filter_map(|part| part["text"].as_str()).collect()
            }
            Called::Messages => {
                let blocks = answer["content"].as_array().into_iter().flatten();
                blocks.filter_map(|block| block["text"].as_str()).collect()
            }
        }
    }

    /// Why it says that it ended, in its own word.
    pub fn whole_finish(self, answer: &Value) -> &str {
        let reason = match self {
            Called::Chat => &answer["choices"][0]["finish_reason"],
            Called::Responses => &answer["status"],
            Called::Messages => &answer["stop_reason"],
        };
        reason.as_str().unwrap_or_default()
    }

    /// Tokens in and out, as a whole answer tells them.
    pub fn whole_usage(self, answer: &Value) -> (u64, u64) {
        let count = |name: &str| answer["usage"][name].as_u64().unwrap_or_default();
        match self {
            Called::Chat => (count("prompt_tokens"), count("completion_tokens")),
            Called::Responses => (count("input_tokens"), count("output_tokens")),
            // Cached ones stand apart.
            Called::Messages => (count("input_tokens") + count("cache_read_input_tokens"), count("output_tokens")),
        }
    }

    /// The stream is one that the official client reads to its end without an error.
    pub fn assert_complete(self, heard: &Heard) {
        assert!(heard.status == 200 && heard.header("content-type").starts_with("text/event-stream"), "{heard:#?}");
        let events = events(&heard.body);
        match self {
            Called::Chat => chat(&events, heard),
            Called::Responses => responses(&events, heard),
            Called::Messages => messages(&events, heard),
        }
    }

    /// The stream breaks off with an error event, and has no normal end. What it says.
    pub fn assert_broken(self, heard: &Heard) -> String {
        let events = events(&heard.body);
        let ends = ["[DONE]", "message_stop", "response.completed", "response.incomplete"];
        let is_end = |event: &&Event| ends.contains(&event.data["type"].as_str().unwrap_or_default());
        assert!(!heard.body.contains("[DONE]") && !events.iter().any(|event| is_end(&event)), "{}", heard.body);
        let last = events.last().unwrap_or_else(|| panic!("no event in {heard:#?}"));
        let message = match self {
            Called::Chat => &last.data["error"]["message"],
            Called::Responses if last.name == "response.failed" => &last.data["response"]["error"]["message"],
            Called::Responses => {
                assert_eq!((last.name.as_str(), &last.data["type"]), ("error", &json!("error")), "{}", heard.body);
                &last.data["message"]
            }
            Called::Messages => {
                assert_eq!((last.name.as_str(), &last.data["type"]), ("error", &json!("error")), "{}", heard.body);
                assert!(last.data["error"]["type"].is_string(), "{}", heard.body);
                &last.data["error"]["message"]
            }
        };
        message.as_str().filter(|message| !message.is_empty()).unwrap_or_else(|| panic!("{}", heard.body)).to_owned()
    }

    /// The answer is an error in the surface's shape: its `type`, and its message.
    pub fn error(self, heard: &Heard) -> (String, String) {
        let answer = heard.json();
        if self == Called::Messages {
            assert_eq!(answer["type"], "error", "{}", heard.body);
        }
        let text = |name: &str| answer["error"][name].as_str().unwrap_or_else(|| panic!("{}", heard.body)).to_owned();
        (text("type"), text("message"))
    }
}

/// With their names. Comments are left out, and `[DONE]` is a text.
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

fn chat(events: &[Event], heard: &Heard) {
    let (last, chunks) = events.split_last().expect("events");
    assert_eq!(last.data, "[DONE]", "{}", heard.body);
    let with_choice: Vec<&Value> =
        chunks.iter().map(|event| &event.data["choices"][0]).filter(|choice| !choice.is_null()).collect();
    assert!(chunks.iter().all(|event| event.data["object"] == "chat.completion.chunk"), "{}", heard.body);
    let finished = with_choice.iter().filter(|choice| choice["finish_reason"].is_string()).count();
    assert_eq!(finished, 1, "{}", heard.body);
    assert_eq!(with_choice[0]["delta"]["role"], "assistant", "{}", heard.body);
}

fn responses(events: &[Event], heard: &Heard) {
    let (first, last) = (&events[0], events.last().expect("events"));
    assert_eq!(first.name, "response.created", "{}", heard.body);
    assert!(["response.completed", "response.incomplete"].contains(&last.name.as_str()), "{}", heard.body);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.data["type"], event.name, "{}", heard.body);
        assert_eq!(event.data["sequence_number"], number, "{}", heard.body);
    }
    let ids: Vec<&Value> = [first, last].iter().map(|event| &event.data["response"]["id"]).collect();
    assert!(ids[0] == ids[1] && ids[0].is_string(), "{}", heard.body);
    let whole = Called::Responses.whole_text(&last.data["response"]);
    assert_eq!(whole, Called::Responses.said(heard), "{}", heard.body);
    let opened = |event: &&Event| event.name == "response.output_item.added";
    let closed = |event: &&Event| event.name == "response.output_item.done";
    assert_eq!(events.iter().filter(opened).count(), events.iter().filter(closed).count(), "{}", heard.body);
}

fn messages(events: &[Event], heard: &Heard) {
    let body = &heard.body;
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
