//! Wrong tokens on every path: counted by address, refused after ten, logged. A right token is served all the same.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::harness::answer::Response;
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Script};

const USERS: &str = "[users.ann]\ntoken = \"ann-token-of-22-letters\"\nrole = \"admin\"\n[users.bob]\ntoken = \"bob-token-of-22-letters\"\n";
const RIGHT: (&str, &str) = ("authorization", "Bearer ann-token-of-22-letters");
const WRONG: (&str, &str) = ("authorization", "Bearer guessed-token");

async fn served(settings: &str) -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("{settings}{}[models.m]\nupstreams = [\"one/x\"]\n{USERS}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

/// Method, path, headers, body.
type Way = (&'static str, &'static str, &'static [(&'static str, &'static str)], String);

/// Every way to send a token.
fn ways() -> Vec<Way> {
    let get = |path, headers: &'static [(&'static str, &'static str)]| ("GET", path, headers, String::new());
    vec![
        ("POST", CHAT, &[WRONG], asking("m").to_string()),
        ("POST", "/chat/completions", &[WRONG], asking("m").to_string()),
        ("POST", "/v1/messages", &[("x-api-key", "guessed-token")], asking("m").to_string()),
        ("POST", "/v1beta/models/m:generateContent?key=guessed-token", &[], "{}".to_owned()),
        ("POST", "/v1/models/m:generateContent?alt=sse&key=guessed-token", &[], "{}".to_owned()),
        get("/v1beta/models", &[("x-goog-api-key", "guessed-token")]),
        get("/v1/models?key=guessed-token", &[]),
        get("/v1/models/m", &[WRONG]),
        get("/api/stats", &[WRONG]),
        get("/api/live", &[WRONG]),
        get("/api/config", &[WRONG]),
        get("/api/tags", &[WRONG]),
        get("/metrics", &[("x-api-key", "guessed-token")]),
        get("/dashboard/session", &[WRONG]),
        ("POST", "/api/show", &[WRONG], r#"{"model":"m"}"#.to_owned()),
        ("POST", "/api/reload", &[WRONG], String::new()),
        ("POST", "/dashboard/session", &[WRONG], String::new()),
    ]
}

#[tokio::test]
async fn every_path_counts_wrong_tokens_and_refuses_after_ten() {
    let (_fake, served) = served("").await;
    let answers: Vec<Response> =
        join_all(ways().iter().map(|(method, path, headers, body)| served.send(method, path, headers, body))).await;
    let refused: Vec<&Response> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!(refused.len(), ways().len() - 10, "each counted once: {answers:?}");
    assert!(answers.iter().all(|answer| [401, 429].contains(&answer.status)), "{answers:?}");
    for answer in refused {
        assert!((1..=60).contains(&answer.header("retry-after").parse::<u32>().unwrap()), "{answer:?}");
        assert!(answer.body.contains("too many wrong tokens came from this address"), "{answer:?}");
    }
    // A right one is served from the same address, on every path.
    for path in ["/v1/models", "/api/stats", "/metrics", "/dashboard/session"] {
        assert_eq!(served.get(path, &[RIGHT]).await.status, 200, "{path}");
    }
    assert_eq!(served.send("POST", "/dashboard/session", &[RIGHT], "").await.status, 204);
    assert_eq!(served.get("/v1beta/models?key=bob-token-of-22-letters", &[]).await.status, 200);
    assert_eq!(served.chat(&[RIGHT], &asking("m")).await.status, 200);
    let wrong = format!("photofinish_wrong_tokens_total {}", ways().len());
    assert!(served.get("/metrics", &[RIGHT]).await.body.contains(&wrong), "{wrong}");
    let log = served.process.log();
    let found: BTreeSet<&str> = log.lines().filter(|line| line.contains("wrong token")).collect();
    assert!(found.len() >= 10 && found.iter().all(|line| line.contains("address=127.0.0.1")), "{log}");
    assert!(found.iter().any(|line| line.contains("too many wrong tokens")), "{log}");
    assert!(!log.contains("guessed-token") && !log.contains("of-22-letters"), "{log}");
}

#[tokio::test]
async fn each_address_has_a_count_of_its_own() {
    let (_fake, served) = served("server.trusted_proxies = [\"127.0.0.1\"]\n").await;
    let guess = async |address: &str| served.get("/api/stats", &[WRONG, ("x-forwarded-for", address)]).await.status;
    // One /64 of IPv6 is one address.
    let statuses = join_all((0..12).map(|last| async move { guess(&format!("2001:db8::{last:x}")).await })).await;
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 2, "{statuses:?}");
    assert_eq!(guess("192.0.2.9").await, 401);
    assert_eq!(guess("2001:db8:0:1::1").await, 401);
}

#[tokio::test]
async fn health_is_told_whatever_the_token() {
    let (_fake, served) = served("").await;
    let asked = (0..12).flat_map(|_| ["/healthz", "/readyz", "/dashboard"]);
    let answers = join_all(asked.map(|path| served.get(path, &[WRONG]))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert!(answers.iter().all(|answer| !answer.body.contains("providers_on")), "{answers:?}");
    assert!(served.get("/readyz", &[RIGHT]).await.body.contains("providers_on"));
    assert_eq!(served.get("/api/stats", &[]).await.status, 401, "no token is no wrong token");
}
