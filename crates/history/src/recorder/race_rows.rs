//! Keeps the rows of one race together until all have arrived, then queues them; and the interface for observing a race.
//!
//! Not for writing: see `writer`.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::mpsc;

use super::state::StoreState;
use photofinish_facts::bill::{self, BillBounds};
use photofinish_facts::record::{AttemptRecord, Record};
use photofinish_metrics::{Metrics, UpstreamSeries};

/// Rows that may wait in memory; about 50 MB at most.
pub(super) const QUEUE_MAX: usize = 65_536;

/// Shared by all code that records rows of one race. The last drop sends the rows: no further row can arrive then.
pub(super) struct RaceSheet {
    kept: Mutex<RowsToSend>,
    /// None: nothing is stored.
    queue: Option<RowQueue>,
    race_observer: Option<Arc<dyn RaceObserver>>,
    /// None: its costs are not counted.
    metrics: Option<Arc<Metrics>>,
    payer: OnceLock<Arc<dyn RacePayer>>,
}

#[derive(Default)]
struct RowsToSend {
    rows: Vec<Record>,
    bills: Vec<AttemptBill>,
    end: Option<RaceEnd>,
}

/// Hears of the end of one race. Called within a request, so it must not wait.
pub type RaceEnd = Box<dyn FnOnce(&EndedRace<'_>) + Send>;

/// A race whose attempts are all over.
pub struct EndedRace<'r> {
    /// As they will be written.
    pub rows: &'r [Record],
    bills: &'r [AttemptBill],
}

impl EndedRace<'_> {
    /// From the dispatch of the attempt with this ordinal to its end; microseconds.
    pub fn took_us(&self, ordinal: i64) -> i64 {
        self.bills.iter().find(|bill| bill.ordinal == ordinal).map_or(0, |bill| bill.took_us)
    }
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
    pub(super) fn new(
        queue: Option<RowQueue>,
        race_observer: Option<Arc<dyn RaceObserver>>,
        metrics: Option<Arc<Metrics>>,
    ) -> RaceSheet {
        RaceSheet { kept: Mutex::default(), queue, race_observer, metrics, payer: OnceLock::new() }
    }

    pub(super) fn add(&self, record: Record) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).rows.push(record);
    }

    /// The first payer stays.
    pub(super) fn pays(&self, payer: Arc<dyn RacePayer>) {
        let _ = self.payer.set(payer);
    }

    /// The upstream of the attempt with this ordinal, if its row is there.
    pub(super) fn upstream(&self, ordinal: i64) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.rows.iter().find_map(|row| match row {
            Record::Attempt(attempt) if attempt.ordinal == ordinal => {
                Some(format!("{}/{}", attempt.provider, attempt.model_sent))
            }
            _ => None,
        })
    }

    pub(super) fn bill(&self, ordinal: i64, bounds: BillBounds) {
        let bill = AttemptBill { ordinal, bounds, series: None, took_us: 0 };
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).bills.push(bill);
    }

    /// Only the last one stays.
    pub(super) fn ends_with(&self, end: RaceEnd) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).end = Some(end);
    }

    /// The series that count the cost of the attempt with this ordinal, which took this long.
    pub(super) fn counts_in(&self, ordinal: i64, series: UpstreamSeries, took_us: i64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bill) = kept.bills.iter_mut().find(|bill| bill.ordinal == ordinal) {
            (bill.series, bill.took_us) = (Some(series), took_us);
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
        settle(&mut rows, &bills, self.metrics.as_deref());
        if let Some(race_observer) = &self.race_observer {
            race_observer.settled(&rows);
        }
        if let Some(payer) = self.payer.get() {
            payer.settled(&rows);
        }
        if let Some(end) = end {
            end(&EndedRace { rows: &rows, bills: &bills });
        }
        if let Some(queue) = &self.queue {
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

/// Pays for one race.
pub trait RacePayer: Send + Sync {
    /// The race is over. `rows`: all its rows, with the costs of its attempts.
    fn settled(&self, rows: &[Record]);
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

/// The progress of an attempt. Its end is in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStep {
    /// It asks for a connection.
    Dispatched,
    /// The request is sent.
    Connected,
    /// Status and headers were read.
    Headers,
    /// The first payload was read.
    FirstToken,
}
