//! Which requests the gateway answers at all, by their origin: the `Host` header, and the web page that sent the
//! request.
//!
//! A gateway without users trusts every client that reaches it on loopback. Any web page can reach it through its
//! visitor's browser: it can send a request whose answer it may not read, or make its own name resolve to 127.0.0.1 and
//! read the answer too. Browsers report both in headers that no page can change. With users, apps that are pages
//! themselves come in with a token, which no browser adds by itself. Not for tokens: see `proxy`.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};

use super::dashboard;
use crate::config::{Config, Cors};
use crate::proxy::{Rejection, sends_token};

/// The relation between the page that sent a request and the gateway, as its browser reports it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What the browser wants to do with the answer, and where it will stand: together, the address bar of a tab.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Characters allowed in a host name (RFC 3986, reg-name) in addition to letters and digits.
const NAME_MARKS: &[u8] = b"-._~%!$&'()*+,;=";
/// Maximum bytes of a host name, as in DNS.
const NAME_MAX: usize = 255;

/// Who sent a request, as far as its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A program, or one of the gateway's own pages.
    Own,
    /// A page of another origin that `cors` lists.
    Listed,
    /// A desktop app, an extension, or a page of the visitor's own machine. It sends a token, or asks whether it may.
    App,
}

/// Returns who sent it.
///
/// # Errors
/// 400 without exactly one valid `Host`; 421 if there are no users and the host is a name that is not listed; 403 for a
/// page of another origin that is neither listed nor an app's with a token.
pub(super) fn check<B>(request: &Request<B>, config: &Config) -> Result<Sender, Rejection> {
    let host = host(request)?;
    if config.users.is_empty()
        && let Some(host) = &host
        && !host.is_known(&config.server.hosts)
    {
        return Err(Rejection::unknown_host(host.name));
    }
    let headers = request.headers();
    if !is_foreign(headers, host.as_ref()) || is_visit(request) {
        return Ok(Sender::Own);
    }
    if dashboard::is_own(request.uri().path()) {
        return Err(foreign(headers));
    }
    if headers.get(ORIGIN).map_or(config.server.cors == Cors::Any, |origin| names(&config.server.cors, origin)) {
        return Ok(Sender::Listed);
    }
    let asks = request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let is_app = !config.users.is_empty() && (asks || sends_token(headers)) && is_app(headers);
    if is_app { Ok(Sender::App) } else { Err(foreign(headers)) }
}

/// Whether the page is no web site's: its scheme is not the web's, or its host is the visitor's own machine.
fn is_app(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let Some((scheme, authority)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    if !["http", "https", "ws", "wss"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        let mut letters = scheme.bytes();
        return letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    }
    Host::parse(authority).is_some_and(|host| host.is_local())
}

fn foreign(headers: &HeaderMap) -> Rejection {
    Rejection::foreign_page(headers.get(ORIGIN).map(HeaderValue::as_bytes))
}

/// A link on another page that leads to one of the dashboard. A page of the dashboard has no data in itself.
fn is_visit<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let says = |name: &HeaderName, value: &str| headers.get(name).is_some_and(|said| said == value);
    request.method() == Method::GET
        && dashboard::is_own(request.uri().path())
        && !headers.contains_key(ORIGIN)
        && says(&FETCH_MODE, "navigate")
        && says(&FETCH_DEST, "document")
}

/// The requested host. None only in HTTP/1.0, which may omit it: no browser uses HTTP/1.0.
fn host<B>(request: &Request<B>) -> Result<Option<Host<'_>>, Rejection> {
    const EXPECTED: &str = "expected one host, with or without a port, such as localhost:8080";
    let bad = |why: &str| Rejection::header("host", &format!("{why}: {EXPECTED}"));
    let mut sent = request.headers().get_all(HOST).iter();
    let (first, second) = (sent.next(), sent.next());
    if second.is_some() {
        return Err(bad("it is sent more than once"));
    }
    let invalid = || bad("it is no valid host");
    let header = first.map(|value| value.to_str().ok().and_then(Host::parse).ok_or_else(invalid)).transpose()?;
    let uri = request.uri();
    let target = uri.authority().map(|authority| Host::parse(authority.as_str()).ok_or_else(invalid)).transpose()?;
    match (target, header) {
        (Some(target), Some(header)) if !target.is_same(&header, uri.scheme_str().unwrap_or("http")) => {
            Err(bad("it is not the host of the request's target"))
        }
        // HTTP/2 has the host only in its target.
        (Some(target), None) if request.version() == Version::HTTP_2 => Ok(Some(target)),
        (_, Some(header)) => Ok(Some(header)),
        (target, None) if request.version() < Version::HTTP_11 => Ok(target),
        (_, None) => Err(bad("it is missing")),
    }
}

/// Whether a page of another origin sent it. Programs other than browsers send neither header.
fn is_foreign(headers: &HeaderMap, host: Option<&Host<'_>>) -> bool {
    let is_own = |origin: &HeaderValue| {
        let Some((scheme, authority)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
            return false;
        };
        Host::parse(authority).zip(host).is_some_and(|(origin, host)| origin.is_same(host, scheme))
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    let other_origin = origins.next().is_some_and(|origin| !is_own(origin)) || origins.next().is_some();
    // "same-site" is another port or another subdomain, so another page, possibly with another author.
    let other_site = headers.get_all(FETCH_SITE).iter().any(|site| site != "same-origin" && site != "none");
    other_origin || other_site
}

/// Whether pages of this origin may send requests.
pub(super) fn names(cors: &Cors, origin: &HeaderValue) -> bool {
    match cors {
        Cors::None => false,
        Cors::Any => true,
        Cors::Only(origins) => {
            origin.to_str().is_ok_and(|origin| origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin)))
        }
    }
}

/// A host with or without a port, in the syntax of URLs and `Host`.
#[derive(Debug)]
struct Host<'r> {
    /// Without the brackets of an IPv6 address and without a trailing dot.
    name: &'r str,
    port: Option<u16>,
}

impl<'r> Host<'r> {
    fn parse(text: &'r str) -> Option<Host<'r>> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (address, if port.is_empty() { port } else { port.strip_prefix(':')? })
            }
            None => {
                let (name, port) = text.split_once(':').unwrap_or((text, ""));
                let is_valid = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || NAME_MARKS.contains(&byte));
                let name = name.strip_suffix('.').unwrap_or(name);
                ((is_valid && !name.is_empty() && name.len() <= NAME_MAX).then_some(name)?, port)
            }
        };
        let port = match port.bytes().all(|byte| byte.is_ascii_digit()) {
            true if port.is_empty() => None,
            true => Some(port.parse().ok()?),
            false => return None,
        };
        Some(Host { name, port })
    }

    /// Whether no page can have this host as its own name: an address, `localhost`, or a listed name.
    fn is_known(&self, listed: &[String]) -> bool {
        self.name.parse::<Ipv4Addr>().is_ok()
            || self.name.contains(':')
            || self.name.eq_ignore_ascii_case("localhost")
            || listed.iter().any(|listed| listed.eq_ignore_ascii_case(self.name))
    }

    /// Whether it is the machine of the browser, which resolves the names below `localhost` itself.
    fn is_local(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        name == "localhost"
            || name.ends_with(".localhost")
            || self.name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
            || self.name.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether name and port are equal. A missing port is the default port of `scheme`.
    fn is_same(&self, other: &Host<'_>, scheme: &str) -> bool {
        let usual = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
        self.name.eq_ignore_ascii_case(other.name) && self.port.unwrap_or(usual) == other.port.unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    const USER: &str = "[users.a]\ntoken = \"t\"\n";

    /// 200 if the request is accepted.
    fn status(config: &str, version: Version, target: &str, headers: &[(&'static str, &str)]) -> u16 {
        let config = parse(config, Path::new("x"), &|_| None).unwrap();
        let mut request = Request::get(target).version(version).body(()).unwrap();
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        check(&request, &config).map_or_else(|rejection| rejection.status().as_u16(), |_| 200)
    }

    #[test]
    fn without_users_a_host_is_an_address_localhost_or_listed() {
        let hosts = "server.hosts = [\"gateway.internal\", \"Box\"]\n";
        for (host, expected) in [
            ("localhost", 200),
            ("LocalHost:8080", 200),
            ("localhost.", 200),
            ("localhost:", 200),
            ("127.0.0.1:8080", 200),
            ("10.0.0.7", 200),
            ("[::1]", 200),
            ("[::1]:8080", 200),
            ("[2001:DB8::1]:80", 200),
            ("gateway.internal", 200),
            ("GATEWAY.internal.:9000", 200),
            ("box", 200),
            ("evil.example", 421),
            ("evil.example:8080", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.nip.io", 421),
            ("evil.localhost", 421),
            ("other.gateway.internal", 421),
            ("0x7f.1", 421),
            ("2130706433", 421),
            ("localhost%00", 421),
            ("", 400),
            (".", 400),
            (":8080", 400),
            ("::1", 400),
            ("[::1", 400),
            ("[::1]8080", 400),
            ("[localhost]", 400),
            ("[fe80::1%eth0]", 400),
            ("localhost:80:80", 400),
            ("localhost:65536", 400),
            ("localhost:+80", 400),
            ("localhost:8o", 400),
            ("localhost, evil.example", 400),
            ("user@localhost", 400),
            ("localhost/path", 400),
            ("http://localhost", 400),
            ("lo calhost", 400),
            ("löcalhost", 400),
        ] {
            assert_eq!(status(hosts, Version::HTTP_11, "/", &[("host", host)]), expected, "{host:?}");
            let with_users = if expected == 421 { 200 } else { expected };
            assert_eq!(status(USER, Version::HTTP_11, "/", &[("host", host)]), with_users, "{host:?} with users");
        }
    }

    #[test]
    fn a_request_has_one_host() {
        for (version, target, hosts, expected) in [
            (Version::HTTP_11, "/", &[][..], 400),
            (Version::HTTP_11, "/", &["localhost", "localhost"], 400),
            (Version::HTTP_11, "/", &["localhost", "evil.example"], 400),
            (Version::HTTP_11, "http://localhost/", &[], 400),
            (Version::HTTP_11, "http://localhost:8080/", &["localhost:8080"], 200),
            (Version::HTTP_11, "http://LOCALHOST/", &["localhost:80"], 200),
            (Version::HTTP_11, "http://localhost/", &["evil.example"], 400),
            (Version::HTTP_11, "http://evil.example/", &["localhost"], 400),
            (Version::HTTP_11, "http://evil.example/", &["evil.example"], 421),
            (Version::HTTP_11, "http://a@localhost/", &["localhost"], 400),
            (Version::HTTP_10, "/", &[], 200),
            (Version::HTTP_10, "/", &["evil.example"], 421),
            (Version::HTTP_10, "/", &["localhost", "localhost"], 400),
            (Version::HTTP_10, "http://evil.example/", &[], 421),
            (Version::HTTP_2, "http://localhost/", &[], 200),
            (Version::HTTP_2, "http://evil.example/", &[], 421),
            (Version::HTTP_2, "http://localhost/", &["evil.example"], 400),
            (Version::HTTP_2, "/", &["localhost"], 200),
            (Version::HTTP_2, "/", &[], 400),
        ] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(status("", version, target, &headers), expected, "{version:?} {target} {hosts:?}");
        }
    }

    #[test]
    fn a_page_of_another_origin_stays_out_unless_it_is_listed() {
        let listed = "server.cors = [\"https://app.example\", \"app://own\"]\n";
        let (origin, site) = ("origin", "sec-fetch-site");
        for (headers, none, only) in [
            (&[][..], 200, 200),
            (&[(origin, "http://localhost:8080")], 200, 200),
            (&[(origin, "http://LOCALHOST:8080"), (site, "same-origin")], 200, 200),
            (&[(site, "same-origin")], 200, 200),
            (&[(site, "none")], 200, 200),
            (&[(origin, "https://app.example")], 403, 200),
            (&[(origin, "https://APP.example"), (site, "cross-site")], 403, 200),
            (&[(origin, "app://own")], 403, 200),
            (&[(origin, "https://app.example:8443")], 403, 403),
            (&[(origin, "http://localhost")], 403, 403),
            (&[(origin, "http://localhost:3000"), (site, "same-site")], 403, 403),
            (&[(origin, "http://127.0.0.1:8080")], 403, 403),
            (&[(origin, "null")], 403, 403),
            (&[(origin, "")], 403, 403),
            (&[(origin, "http://localhost:8080"), (origin, "https://evil.example")], 403, 403),
            (&[(origin, "http://localhost:8080"), (site, "cross-site")], 403, 403),
            (&[(site, "cross-site")], 403, 403),
            (&[(site, "same-site")], 403, 403),
            (&[(site, "none"), (site, "cross-site")], 403, 403),
        ] {
            let headers = [&[("host", "localhost:8080")], headers].concat();
            for (config, expected) in [("", none), (listed, only), ("server.cors = [\"*\"]\n", 200)] {
                for users in ["", USER] {
                    let config = format!("{config}{users}");
                    assert_eq!(status(&config, Version::HTTP_11, "/", &headers), expected, "{config} {headers:?}");
                }
            }
        }
    }

    #[test]
    fn an_app_comes_in_with_a_token_where_there_are_users() {
        let config = parse(USER, Path::new("x"), &|_| None).unwrap();
        let nobody = parse("", Path::new("x"), &|_| None).unwrap();
        let sender = |config: &Config, method: Method, path: &str, headers: &[(&'static str, &str)]| {
            let mut request = Request::builder().method(method).uri(path).body(()).unwrap();
            request.headers_mut().append(HOST, HeaderValue::from_static("localhost:8080"));
            for (name, value) in headers {
                request.headers_mut().append(*name, HeaderValue::from_str(value).unwrap());
            }
            check(&request, config).map_err(|rejection| rejection.status().as_u16())
        };
        let (token, cookie) = (("authorization", "Bearer t"), ("cookie", "photofinish-session=s"));
        for (origin, is_app) in [
            ("tauri://localhost", true),
            ("vscode-file://vscode-app", true),
            ("chrome-extension://abcdefghijklmnop", true),
            ("moz-extension://0b2f", true),
            ("app://obsidian.md", true),
            ("http://localhost:3000", true),
            ("https://LOCALHOST", true),
            ("http://tauri.localhost", true),
            ("http://127.0.0.1:5173", true),
            ("http://127.8.8.8", true),
            ("http://[::1]:5173", true),
            ("https://app.example", false),
            ("http://localhost.evil.example", false),
            ("http://evil-localhost", false),
            ("http://10.0.0.7", false),
            ("http://0.0.0.0:3000", false),
            ("wss://app.example", false),
            ("null", false),
            ("", false),
            ("://x", false),
            ("1x://y", false),
        ] {
            let expected = if is_app { Ok(Sender::App) } else { Err(403) };
            let (from, cross) = (("origin", origin), ("sec-fetch-site", "cross-site"));
            for key in [token, ("x-api-key", "t"), ("x-goog-api-key", "wrong")] {
                assert_eq!(sender(&config, Method::POST, "/v1/x", &[from, cross, key]), expected, "{origin} {key:?}");
            }
            let preflight = [from, cross, ("access-control-request-method", "POST")];
            assert_eq!(sender(&config, Method::OPTIONS, "/v1/x", &preflight), expected, "{origin}");
            for (config, method, path, headers) in [
                (&config, Method::POST, "/v1/x", &[from, cross][..]),
                (&config, Method::POST, "/v1/x", &[from, cross, cookie]),
                (&config, Method::OPTIONS, "/v1/x", &[from, cross]),
                (&config, Method::POST, "/v1/x", &[from, ("origin", "https://app.example"), token]),
                (&config, Method::GET, "/dashboard", &[from, cross, token]),
                (&config, Method::POST, "/api/reload", &[from, cross, token]),
                (&nobody, Method::POST, "/v1/x", &[from, cross, token]),
                (&nobody, Method::OPTIONS, "/v1/x", &preflight),
            ] {
                assert_eq!(
                    sender(config, method.clone(), path, headers),
                    Err(403),
                    "{origin} {method} {path} {headers:?}"
                );
            }
        }
        assert_eq!(sender(&config, Method::POST, "/v1/x", &[("sec-fetch-site", "cross-site"), token]), Err(403));
        assert_eq!(sender(&config, Method::POST, "/v1/x", &[token]), Ok(Sender::Own));
    }

    #[test]
    fn the_port_that_is_not_said_is_the_scheme_s() {
        for (host, origin, expected) in [
            ("gw.example", "https://gw.example", 200),
            ("gw.example:443", "https://gw.example", 200),
            ("gw.example:80", "http://gw.example", 200),
            ("gw.example:80", "https://gw.example", 403),
            ("[::1]:8080", "http://[::1]:8080", 200),
        ] {
            let headers = [("host", host), ("origin", origin)];
            assert_eq!(status(USER, Version::HTTP_11, "/", &headers), expected, "{host} {origin}");
        }
    }
}
