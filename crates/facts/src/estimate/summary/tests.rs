//! Compares summaries with the rows they are made from.

use super::*;
use crate::estimate::cost::Cost;
use crate::estimate::facts::RequestFacts;
use crate::estimate::goodput::{RequestOutcomes, SloTargets};
use crate::estimate::survival::Observation;
use crate::record::names::RaceOutcome;

/// Attempt of race `race` that served its client: TTFT 100 ms, 50 ms a token.
fn served(race: u64) -> AttemptFacts<'static> {
    AttemptFacts {
        judged: Default::default(),
        race,
        again: false,
        started_at: 0,
        provider: "groq",
        model_sent: "llama",
        in_flight_upstream: 0,
        outcome: AttemptOutcome::Won,
        failure: None,
        racing: None,
        ttft: Some(Observation { time_us: 100_000, event: true, audit: None }),
        whole: None,
        tpot_us: Some(50_000.0),
        at_once: false,
        input_tokens: Some(100),
        output_tokens: Some(40),
        cost: Cost::exactly(0.01),
        request: Some(request(Some(true), RaceOutcome::Ok, Some(101_000))),
        lost_to: None,
    }
}

fn request(served: Option<bool>, outcome: RaceOutcome, client_ttft_us: Option<i64>) -> RequestFacts<'static> {
    RequestFacts {
        model: "llama",
        user: None,
        team: None,
        caller_key: None,
        tags: None,
        stream: true,
        input_tokens_estimate: 10,
        outcome,
        client_ttft_us,
        served,
    }
}

fn lost(race: u64) -> AttemptFacts<'static> {
    AttemptFacts {
        outcome: AttemptOutcome::Lost,
        racing: Some(RacingKind::Cut),
        ttft: Some(Observation { time_us: 90_000, event: false, audit: None }),
        tpot_us: None,
        input_tokens: None,
        output_tokens: Some(3),
        cost: Cost::between(0.002, Some(0.005)),
        request: Some(request(Some(false), RaceOutcome::Ok, Some(101_000))),
        ..served(race)
    }
}

fn failed(race: u64) -> AttemptFacts<'static> {
    AttemptFacts {
        outcome: AttemptOutcome::Failed,
        failure: Some(FailureKind::RateLimited),
        ttft: None,
        tpot_us: None,
        output_tokens: None,
        cost: Cost::default(),
        request: Some(request(None, RaceOutcome::Error, None)),
        ..served(race)
    }
}

fn summed(all: &[AttemptFacts<'_>], coarse: bool) -> Summary {
    let mut summary = Summary::default();
    all.iter().for_each(|facts| summary.add(facts, coarse));
    summary
}

const SLO: SloTargets = SloTargets { ttft_us: Some(1_000_000), tpot_ms: Some(50.0) };

#[test]
fn a_stored_summary_tells_the_same() {
    let late = AttemptFacts { request: Some(request(Some(true), RaceOutcome::Ok, Some(2_000_000))), ..served(6) };
    let slow = AttemptFacts { tpot_us: Some(80_000.0), ..served(7) };
    let once = AttemptFacts { tpot_us: None, at_once: true, output_tokens: Some(1), ..served(8) };
    let burst = AttemptFacts { tpot_us: None, ..served(9) };
    let broke = AttemptFacts {
        outcome: AttemptOutcome::FailedMid,
        request: Some(request(Some(true), RaceOutcome::Error, Some(101_000))),
        ..served(10)
    };
    let left =
        AttemptFacts { request: Some(request(Some(true), RaceOutcome::ClientGone, Some(101_000))), ..served(11) };
    let seen = |time_us, event| Some(Observation { time_us, event, audit: None });
    let plain = AttemptFacts { ttft: None, whole: seen(900_000, true), tpot_us: None, request: None, ..served(12) };
    let cut = AttemptFacts {
        whole: seen(700_000, false),
        outcome: AttemptOutcome::Lost,
        racing: Some(RacingKind::Late),
        ..plain
    };
    let all = [plain, cut, served(1), lost(1), served(2), failed(3), failed(3), late, slow, once, burst, broke, left];
    let (exact, mut stored) = (summed(&all, false), Summary::default());
    stored.absorb(&summed(&all, true).encode(), true).unwrap();
    let mut merged = summed(&all[..4], false);
    merged.merge(summed(&all[4..], false));
    for summary in [&exact, &stored, &merged] {
        assert_eq!((summary.attempts, summary.outcome(AttemptOutcome::Won), summary.failed()), (13, 8, 3));
        assert_eq!(summary.failures().collect::<Vec<_>>(), [(FailureKind::RateLimited, 2)]);
        assert_eq!((summary.ttft.seen, summary.ttft.censored, summary.without_speed()), (8, 1, 2));
        assert_eq!((summary.whole.seen, summary.whole.censored), (1, 1));
        assert_eq!(summary.cost.cost(), Cost::between(0.102, None));
        assert_eq!(summary.extra_cost().cost(), Cost::between(0.012, Some(0.015)));
        let by_kind = RacingKind::ALL.map(|kind| summary.racing(kind).cost().cost_usd_min.unwrap());
        assert_eq!(summary.inputs, [11, 0, 0, 0, 0], "of all whose request has a row");
        assert_eq!(by_kind, [0.002, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((summary.cost.unpriced(), summary.cost.open()), (2, 0));
        assert_eq!((summary.tokens_served, summary.tokens_lost), (8 * 40 - 39, 3 + 80));
        assert_eq!(summary.tokens_in, 12 * 100, "of all but the one without a count");
        assert_eq!(summary.client_ttft.count, 8);
    }
    // Met: 1, 2 and 8. Missed: 3 (unanswered, counted once), 6, 7 and 10. Unknown: 9. Left: 11.
    assert_eq!(exact.requests.judged(&SLO), RequestOutcomes { met: 3.0, missed: 4.0, unknown: 1.0 });
    // 50 ms lies within a bucket of the histogram.
    let far = SloTargets { ttft_us: Some(1_500_000), tpot_ms: Some(60.0) };
    assert_eq!(stored.requests.judged(&far), exact.requests.judged(&far));
    let about = stored.requests.judged(&SLO);
    assert!(about.met > 1.0 && about.met < 3.0 && about.unknown == 1.0, "{about:?}");
    assert_eq!(about.met + about.missed, 7.0);
    let no_pace = SloTargets { ttft_us: Some(1_500_000), tpot_ms: None };
    assert_eq!(stored.requests.judged(&no_pace), RequestOutcomes { met: 5.0, missed: 3.0, unknown: 0.0 });
}

#[test]
fn requests_that_nobody_answered_are_left_out_on_demand() {
    let stored = summed(&[failed(1)], true).encode();
    let mut with = Summary::default();
    with.absorb(&stored, true).unwrap();
    let mut without = Summary::default();
    without.absorb(&stored, false).unwrap();
    assert_eq!((with.requests.judged(&SLO).missed, without.requests.judged(&SLO).missed), (1.0, 0.0));
}

#[test]
fn what_is_no_summary_is_refused() {
    let stored = summed(&[served(1), lost(1), failed(2)], true).encode();
    for cut in 0..stored.len() {
        assert!(Summary::default().absorb(&stored[..cut], true).is_err(), "{cut}");
    }
    assert!(Summary::default().absorb(&[LAYOUT as u8 + 1, 0], true).is_err());
}
