//! The verdict on a failed attempt: the race's next step, and what cools down. One pure function. Not for carrying it
//! out.

use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_config::ContentPolicy;

/// Why a key or upstream cools down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CooldownReason {
    /// 429: this key for this model, for Retry-After or a growing time. Most providers count each model separately.
    RateLimited,
    /// A 429 for the whole account: this key for all models. Without a key, this upstream.
    AccountRateLimited,
    /// 401: this key, for a growing time. Without a key, this upstream.
    KeyRefused,
    /// 402 or 403: this upstream with this key on this surface, for a growing time.
    Forbidden,
    /// 404 or 501: the same.
    NotFound,
    /// A good answer whose headers report that the rate limit is used up: this upstream with this key, for a moment.
    Exhausted,
}

impl CooldownReason {
    /// A refusal, not a rate limit: waiting may not help.
    pub fn is_refusal(self) -> bool {
        matches!(self, CooldownReason::KeyRefused | CooldownReason::Forbidden | CooldownReason::NotFound)
    }
}

/// The consequences of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub next: NextStep,
    pub cooldown: Option<CooldownReason>,
    /// The cool-down starts at once. False: only once several callers and bodies met the same failure.
    pub certain: bool,
    pub counts: BreakerEffect,
    /// An operator should act: a refused key, a missing model.
    pub loud: bool,
}

/// Whether the upstream's breaker counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerEffect {
    /// It is not the upstream's own fault.
    Never,
    /// A request may have caused it: it counts for its caller, until another caller meets one.
    Doubtful,
    /// No request can cause it: it counts for all callers.
    Certain,
}

/// The race's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Start the next candidate at once.
    Try,
    /// Start nothing more; running attempts may still win.
    Stop,
}

/// The race's next step after a failure, with the setting `content_policy`.
pub fn next(failure: &Failure, content_policy: ContentPolicy) -> NextStep {
    match verdict(failure).next {
        NextStep::Stop if content_policy == ContentPolicy::Continue => NextStep::Try,
        next => next,
    }
}

/// The verdict. Exhaustive on purpose: a new kind of failure needs its meaning here.
pub fn verdict(failure: &Failure) -> Verdict {
    let (next, cooldown, certain) = match failure.kind {
        FailureKind::RateLimited if failure.whole_account => {
            (NextStep::Try, Some(CooldownReason::AccountRateLimited), true)
        }
        FailureKind::RateLimited => (NextStep::Try, Some(CooldownReason::RateLimited), true),
        FailureKind::Unauthorized => (NextStep::Try, Some(CooldownReason::KeyRefused), true),
        FailureKind::Forbidden => (NextStep::Try, Some(CooldownReason::Forbidden), failure.certain),
        FailureKind::NotFound => (NextStep::Try, Some(CooldownReason::NotFound), failure.certain),
        // A refusal on policy is not routed around.
        FailureKind::ContentPolicy => (NextStep::Stop, None, false),
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
        | FailureKind::Endless
        | FailureKind::Protocol
        | FailureKind::CoolingDown
        | FailureKind::GatewayLimit
        | FailureKind::Empty => (NextStep::Try, None, false),
    };
    let loud = certain && failure.kind != FailureKind::RateLimited;
    Verdict { next, cooldown, certain, counts: counts(failure), loud }
}

fn counts(failure: &Failure) -> BreakerEffect {
    // A long answer is not the upstream's fault.
    if failure.kind == FailureKind::Timeout && failure.phase == Phase::Stream {
        return BreakerEffect::Never;
    }
    let is_met_by_all = matches!(failure.kind, FailureKind::Dns | FailureKind::Connect | FailureKind::Tls)
        || failure.kind == FailureKind::Timeout && failure.phase == Phase::Connect;
    if is_met_by_all {
        BreakerEffect::Certain
    } else if is_the_upstreams_fault(failure.kind) {
        BreakerEffect::Doubtful
    } else {
        BreakerEffect::Never
    }
}

/// True if another upstream may continue a streamed answer that broke off in this way. Not an endless one, which is long enough, and
/// none whose time is over.
pub fn may_be_rescued(kind: FailureKind) -> bool {
    !matches!(kind, FailureKind::Endless | FailureKind::Timeout)
}

/// True if attempts at more than one upstream failed, all in the same way. The cause is then the request or the network, so no
/// breaker counts it.
pub fn is_shared_by_all(failures: &[(usize, Failure)]) -> bool {
    let Some(((first, failure), others)) = failures.split_first() else { return false };
    others.iter().any(|(candidate, _)| candidate != first) && others.iter().all(|(_, other)| other.kind == failure.kind)
}

/// True for a failure of the upstream itself: not of the key or the request, and no rate limit.
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
            | FailureKind::Endless
            | FailureKind::Protocol
    )
}

/// True for a failure that shows overload or an outage: hedges would make it worse.
pub fn slows_hedging(kind: FailureKind) -> bool {
    is_the_upstreams_fault(kind) || kind == FailureKind::RateLimited
}

/// True for a failure that blames the request: the client should see that answer.
pub fn is_the_requests_fault(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::BadRequest | FailureKind::ContextLength | FailureKind::ContentPolicy | FailureKind::TooLarge
    )
}

/// Whether the same upstream may answer the same request soon: a retry of it makes sense. Exhaustive on purpose.
pub fn may_pass(kind: FailureKind) -> bool {
    match kind {
        FailureKind::RateLimited
        | FailureKind::Overloaded
        | FailureKind::ServerError
        | FailureKind::InStreamError
        | FailureKind::Connect
        | FailureKind::Reset
        | FailureKind::Closed
        | FailureKind::Protocol => true,
        // A timeout has already used its time; the others would fail in the same way again.
        FailureKind::Timeout
        | FailureKind::IdleTimeout
        | FailureKind::Dns
        | FailureKind::Tls
        | FailureKind::Unauthorized
        | FailureKind::Forbidden
        | FailureKind::NotFound
        | FailureKind::BadRequest
        | FailureKind::ContextLength
        | FailureKind::ContentPolicy
        | FailureKind::TooLarge
        | FailureKind::Malformed
        | FailureKind::Endless
        | FailureKind::CoolingDown
        | FailureKind::GatewayLimit
        | FailureKind::Empty => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        use FailureKind::*;
        let quiet =
            Verdict { next: NextStep::Try, cooldown: None, certain: false, counts: BreakerEffect::Never, loud: false };
        let met_by_all = Verdict { counts: BreakerEffect::Certain, ..quiet };
        let own = Verdict { counts: BreakerEffect::Doubtful, ..quiet };
        let limited = Verdict { cooldown: Some(CooldownReason::RateLimited), certain: true, ..quiet };
        let key = Verdict { cooldown: Some(CooldownReason::KeyRefused), certain: true, loud: true, ..quiet };
        let forbidden = Verdict { cooldown: Some(CooldownReason::Forbidden), ..quiet };
        let missing = Verdict { cooldown: Some(CooldownReason::NotFound), ..quiet };
        let table = [
            (Dns, met_by_all),
            (Connect, met_by_all),
            (Tls, met_by_all),
            (Reset, own),
            (Closed, own),
            (Timeout, own),
            (IdleTimeout, own),
            (RateLimited, limited),
            (Overloaded, own),
            (ServerError, own),
            (Unauthorized, key),
            (Forbidden, forbidden),
            (NotFound, missing),
            (BadRequest, quiet),
            (ContextLength, quiet),
            (ContentPolicy, Verdict { next: NextStep::Stop, ..quiet }),
            (TooLarge, quiet),
            (InStreamError, own),
            (Malformed, own),
            (Endless, own),
            (Protocol, own),
            (CoolingDown, quiet),
            (GatewayLimit, quiet),
            (Empty, quiet),
        ];
        for (kind, expected) in table {
            assert_eq!(verdict(&Failure::new(kind, Phase::Headers, "")), expected, "{kind}");
        }
        assert_eq!(verdict(&Failure::new(Timeout, Phase::Connect, "")), met_by_all);
        assert_eq!(verdict(&Failure::new(Timeout, Phase::Stream, "")), quiet, "a total deadline");
        for (kind, doubtful) in [(Forbidden, forbidden), (NotFound, missing)] {
            let stated = Failure { certain: true, ..Failure::new(kind, Phase::Headers, "") };
            assert_eq!(verdict(&stated), Verdict { certain: true, loud: true, ..doubtful });
        }
        let of_account = Failure { whole_account: true, ..Failure::new(RateLimited, Phase::Headers, "") };
        assert_eq!(verdict(&of_account), Verdict { cooldown: Some(CooldownReason::AccountRateLimited), ..limited });
    }

    #[test]
    fn what_all_attempts_share_is_nobody_s_fault() {
        use FailureKind::*;
        let table: &[(&[(usize, FailureKind)], bool)] = &[
            (&[], false),
            (&[(0, ServerError)], false),
            (&[(0, ServerError), (0, ServerError)], false),
            (&[(0, ServerError), (1, ServerError)], true),
            (&[(0, ServerError), (1, ServerError), (0, ServerError)], true),
            (&[(0, Connect), (1, Connect), (2, Connect)], true),
            (&[(0, ServerError), (1, Timeout)], false),
            (&[(0, ServerError), (1, ServerError), (2, BadRequest)], false),
        ];
        for (failed, expected) in table {
            let failures: Vec<(usize, Failure)> =
                failed.iter().map(|(at, kind)| (*at, Failure::new(*kind, Phase::Headers, ""))).collect();
            assert_eq!(is_shared_by_all(&failures), *expected, "{failed:?}");
        }
    }
}
