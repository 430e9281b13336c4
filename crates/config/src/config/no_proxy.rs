//! `NO_PROXY`: the hosts that are reached without the environment's proxy. It takes all forms that common clients take:
//! names with their subdomains (`corp`, `.corp`, `*.corp`), addresses, networks and `*`, each with or without a port.
//!
//! Not for the proxies themselves: see `transport`.

use std::net::IpAddr;

use http::Uri;
use ipnet::IpNet;

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
