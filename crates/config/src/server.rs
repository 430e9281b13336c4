//! `[server]`: its keys, and the addresses and socket files on which the gateway listens.
//!
//! Not for the check whether others may reach the listeners: see `resolve`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::net::SocketAddr as SocketFile;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::certificate::{self, ListenerCertificate, TlsKeys};
use super::keys::{
    self, ByteSize, Flag, KeyKind, ParsedTexts, PlainText, Texts, TimeSpan, WholeNumber, choice, keys, own,
};
use super::names::NamedChoice;
use super::problem::LocatedProblem;
use super::reader::{Located, TomlTable};
use super::text::ExpandedText;
use super::units::DURATION_MAX;
use photofinish_base::telemetry::LogFormat;

keys! {
    /// `[server]`
    #[derive(Clone)]
    pub(super) struct ServerKeys {
        /// Where to listen: an IP address and a port, `unix:/path`, or a list of them. An address that other machines can reach needs
        /// `[users]`.
        listen: Vec<Located<Listen>> =
            own(read_listen, |_| keys::one_or_more(keys::text(r"unix:.+|\[[0-9a-fA-F:.]+\]:\d+|[\d.]+:\d+")))
                .shown("127.0.0.1:8080"),
            or Vec::new();
        /// With it, every address in `listen` speaks HTTPS. Changed files are reloaded.
        tls: Option<ListenerCertificate> = own(certificate::read, |generator| generator.subschema_for::<TlsKeys>());
        /// Proxies in front whose `x-forwarded-for` is trusted: addresses, or networks such as `10.0.0.0/8`.
        trusted_proxies: Vec<IpNet> = PROXIES, or Vec::new();
        /// The largest request; a larger one is answered 413.
        body_max: usize = ByteSize(BODY_MAX), or 32 << 20;
        /// What bodies, buffers and connections may take together; a quarter of the machine's memory, and at most half of the
        /// control group's, unless set.
        memory: Option<usize> = ByteSize(MEMORY);
        /// Requests served at once; a further one is answered 503. From memory and descriptors unless set.
        max_in_flight: Option<usize> = WholeNumber(MAX_IN_FLIGHT);
        /// The largest event of an answer; an attempt with a larger one fails.
        event_max: usize = ByteSize(EVENT_MAX), or 64 << 20;
        /// How long a shutdown waits for answers; new clients are served for half of it, and 15 s, at most.
        drain: Duration = TimeSpan(Duration::ZERO..=DURATION_MAX), or Duration::from_secs(600);
        /// How long before that it serves on while `/readyz` says 503, so that a balancer can turn away from it.
        drain_delay: Duration = TimeSpan(Duration::ZERO..=DURATION_MAX), or Duration::ZERO;
        /// Without `[users]`: further names the gateway may be called by; `localhost` and IP addresses always work.
        hosts: Vec<String> = HOSTS, or Vec::new();
        /// Origins of web pages that may call, such as `https://app.example.com`; `*` is any.
        cors: Cors = own(read_cors, |_| keys::one_or_more(keys::text(r"\*|[A-Za-z][A-Za-z0-9+.-]*://.+"))), or Cors::None;
        /// The provider of `/v1/files`, `/v1/batches` and what belongs to them.
        files: Option<ExpandedText> = PlainText;
        /// How long answers of the Responses API are kept for `previous_response_id`, after their last use, and their bytes in memory; `"off"`: none.
        stored: StoredLimits = own(read_stored, stored_schema), or StoredLimits::default();
        /// Whether the Responses API is served over a WebSocket too.
        websocket: bool = Flag, or true;
        /// How a line of the log is written.
        log: LogFormat = choice(), or LogFormat::Text;
    }
}

impl NamedChoice for LogFormat {
    const VARIANTS: &'static [LogFormat] = &LogFormat::ALL;

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn about(self) -> &'static str {
        match self {
            LogFormat::Text => "For people; coloured on a terminal.",
            LogFormat::Json => "One JSON object a line.",
        }
    }
}

/// Addresses in `listen`.
const LISTENERS_MAX: usize = 16;
/// Addresses in `trusted_proxies`.
const PROXIES_MAX: usize = 256;
/// Origins in `cors`.
const ORIGINS_MAX: usize = 256;
/// Names in `hosts`.
const HOSTS_MAX: usize = 256;
/// Bytes of `body_max`: less would refuse an ordinary prompt, several of a larger size would not fit into memory.
const BODY_MAX: RangeInclusive<usize> = 1024..=(1 << 30);
/// Bytes; less would refuse ordinary prompts.
const MEMORY: RangeInclusive<usize> = (1 << 20)..=(1 << 40);
const MAX_IN_FLIGHT: RangeInclusive<usize> = 1..=1_000_000;
/// Bytes of `event_max`: less would break ordinary answers, more is no event.
const EVENT_MAX: RangeInclusive<usize> = (16 << 10)..=(64 << 20);

/// `stored = { for, size }`: what is kept of answers of the Responses API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLimits {
    /// After the last use.
    pub kept_for: Duration,
    /// Bytes; 0: nothing is kept.
    pub size: usize,
}

impl Default for StoredLimits {
    fn default() -> StoredLimits {
        StoredLimits { kept_for: Duration::from_secs(3_600), size: 64 << 20 }
    }
}

/// `stored.for`: how long answers of the Responses API are kept.
const STORED_FOR: RangeInclusive<Duration> = Duration::from_secs(1)..=DURATION_MAX;
/// Bytes; less would hold no ordinary conversation.
const STORED_SIZE: RangeInclusive<usize> = (1 << 20)..=(1 << 40);

fn read_stored(server: &mut TomlTable<'_, '_>, key: &'static str) -> Option<StoredLimits> {
    let usual = StoredLimits::default();
    if server.is_string(key) {
        let text = server.text(key)?;
        if text.value == "off" {
            return Some(StoredLimits { size: 0, ..usual });
        }
        let expected = "\"off\", or a table such as { for = \"1h\", size = \"64MiB\" }";
        server.scope.report(server.bad_value(key, &text).expected(expected));
        return None;
    }
    let mut table = server.inner(key)?;
    let kept_for = KeyKind::read(&TimeSpan(STORED_FOR), &mut table, "for", &usual.kept_for);
    let size = KeyKind::read(&ByteSize(STORED_SIZE), &mut table, "size", &usual.size);
    table.finish();
    Some(StoredLimits { kept_for, size })
}

fn stored_schema(generator: &mut SchemaGenerator) -> Schema {
    let usual = StoredLimits::default();
    let properties = vec![
        ("for", keys::property(generator, "How long after its last use.", &TimeSpan(STORED_FOR), &usual.kept_for)),
        ("size", keys::property(generator, "Bytes of all of them.", &ByteSize(STORED_SIZE), &usual.size)),
    ];
    json_schema!({ "anyOf": [{ "const": "off" }, keys::object(properties)] })
}

fn read_listen(server: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<Located<Listen>>> {
    let typed = server.texts(key, LISTENERS_MAX, "addresses")?;
    let what = server.what(key);
    if typed.is_empty() {
        server.scope.wrong(server.offset, format!("{what} is an empty list"), Listen::EXPECTED);
    }
    let mut listen: Vec<Located<Listen>> = Vec::new();
    for text in typed {
        match Listen::parse(&text.value) {
            None => server.scope.report(server.bad_value(key, &text).expected(Listen::EXPECTED)),
            Some(address) if listen.iter().any(|other| other.value.is_same(&address)) => {
                server.scope.report(LocatedProblem::at(text.offset, format!("{what} has {address} twice")));
            }
            Some(address) => listen.push(Located { offset: text.offset, value: address }),
        }
    }
    Some(listen)
}

/// Addresses, and networks in CIDR form.
const PROXIES: ParsedTexts<IpNet> = ParsedTexts {
    texts: Texts { max: PROXIES_MAX, noun: "networks" },
    parse: |text| {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok();
        network.map(|network: IpNet| network.trunc())
    },
    expected: "an IP address or a network, such as \"10.0.0.0/8\"",
    pattern: r"[0-9a-fA-F.:]+(/\d+)?",
    format: IpNet::to_string,
};

/// Names without a port: which port a client came by proves nothing.
const HOSTS: ParsedTexts<String> = ParsedTexts {
    texts: Texts { max: HOSTS_MAX, noun: "names" },
    parse: |text| {
        let name = text.strip_suffix('.').unwrap_or(text);
        is_host(name).then(|| name.to_ascii_lowercase())
    },
    expected: "a name without scheme and port, such as \"gateway.internal\"; localhost and IP addresses always work",
    pattern: r"[A-Za-z0-9._-]+",
    format: String::clone,
};

/// As in DNS; underscores too, which container names have.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// `cors = [ … ]`: the origins of web pages whose scripts may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// No web page may call: the default.
    #[default]
    None,
    /// Every web page may call: `["*"]`.
    Any,
    /// These origins, as browsers write them: lower case, without a slash at the end.
    Only(Vec<String>),
}

/// An origin has no path, and a port only if it is not the usual one.
fn read_cors(server: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Cors> {
    const EXPECTED: &str = "\"*\" alone, or origins such as \"https://app.example.com\"";
    let (mut origins, mut any) = (Vec::new(), false);
    for text in server.texts(key, ORIGINS_MAX, "origins")? {
        match text.value.as_str() {
            "*" => any = true,
            origin if is_origin(origin) => origins.push(origin.to_ascii_lowercase()),
            _ => server.scope.report(server.bad_value(key, &text).expected(EXPECTED)),
        }
    }
    if any && !origins.is_empty() {
        let message = format!("{} has \"*\" and origins", server.what(key));
        server.scope.wrong(server.offset, message, EXPECTED);
    }
    Some(match (any, origins.is_empty()) {
        (true, _) => Cors::Any,
        (false, true) => Cors::None,
        (false, false) => Cors::Only(origins),
    })
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    // Browser extensions and apps have schemes of their own.
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_authority = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    is_scheme && !authority.is_empty() && authority.len() <= 255 && authority.chars().all(is_authority)
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    /// The absolute path of a socket file. Its owner and group may connect.
    Unix(PathBuf),
}

/// The variable with an address to listen on instead of `listen` in the file.
pub const LISTEN_VARIABLE: &str = "PHOTOFINISH_LISTEN";

impl Listen {
    /// What [`Listen::parse`] takes.
    pub const EXPECTED: &str =
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:/path/of/a/socket\"";

    /// Parses `127.0.0.1:8080` or `unix:/run/photofinish.sock`. None: it is neither, or the path is too long for a socket.
    pub fn parse(text: &str) -> Option<Listen> {
        let Some(path) = text.strip_prefix("unix:") else { return text.parse().ok().map(Listen::Tcp) };
        let absolute = std::path::absolute(path).ok()?;
        let is_file = !path.ends_with('/') && SocketFile::from_pathname(&absolute).is_ok();
        is_file.then_some(Listen::Unix(absolute))
    }

    /// Only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Listen::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Listen::Unix(_) => true,
        }
    }

    /// Its address and port.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        match self {
            Listen::Tcp(_) => None,
            Listen::Unix(path) => Some(path),
        }
    }

    /// The name in the log: `https://127.0.0.1:8443`. A socket file never speaks TLS.
    pub fn url(&self, tls: bool) -> String {
        match self {
            Listen::Tcp(address) => format!("http{}://{address}", if tls { "s" } else { "" }),
            Listen::Unix(_) => self.to_string(),
        }
    }

    /// Both name the same listener. Two ports 0 are different.
    pub(super) fn is_same(&self, other: &Listen) -> bool {
        self == other && self.address().is_none_or(|address| address.port() != 0)
    }
}

impl fmt::Display for Listen {
    /// The form in the config.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
