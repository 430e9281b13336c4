//! Refusals for want of a right: a caller's with us, or ours with every provider.

use std::time::Duration;

use http::StatusCode;

use super::{FailedUpstream, Rejection, SERVER};
use crate::printable::quoted;
use crate::routing::cooldown::ASK_AGAIN_FOR;

/// Upstreams that a message names; `error.attempts` has all.
const TOLD_MAX: usize = 4;

impl Rejection {
    pub fn forbidden() -> Rejection {
        let message = "only an admin may see this: set admin = true under [users.NAME]".to_owned();
        Rejection::new(StatusCode::FORBIDDEN, "permission_error", "photofinish_forbidden", message)
    }

    /// A header that this user may not send. `name`: as in the list of `overrides`.
    pub fn forbidden_override(header: &str, user: &str, name: &str) -> Rejection {
        let message = format!(
            "header {header}: the user {} may not send it: add {name:?} to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(StatusCode::FORBIDDEN, "permission_error", "photofinish_forbidden_override", message)
    }

    /// An upstream that no model lists, and that this user may not ask with a shared key.
    pub fn forbidden_upstream(upstream: &str, provider: &str, user: &str) -> Rejection {
        let message = format!(
            "no model lists the upstream {}, so the user {} may not ask it with a shared key: bring a key as \
             x-photofinish-key-{provider}, list it under [models], or add \"upstreams\" to overrides under [users.NAME]",
            quoted(upstream),
            quoted(user)
        );
        let code = "photofinish_forbidden_upstream";
        let mut rejection = Rejection::new(StatusCode::FORBIDDEN, "permission_error", code, message);
        rejection.0.param = Some("model".into());
        rejection
    }

    /// Everybody who could serve it is set aside, some of them for refusing our key, the model or our account. `wait`: the
    /// shortest of those that only asked for a pause. Without one no Retry-After: clients obey it before they tell anybody, and
    /// waiting mends no key.
    pub fn refused(failed: &[FailedUpstream], wait: Option<Duration>) -> Rejection {
        // These messages are the gateway's own.
        let told: Vec<String> = failed
            .iter()
            .take(TOLD_MAX)
            .map(|failed| format!("{} is {}", failed.upstream, failed.failure.message))
            .collect();
        let message = format!(
            "no upstream can be asked: {}. Look at its key, its model and its account; one request in {ASK_AGAIN_FOR:?} \
             is let through to it meanwhile",
            told.join(", ")
        );
        let status = StatusCode::BAD_GATEWAY;
        let mut rejection = Rejection::new(status, SERVER, "photofinish_upstream_refused", message);
        rejection.0.attempts = failed.to_vec();
        rejection.0.retry_after = wait;
        rejection
    }
}
