//! Probes of a running gateway over real sockets: what they send, what their rows say, and what they leave alone.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::harness::answer::{advance_clock_until, read_response};
use crate::harness::gateway::{Setup, TestGateway, pick};
use crate::support::{FakeProvider, Gate, RawClient, Script, soon};
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, RaceRecord, RaceSource, Record, StartReason};
use photofinish_routing::forecast::SendConditions;

const EVERY_US: i64 = 3 * 3_600_000_000;

/// Probes of these upstreams were last due three slots ago, so that two are due now: the last two moments that have come.
fn history(providers: &[&str]) -> Vec<Record> {
    let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
    let started_at = now_us - 2 * EVERY_US;
    let ms = started_at / 1_000;
    let rows = |(number, provider): (usize, &&str)| {
        let race_id = format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff);
        let upstream = ((*provider).to_owned(), "m".to_owned());
        let attempt = AttemptRecord {
            outcome: AttemptOutcome::Won,
            ..AttemptRecord::new(race_id.clone(), 0, upstream, StartReason::First)
        };
        let race = RaceRecord {
            race_id,
            started_at,
            model: "m".to_owned(),
            attempts: 1,
            source: RaceSource::Probe,
            workload: Some("1k".to_owned()),
            scheduled_us: Some(-EVERY_US),
            ..RaceRecord::default()
        };
        [Record::Attempt(Box::new(attempt)), Record::Race(Box::new(race))]
    };
    providers.iter().enumerate().flat_map(rows).collect()
}

fn probing(setup: Setup) -> Setup {
    setup.table("[probes]\nworkloads = [\"1k\"]\nmax_tokens = 1000000")
}

fn answer() -> Script {
    Script::sse().role().tokens(&["hello", " there"]).finish("stop").usage(200, 2).done().end()
}

async fn metrics(gateway: &TestGateway) -> String {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", "/metrics", &[], "").await;
    read_response(&mut client).await.body
}

/// The counter of probes that ended so.
async fn probes(gateway: &TestGateway, outcome: &str) -> u64 {
    let page = metrics(gateway).await;
    let start = format!("photofinish_probe_runs_total{{outcome=\"{outcome}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |count| count.parse().unwrap())
}

async fn until(gateway: &TestGateway, outcome: &str, count: u64) {
    let counted = async { while probes(gateway, outcome).await < count {} };
    soon("the probes ended", counted).await;
}

#[tokio::test]
async fn a_ping_opens_the_connection_and_the_rows_say_what_they_are() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let gateway = probing(Setup::over(&[&fake])).start_after(&history(&["a"])).await;
    until(&gateway, "answered", 2).await;
    assert_eq!(read_response(&mut gateway.streaming().await).await.status, 200);
    let page = metrics(&gateway).await;
    assert!(page.contains("photofinish_races_total{outcome=\"ok\"} 1\n"), "only the client's: {page}");
    let rows = gateway.stop().await;
    let found: Vec<_> = rows.races.iter().map(|race| pick(race, &["source", "workload"])).collect();
    let (ping, measured) =
        (json!({"source": "probe", "workload": "ping"}), json!({"source": "probe", "workload": "1k"}));
    let [first, .., client] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*first, measured, "of the history");
    assert_eq!(found[1..5], [ping.clone(), measured.clone(), ping, measured]);
    assert_eq!(*client, json!({"source": "client", "workload": null}));
    // A moment lies in its slot, so the last that has come is less than two slots ago.
    let late_us = rows.races[4]["scheduled_us"].as_i64().unwrap();
    assert!((-2 * EVERY_US..=0).contains(&late_us), "{late_us}");
    assert!(rows.races[2]["scheduled_us"].as_i64().unwrap() < late_us && rows.races[1]["scheduled_us"].is_null());
    let reused = |attempt: usize| &rows.attempts[attempt]["conn_reused"];
    assert_eq!((reused(1), reused(2)), (&json!(0), &json!(1)), "the handshake is the ping's");
    let sent: Vec<_> = fake.requests().iter().map(|request| request.json()["max_tokens"].clone()).collect();
    assert_eq!(sent[..4], [16, 1000, 16, 1000].map(|tokens| json!(tokens)));
    let words = |number: usize| fake.requests()[number].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    assert_ne!(words(1)[..8], words(3)[..8], "a salt comes first");
}

#[tokio::test]
async fn the_metrics_of_clients_are_the_same_with_and_without_probes() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let with = probing(Setup::over(&[&fake])).start_after(&history(&["a"])).await;
    let without = Setup::over(&[&fake]).start_after(&history(&["a"])).await;
    until(&with, "answered", 2).await;
    // The probes' own series, what the process is and does at this moment, and the rows, which probes write too.
    let others = [
        "photofinish_probe_",
        "photofinish_tasks",
        "photofinish_record_queue",
        "photofinish_records_written",
        "process_",
    ];
    let of_clients = |page: String| -> Vec<String> {
        page.lines().filter(|line| others.iter().all(|other| !line.contains(other))).map(str::to_owned).collect()
    };
    assert_eq!(of_clients(metrics(&with).await), of_clients(metrics(&without).await));
    with.stop().await;
    without.stop().await;
}

#[tokio::test]
async fn failed_probes_open_no_breaker() {
    let fake =
        FakeProvider::answering(|request| if request.number < 2 { Script::status(500, &[], "{}") } else { answer() });
    let fake = fake.await;
    let silent = FakeProvider::answering(|_| Script::new().until_closed()).await;
    let breaker = "breaker = { failures = 1, open = \"1h\", open_max = \"1h\" }";
    let setup = probing(Setup::over(&[&fake, &silent])).race(breaker).race("timeouts = { total = \"200ms\" }");
    let gateway = setup.start_after(&history(&["a", "b"])).await;
    until(&gateway, "failed", 4).await;
    assert!(gateway.open_breakers().is_empty(), "{:?}", gateway.open_breakers());
    assert_eq!((fake.requests().len(), silent.requests().len()), (2, 2), "after a failed ping nothing more is sent");
    assert_eq!(read_response(&mut gateway.ask(&json!({"model": "a/m", "messages": [{}]})).await).await.status, 200);
}

#[tokio::test]
async fn a_probe_without_end_does_not_stop_the_others() {
    let endless = Script::sse().role().token("hi").comment("ping").until_closed();
    let a = FakeProvider::answering(move |_| endless.clone()).await;
    let b = FakeProvider::answering(|_| answer()).await;
    let patient = "timeouts = { first_token = \"10h\", idle = \"10h\", total = \"10h\" }";
    let gateway = probing(Setup::over(&[&a, &b])).race(patient).start_after(&history(&["a", "b"])).await;
    let ended = async { while probes(&gateway, "failed").await < 2 || probes(&gateway, "answered").await < 2 {} };
    advance_clock_until(ended).await;
    a.closed(0).await;
    let rows = gateway.stop().await;
    let of_a = rows.attempts.iter().filter(|row| row["provider"] == "a" && row["outcome"] != "won");
    let found: Vec<_> = of_a.map(|row| pick(row, &["outcome", "failure"])).collect();
    assert_eq!(found, vec![json!({"outcome": "failed_mid", "failure": "timeout"}); 2], "recorded like any other");
}

#[tokio::test]
async fn nothing_is_sent_while_a_key_cools_down() {
    let fake = FakeProvider::answering(|_| Script::status(429, &[("retry-after", "3600")], "{}")).await;
    let gateway = probing(Setup::over(&[&fake])).start_after(&history(&["a"])).await;
    until(&gateway, "failed", 1).await;
    until(&gateway, "skipped", 1).await;
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_probe_waits_for_clients_of_its_upstream() {
    let (pinged, go_on, asked) = (Gate::new(), Gate::new(), Gate::new());
    let (reached, wait, client) = (pinged.clone(), go_on.clone(), asked.clone());
    let fake = FakeProvider::answering(move |request| match request.json()["max_tokens"].as_u64() {
        None => Script::sse().role().reached(&client).until_closed(),
        Some(_) if request.number == 0 => Script::sse()
            .role()
            .reached(&reached)
            .wait(&wait)
            .tokens(&["hi", " you"])
            .finish("stop")
            .usage(200, 2)
            .done()
            .end(),
        Some(_) => answer(),
    })
    .await;
    let gateway = probing(Setup::over(&[&fake])).start_after(&history(&["a"])).await;
    soon("the first ping", pinged.passed()).await;
    let held = gateway.streaming().await;
    soon("the client's request", asked.passed()).await;
    go_on.open();
    until(&gateway, "answered", 1).await;
    // The second probe is due at once. It would have come while the gateway answers these.
    for _ in 0..200 {
        assert_eq!(probes(&gateway, "answered").await, 1);
    }
    assert_eq!(fake.requests().len(), 3, "one ping, one client, one measured request");
    drop(held);
}

#[tokio::test]
async fn a_model_that_thinks_in_secret_is_measured_after_its_empty_ping() {
    let fake = FakeProvider::answering(|request| match request.json()["max_tokens"].as_u64() {
        Some(16) => Script::sse().role().finish("length").usage(200, 16).done().end(),
        _ => answer(),
    })
    .await;
    let gateway = probing(Setup::over(&[&fake])).start_after(&history(&["a"])).await;
    until(&gateway, "answered", 2).await;
    assert_eq!((fake.requests().len(), probes(&gateway, "failed").await), (4, 0));
}

#[tokio::test]
async fn routing_learns_from_a_probe_while_the_gateway_runs() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let knows = |gateway: &TestGateway| {
        let (learning, sent) = (gateway.learning(), SendConditions { uncached_tokens: 1_000.0, in_flight: 0 });
        learning.upstream("a/m").forecast().ttft_quantile_us(sent, 0.5, learning.now_us()).is_some()
    };
    let silent = Setup::over(&[&fake]).start_after(&history(&["a"])).await;
    assert!(!knows(&silent), "the rows of the history have no times");
    let gateway = probing(Setup::over(&[&fake])).start_after(&history(&["a"])).await;
    let learnt = async {
        while !knows(&gateway) {
            tokio::task::yield_now().await;
        }
    };
    soon("the forecast knows the probe", learnt).await;
}
