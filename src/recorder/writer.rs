//! The writer task: writes batches from the queue to the store. While the store accepts none, it writes them to the
//! spill file, and moves them back later.
//!
//! Not for SQL: see `store`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::log_throttle::LogThrottle;
use super::state::{Condition, StoreState};
use crate::history::invariants;
use crate::shutdown::Shutdown;
use crate::store::{Record, Spill, Store, WriteError};

/// Records in one transaction. The last race of a batch may exceed it, so that the race stays whole.
const BATCH_MAX: usize = 1_000;

/// How long the first record of a batch waits for more. Limits what a crash may lose.
const LINGER: Duration = Duration::from_millis(50);

/// Time between two tries while the store accepts no batch. It doubles, starting at `RETRY_FIRST`.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// Time between two log lines while the store accepts no rows.
const REMIND_EVERY: Duration = Duration::from_secs(60);

pub(super) struct WriterState {
    store: Arc<Store>,
    spill: Arc<Spill>,
    receiver: mpsc::Receiver<Vec<Record>>,
    tasks: Shutdown,
    state: Arc<StoreState>,
    /// None while the store accepts rows.
    trouble: Option<Trouble>,
    /// When rows are moved back next, if there are any.
    back_at: Instant,
    /// Limits the log lines about the spill file: it accepts no rows, or cannot be read.
    stuck: LogThrottle,
}

/// The store takes no rows.
struct Trouble {
    began: Instant,
    tries: u32,
    wait: Duration,
    again_at: Instant,
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
        let (spill, store) = (Arc::new(Spill::of(store.path())), Arc::new(store));
        let (back_at, stuck) = (Instant::now(), LogThrottle::new());
        let mut writing = WriterState { store, spill, receiver, tasks, state, trouble: None, back_at, stuck };
        if !writing.store.is_open() {
            writing.state.is(Condition::Delayed);
            writing.trouble = Some(Trouble::new());
        }
        writing
    }

    /// Runs until every recorder was dropped, or the writer is being finished, and the queue is empty.
    pub(super) async fn run(mut self) {
        self.find_spill().await;
        while let Some(batch) = self.next_batch().await {
            self.check_invariants(&batch);
            self.keep(&Arc::new(batch)).await;
            if !self.tasks.is_draining() {
                self.bring_back().await;
            }
        }
        self.close().await;
    }

    /// Runs work on the files, which blocks. If the caller stops waiting, the work still runs to its end: a second at
    /// most for a lock, and then one batch. [`Shutdown::finished`] waits for it.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Spill) -> Result<T, WriteError> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (store, spill) = (Arc::clone(&self.store), Arc::clone(&self.spill));
        let done = self.tasks.run_blocking(move || work(&store, &spill)).await;
        done.unwrap_or_else(|_| Err(WriteError::panicked()))
    }

    async fn find_spill(&mut self) {
        match self.aside(|_, spill| spill.rows()).await {
            Ok(0) => {}
            Ok(rows) => {
                self.state.found(rows);
                tracing::info!(rows, path = %self.spill.path().display(), "an earlier run left rows in a file: they are written to the database now");
            }
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
        let wake_at = match &self.trouble {
            Some(trouble) => Some(trouble.again_at),
            None => (self.state.spilled() > 0).then_some(self.back_at),
        };
        tokio::select! {
            rows = self.receiver.recv() => batch.extend(rows?),
            () = self.tasks.draining() => return Some(batch),
            () = at(wake_at) => return Some(batch),
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
    async fn keep(&mut self, batch: &Arc<Vec<Record>>) {
        loop {
            if self.is_due(batch) && !self.tasks.is_cancelled() {
                let rows = Arc::clone(batch);
                let written = tokio::select! {
                    written = self.aside(move |store, _| store.write(&rows)) => Some(written),
                    () = self.tasks.cancelled() => None,
                };
                match written {
                    Some(Ok(())) => return self.written(batch.len()),
                    Some(Err(error)) if error.retry => self.delayed(&error),
                    Some(Err(error)) => return self.refused(&error, batch.len()),
                    None => {}
                }
            }
            if batch.is_empty() || self.put_aside(batch).await {
                return;
            }
            if self.tasks.is_cancelled() {
                return self.state.lose(batch.len());
            }
            tokio::select! {
                () = at(self.trouble.as_ref().map(|trouble| trouble.again_at)) => {}
                () = self.tasks.cancelled() => {}
            }
        }
    }

    /// Whether it is time to try the store.
    fn is_due(&self, batch: &[Record]) -> bool {
        match &self.trouble {
            None => !batch.is_empty(),
            Some(trouble) => Instant::now() >= trouble.again_at,
        }
    }

    fn written(&mut self, rows: usize) {
        self.state.keep(rows);
        self.state.is(Condition::Ok);
        if let Some(trouble) = self.trouble.take() {
            let waiting = self.state.queued() + self.state.spilled();
            let after_ms = trouble.began.elapsed().as_millis();
            tracing::info!(tries = trouble.tries, after_ms, waiting, "the history is being written again");
        }
    }

    fn delayed(&mut self, error: &WriteError) {
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
        self.state.is(Condition::Delayed);
    }

    fn refused(&self, error: &WriteError, rows: usize) {
        self.state.lose(rows);
        if self.state.refusal.is_due() {
            let dropped = self.state.dropped();
            tracing::error!(%error, dropped, "the database refuses rows of the history: they are lost");
        }
    }

    /// True if the batch is in the spill file now.
    async fn put_aside(&self, batch: &Arc<Vec<Record>>) -> bool {
        let rows = Arc::clone(batch);
        match self.aside(move |_, spill| spill.append(&rows)).await {
            Ok(()) => {
                if self.state.spilled() == 0 {
                    tracing::info!(path = %self.spill.path().display(), "rows wait in a file until the database takes them");
                }
                self.state.spill(batch.len());
                self.state.is(Condition::Delayed);
                true
            }
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    /// Moves some rows from the spill file to the store, if the store takes rows.
    async fn bring_back(&mut self) {
        if self.trouble.is_some() || self.state.spilled() == 0 || Instant::now() < self.back_at {
            return;
        }
        match self.aside(|store, spill| spill.move_some(store)).await {
            Ok(moved) => {
                self.state.bring_back(moved.rows, moved.more);
                if !moved.more {
                    tracing::info!("all rows that waited in the file are in the database");
                }
            }
            Err(error) => {
                self.back_at = Instant::now() + RETRY_LAST;
                self.complain(&error);
            }
        }
    }

    fn complain(&self, error: &WriteError) {
        if self.stuck.is_due() {
            let (path, waiting) = (self.spill.path().display(), self.state.queued());
            tracing::warn!(%path, %error, waiting, "the file for waiting rows cannot be used now: the rows stay in memory");
        }
    }

    async fn close(self) {
        let rows = self.state.spilled();
        if rows > 0 {
            let path = self.spill.path().display();
            tracing::warn!(rows, %path, "rows wait in a file: the next start writes them into the database");
        }
        let closed = self.aside(|store, spill| {
            store.close();
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
    fn new() -> Trouble {
        let now = Instant::now();
        Trouble { began: now, tries: 0, wait: RETRY_FIRST, again_at: now, logged_at: now }
    }
}

/// Never resolves if there is no time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
