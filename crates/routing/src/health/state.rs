//! The state of every upstream since the start: cool-downs, used-up limits, breakers, context windows. Not for how long
//! each lasts: see `routing`.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::breaker::Breakers;
use super::candidate::wait_for_all;
use super::cooldown::{CooldownPeriod, CooldownTarget, Cooldowns, RefusalSource};
use super::hints::HintLog;
use super::refusals::{Refusals, RefusedKind, RequestFeatures};
use super::windows::{ContextWindow, ContextWindows, PromptLength};
use super::{CallerId, Candidate, LiveConfig};
use crate::learning::Learning;
use crate::money::lock;
use crate::verdict::CooldownReason;
use photofinish_base::clock::Instant;
use photofinish_config::keyring::HashedKey;
use photofinish_config::{Config, Keys, UpstreamStream};
use photofinish_translation::ApiRequest;
use photofinish_translation::adapt::Lesson;
use photofinish_translation::request::MemberSet;
use photofinish_wire::Surface;

/// Ways in which upstreams stream, and upstreams with what their refusals taught; both by surface.
const REMEMBERED_MAX: usize = 10_000;
/// How long it is remembered how an upstream streams, and what its refusals taught: the next version of a server may
/// accept it.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// Sets of members that one upstream is remembered to refuse to stream.
const SETS_MAX: usize = 64;

/// What refusals of one upstream taught about one surface.
const LESSONS_MAX: usize = 16;

/// What refusals taught, and when.
type LessonsByUpstream = HashMap<(String, Surface), Vec<(Lesson, Instant)>>;

/// What an upstream was seen to do when it was asked to stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamingHabit {
    /// It rejects `stream_options`.
    RefusesOptions,
    /// It refuses to stream a request with these members: one of them may be why, such as tools or a beam search.
    Refuses(MemberSet),
    /// Its streams have no usage.
    OmitsUsage,
    /// Its plain answers have none either.
    HasNoUsage,
}

/// The state of all upstreams. Shared by all requests.
pub struct UpstreamHealth {
    pub(super) cooldowns: Mutex<Cooldowns>,
    /// Keys with a used-up rate limit: others go first, but they are used if there are no others.
    exhausted: Mutex<Cooldowns>,
    /// Seeds the hashes that distinguish request bodies.
    salt: RandomState,
    pub(crate) breakers: Mutex<Breakers>,
    /// What other gateways on the same database should know.
    pub(super) hints: Mutex<HintLog>,
    /// By upstream and surface: how it streams, and when that was observed.
    streaming: Mutex<HashMap<(String, Surface, StreamingHabit), Instant>>,
    /// By upstream and surface: what refusals taught, and when.
    lessons: Mutex<LessonsByUpstream>,
    /// Context windows, learnt from refusals.
    windows: Mutex<ContextWindows>,
    /// Requests of a kind that are refused while others answer them.
    refusals: Mutex<Refusals>,
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
            hints: Mutex::default(),
            streaming: Mutex::default(),
            lessons: Mutex::default(),
            windows: Mutex::default(),
            refusals: Mutex::default(),
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
        let billing = |config: &Config, model: &str| {
            let upstreams = &config.models.get(model)?.upstreams;
            Some(upstreams.iter().map(|upstream| (upstream.name(), upstream.billing())).collect::<Vec<_>>())
        };
        self.learning.retain(stays, |model| billing(&live.config, model) == billing(&before.config, model));
        live.teach_names(&self.learning);
    }

    /// After it came into force. Ends all cool-downs: a key may have been replaced.
    pub fn clear_cooldowns(&self) {
        *lock(&self.cooldowns) = Cooldowns::default();
        *lock(&self.exhausted) = Cooldowns::default();
        lock(&self.streaming).clear();
        lock(&self.lessons).clear();
        *lock(&self.windows) = ContextWindows::default();
        *lock(&self.refusals) = Refusals::default();
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
        let target = candidate.target(key);
        let wait = lock(&self.cooldowns).cool_down(reason, &target, retry_after, Instant::now(), fastrand::f64());
        self.note_cooldown(reason, target, wait);
        wait
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

    pub(super) fn window_of(&self, candidate: &Candidate) -> ContextWindow {
        lock(&self.windows).of(&candidate.name, candidate.upstream.context, Instant::now())
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

    /// Whether the upstream was seen to do this a while ago.
    pub fn has_habit(&self, upstream: &str, surface: Surface, habit: StreamingHabit) -> bool {
        let remembered = lock(&self.streaming);
        let learnt = || remembered.get(&(upstream.to_owned(), surface, habit));
        !remembered.is_empty() && learnt().is_some_and(|learnt| learnt.elapsed() < REMEMBERED_FOR)
    }

    /// What refusals of this upstream taught a while ago.
    pub fn lessons(&self, upstream: &str, surface: Surface) -> Vec<Lesson> {
        let lessons = lock(&self.lessons);
        if lessons.is_empty() {
            return Vec::new();
        }
        let known = lessons.get(&(upstream.to_owned(), surface)).into_iter().flatten();
        known.filter(|(_, at)| at.elapsed() < REMEMBERED_FOR).map(|(lesson, _)| lesson.clone()).collect()
    }

    /// What refusals of this upstream taught, of all surfaces, for people; each once.
    pub fn taught(&self, upstream: &str) -> Vec<String> {
        let lessons = lock(&self.lessons);
        let its = lessons.iter().filter(|((name, _), _)| name == upstream);
        let known = its.flat_map(|((_, surface), known)| known.iter().map(move |known| (surface, known)));
        let fresh = known.filter(|(_, (_, at))| at.elapsed() < REMEMBERED_FOR);
        let listed: BTreeSet<String> =
            fresh.map(|(surface, (lesson, _))| format!("{}: {}", surface.as_str(), lesson.in_words())).collect();
        listed.into_iter().collect()
    }

    /// It answered with these. Each is forgotten by itself, so that a vendor that takes the thing by then gets it again.
    pub(super) fn learn_refusal(&self, upstream: &str, surface: Surface, new: &Lesson) {
        let mut lessons = lock(&self.lessons);
        if lessons.len() >= REMEMBERED_MAX {
            lessons.retain(|_, known| known.iter().any(|(_, at)| at.elapsed() < REMEMBERED_FOR));
        }
        let key = (upstream.to_owned(), surface);
        if lessons.len() >= REMEMBERED_MAX && !lessons.contains_key(&key) {
            return;
        }
        let known = lessons.entry(key).or_default();
        known.retain(|(lesson, at)| at.elapsed() < REMEMBERED_FOR && lesson != new);
        if known.len() < LESSONS_MAX {
            tracing::info!(upstream, surface = surface.as_str(), lesson = new.in_words(), "a refusal taught");
            known.push((new.clone(), Instant::now()));
        }
    }

    /// An upstream refused what another one answered.
    pub(super) fn refused(&self, candidate: &Candidate, caller: CallerId, request: &ApiRequest, why: String) {
        let kind = RequestFeatures::of(request, candidate.surface);
        let now = Instant::now();
        let enough = lock(&self.refusals).refused(&candidate.name, caller.for_breaker(), kind, why, now);
        if let Some(known) = enough {
            let refusal = known.in_words();
            tracing::warn!(upstream = candidate.name, refusal, "others answer what an upstream refuses: it goes last");
        }
    }

    /// An upstream answered. `request` runs only if any refuses a kind of requests.
    pub(super) fn took(
        &self,
        candidate: &Candidate,
        caller: CallerId,
        request: impl FnOnce() -> Option<RequestFeatures>,
    ) {
        let mut refusals = lock(&self.refusals);
        if !refusals.is_empty()
            && let Some(kind) = request()
            && refusals.answered(&candidate.name, caller.for_breaker(), &kind)
        {
            tracing::info!(upstream = candidate.name, "an upstream takes requests again that it refused");
        }
    }

    /// Whether this upstream goes last for this request of this caller, because it refused the last ones of its kind.
    pub fn refuses(&self, upstream: &str, caller: CallerId, request: &ApiRequest, surface: Surface) -> bool {
        let mut refusals = lock(&self.refusals);
        let kind = || RequestFeatures::of(request, surface);
        !refusals.is_empty() && refusals.rests(upstream, caller.for_breaker(), kind, Instant::now())
    }

    /// Upstreams that refuse a kind of requests that others answer.
    pub fn refusing(&self) -> Vec<(String, RefusedKind)> {
        let refusals = lock(&self.refusals);
        let resting = refusals.resting(Instant::now());
        resting.into_iter().map(|(upstream, known)| (upstream.to_owned(), known.clone())).collect()
    }

    /// Whether this upstream is asked for a plain answer to any client, by the configuration or by what it did before.
    pub fn answers_plain(&self, candidate: &Candidate, request: &ApiRequest) -> bool {
        let has = |habit| self.has_habit(&candidate.name, candidate.surface, habit);
        match candidate.upstream.upstream_stream {
            UpstreamStream::Always => false,
            UpstreamStream::Never => true,
            UpstreamStream::Auto => {
                has(StreamingHabit::Refuses(request.member_set))
                    || !request.stream && has(StreamingHabit::OmitsUsage) && !has(StreamingHabit::HasNoUsage)
            }
        }
    }

    pub(super) fn learn_habit(&self, upstream: &str, surface: Surface, habit: StreamingHabit) {
        let mut remembered = lock(&self.streaming);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, learnt| learnt.elapsed() < REMEMBERED_FOR);
        }
        // Callers decide how many sets there are.
        let is_set = |habit: &StreamingHabit| matches!(habit, StreamingHabit::Refuses(..));
        if is_set(&habit)
            && remembered.keys().filter(|(name, _, known)| name == upstream && is_set(known)).count() >= SETS_MAX
        {
            return;
        }
        if remembered.len() < REMEMBERED_MAX {
            remembered.insert((upstream.to_owned(), surface, habit), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures_util::FutureExt as _;
    use secrecy::SecretString;

    use super::*;
    use photofinish_wire::{Dialect, Surface};

    #[tokio::test]
    async fn a_token_is_read_again_when_it_is_refused_and_not_a_caller_s_own_key() {
        let text =
            "models.m.upstreams = [\"a/m\"]\n[providers.a]\nbase_url = \"http://a.test\"\ntoken = { file = \"t\" }";
        let config = photofinish_config::parse(text, Path::new("x"), &|_| None).unwrap();
        let live = LiveConfig::new(config, &HashMap::new()).unwrap();
        let candidate = Candidate {
            upstream: live.config.models["m"].upstreams[0].clone(),
            name: "a/m".to_owned(),
            endpoint: live.route("a").unwrap().endpoint(Dialect::OpenAi).unwrap().clone(),
            keys: Vec::new(),
            surface: Surface::Chat,
            named: false,
            trial: false,
            worse: None,
            last: None,
            room: None,
        };
        let Keys::Token(token) = &candidate.upstream.provider.keys else { panic!("it has a token") };
        let health = UpstreamHealth::new(&live);
        for own in [true, false] {
            let key = HashedKey::new(SecretString::from("k"), own);
            health.cool_down(CooldownReason::KeyRefused, &candidate, Some(&key), None);
            assert_eq!(token.refused().now_or_never().is_some(), !own);
        }
    }

    #[test]
    fn callers_cannot_make_up_more_sets_of_members_than_are_remembered() {
        let config = photofinish_config::parse(
            "models.m.upstreams = [\"a/m\"]\n[providers.a]\nbase_url = \"http://a.test\"",
            Path::new("x"),
            &|_| None,
        );
        let health = UpstreamHealth::new(&LiveConfig::new(config.unwrap(), &HashMap::new()).unwrap());
        let refuses = |member: usize| {
            let body = format!("{{\"model\":\"m\",\"messages\":[{{}}],\"x{member}\":1}}");
            StreamingHabit::Refuses(ApiRequest::parse(Surface::Chat, body.into()).unwrap().member_set)
        };
        (0..=SETS_MAX).for_each(|member| health.learn_habit("a/m", Surface::Chat, refuses(member)));
        health.learn_habit("b/m", Surface::Chat, refuses(0));
        health.learn_habit("a/m", Surface::Chat, StreamingHabit::OmitsUsage);
        assert!(
            health.has_habit("a/m", Surface::Chat, refuses(SETS_MAX - 1))
                && !health.has_habit("a/m", Surface::Chat, refuses(SETS_MAX))
        );
        assert!(
            health.has_habit("b/m", Surface::Chat, refuses(0))
                && health.has_habit("a/m", Surface::Chat, StreamingHabit::OmitsUsage)
        );
        assert!(!health.has_habit("a/m", Surface::Completions, StreamingHabit::OmitsUsage), "of another surface");
    }
}
