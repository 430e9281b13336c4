//! Answers to requests that are rejected for the way they arrive and not for their content: host, origin, speed,
//! number. Not for the checks: see `server`.

use std::time::Duration;

use super::rejection::{Rejection, code};
use photofinish_base::printable::quoted;
use photofinish_config::config::units::format_bytes;

impl Rejection {
    /// The request names an unknown host. A web page may have rebound that name.
    pub fn unknown_host(host: &str) -> Rejection {
        let message = format!(
            "this gateway has no users, and the host {} is not known to be its own: call it as localhost or by its IP \
             address, or add the name to [server] hosts",
            quoted(host)
        );
        Rejection::new(code::UNKNOWN_HOST, message)
    }

    /// A web page of this origin sent the request. None: the origin is unknown.
    pub fn foreign_page(origin: Option<&[u8]>) -> Rejection {
        let who = match origin {
            Some(origin) => format!("web pages of the origin {}", quoted(&String::from_utf8_lossy(origin))),
            None => "web pages of another site".to_owned(),
        };
        let message = format!("{who} may not call this gateway: add the origin to cors under [server] if they are to");
        Rejection::new(code::FOREIGN_PAGE, message)
    }

    /// A trusted proxy forwards a request from another machine, and there are no users.
    pub fn remote_client() -> Rejection {
        let message = "this gateway has no users, so it serves its own machine only, and this request comes from another one \
                       through a proxy: add [users] to serve others";
        Rejection::new(code::REMOTE_CLIENT, message)
    }

    /// Plain HTTP to an address that speaks TLS.
    pub fn only_https() -> Rejection {
        let message = "this address speaks HTTPS: call it with https://";
        Rejection::new(code::ONLY_HTTPS, message)
    }

    pub fn body_slow(rate_min: u64) -> Rejection {
        let message =
            format!("the request body came too slowly: send at least {} a second on average", format_bytes(rate_min));
        Rejection::new(code::BODY_TIMEOUT, message)
    }

    /// All connections, or all memory for them, are busy, and this one is reserved for status requests.
    pub fn crowded() -> Rejection {
        let message =
            "every connection of the gateway, or all memory for them, is at work: send the request again later";
        Rejection::new(code::CROWDED, message).after(Duration::from_secs(1))
    }
}
