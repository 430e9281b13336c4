//! Asks providers for the lists of their models after the gateway listens, and then regularly, and puts what they say in force.
//!
//! A list that cannot be read changes nothing until the one before it is too old. Not for what a list changes: see `config::listed`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use http::StatusCode;
use tokio::sync::Notify;

use super::startup_log::shortened;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::keyring::KeyOrder;
use photofinish_config::{Keys, Provider, ProviderDialect, ProviderList, ProviderLists, UnlistedUpstreams};
use photofinish_gateway::attempt::{ModelListError, ModelListRequest};
use photofinish_gateway::proxy::Gateway;
use photofinish_routing::health::LiveConfig;
use photofinish_transport::upstream::Endpoint;

/// Providers asked at the same time.
const ASKED_MAX: usize = 8;
/// How long a provider's whole list of models may take, from the first byte sent.
const LIST_FOR: Duration = Duration::from_secs(5);
/// How long a list is used before it is asked for again. A model is used on the day that it comes out.
const KEPT_FOR: Duration = Duration::from_secs(3_600);
/// The same after a failure at most: it begins with [`AGAIN_FIRST`] and doubles.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// A provider whose first list failed may be well again in seconds, as may the network of a machine that has just started.
const AGAIN_FIRST: Duration = Duration::from_secs(2);
/// Times that requests for unknown models may make all providers be asked again within [`UNKNOWN_FOR`].
const UNKNOWN_MAX: usize = 3;
/// The time in which [`UNKNOWN_MAX`] counts.
const UNKNOWN_FOR: Duration = Duration::from_secs(180);
/// Names that a warning has; of more it has the number.
const NAMED: usize = 3;
/// The same for a local server, after a failure too. Its owner pulls a model and uses it at once, and to ask costs little.
const LOCAL_KEPT_FOR: Duration = Duration::from_secs(300);
/// The age from which a list no longer counts, if all attempts to read a newer one failed: longer than outages last.
const VALID_FOR: Duration = Duration::from_secs(48 * 3_600);

/// What providers list. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub(super) struct Discovery {
    gateway: Arc<Gateway>,
    known: Arc<Mutex<BTreeMap<String, KnownList>>>,
    /// Another configuration is in force.
    reloaded: Arc<Notify>,
}

/// The latest answer of one provider.
struct KnownList {
    source: ListSource,
    /// None: it has not given a list yet, or only one that is too old.
    list: Option<DatedList>,
    /// When to ask again.
    due: Instant,
    /// In a row.
    failures: u32,
}

struct DatedList {
    list: Arc<ProviderList>,
    read_at: Instant,
}

/// Where a list comes from. Another address or key may have another list.
#[derive(Clone, PartialEq)]
struct ListSource {
    endpoint: Endpoint,
    path: &'static str,
    /// The first key. None: no key is needed, or it changes by itself.
    key: Option<String>,
}

impl ListSource {
    /// None: the provider is not asked.
    fn of(live: &LiveConfig, provider: &Provider) -> Option<(ListSource, ProviderDialect)> {
        let (spoken, path) = provider.model_list()?;
        let may_be_asked = match provider.keys {
            Keys::Keys(_) | Keys::Token(_) => true,
            Keys::NotConfigured => provider.serves_its_list(),
            Keys::Off(_) => false,
        };
        if !may_be_asked || provider.is_at(&live.config.server.listen) {
            return None;
        }
        let route = live.route(&provider.name)?;
        let key = match &*route.shared() {
            KeyOrder::Keys(keys) if matches!(provider.keys, Keys::Keys(_)) => {
                keys.first().map(|key| key.id().to_owned())
            }
            _ => None,
        };
        Some((ListSource { endpoint: route.endpoint(spoken.dialect)?.clone(), path, key }, spoken.clone()))
    }
}

impl Discovery {
    pub fn new(gateway: Arc<Gateway>) -> Discovery {
        Discovery { gateway, known: Arc::default(), reloaded: Arc::default() }
    }

    /// A new configuration with the lists that are known of its providers.
    pub fn applied(&self, live: &LiveConfig) -> LiveConfig {
        live.with_lists(&self.lists(live))
    }

    /// A new configuration is in force: asks the providers that it changed.
    pub fn reloaded(&self) {
        self.reloaded.notify_one();
    }

    /// Runs until the gateway drains.
    pub async fn run(self) {
        let mut draining = std::pin::pin!(self.gateway.shutdown().draining());
        let mut asked_for_unknown = VecDeque::new();
        loop {
            let round = async {
                self.ask_all_due().await;
                tokio::select! {
                    () = self.reloaded.notified() => self.follow_reload(),
                    () = self.gateway.unknown_model().notified() => self.look_for_unknown(&mut asked_for_unknown),
                    () = tokio::time::sleep_until(self.next_due()) => {}
                }
            };
            tokio::select! {
                () = &mut draining => return,
                () = round => {}
            }
        }
    }

    /// Asks again: a reload is also how a user says that a server runs now, or that a provider has another model. A list stays in force
    /// until there is another.
    fn follow_reload(&self) {
        self.known().retain(|_, known| {
            known.due = Instant::now();
            known.list.is_some()
        });
        // A list may have come while the configuration was being read.
        self.apply();
    }

    /// A model that came out within the hour is on a list that is asked for again, not often.
    fn look_for_unknown(&self, asked: &mut VecDeque<Instant>) {
        let now = Instant::now();
        asked.retain(|at: &Instant| at.elapsed() < UNKNOWN_FOR);
        if asked.len() < UNKNOWN_MAX {
            asked.push_back(now);
            self.known().values_mut().for_each(|known| known.due = now);
        }
    }

    /// Puts the lists in force that are known of the providers of the present configuration.
    fn apply(&self) {
        self.gateway.take_lists(|live| self.lists(live));
    }

    pub async fn ask_all_due(&self) {
        let live = self.gateway.live();
        let mut asked = Vec::new();
        self.known().retain(|name, _| live.config.providers.contains_key(name));
        for provider in live.config.providers.values() {
            match ListSource::of(&live, provider) {
                None => drop(self.known().remove(&provider.name)),
                Some((source, _)) if !self.is_due(&provider.name, &source) => {}
                Some((source, spoken)) => asked.push(self.ask(&live, provider, source, spoken)),
            }
        }
        futures_util::stream::iter(asked).buffer_unordered(ASKED_MAX).collect::<()>().await;
    }

    async fn ask(&self, live: &LiveConfig, provider: &Provider, source: ListSource, spoken: ProviderDialect) {
        if let Keys::Token(token) = &provider.keys {
            // A failure is in the log already.
            let _ = tokio::time::timeout(LIST_FOR, token.tried()).await;
        }
        let keys = live.route(&provider.name).and_then(|route| route.shared().into_owned().into_keys());
        let Some(keys) = keys else { return self.failed(provider, source, &ModelListError::NoKey) };
        let request = ModelListRequest {
            spoken: &spoken,
            endpoint: source.endpoint.clone(),
            key: keys.into_iter().next(),
            path: source.path,
            deadline: LIST_FOR,
        };
        match request.send(self.gateway.client()).await {
            Ok(ids) => self.take(provider, source, ids),
            Err(error) => self.failed(provider, source, &error),
        }
    }

    fn take(&self, provider: &Provider, source: ListSource, ids: Vec<String>) {
        let served = || {
            let live = self.gateway.live();
            live.config.served_by_list(live.as_read(), provider)
        };
        let served_before = served();
        let list = Arc::new(ProviderList::new(ids, &now()));
        let dated = DatedList { list: list.clone(), read_at: Instant::now() };
        let known = KnownList { source, list: Some(dated), due: due(provider, KEPT_FOR), failures: 0 };
        let before = self.known().insert(provider.name.clone(), known).and_then(|known| known.list);
        self.apply();
        tracing::debug!(provider = provider.name, models = list.ids().len(), "the list of models was read");
        let served = served();
        if served != served_before && !served.is_empty() {
            let ids: Vec<&str> = served.iter().map(String::as_str).collect();
            tracing::info!("{} serves by name: {}", provider.name, shortened(&ids));
        }
        let live = self.gateway.live();
        let unlisted = |list: &ProviderList| live.as_read().unlisted(provider, list);
        let lacking = unlisted(&list);
        if before.is_none_or(|before| unlisted(&before.list) != lacking) {
            report(provider, &lacking);
        }
    }

    fn failed(&self, provider: &Provider, source: ListSource, error: &ModelListError) {
        let name = &provider.name;
        let before = self.known().remove(name).filter(|known| known.source == source);
        let failures = before.as_ref().map_or(0, |known| known.failures);
        // Once in a row: the provider is asked again and again.
        match error {
            ModelListError::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) if failures == 0 => {
                tracing::warn!("{name} refuses its key when asked for its list of models: {error}");
            }
            // A server of one's own may be off for days.
            _ if failures == 0 && !provider.serves_its_list() => {
                tracing::warn!("{name} gave no list of its models, and is asked again: {error}");
            }
            _ => tracing::debug!("{name} gave no list of models, which changes nothing: {error}"),
        }
        let list = before.and_then(|known| known.list);
        let is_too_old = list.as_ref().is_some_and(|dated| dated.read_at.elapsed() >= VALID_FOR);
        let list = list.filter(|_| !is_too_old);
        let pause = AGAIN_FIRST.saturating_mul(1 << failures.min(16)).min(AGAIN_AFTER);
        let due = Instant::now() + if provider.serves_its_list() { pause.min(LOCAL_KEPT_FOR) } else { pause };
        self.known().insert(name.clone(), KnownList { source, list, due, failures: failures.saturating_add(1) });
        if is_too_old {
            tracing::warn!("the list of {name}'s models is two days old and counts no longer: {error}");
            self.apply();
        }
    }

    /// The lists that are of the providers of this configuration.
    pub fn lists(&self, live: &LiveConfig) -> ProviderLists {
        let known = self.known();
        let of = |provider: &Arc<Provider>| {
            let (source, _) = ListSource::of(live, provider)?;
            let known = known.get(&provider.name).filter(|known| known.source == source)?;
            Some((provider.name.clone(), known.list.as_ref()?.list.clone()))
        };
        live.config.providers.values().filter_map(of).collect()
    }

    fn is_due(&self, provider: &str, source: &ListSource) -> bool {
        let is_fresh = |known: &KnownList| known.source == *source && known.due > Instant::now();
        !self.known().get(provider).is_some_and(is_fresh)
    }

    fn next_due(&self) -> Instant {
        self.known().values().map(|known| known.due).min().unwrap_or_else(|| Instant::now() + KEPT_FOR)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, KnownList>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to ask this provider again; `after` is for one that is not local.
fn due(provider: &Provider, after: Duration) -> Instant {
    Instant::now() + if provider.serves_its_list() { LOCAL_KEPT_FOR } else { after }
}

/// Logs the upstreams that a list lacks: those that it makes the last choice, and those that stay.
fn report(provider: &Provider, unlisted: &UnlistedUpstreams) {
    let name = &provider.name;
    let upstreams = |unlisted: &[(String, String)]| {
        let names: Vec<&str> = unlisted.iter().map(|(upstream, _)| upstream.as_str()).collect();
        shortened(&names)
    };
    if unlisted.found.len() > NAMED && !provider.serves_its_list() {
        let count = unlisted.found.len();
        tracing::info!(
            "{name} does not list {count} models that the catalogue has of it: they are asked only if no other is left; \
             `photofinish models --provider {name}` shows what it has"
        );
    } else if !unlisted.found.is_empty() && !provider.serves_its_list() {
        tracing::warn!("{name} does not list {}: asked only if no other is left", upstreams(&unlisted.found));
    }
    if !unlisted.named.is_empty() {
        tracing::warn!(
            "{name} does not list {}: asked all the same, because the configuration names it",
            upstreams(&unlisted.named)
        );
    }
}

/// `2026-11-22 06:30 UTC`
fn now() -> String {
    let now = jiff::Timestamp::from_microsecond(wall_micros());
    now.map(|now| now.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}
