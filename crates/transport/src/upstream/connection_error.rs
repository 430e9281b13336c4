//! The meaning of a connection's error: its kind, whether the peer can have processed the request, and whether only the
//! connection is at fault.

use std::error::Error;
use std::io::ErrorKind;

use h2::Reason;

use photofinish_base::failure::{Failure, FailureKind, Phase};

/// Why a request was not answered.
pub(super) struct SendError {
    pub failure: Failure,
    /// The peer has not processed the request: it was never sent, or was refused unprocessed. It may be sent again.
    pub unsent: bool,
    /// The connection was lost before a byte of an answer arrived. The peer may have processed the request.
    pub died: bool,
    /// The peer wants it over HTTP/1.1.
    pub wants_http1: bool,
}

/// For a request over HTTP/1.1. `heard`: a byte of an answer had arrived.
pub(super) fn of_http1(error: &hyper::Error, unsent: bool, heard: bool) -> SendError {
    let failure = failure_of(error, Phase::Headers);
    let died = is_gone(&failure) && !heard;
    SendError { failure, unsent, died, wants_http1: false }
}

/// For a request over HTTP/2. `returned`: hyper returned it before it was written.
pub(super) fn of_http2(error: &hyper::Error, returned: bool) -> SendError {
    let failure = failure_of(error, Phase::Headers);
    let by_peer = find::<h2::Error>(error).filter(|h2| h2.is_remote());
    let reason = by_peer.and_then(h2::Error::reason);
    let wants_http1 = reason == Some(Reason::HTTP_1_1_REQUIRED);
    // A GOAWAY itself ends only streams above the last one that the peer processes, and requests whose body was not
    // sent.
    let refused = by_peer.is_some_and(h2::Error::is_go_away) || reason == Some(Reason::REFUSED_STREAM);
    // The reset of one stream says nothing about its connection.
    let stream_alone = find::<h2::Error>(error).is_some_and(h2::Error::is_reset);
    let died = is_gone(&failure) && !stream_alone;
    SendError { failure, unsent: returned || refused || wants_http1, died, wants_http1 }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Closed | FailureKind::Reset)
}

/// The failure for an error, of a request or of the body of its answer.
pub(super) fn failure_of(error: &hyper::Error, phase: Phase) -> Failure {
    let h2 = find::<h2::Error>(error);
    let io = h2.and_then(h2::Error::get_io).or_else(|| find::<std::io::Error>(error));
    let kind = match (h2, io) {
        (_, Some(io)) => of_io(io.kind()),
        (Some(h2), None) if h2.is_remote() && h2.is_reset() => FailureKind::Reset,
        (Some(h2), None) if h2.is_remote() && h2.is_go_away() => FailureKind::Closed,
        // The peer broke the protocol, and this side reported it.
        (Some(_), None) => FailureKind::Protocol,
        (None, None) if error.is_parse() => FailureKind::Protocol,
        // The connection ended without an error, or its peer did not answer a ping.
        (None, None) => FailureKind::Closed,
    };
    // The library says no more of a head that is too large over HTTP/2.
    let is_of_head = phase == Phase::Headers && h2.is_some_and(|h2| h2.is_library() && h2.is_reset());
    if error.is_parse_too_large() || is_of_head && h2.and_then(h2::Error::reason) == Some(Reason::PROTOCOL_ERROR) {
        return Failure { phase, ..too_large_head() };
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    Failure::new(kind, phase, format!("the connection broke: {text}"))
}

fn of_io(kind: ErrorKind) -> FailureKind {
    match kind {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::NotConnected | ErrorKind::TimedOut => {
            FailureKind::Closed
        }
        ErrorKind::InvalidData | ErrorKind::InvalidInput => FailureKind::Protocol,
        _ => FailureKind::Reset,
    }
}

/// The first of this type among the error's sources.
fn find<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(found) = inner.downcast_ref() {
            return Some(found);
        }
        source = inner.source();
    }
    None
}

/// Headers of an answer: corporate proxies and service meshes add many. hyper's own bound is 100.
pub(super) const HEADERS_MAX: usize = 256;
/// Bytes of the head of an HTTP/2 answer. Some providers send many cookies.
pub(super) const HEADER_LIST_MAX: u32 = 64 * 1024;
/// The read buffer of an HTTP/1.1 connection. A client that stalls keeps it filled.
pub(super) const READ_BUFFER_MAX: usize = 64 * 1024;

/// The failure of an answer with a larger head.
pub(super) fn too_large_head() -> Failure {
    let kib = READ_BUFFER_MAX >> 10;
    let message = format!("the head of its answer has more than {HEADERS_MAX} headers, or more than {kib} KiB");
    Failure::new(FailureKind::Protocol, Phase::Headers, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_is_no_reset_and_no_nonsense() {
        for (kind, expected) in [
            (ErrorKind::UnexpectedEof, FailureKind::Closed),
            (ErrorKind::BrokenPipe, FailureKind::Closed),
            (ErrorKind::TimedOut, FailureKind::Closed),
            (ErrorKind::ConnectionReset, FailureKind::Reset),
            (ErrorKind::ConnectionAborted, FailureKind::Reset),
            (ErrorKind::InvalidData, FailureKind::Protocol),
            (ErrorKind::InvalidInput, FailureKind::Protocol),
        ] {
            assert_eq!(of_io(kind), expected, "{kind:?}");
        }
    }
}
