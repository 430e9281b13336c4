//! How well this machine measures: a short run against a simulated provider whose TTFT is known.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use crate::app::LocalGateway;
use crate::bench::prompt::PromptMaker;
use crate::bench::spend::Spend;
use crate::bench::statistics;
use crate::bench::workload::Workload;
use crate::bench::{BlockPlan, Generator, Load, LoadClient, LoadTarget, RowFeed};
use crate::config;

/// The TTFT that the simulated provider is told, in µs.
const EXACT_US: f64 = 50_000.0;
const PROVIDER: &str = "[providers.exact]\nsimulate = { ttft = \"50ms\", jitter = 0.0, tokens_per_second = 100.0, tokens = 10, seed = 1 }\n";
const USERS: usize = 8;
const FOR: Duration = Duration::from_millis(1_000);

/// The 99th percentile of the error in TTFT, in µs: the client's and the simulated provider's together. None where the
/// calibration cannot run. `requests`: of a stage; a short one has a short calibration.
pub async fn error_us(requests: usize) -> Option<f64> {
    let config = config::parse(PROVIDER, Path::new("calibration"), &|_| None).ok()?;
    let feed = RowFeed::new();
    let alone = LocalGateway::start(config, false, Arc::clone(&feed) as _).await.ok()?;
    let prompts = PromptMaker::new(Workload::new("calibration", 50, 10), 0.0, 1);
    let client = LoadClient::new(Arc::clone(alone.gateway()), feed);
    let generator = Generator::new(client, prompts, Spend::unlimited(), serde_json::Map::new(), String::new());
    let mut headers = HeaderMap::new();
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    let target =
        LoadTarget { name: "exact/m".to_owned(), model: "exact/m".to_owned(), headers, prices: Vec::new(), lane: 0 };
    let plan = BlockPlan {
        load: Load::Users(USERS),
        duration: FOR,
        requests: requests.max(2 * USERS),
        first: 0,
        in_flight_max: usize::MAX,
        ramp: Duration::from_millis(100),
        seed: 1,
    };
    let block = generator.run(&target, &plan, &mut |_| true).await;
    alone.stop().await;
    // The first requests open their connections.
    let answered = block.requests.iter().filter(|request| request.conn_reused == Some(true));
    let mut errors: Vec<f64> =
        answered.filter_map(|request| Some((request.ttft_us? as f64 - EXACT_US).abs())).collect();
    errors.sort_unstable_by(f64::total_cmp);
    statistics::quantile(&errors, 0.99)
}
