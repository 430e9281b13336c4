//! When a gateway notes what others on the same database should know of upstreams, and what it makes of theirs.
//!
//! Each hint is taken over once. What was heard is not passed on. Not for how hints are sent: see the server's `replicas`.

use std::time::Duration;

use super::breaker::BreakerScope;
use super::cooldown::{CooldownPeriod, CooldownTarget};
use super::hints::{HealthHint, KeptHint};
use super::{LiveConfig, UpstreamHealth};
use crate::money::lock;
use crate::verdict::CooldownReason;
use photofinish_base::clock::Instant;

/// An upstream that answered this gateway within this time, in microseconds, is healthy whatever the others say.
const HEALTHY_FOR_US: i64 = 5_000_000;

impl UpstreamHealth {
    /// A key cools down from now on.
    pub(super) fn note_cooldown(&self, why: CooldownReason, target: CooldownTarget, wait: Duration) {
        let is_of_all = match why {
            CooldownReason::RateLimited | CooldownReason::AccountRateLimited => true,
            // Without a key it may be the caller's, in a header.
            CooldownReason::KeyRefused => target.key_id.is_some(),
            CooldownReason::Forbidden | CooldownReason::NotFound | CooldownReason::Exhausted => false,
        };
        // Callers bring any number of keys of their own: they would leave no room for others.
        if is_of_all && !target.named && !target.own_key {
            lock(&self.hints).note(target, Some((why, Instant::now() + wait)));
        }
    }

    /// A breaker opens.
    pub(super) fn note_breaker(&self, scope: BreakerScope<'_>) {
        if let Some((provider, model)) = scope.upstream.split_once('/').filter(|_| !scope.named) {
            let (provider, model) = (provider.to_owned(), model.to_owned());
            let target =
                CooldownTarget { provider, model, surface: scope.surface, key_id: None, own_key: false, named: false };
            lock(&self.hints).note(target, None);
        }
    }

    /// What still holds of what this gateway found out itself.
    pub fn hints(&self) -> Vec<HealthHint> {
        let (cooldowns, breakers, now) = (lock(&self.cooldowns), lock(&self.breakers), Instant::now());
        let mut hints = lock(&self.hints);
        hints.kept.retain(|kept| match kept.cooldown {
            Some((why, until)) => until > now && cooldowns.cools_for(why, &kept.target, now),
            None => breakers.is_open(scope_of(&kept.target, &name_of(&kept.target))),
        });
        // One whose wait is over may be well again, and this gateway has not tried it.
        let is_sent = |kept: &&KeptHint| {
            kept.cooldown.is_some() || breakers.is_waiting(scope_of(&kept.target, &name_of(&kept.target)), now)
        };
        let hint_of = |kept: &KeptHint| HealthHint {
            number: kept.number,
            target: kept.target.clone(),
            cooldown: kept.cooldown.map(|(why, until)| CooldownPeriod { wait: until - now, why }),
        };
        hints.kept.iter().filter(is_sent).map(hint_of).collect()
    }

    /// Takes over another gateway's hint of an upstream that this one has too. A breaker stays closed where this gateway got an answer a
    /// moment ago.
    pub fn hear_hint(&self, hint: &HealthHint, live: &LiveConfig) {
        let (target, upstream) = (&hint.target, name_of(&hint.target));
        if !live.is_configured(&upstream) {
            return;
        }
        if let Some(CooldownPeriod { wait, why }) = hint.cooldown {
            lock(&self.cooldowns).cool_down(why, target, Some(wait), Instant::now(), fastrand::f64());
            if why != CooldownReason::KeyRefused {
                let learning = self.learning();
                learning.upstream(&upstream).limited(learning.now_us());
            }
            return;
        }
        let learning = self.learning();
        let answered_us = learning.upstream(&upstream).answered_us();
        if answered_us.is_some_and(|answered_us| learning.now_us() - answered_us < HEALTHY_FOR_US) {
            return;
        }
        let settings = &live.config.race.breaker;
        if lock(&self.breakers).open_as_heard(scope_of(target, &upstream), settings, Instant::now()) {
            tracing::info!(upstream, "its breaker is open at another gateway, and so here");
        }
    }
}

fn name_of(target: &CooldownTarget) -> String {
    format!("{}/{}", target.provider, target.model)
}

fn scope_of<'n>(target: &CooldownTarget, upstream: &'n str) -> BreakerScope<'n> {
    BreakerScope { upstream, surface: target.surface, named: target.named }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;
    use crate::health::breaker::{BreakerStatus, TrialScope};
    use crate::health::hints::HINTS_MAX;
    use photofinish_config::BreakerSettings;
    use photofinish_wire::Surface;

    const SETTINGS: BreakerSettings =
        BreakerSettings { failures: 2, open: Duration::from_secs(5), open_max: Duration::from_secs(60) };
    const UP: BreakerScope<'static> = BreakerScope { upstream: "a/m", surface: Surface::Chat, named: false };

    /// With [`SETTINGS`], but for `failures`.
    fn live(failures: u32) -> LiveConfig {
        let text = format!(
            "models.m.upstreams = [\"a/m\"]\nrace.breaker = {{ failures = {failures}, open = \"5s\" }}\n\
             providers.a.base_url = \"http://a.test\""
        );
        let config = photofinish_config::parse(&text, Path::new("x"), &|_| None).unwrap();
        LiveConfig::new(config, &HashMap::new()).unwrap()
    }

    fn health() -> UpstreamHealth {
        UpstreamHealth::new(&live(2))
    }

    fn key(id: &str) -> CooldownTarget {
        let (provider, model) = ("a".to_owned(), "m".to_owned());
        let key_id = Some(id.to_owned());
        CooldownTarget { provider, model, surface: Surface::Chat, key_id, own_key: false, named: false }
    }

    /// A 429 for this key.
    fn limited(health: &UpstreamHealth, target: CooldownTarget, secs: u64) {
        let (why, wait) = (CooldownReason::RateLimited, Duration::from_secs(secs));
        lock(&health.cooldowns).cool_down(why, &target, Some(wait), Instant::now(), 0.0);
        health.note_cooldown(why, target, wait);
    }

    fn status(health: &UpstreamHealth) -> BreakerStatus {
        lock(&health.breakers).status(UP, &SETTINGS, None, TrialScope::InPlace, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_cool_down_is_heard_once_with_what_is_left_of_it_and_not_told_again() {
        let [one, other] = [health(), health()];
        limited(&one, key("k"), 9);
        limited(&one, key("k"), 10);
        one.note_cooldown(CooldownReason::NotFound, key("k"), Duration::from_secs(10));
        limited(&one, CooldownTarget { named: true, ..key("k") }, 10);
        tokio::time::advance(Duration::from_secs(4)).await;
        let hints = one.hints();
        let left = hints[0].cooldown.unwrap();
        assert_eq!((hints.len(), hints[0].number, left.wait), (1, 2, Duration::from_secs(6)));
        other.hear_hint(&hints[0], &live(2));
        let waits = |id: &str| other.cooling(|| key(id)).map(|cooling| cooling.wait);
        assert_eq!((waits("k"), waits("l")), (Some(Duration::from_secs(6)), None));
        assert!(other.learning().upstream("a/m").was_limited(other.learning().now_us()));
        assert!(other.hints().is_empty());
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(one.hints().is_empty() && waits("k").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_breaker_is_taken_over_where_nothing_was_answered_lately() {
        let [one, idle, busy] = [health(), health(), health()];
        let now = Instant::now();
        for _ in 0..2 {
            one.charge(UP, &SETTINGS, false, None, now);
        }
        let hints = one.hints();
        assert_eq!((hints.len(), hints[0].cooldown), (1, None));
        busy.learning().upstream("a/m").answered(busy.learning().now_us());
        tokio::time::advance(Duration::from_secs(4)).await;
        [&idle, &busy].into_iter().for_each(|health| health.hear_hint(&hints[0], &live(2)));
        assert_eq!(status(&busy), BreakerStatus::Closed, "it answered 4 s ago");
        assert_eq!(status(&idle), BreakerStatus::Open(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(1)).await;
        busy.hear_hint(&hints[0], &live(2));
        assert_eq!(status(&busy), BreakerStatus::Open(Duration::from_secs(5)), "and 5 s ago");
        assert!(idle.hints().is_empty(), "it is not sent again");
        let without = health();
        without.hear_hint(&hints[0], &live(0));
        assert_eq!(status(&without), BreakerStatus::Closed);
        // Its own next answer closes it, and the one that reported it has nothing more to report.
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(status(&idle), BreakerStatus::HalfOpen);
        idle.close_breaker(UP, Instant::now());
        assert_eq!(status(&idle), BreakerStatus::Closed);
        one.close_breaker(UP, Instant::now());
        assert!(one.hints().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_ran_here_closes_a_breaker_that_was_only_heard_of() {
        let [one, other] = [health(), health()];
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        (0..2).for_each(|_| one.charge(UP, &SETTINGS, false, None, Instant::now()));
        other.hear_hint(&one.hints()[0], &live(2));
        for (health, closed) in [(&one, false), (&other, true)] {
            health.close_breaker(UP, sent);
            assert_eq!(status(health) == BreakerStatus::Closed, closed);
        }
        // A trial that failed here says more than what ran before.
        other.hear_hint(&one.hints()[0], &live(2));
        tokio::time::advance(SETTINGS.open).await;
        let trial = Instant::now();
        lock(&other.breakers).begin_trial(UP, &SETTINGS, trial).unwrap();
        other.charge(UP, &SETTINGS, false, None, trial);
        other.close_breaker(UP, sent);
        assert_ne!(status(&other), BreakerStatus::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_configured_here_makes_no_entries() {
        let health = health();
        let target = CooldownTarget { provider: "b".to_owned(), ..key("k") };
        let limited = CooldownPeriod { wait: Duration::from_secs(9), why: CooldownReason::RateLimited };
        for cooldown in [Some(limited), None] {
            health.hear_hint(&HealthHint { number: 1, target: target.clone(), cooldown }, &live(2));
        }
        assert!(lock(&health.cooldowns).is_empty() && health.open_breakers().is_empty());
        assert_eq!(health.learning().upstreams().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_own_keys_are_not_told() {
        let health = health();
        limited(&health, key("k"), 9);
        (0..=HINTS_MAX).for_each(|id| limited(&health, CooldownTarget { own_key: true, ..key(&id.to_string()) }, 9));
        assert_eq!(health.hints().into_iter().map(|hint| hint.target).collect::<Vec<_>>(), [key("k")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_ended_here_is_told_no_more() {
        let health = health();
        limited(&health, key("k"), 60);
        limited(&health, key("l"), 60);
        tokio::time::advance(Duration::from_secs(1)).await;
        health.forgive(|| key("k"), Instant::now());
        let targets = |health: &UpstreamHealth| health.hints().into_iter().map(|hint| hint.target).collect::<Vec<_>>();
        assert_eq!(targets(&health), [key("l")], "it answered with the other key");
        health.clear_cooldowns();
        assert!(targets(&health).is_empty(), "the configuration was read again");
        for _ in 0..2 {
            health.charge(UP, &SETTINGS, false, None, Instant::now());
        }
        assert_eq!(targets(&health).len(), 1);
        tokio::time::advance(SETTINGS.open).await;
        assert_eq!(status(&health), BreakerStatus::HalfOpen);
        assert!(targets(&health).is_empty(), "its state is unknown now");
    }

    #[test]
    fn the_newest_hints_are_kept() {
        let health = health();
        for number in 0..=HINTS_MAX {
            limited(&health, key(&number.to_string()), 9);
        }
        let hints = health.hints();
        assert_eq!((hints.len(), hints[0].number), (HINTS_MAX, 2));
    }
}
