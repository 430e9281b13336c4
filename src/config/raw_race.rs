//! What was typed under `[race]`, or of the same keys under a model. What was not typed is `resolve_race`'s to fill in.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::{Located, TomlTable};
use super::units::{DURATION_MAX, parse_duration};
use super::{
    ContentPolicy, FirstToken, HedgeAfter, Lossy, MAX_ATTEMPTS, Objective, Policy, RaceSettings, RescuePolicy,
    SloSettings,
};

/// `[race]`, and what a model sets of it.
#[derive(Default)]
pub(super) struct RawRace {
    pub(super) policy: Option<Policy>,
    pub(super) hedge_after: Option<HedgeAfter>,
    pub(super) optimise: Option<Objective>,
    pub(super) budget: Option<f64>,
    pub(super) slo: RawSlo,
    pub(super) hold_max: Option<Duration>,
    pub(super) max_attempts: Option<usize>,
    pub(super) retries: Option<u32>,
    pub(super) retry_wait: Option<Duration>,
    pub(super) audit: Option<f64>,
    pub(super) drains: RawDrains,
    pub(super) breaker: RawBreaker,
    pub(super) timeouts: RawTimeouts,
    pub(super) lossy: Option<Lossy>,
    /// The inner one is none where it is off.
    pub(super) keepalive: Option<Option<Duration>>,
    pub(super) content_policy: Option<ContentPolicy>,
    pub(super) rescue: Option<RescuePolicy>,
    pub(super) first_token: Option<FirstToken>,
}

/// `slo = { … }`
#[derive(Clone, Copy, Default)]
pub(super) struct RawSlo {
    pub(super) ttft: Option<Duration>,
    pub(super) tpot: Option<Duration>,
}

/// `drains = { … }`
#[derive(Clone, Copy, Default)]
pub(super) struct RawDrains {
    pub(super) time: Option<Duration>,
    pub(super) bytes: Option<u64>,
    pub(super) running: Option<u64>,
}

/// `breaker = { … }`
#[derive(Default)]
pub(super) struct RawBreaker {
    pub(super) failures: Option<u32>,
    pub(super) open: Option<Duration>,
    pub(super) open_max: Option<Duration>,
    /// As messages call it, and where it is; none if it is not there.
    pub(super) place: Option<Located<String>>,
}

/// `timeouts = { … }`; an upstream has no `total`.
#[derive(Clone, Copy, Default)]
pub(super) struct RawTimeouts {
    pub(super) connect: Option<Duration>,
    pub(super) first_token: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) total: Option<Duration>,
}

/// Not zero: a timeout that has always passed.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=DURATION_MAX;
/// Bytes of one drained loser.
const DRAIN_BYTES: RangeInclusive<u64> = 1024..=1 << 30;
/// More would be no breaker.
const BREAKER_FAILURES: RangeInclusive<u64> = 0..=10_000;
/// Drains that may be asked for.
const RUNNING_MAX: u64 = 10_000;

impl RawRace {
    /// The keys that `[race]` and a model have in common.
    pub(super) fn read(table: &mut TomlTable<'_, '_>) -> RawRace {
        let attempts = 1..=u64::try_from(MAX_ATTEMPTS).unwrap_or(u64::MAX);
        RawRace {
            policy: table.choice("policy", &Policy::ALL, Policy::as_str),
            hedge_after: read_hedge_after(table),
            optimise: table.choice("optimise", &Objective::ALL, Objective::as_str),
            budget: table.number("budget", RaceSettings::BUDGET),
            slo: RawSlo::read(table),
            hold_max: table.duration("hold_max", RaceSettings::HOLD),
            max_attempts: table.integer("max_attempts", attempts).and_then(|n| usize::try_from(n).ok()),
            retries: table.integer("retries", RaceSettings::RETRIES).and_then(|n| u32::try_from(n).ok()),
            retry_wait: table.duration("retry_wait", RaceSettings::RETRY_WAIT),
            audit: table.number("audit", 0.0..=1.0),
            drains: RawDrains::read(table),
            breaker: RawBreaker::read(table),
            timeouts: RawTimeouts::read(table, true),
            lossy: table.choice("lossy", &Lossy::ALL, Lossy::as_str),
            keepalive: read_keepalive(table),
            content_policy: table.choice("content_policy", &ContentPolicy::ALL, ContentPolicy::as_str),
            rescue: table.choice("rescue", &RescuePolicy::ALL, RescuePolicy::as_str),
            first_token: table.choice("first_token", &FirstToken::ALL, FirstToken::as_str),
        }
    }
}

impl RawSlo {
    fn read(table: &mut TomlTable<'_, '_>) -> RawSlo {
        let name = format!("slo of {}", table.name);
        let Some(mut table) = table.table("slo", name) else { return RawSlo::default() };
        let slo = RawSlo {
            ttft: table.duration("ttft", SloSettings::TARGETS),
            tpot: table.duration("tpot", SloSettings::TARGETS),
        };
        table.finish();
        slo
    }
}

impl RawDrains {
    fn read(table: &mut TomlTable<'_, '_>) -> RawDrains {
        let name = format!("drains of {}", table.name);
        let Some(mut table) = table.table("drains", name) else { return RawDrains::default() };
        let drains = RawDrains {
            time: table.duration("time", TIMEOUTS),
            bytes: table.bytes("bytes", DRAIN_BYTES),
            running: table.integer("running", 0..=RUNNING_MAX),
        };
        table.finish();
        drains
    }
}

impl RawBreaker {
    fn read(table: &mut TomlTable<'_, '_>) -> RawBreaker {
        let name = format!("breaker of {}", table.name);
        let Some(mut table) = table.table("breaker", name) else { return RawBreaker::default() };
        let failures = table.integer("failures", BREAKER_FAILURES).and_then(|failures| u32::try_from(failures).ok());
        let (open, open_max) = (table.duration("open", TIMEOUTS), table.duration("open_max", TIMEOUTS));
        let place = Some(Located { offset: table.offset, value: table.name.clone() });
        table.finish();
        RawBreaker { failures, open, open_max, place }
    }
}

impl RawTimeouts {
    pub(super) fn read(table: &mut TomlTable<'_, '_>, with_total: bool) -> RawTimeouts {
        let name = format!("timeouts of {}", table.name);
        let Some(mut table) = table.table("timeouts", name) else { return RawTimeouts::default() };
        let timeouts = RawTimeouts {
            connect: table.duration("connect", TIMEOUTS),
            first_token: table.duration("first_token", TIMEOUTS),
            idle: table.duration("idle", TIMEOUTS),
            total: with_total.then(|| table.duration("total", TIMEOUTS)).flatten(),
        };
        table.finish();
        timeouts
    }
}

/// A duration, or "off".
fn read_keepalive(table: &mut TomlTable<'_, '_>) -> Option<Option<Duration>> {
    let text = table.text("keepalive")?;
    match (text.value.value.as_str(), parse_duration(&text.value.value)) {
        ("off", _) => return Some(None),
        (_, Ok(after)) if RaceSettings::KEEPALIVE.contains(&after) => return Some(Some(after)),
        _ => {}
    }
    let expected = "2s to 365d, such as \"10s\", or \"off\"";
    table.scope.report(table.bad_value("keepalive", &text).expected(expected));
    None
}

fn read_hedge_after(table: &mut TomlTable<'_, '_>) -> Option<HedgeAfter> {
    let text = table.text("hedge_after")?;
    let hedge_after = HedgeAfter::parse(&text.value.value);
    if hedge_after.is_none() {
        table.scope.report(table.bad_value("hedge_after", &text).expected(HedgeAfter::EXPECTED));
    }
    hedge_after
}
