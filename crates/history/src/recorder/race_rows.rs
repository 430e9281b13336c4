//! Keeps the rows of one race together until all have arrived, then queues them; and the interface for observing races.
//!
//! Not for writing: see `writer`.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::mpsc;

use super::live::LiveFeed;
use super::state::StoreState;
use photofinish_facts::bill::{self, BillBounds};
use photofinish_facts::record::{AttemptRecord, LeftOutReason, RaceRecord, RaceSource, Record};
use photofinish_facts::recording::{AttemptStep, EndedRace, RaceEnd, RacePayer, RaceSink};
use photofinish_metrics::{Metrics, UpstreamSeries};

/// Rows that may wait in memory; about 50 MB at most.
pub(super) const QUEUE_MAX: usize = 65_536;

/// Who gets the rows of races, and hears of them.
#[derive(Clone, Default)]
pub(super) struct RowTargets {
    /// None: nothing is stored.
    pub queue: Option<RowQueue>,
    pub metrics: Arc<Metrics>,
    pub race_observer: Option<Arc<dyn RaceObserver>>,
    pub live: Arc<LiveFeed>,
}

/// Shared by all code that records rows of one race. The last drop sends the rows: no further row can arrive then.
pub(super) struct RaceSheet {
    kept: Mutex<RowsToSend>,
    targets: Arc<RowTargets>,
    payer: OnceLock<Arc<dyn RacePayer>>,
    /// Whose race it is: metrics and live events are of clients only.
    source: RaceSource,
    /// Watchers get all its events.
    is_watched: bool,
}

#[derive(Default)]
struct RowsToSend {
    rows: Vec<Record>,
    bills: Vec<AttemptBill>,
    end: Option<RaceEnd>,
}

struct AttemptBill {
    ordinal: i64,
    bounds: BillBounds,
    /// None: its row has not arrived, or its race is no client's.
    series: Option<UpstreamSeries>,
    /// From its dispatch to its end.
    took_us: i64,
}

impl RaceSheet {
    pub(super) fn new(targets: Arc<RowTargets>, source: RaceSource) -> RaceSheet {
        let is_watched = source == RaceSource::Client && targets.live.takes_race();
        RaceSheet { kept: Mutex::default(), targets, payer: OnceLock::new(), source, is_watched }
    }

    fn kept(&self) -> MutexGuard<'_, RowsToSend> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of_client(&self) -> bool {
        self.source == RaceSource::Client
    }

    fn add(&self, record: Record) {
        if let Some(race_observer) = &self.targets.race_observer {
            race_observer.recorded(&record);
        }
        self.kept().rows.push(record);
    }

    /// The upstream of the attempt with this ordinal, if its row is there.
    fn upstream(&self, ordinal: i64) -> Option<String> {
        self.kept().rows.iter().find_map(|row| match row {
            Record::Attempt(attempt) if attempt.ordinal == ordinal => {
                Some(format!("{}/{}", attempt.provider, attempt.model_sent))
            }
            _ => None,
        })
    }
}

impl RaceSink for RaceSheet {
    fn paid_by(&self, payer: Arc<dyn RacePayer>) {
        let _ = self.payer.set(payer);
    }

    fn ends_with(&self, end: RaceEnd) {
        self.kept().end = Some(end);
    }

    fn planned(&self, race: &RaceRecord) {
        if self.is_watched {
            self.targets.live.planned(race);
        }
    }

    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64) {
        if let Some(race_observer) = &self.targets.race_observer {
            race_observer.step(attempt, step, at_us);
        }
        if self.is_watched {
            self.targets.live.step(attempt, step, at_us);
        }
    }

    fn committed(&self, race_id: &str, ordinal: i64) {
        if let Some(race_observer) = &self.targets.race_observer {
            race_observer.committed(race_id, ordinal);
        }
        if self.is_watched {
            self.targets.live.committed(race_id, ordinal);
        }
    }

    fn bill(&self, ordinal: i64, bounds: BillBounds) {
        self.kept().bills.push(AttemptBill { ordinal, bounds, series: None, took_us: 0 });
    }

    fn attempt(&self, attempt: Box<AttemptRecord>, choices: Option<i64>, took_us: i64) {
        let metrics = &self.targets.metrics;
        let series = match self.source {
            RaceSource::Client => Some(metrics.attempt(&attempt, choices, took_us)),
            RaceSource::Shadow => Some(metrics.series(&attempt)),
            RaceSource::Probe | RaceSource::Bench => None,
        };
        if let Some(series) = series
            && let Some(bill) = self.kept().bills.iter_mut().find(|bill| bill.ordinal == attempt.ordinal)
        {
            (bill.series, bill.took_us) = (Some(series), took_us);
        }
        if self.is_watched {
            self.targets.live.ended(&attempt);
        }
        self.add(Record::Attempt(attempt));
    }

    fn decided(&self, refused_hedge: bool, left_out: &mut dyn Iterator<Item = LeftOutReason>) {
        if self.is_of_client() {
            self.targets.metrics.decided(refused_hedge, left_out);
        }
    }

    fn race(&self, race: Box<RaceRecord>, overhead_us: Option<i64>) {
        self.counted(&race, overhead_us);
        if self.is_of_client() && self.targets.live.is_watched() {
            let winner = race.winner.and_then(|ordinal| self.upstream(ordinal));
            self.targets.live.done(&race, winner.as_deref());
        }
        self.add(Record::Race(race));
    }

    fn counted(&self, race: &RaceRecord, overhead_us: Option<i64>) {
        if self.is_of_client() {
            self.targets.metrics.race(race, overhead_us);
        }
    }
}

impl Drop for RaceSheet {
    fn drop(&mut self) {
        let RowsToSend { mut rows, bills, end } =
            std::mem::take(self.kept.get_mut().unwrap_or_else(PoisonError::into_inner));
        if rows.is_empty() {
            return;
        }
        let is_counted = matches!(self.source, RaceSource::Client | RaceSource::Shadow);
        settle(&mut rows, &bills, is_counted.then_some(&self.targets.metrics));
        if let Some(race_observer) = &self.targets.race_observer {
            race_observer.settled(&rows);
        }
        if let Some(payer) = self.payer.get() {
            payer.settled(&rows);
        }
        if let Some(end) = end {
            let of = |ordinal| bills.iter().find(|bill| bill.ordinal == ordinal);
            end(&EndedRace { rows: &rows, took_us: &|ordinal| of(ordinal).map_or(0, |bill| bill.took_us) });
        }
        if let Some(queue) = &self.targets.queue {
            queue.send(rows);
        }
    }
}

/// Fills in the bounds of each attempt's cost, and counts them. They are known once all attempts are over.
fn settle(rows: &mut [Record], bills: &[AttemptBill], metrics: Option<&Metrics>) {
    let (mut race, mut attempts) = (None, Vec::with_capacity(bills.len()));
    for row in rows {
        match row {
            Record::Race(record) => race = Some(&**record),
            Record::Attempt(record) => {
                if let Some(bill) = bills.iter().find(|bill| bill.ordinal == record.ordinal) {
                    attempts.push((&mut **record, bill.bounds));
                }
            }
            Record::Run(_) | Record::Incident(_) => {}
        }
    }
    if let Some(race) = race {
        bill::settle(race, &mut attempts);
        if let Some(metrics) = metrics {
            let series = |ordinal| bills.iter().find(|bill| bill.ordinal == ordinal)?.series.as_ref();
            metrics.costs(race, attempts.iter().filter_map(|(row, _)| Some((&**row, series(row.ordinal)?))));
        }
    }
}

/// The queue of the writer, for groups of rows. Its bound counts rows.
#[derive(Clone)]
pub(super) struct RowQueue {
    pub sender: mpsc::Sender<Vec<Record>>,
    pub state: Arc<StoreState>,
}

impl RowQueue {
    /// Never waits.
    pub(super) fn send(&self, rows: Vec<Record>) {
        let count = rows.len();
        // Counted before sending, so that the writer never subtracts more than was added.
        let before = self.state.add(count);
        if before + count <= QUEUE_MAX && self.sender.try_send(rows).is_ok() {
            return;
        }
        self.state.lose(count);
        if self.state.overflow.is_due() {
            let dropped = self.state.dropped();
            let why = if self.sender.is_closed() { "their writer has ended" } else { "their queue is full" };
            tracing::error!(dropped, "rows of the history are lost: {why}");
        }
    }
}

/// Receives the events of races as they happen. It is called within a request, so it must not wait.
pub trait RaceObserver: Send + Sync {
    /// An attempt made a step, `at_us` microseconds after its dispatch. `attempt` has only the values known at that
    /// step, without the times of events in the body.
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64);

    /// The client's response is bound to the attempt with this ordinal.
    fn committed(&self, race_id: &str, ordinal: i64);

    /// A row is complete: its attempt, or its race, is over. The bounds of an attempt's cost are set when its race
    /// ends.
    fn recorded(&self, record: &Record);

    /// A race is over. `rows`: all its rows, as they will be written.
    fn settled(&self, rows: &[Record]);
}
