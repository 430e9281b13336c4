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
use photofinish_config::{Config, Cors};
use photofinish_gateway::proxy::{Rejection, sends_token};

/// The relation between the page that sent a request and the gateway, as its browser reports it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What the browser wants to do with the answer, and where it will show it: together, the address bar of a tab.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Characters allowed in a host name (RFC 3986, reg-name) in addition to letters and digits.
const NAME_MARKS: &[u8] = b"-._~%!$&'()*+,;=";
/// Bytes of a name in `Host`, as in DNS.
const NAME_MAX: usize = 255;

/// Who sent a request, as far as its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestSender {
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
pub(super) fn check<B>(request: &Request<B>, config: &Config) -> Result<RequestSender, Rejection> {
    let host = host(request)?;
    if config.users.is_empty()
        && let Some(host) = &host
        && !host.is_known(&config.server.hosts)
    {
        return Err(Rejection::unknown_host(host.name));
    }
    let headers = request.headers();
    if !is_foreign(headers, host.as_ref()) || is_visit(request) {
        return Ok(RequestSender::Own);
    }
    if dashboard::is_own(request.uri().path()) {
        return Err(foreign(headers));
    }
    if headers.get(ORIGIN).map_or(config.server.cors == Cors::Any, |origin| names(&config.server.cors, origin)) {
        return Ok(RequestSender::Listed);
    }
    let asks = request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let is_app = !config.users.is_empty() && (asks || sends_token(headers)) && is_app(headers);
    if is_app { Ok(RequestSender::App) } else { Err(foreign(headers)) }
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
mod tests;
