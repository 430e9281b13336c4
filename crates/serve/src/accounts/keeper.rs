//! What a running gateway does with teams, users and keys: it reads them at its start and when another process changed them,
//! takes over its own changes at once, and keeps its budgets in the store.
//!
//! Not on a request's path: all of it blocks, on threads for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Map;

use super::{
    AccountAnswer, AccountRefusal, AccountRequest, AccountScope, all_entries, budgets, made_callers, take_over,
};
use photofinish_base::clock::wall_micros;
use photofinish_base::shutdown::Shutdown;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::recorder::{Condition, Recorder};
use photofinish_history::store::{
    AccountChange, AccountEntry, Author, BudgetRow, FileChange, Store, StoreReader, WriteError, keep_snapshot,
    kept_snapshot,
};
use photofinish_limits::{BudgetChange, LimitClock};

/// How often changed budgets are kept.
const SAVE_EVERY: Duration = Duration::from_millis(100);
/// How many of these pass between two looks for changes of another process.
const LOOK_EVERY: u32 = 5;

/// Of one gateway.
pub struct AccountKeeper {
    pub(super) gateway: Arc<Gateway>,
    recorder: Recorder,
    pub(super) store: Store,
    /// Held while the store and what the gateway knows differ.
    state: Mutex<KeptState>,
}

#[derive(Default)]
pub(super) struct KeptState {
    /// The change of the store that the gateway knows; none before the first reading.
    pub(super) seen: Option<i64>,
    /// Whether what was kept next to the database was looked for.
    has_looked_aside: bool,
    /// Whether the budgets of before the start are known.
    has_budgets: bool,
    /// Budgets that are not written yet, by subject, span and start.
    waiting: BTreeMap<(String, String, i64), BudgetRow>,
    /// The problem that the log has.
    told: Option<String>,
}

impl AccountKeeper {
    pub fn new(gateway: Arc<Gateway>, recorder: Recorder) -> Arc<AccountKeeper> {
        let store = Store::unopened(&gateway.live().config.store.address);
        let keeper = Arc::new(AccountKeeper { gateway, recorder, store, state: Mutex::default() });
        // So after a crash a budget has no less than the rows that it paid.
        let weak = Arc::downgrade(&keeper);
        let save = move || weak.upgrade().map_or(Ok(()), |keeper| keeper.save(&mut keeper.state()));
        keeper.recorder.before_rows(Box::new(save));
        keeper
    }

    /// Writes into the audit what changed in a configuration file; see [`Store::enter`]. Blocks.
    pub fn enter(&self, file: (&str, &str), changes: impl Fn(Option<&str>) -> Vec<FileChange>, by: &Author) {
        if let Err(error) = self.store.enter(file, changes, (by, wall_micros())) {
            tracing::warn!(
                "the audit does not say yet what changed in {}: it is looked for at the next reload or start: {error}",
                file.0
            );
        }
    }

    /// Does what the request wants; it is in force when this returns. Blocks.
    ///
    /// # Errors
    /// Nothing was done.
    pub fn answer(
        &self,
        request: &AccountRequest,
        by: &Author,
        scope: &AccountScope,
    ) -> Result<AccountAnswer, AccountRefusal> {
        let state = self.state();
        let answer = request.answer(self.gateway.live().as_read(), &self.store, (by, scope), wall_micros())?;
        // Before the first reading they would count as all there are. The next look finds them once more.
        if state.seen.is_some() && !answer.changes.is_empty() {
            self.gateway.change_made(|made| take_over(made, &answer.changes));
        }
        Ok(answer)
    }

    /// Reads the store, keeps the budgets that changed, and takes over what another process changed. What fails is tried again
    /// at the next turn. Blocks.
    pub fn turn(&self, looks: bool) {
        let mut state = self.state();
        let is_new = state.seen.is_none() || !state.has_budgets;
        let looked = if looks || is_new { self.look(&mut state) } else { Ok(()) };
        let saved = self.save(&mut state).map_err(|error| error.to_string());
        let problem = looked.and(saved).err();
        if problem != state.told {
            match &problem {
                Some(problem) => tracing::warn!(problem, "keys and budgets cannot be read or kept; it is tried again"),
                None => tracing::info!("keys and budgets are read and kept again"),
            }
            state.told = problem;
        }
    }

    /// What comes before the first request. A database that does not answer is not waited for: what was known last counts. Blocks.
    pub fn begin(&self) {
        match self.recorder.condition() {
            Condition::Ok => self.turn(true),
            _ => self.take_kept(&mut self.state()),
        }
    }

    /// Whether the configuration has anybody who may have keys, or anything that is limited.
    pub fn is_needed(&self) -> bool {
        let live = self.gateway.live();
        !live.config.users.is_empty() || !live.config.limits.is_empty()
    }

    /// Takes turns until it is cancelled.
    pub async fn run(self: Arc<AccountKeeper>, shutdown: Shutdown) {
        let mut ending = std::pin::pin!(shutdown.cancelled());
        for turn in 1_u32.. {
            let is_needed = self.is_needed();
            // Without users and limits it only waits for a configuration that has some.
            let wait = if is_needed { SAVE_EVERY } else { SAVE_EVERY * LOOK_EVERY };
            if tokio::time::timeout(wait, &mut ending).await.is_ok() {
                return;
            }
            let looks = turn.is_multiple_of(LOOK_EVERY) && is_needed;
            if looks || self.gateway.usage().has_changes() {
                let accounts = self.clone();
                // A panic is in the log, and the next turn comes.
                let _ = shutdown.run_blocking(move || accounts.turn(looks)).await;
            }
        }
    }

    fn look(&self, state: &mut KeptState) -> Result<(), String> {
        let reader = StoreReader::open(self.store.address()).map_err(|error| error.to_string());
        if reader.is_err() && state.seen.is_none() {
            self.take_kept(state);
        }
        let reader = reader?;
        let told = |error: photofinish_history::store::ReadError| error.to_string();
        if !state.has_budgets {
            let kept: Vec<BudgetChange> = reader.budgets().map_err(told)?.iter().filter_map(budgets::change).collect();
            let now = LimitClock { us: self.gateway.learning().now_us(), wall_us: wall_micros() };
            self.gateway.usage().restore(kept, now);
            state.has_budgets = true;
        }
        let newest = reader.account_changes().map_err(told)?;
        if state.seen.is_some_and(|seen| newest < seen) {
            return Err(
                "the store lost the keys, users and teams that were made at run time: those that are known count until the gateway \
                 ends. Restore their tables from a copy, or make them again"
                    .to_owned()
            );
        }
        let changed = state.seen.map(|seen| reader.changed_after(seen)).transpose().map_err(told)?.flatten();
        match changed {
            Some(_) if state.seen == Some(newest) => {}
            Some(changed) => {
                let mut changes = Vec::new();
                for (kind, id) in changed {
                    let after = reader.account(kind, &id).map_err(told)?;
                    let gone = AccountEntry { kind, id, settings: Map::new(), version: 0, sha256: None };
                    changes.push(AccountChange { before: Some(after.clone().unwrap_or(gone)), after });
                }
                self.gateway.change_made(|known| take_over(known, &changes));
            }
            None => {
                let made = made_callers(&all_entries(&reader).map_err(told)?);
                self.gateway.change_made(|known| *known = made);
            }
        }
        if state.seen != Some(newest) && self.store.address().is_server() {
            state.seen = Some(newest);
            let kept = keep_snapshot(self.store.address(), &all_entries(&reader).map_err(told)?);
            kept.map_err(|error| format!("what a start without the database needs cannot be kept: {error}"))?;
        }
        state.seen = Some(newest);
        self.follow_sessions(&reader)
    }

    /// A database server is away at the start: what was known last counts until it is back.
    fn take_kept(&self, state: &mut KeptState) {
        if std::mem::replace(&mut state.has_looked_aside, true) || !self.store.address().is_server() {
            return;
        }
        if let Some(entries) = kept_snapshot(self.store.address()) {
            let accounts = entries.len();
            tracing::warn!(
                accounts,
                "the database does not answer: the users, teams and keys that were known last count meanwhile"
            );
            self.gateway.change_made(|known| *known = made_callers(&entries));
        }
    }

    fn save(&self, state: &mut KeptState) -> Result<(), WriteError> {
        // Before it knows those of before the start, they would be lost.
        if !state.has_budgets {
            return Ok(());
        }
        for row in self.gateway.usage().take_changes().into_iter().map(budgets::row) {
            state.waiting.insert((row.subject.clone(), row.span.clone(), row.start), row);
        }
        if !state.waiting.is_empty() {
            let rows: Vec<BudgetRow> = state.waiting.values().cloned().collect();
            self.store.save_budgets(&rows)?;
            state.waiting.clear();
        }
        Ok(())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
