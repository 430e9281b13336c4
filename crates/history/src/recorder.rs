//! Sends every row to the store: through the sheet of its race, a bounded queue, and a writer task that writes batches.
//!
//! Recording never waits. The rows of a race stay on its sheet until the last one arrives and stay together from then
//! on, so no transaction has only part of a race. If the store is locked, damaged or missing, only the writer is
//! delayed: it puts the rows into a file in the same directory and moves them back later. A full queue drops rows and
//! counts them. The recorder has its own tasks: it must outlive all code that records. Not for SQL: see `store`.

mod attempt_feed;
mod live;
mod race_rows;
mod state;
mod suspicion;
#[cfg(test)]
mod tests;
mod writer;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::store::{OpenError, Store, StoreReader, stray_rows};
pub use live::{LiveWatcher, WATCHERS_MAX};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::{Config, StoreAddress};
use photofinish_facts::estimate::incident::usual::IncidentAttempt;
use photofinish_facts::record::recorded::Recorded;
use photofinish_facts::record::{IncidentRecord, RaceSource, Record, RunRecord};
use photofinish_facts::recording::{RaceRecorder, RaceSink};
use photofinish_metrics::Metrics;
pub use race_rows::RaceObserver;
use race_rows::{QUEUE_MAX, RaceSheet, RowQueue, RowTargets};
pub use state::Condition;
use state::{BeforeRows, StoreState};
use writer::WriterState;

/// How long the recorder may take to write the last rows to the spill file, after it has abandoned the store.
const SPILL_FOR: Duration = Duration::from_secs(2);

/// Accepts rows. Cheap to clone; all clones feed one queue.
#[derive(Clone)]
pub struct Recorder {
    targets: Arc<RowTargets>,
    state: Arc<StoreState>,
}

/// The writer task. Finish it after all code that records.
pub struct WriterTask {
    tasks: Shutdown,
    task: JoinHandle<()>,
    state: Arc<StoreState>,
}

/// See [`Recorder::hold`].
pub struct RowHold(Arc<StoreState>);

impl Drop for RowHold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Relaxed);
    }
}

impl Recorder {
    /// Spawns the writer task. The task opens a store that is not open yet, and tries again until that succeeds.
    pub fn start(store: Store) -> (Recorder, WriterTask) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let state = Arc::new(StoreState::new());
        let tasks = Shutdown::new();
        let task = tasks.spawn(WriterState::new(store, receiver, tasks.clone(), Arc::clone(&state)).run());
        let queue = Some(RowQueue { sender, state: Arc::clone(&state) });
        let targets = Arc::new(RowTargets { queue, ..RowTargets::default() });
        (Recorder { targets, state: Arc::clone(&state) }, WriterTask { tasks, task, state })
    }

    /// Stores nothing. A race observer still gets every row.
    pub fn without_store() -> Recorder {
        Recorder { targets: Arc::default(), state: Arc::new(StoreState::new()) }
    }

    /// The events of all races from now on. None: too many watch.
    pub fn watch(&self) -> Option<LiveWatcher> {
        self.targets.live.watch()
    }

    /// A clone with a race observer. Earlier clones have none.
    pub fn watched(self, race_observer: Arc<dyn RaceObserver>) -> Recorder {
        let targets = RowTargets { race_observer: Some(race_observer), ..(*self.targets).clone() };
        Recorder { targets: Arc::new(targets), ..self }
    }

    /// A run began or ended. Never waits; observers and metrics do not hear of it.
    pub fn run(&self, run: RunRecord) {
        if let Some(queue) = &self.targets.queue {
            queue.send(vec![Record::Run(Box::new(run))]);
        }
    }

    /// An incident began, went on or ended. Never waits; observers do not hear of it.
    pub fn incident(&self, incident: IncidentRecord) {
        if let Some(queue) = &self.targets.queue {
            queue.send(vec![Record::Incident(Box::new(incident))]);
        }
    }

    /// Attempts of clients on their way to the store since the last call, with their upstreams; none before the first call.
    pub fn attempts(&self) -> Vec<(String, IncidentAttempt)> {
        self.state.attempts.take()
    }

    /// Another gateway on the same database recorded this.
    pub fn heard(&self, request: &Recorded) {
        self.state.attempts.add_recorded(request);
    }

    /// Counts every record of clients, also lost ones.
    pub fn metrics(&self) -> &Metrics {
        &self.targets.metrics
    }

    /// Records of finished races that are not in the database yet, in memory or in the spill file.
    pub fn depth(&self) -> usize {
        self.state.depth()
    }

    /// Records in the spill file, which survive a crash.
    pub fn spilled(&self) -> usize {
        self.state.spilled()
    }

    /// Records in the database since the start.
    pub fn written(&self) -> u64 {
        self.state.written.load(Relaxed)
    }

    /// Records written since the start into a database that is no longer in use: it was damaged and set aside, or removed.
    /// With those in a damaged spill file.
    pub fn set_aside(&self) -> u64 {
        self.state.set_aside.load(Relaxed)
    }

    /// Records that the database never takes, since the start. They are in a file in the same directory.
    pub fn refused(&self) -> u64 {
        self.state.refused.load(Relaxed)
    }

    /// Records of times far away from now, since the start: they are in the table `stray` of a database server.
    pub fn stray(&self) -> u64 {
        stray_rows()
    }

    /// Why rows are not written now, and the name of the damaged database that was set aside last. For the operator.
    pub fn problem_and_aside(&self) -> (Option<String>, Option<String>) {
        self.state.problem_and_aside()
    }

    /// Opens the history at this address, which the recorder writes. If it cannot be read because it is damaged, the recorder
    /// examines it.
    ///
    /// # Errors
    /// As [`StoreReader::open`].
    pub fn read_history(&self, address: &StoreAddress) -> Result<StoreReader, OpenError> {
        let opened = StoreReader::open(address).inspect_err(|error| {
            if error.is_of_damage() {
                self.doubt(error.to_string());
            }
        });
        let recorder = self.clone();
        Ok(opened?.on_damage(Arc::new(move |why| recorder.doubt(why))))
    }

    /// Something says that the database is damaged: the writer examines it. `why`: for the operator.
    pub fn doubt(&self, why: String) {
        self.state.doubt(why);
    }

    /// Records lost since the start: there was no room, or the store can never take them.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Relaxed)
    }

    /// Attempts whose row contradicted itself. They were written anyway.
    pub fn violations(&self) -> u64 {
        self.state.violations.load(Relaxed)
    }

    /// From now on each batch waits until this has succeeded: it brings into the store what must be there before the rows. It may
    /// block. Only the first call counts.
    pub fn before_rows(&self, before_rows: Box<BeforeRows>) {
        let _ = self.state.before_rows.set(before_rows);
    }

    /// The condition of the store.
    pub fn condition(&self) -> Condition {
        *self.state.condition.borrow()
    }

    /// Rows wait in memory until this is dropped, as long as there is room for them, so that writing them takes no processor from
    /// a measurement. A crash loses them.
    pub fn hold(&self) -> RowHold {
        self.state.holds.fetch_add(1, Relaxed);
        RowHold(Arc::clone(&self.state))
    }

    /// Resolves once no row waits, or the store takes none, or after `limit`.
    pub async fn until_written(&self, limit: Duration) {
        let written = self.state.until(|state| state.depth() == 0 || *state.condition.borrow() != Condition::Ok);
        let _ = tokio::time::timeout(limit, written).await;
    }

    /// Resolves once the store takes rows.
    pub async fn until_stored(&self) {
        let mut condition = self.state.condition.subscribe();
        if condition.wait_for(|condition| *condition == Condition::Ok).await.is_err() {
            // The sender lives as long as this recorder.
            pending().await
        }
    }
}

impl RaceRecorder for Recorder {
    fn configured(&self, config: &Config) {
        self.targets.metrics.configure(config);
    }

    fn for_race(&self, source: RaceSource) -> Arc<dyn RaceSink> {
        Arc::new(RaceSheet::new(Arc::clone(&self.targets), source))
    }
}

impl WriterTask {
    /// [`WriterTask::finish_unless`] without a signal to hurry.
    pub async fn finish(self, limit: Duration) -> usize {
        self.finish_unless(limit, pending()).await
    }

    /// Accepts no more records, writes the queue, and closes the store. After `limit`, or once `hurry` resolves, it
    /// gives the store up and puts the rest into the spill file. Returns the number of records lost at the end.
    pub async fn finish_unless(self, limit: Duration, hurry: impl Future<Output = ()>) -> usize {
        let lost_before = self.state.dropped.load(Relaxed);
        self.tasks.drain();
        let finished = tokio::select! {
            finished = self.tasks.finished(limit) => finished,
            () = hurry => false,
        };
        if !finished {
            self.tasks.cancel();
            if !self.tasks.finished(SPILL_FOR).await {
                // A running transaction still ends by itself.
                self.task.abort();
            }
        }
        self.state.lose(self.state.queued());
        let dropped = self.state.dropped.load(Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "rows of the history were lost since the start");
        }
        usize::try_from(dropped - lost_before).unwrap_or(usize::MAX)
    }
}
