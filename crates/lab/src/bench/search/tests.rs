//! Searches of known rates, of queues that are computed instead of served.

use std::time::Duration;

use fastrand::Rng;

use super::*;
use crate::bench::block::Arrivals;

fn trial(rate: f64, verdict: TrialVerdict) -> RateTrial {
    RateTrial { rate, verdict, requests: 0, attainment: 0.0, missed: None, doubts: Vec::new() }
}

fn search(truth: f64, start: f64) -> FoundRate {
    let mut search = RateSearch::new("a/m", 0.9, start, 0.1);
    while let Some(rate) = search.next() {
        search.take(trial(rate, if rate <= truth { TrialVerdict::Pass } else { TrialVerdict::Fail }));
    }
    search.found()
}

#[test]
fn the_true_rate_lies_between_what_passes_and_what_fails() {
    for (truth, start) in [(7.3, 1.0), (0.02, 5.0), (900.0, 0.3), (1.0, 1.0)] {
        let found = search(truth, start);
        let (low, high) = (found.passes.unwrap(), found.fails.unwrap());
        assert!(low <= truth && truth < high && high / low <= 1.1 + 1e-9, "{truth}: {found:?}");
    }
}

/// Rates within this share of the truth cannot be decided.
fn search_with_doubt(truth: f64, start: f64, doubt: f64) -> FoundRate {
    let mut search = RateSearch::new("a/m", 0.9, start, 0.1);
    while let Some(rate) = search.next() {
        let verdict = match rate / truth {
            off if off < 1.0 - doubt => TrialVerdict::Pass,
            off if off > 1.0 + doubt => TrialVerdict::Fail,
            _ => TrialVerdict::Undecided,
        };
        search.take(trial(rate, verdict));
    }
    search.found()
}

#[test]
fn rates_that_cannot_be_decided_are_narrowed_from_both_sides() {
    // The first undecided rate comes before one passes, before one fails, and between both.
    for (truth, start) in [(10.0, 10.0), (10.0, 10.3), (10.0, 2.5), (10.0, 41.0), (10.0, 2.9), (10.0, 1.7)] {
        let found = search_with_doubt(truth, start, 0.04);
        let (low, high) = (found.passes.unwrap(), found.fails.unwrap());
        assert!(low < truth && truth < high && high / low < 1.25, "{start}: {found:?}");
        assert!(((low * high).sqrt() / truth - 1.0).abs() < 0.08 && found.trials.len() <= 13, "{start}: {found:?}");
    }
}

#[test]
fn a_search_that_decides_nothing_ends() {
    let found = search_with_doubt(10.0, 10.0, 0.9);
    assert!(found.trials.len() < TRIALS_MAX, "{found:?}");
    let never = search_with_doubt(1.0, 1.0, f64::INFINITY);
    assert_eq!((never.trials.len(), never.passes, never.fails), (UNDECIDED_MAX, None, None));
}

#[test]
fn a_trial_that_the_client_spoiled_is_repeated_twice() {
    let mut search = RateSearch::new("a/m", 0.9, 1.0, 0.1);
    let spoiled = RateTrial { doubts: vec!["late".to_owned()], ..trial(2.0, TrialVerdict::Undecided) };
    search.take(trial(1.0, TrialVerdict::Pass));
    search.take(spoiled.clone());
    search.take(spoiled.clone());
    assert_eq!(search.next(), Some(2.0));
    search.take(trial(2.0, TrialVerdict::Pass));
    assert_eq!(search.next(), Some(4.0), "the count begins anew");
    (0..3).for_each(|_| search.take(spoiled.clone()));
    assert_eq!(search.next(), None);
    assert_eq!(search.found().passes, Some(2.0));
}

/// A server with `slots`, each of which takes `service_us` for an answer whose first token comes at once.
fn served(times: &[i64], slots: usize, service_us: i64, until_us: i64) -> Vec<MeasuredRequest> {
    let mut free = vec![0_i64; slots];
    let serve = |at: &i64| {
        let slot = (0..slots).min_by_key(|slot| free[*slot]).unwrap();
        let begun = free[slot].max(*at);
        free[slot] = begun + service_us;
        MeasuredRequest {
            scheduled_us: *at,
            sent_us: *at,
            ended_us: begun + service_us,
            end: RequestEnd::Answered,
            ttft_us: Some(begun - at),
            e2e_us: Some(begun + service_us - at),
            ..MeasuredRequest::default()
        }
    };
    times.iter().map(serve).filter(|request| request.ended_us <= until_us).collect()
}

fn question(ttft_us: i64, horizon_us: i64) -> TrialQuestion {
    let slo = LoadSlo { ttft_us: Some(ttft_us), ..LoadSlo::default() };
    TrialQuestion { slo, attain: ATTAIN, horizon_us, warm_up_us: None, moved_us: 0.0 }
}

fn decided(rate: f64) -> TrialVerdict {
    let times = Arrivals::Poisson.draw(rate, Duration::from_secs(600), TRIAL_MAX, 11);
    for seconds in 1..600 {
        let now = seconds * 1_000_000;
        let ended = served(&times, 4, 1_000_000, now);
        let scheduled = &times[..times.partition_point(|at| *at <= now)];
        if let Some(verdict) = verdict(&question(500_000, 1_500_000), &ended, scheduled, now, false) {
            return verdict;
        }
    }
    TrialVerdict::Undecided
}

#[test]
fn a_queue_passes_below_its_capacity_and_fails_above() {
    // Four slots of one second take 4/s.
    assert_eq!(decided(1.5), TrialVerdict::Pass);
    assert_eq!(decided(3.9), TrialVerdict::Fail);
    assert_eq!(decided(8.0), TrialVerdict::Fail);
}

#[test]
fn a_given_warm_up_is_left_out_of_a_trial() {
    // The first 30 s are bad, as of a server that loads its model; then all is good.
    let times: Vec<i64> = (0..600).map(|at| at * 100_000).collect();
    let request = |at: &i64| MeasuredRequest {
        scheduled_us: *at,
        sent_us: *at,
        ended_us: *at + 200_000,
        end: RequestEnd::Answered,
        ttft_us: Some(if *at < 30_000_000 { 900_000 } else { 100_000 }),
        e2e_us: Some(200_000),
        ..MeasuredRequest::default()
    };
    let ended: Vec<MeasuredRequest> = times.iter().map(request).collect();
    let usual = question(500_000, 1_000_000);
    let of = |warm_up_us| verdict(&TrialQuestion { warm_up_us, ..usual }, &ended, &times, 70_000_000, true);
    assert_eq!(of(None), Some(TrialVerdict::Fail));
    assert_eq!(of(Some(30_000_000)), Some(TrialVerdict::Pass));
    assert_eq!(of(Some(0)), Some(TrialVerdict::Fail));
}

#[test]
fn a_verdict_stands_where_the_error_of_the_client_could_not_change_it() {
    // First tokens of 148 ms.
    let times: Vec<i64> = (0..600).map(|at| at * 100_000).collect();
    let request = |at: &i64| MeasuredRequest {
        scheduled_us: *at,
        sent_us: *at,
        ended_us: *at + 200_000,
        end: RequestEnd::Answered,
        ttft_us: Some(148_000),
        e2e_us: Some(200_000),
        ..MeasuredRequest::default()
    };
    let ended: Vec<MeasuredRequest> = times.iter().map(request).collect();
    let (pass, fail) = (Some(TrialVerdict::Pass), Some(TrialVerdict::Fail));
    for (limit_us, error_us, holds) in [
        (10_000_000, 12_000.0, pass),
        (10_000_000, 9_000_000.0, pass),
        (161_000, 12_000.0, pass),
        (159_000, 12_000.0, None),
        (140_000, 12_000.0, None),
        (135_000, 12_000.0, fail),
    ] {
        let of = |question: &TrialQuestion| verdict(question, &ended, &times, 70_000_000, true);
        assert_eq!(despite(error_us, &question(limit_us, 1_000_000), of), holds, "{limit_us} ± {error_us}");
    }
    let of = |_: &TrialQuestion| Some(TrialVerdict::Undecided);
    assert_eq!(despite(0.0, &question(1, 1), of), None);
}

#[test]
fn a_search_says_why_it_is_undecided() {
    let found =
        |passes, fails, trials| FoundRate { target: "a/m".to_owned(), passes, fails, trials, ..FoundRate::default() };
    assert_eq!(found(Some(1.0), Some(1.1), Vec::new()).why_undecided(), None);
    let why = |passes, fails, trials| found(passes, fails, trials).why_undecided().unwrap();
    assert_eq!(why(Some(1.0), None, Vec::new()), "a/m: no rate was found that fails");
    assert_eq!(why(None, Some(1.0), Vec::new()), "a/m: no rate was found that passes");
    let spoiled = RateTrial { doubts: vec!["late".to_owned()], ..trial(2.0, TrialVerdict::Undecided) };
    assert_eq!(
        why(None, None, vec![spoiled]),
        "a/m: no rate passes or fails for certain: the client spoiled the trials: late"
    );
}

/// The server of `examples/load verify rate`: 32 slots, TTFT 200 ms, nine gaps of 5 ms, each with a spread of 0.2.
const SLOTS: usize = 32;
const GAPS: usize = 9;
const SLO_US: i64 = 300_000;
const ATTAIN: f64 = 0.9;

fn log_normal(rng: &mut Rng, median_us: f64) -> f64 {
    let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    median_us * (0.2 * normal).exp()
}

/// Each request takes the slot that is free first (Kiefer and Wolfowitz 1955).
fn queue(times: &[i64], seed: u64) -> Vec<MeasuredRequest> {
    let mut rng = Rng::with_seed(seed);
    let mut free = [0_i64; SLOTS];
    let serve = |at: &i64| {
        let slot = (0..SLOTS).min_by_key(|slot| free[*slot]).unwrap();
        let first = log_normal(&mut rng, 200_000.0) as i64;
        let rest: f64 = (0..GAPS).map(|_| log_normal(&mut rng, 5_000.0)).sum();
        let begun = free[slot].max(*at);
        free[slot] = begun + first + rest as i64;
        MeasuredRequest {
            scheduled_us: *at,
            sent_us: *at,
            ended_us: free[slot],
            end: RequestEnd::Answered,
            ttft_us: Some(begun + first - at),
            e2e_us: Some(free[slot] - at),
            ..MeasuredRequest::default()
        }
    };
    times.iter().map(serve).collect()
}

/// One trial of 60 s, judged every second as the command does.
fn judged(rate: f64, seed: u64) -> TrialVerdict {
    let question = question(SLO_US, 30_000_000);
    let times = Arrivals::Poisson.draw(rate, Duration::from_secs(60), TRIAL_MAX, seed);
    let mut served = queue(&times, seed + 1_000);
    served.sort_by_key(|request| request.ended_us);
    for now in (1..=60).map(|seconds| seconds * 1_000_000) {
        let ended = &served[..served.partition_point(|request| request.ended_us <= now)];
        let scheduled = &times[..times.partition_point(|at| *at <= now)];
        if let Some(verdict) = verdict(&question, ended, scheduled, now, false) {
            return verdict;
        }
    }
    let last = served.last().unwrap().ended_us + question.horizon_us;
    verdict(&question, &served, &times, last, true).unwrap()
}

/// The highest rate at which the queue meets its target, by bisection over long runs.
fn true_rate() -> f64 {
    let (mut low, mut high) = (10.0_f64, 200.0);
    while high / low > 1.002 {
        let middle = (low * high).sqrt();
        let times = Arrivals::Poisson.draw(middle, Duration::from_secs(100_000), 100_000, 11);
        let served = queue(&times, 12);
        let good = served.iter().filter(|request| request.ttft_us.unwrap() <= SLO_US).count();
        *(if good as f64 >= ATTAIN * served.len() as f64 { &mut low } else { &mut high }) = middle;
    }
    low
}

#[test]
fn the_rate_of_a_queue_is_found() {
    let truth = true_rate();
    let find = |seed: u64| {
        let mut search = RateSearch::new("a/m", ATTAIN, 1.0 / 0.245, 0.1);
        while let Some(rate) = search.next() {
            let number = search.found.trials.len() as u64;
            search.take(trial(rate, judged(rate, seed * 100 + number)));
        }
        search.found()
    };
    let found: Vec<FoundRate> = (1..=20).map(find).collect();
    let middle = |one: &FoundRate| one.passes.zip(one.fails).map(|(low, high)| (low * high).sqrt() / truth - 1.0);
    let within = found.iter().filter_map(middle).filter(|off| off.abs() <= 0.1).count();
    assert!(within >= 19, "{within} of {} within 10 % of {truth}/s: {found:?}", found.len());
    let failed_below = found.iter().filter(|one| one.fails.is_some_and(|rate| rate < 0.98 * truth)).count();
    assert_eq!(failed_below, 0, "a rate below {truth}/s failed: {found:?}");
}
