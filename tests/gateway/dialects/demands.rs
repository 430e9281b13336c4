//! What a vendor demands of requests beyond its dialect: for clients of its own dialect and for others, by the catalogue, by the
//! configuration, and by what it refuses.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::Pair;
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, RawClient, Script};

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
async fn an_open_model_of_openai_gets_its_effort_from_ollama_too() {
    let pair = Pair { surface: Surface::Chat, dialect: Dialect::Ollama };
    let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
    let gateway = Setup::new().provider("a", &fake, "dialect = \"ollama\"").start().await;
    for (number, (model, think)) in [("gpt-oss:20b", json!("high")), ("qwen3:8b", json!(true))].into_iter().enumerate()
    {
        let body = with(Surface::Chat.body(&format!("a/{model}"), true), &json!({"reasoning_effort": "xhigh"}));
        assert_eq!(read_response(&mut gateway.ask(&body).await).await.status, 200);
        assert_eq!(fake.request(number).await.json()["think"], think, "{model}");
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

/// As OpenAI refuses a parameter, or one value of it.
fn refusal(name: &str, by_value: bool) -> Script {
    let (message, code) = if by_value {
        (format!("Unsupported value: '{name}' does not support 0.2 with this model."), "unsupported_value")
    } else {
        (format!("Unsupported parameter: '{name}' is not supported with this model."), "unsupported_parameter")
    };
    Script::status(400, &[], &json!({"error": {"message": message, "param": name, "code": code}}).to_string())
}

#[tokio::test]
async fn a_refusal_that_names_a_member_teaches() {
    let fake = FakeProvider::answering(|request| {
        let body = request.json();
        match () {
            () if body["temperature"] == 0.2 => refusal("temperature", true),
            () if body.get("seed").is_some() => refusal("seed", false),
            () if body.get("max_tokens").is_some() => refusal("max_tokens", false),
            () => Script::stream(&["hi"]),
        }
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    let asked = json!({"temperature": 0.2, "seed": 1, "top_p": 0.5, "max_tokens": 7});
    let asked = with(Surface::Chat.body("m", true), &asked);
    for _ in 0..2 {
        let response = read_response(&mut gateway.ask(&asked).await).await;
        assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "temperature, seed"));
    }
    // A value was refused, so others go up.
    let response = read_response(&mut gateway.ask(&with(asked, &json!({"temperature": 0.7}))).await).await;
    assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, "seed"));
    let sent: Vec<Value> = fake.requests().iter().map(|request| request.json()).collect();
    assert_eq!((sent.len(), &sent[4]["top_p"], &sent[4]["max_completion_tokens"]), (6, &json!(0.5), &json!(7)));
    assert_eq!(sent[5]["temperature"], 0.7);
    let rows = gateway.stop().await;
    assert_eq!([0, 1, 2].map(|race| rows.of(race).len()), [4, 1, 1], "a row for each try, and it is remembered");
    assert_row!(rows.of(0)[0], json!({"outcome": "failed", "failure": "bad_request"}));
}

#[tokio::test]
async fn what_must_not_be_lost_is_not_left_out_after_a_refusal() {
    for (race, name, value) in [
        ("lossy = \"refuse\"", "seed", json!(1)),
        ("lossy = \"drop\"", "tools", json!([{"type": "function", "function": {"name": "f"}}])),
        ("lossy = \"drop\"", "tool_choice", json!("none")),
        ("lossy = \"drop\"", "guided_json", json!({"type": "object"})),
        ("lossy = \"drop\"", "response_format", json!({"type": "json_object"})),
    ] {
        let fake = FakeProvider::answering(move |_| refusal(name, false)).await;
        let gateway = Setup::over(&[&fake]).race(race).start().await;
        let response =
            read_response(&mut gateway.ask(&with(Surface::Chat.body("m", true), &json!({name: value}))).await).await;
        assert_eq!((response.status, fake.requests().len()), (400, 1), "{name}: {}", response.body);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_upstream_that_refuses_another_member_at_each_try_is_not_followed_for_long() {
    const MEMBERS: [&str; 8] = ["logit_bias", "logprobs", "metadata", "min_p", "seed", "top_k", "top_p", "user"];
    let fake = FakeProvider::answering(|request| {
        let body = request.json();
        refusal(MEMBERS.iter().find(|name| body.get(**name).is_some()).unwrap(), false)
    })
    .await;
    let gateway = Setup::over(&[&fake]).race("max_attempts = 16").start().await;
    let many: Value = MEMBERS.iter().map(|name| (name.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let many = with(many, &json!({"metadata": {"a": "b"}, "user": "u", "logprobs": true, "logit_bias": {"1": 1}}));
    let asked = with(Surface::Chat.body("m", true), &many);
    let response = read_response(&mut gateway.ask(&asked).await).await;
    assert_eq!((response.status, fake.requests().len()), (400, 5), "four lessons: {}", response.body);
    assert_eq!(read_response(&mut gateway.ask(&asked).await).await.status, 400);
    assert_eq!(fake.requests().len(), 10, "nothing was answered, so nothing was learnt");
    gateway.stop().await;
}

fn refused(status: u16, message: &str) -> Script {
    Script::status(status, &[], &json!({"error": {"message": message}}).to_string())
}

#[tokio::test]
async fn a_turn_that_is_refused_moves_and_no_content_is_lost() {
    let fake = FakeProvider::answering(|request| {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap().iter();
        match messages.skip(1).any(|message| message["role"] == "system") {
            true => refused(500, "System message must be at the beginning."),
            false => Script::stream(&["hi"]),
        }
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    let turns = json!([{"role": "user", "content": "x"}, {"role": "system", "content": "be brief"}, {"role": "user", "content": "y"}]);
    for (attempts, learnt) in [("2", "system_turns"), ("1", "system_turns")] {
        let asked = with(Surface::Chat.body("m", true), &json!({"messages": turns}));
        let response = read_response(&mut gateway.ask(&asked).await).await;
        let found = (response.header("x-photofinish-attempts"), response.header("x-photofinish-learnt"));
        assert_eq!((response.status, found), (200, (attempts, learnt)), "{}", response.body);
    }
    let last = fake.request(2).await.json();
    assert_eq!((&last["messages"][1]["role"], fake.requests().len()), (&json!("user"), 3));
    assert!(last["messages"][1]["content"].as_str().unwrap().contains("be brief"));
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/api/routing", &[], "").await;
    let routing: Value = serde_json::from_str(&read_response(&mut client).await.body).unwrap();
    assert_eq!(routing["upstreams"][0]["learnt"], json!(["chat: system_turns"]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_refusal_that_comes_again_or_names_content_is_passed_on_and_teaches_nothing() {
    for (words, tries) in [("seed is not supported", 2), ("Invalid 'messages[0].content': too long.", 1), ("no", 1)] {
        let fake = FakeProvider::answering(move |_| refused(400, words)).await;
        let gateway = Setup::over(&[&fake]).start().await;
        for race in 1..=2 {
            let asked = with(Surface::Chat.body("m", true), &json!({"seed": 1}));
            let response = read_response(&mut gateway.ask(&asked).await).await;
            assert_eq!((response.status, fake.requests().len()), (400, race * tries), "{words}");
            assert!(response.body.contains(words), "{}", response.body);
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_beta_that_is_refused_is_not_sent() {
    let pair = Pair { surface: Surface::Messages, dialect: Dialect::Anthropic };
    let fake = FakeProvider::answering(move |request| match request.header("anthropic-beta").unwrap_or_default() {
        betas if betas.contains("scope-1") => {
            refused(400, "Unexpected value(s) `scope-1` for the `anthropic-beta` header.")
        }
        _ => pair.stream(&["hi"]),
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, &format!("dialect = \"anthropic\"\n{HELD}")).start().await;
    for _ in 0..2 {
        let body = Surface::Messages.body("a/claude-x", true);
        let headers = [("anthropic-beta", "other-2, scope-1")];
        let response = read_response(&mut gateway.request(Surface::Messages.path(), &headers, &body).await).await;
        assert_eq!(response.status, 200, "{}", response.body);
    }
    let betas: Vec<Option<String>> =
        fake.requests().iter().map(|request| request.header("anthropic-beta").map(str::to_owned)).collect();
    assert_eq!(betas[1..], [Some("other-2".to_owned()), Some("other-2".to_owned())]);
    let other = Surface::Messages.body("a/m", true);
    let headers = [("anthropic-beta", "other-2")];
    assert_eq!(read_response(&mut gateway.request(Surface::Messages.path(), &headers, &other).await).await.status, 200);
    assert_eq!(fake.requests().pop().unwrap().header("anthropic-beta"), None, "another model knows none of them");
    gateway.stop().await;
}

#[tokio::test]
async fn a_name_that_is_refused_is_shortened_and_the_client_gets_its_own_back() {
    let name = format!("mcp__a_server_with_a_long_name__{}", "w".repeat(40));
    let fake = FakeProvider::answering(|request| {
        let body = request.json();
        let name = body["tools"][0]["function"]["name"].as_str().unwrap();
        if name.len() > 64 {
            return refused(400, "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 72 instead.");
        }
        let call = json!({"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": "{\"q\":1}"}});
        Script::sse().role().delta(json!({"tool_calls": [call]})).finish("tool_calls").done()
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    for (stream, attempts) in [(true, "2"), (false, "1")] {
        let tools =
            json!({"tools": [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}]});
        let body = with(Surface::Chat.body("m", stream), &tools);
        let response = read_response(&mut gateway.ask(&body).await).await;
        let found = (response.header("x-photofinish-attempts"), response.header("x-photofinish-learnt"));
        assert_eq!((response.status, found), (200, (attempts, "tool_name_max")), "{}", response.body);
        assert!(response.body.contains(&format!("\"{name}\"")), "{}", response.body);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstream_without_the_responses_api_is_asked_on_chat() {
    for status in [404, 405] {
        let fake = FakeProvider::answering(move |request| match request.path.as_str() {
            "/v1/responses" => Script::status(status, &[], "{\"detail\":\"Not Found\"}"),
            _ => Script::stream(&["hi"]),
        })
        .await;
        let gateway = Setup::new().provider("openai", &fake, &format!("discover = false\n{HELD}")).start().await;
        for attempts in ["2", "1"] {
            let body = Surface::Responses.body("openai/m", true);
            let response = read_response(&mut gateway.post(Surface::Responses.path(), &body).await).await;
            assert_eq!(
                (response.status, response.header("x-photofinish-attempts")),
                (200, attempts),
                "{}",
                response.body
            );
            assert_eq!(Surface::Responses.streamed_text(&response), "hi");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn tools_of_codex_go_as_chats_to_a_server_that_does_not_know_them() {
    // A refusal teaches it, and the catalogue knows it of some.
    for (provider, attempts) in [("openai", ["2", "1"]), ("xai", ["1", "1"])] {
        let fake = FakeProvider::answering(|request| match request.path.as_str() {
            "/v1/responses" if request.json()["tools"][0]["type"] == "custom" => {
                refused(422, "tools[0].type: unknown variant `custom`, expected one of `function`, `web_search`, `mcp`")
            }
            "/v1/responses" => Script::of(Dialect::Responses).whole_stream(&["hi"]),
            _ => Script::stream(&["hi"]),
        })
        .await;
        let gateway = Setup::new().provider(provider, &fake, &format!("discover = false\n{HELD}")).start().await;
        let surface = Surface::Responses;
        for (kind, path, attempts) in [
            ("custom", "/v1/chat/completions", attempts[0]),
            ("custom", "/v1/chat/completions", attempts[1]),
            ("function", "/v1/responses", "1"),
        ] {
            let tool = json!({"type": kind, "name": "apply_patch", "parameters": {"type": "object"}});
            let body = with(surface.body(&format!("{provider}/m"), true), &json!({"tools": [tool]}));
            let response = read_response(&mut gateway.post(surface.path(), &body).await).await;
            let found = response.header("x-photofinish-attempts");
            assert_eq!((response.status, found), (200, attempts), "{provider} {kind}: {}", response.body);
            let last = fake.requests().pop().unwrap();
            assert_eq!((last.path.as_str(), last.json()["tools"].as_array().unwrap().len()), (path, 1));
            assert_eq!(surface.streamed_text(&response), "hi");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn tools_of_models_that_reason_go_up_on_the_path_that_takes_them() {
    let fake = FakeProvider::answering(|request| match request.path.as_str() {
        "/v1/responses" => Script::of(Dialect::Responses).whole_stream(&["hi"]),
        _ if request.json().get("tools").is_some() => {
            refused(400, "Function tools are not supported in /v1/chat/completions. Use /v1/responses.")
        }
        _ => Script::stream(&["hi"]),
    })
    .await;
    let gateway = Setup::new().provider("openai", &fake, &format!("discover = false\n{HELD}")).start().await;
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]});
    let of_messages = json!({"tools": [{"name": "f", "input_schema": {"type": "object"}}]});
    // A rule, a rule for an effort, and a model that no rule knows.
    for (model, surface, more, attempts) in [
        ("gpt-5.6-sol", Surface::Messages, &of_messages, "1"),
        ("gpt-5.6-sol", Surface::Chat, &tools, "1"),
        ("gpt-5.6-sol", Surface::Chat, &json!({}), "1"),
        ("gpt-5.4", Surface::Chat, &with(tools.clone(), &json!({"reasoning_effort": "high"})), "1"),
        ("another", Surface::Chat, &tools, "2"),
        ("another", Surface::Messages, &of_messages, "1"),
    ] {
        let body = with(surface.body(&format!("openai/{model}"), true), more);
        let response = read_response(&mut gateway.post(surface.path(), &body).await).await;
        let found = response.header("x-photofinish-attempts");
        assert_eq!((response.status, found), (200, attempts), "{model}: {}", response.body);
        let request = fake.requests().pop().unwrap();
        let has_tools = more.get("tools").is_some();
        assert_eq!(request.path, if has_tools { "/v1/responses" } else { "/v1/chat/completions" }, "{model}");
        assert_ne!(request.json()["reasoning"]["effort"], "none");
    }
    gateway.stop().await;
}
