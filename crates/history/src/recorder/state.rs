//! The counters that recorders and the writer share, the condition of the store, and a limit on repeated log lines.
//!
//! Not for metrics: `metrics` reads them.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::attempt_feed::AttemptFeed;
use crate::store::{Taken, WriteError};
use photofinish_base::clock::micros_between;
use photofinish_config::names::names;

names! {
    /// The condition of the store.
    pub enum Condition {
        /// The last batch was written; also before the first one.
        Ok = "ok",
        /// The store takes no rows now. They are kept and written later.
        Delayed = "delayed",
        /// The same, because the database is damaged or seems so: it is examined, or moved aside.
        Damaged = "damaged",
        /// Rows are being lost.
        Failing = "failing",
    }
}

/// Rows in memory from which on a batch is written although a benchmark's block holds rows: half of the queue.
const HELD_MAX: usize = 32_768;

/// What happens before each batch of rows.
pub type BeforeRows = dyn Fn() -> Result<(), WriteError> + Send + Sync;

pub(super) struct StoreState {
    /// Rows in memory. Signed: rows sent during the finish may be subtracted twice.
    queued: AtomicI64,
    /// Rows in the spill file.
    spilled: AtomicU64,
    /// Those who ask that no batch is written now.
    pub holds: AtomicU64,
    pub written: AtomicU64,
    /// Rows that wait although `written` counts them: the database that had them is damaged or gone.
    again: AtomicU64,
    /// Rows of this process in the present database.
    in_database: AtomicU64,
    pub set_aside: AtomicU64,
    pub refused: AtomicU64,
    pub dropped: AtomicU64,
    pub violations: AtomicU64,
    pub condition: watch::Sender<Condition>,
    /// Sent after each change of this state, but not when rows come in.
    pub changes: watch::Sender<()>,
    problems: Mutex<StoreProblems>,
    /// A reader says that the database is damaged.
    pub doubted: Notify,
    pub attempts: AttemptFeed,
    pub before_rows: OnceLock<Box<BeforeRows>>,
    pub overflow: LogThrottle,
    pub refusal: LogThrottle,
    pub violation: LogThrottle,
}

/// Texts for the operator.
#[derive(Debug, Default)]
struct StoreProblems {
    /// Why rows are not written now.
    problem: Option<String>,
    /// What a reader says.
    doubt: Option<String>,
    /// The damaged database that was set aside last.
    aside: Option<String>,
}

impl StoreState {
    pub fn new() -> StoreState {
        StoreState {
            queued: AtomicI64::new(0),
            spilled: AtomicU64::new(0),
            holds: AtomicU64::new(0),
            written: AtomicU64::new(0),
            again: AtomicU64::new(0),
            in_database: AtomicU64::new(0),
            set_aside: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            condition: watch::Sender::new(Condition::Ok),
            changes: watch::Sender::new(()),
            problems: Mutex::default(),
            doubted: Notify::new(),
            attempts: AttemptFeed::default(),
            before_rows: OnceLock::new(),
            overflow: LogThrottle::new(),
            refusal: LogThrottle::new(),
            violation: LogThrottle::new(),
        }
    }

    /// Whether rows are to wait in memory, and there is room for more.
    pub fn is_held(&self) -> bool {
        self.holds.load(Relaxed) > 0 && self.queued() < HELD_MAX
    }

    pub fn queued(&self) -> usize {
        usize::try_from(self.queued.load(Relaxed)).unwrap_or(0)
    }

    pub fn spilled(&self) -> usize {
        usize::try_from(self.spilled.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Rows in memory or in the spill file.
    pub fn depth(&self) -> usize {
        self.queued() + self.spilled()
    }

    /// Resolves once this is so: at once, or after a change.
    pub async fn until(&self, is_so: impl Fn(&StoreState) -> bool) {
        let mut changes = self.changes.subscribe();
        while !is_so(self) && changes.changed().await.is_ok() {}
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Counts rows that will be queued. Returns the number before.
    pub fn add(&self, rows: usize) -> usize {
        usize::try_from(self.queued.fetch_add(rows as i64, Relaxed)).unwrap_or(0)
    }

    /// Counts rows written from memory to the database, and those of them that it refused.
    pub fn keep(&self, rows: usize, taken: &Taken) {
        self.queued.fetch_sub(rows as i64, Relaxed);
        self.count(rows as u64, taken);
        self.changes.send_replace(());
    }

    fn count(&self, rows: u64, taken: &Taken) {
        let written = rows.saturating_sub(taken.refused as u64);
        let again = self.again.fetch_update(Relaxed, Relaxed, |again| Some(again.saturating_sub(written)));
        self.written.fetch_add(written.saturating_sub(again.unwrap_or_default()), Relaxed);
        self.in_database.fetch_add(written, Relaxed);
        self.refuse(taken);
    }

    fn refuse(&self, taken: &Taken) {
        self.refused.fetch_add(taken.refused.saturating_sub(taken.lost) as u64, Relaxed);
        if taken.lost > 0 {
            self.dropped.fetch_add(taken.lost as u64, Relaxed);
            self.is(Condition::Failing);
        }
    }

    /// Counts rows that will be written again: the database that has them is damaged or gone.
    pub fn take_back(&self, rows: usize) {
        self.add(rows);
        self.again.fetch_add(rows as u64, Relaxed);
        let left = self.in_database.load(Relaxed).saturating_sub(rows as u64);
        self.in_database.store(left, Relaxed);
    }

    /// The next rows go to another database. Returns the number of rows of this process in the present one.
    pub fn leave_database(&self) -> u64 {
        let rows = self.in_database.swap(0, Relaxed);
        self.set_aside.fetch_add(rows, Relaxed);
        rows
    }

    /// The next rows that wait go to another file.
    pub fn leave_spill(&self) {
        self.set_aside.fetch_add(self.spilled.swap(0, Relaxed), Relaxed);
    }

    /// Counts rows written from memory to the spill file.
    pub fn spill(&self, rows: usize, taken: &Taken) {
        self.spilled.fetch_add(rows.saturating_sub(taken.refused) as u64, Relaxed);
        self.queued.fetch_sub(rows as i64, Relaxed);
        self.refuse(taken);
        self.changes.send_replace(());
    }

    /// Sets the number of rows that an earlier run left in the spill file.
    pub fn found(&self, rows: u64) {
        self.spilled.store(rows, Relaxed);
    }

    /// Counts rows moved from the spill file to the database. `more`: more rows are left.
    pub fn bring_back(&self, rows: u64, taken: &Taken, more: bool) {
        self.count(rows, taken);
        let left = self.spilled.load(Relaxed).saturating_sub(rows);
        self.spilled.store(if more { left.max(1) } else { 0 }, Relaxed);
        self.changes.send_replace(());
    }

    pub fn lose(&self, rows: usize) {
        if rows > 0 {
            self.dropped.fetch_add(rows as u64, Relaxed);
            self.queued.fetch_sub(rows as i64, Relaxed);
            self.is(Condition::Failing);
        }
    }

    pub fn is(&self, now: Condition) {
        if self.condition.send_if_modified(|condition| std::mem::replace(condition, now) != now) {
            self.changes.send_replace(());
        }
    }

    /// Rows are not written now.
    pub fn is_troubled(&self, now: Condition, problem: &str) {
        self.problems().problem = Some(problem.to_owned());
        self.is(now);
    }

    /// Rows are written.
    pub fn is_well(&self) {
        self.problems().problem = None;
        self.is(Condition::Ok);
    }

    pub fn doubt(&self, why: String) {
        self.problems().doubt = Some(why);
        self.doubted.notify_one();
    }

    pub fn take_doubt(&self) -> Option<String> {
        self.problems().doubt.take()
    }

    pub fn has_set_aside(&self, aside: &Path) {
        self.problems().aside = aside.file_name().map(|name| name.to_string_lossy().into_owned());
        self.changes.send_replace(());
    }

    /// Why rows are not written now, and the name of the damaged database that was set aside last.
    pub fn problem_and_aside(&self) -> (Option<String>, Option<String>) {
        let problems = self.problems();
        (problems.problem.clone(), problems.aside.clone())
    }

    fn problems(&self) -> std::sync::MutexGuard<'_, StoreProblems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortest time between two lines of one log message.
pub(super) const QUIET: Duration = Duration::from_secs(5);

/// Lets one log line through, then none for a while. Atomic, because requests run in parallel.
pub(super) struct LogThrottle {
    start: Instant,
    /// Microseconds after `start` before which no line is logged.
    quiet_until: AtomicI64,
}

impl LogThrottle {
    pub(super) fn new() -> LogThrottle {
        LogThrottle { start: Instant::now(), quiet_until: AtomicI64::new(0) }
    }

    pub(super) fn is_due(&self) -> bool {
        let now = Instant::now();
        let (quiet_until, now_us) = (self.quiet_until.load(Relaxed), micros_between(self.start, now));
        now_us >= quiet_until
            && self
                .quiet_until
                .compare_exchange(quiet_until, micros_between(self.start, now + QUIET), Relaxed, Relaxed)
                .is_ok()
    }
}
