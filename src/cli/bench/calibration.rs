//! How well this machine measures: a short run against a simulated provider that knows when it sent each first token.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use photofinish_base::clock::micros_between;
use photofinish_config::config;
use photofinish_lab::bench::prompt::PromptMaker;
use photofinish_lab::bench::spend::Spend;
use photofinish_lab::bench::statistics;
use photofinish_lab::bench::workload::Workload;
use photofinish_lab::bench::{BlockPlan, Generator, Load, LoadClient, LoadTarget, RowFeed};
use photofinish_serve::app::LocalGateway;

const NAME: &str = "exact";
const PROVIDER: &str = "[providers.exact]\nsimulate = { ttft = \"50ms\", jitter = 0.0, tokens_per_second = 100.0, tokens = 10, seed = 1 }\n";
const USERS: usize = 8;
const FOR: Duration = Duration::from_millis(1_000);

/// How far the median TTFT is from what the simulated provider did, in µs. None where the calibration cannot run.
/// `requests`: of a stage; a short one has a short calibration.
pub async fn error_us(requests: usize) -> Option<f64> {
    let config = config::parse(PROVIDER, Path::new("calibration"), &|_| None).ok()?;
    let feed = RowFeed::new();
    let alone = LocalGateway::start(config, false, Arc::clone(&feed) as _).await.ok()?;
    let prompts = PromptMaker::new(Workload::new("calibration", 50, 10), 0.0, 1);
    let client = LoadClient::new(Arc::clone(alone.gateway()), feed);
    let generator = Generator::new(client, prompts, Spend::unlimited(), serde_json::Map::new(), String::new());
    let mut headers = HeaderMap::new();
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    let model = format!("{NAME}/m");
    let target = LoadTarget { name: model.clone(), model, headers, prices: Vec::new(), lane: 0 };
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
    let provider = alone.simulator(NAME).await;
    alone.stop().await;
    // The first requests open their connections.
    let answered = block.requests.iter().filter(|request| request.conn_reused == Some(true));
    let measured = answered.filter_map(|request| Some(request.ttft_us? as f64)).collect();
    let sent = provider?.ended().into_iter();
    let sent = sent.filter_map(|request| Some(micros_between(request.started, request.first_token?) as f64)).collect();
    median_error(measured, sent)
}

/// Of the measured times against those of the provider. Its own lateness, such as that of its timers, is in both.
fn median_error(measured: Vec<f64>, sent: Vec<f64>) -> Option<f64> {
    let [measured, sent] = [measured, sent].map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        statistics::quantile(&times, 0.5)
    });
    Some((measured? - sent?).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_s_lateness_is_not_the_client_s() {
        let sent = vec![50_900.0, 51_300.0, 53_800.0];
        let measured = |late: f64| sent.iter().rev().map(|time| time + late).collect::<Vec<_>>();
        assert_eq!(median_error(measured(250.0), sent.clone()), Some(250.0));
        assert_eq!(median_error(measured(4_000.0), sent.clone()), Some(4_000.0));
        // One late request is not the median.
        assert_eq!(median_error(vec![51_000.0, 51_400.0, 90_000.0], sent.clone()), Some(100.0));
        assert_eq!(median_error(Vec::new(), sent), None, "nothing was answered");
    }
}
