//! Many requests at once whose clients leave at any moment: nothing is lost and nothing is left. `PHOTOFINISH_STORM` sets how many
//! requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tokio::task::JoinSet;

use super::{ANN, TOKEN, answer, ask, asking, priced, send, spent, usage, user};
use crate::harness::answer::read_response;
use crate::harness::gateway::{CHAT, Row, Setup, TestGateway};
use crate::support::{FakeProvider, Script};

/// Requests unless the environment says.
const REQUESTS: usize = 400;
const CLIENTS: usize = 30;
const STREAMS: u32 = 20;

/// Answers, breaks off, refuses, or says nothing until its caller leaves.
fn moody() -> Script {
    match fastrand::u8(0..10) {
        0 => Script::status(500, &[], "{}"),
        1 => Script::sse().role().token("x").reset(),
        2 => Script::sse().role().until_closed(),
        _ => answer(fastrand::u64(1..=100)),
    }
}

fn requests() -> usize {
    std::env::var("PHOTOFINISH_STORM").ok().and_then(|count| count.parse().ok()).unwrap_or(REQUESTS)
}

/// Sends one request after the other; leaves some of them before or in their answer. Returns how many were refused.
async fn client(gateway: Arc<TestGateway>, most: Arc<AtomicU32>, requests: usize) -> usize {
    let mut refused = 0;
    for _ in 0..requests {
        let mut client = send(&gateway, "ann", CHAT, &asking(100)).await;
        most.fetch_max(usage(&gateway, &user("ann")).streams.0, Relaxed);
        match fastrand::u8(0..4) {
            0 => client.close(),
            1 => {
                refused += usize::from(client.head().await.status == 429);
                client.close();
            }
            _ => refused += usize::from(read_response(&mut client).await.status == 429),
        }
    }
    refused
}

/// Nano-USD of the attempts whose cost is known exactly.
fn exact(rows: &[Row]) -> i64 {
    let rows = rows.iter().filter(|row| row["cost_usd_min"].is_f64() && row["cost_usd_min"] == row["cost_usd_max"]);
    rows.map(|row| (row["cost_usd_min"].as_f64().unwrap() * 1e9).round() as i64).sum()
}

#[tokio::test]
async fn a_storm_leaves_no_stream_and_pays_what_the_rows_say() {
    let [one, other] = [FakeProvider::answering(|_| moody()).await, FakeProvider::answering(|_| moody()).await];
    let model = "[models.m]\nupstreams = [{ upstream = \"a/m\", input_price = 0, output_price = 1000 }, \
                 { upstream = \"b/m\", input_price = 0, output_price = 1000 }]";
    let limits = format!("{ANN}reserve = \"max\"\nrpm = 1000000000\nbudget.month = 1000000\nstreams = {STREAMS}");
    let gateway = Setup::new()
        .provider("a", &one, "")
        .provider("b", &other, "cancel_billing = \"bills_full\"")
        .race("policy = \"race\"\nretries = 1\nbreaker.failures = 0\ntimeouts = { first_token = \"300ms\", idle = \"300ms\", total = \"1s\", stream_total = \"2s\" }\ndrains.time = \"300ms\"")
        .model(model)
        .table(&limits)
        .start()
        .await;
    let (gateway, most) = (Arc::new(gateway), Arc::new(AtomicU32::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(gateway.clone(), most.clone(), requests() / CLIENTS));
    }
    let refused: usize = clients.join_all().await.into_iter().sum();
    spent(&gateway, &user("ann")).await;
    let used = usage(&gateway, &user("ann"));
    assert_eq!((used.streams.0, used.periods.map(|period| period.reserved)), (0, [0; 4]));
    assert!(most.load(Relaxed) <= STREAMS && refused > 0, "{most:?} at once, {refused} refused");
    let Ok(gateway) = Arc::try_unwrap(gateway) else { panic!("its clients have ended") };
    let rows = gateway.stop().await;
    let month = used.periods[1];
    assert_eq!(month.spent - month.estimated, exact(&rows.attempts), "to the nano-USD");
    eprintln!(
        "{} races, {} attempts, at most {most:?} at once, {refused} refused",
        rows.races.len(),
        rows.attempts.len()
    );
}

/// With answers of 1 to 100 tokens, 200 requests at once and a budget of 1,000 mean ones.
#[tokio::test]
async fn a_budget_that_runs_out_under_two_hundred_requests_at_once_is_kept() {
    let means = i64::try_from(requests().min(1_000)).unwrap();
    let budget = means * 50 * TOKEN + means * TOKEN / 2;
    for (reserve, most) in [("usual", budget + budget / 50), ("max", budget)] {
        let fake = FakeProvider::answering(|_| answer(fastrand::u64(1..=100))).await;
        let day = budget as f64 / 1e9;
        let gateway =
            Arc::new(priced(&[&fake], &format!("{ANN}reserve = \"{reserve}\"\nbudget.day = {day}")).start().await);
        let mut clients = JoinSet::new();
        for _ in 0..200 {
            let gateway = gateway.clone();
            clients.spawn(async move { while ask(&gateway, "ann", &asking(100)).await.status == 200 {} });
        }
        clients.join_all().await;
        let spent = spent(&gateway, &user("ann")).await;
        eprintln!("{reserve}: {spent} of {budget}");
        assert!(spent <= most && spent >= budget - 100 * TOKEN, "{reserve}: {spent} of {budget}");
    }
}
