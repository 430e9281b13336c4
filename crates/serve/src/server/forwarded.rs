//! The client's address behind a trusted proxy, from `x-forwarded-for`.
//!
//! No other header is read: a proxy sets one of them and passes the others on unchanged from the client. Pure.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const HEADER: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: the address of `peer`, unless `peer` is a trusted proxy. None: a trusted proxy sent an invalid
/// entry.
///
/// Each proxy appends the address of its own peer. So the list is read from its end, and the first address that is not
/// trusted is the client's. Any client may have written the entries before it.
pub(super) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Option<IpAddr> {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let mut client = peer.to_canonical();
    for value in headers.get_all(HEADER).iter().rev() {
        for entry in value.as_bytes().rsplit(|byte| *byte == b',') {
            if !is_trusted(client) {
                return Some(client);
            }
            client = address(entry)?;
        }
    }
    Some(client)
}

/// With or without a port.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?.trim();
    let bare = entry.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse().ok().or_else(|| entry.parse().ok().map(|with_port: SocketAddr| with_port.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_what_a_trusted_proxy_appended_is_believed() {
        let trusted: Vec<IpNet> = ["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"].map(|net| net.parse().unwrap()).to_vec();
        for (peer, headers, expected) in [
            ("192.0.2.1", &[][..], Some("192.0.2.1")),
            ("192.0.2.1", &["127.0.0.1"], Some("192.0.2.1")),
            ("10.0.0.1", &[], Some("10.0.0.1")),
            ("10.0.0.1", &["192.0.2.7"], Some("192.0.2.7")),
            ("::ffff:10.0.0.1", &["192.0.2.7"], Some("192.0.2.7")),
            ("10.0.0.1", &["127.0.0.1, 192.0.2.7"], Some("192.0.2.7")),
            ("10.0.0.1", &["127.0.0.1", "192.0.2.7"], Some("192.0.2.7")),
            ("10.0.0.1", &["192.0.2.7, 10.0.0.2", "10.0.0.3"], Some("192.0.2.7")),
            ("10.0.0.1", &["10.0.0.9, 10.0.0.2"], Some("10.0.0.9")),
            ("10.0.0.1", &["192.0.2.7:1234"], Some("192.0.2.7")),
            ("10.0.0.1", &["[2001:db8::1]:80"], Some("2001:db8::1")),
            ("fd00::1", &["2001:db8::1"], Some("2001:db8::1")),
            ("fd00::1", &["::ffff:192.0.2.7"], Some("192.0.2.7")),
            ("10.0.0.1", &["unknown"], None),
            ("10.0.0.1", &["192.0.2.7,"], None),
            ("10.0.0.1", &["unknown, 192.0.2.7"], Some("192.0.2.7")),
            ("10.0.0.1", &["192.0.2.7, _hidden"], None),
        ] {
            let mut sent = HeaderMap::new();
            for value in headers {
                sent.append(HEADER, HeaderValue::from_static(value));
            }
            let found = client(peer.parse().unwrap(), &sent, &trusted);
            assert_eq!(found.map(|address| address.to_string()).as_deref(), expected, "{peer} {headers:?}");
        }
    }
}
