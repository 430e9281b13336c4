//! Which upstreams are probed, with which prompts, and what the history knows of earlier probes. A probe is a `ping` that opens
//! the connection, and then the measured request. Not for when: see `schedule`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::HeaderMap;
use http::header::HeaderValue;
use serde::Serialize;

use super::caps::{DayCaps, ProbeCaps, ProbeEstimate, tokens_used};
use super::schedule::ProbeJob;
use crate::bench::measured::MeasuredRequest;
use crate::bench::prompt::{Prompt, PromptMaker, Workload};
use crate::bench::{LoadClient, patience};
use crate::verify::fingerprint;
use photofinish_base::clock::{DAY_US, Instant, micros, wall_micros};
use photofinish_base::failure::FailureKind;
use photofinish_config::{Config, FINGERPRINT, PING, ProbeSettings, ProbeWorkload, StoreAddress, UpstreamConfig};
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::fingerprint::{FirstTokens, changed_now};
use photofinish_facts::estimate::incident;
use photofinish_facts::estimate::interval::quantile;
use photofinish_facts::record::{
    AttemptOutcome, IncidentKind, IncidentRecord, IncidentState, RaceSource, RequestOrigin,
};
use photofinish_history::report::incidents::words;
use photofinish_history::store::{FIRST_TOKENS, Store, StoreReader, VerdictRow};
use photofinish_metrics::ProbeOutcome;

/// How long the whole answer to a ping of a probe may take: a server of one's own may have to load the model first.
const PING_FOR: Duration = Duration::from_secs(60);
/// Bytes of the answer to a fingerprint, which has one token.
const FIRST_MAX: usize = 64 << 10;

/// Sends probes, one after the other, through one gateway.
pub struct Prober {
    client: LoadClient,
    /// The database file.
    store: StoreAddress,
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
    #[serde(flatten)]
    pub cost: Cost,
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
            cost: Cost::ZERO,
        }
    }
}

impl Prober {
    /// `call`: caps in addition to those of the day.
    pub fn new(client: LoadClient, store: StoreAddress, call: ProbeCaps) -> Prober {
        let prompts = ProbePrompts::new(seed(&store));
        Prober { client, store, days: DayCaps::default(), call, prompts, measured: Mutex::default() }
    }

    /// Whether clients use the upstream now: a probe would take from them, and they from its figures.
    pub fn is_busy(&self, upstream: &UpstreamConfig) -> bool {
        self.client.gateway().learning().upstream(&upstream.name()).in_flight() > 0
    }

    /// Puts the caps of the configuration in force. Others may have spent of them, such as `photofinish probe` next to a gateway:
    /// the rows of the day are read before each probe.
    ///
    /// # Errors
    /// The database file cannot be read.
    async fn look_at_caps(&self, now_us: i64) -> Result<(), &'static str> {
        let live = self.client.gateway().live();
        let Some(settings) = &live.config.probes else { return Ok(()) };
        let (store, config) = (self.store.clone(), live.clone());
        let recorder = self.client.recorder().clone();
        let read = move || spent_today(&recorder.read_history(&store)?, &config.config, now_us);
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
        let result = match reserved {
            Err(why) => ProbeResult::new(model, &name, workload, ProbeOutcome::Skipped, Some(why.to_owned())),
            Ok(reservations) => {
                let sent = self.send(model, &name, workload, number, scheduled).await;
                let used = ProbeEstimate::used(&sent, workload, upstream);
                let usd = used.usd.unwrap_or(0.0);
                reservations.into_iter().for_each(|reservation| reservation.settle(usd, used.tokens));
                self.result(model, &name, workload, &sent)
            }
        };
        self.client.recorder().metrics().probe(result.outcome, &result.cost);
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
        if is_open && workload.name == FINGERPRINT {
            sent.extend(self.fingerprint(model, upstream, scheduled).await);
        } else if is_open {
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

    fn result(&self, model: &str, upstream: &str, workload: &ProbeWorkload, sent: &[MeasuredRequest]) -> ProbeResult {
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
        let mut cost = CostSum::default();
        sent.iter().for_each(|one| cost.merge(&one.cost));
        let count = |of: fn(&MeasuredRequest) -> Option<f64>| median(of).map(|tokens| tokens as i64);
        ProbeResult {
            requests: measured.len(),
            ttft_ms: median(|one| Some(one.ttft_us? as f64 / 1e3)),
            tok_s: median(|one| Some(1e6 / one.tpot_us?)),
            end_to_end_ms: median(|one| Some(one.e2e_us? as f64 / 1e3)),
            input_tokens: count(|one| Some(one.input_tokens? as f64)),
            output_tokens: count(|one| Some(one.output_tokens? as f64)),
            cost: cost.cost(),
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
        let prompt = make(prompts, number, upstream);
        let bytes = prompt.bytes;
        let lost = |why, attempts| {
            // Of attempts without a row nothing is known.
            let cost = CostSum::of((0..attempts).map(|_| Cost::default()));
            (MeasuredRequest { failure: Some(why), cost, attempts, ..MeasuredRequest::default() }, bytes)
        };
        let Some(headers) = headers_to(upstream) else { return lost("its name cannot be in a header", 0) };
        let origin = origin(&prompts.workload().name, scheduled);
        let Some(race_id) = self.client.ask(model, prompt.members, headers, origin, within).await.race_id else {
            return lost("the gateway refused it", 0);
        };
        let Some(measured) = self.client.measured(&race_id).await else { return lost("no row", 1) };
        if let Some(tokens) = measured.input_tokens {
            prompts.counted(upstream, bytes, tokens);
        }
        (measured, bytes)
    }
}

impl Prober {
    /// Asks for the first token of each prompt, keeps what came, and reports if the model behind the upstream changed.
    async fn fingerprint(&self, model: &str, upstream: &str, scheduled: Option<Instant>) -> Vec<MeasuredRequest> {
        let (mut sent, mut tokens, mut said, mut shows_shares) = (Vec::new(), FirstTokens::new(), 0, true);
        let past = self.past(upstream).await;
        let key = past.first().map_or_else(|| fastrand::u64(..), |day| day.key);
        for (place, prompt) in fingerprint::PROMPTS.iter().enumerate() {
            let Some(headers) = headers_to(upstream) else { break };
            let ask = |shows_shares: bool| {
                let (members, origin) = (fingerprint::members(prompt, shows_shares), origin(FINGERPRINT, scheduled));
                self.client.fetch(model, members, headers.clone(), origin, PING_FOR, FIRST_MAX)
            };
            let mut fetched = ask(shows_shares).await;
            if fetched.refused && shows_shares && said == 0 {
                // It may refuse log-probabilities.
                shows_shares = false;
                fetched = ask(false).await;
            }
            let measured = match &fetched.race_id {
                Some(race_id) => self.client.measured(race_id).await,
                None => None,
            };
            sent.extend(measured);
            let answer = serde_json::from_slice(&fetched.body).unwrap_or_default();
            said += usize::from(!fetched.refused && fingerprint::add(&mut tokens, key, place, &answer));
        }
        if said == fingerprint::PROMPTS.len() {
            self.compare(model, upstream, past, FingerprintDay { at: wall_micros(), key, tokens }).await;
        }
        sent
    }

    /// The days that were kept, oldest first; none where they cannot be read.
    async fn past(&self, upstream: &str) -> Vec<FingerprintDay> {
        let gateway = self.client.gateway();
        let (recorder, store, upstream) = (self.client.recorder().clone(), self.store.clone(), upstream.to_owned());
        let read = move || recorder.read_history(&store).ok()?.first_tokens(&upstream).ok();
        let rows = gateway.shutdown().run_blocking(read).await.ok().flatten().unwrap_or_default();
        let day = |(at, key, detail): (i64, String, String)| {
            Some(FingerprintDay { at, key: u64::from_str_radix(&key, 16).ok()?, tokens: fingerprint::read(&detail) })
        };
        rows.into_iter().filter_map(day).collect()
    }

    /// Keeps this day, and reports a change that it shows.
    async fn compare(&self, model: &str, upstream: &str, mut days: Vec<FingerprintDay>, today: FingerprintDay) {
        let (at, gateway, store) = (today.at, self.client.gateway(), self.store.clone());
        let row = VerdictRow {
            at,
            model: model.to_owned(),
            host: upstream.to_owned(),
            fact: FIRST_TOKENS.to_owned(),
            answer: "not said".to_owned(),
            reference: format!("{:x}", today.key),
            detail: fingerprint::written(&today.tokens),
            wrong: false,
        };
        let keep = move || {
            Store::open(&store)
                .map_err(|error| error.to_string())?
                .save_verdicts(&[row])
                .map_err(|error| error.to_string())
        };
        if let Ok(Err(error)) = gateway.shutdown().run_blocking(keep).await {
            return tracing::warn!(upstream, error, "the fingerprint of a day could not be kept");
        }
        days.push(today);
        let tokens: Vec<FirstTokens> = days.iter().map(|day| day.tokens.clone()).collect();
        let Some(since) = changed_now(&tokens).map(|place| days[place].at) else { return };
        let incident = IncidentRecord {
            incident_id: incident::id(at, IncidentKind::Changed, upstream),
            upstream: Some(upstream.to_owned()),
            kind: IncidentKind::Changed,
            state: IncidentState::Ended,
            began_at: since,
            ended_at: Some(at),
            last_at: at,
            updated_at: at,
            ..IncidentRecord::default()
        };
        tracing::warn!(upstream, "an incident: {}", words(&incident, at));
        self.client.recorder().metrics().incident(upstream, IncidentKind::Changed);
        self.client.recorder().incident(incident);
    }
}

/// What a host said first on one day.
struct FingerprintDay {
    at: i64,
    /// Of the hashes.
    key: u64,
    tokens: FirstTokens,
}

fn headers_to(upstream: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert("x-photofinish-upstreams", HeaderValue::try_from(upstream).ok()?);
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    headers.insert("x-photofinish-max-attempts", HeaderValue::from_static("1"));
    Some(headers)
}

fn origin(workload: &str, scheduled: Option<Instant>) -> RequestOrigin {
    RequestOrigin { source: RaceSource::Probe, run_id: None, workload: Some(workload.to_owned()), scheduled }
}

fn named<S: serde::Serializer>(outcome: &ProbeOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}

/// One maker for each workload; they learn how long a token is at each upstream.
pub(super) struct ProbePrompts {
    seed: u64,
    makers: Mutex<BTreeMap<(String, u32, u32), Arc<PromptMaker>>>,
}

impl ProbePrompts {
    /// `seed`: that of the schedule.
    pub fn new(seed: u64) -> ProbePrompts {
        ProbePrompts { seed, makers: Mutex::default() }
    }

    /// Of a workload.
    pub fn maker(&self, name: &str, input_tokens: u32, output_tokens: u32) -> Arc<PromptMaker> {
        let mut makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), input_tokens, output_tokens);
        let make = || Arc::new(PromptMaker::new(Workload::new(name, input_tokens, output_tokens), 0.0, self.seed));
        Arc::clone(makers.entry(key).or_insert_with(make))
    }
}

/// The prompt of this number for this upstream, behind a new salt.
pub(super) fn make(maker: &PromptMaker, number: u64, upstream: &str) -> Prompt {
    maker.make(number, u64::from(fastrand::u32(..)), upstream)
}

/// The last moment of each job that is over, by the rows. It blocks.
///
/// # Errors
/// The database file cannot be read. The text is for an operator.
pub fn last_moments(
    history: &StoreReader,
    settings: &ProbeSettings,
    now_us: i64,
) -> anyhow::Result<BTreeMap<ProbeJob, i64>> {
    let longest = settings.workloads.iter().map(|workload| workload.every).max().unwrap_or_default();
    let mut moments = BTreeMap::new();
    history.each_probe((now_us - 3 * micros(longest), None), |probe| {
        let (model, workload) = (probe.race.model.clone(), probe.race.workload.clone().unwrap_or_default());
        let every = settings.workloads.iter().find(|known| known.name == workload).map(|known| known.every);
        let (Some(attempt), Some(scheduled_us), Some(every)) = (probe.attempt(), probe.race.scheduled_us, every) else {
            return;
        };
        let again_us = if was_cut_off(attempt.row.outcome) { micros(every) } else { 0 };
        let moment_us = probe.race.started_at + scheduled_us - again_us;
        let last = moments.entry(ProbeJob { model, workload, upstream: probe.upstream() }).or_insert(moment_us);
        *last = moment_us.max(*last);
    })?;
    Ok(moments)
}

/// USD and tokens of the present day (UTC), by the rows: at most, and where a server reports no usage by what was asked for.
/// It blocks.
///
/// # Errors
/// The database file cannot be read. The text is for an operator.
pub(super) fn spent_today(history: &StoreReader, config: &Config, now_us: i64) -> anyhow::Result<(f64, f64)> {
    let (mut usd, mut tokens) = (0.0, 0.0);
    history.each_probe((now_us - now_us.rem_euclid(DAY_US), None), |probe| {
        let Some(attempt) = probe.attempt() else { return };
        let asked = (probe.race.input_tokens_estimate as f64, probe.race.max_tokens.unwrap_or(0) as f64);
        let at_most = || {
            let upstream = probed(config, &probe.race.model).find(|upstream| upstream.name() == probe.upstream())?;
            Some(upstream.price?.most_usd(asked.0, asked.1, false))
        };
        usd += attempt.cost.cost_usd_max.or_else(at_most).unwrap_or(0.0);
        tokens += tokens_used(probe.counted(), asked, attempt.row.failure);
    })?;
    Ok((usd, tokens))
}

/// By the end of its gateway. It measured nothing, so that only the slot before is over.
fn was_cut_off(outcome: AttemptOutcome) -> bool {
    matches!(outcome, AttemptOutcome::ClientGone | AttemptOutcome::Shutdown | AttemptOutcome::Shed)
}

/// What is measured: each workload at each upstream that is on.
pub fn jobs(config: &Config, settings: &ProbeSettings) -> Vec<(ProbeJob, Duration)> {
    let of_model = |model: &String, workload: &ProbeWorkload| {
        let job = |upstream: &UpstreamConfig| {
            let (model, workload) = (model.clone(), workload.name.clone());
            ProbeJob { model, workload, upstream: upstream.name() }
        };
        probed(config, model).map(|upstream| (job(upstream), workload.every)).collect::<Vec<_>>()
    };
    let pairs =
        settings.models.iter().flat_map(|model| settings.workloads.iter().map(move |workload| (model, workload)));
    pairs.flat_map(|(model, workload)| of_model(model, workload)).collect()
}

/// The upstreams of a model that are on.
pub fn probed<'c>(config: &'c Config, model: &str) -> impl Iterator<Item = &'c UpstreamConfig> {
    let upstreams = config.model(model).map(|model| model.upstreams.as_slice()).unwrap_or_default();
    upstreams.iter().filter(|upstream| upstream.unlisted.is_none() && config.provider_is_on(&upstream.provider))
}

/// Of this history: gateways with different ones probe at different moments.
pub fn seed(store: &StoreAddress) -> u64 {
    let mut hasher = DefaultHasher::new();
    store.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(prompts: &ProbePrompts, workload: &str, number: u64, upstream: &str) -> String {
        let prompt = make(&prompts.maker(workload, 100, 10), number, upstream);
        prompt.members["messages"][0]["content"].as_str().unwrap().to_owned()
    }

    #[test]
    fn upstreams_get_the_same_words_behind_other_salts_also_after_a_restart() {
        let (before, after) = (ProbePrompts::new(7), ProbePrompts::new(7));
        let texts = [
            text(&before, "1k", 3, "a/m"),
            text(&before, "1k", 3, "b/m"),
            text(&after, "1k", 3, "b/m"),
            text(&after, "ping", 3, "b/m"),
        ];
        let words: BTreeSet<&str> = texts.iter().map(|text| &text[18..300]).collect();
        assert_eq!(words.len(), 1, "{words:?}");
        let salts: BTreeSet<&str> = texts.iter().map(|text| &text[..18]).collect();
        assert_eq!(salts.len(), 4, "not even a probe that is sent again finds its prompt in a cache: {salts:?}");
        assert_ne!(text(&before, "1k", 4, "a/m")[18..300], texts[0][18..300], "each slot has its own words");
    }
}
