//! A test: a server that stalls, measured by a closed and by an open loop, computed instead of served.

use std::time::Duration;

use super::block::{Arrivals, BlockResult, Load};
use super::measured::{LoadSlo, MeasuredRequest, RequestEnd};
use super::prompt::Workload;
use super::stage::{self, StageFigures, StageQuestion};
use super::trust::ClientLoad;

const MS: i64 = 1_000;
const LENGTH: Duration = Duration::from_secs(400);
/// It stalls for 2 s every 20 s, first after 20 s.
const STALL_US: i64 = 2_000 * MS;
const EVERY_US: i64 = 20_000 * MS;
/// To the first token, and from there to the last.
const FIRST_US: i64 = 100 * MS;
const REST_US: i64 = 270 * MS;

/// When work that begins at `from` is done: nothing is done in a stall.
fn after(from: i64, work: i64) -> i64 {
    let begin = |at: i64| if at >= EVERY_US && at % EVERY_US < STALL_US { at - at % EVERY_US + STALL_US } else { at };
    let from = begin(from);
    let done = from + work;
    let next = (from / EVERY_US + 1) * EVERY_US;
    if done < next { done } else { done + STALL_US }
}

fn served(at: i64) -> MeasuredRequest {
    let first = after(at, FIRST_US);
    let last = after(first, REST_US);
    MeasuredRequest {
        scheduled_us: at,
        sent_us: at,
        ended_us: last,
        end: RequestEnd::Answered,
        ttft_us: Some(first - at),
        e2e_us: Some(last - at),
        ..MeasuredRequest::default()
    }
}

fn figures(load: Load, requests: Vec<MeasuredRequest>) -> StageFigures {
    let issued_us = i64::try_from(LENGTH.as_micros()).unwrap();
    let block = BlockResult { load, requests, issued_us, stop: None, client: ClientLoad::default() };
    let question = StageQuestion {
        workload: &Workload::new("w", 500, 30),
        unique: true,
        made: true,
        warm_up: Some(Duration::ZERO),
        slo: Some(LoadSlo { ttft_us: Some(500 * MS), tpot_us: None, e2e_us: None }),
        calibration_us: None,
    };
    stage::figures("a/m", &[block], &question)
}

#[test]
fn an_open_loop_shows_the_stall_that_a_closed_one_hides() {
    let mut user = Vec::new();
    let mut at = 0;
    while at < 400_000 * MS {
        user.push(served(at));
        at = user[user.len() - 1].ended_us;
    }
    let closed = figures(Load::Users(1), user);
    let arrivals = Arrivals::Poisson;
    let times = arrivals.draw(2.4, LENGTH, usize::MAX, 7);
    let open = figures(Load::Rate { per_second: 2.4, arrivals }, times.into_iter().map(served).collect());
    let (hidden, shown) = (closed.ttft_ms.unwrap(), open.client_ttft_ms.unwrap());
    assert!(hidden.n.abs_diff(shown.n) < 100, "about as many requests: {} and {}", hidden.n, shown.n);
    assert_eq!((hidden.p50.value, shown.p50.value), (100.0, 100.0));
    assert!(hidden.p95.value == 100.0 && shown.p95.value > 500.0, "{hidden:?} {shown:?}");
    // The user meets each of the 19 stalls with one request at most; 2.4 a second arrive in them.
    let late = |stage: &StageFigures| (1.0 - stage.attainment.unwrap().value) * stage.requests() as f64;
    assert!(late(&closed) < 19.5 && late(&open) > 60.0, "{} and {}", late(&closed), late(&open));
}
