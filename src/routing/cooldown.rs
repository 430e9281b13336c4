//! Cool-downs: a key after a 429 or a refusal, an upstream that its provider does not serve.
//!
//! A key is known by its short hash. Keys and models that callers bring have a table of their own and evict nothing else. Not for
//! attempts that the gateway cancelled: they are never held against a provider.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::clock::Instant;
use crate::protocol::Surface;

/// The longest wait that a provider's Retry-After can cause.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The wait after a 429 that names none, doubled with each further one.
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// So long after a back-off has run out, the next one starts small again.
const STRIKES_FOR: Duration = Duration::from_secs(120);
/// The longest that used-up rate limits are believed: those that refill steadily have room long before their reset.
pub const EXHAUSTED_MAX: Duration = Duration::from_secs(10);
/// How long a refused key, or an upstream that is not served, is left alone while others serve: doubled with each further
/// refusal. A reload of the config forgets it.
const REFUSED_FIRST: Duration = Duration::from_secs(10);
pub const REFUSED_MAX: Duration = Duration::from_secs(600);
/// Where nothing else is left, one request in so long is let through to what was refused. As long as breakers wait by default:
/// what was mended is found as soon, and twelve requests a minute are far below what any provider allows.
pub const ASK_AGAIN_FOR: Duration = Duration::from_secs(5);
/// Different bodies that a doubtful refusal must have answered, with nothing served between, before it counts.
const BODIES: usize = 3;
/// Refusals that are kept of one upstream.
const WITNESSES_MAX: usize = 16;
/// So long after the latest refusal the earlier ones no longer count.
const SUSPECTED_FOR: Duration = Duration::from_secs(600);
/// Entries that are kept in each table. Only that of what callers make up can become so large.
const ENTRIES_MAX: usize = 10_000;

/// Why something is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CooldownReason {
    /// 429: this key for this model, for Retry-After or a growing while. Most providers count each model apart.
    RateLimited,
    /// A 429 that says that it is the whole account's: this key, whatever the model. Where no key is sent, this upstream.
    AccountRateLimited,
    /// 401: this key, for a growing while. Where no key is sent, this upstream.
    KeyRefused,
    /// 402 or 403: this upstream with this key on this surface, for a growing while.
    Forbidden,
    /// 404 or 501: the same.
    NotFound,
    /// A good answer whose headers say that nothing is left: this upstream with this key, for a moment.
    Exhausted,
}

impl CooldownReason {
    /// It was refused, and not only told to wait: no wait is known to help.
    pub fn is_refusal(self) -> bool {
        matches!(self, CooldownReason::KeyRefused | CooldownReason::Forbidden | CooldownReason::NotFound)
    }
}

/// What an attempt would use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CooldownTarget {
    pub provider: String,
    pub model: String,
    /// What is asked of it: a server may lack one surface and serve the others.
    pub surface: Surface,
    /// None where no key is sent.
    pub key_id: Option<String>,
    /// The key is the caller's own.
    pub own_key: bool,
    /// No model of the configuration lists it: a caller named it.
    pub named: bool,
}

/// Who met a refusal, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalSource {
    /// Tells callers apart.
    pub caller: u64,
    /// A hash of the request's body.
    pub body: u64,
}

/// How long something is set aside, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CooldownPeriod {
    pub wait: Duration,
    pub why: CooldownReason,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CooldownScope {
    /// Provider and key.
    Key {
        provider: String,
        key_id: String,
        own: bool,
    },
    /// One model with one key, on whatever surface.
    Model {
        provider: String,
        model: String,
        key_id: Option<String>,
        own: bool,
        named: bool,
    },
    Upstream(CooldownTarget),
}

impl CooldownScope {
    fn is_made_up(&self) -> bool {
        match self {
            CooldownScope::Key { own, .. } => *own,
            CooldownScope::Model { own, named, .. } => *own || *named,
            CooldownScope::Upstream(target) => target.own_key || target.named,
        }
    }
}

#[derive(Clone, Debug)]
struct CooldownEntry {
    /// When it was last heard that it must be set aside, or may have to be.
    set: Instant,
    until: Instant,
    /// When a request may be let through although it is set aside.
    ask_again: Instant,
    why: CooldownReason,
    /// Refusals in a row that named no wait; those that came while it was set aside already count as one.
    strikes: u32,
    /// Doubtful refusals, since something was served or it was set aside.
    witnesses: Vec<RefusalSource>,
}

/// Everything that is set aside.
#[derive(Debug, Default)]
pub struct Cooldowns {
    /// Shared keys, and upstreams of the configuration with them.
    entries: HashMap<CooldownScope, CooldownEntry>,
    /// What callers brought or named.
    made_up: HashMap<CooldownScope, CooldownEntry>,
}

impl Cooldowns {
    /// Sets `target` aside and returns for how long. `jitter`, in 0..1, spreads a back-off between half and all of it.
    pub fn set_aside(
        &mut self,
        aside: CooldownReason,
        target: &CooldownTarget,
        retry_after: Option<Duration>,
        now: Instant,
        jitter: f64,
    ) -> Duration {
        let scope = match (aside, key_scope(target)) {
            (CooldownReason::RateLimited, _) => model_scope(target),
            (CooldownReason::AccountRateLimited | CooldownReason::KeyRefused, Some(key)) => key,
            _ => CooldownScope::Upstream(target.clone()),
        };
        let entry = self.entry(scope, aside, now);
        (entry.set, entry.ask_again) = (now, now + ASK_AGAIN_FOR);
        entry.witnesses.clear();
        if now >= entry.until + if aside.is_refusal() { REFUSED_MAX } else { STRIKES_FOR } {
            entry.strikes = 0;
        }
        // A wait of nothing is no wait: the provider would be asked again at once, and again.
        let retry_after = retry_after.filter(|wait| !wait.is_zero());
        let wait = match (aside, retry_after) {
            (CooldownReason::RateLimited | CooldownReason::AccountRateLimited, Some(wait)) => wait.min(RETRY_AFTER_MAX),
            (CooldownReason::Exhausted, wait) => wait.unwrap_or_default().min(EXHAUSTED_MAX),
            // Sent before the first of them was answered: it tells nothing new.
            _ if now < entry.until => entry.until - now,
            (CooldownReason::RateLimited | CooldownReason::AccountRateLimited, None) => {
                entry.strike(BACK_OFF_FIRST, BACK_OFF_MAX).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
            }
            (CooldownReason::KeyRefused | CooldownReason::Forbidden | CooldownReason::NotFound, _) => {
                entry.strike(REFUSED_FIRST, REFUSED_MAX)
            }
        };
        if now + wait >= entry.until {
            (entry.until, entry.why) = (now + wait, aside);
        }
        wait
    }

    /// A refusal that may be about the request alone. True once it is certain that it is not: several bodies met it, and
    /// `callers` callers, and nothing was served between.
    pub fn suspect(
        &mut self,
        target: &CooldownTarget,
        refusal_source: RefusalSource,
        callers: usize,
        now: Instant,
    ) -> bool {
        let entry = self.entry(CooldownScope::Upstream(target.clone()), CooldownReason::Forbidden, now);
        if now >= entry.set + SUSPECTED_FOR {
            entry.witnesses.clear();
        }
        entry.set = now;
        let witnesses = &mut entry.witnesses;
        // One caller takes no more than its share of the places.
        let of_caller = witnesses.iter().filter(|other| other.caller == refusal_source.caller).count();
        if !witnesses.contains(&refusal_source) && of_caller < BODIES && witnesses.len() < WITNESSES_MAX {
            witnesses.push(refusal_source);
        }
        let different = |of: fn(&RefusalSource) -> u64| witnesses.iter().map(of).collect::<BTreeSet<_>>().len();
        different(|refusal_source| refusal_source.body) >= BODIES
            && different(|refusal_source| refusal_source.caller) >= callers
    }

    /// True while nothing is known of anybody: then there is no need to make a [`CooldownTarget`].
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.made_up.is_empty()
    }

    /// A good answer came to what was sent at `dispatched`. What was held against its key and its upstream is forgotten,
    /// unless it was learnt after that and still holds: the answer is then older news.
    pub fn clear(&mut self, target: &CooldownTarget, dispatched: Instant, now: Instant) {
        for scope in scopes(target) {
            let table = self.table_mut(&scope);
            if table.get(&scope).is_some_and(|entry| entry.until <= now || entry.set < dispatched) {
                table.remove(&scope);
            }
        }
    }

    /// How long `target` is still set aside, and why; none if it is not.
    pub fn wait(&self, target: &CooldownTarget, now: Instant) -> Option<CooldownPeriod> {
        let table = |scope: &CooldownScope| if scope.is_made_up() { &self.made_up } else { &self.entries };
        let latest = scopes(target).filter_map(|scope| table(&scope).get(&scope)).max_by_key(|entry| entry.until)?;
        let wait = latest.until.checked_duration_since(now).filter(|wait| !wait.is_zero())?;
        Some(CooldownPeriod { wait, why: latest.why })
    }

    /// Where nothing else is left: whether a request may ask `target` although it is set aside, for being refused alone. That is
    /// one request in [`ASK_AGAIN_FOR`], and this one is it.
    pub fn let_through(&mut self, target: &CooldownTarget, now: Instant) -> bool {
        let in_force: Vec<CooldownScope> = scopes(target)
            .filter(|scope| self.table_mut(scope).get(scope).is_some_and(|entry| entry.until > now))
            .collect();
        let mut may = |scope: &CooldownScope| {
            let entry = self.table_mut(scope).get(scope);
            entry.is_some_and(|entry| entry.why.is_refusal() && entry.ask_again <= now)
        };
        if in_force.is_empty() || !in_force.iter().all(&mut may) {
            return false;
        }
        for scope in &in_force {
            if let Some(entry) = self.table_mut(scope).get_mut(scope) {
                entry.ask_again = now + ASK_AGAIN_FOR;
            }
        }
        true
    }

    fn table_mut(&mut self, scope: &CooldownScope) -> &mut HashMap<CooldownScope, CooldownEntry> {
        if scope.is_made_up() { &mut self.made_up } else { &mut self.entries }
    }

    fn entry(&mut self, scope: CooldownScope, why: CooldownReason, now: Instant) -> &mut CooldownEntry {
        let table = self.table_mut(&scope);
        make_room(table, now);
        table.entry(scope).or_insert(CooldownEntry {
            set: now,
            until: now,
            ask_again: now,
            why,
            strikes: 0,
            witnesses: Vec::new(),
        })
    }
}

impl CooldownEntry {
    /// The wait that is due now; the next is twice as long, up to `max`.
    fn strike(&mut self, first: Duration, max: Duration) -> Duration {
        let wait = first.saturating_mul(1 << self.strikes.min(10)).min(max);
        self.strikes = self.strikes.saturating_add(1);
        wait
    }
}

/// Drops what has long run out when there are many; a full table of running ones drops the earliest.
fn make_room(entries: &mut HashMap<CooldownScope, CooldownEntry>, now: Instant) {
    if entries.len() < ENTRIES_MAX {
        return;
    }
    entries.retain(|_, entry| entry.until > now);
    if entries.len() >= ENTRIES_MAX {
        let earliest = entries.iter().min_by_key(|(_, entry)| entry.until).map(|(scope, _)| scope.clone());
        earliest.map(|scope| entries.remove(&scope));
    }
}

/// Everything that may be held against `target`.
fn scopes(target: &CooldownTarget) -> impl Iterator<Item = CooldownScope> {
    key_scope(target).into_iter().chain([model_scope(target), CooldownScope::Upstream(target.clone())])
}

fn key_scope(target: &CooldownTarget) -> Option<CooldownScope> {
    let key_id = target.key_id.clone()?;
    Some(CooldownScope::Key { provider: target.provider.clone(), key_id, own: target.own_key })
}

fn model_scope(target: &CooldownTarget) -> CooldownScope {
    CooldownScope::Model {
        provider: target.provider.clone(),
        model: target.model.clone(),
        key_id: target.key_id.clone(),
        own: target.own_key,
        named: target.named,
    }
}

#[cfg(test)]
mod tests;
