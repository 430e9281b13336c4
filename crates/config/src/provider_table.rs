//! `[providers.NAME]`: its keys, how it gets its credential, and the [`Provider`] that follows from the table and the catalogue.

use photofinish_dialects::model_list::ListFormat as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use secrecy::{ExposeSecret, SecretString};

use super::catalogue::{self, CatalogueEntry, ServedDialect, address_variable};
use super::keys::{
    self, Flag, ParsedText, PlainText, TableKeys as _, TimeSpan, TypedText, choice, inner, keys, nested, own,
};
use super::names::NamedChoice;
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable};
use super::request::{self, RequestKeys, may_be_forwarded};
use super::text::{self, ExpandedText, Secret};
use super::transport::{Authorities, EnvProxies, ProxyChoice, RawTransport, read_ca_file, read_proxy};
use super::units::DURATION_MAX;
use super::{
    Auth, CancelBilling, CredentialSource, Keys, Provider, ProviderDialect, Simulation, Token, Transport,
    UpstreamStream,
};
use photofinish_wire::quirks::{ModelRequests, ProviderRequests};
use photofinish_wire::{Dialect, Prefix};

keys! {
    /// `[providers.NAME]`
    #[derive(Clone)]
    pub(super) struct ProviderKeys {
        /// The key, or a list of keys that are used in turn: `${VARIABLE}` or `file:/path`.
        api_key: Option<Credential> = own(read_api_key, |_| keys::one_or_more(keys::any_text()));
        /// Credentials of an AWS account; requests are signed with them.
        aws: Option<Credential> = own(read_aws, |generator| generator.subschema_for::<AwsKeys>());
        /// A key that changes: the output of a command, or the content of a file.
        token: Option<Credential> = own(read_token, |generator| generator.subschema_for::<TokenKeys>());
        /// The provider of the catalogue that it is too: another account, region or resource, with a key of its own.
        like: Option<Located<String>> = TypedText;
        /// The address, version path included; a provider of the catalogue has one.
        base_url: Option<String> = own(read_base_url, |_| keys::text("https?://[^?#@]+"));
        /// The dialects that it speaks, the preferred one first; `openai` unless set.
        dialect: Vec<Located<Dialect>> = own(read_dialects, |_| keys::one_or_more(keys::names::<Dialect>())), or Vec::new();
        /// The AWS region, for the dialect `bedrock`.
        region: Option<Located<String>> = own(read_part, |_| keys::text(PART));
        /// The project, at Vertex.
        project: Option<Located<String>> = own(read_part, |_| keys::text(PART));
        /// The location, at Vertex.
        location: Option<Located<String>> = own(read_part, |_| keys::text(PART));
        /// The version of Azure's dated API, with the deployment in the path.
        api_version: Option<Located<String>> = own(read_part, |_| keys::text(PART));
        /// Further request headers of the client that are forwarded.
        forward_headers: Vec<Located<String>> =
            own(read_forward_headers, |_| keys::one_or_more(keys::any_text())), or Vec::new();
        /// Whether it is asked to stream: `auto` as the answer is used, `always`, or `never`.
        upstream_stream: Option<UpstreamStream> = choice();
        /// What a hang-up does to the bill.
        cancel_billing: Option<CancelBilling> = choice();
        /// It ends its streams with `[DONE]` and without a finish reason.
        omits_finish_reason: Option<bool> = Flag;
        /// How it is asked to continue an answer that another upstream began.
        prefix: Option<Prefix> = choice();
        /// Its data centre: two upstreams in one are never hedged against each other.
        domain: Option<String> = DOMAIN;
        /// `http://user:password@proxy:3128`, or `none`; as HTTPS_PROXY says unless set.
        proxy: Option<Located<ProxyChoice>> = own(read_proxy, |_| keys::any_text());
        /// A PEM file with certificate authorities that are trusted for it.
        ca_file: Option<Located<Arc<Authorities>>> = own(read_ca_file, |_| keys::any_text());
        /// Whether it is asked for the list of its models; providers of the catalogue that have one are.
        discover: Option<bool> = Flag;
        /// Keep a connection to it open, so that no request waits for one.
        warm: Option<bool> = Flag;
        /// What it demands of each request, and what is changed in it.
        request: RequestKeys = nested(), or RequestKeys::default();
        /// The same for the models whose names have a pattern, such as `"gpt-5*"`.
        request_for: Vec<ModelRequests> = own(request::read_models, request::models_schema), or Vec::new();
        /// A simulated provider over real HTTP on loopback.
        simulate: Option<Simulation> = inner();
    }
}

/// A provider's table.
pub(super) struct RawProvider {
    pub(super) name: Located<String>,
    pub(super) typed: ProviderKeys,
    /// The file has `base_url`, right or wrong.
    pub(super) has_base_url: bool,
    /// The file has `simulate`, right or wrong.
    pub(super) has_simulate: bool,
    pub(super) has_aws: bool,
    pub(super) keys: Keys,
    /// Where the keys come from: names of variables and files.
    pub(super) key_sources: Vec<String>,
    /// The parts of an address or a path, by key.
    pub(super) parts: Vec<(&'static str, Located<String>)>,
    pub(super) transport: RawTransport,
}

/// A part of an address or a path.
const PART: &str = "[A-Za-z0-9._:-]{1,128}";
/// Bytes of a part of an address: `region`, `project`, `location`, `api_version`.
const PART_MAX: usize = 128;
/// Names in `forward_headers`.
const HEADERS_MAX: usize = 64;
/// Bytes of `domain`, the name of a data centre.
const DOMAIN_MAX: usize = 64;

const DOMAIN: ParsedText<String> = ParsedText {
    parse: |text| {
        let is_word = |c: char| c.is_alphanumeric() || "._-".contains(c);
        ((1..=DOMAIN_MAX).contains(&text.len()) && text.chars().all(is_word)).then(|| text.to_owned())
    },
    expected: "a word of at most 64 bytes, the same for all providers in one data centre",
    pattern: r"[^\s]{1,64}",
    format: String::clone,
};

/// The ways to give a key; a provider has one at most.
const CREDENTIALS: [&str; 3] = ["api_key", "aws", "token"];
/// What a simulated provider cannot have.
const NOT_SIMULATED: [&str; 14] = [
    "like",
    "base_url",
    "api_key",
    "aws",
    "token",
    "dialect",
    "proxy",
    "ca_file",
    "region",
    "project",
    "location",
    "api_version",
    "discover",
    "warm",
];

impl RawProvider {
    pub(super) fn read((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> RawProvider {
        check_provider_name(table.scope, &name);
        let mut typed = ProviderKeys::read(&mut table, &ProviderKeys::default());
        let credentials: Vec<&str> = CREDENTIALS.into_iter().filter(|key| table.has(key)).collect();
        if credentials.len() > 1 {
            let message = format!("{} has {}", table.name, credentials.join(" and "));
            table.scope.wrong(name.offset, message, "one of them");
        }
        let has_simulate = table.has("simulate");
        for key in NOT_SIMULATED.into_iter().filter(|key| has_simulate && table.has(key)) {
            let message = format!("{} is simulated and has \"{key}\" too", table.name);
            table.scope.wrong(name.offset, message, "one of the two");
        }
        let (has_base_url, has_aws) = (table.has("base_url"), table.has("aws"));
        table.finish();
        let credential = typed.token.take().or(typed.aws.take()).or(typed.api_key.take());
        let (keys, key_sources) = credential.unwrap_or((Keys::NotConfigured, Vec::new()));
        let parts = [
            ("region", typed.region.take()),
            ("project", typed.project.take()),
            ("location", typed.location.take()),
            ("api_version", typed.api_version.take()),
        ];
        let parts = parts.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
        let transport = RawTransport { proxy: typed.proxy.take(), authorities: typed.ca_file.take() };
        RawProvider { name, typed, has_base_url, has_simulate, has_aws, keys, key_sources, parts, transport }
    }
}

fn read_part(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<String>> {
    let text = table.text(key)?;
    let value = &text.value;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if value.is_empty() || value.len() > PART_MAX || !value.chars().all(is_part) {
        let expected = format!("at most {PART_MAX} letters, digits, \"-\", \".\", \"_\" and \":\"");
        table.scope.report(table.bad_value(key, &text).expected(expected));
        return None;
    }
    Some(Located { offset: text.offset, value: text.value })
}

impl NamedChoice for Dialect {
    const VARIANTS: &'static [Dialect] = &Dialect::ALL;

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn about(self) -> &'static str {
        ""
    }
}

impl NamedChoice for Prefix {
    const VARIANTS: &'static [Prefix] = &Prefix::ALL;

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn about(self) -> &'static str {
        ""
    }
}

/// One dialect or several, each once.
fn read_dialects(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<Located<Dialect>>> {
    let mut dialects: Vec<Located<Dialect>> = Vec::new();
    let typed = table.texts(key, Dialect::ALL.len(), "dialects")?;
    let what = table.what(key);
    let names = Dialect::ALL.map(Dialect::as_str);
    if typed.is_empty() {
        let message = format!("{what} is an empty list");
        table.scope.wrong(table.offset, message, format!("some of {}", names.join(", ")));
    }
    for text in typed {
        match Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == text.value) {
            None => {
                let problem = table.bad_value(key, &text).expected(format!("one of {}", names.join(", ")));
                table.scope.report(problem.nearest(&text.typed, names));
            }
            Some(dialect) if dialects.iter().all(|other| other.value != dialect) => {
                dialects.push(Located { offset: text.offset, value: dialect });
            }
            Some(dialect) => {
                let message = format!("{what} has \"{}\" twice", dialect.as_str());
                table.scope.report(LocatedProblem::at(text.offset, message));
            }
        }
    }
    Some(dialects)
}

/// Checks the name: it becomes part of the header `x-photofinish-key-NAME`.
fn check_provider_name(scope: &ReaderScope<'_>, name: &Located<String>) {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let valid = name.value.starts_with(alphanumeric)
        && name.value.len() <= 64
        && name.value.chars().all(|c| alphanumeric(c) || "._-".contains(c));
    if !valid {
        let message = format!("bad provider name \"{}\"", shown(&name.value));
        let expected = "at most 64 of a-z, 0-9, \".\", \"_\" and \"-\", beginning with a letter or a digit";
        scope.wrong(name.offset, message, expected);
    }
}

/// Messages do not quote a wrong URL: it may contain a password.
fn read_base_url(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<String> {
    let text = table.text(key)?;
    let url = text.value.as_str();
    match base_url_problem(url) {
        None => Some(url.trim_end_matches('/').to_owned()),
        Some(problem) => {
            let message = format!("{} {problem}", table.what(key));
            let expected = "http or https, a host and the version path, such as \"http://10.0.0.7:8000/v1\"";
            table.scope.wrong(text.offset, message, expected);
            None
        }
    }
}

/// What is wrong with a base URL, as the end of a sentence.
pub(super) fn base_url_problem(url: &str) -> Option<&'static str> {
    let Ok(uri) = url.parse::<Uri>() else { return Some("is no URL") };
    let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Some("does not begin with http:// or https://");
    };
    if authority.as_str().contains('@') {
        return Some("has a user or a password in it");
    }
    if url.contains(['?', '#']) {
        return Some("has a query or a fragment");
    }
    let port = authority.port().map(|port| format!(":{}", port.as_str())).unwrap_or_default();
    let port_is_valid = port.is_empty() || authority.port_u16().is_some_and(|port| port > 0);
    if authority.host().is_empty() || !port_is_valid || authority.as_str() != format!("{}{port}", authority.host()) {
        return Some("has no host, or a port that is none");
    }
    None
}

fn read_forward_headers(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<Located<String>>> {
    let mut headers: Vec<Located<String>> = Vec::new();
    for text in table.texts(key, HEADERS_MAX, "names")? {
        let quoted = format!("\"{}\" in {}", shown(&text.typed), table.what(key));
        let Ok(name) = HeaderName::from_bytes(text.value.as_bytes()) else {
            let problem = LocatedProblem::at(text.offset, format!("{quoted} is not a header name"));
            table.scope.report(problem.expected("a name such as \"x-trace-id\""));
            continue;
        };
        if !may_be_forwarded(name.as_str()) {
            let expected = "no credential, no hop-by-hop header and none that the gateway sets itself";
            table.scope.wrong(text.offset, format!("{quoted} is never forwarded"), expected);
        } else if headers.iter().all(|header| header.value != name.as_str()) {
            headers.push(Located { offset: text.offset, value: name.as_str().to_owned() });
        }
    }
    Some(headers)
}

/// Keys of a provider.
const KEYS_MAX: usize = 256;
/// Words of a token's command.
const WORDS_MAX: usize = 64;
/// More often would be a busy loop.
const REFRESH: RangeInclusive<Duration> = Duration::from_secs(1)..=DURATION_MAX;

/// The keys, and where those that are set come from: names of variables and files.
pub(super) type Credential = (Keys, Vec<String>);

keys! {
    /// `aws = { … }`: credentials that requests are signed with.
    #[derive(Clone)]
    pub(super) struct AwsKeys {
        /// The id of the access key.
        access_key_id: Option<Located<String>> = TypedText;
        /// The secret of the access key.
        secret_access_key: Option<Located<String>> = TypedText;
        /// The session token of temporary credentials.
        session_token: Option<Located<String>> = TypedText;
    }
}

keys! {
    /// `token = { … }`: a key that changes.
    #[derive(Clone)]
    pub(super) struct TokenKeys {
        /// A program and its arguments, without a shell. Its output is the token.
        command: Option<Vec<String>> = own(read_command, |_| keys::one_or_more(keys::any_text()));
        /// A file with the token.
        file: Option<ExpandedText> = PlainText;
        /// How long a token is used before the next one is read. Most tokens live for an hour.
        refresh: Duration = TimeSpan(REFRESH), or Duration::from_secs(45 * 60);
    }
}

/// `api_key = …`. `None`: the key is absent.
pub(super) fn read_api_key(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Credential> {
    let typed = table.strings(key)?;
    let what = table.what(key);
    if typed.is_empty() {
        let message = format!("{what} is an empty list");
        table.scope.wrong(table.offset, message, "a key, or no \"api_key\" at all");
    }
    if let Some(first) = typed.get(KEYS_MAX) {
        table.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {KEYS_MAX} keys")));
    }
    let (mut keys, mut unset, mut sources) = (Vec::<SecretString>::new(), Vec::new(), Vec::new());
    for typed in typed.iter().take(KEYS_MAX) {
        match text::secret(table.scope, &what, typed) {
            Secret::Set(key) if keys.iter().any(|other| other.expose_secret() == key.expose_secret()) => {
                table.scope.warn(format!("{what} has the same key twice; it is used once"));
            }
            Secret::Set(key) => {
                keys.push(key);
                sources.extend(text::sources(&typed.value));
            }
            Secret::Unset(names) => unset.extend(names),
            Secret::Bad => {}
        }
    }
    if keys.is_empty() {
        return Some((Keys::Off(unset), sources));
    }
    if !unset.is_empty() {
        table.scope.warn(format!("{what} lacks the key of {}", text::not_set(&unset)));
    }
    Some((Keys::Keys(keys), sources))
}

/// `aws = { … }`, as one key with colons between its parts.
pub(super) fn read_aws(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Credential> {
    let mut table = table.inner(key)?;
    let typed = AwsKeys::read(&mut table, &AwsKeys::default());
    let (mut parts, mut unset, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    for (key, typed) in [("access_key_id", &typed.access_key_id), ("secret_access_key", &typed.secret_access_key)] {
        match read_secret(&table, key, typed.as_ref(), &mut sources) {
            Some(Secret::Set(secret)) => parts.push(secret),
            Some(Secret::Unset(names)) => unset.extend(names),
            Some(Secret::Bad) => {}
            None => {
                let message = format!("{} has no \"{key}\"", table.name);
                table.scope.wrong(table.offset, message, "a variable such as \"${AWS_…}\"");
            }
        }
    }
    // Only temporary credentials have one.
    let session = read_secret(&table, "session_token", typed.session_token.as_ref(), &mut sources);
    if let Some(Secret::Set(secret)) = session {
        parts.push(secret);
    }
    table.finish();
    if !unset.is_empty() {
        return Some((Keys::Off(unset), sources));
    }
    let key = parts.iter().map(|part| part.expose_secret()).collect::<Vec<_>>().join(":");
    Some((Keys::Keys(vec![SecretString::from(key)]), sources))
}

fn read_secret(
    table: &TomlTable<'_, '_>,
    key: &str,
    typed: Option<&Located<String>>,
    sources: &mut Vec<String>,
) -> Option<Secret> {
    let typed = typed?;
    sources.extend(text::sources(&typed.value));
    let what = table.what(key);
    Some(match text::secret(table.scope, &what, typed) {
        Secret::Set(secret) if secret.expose_secret().contains(':') => {
            let problem = LocatedProblem::at(typed.offset, format!("{what} has a colon in it"));
            table.scope.report(problem.expected("the value that AWS issued"));
            Secret::Bad
        }
        secret => secret,
    })
}

/// `token = { command = […] or file = "…", refresh = "…" }`
pub(super) fn read_token(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Credential> {
    const EXPECTED: &str = "command = [\"gcloud\", \"auth\", \"print-access-token\"] or file = \"/run/token\"";
    let mut table = table.inner(key)?;
    let TokenKeys { command, file, refresh } = TokenKeys::read(&mut table, &TokenKeys::default());
    let (has_command, has_file) = (table.has("command"), table.has("file"));
    if has_command == has_file {
        let what = if has_file { "both a command and a file" } else { "neither a command nor a file" };
        let message = format!("{} has {what}", table.name);
        table.scope.wrong(table.offset, message, EXPECTED);
    }
    table.finish();
    let file = file.map(|text| CredentialSource::File(PathBuf::from(text.value)));
    let source = command.map(CredentialSource::Command).or(file)?;
    Some((Keys::Token(Arc::new(Token::new(source, refresh))), Vec::new()))
}

fn read_command(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<String>> {
    let typed = table.strings(key)?;
    let what = table.what(key);
    if typed.is_empty() || typed.len() > WORDS_MAX {
        let expected = format!("a program and its arguments, at most {WORDS_MAX} words");
        table.scope.wrong(table.offset, format!("{what} is no command"), expected);
        return None;
    }
    let words: Vec<String> =
        typed.into_iter().filter_map(|word| Some(text::plain(table.scope, &what, word)?.value)).collect();
    if words.first().is_some_and(String::is_empty) {
        table.scope.report(LocatedProblem::at(table.offset, format!("{what} names no program")));
        return None;
    }
    Some(words)
}

/// The default location of Google's clouds.
const LOCATION: &str = "global";
/// The region of AWS without `region` and `AWS_REGION`.
const REGION: &str = "us-east-1";
/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A provider with a table. None: it is wrong and reported.
pub(super) fn listed(scope: &ReaderScope<'_>, raw: RawProvider, env_proxies: &EnvProxies) -> Option<Provider> {
    if raw.has_simulate {
        return simulated(raw);
    }
    let entry = entry_of(scope, &raw)?;
    let dialects = dialects(scope, &raw, entry);
    check_parts(scope, &raw, entry, &dialects);
    let mut dialects = dialects?;
    let table = format!("[providers.{}]", shown(&raw.name.value));
    raw.transport.check(scope, &table, dialects.iter().map(|spoken| &*spoken.base_url));
    dialects.iter_mut().for_each(|spoken| spoken.transport = raw.transport.for_url(&spoken.base_url, env_proxies));
    let name = raw.name.value;
    of_variables(scope, &name, &raw.keys);
    of_discovery(scope, &name, raw.typed.discover, &dialects);
    if let Some(url) = raw.typed.base_url.as_deref() {
        of_path(scope, &name, url, entry, &dialects);
    }
    if let (Keys::NotConfigured, Some(variable)) = (&raw.keys, entry.and_then(|entry| entry.key_variable.as_deref())) {
        scope.warn(format!(
            "provider {name} has no api_key: only callers with a key of their own can use it; \
             api_key = \"${{{variable}}}\" is the usual one"
        ));
    }
    request::report_keys(scope, &name, &raw.typed.forward_headers, &dialects);
    let known = bare(name, entry, dialects)?;
    let api_version = raw.parts.into_iter().find(|(key, _)| *key == "api_version").map(|(_, text)| text.value);
    let known = Provider { api_version, keys: raw.keys, key_sources: raw.key_sources, ..known };
    Some(with_table(known, raw.typed))
}

/// Its entry in the catalogue, if there is one. None: `like` is wrong, which is reported.
fn entry_of(scope: &ReaderScope<'_>, raw: &RawProvider) -> Option<Option<&'static CatalogueEntry>> {
    let (name, own) = (&raw.name.value, catalogue::find(&raw.name.value));
    let Some(like) = &raw.typed.like else { return Some(own) };
    let title = format!("like of [providers.{}]", shown(name));
    if own.is_some() {
        let message = format!("{title}: the catalogue has a provider of this name");
        scope.wrong(like.offset, message, format!("another name, such as [providers.{name}-2]"));
        return None;
    }
    let entry = catalogue::find(&like.value);
    if entry.is_none() {
        let problem = LocatedProblem::at(like.offset, format!("{title}: no provider \"{}\"", shown(&like.value)));
        let problem = problem.expected("one of `photofinish providers`");
        scope.report(problem.nearest(&like.value, catalogue::entries().map(|entry| entry.name.as_str())));
    }
    entry.map(Some)
}

/// A provider with the facts of the catalogue, without a key.
fn bare(name: String, entry: Option<&CatalogueEntry>, dialects: Vec<ProviderDialect>) -> Option<Provider> {
    Some(Provider {
        vendor: entry.map_or(&name, |entry| &entry.name).clone(),
        name,
        base_url: dialects.first()?.base_url.clone(),
        dialects,
        api_version: None,
        upstream_stream: UpstreamStream::Auto,
        cancel_billing: entry.map_or(CancelBilling::Unknown, |entry| entry.cancel_billing.value),
        domain: None,
        requests: entry.map(CatalogueEntry::requests).unwrap_or_default(),
        omits_finish_reason: entry.is_some_and(|entry| entry.omits_finish_reason.value),
        prefix: entry.map(|entry| entry.continues.value).unwrap_or_default(),
        forward_headers: Vec::new(),
        keys: Keys::NotConfigured,
        key_sources: Vec::new(),
        discover: entry.is_some_and(|entry| entry.lists.value),
        warm: false,
        simulate: None,
    })
}

/// What the table says beyond that.
fn with_table(known: Provider, keys: ProviderKeys) -> Provider {
    let (own, changes) = (keys.request.quirks(), keys.request.changes());
    Provider {
        upstream_stream: keys.upstream_stream.unwrap_or(known.upstream_stream),
        cancel_billing: keys.cancel_billing.unwrap_or(known.cancel_billing),
        domain: keys.domain,
        requests: ProviderRequests { own, changes, models: keys.request_for, ..known.requests },
        omits_finish_reason: keys.omits_finish_reason.unwrap_or(known.omits_finish_reason),
        prefix: keys.prefix.unwrap_or(known.prefix),
        forward_headers: keys.forward_headers.into_iter().map(|header| header.value).collect(),
        discover: keys.discover.unwrap_or(known.discover),
        warm: keys.warm.unwrap_or_default(),
        simulate: keys.simulate,
        ..known
    }
}

/// A provider of the catalogue without a table; its key is in the usual variable.
pub(super) fn known(
    scope: &ReaderScope<'_>,
    entry: &'static CatalogueEntry,
    offset: usize,
    env_proxies: &EnvProxies,
) -> Option<Provider> {
    let name = entry.name.clone();
    let served = entry.serves.iter().filter(|served| !served.only_if_named);
    let spoken =
        |served: &ServedDialect| spoken(scope, served.dialect, fill(scope, &served.base_url, &[])?, Some(served), &[]);
    let mut dialects: Vec<ProviderDialect> = served.filter_map(spoken).collect();
    dialects
        .iter_mut()
        .for_each(|spoken| spoken.transport = RawTransport::default().for_url(&spoken.base_url, env_proxies));
    let Some(provider) = bare(name.clone(), Some(entry), dialects) else {
        let message = format!("provider {name} has no address of its own");
        let expected = format!("a table [providers.{name}] with {} and a key", what_it_needs(entry));
        scope.wrong(offset, message, expected);
        return None;
    };
    let key_sources = used_variable(scope, entry).map(str::to_owned).into_iter().collect();
    Some(Provider { keys: usual_key(scope, entry, offset), key_sources, ..provider })
}

/// A provider of the catalogue that the file does not mention. None: its variables hold no usable key, or it needs a table.
pub(super) fn unmentioned(
    scope: &ReaderScope<'_>,
    entry: &'static CatalogueEntry,
    env_proxies: &EnvProxies,
) -> Option<Provider> {
    if entry.only_if_named || !entry.has_address(scope.env) {
        return None;
    }
    let set: Vec<&str> = entry.set_variables(scope.env).collect();
    let Some(variable) = set.first() else {
        let placeholder = entry
            .key_variables()
            .find(|variable| (scope.env)(variable).as_deref().is_some_and(catalogue::is_placeholder));
        if let Some(variable) = placeholder {
            scope.warn(format!("{variable} holds a placeholder and no key: {} is off", entry.name));
        }
        return None;
    };
    if let Some(other) = set.iter().find(|other| (scope.env)(other) != (scope.env)(variable)) {
        scope.warn(format!("{variable} and {other} hold different keys: {} uses that of {variable}", entry.name));
    }
    // The file does not mention the variable, so a bad value is no problem of the file.
    let apart = ReaderScope::new(scope.env, scope.limits);
    let provider = known(&apart, entry, 0, env_proxies)?;
    let (problems, warnings) = apart.finish("", "");
    warnings.into_iter().for_each(|warning| scope.warn(warning));
    if !problems.is_empty() {
        scope.warn(format!("{variable} is set and cannot be used as a key: requests cannot name {}", provider.name));
    }
    Some(provider).filter(|provider| matches!(provider.keys, Keys::Keys(_)))
}

/// A simulated provider speaks the simulator's dialect.
fn simulated(raw: RawProvider) -> Option<Provider> {
    raw.typed.simulate.as_ref()?;
    let spoken = ProviderDialect {
        dialect: Dialect::OpenAi,
        base_url: String::new(),
        auth: Auth::Bearer,
        headers: HeaderMap::new(),
        transport: Transport::default(),
    };
    let bare = bare(raw.name.value, None, vec![spoken])?;
    Some(with_table(Provider { cancel_billing: CancelBilling::Stops, prefix: Prefix::Off, ..bare }, raw.typed))
}

/// Its dialects, at least one. None: they are unknown, which is reported.
fn dialects(
    scope: &ReaderScope<'_>,
    raw: &RawProvider,
    entry: Option<&'static CatalogueEntry>,
) -> Option<Vec<ProviderDialect>> {
    let own_url = match (&raw.typed.base_url, raw.has_base_url) {
        // Wrong, and reported.
        (None, true) => return None,
        (url, _) => url.as_deref(),
    };
    let wanted: Vec<Located<Dialect>> = match (raw.typed.dialect.is_empty(), entry) {
        (false, _) => {
            raw.typed.dialect.iter().map(|named| Located { offset: named.offset, value: named.value }).collect()
        }
        (true, None) => vec![Located { offset: raw.name.offset, value: Dialect::OpenAi }],
        (true, Some(entry)) => {
            let unsaid =
                |served: &&ServedDialect| !served.only_if_named && (own_url.is_none() || shares_address(entry, served));
            let at = |served: &ServedDialect| Located { offset: raw.name.offset, value: served.dialect };
            entry.serves.iter().filter(unsaid).map(at).collect()
        }
    };
    let mut dialects = Vec::new();
    for Located { offset, value: dialect } in wanted {
        let served = entry.and_then(|entry| entry.served(dialect));
        let url = match (own_url, served) {
            (Some(url), _) => Some(url.to_owned()),
            (None, Some(served)) => fill(scope, &served.base_url, &raw.parts),
            (None, None) => None,
        };
        let Some(url) = url else {
            report_no_address(scope, raw, entry, offset, dialect);
            return None;
        };
        dialects.extend(spoken(scope, dialect, url, served, &raw.parts));
    }
    Some(dialects).filter(|dialects| !dialects.is_empty())
}

/// A configured address serves this dialect too: dialects with one path in the catalogue have one path elsewhere. The address
/// is meant for the OpenAI dialect, if there is one.
fn shares_address(entry: &CatalogueEntry, served: &ServedDialect) -> bool {
    let meant = entry.served(Dialect::OpenAi).filter(|served| !served.only_if_named).unwrap_or(&entry.serves[0]);
    meant.base_url == served.base_url
}

fn report_no_address(
    scope: &ReaderScope<'_>,
    raw: &RawProvider,
    entry: Option<&'static CatalogueEntry>,
    offset: usize,
    dialect: Dialect,
) {
    let name = &raw.name.value;
    let title = shown(name);
    match entry {
        Some(entry) if entry.served(dialect).is_none() => {
            let known: Vec<&str> = entry.serves.iter().map(|served| served.dialect.as_str()).collect();
            let message = format!("[providers.{title}] is not known to speak {}", dialect.as_str());
            let expected = format!("base_url, or one of {}", known.join(", "));
            scope.wrong(offset, message, expected);
        }
        Some(entry) => {
            let message = format!("[providers.{title}] has no address");
            scope.wrong(offset, message, what_it_needs(entry));
        }
        None => {
            let message = format!("[providers.{title}] has no address");
            let problem =
                LocatedProblem::at(raw.name.offset, message).expected("base_url = \"https://…\" or simulate = {…}");
            scope.report(problem.nearest(name, catalogue::entries().map(|entry| entry.name.as_str())));
        }
    }
}

fn what_it_needs(entry: &CatalogueEntry) -> &'static str {
    if entry.serves[0].base_url.contains("{project}") {
        "project = \"…\", or base_url = \"https://…\""
    } else {
        "base_url = \"https://…\""
    }
}

fn spoken(
    scope: &ReaderScope<'_>,
    dialect: Dialect,
    base_url: String,
    served: Option<&ServedDialect>,
    parts: &[(&'static str, Located<String>)],
) -> Option<ProviderDialect> {
    if base_url_problem(&base_url).is_some() {
        return None;
    }
    let mut auth = served.map_or_else(|| Auth::usual(dialect), ServedDialect::auth);
    if let Auth::SigV4 { region } = &mut auth {
        *region = part(parts, "region").map_or_else(|| usual_region(scope), str::to_owned);
    }
    let mut headers = HeaderMap::new();
    if dialect == Dialect::Anthropic {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    Some(ProviderDialect { dialect, base_url, auth, headers, transport: Transport::default() })
}

fn part<'a>(parts: &'a [(&'static str, Located<String>)], key: &str) -> Option<&'a str> {
    parts.iter().find(|(other, _)| *other == key).map(|(_, text)| text.value.as_str())
}

fn usual_region(scope: &ReaderScope<'_>) -> String {
    let is_region = |text: &String| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (scope.env)("AWS_REGION").filter(is_region).unwrap_or_else(|| REGION.to_owned())
}

/// An address of the catalogue with the parts in braces filled in. None: there is none, or a part is unknown.
fn fill(scope: &ReaderScope<'_>, address: &str, parts: &[(&'static str, Located<String>)]) -> Option<String> {
    if address.is_empty() {
        return None;
    }
    let location = part(parts, "location").unwrap_or(LOCATION);
    let host = match location {
        LOCATION => "aiplatform.googleapis.com".to_owned(),
        location => format!("{location}-aiplatform.googleapis.com"),
    };
    let mut url = address.replace("{host}", &host).replace("{location}", location);
    if let Some(variable) = address_variable(address) {
        let own = (scope.env)(variable).filter(|own| !own.is_empty())?;
        url = url.replace(&format!("{{{variable}}}"), own.trim().trim_end_matches('/'));
    }
    if url.contains("{region}") {
        url = url.replace("{region}", &part(parts, "region").map_or_else(|| usual_region(scope), str::to_owned));
    }
    if url.contains("{project}") {
        url = url.replace("{project}", part(parts, "project")?);
    }
    Some(url)
}

/// Reports keys that would have no effect.
fn check_parts(
    scope: &ReaderScope<'_>,
    raw: &RawProvider,
    entry: Option<&'static CatalogueEntry>,
    dialects: &Option<Vec<ProviderDialect>>,
) {
    let Some(dialects) = dialects else { return };
    let signed = dialects.iter().any(|spoken| matches!(spoken.auth, Auth::SigV4 { .. }));
    let has_part = |key: &str| {
        let braces = format!("{{{key}}}");
        raw.typed.base_url.is_none() && entry.is_some_and(|entry| entry.serves[0].base_url.contains(&braces))
    };
    for (key, text) in &raw.parts {
        let used = match *key {
            "region" => signed,
            "api_version" => {
                dialects.iter().any(|spoken| matches!(spoken.dialect, Dialect::OpenAi | Dialect::Responses))
            }
            key => has_part(key),
        };
        if !used {
            let message = format!("\"{key}\" in [providers.{}] has no effect", shown(&raw.name.value));
            scope.wrong(
                text.offset,
                message,
                match *key {
                    "region" => "the dialect bedrock",
                    "api_version" => "the dialect openai or responses, at Azure",
                    _ => "the provider vertex, without base_url",
                },
            );
        }
    }
    check_api_version(scope, raw);
    if raw.has_aws && !signed {
        let message = format!("\"aws\" in [providers.{}] has no effect", shown(&raw.name.value));
        scope.wrong(raw.name.offset, message, "the dialect bedrock");
    }
}

/// Checks the version of Azure's dated API, which has another path than its newer one.
fn check_api_version(scope: &ReaderScope<'_>, raw: &RawProvider) {
    let Some((_, version)) = raw.parts.iter().find(|(key, _)| *key == "api_version") else { return };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = version.value.splitn(4, '-');
    let mut part = |count| parts.next().is_some_and(|text| digits(text, count));
    let is_date = part(4) && part(2) && part(2) && matches!(parts.next(), None | Some("preview"));
    let name = shown(&raw.name.value);
    if !is_date && !matches!(version.value.as_str(), "preview" | "latest") {
        let message = format!("bad value for \"api_version\" in [providers.{name}]");
        scope.wrong(version.offset, message, "a date such as \"2024-10-21\" or \"2025-04-01-preview\"");
    }
    if raw.typed.base_url.as_ref().is_some_and(|url| !url.trim_end_matches('/').ends_with("/openai")) {
        let message = format!("\"api_version\" in [providers.{name}] goes with another base_url");
        scope.wrong(version.offset, message, "a base_url that ends in /openai, or no api_version");
    }
}

/// The variable that its key is read from: the first that is set, or the usual one.
fn used_variable<'e>(scope: &ReaderScope<'_>, entry: &'e CatalogueEntry) -> Option<&'e str> {
    entry.set_variables(scope.env).next().or(entry.key_variable.as_deref())
}

fn usual_key(scope: &ReaderScope<'_>, entry: &CatalogueEntry, offset: usize) -> Keys {
    let Some(variable) = used_variable(scope, entry) else { return Keys::NotConfigured };
    if (scope.env)(variable).as_deref().is_some_and(catalogue::is_placeholder) {
        return Keys::Off(vec![variable.to_owned()]);
    }
    let typed = Located { offset, value: format!("${{{variable}}}") };
    match text::secret(scope, variable, &typed) {
        Secret::Set(key) => Keys::Keys(vec![key]),
        Secret::Unset(names) => Keys::Off(names),
        Secret::Bad => Keys::Off(Vec::new()),
    }
}

/// Warns of a variable that is not set and differs by a letter or two from a usual one that is.
pub(super) fn of_variables(scope: &ReaderScope<'_>, provider: &str, keys: &Keys) {
    let Keys::Off(unset) = keys else { return };
    let usual = || catalogue::entries().flat_map(CatalogueEntry::key_variables);
    for name in unset.iter().filter(|name| usual().all(|usual| usual != name.as_str())) {
        let is_meant = |usual: &&str| {
            strsim::levenshtein(name, usual) <= 2 && (scope.env)(usual).is_some_and(|value| !value.is_empty())
        };
        if let Some(usual) = usual().find(is_meant) {
            scope.warn(format!("provider {provider}: {name} is not set; did you mean {usual}, which is set?"));
        }
    }
}

/// Warns of a base URL without the version path, or with the path of a call.
pub(super) fn of_path(
    scope: &ReaderScope<'_>,
    provider: &str,
    url: &str,
    entry: Option<&'static CatalogueEntry>,
    dialects: &[ProviderDialect],
) {
    let path = url.parse::<Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned()).unwrap_or_default();
    let call = ["/chat/completions", "/responses", "/messages"].into_iter().find(|call| path.ends_with(call));
    if let Some(call) = call {
        scope.warn(format!(
            "provider {provider}: base_url ends in {call}, which the gateway appends itself: leave it out"
        ));
    }
    let versioned = |spoken: &ProviderDialect| {
        let known = entry.and_then(|entry| entry.served(spoken.dialect));
        let usual = known.is_none_or(|served| served.base_url.ends_with("/v1"));
        usual && matches!(spoken.dialect, Dialect::OpenAi | Dialect::Responses | Dialect::Anthropic)
    };
    if path.is_empty() && dialects.iter().any(versioned) {
        scope.warn(format!("provider {provider}: base_url has no version path; most servers answer at {url}/v1"));
    }
}

/// Warns if a provider is to be asked for a list of its models and none of its dialects has one.
pub(super) fn of_discovery(
    scope: &ReaderScope<'_>,
    provider: &str,
    discover: Option<bool>,
    dialects: &[ProviderDialect],
) {
    if discover == Some(true) && dialects.iter().all(|spoken| spoken.dialect.model_list_path().is_none()) {
        scope.warn(format!("provider {provider}: discover has no effect, because its dialect has no list of models"));
    }
}
