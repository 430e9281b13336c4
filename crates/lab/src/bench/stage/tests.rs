//! Known requests, and the figures that follow.

use std::time::Duration;

use super::*;
use crate::bench::prompt::Workload;

/// Sent at `at_ms`; the first of its ten tokens comes after 100 ms, the last after a second.
fn answer(at_ms: i64) -> MeasuredRequest {
    MeasuredRequest {
        scheduled_us: at_ms * 1_000,
        sent_us: at_ms * 1_000,
        ended_us: (at_ms + 1_000) * 1_000,
        end: RequestEnd::Answered,
        ttft_us: Some(100_000),
        e2e_us: Some(1_000_000),
        tpot_us: Some(100_000.0),
        output_tokens: Some(10),
        ..MeasuredRequest::default()
    }
}

fn measured(load: Load, requests: Vec<MeasuredRequest>, issued_ms: i64, slo: Option<&str>) -> StageFigures {
    let block = BlockResult { load, requests, issued_us: issued_ms * 1_000, stop: None, client: ClientLoad::default() };
    let workload = Workload::new("w", 40, 10);
    let parse = |text: &str| photofinish_config::units::parse_duration(text).map_err(|error| error.to_string());
    let question = StageQuestion {
        workload: &workload,
        unique: true,
        made: true,
        warm_up: Some(Duration::from_secs(1)),
        slo: slo.map(|slo| super::super::measured::LoadSlo::parse(slo, parse).unwrap()),
        calibration_us: None,
    };
    figures("a/m", &[block], &question)
}

const OPEN: Load = Load::Rate { per_second: 2.0, arrivals: crate::bench::block::Arrivals::Constant };

#[test]
fn tokens_of_the_warm_up_count_when_they_come_within_the_window() {
    // A user after the other: one answer always runs, ten tokens a second, also from 0.5 s on, in the warm-up.
    let requests: Vec<MeasuredRequest> = (0..11).map(|at| answer(500 + at * 1_000)).collect();
    let stage = measured(Load::Users(1), requests, 10_500, None);
    // From the first request after the warm-up (1.5 s) to the last one sent (10.5 s).
    assert_eq!((stage.warm_up, stage.seconds), (1, 9.0));
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    near(stage.in_flight, 1.0);
    near(stage.tok_s_all.unwrap(), 10.0);

    // Two overlapping answers; the window begins in the middle of the first one.
    let requests = vec![answer(500), answer(1_000), answer(9_000)];
    let stage = measured(Load::Users(2), requests, 9_000, None);
    near(stage.in_flight, (0.5 + 1.0) / 8.0);
    // Nine tenths of a second long are the tokens of an answer: five ninths of the first come after 1 s.
    near(stage.tok_s_all.unwrap(), (10.0 * 5.0 / 9.0 + 10.0) / 8.0);
}

#[test]
fn what_was_never_sent_has_no_lag() {
    let late = |at: i64| MeasuredRequest { sent_us: at * 1_000 + 3_000, ..answer(at) };
    let dropped = |at: i64| MeasuredRequest { end: RequestEnd::Dropped, ..answer(at) };
    let requests = (1_000..1_010).map(late).chain((1_010..2_000).map(dropped)).collect();
    let stage = measured(OPEN, requests, 2_000, None);
    assert_eq!((stage.lag_p50_ms, stage.lag_p99_ms), (Some(3.0), Some(3.0)));
    assert_eq!((stage.count(RequestEnd::Answered), stage.count(RequestEnd::Dropped)), (10, 990));
}

#[test]
fn a_request_of_unknown_speed_is_neither_good_nor_bad() {
    let unknown = |at: i64| MeasuredRequest { tpot_us: None, ..answer(at) };
    let requests = (10..20).map(|at| answer(at * 100)).chain((20..40).map(|at| unknown(at * 100))).collect();
    let stage = measured(OPEN, requests, 4_000, Some("tpot=150ms"));
    assert_eq!(stage.attainment.map(|share| share.value), Some(1.0));
    let stage = measured(OPEN, (10..40).map(|at| unknown(at * 100)).collect(), 4_000, Some("tpot=150ms"));
    assert_eq!(stage.attainment, None);
}
