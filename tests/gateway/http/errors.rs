//! Requests that the gateway cannot serve: status, shape, code, message and row. Not for failures of providers: see `upstreams`.

use crate::harness::answer::{Response, read_response};
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Script};
use photofinish_wire::Surface;

const MODEL: &str = "\n[models.llama-fast]\nupstreams = [\"one/m\"]\naliases = [\"swift\"]\n";

async fn one_provider(settings: &str, more: &str) -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("{settings}{}{MODEL}{more}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

#[tokio::test]
async fn a_bad_body_is_an_error_in_openai_s_shape_and_leaves_a_row() {
    let (fake, served) = one_provider("", "").await;
    let cases = [
        ("{\"model\":", "not valid JSON"),
        ("", "not valid JSON"),
        ("\u{feff}{}", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ("\"model\"", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("{}", "`model` is missing"),
        ("{\"model\":\"\"}", "`model` is missing"),
        ("{\"model\":7}", "`model` must be"),
        ("{\"model\":\"llama-fast\",\"stream\":\"yes\"}", "`stream` must be"),
        ("{\"model\":\"llama-fast\",\"model\":\"b\"}", "`model` occurs twice in the body"),
    ];
    for (body, words) in cases {
        let answer = served.send("POST", CHAT, &[], body).await;
        let (status, code, message) = answer.error();
        assert_eq!((status, code.as_str()), (400, "photofinish_invalid_request"), "{body}");
        assert!(message.contains(words), "{body}: {message}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
    let setup = served.stop().await;
    assert_eq!(setup.races().await, vec!["rejected 0 400"; cases.len()]);
    assert!(fake.requests().is_empty() && setup.attempts().await.is_empty());
}

#[tokio::test]
async fn a_body_that_is_not_utf_8_is_a_400() {
    let (_fake, served) = one_provider("", "").await;
    let answer = served.send("POST", CHAT, &[], b"{\"model\":\"\xff\"}").await;
    assert_eq!(answer.error().0, 400);
}

#[tokio::test]
async fn an_unknown_model_is_a_404_with_the_nearest_names() {
    let (_fake, served) = one_provider("", "").await;
    let answer = served.ask("lama-fast").await;
    let (status, code, message) = answer.error();
    assert_eq!((status, code.as_str()), (404, "model_not_found"));
    assert!(message.contains("\"lama-fast\"") && message.contains("Did you mean llama-fast"), "{message}");
    assert_eq!(answer.json()["error"]["param"], "model");
    let race = answer.header("x-photofinish-race").to_owned();

    let (status, _, message) = served.ask("nobody/m").await.error();
    assert!(status == 404 && message.contains("no provider \"nobody\""), "{message}");
    let (status, _, message) = served.ask("one/m\u{7}m").await.error();
    assert!(status == 404 && message.contains("control characters"), "{message}");

    let setup = served.stop().await;
    assert_eq!(setup.races().await, vec!["rejected 0 404"; 3]);
    assert_eq!(setup.texts("SELECT race_id FROM race ORDER BY race_id").await[0], race);
    assert_eq!(setup.texts("SELECT model FROM race ORDER BY race_id").await, ["lama-fast", "nobody/m", "one/m\u{7}m"]);
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_however_it_comes() {
    let (fake, served) = one_provider("server.body_max = \"1KiB\"\n", "").await;
    let refused = |answer: Response| {
        let (status, code, message) = answer.error();
        assert_eq!((status, code.as_str()), (413, "photofinish_too_large"));
        assert!(message.contains("1KiB") && message.contains("body_max"), "{message}");
    };
    // With its length, and sent in full.
    refused(served.send("POST", CHAT, &[], vec![b' '; 2_000]).await);

    // With its length and `expect`: the client sends no body before the gateway allows it.
    let mut client = RawClient::connect(served.addr).await;
    client
        .send(format!(
            "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000\r\nexpect: 100-continue\r\n\r\n"
        ))
        .await;
    refused(read_response(&mut client).await);

    // In chunks, without a length.
    let mut client = RawClient::connect(served.addr).await;
    client.send(format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")).await;
    for _ in 0..5 {
        client.send(format!("100\r\n{}\r\n", " ".repeat(256))).await;
    }
    client.send("0\r\n\r\n").await;
    refused(read_response(&mut client).await);

    // A body of exactly the limit is read.
    let mut body = asking("llama-fast").to_string();
    body.extend(std::iter::repeat_n(' ', 1_024 - body.len()));
    assert_eq!(served.send("POST", CHAT, &[], body).await.status, 200);

    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["rejected 0 413", "rejected 0 413", "rejected 0 413", "ok 1 200"]);
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let (_fake, served) = one_provider("", "").await;
    let body = asking("llama-fast").to_string();
    let mut client = RawClient::connect(served.addr).await;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    client.send(head).await;
    assert_eq!(client.head().await.status, 100);
    client.send(body).await;
    assert_eq!(read_response(&mut client).await.status, 200);
}

#[tokio::test]
async fn a_wrong_method_and_a_wrong_path_are_errors() {
    let (_fake, served) = one_provider("", "").await;
    for (method, path, allow) in [
        ("GET", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("PUT", "/v1/models/llama-fast", "GET"),
        ("PUT", "/v1/responses/resp_1", "DELETE"),
        ("GET", "/v1/conversations", "POST"),
        ("POST", "/", "GET"),
        ("POST", "/healthz", "GET"),
        ("POST", "/readyz", "GET"),
        ("POST", "/metrics", "GET"),
    ] {
        let answer = served.send(method, path, &[], "").await;
        let (status, code, message) = answer.error();
        assert_eq!((status, code.as_str()), (405, "photofinish_method_not_allowed"), "{method} {path}");
        let allowed: Vec<&str> = answer.header("allow").split(',').map(str::trim).collect();
        assert!(allowed.contains(&allow) && message.contains(allow), "{method} {path}: {allowed:?} {message}");
    }
    for (path, hint) in [
        ("/v1", "Anthropic, Gemini and Ollama clients one without"),
        ("/v2/filings", "OpenAI clients take a base URL that ends in /v1"),
        ("/v1/files/list", "files = \"NAME\" under [server], or call /providers/NAME/files/list"),
        ("/threads/t/runs", "/providers/NAME/threads/t/runs goes to"),
        ("/v1/realtime", "which the gateway does not carry"),
        ("/v1/realtime/client_secrets", "which the gateway does not carry"),
        ("/v1/chat/completion", "did you mean /v1/chat/completions?"),
        ("/v1/v1/messages", "did you mean /v1/messages?"),
        ("/api/stat", "did you mean /api/stats?"),
        ("//v1/models", "did you mean /v1/models?"),
    ] {
        let (status, code, message) = served.send("POST", path, &[], "{}").await.error();
        assert_eq!((status, code.as_str()), (404, "photofinish_not_found"), "{path}");
        assert!(message.contains(hint), "{message}");
    }
    let batches = served.send("POST", "/v1/messages/batches", &[], "{}").await;
    assert!(
        batches.status == 404 && batches.body.contains("/providers/NAME/v1/messages/batches goes to"),
        "{}",
        batches.body
    );
    for path in ["/v1/models/%ff", "/v1/models/", "/v1/models/%00"] {
        assert_eq!(served.get(path, &[]).await.error().0, 404, "{path}");
    }
    let setup = served.stop().await;
    assert!(setup.races().await.is_empty(), "no race began");
}

#[tokio::test]
async fn a_base_url_without_the_version_works_too() {
    let (_fake, served) = one_provider("", "").await;
    for surface in Surface::ALL {
        let path = surface.path();
        let Some(bare) = path.strip_prefix("/v1").filter(|bare| bare.starts_with('/')) else { continue };
        let body = r#"{"model":"nobody"}"#;
        let (versioned, answer) =
            (served.send("POST", path, &[], body).await, served.send("POST", bare, &[], body).await);
        assert_eq!(answer.error(), versioned.error(), "{bare}");
        assert_eq!(served.get(bare, &[]).await.status, 405, "{bare}");
    }
    let answer = served.send("POST", "/chat/completions", &[], asking("llama-fast").to_string()).await;
    assert_eq!(answer.status, 200);
    for path in ["/models", "/models/llama-fast"] {
        assert_eq!(served.get(path, &[]).await.json(), served.get(&format!("/v1{path}"), &[]).await.json());
    }
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_served_and_no_row_written() {
    let settings = "server.trusted_proxies = [\"127.0.0.1\"]\n";
    let (fake, served) = one_provider(settings, "\n[users.ann]\ntoken = \"good-token\"\n").await;
    let body = asking("llama-fast").to_string();
    // Each from another address, because ten wrong tokens from one are too many.
    let addresses = (1..).map(|last| format!("192.0.2.{last}"));
    for (headers, address) in [
        &[][..],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "Bearer ")],
        &[("authorization", "Basic good-token")],
        &[("authorization", "good-token")],
        &[("x-api-key", "")],
        &[("x-api-key", "good-tokem")],
        // One header has the token. A second, valid header does not override a wrong one.
        &[("authorization", "Bearer wrong"), ("x-api-key", "good-token")],
    ]
    .into_iter()
    .zip(addresses)
    {
        let headers = &[headers, &[("x-forwarded-for", address.as_str())]].concat();
        for (method, path) in
            [("POST", CHAT), ("GET", "/v1/models"), ("GET", "/v1/models/llama-fast"), ("GET", "/metrics")]
        {
            let answer = served.send(method, path, headers, &body).await;
            let (status, code, message) = answer.error();
            assert_eq!((status, code.as_str()), (401, "photofinish_unauthorized"), "{path} {headers:?}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            assert!(message.contains("x-api-key") && answer.header("x-photofinish-race").is_empty(), "{message}");
        }
    }
    for path in ["/healthz", "/health", "/readyz"] {
        assert_eq!(served.get(path, &[]).await.status, 200, "{path} needs no token");
    }
    let setup = served.stop().await;
    assert!(setup.races().await.is_empty() && fake.requests().is_empty());
}

#[tokio::test]
async fn a_bad_override_header_is_named() {
    let (fake, served) = one_provider("", "").await;
    let cases = [
        ("x-photofinish-policy", "quickest"),
        ("x-photofinish-policy", ""),
        ("x-photofinish-hedge-after", "soon"),
        ("x-photofinish-hedge-after", "p100"),
        ("x-photofinish-optimise", "speed"),
        ("x-photofinish-budget", "11"),
        ("x-photofinish-budget", "nan"),
        ("x-photofinish-slo", "ttft"),
        ("x-photofinish-slo", "ttft=0s"),
        ("x-photofinish-hold-max", "10s"),
        ("x-photofinish-max-attempts", "0"),
        ("x-photofinish-max-attempts", "many"),
        ("x-photofinish-max-attempts", "-1"),
        ("x-photofinish-upstreams", "nobody/m"),
        ("x-photofinish-upstreams", "one"),
        ("x-photofinish-upstreams", "one/"),
        ("x-photofinish-upstreams", " , "),
        ("x-photofinish-upstreams", "one/m,one/m"),
    ];
    for (name, value) in cases {
        let (status, code, message) = served.chat(&[(name, value)], &asking("llama-fast")).await.error();
        assert_eq!((status, code.as_str()), (400, "photofinish_bad_header"), "{name}: {value}");
        assert!(message.contains(name), "{message}");
    }
    let setup = served.stop().await;
    assert_eq!(setup.races().await, vec!["rejected 0 400"; cases.len()]);
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn a_key_for_an_unknown_provider_is_named_and_not_repeated() {
    let (_fake, served) = one_provider("", "").await;
    let answer = served.chat(&[("x-photofinish-key-nobody", "planted-key")], &asking("llama-fast")).await;
    let (status, code, message) = answer.error();
    assert_eq!((status, code.as_str()), (400, "photofinish_bad_header"));
    assert!(message.contains("x-photofinish-key-nobody") && !answer.body.contains("planted"), "{message}");
    let (status, _, message) = served.chat(&[("x-photofinish-key-one", "")], &asking("llama-fast")).await.error();
    assert!(status == 400 && message.contains("x-photofinish-key-one"), "{message}");
    let setup = served.stop().await;
    assert_eq!(setup.races().await, vec!["rejected 0 400"; 2]);
}

#[tokio::test]
async fn an_error_never_repeats_much_of_the_request() {
    let (_fake, served) = one_provider("", "").await;
    let long = "x".repeat(100_000);
    for model in [long.clone(), format!("one/{long},one/{long}"), format!("{long}/m"), format!("one/m,{long}")] {
        let answer = served.chat(&[], &asking(&model)).await;
        assert!(answer.error().0 == 404 && answer.body.len() < 2_000, "{} bytes", answer.body.len());
    }
    // The error does not repeat a long header in full.
    let long = "x".repeat(10_000);
    for value in [long.clone(), format!("{long}/m"), format!("one/{long},one/{long}")] {
        let answer = served.chat(&[("x-photofinish-upstreams", &value)], &asking("llama-fast")).await;
        assert!(answer.error().0 == 400 && answer.body.len() < 2_000, "{} bytes", answer.body.len());
    }
    for name in ["policy", "hedge-after", "max-attempts", "optimise", "budget", "slo", "hold-max"] {
        let answer = served.chat(&[(&format!("x-photofinish-{name}"), &long)], &asking("llama-fast")).await;
        assert!(answer.error().0 == 400 && answer.body.len() < 2_000, "{name}: {} bytes", answer.body.len());
    }
    let answer = served.get(&format!("/{long}"), &[]).await;
    assert!(answer.error().0 == 404 && answer.body.len() < 2_000, "{} bytes", answer.body.len());
    let setup = served.stop().await;
    assert!(setup.number("SELECT max(length(model)) FROM race").await <= 512);
    assert!(setup.attempts().await.is_empty(), "a name of {} bytes is none", long.len());
}
