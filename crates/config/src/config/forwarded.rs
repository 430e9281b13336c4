//! Which headers an operator may send up: of a client's, or fixed ones. Not for those that go up by themselves: see `proxy`.

use super::problem::LocatedProblem;
use super::reader::{Located, ReaderScope};
use super::{Auth, ProviderDialect};

/// Reports a forwarded header that carries the provider's own key.
pub(super) fn report_keys(
    scope: &ReaderScope<'_>,
    provider: &str,
    headers: &[Located<String>],
    dialects: &[ProviderDialect],
) {
    for header in headers {
        let carries_key = |spoken: &ProviderDialect| matches!(&spoken.auth, Auth::Header(own) if *own == header.value);
        if dialects.iter().any(carries_key) {
            let message =
                format!("\"{}\" in forward_headers of {provider} carries the provider's own key", header.value);
            scope.report(LocatedProblem::at(header.offset, message));
        }
    }
}

/// Hop-by-hop headers, credentials, and headers that the gateway sets itself are never forwarded.
pub(super) fn may_be_forwarded(header: &str) -> bool {
    let is_kept = matches!(
        header,
        "accept"
            | "accept-encoding"
            | "authorization"
            | "connection"
            | "content-encoding"
            | "content-length"
            | "content-type"
            | "cookie"
            | "expect"
            | "host"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "x-api-key"
            | "x-goog-api-key"
    );
    !is_kept && !header.starts_with("x-photofinish-")
}
