//! What is usual for an upstream: its first tokens by size class, its failures and its speed, from its last 8 days; and how far
//! its hours are from that.
//!
//! Not for what happens now: see `minutes`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::day::DayCompared;
use crate::estimate::class::Input;
use crate::estimate::facts::AttemptFacts;
use crate::estimate::spread::Times;
use crate::estimate::summary::Summary;
use crate::estimate::survival::{Estimate, Observation, Survival, SurvivalPoint};
use crate::record::recorded::{Recorded, RecordedAttempt};
use crate::record::{AttemptOutcome, RaceOutcome};
use photofinish_base::clock::{DAY_US, HOUR_US};

/// Waiting beyond this share of the usual first tokens says nothing: the far tail is no incident.
const WATCHED_SHARE: f64 = 0.95;
/// First tokens that a class needs before it has a usual distribution.
const SEEN_LEAST: u64 = 20;
/// First tokens that a window must be expected to have.
pub const EXPECTED_LEAST: f64 = 20.0;
/// Hours with samples that it takes before an upstream is watched for slowness: a spread of fewer means little.
const HOURS_LEAST: usize = 12;
/// Attempts that a share of failures needs.
const JUDGED_LEAST: u64 = 100;

/// The quantile of the relative time that is compared, in steps of 5 %.
pub const SHARES: usize = 10;

/// One attempt, as far as incidents need it.
#[derive(Clone, Debug)]
pub struct IncidentAttempt {
    /// Start of its race; microseconds since 1970, UTC.
    pub at_us: i64,
    pub class: Input,
    /// Failed, failed midway, timed out or refused.
    pub failed: bool,
    pub refused: bool,
    /// Of one that failed: whether its request was answered all the same. None: it did not fail, or that is not known yet.
    pub saved: Option<bool>,
    /// It failed, or its first token or plain answer came. Whether others would have failed is unknown.
    pub outcome_known: bool,
    pub ttft: Option<Observation>,
    /// Microseconds for each token after the first.
    pub tpot_us: Option<f64>,
    /// The upstream of another attempt that won its race.
    pub lost_to: Option<String>,
    /// A number for its user, or else for its key. None: it has neither.
    pub caller: Option<u64>,
}

impl IncidentAttempt {
    pub fn of(facts: &AttemptFacts<'_>) -> IncidentAttempt {
        use AttemptOutcome::{Failed, FailedMid, Refused, Timeout};
        let failed = matches!(facts.outcome, Failed | FailedMid | Timeout | Refused);
        let came = [facts.ttft, facts.whole].into_iter().flatten().any(|seen| seen.event);
        IncidentAttempt {
            at_us: facts.started_at,
            class: Input::of(facts.request.map_or(0, |request| request.input_tokens_estimate)),
            failed,
            refused: facts.outcome == Refused,
            saved: facts.request.as_ref().and_then(|request| saved(failed, request.outcome)),
            outcome_known: failed || came,
            ttft: facts.ttft,
            tpot_us: facts.tpot_us.filter(|tpot_us| *tpot_us > 0.0),
            lost_to: facts.lost_to.map(|(provider, model)| format!("{provider}/{model}")),
            caller: facts.request.as_ref().and_then(|request| request.user.or(request.caller_key)).map(number),
        }
    }

    /// The same of an attempt that was read back. First tokens of losers are left out: whether they were looked for by chance is not known.
    pub fn of_recorded(request: &Recorded, attempt: &RecordedAttempt) -> IncidentAttempt {
        use AttemptOutcome::{Failed, FailedMid, Lost, Refused, Timeout, Won};
        let failed = matches!(attempt.outcome, Failed | FailedMid | Timeout | Refused);
        let came = attempt.seen || attempt.plain && attempt.outcome == Won;
        let is_left_out = attempt.plain || attempt.outcome == Lost && attempt.seen;
        let ttft = attempt.ttft_obs_us.filter(|_| !is_left_out);
        let winner = request.attempts.iter().find(|other| Some(other.ordinal) == request.winner);
        let winner = winner.filter(|winner| winner.ordinal != attempt.ordinal);
        IncidentAttempt {
            at_us: request.started_at,
            class: Input::of(request.input_tokens_estimate),
            failed,
            refused: attempt.outcome == Refused,
            saved: saved(failed, request.outcome),
            outcome_known: failed || came,
            ttft: ttft.map(|time_us| Observation { time_us, event: attempt.seen, audit: None }),
            tpot_us: attempt.tpot_us.filter(|tpot_us| *tpot_us > 0.0),
            lost_to: winner.map(|winner| format!("{}/{}", winner.provider, winner.model_sent)),
            // It is not read back.
            caller: None,
        }
    }
}

/// Equal for equal names.
fn number(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn saved(failed: bool, of: RaceOutcome) -> Option<bool> {
    let answered = match of {
        RaceOutcome::Ok => true,
        RaceOutcome::Error | RaceOutcome::Rejected => false,
        RaceOutcome::ClientGone | RaceOutcome::Shutdown => return None,
    };
    failed.then_some(answered)
}

/// All attempts of one upstream in a week and a day.
#[derive(Debug, Default)]
pub struct Week {
    /// When the last day ends; microseconds since 1970.
    until_us: i64,
    /// Of the days before, and of the last one.
    classes: [Times; Input::COUNT],
    day: [Times; Input::COUNT],
    judged: u64,
    failed: u64,
    /// Weight and sum of the logarithms of TPOT, by hour and class.
    tpot: BTreeMap<i64, [(f64, f64); Input::COUNT]>,
}

impl Week {
    pub fn new(until_us: i64) -> Week {
        Week { until_us, ..Week::default() }
    }

    pub fn add(&mut self, attempt: &IncidentAttempt) {
        self.judged += u64::from(attempt.outcome_known);
        self.failed += u64::from(attempt.failed);
        if let Some(observation) = &attempt.ttft {
            self.times(attempt.at_us, attempt.class).add(observation, true);
        }
        if let Some(tpot_us) = attempt.tpot_us {
            self.add_tpot(attempt.at_us, attempt.class, (1.0, tpot_us.ln()));
        }
    }

    /// A rolled-up hour.
    pub fn absorb(&mut self, start_us: i64, class: Input, summary: Summary) {
        self.failed += summary.failed();
        self.judged += summary.failed() + summary.ttft.seen + summary.whole.seen;
        for (tpot_ns, weight) in summary.tpot.values() {
            self.add_tpot(start_us, class, (weight, (tpot_ns.max(1) as f64 / 1e3).ln()));
        }
        self.times(start_us, class).merge(summary.ttft);
    }

    pub fn merge(&mut self, other: Week) {
        self.judged += other.judged;
        self.failed += other.failed;
        self.classes.iter_mut().zip(other.classes).for_each(|(mine, other)| mine.merge(other));
        self.day.iter_mut().zip(other.day).for_each(|(mine, other)| mine.merge(other));
        for (hour, classes) in other.tpot {
            let mine = self.tpot.entry(hour).or_default();
            mine.iter_mut().zip(classes).for_each(|(mine, other)| *mine = (mine.0 + other.0, mine.1 + other.1));
        }
    }

    /// Without the spread of first tokens: see [`Usual::with_hours`].
    pub fn usual(&self) -> Usual {
        let whole = |classes: &[(f64, f64); Input::COUNT]| {
            classes.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
        };
        let hours = self.tpot.values().map(whole).filter(|(weight, _)| *weight >= EXPECTED_LEAST);
        let mut hours: Vec<f64> = hours.map(|(weight, sum)| sum / weight).collect();
        let tpot_spread = spread(&mut hours);
        let share = self.failed as f64 / self.judged.max(1) as f64;
        let of = |before: &Times, day: &Times| {
            let mut all = before.clone();
            all.merge(day.clone());
            UsualTimes::of(&all)
        };
        Usual {
            classes: std::array::from_fn(|class| of(&self.classes[class], &self.day[class])),
            failed: if self.judged >= JUDGED_LEAST { share } else { 0.0 },
            ttft_spread: None,
            tpot: tpot_spread.and_then(|spread| Some((hours.get(hours.len() / 2)?.exp(), spread))),
            until_us: self.until_us,
            day_factor: self.day_factor(),
            day_attempts: self.day.iter().map(Times::count).sum(),
            day_seen: (0.0, 0.0),
            ttft_day: None,
            tpot_day: self.tpot_day(),
        }
    }

    /// How many times as long first tokens took on the last day, at the median or at the highest quantile that attempts reached, within
    /// size classes.
    fn day_factor(&self) -> Option<f64> {
        let (mut attempts, mut sum) = (0.0, 0.0);
        for (before, day) in self.classes.iter().zip(&self.day) {
            let Some((before, now)) = UsualTimes::of(before).zip(UsualTimes::of(day)) else { continue };
            let both = before.quantiles.iter().zip(now.quantiles).rev();
            let Some(factor) = both.into_iter().find_map(|(before, now)| Some(now? / (*before)?)) else { continue };
            attempts += day.count() as f64;
            sum += day.count() as f64 * factor.ln();
        }
        (attempts > 0.0).then(|| (sum / attempts).exp())
    }

    /// The same of the time for each token after the first.
    fn tpot_day(&self) -> Option<DayCompared> {
        let mean: [f64; Input::COUNT] = std::array::from_fn(|class| {
            let all = self.tpot.values().fold((0.0, 0.0), |all, of| (all.0 + of[class].0, all.1 + of[class].1));
            all.1 / f64::max(all.0, 1.0)
        });
        let beyond = |classes: &[(f64, f64); Input::COUNT]| {
            let each = classes.iter().zip(mean);
            let sums = each.fold((0.0, 0.0), |sum, (of, mean)| (sum.0 + of.0, sum.1 + of.1 - of.0 * mean));
            (sums.0 >= EXPECTED_LEAST).then(|| sums.1 / sums.0)
        };
        let hours = self.tpot.iter().filter_map(|(hour, classes)| Some((*hour, beyond(classes)?))).collect();
        let until = self.until_us / HOUR_US;
        let attempts: f64 = self.tpot.range(until - 24..until).flat_map(|(_, of)| of).map(|(weight, _)| weight).sum();
        DayCompared::new(&hours, until, None, attempts as u64)
    }

    fn times(&mut self, at_us: i64, class: Input) -> &mut Times {
        let is_of_day = at_us >= self.until_us - DAY_US;
        &mut (if is_of_day { &mut self.day } else { &mut self.classes })[usize::from(class.place())]
    }

    fn add_tpot(&mut self, at_us: i64, class: Input, (weight, ln): (f64, f64)) {
        let hour = self.tpot.entry(at_us.div_euclid(HOUR_US)).or_default();
        let of = &mut hour[usize::from(class.place())];
        *of = (of.0 + weight, of.1 + weight * ln);
    }
}

/// First tokens seen and expected of one upstream, by hour.
#[derive(Debug, Default)]
pub struct Hours(BTreeMap<i64, (f64, f64)>);

impl Hours {
    /// `points`: the first tokens of one class, from some time of an hour on.
    pub fn add(&mut self, usual: &Usual, at_us: i64, class: Input, points: &[SurvivalPoint]) {
        let Some(times) = usual.times(class) else { return };
        let hour = self.0.entry(at_us.div_euclid(HOUR_US)).or_default();
        for point in points {
            let (within, hazard) = times.hazard(point.time_us);
            hour.0 += if within { point.events } else { 0.0 };
            hour.1 += point.watched() * hazard;
        }
    }

    pub fn merge(&mut self, other: Hours) {
        for (hour, (seen, expected)) in other.0 {
            let mine = self.0.entry(hour).or_default();
            *mine = (mine.0 + seen, mine.1 + expected);
        }
    }
}

/// What is usual for one upstream.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    classes: [Option<UsualTimes>; Input::COUNT],
    /// The share of attempts that fail.
    pub failed: f64,
    /// The spread of ln(seen / expected) over its hours. None: there are too few hours to know what is slow.
    pub ttft_spread: Option<f64>,
    /// Microseconds for each token after the first, and the spread of its logarithm over the hours.
    pub tpot: Option<(f64, f64)>,
    /// When the last day ended; microseconds since 1970.
    until_us: i64,
    /// How many times as long first tokens took on that day.
    day_factor: Option<f64>,
    /// First tokens and cuts of that day.
    day_attempts: u64,
    /// First tokens of that day, seen and expected.
    pub day_seen: (f64, f64),
    pub ttft_day: Option<DayCompared>,
    pub tpot_day: Option<DayCompared>,
}

/// The first tokens of one size class.
#[derive(Clone, Debug)]
pub struct UsualTimes {
    /// Time and cumulative hazard, rising.
    hazards: Vec<(f64, f64)>,
    /// Each 5 % up to the median; microseconds. None: not reached.
    quantiles: [Option<f64>; SHARES],
    /// The time that relative times are multiples of: the median, or the highest quantile that was reached; microseconds.
    pub unit_us: f64,
}

impl Usual {
    pub fn with_hours(self, hours: &Hours) -> Usual {
        let judged = hours.0.values().filter(|(seen, expected)| *expected >= EXPECTED_LEAST && *seen > 0.0);
        let mut ratios: Vec<f64> = judged.map(|(seen, expected)| (seen / expected).ln()).collect();
        let until = self.until_us / HOUR_US;
        let day = || hours.0.range(until - 24..until).map(|(_, of)| of);
        let day_seen = day().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let slow =
            |(hour, of): (&i64, &(f64, f64))| (of.1 >= EXPECTED_LEAST).then(|| (*hour, (of.1 / of.0.max(0.5)).ln()));
        let slow = hours.0.iter().filter_map(slow).collect();
        let ttft_day =
            self.day_factor.and_then(|factor| DayCompared::new(&slow, until, Some(factor), self.day_attempts));
        Usual { ttft_spread: spread(&mut ratios), day_seen, ttft_day, ..self }
    }

    pub fn times(&self, class: Input) -> Option<&UsualTimes> {
        self.classes[usize::from(class.place())].as_ref()
    }

    /// The usual quantile of the relative time, over attempts of these classes. `place`: of the quantile.
    pub fn relative(&self, place: usize, attempts: &[u64; Input::COUNT]) -> Option<f64> {
        let (mut whole, mut sum) = (0.0, 0.0);
        for (times, attempts) in self.classes.iter().zip(attempts) {
            let Some(times) = times.as_ref().filter(|_| *attempts > 0) else { continue };
            let Some(quantile_us) = times.quantiles[place] else { continue };
            whole += *attempts as f64;
            sum += *attempts as f64 * quantile_us / times.unit_us;
        }
        (whole > 0.0).then(|| sum / whole)
    }
}

impl UsualTimes {
    fn of(times: &Times) -> Option<UsualTimes> {
        if times.seen < SEEN_LEAST {
            return None;
        }
        let mut points = times.points();
        points.sort_unstable_by_key(|point| point.time_us);
        let mut at_risk: f64 = points.iter().map(SurvivalPoint::watched).sum();
        let (mut hazard, mut waiting, mut hazards) = (0.0, 1.0, vec![(0.0, 0.0)]);
        for group in points.chunk_by(|a, b| a.time_us == b.time_us) {
            let sum = |part: fn(&SurvivalPoint) -> f64| group.iter().map(part).sum::<f64>();
            at_risk -= sum(|point| point.leave_before);
            let events = sum(|point| point.events);
            if events > 0.0 {
                let share = (events / at_risk.max(events)).min(1.0);
                (hazard, waiting) = (hazard + share, waiting * (1.0 - share));
                hazards.push((group[0].time_us as f64, hazard));
            }
            at_risk -= events + sum(|point| point.leave_after);
            if waiting <= 1.0 - WATCHED_SHARE {
                break;
            }
        }
        let survival = Survival::new(points);
        let reached = |place: usize| survival.quantile(share_of(place)).and_then(Estimate::reached);
        let quantiles = std::array::from_fn(|place| reached(place).map(|us| us.max(1) as f64));
        let unit_us = quantiles.iter().rev().find_map(|quantile| *quantile)?;
        Some(UsualTimes { hazards, quantiles, unit_us })
    }

    /// Whether this time is within the usual 95th percentile, and the hazard up to it: first tokens that would usually have come.
    pub fn hazard(&self, time_us: i64) -> (bool, f64) {
        let time = time_us as f64;
        let place = self.hazards.partition_point(|(until, _)| *until < time);
        let before = place.checked_sub(1).and_then(|before| self.hazards.get(before)).copied().unwrap_or_default();
        match self.hazards.get(place) {
            Some(after) => {
                let part = (time - before.0).max(0.0) / (after.0 - before.0).max(1.0);
                (true, before.1 + (after.1 - before.1) * part.min(1.0))
            }
            None => (false, before.1),
        }
    }
}

/// The share of a quantile of [`UsualTimes`].
pub fn share_of(place: usize) -> f64 {
    (place + 1) as f64 * 0.05
}

/// Half of the distance that two thirds of the values lie within: a standard deviation, without a few strange hours. Sorts them.
fn spread(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values.get((values.len() as f64 * share) as usize);
    (values.len() >= HOURS_LEAST).then(|| Some((at(0.84)? - at(0.16)?) / 2.0))?
}
