//! The listener: connections in, requests routed to `proxy`, a bound on everything, and a clean end.
//!
//! HTTP/1.1 and HTTP/2 (with prior knowledge) on one port. A connection is watched while its request is served: when the
//! client goes, or takes nothing any more, the request's future or body is dropped, and with it everything upstream.

mod api;
mod cors;
mod health;
mod metrics;
mod routes;
mod socket;
mod stream;

pub use routes::router;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::shutdown::Shutdown;
use stream::{Noted, Streams};

/// Client connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 16_384;
/// A client must have sent its request's head by then.
const HEAD_FOR: Duration = Duration::from_secs(30);
/// A client that takes nothing for so long, while something waits for it, is gone.
const TAKE_FOR: Duration = Duration::from_secs(300);
/// Concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;
/// After the cancel of a shutdown, a client has so long to take the event that tells it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between two tries to accept when the system has no more descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Accepts until draining begins. Each connection is a task of `shutdown`.
pub async fn serve(listener: TcpListener, router: Router, shutdown: Shutdown) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut draining = std::pin::pin!(shutdown.draining());
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            biased;
            () = &mut draining => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, router.clone(), shutdown.clone());
                shutdown.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, shutdown: Shutdown) {
    let (socket, client) = socket::share(stream);
    serve_connection(socket, client.left(), router, shutdown).await;
}

/// Serves until `client_left`, or until the connection ends by itself, says nothing, or has to end.
async fn serve_connection<S>(stream: S, client_left: impl Future<Output = ()>, router: Router, shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = Builder::new(Streams(shutdown.clone()));
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_FOR);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX).keep_alive_interval(Some(HEAD_FOR));
    let router = TowerToHyperService::new(router);
    let asked = AtomicBool::new(false);
    let service = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        let response = router.call(request);
        async { response.await.map(|response| response.map(Noted)) }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut client_left = std::pin::pin!(client_left);
    // hyper waits for the bytes that tell the version, and for what opens HTTP/2, without a bound.
    let mut first_head = std::pin::pin!(tokio::time::sleep(HEAD_FOR));
    let mut draining = std::pin::pin!(shutdown.draining());
    let cancelled = async {
        shutdown.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    let mut cancelled = std::pin::pin!(cancelled);
    let (mut told, mut begun) = (false, false);
    loop {
        tokio::select! {
            // What was asked before the client left may be answered by now.
            biased;
            // An error here is a client that left or spoke no HTTP: nothing to do about it.
            _ = connection.as_mut() => return,
            () = &mut client_left => return,
            () = &mut first_head, if !begun => {
                begun = asked.load(Ordering::Relaxed);
                if !begun {
                    return;
                }
            }
            () = &mut draining, if !told => {
                told = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut cancelled => return,
        }
    }
}

#[cfg(test)]
mod tests;
