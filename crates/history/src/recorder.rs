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
use live::LiveFeed;
pub use live::{LiveWatcher, WATCHERS_MAX};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::StoreAddress;
use photofinish_facts::bill::BillBounds;
use photofinish_facts::estimate::incident::usual::IncidentAttempt;
use photofinish_facts::record::recorded::Recorded;
use photofinish_facts::record::{
    AttemptRecord, IncidentRecord, LeftOutReason, RaceRecord, RaceSource, Record, RunRecord,
};
use photofinish_metrics::Metrics;
pub use race_rows::{AttemptStep, EndedRace, RaceEnd, RaceObserver, RacePayer};
use race_rows::{QUEUE_MAX, RaceSheet, RowQueue};
pub use state::Condition;
use state::{BeforeRows, StoreState};
use writer::WriterState;

/// How long the recorder may take to write the last rows to the spill file, after it has abandoned the store.
const SPILL_FOR: Duration = Duration::from_secs(2);

/// From one look at the rows that wait to the next.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Accepts rows. Cheap to clone; all clones feed one queue.
#[derive(Clone)]
pub struct Recorder {
    /// None: nothing is stored.
    queue: Option<RowQueue>,
    /// Collects the rows of one race. None: each row is sent alone.
    sheet: Option<Arc<RaceSheet>>,
    metrics: Arc<Metrics>,
    state: Arc<StoreState>,
    race_observer: Option<Arc<dyn RaceObserver>>,
    live: Arc<LiveFeed>,
    /// Whose races it records: metrics and live events are of clients only.
    source: RaceSource,
    /// Watchers get all events of its race.
    is_watched: bool,
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
        let recorder = Recorder { queue, ..Recorder::without_queue(Arc::clone(&state)) };
        (recorder, WriterTask { tasks, task, state })
    }

    /// Stores nothing. A race observer still gets every row.
    pub fn without_store() -> Recorder {
        Recorder::without_queue(Arc::new(StoreState::new()))
    }

    fn without_queue(state: Arc<StoreState>) -> Recorder {
        let (metrics, live) = (Arc::default(), Arc::default());
        let source = RaceSource::Client;
        Recorder { queue: None, sheet: None, metrics, state, race_observer: None, live, source, is_watched: false }
    }

    /// The events of all races from now on. None: too many watch.
    pub fn watch(&self) -> Option<LiveWatcher> {
        self.live.watch()
    }

    /// A clone with a race observer. Earlier clones have none.
    pub fn watched(self, race_observer: Arc<dyn RaceObserver>) -> Recorder {
        Recorder { race_observer: Some(race_observer), ..self }
    }

    /// A clone for one race: the rows that it and its clones record are written together, once the last clone is
    /// dropped.
    pub fn for_race(&self, source: RaceSource) -> Recorder {
        let is_wanted = self.queue.is_some() || self.race_observer.is_some();
        let is_of_client = source == RaceSource::Client;
        let sheet = is_wanted.then(|| {
            let is_counted = is_of_client || source == RaceSource::Shadow;
            let metrics = is_counted.then(|| Arc::clone(&self.metrics));
            Arc::new(RaceSheet::new(self.queue.clone(), self.race_observer.clone(), metrics))
        });
        let is_watched = is_of_client && self.live.takes_race();
        Recorder { sheet, source, is_watched, ..self.clone() }
    }

    /// Who pays for its race.
    pub fn paid_by(&self, payer: Arc<dyn RacePayer>) {
        if let Some(sheet) = &self.sheet {
            sheet.pays(payer);
        }
    }

    /// Who hears of the end of its race.
    pub fn ends_with(&self, end: RaceEnd) {
        if let Some(sheet) = &self.sheet {
            sheet.ends_with(end);
        }
    }

    /// Its race begins to start attempts.
    pub fn planned(&self, race: &RaceRecord) {
        if self.is_watched {
            self.live.planned(race);
        }
    }

    /// Sets the bill of the attempt with this ordinal before its row arrives. The whole race is needed to bound the
    /// cost.
    pub fn bill(&self, ordinal: i64, bill: BillBounds) {
        if let Some(sheet) = &self.sheet {
            sheet.bill(ordinal, bill);
        }
    }

    /// See [`RaceObserver::step`].
    pub fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64) {
        if let Some(race_observer) = &self.race_observer {
            race_observer.step(attempt, step, at_us);
        }
        if self.is_watched {
            self.live.step(attempt, step, at_us);
        }
    }

    /// See [`RaceObserver::committed`].
    pub fn committed(&self, race_id: &str, ordinal: i64) {
        if let Some(race_observer) = &self.race_observer {
            race_observer.committed(race_id, ordinal);
        }
        if self.is_watched {
            self.live.committed(race_id, ordinal);
        }
    }

    /// What a race decided: see [`Metrics::decided`].
    pub fn decided(&self, refused_hedge: bool, left_out: impl Iterator<Item = LeftOutReason>) {
        if self.is_of_client() {
            self.metrics.decided(refused_hedge, left_out);
        }
    }

    /// Never waits. `overhead_us`: see [`Metrics::race`].
    pub fn race(&self, race: impl Into<Box<RaceRecord>>, overhead_us: Option<i64>) {
        let race = race.into();
        if self.is_of_client() {
            self.metrics.race(&race, overhead_us);
            if self.live.is_watched() {
                let winner = race.winner.zip(self.sheet.as_deref());
                self.live.done(&race, winner.and_then(|(ordinal, sheet)| sheet.upstream(ordinal)).as_deref());
            }
        }
        self.send(Record::Race(race));
    }

    /// Never waits. `choices` and `took_us`: see [`Metrics::attempt`].
    pub fn attempt(&self, attempt: impl Into<Box<AttemptRecord>>, choices: Option<i64>, took_us: i64) {
        let attempt = attempt.into();
        let series = match self.source {
            RaceSource::Client => Some(self.metrics.attempt(&attempt, choices, took_us)),
            RaceSource::Shadow => Some(self.metrics.series(&attempt)),
            RaceSource::Probe | RaceSource::Bench => None,
        };
        if let Some((series, sheet)) = series.zip(self.sheet.as_ref()) {
            sheet.counts_in(attempt.ordinal, series, took_us);
        }
        if self.is_watched {
            self.live.ended(&attempt);
        }
        self.send(Record::Attempt(attempt));
    }

    /// A run began or ended. Never waits; observers and metrics do not hear of it.
    pub fn run(&self, run: RunRecord) {
        if let Some(queue) = &self.queue {
            queue.send(vec![Record::Run(Box::new(run))]);
        }
    }

    /// An incident began, went on or ended. Never waits; observers do not hear of it.
    pub fn incident(&self, incident: IncidentRecord) {
        if let Some(queue) = &self.queue {
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
        &self.metrics
    }

    /// Records of finished races that are not in the database yet, in memory or in the spill file.
    pub fn depth(&self) -> usize {
        self.state.queued() + self.state.spilled()
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
        let written = async {
            while self.depth() > 0 && self.condition() == Condition::Ok {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
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

    fn is_of_client(&self) -> bool {
        self.source == RaceSource::Client
    }

    fn send(&self, record: Record) {
        if let Some(race_observer) = &self.race_observer {
            race_observer.recorded(&record);
        }
        match (&self.sheet, &self.queue) {
            (Some(sheet), _) => sheet.add(record),
            (None, Some(queue)) => queue.send(vec![record]),
            (None, None) => {}
        }
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
