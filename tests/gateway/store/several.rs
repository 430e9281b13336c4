//! Two gateways in processes of their own on one Postgres: what one meets, spends and lets in counts at the other.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::harness::postgres;
use crate::harness::process::{CHAT, RunningGateway, Setup, provider};
use crate::support::{FakeProvider, Gate, RawClient, Script, pause, soon};

const ANN: (&str, &str) = ("authorization", "Bearer token-of-ann");
const USERS: &str = "[users.ann]\ntoken = \"token-of-ann\"\nrole = \"admin\"\n";

/// A new database; none without a server.
async fn database() -> Option<String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = postgres::url_of("postgres")?;
    let name = format!("pf_several_{}_{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let mut connection = PgConnection::connect(&server).await.unwrap();
    connection.execute(sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}")))).await.unwrap();
    postgres::url_of(&name)
}

/// Two gateways with this configuration, which know of each other.
async fn two(config: &str) -> Option<[RunningGateway; 2]> {
    let config = format!("store.url = \"{}\"\n{config}", database().await?);
    // One after the other: the first makes the tables.
    let pair = [Setup::new(&config).serve().await, Setup::new(&config).serve().await];
    for gateway in &pair {
        until(gateway, "/api/replicas", "both live", |replicas| {
            replicas["replicas"].as_array().is_some_and(|all| all.len() == 2)
        })
        .await;
    }
    Some(pair)
}

/// Asks until the answer is so. A gateway that starts while its database is slow has none at first.
async fn until(gateway: &RunningGateway, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let asking = async {
        loop {
            let answer = gateway.get(path, &[ANN]).await;
            let found = serde_json::from_str(&answer.body).unwrap();
            if answer.status == 200 && is_so(&found) {
                return found;
            }
            pause().await;
        }
    };
    soon(what, asking).await
}

fn asking(max_tokens: u64) -> Value {
    json!({"model": "m", "stream": true, "max_tokens": max_tokens, "messages": [{"role": "user", "content": "x"}]})
}

async fn send(gateway: &RunningGateway) -> RawClient {
    let mut client = RawClient::connect(gateway.addr).await;
    client.request("POST", CHAT, &[ANN], asking(10).to_string()).await;
    client
}

/// How many of these requests, one after the other, are answered.
async fn answered(gateway: &RunningGateway, requests: u32) -> u32 {
    let mut count = 0;
    for _ in 0..requests {
        let answer = gateway.chat(&[ANN], &asking(10)).await;
        assert!([200, 429].contains(&answer.status), "{}", answer.body);
        count += u32::from(answer.status == 200);
    }
    count
}

fn state<'r>(routing: &'r Value, upstream: &str) -> &'r Value {
    let all = routing["upstreams"].as_array().unwrap();
    all.iter().find(|of| of["upstream"] == upstream).unwrap_or_else(|| panic!("{upstream}: {routing}"))
}

#[tokio::test]
async fn a_429_cools_the_key_at_the_other_gateway_before_its_request_has_ended() {
    let gate = Gate::new();
    let open = gate.clone();
    let limited = FakeProvider::answering(|_| Script::status(429, &[("retry-after", "60")], "{}")).await;
    let slow = FakeProvider::answering(move |request| match request.number {
        0 => Script::sse().role().wait(&open).token("x").finish("stop").done().end(),
        _ => Script::stream(&["x"]),
    })
    .await;
    let config = format!(
        "race.policy = \"fallback\"\n{USERS}{}api_key = \"k-1\"\n{}[models.m]\nupstreams = [\"one/m\", \"two/m\"]\n",
        provider("one", &limited),
        provider("two", &slow)
    );
    let Some([here, there]) = two(&config).await else { return };
    let mut running = send(&here).await;
    until(&there, "/api/routing?model=m", "the key cools down", |routing| {
        state(routing, "one/m")["cooling_down_s"].as_f64().is_some_and(|wait| wait > 20.0 && wait <= 60.0)
    })
    .await;
    assert_eq!(there.chat(&[ANN], &asking(10)).await.status, 200);
    assert_eq!(limited.requests().len(), 1, "the other gateway need not find out itself");
    gate.open();
    assert_eq!(running.head().await.status, 200);
}

#[tokio::test]
async fn a_breaker_that_opens_is_open_at_the_other_gateway_that_does_not_use_the_upstream() {
    let broken = FakeProvider::answering(|_| Script::status(500, &[], "{}")).await;
    let well = FakeProvider::answering(|_| Script::stream(&["x"])).await;
    let config = format!(
        "race.policy = \"fallback\"\nrace.breaker = {{ failures = 2, open = \"1h\", open_max = \"1h\" }}\n{USERS}{}{}[models.m]\nupstreams = [\"one/m\", \"two/m\"]\n",
        provider("one", &broken),
        provider("two", &well)
    );
    let Some([here, there]) = two(&config).await else { return };
    answered(&here, 2).await;
    until(&there, "/api/routing?model=m", "its breaker is open", |routing| {
        state(routing, "one/m")["breaker"] == "open"
    })
    .await;
    assert_eq!(there.chat(&[ANN], &asking(10)).await.status, 200);
    assert_eq!(broken.requests().len(), 2, "the other gateway does not ask it");
}

#[tokio::test]
async fn what_one_gateway_spends_and_lets_in_is_missing_at_the_other() {
    let fake =
        FakeProvider::answering(|_| Script::sse().role().token("x").finish("stop").usage(10, 10).done().end()).await;
    // Each answer costs 0.01 USD. Hardly anything of the rate comes back while this runs.
    let config = format!(
        "{USERS}rpm = {{ requests = 1, burst = 12 }}\nbudget.month = 1\n{}[models.m]\nupstreams = [{{ upstream = \"one/m\", input_price = 0, output_price = 1000 }}]\n",
        provider("one", &fake)
    );
    let Some([here, there]) = two(&config).await else { return };
    let first = answered(&here, 20).await;
    until(&there, "/api/me", "what it spent and let in is heard", |me| {
        let of = &me["limits"][0];
        let left = of["uses"][0]["left"].as_u64().unwrap();
        of["uses"][1]["used"] == i64::from(first) * 10_000_000 && left + u64::from(first) <= 13
    })
    .await;
    let all = first + answered(&there, 20).await + answered(&here, 20).await;
    // Of both together. A minute may have passed.
    assert!((6..=14).contains(&all), "{first}, then {all}");
    assert_eq!(fake.requests().len(), all as usize);
}
