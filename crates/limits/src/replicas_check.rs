//! Plays gateways that share limits over a store, on a stopped clock: they report and read late, at any moment, end and restart; the store
//! is away, and comes back as it was some time ago. What all of them let in is compared with the bounds of `docs/limits.md`. `PHOTOFINISH_SEEDS` sets how many histories.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;

use super::{Admission, AttemptCost, BudgetChange, KnownCost, LevelName, LimitClock, LimitLevels, UsageBook, admit};
use super::{Heard, ReplicaUse, SubjectUse};
use photofinish_config::{Budget, Limits, Rate};
use photofinish_history::store::Attendance;

/// Unless the environment says.
const SEEDS: u64 = 60;
const STEP_US: i64 = 50_000;
const BEGIN_US: i64 = 1_796_000_000_000_000;
/// What an attempt costs, and reserves.
const COST: i64 = 1_000;
/// How long after its last change the state may be to which a store is set back, in steps.
const LOST_STEPS: usize = 20;
/// Of a budget, in millionths, while the store is away.
const ALLOWANCE: u32 = 50_000;

fn seeds() -> u64 {
    std::env::var("PHOTOFINISH_SEEDS").map_or(SEEDS, |count| count.parse().unwrap())
}

/// Plays each history: none may be against the bounds.
fn play(history: impl Fn(u64) -> Result<(), String>) {
    let wrong: Vec<String> = (0..seeds()).filter_map(|seed| history(seed).err()).collect();
    assert!(wrong.is_empty(), "{} histories:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

/// An error that begins with `what`, unless it holds.
fn holds(is_so: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what()) }
}

fn ann() -> LevelName {
    LevelName::User("ann".into())
}

/// What the store has of one gateway.
#[derive(Clone, Default)]
struct Stored {
    reported: HashMap<LevelName, SubjectUse>,
    beat_us: i64,
    heard_us: Option<i64>,
    budgets: HashMap<(LevelName, super::Calendar, i64), BudgetChange>,
}

struct Replica {
    id: i64,
    book: UsageBook,
    levels: LimitLevels,
    reported: HashMap<LevelName, SubjectUse>,
    next_us: i64,
    running: Vec<(i64, Admission)>,
    /// How far its clock is from the store's.
    skew_us: i64,
    attendance: Attendance,
    heard_us: Option<i64>,
    /// Its last exchange failed.
    has_failed: bool,
}

impl Replica {
    fn new(id: i64, limits: &Limits, now_us: i64, skew_us: i64) -> Replica {
        let book = UsageBook::default();
        let levels = book.levels_of([(ann(), Arc::new(limits.clone()))]);
        Replica {
            id,
            book,
            levels,
            reported: HashMap::new(),
            next_us: now_us,
            running: Vec::new(),
            skew_us,
            attendance: Attendance::default(),
            heard_us: None,
            has_failed: false,
        }
    }

    fn clock(&self, now_us: i64) -> LimitClock {
        LimitClock { us: now_us + 1, wall_us: BEGIN_US + now_us + self.skew_us }
    }
}

struct World {
    random: Rng,
    limits: Limits,
    now_us: i64,
    store: HashMap<i64, Stored>,
    /// The store is away now and then, until this time.
    outages: Option<i64>,
    /// The states of the store before, the oldest first.
    before: VecDeque<HashMap<i64, Stored>>,
    replicas: Vec<Replica>,
    started: usize,
    /// When something was let in.
    admitted: Vec<i64>,
    spent: i64,
}

impl World {
    fn new(seed: u64, count: usize, limits: Limits, skews: bool) -> World {
        let mut random = Rng::with_seed(seed);
        let mut skew = || if skews { random.i64(-3_600_000_000..=3_600_000_000) } else { 0 };
        let replicas = (0..count).map(|place| Replica::new(place as i64, &limits, 0, skew())).collect();
        World {
            random,
            limits,
            now_us: 0,
            store: HashMap::new(),
            outages: None,
            before: VecDeque::new(),
            replicas,
            started: count,
            admitted: Vec::new(),
            spent: 0,
        }
    }

    /// The store goes away, or is away; it comes back as it was, or as it was a moment before.
    fn is_away(&mut self) -> bool {
        let Some(until_us) = self.outages else { return false };
        if until_us.max(10_000_000) <= self.now_us && self.random.u32(0..800) == 0 {
            self.outages = Some(self.now_us + self.random.i64(100_000..=20_000_000));
            if self.random.bool() {
                let state = self.random.usize(0..=self.before.len());
                self.store = self.before.get(state).unwrap_or(&self.store).clone();
            }
        } else if until_us <= self.now_us {
            self.before.push_back(self.store.clone());
            self.before.drain(..self.before.len().saturating_sub(LOST_STEPS));
        }
        self.outages.is_some_and(|until_us| until_us > self.now_us)
    }

    /// Each that is due reports, and reads the reports.
    fn exchange(&mut self) {
        let is_away = self.is_away();
        for place in 0..self.replicas.len() {
            let is_due = self.now_us >= self.replicas[place].next_us;
            let random = self.random.i64(0..=50_000);
            let replica = &mut self.replicas[place];
            if !is_away {
                // Before the rows that they pay.
                let stored = self.store.entry(replica.id).or_default();
                for change in replica.book.take_changes() {
                    stored.budgets.insert((change.level.clone(), change.calendar, change.start_us), change);
                }
            }
            if is_due {
                replica.next_us = self.now_us + 500_000 + random;
                replica.reported = replica.book.report().into_iter().collect();
                self.tell_and_hear(place, is_away);
            }
        }
    }

    fn tell_and_hear(&mut self, place: usize, is_away: bool) {
        let store_us = BEGIN_US + self.now_us;
        let replica = &mut self.replicas[place];
        let now = replica.clock(self.now_us);
        if is_away {
            if replica.heard_us.is_none_or(|heard_us| self.now_us - heard_us >= 3_000_000) {
                replica.book.begin_outage(ALLOWANCE, store_us, now);
            }
            replica.book.miss_others(now);
            replica.has_failed = true;
            return;
        }
        let stored = self.store.entry(replica.id).or_default();
        let before_us = std::mem::replace(&mut stored.beat_us, store_us);
        stored.reported = replica.reported.clone();
        stored.heard_us = replica.heard_us.map(|heard_us| BEGIN_US + heard_us);
        // The commit may be lost, or its answer: then it hears nothing this time.
        if self.random.u8(0..20) == 0 {
            replica.has_failed = true;
            return;
        }
        let is_older = replica.attendance.last_us().is_some_and(|told_us| before_us < told_us);
        if std::mem::take(&mut replica.has_failed) || is_older {
            replica.book.tell_all_budgets();
        }
        let since = replica.attendance.since(store_us);
        replica.heard_us = Some(self.now_us);
        let others = self.store.iter().filter(|(id, _)| **id != replica.id);
        let living = others.clone().filter(|(_, stored)| stored.beat_us >= since);
        let reported = |(id, stored): (&i64, &Stored)| ReplicaUse {
            id: *id,
            beat_at: stored.beat_us,
            heard_at: stored.heard_us.unwrap_or(i64::MIN),
            subjects: stored.reported.clone(),
        };
        let mut budgets: HashMap<(LevelName, super::Calendar, i64), BudgetChange> = HashMap::new();
        for (key, change) in others.flat_map(|(_, stored)| &stored.budgets) {
            let none = || BudgetChange { spent: 0, reserved: 0, ..change.clone() };
            let sum = budgets.entry(key.clone()).or_insert_with(none);
            sum.spent += change.spent;
            sum.reserved += change.reserved;
        }
        let heard = Heard {
            own: replica.id,
            own_use: replica.reported.clone(),
            others: living.map(reported).collect(),
            budgets: budgets.into_values().collect(),
            store_us,
        };
        replica.book.hear(heard, now);
    }

    /// A request at this gateway, which runs for so long.
    fn ask(&mut self, place: usize, cost: i64, for_us: i64) -> bool {
        let replica = &mut self.replicas[place];
        let cost = AttemptCost { usual: cost, max: cost, ..AttemptCost::default() };
        let Ok((admission, _)) = admit(replica.levels.clone(), 1, &[cost], replica.clock(self.now_us)) else {
            return false;
        };
        admission.reserve("p/m", 0, |_| cost).unwrap().book(KnownCost::Exact(cost.usual));
        self.spent += cost.usual;
        self.admitted.push(self.now_us);
        replica.running.push((self.now_us + for_us, admission));
        true
    }

    fn step(&mut self) {
        self.now_us += STEP_US;
        let now_us = self.now_us;
        self.replicas.iter_mut().for_each(|replica| replica.running.retain(|(until_us, _)| *until_us > now_us));
        self.exchange();
    }

    fn running(&self) -> usize {
        self.replicas.iter().map(|replica| replica.running.len()).sum()
    }

    /// One ends without a word, and another one starts.
    fn kill(&mut self) {
        let place = self.random.usize(0..self.replicas.len());
        let id = self.started as i64;
        self.started += 1;
        self.replicas[place] = Replica::new(id, &self.limits, self.now_us, 0);
    }

    /// The most that was let in within any minute.
    fn most_in_a_minute(&self) -> usize {
        let mut first = 0;
        let mut most = 0;
        for (last, at_us) in self.admitted.iter().enumerate() {
            while self.admitted[first] <= at_us - 60_000_000 {
                first += 1;
            }
            most = most.max(last - first + 1);
        }
        most
    }
}

/// Where requests go: nearly all to one, or anywhere.
fn place(random: &mut Rng, count: usize, is_one_sided: bool) -> usize {
    if is_one_sided && random.u8(0..100) < 95 { 0 } else { random.usize(0..count) }
}

/// All requests of a moment go to one gateway, another one each time. Long after the others reported what they want, or right after.
#[test]
fn a_rate_is_kept_while_demand_jumps() {
    play(|seed| {
        let mut random = Rng::with_seed(seed ^ 0x7e57);
        let count = random.usize(2..=6);
        let per_minute = [1, 6, 60, 600][random.usize(0..4)];
        let burst = random.u64(1..=per_minute.max(12));
        let limits = Limits { rpm: Some(Rate { per_minute, burst }), ..Limits::default() };
        let mut world = World::new(seed, count, limits, random.bool());
        let pause = random.u32(1..200);
        for _ in 0..(150_000_000 / STEP_US) {
            world.step();
            if world.now_us > 2_000_000 && random.u32(0..=pause) == 0 {
                let place = random.usize(0..count);
                for _ in 0..random.u64(1..=2 * burst) {
                    world.ask(place, 0, 100_000);
                }
            }
        }
        let most = world.most_in_a_minute() as u64;
        let what = format!("seed {seed}: {count} gateways, {per_minute} a minute, burst {burst}, pause {pause}");
        holds(most <= per_minute + burst + per_minute.div_ceil(60), || format!("{what}: {most} in a minute"))
    });
}

#[test]
fn a_rate_is_kept_and_used_by_all_together() {
    play(|seed| {
        let mut random = Rng::with_seed(seed ^ 0x7a7e);
        let count = random.usize(2..=10);
        let per_minute = [6, 30, 60, 600, 3_000][random.usize(0..5)];
        let burst = [1, per_minute / 6, per_minute][random.usize(0..3)].max(1);
        let limits = Limits { rpm: Some(Rate { per_minute, burst }), ..Limits::default() };
        let mut world = World::new(seed, count, limits, random.bool());
        let is_one_sided = random.bool();
        world.outages = random.bool().then_some(0);
        // Twice what is allowed.
        let each_step = per_minute as f64 * 2.0 * STEP_US as f64 / 60e6;
        let mut due = 0.0;
        for _ in 0..(150_000_000 / STEP_US) {
            world.step();
            due += each_step;
            while due >= 1.0 {
                due -= 1.0;
                let place = place(&mut random, count, is_one_sided);
                world.ask(place, 0, 100_000);
            }
        }
        let most = world.most_in_a_minute() as u64;
        let what = format!(
            "seed {seed}: {count} gateways, {per_minute} a minute, burst {burst}, one-sided: {is_one_sided}, outages: {}",
            world.outages.is_some()
        );
        holds(most <= per_minute + burst + per_minute.div_ceil(60), || format!("{what}: {most} in a minute"))?;
        let late = world.admitted.iter().filter(|at_us| **at_us > 90_000_000).count() as f64;
        // With parts of less than a few requests much depends on where the next one comes in; in an outage, on where they came in before it.
        let least = match burst >= 8 * count as u64 {
            true if world.outages.is_none() => 0.8,
            true => 0.5,
            false if per_minute >= 10 * count as u64 => 0.15,
            false => 0.0,
        };
        let least = least * per_minute as f64 - 1.0;
        holds(late >= least, || format!("{what}: {late} in the last minute"))
    });
}

#[test]
fn a_budget_is_spent_by_all_together_and_no_more() {
    play(|seed| {
        let mut random = Rng::with_seed(seed ^ 0xb0d6);
        let count = random.usize(2..=10);
        let budget = COST * random.i64(500..=3_000);
        let limits = Limits { budget: Budget { day: Some(budget), ..Budget::default() }, ..Limits::default() };
        let mut world = World::new(seed, count, limits, false);
        let is_one_sided = random.bool();
        let kills = random.bool();
        world.outages = (!kills && random.bool()).then_some(0);
        // The whole of it in a minute or more.
        let each_step = budget as f64 / COST as f64 * STEP_US as f64 / 60e6 / random.f64().max(0.1);
        let (mut due, mut refused) = (0.0, None);
        for _ in 0..(1_200_000_000 / STEP_US) {
            world.step();
            due += each_step;
            while due >= 1.0 {
                due -= 1.0;
                let place = place(&mut random, count, is_one_sided);
                if !world.ask(place, COST, 100_000) {
                    refused.get_or_insert(world.spent);
                }
            }
            if kills && random.u32(0..400) == 0 {
                world.kill();
            }
            if world.spent >= budget {
                break;
            }
        }
        let what = format!(
            "seed {seed}: {count} gateways, {budget}, one-sided: {is_one_sided}, kills: {kills}, outages: {}",
            world.outages.is_some()
        );
        let spent = world.spent;
        holds((budget - COST * 2 * count as i64..=budget + budget / 50).contains(&spent), || {
            format!("{what}: {spent} spent")
        })
    });
}

#[test]
fn streams_of_all_together_stay_below_their_limit() {
    play(|seed| {
        let mut random = Rng::with_seed(seed ^ 0x57ea);
        let count = random.usize(2..=6);
        let limit = random.u32(1..=40);
        let limits = Limits { streams: Some(limit), ..Limits::default() };
        let mut world = World::new(seed, count, limits, random.bool());
        let is_one_sided = random.bool();
        // All go to one gateway, then to another one.
        let stays = random.bool().then(|| random.u32(1..200));
        let (mut sum, mut steps, mut only) = (0, 0, 0);
        for _ in 0..(60_000_000 / STEP_US) {
            world.step();
            if stays.is_some_and(|stays| random.u32(0..stays) == 0) {
                only = random.usize(0..count);
            }
            for _ in 0..limit.div_ceil(4) {
                let place = if stays.is_some() { only } else { place(&mut random, count, is_one_sided) };
                let for_us = random.i64(100_000..2_000_000);
                world.ask(place, 0, for_us);
            }
            let running = world.running();
            if world.now_us > 5_000_000 {
                let most = limit as usize + 3;
                holds(running <= most, || format!("seed {seed}: {running} of {limit} at {count}"))?;
                sum += running;
                steps += 1;
            }
        }
        let mean = sum as f64 / f64::from(steps);
        let what =
            format!("seed {seed}: {count} gateways, {limit} streams, one-sided: {is_one_sided}, stays: {stays:?}");
        let least = if stays.is_some() {
            0.1
        } else if limit as usize >= 2 * count {
            0.6
        } else {
            0.4
        };
        holds(mean >= least * f64::from(limit), || format!("{what}: {mean} on average"))
    });
}

/// The others used a budget yesterday and today; one that came during an outage of the store, or before anything was heard, has no more
/// than its allowance.
#[test]
fn what_others_used_counts_in_its_own_period_and_an_outage_limits_whoever_comes() {
    let day_us = 86_400_000_000;
    let now = LimitClock { us: 1, wall_us: BEGIN_US };
    let start_us = BEGIN_US.div_euclid(day_us) * day_us;
    let limits = Limits { budget: Budget { day: Some(1_000_000), ..Budget::default() }, ..Limits::default() };
    let change = |start_us, spent| BudgetChange {
        level: ann(),
        calendar: super::Calendar::Day,
        start_us,
        spent,
        reserved: 0,
        estimated: 0,
    };
    let most = |book: &UsageBook, name: LevelName, now: LimitClock| {
        let levels = || book.levels_of([(name.clone(), Arc::new(limits.clone()))]);
        let fits = |cost: i64| {
            let cost = AttemptCost { usual: cost, max: cost, ..AttemptCost::default() };
            admit(levels(), 1, &[cost], now).is_ok()
        };
        (0..=1_000).rev().map(|part| part * 1_000).find(|cost| fits(*cost)).unwrap()
    };
    let other = || ReplicaUse { id: 2, beat_at: BEGIN_US, heard_at: BEGIN_US, subjects: HashMap::new() };
    let heard = |others: Vec<ReplicaUse>| Heard {
        own: 1,
        others,
        budgets: vec![change(start_us - day_us, 999_000), change(start_us, 600_000)],
        store_us: BEGIN_US,
        ..Heard::default()
    };
    let book = UsageBook::default();
    book.hear(heard(vec![]), now);
    assert_eq!(most(&book, ann(), now), 400_000, "alone, after a restart");
    let book = UsageBook::default();
    book.hear(heard(vec![other()]), now);
    assert_eq!(most(&book, ann(), now), 200_000, "how fast it goes is not known: half of the rest");
    book.begin_outage(ALLOWANCE, BEGIN_US, now);
    assert_eq!(most(&book, ann(), now), 25_000, "half of 5 %");
    let cost = AttemptCost { usual: 20_000, max: 20_000, ..AttemptCost::default() };
    let (admission, _) = admit(book.levels_of([(ann(), Arc::new(limits.clone()))]), 1, &[cost], now).unwrap();
    admission.reserve("p/m", 0, |_| cost).unwrap().book(KnownCost::Exact(20_000));
    book.begin_outage(ALLOWANCE, BEGIN_US + 500_000, now);
    assert_eq!(most(&book, ann(), now), 5_000, "the rest of it");
    assert_eq!(most(&book, LevelName::User("eve".into()), now), 25_000, "who comes now");
    let tomorrow = LimitClock { us: 2, wall_us: BEGIN_US + day_us };
    assert_eq!(most(&book, ann(), tomorrow), 25_000, "a day that begins now");
    let early = UsageBook::default();
    early.begin_outage(ALLOWANCE, BEGIN_US, now);
    assert_eq!(most(&early, ann(), now), 50_000, "before anything was heard");
}

#[test]
fn what_another_gateway_took_lately_counts_at_once_for_a_subject_that_comes() {
    let limits = Arc::new(Limits { rpm: Some(Rate { per_minute: 60, burst: 20 }), ..Limits::default() });
    let now = LimitClock { us: 1_000_000, wall_us: BEGIN_US };
    for (counted, is_known, expected) in
        [(0, false, 10), (0, true, 10), (20, false, 1), (20, true, 1), (5_000, true, 1)]
    {
        let book = UsageBook::default();
        let levels = || book.levels_of([(ann(), limits.clone())]);
        let admit_one = |_| admit(levels(), 0, &[AttemptCost::default()], now).ok();
        let admitted = || (0..50).map_while(admit_one).collect::<Vec<_>>().len();
        if is_known {
            levels();
        }
        let lately = counted.min(20);
        let of = SubjectUse {
            counted: [counted, 0],
            lately: [lately, 0],
            per_minute: [60, 0],
            demand: lately as f64,
            streams: 0,
        };
        let subjects = [(ann(), of)].into_iter().filter(|_| counted > 0).collect();
        let others = vec![ReplicaUse { id: 2, beat_at: 1, heard_at: 1, subjects }];
        book.hear(Heard { own: 1, others, store_us: BEGIN_US, ..Heard::default() }, now);
        assert!(admitted() <= expected, "{counted} {is_known}");
    }
}

/// After a failover to a machine whose clock is a minute behind.
#[test]
fn what_others_take_counts_also_after_the_store_s_clock_went_back() {
    let limits = Arc::new(Limits { rpm: Some(Rate { per_minute: 60, burst: 20 }), ..Limits::default() });
    let now = LimitClock { us: 1_000_000, wall_us: BEGIN_US };
    let book = UsageBook::default();
    let levels = book.levels_of([(ann(), limits)]);
    let hear = |counted: i64, beat_at: i64, store_us: i64| {
        let of = SubjectUse { counted: [counted, 0], lately: [0, 0], per_minute: [60, 0], demand: 1.0, streams: 0 };
        let others = vec![ReplicaUse { id: 2, beat_at, heard_at: beat_at, subjects: [(ann(), of)].into() }];
        book.hear(Heard { own: 1, others, store_us, ..Heard::default() }, now);
    };
    let admit_one = |_| admit(levels.clone(), 0, &[AttemptCost::default()], now).ok();
    let _first = admit_one(0);
    let back_us = BEGIN_US - 60_000_000;
    hear(100, BEGIN_US, BEGIN_US);
    // It has reported nothing since, then it reports twice.
    hear(100, BEGIN_US, back_us);
    hear(110, back_us + 400_000, back_us + 500_000);
    hear(120, back_us + 900_000, back_us + 1_000_000);
    let admitted = (0..50).map_while(admit_one).collect::<Vec<_>>().len();
    assert!(admitted <= 1, "{admitted}");
}
