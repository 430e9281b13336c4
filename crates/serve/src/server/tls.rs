//! The TLS handshake of a client's connection. It runs in the connection's task, within a time limit.
//!
//! A connection counts as idle during its handshake: when slots run short, it may be closed. A client that speaks plain
//! HTTP gets an answer that says so.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::CONNECTION;
use http::{HeaderValue, Response, Uri};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection_slots::ConnectionSlot;
use super::layers::near;
use super::socket::{ClientPresence, Socket, quiet};
use photofinish_base::shutdown::Shutdown;
use photofinish_gateway::proxy::Rejection;

/// How long a TLS handshake may take.
pub(super) const HANDSHAKE_FOR: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: the type of a handshake record.
const HANDSHAKE_RECORD: u8 = 22;

/// The result of a handshake.
pub(super) enum Handshake {
    Tls(Box<TlsStream<Socket>>),
    /// The client does not speak TLS. None of its bytes were consumed.
    Plain(Socket),
    /// The client left, took too long or broke TLS; or the connection gave up its slot, or the client is silent while the
    /// gateway drains.
    Ended,
}

/// Waits for the client's first byte, then for the handshake.
pub(super) async fn shake_hands(
    mut socket: Socket,
    client: &ClientPresence,
    config: Arc<ServerConfig>,
    place: &ConnectionSlot,
    shutdown: &Shutdown,
) -> Handshake {
    let handshake = async {
        match client.first_bytes(&mut [0]).await {
            [HANDSHAKE_RECORD] => {
                place.connection.encrypts();
                socket.shakes_hands(true);
                match TlsAcceptor::from(config).accept(socket).await {
                    Ok(mut stream) => {
                        stream.get_mut().0.shakes_hands(false);
                        Handshake::Tls(Box::new(stream))
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a client's TLS handshake failed");
                        Handshake::Ended
                    }
                }
            }
            [] => Handshake::Ended,
            _ => Handshake::Plain(socket),
        }
    };
    tokio::select! {
        begun = tokio::time::timeout(HANDSHAKE_FOR, handshake) => begun.unwrap_or(Handshake::Ended),
        () = place.given_up() => Handshake::Ended,
        () = quiet(shutdown, &place.connection, client) => Handshake::Ended,
    }
}

/// Answers every request with an error: this address speaks only HTTPS.
pub(super) fn only_https() -> Router {
    Router::new().fallback(async |uri: Uri| -> Response<Body> {
        let mut response = Rejection::only_https().answer_to(near(uri.path()));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    })
}
