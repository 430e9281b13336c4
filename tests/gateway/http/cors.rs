//! CORS: preflight requests, which origins may read an answer, and requests that only check whether the gateway is
//! running.

use serde_json::json;

use crate::harness::answer::Response;
use crate::harness::process::{CHAT, RunningGateway, Setup, provider};
use crate::support::{FakeProvider, RawClient, Script};

const PAGE: &str = "https://app.example.com";

async fn served(cors: &str) -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("server.cors = {cors}\n{}[models.m]\nupstreams = [\"one/x\"]\n", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

async fn preflight(served: &RunningGateway, path: &str, origin: &str) -> Response {
    let asked = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,x-stainless-os"),
    ];
    served.send("OPTIONS", path, &asked, "").await
}

#[tokio::test]
async fn a_listed_origin_is_allowed() {
    let (_fake, served) = served(&format!("[\"{PAGE}\"]")).await;
    for path in [CHAT, "/v1/models", "/healthz", "/nowhere"] {
        let answer = preflight(&served, path, PAGE).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), PAGE);
        let headers = answer.header("access-control-allow-headers");
        assert_eq!(headers, "authorization,content-type,x-stainless-os");
        assert!(answer.header("access-control-allow-methods").contains("POST"));
        assert_eq!(answer.header("access-control-max-age"), "86400");
        assert!(answer.headers.iter().any(|(name, value)| name == "vary" && value == "origin"));
        let other = preflight(&served, path, "https://evil.example.com").await;
        assert_eq!((other.status, other.header("access-control-allow-origin")), (403, ""), "{path}");
    }
}

#[tokio::test]
async fn a_page_may_read_answers_streams_and_errors() {
    let (_fake, served) = served(&format!("[\"{PAGE}\"]")).await;
    let asking = |model: &str, stream: bool| json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": "x" }] });
    for (body, status, found) in [
        (asking("m", true), 200, "x-photofinish-race"),
        (asking("m", false), 200, "server-timing"),
        (asking("nobody", false), 404, ""),
    ] {
        let answer = served.chat(&[("origin", PAGE)], &body).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, PAGE), "{body}");
        let exposed = answer.header("access-control-expose-headers");
        assert!(exposed.contains(found), "{body}: {exposed}");
        for (origin, status) in [(&[("origin", "https://evil.example.com")][..], 403), (&[], status)] {
            let answer = served.chat(origin, &body).await;
            assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, ""), "{body}");
        }
    }
}

#[tokio::test]
async fn any_page_may_read_without_credentials() {
    let (_fake, served) = served("[\"*\"]").await;
    for answer in [preflight(&served, CHAT, "null").await, served.get("/v1/models", &[("origin", PAGE)]).await] {
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(answer.header("access-control-allow-credentials"), "");
    }
}

#[tokio::test]
async fn without_cors_origins_no_page_gets_headers() {
    let (_fake, served) = served("[]").await;
    let options = served.send("OPTIONS", CHAT, &[], "").await;
    assert_eq!((options.status, options.header("allow")), (204, "POST, OPTIONS"));
    let answer = preflight(&served, CHAT, PAGE).await;
    let read = served.get("/v1/models", &[("origin", PAGE)]).await;
    for answer in [answer, read] {
        assert_eq!(answer.status, 403);
        assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{:?}", answer.headers);
    }
}

#[tokio::test]
async fn the_base_url_names_the_gateway() {
    let (_fake, served) = served("[]").await;
    let answer = served.get("/", &[]).await;
    assert!(answer.status == 200 && answer.body.contains("photofinish"), "{}", answer.body);
    let mut client = RawClient::connect(served.addr).await;
    for path in ["/", "/v1/models", "/healthz"] {
        client.request("HEAD", path, &[], "").await;
        assert_eq!(client.head().await.status, 200, "{path}");
    }
}
