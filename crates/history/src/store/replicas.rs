//! What several gateways on one database tell each other, a few times a second: each has a row for what it uses now, and reads those of the
//! others, the requests that they have recorded since, and what they have spent. Not for what follows from it: see the server's `replicas`.

use super::Store;
use super::accounts::BudgetRow;
use super::postgres::{self, Exchange};
use super::reader::{ReadError, StoreReader};
use super::write::WriteError;
use crate::record::recorded::Recorded;

/// What a gateway tells of itself.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Of the machine or container.
    pub name: String,
    pub version: String,
    /// How far its clock is ahead of the store's, in microseconds.
    pub clock_us: i64,
    /// Requests that run.
    pub running: usize,
    pub draining: bool,
    /// A digest of its configuration.
    pub configuration: String,
    /// What it uses of limits and upstreams, JSON.
    pub told: String,
}

/// A gateway, as its row says.
#[derive(Clone, Debug)]
pub struct ReplicaRow {
    /// Another one after each start.
    pub number: i64,
    pub started_at: i64,
    /// When it told last; microseconds since 1970, by the clock of the store.
    pub beat_at: i64,
    pub told: Told,
}

/// A key, or an upstream without keys, that a provider told to wait.
#[derive(Clone, Debug)]
pub struct HeardRefusal {
    pub provider: String,
    pub model_sent: String,
    pub key_id: Option<String>,
    /// As in `attempt.failure`.
    pub failure: String,
    pub retry_after_ms: Option<i64>,
}

/// What a gateway heard.
#[derive(Debug, Default)]
pub struct HeardReplicas {
    /// Its own number.
    pub number: i64,
    /// By the clock of the store, microseconds since 1970.
    pub store_us: i64,
    /// The others that live.
    pub others: Vec<ReplicaRow>,
    /// What all others have used of budgets, also those that ended.
    pub budgets: Vec<BudgetRow>,
    /// Another number after each change of teams, users and keys.
    pub changes: i64,
    /// What the others recorded since, of each gateway the oldest first; their times are by the clock of the store.
    pub requests: Vec<Recorded>,
    /// Refusals among them.
    pub refusals: Vec<HeardRefusal>,
    /// Requests that were too many to be read.
    pub left_out: u64,
}

/// The conversation of one gateway with the others.
pub struct Replicas(Exchange);

impl Replicas {
    /// None: the store is a file, which has one gateway.
    pub fn of(store: &Store) -> Option<Replicas> {
        postgres::is_postgres(store.path()).then(|| Replicas(Exchange::new(store.path())))
    }

    /// Tells, and hears what was told and recorded since. Blocks for a few seconds at most.
    ///
    /// # Errors
    /// The database does not answer now.
    pub fn exchange(&mut self, told: &Told) -> Result<HeardReplicas, WriteError> {
        self.0.exchange(told)
    }

    /// The gateway ends: the others need not wait until it is missed.
    ///
    /// # Errors
    /// As [`Replicas::exchange`].
    pub fn leave(&mut self) -> Result<(), WriteError> {
        self.0.leave()
    }
}

impl StoreReader {
    /// The gateways that told something lately, and the time by the clock of the store. A file has none.
    ///
    /// # Errors
    /// It takes too long, or the database cannot be read.
    pub fn replicas(&self) -> Result<(Vec<ReplicaRow>, i64), ReadError> {
        match postgres::is_postgres(self.path()) {
            true => self.ask(|connection| postgres::replicas(connection)),
            false => Ok((Vec::new(), 0)),
        }
    }
}
