//! Addresses of the configuration that are no providers: of a newer catalogue, and of the webhook.

use std::fmt;

use http::Uri;
use http::uri::PathAndQuery;

use super::transport::{self, Transport};

/// An address that the gateway calls, over http or https. Not for providers: see `transport`.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpAddress {
    /// Scheme, host and port.
    origin: String,
    /// Path and query may hold a secret.
    path: PathAndQuery,
    /// It is on this machine.
    is_local: bool,
}

impl HttpAddress {
    /// # Errors
    /// What is wrong, as the end of a sentence that does not quote the address.
    pub fn parse(text: &str) -> Result<HttpAddress, &'static str> {
        let Ok(uri) = text.parse::<Uri>() else { return Err("is no URL") };
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("does not begin with https://");
        };
        if authority.as_str().contains('@') {
            return Err("has a user or a password in it");
        }
        let is_local = transport::is_local(text);
        if authority.host().is_empty() || authority.port_u16() == Some(0) {
            return Err("has no host, or a port that is none");
        }
        let path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        Ok(HttpAddress { origin: format!("{scheme}://{authority}"), path, is_local })
    }

    /// One whose answers cannot be changed on the way.
    ///
    /// # Errors
    /// As [`HttpAddress::parse`], and for plain http to another machine.
    pub fn parse_secure(text: &str) -> Result<HttpAddress, &'static str> {
        let address = HttpAddress::parse(text)?;
        match address.origin.starts_with("http:") && !address.is_local {
            true => Err("is http: only https is safe from changes on the way"),
            false => Ok(address),
        }
    }

    /// Where a redirect from here leads. Plain http stays on this machine.
    ///
    /// # Errors
    /// As [`HttpAddress::parse_secure`].
    pub fn redirected(&self, location: &str) -> Result<HttpAddress, &'static str> {
        let is_path = location.starts_with('/') && !location.starts_with("//");
        let whole = if is_path { format!("{}{location}", self.origin) } else { location.to_owned() };
        let next = HttpAddress::parse_secure(&whole)?;
        match next.is_local && !self.is_local {
            true => Err("leads to this machine"),
            false => Ok(next),
        }
    }

    /// The address of the file whose name has this at its end.
    pub fn with_end(&self, end: &str) -> HttpAddress {
        let query = self.path.query().map_or(String::new(), |query| format!("?{query}"));
        let path = PathAndQuery::try_from(format!("{}{end}{query}", self.path.path()));
        HttpAddress { path: path.unwrap_or_else(|_| self.path.clone()), ..self.clone() }
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The path with its query: not for messages.
    pub fn path_and_query(&self) -> &str {
        self.path.as_str()
    }

    /// How the environment's variables say to connect to it.
    pub fn transport(&self) -> Transport {
        Transport::of_environment(&self.origin)
    }
}

impl fmt::Display for HttpAddress {
    /// Without the query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path.path())
    }
}

impl fmt::Debug for HttpAddress {
    /// Without the path, which is a webhook's secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpAddress({})", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine_is_an_address() {
        for (text, shown) in [
            ("https://example.com/a/catalogue.json", "https://example.com/a/catalogue.json"),
            ("https://example.com:8443/c.json?token=planted", "https://example.com:8443/c.json"),
            ("http://127.0.0.1/c.json", "http://127.0.0.1/c.json"),
            ("http://[::1]/c.json", "http://[::1]/c.json"),
            ("https://example.com", "https://example.com/"),
        ] {
            let url = HttpAddress::parse_secure(text).unwrap();
            assert_eq!(
                (url.to_string().as_str(), format!("{url:?}")),
                (shown, format!("HttpAddress({})", url.origin()))
            );
        }
        for text in
            ["", "c.json", "ftp://example.com/c", "http://example.com/c", "https://a:b@example.com/c", "https://"]
        {
            assert!(HttpAddress::parse_secure(text).is_err(), "{text}");
        }
        assert!(
            HttpAddress::parse("http://example.com/c").is_ok() && HttpAddress::parse("ftp://example.com/c").is_err()
        );
    }

    #[test]
    fn a_redirect_keeps_to_https() {
        let (far, here) = (
            HttpAddress::parse_secure("https://example.com/c").unwrap(),
            HttpAddress::parse_secure("http://127.0.0.1/c").unwrap(),
        );
        assert_eq!(far.redirected("/d?e").unwrap().path_and_query(), "/d?e");
        assert_eq!(far.redirected("https://other.example/d").unwrap().origin(), "https://other.example");
        assert_eq!(here.redirected("http://localhost/d").unwrap().origin(), "http://localhost");
        for location in
            ["http://example.com/c", "http://127.0.0.1/c", "https://localhost/c", "//example.com/c", "d", ""]
        {
            assert!(far.redirected(location).is_err(), "{location}");
        }
        assert!(here.redirected("http://example.com/c").is_err());
    }
}
