//! The figures of one stage: one target under one load. Definitions: `docs/measurement.md`.
//!
//! The window is on issue time: requests sent from the end of the warm-up to the last arrival. Those in flight then are
//! awaited and count for latency, so slow ones are not cut off.

use std::collections::BTreeMap;

use super::block::{BlockResult, BlockStop, Load};
use super::figures::{Quantiles, StageEnd, StageFigures, StageQuestion};
use super::measured::{MeasuredRequest, RequestEnd};
use super::notes;
use super::slo::SloTarget;
use super::statistics::{self, IntervalEstimate};
use super::trust::{self, ClientLoad, Evidence};
use super::workload::TOKENS_MAX;

/// Points of the backlog.
const BACKLOG_POINTS: usize = 60;

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
        answers_per_second: answered.len() as f64 / seconds,
        tok_s_all: tokens_of_all(&windows).map(|tokens| tokens / seconds),
        in_flight: windows.iter().map(in_flight_us).sum::<f64>() / 1e6 / seconds,
        backlog_slope: windows.last().and_then(backlog),
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
    stage.notes = notes::notes(&stage, &all, question);
    stage.doubts = trust::doubts(&Evidence {
        client: stage.client,
        lag_us: stage.lag_p99_ms.map(|ms| ms * 1e3),
        ttft_us: stage.ttft_ms.map(|ttft| ttft.p50.value * 1e3),
        calibration_us: question.calibration_us,
    });
    stage
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
    Some(Quantiles {
        n: series.len(),
        effective: statistics::effective_for(&series, 0.5),
        mean: series.iter().sum::<f64>() / series.len() as f64,
        p5: plain(0.05)?,
        p25: plain(0.25)?,
        p50: estimate(0.5)?,
        p75: plain(0.75)?,
        p90: estimate(0.9)?,
        p95: estimate(0.95)?,
        p99: estimate(0.99)?,
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

/// How the number of requests in flight changes over the last half.
fn backlog(window: &Window<'_>) -> Option<IntervalEstimate> {
    let from = window.from_us.midpoint(window.until_us);
    let step = (window.until_us - from) / i64::try_from(BACKLOG_POINTS).ok()?;
    if step < 1_000 {
        return None;
    }
    let points = (0..BACKLOG_POINTS as i64).map(|point| from + point * step);
    let in_flight =
        |at: i64| window.requests.iter().filter(|request| request.sent_us <= at && at < request.ended_us).count();
    let (times, counts): (Vec<f64>, Vec<f64>) = points.map(|at| (at as f64 / 1e6, in_flight(at) as f64)).unzip();
    statistics::slope(&times, &counts)
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

fn judge(stage: &mut StageFigures, all: &[&MeasuredRequest], question: &StageQuestion<'_>) {
    let Some(slo) = &question.slo else { return };
    let judged: Vec<_> = all
        .iter()
        .filter(|request| request.end != RequestEnd::CutShort)
        .filter_map(|request| slo.missed(request))
        .collect();
    if judged.is_empty() {
        return;
    }
    let good: Vec<f64> = judged.iter().map(|missed| if missed.is_empty() { 1.0 } else { 0.0 }).collect();
    let share = good.iter().sum::<f64>() / good.len() as f64;
    stage.attainment = Some(statistics::share_estimate(share, statistics::effective_samples(&good)));
    stage.goodput = Some(good.iter().sum::<f64>() / stage.seconds);
    let mut missed: BTreeMap<SloTarget, usize> = BTreeMap::new();
    for target in judged.iter().flatten() {
        *missed.entry(*target).or_default() += 1;
    }
    stage.first_missed = missed.into_iter().max_by_key(|(_, count)| *count).map(|(target, _)| target);
}

/// Of every request, warm-up included: it was paid for.
fn cost(stage: &mut StageFigures, blocks: &[BlockResult]) {
    let sent = || blocks.iter().flat_map(|block| &block.requests);
    stage.cost_usd = sent().fold((0.0, 0.0), |sum, request| (sum.0 + request.cost_usd.0, sum.1 + request.cost_usd.1));
    let tokens: f64 = sent().filter_map(|request| request.output_tokens).map(|tokens| tokens as f64).sum();
    stage.usd_per_million = (tokens > 0.0 && stage.cost_usd.1 > 0.0).then(|| stage.cost_usd.1 / tokens * 1e6);
}

#[cfg(test)]
mod tests;
