//! The configuration as the rest of the program sees it, and where it was read from.
//!
//! Not for what the file says: see `raw`.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use etcetera::BaseStrategy as _;
use ipnet::IpNet;
use secrecy::SecretString;

use super::reader::WatchedFiles;
use super::role::UserRole;
use super::store_address::StoreAddress;
use super::{
    CancelBilling, CataloguePlace, Cors, HttpAddress, IssuedKey, Limits, Listen, ListenerCertificate, Oidc, Otlp,
    OtlpMetrics, Permit, Price, PriceSource, ProbeSettings, ProbeWorkload, Provider, ProviderDialect, RaceSettings,
    StoredLimits, Team, Timeouts, UpstreamStream, WrittenText,
};
use crate::offerings::{ModelCatalogue, Offering};
use photofinish_base::telemetry::LogFormat;
use photofinish_base::{files, machine};
use photofinish_wire::quirks::{Quirks, RequestChanges};
use photofinish_wire::{Dialect, Surface};

/// One configuration. Immutable; a reload makes another one, and so does what providers list.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read from; a file with its absolute path.
    pub source: ConfigSource,
    pub server: Server,
    /// The address of `serve --listen`: a reload keeps it.
    pub given_listen: Option<Listen>,
    pub store: StoreConfig,
    /// `[race]`: the defaults of every model, and the settings of a request that names its upstreams itself.
    pub race: RaceSettings,
    /// By name: the providers that the file defines, and those of the catalogue that it uses or whose usual variable has a key.
    pub providers: BTreeMap<String, Arc<Provider>>,
    /// By name, without aliases.
    pub models: BTreeMap<String, Arc<ModelConfig>>,
    /// No model is configured: `models` are those of the catalogue that a provider hosts that is on.
    pub serves_catalogue: bool,
    /// What is known of the models of all providers.
    pub catalogue: Arc<ModelCatalogue>,
    /// Where `catalogue` comes from.
    pub catalogue_place: CataloguePlace,
    /// `[catalogue] refresh`: where the gateway asks for a newer catalogue. None: it does not.
    pub catalogue_refresh: Option<HttpAddress>,
    /// `[catalogue] public_key`: who signs newer catalogues, or "none".
    pub catalogue_public_key: Option<String>,
    /// `[incidents] webhook`: where they are posted. Its path may be a secret.
    pub webhook: Option<HttpAddress>,
    /// `[otlp]`, or the variables of OpenTelemetry: where traces go. None: nothing is traced.
    pub otlp: Option<Otlp>,
    /// `[oidc]`: the issuer whose users may come. None: there is none.
    pub oidc: Option<Arc<Oidc>>,
    /// Where the figures of `/metrics` are sent. None: nowhere.
    pub otlp_metrics: Option<OtlpMetrics>,
    /// From alias to the name of its model.
    pub aliases: BTreeMap<String, String>,
    pub users: Vec<Arc<User>>,
    /// `[limits]`: of everybody together.
    pub limits: Arc<Limits>,
    /// `[teams]`, by name.
    pub teams: BTreeMap<String, Arc<Team>>,
    /// `[probes]`; without it none are sent.
    pub probes: Option<ProbeSettings>,
    /// The workloads of probes by name: `[workloads]` and the built-in ones.
    pub workloads: BTreeMap<String, ProbeWorkload>,
    /// Lines for start-up and `check` about what is valid but questionable.
    pub warnings: Vec<String>,
    /// The text that it was read from. None: there is no file, or it is a pipe, which cannot be read again.
    pub text: Option<Fingerprint>,
    /// The same, whole. Empty: there is no file.
    pub written: WrittenText,
    /// The other files it was read from, with their versions: it is reloaded when one of them changes.
    pub watched: WatchedFiles,
}

/// `[server]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// At least one, each once.
    pub listen: Vec<Listen>,
    /// If set, every TCP listener speaks TLS. Socket files never do.
    pub tls: Option<ListenerCertificate>,
    /// Proxies in front of the gateway whose `x-forwarded-for` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Bytes; a larger request is answered 413.
    pub body_max: usize,
    /// Bytes that all bodies and buffers may take together; a request beyond that is answered 503.
    pub memory: usize,
    /// Requests served at once; a further one is answered 503.
    pub max_in_flight: usize,
    /// Bytes of one event of an answer; an attempt with a larger one fails.
    pub event_max: usize,
    /// How long a shutdown waits for running streams.
    pub drain: Duration,
    /// How long before that it serves on although it is not ready.
    pub drain_delay: Duration,
    /// Further names by which a gateway without users may be called; `localhost` and IP addresses always work. Lower case.
    pub hosts: Vec<String>,
    /// The web pages that may call.
    pub cors: Cors,
    /// The provider that has files, batches and what belongs to them. None: those paths are not served.
    pub files: Option<String>,
    /// What is kept of answers of the Responses API.
    pub stored: StoredLimits,
    /// The Responses API is served over a WebSocket too.
    pub websocket: bool,
    /// How a line of the log is written.
    pub log: LogFormat,
}

/// `[store]`
#[derive(Clone, Debug, PartialEq)]
pub struct StoreConfig {
    pub address: StoreAddress,
    pub retention: Retention,
    /// Of a budget: what gateways on one server may spend while it is away.
    pub outage_allowance: f64,
}

/// How long rows are kept; hourly and daily figures stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    Forever,
    /// At least a day.
    For(Duration),
}

/// `[models.NAME]`
#[derive(Clone, Debug)]
pub struct ModelConfig {
    pub name: String,
    /// Upstreams of providers that are off are included. Empty only if the table lists none and no host of the catalogue is on.
    pub upstreams: Vec<UpstreamConfig>,
    /// Limits of the hosts that were found for it. None: its table lists the upstreams.
    pub(super) hosts: Option<HostLimits>,
    pub race: RaceSettings,
    /// A newcomer that gets a share of the requests in addition to the race, and answers no client.
    pub shadow: Option<Arc<ShadowUpstream>>,
}

/// See [`ModelConfig::shadow`].
#[derive(Clone, Debug)]
pub struct ShadowUpstream {
    pub upstream: UpstreamConfig,
    /// Of the requests.
    pub share: f64,
}

/// One provider's name for one model.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    pub provider: Arc<Provider>,
    /// What is sent as `model`.
    pub model: String,
    /// The share for the policy `weighted`; 1 by default, never negative.
    pub weight: f64,
    /// From 1: it is asked when no upstream of a lower tier is usable.
    pub tier: u32,
    /// Attempts there at once; while it is full, others are asked first.
    pub in_flight_max: Option<u32>,
    pub price: Option<Price>,
    /// Where `price` comes from, if there is one.
    pub price_source: Option<PriceSource>,
    /// Tokens of prompt and answer that it takes, by the configuration or the catalogue.
    pub context: Option<u64>,
    /// What the catalogue knows of it.
    pub offering: Option<Arc<Offering>>,
    /// Whether it is asked to stream.
    pub upstream_stream: UpstreamStream,
    /// What it demands of requests, by dialect.
    pub quirks: Vec<(Dialect, Quirks)>,
    /// What the operator changes in them.
    pub changes: Arc<RequestChanges>,
    /// When its provider did not list it. Only an upstream that the catalogue found has this.
    pub unlisted: Option<Arc<str>>,
    /// The race's timeouts, with what the upstream sets of its own. The totals are always the race's.
    pub timeouts: Timeouts,
}

impl UpstreamConfig {
    /// With the price and the limits of the catalogue, and no weight of its own.
    pub fn of_catalogue(
        provider: Arc<Provider>,
        model: String,
        catalogue: &ModelCatalogue,
        timeouts: Timeouts,
    ) -> UpstreamConfig {
        let offering =
            catalogue.offering_or_undated(&provider.vendor, &model).filter(|_| provider.simulate.is_none()).cloned();
        let known = offering.as_deref();
        let price = known.and_then(Price::of_offering);
        let quirks = |spoken: &ProviderDialect| {
            (spoken.dialect, provider.requests.quirks(&model, spoken.dialect, catalogue.rules()))
        };
        let quirks = provider.dialects.iter().map(quirks).collect();
        let changes = provider.requests.changes(&model);
        let provider_streams = provider.upstream_stream;
        let date = |offering: &Offering| offering.date.as_deref().unwrap_or(catalogue.date()).into();
        UpstreamConfig {
            price_source: known.filter(|_| price.is_some()).map(|known| PriceSource::Catalogue(date(known))),
            context: known.and_then(|known| known.context),
            provider,
            model,
            weight: 1.0,
            tier: 1,
            in_flight_max: None,
            price,
            offering,
            upstream_stream: provider_streams,
            quirks,
            changes: Arc::new(changes),
            unlisted: None,
            timeouts,
        }
    }

    /// The dialect for a surface: the only one that the model is served in, else one of the provider's. None: the provider cannot
    /// serve it.
    pub fn spoken_for(&self, surface: Surface) -> Option<&ProviderDialect> {
        let only = self.offering.as_deref().and_then(|offering| offering.dialect.as_deref());
        let only = only.and_then(|only| self.provider.dialects.iter().find(|spoken| spoken.dialect.as_str() == only));
        match only {
            Some(only) if only.dialect == surface.dialect() || surface.translates_to(only.dialect) => Some(only),
            _ => self.provider.spoken_for(surface),
        }
    }

    /// What it demands of requests in this dialect.
    pub fn quirks(&self, dialect: Dialect) -> Quirks {
        self.quirks.iter().find(|(spoken, _)| *spoken == dialect).map(|(_, quirks)| *quirks).unwrap_or_default()
    }

    /// What is assumed that it costs where it has no price: see [`Price::dearest_like`].
    pub fn assumed_price(&self, catalogue: &ModelCatalogue) -> Option<Price> {
        let is_real = self.price.is_none() && self.provider.simulate.is_none();
        is_real.then(|| Price::dearest_like(catalogue, &self.provider.vendor, &self.model)).flatten()
    }

    /// `provider/model`
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider.name, self.model)
    }

    /// Why it is the last choice, as a sentence. None: it is not.
    pub fn why_unlisted(&self) -> Option<String> {
        let at = self.unlisted.as_deref()?;
        Some(format!("{} did not list it when asked at {at}", self.provider.name))
    }

    /// The price, and whether the provider bills a cancelled attempt in full.
    pub fn billing(&self) -> (Option<Price>, bool) {
        (self.price, self.provider.cancel_billing == CancelBilling::BillsFull)
    }
}

/// `[users.NAME]`
#[derive(Clone)]
pub struct User {
    pub name: String,
    /// SHA-256 of the token; the token itself is not kept.
    pub token_sha256: [u8; 32],
    pub role: UserRole,
    /// The `x-photofinish-*` headers this user may send.
    pub overrides: Permit,
    /// The user's own keys by provider, used instead of the shared ones.
    pub keys: BTreeMap<String, SecretString>,
    /// One of [`Config::teams`].
    pub team: Option<String>,
    pub limits: Arc<Limits>,
    /// The key that the request came with. None: the token of the file.
    pub key: Option<Arc<IssuedKey>>,
}

impl fmt::Debug for User {
    /// Omits the hash: a weak token could be guessed from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("overrides", &self.overrides)
            .field("keys", &self.keys.keys())
            .field("team", &self.team)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The file that is read if none is named.
pub const USUAL_FILE: &str = "config.toml";
const STORE_FILE: &str = "photofinish.db";

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    File(PathBuf),
    /// The built-in configuration: every default, the keys in the environment, and this text, which is empty unless the start found
    /// servers of this machine or proposed simulated providers. A reload reads it again.
    BuiltIn(String),
}

impl ConfigSource {
    /// The file that the user names, else `config.toml` in the working directory, else the built-in configuration.
    pub fn find(named: Option<&Path>) -> ConfigSource {
        match named {
            Some(named) => ConfigSource::File(named.to_owned()),
            None if files::is_there(Path::new(USUAL_FILE)) => ConfigSource::File(PathBuf::from(USUAL_FILE)),
            None => ConfigSource::BuiltIn(String::new()),
        }
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            ConfigSource::File(path) => Some(path),
            ConfigSource::BuiltIn(_) => None,
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigSource::File(path) => path.display().fmt(f),
            ConfigSource::BuiltIn(_) => f.write_str("built in (there is no config.toml here)"),
        }
    }
}

/// Where the built-in configuration keeps the history: the user's state directory, or the working directory of a user without
/// a home. Where no file can be made there, as in a container without a writable volume, it is a directory in memory.
pub(super) fn usual_store() -> PathBuf {
    let native = etcetera::base_strategy::choose_native_strategy();
    let directory = native.map(|native| native.state_dir().unwrap_or_else(|| native.data_dir()));
    let directory = directory.map_or_else(|_| PathBuf::new(), |directory| directory.join("photofinish"));
    let own_in_memory = || in_memory().filter(|directory| files::is_own(directory));
    let directory = if files::is_writable(&directory) { directory } else { own_in_memory().unwrap_or(directory) };
    directory.join(STORE_FILE)
}

/// The directory of this user in the file system that Linux keeps in memory.
fn in_memory() -> Option<PathBuf> {
    cfg!(target_os = "linux").then(|| PathBuf::from(format!("/dev/shm/photofinish-{}", machine::user())))
}

impl StoreConfig {
    /// It ends with the machine or the container.
    pub fn is_in_memory(&self) -> bool {
        in_memory().is_some_and(|directory| self.address.file().is_some_and(|file| file.starts_with(directory)))
    }
}

/// Identifies a text within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    hash: u64,
    /// The text says nothing: it has no line but comments.
    pub is_blank: bool,
}

/// Drawn at the start: otherwise a reader of the log could try out which token makes it.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    pub(super) fn of(text: &str) -> Fingerprint {
        let says_nothing = |line: &str| line.is_empty() || line.starts_with('#');
        Fingerprint { hash: KEY.hash_one(text), is_blank: text.lines().map(str::trim).all(says_nothing) }
    }
}

impl fmt::Display for Fingerprint {
    /// Twelve hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.hash >> 16)
    }
}

/// What a model's table says about its hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostLimits {
    /// Providers that do not race it.
    pub exclude: Vec<String>,
    /// Times the price of the cheapest host.
    pub price_within: Option<f64>,
    pub precision: Precisions,
}

/// The precision of the weights that a host may serve a model with. The first token favours hosts that quantise most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Precisions {
    /// Not known to be below the precision in which the weights were released.
    #[default]
    Native,
    Any,
    /// Known to be one of these, such as `fp8`.
    Listed(Vec<String>),
}

impl Precisions {
    pub fn take(&self, offering: &Offering, released_bits: Option<u8>) -> bool {
        match self {
            Precisions::Any => true,
            Precisions::Native => offering.bits().zip(released_bits).is_none_or(|(bits, released)| bits >= released),
            Precisions::Listed(listed) => {
                offering.precision.as_ref().is_some_and(|precision| listed.contains(precision))
            }
        }
    }
}

/// Relative to the working directory, if there is one.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_and_a_text_without_content_is_blank() {
        let (one, other) = (Fingerprint::of("[users.ann]\n"), Fingerprint::of("[users.bob]\n"));
        assert!(one == Fingerprint::of("[users.ann]\n") && one != other);
        assert!(one.to_string() != other.to_string() && one.to_string().len() == 12);
        for (text, is_blank) in [("", true), ("\n \t\n# a comment\n  # another", true), ("a = 1 # one", false)] {
            assert_eq!(Fingerprint::of(text).is_blank, is_blank, "{text:?}");
        }
    }
}
