//! Circuit breakers: an upstream that keeps failing by its own fault is skipped for a while and then tried by one
//! request at a time. One state machine per upstream and surface: input is an event and a `now`, output is the state.
//!
//! A trial in addition to another upstream adds no risk for a client. One starts every `open`, so a recovered upstream
//! is found within that time. A trial in place of another upstream delays its client, so its wait doubles up to
//! `open_max`.
//!
//! An upstream that is back gets two attempts at once, and twice as many each second: its caches are cold, and all clients
//! together could make it fail again. Beyond that others go first.
//!
//! A failure that a request may have caused opens the breaker only for its caller, until another caller meets a failure
//! too. Not for keys or 429s, which are in `cooldown`; `verdict` decides which failures count.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use photofinish_base::clock::Instant;
use photofinish_config::BreakerSettings as Settings;
use photofinish_wire::Surface;

/// Maximum breakers per surface for upstreams that callers named. Beyond it, closed breakers are forgotten first.
const NAMED_MAX: usize = 1_000;
/// Shortest wait for a client. It applies when only the trial of another request blocks the upstream.
const SOON: Duration = Duration::from_secs(1);

/// Attempts that may run at once at an upstream that is back: one, and an earlier trial that hangs. They double each second, so often;
/// after that there is no limit.
const RETURNS_WITH: u32 = 2;
const DOUBLINGS: u64 = 10;

/// Complete answers that make up for one that broke off: a breaker opens where more than one in nine breaks.
const BREAK: u32 = 8;

/// How an upstream may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerStatus {
    /// Use it as usual.
    Closed,
    /// Skip it for this long.
    Open(Duration),
    /// Its wait is over: one request may test it.
    HalfOpen,
}

impl BreakerStatus {
    /// How long a client must wait for it.
    pub fn wait(self) -> Duration {
        if let BreakerStatus::Open(wait) = self { wait } else { SOON }
    }
}

/// The role of a trial in its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialScope {
    /// In addition to another upstream, whose answer does not wait for the trial.
    InAddition,
    /// At its normal place in the list: the next upstream starts only after it fails.
    InPlace,
}

/// The scope of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerScope<'a> {
    /// `provider/model`
    pub upstream: &'a str,
    pub surface: Surface,
    /// No configured model lists it: a caller named it.
    pub named: bool,
}

/// All breakers. An upstream without an entry is closed and has no failures.
#[derive(Debug, Default)]
pub struct Breakers {
    /// The key is the surface and whether callers named the upstream; the inner key is the upstream.
    breakers: HashMap<(Surface, bool), HashMap<String, CircuitBreaker>>,
}

#[derive(Debug, Default)]
struct CircuitBreaker {
    /// Consecutive failures before the first token. A first token resets it.
    failed: u32,
    /// Answers that broke off after their first token, in eighths. A complete answer takes one eighth.
    broke: u32,
    met_by: FailureSource,
    open: Option<OpenBreaker>,
    /// When it closed. None: it never opened, or is used as usual again.
    returned: Option<Instant>,
}

/// The callers whose requests met the counted failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FailureSource {
    #[default]
    NoCaller,
    One(u64),
    /// Several callers, or a failure that no request can cause.
    Several,
}

#[derive(Clone, Copy, Debug)]
struct OpenBreaker {
    /// When it opened, or when the latest failed trial was sent.
    since: Instant,
    /// How long it is skipped at its normal place in the list.
    lasts: Duration,
    /// Start of the latest trial. None: no trial is running.
    trial: Option<Instant>,
    /// Another gateway found it open, and no trial failed here.
    is_heard: bool,
    /// Open only for this caller. None: open for all.
    only: Option<u64>,
    /// The caller whose request may have made the latest trial fail.
    tried_by: Option<u64>,
    /// When the latest trial of `tried_by` was sent, if it failed after an earlier failed one. It delays no other
    /// caller.
    again: Option<Instant>,
}

impl Breakers {
    /// The state for `caller`. None: the state for all callers.
    pub fn status(
        &self,
        asked: BreakerScope<'_>,
        settings: &Settings,
        caller: Option<u64>,
        trying: TrialScope,
        now: Instant,
    ) -> BreakerStatus {
        let open = self.get(asked).filter(|_| settings.failures > 0).and_then(|breaker| breaker.open);
        let Some(open) = open.filter(|open| open.only.is_none() || open.only == caller) else {
            return BreakerStatus::Closed;
        };
        let due = open.due(settings, caller, trying);
        if now < due { BreakerStatus::Open((due - now).max(SOON)) } else { BreakerStatus::HalfOpen }
    }

    /// How many attempts may run at the upstream at once before others go first, if it is just back. None: any number.
    pub fn room(&self, asked: BreakerScope<'_>, now: Instant) -> Option<u32> {
        let doublings = now.saturating_duration_since(self.get(asked)?.returned?).as_secs();
        (doublings < DOUBLINGS).then(|| RETURNS_WITH << doublings)
    }

    /// Begins a trial of an open breaker, also before its wait is over. None if a trial began less than `open` ago.
    /// After that a second trial may start while the first one still runs: an upstream that hung may have recovered.
    pub fn begin_trial(&mut self, asked: BreakerScope<'_>, settings: &Settings, now: Instant) -> Option<Instant> {
        let open = self.get_mut(asked)?.open.as_mut()?;
        if open.trial.is_some_and(|begun| now < begun + settings.open) {
            return None;
        }
        open.trial = Some(now);
        open.trial
    }

    /// Ends the trial that began at `begun`, whatever its result.
    pub fn end_trial(&mut self, asked: BreakerScope<'_>, begun: Instant) {
        let open = self.get_mut(asked).and_then(|breaker| breaker.open.as_mut());
        if let Some(open) = open.filter(|open| open.trial == Some(begun)) {
            open.trial = None;
        }
    }

    /// Records a failure of an attempt sent at `sent`; `broke`: it failed after its first token. `caller`: the caller
    /// whose request may have caused it. None: no request can cause it, or there is only one caller. Returns how long
    /// the breaker is open, if this failure opens it.
    pub fn failed(
        &mut self,
        asked: BreakerScope<'_>,
        settings: &Settings,
        broke: bool,
        caller: Option<u64>,
        sent: Instant,
        now: Instant,
    ) -> Option<Duration> {
        if settings.failures == 0 {
            return None;
        }
        let breakers = self.breakers.entry((asked.surface, asked.named)).or_default();
        if asked.named {
            make_room(breakers, asked.upstream);
        }
        let breaker = breakers.entry(asked.upstream.to_owned()).or_default();
        if let Some(open) = &mut breaker.open {
            // An attempt sent before the breaker opened gives no new information.
            if sent < open.since {
                return None;
            }
            if open.only.is_some() && open.only != caller {
                *open = OpenBreaker::new(settings, None, now);
                return Some(settings.open);
            }
            if open.trial.is_some() {
                open.trial_failed(settings, caller, sent);
            }
            return None;
        }
        let (run, each) = if broke { (&mut breaker.broke, BREAK) } else { (&mut breaker.failed, 1) };
        *run = run.saturating_add(each);
        let opens = *run / each >= settings.failures;
        breaker.met_by = match (breaker.met_by, caller) {
            (FailureSource::NoCaller, Some(caller)) => FailureSource::One(caller),
            (FailureSource::One(before), Some(caller)) if before == caller => FailureSource::One(caller),
            _ => FailureSource::Several,
        };
        if !opens {
            return None;
        }
        let only = if let FailureSource::One(caller) = breaker.met_by { Some(caller) } else { None };
        breaker.open = Some(OpenBreaker::new(settings, only, now));
        Some(settings.open)
    }

    /// Records the first token of an attempt sent at `sent`. True if it closes the breaker. An attempt sent before the
    /// breaker opened does not close it, unless another gateway found it open.
    pub fn first_token(&mut self, asked: BreakerScope<'_>, sent: Instant, now: Instant) -> bool {
        let returns = self.room(asked, now).is_some();
        let Some(breaker) = self.get_mut(asked) else { return false };
        if breaker.open.is_some_and(|open| sent < open.since && !open.is_heard) {
            return false;
        }
        breaker.failed = 0;
        let closed = breaker.open.take();
        if let Some(open) = closed {
            let returned = open.only.is_none().then_some(now);
            *breaker = CircuitBreaker { returned, ..CircuitBreaker::default() };
        } else if !returns {
            breaker.returned = None;
        }
        self.forget(asked);
        closed.is_some()
    }

    /// Records an answer that ended well.
    pub fn ended_well(&mut self, asked: BreakerScope<'_>) {
        if let Some(breaker) = self.get_mut(asked).filter(|breaker| breaker.open.is_none()) {
            breaker.broke = breaker.broke.saturating_sub(1);
            self.forget(asked);
        }
    }

    /// Another gateway found it open: it opens here, unless it is open. True if it does.
    pub fn open_as_heard(&mut self, asked: BreakerScope<'_>, settings: &Settings, now: Instant) -> bool {
        if settings.failures == 0 {
            return false;
        }
        let breakers = self.breakers.entry((asked.surface, asked.named)).or_default();
        let breaker = breakers.entry(asked.upstream.to_owned()).or_default();
        let opens = breaker.open.is_none();
        breaker.open.get_or_insert_with(|| OpenBreaker { is_heard: true, ..OpenBreaker::new(settings, None, now) });
        opens
    }

    /// Whether it is open for all callers, with or without a trial.
    pub fn is_open(&self, asked: BreakerScope<'_>) -> bool {
        self.get(asked).is_some_and(CircuitBreaker::is_open)
    }

    /// Whether it is open for all callers, and its wait is not over.
    pub fn is_waiting(&self, asked: BreakerScope<'_>, now: Instant) -> bool {
        let open = self.get(asked).and_then(|breaker| breaker.open);
        open.is_some_and(|open| open.only.is_none() && now < open.since + open.lasts)
    }

    /// The upstreams whose breaker is open for all callers, with or without a trial.
    pub fn open(&self) -> BTreeSet<String> {
        let all = self.breakers.values().flatten();
        all.filter(|(_, breaker)| breaker.is_open()).map(|(upstream, _)| upstream.clone()).collect()
    }

    /// Forgets all breakers for which `remains` is false.
    pub fn retain(&mut self, remains: impl Fn(BreakerScope<'_>) -> bool) {
        for ((surface, named), breakers) in &mut self.breakers {
            breakers.retain(|upstream, _| remains(BreakerScope { upstream, surface: *surface, named: *named }));
        }
    }

    fn get(&self, asked: BreakerScope<'_>) -> Option<&CircuitBreaker> {
        self.breakers.get(&(asked.surface, asked.named))?.get(asked.upstream)
    }

    fn get_mut(&mut self, asked: BreakerScope<'_>) -> Option<&mut CircuitBreaker> {
        self.breakers.get_mut(&(asked.surface, asked.named))?.get_mut(asked.upstream)
    }

    /// Drops a breaker that says nothing.
    fn forget(&mut self, asked: BreakerScope<'_>) {
        let is_blank = |breaker: &CircuitBreaker| {
            breaker.failed == 0 && breaker.broke == 0 && breaker.open.is_none() && breaker.returned.is_none()
        };
        if self.get(asked).is_some_and(is_blank)
            && let Some(breakers) = self.breakers.get_mut(&(asked.surface, asked.named))
        {
            breakers.remove(asked.upstream);
        }
    }
}

/// If there are too many breakers, drops the closed ones. If all are open, drops the one that is due first.
fn make_room(breakers: &mut HashMap<String, CircuitBreaker>, upstream: &str) {
    if breakers.len() < NAMED_MAX || breakers.contains_key(upstream) {
        return;
    }
    breakers.retain(|_, breaker| breaker.open.is_some());
    if breakers.len() >= NAMED_MAX {
        let due = |breaker: &CircuitBreaker| breaker.open.map(|open| open.since + open.lasts);
        let earliest = breakers.iter().min_by_key(|(_, breaker)| due(breaker)).map(|(name, _)| name.clone());
        earliest.map(|name| breakers.remove(&name));
    }
}

impl CircuitBreaker {
    fn is_open(&self) -> bool {
        self.open.is_some_and(|open| open.only.is_none())
    }
}

impl OpenBreaker {
    fn new(settings: &Settings, only: Option<u64>, now: Instant) -> OpenBreaker {
        OpenBreaker {
            since: now,
            lasts: settings.open,
            trial: None,
            is_heard: false,
            only,
            tried_by: None,
            again: None,
        }
    }

    /// When `caller` may try it.
    fn due(&self, settings: &Settings, caller: Option<u64>, trying: TrialScope) -> Instant {
        let again = self.again.filter(|_| caller.is_some() && self.tried_by == caller);
        let since = self.since.max(again.unwrap_or(self.since));
        let (lasts, trial_for) = match trying {
            TrialScope::InAddition => (settings.open, settings.open),
            // While a trial hangs, no other request waits for a trial.
            TrialScope::InPlace => (self.lasts, settings.open_max),
        };
        let tried = self.trial.map_or(since, |begun| begun + trial_for);
        tried.max(since + lasts)
    }

    /// Records the failure of a trial sent at `sent`. The next wait starts at `sent`, not at the failure, so that a
    /// slow trial delays no other one.
    fn trial_failed(&mut self, settings: &Settings, caller: Option<u64>, sent: Instant) {
        self.trial = self.trial.filter(|begun| *begun > sent);
        if self.only.is_none() && caller.is_some() && self.tried_by == caller {
            // Repeated failures of a single caller do not keep it open for others.
            self.again = Some(sent);
            return;
        }
        self.lasts = self.lasts.saturating_mul(2).min(settings.open_max);
        (self.since, self.tried_by, self.again, self.is_heard) = (sent, caller, None, false);
    }
}

#[cfg(test)]
mod tests;
