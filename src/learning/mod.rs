//! What is learnt while requests are served, shared by all of them: of each upstream what its attempts showed, of each model
//! its money, of each conversation who has read it.
//!
//! Only the sharing is here; what is made of it is decided in `routing::adaptive`. What the configuration names is read without
//! a lock on a request's way, and keeps its place whatever callers name.

mod kept;
mod known;
mod prefixes;
mod prompts;
mod purse;
mod recent;
mod remember;
mod sighting;
mod waiting;

#[cfg(test)]
mod tests;

pub use kept::ConversationId;
pub use known::Known;
pub use prefixes::Blocks;
pub use purse::{Purse, SharedLedger};
pub use remember::Remembering;
pub use sighting::{Ending, Sighting, Spotted};
pub use waiting::Longest;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::clock::{Instant, micros_between, wall_micros};
use crate::routing::adaptive::Ledger;
use kept::Kept;
use prefixes::Prefixes;
use prompts::Prompts;
use recent::Recent;

/// Upstreams that callers name themselves and that are known; each takes some 10 kB.
const NAMED_MAX: usize = 1_000;
/// Ledgers of budgets that requests bring themselves, one for each model and budget.
const BROUGHT_MAX: usize = 256;

/// Bytes of a prompt that make a token, as a guess; the history counts by the same.
const BYTES_PER_TOKEN: f64 = 4.0;

/// All of it. Held by the gateway, and by every attempt that runs.
pub struct Learning {
    began: Instant,
    /// The wall clock when it began, microseconds since 1970.
    began_us: i64,
    /// What the configuration names.
    configured: ArcSwap<Configured>,
    /// What callers name beside that.
    named: Mutex<Recent<String, Arc<Known>>>,
    brought: Mutex<Recent<LedgerKey, SharedLedger>>,
    prefixes: Prefixes,
    /// Those of all upstreams.
    prompts: Prompts,
    kept: Kept,
}

/// Read without a lock; changed only with the configuration.
#[derive(Clone, Default)]
struct Configured {
    upstreams: HashMap<String, Arc<Known>>,
    ledgers: HashMap<LedgerKey, SharedLedger>,
}

/// For whom a ledger is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerKey {
    model: String,
    /// As the bits of its number: requests with budgets of their own must not spend what others have saved.
    budget: u64,
    /// Not in tokens.
    money: bool,
}

impl LedgerKey {
    /// `model`: empty for upstreams that requests name themselves. `money`: what it costs is counted in US dollars, and not
    /// in tokens.
    pub fn new(model: &str, budget: f64, money: bool) -> LedgerKey {
        LedgerKey { model: model.to_owned(), budget: budget.to_bits(), money }
    }
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
            configured: ArcSwap::default(),
            named: Mutex::new(Recent::new(NAMED_MAX)),
            brought: Mutex::new(Recent::new(BROUGHT_MAX)),
            prefixes: Prefixes::default(),
            prompts: Prompts::default(),
            kept: Kept::default(),
        }
    }

    /// The clock of routing: the wall clock of the start and what has passed since, so that it never goes back. Microseconds.
    pub fn now_us(&self) -> i64 {
        self.at_us(Instant::now())
    }

    pub fn at_us(&self, at: Instant) -> i64 {
        self.began_us + micros_between(self.began, at)
    }

    /// Gives these upstreams, by `provider/model`, and these ledgers places of their own, which nothing that callers name can
    /// take. What had one before and has none now is kept as if a caller had named it.
    pub fn configure(&self, upstreams: impl Iterator<Item = String>, ledgers: impl Iterator<Item = LedgerKey>) {
        let (mut named, mut brought) = (lock(&self.named), lock(&self.brought));
        let mut before = Configured::clone(&self.configured.load());
        let mut next = Configured::default();
        for name in upstreams {
            let known = before.upstreams.remove(&name).or_else(|| named.remove(&name));
            let known = known.unwrap_or_else(|| Arc::new(Known::new(&name)));
            next.upstreams.entry(name).or_insert(known);
        }
        for key in ledgers {
            let ledger = before.ledgers.remove(&key).or_else(|| brought.remove(&key));
            let ledger = ledger.unwrap_or_else(|| new_ledger(&key));
            next.ledgers.entry(key).or_insert(ledger);
        }
        self.configured.store(Arc::new(next));
        for (name, known) in before.upstreams {
            named.get_or_make(&name, || known);
        }
        for (key, ledger) in before.ledgers {
            brought.get_or_make(&key, || ledger);
        }
    }

    /// By `provider/model`; made anew if it is not known yet.
    pub fn upstream(&self, name: &str) -> Arc<Known> {
        if let Some(known) = self.configured.load().upstreams.get(name) {
            return known.clone();
        }
        lock(&self.named).get_or_make(&name.to_owned(), || Arc::new(Known::new(name)))
    }

    /// Of a model of the configuration, for this budget; the empty name is for upstreams that requests name themselves.
    /// `money`: what it costs is counted in US dollars, and not in tokens.
    pub fn ledger(&self, model: &str, budget: f64, money: bool) -> SharedLedger {
        let key = LedgerKey::new(model, budget, money);
        if let Some(ledger) = self.configured.load().ledgers.get(&key) {
            return ledger.clone();
        }
        lock(&self.brought).get_or_make(&key, || new_ledger(&key))
    }

    /// Every upstream that is known, by name.
    pub fn upstreams(&self) -> Vec<Arc<Known>> {
        let mut all: Vec<Arc<Known>> = self.configured.load().upstreams.values().cloned().collect();
        all.extend(lock(&self.named).iter().map(|(_, known)| known.clone()));
        all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// Every ledger, by model and budget.
    pub fn accounts(&self) -> Vec<Account> {
        let account = |(key, ledger): (&LedgerKey, &SharedLedger)| Account {
            model: key.model.clone(),
            budget: f64::from_bits(key.budget),
            money: key.money,
            ledger: ledger.clone(),
        };
        let mut all: Vec<Account> = self.configured.load().ledgers.iter().map(account).collect();
        all.extend(lock(&self.brought).iter().map(account));
        all.sort_unstable_by(|one, other| {
            one.model.cmp(&other.model).then_with(|| one.budget.total_cmp(&other.budget))
        });
        all
    }

    /// Forgets the ledgers of models that have become others. What runs there is settled with those that are forgotten.
    pub fn retain_ledgers(&self, remains: impl Fn(&str) -> bool) {
        let mut brought = lock(&self.brought);
        brought.retain(|key| remains(&key.model));
        let mut next = Configured::clone(&self.configured.load());
        next.ledgers.retain(|key, _| remains(&key.model));
        self.configured.store(Arc::new(next));
    }

    /// Forgets upstreams that have become others. What runs there goes on telling those that are forgotten.
    pub fn retain(&self, remains: impl Fn(&str) -> bool) {
        let mut named = lock(&self.named);
        named.retain(|name| remains(name));
        let mut next = Configured::clone(&self.configured.load());
        next.upstreams.retain(|name, _| remains(name));
        self.configured.store(Arc::new(next));
    }

    /// The blocks of a prompt, whose parts come in the order in which a provider reads them.
    pub fn blocks(&self, parts: &[&[u8]]) -> Blocks {
        self.prefixes.blocks(parts)
    }

    /// The prompt of a request of so many bytes was counted there.
    fn counted(&self, known: &Known, tokens: i64, bytes: i64) {
        known.prompts.counted(tokens, bytes);
        self.prompts.counted(tokens, bytes);
    }

    /// The conversation that opens so, if its prompt of so many bytes is one that a provider caches.
    pub fn conversation(&self, opening: &[&[u8]], prompt: usize) -> Option<ConversationId> {
        self.kept.conversation(opening, prompt)
    }

    /// The conversation asks this provider with this key now.
    pub fn keep_key(&self, provider: &str, conversation: ConversationId, key_id: &str) {
        self.kept.note(provider, conversation, key_id, self.now_us());
    }

    /// The place among these keys of the one that the conversation used lately at this provider.
    pub fn kept_key<'k>(
        &self,
        provider: &str,
        conversation: ConversationId,
        key_ids: impl Iterator<Item = &'k str>,
    ) -> Option<usize> {
        self.kept.place_of(provider, conversation, key_ids, self.now_us())
    }

    /// Tokens from the beginning of this prompt that the upstream has read lately.
    pub fn known_tokens(&self, known: &Known, blocks: &Blocks, now_us: i64) -> f64 {
        self.prefixes.known_bytes(known.name(), blocks, now_us) as f64 / BYTES_PER_TOKEN
    }
}

fn new_ledger(key: &LedgerKey) -> SharedLedger {
    Arc::new(Mutex::new(Ledger::new(f64::from_bits(key.budget))))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
