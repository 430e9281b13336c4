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
/// How long a refused key, or an upstream that is not served, is left alone. A reload of the config forgets it.
pub const REFUSED: Duration = Duration::from_secs(600);
/// Entries that are kept; callers may bring any number of keys.
const ENTRIES_MAX: usize = 10_000;

/// Why something is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// 429: this key, for Retry-After or a growing while.
    KeyRateLimited,
    /// 401: this key, for long.
    KeyRefused,
    /// 403 or 404: this upstream with this key, for long.
    UpstreamRefused,
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
    Key(String, Option<String>),
    Upstream(Target),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    until: Instant,
    /// 429s in a row that named no wait.
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
        let scope = match aside {
            Aside::KeyRateLimited | Aside::KeyRefused => Scope::Key(target.provider.clone(), target.key_id.clone()),
            Aside::UpstreamRefused => Scope::Upstream(target.clone()),
        };
        self.make_room(now);
        let entry = self.entries.entry(scope).or_insert(Entry { until: now, strikes: 0 });
        let wait = match (aside, retry_after) {
            (Aside::KeyRateLimited, Some(wait)) => wait.min(RETRY_AFTER_MAX),
            (Aside::KeyRateLimited, None) => {
                let full = BACK_OFF_FIRST.saturating_mul(1 << entry.strikes.min(10)).min(BACK_OFF_MAX);
                entry.strikes = entry.strikes.saturating_add(1);
                full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
            }
            (Aside::KeyRefused | Aside::UpstreamRefused, _) => REFUSED,
        };
        entry.until = entry.until.max(now + wait);
        wait
    }

    /// An answer came: what was held against its key is forgotten.
    pub fn clear(&mut self, target: &Target) {
        if !self.entries.is_empty() {
            self.entries.remove(&Scope::Key(target.provider.clone(), target.key_id.clone()));
        }
    }

    /// How long `target` is still set aside; none if it is not.
    pub fn wait(&self, target: &Target, now: Instant) -> Option<Duration> {
        if self.entries.is_empty() {
            return None;
        }
        let scopes = [Scope::Key(target.provider.clone(), target.key_id.clone()), Scope::Upstream(target.clone())];
        let until = scopes.iter().filter_map(|scope| self.entries.get(scope)).map(|entry| entry.until).max()?;
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
        let waits: Vec<u64> = (0..9)
            .map(|_| cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k"), None, now, 1.0).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        cooldowns.clear(&target("a", "k"));
        assert_eq!(cooldowns.wait(&target("a", "k"), now), None);
        let wait = cooldowns.set_aside(Aside::KeyRateLimited, &target("a", "k"), None, now, 0.0);
        assert_eq!(wait, SECOND / 2, "from the start again, with the least jitter");
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
    fn the_table_is_bounded() {
        let (mut cooldowns, now) = (Cooldowns::default(), Instant::now());
        for key in 0..ENTRIES_MAX + 500 {
            cooldowns.set_aside(Aside::KeyRefused, &target("m", &key.to_string()), None, now, 0.0);
        }
        assert!(cooldowns.entries.len() <= ENTRIES_MAX);
    }
}
