//! Sends one probe: a `ping` that opens the connection, and then the measured request. Not for when: see `schedule`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use http::HeaderMap;
use http::header::HeaderValue;
use serde::Serialize;

use super::caps::{DayCaps, ProbeEstimate};
use super::targets::spent_today;
use crate::bench::LoadClient;
use crate::bench::measured::MeasuredRequest;
use crate::bench::prompt::PromptMaker;
use crate::bench::workload::{PING, Workload};
use crate::clock::{Instant, wall_micros};
use crate::config::{ProbeWorkload, UpstreamConfig};
use crate::history::{RaceSource, RequestOrigin};
use crate::metrics::ProbeOutcome;

/// Sends probes, one after the other, through one gateway.
pub struct Prober {
    client: LoadClient,
    /// The database file.
    path: PathBuf,
    caps: DayCaps,
    /// Of each workload; they learn how long a token is at each upstream.
    prompts: Mutex<BTreeMap<(String, u32, u32), Arc<PromptMaker>>>,
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
    /// `path`: the database file.
    pub fn new(client: LoadClient, path: PathBuf) -> Prober {
        Prober { client, path, caps: DayCaps::default(), prompts: Mutex::default(), measured: Mutex::default() }
    }

    /// What a probe of this workload costs there, with its ping.
    pub fn estimate(workload: &ProbeWorkload, upstream: &UpstreamConfig) -> ProbeEstimate {
        ProbeEstimate::of(workload, (PING.1, PING.2), upstream)
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
        let path = self.path.clone();
        let reading = self.client.gateway().shutdown().run_blocking(move || spent_today(&path, now_us));
        let spent = reading.await.map_err(anyhow::Error::from).flatten().map_err(|error| {
            tracing::warn!(%error, "the history of probes cannot be read");
            "the history cannot be read"
        })?;
        self.caps.configure(settings, now_us);
        self.caps.recall(spent, now_us);
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
        let today = self.caps.of_day(now_us);
        let estimate = Prober::estimate(workload, upstream);
        let (result, cost) = match looked.and_then(|()| today.reserve(estimate)) {
            Err(why) => (ProbeResult::new(model, &name, workload, ProbeOutcome::Skipped, Some(why.to_owned())), 0.0),
            Ok(reservation) => {
                let sent = self.send(model, &name, workload, number, scheduled).await;
                let usd: Option<f64> = sent.iter().map(|one| (!one.unpriced).then_some(one.cost_usd.1)).sum();
                let usd = usd.or(estimate.usd);
                let counted =
                    |one: &MeasuredRequest| (one.input_tokens.unwrap_or(0) + one.output_tokens.unwrap_or(0)) as f64;
                reservation.settle(usd.unwrap_or(0.0), sent.iter().map(counted).sum());
                (self.result(model, &name, workload, &sent, usd), usd.unwrap_or(0.0))
            }
        };
        self.client.gateway().recorder().metrics().probe(result.outcome, cost);
        result
    }

    /// The ping and, if it was answered, the measured requests.
    async fn send(
        &self,
        model: &str,
        upstream: &str,
        workload: &ProbeWorkload,
        number: u64,
        scheduled: Option<Instant>,
    ) -> Vec<MeasuredRequest> {
        let ping = self.prompts(PING.0, PING.1, PING.2);
        let (pinged, ping_bytes) = self.exchange(model, upstream, &ping, number, 0, None).await;
        let is_answered = pinged.is_answered();
        let mut sent = vec![pinged];
        if is_answered {
            let prompts = self.prompts(&workload.name, workload.input_tokens, workload.output_tokens);
            let is_first = self
                .measured
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert((workload.name.clone(), upstream.to_owned()));
            if let Some(tokens) = sent[0].input_tokens.filter(|_| is_first) {
                // So that even the first prompt has about its length; its own count replaces this.
                prompts.counted(upstream, ping_bytes, tokens);
            }
            let lanes = (0..u64::from(workload.at_once))
                .map(|lane| self.exchange(model, upstream, &prompts, number, lane, scheduled));
            sent.extend(join_all(lanes).await.into_iter().map(|(measured, _)| measured));
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
        let failed = sent.iter().find(|one| !one.is_answered());
        let outcome = match failed {
            // The gateway sends nothing to an upstream that cools down or is off.
            Some(failed) if failed.attempts == 0 && sent.len() == 1 => ProbeOutcome::Skipped,
            Some(_) => ProbeOutcome::Failed,
            None => ProbeOutcome::Answered,
        };
        let measured = sent.get(1).cloned().unwrap_or_default();
        let ms = |us: Option<i64>| us.map(|us| us as f64 / 1e3);
        ProbeResult {
            ttft_ms: ms(measured.ttft_us),
            tok_s: measured.tpot_us.map(|tpot_us| 1e6 / tpot_us),
            end_to_end_ms: ms(measured.e2e_us),
            input_tokens: measured.input_tokens,
            output_tokens: measured.output_tokens,
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

    /// Sends one request and waits for its rows; also the bytes of its prompt.
    async fn exchange(
        &self,
        model: &str,
        upstream: &str,
        prompts: &PromptMaker,
        number: u64,
        lane: u64,
        scheduled: Option<Instant>,
    ) -> (MeasuredRequest, usize) {
        let prompt = prompts.make(number, salt(upstream, lane), upstream);
        let bytes = prompt.bytes;
        let lost = |why| (MeasuredRequest { failure: Some(why), unpriced: true, ..MeasuredRequest::default() }, bytes);
        let Ok(upstreams) = HeaderValue::try_from(upstream) else { return lost("its name cannot be in a header") };
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
        let Some(race_id) = self.client.ask(model, prompt.members, headers, origin).await else {
            return lost("the gateway refused it");
        };
        let Some(measured) = self.client.measured(&race_id).await else { return lost("no row") };
        if let Some(tokens) = measured.input_tokens {
            prompts.counted(upstream, bytes, tokens);
        }
        (measured, bytes)
    }

    fn prompts(&self, name: &str, input_tokens: u32, output_tokens: u32) -> Arc<PromptMaker> {
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), input_tokens, output_tokens);
        let make =
            || Arc::new(PromptMaker::new(Workload::new(name, input_tokens, output_tokens), 0.0, fastrand::u64(..)));
        Arc::clone(prompts.entry(key).or_insert_with(make))
    }
}

fn named<S: serde::Serializer>(outcome: &ProbeOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}

/// Upstreams get the same words after different salts: several names may lead to one machine park, and its cache.
fn salt(upstream: &str, lane: u64) -> u64 {
    upstream.bytes().fold(lane, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) & 0xffff_ffff
}
