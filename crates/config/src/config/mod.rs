//! The configuration, whole and valid: what `config.toml` or, without a file, the environment says, with every default filled in.
//!
//! `keys` declares each key once, for the parser and for the JSON Schema (`schema`). `raw` reads the tables, `resolve` makes a
//! [`Config`] of them and reports *all* problems at once, `catalogue` has the common providers.
//!
//! Not for settings that a command takes: see `cli`.

pub mod catalogue;
mod catalogue_choice;
mod catalogue_url;
mod certificate;
mod file_modes;
mod fingerprint;
mod forwarded;
mod hints;
mod host_limits;
mod hosts;
mod keys;
mod kinds;
mod listed;
mod listen;
mod load;
mod lookup;
pub mod names;
mod no_proxy;
mod override_permits;
mod own_address;
mod prices;
mod probes;
mod problem;
mod provider;
mod provider_warnings;
mod race;
pub mod ranges;
mod raw;
mod raw_credential;
mod raw_provider;
mod raw_request;
mod raw_server;
mod raw_user;
mod reader;
mod resolve;
mod resolve_provider;
mod schema;
mod settings;
mod simulation;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod timeouts;
mod token;
mod transport;
pub mod units;

pub use catalogue_choice::{CATALOGUE_MAX, CataloguePlace, read_catalogue_text};
pub use catalogue_url::CatalogueUrl;
pub use certificate::ListenerCertificate;
pub use fingerprint::Fingerprint;
pub use hosts::today;
pub use listed::{ProviderList, ProviderLists, UnlistedUpstreams};
pub use listen::Listen;
pub use load::{ConfigText, LoadError, load, load_listening, load_text, parse};
pub use override_permits::{Override, Permit};
pub use prices::{LongPromptPrice, Price, PriceSource, dearest};
pub use probes::{OF_BENCHMARKS, PING, ProbeSettings, ProbeWorkload, is_built_in_workload};
pub use problem::{ConfigProblem, Problems, nearest};
pub use provider::{Auth, CancelBilling, Keys, Provider, ProviderDialect, UpstreamStream};
pub use race::{
    BreakerSettings, ContentPolicy, Drains, FirstToken, HedgeAfter, Lossy, MAX_ATTEMPTS, Objective, Policy,
    RaceSettings, RescuePolicy, SloSettings, UNLEARNED_HEDGE, UpstreamOrder,
};
pub use raw_user::token_hash;
pub use schema::schema;
pub use settings::{Config, Cors, ModelConfig, Retention, Server, StoreConfig, UpstreamConfig, User};
pub use simulation::{ServerStall, SimulatedFailure, Simulation};
pub use source::{ConfigSource, USUAL_FILE};
pub use timeouts::Timeouts;
pub use token::{CredentialSource, Token};
pub use transport::{Authorities, Proxy, Transport};
