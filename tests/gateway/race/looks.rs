//! Looks: which upstream a request draws, what starts, and what the rows say.

use serde_json::{Value, json};

use crate::harness::answer::{error_and_close, read_response, stream_after};
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::harness::samples::calling;
use crate::support::{Dialect, FakeProvider, Gate, RawClient, Request, Script, soon};

fn hello() -> Script {
    Script::stream(&["hello"])
}

async fn asked(gateway: &TestGateway, headers: &[(&str, &str)], stream: bool) -> String {
    let mut client = RawClient::connect(gateway.addr()).await;
    let body = json!({"model": "m", "stream": stream, "messages": [{}]}).to_string();
    client.request("POST", CHAT, headers, body).await;
    let response = read_response(&mut client).await;
    assert_eq!(response.status, 200, "{}", response.body);
    response.upstream().to_owned()
}

#[tokio::test]
async fn each_upstream_is_drawn_and_runs_beside_the_leader_to_its_first_token() {
    let (a, b) = (FakeProvider::answering(|_| hello()).await, FakeProvider::answering(|_| hello()).await);
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nlook = 1").start().await;
    for _ in 0..16 {
        asked(&gateway, &[], true).await;
    }
    // The rows of a race are written when its look has ended.
    gateway.recorded(32 + b.requests().len() as u64).await;
    let rows = gateway.stop().await;
    let mut drawn = [0, 0];
    for (n, race) in rows.races.iter().enumerate() {
        assert_eq!((&race["p_look"], &race["look_out"]), (&json!(0.5), &Value::Null));
        assert!(race["why"].as_str().unwrap().contains("look"), "{race:?}");
        let place = ["a/m", "b/m"].iter().position(|name| race["look"] == json!(name)).unwrap();
        drawn[place] += 1;
        let attempts = rows.of(n);
        assert_eq!(attempts.len(), 1 + place, "{race:?}");
        let looked = attempts.iter().find(|row| row["provider"] == json!(["a", "b"][place])).unwrap();
        let seen = (&looked["ttft_event"], &looked["p_audit"], &looked["start_reason"]);
        assert_eq!(seen, (&json!(1), &json!(1.0), &json!("first")), "{looked:?}");
    }
    assert!(drawn.iter().all(|count| *count > 0), "{drawn:?}");
}

#[tokio::test]
async fn what_cannot_start_is_drawn_too() {
    let a = FakeProvider::answering(|_| hello()).await;
    let b = FakeProvider::answering(|_| error_and_close(500, "{}")).await;
    let race = "policy = \"fallback\"\nlook = 1\nbreaker = { failures = 1, open = \"1h\", open_max = \"1h\" }";
    let gateway = Setup::over(&[&a, &b]).race(race).start().await;
    let open = async {
        while gateway.open_breakers().is_empty() {
            asked(&gateway, &[], true).await;
        }
    };
    soon("its breaker opens", open).await;
    let before = b.requests().len();
    for _ in 0..30 {
        assert_eq!(asked(&gateway, &[], true).await, "a/m");
    }
    assert_eq!(b.requests().len(), before);
    let rows = gateway.stop().await;
    let drawn =
        |name: &str| rows.races.iter().rev().take(30).filter(|race| race["look"] == json!(name)).collect::<Vec<_>>();
    let (of_a, of_b) = (drawn("a/m"), drawn("b/m"));
    assert!(!of_a.is_empty() && !of_b.is_empty());
    assert!(of_a.iter().all(|race| race["look_out"].is_null()));
    assert!(of_b.iter().all(|race| race["look_out"] == json!("breaker") && race["attempts"] == json!(1)));
}

#[tokio::test]
async fn in_a_session_the_drawn_one_is_only_watched() {
    for (headers, serves) in [(&[("x-photofinish-session", "one")][..], "a/m"), (&[], "b/m")] {
        let first_may = Gate::new();
        let held = first_may.clone();
        let a = FakeProvider::answering(move |request| match request.number {
            0 => hello(),
            _ => stream_after(&held, &["hello"]),
        });
        let (a, b) = (a.await, FakeProvider::answering(|_| hello()).await);
        let setup = Setup::over(&[&a, &b]).race("policy = \"fallback\"\npatience = 0\nlook = 1");
        let gateway = setup.start().await;
        let model_of_a = [headers, &[("x-photofinish-upstreams", "a/m,b/m")]].concat();
        assert_eq!(asked(&gateway, &model_of_a, true).await, "a/m", "it names its upstreams, so it draws none");
        let mut waiting = Vec::new();
        for asked in 1..=16 {
            let mut client = RawClient::connect(gateway.addr()).await;
            let body = json!({"model": "m", "stream": true, "messages": [{}]}).to_string();
            client.request("POST", CHAT, headers, body).await;
            a.request(asked).await;
            waiting.push(client);
        }
        b.answered(0).await;
        first_may.open();
        let mut served = Vec::new();
        for mut client in waiting {
            served.push(read_response(&mut client).await.upstream().to_owned());
        }
        assert!(served.iter().any(|upstream| upstream == serves), "{served:?}");
        assert!(serves == "b/m" || served.iter().all(|upstream| upstream == serves), "{served:?}");
        let rows = gateway.stop().await;
        assert_eq!(rows.races[0]["p_look"], Value::Null);
        let of_b = rows.attempts.iter().filter(|row| row["provider"] == "b");
        let outcome = if serves == "b/m" { "won" } else { "lost" };
        assert!(of_b.clone().any(|row| row["outcome"] == outcome && row["ttft_event"] == json!(1)), "{serves}");
        assert!(serves == "b/m" || of_b.clone().all(|row| row["outcome"] == "lost"));
    }
}

#[tokio::test]
async fn one_upstream_alone_is_compared_with_none() {
    let a = FakeProvider::answering(|_| hello()).await;
    let gateway = Setup::over(&[&a]).race("policy = \"fallback\"\nlook = 1").start().await;
    asked(&gateway, &[], true).await;
    let rows = gateway.stop().await;
    assert_eq!((&rows.races[0]["p_look"], &rows.races[0]["look"]), (&Value::Null, &Value::Null), "one upstream");
}

fn whole() -> Script {
    Script::status(
        200,
        &[("content-type", "application/json")],
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#,
    )
}

#[tokio::test]
async fn plain_requests_look_too_and_their_answers_are_the_same() {
    // Who streams without a count is asked for plain answers from then on.
    let counted = || Script::sse().role().tokens(&["hello"]).finish("stop").usage(7, 2).done().end();
    let by_form = move |request: &Request| if request.json()["stream"] == json!(true) { counted() } else { whole() };
    let a = FakeProvider::answering(move |request| by_form(request)).await;
    let b = FakeProvider::answering(move |request| by_form(request)).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nlook = 1").start().await;
    for _ in 0..16 {
        assert_eq!(asked(&gateway, &[], false).await, "a/m");
    }
    gateway.recorded(32 + b.requests().len() as u64).await;
    let rows = gateway.stop().await;
    let mut drawn = [0, 0];
    for (n, race) in rows.races.iter().enumerate() {
        assert_eq!((&race["p_look"], &race["look_out"], &race["winner"]), (&json!(0.5), &Value::Null, &json!(0)));
        let place = ["a/m", "b/m"].iter().position(|name| race["look"] == json!(name)).unwrap();
        drawn[place] += 1;
        let attempts = rows.of(n);
        assert_eq!(attempts.len(), 1 + place, "{race:?}");
        let looked = &attempts[place];
        let seen = (&looked["ttft_event"], &looked["plain"], &looked["p_audit"]);
        assert_eq!(seen, (&json!(1), &json!(0), &json!(1.0)), "{looked:?}");
        assert_eq!(attempts[0]["plain"], json!(place), "only what is looked at streams");
        let ends = [&["won"][..], &["lost", "drained"]][place];
        assert!(ends.contains(&looked["outcome"].as_str().unwrap()), "{looked:?}");
    }
    assert!(drawn.iter().all(|count| *count > 0), "{drawn:?}");
}

#[tokio::test]
async fn a_look_at_a_request_with_tools_is_read_to_its_end_and_judged() {
    let a = FakeProvider::answering(|_| hello()).await;
    let b = FakeProvider::answering(|_| calling(Dialect::OpenAi, "{\"x\":1}")).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"\nlook = 1\nhedge_after = \"1h\"").start().await;
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let session = [("x-photofinish-session", "one")];
    for _ in 0..16 {
        let mut client = RawClient::connect(gateway.addr()).await;
        let body = json!({"model": "m", "stream": true, "messages": [{}], "tools": [tool]}).to_string();
        client.request("POST", CHAT, &session, body).await;
        read_response(&mut client).await;
    }
    gateway.recorded((16 + a.requests().len() + b.requests().len()) as u64).await;
    let rows = gateway.stop().await;
    let of_b: Vec<_> = rows.attempts.iter().filter(|row| row["provider"] == json!("b")).collect();
    assert!(!of_b.is_empty());
    for row in of_b {
        assert_eq!((&row["calls"], &row["ttft_event"]), (&json!("valid"), &json!(1)), "{row:?}");
        assert!(["won", "drained"].contains(&row["outcome"].as_str().unwrap()), "{row:?}");
    }
}
