//! The address of a provider: the origin, by which connections are pooled, its transport, and a path prefix.

use std::sync::Arc;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri, Version};

use photofinish_config::Transport;

/// Why a `base_url` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an http or https URL with a host: {0:?}")]
pub struct InvalidUrl(pub String);

/// Scheme, host and port, and the transport. Connections to one origin are shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub https: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    pub transport: Transport,
}

/// A parsed `base_url`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Arc<EndpointParts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct EndpointParts {
    origin: Origin,
    authority: Authority,
    host_header: HeaderValue,
    /// Without a slash at its end.
    prefix: String,
}

impl Endpoint {
    /// Parses `https://api.example.com/v1`.
    ///
    /// # Errors
    /// It is not an http or https URL.
    pub fn parse(base_url: &str) -> Result<Endpoint, InvalidUrl> {
        let invalid = || InvalidUrl(base_url.to_owned());
        let uri: Uri = base_url.parse().map_err(|_| invalid())?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid()),
        };
        let authority =
            uri.authority().filter(|authority| !authority.host().is_empty()).cloned().ok_or_else(invalid)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if https { 443 } else { 80 });
        let host_header = HeaderValue::from_str(authority.as_str()).map_err(|_| invalid())?;
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let origin = Origin { https, host, port, transport: Transport::default() };
        Ok(Endpoint(Arc::new(EndpointParts { origin, authority, host_header, prefix })))
    }

    /// The same endpoint over this transport.
    pub fn with_transport(mut self, transport: Transport) -> Endpoint {
        Arc::make_mut(&mut self.0).origin.transport = transport;
        self
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    pub(super) fn host_header(&self) -> HeaderValue {
        self.0.host_header.clone()
    }

    /// The path that requests go behind, without a slash at its end.
    pub fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// The whole URL of a request, for a signature.
    pub fn url(&self, path: &str) -> String {
        let EndpointParts { origin, authority, prefix, .. } = &*self.0;
        let scheme = if origin.https { "https" } else { "http" };
        format!("{scheme}://{authority}{prefix}{path}")
    }

    /// The target of a request: absolute for HTTP/2, a path for HTTP/1.1.
    pub(super) fn uri(&self, path: &str, version: Version) -> Uri {
        let EndpointParts { origin, authority, prefix, .. } = &*self.0;
        let path = PathAndQuery::try_from([prefix, path].concat()).unwrap_or(PathAndQuery::from_static("/"));
        let mut parts = http::uri::Parts::default();
        if version == Version::HTTP_2 {
            parts.scheme = Some(if origin.https { Scheme::HTTPS } else { Scheme::HTTP });
            parts.authority = Some(authority.clone());
        }
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_apart() {
        let endpoint = Endpoint::parse("https://api.example.com/openai/v1/").unwrap();
        assert_eq!(
            (endpoint.origin().https, endpoint.origin().host.as_str(), endpoint.origin().port),
            (true, "api.example.com", 443)
        );
        assert_eq!(endpoint.uri("/chat/completions", Version::HTTP_11), "/openai/v1/chat/completions");
        assert_eq!(endpoint.uri("/x", Version::HTTP_2), "https://api.example.com/openai/v1/x");
        assert_eq!(endpoint.url("/x?y=z"), "https://api.example.com/openai/v1/x?y=z");
        let local = Endpoint::parse("http://[::1]:8000/v1").unwrap();
        assert_eq!((local.origin().host.as_str(), local.origin().port), ("::1", 8000));
        assert_eq!(local.host_header(), "[::1]:8000");
    }

    #[test]
    fn what_is_no_url_is_an_error() {
        for url in ["", "api.example.com", "ftp://x/", "https://", "http:///v1"] {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }
}
