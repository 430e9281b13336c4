//! Which headers an operator may send up: of a client's, or fixed ones. Not for those that go up by themselves: see `proxy`.

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
