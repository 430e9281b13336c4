//! `[providers.NAME]` as it was typed. Whether such a provider needs an address is `resolve`'s to know.

use http::{HeaderName, Uri};

use super::problem::LocatedProblem;
use super::reader::{Located, ReaderScope, TomlTable};
use super::text::{self, ExpandedText};
use super::transport::RawTransport;
use super::{CancelBilling, Keys, SimulatedFailure, Simulation, raw_credential};
use crate::protocol::Dialect;
use crate::protocol::prefix::Prefix;

pub(super) struct RawProvider {
    pub(super) name: Located<String>,
    /// Without a slash at the end. None also where it was wrong.
    pub(super) base_url: Option<String>,
    /// Whether `base_url` is there, right or wrong.
    pub(super) has_base_url: bool,
    pub(super) keys: Keys,
    /// Where they come from: names of variables and files.
    pub(super) key_sources: Vec<String>,
    /// What it is said to speak, in order; none where nothing is said, or it was wrong.
    pub(super) dialects: Vec<Located<Dialect>>,
    /// What goes into an address or a path, by its key.
    pub(super) parts: Vec<(&'static str, Located<String>)>,
    /// Whether the key is `aws = { … }`.
    pub(super) has_aws: bool,
    /// Lower case.
    pub(super) forward_headers: Vec<Located<String>>,
    /// What the file says a hang-up does to the bill. None also where it was wrong.
    pub(super) cancel_billing: Option<CancelBilling>,
    /// None also where it was wrong.
    pub(super) omits_finish_reason: Option<bool>,
    pub(super) prefix: Option<Prefix>,
    /// None also where it was wrong.
    pub(super) domain: Option<String>,
    /// `proxy` and `ca_file`.
    pub(super) transport: RawTransport,
    pub(super) simulate: Option<Simulation>,
    /// Whether `simulate` is there, right or wrong.
    pub(super) has_simulate: bool,
}

/// Bytes of what stands in an address or a path.
const PART_MAX: usize = 128;
/// Bytes of a machine park's name.
const DOMAIN_MAX: usize = 64;
/// So many header names may be listed.
const HEADERS_MAX: usize = 64;

/// Headers that never go up from the client: hop by hop, credentials, and those that the gateway sets itself.
const NOT_FORWARDED: [&str; 21] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
    "x-goog-api-key",
];

impl RawProvider {
    pub(super) fn read((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> RawProvider {
        check_name(table.scope, &name);
        let (has_base_url, has_simulate) = (table.has("base_url"), table.has("simulate"));
        let (has_key, has_aws, has_token) = (table.has("api_key"), table.has("aws"), table.has("token"));
        let (has_proxy, has_ca_file) = (table.has("proxy"), table.has("ca_file"));
        let has_dialect = table.has("dialect");
        let (keys, key_sources) = raw_credential::read(&mut table, &name.value, name.offset);
        let base_url = table.text("base_url").and_then(|text| read_base_url(&table, &text));
        let dialects = read_dialects(&mut table);
        let parts: Vec<_> = PARTS.into_iter().filter_map(|key| Some((key, read_part(&mut table, key)?))).collect();
        let forward_headers = read_forward_headers(&mut table);
        let cancel_billing = table.choice("cancel_billing", &CancelBilling::ALL, CancelBilling::as_str);
        let omits_finish_reason = table.boolean("omits_finish_reason");
        let prefix = table.choice("prefix", &Prefix::ALL, Prefix::as_str);
        let domain = read_domain(&mut table);
        let transport = RawTransport::read(&mut table);
        let simulate = read_simulation(&mut table);
        if has_simulate {
            let others = [
                (has_base_url, "base_url"),
                (has_key, "api_key"),
                (has_aws, "aws"),
                (has_token, "token"),
                (has_dialect, "dialect"),
                (has_proxy, "proxy"),
                (has_ca_file, "ca_file"),
            ];
            let parts = parts.iter().map(|(key, _)| (true, *key));
            for (has, key) in others.into_iter().chain(parts) {
                if has {
                    let message = format!("{} is simulated and has \"{key}\" too", table.name);
                    table.scope.report(LocatedProblem::at(name.offset, message).expected("one of the two"));
                }
            }
        }
        table.finish();
        RawProvider {
            name,
            base_url,
            has_base_url,
            keys,
            key_sources,
            dialects,
            parts,
            has_aws,
            forward_headers,
            cancel_billing,
            omits_finish_reason,
            prefix,
            domain,
            transport,
            simulate,
            has_simulate,
        }
    }
}

/// Keys whose values stand in the address or the path of some providers.
pub(super) const PARTS: [&str; 4] = ["region", "project", "location", "api_version"];

fn read_part(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<String>> {
    let text = table.text(key)?;
    let value = &text.value.value;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if value.is_empty() || value.len() > PART_MAX || !value.chars().all(is_part) {
        let expected = format!("at most {PART_MAX} letters, digits, \"-\", \".\", \"_\" and \":\"");
        table.scope.report(table.bad_value(key, &text).expected(expected));
        return None;
    }
    Some(Located { offset: text.offset, value: text.value.value })
}

/// One dialect or several, each once.
fn read_dialects(table: &mut TomlTable<'_, '_>) -> Vec<Located<Dialect>> {
    let mut dialects: Vec<Located<Dialect>> = Vec::new();
    let Some(typed) = table.strings("dialect") else { return dialects };
    let what = table.what("dialect");
    let names = Dialect::ALL.map(Dialect::as_str);
    if typed.is_empty() {
        let message = format!("{what} is an empty list");
        table.scope.report(LocatedProblem::at(table.offset, message).expected(format!("some of {}", names.join(", "))));
    }
    for typed in typed {
        let Some(text) = text::plain(table.scope, &what, typed) else { continue };
        match Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == text.value.value) {
            None => {
                let problem = table.bad_value("dialect", &text).expected(format!("one of {}", names.join(", ")));
                table.scope.report(problem.nearest(&text.value.typed, names));
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
    dialects
}

/// It becomes part of a header's name, `x-photofinish-key-NAME`.
fn check_name(scope: &ReaderScope<'_>, name: &Located<String>) {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let valid = name.value.starts_with(alphanumeric)
        && name.value.len() <= 64
        && name.value.chars().all(|c| alphanumeric(c) || "._-".contains(c));
    if !valid {
        let message = format!("bad provider name \"{}\"", super::problem::shown(&name.value));
        let expected = "at most 64 of a-z, 0-9, \".\", \"_\" and \"-\", beginning with a letter or a digit";
        scope.report(LocatedProblem::at(name.offset, message).expected(expected));
    }
}

/// The URL itself is not quoted when it is wrong: it may hold a password.
fn read_base_url(table: &TomlTable<'_, '_>, text: &Located<ExpandedText>) -> Option<String> {
    let url = text.value.value.as_str();
    match base_url_problem(url) {
        None => Some(url.trim_end_matches('/').to_owned()),
        Some(problem) => {
            let message = format!("{} {problem}", table.what("base_url"));
            let expected = "http or https, a host and the version path, such as \"http://10.0.0.7:8000/v1\"";
            table.scope.report(LocatedProblem::at(text.offset, message).expected(expected));
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

fn read_forward_headers(table: &mut TomlTable<'_, '_>) -> Vec<Located<String>> {
    let what = table.what("forward_headers");
    let typed = table.strings("forward_headers").unwrap_or_default();
    if let Some(first) = typed.get(HEADERS_MAX) {
        table.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {HEADERS_MAX} names")));
    }
    let mut headers: Vec<Located<String>> = Vec::new();
    for header in typed.into_iter().take(HEADERS_MAX) {
        let Some(text) = text::plain(table.scope, &what, header) else { continue };
        let quoted = super::problem::shown(&text.value.typed);
        let Ok(name) = HeaderName::from_bytes(text.value.value.as_bytes()) else {
            let message = format!("\"{quoted}\" in {what} is not a header name");
            table.scope.report(LocatedProblem::at(text.offset, message).expected("a name such as \"x-trace-id\""));
            continue;
        };
        if NOT_FORWARDED.contains(&name.as_str()) || name.as_str().starts_with("x-photofinish-") {
            let message = format!("\"{quoted}\" in {what} is never forwarded");
            let expected = "no credential, no hop-by-hop header and none that the gateway sets itself";
            table.scope.report(LocatedProblem::at(text.offset, message).expected(expected));
        } else if headers.iter().all(|header| header.value != name.as_str()) {
            headers.push(Located { offset: text.offset, value: name.as_str().to_owned() });
        }
    }
    headers
}

/// Any word will do: it is only compared.
fn read_domain(table: &mut TomlTable<'_, '_>) -> Option<String> {
    let text = table.text("domain")?;
    let domain = text.value.value.as_str();
    let is_word = |c: char| c.is_alphanumeric() || "._-".contains(c);
    if domain.is_empty() || domain.len() > DOMAIN_MAX || !domain.chars().all(is_word) {
        let expected = format!("a word of at most {DOMAIN_MAX} bytes, the same for all providers in one machine park");
        table.scope.report(table.bad_value("domain", &text).expected(expected));
        return None;
    }
    Some(domain.to_owned())
}

fn read_simulation(table: &mut TomlTable<'_, '_>) -> Option<Simulation> {
    let name = format!("simulate of {}", table.name);
    let mut table = table.table("simulate", name)?;
    let default = Simulation::default();
    let tokens = u64::from(*Simulation::TOKENS.start())..=u64::from(*Simulation::TOKENS.end());
    let tokens = table.integer("tokens", tokens).and_then(|n| u32::try_from(n).ok());
    let speed = table.number("tokens_per_second", Simulation::TOKENS_PER_SECOND);
    let simulation = Simulation {
        ttft: table.duration("ttft", Simulation::TTFT).unwrap_or(default.ttft),
        jitter: table.number("jitter", Simulation::JITTER).unwrap_or(default.jitter),
        tail: table.number("tail", Simulation::TAIL).unwrap_or(default.tail),
        tokens_per_second: speed.unwrap_or(default.tokens_per_second),
        tokens: tokens.unwrap_or(default.tokens),
        failures: table.number("failures", Simulation::FAILURES).unwrap_or(default.failures),
        failure: table.choice("failure", &SimulatedFailure::ALL, SimulatedFailure::as_str).unwrap_or(default.failure),
        seed: table.integer("seed", 0..=i64::MAX.unsigned_abs()).or(default.seed),
    };
    table.finish();
    Some(simulation)
}
