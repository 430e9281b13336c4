//! Answers for lack of permission: the caller's here, or the gateway's at every provider.

use std::time::Duration;

use super::{FailedUpstream, Rejection, code, cut};
use photofinish_base::printable::quoted;
use photofinish_routing::routing::cooldown::ASK_AGAIN_FOR;
use photofinish_wire::request::AmbiguousMember;

/// Maximum upstreams in a message; `error.attempts` has all.
const TOLD_MAX: usize = 4;

impl Rejection {
    pub fn forbidden() -> Rejection {
        let message = "only an admin may see this: set admin = true under [users.NAME]";
        Rejection::new(code::FORBIDDEN, message)
    }

    /// A header that this user may not send. `name`: its name in `overrides`.
    pub fn forbidden_override(header: &str, user: &str, name: &str) -> Rejection {
        let message = format!(
            "header {header}: the user {} may not send it: add {name:?} to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_OVERRIDE, message)
    }

    /// A header that asks for more than the settings of the model allow. `allows`: those settings.
    pub fn costly_override(header: &str, user: &str, name: &str, allows: &str) -> Rejection {
        let message = format!(
            "header {header}: this may cost more than the settings of the model allow ({allows}), and the user {} may not \
             raise them: ask for less, or add {name:?} to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_OVERRIDE, message)
    }

    /// An upstream that no model lists, and that this user may not use with a shared key.
    pub fn forbidden_upstream(upstream: &str, provider: &str, user: &str) -> Rejection {
        let message = format!(
            "no model lists the upstream {}, so the user {} may not ask it with a shared key: bring a key as \
             x-photofinish-key-{provider}, list it under [models], or add \"upstreams\" to overrides under [users.NAME]",
            quoted(upstream),
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_UPSTREAM, message).on_model()
    }

    /// A member with which this user may reach models that are not listed, with a shared key.
    pub fn forbidden_member(member: &AmbiguousMember, provider: &str, user: &str) -> Rejection {
        let message = format!(
            "{member}, and the user {} may use only listed models with a shared key: leave it out, bring a key as \
             x-photofinish-key-{provider}, or add \"upstreams\" to overrides under [users.NAME]",
            quoted(user)
        );
        Rejection::new(code::FORBIDDEN_UPSTREAM, message).on(Some(cut(&member.name).into()))
    }

    /// Every upstream cools down, some because they refused the key, the model or the account. `wait`: the shortest of
    /// the other cool-downs. Without one there is no Retry-After: a wait does not repair a key, and clients would wait
    /// in vain.
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
        let rejection = Rejection::new(code::UPSTREAM_REFUSED, message).with(failed);
        match wait {
            Some(wait) => rejection.after(wait),
            None => rejection,
        }
    }
}
