//! A provider as the rest of the program sees it: its dialects with their addresses, how a key is sent, and what is known of
//! its manners. Where the facts come from is `catalogue`'s.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderMap;
use secrecy::SecretString;

use super::{Listen, Simulation, Token, Transport};
use crate::protocol::prefix::Prefix;
use crate::protocol::{Dialect, Surface};

/// One provider: a vendor or a server with an address, dialects and keys.
#[derive(Debug)]
pub struct Provider {
    pub name: String,
    /// The address of the first dialect. For a simulated provider empty until it listens.
    pub base_url: String,
    /// What it speaks, never empty. The first is preferred where a request has to be translated.
    pub dialects: Vec<ProviderDialect>,
    /// Azure's dated API: models are deployments in the path, and this goes into the query.
    pub api_version: Option<String>,
    /// What a hang-up does to the bill.
    pub cancel_billing: CancelBilling,
    /// The machine park it runs on, where the file names one: two upstreams of one are never hedged against each other.
    pub domain: Option<String>,
    /// False for an upstream that is known to reject `stream_options`.
    pub stream_options: bool,
    /// It wants `max_completion_tokens` for `max_tokens` (dialect `openai`).
    pub max_completion_tokens: bool,
    /// It ends its streams with `[DONE]` and gives no finish reason.
    pub omits_finish_reason: bool,
    /// It takes the `reasoning_content` of earlier turns back within a run of tools (dialect `openai`).
    pub takes_thoughts: bool,
    /// How it is asked to go on with an answer that was begun.
    pub prefix: Prefix,
    /// Request headers of the client that go up, lower case.
    pub forward_headers: Vec<String>,
    pub keys: Keys,
    /// Where keys that are set come from, for messages: names of variables, and `file:…`. Empty where they stand in the file.
    pub key_sources: Vec<String>,
    pub simulate: Option<Simulation>,
}

/// One of the ways in which a provider can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDialect {
    pub dialect: Dialect,
    /// Scheme, authority and path prefix, without a slash at the end. For a simulated provider empty until it listens.
    pub base_url: String,
    pub auth: Auth,
    /// Headers that go up where the client sent none of that name.
    pub headers: HeaderMap,
    /// What its connections are made through.
    pub transport: Transport,
}

/// How a key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `authorization: Bearer KEY`
    Bearer,
    /// The bare key in a header of this name, lower case.
    Header(String),
    /// The request is signed by AWS's rule for this region. The key is `ID:SECRET` or `ID:SECRET:SESSION_TOKEN`; one without a
    /// colon is a Bedrock API key, and is sent as a bearer.
    SigV4 { region: String },
}

/// Whether generation and billing stop when the client hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelBilling {
    Stops,
    BillsFull,
    Unknown,
}

impl CancelBilling {
    pub const ALL: [CancelBilling; 3] = [CancelBilling::Stops, CancelBilling::BillsFull, CancelBilling::Unknown];

    /// The name in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            CancelBilling::Stops => "stops",
            CancelBilling::BillsFull => "bills_full",
            CancelBilling::Unknown => "unknown",
        }
    }
}

/// The shared keys of a provider.
#[derive(Debug)]
pub enum Keys {
    /// No `api_key` in the file: none is needed, or the caller brings one.
    NotConfigured,
    /// `api_key` is there, but these variables (or files) are unset: **off**, but for callers with keys of their own.
    Off(Vec<String>),
    /// At least one, each not empty.
    Keys(Vec<SecretString>),
    /// One that changes: **off** until the first is there.
    Token(Arc<Token>),
}

impl Provider {
    /// What is spoken where a request has to be translated.
    pub fn preferred(&self) -> &ProviderDialect {
        &self.dialects[0]
    }

    /// How this provider is asked for a surface: in the surface's own dialect, else in the one it is translated to. None
    /// where it cannot serve it.
    pub fn spoken_for(&self, surface: Surface) -> Option<&ProviderDialect> {
        let own = self.dialects.iter().find(|spoken| spoken.dialect == surface.dialect());
        own.or_else(|| surface.is_translated().then(|| self.preferred()))
    }

    /// Where a request for a model goes, behind the address of `spoken`: with a slash in front; a query may follow.
    pub fn path(&self, spoken: &ProviderDialect, surface: Surface, model: &str) -> Cow<'static, str> {
        let path = spoken.dialect.path(surface, model);
        let Some(version) = &self.api_version else { return path };
        match spoken.dialect {
            Dialect::OpenAi => format!("/deployments/{}{path}?api-version={version}", segment(model)).into(),
            // There the model is named in the body alone.
            Dialect::Responses => format!("{path}?api-version={version}").into(),
            _ => path,
        }
    }

    /// Whether it can be used without a key of the caller's own.
    pub fn is_on(&self) -> bool {
        match &self.keys {
            Keys::Off(_) => false,
            Keys::Token(token) => token.current().is_some(),
            Keys::NotConfigured | Keys::Keys(_) => true,
        }
    }

    /// Why it is off, as the end of a sentence; none while it is on.
    pub fn why_off(&self) -> Option<String> {
        match &self.keys {
            Keys::Off(missing) => Some(not_set(missing)),
            Keys::Token(token) if token.current().is_none() => Some(token.why_none()),
            _ => None,
        }
    }

    /// Whether one of its addresses is one that the gateway listens on.
    pub fn is_at(&self, listen: &[Listen]) -> bool {
        let addresses: Vec<SocketAddr> = listen.iter().filter_map(Listen::address).collect();
        self.own_address(&addresses).is_some()
    }

    /// The first of these at which the provider is.
    pub(super) fn own_address(&self, listen: &[SocketAddr]) -> Option<SocketAddr> {
        let leads_to = |listen: SocketAddr| {
            self.dialects.iter().any(|spoken| super::own_address::leads_to(&spoken.base_url, listen))
        };
        listen.iter().copied().find(|listen| leads_to(*listen))
    }
}

/// `GROQ_API_KEY is not set`
fn not_set(names: &[String]) -> String {
    let reason = |name: &String| match name.strip_prefix("file:") {
        Some(file) => format!("{file} is missing or empty"),
        None => format!("{name} is not set"),
    };
    names.iter().map(reason).collect::<Vec<_>>().join(", ")
}

/// A text as one segment of a path.
fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}
