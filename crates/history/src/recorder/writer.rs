//! The writer task: writes batches from the queue to the store, and reads back what it has written. While the store accepts
//! none, it writes them to the spill file, and moves them back later. If the database seems damaged, it has the whole file
//! examined, moves it aside, and begins a new one.
//!
//! Not for SQL: see `store`. Not for when a file counts as damaged: see `suspicion`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::state::{Condition, LogThrottle, StoreState};
use super::suspicion::{DamageStep, Suspicion, Witness};
use crate::store::{FileFinding, MoveError, ReadBack, Spill, Store, Symptom, Taken, WriteError, set_aside_files};
use photofinish_base::shutdown::Shutdown;
use photofinish_facts::record::{Record, invariants};

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
            spill: Arc::new(Spill::of(store.address())),
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
            self.state.attempts.add(&batch);
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
        if let Ok(Some(earlier)) =
            self.aside(|store, _| Ok(store.address().file().and_then(|file| set_aside_files(file).pop()))).await
        {
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
                let (rows, state) = (Arc::clone(batch), Arc::clone(&self.state));
                let take = move |store: &Store, _: &Spill| {
                    state.before_rows.get().map_or(Ok(()), |before_rows| before_rows())?;
                    store.take(&rows)
                };
                let taken = tokio::select! {
                    taken = self.aside(take) => Some(taken),
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
                "the database refuses rows of the history: they are in a file in the same directory, except those that are lost"
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

impl WriterState {
    /// Whether nothing is written to the database, because it seems damaged.
    pub(super) fn is_suspended(&self) -> bool {
        self.examination.is_some()
            || self.finding.is_some()
            || self.condemned.is_some()
            || self.suspicion.again_at.is_some()
    }

    /// Does what is due about a database that seems damaged. Waits for no examination.
    pub(super) async fn advance(&mut self) {
        if let Some(finding) = self.finding.take() {
            self.found(finding);
        }
        if let Some(why) = self.condemned.take() {
            self.set_aside(&why).await;
        }
        if self.suspicion.again_at.take_if(|at| *at <= Instant::now()).is_some() {
            self.examine();
        }
        if let Some(why) = self.state.take_doubt() {
            self.doubt(Witness::Reader, &why);
        }
    }

    /// Writes again what was written into a file that is damaged or gone, and reads back what is due.
    pub(super) async fn look_after(&mut self) {
        self.advance().await;
        if self.trouble.is_none() && self.unproven.look_at().is_some_and(|at| at <= Instant::now()) {
            match self.state.is_held() {
                true => self.unproven.not_now(),
                false => self.look().await,
            }
        }
        for batch in std::mem::take(&mut self.homeless) {
            self.keep(&batch).await;
        }
    }

    /// Reads back what was written, and truncates the write-ahead log if it is large.
    pub(super) async fn look(&mut self) {
        let (files, batches) = (self.unproven.files, self.unproven.batches());
        let looked = self.aside(move |store, _| {
            let looked = store.look(files, batches.iter().flat_map(|batch| batch.iter()))?;
            Ok((looked, store.truncate_log()?))
        });
        match looked.await {
            Ok((ReadBack::Proven, log_is_small)) => {
                self.unproven.take();
                if !log_is_small {
                    self.unproven.not_now();
                }
            }
            Ok((ReadBack::OtherFile, _)) => self.arrive(),
            Ok((ReadBack::Missing(rows), _)) => {
                self.doubt(Witness::Reader, &format!("{rows} rows that were just written cannot be read back"));
                // If they were not put into the spill file, somebody removes rows.
                drop(self.unproven.take());
            }
            Err(WriteError { symptom: Some(symptom), reason, .. }) => self.doubt(Witness::Writer(symptom), &reason),
            Err(error) => {
                if self.stuck.is_due() {
                    tracing::warn!(%error, "what was just written cannot be read back now; it is tried again");
                }
                self.unproven.not_now();
            }
        }
    }

    /// After each success: if the file is another one than before, what was not read back from the old one is written
    /// again.
    pub(super) fn arrive(&mut self) {
        let files = self.store.files();
        if files != self.unproven.files {
            self.rescue();
            self.state.leave_database();
            self.unproven.files = files;
        }
    }

    /// From here on rows wait in the spill file, unless `witness` says nothing new.
    pub(super) fn doubt(&mut self, witness: Witness, why: &str) {
        if self.is_suspended() {
            return;
        }
        match self.suspicion.heard(witness, Instant::now()) {
            DamageStep::GoOn => return tracing::debug!(error = why, "the database was examined lately and is sound"),
            DamageStep::Examine => self.examine(),
            DamageStep::SetAside => self.condemned = Some(why.to_owned()),
        }
        self.trouble.get_or_insert_with(Trouble::new).tries += 1;
        self.state.is_troubled(Condition::Damaged, why);
        let path = self.store.address();
        tracing::error!(%path, error = why, "the database seems damaged: rows wait in a file while it is examined");
        self.rescue();
    }

    fn rescue(&mut self) {
        for batch in self.unproven.take() {
            self.state.take_back(batch.len());
            self.homeless.push(batch);
        }
    }

    fn examine(&mut self) {
        let (store, tasks) = (self.store.clone(), self.tasks.clone());
        self.examination = Some(self.tasks.run_blocking(move || store.examine(move || tasks.is_draining())));
    }

    fn found(&mut self, finding: FileFinding) {
        let path = self.store.address();
        match (self.suspicion.found(&finding, Instant::now(), self.tasks.is_draining()), finding) {
            (DamageStep::SetAside, FileFinding::Damaged(why) | FileFinding::Unreadable(why)) => {
                self.condemned = Some(why)
            }
            (DamageStep::SetAside | DamageStep::Examine, _) => {}
            (DamageStep::GoOn, FileFinding::Sound) => {
                tracing::info!(%path, "the database was examined and is sound: it is written again");
                self.try_now();
            }
            (DamageStep::GoOn, finding) => {
                tracing::warn!(%path, ?finding, "the check of the database did not end: it is written again, and set aside if that fails");
                self.try_now();
            }
        }
    }

    async fn set_aside(&mut self, why: &str) {
        match self.aside(|store, _| store.set_aside(true)).await {
            Ok(Some(aside)) => {
                let rows = self.state.leave_database();
                tracing::error!(
                    error = why,
                    aside = %aside.display(),
                    rows,
                    "the database was damaged and was set aside, with these rows of this process and all earlier ones; a \
                     new one begins. `sqlite3 FILE .recover` gets out of the old one what is left"
                );
                self.state.has_set_aside(&aside);
                self.suspicion = Default::default();
                self.try_now();
            }
            // Somebody was faster.
            Ok(None) => {
                self.suspicion = Default::default();
                self.try_now();
            }
            Err(error) => {
                self.state.is_troubled(Condition::Damaged, &error.to_string());
                if self.stuck.is_due() {
                    tracing::error!(error = why, %error, "the damaged database cannot be set aside now: rows wait in a file");
                }
                self.suspicion.again(Instant::now());
            }
        }
    }

    fn try_now(&mut self) {
        self.trouble.get_or_insert_with(Trouble::new).again_at = Instant::now();
    }

    /// Moves some rows from the spill file to the store, if the store takes rows.
    pub(super) async fn bring_back(&mut self) {
        if self.trouble.is_some() || self.state.spilled() == 0 || Instant::now() < self.back_at {
            return;
        }
        let error = match self.aside(|store, spill| Ok(spill.move_some(store))).await {
            Ok(Ok(moved)) => {
                self.arrive();
                self.state.bring_back(moved.rows, &moved.taken, moved.more);
                self.tell_refused(&moved.taken);
                if !moved.more {
                    tracing::info!("all rows that waited in the file are in the database");
                }
                return;
            }
            Ok(Err(MoveError::Database(WriteError { symptom: Some(symptom), reason, .. }))) => {
                return self.doubt(Witness::Writer(symptom), &reason);
            }
            Ok(Err(MoveError::Spill(error))) if self.spill_is_set_aside(&error).await => return,
            Ok(Err(MoveError::Database(error))) => {
                if self.stuck.is_due() {
                    let path = self.spill.path().display();
                    tracing::warn!(%path, %error, "the database does not take the rows of the file now: they stay there");
                }
                self.back_at = Instant::now() + RETRY_LAST;
                return;
            }
            Ok(Err(MoveError::Spill(error))) | Err(error) => error,
        };
        self.back_at = Instant::now() + RETRY_LAST;
        self.complain(&error);
    }

    /// Whether the spill file was damaged, and another one may begin.
    pub(super) async fn spill_is_set_aside(&self, error: &WriteError) -> bool {
        if error.symptom != Some(Symptom::Damaged) {
            return false;
        }
        let tasks = self.tasks.clone();
        let moved = self.aside(move |_, spill| Ok(spill.set_aside(move || tasks.is_cancelled()))).await;
        if moved.as_ref().is_ok_and(|moved| *moved) {
            self.state.leave_spill();
        }
        moved.unwrap_or(false)
    }
}

/// From the first write after a look to the next look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Rows, a few MB, at which the next look comes at once. If its result is uncertain, the oldest are dropped.
const UNPROVEN_MAX: usize = 8_192;

#[derive(Default)]
pub(super) struct Unproven {
    /// The file that they were written to: see [`crate::store::Store::files`].
    pub files: u64,
    batches: Vec<Arc<Vec<Record>>>,
    look_at: Option<Instant>,
}

impl Unproven {
    pub fn in_file(files: u64) -> Unproven {
        Unproven { files, ..Unproven::default() }
    }

    pub fn add(&mut self, batch: &Arc<Vec<Record>>) {
        if !batch.is_empty() {
            self.batches.push(Arc::clone(batch));
            self.look_at.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
    }

    /// When to read them back. None: there are none.
    pub fn look_at(&self) -> Option<Instant> {
        if self.rows() >= UNPROVEN_MAX { Some(Instant::now()) } else { self.look_at }
    }

    pub fn batches(&self) -> Vec<Arc<Vec<Record>>> {
        self.batches.clone()
    }

    /// Takes all of them out: they are proven, or to be written again.
    pub fn take(&mut self) -> Vec<Arc<Vec<Record>>> {
        self.look_at = None;
        std::mem::take(&mut self.batches)
    }

    /// The result of a look is uncertain, or it has more to do: the next one comes even if no row does.
    pub fn not_now(&mut self) {
        while self.rows() >= UNPROVEN_MAX {
            self.batches.remove(0);
        }
        self.look_at = Some(Instant::now() + LOOK_EVERY);
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_facts::record::sample;

    fn batch(rows: usize) -> Arc<Vec<Record>> {
        Arc::new(vec![Record::Race(Box::new(sample::race(0))); rows])
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_read_back_soon_and_many_at_once() {
        let (mut unproven, now) = (Unproven::default(), Instant::now());
        unproven.add(&batch(0));
        assert_eq!(unproven.look_at(), None);
        unproven.add(&batch(1));
        tokio::time::advance(LOOK_EVERY / 2).await;
        unproven.add(&batch(1));
        assert_eq!(unproven.look_at(), Some(now + LOOK_EVERY), "further rows do not put it off");
        unproven.add(&batch(UNPROVEN_MAX - 2));
        assert_eq!(unproven.look_at(), Some(Instant::now()));
        unproven.not_now();
        assert_eq!((unproven.rows(), unproven.look_at()), (UNPROVEN_MAX - 1, Some(Instant::now() + LOOK_EVERY)));
        assert_eq!((unproven.take().len(), unproven.look_at()), (2, None));
    }
}
