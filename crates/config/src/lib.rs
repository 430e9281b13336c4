//! The configuration, whole and valid: what `config.toml` or, without a file, the environment says, with every default filled in;
//! the catalogue of models; the keys of providers, and how they are kept out of texts.
//!
//! `keys` declares each key once, for the parser and for the JSON Schema (`schema`). `raw` reads the tables, `resolve` makes a
//! [`Config`] of them and reports *all* problems at once, `catalogue` has the common providers, `offerings` what they offer.
//!
//! Not for what happens at run time, nor for settings that a command takes: see `cli`.

pub mod catalogue;
mod catalogue_file;
mod certificate;
mod configured_provider;
mod doubts;
mod environment;
mod first_token;
mod hosts;
mod http_address;
pub mod issued;
pub mod keyring;
mod keys;
mod limits;
mod listed;
mod load;
mod lookup;
mod made;
pub mod names;
pub mod offerings;
mod oidc;
mod otlp;
mod prices;
mod probes;
mod problem;
mod provider;
mod provider_credential;
mod provider_table;
mod race;
mod raw;
mod reader;
mod request;
mod resolve;
mod role;
mod schema;
pub mod scrub;
mod server;
mod settings;
mod simulation;
mod store_address;
#[cfg(test)]
mod tests;
mod text;
mod transport;
pub mod units;
mod user;
mod written;

pub use catalogue_file::{CATALOGUE_MAX, CataloguePlace, read_catalogue_text};
pub use certificate::ListenerCertificate;
pub use first_token::{TOKEN_VARIABLE, first_token_file};
pub use hosts::{today, tomorrow};
pub use http_address::HttpAddress;
pub use limits::{Budget, IssuedKey, Limits, ModelPattern, OwnKeys, Rate, Reserve, Team, Unpriced, nano_usd};
pub use listed::{ProviderList, ProviderLists, UnlistedUpstreams};
pub use load::{ConfigText, LoadError, load, load_listening, load_text, load_without_file, parse};
pub use made::limits_of;
pub use oidc::{Oidc, OidcLogin};
pub use otlp::{Otlp, OtlpMetrics, OtlpProtocol, TraceSampler};
pub use prices::{LongPromptPrice, Price, PriceSource, TokenCounts, dearest};
pub use probes::{FINGERPRINT, OF_BENCHMARKS, PING, ProbeSettings, ProbeWorkload, is_built_in_workload};
pub use problem::{ConfigProblem, Problems, nearest};
pub use provider::{Auth, CancelBilling, CredentialSource, Keys, Provider, ProviderDialect, Token, UpstreamStream};
pub use race::{
    BreakerSettings, ContentPolicy, Drains, FirstToken, Lossy, MAX_ATTEMPTS, Objective, Policy, QualityRule,
    RaceSettings, RescuePolicy, SloSettings, Timeouts, UpstreamOrder,
};
pub use raw::store_at;
pub use role::{Reach, Right, UserRole};
pub use schema::schema;
pub use server::{Cors, LISTEN_VARIABLE, Listen, StoredLimits};
pub use settings::{
    Config, ConfigSource, Fingerprint, ModelConfig, Retention, Server, ShadowUpstream, StoreConfig, USUAL_FILE,
    UpstreamConfig, User,
};
pub use simulation::{HostFact, ServerStall, SimulatedFailure, Simulation};
pub use store_address::{PostgresServer, PostgresUrl, StoreAddress};
pub use transport::{Authorities, Proxy, Transport};
pub use user::{Override, Permit, token_hash};
pub use written::WrittenText;
