//! The proxy and the certificate authorities of connections to a provider.
//!
//! The proxy is the provider's own `proxy`, else the environment's (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`), unless `NO_PROXY`
//! names the host. Connections to this machine are always direct. No message quotes a proxy's URL: it may contain a password.
//! Not for the connections themselves: see `upstream`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use ipnet::IpNet;
use ring::digest::{self, SHA256};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::certificate;
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable};
use photofinish_base::files::FileLimits;

/// The proxy and the authorities of a connection. Only providers with equal ones share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transport {
    /// None: a direct connection.
    pub proxy: Option<Arc<Proxy>>,
    /// Trusted in addition to the system's. None: only the system's.
    pub authorities: Option<Arc<Authorities>>,
}

impl Transport {
    /// The transport that the environment's variables ask for. One of them that names no proxy is passed over.
    pub(super) fn of_environment(url: &str) -> Transport {
        let env = |name: &str| std::env::var(name).ok();
        let scope = ReaderScope::new(&env, FileLimits::once());
        RawTransport::default().for_url(url, &EnvProxies::read(&scope))
    }
}

/// An HTTP proxy that opens tunnels (`CONNECT`).
#[derive(PartialEq, Eq, Hash)]
pub struct Proxy {
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// The value of `proxy-authorization`: a secret.
    authorization: Option<String>,
}

/// The certificates of `ca_file`.
pub struct Authorities {
    /// Absolute.
    pub path: PathBuf,
    /// At least one.
    pub certificates: Vec<CertificateDer<'static>>,
    /// SHA-256 of the certificates; it changes when the file does.
    digest: digest::Digest,
}

impl Proxy {
    /// The value of `proxy-authorization`, if the URL has a user name.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Parses `http://user:password@proxy:3128`; `http://` may be left out.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that does not quote the URL.
    fn parse(url: &str) -> Result<Proxy, String> {
        if let Some((scheme, _)) = url.split_once("://")
            && !scheme.eq_ignore_ascii_case("http")
        {
            let scheme = shown(scheme);
            return Err(format!("has the scheme \"{scheme}\", and only http:// proxies can be used"));
        }
        let no_url = || "is no URL of a proxy".to_owned();
        let found =
            Matcher::builder().all(url).build().intercept(&Uri::from_static("http://any")).ok_or_else(no_url)?;
        let authority = found.uri().authority().ok_or_else(no_url)?;
        let port = authority.port().map(|port| format!(":{}", port.as_str())).unwrap_or_default();
        let is_valid = port.is_empty() || authority.port_u16().is_some_and(|port| port > 0);
        if authority.host().is_empty() || !is_valid || authority.as_str() != format!("{}{port}", authority.host()) {
            return Err("has no host, or a port that is none".to_owned());
        }
        let authorization = found.basic_auth().and_then(|value| value.to_str().ok()).map(str::to_owned);
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        Ok(Proxy { host, port: authority.port_u16().unwrap_or(80), authorization })
    }
}

impl fmt::Display for Proxy {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl PartialEq for Authorities {
    /// Two are equal if they have the same certificates, from whichever file.
    fn eq(&self, other: &Authorities) -> bool {
        self.digest.as_ref() == other.digest.as_ref()
    }
}

impl Eq for Authorities {}

impl Hash for Authorities {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.as_ref().hash(state);
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorities").field("path", &self.path).finish_non_exhaustive()
    }
}

/// `proxy` and `ca_file` of a provider, as typed.
#[derive(Default)]
pub(super) struct RawTransport {
    pub(super) proxy: Option<Located<ProxyChoice>>,
    pub(super) authorities: Option<Located<Arc<Authorities>>>,
}

/// `proxy = …`; without the key, the environment decides.
#[derive(Clone)]
pub(super) enum ProxyChoice {
    /// `proxy = "none"`
    Direct,
    Through(Arc<Proxy>),
}

pub(super) fn read_proxy(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<ProxyChoice>> {
    let text = table.text(key)?;
    let url = text.value.as_str();
    if url == "none" {
        return Some(Located { offset: text.offset, value: ProxyChoice::Direct });
    }
    match Proxy::parse(url) {
        Ok(proxy) => {
            if proxy.authorization.is_some() && text.typed == url {
                table.scope.note_secret();
            }
            Some(Located { offset: text.offset, value: ProxyChoice::Through(Arc::new(proxy)) })
        }
        Err(why) => {
            let problem = LocatedProblem::at(text.offset, format!("{} {why}", table.what(key)));
            table.scope.report(problem.expected("\"http://proxy.example.com:3128\", or \"none\""));
            None
        }
    }
}

pub(super) fn read_ca_file(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<Arc<Authorities>>> {
    let path = certificate::path(table, key)?;
    match authorities(table.scope, path.value) {
        Ok(authorities) => Some(Located { offset: path.offset, value: Arc::new(authorities) }),
        Err(why) => {
            let problem = LocatedProblem::at(path.offset, format!("{} {why}", table.what(key)));
            table.scope.report(problem.expected("a file in PEM form with the certificates to trust"));
            None
        }
    }
}

impl RawTransport {
    /// The transport for an address.
    pub(super) fn for_url(&self, base_url: &str, env_proxies: &EnvProxies) -> Transport {
        let proxy = match &self.proxy {
            _ if is_local(base_url) => None,
            None => env_proxies.proxy(base_url),
            Some(Located { value: ProxyChoice::Direct, .. }) => None,
            Some(Located { value: ProxyChoice::Through(proxy), .. }) => Some(proxy.clone()),
        };
        let authorities = self.authorities.as_ref().filter(|_| is_https(base_url));
        Transport { proxy, authorities: authorities.map(|authorities| authorities.value.clone()) }
    }

    /// Reports keys that have no effect. `name`: of the provider's table.
    pub(super) fn check<'a>(
        &self,
        scope: &ReaderScope<'_>,
        name: &str,
        base_urls: impl Iterator<Item = &'a str> + Clone,
    ) {
        if let Some(Located { offset, value: ProxyChoice::Through(_) }) = self.proxy
            && base_urls.clone().all(is_local)
        {
            let message = format!("\"proxy\" in {name} has no effect: the address is on this machine");
            scope.wrong(offset, message, "no proxy, or another base_url");
        }
        if let Some(Located { offset, .. }) = self.authorities
            && !base_urls.clone().any(is_https)
        {
            let message = format!("\"ca_file\" in {name} has no effect: the address has no TLS");
            scope.wrong(offset, message, "no ca_file, or a base_url with https");
        }
    }
}

/// The usable certificates of the file: at least one.
fn authorities(scope: &ReaderScope<'_>, path: PathBuf) -> Result<Authorities, String> {
    let mut certificates = certificate::certificates(scope, &path)?;
    // A certificate that cannot be read is skipped, as in the system's own store.
    certificates.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if certificates.is_empty() {
        return Err(format!("holds no certificate of an authority that can be used: {}", path.display()));
    }
    let mut digest = digest::Context::new(&SHA256);
    certificates.iter().for_each(|certificate| digest.update(certificate));
    Ok(Authorities { path, certificates, digest: digest.finish() })
}

/// The proxies that the environment names.
pub(super) struct EnvProxies {
    https: Option<Arc<Proxy>>,
    http: Option<Arc<Proxy>>,
    unless: NoProxy,
}

impl EnvProxies {
    /// Upper case takes precedence. A proxy that cannot be used is only a warning: the variable is not part of the config.
    pub(super) fn read(scope: &ReaderScope<'_>) -> EnvProxies {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| Some((*name, (scope.env)(name).filter(|value| !value.is_empty())?)))
        };
        let proxy = |names: [&'static str; 4]| {
            let (name, url) = first(&names)?;
            match Proxy::parse(&url) {
                Ok(proxy) => Some(Arc::new(proxy)),
                Err(why) => {
                    scope.warn(format!("the variable {name} {why}: providers are connected to directly"));
                    None
                }
            }
        };
        let https = proxy(["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]);
        let http = proxy(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]);
        let unless = first(&["NO_PROXY", "no_proxy"]).map(|(_, list)| NoProxy::parse(&list)).unwrap_or_default();
        EnvProxies { https, http, unless }
    }

    fn proxy(&self, base_url: &str) -> Option<Arc<Proxy>> {
        if self.unless.spares(&base_url.parse().ok()?) {
            return None;
        }
        if is_https(base_url) { self.https.clone() } else { self.http.clone() }
    }
}

fn is_https(base_url: &str) -> bool {
    base_url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"))
}

/// The text of the address names this machine. A simulated provider has no address until it listens.
pub(super) fn is_local(base_url: &str) -> bool {
    let Ok(uri) = base_url.parse::<Uri>() else { return true };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback() || ip.is_unspecified(),
        Err(_) => {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

/// The list; empty if the variable is not set.
#[derive(Default)]
pub(super) struct NoProxy(Vec<Entry>);

struct Entry {
    hosts: Hosts,
    /// None: every port.
    port: Option<u16>,
}

enum Hosts {
    All,
    Network(IpNet),
    /// This name and its subdomains; in lower case, without dots around it.
    Name(String),
}

impl NoProxy {
    /// Entries are separated by commas or white space; what is none of them is passed over, as in other clients.
    pub(super) fn parse(list: &str) -> NoProxy {
        let words = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        NoProxy(words.filter_map(Entry::parse).collect())
    }

    /// Whether an address is reached directly.
    pub(super) fn spares(&self, url: &Uri) -> bool {
        let Some(host) = url.host() else { return false };
        let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
        let port = url.port_u16().unwrap_or(usual);
        self.0.iter().filter(|entry| entry.port.is_none_or(|listed| listed == port)).any(|entry| match &entry.hosts {
            Hosts::All => true,
            Hosts::Network(network) => address.is_some_and(|address| network.contains(&address)),
            Hosts::Name(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        })
    }
}

impl Entry {
    fn parse(word: &str) -> Option<Entry> {
        // An address first: not every colon is that of a port.
        if let Some(network) = network(word) {
            return Some(Entry { hosts: Hosts::Network(network), port: None });
        }
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (word, None),
        };
        let hosts = if host == "*" {
            Hosts::All
        } else if let Some(network) = network(host) {
            Hosts::Network(network)
        } else {
            let name = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host).trim_matches('.');
            Hosts::Name(Some(name.to_ascii_lowercase()).filter(|name| !name.is_empty())?)
        };
        Some(Entry { hosts, port })
    }
}

/// An address, in brackets or not, or a network.
fn network(text: &str) -> Option<IpNet> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text.parse().ok().or_else(|| Some(IpNet::from(text.parse::<IpAddr>().ok()?.to_canonical())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_entry_is_read() {
        let table = [
            // A name and its subdomains.
            ("corp.example", "http://corp.example/v1", true),
            ("corp.example", "https://gpu.corp.example:9/v1", true),
            ("corp.example", "http://notcorp.example", false),
            (".corp.example", "http://gpu.corp.example", true),
            (".corp.example", "http://corp.example", true),
            ("*.corp.example", "http://gpu.corp.example:9/v1", true),
            ("*.corp.example", "http://corp.example.org", false),
            ("*.corp", "http://a.b.CORP./v1", true),
            ("CORP.example.", "http://gpu.corp.EXAMPLE", true),
            ("*corp.example", "http://gpu.corp.example", false),
            // With a port.
            ("gpu.corp.example:9", "http://gpu.corp.example:9/v1", true),
            ("gpu.corp.example:9", "http://gpu.corp.example:90/v1", false),
            ("*.corp.example:443", "https://gpu.corp.example/v1", true),
            ("corp.example:80", "https://corp.example", false),
            ("corp.example:port", "http://corp.example", false),
            // Addresses and networks.
            ("10.1.2.3", "http://10.1.2.3:8000", true),
            ("10.1.2.3:8000", "http://10.1.2.3:8000", true),
            ("10.1.2.3:8000", "http://10.1.2.3:8001", false),
            ("10.0.0.0/8", "http://10.1.2.3", true),
            ("10.0.0.0/8", "http://11.1.2.3", false),
            ("fd00::1", "http://[fd00::1]:8000", true),
            ("[fd00::1]", "http://[fd00::1]", true),
            ("[fd00::1]:8000", "http://[fd00::1]:8000", true),
            ("[fd00::1]:8000", "http://[fd00::1]", false),
            ("fd00::/8", "http://[fd12::1]", true),
            ("10.1.2.3", "http://[::ffff:10.1.2.3]", true),
            // Everything.
            ("*", "http://10.1.2.3", true),
            ("*", "https://api.example", true),
            ("*:8000", "http://api.example:8000", true),
            ("*:8000", "http://api.example", false),
            // Lists.
            (" a.test , *.corp.example", "http://gpu.corp.example", true),
            ("a.test b.test\tcorp.example", "http://corp.example", true),
            ("a.test,,.,:80,*.", "http://corp.example", false),
            ("", "http://corp.example", false),
        ];
        for (list, url, expected) in table {
            assert_eq!(NoProxy::parse(list).spares(&url.parse().unwrap()), expected, "{list:?} {url}");
        }
    }
}
