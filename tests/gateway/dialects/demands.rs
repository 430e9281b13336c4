//! What a vendor demands of requests beyond its dialect: for clients of its own dialect and for others, by the catalogue, by the
//! configuration, and by what it refuses.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script};

const HELD: &str = "api_key = \"sk-a\"";

fn with(mut body: Value, members: &Value) -> Value {
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

/// What `provider` gets for this request, and what the answer says was dropped.
async fn sent(provider: &str, more: &str, path: &str, body: &Value) -> (Value, String) {
    let fake = FakeProvider::answering(|_| Script::stream(&["hi"])).await;
    let lines = format!("dialect = \"openai\"\ndiscover = false\n{HELD}\n{more}");
    let gateway = Setup::new().provider(provider, &fake, &lines).start().await;
    let response = read_response(&mut gateway.post(path, body).await).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let dropped = response.header("x-photofinish-dropped").to_owned();
    gateway.stop().await;
    (fake.request(0).await.json(), dropped)
}

fn chat(provider: &str, more: Value) -> Value {
    with(Surface::Chat.body(&format!("{provider}/m"), true), &more)
}

#[tokio::test]
async fn a_limit_has_the_name_that_openai_takes() {
    let path = Surface::Chat.path();
    for (provider, name) in [("openai", "max_completion_tokens"), ("groq", "max_tokens")] {
        let (up, dropped) = sent(provider, "", path, &chat(provider, json!({"max_tokens": 7}))).await;
        let other = if name == "max_tokens" { "max_completion_tokens" } else { "max_tokens" };
        assert_eq!((&up[name], up.get(other), dropped.as_str()), (&json!(7), None, ""), "{provider}");
    }
    let (up, dropped) = sent("groq", "", path, &chat("groq", json!({"logit_bias": {"1": 1}}))).await;
    assert_eq!((up.get("logit_bias"), dropped.as_str()), (None, "logit_bias"));
}

#[tokio::test]
async fn ids_and_reasoning_of_earlier_turns_are_as_the_vendor_wants_them() {
    let history = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "and now?"}
    ]);
    let of_messages = json!([
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "1"}]},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "and now?"}
    ]);
    for (surface, messages) in [(Surface::Chat, &history), (Surface::Messages, &of_messages)] {
        for provider in ["mistral", "deepseek", "groq"] {
            let body = with(surface.body(&format!("{provider}/m"), true), &json!({"messages": messages}));
            let (up, _) = sent(provider, "", surface.path(), &body).await;
            let (call, result) = (&up["messages"][1], &up["messages"][2]);
            let id = call["tool_calls"][0]["id"].as_str().unwrap();
            assert_eq!(result["tool_call_id"], id, "{provider}");
            let is_nine = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            assert_eq!(is_nine, provider == "mistral", "{provider}: {id}");
            let has_reasoning = call["reasoning_content"].as_str().is_some_and(|text| !text.is_empty());
            assert_eq!(has_reasoning, provider == "deepseek", "{provider}: {call}");
        }
    }
}

#[tokio::test]
async fn the_newest_claude_is_not_forced_and_not_kept_from_thinking() {
    let pair = Pair { surface: Surface::Messages, dialect: Dialect::Anthropic };
    let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
    let gateway = Setup::new().provider("a", &fake, &format!("dialect = \"anthropic\"\n{HELD}")).start().await;
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    let messages =
        json!({"thinking": {"type": "disabled"}, "tools": [tool], "tool_choice": {"type": "tool", "name": "f"}});
    let function = json!({"type": "function", "function": {"name": "f"}});
    let chat = json!({"reasoning_effort": "none", "tools": [function], "tool_choice": "required"});
    let mut number = 0;
    for (model, is_new) in [("claude-opus-5-5", true), ("claude-opus-4-5", false)] {
        for (surface, asked) in [(Surface::Messages, &messages), (Surface::Chat, &chat)] {
            let body = with(surface.body(&format!("a/{model}"), true), asked);
            let response = read_response(&mut gateway.post(surface.path(), &body).await).await;
            assert_eq!(response.status, 200, "{}", response.body);
            let up = fake.request(number).await.json();
            let (choice, thinking) = (up["tool_choice"]["type"].as_str().unwrap(), up["thinking"]["type"].as_str());
            assert_eq!((choice == "auto", thinking), (is_new, (!is_new).then_some("disabled")), "{up}");
            let dropped = response.header("x-photofinish-dropped");
            assert_eq!(dropped.contains("tool_choice"), is_new, "{dropped}");
            number += 1;
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_operator_changes_members_and_headers_of_a_provider() {
    let more = "[providers.a.request]\nset = { provider = { order = [\"x\"] } }\ndefault = { temperature = 0.5 }\n\
                drop = [\"user\"]\nheaders = { x-title = \"mine\" }\n\
                [providers.a.request_for.\"m*\"]\nmax_completion_tokens = true\nset = { tier = 2 }";
    let fake = FakeProvider::answering(|_| Script::stream(&["hi"])).await;
    let gateway = Setup::new().provider("a", &fake, &format!("{HELD}\n{more}")).start().await;
    for (number, model) in ["m", "other"].into_iter().enumerate() {
        let more = json!({"model": format!("a/{model}"), "user": "u", "max_tokens": 3, "provider": 1});
        let response = read_response(&mut gateway.ask(&chat("a", more)).await).await;
        assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "user"), "{}", response.body);
        let request = fake.request(number).await;
        let (up, limit) = (request.json(), if model == "m" { "max_completion_tokens" } else { "max_tokens" });
        assert_eq!(up["provider"], json!({"order": ["x"]}));
        assert_eq!((&up["temperature"], &up[limit], up.get("user")), (&json!(0.5), &json!(3), None), "{up}");
        assert_eq!((up.get("tier").is_some(), request.header("x-title")), (model == "m", Some("mine")));
    }
    // The same in another dialect.
    let body = Surface::Messages.body("a/m", true);
    assert_eq!(read_response(&mut gateway.post(Surface::Messages.path(), &body).await).await.status, 200);
    let up = fake.request(2).await.json();
    assert_eq!((&up["provider"], &up["temperature"]), (&json!({"order": ["x"]}), &json!(0.5)));
    gateway.stop().await;
}

#[tokio::test]
async fn a_refusal_that_names_a_member_teaches() {
    let refusal = |name: &str| {
        let message = format!("Unsupported value: '{name}' does not support 0.2 with this model.");
        let body = json!({"error": {"message": message, "param": name, "code": "unsupported_value"}});
        Script::status(400, &[], &body.to_string())
    };
    let fake = FakeProvider::answering(move |request| {
        let body = request.json();
        ["temperature", "seed"]
            .into_iter()
            .find(|name| body.get(*name).is_some())
            .map_or(Script::stream(&["hi"]), refusal)
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    let asked = with(Surface::Chat.body("m", true), &json!({"temperature": 0.2, "seed": 1, "top_p": 0.5}));
    let response = read_response(&mut gateway.ask(&asked).await).await;
    assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "temperature, seed"));
    let response = read_response(&mut gateway.ask(&asked).await).await;
    assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "temperature, seed"));
    assert_eq!(fake.request(3).await.json()["top_p"], 0.5);
    let rows = gateway.stop().await;
    assert_eq!((rows.of(0).len(), rows.of(1).len()), (3, 1), "a row for each try, and it is remembered");
    assert_row!(rows.of(0)[0], json!({"outcome": "failed", "failure": "bad_request"}));
}

#[tokio::test]
async fn an_upstream_that_refuses_another_member_at_each_try_is_not_followed_for_long() {
    let fake = FakeProvider::answering(|request| {
        let body = request.json();
        let name = body.as_object().unwrap().keys().find(|name| name.starts_with("x_")).cloned().unwrap_or_default();
        let message = format!("Unknown parameter: '{name}'.");
        Script::status(400, &[], &json!({"error": {"message": message, "param": name}}).to_string())
    })
    .await;
    let gateway = Setup::over(&[&fake]).race("max_attempts = 16").start().await;
    let many: Value = (0..12).map(|number| (format!("x_{number}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let response = read_response(&mut gateway.ask(&with(Surface::Chat.body("m", true), &many)).await).await;
    assert_eq!(response.status, 400, "{}", response.body);
    assert_eq!(fake.requests().len(), 5, "four lessons");
    // Nothing that the request is about is ever left out.
    let fake = FakeProvider::answering(|_| {
        Script::status(400, &[], r#"{"error":{"message":"'tools' is not supported","param":"tools"}}"#)
    })
    .await;
    let second = Setup::over(&[&fake]).start().await;
    let function = json!({"type": "function", "function": {"name": "f"}});
    let asked = with(Surface::Chat.body("m", true), &json!({"tools": [function]}));
    assert_eq!(read_response(&mut second.ask(&asked).await).await.status, 400);
    assert_eq!(fake.requests().len(), 1);
    second.stop().await;
    gateway.stop().await;
}
