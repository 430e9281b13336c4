//! The state of every upstream since the start: cool-downs, used-up limits, breakers, context windows. Not for how long
//! each lasts: see `routing`.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::candidate::wait_for_all;
use super::{CallerId, Candidate, LiveConfig};
use crate::clock::Instant;
use crate::config::{Config, Keys};
use crate::learning::Learning;
use crate::protocol::request::ApiRequest;
use crate::routing::breaker::Breakers;
use crate::routing::cooldown::{CooldownPeriod, CooldownReason, CooldownTarget, Cooldowns, RefusalSource};
use crate::routing::keyring::HashedKey;
use crate::routing::windows::{ContextWindow, ContextWindows, PromptLength};

/// Upstreams that are remembered as rejecting `stream_options`, and as many as rejecting another member.
const REMEMBERED_MAX: usize = 10_000;
/// How long they are remembered: the next version of a server may accept it.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// Members that are remembered of one upstream.
const MEMBERS_MAX: usize = 16;

/// The state of all upstreams. Shared by all requests.
pub struct UpstreamHealth {
    cooldowns: Mutex<Cooldowns>,
    /// Keys with a used-up rate limit: others go first, but they are used if there are no others.
    exhausted: Mutex<Cooldowns>,
    /// Seeds the hashes that distinguish request bodies.
    salt: RandomState,
    pub(super) breakers: Mutex<Breakers>,
    /// By upstream: when the rejection was observed.
    without_stream_options: Mutex<HashMap<String, Instant>>,
    /// By upstream: members that it refused, and when.
    without_members: Mutex<HashMap<String, (Vec<String>, Instant)>>,
    /// Context windows, learnt from refusals.
    windows: Mutex<ContextWindows>,
    learning: Arc<Learning>,
}

impl UpstreamHealth {
    pub fn new(live: &LiveConfig) -> UpstreamHealth {
        let learning = Learning::new();
        live.teach_names(&learning);
        UpstreamHealth {
            cooldowns: Mutex::default(),
            exhausted: Mutex::default(),
            salt: RandomState::new(),
            breakers: Mutex::default(),
            without_stream_options: Mutex::default(),
            without_members: Mutex::default(),
            windows: Mutex::default(),
            learning: Arc::new(learning),
        }
    }

    /// Before a new configuration comes into force. Keeps the breakers and the statistics of providers whose address stays.
    pub fn keep_known(&self, before: &LiveConfig, live: &LiveConfig) {
        let address = |config: &Config, provider: &str| {
            let provider = config.providers.get(provider)?;
            Some((provider.base_url.clone(), provider.preferred().transport.clone()))
        };
        let stays = |upstream: &str| {
            let provider = upstream.split('/').next().unwrap_or_default();
            let now = address(&live.config, provider);
            now.is_some() && now == address(&before.config, provider)
        };
        lock(&self.breakers).retain(|asked| stays(asked.upstream) && asked.named != live.is_configured(asked.upstream));
        self.learning.retain(stays);
        let billing = |config: &Config, model: &str| {
            let upstreams = &config.models.get(model)?.upstreams;
            Some(upstreams.iter().map(|upstream| (upstream.name(), upstream.billing())).collect::<Vec<_>>())
        };
        self.learning.retain_cost_budgets(|model| billing(&live.config, model) == billing(&before.config, model));
        live.teach_names(&self.learning);
    }

    /// After it came into force. Ends all cool-downs: a key may have been replaced.
    pub fn clear_cooldowns(&self) {
        *lock(&self.cooldowns) = Cooldowns::default();
        *lock(&self.exhausted) = Cooldowns::default();
        lock(&self.without_stream_options).clear();
        lock(&self.without_members).clear();
        *lock(&self.windows) = ContextWindows::default();
    }

    /// Statistics of upstreams, and the budgets.
    pub fn learning(&self) -> &Arc<Learning> {
        &self.learning
    }

    /// Upstreams whose breaker is open.
    pub fn open_breakers(&self) -> BTreeSet<String> {
        lock(&self.breakers).open()
    }

    /// Cools down what failed with this key of an upstream.
    pub(super) fn cool_down(
        &self,
        reason: CooldownReason,
        candidate: &Candidate,
        key: Option<&HashedKey>,
        retry_after: Option<Duration>,
    ) -> Duration {
        let is_own = key.is_some_and(|key| key.own);
        if let (CooldownReason::KeyRefused, Keys::Token(token), false) =
            (reason, &candidate.upstream.provider.keys, is_own)
        {
            // The token may have been revoked before it expired.
            token.refuse();
        }
        lock(&self.cooldowns).cool_down(reason, &candidate.target(key), retry_after, Instant::now(), fastrand::f64())
    }

    /// A refusal that may concern this request alone. True once enough other callers met it: see [`Cooldowns::suspect`].
    pub(super) fn suspect(&self, target: &CooldownTarget, caller: CallerId, body: &[u8]) -> bool {
        let refusal_source = RefusalSource { caller: caller.id(), body: self.salt.hash_one(body) };
        lock(&self.cooldowns).suspect(target, refusal_source, caller.witnesses(), Instant::now())
    }

    /// A successful answer reported that a rate limit is used up for `wait`.
    pub(super) fn exhausted(&self, target: &CooldownTarget, wait: Duration) {
        lock(&self.exhausted).cool_down(CooldownReason::Exhausted, target, Some(wait), Instant::now(), 0.0);
    }

    /// How long other upstreams go first, because a rate limit of this one is used up.
    pub(super) fn resting(&self, target: impl FnOnce() -> CooldownTarget) -> Option<CooldownPeriod> {
        let exhausted = lock(&self.exhausted);
        if exhausted.is_empty() { None } else { exhausted.wait(&target(), Instant::now()) }
    }

    /// An upstream answered well to a request sent at `dispatched`: its cool-down ends. `target` runs only if anything cools
    /// down.
    pub(super) fn forgive(&self, target: impl FnOnce() -> CooldownTarget, dispatched: Instant) {
        let mut cooldowns = lock(&self.cooldowns);
        if !cooldowns.is_empty() {
            cooldowns.clear(&target(), dispatched, Instant::now());
        }
    }

    pub fn cooling(&self, target: impl FnOnce() -> CooldownTarget) -> Option<CooldownPeriod> {
        let cooldowns = lock(&self.cooldowns);
        if cooldowns.is_empty() { None } else { cooldowns.wait(&target(), Instant::now()) }
    }

    /// If every candidate cools down: the index of a key that may be tried again now; 0 for an upstream without keys.
    pub(super) fn let_through(&self, candidate: &Candidate) -> Option<usize> {
        let (mut cooldowns, now) = (lock(&self.cooldowns), Instant::now());
        if candidate.keys.is_empty() {
            return cooldowns.let_through(&candidate.target(None), now).then_some(0);
        }
        candidate.keys.iter().position(|key| cooldowns.let_through(&candidate.target(Some(key)), now))
    }

    /// The key to send: the first that is not cooling down, or the first of all.
    pub fn key<'r>(&self, candidate: &'r Candidate) -> Option<&'r HashedKey> {
        self.rested_key(candidate).or(candidate.keys.first())
    }

    /// Whether a key other than `key` is not cooling down.
    pub(super) fn has_rested_key_but(&self, candidate: &Candidate, key: Option<&HashedKey>) -> bool {
        self.rested_key(candidate).is_some_and(|rested| key.is_none_or(|key| key.id() != rested.id()))
    }

    /// The shortest cool-down if all keys of an upstream cool down. None if one of them does not.
    pub fn held(&self, candidate: &Candidate) -> Option<CooldownPeriod> {
        wait_for_all(&candidate.keys, |key| self.cooling(|| candidate.target(key)))
    }

    /// Prefers a key whose rate limits are not used up.
    fn rested_key<'r>(&self, candidate: &'r Candidate) -> Option<&'r HashedKey> {
        let target = |key: &HashedKey| candidate.target(Some(key));
        let mut rested = candidate.keys.iter().filter(|key| self.cooling(|| target(key)).is_none());
        let first = rested.next()?;
        std::iter::once(first).chain(rested).find(|key| self.resting(|| target(key)).is_none()).or(Some(first))
    }

    /// The window of each candidate; empty if none is known.
    pub fn windows_of(&self, candidates: &[Candidate]) -> Vec<ContextWindow> {
        let windows = lock(&self.windows);
        if windows.is_empty() && candidates.iter().all(|candidate| candidate.upstream.context.is_none()) {
            return Vec::new();
        }
        let now = Instant::now();
        candidates.iter().map(|candidate| windows.of(&candidate.name, candidate.upstream.context, now)).collect()
    }

    /// An upstream refused a prompt as too long: see [`ContextWindows::refused`].
    pub(super) fn refused_length(&self, upstream: &str, tokens: Option<u64>, bytes: Option<usize>) {
        lock(&self.windows).refused(upstream, tokens, bytes, Instant::now());
    }

    /// An upstream accepted a prompt. `length` runs only if any prompt was ever refused.
    pub(super) fn took_length(&self, upstream: &str, length: impl FnOnce() -> Option<PromptLength>) {
        let mut windows = lock(&self.windows);
        if !windows.is_empty()
            && let Some(length) = length()
        {
            windows.took(upstream, length);
        }
    }

    pub fn takes_stream_options(&self, upstream: &str) -> bool {
        let remembered = lock(&self.without_stream_options);
        remembered.get(upstream).is_none_or(|learnt| learnt.elapsed() >= REMEMBERED_FOR)
    }

    /// Members that the upstream refused a while ago.
    pub fn refused_members(&self, upstream: &str) -> Vec<String> {
        let remembered = lock(&self.without_members);
        if remembered.is_empty() {
            return Vec::new();
        }
        let known = remembered.get(upstream).filter(|(_, learnt)| learnt.elapsed() < REMEMBERED_FOR);
        known.map_or_else(Vec::new, |(members, _)| members.clone())
    }

    /// It answered without these. A member that it takes by then is sent again when the memory fades.
    pub(super) fn leave_out_members(&self, upstream: &str, members: &[String]) {
        let mut remembered = lock(&self.without_members);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, (_, learnt)| learnt.elapsed() < REMEMBERED_FOR);
        }
        if remembered.len() >= REMEMBERED_MAX && !remembered.contains_key(upstream) {
            return;
        }
        let (known, learnt) = remembered.entry(upstream.to_owned()).or_insert_with(|| (Vec::new(), Instant::now()));
        if learnt.elapsed() >= REMEMBERED_FOR {
            known.clear();
        }
        for member in members
            .iter()
            .filter(|member| known.len() < MEMBERS_MAX && !known.contains(member))
            .cloned()
            .collect::<Vec<_>>()
        {
            known.push(member);
        }
        *learnt = Instant::now();
    }

    pub(super) fn leave_off_stream_options(&self, upstream: &str) {
        let mut remembered = lock(&self.without_stream_options);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, learnt| learnt.elapsed() < REMEMBERED_FOR);
        }
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert(upstream.to_owned(), Instant::now());
        }
    }
}

/// The length of a request's prompt.
pub fn prompt_length(request: &ApiRequest) -> PromptLength {
    PromptLength::of(&request.prompt())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures_util::FutureExt as _;
    use secrecy::SecretString;

    use super::*;
    use crate::protocol::{Dialect, Surface};

    #[tokio::test]
    async fn a_token_is_read_again_when_it_is_refused_and_not_a_caller_s_own_key() {
        let text =
            "models.m.upstreams = [\"a/m\"]\n[providers.a]\nbase_url = \"http://a.test\"\ntoken = { file = \"t\" }";
        let config = crate::config::parse(text, Path::new("x"), &|_| None).unwrap();
        let live = LiveConfig::new(config, &HashMap::new()).unwrap();
        let candidate = Candidate {
            upstream: live.config.models["m"].upstreams[0].clone(),
            name: "a/m".to_owned(),
            endpoint: live.line("a").unwrap().endpoint(Dialect::OpenAi).unwrap().clone(),
            keys: Vec::new(),
            surface: Surface::Chat,
            named: false,
            extra: false,
        };
        let Keys::Token(token) = &candidate.upstream.provider.keys else { panic!("it has a token") };
        let health = UpstreamHealth::new(&live);
        for own in [true, false] {
            let key = HashedKey::new(SecretString::from("k"), own);
            health.cool_down(CooldownReason::KeyRefused, &candidate, Some(&key), None);
            assert_eq!(token.refused().now_or_never().is_some(), !own);
        }
    }
}
