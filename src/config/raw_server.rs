//! `[server]` as it was typed. `resolve` checks whether others may reach the listeners.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;

use super::certificate::{self, ListenerCertificate};
use super::problem::LocatedProblem;
use super::reader::{Located, TomlTable};
use super::text;
use super::units::DURATION_MAX;
use super::{Cors, Listen};

/// What is `None` or empty was not typed, or is wrong and reported.
#[derive(Default)]
pub(super) struct RawServer {
    pub(super) listen: Vec<Located<Listen>>,
    pub(super) tls: Option<ListenerCertificate>,
    pub(super) trusted_proxies: Vec<IpNet>,
    pub(super) body_max: Option<u64>,
    pub(super) memory: Option<u64>,
    pub(super) max_in_flight: Option<u64>,
    pub(super) event_max: Option<u64>,
    pub(super) drain: Option<Duration>,
    pub(super) hosts: Vec<String>,
    pub(super) cors: Cors,
}

/// Entries of `listen`.
const LISTENERS_MAX: usize = 16;
/// Entries of `trusted_proxies`.
const PROXIES_MAX: usize = 256;
/// Origins of web pages.
const ORIGINS_MAX: usize = 256;
/// Names of the gateway.
const HOSTS_MAX: usize = 256;
/// Bytes; less would refuse an ordinary prompt, more would not fit into memory a few times.
const BODY_MAX: RangeInclusive<u64> = 1024..=(1 << 30);
/// Bytes; less would refuse ordinary prompts.
const MEMORY: RangeInclusive<u64> = (1 << 20)..=(1 << 40);
const MAX_IN_FLIGHT: RangeInclusive<u64> = 1..=1_000_000;
/// Bytes; less would break ordinary answers, more is no event.
const EVENT_MAX: RangeInclusive<u64> = (16 << 10)..=(64 << 20);

impl RawServer {
    pub(super) fn read(mut server: TomlTable<'_, '_>) -> RawServer {
        let raw = RawServer {
            listen: read_listen(&mut server),
            tls: certificate::read(&mut server),
            trusted_proxies: read_proxies(&mut server),
            body_max: server.bytes("body_max", BODY_MAX),
            memory: server.bytes("memory", MEMORY),
            max_in_flight: server.integer("max_in_flight", MAX_IN_FLIGHT),
            event_max: server.bytes("event_max", EVENT_MAX),
            drain: server.duration("drain", Duration::ZERO..=DURATION_MAX),
            hosts: read_hosts(&mut server),
            cors: read_cors(&mut server),
        };
        server.finish();
        raw
    }
}

/// One address or several, each once.
fn read_listen(server: &mut TomlTable<'_, '_>) -> Vec<Located<Listen>> {
    const EXPECTED: &str =
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:/path/of/a/socket\"";
    let what = server.what("listen");
    let Some(typed) = server.strings("listen") else { return Vec::new() };
    if typed.is_empty() {
        server.scope.report(LocatedProblem::at(server.offset, format!("{what} is an empty list")).expected(EXPECTED));
    }
    if let Some(first) = typed.get(LISTENERS_MAX) {
        server
            .scope
            .report(LocatedProblem::at(first.offset, format!("{what} has more than {LISTENERS_MAX} addresses")));
    }
    let mut listen: Vec<Located<Listen>> = Vec::new();
    for typed in typed.into_iter().take(LISTENERS_MAX) {
        let Some(text) = text::plain(server.scope, &what, typed) else { continue };
        match Listen::parse(&text.value.value) {
            None => server.scope.report(server.bad_value("listen", &text).expected(EXPECTED)),
            Some(address) if listen.iter().any(|other| other.value.is_same(&address)) => {
                server.scope.report(LocatedProblem::at(text.offset, format!("{what} has {address} twice")));
            }
            Some(address) => listen.push(Located { offset: text.offset, value: address }),
        }
    }
    listen
}

/// Addresses, and networks in CIDR form.
fn read_proxies(server: &mut TomlTable<'_, '_>) -> Vec<IpNet> {
    const EXPECTED: &str = "an IP address or a network, such as \"10.0.0.0/8\"";
    let what = server.what("trusted_proxies");
    let typed = server.strings("trusted_proxies").unwrap_or_default();
    if let Some(first) = typed.get(PROXIES_MAX) {
        server.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {PROXIES_MAX} networks")));
    }
    let mut networks = Vec::new();
    for typed in typed.into_iter().take(PROXIES_MAX) {
        let Some(text) = text::plain(server.scope, &what, typed) else { continue };
        let value = text.value.value.as_str();
        let network = value.parse().or_else(|_| value.parse::<IpAddr>().map(IpNet::from));
        match network {
            Ok(network) => {
                if network.prefix_len() == 0 {
                    server.scope.warn(format!("{what} trusts every address: whoever connects may name any client"));
                }
                networks.push(network.trunc());
            }
            Err(_) => server.scope.report(server.bad_value("trusted_proxies", &text).expected(EXPECTED)),
        }
    }
    networks
}

/// Names without a port: which one a client reaches the gateway by says nothing of who it is.
fn read_hosts(server: &mut TomlTable<'_, '_>) -> Vec<String> {
    const EXPECTED: &str =
        "a name without scheme and port, such as \"gateway.internal\"; localhost and IP addresses are known";
    let what = server.what("hosts");
    let typed = server.strings("hosts").unwrap_or_default();
    if let Some(first) = typed.get(HOSTS_MAX) {
        server.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {HOSTS_MAX} names")));
    }
    let mut hosts = Vec::new();
    for typed in typed.into_iter().take(HOSTS_MAX) {
        let Some(text) = text::plain(server.scope, &what, typed) else { continue };
        let name = text.value.value.strip_suffix('.').unwrap_or(&text.value.value);
        if is_host(name) {
            hosts.push(name.to_ascii_lowercase());
        } else {
            server.scope.report(server.bad_value("hosts", &text).expected(EXPECTED));
        }
    }
    hosts
}

/// As DNS has it, with the underscores that containers have in their names.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// An origin is what a browser calls the place of a page: no path, and the port only where it is not the usual one.
fn read_cors(server: &mut TomlTable<'_, '_>) -> Cors {
    const EXPECTED: &str = "\"*\" alone, or origins such as \"https://app.example.com\"";
    let Some(typed) = server.strings("cors") else { return Cors::None };
    let what = server.what("cors");
    let (mut origins, mut any) = (Vec::new(), false);
    if let Some(first) = typed.get(ORIGINS_MAX) {
        server.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {ORIGINS_MAX} origins")));
    }
    for typed in typed.into_iter().take(ORIGINS_MAX) {
        let Some(text) = text::plain(server.scope, &what, typed) else { continue };
        match text.value.value.as_str() {
            "*" => any = true,
            origin if is_origin(origin) => origins.push(origin.to_ascii_lowercase()),
            _ => server.scope.report(server.bad_value("cors", &text).expected(EXPECTED)),
        }
    }
    match (any, origins.is_empty()) {
        (true, true) => Cors::Any,
        (true, false) => {
            server
                .scope
                .report(LocatedProblem::at(server.offset, format!("{what} has \"*\" and origins")).expected(EXPECTED));
            Cors::Any
        }
        (false, true) => Cors::None,
        (false, false) => Cors::Only(origins),
    }
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    // Browser extensions and apps have schemes of their own.
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_authority = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    is_scheme && !authority.is_empty() && authority.len() <= 255 && authority.chars().all(is_authority)
}
