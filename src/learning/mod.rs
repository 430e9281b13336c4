//! What is learnt while requests are served, shared by all of them: of each upstream what its attempts showed, of each model
//! its money, of each conversation who has read it.
//!
//! Only the sharing is here; what is made of it is decided in `routing::adaptive`. Read without a lock on a request's way.

mod known;
mod prefixes;
mod purse;
mod remember;
mod sighting;
mod waiting;

#[cfg(test)]
mod tests;

pub use known::Known;
pub use prefixes::Blocks;
pub use purse::{Purse, SharedLedger};
pub use remember::Remembering;
pub use sighting::{Ending, Sighting, Spotted};
pub use waiting::Longest;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::clock::{Instant, micros_between, wall_micros};
use crate::routing::adaptive::Ledger;
use prefixes::Prefixes;

/// Upstreams that are known apart; callers may name any. Beyond it they share one.
const UPSTREAMS_MAX: usize = 10_000;
/// Ledgers: one for each model and budget. Beyond it they share one.
const LEDGERS_MAX: usize = 1_000;

/// Bytes of a prompt that make a token, as a guess; the history counts by the same.
const BYTES_PER_TOKEN: f64 = 4.0;

/// All of it. Held by the gateway, and by every attempt that runs.
pub struct Learning {
    began: Instant,
    /// The wall clock when it began, microseconds since 1970.
    began_us: i64,
    upstreams: ArcSwap<HashMap<String, Arc<Known>>>,
    ledgers: ArcSwap<HashMap<LedgerKey, SharedLedger>>,
    /// For those beyond [`LEDGERS_MAX`]: nothing may be spent on extras.
    beyond: SharedLedger,
    /// One may add to either.
    adding: Mutex<()>,
    prefixes: Prefixes,
}

/// For whom a ledger is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LedgerKey {
    model: String,
    /// As the bits of its number: requests with budgets of their own must not spend what others have saved.
    budget: u64,
    /// Not in tokens.
    money: bool,
}

/// One ledger with what it is for.
pub struct Account {
    pub model: String,
    /// Extra cost over base cost, at most.
    pub budget: f64,
    /// It is counted in US dollars, not in tokens.
    pub money: bool,
    pub ledger: SharedLedger,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning::new()
    }
}

impl Learning {
    /// Nothing is known yet.
    pub fn new() -> Learning {
        Learning {
            began: Instant::now(),
            began_us: wall_micros(),
            upstreams: ArcSwap::default(),
            ledgers: ArcSwap::default(),
            beyond: Arc::new(Mutex::new(Ledger::new(0.0))),
            adding: Mutex::default(),
            prefixes: Prefixes::default(),
        }
    }

    /// The clock of routing: the wall clock of the start and what has passed since, so that it never goes back. Microseconds.
    pub fn now_us(&self) -> i64 {
        self.at_us(Instant::now())
    }

    pub fn at_us(&self, at: Instant) -> i64 {
        self.began_us + micros_between(self.began, at)
    }

    /// By `provider/model`; made anew if it is not known yet.
    pub fn upstream(&self, name: &str) -> Arc<Known> {
        if let Some(known) = self.upstreams.load().get(name) {
            return known.clone();
        }
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.upstreams.load_full();
        let name = if now.len() < UPSTREAMS_MAX { name } else { "" };
        if let Some(known) = now.get(name) {
            return known.clone();
        }
        let known = Arc::new(Known::new(name));
        let mut next = HashMap::clone(&now);
        next.insert(name.to_owned(), known.clone());
        self.upstreams.store(Arc::new(next));
        known
    }

    /// Of a model of the configuration, for this budget; the empty name is for upstreams that requests name themselves.
    /// `money`: what it costs is counted in US dollars, and not in tokens.
    pub fn ledger(&self, model: &str, budget: f64, money: bool) -> SharedLedger {
        let key = LedgerKey { model: model.to_owned(), budget: budget.to_bits(), money };
        if let Some(ledger) = self.ledgers.load().get(&key) {
            return ledger.clone();
        }
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.ledgers.load_full();
        if let Some(ledger) = now.get(&key) {
            return ledger.clone();
        }
        if now.len() >= LEDGERS_MAX {
            return self.beyond.clone();
        }
        let ledger: SharedLedger = Arc::new(Mutex::new(Ledger::new(budget)));
        let mut next = HashMap::clone(&now);
        next.insert(key, ledger.clone());
        self.ledgers.store(Arc::new(next));
        ledger
    }

    /// Every upstream that is known, by name.
    pub fn upstreams(&self) -> Vec<Arc<Known>> {
        let mut all: Vec<Arc<Known>> = self.upstreams.load().values().cloned().collect();
        all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// Every ledger, by model and budget.
    pub fn accounts(&self) -> Vec<Account> {
        let ledgers = self.ledgers.load();
        let account = |(key, ledger): (&LedgerKey, &SharedLedger)| Account {
            model: key.model.clone(),
            budget: f64::from_bits(key.budget),
            money: key.money,
            ledger: ledger.clone(),
        };
        let mut all: Vec<Account> = ledgers.iter().map(account).collect();
        all.sort_unstable_by(|one, other| {
            one.model.cmp(&other.model).then_with(|| one.budget.total_cmp(&other.budget))
        });
        all
    }

    /// Forgets the ledgers of models that have become others. What runs there is settled with those that are forgotten.
    pub fn retain_ledgers(&self, remains: impl Fn(&str) -> bool) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = HashMap::clone(&self.ledgers.load_full());
        next.retain(|key, _| remains(&key.model));
        self.ledgers.store(Arc::new(next));
    }

    /// Forgets upstreams that have become others. What runs there goes on telling those that are forgotten.
    pub fn retain(&self, remains: impl Fn(&str) -> bool) {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = HashMap::clone(&self.upstreams.load_full());
        next.retain(|name, _| remains(name));
        self.upstreams.store(Arc::new(next));
    }

    /// The blocks of a prompt, whose parts come in the order in which a provider reads them.
    pub fn blocks(&self, parts: &[&[u8]]) -> Blocks {
        self.prefixes.blocks(parts)
    }

    /// Tokens from the beginning of this prompt that the upstream has read lately.
    pub fn known_tokens(&self, known: &Known, blocks: &Blocks, now_us: i64) -> f64 {
        self.prefixes.known_bytes(known.name(), blocks, now_us) as f64 / BYTES_PER_TOKEN
    }
}
