//! The writer task: writes batches from the queue to the store. While the store accepts none, it writes them to the
//! spill file, and moves them back later.
//!
//! Not for SQL: see `store`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::log_throttle::LogThrottle;
use super::state::{Condition, StoreState};
use super::suspicion::{Suspicion, Witness};
use super::unproven::Unproven;
use crate::history::invariants;
use crate::store::{FileFinding, Record, Spill, Store, Taken, WriteError, set_aside_files};
use photofinish_base::shutdown::Shutdown;

/// Records in one transaction. The last race of a batch may exceed it, so that the race stays whole.
const BATCH_MAX: usize = 1_000;

/// How long the first record of a batch waits for more. Limits what a crash may lose.
const LINGER: Duration = Duration::from_millis(50);

/// Time between two tries while the store accepts no batch. It doubles, starting at `RETRY_FIRST`.
const RETRY_FIRST: Duration = Duration::from_millis(50);
pub(super) const RETRY_LAST: Duration = Duration::from_secs(1);

/// Time between two log lines while the store accepts no rows.
const REMIND_EVERY: Duration = Duration::from_secs(60);

pub(super) struct WriterState {
    pub(super) store: Arc<Store>,
    spill: Arc<Spill>,
    receiver: mpsc::Receiver<Vec<Record>>,
    pub(super) tasks: Shutdown,
    pub(super) state: Arc<StoreState>,
    /// None while the store accepts rows.
    pub(super) trouble: Option<Trouble>,
    /// When rows are moved back next, if there are any.
    pub(super) back_at: Instant,
    /// Limits the log lines about what does not help: the spill file, or moving a damaged database aside.
    pub(super) stuck: LogThrottle,
    /// Written, and not read back yet.
    pub(super) unproven: Unproven,
    /// To be written again.
    pub(super) homeless: Vec<Arc<Vec<Record>>>,
    pub(super) suspicion: Suspicion,
    /// The check of the whole database, while it runs.
    pub(super) examination: Option<JoinHandle<FileFinding>>,
    pub(super) finding: Option<FileFinding>,
    /// Why the database is to be set aside.
    pub(super) condemned: Option<String>,
}

/// The store takes no rows.
pub(super) struct Trouble {
    began: Instant,
    pub tries: u32,
    wait: Duration,
    pub again_at: Instant,
    logged_at: Instant,
}

impl WriterState {
    /// `tasks`: the signal to finish; it also runs the work on the files.
    pub(super) fn new(
        store: Store,
        receiver: mpsc::Receiver<Vec<Record>>,
        tasks: Shutdown,
        state: Arc<StoreState>,
    ) -> WriterState {
        let trouble = (!store.is_open()).then(Trouble::new);
        if trouble.is_some() {
            state.is(Condition::Delayed);
        }
        WriterState {
            spill: Arc::new(Spill::of(store.path())),
            unproven: Unproven::in_file(store.files()),
            store: Arc::new(store),
            receiver,
            tasks,
            state,
            trouble,
            back_at: Instant::now(),
            stuck: LogThrottle::new(),
            homeless: Vec::new(),
            suspicion: Suspicion::default(),
            examination: None,
            finding: None,
            condemned: None,
        }
    }

    /// Runs until every recorder was dropped, or the writer is being finished, and the queue is empty.
    pub(super) async fn run(mut self) {
        self.find_spill().await;
        while let Some(batch) = self.next_batch().await {
            self.check_invariants(&batch);
            self.keep(&Arc::new(batch)).await;
            self.look_after().await;
            if !self.tasks.is_draining() {
                self.bring_back().await;
            }
        }
        self.close().await;
    }

    /// Runs work on the files, which blocks. If the caller stops waiting, the work still runs to its end: a second at
    /// most for a lock, and then one batch. [`Shutdown::finished`] waits for it.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Spill) -> Result<T, WriteError> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (store, spill) = (Arc::clone(&self.store), Arc::clone(&self.spill));
        let done = self.tasks.run_blocking(move || work(&store, &spill)).await;
        done.unwrap_or_else(|_| Err(WriteError::panicked()))
    }

    async fn find_spill(&mut self) {
        if let Ok(Some(earlier)) = self.aside(|store, _| Ok(set_aside_files(store.path()).pop())).await {
            self.state.has_set_aside(Path::new(&earlier.name));
        }
        match self.aside(|_, spill| spill.rows()).await {
            Ok(0) => {}
            Ok(rows) => {
                self.state.found(rows);
                tracing::info!(rows, path = %self.spill.path().display(), "an earlier run left rows in a file: they are written to the database now");
            }
            Err(error) if self.spill_is_set_aside(&error).await => {}
            Err(error) => self.complain(&error),
        }
    }

    /// Waits for rows and takes them. The batch is empty if it is only time to try the store again or to move rows
    /// back. None if no more rows will come.
    async fn next_batch(&mut self) -> Option<Vec<Record>> {
        let mut batch = Vec::new();
        if self.tasks.is_draining() {
            self.receiver.close();
            self.take_waiting(&mut batch);
            return (!batch.is_empty()).then_some(batch);
        }
        let wake_at = self.wake_at();
        tokio::select! {
            rows = self.receiver.recv() => batch.extend(rows?),
            () = self.tasks.draining() => return Some(batch),
            () = at(wake_at) => return Some(batch),
            () = self.state.doubted.notified() => return Some(batch),
            finding = ended(&mut self.examination) => {
                self.finding = Some(finding);
                return Some(batch);
            }
        }
        // Not by waiting for each race: that would wake this task for each.
        let mut lingers = self.state.queued() < BATCH_MAX || self.state.is_held();
        while lingers && !self.tasks.is_draining() {
            tokio::select! {
                () = sleep(LINGER) => {}
                () = self.tasks.draining() => {}
            }
            lingers = self.state.is_held();
        }
        self.take_waiting(&mut batch);
        Some(batch)
    }

    /// When there is something to do without a row.
    fn wake_at(&self) -> Option<Instant> {
        let write_at = match &self.trouble {
            _ if self.is_suspended() => self.suspicion.again_at,
            Some(trouble) => Some(trouble.again_at),
            None => self.unproven.look_at(),
        };
        let back_at = (self.trouble.is_none() && self.state.spilled() > 0).then_some(self.back_at);
        let at_once = (!self.homeless.is_empty()).then(Instant::now);
        [write_at, back_at, at_once].into_iter().flatten().min()
    }

    /// Fills the batch from the queue.
    fn take_waiting(&mut self, batch: &mut Vec<Record>) {
        while batch.len() < BATCH_MAX
            && let Ok(rows) = self.receiver.try_recv()
        {
            batch.extend(rows);
        }
    }

    /// Returns once the batch is in the store or in the spill file, or can never be written. An empty batch tests
    /// whether the store accepts rows again.
    pub(super) async fn keep(&mut self, batch: &Arc<Vec<Record>>) {
        loop {
            self.advance().await;
            if self.is_due(batch) && !self.tasks.is_cancelled() {
                let rows = Arc::clone(batch);
                let taken = tokio::select! {
                    taken = self.aside(move |store, _| store.take(&rows)) => Some(taken),
                    () = self.tasks.cancelled() => None,
                };
                match taken {
                    Some(Ok(taken)) => return self.written(batch, &taken),
                    Some(Err(error)) => self.delayed(&error),
                    None => {}
                }
            }
            if batch.is_empty() || self.put_aside(batch).await {
                return;
            }
            if self.tasks.is_cancelled() {
                return self.state.lose(batch.len());
            }
            let again_at = match &self.trouble {
                Some(trouble) if !self.is_suspended() => trouble.again_at,
                _ => Instant::now() + RETRY_LAST,
            };
            tokio::select! {
                () = sleep_until(again_at) => {}
                finding = ended(&mut self.examination) => self.finding = Some(finding),
                () = self.tasks.cancelled() => {}
            }
        }
    }

    /// Whether it is time to try the store.
    fn is_due(&self, batch: &[Record]) -> bool {
        match &self.trouble {
            _ if self.is_suspended() => false,
            None => !batch.is_empty(),
            Some(trouble) => Instant::now() >= trouble.again_at,
        }
    }

    fn written(&mut self, batch: &Arc<Vec<Record>>, taken: &Taken) {
        self.arrive();
        self.state.is_well();
        self.state.keep(batch.len(), taken);
        if taken.refused == 0 {
            self.unproven.add(batch);
        }
        self.tell_refused(taken);
        if let Some(trouble) = self.trouble.take() {
            let waiting = self.state.queued() + self.state.spilled();
            let after_ms = trouble.began.elapsed().as_millis();
            tracing::info!(tries = trouble.tries, after_ms, waiting, "the history is being written again");
        }
    }

    fn delayed(&mut self, error: &WriteError) {
        if let Some(symptom) = error.symptom {
            return self.doubt(Witness::Writer(symptom), &error.to_string());
        }
        let now = Instant::now();
        let trouble = self.trouble.get_or_insert_with(Trouble::new);
        if trouble.tries == 0 || now - trouble.logged_at >= REMIND_EVERY {
            let waiting = self.state.queued() + self.state.spilled();
            tracing::warn!(%error, waiting, "cannot write the history now; its rows are kept, and tried again");
            trouble.logged_at = now;
        }
        trouble.tries = trouble.tries.saturating_add(1);
        trouble.again_at = now + trouble.wait;
        trouble.wait = (2 * trouble.wait).min(RETRY_LAST);
        self.state.is_troubled(Condition::Delayed, &error.to_string());
    }

    pub(super) fn tell_refused(&self, taken: &Taken) {
        let Taken { refused, lost, reason } = taken;
        if *refused > 0 && self.state.refusal.is_due() {
            let path = self.store.refused().display().to_string();
            tracing::error!(
                refused,
                lost,
                reason,
                path,
                "the database refuses rows of the history: they are in a file beside it, but for those that are lost"
            );
        }
    }

    /// True if the batch is in the spill file now.
    async fn put_aside(&self, batch: &Arc<Vec<Record>>) -> bool {
        let append = |rows: Arc<Vec<Record>>| self.aside(move |_, spill| spill.append(&rows));
        let mut put = append(Arc::clone(batch)).await;
        if let Err(error) = &put
            && self.spill_is_set_aside(error).await
        {
            put = append(Arc::clone(batch)).await;
        }
        match put {
            Ok(taken) => {
                if self.state.spilled() == 0 {
                    tracing::info!(path = %self.spill.path().display(), "rows wait in a file until the database takes them");
                }
                self.state.spill(batch.len(), &taken);
                self.tell_refused(&taken);
                self.state.is(if self.is_suspended() { Condition::Damaged } else { Condition::Delayed });
                true
            }
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    pub(super) fn complain(&self, error: &WriteError) {
        if self.stuck.is_due() {
            let (path, waiting) = (self.spill.path().display(), self.state.queued());
            tracing::warn!(%path, %error, waiting, "the file for waiting rows cannot be used now: the rows stay in memory");
        }
    }

    async fn close(mut self) {
        if self.trouble.is_none() && self.unproven.look_at().is_some() && !self.tasks.is_cancelled() {
            self.look().await;
            self.look_after().await;
        }
        let rows = self.state.spilled();
        if rows > 0 {
            let path = self.spill.path().display();
            tracing::warn!(rows, %path, "rows wait in a file: the next start writes them into the database");
        }
        let is_suspended = self.is_suspended();
        let closed = self.aside(move |store, spill| {
            if is_suspended {
                store.abandon()
            } else {
                store.close()
            }
            spill.close();
            Ok(())
        });
        if let Err(error) = closed.await {
            self.complain(&error);
        }
    }

    fn check_invariants(&self, batch: &[Record]) {
        for record in batch {
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

impl Trouble {
    /// The first try is immediate.
    pub(super) fn new() -> Trouble {
        let now = Instant::now();
        Trouble { began: now, tries: 0, wait: RETRY_FIRST, again_at: now, logged_at: now }
    }
}

/// Resolves once the examination has ended; never if there is none. May be called again.
async fn ended(examination: &mut Option<JoinHandle<FileFinding>>) -> FileFinding {
    let Some(running) = examination else { return std::future::pending().await };
    let finding = running.await.unwrap_or_else(|_| FileFinding::Unknown("the check panicked".to_owned()));
    *examination = None;
    finding
}

/// Never resolves if there is no time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
