//! Learns from every attempt at one upstream, winner or loser. Not for deciding: decisions read the [`LatencyForecast`].

use super::breaks::Breaks;
use super::latency::{USUAL, UsualSpeed, fresh};
use super::level::{CLAMP, Level};
use super::load::LoadSlope;
use super::residuals::{KEPT, LazyShape, Residuals};
use super::size::Size;
use super::throttle::Throttle;
use super::tpot::Tpot;
use super::{LatencyForecast, SendConditions};

/// Observations with less weight than this only enter the scatter.
const WEIGHT_LEAST: f64 = 0.05;
/// Variance of a residual without any samples.
const VARIANCE: f64 = 0.09;
/// Bounds of it: measured times are never free of noise, and stragglers are not scatter.
const VARIANCE_LEAST: f64 = 0.04;
const VARIANCE_MOST: f64 = 0.36;
/// Share that an observation moves the variance by.
const VARIANCE_RATE: f64 = 0.02;

/// More launches than these are not counted.
const LAUNCHES_COUNTED: f64 = 1000.0;

/// One upstream's state. `now` never goes back; one that does counts as no time passed.
#[derive(Clone, Debug)]
pub struct Learner {
    size: Size,
    load: LoadSlope,
    level: Level,
    residuals: Residuals,
    variance: f64,
    tpot: Tpot,
    throttle: Throttle,
    breaks: Breaks,
    /// What is usual, by answers alone.
    usual_size: Size,
    usual_level: Level,
    seen: f64,
    last_us: Option<i64>,
    /// Start of the latest attempt that had a first token, µs.
    answered_us: i64,
    launches: f64,
}

impl Default for Learner {
    fn default() -> Learner {
        Learner::new()
    }
}

impl Learner {
    /// Knows nothing: the prior.
    pub fn new() -> Learner {
        Learner {
            size: Size::new(),
            load: LoadSlope::default(),
            level: Level::new(),
            residuals: Residuals::new(),
            variance: VARIANCE,
            tpot: Tpot::default(),
            throttle: Throttle::new(),
            breaks: Breaks::default(),
            usual_size: Size::new(),
            usual_level: Level::new(),
            seen: 0.0,
            last_us: None,
            answered_us: i64::MIN,
            launches: 0.0,
        }
    }

    /// Knows nothing, and learns how long whole answers take: what is called a first token here is then the whole answer.
    pub fn of_whole_answers() -> Learner {
        let (size, usual_size) = (Size::of_whole_answers(), Size::of_whole_answers());
        Learner { size, usual_size, tpot: Tpot::of_whole_answers(), ..Learner::new() }
    }

    /// An attempt was started.
    pub fn launched(&mut self, now: i64) {
        self.fade(fresh(self.last_us, now));
        self.launches = (self.launches + 1.0).min(LAUNCHES_COUNTED);
        self.last_us = self.last_us.max(Some(now));
    }

    /// An attempt was answered: its first token was there after `ttft_us`.
    pub fn first_token(&mut self, sent: SendConditions, ttft_us: i64, now: i64) {
        self.throttle.answered(now);
        self.answered_us = self.answered_us.max(now.saturating_sub(ttft_us));
        self.observe(sent, ttft_us, true, now);
    }

    /// An attempt was cut, or gave up, with still no token after `waited_us`.
    pub fn censored(&mut self, sent: SendConditions, waited_us: i64, now: i64) {
        self.observe(sent, waited_us, false, now);
    }

    /// An answer of `tokens` tokens came with `tpot_us` between them, while `in_flight` others ran there.
    pub fn decoded(&mut self, tpot_us: f64, tokens: i64, in_flight: u32, _now: i64) {
        self.tpot.observe(tpot_us, tokens, in_flight);
    }

    /// An attempt that was launched failed: nothing is known by that of an upstream that never answered, so that it is tried on until
    /// its breaker opens.
    pub fn forget_launch(&mut self) {
        if self.answered_us == i64::MIN {
            self.launches = (self.launches - 1.0).max(0.0);
        }
    }

    /// An attempt failed by the upstream's own fault, or was answered 429; never one that we cut.
    pub fn failed(&mut self, now: i64) {
        self.throttle.failed(now);
    }

    /// An answer with a first token ended, or broke off.
    pub fn ended(&mut self, broke: bool, now: i64) {
        self.breaks.ended(broke, now);
    }

    /// An attempt was answered, and its time is not learnt here.
    pub fn answered(&mut self, now: i64) {
        self.throttle.answered(now);
    }

    /// The forecast that decisions read; publish it after every change.
    pub fn forecast(&self) -> LatencyForecast {
        LatencyForecast {
            line: self.size.line(),
            load: self.load,
            level: self.level,
            shape: LazyShape::of(self.residuals.clone()),
            tpot: self.tpot,
            throttle: self.throttle,
            breaks: self.breaks,
            usual: UsualSpeed { line: self.usual_size.line(), level: self.usual_level },
            seen: self.seen,
            last_us: self.last_us,
            answered_us: self.answered_us,
            launches: self.launches,
        }
    }

    /// The upstream may have become another while it was unused.
    fn fade(&mut self, left: f64) {
        if left >= 1.0 {
            return;
        }
        self.seen *= left;
        self.launches *= left;
        self.size.fade(left);
        self.usual_size.fade(left);
        self.residuals.fade(left);
    }

    /// An early cut carries almost no information: it weighs what share of all would have been there by then, and counts as
    /// what it may have become. A hang that is over says nothing of now.
    fn observe(&mut self, sent: SendConditions, after_us: i64, event: bool, now: i64) {
        if after_us <= 0 {
            return;
        }
        let steady = self.size.line().at(sent.uncached_tokens) + self.load.effect(sent.in_flight);
        let level = self.level.now(now);
        let residual = (after_us as f64).ln() - steady - level;
        let (weight, surprise) = if event {
            (1.0, residual)
        } else {
            let (survival, expected) = self.residuals.beyond(residual);
            (1.0 - survival, expected)
        };
        let beyond = residual + level - self.level.lasting(now);
        // It waited longer than stragglers do, and the upstream has been well since: it hung before that.
        if !event && beyond > USUAL.1.ln() && now.saturating_sub(after_us) < self.answered_us {
            return;
        }
        if weight < WEIGHT_LEAST {
            self.residuals.add(residual, event);
            return;
        }
        self.seen = self.seen * KEPT + weight;
        let taken = self.level.observe(surprise, weight, self.variance, now);
        // What a jump explains is no scatter: one hang cuts many attempts.
        let explained = if !event && self.level.jumps() { self.level.now(now) - level } else { 0.0 };
        self.residuals.add(residual - explained, event);
        let deviations = CLAMP * self.variance.sqrt();
        let usual = surprise.clamp(-deviations, deviations);
        let variance = self.variance + VARIANCE_RATE * weight * (usual * usual - self.variance);
        self.variance = variance.clamp(VARIANCE_LEAST, VARIANCE_MOST);
        self.load.observe(sent.in_flight, usual, weight);
        // A passing level is no property of the upstream; a lasting one moves the line in the end.
        let seen = steady - self.load.effect(sent.in_flight) + level + surprise.clamp(-taken.abs(), taken.abs());
        let seen = seen - self.level.passing();
        self.size.observe(sent.uncached_tokens, seen, weight);
        // Of what is usual a cut says nothing: a hung upstream would be waited for ever longer.
        if event {
            self.usual_size.observe(sent.uncached_tokens, seen, weight);
            self.usual_level = self.level;
        }
    }
}

#[cfg(test)]
mod tests;
