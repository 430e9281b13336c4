//! The common providers: addresses, dialects, how a key is sent, and their peculiarities. Every fact has a source. What a
//! hang-up does to the bill was not measured, and documents conflict.
//!
//! Not for configured providers: see `provider`.

mod clouds;
mod hosted;
mod local;

#[cfg(test)]
mod tests;

use super::CancelBilling;
use crate::protocol::Dialect;
use crate::protocol::prefix::Prefix;

/// The facts about one provider.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueEntry {
    /// The name in `[providers.NAME]`.
    pub name: &'static str,
    /// Its dialects, never empty; requests that must be translated go to the first.
    pub serves: &'static [ServedDialect],
    /// The usual variable of the key. None: no key is needed.
    pub key_variable: Option<&'static str>,
    /// What a hang-up does to generation and billing.
    pub cancel_billing: SourcedFact<CancelBilling>,
    /// False if the provider rejects `stream_options`, or sends usage without it.
    pub stream_options: SourcedFact<bool>,
    /// The provider wants `max_completion_tokens` instead of `max_tokens`.
    pub max_completion_tokens: SourcedFact<bool>,
    /// The provider accepts the `reasoning_content` of earlier turns while tools run.
    pub takes_thoughts: SourcedFact<bool>,
    /// The provider ends streams with `[DONE]` and without a finish reason.
    pub omits_finish_reason: SourcedFact<bool>,
    /// The provider can continue an answer.
    pub continues: SourcedFact<Continues>,
    /// A connection that is already open saves time.
    pub warming: SourcedFact<bool>,
    /// Peculiarities of its streams; may be empty.
    pub note: SourcedFact<&'static str>,
}

/// A fact and its source, with a year or a URL.
#[derive(Clone, Copy, Debug)]
pub struct SourcedFact<T> {
    pub value: T,
    pub source: &'static str,
}

/// One dialect of a provider.
#[derive(Clone, Copy, Debug)]
pub struct ServedDialect {
    pub dialect: Dialect,
    /// With the version path, without a slash at the end. Empty: each customer has another address. Parts in braces come from the
    /// keys with their names.
    pub base_url: &'static str,
    pub auth: KeyIn,
    /// Used only if the config names it: its models have other names than in the first dialect.
    pub only_if_named: bool,
    /// The page that documents it.
    pub source: &'static str,
}

/// Where a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyIn {
    Bearer,
    /// The bare key in this header, lower case.
    Header(&'static str),
    /// AWS's signature, or a bearer.
    SigV4,
}

/// Whether a last message of the assistant is gone on with, rather than answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continues {
    Yes,
    /// If the request has this too.
    With(&'static str),
    No,
    Unknown,
}

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
    entries().find(|entry| entry.name == name)
}

/// The names most like this one, at most two, the best first.
pub fn nearest(name: &str) -> Vec<String> {
    super::problem::nearest(name, entries().map(|entry| entry.name), 2)
}

/// Every provider, the clouds first and the local servers last.
pub fn entries() -> impl Iterator<Item = &'static CatalogueEntry> + Clone {
    clouds::ENTRIES.iter().chain(&hosted::ENTRIES).chain(&local::ENTRIES)
}

impl Continues {
    /// How it is asked to. What is not known of a provider its models' names may tell.
    pub fn prefix(self) -> Prefix {
        match self {
            Continues::Yes => Prefix::Plain,
            Continues::With(member) => Prefix::from_name(member).unwrap_or(Prefix::Off),
            Continues::No => Prefix::Off,
            Continues::Unknown => Prefix::Auto,
        }
    }

    /// In a word or two, for people.
    pub fn text(self) -> String {
        match self {
            Continues::Yes => "yes".to_owned(),
            Continues::With(member) => format!("with `{member}`"),
            Continues::No => "no".to_owned(),
            Continues::Unknown => "not known".to_owned(),
        }
    }
}

impl CatalogueEntry {
    /// How it is asked in this dialect.
    pub fn served(&self, dialect: Dialect) -> Option<&'static ServedDialect> {
        self.serves.iter().find(|served| served.dialect == dialect)
    }

    const fn hosted(
        name: &'static str,
        serves: &'static [ServedDialect],
        key_variable: &'static str,
    ) -> CatalogueEntry {
        CatalogueEntry {
            key_variable: Some(key_variable),
            warming: fact(true, HANDSHAKES),
            ..CatalogueEntry::local(name, serves)
        }
    }

    const fn local(name: &'static str, serves: &'static [ServedDialect]) -> CatalogueEntry {
        CatalogueEntry {
            name,
            serves,
            key_variable: None,
            cancel_billing: fact(CancelBilling::Unknown, "nobody says, 2026; counted as full price"),
            stream_options: fact(true, "OpenAI's reference has it; nothing against it is known, 2026"),
            max_completion_tokens: fact(false, "the older name is taken by all that copy the API, 2026"),
            takes_thoughts: fact(
                false,
                "not in OpenAI's reference, and some refuse members that they do not know (Groq), 2026",
            ),
            omits_finish_reason: fact(false, "every recorded stream that is whole has one, 2026"),
            continues: fact(Continues::Unknown, "nothing documented, 2026"),
            warming: fact(false, "a connection on the same machine or network costs next to nothing, 2026"),
            note: fact("", "none, 2026"),
        }
    }

    const fn stops(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { cancel_billing: fact(CancelBilling::Stops, source), ..self }
    }

    const fn bills_full(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { cancel_billing: fact(CancelBilling::BillsFull, source), ..self }
    }

    const fn continues(self, continues: Continues, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { continues: fact(continues, source), ..self }
    }

    const fn warming(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { warming: fact(true, source), ..self }
    }

    const fn without_stream_options(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { stream_options: fact(false, source), ..self }
    }

    const fn max_completion_tokens(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { max_completion_tokens: fact(true, source), ..self }
    }

    const fn takes_thoughts(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { takes_thoughts: fact(true, source), ..self }
    }

    const fn omits_finish_reason(self, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { omits_finish_reason: fact(true, source), ..self }
    }

    const fn note(self, note: &'static str, source: &'static str) -> CatalogueEntry {
        CatalogueEntry { note: fact(note, source), ..self }
    }
}

impl ServedDialect {
    const fn openai(base_url: &'static str, source: &'static str) -> ServedDialect {
        ServedDialect { dialect: Dialect::OpenAi, base_url, auth: KeyIn::Bearer, only_if_named: false, source }
    }

    const fn responses(base_url: &'static str, source: &'static str) -> ServedDialect {
        ServedDialect { dialect: Dialect::Responses, ..ServedDialect::openai(base_url, source) }
    }

    const fn anthropic(base_url: &'static str, source: &'static str) -> ServedDialect {
        let served = ServedDialect { dialect: Dialect::Anthropic, ..ServedDialect::openai(base_url, source) };
        served.key_in(KeyIn::Header("x-api-key"))
    }

    const fn gemini(base_url: &'static str, source: &'static str) -> ServedDialect {
        let served = ServedDialect { dialect: Dialect::Gemini, ..ServedDialect::openai(base_url, source) };
        served.key_in(KeyIn::Header("x-goog-api-key"))
    }

    const fn key_in(self, auth: KeyIn) -> ServedDialect {
        ServedDialect { auth, ..self }
    }

    const fn only_if_named(self) -> ServedDialect {
        ServedDialect { only_if_named: true, ..self }
    }
}

const fn fact<T: Copy>(value: T, source: &'static str) -> SourcedFact<T> {
    SourcedFact { value, source }
}

/// A router that lists at which of its providers a cancelled stream stops.
const ROUTER: &str =
    "a router's documentation, not the vendor's own, 2026: https://openrouter.ai/docs/api-reference/streaming";
/// Servers whose scheduler drops a request with its connection.
const SERVER: &str = "the server's own behaviour, 2026";
/// Streams that were recorded from the provider.
const RECORDED: &str = "recorded streams, 2026";
/// Why a connection over TLS is worth keeping.
const HANDSHAKES: &str = "look-up, TCP and TLS 1.3 take two round trips and more before the request, 2026: RFC 8446";
