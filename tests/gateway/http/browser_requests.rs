//! Which requests a gateway without users accepts: those that a web page can make a browser send, and others.
//! `tests/browser` tests the same in a real browser.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::answer::{Response, read_response};
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Script, soon};

const USER: &str = "[users.ann]\ntoken = \"ann-token\"\nrole = \"admin\"\n";

async fn served(settings: &str, more: &str) -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("{settings}{}[models.m]\nupstreams = [\"one/x\"]\n{more}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

/// Sends this head, with `PORT` replaced; returns the answer.
async fn raw(served: &RunningGateway, head: &str, body: &str) -> Response {
    let head = head.replace("PORT", &served.addr.port().to_string()).replace('\n', "\r\n");
    let mut client = RawClient::connect(served.addr).await;
    client.send(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    read_response(&mut client).await
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_spend_keys() {
    let (fake, served) = served("", "").await;
    let body = asking("m").to_string();
    // The headers that a form, or fetch in the mode "no-cors", sends without a preflight.
    for sent in [
        "origin: https://evil.example\ncontent-type: text/plain",
        "origin: https://evil.example\nsec-fetch-site: cross-site\nsec-fetch-mode: no-cors",
        "origin: https://localhost\nsec-fetch-site: same-site",
        "origin: http://127.0.0.1:PORT",
        "origin: null",
        "sec-fetch-site: cross-site",
    ] {
        let answer = raw(&served, &format!("POST {CHAT} HTTP/1.1\nhost: localhost:PORT\n{sent}"), &body).await;
        let (status, code, message) = answer.error();
        assert_eq!((status, code.as_str()), (403, "photofinish_foreign_page"), "{sent}");
        assert!(message.contains("cors under [server]"), "{message}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    for path in ["/", "/healthz", "/readyz", "/metrics", "/api/history", "/v1/models", "/v1/messages", "/nowhere"] {
        let answer = served.get(path, &[("origin", "https://evil.example")]).await;
        assert!(answer.status == 403 && answer.body.contains("photofinish_foreign_page"), "{path}: {}", answer.body);
        assert_eq!(served.get(path, &[("sec-fetch-site", "cross-site")]).await.status, 403, "{path}");
    }
    // A program sends no such header; a page of the gateway's own origin would.
    assert_eq!(served.ask("m").await.status, 200);
    let own = format!(
        "POST {CHAT} HTTP/1.1\nhost: localhost:PORT\norigin: http://localhost:PORT\nsec-fetch-site: same-origin"
    );
    assert_eq!(raw(&served, &own, &body).await.status, 200);
    assert_eq!(fake.requests().len(), 2);
    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["ok 1 200"; 2], "what was turned away is no race");
}

#[tokio::test]
async fn a_foreign_host_name_is_refused() {
    let (fake, served) = served("server.hosts = [\"gateway.internal\"]\n", "").await;
    let body = asking("m").to_string();
    // The page's own name now resolves to this machine, so its browser finds nothing wrong.
    let page = "evil.example:PORT\norigin: http://evil.example:PORT\nsec-fetch-site: same-origin";
    for target in ["GET /api/history", "GET /metrics", "GET /healthz", &format!("POST {CHAT}")] {
        let answer = raw(&served, &format!("{target} HTTP/1.1\nhost: {page}"), &body).await;
        let (status, code, message) = answer.error();
        assert_eq!((status, code.as_str()), (421, "photofinish_unknown_host"), "{target}");
        assert!(message.contains("\"evil.example\"") && message.contains("[server] hosts"), "{message}");
    }
    assert!(fake.requests().is_empty());
    for host in ["localhost", "LOCALHOST:9999", "127.0.0.1:PORT", "[::1]:PORT", "10.0.0.7", "Gateway.internal:80"] {
        assert_eq!(raw(&served, &format!("GET /api/history HTTP/1.1\nhost: {host}"), "").await.status, 200, "{host}");
    }
    // A host in the target takes precedence over the header.
    let absolute = "GET http://evil.example:PORT/api/history HTTP/1.1\nhost: evil.example:PORT";
    assert_eq!(raw(&served, absolute, "").await.status, 421);
}

#[tokio::test]
async fn a_request_names_one_host() {
    for (users, token) in [("", ""), (USER, "\nx-api-key: ann-token")] {
        let (_fake, served) = served("", users).await;
        for (head, expected) in [
            ("GET /v1/models HTTP/1.1", 400),
            ("GET /v1/models HTTP/1.1\nhost: localhost\nhost: localhost", 400),
            ("GET /v1/models HTTP/1.1\nhost: localhost\nHost: evil.example", 400),
            ("GET /v1/models HTTP/1.1\nhost:", 400),
            ("GET /v1/models HTTP/1.1\nhost: user@localhost", 400),
            ("GET /v1/models HTTP/1.1\nhost: localhost:http", 400),
            ("GET /v1/models HTTP/1.1\nhost: local host", 400),
            ("GET http://localhost/v1/models HTTP/1.1", 400),
            ("GET http://localhost/v1/models HTTP/1.1\nhost: evil.example", 400),
            ("GET http://user@localhost/v1/models HTTP/1.1\nhost: localhost", 400),
            ("GET http://localhost:PORT/v1/models HTTP/1.1\nhost: localhost:PORT", 200),
            ("GET /v1/models HTTP/1.0", 200),
            ("GET /v1/models HTTP/1.0\nhost: localhost", 200),
        ] {
            let answer = raw(&served, &format!("{head}{token}"), "").await;
            assert_eq!(answer.status, expected, "{head}: {}", answer.body);
            if expected == 400 {
                assert_eq!(answer.error().1, "photofinish_bad_header");
            }
        }
    }
}

#[tokio::test]
async fn with_users_any_host_is_accepted_and_no_web_page() {
    let (fake, served) = served("", USER).await;
    let body = asking("m").to_string();
    let head = format!("POST {CHAT} HTTP/1.1\nhost: gateway.example.com\nx-api-key: ann-token");
    assert_eq!(raw(&served, &head, &body).await.status, 200);
    let page = raw(&served, &format!("{head}\norigin: https://evil.example"), &body).await;
    assert_eq!(page.error().1, "photofinish_foreign_page");
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn over_http2_the_host_is_taken_from_the_target() {
    let (_fake, served) = served("", "").await;
    let mut tasks = JoinSet::new();
    let tcp = TcpStream::connect(served.addr).await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(tcp));
    let (mut sender, connection) = soon("the handshake", handshake).await.unwrap();
    tasks.spawn(connection);
    for (authority, headers, expected) in [
        ("localhost", &[][..], 200),
        ("10.0.0.7:1", &[], 200),
        ("evil.example", &[], 421),
        ("localhost", &[("host", "evil.example")], 400),
        ("10.0.0.7:8080", &[("host", "10.0.0.7:8080")], 200),
        ("10.0.0.7:8080", &[("origin", "http://10.0.0.7:8080")], 200),
        ("10.0.0.7:8080", &[("origin", "https://evil.example")], 403),
    ] {
        let mut request = hyper::Request::get(format!("http://{authority}/v1/models"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = sender.send_request(request.body(Full::new(Bytes::new())).unwrap());
        let answer = soon("an answer", sent).await.unwrap();
        assert_eq!(answer.status(), expected, "{authority} {headers:?}");
        let body = soon("the body", answer.into_body().collect()).await.unwrap().to_bytes();
        assert!(!body.is_empty());
    }
}

#[tokio::test]
async fn refusals_have_the_shape_of_what_was_called() {
    let (_fake, served) = served("", "").await;
    let body = json!({"model": "m", "max_tokens": 1, "messages": []}).to_string();
    let answer = raw(&served, "POST /v1/messages HTTP/1.1\nhost: localhost\norigin: null", &body).await;
    assert_eq!((answer.status, &answer.json()["type"]), (403, &json!("error")), "Anthropic's shape");
    let answer = raw(&served, "POST /v1/messages HTTP/1.1\nhost: evil.example", &body).await;
    assert_eq!((answer.status, &answer.json()["type"]), (421, &json!("error")));
}
