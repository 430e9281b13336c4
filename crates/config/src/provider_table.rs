//! `[providers.NAME]`: its keys. Not for the provider that follows from them: see `configured_provider`.

use std::sync::Arc;

use http::{HeaderName, Uri};

use super::keys::{self, Flag, ParsedText, TableKeys as _, TypedText, choice, inner, keys, nested, own};
use super::names::NamedChoice;
use super::problem::{LocatedProblem, shown};
use super::provider_credential::{AwsKeys, Credential, TokenKeys, read_api_key, read_aws, read_token};
use super::reader::{Located, ReaderScope, TomlTable};
use super::request::{self, RequestKeys, may_be_forwarded};
use super::transport::{Authorities, ProxyChoice, RawTransport, read_ca_file, read_proxy};
use super::{CancelBilling, Keys, Simulation, UpstreamStream};
use photofinish_wire::quirks::ModelRequests;
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
