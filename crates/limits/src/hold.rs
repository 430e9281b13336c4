//! What one request holds of its levels: a stream, tokens, and money for each of its attempts. It gives back what was not used, at the
//! latest when it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::book::{BudgetRoom, LimitLevel, LimitLevels, PERIODS, Used};
use super::bucket::RateLeft;
use super::near_end::NearEnd;
use super::rate::RateUse;
use photofinish_config::{Limits, OwnKeys, Rate, Reserve, Unpriced, nano_usd};
use photofinish_facts::record::AttemptRecord;

/// Tokens of an answer beyond those that have come that are reserved while it grows.
const AHEAD: u64 = 256;

/// What an attempt at one upstream may cost, in nano-USD.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttemptCost {
    /// With the usual answer of its caller; with the longest one, as long as that is not known.
    pub usual: i64,
    /// With the longest one.
    pub max: i64,
    /// With the usual answer of its caller, or of the model while that is unknown: what it counts as if its cost is unknown.
    pub likely: i64,
    /// The same, if a request that runs alone may start with less left than it reserves.
    pub least: Option<i64>,
    /// With an answer that is far longer than usual.
    pub exposed: i64,
    /// With no answer, and what each token of it costs.
    pub prompt: i64,
    pub token: f64,
    /// Its provider bills no more than what it wrote before a hang-up.
    pub until_cut: bool,
    /// Its upstream has no price. The costs are those of an assumed one, or nothing.
    pub unpriced: bool,
    /// The caller's own key pays.
    pub own_key: bool,
    /// What the attempt that made the job was charged for it, with the usual and with the longest answer. This one knows what it cost.
    pub paid: [i64; 2],
    /// The levels of its request that are not about its upstream, as bits.
    pub outside: u64,
}

impl AttemptCost {
    /// What it reserves of a level whose budgets have this room. None: it does not fit.
    pub(super) fn fits(self, limits: &Limits, rooms: impl Iterator<Item = BudgetRoom>) -> Option<i64> {
        let wanted = self.at(limits);
        let is_usual = limits.reserve == Reserve::Usual && !self.is_free(limits);
        rooms.map(|room| taken(&room, self, wanted, is_usual)).try_fold(wanted, |least, fits| Some(fits?.min(least)))
    }

    /// The same at the level of this place: nothing where that is not about its upstream, or takes what has no price as free.
    pub(super) fn in_level(self, place: usize, limits: &Limits) -> AttemptCost {
        let AttemptCost { unpriced, own_key, paid, outside, .. } = self;
        match () {
            () if outside >> place & 1 == 1 => AttemptCost::default(),
            () if unpriced && limits.unpriced == Unpriced::Free => {
                AttemptCost { unpriced, own_key, paid, ..AttemptCost::default() }
            }
            () => self,
        }
    }

    /// What it may come to at this level.
    pub(super) fn exposes(self, limits: &Limits) -> i64 {
        if self.is_free(limits) { 0 } else { self.exposed }
    }

    /// With this number of tokens.
    fn with(self, tokens: u64) -> i64 {
        let answer = tokens as f64 * self.token;
        self.prompt.saturating_add(answer.ceil() as i64).min(self.max)
    }

    /// What it reserves at this level.
    pub(super) fn at(self, limits: &Limits) -> i64 {
        match limits.reserve {
            _ if self.is_free(limits) => 0,
            Reserve::Usual => self.usual,
            Reserve::Max => self.max,
        }
    }

    /// What was charged for it before.
    fn paid_at(self, limits: &Limits) -> i64 {
        let [usual, max] = self.paid;
        AttemptCost { usual, max, ..self }.at(limits)
    }

    pub(super) fn is_refused(self, limits: &Limits) -> bool {
        let refuses = match limits.unpriced {
            Unpriced::Refuse => true,
            Unpriced::Dearest => self.max == 0,
            Unpriced::Free => false,
        };
        limits.budget.is_set() && refuses && self.unpriced && !self.is_free(limits)
    }

    fn is_free(self, limits: &Limits) -> bool {
        self.own_key && limits.own_keys == OwnKeys::Free
    }
}

/// What an attempt that wants so much reserves of a budget. None: it does not fit.
fn taken(room: &BudgetRoom, cost: AttemptCost, wanted: i64, is_usual: bool) -> Option<i64> {
    let is_alone = is_usual && room.reserved <= 0;
    if wanted > room.left {
        return cost.least.filter(|least| is_alone && *least <= room.left).map(|_| room.left);
    }
    // However long all answers become that run at once, they cost half a budget too much at most.
    let most = room.budget.saturating_sub(room.spent).saturating_add(room.budget / 2);
    let is_bounded = !is_usual || is_alone || wanted == 0 || room.exposed.saturating_add(cost.exposed) <= most;
    is_bounded.then_some(wanted)
}

/// What an attempt did cost, in nano-USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownCost {
    Exact(i64),
    /// No less than the first, and no more than the second if there is one.
    Within(i64, Option<i64>, Written),
}

/// Tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// This number came before it was cut, and it may have become longer.
    Cut(u64),
    /// Exactly this number: it ended by itself.
    Ended(u64),
}

impl KnownCost {
    /// Of an attempt whose race is over.
    pub fn of(row: &AttemptRecord) -> KnownCost {
        match row.exact_cost_usd() {
            Some(cost) => KnownCost::Exact(nano_usd(cost)),
            None => {
                let came = row.output_tokens.unwrap_or(0).max(row.payload_events).max(row.chars_total / 4);
                let (least, most) = (row.cost_usd_min.map_or(0, nano_usd), row.cost_usd_max.map(nano_usd));
                let came = came.max(0).unsigned_abs();
                let written = if row.cancel_us.is_some() { Written::Cut(came) } else { Written::Ended(came) };
                KnownCost::Within(least, most, written)
            }
        }
    }
}

/// What lets the attempts of one request start: none starts without a [`AttemptReservation`], which only this makes.
#[derive(Clone)]
pub struct Admission(Option<Arc<Hold>>);

/// The right to start one attempt.
pub struct AttemptReservation {
    of: Option<(Arc<Hold>, i64)>,
    /// Tokens of its answer from which on it reserves more.
    grows_at: u64,
}

impl Admission {
    /// Nothing limits the request.
    pub fn unlimited() -> Admission {
        Admission(None)
    }

    pub(super) fn of(hold: Hold) -> Admission {
        Admission(Some(Arc::new(hold)))
    }

    /// None: nothing limits the request.
    pub fn hold(&self) -> Option<&Arc<Hold>> {
        self.0.as_ref()
    }

    /// The right to start the attempt of this ordinal. None: a budget does not have that much left.
    pub fn reserve(
        &self,
        upstream: &str,
        ordinal: usize,
        cost: impl FnOnce(&LimitLevels) -> AttemptCost,
    ) -> Option<AttemptReservation> {
        match &self.0 {
            None => Some(AttemptReservation { of: None, grows_at: u64::MAX }),
            Some(hold) => hold.start(upstream, i64::try_from(ordinal).ok()?, cost(&hold.levels)),
        }
    }
}

impl AttemptReservation {
    /// The attempt is over, and this was its cost.
    pub fn book(&self, cost: KnownCost) {
        if let Some((hold, ordinal)) = &self.of {
            hold.book(*ordinal, cost);
        }
    }

    /// `tokens` of its answer have come: where it becomes longer than usual, it reserves more, also of a budget that is spent.
    pub fn grow(&mut self, tokens: u64) {
        if tokens >= self.grows_at
            && let Some((hold, ordinal)) = &self.of
        {
            self.grows_at = tokens + AHEAD / 2;
            hold.grow(*ordinal, tokens);
        }
    }
}

/// Not `Clone`: two would give back twice.
pub struct Hold {
    levels: LimitLevels,
    /// The numbers of the periods in which it began, at each level: its cost counts there.
    periods: Vec<[u32; PERIODS]>,
    left: LimitsLeft,
    state: Mutex<HoldState>,
}

struct HoldState {
    /// Reserved for the first attempt, until it starts.
    first: Option<FirstHeld>,
    attempts: Vec<ReservedAttempt>,
    /// Taken from the rates.
    tokens: u64,
    has_stream: bool,
    refused: Vec<String>,
}

/// What is reserved and exposed at each level.
pub(super) type FirstHeld = Vec<(i64, i64)>;

struct ReservedAttempt {
    ordinal: i64,
    cost: AttemptCost,
    reserved: Vec<i64>,
    is_booked: bool,
}

impl ReservedAttempt {
    /// What it counts as at a level if its cost is unknown: with the usual answer, or with what came if that is more. What came, where no
    /// more is billed. What it reserved, where that is the longest answer.
    fn likely(&self, place: usize, limits: &Limits, written: Written) -> i64 {
        let (cost, reserved) = (self.cost.in_level(place, limits), self.reserved[place]);
        let (came, usual) = match written {
            Written::Ended(tokens) => (cost.with(tokens), 0),
            Written::Cut(tokens) => (cost.with(tokens), if cost.until_cut { 0 } else { cost.likely }),
        };
        if limits.reserve == Reserve::Max { reserved } else { usual.max(came).min(reserved) }
    }
}

impl Hold {
    pub(super) fn new(
        levels: LimitLevels,
        periods: Vec<[u32; PERIODS]>,
        first: FirstHeld,
        tokens: u64,
        left: LimitsLeft,
    ) -> Hold {
        let state =
            HoldState { first: Some(first), attempts: Vec::new(), tokens, has_stream: true, refused: Vec::new() };
        Hold { levels, periods, left, state: Mutex::new(state) }
    }

    pub fn levels(&self) -> &LimitLevels {
        &self.levels
    }

    /// Reserves an attempt. None, and nothing is reserved, if a budget does not have that much left.
    fn start(self: &Arc<Hold>, upstream: &str, ordinal: i64, cost: AttemptCost) -> Option<AttemptReservation> {
        let mut state = self.state();
        let mut all = self.levels.lock();
        let spare = |place: usize| state.first.as_ref().map_or((0, 0), |first| first[place]);
        let at = |((place, LimitLevel { limits, .. }), used): ((usize, &LimitLevel), &MutexGuard<'_, Used>)| {
            let cost = cost.in_level(place, limits);
            let fits = cost.fits(limits, used.rooms(limits, Some(self.periods[place]), spare(place)));
            fits.filter(|_| !cost.is_refused(limits))
        };
        let Some(reserved) = self.levels.0.iter().enumerate().zip(&all).map(at).collect::<Option<Vec<i64>>>() else {
            state.refused.push(upstream.to_owned());
            return None;
        };
        for (place, (level, used)) in self.levels.0.iter().zip(&mut all).enumerate() {
            for (window, number) in used.windows.iter_mut().zip(self.periods[place]) {
                if let Some(period) = window.period(number) {
                    period.reserve(reserved[place] - spare(place).0);
                    period.expose(cost.in_level(place, &level.limits).exposes(&level.limits) - spare(place).1);
                }
            }
            level.subject.note(used);
        }
        state.first = None;
        state.attempts.push(ReservedAttempt { ordinal, cost, reserved, is_booked: false });
        Some(AttemptReservation { of: Some((self.clone(), ordinal)), grows_at: 0 })
    }

    fn grow(&self, ordinal: i64, tokens: u64) {
        let mut state = self.state();
        let attempt = state.attempts.iter_mut().find(|attempt| attempt.ordinal == ordinal && !attempt.is_booked);
        let Some(attempt) = attempt else { return };
        let grown = attempt.cost.with(tokens + AHEAD);
        for (place, LimitLevel { limits, .. }) in self.levels.0.iter().enumerate() {
            let cost = attempt.cost.in_level(place, limits);
            let is_usual = limits.reserve == Reserve::Usual && !cost.is_free(limits);
            let more = grown.min(cost.max) - attempt.reserved[place];
            if is_usual && more > 0 {
                attempt.reserved[place] += more;
                self.in_periods(place, |period| period.reserve(more));
            }
        }
    }

    /// Upstreams that did not start because too little was left.
    pub fn refused(&self) -> Vec<String> {
        self.state().refused.clone()
    }

    /// Others' answers hold something of a budget of its levels.
    pub fn others_hold(&self) -> bool {
        let state = self.state();
        let own = |place: usize| {
            let running = state.attempts.iter().filter(|attempt| !attempt.is_booked);
            running.map(|attempt| attempt.reserved[place]).sum::<i64>()
                + state.first.as_ref().map_or(0, |first| first[place].0)
        };
        self.levels
            .0
            .iter()
            .enumerate()
            .map(|(place, level)| (level, own(place)))
            .any(|(level, own)| level.subject.used().rooms(&level.limits, None, (own, 0)).any(|room| room.reserved > 0))
    }

    /// The attempt is over, and this is its cost. What is not known exactly counts as what it reserved, as far as it can have cost
    /// that. Only the first call counts.
    pub fn book(&self, ordinal: i64, known: KnownCost) {
        let mut state = self.state();
        let attempt = state.attempts.iter_mut().find(|attempt| attempt.ordinal == ordinal && !attempt.is_booked);
        if let Some(attempt) = attempt {
            attempt.is_booked = true;
            self.book_attempt(attempt, known);
        }
    }

    fn book_attempt(&self, attempt: &ReservedAttempt, known: KnownCost) {
        for (place, level) in self.levels.0.iter().enumerate() {
            let (reserved, of) = (attempt.reserved[place], attempt.cost.in_level(place, &level.limits));
            let (cost, is_estimate) = match known {
                _ if of.is_free(&level.limits) || attempt.cost.outside >> place & 1 == 1 => (0, false),
                KnownCost::Exact(cost) => (cost.saturating_sub(of.paid_at(&level.limits)), false),
                KnownCost::Within(least, most, written) => {
                    let likely = attempt.likely(place, &level.limits, written);
                    (likely.min(most.unwrap_or(i64::MAX)).max(least), true)
                }
            };
            let exposed = of.exposes(&level.limits);
            self.in_periods(place, |period| {
                period.book(reserved, cost, is_estimate);
                period.expose(-exposed);
            });
        }
    }

    /// The client got this many tokens in all.
    pub fn count_tokens(&self, tokens: u64, now_us: i64) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.tokens, tokens);
        for level in &self.levels.0 {
            let mut used = level.subject.used();
            level.limits.tpm.into_iter().for_each(|rate| used.tokens.drain(rate, now_us));
            match tokens.checked_sub(before) {
                Some(more) => used.tokens.take(more),
                None => used.tokens.give_back(before - tokens),
            }
        }
    }

    /// The client's answer has ended.
    pub fn end_stream(&self) {
        if std::mem::take(&mut self.state().has_stream) {
            for level in &self.levels.0 {
                let mut used = level.subject.used();
                used.streams = used.streams.saturating_sub(1);
            }
        }
    }

    /// What was left when it began.
    pub fn left(&self) -> LimitsLeft {
        self.left
    }

    fn in_periods(&self, place: usize, change: impl Fn(&mut super::window::Period)) {
        let level = &self.levels.0[place];
        let mut used = level.subject.used();
        for (window, number) in used.windows.iter_mut().zip(self.periods[place]) {
            window.period(number).into_iter().for_each(&change);
        }
        level.subject.note(&mut used);
        level.subject.warn(&mut used, &level.limits, self.periods[place]);
    }

    fn state(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    /// A request that started nothing has used nothing.
    fn drop(&mut self) {
        self.end_stream();
        let (first, attempts, tokens) = {
            let mut state = self.state();
            (state.first.take(), std::mem::take(&mut state.attempts), state.tokens)
        };
        for attempt in attempts.iter().filter(|attempt| !attempt.is_booked) {
            // Nothing is known of it, so it counts as what it reserved.
            self.book_attempt(attempt, KnownCost::Within(0, None, Written::Ended(u64::MAX)));
        }
        if let Some(first) = first {
            for (place, level) in self.levels.0.iter().enumerate() {
                self.in_periods(place, |period| {
                    period.reserve(-first[place].0);
                    period.expose(-first[place].1);
                });
                let mut used = level.subject.used();
                used.requests.give_back(1);
                used.tokens.give_back(tokens);
            }
        }
    }
}

/// What is left to a caller, of the tightest level each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitsLeft {
    pub requests: Option<RateLeft>,
    pub tokens: Option<RateLeft>,
    /// Nano-USD.
    pub budget: Option<i64>,
    /// The budget that is nearest to its end, if it comes near, and the kind of its level.
    pub near: Option<(&'static str, NearEnd)>,
}

impl LimitsLeft {
    pub(super) fn of(levels: &LimitLevels, all: &[MutexGuard<'_, Used>]) -> LimitsLeft {
        let each = || levels.iter().map(LimitLevel::limits).zip(all);
        let budgets = each().flat_map(|(limits, used)| used.budgets(limits)).map(|left| left.max(0));
        let near = |(level, used): (&LimitLevel, &MutexGuard<'_, Used>)| {
            let near = (0..PERIODS)
                .filter_map(|place| used.near_end(&level.limits, place))
                .max_by(|one, other| one.by_part(other));
            near.map(|near| (level.name().kind(), near))
        };
        LimitsLeft {
            requests: tightest(each().filter_map(|(limits, used)| Some((limits.rpm?, &used.requests)))),
            tokens: tightest(each().filter_map(|(limits, used)| Some((limits.tpm?, &used.tokens)))),
            budget: budgets.min(),
            near: levels.iter().zip(all).filter_map(near).max_by(|(_, one), (_, other)| one.by_part(other)),
        }
    }
}

fn tightest<'b>(rates: impl Iterator<Item = (Rate, &'b RateUse)>) -> Option<RateLeft> {
    rates.min_by_key(|(rate, used)| used.room(*rate)).map(|(rate, used)| used.left(rate))
}
