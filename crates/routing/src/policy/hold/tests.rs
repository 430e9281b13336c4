//! When a first token is held back, and which attempts of a race to the whole answer are cut.

use super::*;
use crate::forecast::{LatencyForecast, Learner, SendConditions};
use crate::money::BudgetSnapshot;

const SECOND: i64 = 1_000_000;

/// Of a TTFT of 300 ms, a little more or less, and this much between two tokens.
fn known(tpot_us: f64) -> LatencyForecast {
    let mut learner = Learner::new();
    for step in 0..200 {
        learner.first_token(SendConditions::default(), 280_000 + 200 * step, step * SECOND);
        learner.decoded(tpot_us, 200, 0, step * SECOND);
    }
    learner.forecast()
}

fn question<'a>(candidates: &'a [CandidateForecast<'a>], aim: Minimise) -> AdaptiveQuestion<'a> {
    let (lambda_us, mean_cost, p99_us, answer_tokens) = (1e5, 1.0, 9e5, 200.0);
    let terms = BudgetSnapshot {
        lambda_us,
        mean_cost,
        p99_us,
        whole_p99_us: p99_us,
        answer_tokens,
        bucket: 9.0,
        capacity: 9.0,
        budget: 0.1,
    };
    AdaptiveQuestion {
        candidates,
        aim,
        terms,
        p99_us,
        tpot_least_us: 20_000.0,
        us_per_cost: 0.0,
        max_running: 3,
        now: 200 * SECOND,
        elapsed_us: 250_000,
    }
}

fn candidate(forecast: &LatencyForecast) -> CandidateForecast<'_> {
    let sent = SendConditions::default();
    CandidateForecast { forecast, sent, cost: 1.0, price: 1.0, domain: None, out: false, throttled: false }
}

#[test]
fn a_first_token_is_held_for_one_that_will_be_done_sooner() {
    let (slow, fluent) = (known(40_000.0), known(10_000.0));
    let candidates = [candidate(&slow), candidate(&fluent)];
    let held = |aim, ready: usize, waited_us, hold_max_us| {
        let other = [AttemptView::waiting(1 - ready, waited_us)];
        hold(&question(&candidates, aim), ready, &other, hold_max_us)
    };
    assert!(held(Minimise::Completion, 0, 250_000, 300_000).is_some_and(|hold_us| hold_us >= 100_000));
    assert_eq!(held(Minimise::Completion, 1, 250_000, 300_000), None, "the other would be later");
    assert_eq!(held(Minimise::Completion, 0, 250_000, 40_000), None, "not for longer than it may be");
    assert_eq!(held(Minimise::Ttft, 0, 250_000, 300_000), None);
    let both = Minimise::Goodput { ttft_us: 500_000, tpot_us: 20_000 };
    assert!(held(both, 0, 250_000, 300_000).is_some());
    assert_eq!(held(both, 1, 250_000, 300_000), None);
    let soon = Minimise::Goodput { ttft_us: 260_000, tpot_us: 20_000 };
    assert_eq!(held(soon, 0, 250_000, 300_000), None, "it would be late itself");
    assert_eq!(hold(&question(&candidates, Minimise::Completion), 9, &[], SECOND), None);
}

#[test]
fn those_that_will_finish_late_are_hopeless_once_one_has_shown_its_pace() {
    let (slow, fluent) = (known(40_000.0), known(10_000.0));
    let candidates = [candidate(&slow), candidate(&fluent), candidate(&slow)];
    let question = question(&candidates, Minimise::Completion);
    let progress = |candidate, waited_us, tokens| AttemptView {
        candidate,
        waited_us,
        first_token_us: (tokens > 0).then_some(300_000),
        tokens,
    };
    let early = [progress(0, 300_000, 1), progress(1, 310_000, 2)];
    assert!(hopeless(&question, &early).is_empty());
    let shown = [progress(0, 400_000, 3), progress(1, 400_000, 11), progress(2, 100_000, 0)];
    assert!(hopeless(&question, &shown).iter().eq([0, 2]));
    let alike = [progress(1, 400_000, 11), progress(1, 410_000, 12)];
    assert!(hopeless(&question, &alike).is_empty());
    let crawling = [progress(1, 4_000_000, 10), progress(0, 500_000, 6)];
    assert!(hopeless(&question, &crawling).iter().eq([1]), "what it shows counts, not what it is known for");
}
