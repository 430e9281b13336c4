//! Requests that two readers take differently: what delimits them is a 400 for everybody, and what may name another model is refused
//! to those who may use only listed ones.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::support::{FakeProvider, RawClient, Script};

const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";

#[tokio::test]
async fn a_head_that_readers_take_differently_is_a_400_and_ends_the_connection() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let smuggled = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let chunks = "2\r\n{}\r\n0\r\n\r\n";
    for head in [
        "GET /healthz HTTP/1.1\nhost: localhost\n\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\n",
        "\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx: y\ncontent-length: 46\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: y\r\n z\r\n\r\n",
    ]
    .map(|head| format!("{head}{smuggled}"))
    .into_iter()
    .chain(
        [
            "HTTP/1.1\r\ntransfer-encoding: gzip, chunked",
            "HTTP/1.1\r\ntransfer-encoding: chunked, chunked",
            "HTTP/1.1\r\ntransfer-encoding: Chunked;x=y",
            "HTTP/1.1\r\ntransfer-encoding: gzip",
            "HTTP/1.1\r\ntransfer-encoding: identity",
            "HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "HTTP/1.1\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked",
            "HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 12",
            "HTTP/1.1\r\ncontent-length: 12\r\ntransfer-encoding: chunked",
            "HTTP/1.0\r\ntransfer-encoding: chunked",
        ]
        .map(|head| format!("POST /v1/chat/completions {head}\r\nhost: localhost\r\n\r\n{chunks}{smuggled}")),
    ) {
        // At once, and cut where the first line ends.
        for split in [0, head.find('\n').unwrap_or(0)] {
            let mut client = RawClient::connect(gateway.addr()).await;
            client.send(&head[..split]).await;
            // It may already have ended the connection.
            let _ = client.try_send(&head[split..]).await;
            let answer = client.head().await;
            assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{head:?}");
            assert!(client.try_head().await.is_err(), "nothing more is answered: {head:?}");
        }
    }
    assert_eq!(fake.requests().len(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn clear_requests_follow_each_other_on_one_connection() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let body = "{\"model\": \"m\",\n\n\"stream\": true, \"messages\":\n[{\"role\": \"user\", \"content\": \"a\"}]}";
    let (first, second) = body.split_at(20);
    let whole = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nTransfer-Encoding: Chunked\r\n\r\n{:x};a=b\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\nx: y\r\n\r\n",
        first.len(),
        second.len()
    );
    let all = format!("\r\n{whole}{chunked}{whole}{chunked}");
    for part in [all.len(), 7, 64] {
        let mut client = RawClient::connect(gateway.addr()).await;
        for bytes in all.as_bytes().chunks(part) {
            client.send(bytes).await;
        }
        for _ in 0..4 {
            assert_eq!(read_response(&mut client).await.streamed_text(), "hello", "in parts of {part}");
        }
    }
    gateway.stop().await;
    assert!(fake.requests().iter().all(|request| request.json()["messages"][0]["content"] == "a"));
}

async fn ask(gateway: &TestGateway, user: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let token = format!("Bearer {user}-token");
    let all = [&[("authorization", token.as_str()), ("content-type", "application/json")], headers].concat();
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("POST", CHAT, &all, body).await;
    read_response(&mut client).await
}

/// One user who may use only listed models, and one who may use all.
async fn with_users(fake: &FakeProvider) -> TestGateway {
    let setup = Setup::new().provider("a", fake, "api_key = \"sk-shared\"");
    let users = "[users.ann]\ntoken = \"ann-token\"\n[users.root]\ntoken = \"root-token\"\noverrides = true\n";
    setup.table(users).start().await
}

#[tokio::test]
async fn who_may_use_listed_models_names_no_other_by_the_way() {
    let fake = FakeProvider::answering(|_| Script::stream(&["hello"])).await;
    let gateway = with_users(&fake).await;
    let own = ("x-photofinish-key-a", "sk-own");
    for (member, param) in [
        (r#""MODEL": "dear""#, "MODEL"),
        (r#""mode\u006c": "dear""#, ""),
        (r#""models": ["dear"]"#, "models"),
        (r#""fallbacks": [{"model": "dear"}]"#, "fallbacks"),
        (r#""route": "fallback""#, "route"),
        (r#""tools": [{"type": "image_generation", "model": "dear"}]"#, "tools[0].model"),
    ] {
        let body =
            format!(r#"{{"model": "m", "stream": true, {member}, "messages": [{{"role": "user", "content": "x"}}]}}"#);
        let answer = ask(&gateway, "ann", &[], &body).await;
        if param.is_empty() {
            // The same member twice is wrong for everybody.
            assert_eq!((answer.status, ask(&gateway, "root", &[], &body).await.status), (400, 400), "{member}");
            continue;
        }
        let said = (answer.status, answer.error_code(), answer.json()["error"]["param"].clone());
        assert_eq!(said, (403, "photofinish_forbidden_upstream".to_owned(), json!(param)), "{member}");
        let before = fake.requests().len();
        for (user, headers) in [("ann", &[own][..]), ("root", &[])] {
            assert_eq!(ask(&gateway, user, headers, &body).await.streamed_text(), "hello", "{user}: {member}");
        }
        let sent: Vec<Value> = fake.requests()[before..].iter().map(|request| request.json()).collect();
        let expected: Value = serde_json::from_str(&body).unwrap();
        for sent in sent {
            assert!(expected.as_object().unwrap().keys().all(|name| sent.get(name).is_some()), "unchanged: {sent}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_field_of_a_form_names_a_model_in_one_way_only() {
    let answer = || Script::status(200, &[("content-type", "application/json")], "{\"text\":\"hi\"}");
    let fake = FakeProvider::answering(move |_| answer()).await;
    let gateway = with_users(&fake).await;
    let upload = async |user: &str, name: &str| {
        let part =
            |name: &str, value: &str| format!("--XX\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n");
        let body = format!("{}{}--XX--\r\n", part("name=\"model\"", "m"), part(name, "dear"));
        let token = format!("Bearer {user}-token");
        let headers = [("authorization", token.as_str()), ("content-type", "multipart/form-data; boundary=XX")];
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request("POST", TRANSCRIPTIONS, &headers, body).await;
        read_response(&mut client).await
    };
    for (name, ann, root) in [
        ("name=\"prompt\"", 200, 200),
        ("name=\"Model\"", 403, 200),
        ("name=\"models\"", 403, 200),
        ("name=\"model\"", 400, 400),
        ("name=\"mo\\del\"", 400, 400),
        ("name=\"mo\\\\del\"", 400, 400),
        ("name=\"mo%64el\"", 400, 400),
        ("name*=utf-8''model", 400, 400),
        ("name=\"x\"; name=\"model\"", 400, 400),
    ] {
        let (got_ann, got_root) = (upload("ann", name).await, upload("root", name).await);
        assert_eq!((got_ann.status, got_root.status), (ann, root), "{name}: {} {}", got_ann.body, got_root.body);
    }
    gateway.stop().await;
}
