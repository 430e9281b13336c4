//! The last two hours of one upstream, minute by minute, and what they say: whether failures or slowness have begun, or ended, and
//! when they turned. It is computed anew from the minutes each time, so rows may come in any order.
//!
//! Not for incidents that are known: see `incident`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::day::median;
use super::usual::{EXPECTED_LEAST, IncidentAttempt, SHARES, Usual, share_of};
use crate::estimate::class::Input;
use crate::estimate::spread::{Spread, Times};
use crate::estimate::survival::{Estimate, Observation};
use photofinish_base::clock::SECOND_US;

pub const MINUTE_US: i64 = 60 * SECOND_US;
/// Minutes that are kept: the longest window, and what an end must be watched for.
pub const KEPT: i64 = 120;
/// Stretches in which failures count as one.
const SLOT_US: i64 = 10 * SECOND_US;
const SLOTS: usize = (MINUTE_US / SLOT_US) as usize;
/// First tokens and TPOTs of one minute that are kept; all count for what is seen and expected.
const SAMPLES_MAX: usize = 16;

/// ln 10⁶: failures open an incident once they are a million times as likely with `FAILING` as with the usual share.
const OPENS_AT: f64 = 13.815_510_557_964_274;
/// The shares of failures that are compared. One and a half times the usual share replaces the latter, where that is more.
const FAILING: f64 = 0.25;
const WELL: f64 = 0.02;
/// Slots without an attempt after which earlier failures are forgotten: an hour.
const FORGOTTEN_AFTER: usize = 360;
/// Failures have ended after this number of minutes and of attempts without more of them than usual.
const CALM_MINUTES: i64 = 5;
const CALM_ATTEMPTS: u64 = 10;

/// One caller's failures are its own where others were answered as usual that, had they failed as often, would all have gone well with
/// this probability. A caller that always fails counts as one that fails three times in four: a few of others may be lucky.
const OTHERS_WELL: f64 = 0.01;
const CALLER_FAILS: f64 = 0.75;
/// Callers, and upstreams that won races, of one minute.
const NAMES_MAX: usize = 16;

/// Windows in minutes; the shortest with enough attempts counts.
const WINDOWS: [i64; 3] = [10, 30, 60];
/// Slowness opens an incident after this number of minutes below `SLOW` and below this multiple of its usual spread.
const SLOW_MINUTES: i64 = 5;
const SLOW: f64 = 0.55;
const SPREADS: f64 = 3.5;
/// And only if that is not chance: e¹² times as likely at the rate that was seen as at the usual one (Poisson). Windows of few requests
/// often fall that low.
const SHOWN_AT: f64 = 12.0;
/// It opens one at once if of the first tokens that were expected in three minutes hardly any came, and this was seen in as many stretches
/// of 10 s: a burst that was slow once fills one or two.
const STALLED_MINUTES: i64 = 3;
const STALLED: f64 = 0.15;
const STALLED_SLOTS: u32 = 4;
/// A wait this long, in first tokens that would usually have come meanwhile, shows a stall.
const STALLED_WAIT: f64 = 1.0;
/// It has ended after this number of minutes above this.
const WELL_MINUTES: i64 = 15;
const WELL_RATIO: f64 = 0.75;

/// What is slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    FirstTokens,
    Tokens,
}

/// 10 s.
#[derive(Clone, Copy, Debug, Default)]
struct FailureSlot {
    /// Attempts whose outcome is known, and those of them that failed.
    judged: u32,
    failed: u32,
    /// Failures with one that went well between them count apart: the attempts of one cause fail in a row.
    runs: u32,
    in_run: bool,
    /// An attempt waited much longer than usual.
    stalled: bool,
    /// The first caller whose attempts failed, and how many of them did. None: it is not known.
    caller: Option<u64>,
    of_caller: u32,
}

/// One minute.
#[derive(Clone, Debug, Default)]
struct Minute {
    attempts: u64,
    refusals: u64,
    /// Requests that ended in an error, and requests that another answered, of attempts that failed.
    broke: u64,
    saved: u64,
    slots: [FailureSlot; SLOTS],
    seen: f64,
    expected: f64,
    /// Relative to the unit of the class: see `usual`.
    times: Vec<(Input, f64, bool)>,
    /// Microseconds.
    tpot: Vec<f64>,
    /// Races that other upstreams won, by the upstream.
    lost_to: Vec<(String, u64)>,
    /// Attempts of known outcome of each caller, and those of them that failed.
    callers: Vec<(Option<u64>, [u64; 2])>,
}

/// The minutes of one upstream, the newest last.
#[derive(Debug, Default)]
pub struct Minutes {
    /// Number of the minute at the back since 1970.
    newest: i64,
    ring: VecDeque<Minute>,
    /// The newest attempt; microseconds since 1970.
    pub last_us: Option<i64>,
}

/// What the minutes of an incident show.
#[derive(Clone, Debug, Default)]
pub struct IncidentEvidence {
    pub attempts: u64,
    /// Of known outcome.
    pub judged: u64,
    pub failures: u64,
    pub refusals: u64,
    /// Requests that ended in an error, and requests that another answered, of attempts that failed.
    pub broke: u64,
    pub saved: u64,
    pub seen: f64,
    pub expected: f64,
    /// Races that other upstreams won, by the upstream.
    pub lost_to: BTreeMap<String, u64>,
    /// Whose attempts failed.
    pub callers: BTreeSet<u64>,
    times: Times,
    classes: [u64; Input::COUNT],
    tpot: Spread,
}

impl Minutes {
    /// Lets the time pass up to `now_us`.
    pub fn pass(&mut self, now_us: i64) {
        let minute = now_us.div_euclid(MINUTE_US);
        // A clock may be corrected by seconds.
        if minute - self.newest > KEPT || minute < self.newest - 1 {
            self.ring.clear();
        }
        if self.ring.is_empty() {
            self.newest = minute - KEPT;
        }
        while self.newest < minute {
            self.ring.push_back(Minute::default());
            self.newest += 1;
        }
        while self.ring.len() as i64 > KEPT {
            self.ring.pop_front();
        }
    }

    /// An attempt that is older than the minutes, or of the future, is left out.
    pub fn add(&mut self, attempt: &IncidentAttempt, usual: &Usual) {
        let number = attempt.at_us.div_euclid(MINUTE_US);
        let Some(minute) = self.place(number).and_then(|place| self.ring.get_mut(place)) else { return };
        minute.attempts += 1;
        minute.refusals += u64::from(attempt.refused);
        minute.name(attempt);
        let slot = &mut minute.slots[(attempt.at_us.rem_euclid(MINUTE_US) / SLOT_US) as usize];
        slot.add(attempt);
        minute.broke += u64::from(attempt.saved == Some(false));
        minute.saved += u64::from(attempt.saved == Some(true));
        if let Some((observation, times)) = attempt.ttft.as_ref().zip(usual.times(attempt.class)) {
            let (within, hazard) = times.hazard(observation.time_us);
            minute.seen += f64::from(u8::from(within && observation.event));
            minute.expected += hazard;
            slot.stalled |= hazard >= STALLED_WAIT && !(within && observation.event);
            if minute.times.len() < SAMPLES_MAX {
                let relative = observation.time_us as f64 / times.unit_us;
                minute.times.push((attempt.class, relative, observation.event));
            }
        }
        if let Some(tpot_us) = attempt.tpot_us.filter(|_| minute.tpot.len() < SAMPLES_MAX) {
            minute.tpot.push(tpot_us);
        }
        self.last_us = self.last_us.max(Some(attempt.at_us));
    }

    pub fn forget(&mut self) {
        *self = Minutes::default();
    }

    /// Whether an attempt was made in the last hour.
    pub fn is_asked(&self) -> bool {
        self.ring.iter().rev().take(60).any(|minute| minute.attempts > 0)
    }

    /// When failures began that are an incident, after this time; microseconds since 1970. `usual_share`: of failures.
    ///
    /// The running logarithm of the likelihoods never falls below 0. Failures in a row within 10 s count as one, however many they are: a
    /// hiccup of a second fails a hundred attempts at once. So do those of several rows little by little: they have much in common.
    ///
    /// What fails for one caller alone is no illness of the upstream: then the others decide, and say when it began for them.
    pub fn failing_since(&self, after_us: i64, usual_share: f64) -> Option<i64> {
        let since_us = self.failing_without(None, after_us, usual_share)?;
        let Some((caller, is_alone)) = self.worst_caller(since_us, usual_share) else { return Some(since_us) };
        match self.failing_without(Some(caller), after_us, usual_share) {
            Some(others_us) if others_us - since_us > CALM_MINUTES * MINUTE_US => Some(others_us),
            None if is_alone => None,
            _ => Some(since_us),
        }
    }

    /// The caller with the most failures since then, and whether the others were answered as usual. None: it is not known.
    fn worst_caller(&self, since_us: i64, usual_share: f64) -> Option<(u64, bool)> {
        let mut of_callers: BTreeMap<Option<u64>, [u64; 2]> = BTreeMap::new();
        let numbers = (self.oldest()..=self.newest).zip(&self.ring);
        let since = numbers.filter(|(number, _)| (number + 1) * MINUTE_US > since_us);
        for (caller, counts) in since.flat_map(|(_, minute)| &minute.callers) {
            let sums = of_callers.entry(*caller).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let (caller, [asked, own]) = of_callers.iter().max_by_key(|(_, [_, failed])| *failed)?;
        let others = of_callers.iter().filter(|(other, _)| *other != caller).map(|(_, counts)| counts);
        let [judged, failed] = others.fold([0, 0], |sums, counts| [sums[0] + counts[0], sums[1] + counts[1]]);
        let share = (*own as f64 / (*asked).max(1) as f64).min(CALLER_FAILS);
        let as_usual = failed as f64 <= shares(usual_share).0 * judged as f64;
        Some(((*caller)?, as_usual && (1.0 - share).powf(judged as f64) <= OTHERS_WELL))
    }

    /// The same, without the failures of a caller.
    fn failing_without(&self, caller: Option<u64>, after_us: i64, usual_share: f64) -> Option<i64> {
        let (mut sum, mut turn_us, mut empty) = (0.0_f64, after_us, 0);
        let slots = self.slots().map(|(at_us, slot)| (at_us, slot.without(caller)));
        for (at_us, slot) in slots.filter(|(at_us, _)| *at_us >= after_us) {
            empty = if slot.judged == 0 { empty + 1 } else { 0 };
            if sum == 0.0 {
                turn_us = at_us;
            }
            sum = if empty >= FORGOTTEN_AFTER { 0.0 } else { (sum + slot.gain(usual_share)).max(0.0) };
            if sum >= OPENS_AT {
                return Some(turn_us);
            }
        }
        None
    }

    /// When failures that began at this time ended; microseconds since 1970.
    pub fn calm_since(&self, began_us: i64, usual_share: f64) -> Option<i64> {
        let newest_us = (self.newest + 1) * MINUTE_US;
        let (mut judged, mut failed) = (0_u64, 0_u64);
        let of_incident = || self.slots().filter(|(at_us, _)| *at_us >= began_us);
        let is_long = of_incident().rev().any(|(at_us, slot)| {
            (judged, failed) = (judged + u64::from(slot.judged), failed + u64::from(slot.failed));
            newest_us - at_us > CALM_MINUTES * MINUTE_US && judged >= CALM_ATTEMPTS
        });
        let is_calm = is_long && failed as f64 <= shares(usual_share).0 * judged as f64;
        if !is_calm && !self.is_without_failures() {
            return None;
        }
        let (mut most, mut sum, mut turn_us) = (0.0, 0.0, began_us.max(self.oldest_us()));
        for (at_us, slot) in of_incident() {
            sum += slot.gain(usual_share);
            if sum > most {
                (most, turn_us) = (sum, at_us + SLOT_US);
            }
        }
        Some(turn_us)
    }

    /// Whether nothing failed for long enough. Cut attempts count too: one that always loses would else never be seen to be well.
    fn is_without_failures(&self) -> bool {
        let unfailed = self.ring.iter().rev().take_while(|minute| minute.slots.iter().all(|slot| slot.failed == 0));
        let (minutes, attempts) = unfailed.fold((0, 0), |(minutes, sum), minute| (minutes + 1, sum + minute.attempts));
        minutes > CALM_MINUTES && attempts >= CALM_ATTEMPTS
    }

    /// When slowness began that is an incident, after this time; microseconds since 1970.
    pub fn slow_since(&self, speed: Speed, after_us: i64, usual: &Usual) -> Option<i64> {
        let spread = match speed {
            Speed::FirstTokens => usual.ttft_spread?,
            Speed::Tokens => usual.tpot?.1,
        };
        let limit = SLOW.min((-SPREADS * spread).exp());
        let first = self.oldest().max(after_us.div_euclid(MINUTE_US));
        // The minute that runs is not complete.
        let is_slow = |minute| {
            let shown = self.shown(speed, (first, minute), usual);
            shown.is_some_and(|(ratio, evidence)| ratio < limit && evidence >= SHOWN_AT)
        };
        let stalls = speed == Speed::FirstTokens && self.stalls(first);
        if !stalls && !(self.newest - SLOW_MINUTES..self.newest).all(is_slow) {
            return None;
        }
        let (mut most, mut sum, mut turn) = (0.0, 0.0, self.newest - 1);
        for number in (first..self.newest + i64::from(stalls)).rev() {
            sum += self.excess(speed, number, usual);
            if sum > most {
                (most, turn) = (sum, number);
            }
        }
        // A burst that was slow once fills a window too.
        let is_long = stalls || self.last_us? >= (turn + SLOW_MINUTES - 1) * MINUTE_US;
        is_long.then_some(turn * MINUTE_US)
    }

    /// Whether hardly any of the first tokens came that were expected in the last minutes, the one that runs included. So it is also known
    /// where routing has moved the requests elsewhere a minute later.
    fn stalls(&self, first: i64) -> bool {
        let last = (self.newest + 1 - STALLED_MINUTES).max(first);
        let minutes = (last..=self.newest).filter_map(|number| self.ring.get(self.place(number)?));
        let (mut seen, mut expected, mut slots) = (0.0, 0.0, 0);
        for minute in minutes {
            (seen, expected) = (seen + minute.seen, expected + minute.expected);
            slots += minute.slots.iter().filter(|slot| slot.stalled).count() as u32;
        }
        expected >= EXPECTED_LEAST && seen <= STALLED * expected && slots >= STALLED_SLOTS
    }

    /// When slowness that began at this time ended; microseconds since 1970.
    pub fn well_since(&self, speed: Speed, began_us: i64, usual: &Usual) -> Option<i64> {
        let is_well = |minute| self.ratio(speed, (i64::MIN, minute), usual).is_some_and(|ratio| ratio > WELL_RATIO);
        if !(self.newest - WELL_MINUTES..self.newest).all(is_well) {
            return None;
        }
        let first = self.oldest().max(began_us.div_euclid(MINUTE_US));
        let (mut most, mut sum, mut turn) = (0.0, 0.0, first);
        for number in first..self.newest {
            sum += self.excess(speed, number, usual);
            if sum > most {
                (most, turn) = (sum, number + 1);
            }
        }
        Some(turn * MINUTE_US)
    }

    /// Whether it is slow now, so that what an incident shows is still of it.
    pub fn is_slow(&self, speed: Speed, usual: &Usual) -> bool {
        self.ratio(speed, (i64::MIN, self.newest - 1), usual).is_some_and(|ratio| ratio < WELL_RATIO)
    }

    /// What is seen over what is expected in the window that ends with this minute, and begins with `first` at the earliest; of tokens
    /// the usual median over the median. None: too little is expected.
    fn ratio(&self, speed: Speed, within: (i64, i64), usual: &Usual) -> Option<f64> {
        self.shown(speed, within, usual).map(|(ratio, _)| ratio)
    }

    /// The same, with the logarithm of how much likelier it is at that rate.
    fn shown(&self, speed: Speed, (first, minute): (i64, i64), usual: &Usual) -> Option<(f64, f64)> {
        WINDOWS.into_iter().find_map(|length| {
            let window =
                (first.max(minute - length + 1)..=minute).filter_map(|number| self.ring.get(self.place(number)?));
            match speed {
                Speed::FirstTokens => {
                    let sums = window.fold((0.0, 0.0), |sum, of| (sum.0 + of.seen, sum.1 + of.expected));
                    let ratio = sums.0 / sums.1;
                    let evidence = if ratio > 0.0 { sums.0 * ratio.ln() } else { 0.0 } + sums.1 - sums.0;
                    (sums.1 >= EXPECTED_LEAST).then_some((ratio, evidence))
                }
                Speed::Tokens => {
                    let mut values: Vec<f64> = window.flat_map(|of| &of.tpot).copied().collect();
                    let median_us = median(&mut values).filter(|_| values.len() as f64 >= EXPECTED_LEAST)?;
                    Some((usual.tpot?.0 / median_us.max(f64::MIN_POSITIVE), f64::INFINITY))
                }
            }
        })
    }

    /// How much a minute speaks for slowness: above 0 for it, below 0 against it.
    fn excess(&self, speed: Speed, number: i64, usual: &Usual) -> f64 {
        let Some(minute) = self.place(number).and_then(|place| self.ring.get(place)) else { return 0.0 };
        match speed {
            Speed::FirstTokens => minute.expected * WELL_RATIO - minute.seen,
            Speed::Tokens => {
                let Some((usual_us, _)) = usual.tpot else { return 0.0 };
                minute.tpot.iter().map(|tpot_us| (tpot_us / usual_us * WELL_RATIO).ln()).sum()
            }
        }
    }

    /// What the minutes from `since_us` on, and before `until_us`, show.
    pub fn evidence(&self, since_us: i64, until_us: i64) -> IncidentEvidence {
        let mut evidence = IncidentEvidence::default();
        let numbers = (self.oldest()..=self.newest).zip(&self.ring);
        let within = |number: i64| (number + 1) * MINUTE_US > since_us && number * MINUTE_US < until_us;
        numbers.filter(|(number, _)| within(*number)).for_each(|(_, minute)| evidence.add(minute));
        evidence
    }

    pub fn oldest_us(&self) -> i64 {
        self.oldest() * MINUTE_US
    }

    fn oldest(&self) -> i64 {
        self.newest + 1 - self.ring.len() as i64
    }

    fn place(&self, number: i64) -> Option<usize> {
        usize::try_from(number - self.oldest()).ok().filter(|place| *place < self.ring.len())
    }

    fn slots(&self) -> impl DoubleEndedIterator<Item = (i64, FailureSlot)> {
        self.ring.iter().enumerate().flat_map(|(place, minute)| {
            let begins_us = (self.oldest() + place as i64) * MINUTE_US;
            let slots = minute.slots.into_iter().enumerate();
            slots.map(move |(place, slot)| (begins_us + place as i64 * SLOT_US, slot))
        })
    }
}

/// The shares of failures of an upstream that is well, and of one that fails.
fn shares(usual: f64) -> (f64, f64) {
    let well = WELL.max(1.5 * usual).min(0.45);
    (well, FAILING.max(2.0 * well))
}

impl Minute {
    /// Whose attempts they are, and to whom they were lost.
    fn name(&mut self, attempt: &IncidentAttempt) {
        if let Some(races) = attempt.lost_to.as_ref().and_then(|upstream| of_name(&mut self.lost_to, upstream)) {
            *races += 1;
        }
        let counts = [u64::from(attempt.outcome_known), u64::from(attempt.failed)];
        if let Some(sums) = of_name(&mut self.callers, &attempt.caller).filter(|_| attempt.outcome_known) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
}

/// What is counted of a name. None: there are too many of them.
fn of_name<'l, K: Clone + PartialEq, V: Default>(list: &'l mut Vec<(K, V)>, name: &K) -> Option<&'l mut V> {
    let known = list.iter().position(|(known, _)| known == name);
    if known.is_none() && list.len() < NAMES_MAX {
        list.push((name.clone(), V::default()));
    }
    let place = known.unwrap_or(list.len() - 1);
    list.get_mut(place).filter(|(at, _)| at == name).map(|(_, value)| value)
}

impl FailureSlot {
    fn add(&mut self, attempt: &IncidentAttempt) {
        if !attempt.outcome_known {
            return;
        }
        self.judged += 1;
        self.failed += u32::from(attempt.failed);
        self.runs += u32::from(attempt.failed && !self.in_run);
        self.in_run = attempt.failed;
        if attempt.failed {
            self.caller = if self.failed == 1 { attempt.caller } else { self.caller };
            self.of_caller += u32::from(attempt.caller.is_some() && attempt.caller == self.caller);
        }
    }

    fn without(self, caller: Option<u64>) -> FailureSlot {
        let own = if caller.is_some() && caller == self.caller { self.of_caller } else { 0 };
        let failed = self.failed - own;
        FailureSlot { judged: self.judged - own, failed, runs: self.runs.min(failed), ..self }
    }

    /// How much it speaks for an upstream that fails.
    fn gain(self, usual_share: f64) -> f64 {
        let (well, failing) = shares(usual_share);
        let (fails, holds) = ((failing / well).ln(), ((1.0 - failing) / (1.0 - well)).ln());
        let all = f64::from(self.failed) * fails + f64::from(self.judged - self.failed) * holds;
        let causes = 1.0 + f64::from(self.runs.max(1)).ln();
        all * causes / f64::from(self.failed.max(1))
    }
}

impl IncidentEvidence {
    fn add(&mut self, minute: &Minute) {
        self.attempts += minute.attempts;
        self.refusals += minute.refusals;
        self.judged += minute.slots.iter().map(|slot| u64::from(slot.judged)).sum::<u64>();
        self.broke += minute.broke;
        self.saved += minute.saved;
        self.failures += minute.slots.iter().map(|slot| u64::from(slot.failed)).sum::<u64>();
        self.seen += minute.seen;
        self.expected += minute.expected;
        minute.lost_to.iter().for_each(|(upstream, races)| *self.lost_to.entry(upstream.clone()).or_default() += races);
        let failing = minute.callers.iter().filter(|(_, [_, failed])| *failed > 0);
        self.callers.extend(failing.filter_map(|(caller, _)| *caller));
        for (class, relative, event) in &minute.times {
            self.classes[usize::from(class.place())] += 1;
            let observation = Observation { time_us: (relative * RELATIVE) as i64, event: *event, audit: None };
            self.times.add(&observation, true);
        }
        minute.tpot.iter().for_each(|tpot_us| self.tpot.add((tpot_us * 1e3) as i64, true));
    }

    pub fn merge(&mut self, other: IncidentEvidence) {
        self.attempts += other.attempts;
        self.judged += other.judged;
        self.failures += other.failures;
        self.refusals += other.refusals;
        self.broke += other.broke;
        self.saved += other.saved;
        self.seen += other.seen;
        self.expected += other.expected;
        other.lost_to.into_iter().for_each(|(upstream, races)| *self.lost_to.entry(upstream).or_default() += races);
        self.callers.extend(other.callers);
        self.times.merge(other.times);
        self.classes.iter_mut().zip(other.classes).for_each(|(mine, other)| *mine += other);
        self.tpot.merge(other.tpot);
    }

    /// How many times as long it took, and whether that is a lower bound. None: it cannot be said.
    pub fn factor(&self, speed: Speed, usual: &Usual) -> Option<(f64, bool)> {
        match speed {
            Speed::Tokens => Some((self.tpot.quantiles([0.5])[0]? as f64 / 1e3 / usual.tpot?.0, false)),
            Speed::FirstTokens => self.first_tokens(usual),
        }
    }

    /// At the median, or at the highest quantile that attempts reached before they were cut. If no token came at all, the lower bound:
    /// less than 3 of n come before the time that ten were watched for, else one would have been seen (at 95 %).
    fn first_tokens(&self, usual: &Usual) -> Option<(f64, bool)> {
        let survival = self.times.survival();
        let reached = |place| survival.quantile(share_of(place)).and_then(Estimate::reached);
        let at = |place| Some(reached(place)? as f64 / RELATIVE / usual.relative(place, &self.classes)?);
        if let Some(factor) = (0..SHARES).rev().find_map(at) {
            return Some((factor, false));
        }
        let mut points = self.times.points();
        points.sort_unstable_by_key(|point| std::cmp::Reverse(point.time_us));
        let mut watched = 0.0;
        let until = points.iter().find(|point| {
            watched += point.watched();
            watched >= WATCHED_BY
        })?;
        let place = (0..SHARES).find(|place| share_of(*place) >= 3.0 / self.times.count() as f64)?;
        let factor = until.time_us as f64 / RELATIVE / usual.relative(place, &self.classes)?;
        Some((factor.max(1.0), true))
    }
}

/// Relative times on the grid: 1 is a million.
const RELATIVE: f64 = 1e6;
/// Attempts that must have been watched for a time before it bounds anything.
const WATCHED_BY: f64 = 10.0;
