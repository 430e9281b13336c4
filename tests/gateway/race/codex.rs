//! What Codex sends with its newer models races over upstreams of every dialect, as any other request does.

use serde_json::{Value, json};

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::Setup;
use crate::support::{Dialect, FakeProvider, Script};

/// The members of a first request of Codex with `gpt-5.6-sol`: the tools stand in the input, with a free-form one.
fn first_request() -> Value {
    let exec = json!({"type": "custom", "name": "exec", "description": "Runs JavaScript",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}});
    let wait = json!({"type": "function", "name": "wait", "strict": false, "parameters": {"type": "object", "properties": {}}});
    let tools = json!({"type": "additional_tools", "id": "at_1", "role": "developer",
        "tools": [{"type": "namespace", "name": "functions", "description": "", "tools": [exec, wait]}]});
    let says = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
    json!({"model": "m", "stream": true, "store": false, "tool_choice": "auto", "parallel_tool_calls": false,
        "input": [tools, says("developer", "You are Codex."), says("user", "go")],
        "reasoning": {"effort": "low", "context": "all_turns"}, "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k", "text": {"verbosity": "low"}, "client_metadata": {"session_id": "s", "x-codex-window-id": "w"}})
}

/// The same with `gpt-5.5`: tools beside hosted ones and a search for tools.
fn with_hosted_tools() -> Value {
    let mut body = first_request();
    body["input"].as_array_mut().unwrap().remove(0);
    let command = json!({"type": "function", "name": "exec_command", "strict": false, "parameters": {"type": "object", "properties": {}}});
    let patch = json!({"type": "custom", "name": "apply_patch", "description": "Edits files"});
    let search =
        json!({"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}});
    body["tools"] = json!([command, patch, search, {"type": "web_search", "external_web_access": true}]);
    body
}

#[tokio::test]
async fn codex_starts_a_responses_and_a_chat_upstream_at_once() {
    for body in [first_request(), with_hosted_tools()] {
        for winner in [Dialect::Responses, Dialect::OpenAi] {
            let answer = |dialect: Dialect| {
                move |_: &crate::support::Request| match dialect == winner {
                    true => Script::of(dialect).whole_stream(&["hel", "lo"]),
                    false => Script::of(dialect).open().role().nothing().until_closed(),
                }
            };
            let responses = FakeProvider::answering(answer(Dialect::Responses)).await;
            let chat = FakeProvider::answering(answer(Dialect::OpenAi)).await;
            let gateway = Setup::new()
                .provider("responses", &responses, "dialect = \"responses\"")
                .provider("chat", &chat, "dialect = \"openai\"")
                .race("policy = \"race\"")
                .start()
                .await;
            let mut client = gateway.post("/v1/responses", &body).await;
            let (native, translated) = (responses.request(0).await, chat.request(0).await);
            assert_eq!(native.json()["input"], body["input"]);
            let names: Vec<Value> = translated.json()["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["function"]["name"].clone())
                .collect();
            let wanted = if body.get("tools").is_some() {
                json!(["exec_command", "apply_patch", "tool_search"])
            } else {
                json!(["functions__exec", "functions__wait"])
            };
            assert_eq!(json!(names), wanted);
            let response = read_response(&mut client).await;
            assert_eq!(response.status, 200, "{}", response.body);
            let rows = gateway.stop().await;
            let mut outcomes: Vec<String> =
                rows.attempts.iter().map(|row| ending(row)["outcome"].as_str().unwrap().to_owned()).collect();
            outcomes.sort();
            assert_eq!(outcomes, ["lost", "won"], "{winner:?}");
        }
    }
}
