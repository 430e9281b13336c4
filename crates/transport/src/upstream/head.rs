//! The bounds on the head of an answer, and the failure of an answer beyond them. They let 256 headers through over HTTP/1.1 and over
//! HTTP/2 alike, unless they are long.

use photofinish_base::failure::{Failure, FailureKind, Phase};

/// Headers of an answer: corporate proxies and service meshes add many. hyper's own bound is 100.
pub(super) const HEADERS_MAX: usize = 256;
/// Bytes of the head of an HTTP/2 answer. Some providers send many cookies.
pub(super) const HEADER_LIST_MAX: u32 = 64 * 1024;
/// The read buffer of an HTTP/1.1 connection. A client that stalls keeps it filled.
pub(super) const READ_BUFFER_MAX: usize = 64 * 1024;

/// The failure of an answer with a larger head.
pub(super) fn too_large() -> Failure {
    let kib = READ_BUFFER_MAX >> 10;
    let message = format!("the head of its answer has more than {HEADERS_MAX} headers, or more than {kib} KiB");
    Failure::new(FailureKind::Protocol, Phase::Headers, message)
}
