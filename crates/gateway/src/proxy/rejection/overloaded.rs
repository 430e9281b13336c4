//! Answers for lack of room. Not for the decision: see `admission`.

use std::time::Duration;

use super::{FailedUpstream, Rejection, code, summary};
use crate::proxy::load::ShedReason;
use photofinish_config::config::units::format_bytes;

impl Rejection {
    /// No room for another request now.
    pub fn overloaded(shed: ShedReason) -> Rejection {
        let why = match shed {
            ShedReason::InFlight => "the gateway serves as many requests as max_in_flight under [server] allows",
            ShedReason::Share => {
                "you have your share of the requests that the gateway serves at once (max_in_flight under [server]), of those \
                 whose bodies are still coming, or of the memory for bodies"
            }
            ShedReason::Memory => "the memory for bodies and buffers, memory under [server], is in use",
            ShedReason::Descriptors => {
                "the gateway has hardly a file descriptor left; its operator may raise the limit (ulimit -n)"
            }
        };
        Rejection::new(code::OVERLOADED, format!("{why}: try again after Retry-After")).after(Duration::from_secs(1))
    }

    /// A request needs more memory than is free, or more than the limit.
    pub fn no_memory(bytes: usize, max: usize) -> Rejection {
        if bytes <= max {
            return Rejection::overloaded(ShedReason::Memory);
        }
        let max = format_bytes(u64::try_from(max).unwrap_or(u64::MAX));
        let message = format!(
            "the request takes {bytes} bytes of memory, and memory under [server] is {max}: send less, or raise it"
        );
        Rejection::new(code::TOO_LARGE, message)
    }

    /// A large request was not parsed and translated in time.
    pub fn too_slow() -> Rejection {
        let message = "too many large requests are being read and translated: try again after Retry-After";
        Rejection::new(code::OVERLOADED, message).after(Duration::from_secs(5))
    }

    /// The gateway had no descriptor or memory for an attempt, and no other attempt served the request.
    pub fn gateway_limit(failed: &[FailedUpstream]) -> Rejection {
        let message = format!("the gateway ran out of descriptors or memory: {}", summary(failed));
        Rejection::new(code::OVERLOADED, message).with(failed).after(Duration::from_secs(1)).ended_race()
    }
}
