//! Compares summaries with the rows they are made from.

use super::*;
use crate::estimate::cost::Cost;
use crate::estimate::facts::RequestFacts;
use crate::estimate::goodput::{RequestOutcomes, SloTargets};
use crate::estimate::survival::Observation;
use crate::record::names::{CostBasis, RaceOutcome};

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
        loser: None,
        ttft: Some(Observation { time_us: 100_000, event: true, audit: None }),
        whole: None,
        tpot_us: Some(50_000.0),
        at_once: false,
        output_tokens: Some(40),
        cost: Cost { cost_usd: Some(0.01), cost_basis: CostBasis::Computed, ..Cost::default() },
        request: Some(request(Some(true), RaceOutcome::Ok, Some(101_000))),
    }
}

fn request(served: Option<bool>, outcome: RaceOutcome, client_ttft_us: Option<i64>) -> RequestFacts<'static> {
    RequestFacts {
        model: "llama",
        user: None,
        team: None,
        caller_key: None,
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
        loser: Some(LoserKind::Raced),
        ttft: Some(Observation { time_us: 90_000, event: false, audit: None }),
        tpot_us: None,
        output_tokens: Some(3),
        cost: Cost {
            cost_usd: Some(0.002),
            cost_basis: CostBasis::AtLeast,
            cost_usd_max: Some(0.005),
            ..Cost::default()
        },
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
    all.iter().for_each(|facts| summary.add(facts, 1.0, coarse));
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
        loser: Some(LoserKind::Late),
        ..plain
    };
    let all = [plain, cut, served(1), lost(1), served(2), failed(3), failed(3), late, slow, once, burst, broke, left];
    let (exact, mut stored) = (summed(&all, false), Summary::default());
    stored.absorb(&summed(&all, true).encode(), 1.0, true).unwrap();
    let mut merged = summed(&all[..4], false);
    merged.merge(summed(&all[4..], false));
    for summary in [&exact, &stored, &merged] {
        assert_eq!((summary.attempts, summary.outcome(AttemptOutcome::Won), summary.failed()), (13, 8, 3));
        assert_eq!(summary.failures().collect::<Vec<_>>(), [(FailureKind::RateLimited, 2)]);
        assert_eq!((summary.ttft.seen, summary.ttft.censored, summary.without_speed()), (8, 1, 2));
        assert_eq!((summary.whole.seen, summary.whole.censored), (1, 1));
        assert_eq!((summary.cost.usd(), summary.cost.basis()), (Some(0.102), CostBasis::AtLeast));
        assert_eq!((summary.extra_cost().usd(), summary.extra_cost().basis()), (Some(0.012), CostBasis::AtLeast));
        assert_eq!((summary.cost.max_usd(), summary.extra_cost().max_usd()), (None, Some(0.015)));
        let by_kind = LoserKind::ALL.map(|kind| summary.cost_of_losers(kind).usd());
        assert_eq!(summary.inputs, [11, 0, 0, 0, 0], "of all whose request has a row");
        assert_eq!(by_kind, [Some(0.002), Some(0.01), Some(0.0), Some(0.0), Some(0.0), Some(0.0)]);
        assert_eq!((summary.cost.unpriced(), summary.cost.uncounted()), (2, 0));
        assert_eq!((summary.tokens_served, summary.tokens_lost), (8 * 40 - 39, 3 + 80));
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
    with.absorb(&stored, 1.0, true).unwrap();
    let mut without = Summary::default();
    without.absorb(&stored, 1.0, false).unwrap();
    assert_eq!((with.requests.judged(&SLO).missed, without.requests.judged(&SLO).missed), (1.0, 0.0));
}

#[test]
fn what_is_no_summary_is_refused() {
    let stored = summed(&[served(1), lost(1), failed(2)], true).encode();
    for cut in 0..stored.len() {
        assert!(Summary::default().absorb(&stored[..cut], 1.0, true).is_err(), "{cut}");
    }
    assert!(Summary::default().absorb(&[6, 0], 1.0, true).is_err());
}

#[test]
fn a_summary_of_the_edition_without_judged_answers_is_read() {
    let summary = Summary { judged: [0, 0], ..summed(&[served(1), lost(1)], true) };
    let mut bytes = summary.encode();
    // It ends before the counts of judged answers, of which there are none.
    assert_eq!(bytes.pop(), Some(0));
    bytes[0] = LAYOUT_WITHOUT_JUDGED as u8;
    let mut old = Summary { judged: [3, 1], ..Summary::default() };
    old.absorb(&bytes, 1.0, true).unwrap();
    assert_eq!((old.attempts, old.judged), (2, [3, 1]));
    let with = Summary { judged: [30, 4], ..summary };
    old.absorb(&with.encode(), 1.0, true).unwrap();
    assert_eq!((old.attempts, old.judged), (4, [33, 5]));
}

#[test]
fn a_summary_of_the_edition_without_plain_answers_is_read() {
    let of_both = summed(&[served(1), lost(1)], true);
    let mut bytes = encoded_with_one_sum(&of_both, LAYOUT_WITHOUT_PLAIN, |bytes| {
        of_both.cost.encode(bytes);
        of_both.extra_cost().encode(bytes);
    });
    let mut old = Summary::default();
    old.absorb(&bytes, 1.0, true).unwrap();
    assert_eq!((old.attempts, old.tokens_served, old.tokens_lost, old.whole.count()), (2, 40, 3, 0));
    // The edition after it has plain answers, and one sum for all losers too.
    bytes[0] = LAYOUT_WITHOUT_KINDS as u8;
    Times::default().encode(&mut bytes);
    old.absorb(&bytes, 1.0, true).unwrap();
    assert_eq!((old.attempts, old.cost_of_losers(LoserKind::Unknown)), (4, old.extra_cost()));
    assert_eq!(old.extra_cost().usd(), Some(0.004));
}

/// A layout before [`LAYOUT_WITHOUT_KINDS`]. `costs` adds the sum of all costs and that of losers.
fn encoded_with_one_sum(summary: &Summary, layout: u64, costs: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, layout);
    put(&mut bytes, summary.attempts);
    encode_counts(&summary.outcomes, &mut bytes);
    encode_counts(&summary.failures, &mut bytes);
    summary.ttft.encode(&mut bytes);
    summary.tpot.encode(&mut bytes);
    summary.client_ttft.encode(&mut bytes);
    summary.requests.encode(&mut bytes);
    costs(&mut bytes);
    put(&mut bytes, summary.tokens_served);
    put(&mut bytes, summary.tokens_lost);
    bytes
}

/// The layout before bounds existed: one amount for each sum of costs, and the attempts by basis.
fn encoded_without_bounds(summary: &Summary, costs: [(i128, [u64; 5]); 2]) -> Vec<u8> {
    encoded_with_one_sum(summary, LAYOUT_WITHOUT_BOUNDS, |bytes| {
        for (pico_usd, attempts) in costs {
            bytes.extend_from_slice(&pico_usd.to_le_bytes());
            attempts.iter().for_each(|count| put(bytes, *count));
        }
    })
}

#[test]
fn a_summary_of_the_edition_without_bounds_is_read() {
    let of_both = summed(&[served(1), lost(1), lost(1)], true);
    let costs = [(12_000_000_000, [0, 1, 1, 0, 1]), (2_000_000_000, [0, 0, 1, 0, 1])];
    let mut old = Summary::default();
    old.absorb(&encoded_without_bounds(&of_both, costs), 1.0, true).unwrap();
    assert_eq!((old.attempts, old.cost.usd(), old.cost.basis()), (3, Some(0.012), CostBasis::AtLeast));
    assert_eq!((old.cost.min_usd(), old.cost.max_usd(), old.cost.unpriced()), (Some(0.012), None, 1));
    assert_eq!((old.extra_cost().usd(), old.tokens_served, old.tokens_lost), (Some(0.002), 40, 6));
    old.merge(summed(&[lost(1)], true));
    assert_eq!((old.extra_cost().usd(), old.extra_cost().max_usd()), (Some(0.004), None));
    let mut exact = Summary::default();
    let costs = [(10_000_000_000, [0, 1, 0, 0, 0]), (0, [0; 5])];
    exact.absorb(&encoded_without_bounds(&summed(&[served(1)], true), costs), 1.0, true).unwrap();
    assert_eq!((exact.cost.usd(), exact.cost.max_usd()), (Some(0.01), Some(0.01)));
}
