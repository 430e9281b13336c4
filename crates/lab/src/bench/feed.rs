//! Rows of finished races, handed to the measured requests that wait for them. Not for the rows of clients, nor for the
//! store, which gets the same rows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::measured::{MeasuredRequest, RequestEnd};
use photofinish_base::failure::FailureKind;
use photofinish_history::estimate::speed::{Decoding, came_at_once};
use photofinish_history::record::table::Subset as _;
use photofinish_history::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord, RaceSource};
use photofinish_history::recorder::{AttemptStep, RaceObserver};
use photofinish_history::store::Record;

/// How long the rows of a request are awaited after its answer has ended: losers may run on to be audited or drained, which
/// takes a minute at most unless `drains` under `[race]` says otherwise.
const ROWS_FOR: Duration = Duration::from_secs(90);
/// Races whose rows nobody has asked for yet.
const UNASKED_MAX: usize = 100_000;

/// Receives the rows of all races of a gateway; keeps those of benchmarks and probes until they are asked for.
#[derive(Debug, Default)]
pub struct RowFeed(Mutex<HashMap<String, WaitingRows>>);

#[derive(Debug)]
enum WaitingRows {
    /// They came first.
    Rows(Box<MeasuredRequest>),
    /// The request came first.
    Request(oneshot::Sender<Box<MeasuredRequest>>),
}

impl RowFeed {
    pub fn new() -> Arc<RowFeed> {
        Arc::default()
    }

    /// What the rows of this race say, once all of them are there; none if they do not come.
    pub(super) async fn measured(&self, race_id: &str) -> Option<MeasuredRequest> {
        let receiver = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(WaitingRows::Rows(measured)) = waiting.remove(race_id) {
                return Some(*measured);
            }
            let (sender, receiver) = oneshot::channel();
            waiting.insert(race_id.to_owned(), WaitingRows::Request(sender));
            receiver
        };
        let measured = tokio::time::timeout(ROWS_FOR, receiver).await;
        if measured.is_err() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(race_id);
        }
        measured.ok()?.ok().map(|measured| *measured)
    }
}

impl RaceObserver for RowFeed {
    fn step(&self, _attempt: &AttemptRecord, _step: AttemptStep, _at_us: i64) {}

    fn committed(&self, _race_id: &str, _ordinal: i64) {}

    fn recorded(&self, _record: &Record) {}

    fn settled(&self, rows: &[Record]) {
        let Some((race_id, measured)) = measured(rows) else { return };
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.remove(&race_id) {
            // It has given up waiting: nobody needs them.
            Some(WaitingRows::Request(sender)) => drop(sender.send(Box::new(measured))),
            _ if waiting.len() < UNASKED_MAX => {
                waiting.insert(race_id, WaitingRows::Rows(Box::new(measured)));
            }
            _ => {}
        }
    }
}

/// Its times count from the scheduled time, or else from when the gateway read the request. None: the rows of a client.
fn measured(rows: &[Record]) -> Option<(String, MeasuredRequest)> {
    let race = rows.iter().find_map(|row| if let Record::Race(race) = row { Some(race) } else { None })?;
    if race.source == RaceSource::Client {
        return None;
    }
    let mut attempts: Vec<&AttemptRecord> = rows
        .iter()
        .filter_map(|row| if let Record::Attempt(attempt) = row { Some(&**attempt) } else { None })
        .collect();
    attempts.sort_by_key(|attempt| attempt.ordinal);
    let winner = attempts.iter().find(|attempt| Some(attempt.ordinal) == race.winner);
    let scheduled_us = race.scheduled_us.unwrap_or(0);
    let first_us = attempts.first().map_or(0, |attempt| attempt.dispatch_us);
    let since_first = |attempt: &AttemptRecord, at: Option<i64>| Some(attempt.dispatch_us - first_us + at?);
    let (end, failure) = end(race, winner.copied(), attempts.last().copied());
    let decoding = winner.map(|winner| Decoding::of(winner));
    let measured = MeasuredRequest {
        number: 0,
        scheduled_us: 0,
        sent_us: first_us - scheduled_us,
        ended_us: race.done_us.unwrap_or(first_us) - scheduled_us,
        end,
        failure,
        ttft_us: winner.and_then(|winner| since_first(winner, winner.first_token_us)),
        e2e_us: winner.and_then(|winner| since_first(winner, winner.last_token_us)),
        tpot_us: decoding.as_ref().and_then(|decoding| decoding.tpot_us(race.n_choices)),
        output_tokens: decoding.as_ref().and_then(Decoding::tokens_out),
        at_once: winner.is_some_and(|winner| came_at_once(winner.payload_events, winner.output_tokens)),
        input_tokens: winner.and_then(|winner| winner.input_tokens),
        cached_input_tokens: winner.and_then(|winner| winner.cached_input_tokens),
        cost_usd: (
            attempts.iter().filter_map(|attempt| attempt.cost_usd_min).sum(),
            attempts.iter().filter_map(|attempt| attempt.cost_usd_max).sum(),
        ),
        unpriced: attempts.iter().any(|attempt| attempt.cost_usd_max.is_none()),
        conn_reused: winner.and_then(|winner| winner.conn_reused),
        attempts: race.attempts,
    };
    Some((race.race_id.clone(), measured))
}

fn end(
    race: &RaceRecord,
    winner: Option<&AttemptRecord>,
    last: Option<&AttemptRecord>,
) -> (RequestEnd, Option<&'static str>) {
    let failed = |attempt: &AttemptRecord| {
        let failure = attempt.failure.unwrap_or(attempt.outcome.as_str());
        let end = match attempt.outcome {
            AttemptOutcome::Timeout => RequestEnd::TimedOut,
            _ if failure == FailureKind::Timeout.as_str() => RequestEnd::TimedOut,
            _ if failure == "rate_limited" => RequestEnd::RateLimited,
            _ => RequestEnd::Failed,
        };
        (end, Some(failure))
    };
    match race.outcome {
        RaceOutcome::Ok if winner.is_some_and(|winner| winner.outcome == AttemptOutcome::Won) => {
            (RequestEnd::Answered, None)
        }
        RaceOutcome::ClientGone | RaceOutcome::Shutdown => (RequestEnd::CutShort, None),
        // The gateway sets an upstream aside after a 429, and then sends nothing.
        RaceOutcome::Rejected if race.http_status == Some(429) => (RequestEnd::RateLimited, Some("rate_limited")),
        _ => match winner.or(last) {
            Some(attempt) => failed(attempt),
            None => (RequestEnd::Failed, Some("rejected")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_history::record::sample;

    fn settled(race: RaceRecord, attempts: Vec<AttemptRecord>) -> MeasuredRequest {
        let race = RaceRecord { source: RaceSource::Bench, ..race };
        let rows: Vec<Record> = std::iter::once(Record::Race(Box::new(race)))
            .chain(attempts.into_iter().map(|attempt| Record::Attempt(Box::new(attempt))))
            .collect();
        measured(&rows).unwrap().1
    }

    #[test]
    fn an_answer_is_measured_from_its_first_dispatch() {
        let race = RaceRecord {
            winner: Some(1),
            outcome: RaceOutcome::Ok,
            scheduled_us: Some(-70),
            done_us: Some(9_000),
            ..sample::race(1)
        };
        let dead = AttemptRecord { ordinal: 0, dispatch_us: 100, ..sample::failed(1) };
        let won = AttemptRecord { ordinal: 1, dispatch_us: 1_100, ..sample::won(1) };
        let measured = settled(race, vec![won.clone(), dead]);
        assert_eq!(measured.end, RequestEnd::Answered);
        assert_eq!(measured.ttft_us, won.first_token_us.map(|at| at + 1_000), "a failed first try is part of it");
        let placed = measured.scheduled_at(5_000);
        assert_eq!((placed.scheduled_us, placed.sent_us, placed.ended_us), (5_000, 5_170, 14_070));
    }

    #[test]
    fn failures_have_their_names() {
        let bare = |outcome, status| RaceRecord { winner: None, outcome, http_status: status, ..sample::race(1) };
        let limited = AttemptRecord { failure: Some("rate_limited"), ..sample::failed(1) };
        let late = AttemptRecord { outcome: AttemptOutcome::Timeout, failure: Some("timeout"), ..sample::failed(1) };
        for (race, attempts, end) in [
            (bare(RaceOutcome::Error, Some(429)), vec![limited], RequestEnd::RateLimited),
            (bare(RaceOutcome::Rejected, Some(429)), vec![], RequestEnd::RateLimited),
            (bare(RaceOutcome::Error, Some(504)), vec![late], RequestEnd::TimedOut),
            (bare(RaceOutcome::Error, Some(502)), vec![sample::failed(1)], RequestEnd::Failed),
            (bare(RaceOutcome::Rejected, Some(503)), vec![], RequestEnd::Failed),
            (bare(RaceOutcome::ClientGone, None), vec![], RequestEnd::CutShort),
        ] {
            assert_eq!(settled(race, attempts).end, end);
        }
    }

    #[tokio::test]
    async fn rows_and_requests_may_come_in_either_order() {
        let feed = RowFeed::new();
        let rows = |source| [Record::Race(Box::new(RaceRecord { source, ..sample::race(1) }))];
        let id = sample::race(1).race_id;
        feed.settled(&rows(RaceSource::Client));
        assert!(feed.0.lock().unwrap().is_empty(), "a client's are not kept");
        feed.settled(&rows(RaceSource::Bench));
        assert!(feed.measured(&id).await.is_some());
        let (waits, ()) = tokio::join!(feed.measured(&id), async { feed.settled(&rows(RaceSource::Probe)) });
        assert!(waits.is_some());
        assert!(feed.0.lock().unwrap().is_empty(), "nothing is kept");
    }
}
