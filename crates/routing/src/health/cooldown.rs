//! Cool-downs: a key after a 429 or a refusal, an upstream that its provider does not serve.
//!
//! A key is identified by its short hash. Keys and models that callers bring have their own table and evict nothing else. Not for
//! attempts that the gateway cancelled: they never count against a provider.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::verdict::CooldownReason;
use photofinish_base::clock::Instant;
use photofinish_wire::Surface;

/// The longest wait that a provider's Retry-After can cause.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The same where a limit is the account's: plans are used up for hours.
pub const ACCOUNT_RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// The wait after a 429 without Retry-After, doubled with each further one.
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
/// The longest cool-down without a Retry-After.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// How long after its end a cool-down still makes the next one longer.
const STRIKES_FOR: Duration = Duration::from_secs(120);
/// The longest wait for a used-up rate limit: a limit that refills steadily has room long before its reset.
pub const EXHAUSTED_MAX: Duration = Duration::from_secs(10);
/// Cool-down of a refused key or an upstream that the provider does not serve, while others serve: doubled with each further
/// refusal. A reload of the configuration ends it.
const REFUSED_FIRST: Duration = Duration::from_secs(10);
/// The longest cool-down of a key, model or account that a provider refused.
pub const REFUSED_MAX: Duration = Duration::from_secs(600);
/// The time in which one request may try a refused upstream if no other is left. Equal to the breakers' default wait: a
/// repair is found as soon, and twelve requests a minute are far below any provider's limit.
pub const ASK_AGAIN_FOR: Duration = Duration::from_secs(5);
/// Different request bodies that must meet a doubtful refusal, with no good answer in between, before it counts.
const BODIES: usize = 3;
/// Doubtful refusals that are kept for one upstream.
const WITNESSES_MAX: usize = 16;
/// How long after the latest one they count.
const SUSPECTED_FOR: Duration = Duration::from_secs(600);
/// Entries of each table. Only the table of keys and models from callers can reach it.
const ENTRIES_MAX: usize = 10_000;

/// The resources of an attempt: key, upstream and surface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CooldownTarget {
    pub provider: String,
    pub model: String,
    /// A server may lack one surface and serve the others.
    pub surface: Surface,
    /// None if no key is sent.
    pub key_id: Option<String>,
    /// The key is the caller's own.
    pub own_key: bool,
    /// A caller named it; no configured model lists it.
    pub named: bool,
}

/// The caller and the request of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalSource {
    /// The caller's id.
    pub caller: u64,
    /// A hash of the request's body.
    pub body: u64,
}

/// Length and reason of a cool-down.
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
    /// One model with one key, on all surfaces.
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
    /// The latest refusal, certain or doubtful.
    set: Instant,
    until: Instant,
    /// When one request may try it during the cool-down.
    ask_again: Instant,
    why: CooldownReason,
    /// Consecutive refusals without a wait; refusals during a cool-down count as one.
    strikes: u32,
    /// Doubtful refusals since the latest good answer or cool-down.
    witnesses: Vec<RefusalSource>,
}

/// All cool-downs.
#[derive(Debug, Default)]
pub struct Cooldowns {
    /// Shared keys, and configured upstreams with shared keys.
    entries: HashMap<CooldownScope, CooldownEntry>,
    /// Keys that callers brought, and upstreams that callers named.
    made_up: HashMap<CooldownScope, CooldownEntry>,
}

impl Cooldowns {
    /// Begins a cool-down and returns its length. `jitter`, in 0..1, spreads a back-off between half and all of it.
    pub fn cool_down(
        &mut self,
        aside: CooldownReason,
        target: &CooldownTarget,
        retry_after: Option<Duration>,
        now: Instant,
        jitter: f64,
    ) -> Duration {
        let entry = self.entry(scope_of(aside, target), aside, now);
        (entry.set, entry.ask_again) = (now, now + ASK_AGAIN_FOR);
        entry.witnesses.clear();
        if now >= entry.until + if aside.is_refusal() { REFUSED_MAX } else { STRIKES_FOR } {
            entry.strikes = 0;
        }
        // Ignore a wait of zero: it would cause request after request.
        let retry_after = retry_after.filter(|wait| !wait.is_zero());
        let wait = match (aside, retry_after) {
            (CooldownReason::RateLimited, Some(wait)) => wait.min(RETRY_AFTER_MAX),
            (CooldownReason::AccountRateLimited, Some(wait)) => wait.min(ACCOUNT_RETRY_AFTER_MAX),
            (CooldownReason::Exhausted, wait) => wait.unwrap_or_default().min(EXHAUSTED_MAX),
            // The request was sent before the first refusal arrived, so this refusal is not new.
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

    /// A refusal that may concern only the request. True once it is certain that it does not: several bodies and `callers` callers met
    /// it, with no good answer in between.
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
        // One caller takes at most its share of the entries.
        let of_caller = witnesses.iter().filter(|other| other.caller == refusal_source.caller).count();
        if !witnesses.contains(&refusal_source) && of_caller < BODIES && witnesses.len() < WITNESSES_MAX {
            witnesses.push(refusal_source);
        }
        let different = |of: fn(&RefusalSource) -> u64| witnesses.iter().map(of).collect::<BTreeSet<_>>().len();
        different(|refusal_source| refusal_source.body) >= BODIES
            && different(|refusal_source| refusal_source.caller) >= callers
    }

    /// Without entries no [`CooldownTarget`] is needed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.made_up.is_empty()
    }

    /// A good answer arrived for a request sent at `dispatched`. It ends the cool-downs of its key and upstream, except
    /// those that began later.
    pub fn clear(&mut self, target: &CooldownTarget, dispatched: Instant, now: Instant) {
        for scope in scopes(target) {
            let table = self.table_mut(&scope);
            if table.get(&scope).is_some_and(|entry| entry.until <= now || entry.set < dispatched) {
                table.remove(&scope);
            }
        }
    }

    /// Whether it still cools down for this reason.
    pub fn cools_for(&self, why: CooldownReason, target: &CooldownTarget, now: Instant) -> bool {
        self.get(&scope_of(why, target)).is_some_and(|entry| entry.why == why && entry.until > now)
    }

    /// The rest of the cool-down of `target`; none if there is none.
    pub fn wait(&self, target: &CooldownTarget, now: Instant) -> Option<CooldownPeriod> {
        let latest = scopes(target).filter_map(|scope| self.get(&scope)).max_by_key(|entry| entry.until)?;
        let wait = latest.until.checked_duration_since(now).filter(|wait| !wait.is_zero())?;
        Some(CooldownPeriod { wait, why: latest.why })
    }

    /// If no other upstream is left: whether this request may try `target` during a cool-down after a refusal. One request in
    /// [`ASK_AGAIN_FOR`] may.
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

    fn get(&self, scope: &CooldownScope) -> Option<&CooldownEntry> {
        if scope.is_made_up() { self.made_up.get(scope) } else { self.entries.get(scope) }
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
    /// The wait now; the next is twice as long, up to `max`.
    fn strike(&mut self, first: Duration, max: Duration) -> Duration {
        let wait = first.saturating_mul(1 << self.strikes.min(10)).min(max);
        self.strikes = self.strikes.saturating_add(1);
        wait
    }
}

/// If there are many entries, drops expired ones; a table full of running ones drops the earliest.
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

/// All scopes that may block `target`.
fn scopes(target: &CooldownTarget) -> impl Iterator<Item = CooldownScope> {
    key_scope(target).into_iter().chain([model_scope(target), CooldownScope::Upstream(target.clone())])
}

/// What cools down for this reason.
fn scope_of(why: CooldownReason, target: &CooldownTarget) -> CooldownScope {
    match (why, key_scope(target)) {
        (CooldownReason::RateLimited, _) => model_scope(target),
        (CooldownReason::AccountRateLimited | CooldownReason::KeyRefused, Some(key)) => key,
        _ => CooldownScope::Upstream(target.clone()),
    }
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
