//! Answers to those who watch the gateway and log in for it. Not for a user who is no admin: see `forbidden`.

use std::time::Duration;

use super::{Rejection, code};

impl Rejection {
    /// Too many wrong tokens came from the client's address.
    pub fn too_many_tokens(wait: Duration) -> Rejection {
        let message = "too many wrong tokens came from this address: try again after Retry-After, or send a right one at any time";
        Rejection::new(code::TOO_MANY_TOKENS, message).after(wait)
    }

    /// Too many watch the races.
    pub fn too_many_watchers(most: usize) -> Rejection {
        let message = format!("{most} watch already: close another dashboard, or try again later");
        Rejection::new(code::TOO_MANY_WATCHERS, message).after(Duration::from_secs(5))
    }

    /// A replay is running.
    pub fn replaying() -> Rejection {
        let message = "a replay is running, and one runs at a time: ask again later";
        Rejection::new(code::BUSY, message).after(Duration::from_secs(5))
    }

    /// The new configuration is invalid; `why` is for an operator.
    pub fn not_reloaded(why: &str) -> Rejection {
        Rejection::new(code::NOT_RELOADED, format!("the old configuration stays in force:\n{why}"))
    }
}
