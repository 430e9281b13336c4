//! Budgets for some models: what they count, what they refuse and leave out, and how they are shown.

use photofinish_limits::LevelName;
use serde_json::json;

use super::{ANN, TOKEN, answer, get, send};
use crate::harness::answer::read_response;
use crate::harness::gateway::{CHAT, Setup, TestGateway};
use crate::support::{FakeProvider, soon};

const MODELS: &str = "[models.opus]
aliases = [\"best\"]
upstreams = [{ upstream = \"a/big\", input_price = 0, output_price = 1000 }]
[models.small]
upstreams = [{ upstream = \"b/small\", input_price = 0, output_price = 1000 }]
[models.both]
upstreams = [{ upstream = \"a/big\", input_price = 0, output_price = 1000 }, { upstream = \"b/small\", input_price = 0, output_price = 1000 }]";

async fn started(limits: &str) -> (TestGateway, [FakeProvider; 2]) {
    let fakes = [FakeProvider::answering(|_| answer(10)).await, FakeProvider::answering(|_| answer(10)).await];
    let tables = format!("{ANN}overrides = true\nreserve = \"max\"\n{limits}");
    let setup = Setup::over(&[&fakes[0], &fakes[1]]).race("policy = \"fallback\"").model(MODELS).table(&tables);
    (setup.start().await, fakes)
}

/// Status, and the error's code or the upstream that answered; and the error.
async fn asked(gateway: &TestGateway, model: &str) -> (u16, String, String) {
    let body =
        json!({"model": model, "stream": true, "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]});
    let answered = read_response(&mut send(gateway, "ann", CHAT, &body).await).await;
    settled(gateway).await;
    match answered.status {
        200 => (200, answered.upstream().to_owned(), String::new()),
        _ => answered.error(),
    }
}

/// All that runs has ended and is booked.
async fn settled(gateway: &TestGateway) {
    let me = || async { get(gateway, "ann", "/api/me").await.json() };
    let is_idle = |me: &serde_json::Value| {
        let uses = me["limits"].as_array().unwrap().iter().flat_map(|level| level["uses"].as_array().unwrap());
        uses.clone().all(|of| of["reserved"] == 0)
    };
    soon("what runs has ended", async { while !is_idle(&me().await) {} }).await;
}

#[tokio::test]
async fn a_budget_for_some_models_holds_for_these_alone() {
    // By its name, an alias, its upstream, and the upstream's name without its provider.
    for pattern in ["opus", "o*", "best", "a/*", "big"] {
        let (gateway, _fakes) = started(&format!("model_budgets = {{ \"{pattern}\" = {{ day = 0.025 }} }}")).await;
        for model in ["opus", "best"] {
            assert_eq!(asked(&gateway, model).await.0, 200, "{pattern} {model}");
        }
        let (status, code, message) = asked(&gateway, "opus").await;
        assert_eq!((status, code.as_str()), (429, "photofinish_budget_spent"), "{pattern}");
        let expected = format!("the models \"{pattern} of user ann\" may spend 0.025 USD this day (model_budgets.day)");
        assert!(message.contains(&expected), "{message}");
        for _ in 0..5 {
            assert_eq!(asked(&gateway, "small").await.1, "b/small", "{pattern}");
        }
        let is_of_upstream = ["a/*", "big"].contains(&pattern);
        assert_eq!(asked(&gateway, "both").await.1, if is_of_upstream { "b/small" } else { "a/big" }, "{pattern}");
        assert_eq!(asked(&gateway, "a/big").await.0, if is_of_upstream { 403 } else { 200 }, "without a price");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn it_holds_besides_the_whole_budget_and_is_shown() {
    let limits = "budget.day = 0.035\nmodel_budgets = { opus = { day = 0.015, week = 1.0 }, \"s*\" = { total = 0.5 } }";
    let (gateway, _fakes) = started(limits).await;
    assert_eq!(asked(&gateway, "opus").await.0, 200);
    assert!(asked(&gateway, "opus").await.2.contains("opus of user ann"));
    for _ in 0..2 {
        assert_eq!(asked(&gateway, "small").await.0, 200);
    }
    let (_, code, message) = asked(&gateway, "small").await;
    assert_eq!(code, "photofinish_budget_spent");
    assert!(message.contains("the user \"ann\" may spend 0.035 USD this day (budget.day)"), "{message}");
    let me = get(&gateway, "ann", "/api/me").await.json();
    let shown = |level: &serde_json::Value| {
        let budgets = level["uses"].as_array().unwrap().iter();
        let spent = budgets.map(|of| format!("{} {}", of["limit"].as_str().unwrap(), of["used"]));
        (level["name"].as_str().unwrap().to_owned(), spent.collect::<Vec<_>>().join(", "))
    };
    let shown: Vec<_> = me["limits"].as_array().unwrap().iter().map(shown).collect();
    let of = |name: &str, spent: String| (name.to_owned(), spent);
    assert_eq!(
        shown,
        [
            of("ann", format!("budget.day {}", 30 * TOKEN)),
            of("opus of user ann", format!("budget.day {0}, budget.week {0}", 10 * TOKEN)),
            of("s* of user ann", format!("budget.total {}", 20 * TOKEN)),
        ]
    );
    gateway.stop().await;
}

#[tokio::test]
async fn it_goes_on_after_a_restart_and_paths_of_a_provider_do_not_pass_it() {
    let (gateway, fakes) = started("model_budgets.opus.total = 0.015").await;
    assert_eq!(asked(&gateway, "opus").await.0, 200);
    let path = gateway.request("/providers/a/v1/files", &[("x-api-key", "token-of-ann")], &json!({})).await;
    let mut path = path;
    assert_eq!(read_response(&mut path).await.status, 403, "which model it would ask is not known");
    let kept = gateway.gateway().usage().take_changes();
    let level = LevelName::Models("opus of user ann".into());
    assert!(kept.iter().any(|change| change.level == level && change.spent == 10 * TOKEN), "{kept:?}");
    gateway.stop().await;
    drop(fakes);
}
