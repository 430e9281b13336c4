//! The common providers, as `catalogue.toml` has them: addresses, dialects, how a key is sent, and their peculiarities, each
//! with its source.
//!
//! Not for configured providers: see `provider`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::de::{Deserialize, Deserializer, Error};
use toml::{Table, Value};

use super::names::NamedChoice;
use super::request::QuirkValue as _;
use super::{Auth, CancelBilling};
use photofinish_wire::each_quirk;
// With the types of all quirks.
use photofinish_wire::quirks::*;
use photofinish_wire::{Dialect, Prefix};

/// The facts about one provider.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// The name in `[providers.NAME]`.
    pub name: String,
    /// Its dialects, never empty; requests that must be translated go to the first.
    pub serves: Vec<ServedDialect>,
    /// The usual variable of the key. None: no key is needed.
    pub key_variable: Option<String>,
    /// Other variables that people keep this key in. The first that is set counts, the usual one before them.
    #[serde(default)]
    pub other_variables: Vec<String>,
    /// How its keys begin, where no other provider's begin so.
    pub key_prefixes: SourcedFact<Vec<String>>,
    /// A key in its variable does not switch it on: the file has to name it. The key is often there for something else.
    #[serde(default)]
    pub only_if_named: bool,
    /// It sends requests on to other providers, which host the models.
    #[serde(default)]
    pub router: bool,
    /// What a hang-up does to generation and billing.
    #[serde(deserialize_with = "sourced_choice")]
    pub cancel_billing: SourcedFact<CancelBilling>,
    /// What it demands of requests beyond its dialect. In the file these facts are among the others.
    pub quirks: SourcedQuirks,
    /// Members that it refuses.
    pub refuses: SourcedFact<Vec<String>>,
    /// The provider ends streams with `[DONE]` and without a finish reason.
    pub omits_finish_reason: SourcedFact<bool>,
    /// The provider has a list of its models, and requests name them as the list does.
    pub lists: SourcedFact<bool>,
    /// How the provider is asked to continue an answer.
    #[serde(deserialize_with = "sourced_choice")]
    pub continues: SourcedFact<Prefix>,
    /// A connection that is already open saves time.
    pub warming: SourcedFact<bool>,
    /// Peculiarities of its streams; may be empty.
    pub note: SourcedFact<String>,
}

/// A fact and its source, with a year or a URL.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcedFact<T> {
    pub value: T,
    pub source: String,
}

macro_rules! sourced_quirks {
    ($($(#[doc = $about:literal])* $quirk:ident: $type:ty $(= $usual:expr)?;)+) => {
        /// The quirks of a provider of the catalogue, each with its source.
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct SourcedQuirks { $($quirk: Option<SourcedFact<$type>>,)+ }

        impl SourcedQuirks {
            fn set(&self) -> QuirkSet {
                QuirkSet { $($quirk: self.$quirk.as_ref().map(|fact| fact.value),)+ }
            }

            /// Each that is known: its key, its value for people, and its source.
            pub fn facts(&self) -> impl Iterator<Item = (&'static str, String, &str)> {
                let facts = [$(self.$quirk.as_ref().map(|fact| (stringify!($quirk), fact.value.shown(), &*fact.source)),)+];
                facts.into_iter().flatten()
            }
        }
    };
}

each_quirk!(sourced_quirks);

/// Providers whose ids name a vendor and a region too, so that no other provider has them.
pub(super) const CLOUDS: [&str; 1] = ["bedrock"];

/// One dialect of a provider.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedDialect {
    #[serde(deserialize_with = "choice")]
    pub dialect: Dialect,
    /// With the version path, without a slash at the end. Empty: each customer has another address. Parts in braces come from the
    /// keys with their names, and those in capitals from the environment.
    pub base_url: String,
    /// `bearer`, or the header of the bare key. None: as usual in this dialect.
    key_in: Option<String>,
    /// Used only if the config names it: its models have other names than in the first dialect.
    #[serde(default)]
    pub only_if_named: bool,
    /// The page that documents it.
    pub source: String,
}

/// Every provider, the clouds first and the local servers last. A test reads the file, so it is never empty.
static ENTRIES: LazyLock<Vec<CatalogueEntry>> =
    LazyLock::new(|| read(include_str!("catalogue.toml")).unwrap_or_default());

pub fn entries() -> impl Iterator<Item = &'static CatalogueEntry> + Clone {
    ENTRIES.iter()
}

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
    entries().find(|entry| entry.name == name)
}

/// The provider that issues keys of this form, if it can be told.
pub fn issuer_of(key: &str) -> Option<&'static CatalogueEntry> {
    let begins =
        |entry: &&CatalogueEntry| entry.key_prefixes.value.iter().any(|prefix| key.starts_with(prefix.as_str()));
    entries().find(begins)
}

/// The names most like this one, at most two, the best first.
pub fn nearest(name: &str) -> Vec<String> {
    super::problem::nearest(name, entries().map(|entry| entry.name.as_str()), 2)
}

/// Values of a key variable that tools want set and that are no keys.
const PLACEHOLDERS: [&str; 10] =
    ["unused", "dummy", "none", "null", "placeholder", "changeme", "your-api-key", "not-needed", "no-key", "fake"];

/// Whether this value of a key variable is surely no key.
pub fn is_placeholder(key: &str) -> bool {
    let key = key.trim().trim_matches(['"', '\'']);
    PLACEHOLDERS.iter().any(|placeholder| key.eq_ignore_ascii_case(placeholder))
}

/// Whether the provider continues an answer, in a word or two.
pub fn continues(entry: &CatalogueEntry) -> String {
    match entry.continues.value {
        Prefix::Plain => "yes".to_owned(),
        Prefix::Off => "no".to_owned(),
        Prefix::Auto => "not known".to_owned(),
        with => format!("with `{}`", with.as_str()),
    }
}

impl CatalogueEntry {
    /// Usable without a table in this environment.
    pub fn has_address(&self, env: &dyn Fn(&str) -> Option<String>) -> bool {
        self.serves.iter().any(|served| {
            !served.only_if_named
                && !served.base_url.is_empty()
                && !served.base_url.contains("{project}")
                && served.address_variable().is_none_or(|variable| env(variable).is_some_and(|url| !url.is_empty()))
        })
    }

    /// The variable with the customer's own address, if it has one.
    pub fn address_variable(&self) -> Option<&str> {
        self.serves.iter().find_map(ServedDialect::address_variable)
    }

    /// The variables that may hold its key, the usual one first.
    pub fn key_variables(&self) -> impl Iterator<Item = &str> {
        self.key_variable.iter().chain(&self.other_variables).map(String::as_str)
    }

    /// The variables that hold something that may be a key, the usual one first.
    pub fn set_variables(&self, env: &dyn Fn(&str) -> Option<String>) -> impl Iterator<Item = &str> {
        let is_set =
            move |variable: &&str| env(variable).is_some_and(|key| !key.trim().is_empty() && !is_placeholder(&key));
        self.key_variables().filter(is_set)
    }

    /// What it demands of requests.
    pub fn requests(&self) -> ProviderRequests {
        ProviderRequests {
            known: self.quirks.set(),
            refused: self.refuses.value.clone(),
            ..ProviderRequests::default()
        }
    }

    /// How it is asked in this dialect.
    pub fn served(&self, dialect: Dialect) -> Option<&ServedDialect> {
        self.serves.iter().find(|served| served.dialect == dialect)
    }
}

impl ServedDialect {
    /// The variable with the customer's own address: `{AZURE_OPENAI_ENDPOINT}/openai/v1`.
    pub fn address_variable(&self) -> Option<&str> {
        address_variable(&self.base_url)
    }

    /// How a key is sent. The region of signatures is empty.
    pub fn auth(&self) -> Auth {
        match self.key_in.as_deref() {
            None => Auth::usual(self.dialect),
            Some("bearer") => Auth::Bearer,
            Some(header) => Auth::Header(header.to_owned()),
        }
    }
}

/// The variable at the start of an address.
pub(super) fn address_variable(base_url: &str) -> Option<&str> {
    let (name, _) = base_url.strip_prefix('{')?.split_once('}')?;
    Some(name).filter(|name| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
}

/// Reads the file: completes each provider by the defaults, and writes named sources out.
fn read(text: &str) -> Result<Vec<CatalogueEntry>, toml::de::Error> {
    #[derive(serde::Deserialize)]
    struct CatalogueFile {
        sources: HashMap<String, String>,
        defaults: Table,
        provider: Vec<Table>,
    }
    let CatalogueFile { sources, defaults, provider } = toml::from_str(text)?;
    let entry = |mut entry: Table| {
        for (fact, value) in &defaults {
            entry.entry(fact).or_insert_with(|| value.clone());
        }
        for source in entry.iter_mut().filter_map(|(_, fact)| fact.get_mut("source")) {
            if let Some(full) = source.as_str().and_then(|name| sources.get(name)) {
                *source = Value::from(full.as_str());
            }
        }
        let (quirks, mut entry): (Table, Table) =
            entry.into_iter().partition(|(fact, _)| QuirkSet::NAMES.contains(&fact.as_str()));
        entry.insert("quirks".to_owned(), Value::Table(quirks));
        Value::Table(entry).try_into()
    };
    provider.into_iter().map(entry).collect()
}

fn choice<'de, D: Deserializer<'de>, T: NamedChoice>(deserializer: D) -> Result<T, D::Error> {
    named(&String::deserialize(deserializer)?)
}

fn sourced_choice<'de, D: Deserializer<'de>, T: NamedChoice>(deserializer: D) -> Result<SourcedFact<T>, D::Error> {
    let SourcedFact { value, source } = SourcedFact::<String>::deserialize(deserializer)?;
    Ok(SourcedFact { value: named(&value)?, source })
}

fn named<T: NamedChoice, E: Error>(name: &str) -> Result<T, E> {
    let found = T::VARIANTS.iter().copied().find(|variant| variant.name() == name);
    found.ok_or_else(|| E::custom(format!("unknown name {name:?}")))
}

#[cfg(test)]
mod tests;
