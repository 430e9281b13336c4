//! Plays random histories on a stopped clock against a slow, plain reference, which keeps every event and adds all of them up again
//! for each question.

use std::sync::Arc;

use fastrand::Rng;

use super::book::{LimitLevels, UsageBook};
use super::hold::{Admission, AttemptCost, AttemptReservation, KnownCost, Written};
use super::level::LevelName;
use super::{Calendar, LimitClock, LimitRefusal, RefusedBy, admit};
use photofinish_config::{Budget, Limits, OwnKeys, Rate, Reserve, Unpriced};

const HISTORIES: u64 = 100_000;
const STEPS: usize = 24;
/// 2026-11-30, in the evening: both a day and a month end soon.
const EVENING_US: i64 = 1_796_075_000_000_000;

/// What the reference knows of one request.
#[derive(Clone, Debug)]
struct PlainRequest {
    at: LimitClock,
    /// Taken from rates now.
    tokens: i128,
    has_stream: bool,
    /// What waits for its first attempt, at each level: reserved and exposed.
    first: Option<Vec<(i64, i64)>>,
    attempts: Vec<PlainAttempt>,
    /// The limits that it began with.
    limits: Vec<Limits>,
}

#[derive(Clone, Debug)]
struct PlainAttempt {
    cost: AttemptCost,
    reserved: Vec<i64>,
    exposed: Vec<i64>,
    grows_at: u64,
    /// What it cost at each level, and whether that is an estimate.
    booked: Option<Vec<(i64, bool)>>,
}

/// All requests, with the limits of each level.
struct Plain {
    limits: Vec<Limits>,
    requests: Vec<PlainRequest>,
    /// Every change of what the rates have used, and when.
    counted: Vec<(i64, i128)>,
    tokens: Vec<(i64, i128)>,
}

fn free(cost: AttemptCost, limits: &Limits) -> bool {
    cost.own_key && limits.own_keys == OwnKeys::Free
}

fn refused(cost: AttemptCost, limits: &Limits) -> bool {
    let refuses = limits.unpriced == Unpriced::Refuse || limits.unpriced == Unpriced::Dearest && cost.max == 0;
    limits.budget.is_set() && refuses && cost.unpriced && !free(cost, limits)
}

/// Where what has no price is free, it costs nothing.
fn priced(cost: AttemptCost, limits: &Limits) -> AttemptCost {
    match cost.unpriced && limits.unpriced == Unpriced::Free {
        true => AttemptCost { unpriced: true, own_key: cost.own_key, ..AttemptCost::default() },
        false => cost,
    }
}

fn is_usual(cost: AttemptCost, limits: &Limits) -> bool {
    limits.reserve == Reserve::Usual && !free(cost, limits)
}

fn reserves(cost: AttemptCost, limits: &Limits) -> i64 {
    match limits.reserve {
        _ if free(cost, limits) => 0,
        Reserve::Usual => cost.usual,
        Reserve::Max => cost.max,
    }
}

/// More than the burst fits an empty bucket.
fn takes(rate: Rate, amount: u64, used: i128) -> bool {
    used <= i128::from(rate.burst - amount.min(rate.burst)) * 60_000_000
}

impl Plain {
    /// What a rate has used, in millionths of a unit and minute: every event again, in order.
    fn used(rate: Rate, events: &[(i64, i128)], now_us: i64) -> i128 {
        let (mut used, mut before) = (0i128, 0);
        for (at_us, change) in events.iter().copied().chain([(now_us, 0)]) {
            used = (used - i128::from(at_us - before) * i128::from(rate.per_minute)).max(0);
            used = (used + change * 60_000_000).max(0);
            before = at_us;
        }
        used
    }

    /// Spent, estimated, reserved and exposed in the period of this moment.
    fn money(&self, level: usize, calendar: Calendar, at_us: i64) -> (i64, i64, i64, i64) {
        let period = calendar.period_us(at_us);
        let (mut spent, mut estimated, mut reserved, mut exposed) = (0, 0, 0, 0);
        for request in self.requests.iter().filter(|request| calendar.period_us(request.at.wall_us) == period) {
            let first = request.first.as_ref().map_or((0, 0), |first| first[level]);
            (reserved, exposed) = (reserved + first.0, exposed + first.1);
            for attempt in &request.attempts {
                match &attempt.booked {
                    None => {
                        (reserved, exposed) = (reserved + attempt.reserved[level], exposed + attempt.exposed[level]);
                    }
                    Some(booked) => {
                        let (cost, is_estimate) = booked[level];
                        spent += cost;
                        estimated += if is_estimate { cost } else { 0 };
                    }
                }
            }
        }
        (spent, estimated, reserved, exposed)
    }

    /// What each level reserves in the periods of a moment, if all have room; `spare`: what is held already for the same.
    fn held(
        &self,
        limits: &[Limits],
        cost: AttemptCost,
        at_us: i64,
        spare: Option<&Vec<(i64, i64)>>,
    ) -> Option<Vec<i64>> {
        let of_level = |(level, limits): (usize, &Limits)| {
            let spare = spare.map_or((0, 0), |spare| spare[level]);
            let cost = priced(cost, limits);
            let mut takes = reserves(cost, limits);
            for (calendar, budget) in Calendar::ALL.into_iter().zip(limits.budget.all()) {
                let Some(budget) = budget else { continue };
                let (spent, _, reserved, exposed) = self.money(level, calendar, at_us);
                let (others, exposed) = (reserved - spare.0, exposed - spare.1);
                let (left, is_usual) = ((budget - spent - others).max(0), is_usual(cost, limits));
                if reserves(cost, limits) > left {
                    let may_start = is_usual && others <= 0 && cost.least.is_some_and(|least| least <= left);
                    takes = takes.min(left).min(if may_start { i64::MAX } else { i64::MIN });
                } else if is_usual
                    && others > 0
                    && reserves(cost, limits) > 0
                    && exposed + cost.exposed > budget - spent + budget / 2
                {
                    takes = i64::MIN;
                }
            }
            (takes != i64::MIN && !refused(cost, limits)).then_some(takes)
        };
        limits.iter().enumerate().map(of_level).collect()
    }

    /// Whether a request may begin, and with which of its upstreams.
    fn admits(&self, tokens: u64, costs: &[AttemptCost], now: LimitClock) -> Option<Vec<Option<Vec<i64>>>> {
        let fits: Vec<Option<Vec<i64>>> =
            costs.iter().map(|cost| self.held(&self.limits, *cost, now.wall_us, None)).collect();
        let has_room = |rate: Option<Rate>, used: &dyn Fn(Rate) -> i128, amount: u64| {
            rate.is_none_or(|rate| takes(rate, amount, used(rate)))
        };
        let streams = self.requests.iter().filter(|request| request.has_stream).count();
        let may = self.limits.iter().all(|limits| {
            has_room(limits.rpm, &|rate| Plain::used(rate, &self.counted, now.us), 1)
                && has_room(limits.tpm, &|rate| Plain::used(rate, &self.tokens, now.us), tokens)
                && limits.streams.is_none_or(|most| streams < most as usize)
        });
        (may && fits.iter().any(Option::is_some)).then_some(fits)
    }
}

/// A running request.
struct Running {
    place: usize,
    admission: Admission,
    started: usize,
    reservations: Vec<(usize, AttemptCost, AttemptReservation)>,
}

struct Play {
    random: Rng,
    now: LimitClock,
    book: UsageBook,
    levels: LimitLevels,
    plain: Plain,
    running: Vec<Running>,
}

fn levels(book: &UsageBook, limits: &[Limits]) -> LimitLevels {
    let names =
        [LevelName::Everybody, LevelName::Team("t".into()), LevelName::User("u".into()), LevelName::Key("k".into())];
    book.levels_of(names.into_iter().zip(limits.iter().cloned().map(Arc::new)))
}

fn some_limits(random: &mut Rng) -> Limits {
    let rate = |random: &mut Rng, most: u64| {
        random.bool().then(|| Rate { per_minute: random.u64(1..=most), burst: random.u64(1..=most) })
    };
    let money = |random: &mut Rng| random.bool().then(|| random.i64(1..=400));
    Limits {
        rpm: rate(random, 20),
        tpm: rate(random, 2_000),
        streams: random.bool().then(|| random.u32(1..=4)),
        budget: Budget { day: money(random), week: money(random), month: money(random), total: money(random) },
        reserve: if random.bool() { Reserve::Max } else { Reserve::Usual },
        unpriced: [Unpriced::Dearest, Unpriced::Refuse, Unpriced::Free][random.usize(0..3)],
        own_keys: if random.bool() { OwnKeys::Free } else { OwnKeys::Counted },
        ..Limits::default()
    }
}

fn budgets(random: &mut Rng) -> Budget {
    let mut money = || random.bool().then(|| random.i64(1..=800));
    Budget { day: money(), week: money(), month: money(), total: money() }
}

fn some_cost(random: &mut Rng) -> AttemptCost {
    let (unpriced, own_key) = (random.u8(0..6) == 0, random.u8(0..6) == 0);
    let is_unknown = unpriced && random.bool();
    let usual = if is_unknown { 0 } else { random.i64(0..=120) };
    let max = if is_unknown { 0 } else { usual + random.i64(0..=120) };
    let likely = random.i64(0..=usual);
    let least = random.bool().then_some(likely);
    let (exposed, prompt) = (usual + random.i64(0..=300), random.i64(0..=usual));
    AttemptCost {
        usual,
        max,
        likely,
        least,
        exposed,
        prompt,
        token: random.f64() / 4.0,
        until_cut: random.bool(),
        unpriced,
        own_key,
        ..AttemptCost::default()
    }
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut random = Rng::with_seed(seed);
        let limits: Vec<Limits> = (0..random.usize(1..=4)).map(|_| some_limits(&mut random)).collect();
        let book = UsageBook::default();
        let levels = levels(&book, &limits);
        let wall_us = EVENING_US + random.i64(0..=3_600_000_000);
        Play {
            now: LimitClock { us: 1, wall_us },
            plain: Plain { limits, requests: Vec::new(), counted: Vec::new(), tokens: Vec::new() },
            random,
            book,
            levels,
            running: Vec::new(),
        }
    }

    fn step(&mut self) {
        match self.random.u8(0..11) {
            0..=2 => self.begin(),
            3..=4 => self.start(),
            5 => self.book(),
            6 => self.get_tokens(),
            7 => self.leave(),
            8 => self.change_limits(),
            9 => self.grow(),
            _ => {
                let most = [1_000, 1_000_000, 60_000_000, 7_200_000_000][self.random.usize(0..4)];
                let passed = self.random.i64(0..=most);
                self.now.us += passed;
                self.now.wall_us += passed;
            }
        }
    }

    fn begin(&mut self) {
        let costs: Vec<AttemptCost> = (0..self.random.usize(1..=3)).map(|_| some_cost(&mut self.random)).collect();
        let tokens = self.random.u64(0..=900);
        let expected = self.plain.admits(tokens, &costs, self.now);
        let (admission, fits) = match admit(self.levels.clone(), tokens, &costs, self.now) {
            Ok(begun) => begun,
            Err(refusal) => {
                assert_eq!(expected, None, "{refusal:?}");
                self.check_wait(&refusal, tokens);
                return;
            }
        };
        let held = expected.unwrap();
        assert_eq!(held.iter().map(Option::is_some).collect::<Vec<_>>(), fits);
        let first = self.plain.limits.iter().enumerate().map(|(level, limits)| {
            let kept = || costs.iter().zip(&held).filter_map(|(cost, held)| Some((cost, held.as_ref()?[level])));
            let exposed =
                kept().map(|(cost, _)| if free(*cost, limits) { 0 } else { priced(*cost, limits).exposed }).max();
            (kept().map(|(_, held)| held).max().unwrap(), exposed.unwrap())
        });
        self.plain.counted.push((self.now.us, 1));
        self.plain.tokens.push((self.now.us, i128::from(tokens)));
        self.plain.requests.push(PlainRequest {
            at: self.now,
            tokens: i128::from(tokens),
            has_stream: true,
            first: Some(first.collect()),
            attempts: Vec::new(),
            limits: self.plain.limits.clone(),
        });
        let place = self.plain.requests.len() - 1;
        self.running.push(Running { place, admission, started: 0, reservations: Vec::new() });
    }

    /// A rate refuses until the moment that it names, and no longer.
    fn check_wait(&self, refusal: &LimitRefusal, tokens: u64) {
        let level = self.levels.iter().position(|level| *level.name() == refusal.level).unwrap();
        let limits = &self.plain.limits[level];
        let is_over = |us: i64| match refusal.by {
            RefusedBy::Requests { .. } => {
                limits.rpm.map(|rate| (rate, 1, Plain::used(rate, &self.plain.counted, self.now.us + us)))
            }
            RefusedBy::Tokens { .. } => {
                limits.tpm.map(|rate| (rate, tokens, Plain::used(rate, &self.plain.tokens, self.now.us + us)))
            }
            _ => None,
        };
        let is_over = |us: i64| is_over(us).map(|(rate, amount, used)| !takes(rate, amount, used));
        if let RefusedBy::Requests { wait_us, .. } | RefusedBy::Tokens { wait_us, .. } = refusal.by {
            assert_eq!((is_over(wait_us - 1), is_over(wait_us)), (Some(true), Some(false)), "{refusal:?}");
        }
    }

    fn start(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let which = self.random.usize(0..self.running.len());
        let (running, cost) = (&mut self.running[which], some_cost(&mut self.random));
        let request = &self.plain.requests[running.place];
        let expected = self.plain.held(&request.limits, cost, request.at.wall_us, request.first.as_ref());
        let reservation = running.admission.reserve("p/m", running.started, |_| cost);
        assert_eq!(reservation.is_some(), expected.is_some());
        if let Some(reservation) = reservation {
            let request = &mut self.plain.requests[running.place];
            let exposed =
                request.limits.iter().map(|limits| if free(cost, limits) { 0 } else { priced(cost, limits).exposed });
            let (reserved, exposed) = (expected.unwrap(), exposed.collect());
            request.first = None;
            request.attempts.push(PlainAttempt { cost, reserved, exposed, grows_at: 0, booked: None });
            running.reservations.push((running.started, cost, reservation));
            running.started += 1;
        }
    }

    /// An answer becomes long.
    fn grow(&mut self) {
        let with_some = self.running.iter_mut().filter(|running| !running.reservations.is_empty());
        let Some(running) = with_some.last() else { return };
        let (ordinal, _, reservation) = &mut running.reservations[0];
        let tokens = self.random.u64(0..=2_000);
        reservation.grow(tokens);
        let PlainRequest { attempts, limits, .. } = &mut self.plain.requests[running.place];
        let attempt = &mut attempts[*ordinal];
        if tokens >= attempt.grows_at {
            attempt.grows_at = tokens + 128;
            for (reserved, limits) in attempt.reserved.iter_mut().zip(limits) {
                let AttemptCost { prompt, token, max, .. } = priced(attempt.cost, limits);
                let grown = max.min(prompt + ((tokens + 256) as f64 * token).ceil() as i64);
                *reserved = if is_usual(attempt.cost, limits) { grown.max(*reserved) } else { *reserved };
            }
        }
    }

    fn book(&mut self) {
        let with_some = self.running.iter_mut().filter(|running| !running.reservations.is_empty());
        let Some(running) = with_some.last() else { return };
        let (ordinal, cost, reservation) = running.reservations.swap_remove(0);
        let least = self.random.i64(0..=100);
        let tokens = self.random.u64(0..=2_000);
        let written = if self.random.bool() { Written::Cut(tokens) } else { Written::Ended(tokens) };
        let known = match self.random.u8(0..3) {
            0 => KnownCost::Within(least, None, written),
            1 => KnownCost::Within(least, Some(least + self.random.i64(0..=100)), written),
            _ => KnownCost::Exact(least),
        };
        reservation.book(known);
        reservation.book(KnownCost::Exact(1_000));
        self.plain.book(running.place, ordinal, cost, known);
    }

    fn get_tokens(&mut self) {
        let Some(running) = self.running.first() else { return };
        let tokens = self.random.u64(0..=1_500);
        running.admission.hold().unwrap().count_tokens(tokens, self.now.us);
        let request = &mut self.plain.requests[running.place];
        let before = std::mem::replace(&mut request.tokens, i128::from(tokens));
        self.plain.tokens.push((self.now.us, i128::from(tokens) - before));
    }

    /// The client leaves, whatever runs.
    fn leave(&mut self) {
        if !self.running.is_empty() {
            let running = self.running.swap_remove(self.random.usize(0..self.running.len()));
            self.plain.end(running.place, self.now.us);
        }
    }

    /// Somebody raises or lowers them: what was used stays.
    fn change_limits(&mut self) {
        let level = self.random.usize(0..self.plain.limits.len());
        let limits = &mut self.plain.limits[level];
        limits.budget = budgets(&mut self.random);
        limits.streams = self.random.bool().then(|| self.random.u32(1..=5));
        self.levels = levels(&self.book, &self.plain.limits);
    }

    /// Both say the same of every budget, stream and rate.
    fn compare(&self) {
        let streams = self.plain.requests.iter().filter(|request| request.has_stream).count();
        for (level, at) in self.levels.iter().enumerate() {
            let limits = &self.plain.limits[level];
            let used = self.book.usage_of(at.name(), limits, self.now);
            assert_eq!(used.streams.0 as usize, streams);
            for period in used.periods {
                let (spent, estimated, reserved, _) = self.plain.money(level, period.calendar, self.now.wall_us);
                assert_eq!((period.spent, period.estimated, period.reserved), (spent, estimated, reserved));
            }
            for (left, used) in [
                (used.requests, limits.rpm.map(|rate| Plain::used(rate, &self.plain.counted, self.now.us))),
                (used.tokens, limits.tpm.map(|rate| Plain::used(rate, &self.plain.tokens, self.now.us))),
            ] {
                let reset = left.zip(used).map(|(left, used)| (left.reset_us, used, i128::from(left.per_minute)));
                assert!(reset.is_none_or(|(reset_us, used, rate)| i128::from(reset_us) == (used + rate - 1) / rate));
            }
        }
    }
}

impl PlainAttempt {
    /// What it counts as at each level, if its cost is unknown.
    fn likely(&self, limits: &[Limits], written: Written) -> Vec<i64> {
        let of = |(limits, reserved): (&Limits, &i64)| {
            let AttemptCost { prompt, token, max, until_cut, likely, .. } = priced(self.cost, limits);
            let (tokens, no_more) = match written {
                Written::Cut(tokens) => (tokens, until_cut),
                Written::Ended(tokens) => (tokens, true),
            };
            let came = max.min(prompt + (tokens as f64 * token).ceil() as i64);
            match (limits.reserve, no_more) {
                (Reserve::Usual, true) => came.min(*reserved),
                (Reserve::Usual, false) => likely.max(came).min(*reserved),
                (Reserve::Max, _) => *reserved,
            }
        };
        limits.iter().zip(&self.reserved).map(of).collect()
    }
}

impl Plain {
    fn book(&mut self, request: usize, ordinal: usize, cost: AttemptCost, known: KnownCost) {
        let request = &mut self.requests[request];
        let attempt = &mut request.attempts[ordinal];
        let written = if let KnownCost::Within(_, _, written) = known { written } else { Written::Ended(0) };
        let likely = attempt.likely(&request.limits, written);
        let booked = request.limits.iter().zip(&likely).map(|(limits, likely)| match known {
            _ if free(cost, limits) => (0, false),
            KnownCost::Exact(cost) => (cost, false),
            KnownCost::Within(least, most, _) => (likely.min(&most.unwrap_or(i64::MAX)).max(&least).to_owned(), true),
        });
        attempt.booked = Some(booked.collect());
    }

    /// Whatever runs of this request ends.
    fn end(&mut self, request: usize, now_us: i64) {
        let request = &mut self.requests[request];
        if request.first.take().is_some() {
            self.tokens.push((now_us, -request.tokens));
            self.counted.push((now_us, -1));
        }
        request.has_stream = false;
        for attempt in request.attempts.iter_mut().filter(|attempt| attempt.booked.is_none()) {
            let free = request.limits.iter().map(|limits| free(attempt.cost, limits));
            let booked = attempt.reserved.iter().zip(free).map(|(reserved, free)| (*reserved, !free));
            attempt.booked = Some(booked.collect());
        }
    }
}

fn play(seed: u64) {
    let mut play = Play::new(seed);
    for step in 0..STEPS {
        play.step();
        let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play.compare()));
        assert!(compared.is_ok(), "seed {seed}, step {step}");
    }
    play.running.drain(..).for_each(drop);
    for level in play.levels.iter() {
        let used = play.book.usage_of(level.name(), level.limits(), play.now);
        let reserved: i64 = used.periods.iter().map(|period| period.reserved).sum();
        assert_eq!((used.streams.0, reserved), (0, 0), "seed {seed}: nothing runs");
    }
}

#[test]
fn random_histories_are_as_the_plain_reference_says() {
    std::thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || (part..HISTORIES).step_by(4).for_each(play));
        }
    });
}
