//! `bench` and `probe` end in time whatever a server does. In this process, so that the clock can be moved.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use crate::harness::answer::advance_clock_until;
use crate::support::{FakeProvider, Script};
use photofinish_config::{self as config, Config};
use photofinish_lab::bench::measured::RequestEnd;
use photofinish_lab::bench::prompt::{PromptMaker, Workload};
use photofinish_lab::bench::spend::Spend;
use photofinish_lab::bench::{BlockPlan, Generator, Load, LoadTarget, RowFeed};
use photofinish_lab::probe::{ProbeCaps, Prober};
use photofinish_metrics::ProbeOutcome;
use photofinish_serve::app::LocalGateway;

/// Nothing of the configuration ends an answer sooner.
const PATIENT: &str = "timeouts = { connect = \"1s\", first_token = \"10h\", idle = \"10h\", total = \"10h\" }";
/// Sooner than anything else would end them.
const AN_HOUR: Duration = Duration::from_secs(3_500);

/// How a server does not end, and the failure in its row.
fn servers() -> [(&'static str, Script, &'static str); 5] {
    let begun = || Script::sse().role().token("word ");
    [
        ("no head", Script::new().until_closed(), "timeout"),
        ("half a head", Script::new().raw("HTTP/1.1 200 OK\r\ncontent-ty").until_closed(), "timeout"),
        ("no token", Script::sse().role().comment("ping").until_closed(), "timeout"),
        ("a token and pings", begun().comment("ping").until_closed(), "timeout"),
        ("words", (0..200).fold(begun(), |script, _| script.token(&"word ".repeat(8))).until_closed(), "endless"),
    ]
}

fn config_of(fake: &FakeProvider) -> Config {
    let text = format!(
        "[race]\n{PATIENT}\nbreaker = {{ failures = 0 }}\n[providers.a]\nbase_url = \"{}\"\n[models.m]\nupstreams = [\"a/x\"]",
        fake.base_url()
    );
    config::parse(&text, Path::new("config.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What it comes to, unless it takes too long.
async fn in_time<T>(kind: &str, run: impl Future<Output = T>) -> T {
    let ended = advance_clock_until(async { tokio::time::timeout(AN_HOUR, run).await }).await;
    ended.unwrap_or_else(|_| panic!("{kind}: it has no end"))
}

#[tokio::test]
async fn a_block_of_a_benchmark_ends_soon_after_its_last_request() {
    for (kind, script, failure) in servers() {
        let fake = FakeProvider::answering(move |_| script.clone()).await;
        let feed = RowFeed::new();
        let alone = LocalGateway::start(config_of(&fake), false, Arc::clone(&feed) as _).await.unwrap();
        let client = alone.load_client(feed);
        let prompts = PromptMaker::new(Workload::new("w", 20, 10), 0.0, 1);
        let generator = Generator::new(client, prompts, Spend::unlimited(), serde_json::Map::new(), "r".to_owned());
        let mut headers = HeaderMap::new();
        headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
        let target =
            LoadTarget { name: "a/x".to_owned(), model: "a/x".to_owned(), headers, prices: Vec::new(), lane: 0 };
        let plan = BlockPlan {
            load: Load::Users(2),
            duration: Duration::from_secs(3),
            requests: 2,
            first: 0,
            in_flight_max: 10,
            ramp: Duration::ZERO,
            seed: 1,
        };
        let block = in_time(kind, generator.run(&target, &plan, &mut |_| true)).await;
        assert_eq!(block.requests.len(), 2, "{kind}");
        let expected = if failure == "timeout" { RequestEnd::TimedOut } else { RequestEnd::Failed };
        for request in &block.requests {
            assert_eq!((request.end, request.failure), (expected, Some(failure)), "{kind}");
        }
        fake.closed(0).await;
        in_time(kind, alone.stop()).await;
    }
}

#[tokio::test]
async fn a_probe_ends() {
    for (kind, script, failure) in servers() {
        let fake = FakeProvider::answering(move |_| script.clone()).await;
        let (config, feed) = (config_of(&fake), RowFeed::new());
        let (upstream, workload) = (config.model("m").unwrap().upstreams[0].clone(), config.workloads["1k"].clone());
        let alone = LocalGateway::start(config, false, Arc::clone(&feed) as _).await.unwrap();
        let client = alone.load_client(feed);
        let prober = Prober::new(client, Path::new("no.db").into(), ProbeCaps::of_call(None, None));
        let result = in_time(kind, prober.probe("m", &upstream, &workload, 1, None)).await;
        assert_eq!((result.outcome, result.why.as_deref()), (ProbeOutcome::Failed, Some(failure)), "{kind}");
        assert_eq!(fake.requests().len(), 1, "after a failed ping nothing more is sent");
        in_time(kind, alone.stop()).await;
    }
}
