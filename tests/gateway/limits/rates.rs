//! Rates and streams, and what answers say of them.

use serde_json::json;

use super::{ANN, BOB, answer, ask, asking, get, priced, send, spent, usage, user};
use crate::harness::answer::{Response, advance_clock, read_response};
use crate::harness::gateway::{CHAT, assert_row};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, Gate, Script};

#[tokio::test]
async fn a_rate_refuses_with_the_time_that_is_left() {
    let fake = FakeProvider::answering(|_| answer(3)).await;
    let tables = format!("{ANN}rpm = {{ requests = 2, burst = 3 }}\n{BOB}");
    let gateway = priced(&[&fake], &tables).start().await;
    for left in ["2", "1", "0"] {
        let response = ask(&gateway, "ann", &asking(10)).await;
        assert_eq!((response.status, response.header("x-ratelimit-remaining-requests")), (200, left));
        assert_eq!(response.header("x-ratelimit-limit-requests"), "2");
    }
    let refused = ask(&gateway, "ann", &asking(10)).await;
    let (status, code, message) = refused.error();
    assert_eq!((status, code.as_str()), (429, "photofinish_rate_limited"));
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((25..=30).contains(&wait) && refused.header("x-should-retry").is_empty(), "{wait}");
    assert!(message.contains("the user \"ann\" may send 2 requests a minute (rpm)"), "{message}");
    assert_eq!(ask(&gateway, "bob", &asking(10)).await.status, 200, "another user");
    let metrics = get(&gateway, "ann", "/metrics").await.body;
    assert!(metrics.contains("photofinish_limited_total{level=\"user\",kind=\"rpm\"} 1"), "{metrics}");
    let rows = gateway.stop().await;
    assert_row!(&rows.races[3], json!({"outcome": "rejected", "http_status": 429, "attempts": 0}));
}

#[tokio::test]
async fn a_wrong_request_takes_nothing() {
    let fake = FakeProvider::answering(|_| answer(3)).await;
    let gateway = priced(&[&fake], &format!("{ANN}rpm = 5\nmodels = [\"m\"]")).start().await;
    for wrong in
        [json!({"model": "nothing", "messages": []}), json!({"messages": 1}), json!({"model": "a/x", "messages": []})]
    {
        assert!((400..=404).contains(&ask(&gateway, "ann", &wrong).await.status), "{wrong}");
    }
    assert_eq!(usage(&gateway, &user("ann")).requests.unwrap().left, 5);
}

#[tokio::test]
async fn tokens_are_those_that_the_client_got() {
    let fake = FakeProvider::answering(|_| answer(40)).await;
    let loser = FakeProvider::answering(|_| Script::sse().role().until_closed()).await;
    let gateway = priced(&[&fake, &loser], &format!("{ANN}tpm = 10000")).start().await;
    let response = ask(&gateway, "ann", &asking(5_000)).await;
    let left: u64 = response.header("x-ratelimit-remaining-tokens").parse().unwrap();
    assert!(left < 9_800 && response.header("x-ratelimit-limit-tokens") == "10000", "reserved while it runs: {left}");
    spent(&gateway, &user("ann")).await;
    let left = usage(&gateway, &user("ann")).tokens.unwrap().left;
    assert!((9_949..=10_000).contains(&left), "50 tokens: {left}");
}

#[tokio::test]
async fn streams_are_never_more_than_the_limit_and_come_back() {
    let gate = Gate::new();
    let open = gate.clone();
    let slow = move |_: &_| Script::sse().role().token("x").wait(&open).finish("stop").done().end();
    let fake = FakeProvider::answering(slow).await;
    let tables = format!("{ANN}team = \"t\"\nstreams = 3\n{BOB}team = \"t\"\n[teams.t]\nstreams = 4");
    let gateway = priced(&[&fake], &tables).start().await;
    let mut running = Vec::new();
    for name in ["ann", "ann", "ann", "bob"] {
        let mut client = send(&gateway, name, CHAT, &asking(10)).await;
        assert_eq!(client.head().await.status, 200);
        running.push(client);
    }
    for (name, who) in [("ann", "the user \"ann\" may have 3"), ("bob", "the team \"t\" may have 4")] {
        let refused = ask(&gateway, name, &asking(10)).await;
        let (status, code, message) = refused.error();
        assert_eq!((status, code.as_str(), refused.header("retry-after")), (429, "photofinish_too_many_streams", "1"));
        assert!(message.contains(who), "{message}");
    }
    running.pop().unwrap().close();
    fake.closed(3).await;
    super::soon("its stream is free", async {
        while usage(&gateway, &super::LevelName::Team("t".into())).streams.0 > 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut client = send(&gateway, "bob", CHAT, &asking(10)).await;
    assert_eq!(client.head().await.status, 200);
    gate.open();
    while running[0].event().await.unwrap().is_some() {}
}

#[tokio::test]
async fn each_dialect_gets_its_own_refusal_and_headers() {
    let fake = FakeProvider::answering(|_| answer(3)).await;
    for surface in Surface::ALL {
        let gateway = priced(&[&fake], &format!("{ANN}rpm = 1\nbudget.day = 1\n")).start().await;
        let body = surface.body("m", false);
        let path = surface.path_for("m", false);
        let served = read_response(&mut send(&gateway, "ann", &path, &body).await).await;
        assert_eq!(served.status, 200, "{surface:?}: {}", served.body);
        let name = match surface {
            Surface::Messages => "anthropic-ratelimit-requests-remaining",
            _ => "x-ratelimit-remaining-requests",
        };
        assert_eq!(served.header(name), "0", "{surface:?}: {:?}", served.headers);
        assert!(!served.header("x-photofinish-budget-remaining-usd").is_empty(), "{:?}", served.headers);
        let refused = read_response(&mut send(&gateway, "ann", &path, &body).await).await;
        assert_eq!(refused.status, 429, "{surface:?}: {}", refused.body);
        assert!(!refused.header("retry-after").is_empty());
        let about_limits = |response: &Response| -> Vec<String> {
            let names = response.headers.iter().map(|(name, _)| name.to_owned());
            names.filter(|name| name.contains("ratelimit") || name.contains("budget")).collect()
        };
        assert_eq!(about_limits(&refused), about_limits(&served), "{surface:?}");
        assert_eq!(about_limits(&refused).len(), 4, "{:?}", refused.headers);
        let error = refused.json();
        let shaped = match surface {
            Surface::Chat | Surface::Responses => error["error"]["type"] == "rate_limit_error",
            Surface::Messages => error["type"] == "error" && error["error"]["type"] == "rate_limit_error",
            Surface::Ollama => error["error"].is_string(),
            Surface::Gemini => error["error"]["status"] == "RESOURCE_EXHAUSTED",
        };
        assert!(shaped, "{surface:?}: {error}");
    }
}

#[tokio::test]
async fn the_providers_own_limits_are_kept_back_from_a_limited_caller() {
    let fake = FakeProvider::answering(|_| {
        let limits = [("content-type", "text/event-stream"), ("x-ratelimit-remaining-tokens", "7")];
        Script::new().head(200, &limits).role().token("x").finish("stop").done().end()
    })
    .await;
    let gateway = priced(&[&fake], &format!("{ANN}rpm = 10\n{BOB}")).start().await;
    let [limited, unlimited] = [ask(&gateway, "ann", &asking(5)).await, ask(&gateway, "bob", &asking(5)).await];
    assert_eq!(limited.header("x-ratelimit-remaining-tokens"), "");
    assert_eq!(unlimited.header("x-ratelimit-remaining-tokens"), "7");
    assert_eq!(unlimited.header("x-ratelimit-remaining-requests"), "");
}

#[tokio::test]
async fn of_refusals_that_repeat_few_in_a_minute_have_a_row() {
    let fake = FakeProvider::answering(|_| answer(3)).await;
    let gateway = priced(&[&fake], &format!("{ANN}{BOB}")).start().await;
    let unknown = json!({"model": "nothing", "messages": [{"role": "user", "content": "x"}]});
    let broken = json!({"model": "m", "messages": 1});
    for (user, body, times) in [("ann", &unknown, 50), ("bob", &unknown, 3), ("ann", &broken, 40)] {
        for _ in 0..times {
            assert!((400..=404).contains(&ask(&gateway, user, body).await.status));
        }
    }
    assert_eq!(ask(&gateway, "ann", &asking(5)).await.status, 200);
    let metrics = get(&gateway, "ann", "/metrics").await.body;
    assert!(metrics.contains("photofinish_races_total{outcome=\"rejected\"} 93\n"), "all are counted: {metrics}");
    advance_clock(std::time::Duration::from_secs(61)).await;
    assert_eq!(ask(&gateway, "ann", &unknown).await.status, 404);
    let rows = gateway.stop().await.races;
    let of = |name: &str| rows.iter().filter(|row| row["caller"] == name && row["outcome"] == "rejected").count();
    assert_eq!((of("ann"), of("bob"), rows.len()), (61, 3, 65));
}
