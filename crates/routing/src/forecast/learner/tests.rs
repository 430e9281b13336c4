//! What a learner finds out of samples whose truth is known.

use super::*;

const SECOND: i64 = 1_000_000;

/// Upstreams that are as lognormal as upstreams are.
struct Draws(fastrand::Rng);

impl Draws {
    fn new(seed: u64) -> Draws {
        Draws(fastrand::Rng::with_seed(seed))
    }

    /// µs.
    fn ttft(&mut self, median_ms: f64, deviation: f64) -> i64 {
        let normal = (0..12).map(|_| self.0.f64()).sum::<f64>() - 6.0;
        (median_ms * 1000.0 * (deviation * normal).exp()) as i64
    }
}

fn sent(uncached_tokens: f64, in_flight: u32) -> SendConditions {
    SendConditions { uncached_tokens, in_flight }
}

fn median_ms(learner: &Learner, sent: SendConditions, now: i64) -> f64 {
    learner.forecast().ttft_quantile_us(sent, 0.5, now).unwrap() / 1000.0
}

/// A steady upstream, seen once a second.
fn steady(seconds: i64) -> Learner {
    let mut learner = Learner::new();
    let mut draws = Draws::new(3);
    for second in 0..seconds {
        learner.first_token(sent(1000.0, 0), draws.ttft(300.0, 0.25), second * SECOND);
    }
    learner
}

#[test]
fn the_median_is_found() {
    let learner = steady(600);
    let median = median_ms(&learner, sent(1000.0, 0), 600 * SECOND);
    assert!((median / 300.0 - 1.0).abs() < 0.12, "{median}");
    let forecast = learner.forecast();
    let typical = forecast.typical_us(sent(1000.0, 0), 600 * SECOND).unwrap() as f64 / 1000.0;
    assert!((typical / median - 1.0).abs() < 0.1, "{typical} is not near {median}");
    assert_eq!(Learner::new().forecast().typical_us(sent(1000.0, 0), 0), None, "nothing is known");
    assert!(forecast.seen() > 400.0 && forecast.ttft_quantile_us(sent(1000.0, 0), 0.9999, 0).is_none());
}

#[test]
fn a_median_of_which_half_was_cut_by_a_rival_is_found() {
    let mut learner = Learner::new();
    let mut draws = Draws::new(4);
    let mut cut = 0;
    for second in 0..1500 {
        let (own, rival) = (draws.ttft(400.0, 0.25), draws.ttft(390.0, 0.25));
        if own < rival {
            learner.first_token(sent(1000.0, 0), own, second * SECOND);
        } else {
            cut += 1;
            learner.censored(sent(1000.0, 0), rival, second * SECOND);
        }
    }
    let median = median_ms(&learner, sent(1000.0, 0), 1500 * SECOND);
    assert!((700..900).contains(&cut) && (median / 400.0 - 1.0).abs() < 0.12, "{cut} cut, {median}");
}

#[test]
fn the_slope_of_the_size_is_found() {
    let mut learner = Learner::new();
    let mut draws = Draws::new(5);
    for second in 0..1500 {
        let tokens = draws.0.f64() * 8000.0;
        let median = 200.0 + 0.08 * tokens;
        learner.first_token(sent(tokens, 0), draws.ttft(median, 0.2), second * SECOND);
    }
    for (tokens, truth) in [(500.0, 240.0), (2000.0, 360.0), (7000.0, 760.0)] {
        let median = median_ms(&learner, sent(tokens, 0), 1500 * SECOND);
        assert!((median / truth - 1.0).abs() < 0.2, "{tokens}: {median} for {truth}");
    }
}

#[test]
fn the_slope_of_the_load_is_found() {
    let mut learner = Learner::new();
    let mut draws = Draws::new(6);
    for second in 0..3000 {
        let in_flight = draws.0.u32(0..16);
        let median = 250.0 * f64::from(1 + in_flight).powf(0.5);
        learner.first_token(sent(1000.0, in_flight), draws.ttft(median, 0.2), second * SECOND);
    }
    let slope = learner.forecast().load_slope();
    assert!((slope - 0.5).abs() < 0.1, "{slope}");
}

#[test]
fn a_slow_down_is_noticed_after_two_and_forgotten_after_a_while() {
    let mut learner = steady(600);
    learner.first_token(sent(1000.0, 0), 1_500_000, 600 * SECOND);
    let once = median_ms(&learner, sent(1000.0, 0), 600 * SECOND);
    assert!(once < 450.0, "one straggler is one straggler: {once}");
    learner.first_token(sent(1000.0, 0), 1_500_000, 601 * SECOND);
    let slow = median_ms(&learner, sent(1000.0, 0), 601 * SECOND);
    assert!((1000.0..1700.0).contains(&slow), "{slow}");
    let later = median_ms(&learner, sent(1000.0, 0), 1200 * SECOND);
    assert!((later / 300.0 - 1.0).abs() < 0.15, "{later}");
}

#[test]
fn a_hang_is_noticed_by_those_that_were_cut() {
    let mut learner = steady(600);
    for second in 600..602 {
        learner.censored(sent(1000.0, 0), 700_000, second * SECOND);
    }
    let slow = median_ms(&learner, sent(1000.0, 0), 602 * SECOND);
    assert!(slow > 600.0, "{slow}");
}

#[test]
fn an_early_cut_tells_nothing() {
    let mut learner = steady(600);
    let before = (learner.forecast().seen(), median_ms(&learner, sent(1000.0, 0), 600 * SECOND));
    for second in 600..900 {
        learner.censored(sent(1000.0, 0), 40_000, second * SECOND);
    }
    let after = (learner.forecast().seen(), median_ms(&learner, sent(1000.0, 0), 600 * SECOND));
    assert!((before.0 - after.0).abs() < 1e-9 && (before.1 / after.1 - 1.0).abs() < 0.02, "{before:?} {after:?}");
}

#[test]
fn nonsense_changes_nothing() {
    let mut learner = Learner::new();
    learner.first_token(sent(f64::NAN, 0), 0, 0);
    learner.censored(sent(1000.0, u32::MAX), -5, 0);
    assert_eq!(learner.forecast().seen(), 0.0);
    learner.launched(7);
    learner.launched(5);
    assert_eq!((learner.forecast().launches(), learner.forecast().last_us()), (2, Some(7)));
    (0..5).for_each(|_| learner.failed(9));
    assert!(learner.forecast().throttled(9));
    learner.answered(9);
    assert!(!learner.forecast().throttled(9));
}

#[test]
fn attempts_that_hang_now_and_then_are_not_usual() {
    let mut learner = Learner::new();
    let mut draws = Draws::new(9);
    for second in 0..1_000 {
        if second % 30 == 0 {
            learner.censored(sent(1000.0, 0), 3 * SECOND, second * SECOND);
        } else {
            learner.first_token(sent(1000.0, 0), draws.ttft(300.0, 0.25), second * SECOND);
        }
    }
    let forecast = learner.forecast();
    let late_us = forecast.usual_p95_us(sent(1000.0, 0), 1_000 * SECOND);
    assert!(late_us < Some(900_000), "another one starts before three medians: {late_us:?}");
}

#[test]
fn a_quick_one_is_not_waited_for_as_by_the_prior_from_its_first_minute_on() {
    for (mut learner, who) in [(Learner::of_whole_answers(), "whole answers"), (Learner::new(), "first tokens")] {
        let mut draws = Draws::new(9);
        for request in 0..25 {
            learner.first_token(sent(20.0, 0), draws.ttft(50.0, 0.2), request * SECOND / 2);
        }
        let forecast = learner.forecast();
        let late_us = forecast.usual_p99_us(sent(20.0, 0), 13 * SECOND);
        assert!(late_us < Some(900_000), "{who}: {late_us:?}");
    }
}

#[test]
fn a_hang_that_lasts_teaches_nothing_of_what_is_usual() {
    for (mut learner, who) in [(steady(600), "known"), (Learner::new(), "unknown")] {
        let usual_us = |learner: &Learner| learner.forecast().usual_p95_us(sent(1000.0, 0), 600 * SECOND);
        let before_us = usual_us(&learner);
        for request in 0..200 {
            learner.launched((600 + request) * SECOND);
            learner.censored(sent(1000.0, 0), 2_500_000 + 10_000 * request, (600 + request) * SECOND);
        }
        let slow = learner.forecast().median_us(sent(1000.0, 0), 800 * SECOND);
        assert!(slow > 900_000.0, "{who}: it is slow now: {slow}");
        match (before_us, usual_us(&learner)) {
            (Some(before_us), Some(after_us)) => assert!(after_us <= 2 * before_us, "{before_us} {after_us}"),
            (before_us, after_us) => assert_eq!((before_us, after_us), (None, None), "{who}"),
        }
    }
}

#[test]
fn a_hang_of_before_says_nothing_once_one_that_was_sent_later_is_answered() {
    let mut learner = steady(600);
    (0..12).for_each(|request| learner.censored(sent(1000.0, 0), 3 * SECOND, (600 + request) * SECOND));
    learner.first_token(sent(1000.0, 0), 300_000, 620 * SECOND);
    let well_us = learner.forecast().median_us(sent(1000.0, 0), 620 * SECOND);
    assert!(well_us < 400_000.0, "one answer as usual: {well_us}");
    // They were sent during the hang, and are given up only now.
    (0..12).for_each(|request| learner.censored(sent(1000.0, 0), 30 * SECOND, (621 + request) * SECOND));
    let forecast = learner.forecast();
    assert!(forecast.median_us(sent(1000.0, 0), 633 * SECOND) < 400_000.0);
    assert!(forecast.shape.get().survival(1.5) < 0.01, "{}", forecast.shape.get().survival(1.5));
}

#[test]
fn one_that_has_only_failed_stays_unknown() {
    let mut learner = Learner::new();
    for request in 0..10 {
        learner.launched(request);
        learner.forget_launch();
    }
    assert!(learner.forecast().is_unknown(10));
    (0..3).for_each(|request| learner.launched(request));
    learner.first_token(sent(1000.0, 0), SECOND, 10);
    learner.forget_launch();
    assert!(!learner.forecast().is_unknown(10), "it has answered");
}
