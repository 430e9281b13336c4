//! The provider's bill against every figure of it: whatever clients, providers and races do, the truth is between the bounds.
//! `PHOTOFINISH_BILLS` sets how many races.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ANN, get, spent, user};
use crate::harness::biller::{self, Bill, BillingRule, PRICES};
use crate::harness::gateway::{CHAT, Row, Rows, Setup, TestGateway};
use crate::support::FakeProvider;

/// Races unless the environment says.
const RACES: u64 = 1_000;
const CLIENTS: u64 = 16;
const RULES: [(&str, &str, BillingRule); 3] = [
    ("a", "cancel_billing = \"stops\"", BillingRule::UntilCut),
    ("b", "cancel_billing = \"bills_full\"", BillingRule::InFull),
    ("c", "cancel_billing = \"unknown\"", BillingRule::Untold(4)),
];
/// What sums of floating numbers may differ by.
const ROUNDING: f64 = 1e-6;

/// Which race each request became, where its client saw that.
type Seen = Arc<Mutex<BTreeMap<String, u64>>>;

async fn started(race: &str, tables: &str) -> (TestGateway, Vec<(FakeProvider, Bill)>) {
    let mut billers = Vec::new();
    for salt in 0..3 {
        billers.push(biller::start(salt).await);
    }
    let upstream = |(name, _, _): &(&str, &str, BillingRule)| {
        let (input, output) = (PRICES.0 * 1e6, PRICES.1 * 1e6);
        format!("{{ upstream = \"{name}/m\", input_price = {input}, output_price = {output} }}")
    };
    let upstreams: Vec<String> = RULES.iter().map(upstream).collect();
    let providers = RULES.iter().zip(&billers);
    let setup = providers.fold(Setup::new(), |setup, ((name, lines, _), (fake, _))| setup.provider(name, fake, lines));
    let setup = setup.race(race).race(
        "retries = 1\nbreaker.failures = 0\nlook = 0.2\naudit = 0.1\nrescue = \"replay\"\ndrains.time = \"1s\"\n\
         timeouts = { first_token = \"2s\", idle = \"2s\", total = \"5s\", stream_total = \"9s\" }",
    );
    let setup = setup.model(&format!("[models.m]\nupstreams = [{}]", upstreams.join(", "))).table(tables);
    (setup.start().await, billers)
}

/// Sends requests with every so-manieth number, and leaves some of them.
async fn client(gateway: Arc<TestGateway>, seen: Seen, numbers: Vec<u64>, user: &'static str) {
    for number in numbers {
        let mut random = fastrand::Rng::with_seed(number);
        let content = format!("{number} {}", "prompt ".repeat(random.usize(10..200)));
        let mut body =
            json!({"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": random.u64(1..40)});
        body["stream"] = json!(random.u8(0..4) > 0);
        let mut client = super::send(&gateway, user, CHAT, &body).await;
        let leaves = random.u8(0..10);
        if leaves < 2 {
            // At some moment of its race.
            for _ in 0..random.u8(0..50) {
                tokio::task::yield_now().await;
            }
            client.close();
            continue;
        }
        let head = client.head().await;
        if let Some(race) = head.header("x-photofinish-race") {
            seen.lock().unwrap().insert(race.to_owned(), number);
        }
        if leaves < 4 && head.status == 200 && body["stream"] == true {
            for _ in 0..random.u8(1..6) {
                let _ = client.event().await;
            }
            client.close();
        } else {
            let _ = client.body(&head).await;
        }
    }
}

async fn play(gateway: TestGateway, races: u64, user_name: &'static str) -> (TestGateway, Seen) {
    let (gateway, seen) = (Arc::new(gateway), Seen::default());
    // Until a prompt was counted nothing bounds those of losers.
    let first =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "0 prompt"}], "max_tokens": 9});
    let head = super::ask(&gateway, user_name, &first).await;
    seen.lock().unwrap().insert(head.header("x-photofinish-race").to_owned(), 0);
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let numbers = (1 + first..races).step_by(CLIENTS as usize).collect();
        clients.spawn(client(gateway.clone(), seen.clone(), numbers, user_name));
    }
    clients.join_all().await;
    spent(&gateway, &user(user_name)).await;
    let Ok(gateway) = Arc::try_unwrap(gateway) else { panic!("its clients have ended") };
    gateway.settled("all races").await;
    (gateway, seen)
}

/// The bounds of one row; nothing bounds it: infinite.
fn bounds(row: &Row) -> (f64, f64) {
    let usd = |column: &str, none: f64| row[column].as_f64().unwrap_or(none);
    (usd("cost_usd_min", 0.0), usd("cost_usd_max", f64::INFINITY))
}

fn sum<'r>(rows: impl Iterator<Item = &'r Row>) -> (f64, f64) {
    rows.map(bounds).fold((0.0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}

fn is_within(truth: f64, (least, most): (f64, f64)) -> bool {
    least - ROUNDING <= truth && truth <= most + ROUNDING
}

/// Of each provider in each race that a client saw, and of each provider: what is not between the bounds.
fn outside(rows: &Rows, seen: &Seen, billers: &[(FakeProvider, Bill)]) -> Vec<String> {
    let seen = seen.lock().unwrap();
    let mut outside = Vec::new();
    for ((name, _, rule), (_, bill)) in RULES.iter().zip(billers) {
        let of = || rows.attempts.iter().filter(|row| row["provider"] == *name);
        let (truth, all) = (bill.of(*rule, |_| true), sum(of()));
        eprintln!("{name}: {truth:.4} USD, {:.4} to {:.4}", all.0, all.1);
        if !is_within(truth, all) {
            outside.push(format!("{name} in all: {truth} is not in {all:?}"));
        }
        let mut by_race: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        of().for_each(|row| by_race.entry(row["race_id"].as_str().unwrap()).or_default().push(row));
        for (race, rows) in by_race {
            let Some(number) = seen.get(race) else { continue };
            let (truth, all) = (bill.of(*rule, |of| of == *number), sum(rows.iter().copied()));
            if !is_within(truth, all) {
                outside.push(format!("{name} in {number}: {truth} is not in {all:?}: {rows:#?}"));
            }
        }
    }
    outside
}

/// The pair at an edge: members of this JSON.
fn pair(json: &Value) -> (f64, f64) {
    let usd = |member: &str| json[member].as_f64().unwrap_or_else(|| panic!("no {member}: {json}"));
    (usd("cost_usd_min"), usd("cost_usd_max"))
}

/// The sums of both series of `/metrics`.
async fn metrics_pair(gateway: &TestGateway) -> (f64, f64) {
    let page = get(gateway, "ann", "/metrics").await.body;
    let sum = |name: &str| -> f64 {
        let lines = page.lines().filter(|line| line.starts_with(&format!("photofinish_{name}{{")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    (sum("cost_usd_total"), sum("cost_usd_max_total"))
}

fn races() -> u64 {
    std::env::var("PHOTOFINISH_BILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(RACES)
}

#[tokio::test]
async fn the_provider_s_bill_is_between_the_bounds_of_every_figure() {
    for policy in ["policy = \"race\"", "policy = \"adaptive\"\nbudget = 2.0"] {
        let tables = format!("{ANN}reserve = \"max\"\nbudget.day = 1000000");
        let (gateway, billers) = started(policy, &tables).await;
        let (gateway, seen) = play(gateway, races() / 2, "ann").await;
        let written: f64 = RULES.iter().zip(&billers).map(|((_, _, rule), (_, bill))| bill.of(*rule, |_| true)).sum();
        let spent = spent(&gateway, &user("ann")).await as f64 / 1e9;
        let mut edges = vec![("/metrics", metrics_pair(&gateway).await)];
        gateway.recorder().until_written(Duration::from_secs(30)).await;
        for (path, place) in [("/api/usage", "/total"), ("/api/costs", "/total/all"), ("/api/stats?by=user", "/0")] {
            let json = get(&gateway, "ann", path).await.json();
            edges.push((path, pair(json.pointer(place).unwrap())));
        }
        let rows = gateway.stop().await;
        let all = sum(rows.attempts.iter());
        eprintln!("{policy}: {written:.4} USD, rows {all:?}, {edges:?}, spent {spent}");
        let outside = outside(&rows, &seen, &billers);
        assert!(outside.is_empty(), "{} outside:\n{}", outside.len(), outside[..outside.len().min(5)].join("\n"));
        for (edge, pair) in edges {
            assert!((pair.0 - all.0).abs() < 1e-3 && (pair.1 - all.1).abs() < 1e-3, "{edge}: {pair:?}, rows {all:?}");
        }
        assert!(spent >= written - ROUNDING, "{spent} of {written}");
    }
}

/// Whose clients press Esc is charged for what the provider wrote, before and after the caller's usual answer is known.
#[tokio::test]
async fn answers_that_are_left_count_as_what_came() {
    let tables = format!("{ANN}budget.day = 1000000");
    let (gateway, billers) = started("policy = \"fallback\"\npatience = 0", &tables).await;
    let ask = async |number: u64, leaves: bool| {
        let content = format!("{number} {}", "prompt ".repeat(40));
        let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": content}], "max_tokens": 4_000});
        let mut client = super::send(&gateway, "ann", CHAT, &body).await;
        let head = client.head().await;
        match leaves {
            true => {
                let _ = client.event().await;
                let _ = client.event().await;
                client.close();
            }
            false => drop(client.body(&head).await),
        }
        spent(&gateway, &user("ann")).await as f64 / 1e9
    };
    // At first little is known of the provider's tokens. The caller's usual answer is known from thirty on.
    for number in 0..25 {
        ask(number, false).await;
    }
    for (numbers, leaves) in [(25..60, true), (60..150, false), (150..200, true)] {
        let before = spent(&gateway, &user("ann")).await as f64 / 1e9;
        let mut after = before;
        for number in numbers.clone() {
            after = ask(number, leaves).await;
        }
        let bills = RULES.iter().zip(&billers);
        let truth: f64 =
            bills.map(|((_, _, rule), (_, bill))| bill.of(*rule, |number| numbers.contains(&number))).sum();
        let booked = after - before;
        eprintln!("{numbers:?}, left: {leaves}: {booked:.4} booked, {truth:.4} billed");
        // Where it is unknown what was billed, it books what may have been.
        assert!(booked <= 1.8 * truth && booked >= 0.7 * truth, "{booked} booked, {truth} billed");
    }
    gateway.stop().await;
}
