//! A provider as the rest of the program sees it: its dialects with their addresses, its keys and how they are sent, and its
//! peculiarities. A token is a key that changes while the gateway runs.
//!
//! Not for the facts about common providers: see `catalogue`. Not for reading a token: a background task of `app` does that.

use photofinish_dialects::DialectFormat as _;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::{HeaderMap, Uri};
use secrecy::SecretString;
use tokio::sync::Notify;

use super::names::names;
use super::{Simulation, Transport};
use photofinish_wire::quirks::ProviderRequests;
use photofinish_wire::{AnswerForm, Dialect, Prefix, Surface};

/// One provider: a vendor or a server with an address, dialects and keys.
#[derive(Debug)]
pub struct Provider {
    pub name: String,
    /// The provider of the catalogue whose facts and prices it has. Its own name if there is none.
    pub vendor: String,
    /// The address of the first dialect. A simulated provider has none until it listens.
    pub base_url: String,
    /// Never empty. A request that must be translated goes to the first one.
    pub dialects: Vec<ProviderDialect>,
    /// The version of Azure's dated API. It goes into the query, and the path has the deployment instead of the model.
    pub api_version: Option<String>,
    /// Whether it is asked to stream.
    pub upstream_stream: UpstreamStream,
    /// What a hang-up does to the bill.
    pub cancel_billing: CancelBilling,
    /// The data centre it runs in, if configured: two upstreams in one are never hedged against each other.
    pub domain: Option<String>,
    /// What it demands of requests, and what the operator changes in them.
    pub requests: ProviderRequests,
    /// The provider ends its streams with `[DONE]` and without a finish reason.
    pub omits_finish_reason: bool,
    /// How the provider is asked to continue an answer.
    pub prefix: Prefix,
    /// Request headers of the client that go up, lower case.
    pub forward_headers: Vec<String>,
    pub keys: Keys,
    /// Where the keys come from, for messages: names of variables, and `file:…`. Empty if they are in the config file itself.
    pub key_sources: Vec<String>,
    /// It is asked for the list of its models.
    pub discover: bool,
    /// A connection to it is kept open.
    pub warm: bool,
    pub simulate: Option<Simulation>,
}

/// One dialect of a provider: where and how requests in it are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDialect {
    pub dialect: Dialect,
    /// Scheme, authority and path prefix, without a slash at the end. Empty for a simulated provider that does not listen yet.
    pub base_url: String,
    pub auth: Auth,
    /// Headers to send unless the client sent one of that name.
    pub headers: HeaderMap,
    /// The proxy and the certificate authorities of its connections.
    pub transport: Transport,
}

/// How a key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `authorization: Bearer KEY`
    Bearer,
    /// The bare key in a header of this name, lower case.
    Header(String),
    /// The request is signed for this AWS region. The key is `ID:SECRET` or `ID:SECRET:SESSION_TOKEN`; a key without a colon is
    /// a Bedrock API key and is sent as a bearer.
    SigV4 { region: String },
}

impl Auth {
    /// The way of this dialect, unless a provider has another one. The region is empty.
    pub fn usual(dialect: Dialect) -> Auth {
        match dialect {
            Dialect::Bedrock => Auth::SigV4 { region: String::new() },
            _ => dialect.key_header().map_or(Auth::Bearer, |header| Auth::Header(header.to_owned())),
        }
    }
}

names! {
    /// What a hang-up does to the bill.
    pub enum CancelBilling {
        /// Generation and billing stop.
        Stops = "stops",
        /// The whole answer is billed.
        BillsFull = "bills_full",
        Unknown = "unknown",
    }
}

names! {
    /// Whether an upstream is asked to stream.
    pub enum UpstreamStream {
        /// As its answer is used: a client that does not stream, asked for by one attempt alone, is answered in one piece.
        Auto = "auto",
        Always = "always",
        Never = "never",
    }
}

/// The shared keys of a provider.
#[derive(Clone, Debug)]
pub enum Keys {
    /// No `api_key` in the file: the provider needs none, or the caller sends one.
    NotConfigured,
    /// These variables or files of `api_key` are unset: the provider is **off** except for callers with keys of their own.
    Off(Vec<String>),
    /// At least one; none is empty.
    Keys(Vec<SecretString>),
    /// A key that changes: the provider is **off** until the first one is read.
    Token(Arc<Token>),
}

/// By name. `None`: the provider is wrong and reported; using it is no further problem.
pub(super) type ResolvedNames = BTreeMap<String, Option<Arc<Provider>>>;

impl Provider {
    /// Someone else runs it: it is not simulated, and its address is not of this machine or a private network.
    pub fn is_hosted(&self) -> bool {
        if self.simulate.is_some() {
            return false;
        }
        let uri: Option<Uri> = self.base_url.parse().ok();
        let Some(host) = uri.as_ref().and_then(Uri::host) else { return true };
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()),
            Ok(IpAddr::V6(ip)) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unspecified()),
            // A name without a dot is one of the own network.
            Err(_) => host.contains('.') && !host.ends_with(".local") && !host.ends_with(".internal"),
        }
    }

    /// The dialect for requests that must be translated.
    pub fn preferred(&self) -> &ProviderDialect {
        &self.dialects[0]
    }

    /// The region of AWS that requests are signed for.
    pub fn region(&self) -> Option<&str> {
        match &self.preferred().auth {
            Auth::SigV4 { region } => Some(region),
            _ => None,
        }
    }

    /// The dialect in which it is asked for the list of its models, and the path. None: it is not asked.
    pub fn model_list(&self) -> Option<(&ProviderDialect, &'static str)> {
        let mut asked = self.dialects.iter().filter(|_| self.discover && self.simulate.is_none());
        asked.find_map(|spoken| Some((spoken, spoken.dialect.model_list_path()?)))
    }

    /// Whether it is asked in the dialect of this name.
    pub fn speaks(&self, dialect: &str) -> bool {
        self.dialects.iter().any(|spoken| spoken.dialect.as_str() == dialect)
    }

    /// The dialect for a surface: the surface's own, else the first that it is translated to. None: the provider cannot serve it.
    pub fn spoken_for(&self, surface: Surface) -> Option<&ProviderDialect> {
        let own = self.dialects.iter().find(|spoken| spoken.dialect == surface.dialect());
        own.or_else(|| self.dialects.iter().find(|spoken| surface.translates_to(spoken.dialect)))
    }

    /// The path of a request for a model, relative to the address of `spoken`: it begins with a slash and may have a query.
    pub fn path(&self, spoken: &ProviderDialect, surface: Surface, model: &str, form: AnswerForm) -> Cow<'static, str> {
        let path = spoken.dialect.path(surface, model, form);
        let Some(version) = &self.api_version else { return path };
        match spoken.dialect {
            Dialect::OpenAi => format!("/deployments/{}{path}?api-version={version}", segment(model)).into(),
            // Only the body names the model.
            Dialect::Responses => format!("{path}?api-version={version}").into(),
            _ => path,
        }
    }

    /// A path behind the address of the Responses API, which may have a query, with the version that the provider demands.
    pub fn versioned(&self, path: &str) -> Cow<'static, str> {
        let Some(version) = &self.api_version else { return Cow::Owned(path.to_owned()) };
        let mark = if path.contains('?') { '&' } else { '?' };
        format!("{path}{mark}api-version={version}").into()
    }

    /// Callers without a key of their own can use it.
    pub fn is_on(&self) -> bool {
        match &self.keys {
            Keys::Off(_) => false,
            Keys::Token(token) => token.current().is_some(),
            Keys::NotConfigured | Keys::Keys(_) => true,
        }
    }

    /// Why it is off, as the end of a sentence. None: it is on.
    pub fn why_off(&self) -> Option<String> {
        match &self.keys {
            Keys::Off(missing) => Some(not_set(missing)),
            Keys::Token(token) if token.current().is_none() => Some(token.why_none()),
            _ => None,
        }
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

/// Encodes a text as one segment of a path.
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

/// `token = { … }`
#[derive(Debug)]
pub struct Token {
    pub source: CredentialSource,
    /// How long a token is used before the next one is read.
    pub refresh: Duration,
    current: ArcSwapOption<SecretString>,
    /// Why the last try failed.
    problem: Mutex<Option<String>>,
    /// The first try has ended, with or without success.
    tried: AtomicBool,
    first_try: Notify,
    refused: Notify,
}

/// Where a token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// A program and its arguments, never empty; no shell. Its output is the token.
    Command(Vec<String>),
    /// A file with the token.
    File(PathBuf),
}

impl CredentialSource {
    /// The program or the file, for messages. Arguments are left out: they may contain a secret.
    pub fn name(&self) -> String {
        match self {
            CredentialSource::Command(words) => {
                format!("the command {}", words.first().map_or("", String::as_str))
            }
            CredentialSource::File(path) => format!("the file {}", path.display()),
        }
    }
}

impl Token {
    pub fn new(source: CredentialSource, refresh: Duration) -> Token {
        Token {
            source,
            refresh,
            current: ArcSwapOption::empty(),
            problem: Mutex::default(),
            tried: AtomicBool::new(false),
            first_try: Notify::new(),
            refused: Notify::new(),
        }
    }

    /// The current token.
    pub fn current(&self) -> Option<Arc<SecretString>> {
        self.current.load_full()
    }

    /// Why there is no token yet, as the end of a sentence.
    pub fn why_none(&self) -> String {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        match &*problem {
            Some(problem) => format!("there is no token yet: {problem}"),
            None => format!("there is no token yet: {} was not asked", self.source.name()),
        }
    }

    /// Stores a new token.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn put(&self, text: &str) -> Result<(), &'static str> {
        let text = text.trim();
        if text.is_empty() {
            return Err("it gave nothing");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it gave more than one word, or characters that cannot be sent in a header");
        }
        self.current.store(Some(Arc::new(SecretString::from(text))));
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.end_first_try();
        Ok(())
    }

    /// Notes a failed try; the old token stays.
    pub fn failed(&self, problem: String) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        self.end_first_try();
    }

    /// Takes over the current value from the same token of the previous configuration.
    pub fn take_over(&self, before: &Token) {
        if self.source == before.source
            && let Some(current) = before.current()
        {
            self.current.store(Some(current));
            self.end_first_try();
        }
    }

    /// Notes that a provider refused the token: it is read again soon.
    pub fn refuse(&self) {
        self.refused.notify_one();
    }

    /// Resolves when a provider has refused the token.
    pub async fn refused(&self) {
        self.refused.notified().await;
    }

    /// Resolves when the first try has ended.
    pub async fn tried(&self) {
        let mut notified = std::pin::pin!(self.first_try.notified());
        notified.as_mut().enable();
        if !self.tried.load(Ordering::Acquire) {
            notified.await;
        }
    }

    fn end_first_try(&self) {
        self.tried.store(true, Ordering::Release);
        self.first_try.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn token() -> Token {
        Token::new(CredentialSource::File("/run/token".into()), Duration::from_secs(60))
    }

    #[test]
    fn a_token_is_one_word_and_is_told_to_nobody() {
        let token = token();
        assert_eq!(token.why_none(), "there is no token yet: the file /run/token was not asked");
        for bad in ["", " \n", "two words", "a\nb", "ü"] {
            assert!(token.put(bad).is_err(), "{bad:?}");
        }
        assert!(token.current().is_none());
        token.put(" planted-token\n").unwrap();
        assert_eq!(token.current().unwrap().expose_secret(), "planted-token");
        assert!(!format!("{token:?}").contains("planted"));
        token.failed("it is away".to_owned());
        assert!(token.current().is_some(), "the old one may still be good");
    }

    #[tokio::test]
    async fn one_is_taken_over_from_the_same_source() {
        let (before, after) = (token(), token());
        before.put("one").unwrap();
        after.take_over(&before);
        assert_eq!(after.current().unwrap().expose_secret(), "one");
        after.tried().await;
        let other = Token::new(CredentialSource::Command(vec!["x".to_owned()]), Duration::from_secs(60));
        other.take_over(&before);
        assert!(other.current().is_none());
    }
}
