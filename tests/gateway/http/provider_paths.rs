//! Paths of a provider: `/providers/NAME/…`, and files and batches at the provider that the configuration names.

use serde_json::json;

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, Gate, RawClient, Script, Step};

const KEY: &str = "api_key = \"sk-planted\"";

async fn ask(gateway: &TestGateway, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request(method, path, headers, body).await;
    read_response(&mut client).await
}

async fn get(gateway: &TestGateway, path: &str) -> Response {
    ask(gateway, "GET", path, &[], "").await
}

fn plain(body: &str) -> Script {
    Script::status(200, &[], body)
}

/// What a client sends with its request.
const SENT: [(&str, &str); 13] = [
    ("authorization", "Bearer of-the-client"),
    ("x-api-key", "of-the-client"),
    ("api-key", "of-the-client"),
    ("x-goog-api-key", "of-the-client"),
    ("cookie", "photofinish=1"),
    ("x-forwarded-for", "10.0.0.1"),
    ("openai-organization", "org-client"),
    ("x-evil", "1"),
    ("x-trace", "t-1"),
    ("range", "bytes=0-10"),
    ("idempotency-key", "once"),
    ("openai-beta", "assistants=v2"),
    ("content-type", "multipart/form-data; boundary=x"),
];

#[tokio::test]
async fn an_answer_that_repeats_the_shared_key_comes_without_it() {
    let said = "{\"echo\":\"Bearer sk-planted\",\"url\":\"?key=%73k-planted\",\"end\":\"sk-plant\"}";
    let clean = said.replace("sk-planted", "**********").replace("%73k-planted", "************");
    let fake = FakeProvider::answering(move |request| match request.path.as_str() {
        "/v1/whole" => Script::status(200, &[], said),
        // A key that is cut by the pieces in which it comes.
        _ => said.as_bytes().chunks(7).fold(Script::sse(), |script, piece| script.chunk(piece)).end(),
    })
    .await;
    let gateway = Setup::new().provider("vendor", &fake, KEY).start().await;
    for path in ["/providers/vendor/whole", "/providers/vendor/pieces"] {
        let answer = get(&gateway, path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, clean.as_str()), "{path}");
    }
    let own = ask(&gateway, "GET", "/providers/vendor/whole", &[("x-photofinish-key-vendor", "sk-of-mine")], "").await;
    assert_eq!(own.body, said, "what was sent is not in it");
}

/// The head of an answer alone.
fn head_only() -> Script {
    Script::new().head(200, &[("content-length", "17")])
}

#[tokio::test]
async fn a_request_goes_up_as_it_is_but_for_whom_it_names() {
    let length = "10";
    let file = Script::new().head(
        206,
        &[
            ("content-type", "application/octet-stream"),
            ("content-length", length),
            ("content-range", "bytes 0-9/99"),
            ("content-disposition", "attachment; filename=\"sk-planted.txt\""),
            ("x-request-id", "req-1"),
            ("set-cookie", "a=b"),
            ("server", "x"),
        ],
    );
    let fake = FakeProvider::start(vec![file.raw(b"\xff\x00 content").end()]).await;
    let gateway = Setup::new().provider("a", &fake, &format!("{KEY}\nforward_headers = [\"x-trace\"]")).start().await;
    let path = "/providers/a/v1/files/f%2D1/content?after=x&limit=2";
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("PATCH", path, &SENT, "--x--").await;
    let head = client.head().await;
    assert_eq!((head.status, client.body(&head).await.unwrap().as_ref()), (206, &b"\xff\x00 content"[..]));
    for (name, value) in [
        ("content-type", Some("application/octet-stream")),
        ("content-length", Some(length)),
        ("content-range", Some("bytes 0-9/99")),
        ("content-disposition", Some("attachment; filename=\"***.txt\"")),
        ("x-request-id", Some("req-1")),
        ("x-photofinish-upstream", Some("a/files")),
        ("x-photofinish-attempts", Some("1")),
        ("content-security-policy", Some("sandbox")),
        ("set-cookie", None),
        ("server", None),
    ] {
        assert_eq!(head.header(name), value, "{name}");
    }
    let up = fake.request(0).await;
    assert_eq!((up.method.as_str(), up.path.as_str()), ("PATCH", "/v1/files/f%2D1/content?after=x&limit=2"));
    assert_eq!((up.body.as_ref(), up.header("content-length")), (&b"--x--"[..], Some("5")));
    for (name, value) in [
        ("authorization", Some("Bearer sk-planted")),
        ("x-trace", Some("t-1")),
        ("range", Some("bytes=0-10")),
        ("idempotency-key", Some("once")),
        ("openai-beta", Some("assistants=v2")),
        ("content-type", Some("multipart/form-data; boundary=x")),
        ("accept-encoding", Some("identity")),
    ] {
        assert_eq!(up.header(name), value, "{name}");
    }
    for name in ["x-api-key", "api-key", "x-goog-api-key", "cookie", "x-forwarded-for", "openai-organization", "x-evil"]
    {
        assert_eq!(up.header(name), None, "{name}");
    }
    assert!(up.header("host").unwrap().starts_with("127.0.0.1:"), "the provider's own");
    let rows = gateway.stop().await;
    assert_row!(
        &rows.races[0],
        json!({"api": "provider", "model": "files", "stream": 0, "policy": null, "attempts": 1, "winner": 0, "outcome": "ok",
            "http_status": 206, "input_bytes": 5, "first_token_sent_us": null})
    );
    assert_row!(
        rows.one("a"),
        json!({"model_sent": "files", "outcome": "won", "http_status": 206, "plain": 1, "ttft_event": null, "input_tokens": null,
            "cost_usd_min": null, "cost_usd_max": null})
    );
    assert!(!rows.one("a")["key_id"].is_null() && !rows.one("a")["eof_us"].is_null());
}

#[tokio::test]
async fn each_vendors_key_goes_up_in_its_own_way() {
    let fake = FakeProvider::answering(|_| plain("{}")).await;
    let root = fake.base_url().trim_end_matches("/v1").to_owned();
    let gateway = Setup::new()
        .provider("claude", &fake, &format!("dialect = \"anthropic\"\n{KEY}"))
        .provider("google", &fake, &format!("dialect = [\"gemini\", \"openai\"]\n{KEY}"))
        .table(&format!(
            "[providers.azure]\nbase_url = \"{root}/openai\"\napi_version = \"2024-10-21\"\n{KEY}\n[providers.bedrock]\n\
             base_url = \"{root}\"\naws = {{ access_key_id = \"AKIA\", secret_access_key = \"secret\" }}"
        ))
        .start()
        .await;
    for (number, (path, up_path, name, value)) in [
        ("/providers/claude/v1/messages/batches", "/v1/messages/batches", "x-api-key", "sk-planted"),
        ("/providers/claude/files", "/v1/files", "anthropic-version", "2023-06-01"),
        ("/providers/google/files?key=of-the-client&a=b", "/v1/files?a=b", "x-goog-api-key", "sk-planted"),
        ("/providers/azure/batches", "/openai/batches?api-version=2024-10-21", "api-key", "sk-planted"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(get(&gateway, path).await.status, 200, "{path}");
        let up = fake.request(number).await;
        assert_eq!((up.path.as_str(), up.header(name)), (up_path, Some(value)));
    }
    let (status, code, message) = get(&gateway, "/providers/bedrock/guardrails").await.error();
    assert_eq!((status, code.as_str()), (400, "photofinish_no_upstream"));
    assert!(message.contains("use a Bedrock API key"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn files_and_batches_go_to_the_provider_that_the_configuration_names() {
    let fake =
        FakeProvider::answering(
            |request| if request.method == "HEAD" { head_only() } else { plain("{\"object\":\"list\"}") },
        )
        .await;
    let setup = || Setup::new().provider("a", &fake, KEY);
    let gateway = setup().server("files = \"a\"").start().await;
    let paths = [
        ("GET", "/v1/files?purpose=batch", "/v1/files?purpose=batch"),
        ("DELETE", "/v1/files/f-1", "/v1/files/f-1"),
        ("POST", "/v1/batches", "/v1/batches"),
        ("POST", "/batches/b-1/cancel", "/v1/batches/b-1/cancel"),
        ("GET", "/openai/files", "/v1/files"),
        ("POST", "/v1/uploads/u-1/parts", "/v1/uploads/u-1/parts"),
        ("GET", "/v1/fine_tuning/jobs", "/v1/fine_tuning/jobs"),
        ("POST", "/v1/vector_stores/v-1/search", "/v1/vector_stores/v-1/search"),
        ("GET", "/v1/containers", "/v1/containers"),
    ];
    for (number, (method, path, up_path)) in paths.into_iter().enumerate() {
        let response = ask(&gateway, method, path, &[], "").await;
        assert_eq!((response.status, response.body.as_str()), (200, "{\"object\":\"list\"}"), "{path}");
        let up = fake.request(number).await;
        assert_eq!((up.method.as_str(), up.path.as_str()), (method, up_path));
    }
    let response = ask(&gateway, "OPTIONS", "/v1/files", &[], "").await;
    assert_eq!((response.status, response.header("allow")), (204, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    assert_eq!(ask(&gateway, "TRACE", "/v1/files", &[], "").await.error().1, "photofinish_method_not_allowed");
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("HEAD", "/v1/files/f-1/content", &[], "").await;
    assert_eq!(client.head().await.header("content-length"), Some("17"));
    let rows = gateway.stop().await;
    assert!(rows.races.iter().all(|race| race["outcome"] == "ok") && rows.races.len() == paths.len() + 1);
    assert_row!(&rows.races[7], json!({"api": "provider", "model": "vector_stores"}));

    let gateway = setup().start().await;
    let (status, code, message) = ask(&gateway, "POST", "/v1/batches/b-1/cancel", &[], "").await.error();
    assert_eq!((status, code.as_str()), (404, "photofinish_not_found"));
    assert!(
        message.contains("files = \"NAME\"") && message.contains("/providers/NAME/batches/b-1/cancel"),
        "{message}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_path_that_leaves_its_provider_is_refused_before_anything_is_sent() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway =
        Setup::new().provider("acme", &fake, KEY).table("[providers.groq]\napi_key = \"${UNSET}\"").start().await;
    for (path, status, code, said) in [
        ("/providers/..%2f", 404, "photofinish_not_found", "there is no provider \"../\""),
        ("/providers/..%2facme/files", 404, "photofinish_not_found", "there is no provider \"../acme\""),
        ("/providers/acne/files", 404, "photofinish_not_found", "did you mean acme?"),
        ("/providers/cohere/x", 404, "photofinish_not_found", "needs a key in COHERE_API_KEY"),
        ("/providers/groq/files", 400, "photofinish_no_upstream", "the provider groq is off because UNSET is not set"),
        ("/providers/acme/../../etc", 400, "photofinish_bad_parameter", "only dots"),
        ("/providers/acme/%2e%2E/x", 400, "photofinish_bad_parameter", "only dots"),
        ("/providers/acme/a%2f..%5cb", 400, "photofinish_bad_parameter", "only dots"),
        ("/providers/acme//evil.example/x", 400, "photofinish_bad_parameter", "only dots"),
        ("/providers/acme/https://evil.example/x", 400, "photofinish_bad_parameter", "only dots"),
        ("/providers", 404, "photofinish_not_found", ""),
        ("/providers/", 404, "photofinish_not_found", ""),
    ] {
        let (got, got_code, message) = get(&gateway, path).await.error();
        assert_eq!((got, got_code.as_str()), (status, code), "{path}: {message}");
        assert!(message.contains(said), "{path}: {message}");
    }
    let (_, code, _) = ask(&gateway, "GET", "/providers/acme/x", &[("x-photofinish-odd", "1")], "").await.error();
    assert_eq!(code, "photofinish_bad_header");
    let rows = gateway.stop().await;
    assert!(rows.attempts.is_empty() && fake.requests().is_empty());
}

#[tokio::test]
async fn only_those_who_may_use_any_upstream_reach_it_with_a_shared_key() {
    let fake = FakeProvider::answering(|_| plain("{}")).await;
    let user = |name: &str, more: &str| format!("[users.{name}]\ntoken = \"{name}-token\"\n{more}\n");
    let gateway = Setup::new()
        .server("files = \"a\"")
        .provider("a", &fake, KEY)
        .table(&user("usual", "role = \"admin\""))
        .table(&user("all", "overrides = [\"upstreams\"]"))
        .table(&user("own", "keys = { a = \"sk-own\" }"))
        .start()
        .await;
    let as_user = async |name: &str, path: &str, brings: bool| {
        let token = format!("Bearer {name}-token");
        let headers = [("authorization", token.as_str()), ("x-photofinish-key-a", "sk-brought")];
        ask(&gateway, "GET", path, &headers[..if brings { 2 } else { 1 }], "").await
    };
    for path in ["/providers/a/files", "/v1/files"] {
        let (status, code, message) = as_user("usual", path, false).await.error();
        assert_eq!((status, code.as_str()), (403, "photofinish_forbidden_upstream"));
        assert!(message.contains("x-photofinish-key-a") && message.contains("\"upstreams\""), "{message}");
        assert_eq!(get(&gateway, path).await.status, 401);
    }
    for (number, (name, brings, key)) in
        [("usual", true, "sk-brought"), ("all", false, "sk-planted"), ("own", false, "sk-own")].into_iter().enumerate()
    {
        assert_eq!(as_user(name, "/providers/a/files", brings).await.status, 200, "{name}");
        assert_eq!(fake.request(number).await.header("authorization"), Some(format!("Bearer {key}").as_str()));
    }
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 3);
    assert_row!(&rows.races[0], json!({"caller": "usual", "outcome": "rejected", "http_status": 403, "attempts": 0}));
}

#[tokio::test]
async fn a_large_body_goes_up_without_being_held() {
    let fake = FakeProvider::answering(|_| plain("{\"id\":\"f-1\"}")).await;
    let gateway = Setup::new().server("body_max = \"1MiB\"\nmemory = \"4MiB\"").provider("a", &fake, KEY).start().await;
    let body = vec![0xa5; 24 << 20];
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("POST", "/providers/a/files", &[], &body).await;
    assert_eq!(read_response(&mut client).await.status, 200);
    assert!(fake.request(0).await.body == body, "24 MiB with 4 MiB of memory, as they came");
    let mut client = RawClient::connect(gateway.addr()).await;
    client.send("POST /providers/a/files HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").await;
    client.send("5\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n").await;
    assert_eq!(read_response(&mut client).await.status, 200);
    let up = fake.request(1).await;
    assert_eq!((up.body.as_ref(), up.header("content-length")), (&b"hello"[..], None));
    let mut client = RawClient::connect(gateway.addr()).await;
    client.send("POST /providers/a/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999999\r\n\r\n").await;
    assert_eq!(read_response(&mut client).await.error().1, "photofinish_too_large");
    drop(client);
    gateway.settled("after an upload").await;
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"input_bytes": body.len(), "outcome": "ok"}));
    assert_eq!(rows.attempts.len(), 2);
}

#[tokio::test]
async fn answers_come_down_as_they_come_and_a_cut_one_is_seen() {
    let gate = Gate::new();
    let events = Script::sse().event("one").wait(&gate).event("two").end();
    let cut = Script::new().head(200, &[("content-type", "text/plain"), ("content-length", "99")]).raw(b"half");
    let fake = FakeProvider::start(vec![events, cut.step(Step::Close)]).await;
    let gateway = Setup::new().provider("a", &fake, KEY).start().await;
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/providers/a/fine_tuning/jobs/j/events?stream=true", &[], "").await;
    client.head().await;
    assert_eq!(client.event().await.unwrap().as_deref(), Some("one"), "before the second is there");
    gate.open();
    assert_eq!(client.event().await.unwrap().as_deref(), Some("two"));
    assert_eq!(client.event().await.unwrap(), None);
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/providers/a/files/f/content", &[], "").await;
    let head = client.head().await;
    assert!(head.status == 200 && client.body(&head).await.is_err(), "the connection breaks as the provider's did");
    let rows = gateway.stop().await;
    assert_row!(&rows.races[1], json!({"outcome": "error", "http_status": 200}));
    assert_row!(&rows.attempts[1], json!({"outcome": "failed", "failure": "closed", "failure_phase": "stream"}));
}

#[tokio::test]
async fn what_a_provider_refuses_is_told_as_it_said_it_but_for_the_key() {
    let refusal =
        json!({"error": {"message": "Incorrect API key provided: sk-planted", "code": "invalid_api_key"}}).to_string();
    let moved = Script::status(307, &[("location", "https://elsewhere.example/sk-planted")], "{}");
    let busy = Script::status(429, &[("retry-after", "7")], "{\"error\":{\"message\":\"slow down\"}}");
    let fake = FakeProvider::start(vec![Script::status(401, &[], &refusal), moved, busy]).await;
    let closed = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let gone = format!("http://{closed}/v1");
    let gateway = Setup::new().provider("a", &fake, KEY).provider_at("gone", &gone, KEY).start().await;
    let response = get(&gateway, "/providers/a/files").await;
    assert_eq!((response.status, response.body), (401, refusal.replace("sk-planted", "***")));
    let response = get(&gateway, "/providers/a/files").await;
    assert_eq!((response.status, response.header("location")), (307, "https://elsewhere.example/***"), "not followed");
    let response = get(&gateway, "/providers/a/files").await;
    assert_eq!((response.status, response.header("retry-after")), (429, "7"));
    let (status, code, message) = get(&gateway, "/providers/gone/files").await.error();
    assert_eq!((status, code.as_str()), (502, "photofinish_all_failed"));
    assert!(message.contains("gone/files"), "{message}");
    let rows = gateway.stop().await;
    let outcomes: Vec<_> = rows.races.iter().map(|race| (&race["outcome"], &race["http_status"])).collect();
    let expected = [json!("error"), json!("ok"), json!("error"), json!("error")];
    assert!(outcomes.iter().map(|(outcome, _)| *outcome).eq(&expected), "{outcomes:?}");
    assert_row!(&rows.attempts[0], json!({"outcome": "failed", "failure": "unauthorized", "http_status": 401}));
    assert_row!(&rows.attempts[2], json!({"failure": "rate_limited", "retry_after_ms": 7000}));
    assert_row!(rows.one("gone"), json!({"outcome": "failed", "failure": "connect", "failure_phase": "connect"}));
}

#[tokio::test]
async fn a_client_that_leaves_ends_it() {
    let fake = FakeProvider::answering(|_| Script::sse().event("one").until_closed()).await;
    let gateway = Setup::new().provider("a", &fake, KEY).start().await;
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/providers/a/x", &[], "").await;
    client.head().await;
    client.close();
    fake.closed(0).await;
    let mut client = RawClient::connect(gateway.addr()).await;
    client.send("POST /providers/a/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\nbegun").await;
    client.reset();
    gateway.settled("after both left").await;
    gateway.recorded(3).await;
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"outcome": "client_gone"}));
    assert_row!(&rows.attempts[0], json!({"outcome": "client_gone", "censor_cause": null}));
    assert!(rows.attempts.iter().all(|attempt| attempt["outcome"] == "client_gone"), "{:#?}", rows.attempts);
}

#[tokio::test]
async fn a_shutdown_lets_it_end_and_a_pooled_connection_that_died_is_replaced() {
    let gate = Gate::new();
    let held = Script::sse().event("one").wait(&gate).event("two").end();
    let once = Script::status(200, &[], "{}").step(Step::Close);
    let fake = FakeProvider::start(vec![once, Script::status(200, &[], "{\"a\":1}"), held]).await;
    let gateway = Setup::new().provider("a", &fake, KEY).start().await;
    for body in ["{}", "{\"a\":1}"] {
        assert_eq!(get(&gateway, "/providers/a/files").await.body, body);
    }
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/providers/a/x", &[], "").await;
    client.head().await;
    assert_eq!(client.event().await.unwrap().as_deref(), Some("one"));
    let reading = async {
        gate.open();
        let second = client.event().await.unwrap();
        (second, client.event().await.unwrap())
    };
    let (rows, read) = tokio::join!(gateway.stop(), reading);
    assert_eq!(read, (Some("two".to_owned()), None));
    assert_row!(&rows.races[2], json!({"outcome": "ok"}));
}

#[tokio::test]
async fn the_usage_of_a_known_answer_is_read_where_it_is_new() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.5});
    let body = json!({"object": "chat.completion", "model": "gpt-x", "usage": usage}).to_string();
    let fake = FakeProvider::answering(move |_| plain(&body)).await;
    let gateway = Setup::new().provider("a", &fake, KEY).start().await;
    for (method, path) in
        [("POST", "/chat/completions"), ("GET", "/chat/completions/c-1"), ("POST", "/batches/b/cancel")]
    {
        assert_eq!(ask(&gateway, method, &format!("/providers/a{path}"), &[], "{}").await.status, 200);
    }
    let rows = gateway.stop().await;
    assert_row!(
        &rows.attempts[0],
        json!({"input_tokens": 9, "output_tokens": 2, "tok_src": "usage", "cost_usd_min": 0.5, "cost_usd_max": 0.5, "price_source": "reported", "model_reported": "gpt-x"})
    );
    for again in &rows.attempts[1..] {
        assert_row!(again, json!({"input_tokens": null, "cost_usd_min": null, "model_reported": null}));
    }
}
