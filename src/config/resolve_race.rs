//! The settings of a race where nothing is said, and how those of a model are laid over those of `[race]`.

use std::time::Duration;

use super::problem::LocatedProblem;
use super::raw_race::{RawBreaker, RawRace, RawTimeouts};
use super::reader::ReaderScope;
use super::units::format_duration;
use super::{
    BreakerSettings, ContentPolicy, Drains, FirstToken, HedgeAfter, Lossy, Objective, Policy, RaceSettings,
    RescuePolicy, SloSettings, Timeouts,
};

/// `[race]` where nothing is said.
pub(super) const RACE: RaceSettings = RaceSettings {
    policy: Policy::Race,
    hedge_after: HedgeAfter::Quantile(0.95),
    optimise: Objective::Ttft,
    budget: 0.1,
    slo: SloSettings { ttft: Duration::from_secs(1), tpot: Duration::from_millis(50) },
    hold_max: Duration::from_millis(300),
    max_attempts: 4,
    retries: 0,
    // Not much longer than a slow first token takes: another upstream may have answered by then.
    retry_wait: Duration::from_secs(2),
    audit: 0.02,
    drains: Drains { time: Duration::from_secs(60), bytes: 4 << 20, running: 64 },
    breaker: BreakerSettings { failures: 5, open: Duration::from_secs(5), open_max: Duration::from_secs(60) },
    timeouts: Timeouts {
        connect: Duration::from_secs(3),
        first_token: Duration::from_secs(30),
        idle: Duration::from_secs(30),
        total: Duration::from_secs(600),
    },
    lossy: Lossy::Refuse,
    keepalive: Some(Duration::from_secs(10)),
    content_policy: ContentPolicy::Stop,
    rescue: RescuePolicy::Off,
    first_token: FirstToken::Any,
};

/// What `raw` says, and `base` where it says nothing.
pub(super) fn race_settings(scope: &ReaderScope<'_>, base: &RaceSettings, raw: &RawRace) -> RaceSettings {
    RaceSettings {
        policy: raw.policy.unwrap_or(base.policy),
        hedge_after: raw.hedge_after.unwrap_or(base.hedge_after),
        optimise: raw.optimise.unwrap_or(base.optimise),
        budget: raw.budget.unwrap_or(base.budget),
        slo: SloSettings { ttft: raw.slo.ttft.unwrap_or(base.slo.ttft), tpot: raw.slo.tpot.unwrap_or(base.slo.tpot) },
        hold_max: raw.hold_max.unwrap_or(base.hold_max),
        max_attempts: raw.max_attempts.unwrap_or(base.max_attempts),
        retries: raw.retries.unwrap_or(base.retries),
        retry_wait: raw.retry_wait.unwrap_or(base.retry_wait),
        audit: raw.audit.unwrap_or(base.audit),
        drains: Drains {
            time: raw.drains.time.unwrap_or(base.drains.time),
            bytes: raw.drains.bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(base.drains.bytes),
            running: raw.drains.running.and_then(|most| usize::try_from(most).ok()).unwrap_or(base.drains.running),
        },
        breaker: merge_breaker(scope, base.breaker, &raw.breaker),
        timeouts: merge_timeouts(base.timeouts, raw.timeouts),
        lossy: raw.lossy.unwrap_or(base.lossy),
        keepalive: raw.keepalive.unwrap_or(base.keepalive),
        content_policy: raw.content_policy.unwrap_or(base.content_policy),
        rescue: raw.rescue.unwrap_or(base.rescue),
        first_token: raw.first_token.unwrap_or(base.first_token),
    }
}

fn merge_breaker(scope: &ReaderScope<'_>, base: BreakerSettings, raw: &RawBreaker) -> BreakerSettings {
    let breaker = BreakerSettings {
        failures: raw.failures.unwrap_or(base.failures),
        open: raw.open.unwrap_or(base.open),
        open_max: raw.open_max.unwrap_or(base.open_max),
    };
    // Without a table of its own it is the base's mistake.
    if let Some(place) = raw.place.as_ref().filter(|_| breaker.open_max < breaker.open) {
        let (open, open_max) = (format_duration(breaker.open), format_duration(breaker.open_max));
        let message = format!("\"open_max\" in {} is {open_max}, which is shorter than open, {open}", place.value);
        scope.report(LocatedProblem::at(place.offset, message).expected("open_max to be at least open"));
    }
    breaker
}

pub(super) fn merge_timeouts(base: Timeouts, raw: RawTimeouts) -> Timeouts {
    Timeouts {
        connect: raw.connect.unwrap_or(base.connect),
        first_token: raw.first_token.unwrap_or(base.first_token),
        idle: raw.idle.unwrap_or(base.idle),
        total: raw.total.unwrap_or(base.total),
    }
}
