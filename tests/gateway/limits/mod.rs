//! The limits of callers: rates, streams, budgets and models, at all levels. Not for their arithmetic, which has its own model check.

mod bills;
mod budgets;
mod changes;
mod examples;
mod kinds;
mod made;
mod model_budgets;
mod models;
mod month;
mod near_end;
mod rates;
mod routes;
mod stored;
mod storms;
mod surfaces;

use photofinish_config::Limits;
use photofinish_limits::{LevelName, LevelUse, LimitClock};
use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{CHAT, Rows, Setup, TestGateway};
use crate::support::{FakeProvider, RawClient, Script, soon};

const ANN: &str = "[users.ann]\ntoken = \"token-of-ann\"\nrole = \"admin\"\n";
const BOB: &str = "[users.bob]\ntoken = \"token-of-bob\"\n";

/// Nano-USD of a token of an answer; prompts cost nothing.
const TOKEN: i64 = 1_000_000;

/// The model `m` over these providers, whose answers cost a thousandth of a USD a token, with `tables`.
fn priced(fakes: &[&FakeProvider], tables: &str) -> Setup {
    let upstream = |name: char| format!("{{ upstream = \"{name}/m\", input_price = 0, output_price = 1000 }}");
    let upstreams: Vec<String> = ('a'..='z').take(fakes.len()).map(upstream).collect();
    let model = format!("[models.m]\naliases = [\"alias\"]\nupstreams = [{}]", upstreams.join(", "));
    Setup::over(fakes).model(&model).table(tables)
}

fn asking(max_tokens: u64) -> Value {
    json!({"model": "m", "stream": true, "max_tokens": max_tokens, "messages": [{"role": "user", "content": "x"}]})
}

/// An answer of this number of tokens, as its usage says.
fn answer(tokens: u64) -> Script {
    Script::sse().role().token("x").finish("stop").usage(10, tokens).done().end()
}

async fn send(gateway: &TestGateway, user: &str, path: &str, body: &Value) -> RawClient {
    gateway.request(path, &[("x-api-key", &format!("token-of-{user}"))], body).await
}

async fn ask(gateway: &TestGateway, user: &str, body: &Value) -> Response {
    read_response(&mut send(gateway, user, CHAT, body).await).await
}

async fn get(gateway: &TestGateway, user: &str, path: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", path, &[("x-api-key", &format!("token-of-{user}"))], "").await;
    read_response(&mut client).await
}

/// What a level has used, now.
fn usage(gateway: &TestGateway, level: &LevelName) -> LevelUse {
    let gateway = gateway.gateway();
    let live = gateway.live();
    let of_user = |name: &str| live.config.users.iter().find(|user| user.name == name).map(|user| user.limits.clone());
    let limits = match level {
        LevelName::Everybody => live.config.limits.clone(),
        LevelName::Team(team) => live.config.teams[&**team].limits.clone(),
        LevelName::User(name) => of_user(name).unwrap_or_default(),
        LevelName::Key(_) | LevelName::Models(_) => Limits::default().into(),
    };
    let wall_us = photofinish_base::clock::wall_micros();
    gateway.usage().usage_of(level, &limits, LimitClock { us: gateway.learning().now_us(), wall_us })
}

fn user(name: &str) -> LevelName {
    LevelName::User(name.into())
}

/// Waits until nothing of this level runs and nothing is reserved; returns what it spent this day.
async fn spent(gateway: &TestGateway, level: &LevelName) -> i64 {
    soon("nothing is reserved", async {
        loop {
            let used = usage(gateway, level);
            if used.streams.0 == 0 && used.periods.iter().all(|period| period.reserved == 0) {
                return used.periods[0].spent;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// What the rows say that it cost, as whole nano-USD each.
fn cost_of(rows: &Rows) -> i64 {
    let nano =
        |row: &std::collections::BTreeMap<String, Value>| (row["cost_usd_min"].as_f64().unwrap_or(0.0) * 1e9).round();
    rows.attempts.iter().map(|row| nano(row) as i64).sum()
}
