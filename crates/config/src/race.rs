//! The settings of a race: `[race]`, or the overrides of a model, a request or, for timeouts, an upstream. Also their defaults.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::keys::{ByteSize, ParsedText, RealNumber, TimeSpan, WholeNumber, checked, choice, keys, nested};
use super::names::names;
use super::reader::TomlTable;
use super::units::{DURATION_MAX, format_duration, parse_duration};

/// Attempts that may run at once by choice.
pub const MAX_ATTEMPTS: usize = 16;
/// Upstreams that may replace a failed or a late one: as many as a request may name, so all.
const FAILOVERS_MAX: usize = 64;

/// Bytes read from one drained loser.
const DRAIN_BYTES: RangeInclusive<usize> = 1024..=1 << 30;
/// Losers that `drains.running` lets be read at the same time.
const RUNNING_MAX: usize = 10_000;
const BREAKER_FAILURES: RangeInclusive<u32> = 0..=10_000;

keys! {
    /// `[race]`, or the overrides of a model.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RaceSettings {
        /// How a request is spread over its upstreams.
        policy: Policy = choice(), or Policy::Adaptive;
        /// For `hedge`: how long the attempts before have until the next one starts.
        hedge_after: Duration = TimeSpan(RaceSettings::HEDGE_AFTER), or Duration::from_secs(1);
        /// The objective of `adaptive`.
        optimise: Objective = choice(), or Objective::Auto;
        /// For `adaptive`: the maximum cost of extra attempts that are chosen, as a share of the cost of single attempts. 0: none, only
        /// what replaces failed and late attempts.
        budget: f64 = RealNumber(RaceSettings::BUDGET), or 0.1;
        /// For `adaptive`: the value of one second of a client's waiting time, in US dollars. A more
        /// expensive upstream goes first if the saved time is worth more than the extra price. Without prices it has no
        /// effect.
        second_worth: f64 = RealNumber(RaceSettings::SECOND_WORTH), or 0.05;
        /// The targets of `goodput`.
        slo: SloSettings = nested(), or SloSettings::default();
        /// For `completion` and `goodput`: how long a first token may be held back, 0s to 5s.
        hold_max: Duration = TimeSpan(RaceSettings::HOLD), or Duration::from_millis(300);
        /// Attempts for one request that run at once by choice: the opening, hedges and retries. What replaces a failed or a late attempt
        /// is not counted.
        max_attempts: usize = WholeNumber(1..=MAX_ATTEMPTS), or 4;
        /// How many upstreams may replace a failed or a late one, in one request.
        failovers: usize = WholeNumber(0..=FAILOVERS_MAX), or FAILOVERS_MAX;
        /// An attempt is late after this many medians of the best upstream that is left, and what its own upstream sometimes takes: then
        /// that one starts too, whatever the budget holds. Not for `race`, which starts all. 0: never.
        patience: f64 = RealNumber(RaceSettings::PATIENCE), or 4.0;
        /// Maximum retries of one failed upstream in a race (429, 5xx, reset).
        retries: u32 = WholeNumber(RaceSettings::RETRIES), or 1;
        /// The longest wait before a retry, 0s to 5m; the gateway does not wait for a longer Retry-After.
        // Not much longer than a slow first token: in that time another upstream may have answered.
        retry_wait: Duration = TimeSpan(RaceSettings::RETRY_WAIT), or Duration::from_secs(2);
        /// Share of losers that run on to their first token, so that the history stays unbiased.
        audit: f64 = RealNumber(0.0..=1.0), or 0.02;
        /// Share of the requests that draw one upstream of their model to ask it too, so that upstreams can be compared. Under `adaptive`
        /// and `race` 0.02, else 0; at most a fifth of the budget.
        look: Option<f64> = RealNumber(0.0..=1.0);
        /// Bounds for losers that are billed in full anyway: the gateway reads them to their end for their figures.
        drains: Drains = nested(), or Drains::default();
        /// When an upstream that keeps failing is left out, and for how long.
        breaker: BreakerSettings = checked(BreakerSettings::check), or BreakerSettings::default();
        /// Each timeout covers its own phase.
        timeouts: Timeouts = nested(), or Timeouts::default();
        /// What happens to a request that the dialect of an upstream cannot express.
        lossy: Lossy = choice(), or Lossy::Prefer;
        /// For clients that stream: when the first keep-alive comment goes out after the request, and the pause between two. At least
        /// 2s, or `off`.
        keepalive: Option<Duration> = KEEPALIVE, or Some(Duration::from_secs(5));
        /// What happens after an upstream refuses a request for its content.
        content_policy: ContentPolicy = choice(), or ContentPolicy::Stop;
        /// What happens to a streamed answer that breaks off.
        rescue: RescuePolicy = choice(), or RescuePolicy::Replay;
        /// Which token wins.
        first_token: FirstToken = choice(), or FirstToken::Any;
        /// What happens to an upstream that answers requests with tools or a schema worse than the others of its model.
        quality: QualityRule = choice(), or QualityRule::Warn;
    }
}

impl RaceSettings {
    pub const BUDGET: RangeInclusive<f64> = 0.0..=10.0;
    pub const HEDGE_AFTER: RangeInclusive<Duration> = Duration::ZERO..=DURATION_MAX;
    pub const PATIENCE: RangeInclusive<f64> = 0.0..=100.0;
    pub const SECOND_WORTH: RangeInclusive<f64> = 1e-6..=1e3;
    pub const HOLD: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(5);
    /// Most failures are known within two seconds; they keep their own HTTP status.
    pub const KEEPALIVE: RangeInclusive<Duration> = Duration::from_secs(2)..=DURATION_MAX;
    pub const RETRIES: RangeInclusive<u32> = 0..=15;
    pub const RETRY_WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(300);
}

const KEEPALIVE: ParsedText<Option<Duration>> = ParsedText {
    parse: |text| match text {
        "off" => Some(None),
        text => parse_duration(text).ok().filter(|after| RaceSettings::KEEPALIVE.contains(after)).map(Some),
    },
    expected: "2s to 365d, such as \"5s\", or \"off\"",
    pattern: r"off|\d+(\.\d+)?\s*(ms|s|m|h|d)",
    format: |after| after.map_or("off".to_owned(), format_duration),
};

keys! {
    /// `slo = { … }`: the limits within which a request counts as goodput.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SloSettings {
        /// Longest time to the client's first token.
        ttft: Duration = TimeSpan(SloSettings::TARGETS), or Duration::from_secs(1);
        /// Longest time per output token after the first.
        tpot: Duration = TimeSpan(SloSettings::TARGETS), or Duration::from_millis(50);
    }
}

impl SloSettings {
    /// A fast decoder's TPOT is less than a millisecond.
    pub const TARGETS: RangeInclusive<Duration> = Duration::from_micros(1)..=DURATION_MAX;
}

keys! {
    /// `drains = { … }`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Drains {
        /// How long a loser is read at most.
        time: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(60);
        /// How much of a loser is read at most.
        bytes: usize = ByteSize(DRAIN_BYTES), or 4 << 20;
        /// How many run at once in the whole gateway; a further loser is cancelled.
        running: usize = WholeNumber(0..=RUNNING_MAX), or 64;
    }
}

keys! {
    /// `breaker = { … }`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BreakerSettings {
        /// This many failures in a row open it. 0: it never opens.
        failures: u32 = WholeNumber(BREAKER_FAILURES), or 5;
        /// How long it is open at first. The time doubles after each failed probe.
        open: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(5);
        /// How long it is open at most; at least `open`.
        open_max: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(60);
    }
}

impl BreakerSettings {
    fn check(table: &TomlTable<'_, '_>, breaker: &BreakerSettings) {
        if breaker.open_max < breaker.open {
            let (open, open_max) = (format_duration(breaker.open), format_duration(breaker.open_max));
            let message = format!("\"open_max\" in {} is {open_max}, which is shorter than open, {open}", table.name);
            table.scope.wrong(table.offset, message, "open_max to be at least open");
        }
    }
}

names! {
    /// Which upstreams a race starts, and when.
    pub enum Policy {
        /// The first `max_attempts` usable upstreams start at once, as listed.
        Race = "race",
        /// The next upstream starts `hedge_after` the one before, as listed.
        Hedge = "hedge",
        /// The best upstream by what was learnt starts, and extras that pay, within `budget`.
        Adaptive = "adaptive",
        /// The next upstream starts after a failure or when an attempt is late, as listed.
        Fallback = "fallback",
        /// One upstream that is drawn by its weight starts; the others after a failure or when it is late.
        Weighted = "weighted",
    }
}

/// What decides the order in which a policy asks upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamOrder {
    /// They start all at once.
    AllAtOnce,
    /// The configuration, one after the other by `hedge_after`.
    ByDelay,
    /// Predictions.
    Learned,
    /// The configuration.
    Listed,
    /// A draw by weight.
    Drawn,
}

impl Policy {
    pub fn order(self) -> UpstreamOrder {
        match self {
            Policy::Race => UpstreamOrder::AllAtOnce,
            Policy::Hedge => UpstreamOrder::ByDelay,
            Policy::Adaptive => UpstreamOrder::Learned,
            Policy::Fallback => UpstreamOrder::Listed,
            Policy::Weighted => UpstreamOrder::Drawn,
        }
    }

    /// Goes by what was learnt.
    pub fn learns(self) -> bool {
        self.order() == UpstreamOrder::Learned
    }

    /// Starts attempts one after the other in a given order. It therefore retries an upstream before it asks the next
    /// one.
    pub fn asks_in_order(self) -> bool {
        matches!(self.order(), UpstreamOrder::Listed | UpstreamOrder::Drawn)
    }

    /// Starts extra attempts within `budget`.
    pub fn spends_budget(self) -> bool {
        match self {
            Policy::Adaptive => true,
            Policy::Race | Policy::Hedge | Policy::Fallback | Policy::Weighted => false,
        }
    }
}

names! {
    /// What happens to a request that the dialect of an upstream cannot express.
    pub enum Lossy {
        /// What the request is about is never left out: it is refused if no upstream can take it. Without a setting the
        /// upstream is asked only if none that has it may be asked now; the header x-photofinish-dropped names it.
        Prefer = "prefer",
        /// It is refused, also for a setting; the error names what would be lost.
        Refuse = "refuse",
        /// What cannot be expressed is left out; the header x-photofinish-dropped names it.
        Drop = "drop",
    }
}

names! {
    /// Whether a token of reasoning wins a race.
    pub enum FirstToken {
        /// Any token wins, reasoning included.
        Any = "any",
        /// Reasoning is held back until the answer itself begins.
        Answer = "answer",
    }
}

names! {
    /// What happens after a refusal for content: an error, or an answer that was withheld before any token of it
    /// arrived.
    pub enum ContentPolicy {
        /// Starts no more attempts. Running attempts may still win.
        Stop = "stop",
        /// It is a failure like any other.
        Continue = "continue",
    }
}

names! {
    /// What happens to a streamed answer that breaks off.
    pub enum RescuePolicy {
        /// It ends with an error event.
        Off = "off",
        /// Another upstream's answer goes on where it repeats the delivered text to the byte.
        Replay = "replay",
        /// Before that, another upstream is asked to continue the delivered text.
        Continue = "continue",
    }
}

names! {
    /// What happens to an upstream that answers worse than the others of its model, where a request has tools or a schema.
    pub enum QualityRule {
        /// It is named: in the log, `/api/routing` and the header x-photofinish-quality.
        Warn = "warn",
        /// It also starts after the others.
        Prefer = "prefer",
        /// It is also left out while another can be asked.
        Exclude = "exclude",
    }
}

names! {
    /// `optimise`: what "best" means.
    pub enum Objective {
        /// The time to first token and a part of the rest of the answer: all of it where the client waits for the whole answer.
        Auto = "auto",
        /// The client's time to first token.
        Ttft = "ttft",
        /// The time to the whole answer.
        Completion = "completion",
        /// The share of requests that meet both targets of `slo`.
        Goodput = "goodput",
    }
}

/// Not zero: such a timeout would expire at once.
pub(super) const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=DURATION_MAX;

keys! {
    /// `timeouts = { … }`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timeouts {
        /// Name look-up, TCP and TLS together.
        connect: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(3);
        /// From dispatch to the first token; comments and headers do not stop it.
        first_token: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(30);
        /// Without a byte, after the first token. Unless set 5 minutes, 10 for the last attempt alive, and 30 seconds where
        /// another upstream continues the answer (`rescue`).
        idle: Option<Duration> = TimeSpan(TIMEOUTS);
        /// From the request to the client's first token; for a client that does not stream, to the whole answer.
        total: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(600);
        /// From the request to the end of a streamed answer. The default is longer than any honest answer takes.
        stream_total: Duration = TimeSpan(TIMEOUTS), or Duration::from_secs(86_400);
    }
}

keys! {
    /// `timeouts = { … }` of one upstream: overrides of the race's timeouts. The totals cannot be overridden.
    #[derive(Clone, Copy)]
    pub(super) struct UpstreamTimeouts {
        /// Name look-up, TCP and TLS together.
        connect: Option<Duration> = TimeSpan(TIMEOUTS);
        /// From dispatch to the first token; comments and headers do not stop it.
        first_token: Option<Duration> = TimeSpan(TIMEOUTS);
        /// Without a byte, after the first token.
        idle: Option<Duration> = TimeSpan(TIMEOUTS);
    }
}

impl Timeouts {
    /// The same, for a request that ends within this time.
    pub fn within(self, limit: Duration) -> Timeouts {
        Timeouts { total: self.total.min(limit), stream_total: self.stream_total.min(limit), ..self }
    }

    /// How long its answer may be silent, if a silent one `is_rescued`, or else if `others` may replace it. Servers that hold a
    /// whole call back are silent for minutes, and so are models between thinking and answer.
    pub fn silence(self, is_rescued: bool, others: bool) -> Duration {
        /// The default of `idle` with `rescue = "continue"`.
        const RESCUED_FOR: Duration = Duration::from_secs(30);
        /// The same where another attempt may replace it.
        const REPLACED_FOR: Duration = Duration::from_secs(300);
        /// The same of the last attempt that is alive.
        const ALONE_FOR: Duration = Duration::from_secs(600);
        self.idle.unwrap_or(match (is_rescued, others) {
            (true, _) => RESCUED_FOR,
            (false, true) => REPLACED_FOR,
            (false, false) => ALONE_FOR,
        })
    }

    /// An upstream's, in a race with these. A `whole` answer ends with its race, at `total`, and not sooner.
    pub fn in_race(self, race: Timeouts, whole: bool) -> Timeouts {
        let stream_total = if whole { 2 * race.total } else { race.stream_total };
        Timeouts { stream_total, ..self }
    }
}

impl UpstreamTimeouts {
    pub(super) fn over(self, race: Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(race.connect),
            first_token: self.first_token.unwrap_or(race.first_token),
            idle: self.idle.or(race.idle),
            total: race.total,
            stream_total: race.stream_total,
        }
    }
}
