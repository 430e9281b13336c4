//! The figures of one stage: one target under one load, and what to know when reading them. Definitions: `docs/measurement.md`.
//!
//! The window is on issue time: requests sent from the end of the warm-up to the last arrival. Those in flight then are
//! awaited and count for latency, so slow ones are not cut off.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::block::{Arrivals, BlockResult, BlockStop, Load};
use super::measured::{LoadSlo, MeasuredRequest, RequestEnd, SloTarget};
use super::prompt::{AGENT, TOKENS_MAX, Workload};
use super::statistics::{self, IntervalEstimate};
use super::trust::{self, ClientLoad, Evidence};
use photofinish_facts::estimate::cost::{Cost, CostSum};
use photofinish_facts::estimate::interval::{InsufficientSample, insufficient_for_p99};
use photofinish_facts::estimate::speed::SHORT_ANSWER;

/// One block without its warm-up.
struct Window<'b> {
    /// Those that were sent in it.
    requests: &'b [MeasuredRequest],
    /// Those of the warm-up too: they may still run when the window begins.
    all: &'b [MeasuredRequest],
    from_us: i64,
    until_us: i64,
    warm_up: usize,
}

/// The figures of the blocks of one stage.
pub fn figures(target: &str, blocks: &[BlockResult], question: &StageQuestion<'_>) -> StageFigures {
    let windows: Vec<Window<'_>> = blocks.iter().map(|block| window(block, question)).collect();
    let all: Vec<&MeasuredRequest> = windows.iter().flat_map(|window| window.requests).collect();
    let answered: Vec<&MeasuredRequest> = all.iter().copied().filter(|request| request.is_answered()).collect();
    let seconds = windows.iter().map(|window| (window.until_us - window.from_us) as f64 / 1e6).sum::<f64>().max(1e-6);
    let load = blocks.first().map(|block| block.load);
    let open = matches!(load, Some(Load::Rate { .. }));
    let (ended_by, ended) = blocks.iter().find_map(|block| end(block.stop.as_ref()?, blocks)).unzip();
    let mut stage = StageFigures {
        target: target.to_owned(),
        users: load.and_then(|load| if let Load::Users(users) = load { Some(users) } else { None }),
        request_rate: load
            .and_then(|load| if let Load::Rate { per_second, .. } = load { Some(per_second) } else { None }),
        arrivals: load.and_then(|load| if let Load::Rate { arrivals, .. } = load { Some(arrivals) } else { None }),
        seconds,
        warm_up: windows.iter().map(|window| window.warm_up).sum(),
        ttft_ms: quantiles(answered.iter().filter_map(|request| Some(request.ttft_us? as f64 / 1e3))),
        tpot_ms: quantiles(answered.iter().filter_map(|request| Some(request.tpot_us? / 1e3))),
        tok_s: quantiles(answered.iter().filter_map(|request| Some(1e6 / request.tpot_us?))),
        e2e_ms: quantiles(answered.iter().filter_map(|request| Some(request.e2e_us? as f64 / 1e3))),
        cold_ttft_ms: of_cache(&answered, false).filter(|_| !question.made),
        cached_ttft_ms: of_cache(&answered, true).filter(|_| !question.made),
        answers_per_second: answered.len() as f64 / seconds,
        tok_s_all: tokens_of_all(&windows).map(|tokens| tokens / seconds),
        in_flight: windows.iter().map(in_flight_us).sum::<f64>() / 1e6 / seconds,
        client: blocks.iter().map(|block| block.client).fold(ClientLoad::default(), ClientLoad::worse),
        ended,
        ended_by,
        ..StageFigures::default()
    };
    if open {
        stage.client_ttft_ms =
            quantiles(answered.iter().filter_map(|request| Some(request.client_ttft_us()? as f64 / 1e3)));
        let mut lags: Vec<f64> =
            all.iter().filter(|request| request.has_dispatch()).map(|request| request.lag_us() as f64 / 1e3).collect();
        lags.sort_unstable_by(f64::total_cmp);
        stage.lag_p50_ms = statistics::quantile(&lags, 0.5);
        stage.lag_p99_ms = statistics::quantile(&lags, 0.99);
    }
    count(&mut stage, &all);
    judge(&mut stage, &all, question);
    cost(&mut stage, blocks);
    let usage = usage(&all);
    stage.input_tokens = usage.map(|usage| usage.input_mean);
    stage.cached_share = usage.map(|usage| usage.cached_share);
    stage.notes = notes(&stage, &all, question);
    let evidence = Evidence {
        client: stage.client,
        lag_us: stage.lag_p99_ms.map(|ms| ms * 1e3),
        ttft_us: stage.ttft_ms.map(|ttft| ttft.p50.value * 1e3),
        calibration_us: question.calibration_us,
    };
    stage.doubts = trust::doubts(&evidence);
    stage.client_error_ms = Some(evidence.error_us() / 1e3);
    stage.attainment_within = question.slo.and_then(|slo| attainment_within(&slo, &all, evidence.error_us()));
    stage
}

/// A prompt of which more than this share was in the server's cache counts as cached.
const CACHED_SHARE: f64 = 0.5;

/// TTFT of the answers whose prompt was in the cache, or of the others.
fn of_cache(answered: &[&MeasuredRequest], cached: bool) -> Option<Quantiles> {
    let is_cached = |request: &MeasuredRequest| {
        let share = request.cached_input_tokens.unwrap_or(0) as f64 / request.input_tokens?.max(1) as f64;
        Some(share > CACHED_SHARE)
    };
    let those = answered.iter().filter(|request| is_cached(request) == Some(cached));
    quantiles(those.filter_map(|request| Some(request.ttft_us? as f64 / 1e3)))
}

/// What the server counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CountedInput {
    /// Tokens of a prompt.
    input_mean: f64,
    cached_share: f64,
}

/// The input of the answers; none if the server counts none.
fn usage(all: &[&MeasuredRequest]) -> Option<CountedInput> {
    let answered = all.iter().filter(|request| request.is_answered());
    let counted: Vec<(f64, f64)> = answered
        .filter_map(|request| Some((request.input_tokens? as f64, request.cached_input_tokens.unwrap_or(0) as f64)))
        .collect();
    let input: f64 = counted.iter().map(|(input, _)| input).sum();
    let cached: f64 = counted.iter().map(|(_, cached)| cached).sum();
    let count = counted.len() as f64;
    (count > 0.0).then(|| CountedInput { input_mean: input / count, cached_share: cached / input.max(1.0) })
}

/// The requests of a block that count: those after the warm-up.
pub fn measured_in<'b>(block: &'b BlockResult, question: &StageQuestion<'_>) -> &'b [MeasuredRequest] {
    window(block, question).requests
}

fn window<'b>(block: &'b BlockResult, question: &StageQuestion<'_>) -> Window<'b> {
    let requests = &block.requests;
    let warm_up = match question.warm_up {
        Some(given) => {
            let until = photofinish_base::clock::micros(given);
            requests.iter().take_while(|request| request.scheduled_us < until).count()
        }
        None => {
            // A failure has no TTFT: as 0 it would make all answers before it a warm-up.
            let answered = || requests.iter().enumerate().filter(|(_, request)| request.is_answered());
            let ttft: Vec<f64> = answered().filter_map(|(_, request)| Some(request.ttft_us? as f64)).collect();
            match statistics::warm_up(&ttft) {
                0 => 0,
                cut => answered().nth(cut).map_or(0, |(at, _)| at),
            }
        }
    };
    let (all, requests) = (requests, &requests[warm_up.min(requests.len())..]);
    let from_us = if warm_up == 0 { 0 } else { requests.first().map_or(block.issued_us, |first| first.scheduled_us) };
    let ended = requests.iter().map(|request| request.ended_us).max().unwrap_or(block.issued_us);
    let mean = requests.iter().map(|request| request.ended_us - request.sent_us).sum::<i64>()
        / i64::try_from(requests.len()).unwrap_or(1).max(1);
    // In a window shorter than an answer nothing would have been delivered.
    let until_us = if block.issued_us - from_us < 2 * mean { ended } else { block.issued_us };
    Window { requests, all, from_us, until_us: until_us.max(from_us + 1), warm_up }
}

/// Values in the order of issue.
pub fn quantiles(values: impl Iterator<Item = f64>) -> Option<Quantiles> {
    let series: Vec<f64> = values.collect();
    let mut sorted = series.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let estimate = |p| statistics::quantile_estimate(&sorted, statistics::effective_for(&series, p), p);
    let plain = |p| statistics::quantile(&sorted, p);
    let p99_insufficient = insufficient_for_p99(series.len());
    Some(Quantiles {
        n: series.len(),
        mean: series.iter().sum::<f64>() / series.len() as f64,
        p5: plain(0.05)?,
        p25: plain(0.25)?,
        p50: estimate(0.5)?,
        p75: plain(0.75)?,
        p90: estimate(0.9)?,
        p95: estimate(0.95)?,
        p99: estimate(0.99).filter(|_| p99_insufficient.is_none()),
        p99_insufficient,
    })
}

/// Tokens that came within the windows. An answer's tokens are spread evenly from its first to its last.
fn tokens_of_all(windows: &[Window<'_>]) -> Option<f64> {
    let of = |window: &Window<'_>, request: &MeasuredRequest| {
        // No model answers with more: the server counts absurdly.
        let tokens = request.output_tokens.filter(|tokens| *tokens <= i64::from(TOKENS_MAX))? as f64;
        let first = request.sent_us + request.ttft_us?;
        let last = (request.sent_us + request.e2e_us?).max(first + 1);
        let within = (last.min(window.until_us) - first.max(window.from_us)).max(0);
        Some(tokens * within as f64 / (last - first) as f64)
    };
    let each = windows.iter().flat_map(|window| window.all.iter().map(move |request| (window, request)));
    let counted: Vec<f64> = each.filter_map(|(window, request)| of(window, request)).collect();
    (!counted.is_empty()).then(|| counted.iter().sum())
}

/// Microseconds of requests in flight within the window.
fn in_flight_us(window: &Window<'_>) -> f64 {
    let within = |request: &MeasuredRequest| {
        (request.ended_us.min(window.until_us) - request.sent_us.max(window.from_us)).max(0) as f64
    };
    window.all.iter().map(within).sum()
}

/// What a block's stop means for its stage, and in words. None: it ended as it should.
fn end(stop: &BlockStop, blocks: &[BlockResult]) -> Option<(StageEnd, String)> {
    Some(match stop {
        BlockStop::Spent => (StageEnd::Spent, "the cap of spending was reached".to_owned()),
        BlockStop::Uncovered => (StageEnd::Uncovered, "--max-cost did not cover so many requests at once".to_owned()),
        BlockStop::Failing(failure) => {
            let answered = blocks.iter().flat_map(|block| &block.requests).any(MeasuredRequest::is_answered);
            let what = if answered { "it answers no more" } else { "the first requests all failed" };
            (StageEnd::Failing, format!("{what}: {failure}"))
        }
        BlockStop::RateLimited => {
            let answered = blocks.iter().flat_map(|block| &block.requests).filter(|request| request.is_answered());
            let seconds = blocks.iter().map(|block| block.issued_us as f64 / 1e6).sum::<f64>().max(1e-3);
            (StageEnd::RateLimited, format!("rate limited at {:.2} answers/s", answered.count() as f64 / seconds))
        }
        BlockStop::Interrupted => (StageEnd::Interrupted, "it was interrupted".to_owned()),
        BlockStop::Decided => return None,
    })
}

fn count(stage: &mut StageFigures, all: &[&MeasuredRequest]) {
    for request in all {
        *stage.ends.entry(request.end).or_default() += 1;
        if let Some(failure) = request.failure {
            *stage.failures.entry(failure.to_owned()).or_default() += 1;
        }
    }
    let judged = all.iter().filter(|request| request.end != RequestEnd::CutShort);
    let failed: Vec<f64> = judged.map(|request| if request.is_answered() { 0.0 } else { 1.0 }).collect();
    stage.failed_share = (!failed.is_empty()).then(|| {
        let share = failed.iter().sum::<f64>() / failed.len() as f64;
        statistics::share_estimate(share, statistics::effective_samples(&failed))
    });
}

/// What each judged request missed.
fn missed(
    slo: &LoadSlo,
    requests: impl Iterator<Item = impl std::borrow::Borrow<MeasuredRequest>>,
) -> Vec<Vec<SloTarget>> {
    let judged = requests.filter(|request| request.borrow().end != RequestEnd::CutShort);
    judged.filter_map(|request| slo.missed(request.borrow())).collect()
}

fn share_good(missed: &[Vec<SloTarget>]) -> Option<IntervalEstimate> {
    let good: Vec<f64> = missed.iter().map(|missed| if missed.is_empty() { 1.0 } else { 0.0 }).collect();
    let share = good.iter().sum::<f64>() / good.len() as f64;
    (!good.is_empty()).then(|| statistics::share_estimate(share, statistics::effective_samples(&good)))
}

/// Attainment, had the client moved every time by its error.
fn attainment_within(slo: &LoadSlo, all: &[&MeasuredRequest], error_us: f64) -> Option<IntervalEstimate> {
    let moved = |by_us: f64| share_good(&missed(slo, all.iter().map(|request| request.moved(by_us))));
    let (slower, faster) = (moved(error_us)?, moved(-error_us)?);
    Some(IntervalEstimate { low: slower.low, high: faster.high, ..share_good(&missed(slo, all.iter().copied()))? })
}

fn judge(stage: &mut StageFigures, all: &[&MeasuredRequest], question: &StageQuestion<'_>) {
    let Some(slo) = &question.slo else { return };
    let judged = missed(slo, all.iter().copied());
    stage.attainment = share_good(&judged);
    if judged.is_empty() {
        return;
    }
    stage.goodput = Some(judged.iter().filter(|missed| missed.is_empty()).count() as f64 / stage.seconds);
    let mut missed: BTreeMap<SloTarget, usize> = BTreeMap::new();
    for target in judged.iter().flatten() {
        *missed.entry(*target).or_default() += 1;
    }
    stage.first_missed = missed.into_iter().max_by_key(|(_, count)| *count).map(|(target, _)| target);
}

/// Of every request, warm-up included: it was paid for.
fn cost(stage: &mut StageFigures, blocks: &[BlockResult]) {
    let sent = || blocks.iter().flat_map(|block| &block.requests);
    let mut sum = CostSum::default();
    sent().for_each(|request| sum.merge(&request.cost));
    stage.cost = sum.cost();
    let tokens: f64 = sent().filter_map(|request| request.output_tokens).map(|tokens| tokens as f64).sum();
    if tokens > 0.0 && stage.cost != Cost::ZERO {
        stage.per_million = stage.cost.each_of(tokens / 1e6);
    }
}

/// How a stage is judged.
#[derive(Clone, Debug)]
pub struct StageQuestion<'q> {
    pub workload: &'q Workload,
    /// Prompts are made and differ from their first token on.
    pub unique: bool,
    /// Prompts are made, so their lengths are the workload's.
    pub made: bool,
    /// None: it is found.
    pub warm_up: Option<Duration>,
    pub slo: Option<LoadSlo>,
    /// The client's own error, µs.
    pub calibration_us: Option<f64>,
}

/// What ended a stage before its plan. A trial of a search that was decided is not ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageEnd {
    /// The cap of spending.
    Spent,
    /// The cap of spending did not cover the requests in flight.
    Uncovered,
    /// The server answers nothing, or nothing any more.
    Failing,
    RateLimited,
    /// A signal.
    Interrupted,
}

/// Quantiles with 95 % intervals. `p99` is null where `n` cannot bear it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub n: usize,
    pub mean: f64,
    pub p5: f64,
    pub p25: f64,
    pub p50: IntervalEstimate,
    pub p75: f64,
    pub p90: IntervalEstimate,
    pub p95: IntervalEstimate,
    pub p99: Option<IntervalEstimate>,
    pub p99_insufficient: Option<InsufficientSample>,
}

/// The figures of a stage, as they are stored and printed. Times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    pub target: String,
    /// Closed loop.
    pub users: Option<usize>,
    /// Open loop: arrivals per second that were asked for.
    pub request_rate: Option<f64>,
    pub arrivals: Option<Arrivals>,
    /// Seconds of the window.
    pub seconds: f64,
    /// Requests that were left out as warm-up.
    pub warm_up: usize,
    /// Requests in the window, by how they ended.
    pub ends: BTreeMap<RequestEnd, usize>,
    pub failures: BTreeMap<String, usize>,
    /// Share of the requests that got no whole answer, without those that the end of the run cut short.
    pub failed_share: Option<IntervalEstimate>,
    /// From dispatch to the first token, as the rows have it.
    pub ttft_ms: Option<Quantiles>,
    /// From the scheduled time to the first token; open loop only.
    pub client_ttft_ms: Option<Quantiles>,
    /// TTFT where at most half of the prompt came from the server's cache, and where more did. Of given prompts and sessions only.
    pub cold_ttft_ms: Option<Quantiles>,
    pub cached_ttft_ms: Option<Quantiles>,
    pub tpot_ms: Option<Quantiles>,
    /// Of one user.
    pub tok_s: Option<Quantiles>,
    pub e2e_ms: Option<Quantiles>,
    /// Of all: tokens that came within the window, per second.
    pub tok_s_all: Option<f64>,
    /// Answers per second.
    pub answers_per_second: f64,
    /// Share of requests that met every target at once.
    pub attainment: Option<IntervalEstimate>,
    /// The same, as far as the client may have moved it. None: no targets, or an older run.
    pub attainment_within: Option<IntervalEstimate>,
    /// Attainment per second.
    pub goodput: Option<f64>,
    /// The target that was missed most.
    pub first_missed: Option<SloTarget>,
    #[serde(flatten)]
    pub cost: Cost,
    /// For a million output tokens.
    pub per_million: Cost,
    pub in_flight: f64,
    /// How late requests left; open loop only.
    pub lag_p50_ms: Option<f64>,
    pub lag_p99_ms: Option<f64>,
    pub input_tokens: Option<f64>,
    pub cached_share: Option<f64>,
    pub client: ClientLoad,
    /// How far the client may have moved the time of a request. None: an older run.
    pub client_error_ms: Option<f64>,
    /// What to know when reading the figures.
    pub notes: Vec<String>,
    /// Why they are not trusted.
    pub doubts: Vec<String>,
    /// Why it ended early, in words.
    pub ended: Option<String>,
    pub ended_by: Option<StageEnd>,
}

impl StageFigures {
    pub fn is_trusted(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Whether it may be a point of a curve: trusted, and not ended by the server's limits.
    pub fn counts(&self) -> bool {
        self.why_not().is_none()
    }

    pub fn count(&self, end: RequestEnd) -> usize {
        self.ends.get(&end).copied().unwrap_or(0)
    }

    pub fn requests(&self) -> usize {
        self.ends.values().sum()
    }

    /// Requests of the window that got no whole answer.
    pub fn failed(&self) -> usize {
        self.requests() - self.count(RequestEnd::Answered) - self.count(RequestEnd::CutShort)
    }

    pub fn is_open_loop(&self) -> bool {
        self.request_rate.is_some()
    }

    /// None: it had no block.
    pub fn load(&self) -> Option<Load> {
        let rate =
            self.request_rate.map(|per_second| Load::Rate { per_second, arrivals: self.arrivals.unwrap_or_default() });
        self.users.map(Load::Users).or(rate)
    }

    /// Such as `a/m, 10 users`.
    pub fn name(&self) -> String {
        self.load().map_or_else(|| self.target.clone(), |load| format!("{}, {load}", self.target))
    }

    /// Why its figures count for nothing; none if they count.
    pub fn why_not(&self) -> Option<String> {
        let doubts = (!self.is_trusted()).then(|| format!("not trusted: {}", self.doubts.join("; ")));
        let unanswered = || self.ttft_ms.is_none().then(|| "nothing was answered".to_owned());
        doubts.or_else(|| self.ended.clone()).or_else(unanswered)
    }
}

/// Share of short answers, and of cached input, above which a note is made.
const SHORT_NOTE: f64 = 0.05;
const CACHED_NOTE: f64 = 0.01;
/// Share of answers that came whole, or on a connection of their own, above which a note is made.
const MOST: f64 = 0.5;
/// How far the mean input may be off.
const INPUT_OFF: f64 = 0.02;
/// Little's law holds within this.
const LITTLE: f64 = 0.02;

/// One sentence each.
pub fn notes(stage: &StageFigures, all: &[&MeasuredRequest], question: &StageQuestion<'_>) -> Vec<String> {
    let answered: Vec<&MeasuredRequest> = all.iter().copied().filter(|request| request.is_answered()).collect();
    let mut notes: Vec<String> = failures(stage).into_iter().collect();
    let said = all.iter().find_map(|request| request.said_too_long());
    notes.extend(said.map(|said| format!("the prompt is too long, in the server's words: {said}")));
    if answered.is_empty() {
        return notes;
    }
    notes.extend(of_answers(stage, &answered, question));
    notes.extend(of_usage(stage, question));
    notes.extend(little(stage, all));
    notes
}

/// The most frequent first.
fn failures(stage: &StageFigures) -> Option<String> {
    let mut failures: Vec<(&String, &usize)> = stage.failures.iter().collect();
    failures.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let each: Vec<String> = failures.iter().map(|(name, count)| format!("{count} {name}")).collect();
    (!each.is_empty()).then(|| format!("failed: {}", each.join(", ")))
}

fn of_answers(stage: &StageFigures, answered: &[&MeasuredRequest], question: &StageQuestion<'_>) -> Vec<String> {
    let n = answered.len();
    let count = |of: &dyn Fn(&MeasuredRequest) -> bool| answered.iter().filter(|request| of(request)).count();
    let wanted = question.workload.output_tokens;
    let mut notes = Vec::new();
    let short = count(&|request| {
        request.output_tokens.is_some_and(|tokens| (tokens as f64) < SHORT_ANSWER * f64::from(wanted))
    });
    if question.made && short as f64 > SHORT_NOTE * n as f64 {
        notes.push(format!("{short} of {n} answers are shorter than 80 % of {wanted}"));
    }
    let absurd = count(&|request| request.output_tokens.is_some_and(|tokens| tokens > i64::from(TOKENS_MAX)));
    if absurd > 0 {
        notes.push(format!(
            "the server counts more than {TOKENS_MAX} tokens in {absurd} of {n} answers: they are in no rate"
        ));
    }
    let whole = count(&|request| {
        request.output_tokens.is_some_and(|tokens| tokens > 1)
            && request.ttft_us.is_some()
            && request.ttft_us == request.e2e_us
    });
    if whole as f64 > MOST * n as f64 {
        notes.push(format!(
            "{whole} of {n} answers came at once, not as a stream: their TTFT is that of the whole answer"
        ));
    }
    // Each user opens one connection; an open loop as many as are in flight.
    let opened = stage.users.unwrap_or(stage.in_flight.ceil() as usize);
    let fresh = count(&|request| request.conn_reused == Some(false));
    if fresh > opened && fresh as f64 > MOST * n as f64 {
        notes.push(format!("{fresh} of {n} answers needed a new connection, whose handshake is in their TTFT"));
    }
    notes
}

fn of_usage(stage: &StageFigures, question: &StageQuestion<'_>) -> Vec<String> {
    let Some((mean, share)) = stage.input_tokens.zip(stage.cached_share) else {
        return vec!["the server reports no usage that can be read: TPOT, tok/s and cost are unknown".to_owned()];
    };
    let mut notes = Vec::new();
    let wanted = f64::from(question.workload.input_tokens);
    let is_agent = !question.made && question.workload.name == AGENT.0;
    if (question.made || is_agent) && (mean / wanted - 1.0).abs() > INPUT_OFF {
        let why = if is_agent { ": a stage sees the sessions that fit into its --duration" } else { "" };
        notes.push(format!("prompts have {mean:.0} tokens in the mean, not {wanted:.0}{why}"));
    }
    if question.unique && share > CACHED_NOTE {
        notes.push(format!("{:.0} % of the input was cached though no two prompts begin alike", share * 100.0));
    }
    if !question.unique && share > CACHED_NOTE {
        notes.push(format!("{:.0} % of the input came from the server's prefix cache", share * 100.0));
    }
    if let Some((cold, cached)) = stage.cold_ttft_ms.zip(stage.cached_ttft_ms) {
        notes.push(format!(
            "TTFT p50 is {:.0} ms where more than half of the prompt was cached (n {}), {:.0} ms elsewhere (n {})",
            cached.p50.value, cached.n, cold.p50.value, cold.n
        ));
    }
    notes
}

fn little(stage: &StageFigures, all: &[&MeasuredRequest]) -> Option<String> {
    let took =
        all.iter().map(|request| (request.ended_us - request.sent_us) as f64).sum::<f64>() / all.len() as f64 / 1e6;
    let little = all.len() as f64 / stage.seconds * took;
    // The two ends of a window count requests in part.
    let allowed = LITTLE + 2.0 * took / stage.seconds;
    (stage.seconds > 20.0 * took && (little / stage.in_flight - 1.0).abs() > allowed)
        .then(|| format!("Little's law does not hold: {:.2} in flight, {little:.2} by rate and time", stage.in_flight))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod notes_tests {
    use super::super::measured::RequestEnd;
    use super::super::prompt::Workload;
    use super::super::trust::ClientLoad;
    use super::super::{BlockResult, Load};
    use super::*;

    fn answer(at: i64) -> MeasuredRequest {
        MeasuredRequest {
            scheduled_us: at * 100_000,
            sent_us: at * 100_000,
            ended_us: at * 100_000 + 90_000,
            end: RequestEnd::Answered,
            ttft_us: Some(20_000),
            e2e_us: Some(90_000),
            tpot_us: Some(10_000.0),
            input_tokens: Some(40),
            output_tokens: Some(8),
            conn_reused: Some(true),
            ..MeasuredRequest::default()
        }
    }

    fn figures(requests: Vec<MeasuredRequest>) -> StageFigures {
        let workload = Workload::new("w", 40, 8);
        let question = StageQuestion {
            workload: &workload,
            unique: true,
            made: true,
            warm_up: None,
            slo: None,
            calibration_us: None,
        };
        let issued_us = requests.last().unwrap().sent_us;
        let load = Load::Users(1);
        let block = BlockResult { load, requests, issued_us, stop: None, client: ClientLoad::default() };
        super::figures("a/m", &[block], &question)
    }

    fn with(n: i64, change: impl Fn(MeasuredRequest) -> MeasuredRequest) -> StageFigures {
        figures((0..n).map(|at| change(answer(at))).collect())
    }

    #[test]
    fn a_plain_server_needs_no_note() {
        assert_eq!(with(40, |request| request).notes, Vec::<String>::new());
    }

    #[test]
    fn odd_servers_are_told() {
        let (twice, huge) = (i64::MAX / 3, 1_000_000_000_000);
        for (stage, said) in [
            (
                with(40, |of| MeasuredRequest { e2e_us: of.ttft_us, ..of }),
                "40 of 40 answers came at once, not as a stream",
            ),
            (
                with(40, |of| MeasuredRequest { conn_reused: Some(false), ..of }),
                "40 of 40 answers needed a new connection",
            ),
            (
                with(40, |of| MeasuredRequest { output_tokens: Some(2), ..of }),
                "40 of 40 answers are shorter than 80 % of 8",
            ),
            (
                with(40, |of| MeasuredRequest { output_tokens: Some(huge), ..of }),
                "the server counts more than 2000000 tokens in 40 of 40",
            ),
            (
                with(40, |of| MeasuredRequest { input_tokens: Some(0), ..of }),
                "prompts have 0 tokens in the mean, not 40",
            ),
            (with(40, |of| MeasuredRequest { input_tokens: Some(twice), ..of }), "tokens in the mean, not 40"),
            (with(40, |of| MeasuredRequest { input_tokens: None, ..of }), "the server reports no usage"),
            (
                with(40, |of| MeasuredRequest { cached_input_tokens: Some(20), ..of }),
                "50 % of the input was cached though no two prompts begin alike",
            ),
        ] {
            assert!(stage.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", stage.notes);
        }
        let absurd = with(40, |of| MeasuredRequest { output_tokens: Some(huge), ..of });
        assert_eq!(absurd.tok_s_all, None, "{absurd:?}");
    }

    #[test]
    fn agents_whose_sessions_do_not_fit_and_prompts_that_are_too_long_are_told() {
        let (workload, said) = (Workload::new("agent", 27_000, 150), "at most 4096 tokens".to_owned());
        let (unique, made, warm_up, slo, calibration_us) = (false, false, None, None, None);
        let question = StageQuestion { workload: &workload, unique, made, warm_up, slo, calibration_us };
        let short = StageFigures { input_tokens: Some(5_100.0), cached_share: Some(0.0), ..StageFigures::default() };
        let failure = Some("context_length");
        let refused = MeasuredRequest { said: Some(said), failure, ..MeasuredRequest::default() };
        // Other words of a server may quote the prompt, and a run is stored.
        let other = MeasuredRequest { said: Some("planted".to_owned()), ..MeasuredRequest::default() };
        assert!(!notes(&short, &[&answer(0), &other], &question).concat().contains("planted"));
        let noted = notes(&short, &[&answer(0), &refused], &question);
        assert_eq!(noted[0], "the prompt is too long, in the server's words: at most 4096 tokens");
        assert!(noted[1].starts_with("prompts have 5100 tokens in the mean, not 27000: a stage sees"), "{noted:?}");
    }

    #[test]
    fn a_server_that_dies_leaves_its_answers_and_the_names_of_its_failures() {
        let died = |at: i64| {
            let failure = Some(if at % 10 == 0 { "reset" } else { "connect" });
            let (ttft_us, output_tokens, input_tokens) = (None, None, None);
            MeasuredRequest { end: RequestEnd::Failed, failure, ttft_us, output_tokens, input_tokens, ..answer(at) }
        };
        let stage = figures((0..20).map(answer).chain((20..60).map(died)).collect());
        assert_eq!((stage.count(RequestEnd::Answered), stage.failed()), (20, 40), "failures are no warm-up");
        assert!(stage.ttft_ms.is_some_and(|ttft| ttft.n == 20));
        assert_eq!(stage.notes[0], "failed: 36 connect, 4 reset");
    }
}
