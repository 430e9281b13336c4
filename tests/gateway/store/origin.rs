//! Who asked for a race: the columns of requests of this process, which metrics of clients leave out.

use std::collections::BTreeSet;

use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use photofinish_facts::record::{RaceSource, RequestOrigin, RunKind, RunRecord};
use photofinish_gateway::proxy::{AskedBy, serve_as};
use photofinish_metrics::MetricsFormat;
use photofinish_wire::Surface;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, TestGateway, pick};
use crate::support::{FakeProvider, Script};

const ORIGIN: [&str; 4] = ["source", "run_id", "workload", "scheduled_us"];

/// Sends one streaming request of this process, and reads its answer.
async fn ask(gateway: &TestGateway, origin: RequestOrigin) {
    let body = json!({"model": "m", "stream": true, "messages": [{}]});
    let request = Request::post("/v1/chat/completions").header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let by = AskedBy { origin, ..AskedBy::default() };
    let response = serve_as(gateway.gateway(), Surface::Chat, by, request).await;
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.unwrap();
}

#[tokio::test]
async fn a_probe_is_told_apart_and_not_among_the_figures_of_clients() {
    let fake = FakeProvider::answering(|_| Script::stream(&["one ", "two"])).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let run = RunRecord { run_id: "r".to_owned(), kind: RunKind::Bench, started_at: 7, ..RunRecord::default() };
    gateway.recorder().run(run);
    let metrics = || gateway.recorder().metrics().render(MetricsFormat::Text, &BTreeSet::new(), |_| {});
    let before = metrics();
    let origin = RequestOrigin {
        source: RaceSource::Probe,
        run_id: Some("r".to_owned()),
        workload: Some("1k".to_owned()),
        scheduled: Some(Instant::now() - Duration::from_secs(5)),
    };
    ask(&gateway, origin).await;
    gateway.recorded(3).await;
    assert_eq!(metrics(), before, "no counter of clients moved");
    let answer = read_response(&mut gateway.streaming().await).await;
    assert!(answer.is_done());
    gateway.recorded(5).await;
    assert_ne!(metrics(), before);

    let rows = gateway.stop().await;
    let probe = &rows.races[0];
    assert_eq!((&probe["source"], &probe["run_id"], &probe["workload"]), (&json!("probe"), &json!("r"), &json!("1k")));
    let scheduled_us = probe["scheduled_us"].as_i64().unwrap();
    assert!((-60_000_000..=-5_000_000).contains(&scheduled_us), "{scheduled_us}");
    let client = json!({"source": "client", "run_id": null, "workload": null, "scheduled_us": null});
    assert_eq!(pick(&rows.races[1], &ORIGIN), client);
}
