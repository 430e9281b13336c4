//! The way of every row into the store: a bounded queue, one writer task, batches.
//!
//! Whoever records never waits: a full queue drops the record and counts it. A store that is locked or full delays only
//! the writer, which keeps its batch and tries again. Owns its tasks apart from the gateway's other ones: it must outlive
//! everything that records.

mod onlooker;

pub use onlooker::{Onlooker, Step};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::clock::micros_between;
use crate::history::{AttemptRecord, RaceRecord, invariants};
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::store::{Record, Store, WriteError};

/// Records that may wait; about 50 MB at most.
pub const QUEUE_MAX: usize = 65_536;

/// Records in one transaction.
const BATCH_MAX: usize = 1_000;

/// How long the first record of a batch waits for company. Bounds what a crash may lose.
const LINGER: Duration = Duration::from_millis(50);

/// Between tries while the store cannot take a batch; doubles from the first to the last.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// The same complaint is logged at most once in this time.
const QUIET: Duration = Duration::from_secs(5);

/// Takes the rows. Cheap to clone; all clones feed one queue.
#[derive(Clone)]
pub struct Recorder {
    /// None where nothing is to be stored.
    queue: Option<mpsc::Sender<Record>>,
    metrics: Arc<Metrics>,
    state: Arc<State>,
    onlooker: Option<Arc<dyn Onlooker>>,
}

/// The writer task, to be finished after everything that records.
pub struct Writer {
    tasks: Shutdown,
    task: JoinHandle<()>,
    state: Arc<State>,
}

impl Recorder {
    /// Spawns the writer task.
    pub fn start(store: Store) -> (Recorder, Writer) {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let state = Arc::new(State::new());
        let tasks = Shutdown::new();
        let writing = Writing { store, receiver, batch: Vec::with_capacity(BATCH_MAX), state: Arc::clone(&state) };
        let task = tasks.spawn(writing.run(tasks.clone()));
        let recorder =
            Recorder { queue: Some(queue), metrics: Arc::default(), state: Arc::clone(&state), onlooker: None };
        (recorder, Writer { tasks, task, state })
    }

    /// Stores nothing; whoever watches hears of every row all the same.
    pub fn without_store() -> Recorder {
        Recorder { queue: None, metrics: Arc::default(), state: Arc::new(State::new()), onlooker: None }
    }

    /// The same, with somebody who looks on. Clones made before are not watched.
    pub fn watched(self, onlooker: Arc<dyn Onlooker>) -> Recorder {
        Recorder { onlooker: Some(onlooker), ..self }
    }

    /// See [`Onlooker::step`].
    pub fn step(&self, attempt: &AttemptRecord, step: Step, at_us: i64) {
        if let Some(onlooker) = &self.onlooker {
            onlooker.step(attempt, step, at_us);
        }
    }

    /// See [`Onlooker::committed`].
    pub fn committed(&self, race_id: &str, ordinal: i64) {
        if let Some(onlooker) = &self.onlooker {
            onlooker.committed(race_id, ordinal);
        }
    }

    /// Never waits. `overhead_us`: see [`Metrics::race`].
    pub fn race(&self, race: RaceRecord, overhead_us: Option<i64>) {
        self.metrics.race(&race, overhead_us);
        self.send(Record::Race(Box::new(race)));
    }

    /// Never waits. `choices` and `took_us`: see [`Metrics::attempt`].
    pub fn attempt(&self, attempt: AttemptRecord, choices: Option<i64>, took_us: i64) {
        self.metrics.attempt(&attempt, choices, took_us);
        self.send(Record::Attempt(Box::new(attempt)));
    }

    /// Told of every record, also of those that are lost.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Records that were taken and are not written yet.
    pub fn depth(&self) -> usize {
        self.state.waiting()
    }

    /// Records in the database since the start.
    pub fn written(&self) -> u64 {
        self.state.written.load(Relaxed)
    }

    /// Records lost since the start: the queue was full, or the store can never take them.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Relaxed)
    }

    /// Attempts whose row contradicted itself. They were written all the same.
    pub fn violations(&self) -> u64 {
        self.state.violations.load(Relaxed)
    }

    /// Whether the last batch went in; true before the first.
    pub fn store_ok(&self) -> bool {
        *self.state.store_ok.borrow()
    }

    fn send(&self, record: Record) {
        if let Some(onlooker) = &self.onlooker {
            onlooker.recorded(&record);
        }
        let Some(queue) = &self.queue else { return };
        // Counted before it is sent, so that the writer never takes off what was not added.
        self.state.pending.fetch_add(1, Relaxed);
        if queue.try_send(record).is_err() {
            self.state.lose(1);
            if self.state.overflow.is_due() {
                tracing::warn!(dropped = self.dropped(), "the record queue is full: rows of the history are lost");
            }
        }
    }
}

impl Writer {
    /// Takes no more records, writes those that it has, and closes the store; at most `limit`. Returns how many records
    /// were lost at the end.
    pub async fn finish(self, limit: Duration) -> usize {
        let lost_before = self.state.dropped.load(Relaxed);
        self.tasks.drain();
        if !self.tasks.finished(limit).await {
            // The transaction under way is undone with its connection.
            self.task.abort();
        }
        self.state.lose(self.state.waiting());
        let dropped = self.state.dropped.load(Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "rows of the history were lost since the start");
        }
        usize::try_from(dropped - lost_before).unwrap_or(usize::MAX)
    }
}

/// What both sides count.
struct State {
    /// Signed: one that is sent during the finish may be taken off twice.
    pending: AtomicI64,
    written: AtomicU64,
    dropped: AtomicU64,
    violations: AtomicU64,
    store_ok: watch::Sender<bool>,
    overflow: Complaint,
    refusal: Complaint,
    violation: Complaint,
}

impl State {
    fn new() -> State {
        State {
            pending: AtomicI64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            store_ok: watch::Sender::new(true),
            overflow: Complaint::new(),
            refusal: Complaint::new(),
            violation: Complaint::new(),
        }
    }

    fn waiting(&self) -> usize {
        usize::try_from(self.pending.load(Relaxed)).unwrap_or(0)
    }

    fn keep(&self, records: usize) {
        self.written.fetch_add(records as u64, Relaxed);
        self.pending.fetch_sub(records as i64, Relaxed);
    }

    fn lose(&self, records: usize) {
        self.dropped.fetch_add(records as u64, Relaxed);
        self.pending.fetch_sub(records as i64, Relaxed);
    }
}

/// The writer task's own.
struct Writing {
    store: Store,
    receiver: mpsc::Receiver<Record>,
    batch: Vec<Record>,
    state: Arc<State>,
}

impl Writing {
    /// Until every recorder is gone, or the writer is being finished, and the queue is empty.
    async fn run(mut self, tasks: Shutdown) {
        while self.next_batch(&tasks).await {
            self.check_invariants();
            self.write().await;
        }
        self.store.close().await;
    }

    /// False when there is nothing more to come.
    async fn next_batch(&mut self, tasks: &Shutdown) -> bool {
        self.batch.clear();
        if tasks.is_draining() {
            self.receiver.close();
            return self.receiver.recv_many(&mut self.batch, BATCH_MAX).await > 0;
        }
        tokio::select! {
            received = self.receiver.recv_many(&mut self.batch, BATCH_MAX) => if received == 0 { return false },
            () = tasks.draining() => {
                self.receiver.close();
                return self.receiver.recv_many(&mut self.batch, BATCH_MAX).await > 0;
            }
        }
        let until = Instant::now() + LINGER;
        while self.batch.len() < BATCH_MAX && !tasks.is_draining() {
            let room = BATCH_MAX - self.batch.len();
            let received = tokio::select! {
                received = timeout_at(until, self.receiver.recv_many(&mut self.batch, room)) => received,
                () = tasks.draining() => break,
            };
            if !received.is_ok_and(|received| received > 0) {
                break;
            }
        }
        true
    }

    /// Until the batch is written, or can never be.
    async fn write(&self) {
        let began = Instant::now();
        let (mut wait, mut tries) = (RETRY_FIRST, 0_u32);
        loop {
            match self.store.write(&self.batch).await {
                Ok(()) => break self.written(tries, began),
                Err(error) if error.retry => {
                    self.state.store_ok.send_replace(false);
                    if tries == 0 {
                        tracing::warn!(%error, "cannot write the history now; its rows are kept, and tried again");
                    }
                    tries += 1;
                    sleep(wait).await;
                    wait = (2 * wait).min(RETRY_LAST);
                }
                Err(error) => break self.refused(&error),
            }
        }
    }

    fn written(&self, tries: u32, began: Instant) {
        self.state.keep(self.batch.len());
        self.state.store_ok.send_replace(true);
        if tries > 0 {
            let waiting = self.state.waiting();
            let after_ms = began.elapsed().as_millis();
            tracing::info!(tries, after_ms, waiting, "the history is being written again");
        }
    }

    fn refused(&self, error: &WriteError) {
        self.state.lose(self.batch.len());
        self.state.store_ok.send_replace(false);
        if self.state.refusal.is_due() {
            let dropped = self.state.dropped.load(Relaxed);
            tracing::error!(%error, dropped, "the database does not take the rows of the history: they are lost");
        }
    }

    fn check_invariants(&self) {
        for record in &self.batch {
            let Record::Attempt(attempt) = record else { continue };
            let columns = invariants::violations(attempt);
            if columns.is_empty() {
                continue;
            }
            let so_far = self.state.violations.fetch_add(1, Relaxed) + 1;
            if self.state.violation.is_due() {
                let race = &attempt.race_id;
                tracing::error!(%race, attempt.ordinal, ?columns, so_far, "columns of an attempt contradict each other");
            }
        }
    }
}

/// Lets one log line through, then none for a while. Atomic: requests may meet here.
struct Complaint {
    start: Instant,
    /// Microseconds after `start` before which nothing is said.
    quiet_until: AtomicI64,
}

impl Complaint {
    fn new() -> Complaint {
        Complaint { start: Instant::now(), quiet_until: AtomicI64::new(0) }
    }

    fn is_due(&self) -> bool {
        let now = Instant::now();
        let (quiet_until, now_us) = (self.quiet_until.load(Relaxed), micros_between(self.start, now));
        now_us >= quiet_until
            && self
                .quiet_until
                .compare_exchange(quiet_until, micros_between(self.start, now + QUIET), Relaxed, Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests;
