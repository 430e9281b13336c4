//! Translation of requests: what is sent, refused or left out, and that a native request is sent byte for byte. For
//! whole translations see `snapshots`.

use serde_json::{Value, json};

use crate::harness::answer::{read_response, silent};
use crate::harness::gateway::{Setup, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{Dialect, FakeProvider, Script};

rules! { everywhere:
    a_request_goes_up_in_the_upstream_s_dialect,
    a_whole_answer_is_the_surface_s_and_the_row_knows_its_usage,
    a_long_answer_says_that_it_was_cut,
}

async fn a_request_goes_up_in_the_upstream_s_dialect(pair: Pair) {
    let fake = FakeProvider::start(vec![pair.stream(&["a"]), pair.stream(&["a"])]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert_eq!(response.header("x-photofinish-dropped"), "");
    read_response(&mut pair.whole(&gateway).await).await;
    gateway.stop().await;
    for (up, streams) in fake.requests().iter().zip([true, false]) {
        let plain =
            |path: &str| path.replace(":streamGenerateContent?alt=sse", ":generateContent").replace("-stream", "");
        let path = if streams { pair.dialect.path().to_owned() } else { plain(pair.dialect.path()) };
        assert_eq!((&up.method, &up.path), (&"POST".to_owned(), &path));
        assert_eq!(up.header("content-type"), Some("application/json"));
        assert_eq!(up.header("authorization").or(up.header("x-api-key")), None);
        let body = up.json();
        let in_path = matches!(pair.dialect, Dialect::Gemini | Dialect::Bedrock);
        let expected = if in_path { (&Value::Null, false) } else { (&json!("m"), streams) };
        assert_eq!((&body["model"], body["stream"] == true), expected, "{body}");
        assert_eq!(body.get("stream_options").is_some(), streams && pair.dialect == Dialect::OpenAi, "{body}");
        let prompt = match pair.dialect {
            Dialect::Responses => &body["input"],
            Dialect::Gemini => &body["contents"],
            _ => &body["messages"],
        };
        assert!(prompt.to_string().contains("hello"), "{body}");
        if pair.dialect == Dialect::Anthropic {
            assert!(body["max_tokens"].is_u64(), "{body}");
        }
    }
}

async fn a_whole_answer_is_the_surface_s_and_the_row_knows_its_usage(pair: Pair) {
    let script = pair.open().role().tokens(&["one", " two"]).finish("stop");
    let script = if pair.dialect == Dialect::OpenAi { script.usage(10, 2) } else { script };
    let fake = FakeProvider::start(vec![script.clone().done().end(), script.done().end()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let response = read_response(&mut pair.whole(&gateway).await).await;
    assert_eq!((response.status, response.header("content-type")), (200, "application/json"), "{}", response.body);
    let answer = response.json();
    assert_eq!(pair.surface.whole_text(&answer), "one two", "{answer}");
    assert_eq!(pair.surface.whole_usage(&answer), (10, 2), "{answer}");
    let (kind, finish) = match pair.surface {
        Surface::Chat => (&answer["object"], "stop"),
        Surface::Responses => (&answer["object"], "completed"),
        Surface::Messages => (&answer["type"], "end_turn"),
        Surface::Ollama => (&answer["message"]["role"], "stop"),
        Surface::Gemini => (&answer["candidates"][0]["content"]["role"], "STOP"),
    };
    assert_eq!(pair.surface.whole_finish(&answer), finish, "{answer}");
    assert!(
        ["chat.completion", "response", "message", "assistant", "model"].contains(&kind.as_str().unwrap()),
        "{answer}"
    );
    let id = match pair.surface {
        Surface::Ollama => "model",
        Surface::Gemini => "modelVersion",
        _ => "id",
    };
    assert!(answer[id].as_str().is_some_and(|id| !id.is_empty()), "{answer}");
    pair.surface.assert_complete(&read_response(&mut pair.streaming(&gateway).await).await);
    let rows = gateway.stop().await;
    let cached = pair.dialect.cached_tokens();
    for row in &rows.attempts {
        assert_row!(
            row,
            json!({"outcome": "won", "dialect": pair.dialect.name(), "first_kind": "text", "payload_events": 2, "chars_total": 7})
        );
        assert_row!(
            row,
            json!({"input_tokens": 10, "cached_input_tokens": cached, "output_tokens": 2, "tok_src": "usage"})
        );
        assert!(!row["finish_reason"].is_null() && !row["finish_us"].is_null(), "{row:#?}");
        let model = if pair.dialect == Dialect::Bedrock { Value::Null } else { json!("fake-model") };
        assert_eq!(row["model_reported"], model);
    }
}

async fn a_long_answer_says_that_it_was_cut(pair: Pair) {
    let script = || pair.open().role().token("one").finish("length").done().end();
    let fake = FakeProvider::start(vec![script(), script()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    let answer = read_response(&mut pair.whole(&gateway).await).await.json();
    let finish = match pair.surface {
        Surface::Chat | Surface::Ollama => "length",
        Surface::Responses => "incomplete",
        Surface::Messages => "max_tokens",
        Surface::Gemini => "MAX_TOKENS",
    };
    assert_eq!(pair.surface.whole_finish(&answer), finish, "{answer}");
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    pair.surface.assert_complete(&response);
    assert!(response.body.contains(finish), "{}", response.body);
    gateway.stop().await;
}

/// A request of this surface with additional members.
pub(super) fn with(surface: Surface, members: &Value) -> Value {
    let mut body = surface.body("m", false);
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

/// Features that another dialect cannot express, with their names.
fn settings() -> Vec<(Surface, Dialect, Value, &'static str)> {
    use Surface::{Chat, Messages, Responses};
    vec![
        (Chat, Dialect::Anthropic, json!({"seed": 7}), "seed"),
        (Chat, Dialect::Responses, json!({"stop": ["y"]}), "stop"),
        (Chat, Dialect::Anthropic, json!({"n": 2}), "n"),
        (Chat, Dialect::Anthropic, json!({"logit_bias": {"5": 1}}), "logit_bias"),
        (Chat, Dialect::Anthropic, json!({"x_unknown": 1}), "x_unknown"),
        (Chat, Dialect::Gemini, json!({"logit_bias": {"5": 1}}), "logit_bias"),
        (Messages, Dialect::OpenAi, json!({"x_unknown": {}}), "x_unknown"),
        (Responses, Dialect::Anthropic, json!({"x_unknown": true}), "x_unknown"),
    ]
}

#[tokio::test]
async fn a_setting_is_refused_by_name_where_that_is_set() {
    for (surface, dialect, members, name) in settings() {
        let fake = FakeProvider::start(vec![]).await;
        let gateway = Pair { surface, dialect }.over(&[&fake]).race("lossy = \"refuse\"").start().await;
        let response = read_response(&mut gateway.post(surface.path(), &with(surface, &members)).await).await;
        assert_eq!(response.status, 400, "{members}: {}", response.body);
        let (kind, message) = surface.error(&response);
        assert_eq!(kind, "invalid_request_error");
        assert!(message.contains(&format!("`{name}")), "{members}: {message}");
        assert_eq!(response.json()["error"]["code"], "photofinish_not_translatable", "{members}");
        let rows = gateway.stop().await;
        assert!(fake.requests().is_empty() && rows.attempts.is_empty());
        assert_row!(&rows.races[0], json!({"outcome": "rejected", "http_status": 400}));
    }
}

#[tokio::test]
async fn without_a_better_upstream_a_setting_is_left_out_and_named() {
    let lossy = ["lossy = \"prefer\"", "lossy = \"drop\""];
    for ((surface, dialect, members, name), race) in settings().into_iter().zip(lossy.into_iter().cycle()) {
        let pair = Pair { surface, dialect };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).race(race).start().await;
        let response = read_response(&mut gateway.post(surface.path(), &with(surface, &members)).await).await;
        assert_eq!(response.status, 200, "{members}: {}", response.body);
        let dropped = response.header("x-photofinish-dropped");
        assert!(dropped.split(", ").any(|dropped| dropped.starts_with(name)), "{members}: {dropped}");
        let up = fake.request(0).await.json();
        let is_left_out = |name: &String| name == "messages" || up.get(name).is_none();
        assert!(members.as_object().unwrap().keys().all(is_left_out), "{up}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_request_may_set_lossy_in_a_header() {
    let pair = Pair { surface: Surface::Chat, dialect: Dialect::Anthropic };
    let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
    let gateway = pair.over(&[&fake]).start().await;
    let ask = with(Surface::Chat, &json!({"seed": 7}));
    for (lossy, status) in [("prefer", 200), ("drop", 200), ("refuse", 400), ("DROP", 400), ("", 400)] {
        let mut client = gateway.request(Surface::Chat.path(), &[("x-photofinish-lossy", lossy)], &ask).await;
        let response = read_response(&mut client).await;
        assert_eq!(response.status, status, "{lossy}: {}", response.body);
        let code = if lossy == "refuse" { "photofinish_not_translatable" } else { "photofinish_bad_header" };
        assert!(status == 200 || response.error_code() == code, "{lossy}: {}", response.body);
    }
    gateway.stop().await;
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn a_form_is_left_out_and_named_and_a_hint_is_left_out() {
    use Surface::{Chat, Messages, Responses};
    for (surface, dialect, members, name) in [
        (Chat, Dialect::Gemini, json!({"user": "u-1", "metadata": {"a": "b"}}), ""),
        (Chat, Dialect::Gemini, json!({"safety_identifier": "u-1"}), "safety_identifier"),
        (Chat, Dialect::Anthropic, json!({"prompt_cache_key": "k"}), "prompt_cache_key"),
        (
            Chat,
            Dialect::Anthropic,
            json!({"messages": [{"role": "user", "content": "x", "name": "ann"}]}),
            "messages.name",
        ),
        (Responses, Dialect::Anthropic, json!({"prompt_cache_key": "k"}), "prompt_cache_key"),
        (
            Messages,
            Dialect::Ollama,
            json!({"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}),
            "",
        ),
    ] {
        let pair = Pair { surface, dialect };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).start().await;
        let response = read_response(&mut gateway.post(surface.path(), &with(surface, &members)).await).await;
        assert_eq!(response.status, 200, "{members}: {}", response.body);
        let dropped = response.headers.iter().find(|(header, _)| header == "x-photofinish-dropped");
        assert_eq!(dropped.map_or("", |(_, names)| names.as_str()), name, "{members}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_member_that_is_null_or_default_counts_as_absent() {
    use Surface::{Chat, Messages, Responses};
    let chat = json!({
        "n": 1, "seed": null, "logprobs": false, "store": false, "logit_bias": null, "frequency_penalty": 0,
        "presence_penalty": 0.0, "stop": null, "tools": null, "user": null, "x_unknown": null,
    });
    let responses = json!({
        "truncation": "disabled", "previous_response_id": null, "background": false, "include": [], "metadata": null,
        "tools": [], "x_unknown": null,
    });
    let messages = json!({"stop_sequences": [], "tools": [], "metadata": null, "x_unknown": null});
    for (surface, dialect, members) in [
        (Chat, Dialect::Anthropic, &chat),
        (Chat, Dialect::Gemini, &chat),
        (Responses, Dialect::Anthropic, &responses),
        (Responses, Dialect::OpenAi, &responses),
        (Messages, Dialect::OpenAi, &messages),
        (Messages, Dialect::Gemini, &messages),
    ] {
        let pair = Pair { surface, dialect };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).start().await;
        for (name, value) in members.as_object().unwrap() {
            let response =
                read_response(&mut gateway.post(surface.path(), &with(surface, &json!({ name: value }))).await).await;
            let what = format!("{surface:?} over {dialect:?}, {name}: {}", response.body);
            assert_eq!((response.status, response.header("x-photofinish-dropped")), (200, ""), "{what}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_request_that_needs_a_native_upstream_is_raced_among_native_ones() {
    let native = FakeProvider::answering(|_| Script::stream(&["native"])).await;
    let other = FakeProvider::answering(|_| silent()).await;
    let setup = Setup::new().provider("a", &other, "dialect = \"anthropic\"").provider("b", &native, "");
    let gateway = setup.start().await;
    let ask = with(Surface::Chat, &json!({"seed": 7}));
    let response = read_response(&mut gateway.ask(&ask).await).await;
    assert_eq!((response.status, response.upstream(), response.header("x-photofinish-attempts")), (200, "b/m", "1"));
    assert_eq!(native.request(0).await.json()["seed"], 7);
    // Without it both upstreams run.
    let mut client = gateway.ask(&Surface::Chat.body("m", true)).await;
    other.request(0).await;
    assert_eq!(read_response(&mut client).await.upstream(), "b/m");
    let rows = gateway.stop().await;
    let dialects = |race: usize| rows.of(race).iter().map(|row| row["dialect"].clone()).collect::<Vec<_>>();
    assert_eq!(dialects(0), ["openai"]);
    assert_eq!(dialects(1), ["anthropic", "openai"]);
}

#[tokio::test]
async fn an_upstream_that_gets_less_is_asked_only_while_no_other_may_be() {
    let limited = || Script::status(429, &[("retry-after", "60")], r#"{"error":{"message":"slow down"}}"#);
    let native = FakeProvider::start(vec![Script::stream(&["native"]), limited()]).await;
    let pair = Pair { surface: Surface::Chat, dialect: Dialect::Anthropic };
    let other = FakeProvider::answering(move |_| pair.stream(&["other"])).await;
    let setup = Setup::new().provider("a", &other, "dialect = \"anthropic\"").provider("b", &native, "");
    let gateway = setup.start().await;
    let ask = with(Surface::Chat, &json!({"seed": 7}));
    let mut asked = Vec::new();
    for _ in 0..3 {
        let response = read_response(&mut gateway.ask(&ask).await).await;
        let headers = ["x-photofinish-left-out", "x-photofinish-dropped"].map(|name| response.header(name).to_owned());
        asked.push((response.status, response.upstream().to_owned(), headers));
    }
    let of = |status: u16, upstream: &str, left_out: &str, dropped: &str| {
        (status, upstream.to_owned(), [left_out.to_owned(), dropped.to_owned()])
    };
    // At the second request the native upstream has reached its limit. From then on the other one answers.
    let expected = [of(200, "b/m", "a/m", ""), of(429, "", "", ""), of(200, "a/m", "", "seed")];
    assert_eq!(asked, expected);
    assert_eq!((native.requests().len(), other.requests().len()), (2, 1));
    gateway.stop().await;
}

#[tokio::test]
async fn a_native_request_goes_up_byte_for_byte() {
    let odd = "\"temperature\":1.0e-1, \"max_tokens\" : 9,\"x_unknown\": {\"b\":1,\"a\":[ ],\"a\":2}, \"big\":12345678901234567890123";
    let prompts = [
        (Surface::Responses, "\"input\" : [ {\"role\":\"user\",\"content\":\"\\u00e9 \\/ caf\u{e9}\"} ]"),
        (Surface::Messages, "\"messages\" : [ {\"role\":\"user\",\"content\":\"\\u00e9 \\/ caf\u{e9}\"} ]"),
    ];
    for (surface, prompt) in prompts {
        let pair = Pair { surface, dialect: surface.dialect() };
        let fake = FakeProvider::answering(move |_| pair.stream(&["hi"])).await;
        let gateway = pair.over(&[&fake]).start().await;
        let sent = [
            (format!("{{\"model\":\"m\",{prompt},{odd}}}"), format!("{{\"model\":\"m\",{prompt},{odd}}}")),
            (
                format!(" {{ {odd} , \"stream\" : false, {prompt}, \"model\" : \"a/other\" }} \n"),
                format!(" {{ {odd} , \"stream\" : false, {prompt}, \"model\" : \"other\" }} \n"),
            ),
            (
                format!(" {{ {odd} , \"stream\" : true, {prompt}, \"model\" : \"a/other\" }} \n"),
                format!(" {{ {odd} , \"stream\" : true, {prompt}, \"model\" : \"other\" }} \n"),
            ),
        ];
        for (number, (sent, expected)) in sent.iter().enumerate() {
            let mut client = crate::support::RawClient::connect(gateway.addr()).await;
            client.request("POST", surface.path(), &[], sent).await;
            assert_eq!(read_response(&mut client).await.status, 200, "{sent}");
            assert_eq!(String::from_utf8_lossy(&fake.request(number).await.body), *expected);
        }
        gateway.stop().await;
    }
}
