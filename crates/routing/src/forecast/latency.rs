//! The latency forecast of one upstream, as decisions and people read it. Not for learning.

use super::breaks::Breaks;
use super::grid::{self, GridRow, STEP, TIMES};
use super::level::Level;
use super::load::LoadSlope;
use super::residuals::{LazyShape, ResidualShape, SHAPE, SHAPE_FROM};
use super::size::SizeLine;
use super::throttle::Throttle;
use super::tpot::Tpot;

/// A quantile that lies this far beyond what was seen still counts as known: the prior spreads even the steadiest upstream over two
/// bins of residuals.
const BLUR: f64 = 0.2;
/// An upstream is unknown until it has this weight of samples or more launches.
const UNKNOWN: f64 = 2.5;
/// An upstream of which nothing is seen in this number of attempts is not waited for any more.
const NEW_LAUNCHES: f64 = 10.0;
/// What was learnt starts to fade when an upstream was unused for this time, and then fades with this time constant, µs. A shorter
/// time would also make upstreams forget that are seldom the best, and their slope would be chance.
const FORGOTTEN_US: f64 = 86_400e6;

/// The least and the most of a high quantile of what is usual, in usual medians. After a hang the quantile alone would be far too high.
pub(crate) const USUAL: (f64, f64) = (2.0, 8.0);

/// What is usual at an upstream, by its answers alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualSpeed {
    pub(crate) line: SizeLine,
    pub(crate) level: Level,
}

/// A snapshot of a [`Learner`](super::Learner).
#[derive(Clone, Debug)]
pub struct LatencyForecast {
    pub(crate) line: SizeLine,
    pub(crate) load: LoadSlope,
    pub(crate) level: Level,
    pub(crate) shape: LazyShape,
    pub(crate) tpot: Tpot,
    pub(crate) throttle: Throttle,
    pub(crate) breaks: Breaks,
    pub(crate) usual: UsualSpeed,
    pub(crate) seen: f64,
    pub(crate) last_us: Option<i64>,
    /// Start of the latest attempt that had a first token, µs.
    pub(crate) answered_us: i64,
    pub(crate) launches: f64,
}

/// The share that is left now of what was learnt until `last_us`, 0..1.
pub(crate) fn fresh(last_us: Option<i64>, now: i64) -> f64 {
    let unused_us = last_us.map_or(0.0, |last_us| now.saturating_sub(last_us) as f64);
    if unused_us <= FORGOTTEN_US { 1.0 } else { (1.0 - unused_us / FORGOTTEN_US).exp() }
}

impl LatencyForecast {
    /// The quantile `q` of the time to the first token for an attempt sent now, µs. None if it lies beyond what was seen.
    pub fn ttft_quantile_us(&self, sent: SendConditions, q: f64, now: i64) -> Option<f64> {
        let residual = self.shape.get().quantile(q);
        (residual <= f64::from(self.shape.get().known_until) + BLUR).then(|| (self.ln_ttft(sent, now) + residual).exp())
    }

    /// The geometric mean of the time to the first token for an attempt sent now, µs: close to the median, and without its cost. None
    /// before a few samples.
    pub fn typical_us(&self, sent: SendConditions, now: i64) -> Option<i64> {
        self.is_seen(now).then(|| self.ln_ttft(sent, now).exp() as i64)
    }

    /// The 95th percentile of what is usual for such a prompt at such an hour, from two to eight medians, µs: whatever the last
    /// minutes were like, for a hung upstream would otherwise be waited for the longer, the longer it hangs. None before a few samples.
    /// An upstream that hung for minutes has hangs among its slowest hundredth for a day.
    pub fn usual_p95_us(&self, sent: SendConditions, now: i64) -> Option<i64> {
        self.usual_quantile_us(sent, 0.95, now)
    }

    /// The same of 99 in a hundred.
    pub fn usual_p99_us(&self, sent: SendConditions, now: i64) -> Option<i64> {
        self.usual_quantile_us(sent, 0.99, now)
    }

    fn usual_quantile_us(&self, sent: SendConditions, q: f64, now: i64) -> Option<i64> {
        (self.is_seen(now) && self.answered_us > i64::MIN).then(|| {
            let [median_us, late_us] = self.usual_us(sent, [0.5, q], now);
            late_us.clamp(USUAL.0 * median_us, USUAL.1 * median_us) as i64
        })
    }

    /// The median for an attempt sent now if the upstream were as usual, µs.
    pub fn usual_median_us(&self, sent: SendConditions, now: i64) -> f64 {
        let [median_us] = self.usual_us(sent, [0.5], now);
        median_us
    }

    fn usual_us<const N: usize>(&self, sent: SendConditions, shares: [f64; N], now: i64) -> [f64; N] {
        let UsualSpeed { line, level } = self.usual;
        let usual = line.at(sent.uncached_tokens) + level.lasting(now) + level.quicker(now);
        self.shape.quantiles(shares).map(|residual| (usual + residual).exp())
    }

    /// Usual time between two tokens with `in_flight` other attempts there, µs; none without a timed answer.
    pub fn tpot_us(&self, in_flight: u32) -> Option<f64> {
        self.tpot.usual_us(in_flight)
    }

    /// How much slower than its usual it is now, as a logarithm: 0 is as usual, 0.7 twice as slow.
    pub fn level(&self, now: i64) -> f64 {
        self.level.now(now)
    }

    /// How much slower an attempt sent now will be than such ones were over weeks, whatever the hours, as a logarithm.
    pub(crate) fn slower(&self, sent: SendConditions, now: i64) -> f64 {
        self.ln_ttft(sent, now) - self.usual.line.at(sent.uncached_tokens)
    }

    /// It was surprisingly slow several times in a row, and not asked since.
    pub(crate) fn is_surely_slow(&self) -> bool {
        self.level.is_surely_up()
    }

    /// Slope of ln TTFT over ln(1 + attempts in flight). At 1, three other attempts make it four times as slow.
    pub fn load_slope(&self) -> f64 {
        self.load.slope()
    }

    /// Weighted number of samples, old ones forgotten.
    pub fn seen(&self) -> f64 {
        self.seen
    }

    /// When it was last used.
    pub fn last_us(&self) -> Option<i64> {
        self.last_us
    }

    /// Started attempts, at most 1000; they fade while it is unused.
    pub fn launches(&self) -> u64 {
        self.launches.round() as u64
    }

    /// Too few samples, or too long ago: the forecast is mostly the prior.
    pub fn is_unknown(&self, now: i64) -> bool {
        !self.is_seen(now) && self.launches * fresh(self.last_us, now) < UNKNOWN
    }

    /// Hardly anything was seen of it yet. An attempt that is cut at once teaches nothing.
    pub fn is_new(&self) -> bool {
        self.seen < UNKNOWN && self.launches < NEW_LAUNCHES
    }

    fn is_seen(&self, now: i64) -> bool {
        self.seen * fresh(self.last_us, now) >= UNKNOWN
    }

    /// It fails so often that no hedge goes to it.
    pub fn throttled(&self, now: i64) -> bool {
        self.throttle.closed(now)
    }

    /// The chance that an answer breaks off after its first token.
    pub fn break_chance(&self, now: i64) -> f64 {
        self.breaks.chance(now)
    }

    /// It failed lately, and answers make up for that.
    pub fn counts_failures(&self, now: i64) -> bool {
        self.throttle.counts(now)
    }

    /// The median for an attempt sent now, µs, by the prior where too little was seen.
    pub(crate) fn median_us(&self, sent: SendConditions, now: i64) -> f64 {
        (self.ln_ttft(sent, now) + self.shape.get().quantile(0.5)).exp()
    }

    /// The residual's zero point: ln TTFT in µs as predicted for an attempt sent now.
    pub(crate) fn ln_ttft(&self, sent: SendConditions, now: i64) -> f64 {
        self.line.at(sent.uncached_tokens) + self.load.effect(sent.in_flight) + self.level.now(now)
    }

    /// Whether a waiting attempt says that the upstream is stuck: it waits longer than usual there, and none that was sent after it was
    /// answered.
    pub(crate) fn is_stuck(&self, other: &OtherWaiting, now: i64) -> bool {
        let usual_us =
            self.usual_p95_us(other.sent, now).unwrap_or_else(|| (USUAL.1 * self.median_us(other.sent, now)) as i64);
        other.waited_us > usual_us && now - other.waited_us >= self.answered_us
    }

    /// When it was asked last for something that it answered, µs.
    pub fn answered_us(&self) -> i64 {
        self.answered_us
    }

    /// Probability of no first token yet, at each time of the grid, for an attempt with this prediction.
    pub(crate) fn survival(&self, ln_ttft: f64) -> GridRow {
        let position = ((grid::FIRST - ln_ttft - SHAPE_FROM) / STEP).clamp(-1e3, 1e3);
        let (first, share) = (position.floor(), (position - position.floor()) as f32);
        // Before the table nothing has arrived; beyond it the tail goes on.
        let before = ((-first).max(0.0) as usize).min(TIMES);
        let from = (first.max(0.0) as usize).min(SHAPE - 1);
        let table = &self.shape.get().survival;
        let mut row = [1.0; TIMES];
        let mut last = table[from];
        let mut done = before;
        for (value, (here, next)) in row[before..].iter_mut().zip(table[from..].iter().zip(&table[from + 1..])) {
            *value = here + share * (next - here);
            last = *value;
            done += 1;
        }
        for value in &mut row[done..] {
            last *= ResidualShape::tail();
            *value = last;
        }
        row
    }
}

/// Waiting attempts of other requests that are looked at for one upstream.
pub const WAITING_MAX: usize = 4;

/// What the prediction of an attempt depends on, at the moment of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendConditions {
    /// Input tokens that this upstream has not cached.
    pub uncached_tokens: f64,
    /// Attempts that this upstream has running for us, this one not counted.
    pub in_flight: u32,
}

/// An attempt of another request that still waits for its first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OtherWaiting {
    pub sent: SendConditions,
    /// Since it was sent, µs.
    pub waited_us: i64,
}
