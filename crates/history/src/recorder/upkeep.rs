//! What the writer task does beside writing: it reads back what it has written, and if the database seems damaged, it
//! keeps the rows in the spill file while the whole file is examined, moves the file aside, and begins a new one.
//!
//! Not for when: `suspicion` decides it.

use tokio::time::Instant;

use super::state::Condition;
use super::suspicion::{DamageStep, Witness};
use super::writer::{RETRY_LAST, Trouble, WriterState};
use crate::store::{FileFinding, MoveError, ReadBack, Symptom, WriteError};

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
        let path = self.store.path().display();
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
        let path = self.store.path().display();
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
            Ok(Err(MoveError::Database(error) | MoveError::Spill(error))) | Err(error) => error,
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
