//! Sends one probe: a `ping` that opens the connection, and then the measured request. Not for when: see `schedule`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::HeaderMap;
use http::header::HeaderValue;
use serde::Serialize;

use super::caps::{DayCaps, ProbeCaps, ProbeEstimate};
use super::prompts::{self, ProbePrompts};
use super::targets::{seed, spent_today};
use crate::bench::measured::MeasuredRequest;
use crate::bench::prompt::PromptMaker;
use crate::bench::{LoadClient, patience};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_base::failure::FailureKind;
use photofinish_config::config::{PING, ProbeWorkload, UpstreamConfig};
use photofinish_history::estimate::interval::quantile;
use photofinish_history::metrics::ProbeOutcome;
use photofinish_history::record::{RaceSource, RequestOrigin};

/// Time for the whole answer to a ping: a server of one's own may have to load the model first.
const PING_FOR: Duration = Duration::from_secs(60);

/// Sends probes, one after the other, through one gateway.
pub struct Prober {
    client: LoadClient,
    /// The database file.
    path: PathBuf,
    days: DayCaps,
    call: ProbeCaps,
    prompts: ProbePrompts,
    /// Workloads and the upstreams that they were sent to.
    measured: Mutex<BTreeSet<(String, String)>>,
}

/// How a probe went.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeResult {
    pub model: String,
    pub upstream: String,
    pub workload: String,
    #[serde(serialize_with = "named")]
    pub outcome: ProbeOutcome,
    /// Why it was not answered.
    pub why: Option<String>,
    /// Measured requests that were sent, at the same time. The figures are medians of those that were answered.
    pub requests: usize,
    pub ttft_ms: Option<f64>,
    pub tok_s: Option<f64>,
    pub end_to_end_ms: Option<f64>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// Of all its requests, the ping included.
    pub cost_usd: Option<f64>,
}

impl ProbeResult {
    fn new(
        model: &str,
        upstream: &str,
        workload: &ProbeWorkload,
        outcome: ProbeOutcome,
        why: Option<String>,
    ) -> ProbeResult {
        ProbeResult {
            model: model.to_owned(),
            upstream: upstream.to_owned(),
            workload: workload.name.clone(),
            outcome,
            why,
            requests: 0,
            ttft_ms: None,
            tok_s: None,
            end_to_end_ms: None,
            input_tokens: None,
            output_tokens: None,
            cost_usd: None,
        }
    }
}

impl Prober {
    /// `path`: the database file. `call`: caps beside those of the day.
    pub fn new(client: LoadClient, path: PathBuf, call: ProbeCaps) -> Prober {
        let prompts = ProbePrompts::new(seed(&path));
        Prober { client, path, days: DayCaps::default(), call, prompts, measured: Mutex::default() }
    }

    /// Whether clients use the upstream now: a probe would take from them, and they from its figures.
    pub fn is_busy(&self, upstream: &UpstreamConfig) -> bool {
        self.client.gateway().learning().upstream(&upstream.name()).in_flight() > 0
    }

    /// Puts the caps of the configuration in force. Others may have spent of them, such as `photofinish probe` beside a gateway:
    /// the rows of the day are read before each probe.
    ///
    /// # Errors
    /// The database file cannot be read.
    async fn look_at_caps(&self, now_us: i64) -> Result<(), &'static str> {
        let live = self.client.gateway().live();
        let Some(settings) = &live.config.probes else { return Ok(()) };
        let (path, config) = (self.path.clone(), live.clone());
        let recorder = self.client.gateway().recorder().clone();
        let read = move || spent_today(&recorder.read_history(&path)?, &config.config, now_us);
        let reading = self.client.gateway().shutdown().run_blocking(read);
        let spent = reading.await.map_err(anyhow::Error::from).flatten().map_err(|error| {
            tracing::warn!(%error, "the history of probes cannot be read");
            "the history cannot be read"
        })?;
        self.days.configure(settings, now_us);
        self.days.recall(spent, now_us);
        Ok(())
    }

    /// Sends one probe and waits for its rows. `number` makes the words of its prompt: upstreams that are compared get the same.
    /// `scheduled`: when it was to leave.
    pub async fn probe(
        &self,
        model: &str,
        upstream: &UpstreamConfig,
        workload: &ProbeWorkload,
        number: u64,
        scheduled: Option<Instant>,
    ) -> ProbeResult {
        let (name, now_us) = (upstream.name(), wall_micros());
        let looked = self.look_at_caps(now_us).await;
        let today = self.days.of_day(now_us);
        let estimate = ProbeEstimate::of(workload, upstream);
        let reserved = looked.and_then(|()| Ok([today.reserve(estimate)?, self.call.reserve(estimate)?]));
        let (result, cost) = match reserved {
            Err(why) => (ProbeResult::new(model, &name, workload, ProbeOutcome::Skipped, Some(why.to_owned())), 0.0),
            Ok(reservations) => {
                let sent = self.send(model, &name, workload, number, scheduled).await;
                let used = ProbeEstimate::used(&sent, workload, upstream);
                let usd = used.usd.unwrap_or(0.0);
                reservations.into_iter().for_each(|reservation| reservation.settle(usd, used.tokens));
                (self.result(model, &name, workload, &sent, used.usd), usd)
            }
        };
        self.client.gateway().recorder().metrics().probe(result.outcome, cost);
        result
    }

    /// The ping and, if it opened the connection, the measured requests.
    async fn send(
        &self,
        model: &str,
        upstream: &str,
        workload: &ProbeWorkload,
        number: u64,
        scheduled: Option<Instant>,
    ) -> Vec<MeasuredRequest> {
        let ping = self.prompts.maker(PING.0, PING.1, PING.2);
        let (pinged, ping_bytes) = self.exchange(model, upstream, &ping, number, None, PING_FOR).await;
        // A model that thinks in secret may use up the 16 tokens of the ping before its first one.
        let is_open = pinged.is_answered() || pinged.failure == Some(FailureKind::Empty.as_str());
        let mut sent = vec![pinged];
        if is_open {
            let prompts = self.prompts.maker(&workload.name, workload.input_tokens, workload.output_tokens);
            let is_first = self
                .measured
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert((workload.name.clone(), upstream.to_owned()));
            if let Some(tokens) = sent[0].input_tokens.filter(|_| is_first) {
                // So that even the first prompt has about its length; its own count replaces this.
                prompts.counted(upstream, ping_bytes, tokens);
            }
            let within = patience(f64::from(workload.input_tokens), f64::from(workload.output_tokens));
            let exchange = |_| self.exchange(model, upstream, &prompts, number, scheduled, within);
            let at_once = (0..workload.at_once).map(exchange);
            sent.extend(join_all(at_once).await.into_iter().map(|(measured, _)| measured));
        }
        sent
    }

    fn result(
        &self,
        model: &str,
        upstream: &str,
        workload: &ProbeWorkload,
        sent: &[MeasuredRequest],
        usd: Option<f64>,
    ) -> ProbeResult {
        let measured = sent.get(1..).unwrap_or_default();
        // Without measured requests the ping failed.
        let failed = if measured.is_empty() { sent.first() } else { measured.iter().find(|one| !one.is_answered()) };
        let outcome = match failed {
            // The gateway sends nothing to an upstream that cools down or is off.
            Some(failed) if failed.attempts == 0 && measured.is_empty() => ProbeOutcome::Skipped,
            Some(_) => ProbeOutcome::Failed,
            None => ProbeOutcome::Answered,
        };
        let median = |of: fn(&MeasuredRequest) -> Option<f64>| {
            let mut values: Vec<f64> = measured.iter().filter(|one| one.is_answered()).filter_map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            quantile(&values, 0.5)
        };
        let count = |of: fn(&MeasuredRequest) -> Option<f64>| median(of).map(|tokens| tokens as i64);
        ProbeResult {
            requests: measured.len(),
            ttft_ms: median(|one| Some(one.ttft_us? as f64 / 1e3)),
            tok_s: median(|one| Some(1e6 / one.tpot_us?)),
            end_to_end_ms: median(|one| Some(one.e2e_us? as f64 / 1e3)),
            input_tokens: count(|one| Some(one.input_tokens? as f64)),
            output_tokens: count(|one| Some(one.output_tokens? as f64)),
            cost_usd: usd,
            ..ProbeResult::new(
                model,
                upstream,
                workload,
                outcome,
                failed.map(|failed| failed.failure.unwrap_or("failed").to_owned()),
            )
        }
    }

    /// Sends one request, whose answer ends `within` this time, and waits for its rows; also the bytes of its prompt.
    async fn exchange(
        &self,
        model: &str,
        upstream: &str,
        prompts: &PromptMaker,
        number: u64,
        scheduled: Option<Instant>,
        within: Duration,
    ) -> (MeasuredRequest, usize) {
        let prompt = prompts::make(prompts, number, upstream);
        let bytes = prompt.bytes;
        let lost = |why, attempts| {
            let measured =
                MeasuredRequest { failure: Some(why), unpriced: true, attempts, ..MeasuredRequest::default() };
            (measured, bytes)
        };
        let Ok(upstreams) = HeaderValue::try_from(upstream) else { return lost("its name cannot be in a header", 0) };
        let mut headers = HeaderMap::new();
        headers.insert("x-photofinish-upstreams", upstreams);
        headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
        headers.insert("x-photofinish-max-attempts", HeaderValue::from_static("1"));
        let origin = RequestOrigin {
            source: RaceSource::Probe,
            run_id: None,
            workload: Some(prompts.workload().name.clone()),
            scheduled,
        };
        let Some(race_id) = self.client.ask(model, prompt.members, headers, origin, within).await else {
            return lost("the gateway refused it", 0);
        };
        let Some(measured) = self.client.measured(&race_id).await else { return lost("no row", 1) };
        if let Some(tokens) = measured.input_tokens {
            prompts.counted(upstream, bytes, tokens);
        }
        (measured, bytes)
    }
}

fn named<S: serde::Serializer>(outcome: &ProbeOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}
