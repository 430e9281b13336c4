//! The beginning of a connection on a listener that speaks TLS: the handshake, in a task and a place of its own.
//!
//! It is bounded like everything that a client may be slow at, and no work: when places run short, it is cut like an idle
//! connection. Who speaks plain HTTP is told so.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::CONNECTION;
use http::{HeaderValue, Response, Uri};
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::places::Place;
use super::routes::near;
use super::socket::{Client, Socket};
use crate::proxy::Rejection;
use crate::shutdown::Shutdown;

/// A client must have ended its handshake by then.
pub(super) const HANDSHAKE_FOR: Duration = Duration::from_secs(10);
/// The first byte of every TLS connection: a record of a handshake.
const HANDSHAKE: u8 = 22;

/// How a connection began.
pub(super) enum Begun {
    Tls(Box<TlsStream<Socket>>),
    /// Whatever was sent is still to be read.
    Plain(Socket),
    /// The client left, took too long or broke TLS; or the place is given up, or the gateway ends.
    Ended,
}

/// Waits for the client's first byte, and for the handshake that it begins.
pub(super) async fn begin(
    socket: Socket,
    client: &Client,
    config: Arc<ServerConfig>,
    place: &Place,
    shutdown: &Shutdown,
) -> Begun {
    let handshake = async {
        match client.first_byte().await {
            Some(HANDSHAKE) => match TlsAcceptor::from(config).accept(socket).await {
                Ok(stream) => Begun::Tls(Box::new(stream)),
                Err(error) => {
                    tracing::debug!(%error, "a client's TLS handshake failed");
                    Begun::Ended
                }
            },
            Some(_) => Begun::Plain(socket),
            None => Begun::Ended,
        }
    };
    tokio::select! {
        begun = tokio::time::timeout(HANDSHAKE_FOR, handshake) => begun.unwrap_or(Begun::Ended),
        () = place.given_up() => Begun::Ended,
        () = shutdown.draining() => Begun::Ended,
    }
}

/// Tells every request that this listener speaks HTTPS alone.
pub(super) fn only_https() -> Router {
    Router::new().fallback(async |uri: Uri| -> Response<Body> {
        let mut response = Rejection::only_https().answer_to(near(uri.path()));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    })
}
