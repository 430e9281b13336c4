//! The recorded times lie between the provider's own timestamps and the client's. The check is exact, so it holds on a
//! busy machine; `load clock` measures the distances (`docs/benchmarks.md`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::answer::first_text;
use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{Exchange, FakeProvider, Script};

const STREAMS: usize = 12;
const TOKENS: usize = 4;

/// What one client observed of its own request.
struct Seen {
    race_id: String,
    model: String,
    sent: Instant,
    first: Instant,
    last: Instant,
}

async fn listen(gateway: &TestGateway, number: usize) -> Seen {
    let model = format!("a/{number}");
    let sent = Instant::now();
    let mut client = gateway.ask(&json!({"model": model, "stream": true, "messages": [{}]})).await;
    let race_id = client.head().await.header("x-photofinish-race").unwrap().to_owned();
    first_text(&mut client).await;
    let first = Instant::now();
    for _ in 1..TOKENS {
        first_text(&mut client).await;
    }
    let last = Instant::now();
    while client.event().await.unwrap().is_some() {}
    Seen { race_id, model, sent, first, last }
}

#[tokio::test]
async fn the_recorded_times_lie_between_the_provider_s_and_the_client_s() {
    // Head, role, tokens, finish, `[DONE]`; the tokens a few milliseconds apart.
    let fake = FakeProvider::answering(|_| {
        let pause = Duration::from_millis(5);
        let tokens = (0..TOKENS).fold(Script::sse().role(), |script, _| script.delay(pause).token("word "));
        tokens.finish("stop").done().end()
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    let seen = futures_util::future::join_all((0..STREAMS).map(|number| listen(&gateway, number))).await;
    let rows = gateway.stop().await;
    let stamped: BTreeMap<String, Exchange> = fake
        .exchanges()
        .into_iter()
        .map(|exchange| (format!("a/{}", exchange.request.json()["model"].as_str().unwrap()), exchange))
        .collect();
    for Seen { race_id, model, sent, first, last } in seen {
        let row = rows.attempts.iter().find(|row| row["race_id"] == race_id).unwrap();
        let recorded = |name: &str| Duration::from_micros(row[name].as_u64().unwrap());
        // Each recorded time is truncated to a whole microsecond.
        let cut = Duration::from_micros(1);
        let Exchange { arrived, chunks, .. } = &stamped[&model];
        for (name, written, response) in [("first_token_us", chunks[1], first), ("last_token_us", chunks[TOKENS], last)]
        {
            assert!(recorded(name) + cut >= written - *arrived, "{name} of {row:#?}");
            assert!(recorded("dispatch_us") + recorded(name) <= response - sent, "{name} of {row:#?}");
        }
    }
}
