//! What Codex sends with its newer models races over upstreams of every dialect, as any other request does.

use serde_json::{Value, json};

use crate::harness::answer::{ending, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{Dialect, FakeProvider, Script};

/// The members of a first request of Codex with `gpt-5.6-sol`: the tools are in the input, with a free-form one.
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

/// The same with `gpt-5.5`: tools, hosted ones and a search for tools.
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

/// A conversation with a call, as Codex has it when its context is full.
fn full_conversation() -> Value {
    let mut body = with_hosted_tools();
    let more = json!([
        {"type": "function_call", "call_id": "c_1", "name": "exec_command", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c_1", "output": "done"},
    ]);
    body["input"].as_array_mut().unwrap().extend(more.as_array().unwrap().clone());
    body
}

/// Dialects that have no compaction.
const OTHERS: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Ollama];

/// The short form and the whole of an answer to this.
async fn compacted(gateway: &TestGateway, path: &str, body: &Value) -> (Value, Value) {
    let response = read_response(&mut gateway.post(path, body).await).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let answer = if body["stream"] == true {
        let events: Vec<Value> = response.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let done: Vec<&Value> = events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
        assert_eq!(done.len(), 1, "Codex takes exactly one item: {done:?}");
        let last = &events.last().unwrap()["response"];
        assert_eq!(last["output"], json!([done[0]["item"]]));
        last.clone()
    } else {
        response.json()
    };
    (answer["output"][0].clone(), answer)
}

#[tokio::test]
async fn codex_compacts_over_upstreams_that_have_no_compaction() {
    for dialect in OTHERS {
        let fake =
            FakeProvider::answering(move |_| Script::of(dialect).whole_stream(&["fixed a.rs, ", "b.rs is left"])).await;
        let lines = format!("dialect = \"{}\"", dialect.name());
        let gateway = Setup::new().provider("a", &fake, &lines).start().await;
        for (path, stream) in [("/v1/responses", true), ("/v1/responses", false), ("/v1/responses/compact", false)] {
            let mut body = full_conversation();
            body["stream"] = json!(stream);
            if path.ends_with("compact") {
                body["instructions"] = json!("You are Codex.");
            } else {
                body["input"].as_array_mut().unwrap().push(json!({"type": "compaction_trigger"}));
            }
            let (item, answer) = compacted(&gateway, path, &body).await;
            assert_eq!(
                (&item["type"], &answer["status"]),
                (&json!("compaction"), &json!("completed")),
                "{dialect:?} {path}"
            );
            let object = if path.ends_with("compact") { "response.compaction" } else { "response" };
            assert_eq!(answer["object"], object);
            let asked = String::from_utf8_lossy(&fake.requests().last().unwrap().body).into_owned();
            assert!(asked.contains("Write a summary of this conversation now") && asked.contains("exec_command"));
            let next = json!({"model": "m", "input": [item, {"role": "user", "content": "go on"}]});
            assert_eq!(read_response(&mut gateway.post("/v1/responses", &next).await).await.status, 200);
            let asked = String::from_utf8_lossy(&fake.requests().last().unwrap().body).into_owned();
            assert!(asked.contains("fixed a.rs, b.rs is left") && !asked.contains("photofinish."), "{asked}");
        }
        gateway.stop().await;
    }
}

/// A server with `/v1/responses` alone. Both ways to ask for a short form are refused once.
#[tokio::test]
async fn a_server_of_the_responses_api_without_compaction_is_asked_for_a_summary() {
    let unknown = "Invalid value: 'compaction_trigger'. Supported values are: 'message', 'function_call'";
    for (path, refusal) in [
        ("/v1/responses/compact", Script::status(404, &[], "404 page not found")),
        ("/v1/responses/compact", Script::status(405, &[], r#"{"detail":"Method Not Allowed"}"#)),
        ("/v1/responses", Script::status(400, &[], &json!({"error": {"message": unknown}}).to_string())),
    ] {
        let fake = FakeProvider::answering(move |request| {
            let is_refused = request.path.ends_with("compact")
                || String::from_utf8_lossy(&request.body).contains("\"compaction_trigger\"");
            match is_refused {
                true => refusal.clone(),
                false => Script::of(Dialect::Responses).whole_stream(&["fixed a.rs, ", "b.rs is left"]),
            }
        })
        .await;
        let gateway = Setup::new().provider("a", &fake, "dialect = \"responses\"").start().await;
        for asked_before in [0, 2] {
            let mut body = full_conversation();
            body["stream"] = json!(path == "/v1/responses");
            if path == "/v1/responses" {
                body["input"].as_array_mut().unwrap().push(json!({"type": "compaction_trigger"}));
            }
            let (item, answer) = compacted(&gateway, path, &body).await;
            assert_eq!((&item["type"], &answer["status"]), (&json!("compaction"), &json!("completed")), "{path}");
            let requests = fake.requests();
            assert_eq!(
                requests.len() - asked_before,
                if asked_before == 0 { 2 } else { 1 },
                "the lesson is remembered"
            );
            let asked = String::from_utf8_lossy(&requests.last().unwrap().body).into_owned();
            assert!(asked.contains("Write a summary of this conversation now") && asked.contains("exec_command"));
            assert_eq!(requests.last().unwrap().path, "/v1/responses");
        }
        gateway.stop().await;
    }
}

/// An answer that is a short form and nothing else says something: no other upstream is asked.
#[tokio::test]
async fn a_short_form_of_the_vendor_s_own_wins() {
    let item = json!({"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA"});
    let response = |status: &str, output: &Value| {
        json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output,
            "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}})
    };
    let events = [
        json!({"type": "response.created", "response": response("in_progress", &json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response("completed", &json!([item]))}),
    ];
    let script = events.iter().fold(Script::sse(), |script, event| {
        script.chunk(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    });
    let (a, b) = (FakeProvider::answering(move |_| script.clone().end()).await, FakeProvider::start(vec![]).await);
    let gateway = Setup::new()
        .provider("a", &a, "dialect = \"responses\"")
        .provider("b", &b, "dialect = \"openai\"")
        .race("policy = \"fallback\"")
        .start()
        .await;
    for stream in [true, false] {
        let mut body = full_conversation();
        body["stream"] = json!(stream);
        body["input"].as_array_mut().unwrap().push(json!({"type": "compaction_trigger"}));
        let (made, _) = compacted(&gateway, "/v1/responses", &body).await;
        assert_eq!(made, item, "streamed: {stream}");
    }
    assert_eq!((a.requests().len(), b.requests().len()), (2, 0));
    gateway.stop().await;
}

/// OpenAI could not open it.
#[tokio::test]
async fn a_short_form_of_the_gateway_s_own_is_text_for_the_vendor() {
    let fake = FakeProvider::answering(|_| Script::of(Dialect::Responses).whole_stream(&["ok"])).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"responses\"").start().await;
    let item = |text: &str| json!({"type": "compaction", "id": "cmp_1", "encrypted_content": text});
    let sealed = item("gAAAA");
    let next = json!({"model": "m", "input": [item("photofinish.summary.so far"), sealed, {"role": "user", "content": "go on"}]});
    assert_eq!(read_response(&mut gateway.post("/v1/responses", &next).await).await.status, 200);
    let input = fake.request(0).await.json()["input"].clone();
    assert_eq!((&input[0]["role"], &input[1]), (&json!("user"), &sealed));
    assert!(input[0]["content"].as_str().unwrap().ends_with("\n\nso far"));
    gateway.stop().await;
}
