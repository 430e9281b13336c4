//! What is set aside for a while: a key that was rate-limited or refused, an upstream that its provider does not serve.
//!
//! A key is told by its short hash, so keys that callers bring have entries of their own. Nothing is held against a
//! provider that is not in here: what the gateway cancelled itself never is.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Instant;

/// The longest wait that a provider's Retry-After can cause.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// The wait after a 429 that names none, doubled with each further one.
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// So long after a back-off has run out, the next one starts small again.
const STRIKES_FOR: Duration = Duration::from_secs(120);
/// The longest that used-up rate limits are believed: those that refill steadily have room long before their reset.
pub const EXHAUSTED_MAX: Duration = Duration::from_secs(10);
/// How long a refused key, or an upstream that is not served, is left alone. A reload of the config forgets it.
pub const REFUSED: Duration = Duration::from_secs(600);
/// Entries that are kept; callers may bring any number of keys.
const ENTRIES_MAX: usize = 10_000;

/// Why something is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// 429: this key, for Retry-After or a growing while. Where no key is sent, this upstream: one model of a server
    /// without keys may be busy while its others are not.
    KeyRateLimited,
    /// 401: this key, for long. Where no key is sent, this upstream.
    KeyRefused,
    /// 403 or 404: this upstream with this key, for long.
    UpstreamRefused,
    /// A good answer whose headers say that nothing is left: this upstream with this key, for a moment.
    Exhausted,
}

/// What an attempt would use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub provider: String,
    pub model: String,
    /// None where no key is sent.
    pub key_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// Provider and key.
    Key(String, String),
    Upstream(Target),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When it was last heard that it must be set aside.
    set: Instant,
    until: Instant,
    /// 429s in a row that named no wait; those that came while it was set aside already count as one.
    strikes: u32,
}

/// Everything that is set aside.
#[derive(Debug, Default)]
pub struct Cooldowns {
    entries: HashMap<Scope, Entry>,
}

impl Cooldowns {
    /// Sets `target` aside and returns for how long. `jitter`, in 0..1, spreads a back-off between half and all of it.
    pub fn set_aside(
        &mut self,
        aside: Aside,
        target: &Target,
        retry_after: Option<Duration>,
        now: Instant,
        jitter: f64,
    ) -> Duration {
        let scope = match (aside, key_scope(target)) {
            (Aside::KeyRateLimited | Aside::KeyRefused, Some(key)) => key,
            _ => Scope::Upstream(target.clone()),
        };
        self.make_room(now);
        let entry = self.entries.entry(scope).or_insert(Entry { set: now, until: now, strikes: 0 });
        entry.set = now;
        if now >= entry.until + STRIKES_FOR {
            entry.strikes = 0;
        }
        // A wait of nothing is no wait: the provider would be asked again at once, and again.
        let retry_after = retry_after.filter(|wait| !wait.is_zero());
        let wait = match (aside, retry_after) {
            (Aside::KeyRateLimited, Some(wait)) => wait.min(RETRY_AFTER_MAX),
            // Sent before the first of them was answered: it tells nothing new.
            (Aside::KeyRateLimited, None) if now < entry.until => entry.until - now,
            (Aside::KeyRateLimited, None) => {
                let full = BACK_OFF_FIRST.saturating_mul(1 << entry.strikes.min(10)).min(BACK_OFF_MAX);
                entry.strikes = entry.strikes.saturating_add(1);
                full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
            }
            (Aside::Exhausted, wait) => wait.unwrap_or_default().min(EXHAUSTED_MAX),
            (Aside::KeyRefused | Aside::UpstreamRefused, _) => REFUSED,
        };
        entry.until = entry.until.max(now + wait);
        wait
    }

    /// True while nothing is known of anybody: then there is no need to make a [`Target`].
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A good answer came to what was sent at `dispatched`. What was held against its key and its upstream is forgotten,
    /// unless it was learnt after that and still holds: the answer is then older news.
    pub fn clear(&mut self, target: &Target, dispatched: Instant, now: Instant) {
        for scope in scopes(target) {
            if self.entries.get(&scope).is_some_and(|entry| entry.until <= now || entry.set < dispatched) {
                self.entries.remove(&scope);
            }
        }
    }

    /// How long `target` is still set aside; none if it is not.
    pub fn wait(&self, target: &Target, now: Instant) -> Option<Duration> {
        let until = scopes(target).filter_map(|scope| self.entries.get(&scope)).map(|entry| entry.until).max()?;
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Drops what has long run out when there are many; a full table of running ones drops the earliest.
    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < ENTRIES_MAX {
            return;
        }
        self.entries.retain(|_, entry| entry.until > now);
        if self.entries.len() >= ENTRIES_MAX {
            let earliest = self.entries.iter().min_by_key(|(_, entry)| entry.until).map(|(scope, _)| scope.clone());
            earliest.map(|scope| self.entries.remove(&scope));
        }
    }
}

/// Everything that may be held against `target`.
fn scopes(target: &Target) -> impl Iterator<Item = Scope> {
    key_scope(target).into_iter().chain([Scope::Upstream(target.clone())])
}

fn key_scope(target: &Target) -> Option<Scope> {
    target.key_id.as_ref().map(|key_id| Scope::Key(target.provider.clone(), key_id.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(model: &str, key: &str) -> Target {
        Target { provider: "p".to_owned(), model: model.to_owned(), key_id: Some(key.to_owned()) }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_limit_cools_one_key_for_retry_after() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k1"), Some(SECOND * 7), now, 0.0);
        assert_eq!(cooldowns.wait(&target("other", "k1"), now), Some(SECOND * 7), "the key, whatever the model");
        assert_eq!(cooldowns.wait(&target("a", "k2"), now), None, "not another key");
        assert_eq!(cooldowns.wait(&target("a", "k1"), now + SECOND * 7), None);
        let wait = cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k1"), Some(SECOND * 9_999), now, 0.0);
        assert_eq!(wait, RETRY_AFTER_MAX);
    }

    #[test]
    fn a_back_off_doubles_to_a_minute_and_an_answer_ends_it() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        let mut at = now;
        let waits: Vec<u64> = (0..9)
            .map(|_| {
                let wait = cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k"), None, at, 1.0);
                at += wait;
                wait.as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        cooldowns.clear(&target("a", "k"), at, at);
        assert_eq!(cooldowns.wait(&target("a", "k"), at), None);
        let wait = cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k"), None, at, 0.0);
        assert_eq!(wait, SECOND / 2, "from the start again, with the least jitter");
    }

    #[test]
    fn rate_limits_that_come_together_are_one_strike() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        let mut limited = |at| cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k"), None, at, 1.0);
        assert_eq!(limited(now), SECOND);
        assert_eq!((0..7).map(|_| limited(now + SECOND / 4)).max(), Some(SECOND * 3 / 4), "what is left of it");
        assert_eq!(limited(now + SECOND), SECOND * 2, "the second strike");
        assert_eq!(limited(now + SECOND * 3 + STRIKES_FOR), SECOND, "long ago");
    }

    #[test]
    fn an_answer_to_what_was_sent_before_ends_no_cool_down() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        let key = target("a", "k");
        cooldowns.set_aside(Aside::KeyRateLimited, &key, Some(SECOND * 60), now + SECOND, 0.0);
        cooldowns.clear(&key, now, now + SECOND * 2);
        assert_eq!(cooldowns.wait(&key, now + SECOND * 2), Some(SECOND * 59), "sent before the 429 was heard");
        cooldowns.clear(&key, now + SECOND * 2, now + SECOND * 3);
        assert_eq!(cooldowns.wait(&key, now + SECOND * 3), None, "sent after it");
        cooldowns.set_aside(Aside::KeyRefused, &key, None, now + SECOND, 0.0);
        cooldowns.clear(&key, now, now + SECOND * 2);
        assert!(cooldowns.wait(&key, now + SECOND * 2).is_some(), "a refused key");
        cooldowns.clear(&key, now, now + SECOND + REFUSED);
        assert!(cooldowns.is_empty(), "it has run out");
    }

    #[test]
    fn without_a_key_only_the_upstream_is_set_aside() {
        for aside in [Aside::KeyRateLimited, Aside::KeyRefused, Aside::UpstreamRefused] {
            let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
            let keyless = |model| Target { key_id: None, ..target(model, "") };
            cooldowns.set_aside(aside, &keyless("busy"), Some(SECOND), now, 0.0);
            assert!(cooldowns.wait(&keyless("busy"), now).is_some(), "{aside:?}");
            assert_eq!(cooldowns.wait(&keyless("idle"), now), None, "{aside:?}");
            assert_eq!(cooldowns.wait(&target("busy", "k"), now), None, "{aside:?}");
            cooldowns.clear(&keyless("busy"), now + SECOND, now + SECOND);
            assert!(cooldowns.is_empty(), "{aside:?}");
        }
    }

    #[test]
    fn a_refused_upstream_leaves_the_key_s_other_models() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        cooldowns.set_aside(Aside::UpstreamRefused, &target("gone", "k"), None, now, 0.0);
        assert_eq!(cooldowns.wait(&target("gone", "k"), now), Some(REFUSED));
        assert_eq!(cooldowns.wait(&target("here", "k"), now), None);
        cooldowns.set_aside(Aside::KeyRefused, &target("gone", "k"), None, now, 0.0);
        assert_eq!(cooldowns.wait(&target("here", "k"), now), Some(REFUSED));
    }

    #[test]
    fn what_is_used_up_rests_a_moment_for_this_key_and_model() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        assert_eq!(cooldowns.set_aside(Aside::Exhausted, &target("a", "k"), Some(SECOND * 2), now, 0.0), SECOND * 2);
        assert_eq!(cooldowns.wait(&target("a", "k"), now), Some(SECOND * 2));
        assert_eq!((cooldowns.wait(&target("b", "k"), now), cooldowns.wait(&target("a", "l"), now)), (None, None));
        let wait = cooldowns.set_aside(Aside::Exhausted, &target("a", "k"), Some(SECOND * 3_600), now, 0.0);
        assert_eq!(wait, EXHAUSTED_MAX);
    }

    #[test]
    fn the_table_is_bounded() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        for key in 0..ENTRIES_MAX + 500 {
            cooldowns.set_aside(Aside::KeyRefused, &target("m", &key.to_string()), None, now, 0.0);
        }
        assert!(cooldowns.entries.len() <= ENTRIES_MAX);
    }
}
