//! The HTTP version of a connection, known before hyper reads from it.
//!
//! hyper-util can find the version too, but it reads the first bytes for that. hyper then enlarges its read buffer for
//! the rest of the head: twice the memory for as long as the connection is open.

use std::time::Duration;

use super::socket::ClientPresence;

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause after the first part of a preface, until the rest is looked for. It doubles each time.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
}

impl HttpVersion {
    /// By the first bytes of a connection without TLS, which are not consumed. None: the client left.
    pub(super) async fn of_plain(client: &ClientPresence) -> Option<HttpVersion> {
        let mut first = [0; PREFACE.len()];
        let mut pause = LOOK_AGAIN;
        loop {
            match client.first_bytes(&mut first).await {
                [] => return None,
                PREFACE => return Some(HttpVersion::Http2),
                part if PREFACE.starts_with(part) => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                _ => return Some(HttpVersion::Http1),
            }
        }
    }

    /// By what the client and the server agreed on during the TLS handshake.
    pub(super) fn agreed(alpn: Option<&[u8]>) -> HttpVersion {
        if alpn == Some(b"h2") { HttpVersion::Http2 } else { HttpVersion::Http1 }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::server::connection_place::ConnectionPlace;
    use crate::server::socket::share;
    use photofinish_base::budget::Budget;

    /// The version of a client that sends these parts, each after the one before was seen.
    async fn version(parts: &[&[u8]]) -> Option<HttpVersion> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_socket, presence) =
            share(listener.accept().await.unwrap().0, ConnectionPlace::new(&Budget::new(0), false));
        let send = async {
            for part in parts {
                client.write_all(part).await.unwrap();
                presence.first_bytes(&mut [0]).await;
                tokio::task::yield_now().await;
            }
            client
        };
        tokio::join!(HttpVersion::of_plain(&presence), send).0
    }

    #[tokio::test]
    async fn the_first_bytes_show_the_version() {
        let table: [(&[&[u8]], HttpVersion); 6] = [
            (&[PREFACE], HttpVersion::Http2),
            (&[b"P", &PREFACE[1..20], &PREFACE[20..]], HttpVersion::Http2),
            (&[b"P", b"OST /v1/chat/completions HTTP/1.1"], HttpVersion::Http1),
            (&[b"GET / HTTP/1.1"], HttpVersion::Http1),
            (&[b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n"], HttpVersion::Http1),
            (&[b"\r\n"], HttpVersion::Http1),
        ];
        for (parts, expected) in table {
            assert_eq!(version(parts).await, Some(expected), "{parts:?}");
        }
    }

    #[test]
    fn with_tls_the_handshake_says_it() {
        for (alpn, expected) in [
            (Some(&b"h2"[..]), HttpVersion::Http2),
            (Some(b"http/1.1"), HttpVersion::Http1),
            (None, HttpVersion::Http1),
        ] {
            assert_eq!(HttpVersion::agreed(alpn), expected, "{alpn:?}");
        }
    }
}
