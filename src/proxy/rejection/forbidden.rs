//! Answers for lack of permission: the caller's here, or the gateway's at every provider.

use std::time::Duration;

use http::StatusCode;

use super::{FailedUpstream, Rejection, SERVER};
use crate::printable::quoted;
use crate::routing::cooldown::ASK_AGAIN_FOR;

/// Upstreams in a message; `error.attempts` has all.
const TOLD_MAX: usize = 4;

impl Rejection {
    pub fn forbidden() -> Rejection {
        let message = "only an admin may see this: set admin = true under [users.NAME]".to_owned();
        Rejection::new(StatusCode::FORBIDDEN, "permission_error", "photofinish_forbidden", message)
    }

    /// A header that this user may not send. `name`: its name in `overrides`.
    pub fn forbidden_override(header: &str, user: &str, name: &str) -> Rejection {
        let message = format!(
            "header {header}: the user {} may not send it: add {name:?} to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(StatusCode::FORBIDDEN, "permission_error", "photofinish_forbidden_override", message)
    }

    /// An upstream that no model lists, and that this user may not use with a shared key.
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

    /// Every upstream cools down, some because they refused the key, the model or the account. `wait`: the shortest of the other
    /// cool-downs. Without one there is no Retry-After: waiting repairs no key, and clients would wait in silence.
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
