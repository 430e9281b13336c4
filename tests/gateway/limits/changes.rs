//! Limits that change while they are used.

use super::{ANN, TOKEN, answer, ask, asking, priced, send, spent, usage, user};
use crate::harness::gateway::{CHAT, Setup};
use crate::support::{FakeProvider, Gate, Script};

#[tokio::test]
async fn what_was_used_stays_when_a_limit_is_raised_or_lowered() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| {
        match String::from_utf8_lossy(&request.body).contains("\"max_tokens\":77") {
            true => Script::sse().role().token("x").wait(&open).finish("stop").usage(10, 7).done().end(),
            false => answer(10),
        }
    })
    .await;
    let setup = |limits: &str| priced(&[&fake], &format!("{ANN}reserve = \"max\"\n{limits}"));
    let gateway = setup("rpm = 3\nstreams = 5\nbudget.day = 0.2").start().await;
    let mut running = send(&gateway, "ann", CHAT, &asking(77)).await;
    assert_eq!(running.head().await.status, 200);
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200);
    }
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.error().1, "photofinish_rate_limited");

    gateway.reload(&setup("rpm = 5\nstreams = 5\nbudget.day = 0.2")).await;
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200, "raised from three to five");
    assert_eq!(usage(&gateway, &user("ann")).requests.unwrap().left, 1);

    gateway.reload(&setup("streams = 1\nbudget.day = 0.2")).await;
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.error().1, "photofinish_too_many_streams", "one runs");

    gateway.reload(&setup("budget.day = 0.03")).await;
    let (_, code, message) = ask(&gateway, "ann", &asking(10)).await.error();
    assert_eq!(code, "photofinish_budget_spent");
    assert!(message.contains("0.03 USD are spent, 0.077 USD are reserved"), "{message}");

    gate.open();
    while running.event().await.unwrap().is_some() {}
    assert_eq!(spent(&gateway, &user("ann")).await, 37 * TOKEN, "a running answer is never cut");
    gateway.reload(&setup("budget.day = 0.05")).await;
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200);
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.error().1, "photofinish_budget_spent");
}

#[tokio::test]
async fn the_price_at_the_start_of_an_attempt_is_its_price() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| match request.number {
        0 => Script::sse().role().token("x").wait(&open).finish("stop").usage(10, 7).done().end(),
        _ => answer(10),
    })
    .await;
    let setup = |price: u32| {
        let model =
            format!("[models.m]\nupstreams = [{{ upstream = \"a/m\", input_price = 0, output_price = {price} }}]");
        Setup::over(&[&fake]).model(&model).table(&format!("{ANN}budget.day = 100"))
    };
    let gateway = setup(1_000).start().await;
    let mut running = send(&gateway, "ann", CHAT, &asking(77)).await;
    assert_eq!(running.head().await.status, 200);
    gateway.reload(&setup(3_000)).await;
    gate.open();
    while running.event().await.unwrap().is_some() {}
    assert_eq!(spent(&gateway, &user("ann")).await, 7 * TOKEN, "it began before");
    assert_eq!(ask(&gateway, "ann", &asking(10)).await.status, 200);
    assert_eq!(spent(&gateway, &user("ann")).await, 37 * TOKEN);
    let rows = gateway.stop().await;
    assert_eq!(super::cost_of(&rows), 37 * TOKEN);
}
