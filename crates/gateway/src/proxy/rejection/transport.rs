//! Answers about how a request was sent, not about what it asks: its method, its encoding, an upgrade.

use http::header::{ACCEPT_ENCODING, ALLOW, UPGRADE};

use super::{Rejection, code};
use photofinish_base::coding::{ContentCoding, Undecodable, UnknownCoding};
use photofinish_base::printable::quoted;

impl Rejection {
    pub fn method(allow: &'static str) -> Rejection {
        let message = format!("this path takes {allow} only");
        Rejection::new(code::METHOD_NOT_ALLOWED, message).naming(ALLOW, allow)
    }

    /// A client of the Responses API tries a WebSocket first, and turns to HTTP at once after this status.
    pub fn no_websocket() -> Rejection {
        let message = "the gateway speaks no WebSocket: send a POST, and read server-sent events with \"stream\": true";
        Rejection::new(code::NO_WEBSOCKET, message).naming(UPGRADE, "HTTP/1.1")
    }

    /// A body of a coding that the gateway does not decode.
    pub fn unknown_coding(unknown: &UnknownCoding) -> Rejection {
        let what = match unknown {
            UnknownCoding::Name(name) => format!("header content-encoding: {} is not supported", quoted(name)),
            UnknownCoding::Several => "header content-encoding: more than one coding is not supported".to_owned(),
        };
        let message = format!("{what}: send the body as it is, or as one of {}", ContentCoding::NAMES);
        Rejection::new(code::UNSUPPORTED_ENCODING, message).naming(ACCEPT_ENCODING, ContentCoding::NAMES)
    }

    pub fn undecodable(coding: ContentCoding, why: Undecodable) -> Rejection {
        let name = coding.as_str();
        let message = match why {
            Undecodable::Invalid => format!("the request body is not valid {name}, as its content-encoding says"),
            Undecodable::Cut => format!("the request body ends in the middle of its {name} data"),
        };
        Rejection::new(code::INVALID_REQUEST, message)
    }
}
