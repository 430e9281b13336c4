//! The verdict on a failed attempt: what it means for the race and for what is to be set aside. One pure function.

use crate::failure::{Failure, FailureKind};
use crate::routing::cooldown::Aside;

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub next: Next,
    pub aside: Option<Aside>,
    /// The upstream's own fault: its breaker counts it.
    pub counts: bool,
    /// An operator should look: a refused key, a model that is not there.
    pub loud: bool,
}

/// What the race does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Start the next candidate at once.
    Try,
    /// Start no more; what is running may still win.
    Stop,
}

/// Decides. Exhaustive on purpose: a new kind of failure has to be given its meaning here.
pub fn verdict(failure: &Failure) -> Verdict {
    let (next, aside, loud) = match failure.kind {
        FailureKind::RateLimited => (Next::Try, Some(Aside::KeyRateLimited), false),
        FailureKind::Unauthorized => (Next::Try, Some(Aside::KeyRefused), true),
        FailureKind::Forbidden | FailureKind::NotFound => (Next::Try, Some(Aside::UpstreamRefused), true),
        // A refusal on policy is not routed around.
        FailureKind::ContentPolicy => (Next::Stop, None, false),
        FailureKind::Dns
        | FailureKind::Connect
        | FailureKind::Tls
        | FailureKind::Reset
        | FailureKind::Closed
        | FailureKind::Timeout
        | FailureKind::IdleTimeout
        | FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::BadRequest
        | FailureKind::ContextLength
        | FailureKind::TooLarge
        | FailureKind::InStreamError
        | FailureKind::Malformed
        | FailureKind::Protocol
        | FailureKind::CoolingDown
        | FailureKind::GatewayLimit
        | FailureKind::Empty => (Next::Try, None, false),
    };
    Verdict { next, aside, counts: is_the_upstreams_fault(failure.kind), loud }
}

/// True for a failure of the upstream itself: not of its key, not of the request, and none that asks for a pause.
fn is_the_upstreams_fault(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Dns
            | FailureKind::Connect
            | FailureKind::Tls
            | FailureKind::Reset
            | FailureKind::Closed
            | FailureKind::Timeout
            | FailureKind::IdleTimeout
            | FailureKind::Overloaded
            | FailureKind::ServerError
            | FailureKind::InStreamError
            | FailureKind::Malformed
            | FailureKind::Protocol
    )
}

/// True for a failure that says that the upstream has too much to do, or cannot do it: hedges to it would make it worse.
pub fn slows_hedging(kind: FailureKind) -> bool {
    is_the_upstreams_fault(kind) || kind == FailureKind::RateLimited
}

/// True for a failure that says the request itself is wrong, so that its own answer is the client's to see.
pub fn is_the_requests_fault(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::BadRequest | FailureKind::ContextLength | FailureKind::ContentPolicy | FailureKind::TooLarge
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Phase;

    #[test]
    fn the_table() {
        use FailureKind::*;
        let quiet = |aside| Verdict { next: Next::Try, aside, counts: false, loud: false };
        let own = Verdict { counts: true, ..quiet(None) };
        let loud = |aside| Verdict { loud: true, ..quiet(Some(aside)) };
        let table = [
            (Dns, own),
            (Connect, own),
            (Tls, own),
            (Reset, own),
            (Closed, own),
            (Timeout, own),
            (IdleTimeout, own),
            (RateLimited, quiet(Some(Aside::KeyRateLimited))),
            (Overloaded, own),
            (ServerError, own),
            (Unauthorized, loud(Aside::KeyRefused)),
            (Forbidden, loud(Aside::UpstreamRefused)),
            (NotFound, loud(Aside::UpstreamRefused)),
            (BadRequest, quiet(None)),
            (ContextLength, quiet(None)),
            (ContentPolicy, Verdict { next: Next::Stop, ..quiet(None) }),
            (TooLarge, quiet(None)),
            (InStreamError, own),
            (Malformed, own),
            (Protocol, own),
            (CoolingDown, quiet(None)),
            (GatewayLimit, quiet(None)),
            (Empty, quiet(None)),
        ];
        for (kind, expected) in table {
            assert_eq!(verdict(&Failure::new(kind, Phase::Headers, "")), expected, "{kind}");
        }
    }
}
