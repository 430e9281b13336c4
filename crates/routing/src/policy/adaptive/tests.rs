//! Decisions over upstreams whose nature is known: whom to start, when, and when not. The pieces have tests of their own.

use super::*;
use crate::forecast::{LatencyForecast, Learner, SendConditions};
use crate::money::BudgetSnapshot;
use crate::policy::question::{CandidateForecast, Minimise};
use crate::policy::value::order;
use photofinish_facts::reason::DecisionReason;

const SECOND: i64 = 1_000_000;
const NOW: i64 = 2000 * SECOND;

/// An upstream's nature: median in ms, deviation of the logarithm, share of stragglers that take ten times as long.
#[derive(Clone, Copy)]
struct Nature(f64, f64, f64);

fn sent() -> SendConditions {
    SendConditions { uncached_tokens: 1000.0, in_flight: 0 }
}

/// What is known after twenty minutes, one attempt every two seconds.
fn known(nature: Nature, tpot_us: f64) -> LatencyForecast {
    let Nature(median_ms, deviation, stragglers) = nature;
    let mut learner = Learner::new();
    let mut draws = fastrand::Rng::with_seed(7);
    for step in 0..600 {
        let now = NOW - SECOND * (1200 - 2 * step);
        let normal = (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0;
        let longer = if draws.f64() < stragglers { 10.0 } else { 1.0 };
        learner.launched(now);
        learner.first_token(sent(), (median_ms * 1000.0 * (deviation * normal).exp() * longer) as i64, now);
        learner.decoded(tpot_us, 200, 0, now);
    }
    learner.forecast()
}

fn candidate(forecast: &LatencyForecast) -> CandidateForecast<'_> {
    CandidateForecast {
        forecast,
        sent: sent(),
        cost: 1.0,
        price: 1.0,
        domain: None,
        out: false,
        throttled: forecast.throttled(NOW),
    }
}

fn terms(lambda_us: f64) -> BudgetSnapshot {
    let (mean_cost, bucket, capacity) = (1.0, 20.0, 20.0);
    BudgetSnapshot {
        lambda_us,
        mean_cost,
        p99_us: 900_000.0,
        whole_p99_us: 9e6,
        answer_tokens: 200.0,
        bucket,
        capacity,
        budget: 0.1,
    }
}

fn question<'a>(candidates: &'a [CandidateForecast<'a>], terms: BudgetSnapshot) -> AdaptiveQuestion<'a> {
    let (aim, us_per_cost, max_running) = (Minimise::Ttft, 0.0, 3);
    let p99_us = terms.p99_us;
    AdaptiveQuestion {
        candidates,
        aim,
        terms,
        p99_us,
        tpot_least_us: 20_000.0,
        us_per_cost,
        max_running,
        now: NOW,
        elapsed_us: 0,
    }
}

fn running(candidate: usize, waited_us: i64) -> AttemptView {
    AttemptView::waiting(candidate, waited_us)
}

const STEADY: Nature = Nature(300.0, 0.15, 0.0);
const HEAVY: Nature = Nature(300.0, 0.15, 0.05);
const SLOW: Nature = Nature(2000.0, 0.15, 0.0);

#[test]
fn a_hedge_is_planned_where_the_tail_is_heavy() {
    let (heavy, steady) = (known(HEAVY, 2e4), known(Nature(320.0, 0.15, 0.0), 2e4));
    let candidates =
        [candidate(&heavy), CandidateForecast { domain: Some(1), ..candidate(&heavy) }, candidate(&steady)];
    let opening = open(&question(&candidates[..2], terms(300_000.0)));
    assert_eq!((opening.primary, opening.hedge, opening.why), (0, Some(1), DecisionReason::Hedge));
    let after = opening.hedge_at_us.unwrap();
    assert!((300_000..900_000).contains(&after), "when it is late for a usual one: {after}");
    let opening = open(&question(&candidates, terms(300_000.0)));
    assert_eq!(opening.primary, 2, "the steady one is better, though its median is not");
}

#[test]
fn no_hedge_where_it_cannot_pay() {
    let (steady, slow) = (known(STEADY, 2e4), known(SLOW, 2e4));
    let candidates = [candidate(&steady), candidate(&slow)];
    let (next, why) = next(&question(&candidates, terms(3e6)), &[running(0, 100_000)]);
    assert!(matches!(next, NextDecision::AskAgain { after_us } if after_us >= 100_000), "{next:?} {why:?}");
    let opening = open(&question(&candidates, terms(3e6)));
    assert_eq!(opening.primary, 0);
    assert!(opening.hedge_at_us.is_none_or(|after| after > 600_000), "{opening:?}");
}

#[test]
fn a_late_one_is_hedged_and_the_dearer_a_hedge_the_later() {
    let heavy = known(HEAVY, 2e4);
    let candidates = [candidate(&heavy), candidate(&heavy)];
    let late = next(&question(&candidates, terms(300_000.0)), &[running(0, 800_000)]);
    assert_eq!(late, (NextDecision::Start(1), DecisionReason::Hedged));
    let at = |lambda_us| open(&question(&candidates, terms(lambda_us))).hedge_at_us.unwrap_or(i64::MAX);
    assert!(at(1e3) < at(3e5) && at(3e5) < at(1e7), "{} {} {}", at(1e3), at(3e5), at(1e7));
    assert_eq!(at(0.0), 1, "what costs nothing is done at once");
}

#[test]
fn a_hedge_that_slows_others_must_gain_more() {
    let heavy = known(HEAVY, 2e4);
    let mut slowed = heavy.clone();
    // Each doubling of the load doubles the time. With 7 in flight the load is the mean, so the prediction stays.
    for in_flight in [1, 31].into_iter().cycle().take(2_000) {
        let error = f64::from(in_flight + 1).ln() - 8_f64.ln() - slowed.load.effect(in_flight);
        slowed.load.observe(in_flight, error, 1.0);
    }
    let crowded = CandidateForecast { sent: SendConditions { in_flight: 7, ..sent() }, ..candidate(&slowed) };
    // The highest price of these at which it is started, s.
    let dearest = |hedge: CandidateForecast<'_>| {
        let candidates = [candidate(&heavy), hedge];
        let starts = |price_s: &i32| {
            let question = question(&candidates, terms(1e6 * f64::from(*price_s)));
            next(&question, &[running(0, 800_000)]).0 == NextDecision::Start(1)
        };
        (1..=100).rev().find(starts).unwrap_or(0)
    };
    let (idle, crowded) = (dearest(candidate(&heavy)), dearest(crowded));
    assert!(0 < crowded && crowded < idle && idle < 100, "{crowded} of {idle}");
}

#[test]
fn never_within_one_domain() {
    let heavy = known(HEAVY, 2e4);
    let of = |domain| CandidateForecast { domain: Some(domain), ..candidate(&heavy) };
    let late = [running(0, 3 * SECOND)];
    let same = [of(1), of(1)];
    assert_eq!(next(&question(&same, terms(0.0)), &late), (NextDecision::Never, DecisionReason::Alone));
    assert_eq!(open(&question(&same, terms(0.0))).hedge_at_us, None);
    let other = [of(1), of(1), of(2)];
    assert_eq!(next(&question(&other, terms(0.0)), &late), (NextDecision::Start(2), DecisionReason::Hedged));
    let opening = open(&question(&other, terms(0.0)));
    assert!(
        opening.also.iter().chain(opening.hedge).any(|hedge| hedge == 2),
        "the third is seen behind two of one domain"
    );
}

#[test]
fn an_empty_bucket_and_a_full_race_start_none() {
    let heavy = known(HEAVY, 2e4);
    let candidates = [candidate(&heavy); 4];
    let empty = BudgetSnapshot { bucket: 0.5, ..terms(1e4) };
    let (answer, why) = next(&question(&candidates, empty), &[running(0, 3 * SECOND)]);
    assert!(
        matches!(answer, NextDecision::AskAgain { after_us } if after_us > 1) && why == DecisionReason::Budget,
        "{answer:?} {why:?}"
    );
    let opening = open(&question(&candidates, empty));
    assert_eq!((opening.hedge, opening.why, opening.also.len()), (None, DecisionReason::Budget, 0));
    let three = [running(0, 3 * SECOND), running(1, 2 * SECOND), running(2, SECOND)];
    assert_eq!(next(&question(&candidates, terms(0.0)), &three).0, NextDecision::Never);
}

#[test]
fn the_cheaper_of_two_equal_ones_is_first_and_the_better_of_two() {
    let (steady, slow) = (known(STEADY, 2e4), known(SLOW, 2e4));
    let dear = CandidateForecast { cost: 3.0, price: 3.0, ..candidate(&steady) };
    assert_eq!(open(&question(&[dear, candidate(&steady)], terms(1e5))).primary, 1);
    assert_eq!(open(&question(&[candidate(&slow), dear], terms(1e5))).primary, 1, "but not if it is slower");
    let out = CandidateForecast { out: true, ..candidate(&steady) };
    assert_eq!(open(&question(&[out, candidate(&slow)], terms(1e5))).primary, 1);
    let all = [candidate(&slow), out, dear, candidate(&steady)];
    assert!(order(&question(&all, terms(1e5))).iter().eq([3, 2, 0]));
    assert_eq!(
        next(&question(&all, terms(1e5)), &[]),
        (NextDecision::Start(3), DecisionReason::Best),
        "after a failure"
    );
    assert_eq!(open(&question(&[], terms(1e5))).primary, 0);
    assert_eq!(next(&question(&[], terms(1e5)), &[]).0, NextDecision::Never);
}

#[test]
fn each_aim_has_its_favourite() {
    let (quick, fluent) = (known(Nature(250.0, 0.15, 0.0), 40_000.0), known(Nature(450.0, 0.15, 0.0), 10_000.0));
    let candidates = [candidate(&quick), candidate(&fluent)];
    let primary = |aim| open(&AdaptiveQuestion { aim, ..question(&candidates, terms(1e6)) }).primary;
    assert_eq!(primary(Minimise::Ttft), 0);
    assert_eq!(primary(Minimise::Completion), 1);
    assert_eq!(primary(Minimise::Goodput { ttft_us: 900_000, tpot_us: 20_000 }), 1, "the other is never fluent enough");
    assert_eq!(primary(Minimise::Goodput { ttft_us: 350_000, tpot_us: 60_000 }), 0, "the other is never in time");
}

#[test]
fn unknown_ones_are_tried_beside_the_best_as_far_as_the_bucket_holds() {
    let (steady, unknown) = (known(STEADY, 2e4), Learner::new().forecast());
    let candidates = [candidate(&steady), candidate(&unknown), candidate(&unknown), candidate(&unknown)];
    let opening = open(&question(&candidates, terms(1e5)));
    assert_eq!((opening.primary, opening.also.len(), opening.why), (0, 2, DecisionReason::Cold), "three may run");
    let opening = open(&question(&candidates, BudgetSnapshot { bucket: 1.5, ..terms(1e5) }));
    assert_eq!(opening.also.len(), 1);
    let mut tried = Learner::new();
    (0..3).for_each(|_| tried.launched(NOW));
    let tried = tried.forecast();
    let opening = open(&question(&[candidate(&steady), candidate(&tried)], terms(1e5)));
    assert_ne!(opening.why, DecisionReason::Cold, "three times is enough");
}

#[test]
fn a_dearer_upstream_is_first_only_if_the_time_it_saves_is_worth_its_price() {
    let (quick, slower) = (known(STEADY, 2e4), known(Nature(450.0, 0.15, 0.0), 2e4));
    let unlike = known(STEADY, 2e4);
    let at = |forecast, price| CandidateForecast { price, ..candidate(forecast) };
    let primary = |candidates: &[CandidateForecast<'_>], us_per_cost| {
        open(&AdaptiveQuestion { us_per_cost, ..question(candidates, terms(1e5)) }).primary
    };
    assert_eq!(
        primary(&[at(&unlike, 10.0), at(&quick, 1.0)], 0.0),
        1,
        "equally quick: the cheap one, without any setting"
    );
    let candidates = [at(&quick, 0.012), at(&slower, 0.002)];
    assert_eq!(primary(&candidates, 1e6 / 1.0), 0, "a second is worth a dollar: 150 ms are worth more than a cent");
    assert_eq!(primary(&candidates, 1e6 / 0.01), 1, "a second is worth a cent: 150 ms are not");
}

#[test]
fn what_was_learnt_fades_with_age_but_the_line_stays() {
    const DAY: i64 = 86_400 * SECOND;
    let learnt = known(HEAVY, 2e4);
    assert!(!learnt.is_unknown(NOW) && !learnt.is_unknown(NOW + DAY), "a night changes little");
    assert!(learnt.is_unknown(NOW + 7 * DAY), "after a week it is tried again");
    assert_eq!(learnt.usual_p99_us(sent(), NOW + 7 * DAY), None, "nor is anything usual there");
    let mut learner = Learner::new();
    for second in 0..600 {
        learner.launched(second * SECOND);
        learner.first_token(sent(), 300_000, second * SECOND);
    }
    let before = learner.forecast();
    learner.launched(7 * DAY);
    let after = learner.forecast();
    let [then, now] = [before.median_us(sent(), 7 * DAY), after.median_us(sent(), 7 * DAY)];
    assert!((0.7..1.4).contains(&(now / then)), "the median is still the best guess: {then} {now}");
    for second in 0..5 {
        learner.first_token(sent(), 900_000, 7 * DAY + second * SECOND);
    }
    let moved = learner.forecast().median_us(sent(), 7 * DAY + 5 * SECOND);
    assert!(moved > 600_000.0, "five attempts move what hundreds had taught: {moved}");
}

#[test]
fn a_throttled_one_is_no_hedge() {
    let heavy = known(HEAVY, 2e4);
    let mut failing = Learner::new();
    (0..3).for_each(|_| failing.launched(NOW));
    (0..6).for_each(|_| failing.failed(NOW));
    let failing = failing.forecast();
    let candidates = [candidate(&heavy), candidate(&failing)];
    assert_eq!(
        next(&question(&candidates, terms(0.0)), &[running(0, 3 * SECOND)]),
        (NextDecision::Never, DecisionReason::Throttled)
    );
}

#[test]
fn the_rule_takes_the_smallest_and_hedges_later_the_emptier_the_bucket() {
    let (quick, slower, slow) = (known(STEADY, 2e4), known(Nature(400.0, 0.15, 0.0), 2e4), known(SLOW, 2e4));
    let candidates = [candidate(&slow), candidate(&quick), candidate(&slower)];
    let asked = question(&candidates, terms(1e9));
    let opening = rule::open(&asked);
    assert_eq!((opening.primary, opening.hedge, opening.why), (1, Some(2), DecisionReason::Rule));
    let after = opening.hedge_at_us.unwrap();
    assert!((455_000..595_000).contains(&after), "{after}");
    assert_eq!(rule::next(&asked, &[running(1, 620_000)]).0, NextDecision::Start(2), "whatever λ says");
    let (then, _) = rule::next(&asked, &[running(1, 620_000), running(2, 0)]);
    assert!(matches!(then, NextDecision::AskAgain { after_us } if (580_000..820_000).contains(&after_us)), "{then:?}");
    let poor = AdaptiveQuestion { terms: BudgetSnapshot { bucket: 0.0, ..terms(1.0) }, ..asked };
    assert_eq!(
        rule::next(&poor, &[running(1, 900_000)]),
        (NextDecision::AskAgain { after_us: 500_000 }, DecisionReason::Budget)
    );
    assert_eq!(rule::next(&asked, &[]).0, NextDecision::Start(1), "a fallback is no extra");
}

#[test]
fn the_rule_avoids_stragglers_where_it_can_hedge_few() {
    // A straggler's ten medians pass the tracked p99; its mean is still the smaller.
    let (stragglers, steady) = (known(Nature(200.0, 0.15, 0.05), 2e4), known(Nature(320.0, 0.15, 0.0), 2e4));
    let candidates = [candidate(&steady), candidate(&stragglers)];
    let with = |budget| question(&candidates, BudgetSnapshot { budget, ..terms(1e9) });
    assert_eq!(order(&with(0.01)).first(), Some(1), "its mean is smaller");
    assert_eq!(open(&with(0.01)).primary, 0);
    assert_eq!(open(&with(0.0)).primary, 1, "by the mean, where no hedge may start");
}

#[test]
fn one_whose_answers_break_is_not_first_however_quick() {
    let breaks = |share: i64| {
        let mut learner = Learner::new();
        for step in 0..100 {
            let now = NOW - SECOND * (100 - step);
            learner.first_token(sent(), 180_000, now);
            learner.ended(share > 0 && step % share == 0, now);
        }
        learner.forecast()
    };
    for (share, first) in [(0, 0), (4, 1)] {
        let forecasts = [breaks(share), known(Nature(420.0, 0.1, 0.0), 2e4)];
        let candidates: Vec<_> = forecasts.iter().map(candidate).collect();
        assert_eq!(open(&question(&candidates, terms(0.0))).primary, first, "{share}");
        let hedge = next(&question(&candidates, terms(0.0)), &[running(1, 450_000)]).0;
        assert_eq!(hedge == NextDecision::Start(0), share == 0, "no hedge to it either: {hedge:?}");
    }
}

#[test]
fn where_all_are_slow_and_busy_the_shortest_queue_goes_first_and_nobody_is_hedged() {
    let slowed = |median_us: i64, slower: i64| {
        let mut learner = Learner::new();
        for step in 0..700 {
            let now = NOW - SECOND * (700 - step);
            learner.first_token(sent(), median_us * if step < 600 { 1 } else { slower }, now);
        }
        learner.forecast()
    };
    let first = |slower: i64, in_flight: [u32; 2]| {
        let forecasts = [slowed(200_000, slower), slowed(300_000, slower)];
        let with = |(forecast, in_flight)| {
            let mut candidate = candidate(forecast);
            candidate.sent.in_flight = in_flight;
            candidate
        };
        let candidates: Vec<_> = forecasts.iter().zip(in_flight).map(with).collect();
        let opening = open(&question(&candidates, terms(0.0)));
        (opening.primary, opening.hedge.is_some())
    };
    assert_eq!(first(1, [12, 6]), (0, true), "as usual");
    assert_eq!(first(4, [12, 6]), (1, false));
    assert_eq!(first(4, [6, 12]), (0, false));
    assert_eq!(first(4, [2, 1]), (0, true), "few attempts are no queue");
}
