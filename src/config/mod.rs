//! The configuration, whole and valid: what `config.toml` says, with every default filled in.
//!
//! `raw` reads what was typed, `resolve` makes a [`Config`] of it and reports *all* problems at once, `catalogue` knows
//! the common providers. Nothing here is an `Option` that has to be `Some`.

pub mod catalogue;
mod certificate;
mod file_modes;
mod listen;
mod load;
mod lookup;
mod override_permits;
mod own_address;
mod prices;
mod problem;
mod provider;
mod race;
mod raw;
mod raw_credential;
mod raw_provider;
mod raw_race;
mod raw_server;
mod raw_user;
mod reader;
mod resolve;
mod resolve_provider;
mod resolve_race;
#[cfg(test)]
mod tests;
mod text;
mod token;
mod transport;
pub mod units;

pub use certificate::ListenerCertificate;
pub use listen::Listen;
pub use load::{LoadError, load, parse};
pub use override_permits::{Override, Permit};
pub use prices::{Price, dearest};
pub use problem::{ConfigProblem, Problems};
pub use provider::{Auth, CancelBilling, Keys, Provider, ProviderDialect};
pub use race::{
    BreakerSettings, ContentPolicy, Drains, FirstToken, HedgeAfter, Lossy, MAX_ATTEMPTS, Objective, Policy,
    RaceSettings, RescuePolicy, SloSettings, Timeouts, UNLEARNED_HEDGE,
};
pub use token::{CredentialSource, Token};
pub use transport::{Authorities, Proxy, Transport};

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;

/// Everything of one config file. Immutable; a reload makes another one.
#[derive(Debug)]
pub struct Config {
    /// The file that it was read from, absolute.
    pub path: PathBuf,
    pub server: Server,
    pub store: StoreConfig,
    /// `[race]`: the defaults of every model, and the settings of a race that names its upstreams itself.
    pub race: RaceSettings,
    /// By name: those of the catalogue that the file mentions, and those that it defines.
    pub providers: BTreeMap<String, Arc<Provider>>,
    /// By name, aliases not included.
    pub models: BTreeMap<String, Arc<ModelConfig>>,
    /// From alias to the name of its model.
    pub aliases: BTreeMap<String, String>,
    pub users: Vec<Arc<User>>,
    /// What is not wrong but worth a line at start-up and in `check`.
    pub warnings: Vec<String>,
}

impl Config {
    /// Other files that are read with the config file: a change of one is a change of the configuration.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tls = self.server.tls.iter().flat_map(|tls| [tls.cert.as_path(), tls.key.as_path()]);
        let transports =
            self.providers.values().flat_map(|provider| &provider.dialects).map(|spoken| &spoken.transport);
        tls.chain(transports.filter_map(|transport| Some(transport.authorities.as_ref()?.path.as_path())))
    }
}

/// `[server]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// At least one, none twice.
    pub listen: Vec<Listen>,
    /// With it, every TCP listener speaks TLS. Socket files never do.
    pub tls: Option<ListenerCertificate>,
    /// Proxies in front of the gateway, whose `x-forwarded-for` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Bytes; a larger request is answered 413.
    pub body_max: usize,
    /// Bytes that all bodies and buffers may take together; a request that has no room is answered 503.
    pub memory: usize,
    /// Requests served at once; a further one is answered 503.
    pub max_in_flight: usize,
    /// Bytes of one event of an answer; an attempt with a larger one fails.
    pub event_max: usize,
    /// How long a shutdown waits for running streams.
    pub drain: Duration,
    /// Names by which a gateway without users may be called, beside `localhost` and IP addresses. Lower case.
    pub hosts: Vec<String>,
    /// From which web pages browsers may call.
    pub cors: Cors,
}

/// `cors = [ … ]`: the origins of web pages whose scripts may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// None, which is how it is without the key.
    #[default]
    None,
    /// Any, by `["*"]`.
    Any,
    /// These, as browsers write them: lower case, without a slash at the end.
    Only(Vec<String>),
}

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The SQLite file, absolute.
    pub path: PathBuf,
    pub retention: Retention,
}

/// How long rows are kept; what was rolled up stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    Forever,
    /// At least a day.
    For(Duration),
}

/// `simulate = { … }`: a simulated provider over real HTTP on loopback. Distributions are log-normal.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Median time to first token.
    pub ttft: Duration,
    /// Standard deviation of the logarithm of the TTFT and of each gap; 0 is exact.
    pub jitter: f64,
    /// Share of requests whose TTFT is multiplied by a Pareto draw, 0 to 1: by 2 at least, and the median of it is 3.6.
    pub tail: f64,
    /// Median decode speed.
    pub tokens_per_second: f64,
    /// Tokens in an answer, unless the request's `max_tokens` is smaller.
    pub tokens: u32,
    /// Share of requests that fail, 0 to 1.
    pub failures: f64,
    /// In which way they fail.
    pub failure: SimulatedFailure,
    /// Seeds the draws; the same seed gives the same sequence, and a request with a `seed` of its own the same answer whatever
    /// came before it. None: from the clock.
    pub seed: Option<u64>,
}

impl Simulation {
    pub const TTFT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);
    pub const JITTER: RangeInclusive<f64> = 0.0..=5.0;
    pub const TAIL: RangeInclusive<f64> = 0.0..=1.0;
    pub const TOKENS_PER_SECOND: RangeInclusive<f64> = 0.01..=1e6;
    pub const TOKENS: RangeInclusive<u32> = 1..=100_000;
    pub const FAILURES: RangeInclusive<f64> = 0.0..=1.0;
}

impl Default for Simulation {
    fn default() -> Simulation {
        Simulation {
            ttft: Duration::from_millis(200),
            jitter: 0.2,
            tail: 0.0,
            tokens_per_second: 50.0,
            tokens: 40,
            failures: 0.0,
            failure: SimulatedFailure::ServerError,
            seed: None,
        }
    }
}

/// What a simulated provider can do wrong. A request for the model `fail-NAME` gets that failure always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedFailure {
    /// 429 with Retry-After.
    RateLimit,
    /// 401.
    Unauthorized,
    /// 400.
    BadRequest,
    /// 500.
    ServerError,
    /// Takes the request and never answers.
    Hang,
    /// Sends headers and a role chunk, then nothing.
    Stall,
    /// Closes the connection without an answer.
    Reset,
    /// Breaks off in the middle of the stream.
    Cut,
    /// An error frame in a 200, before any token.
    ErrorFrame,
    /// A stream that finishes without a token.
    Empty,
}

impl SimulatedFailure {
    pub const ALL: [SimulatedFailure; 10] = [
        SimulatedFailure::RateLimit,
        SimulatedFailure::Unauthorized,
        SimulatedFailure::BadRequest,
        SimulatedFailure::ServerError,
        SimulatedFailure::Hang,
        SimulatedFailure::Stall,
        SimulatedFailure::Reset,
        SimulatedFailure::Cut,
        SimulatedFailure::ErrorFrame,
        SimulatedFailure::Empty,
    ];

    /// The name in the config, on the command line and in `fail-NAME`.
    pub fn as_str(self) -> &'static str {
        match self {
            SimulatedFailure::RateLimit => "429",
            SimulatedFailure::Unauthorized => "401",
            SimulatedFailure::BadRequest => "400",
            SimulatedFailure::ServerError => "500",
            SimulatedFailure::Hang => "hang",
            SimulatedFailure::Stall => "stall",
            SimulatedFailure::Reset => "reset",
            SimulatedFailure::Cut => "cut",
            SimulatedFailure::ErrorFrame => "error-frame",
            SimulatedFailure::Empty => "empty",
        }
    }

    pub fn from_name(name: &str) -> Option<SimulatedFailure> {
        SimulatedFailure::ALL.into_iter().find(|failure| failure.as_str() == name)
    }
}

/// `[models.NAME]`
#[derive(Debug)]
pub struct ModelConfig {
    pub name: String,
    /// At least one; those of providers that are off are in here too.
    pub upstreams: Vec<UpstreamConfig>,
    pub race: RaceSettings,
}

/// One provider's name for one model.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    pub provider: Arc<Provider>,
    /// What is sent as `model`.
    pub model: String,
    /// For `weighted`: its share; 1 by default, never negative.
    pub weight: f64,
    pub price: Option<Price>,
    /// Tokens of prompt and answer that it takes, where that is said.
    pub context: Option<u64>,
    /// The race's, with what the upstream sets of its own. `total` is always the race's.
    pub timeouts: Timeouts,
}

impl UpstreamConfig {
    /// `provider/model`
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider.name, self.model)
    }

    /// Its price, and whether it bills a cancelled attempt to its end.
    pub fn billing(&self) -> (Option<Price>, bool) {
        (self.price, self.provider.cancel_billing == CancelBilling::BillsFull)
    }
}

/// `[users.NAME]`
pub struct User {
    pub name: String,
    /// SHA-256 of the token; the token itself is not kept.
    pub token_sha256: [u8; 32],
    /// May read what concerns everybody: the metrics.
    pub admin: bool,
    /// Which headers that override the plan this user may send.
    pub overrides: Permit,
    /// Keys of this user's own, by provider, used instead of the shared ones.
    pub keys: BTreeMap<String, SecretString>,
}

impl fmt::Debug for User {
    /// Without the hash: it is as good as the token to whoever can guess.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("admin", &self.admin)
            .field("overrides", &self.overrides)
            .field("keys", &self.keys.keys())
            .finish_non_exhaustive()
    }
}
