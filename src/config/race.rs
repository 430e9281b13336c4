//! The settings of a race: `[race]`, or what a model or a request sets of its own. What they are where nothing is said is
//! in `resolve_race`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::units::{format_duration, parse_duration};

/// `[race]`, or what a model sets of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceSettings {
    pub policy: Policy,
    /// For `hedge`: how long the leader has before the next starts.
    pub hedge_after: HedgeAfter,
    /// What is to be good, for the policies that learn.
    pub optimise: Objective,
    /// What extra attempts may cost, as a share of what single attempts would; in [`RaceSettings::BUDGET`]. 0: never one.
    pub budget: f64,
    /// The targets of `goodput`.
    pub slo: SloSettings,
    /// How long a first token may be held back, where the whole answer counts; in [`RaceSettings::HOLD`].
    pub hold_max: Duration,
    /// Attempts started for one request, retries included; at least 1, at most [`MAX_ATTEMPTS`].
    pub max_attempts: usize,
    /// Times that a failed upstream is asked again in one race, each; in [`RaceSettings::RETRIES`].
    pub retries: u32,
    /// The longest wait before it is, also where the provider asks for a longer one; in [`RaceSettings::RETRY_WAIT`].
    pub retry_wait: Duration,
    /// Share of losers that run on to their first token, 0 to 1.
    pub audit: f64,
    /// Bounds for losers that are billed in full anyway, and so are read to their end.
    pub drains: Drains,
    pub breaker: BreakerSettings,
    pub timeouts: Timeouts,
    /// What becomes of a request that an upstream's dialect cannot express.
    pub lossy: Lossy,
    /// For clients that stream: how long after the request the first keep-alive comment goes out, and the answer's head with
    /// it, and the pause between two of them; in [`RaceSettings::KEEPALIVE`]. None: never.
    pub keepalive: Option<Duration>,
    /// What becomes of a request that an upstream refuses for what it says.
    pub content_policy: ContentPolicy,
    /// What becomes of a streamed answer that breaks off.
    pub rescue: RescuePolicy,
    /// Which token wins.
    pub first_token: FirstToken,
}

impl RaceSettings {
    /// What `budget` may be.
    pub const BUDGET: RangeInclusive<f64> = 0.0..=10.0;
    /// What `hold_max` may be.
    pub const HOLD: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(5);
    /// What `keepalive` may be. Within two seconds most failures are known, and these keep a status of their own.
    pub const KEEPALIVE: RangeInclusive<Duration> = Duration::from_secs(2)..=super::units::DURATION_MAX;
    /// What `retries` may be: more would be beyond every `max_attempts`.
    pub const RETRIES: RangeInclusive<u64> = 0..=MAX_ATTEMPTS as u64 - 1;
    /// What `retry_wait` may be.
    pub const RETRY_WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(300);
}

/// No plan may start more attempts than this.
pub const MAX_ATTEMPTS: usize = 16;

/// What a quantile as `hedge_after` is, as long as nothing is known of the leader.
pub const UNLEARNED_HEDGE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Race,
    Hedge,
    Adaptive,
    /// The simple rule that `adaptive` falls back to.
    Rule,
    Fastest,
    Fallback,
    Weighted,
}

impl Policy {
    /// Every policy, in the order of the documentation.
    pub const ALL: [Policy; 7] = [
        Policy::Race,
        Policy::Hedge,
        Policy::Adaptive,
        Policy::Rule,
        Policy::Fastest,
        Policy::Fallback,
        Policy::Weighted,
    ];

    /// The name in the config, the header and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Race => "race",
            Policy::Hedge => "hedge",
            Policy::Adaptive => "adaptive",
            Policy::Rule => "rule",
            Policy::Fastest => "fastest",
            Policy::Fallback => "fallback",
            Policy::Weighted => "weighted",
        }
    }

    pub fn from_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.as_str() == name)
    }

    /// Whether it has one attempt after the other, in an order that was given: then the same upstream is asked again before
    /// the next.
    pub fn asks_in_order(self) -> bool {
        matches!(self, Policy::Fallback | Policy::Weighted)
    }

    /// Whether it starts extra attempts within `budget`.
    pub fn spends_budget(self) -> bool {
        matches!(self, Policy::Adaptive | Policy::Rule)
    }
}

/// What becomes of a request with something in it that the dialect of an upstream cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lossy {
    /// It is refused, with the name of what would be lost.
    Refuse,
    /// That is left out, and named in the answer.
    Drop,
}

impl Lossy {
    pub const ALL: [Lossy; 2] = [Lossy::Refuse, Lossy::Drop];

    /// The name in the config and the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Lossy::Refuse => "refuse",
            Lossy::Drop => "drop",
        }
    }

    pub fn from_name(name: &str) -> Option<Lossy> {
        Lossy::ALL.into_iter().find(|lossy| lossy.as_str() == name)
    }
}

/// Whether a token of reasoning wins a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstToken {
    /// As any other does.
    Any,
    /// It does not: it is held back until the answer begins.
    Answer,
}

impl FirstToken {
    pub const ALL: [FirstToken; 2] = [FirstToken::Any, FirstToken::Answer];

    /// The name in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            FirstToken::Any => "any",
            FirstToken::Answer => "answer",
        }
    }
}

/// What a refusal on policy means, as an error or as an answer that was withheld before any of it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentPolicy {
    /// Nothing more is started: it is not routed around. What is running may still win.
    Stop,
    /// It is a failure like any other.
    Continue,
}

impl ContentPolicy {
    pub const ALL: [ContentPolicy; 2] = [ContentPolicy::Stop, ContentPolicy::Continue];

    /// The name in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            ContentPolicy::Stop => "stop",
            ContentPolicy::Continue => "continue",
        }
    }
}

/// What becomes of a streamed answer that breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescuePolicy {
    /// It ends with an error event.
    Off,
    /// Another upstream goes on with it in the same stream.
    Continue,
}

impl RescuePolicy {
    pub const ALL: [RescuePolicy; 2] = [RescuePolicy::Off, RescuePolicy::Continue];

    /// The name in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            RescuePolicy::Off => "off",
            RescuePolicy::Continue => "continue",
        }
    }
}

/// When the next one of a `hedge` starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HedgeAfter {
    After(Duration),
    /// Of the leader's predicted time to first token, 0 to 1.
    Quantile(f64),
}

impl HedgeAfter {
    /// A smaller quantile would hedge most requests; beyond, no history is long enough to tell.
    pub const PER_CENT: RangeInclusive<f64> = 50.0..=99.9;

    /// What it looks like, for messages.
    pub const EXPECTED: &str = "a duration such as \"250ms\", at most 365d, or a quantile of the leader's time to first \
                                token, \"p50\" to \"p99.9\", such as \"p95\"";

    /// Reads a duration, or `p` and the quantile in per cent.
    pub fn parse(text: &str) -> Option<HedgeAfter> {
        let Some(percent) = text.trim().strip_prefix('p') else {
            return parse_duration(text).ok().map(HedgeAfter::After);
        };
        // `f64` reads more than digits and a point between them.
        let plain = percent.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let whole = percent.starts_with(|c: char| c.is_ascii_digit()) && !percent.ends_with('.');
        let percent = percent.parse::<f64>().ok().filter(|_| plain && whole)?;
        Self::PER_CENT.contains(&percent).then_some(HedgeAfter::Quantile(percent / 100.0))
    }

    /// As it is written: `500ms`, `p95`.
    pub fn text(self) -> String {
        match self {
            HedgeAfter::After(delay) => format_duration(delay),
            // By way of per cent it is off in the last digit.
            HedgeAfter::Quantile(quantile) => format!("p{}", (quantile * 1e8).round() / 1e6),
        }
    }

    /// The delay, as long as nothing is known of the leader.
    pub fn unlearned(self) -> Duration {
        match self {
            HedgeAfter::After(delay) => delay,
            HedgeAfter::Quantile(_) => UNLEARNED_HEDGE,
        }
    }
}

/// `optimise`: what "fastest" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The client's time to first token.
    Ttft,
    /// Its time to the whole answer.
    Completion,
    /// The share of requests that meet both targets of `slo`.
    Goodput,
}

impl Objective {
    pub const ALL: [Objective; 3] = [Objective::Ttft, Objective::Completion, Objective::Goodput];

    /// The name in the config, the header and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Objective::Ttft => "ttft",
            Objective::Completion => "completion",
            Objective::Goodput => "goodput",
        }
    }

    pub fn from_name(name: &str) -> Option<Objective> {
        Objective::ALL.into_iter().find(|objective| objective.as_str() == name)
    }
}

/// `slo = { … }`: what a request must keep to count as goodput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SloSettings {
    /// Longest time to the client's first token.
    pub ttft: Duration,
    /// Longest time per output token after the first.
    pub tpot: Duration,
}

impl SloSettings {
    /// What each may be. A fast decoder's TPOT is less than a millisecond.
    pub const TARGETS: RangeInclusive<Duration> = Duration::from_micros(1)..=super::units::DURATION_MAX;
}

/// `drains = { … }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drains {
    /// How long one may go on after it lost.
    pub time: Duration,
    /// How much of one is read after it lost.
    pub bytes: usize,
    /// How many run at once in the whole gateway; a further loser is cancelled. 0: none.
    pub running: usize,
}

/// `breaker = { … }`: when an upstream that keeps failing is left out, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// So many failures in a row open it. 0: none ever does.
    pub failures: u32,
    /// How long it is open at first; twice as long after each trial that fails.
    pub open: Duration,
    /// But no longer than this; not shorter than `open`.
    pub open_max: Duration,
}

/// Each covers its own phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Name look-up, TCP and TLS together.
    pub connect: Duration,
    /// From dispatch to the first token; comments and headers do not stop it.
    pub first_token: Duration,
    /// Without a byte, after the first token.
    pub idle: Duration,
    /// From the request to the commit; for a client that does not stream, to the whole answer.
    pub total: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_or_a_quantile() {
        for (text, quantile) in [("p50", 0.5), ("p95", 0.95), (" p99 ", 0.99), ("p99.9", 0.999), ("p97.5", 0.975)] {
            let Some(HedgeAfter::Quantile(read)) = HedgeAfter::parse(text) else { panic!("{text}") };
            assert!((read - quantile).abs() < 1e-12, "{text}: {read}");
            assert_eq!(HedgeAfter::Quantile(read).text(), text.trim());
        }
        for text in ["250ms", "0s", "1.5s"] {
            assert_eq!(HedgeAfter::parse(text).map(HedgeAfter::text).as_deref(), Some(text));
        }
        for text in [
            "", "p", "p0", "p49", "p49.99", "p99.95", "p100", "p9x", "p95s", "p-95", "p+95", "p 95", "p.95", "p95.",
            "p9.9.9", "p9e1", "pinf", "pNaN", "P95", "95", "soon", "366d",
        ] {
            assert_eq!(HedgeAfter::parse(text), None, "{text}");
        }
    }
}
