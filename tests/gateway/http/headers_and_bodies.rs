//! What is sent to a provider and what comes back: bodies byte for byte, headers by name, and the gateway's own headers.

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Request, Script};

const MODEL: &str = "\n[models.m]\nupstreams = [\"one/the-model\"]\n";

async fn start(fake: &FakeProvider, keys: &str, more: &str) -> RunningGateway {
    Setup::new(&format!("{}{keys}{MODEL}{more}", provider("one", fake))).serve().await
}

async fn answering() -> FakeProvider {
    FakeProvider::answering(|_| Script::stream(&["a"])).await
}

#[tokio::test]
async fn every_other_member_goes_up_byte_for_byte_in_its_order() {
    let fake = answering().await;
    let served = start(&fake, "", "").await;
    let odd = "\"messages\" : [ {\"role\":\"user\",\"content\":\"\\u00e9 \\/ caf\u{e9}\"} ],\n\t\"temperature\":1.0e-1, \
               \"seed\":12345678901234567890123, \"x_unknown\": {\"b\":1,\"a\":[ ],\"a\":2}, \"twice\":1,\"twice\":2";
    let cases = [
        (format!("{{\"model\":\"m\",{odd}}}"), format!("{{\"model\":\"the-model\",{odd}}}")),
        (
            format!(" {{ {odd} , \"stream\" : true, \"model\" : \"m\" }} \n"),
            format!(
                " {{ {odd} , \"stream\" : true, \"model\" : \"the-model\" ,\
                 \"stream_options\":{{\"include_usage\":true}}}} \n"
            ),
        ),
    ];
    for (number, (sent, expected)) in cases.iter().enumerate() {
        let answer = served.send("POST", CHAT, &[], sent).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let up = fake.request(number).await;
        let up = String::from_utf8(up.body.to_vec()).unwrap();
        // White space around additions does not matter.
        assert_eq!(up.replace(" ,\"stream_options\"", ",\"stream_options\"").replace("} }", "}}"), {
            expected.replace(" ,\"stream_options\"", ",\"stream_options\"").replace("} }", "}}")
        });
    }
}

#[tokio::test]
async fn other_stream_options_are_kept_and_usage_is_asked_for() {
    let fake = answering().await;
    let served = start(&fake, "", "").await;
    for (options, expected) in [
        (json!({"include_usage": false, "x": 1}), json!({"include_usage": true, "x": 1})),
        (json!({"include_obfuscation": false}), json!({"include_obfuscation": false, "include_usage": true})),
        (Value::Null, json!({"include_usage": true})),
    ] {
        let mut body = asking("m");
        body["stream_options"] = options;
        assert_eq!(served.chat(&[], &body).await.status, 200);
        let up = fake.requests().pop().unwrap().json();
        assert_eq!((&up["stream"], &up["stream_options"]), (&json!(true), &expected));
    }
}

fn names(request: &Request) -> Vec<&str> {
    let mut names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn only_listed_headers_go_up() {
    let fake = answering().await;
    let keys = "api_key = \"shared-key\"\nforward_headers = [\"X-Trace-Id\", \"accept-language\"]\n";
    let served = start(&fake, keys, "\n[users.ann]\ntoken = \"ann-token\"\n").await;
    let headers = [
        ("authorization", "Bearer ann-token"),
        ("x-api-key", "ann-token"),
        ("cookie", "session=1"),
        ("x-photofinish-policy", "race"),
        ("x-photofinish-max-attempts", "1"),
        ("accept-encoding", "gzip, br"),
        ("user-agent", "some-sdk/1.0"),
        ("connection", "keep-alive, x-hop"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("x-hop", "1"),
        ("proxy-authorization", "Basic eHg="),
        ("x-forwarded-for", "10.1.1.1"),
        ("x-stainless-lang", "python"),
        ("openai-organization", "org-1"),
        ("openai-project", "proj-1"),
        ("openai-beta", "assistants=v2"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "tools"),
        ("x-trace-id", "trace-1"),
        ("accept-language", "de"),
        ("content-type", "application/json; charset=utf-8"),
    ];
    assert_eq!(served.chat(&headers, &asking("m")).await.status, 200);
    let request = fake.request(0).await;
    let expected = [
        "accept",
        "accept-encoding",
        "accept-language",
        "anthropic-version",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "openai-beta",
        "user-agent",
        "x-trace-id",
    ];
    assert_eq!(names(&request), expected);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", CHAT));
    assert_eq!(request.header("authorization"), Some("Bearer shared-key"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert_eq!((request.header("x-trace-id"), request.header("accept-language")), (Some("trace-1"), Some("de")));
    assert_eq!(request.header("host"), Some(fake.addr().to_string().as_str()));
    assert!(!request.header("user-agent").unwrap().contains("some-sdk"));

    // With the caller's own key, the caller's account headers are forwarded.
    let own = [&headers[..], &[("x-photofinish-key-one", "brought-key")]].concat();
    assert_eq!(served.chat(&own, &asking("m")).await.status, 200);
    let request = fake.request(1).await;
    assert_eq!(request.header("authorization"), Some("Bearer brought-key"));
    assert_eq!(
        (request.header("openai-organization"), request.header("openai-project")),
        (Some("org-1"), Some("proj-1"))
    );
}

#[tokio::test]
async fn a_provider_may_take_its_key_in_a_header_of_its_own() {
    let fake = answering().await;
    let config = format!(
        "[providers.azure]\nbase_url = \"{}/openai/v1/\"\napi_key = \"shared-key\"\n[models.m]\nupstreams = [\"azure/x\"]\n",
        fake.base_url().trim_end_matches("/v1")
    );
    let served = Setup::new(&config).serve().await;
    assert_eq!(served.ask("m").await.status, 200);
    let request = fake.request(0).await;
    assert_eq!(request.path, "/openai/v1/chat/completions");
    assert_eq!((request.header("api-key"), request.header("authorization")), (Some("shared-key"), None));
}

const DOWN: [(&str, &str); 12] = [
    ("content-type", "text/event-stream"),
    ("x-request-id", "req-1"),
    ("request-id", "req-2"),
    ("x-ratelimit-remaining-requests", "41"),
    ("x-ratelimit-reset-tokens", "6ms"),
    ("retry-after", "3"),
    ("openai-processing-ms", "12"),
    ("set-cookie", "__cf_bm=1"),
    ("server", "cloudflare"),
    ("x-photofinish-race", "forged"),
    ("via", "1.1 proxy"),
    ("strict-transport-security", "max-age=1"),
];

async fn headers_come_down(stream: bool) {
    let script = Script::new().head(200, &DOWN).role().token("hi").finish("stop").usage(3, 1).done().end();
    let fake = FakeProvider::answering(move |_| script.clone()).await;
    let served = start(&fake, "", "").await;
    let mut body = asking("m");
    body["stream"] = json!(stream);
    let answer = served.chat(&[], &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    for (name, value) in &DOWN[1..7] {
        assert_eq!(answer.header(name), *value, "{name}");
    }
    for (name, _) in DOWN[7..9].iter().chain(&DOWN[10..]) {
        assert_eq!(answer.header(name), "", "{name}");
    }
    assert_eq!(answer.headers.iter().filter(|(name, _)| name == "x-photofinish-race").count(), 1);
    let content_type = if stream { "text/event-stream; charset=utf-8" } else { "application/json" };
    assert_eq!(answer.header("content-type"), content_type);
    if stream {
        let events = answer.events();
        assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
        assert!(events.iter().all(|event| !event.contains("prompt_tokens")), "usage was not asked for: {events:?}");
    } else {
        let json = answer.json();
        assert_eq!(json["choices"][0]["message"]["content"], "hi");
        assert_eq!((&json["usage"]["total_tokens"], &json["model"]), (&json!(4), &json!("fake-model")));
    }

    assert_eq!(answer.header("x-photofinish-upstream"), "one/the-model");
    assert_eq!(answer.header("x-photofinish-attempts"), "1");
    let ttft: u64 = answer.header("x-photofinish-ttft-ms").parse().unwrap();
    let timing = answer.header("server-timing");
    assert!(timing.starts_with("ttft;dur=") && timing.contains(", gateway;dur="), "{timing}");
    let race = answer.header("x-photofinish-race").to_owned();
    let setup = served.stop().await;
    assert_eq!(setup.texts("SELECT race_id FROM race").await, [race.as_str()]);
    assert_eq!(setup.texts("SELECT race_id FROM attempt").await, [race.as_str()]);
    let first_token_us = setup.number("SELECT first_token_us FROM attempt").await;
    assert_eq!(i64::try_from(ttft).unwrap(), (first_token_us + 500) / 1_000);
    assert_eq!(setup.number("SELECT ratelimit_remaining_requests FROM attempt").await, 41);
}

#[tokio::test]
async fn headers_come_down_with_a_stream() {
    headers_come_down(true).await;
}

#[tokio::test]
async fn headers_come_down_with_a_whole_answer() {
    headers_come_down(false).await;
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let fake = answering().await;
    let served = start(&fake, "", "").await;
    let mut client = RawClient::connect(served.addr).await;
    for number in 0..3 {
        let mut body = asking("m");
        body["stream"] = json!(number % 2 == 0);
        client.post(CHAT, &body).await;
        assert_eq!(read_response(&mut client).await.status, 200);
        client.request("GET", "/nowhere", &[], "").await;
        assert_eq!(read_response(&mut client).await.status, 404);
    }
    assert_eq!((fake.requests().len(), fake.connections()), (3, 1));
}
