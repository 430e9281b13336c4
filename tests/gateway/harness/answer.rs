//! Short helpers for scripts and answers: what providers send and what clients read.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;

use crate::harness::gateway::Row;
use crate::support::{Gate, Head, RawClient, Script, sse_events};

/// A whole answer to a client.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Reads an answer to its end.
pub async fn read_response(client: &mut RawClient) -> Response {
    let head = client.head().await;
    read_rest(client, head).await
}

/// Reads the rest of an answer after its head.
pub async fn read_rest(client: &mut RawClient, head: Head) -> Response {
    let body = client.body(&head).await.unwrap();
    Response { status: head.status, headers: head.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

impl Response {
    /// The first header of this name, lower case; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn upstream(&self) -> &str {
        self.header("x-photofinish-upstream")
    }

    pub fn events(&self) -> Vec<String> {
        sse_events(self.body.as_bytes())
    }

    /// The text of all deltas.
    pub fn streamed_text(&self) -> String {
        self.events().iter().map(|event| text(event)).collect()
    }

    pub fn is_done(&self) -> bool {
        self.events().last().is_some_and(|event| event == "[DONE]")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn error_code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Status, `error.code` and `error.message` of an error in OpenAI's shape, which it checks.
    pub fn error(&self) -> (u16, String, String) {
        let json = self.json();
        let error = json["error"].as_object().unwrap_or_else(|| panic!("no error: {json}"));
        for member in ["message", "type", "param", "code"] {
            assert!(error.contains_key(member), "{member} is missing: {json}");
        }
        assert_eq!(self.header("content-type"), "application/json");
        let text = |member: &str| error[member].as_str().unwrap().to_owned();
        (self.status, text("code"), text("message"))
    }
}

/// The text of one event's delta.
pub fn text(event: &str) -> String {
    let event: Value = serde_json::from_str(event).unwrap_or_default();
    event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
}

/// The events up to and including the first with text.
pub async fn first_text(client: &mut RawClient) -> String {
    loop {
        let event = client.event().await.unwrap().expect("an event with text");
        if !text(&event).is_empty() {
            return text(&event);
        }
    }
}

/// A whole stream once the gate is open. Before that nothing is sent, not even headers.
pub fn stream_after(gate: &Gate, tokens: &[&str]) -> Script {
    let mut script = Script::new().wait(gate);
    script.steps.extend(Script::stream(tokens).steps);
    script
}

/// Takes the request and never answers.
pub fn silent() -> Script {
    Script::new().until_closed()
}

/// An error answer, after which the gateway closes the connection: the fake sees when it was read.
pub fn error_and_close(status: u16, body: &str) -> Script {
    Script::status(status, &[("connection", "close")], body)
}

/// Moves the clock of this test forward: of its gateway, its providers and its clients.
pub async fn advance_clock(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Moves the clock forward in steps until the event has happened. Between two steps real time passes, so that data in
/// the sockets arrives.
pub async fn advance_clock_until<T>(event: impl Future<Output = T>) -> T {
    const STEP: Duration = Duration::from_millis(200);
    const REAL: Duration = Duration::from_millis(10);
    let mut event = pin!(event);
    loop {
        match tokio::time::timeout(REAL, &mut event).await {
            Ok(value) => return value,
            Err(_) => advance_clock(STEP).await,
        }
    }
}

/// How an attempt ended, from its row, without NULL values.
pub fn ending(row: &Row) -> Value {
    let columns = ["outcome", "ttft_event", "censor_cause", "failure", "failure_phase"];
    columns
        .iter()
        .map(|column| ((*column).to_owned(), row[*column].clone()))
        .filter(|(_, value)| !value.is_null())
        .collect()
}
