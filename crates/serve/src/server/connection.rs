//! One client's connection: its version, its requests, and its end. The server watches it while its request is served. Not
//! for accepting: see `accept`.

#[cfg(test)]
pub(super) mod tests;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper::upgrade::Parts;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::client_bytes::{Begun, CheckedStream, CountedReads, StreamHeads};
use super::connection_place::ConnectionLook;
use super::connection_slots::{self, ConnectionSlot, Places};
use super::socket::{self, ClientPresence, HttpVersion, Socket, quiet};
use super::stream::{STREAM_BUFFER_MAX, Streams, WatchedBody};
use super::tls::{self, Handshake};
use super::websocket::{self, UpgradeSlot};
use super::{forwarded, layers};
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_routing::health::LiveConfig;

/// How long a client may take to send the head of its request.
const HEAD_FOR: Duration = Duration::from_secs(30);
/// Concurrent requests on one HTTP/2 connection, once one of them had a valid token.
const STREAMS_MAX: u32 = 1_024;
/// Bytes of a head over HTTP/1.1, and of an answer that its client does not read.
const BUFFER_MAX: usize = 64 * 1024;
/// How long a client has to read the final event after a shutdown cancels its stream.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One type with and without TLS: hyper's code for a connection is in the program once for each.
type ClientStream = Either<Socket, Box<TlsStream<Socket>>>;

/// The state that all connections share.
#[derive(Clone)]
pub(super) struct ServerState {
    pub places: Arc<Places>,
    pub router: Router,
    /// The certificate at the start. Without one there is no TLS, even if a reload adds one.
    pub tls: Option<Arc<ServerConfig>>,
    pub shutdown: Shutdown,
    /// Returns the configuration in force.
    pub live: Arc<dyn Fn() -> Arc<LiveConfig> + Send + Sync>,
}

impl ServerState {
    /// The certificate for a new handshake.
    pub fn certificate(&self) -> Option<Arc<ServerConfig>> {
        let first = self.tls.as_ref()?;
        let live = (self.live)();
        Some(live.config.server.tls.as_ref().map_or(first, |tls| &tls.server).clone())
    }

    /// Adds the client's address to a request. Returns the answer to a refused one: a long request on a connection of the
    /// reserve, or, without users, a request that a trusted proxy passes on from another machine.
    fn meet<B>(&self, place: &ConnectionSlot, peer: IpAddr, request: &mut Request<B>) -> Option<Response<Body>> {
        let refuse = |rejection: Rejection, path: &str| Some(rejection.answer_to(layers::near(path)));
        let is_long = request.method() == Method::POST || request.headers().contains_key(UPGRADE);
        if is_long && !place.may_work() {
            return refuse(Rejection::crowded(), request.uri().path());
        }
        let live = (self.live)();
        let trusted = &live.config.server.trusted_proxies;
        let client = forwarded::client(peer, request.headers(), trusted);
        if !trusted.is_empty() {
            if let Some(client) = client {
                place.is_for(client);
            }
            let is_remote = client.is_none_or(|client| !client.is_loopback());
            if live.config.users.is_empty() && is_remote {
                return refuse(Rejection::remote_client(), request.uri().path());
            }
        }
        // One address for all clients of a proxy that says nothing valid of them.
        let address = connection_slots::network(client.unwrap_or(peer));
        request.extensions_mut().insert(Client::at(address));
        None
    }
}

/// Serves one client.
pub(super) async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    place: ConnectionSlot,
    tls: Option<Arc<ServerConfig>>,
    shared: ServerState,
) {
    let (socket, client) = socket::share(stream, place.connection.clone());
    match tls {
        // Boxed: the state of TLS would take several kilobytes of every connection.
        Some(certificate) => Box::pin(tls_connection(socket, client, peer, place, certificate, shared)).await,
        None => plain_connection(socket, client, peer, place, shared).await,
    }
}

async fn tls_connection(
    socket: Socket,
    client: ClientPresence,
    peer: IpAddr,
    place: ConnectionSlot,
    certificate: Arc<ServerConfig>,
    mut shared: ServerState,
) {
    match tls::shake_hands(socket, &client, certificate, &place, &shared.shutdown).await {
        Handshake::Tls(stream) => {
            let version = HttpVersion::agreed(stream.get_ref().1.alpn_protocol());
            let by = Instant::now() + HEAD_FOR;
            serve_connection(ClientStream::Right(stream), version, by, &client, peer, place, &shared).await;
        }
        Handshake::Plain(socket) => {
            shared.router = tls::only_https();
            plain_connection(socket, client, peer, place, shared).await;
        }
        Handshake::Ended => {}
    }
}

async fn plain_connection(
    socket: Socket,
    client: ClientPresence,
    peer: IpAddr,
    place: ConnectionSlot,
    shared: ServerState,
) {
    let by = Instant::now() + HEAD_FOR;
    let version = tokio::select! {
        version = tokio::time::timeout_at(by, HttpVersion::of_plain(&client)) => version.ok().flatten(),
        () = place.given_up() => None,
        () = quiet(&shared.shutdown, &place.connection, &client) => None,
    };
    if let Some(version) = version {
        serve_connection(ClientStream::Left(socket), version, by, &client, peer, place, &shared).await;
    }
}

fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_FOR);
    builder.max_buf_size(BUFFER_MAX).max_header_size(BUFFER_MAX);
    builder
}

fn http2(shutdown: &Shutdown, place: &ConnectionSlot) -> http2::Builder<Streams> {
    let (shutdown, connection) = (shutdown.clone(), place.connection.clone());
    let mut builder = http2::Builder::new(Streams { shutdown, connection });
    builder.timer(TokioTimer::new()).keep_alive_interval(Some(HEAD_FOR));
    builder.max_concurrent_streams(STREAMS_MAX).max_send_buf_size(STREAM_BUFFER_MAX);
    builder
}

/// Serves one connection. The head of the first request must arrive before `by`.
async fn serve_connection<S>(
    stream: S,
    version: HttpVersion,
    by: Instant,
    client: &ClientPresence,
    peer: IpAddr,
    place: ConnectionSlot,
    shared: &ServerState,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let router = TowerToHyperService::new(shared.router.clone());
    let asked = AtomicBool::new(false);
    let is_http2 = version == HttpVersion::Http2;
    let service = service_fn(|mut request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let has_token = || proxy::has_token(&(shared.live)(), request.headers());
        let work = place.begin(is_http2, has_token);
        let answer = work.map(|mut work| {
            if is_http2 {
                work.reads(request.headers());
            }
            let refusal = shared.meet(&place, peer, &mut request);
            (work, refusal.map_or_else(|| Ok(router.call(request)), |refusal| Err(Box::new(refusal))))
        });
        async {
            // hyper sends this reason, by which the client knows that it may ask again.
            let (work, answer) = answer.ok_or_else(|| h2::Error::from(h2::Reason::REFUSED_STREAM))?;
            let response = match answer {
                Ok(response) => response.await.unwrap_or_else(|never| match never {}),
                Err(refusal) => *refusal,
            };
            Ok::<_, h2::Error>(response.map(|body| WatchedBody::new(body, work)))
        }
    });
    place.connection.serves(is_http2);
    let stream = CountedReads { stream, connection: place.connection.clone() };
    let shutdown = &shared.shutdown;
    let is_complete = match version {
        HttpVersion::Http1 => {
            let upgrades = UpgradeSlot::default();
            let service = service_fn(|mut request: Request<Incoming>| {
                upgrades.offer(&mut request);
                let answer = service.call(request);
                async { answer.await.map(|response| last_if_draining(response, shutdown)) }
            });
            let connection = http1().serve_connection(TokioIo::new(CheckedStream::new(stream)), service);
            let connection =
                (connection.with_upgrades(), http1::UpgradeableConnection::graceful_shutdown as EndConnection<_>);
            let is_complete = until_over(connection, version, client, by, &asked, &place, shutdown).await;
            !Box::pin(upgraded::<S>(&upgrades, client, &place, shutdown)).await && is_complete
        }
        // Boxed: few connections speak it, and its state is twice as large.
        HttpVersion::Http2 => {
            let begun = Begun::default();
            let stream = StreamHeads::new(stream, begun.clone());
            let service = service_fn(|request| {
                begun.begins();
                service.call(request)
            });
            let connection = http2(shutdown, &place).serve_connection(TokioIo::new(stream), service);
            let connection = (connection, http2::Connection::graceful_shutdown as EndConnection<_>);
            Box::pin(until_over(connection, version, client, by, &asked, &place, shutdown)).await
        }
    };
    if is_complete && shutdown.is_draining() && !shutdown.is_cancelled() {
        client.see_off().await;
    }
}

/// Serves a WebSocket until it ends, its client has left, or it must end. False: there is none.
async fn upgraded<S>(
    upgrades: &UpgradeSlot,
    client: &ClientPresence,
    place: &ConnectionSlot,
    shutdown: &Shutdown,
) -> bool
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(accepted) = upgrades.take() else { return false };
    let Ok((upgrade, accepted)) = accepted.upgraded().await else { return true };
    let Ok(Parts { io, read_buf, .. }) = upgrade.downcast::<TokioIo<CheckedStream<CountedReads<S>>>>() else {
        return true;
    };
    let serving = websocket::serve(io.into_inner().into_inner(), read_buf, accepted, place);
    tokio::select! {
        biased;
        () = serving => {}
        () = client.left() => {}
        () = place.given_up() => {}
        () = async { shutdown.cancelled().await; tokio::time::sleep(LAST_WORDS).await } => {}
    }
    true
}

/// Makes a client of HTTP/1.1 send its next request over another connection. hyper closes this one after the answer.
fn last_if_draining(mut response: Response<WatchedBody>, shutdown: &Shutdown) -> Response<WatchedBody> {
    if shutdown.is_draining() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Lets a connection end after the requests that have come.
type EndConnection<C> = fn(Pin<&mut C>);

/// Drives a connection until its client has left, or until it ends by itself, stays silent, gives up its slot, or must end.
/// True if it ended by itself, with an answer.
async fn until_over<C: Future>(
    (connection, end): (C, EndConnection<C>),
    version: HttpVersion,
    client: &ClientPresence,
    by: Instant,
    asked: &AtomicBool,
    place: &ConnectionSlot,
    shutdown: &Shutdown,
) -> bool {
    let mut connection = std::pin::pin!(connection);
    let mut client_left = std::pin::pin!(client.left());
    let mut given_up = std::pin::pin!(place.given_up());
    // hyper has no time limit for the HTTP/2 preface, for further requests on HTTP/2, and for what their client does not
    // take.
    let mut look = std::pin::pin!(tokio::time::sleep_until(by.min(Instant::now() + place.connection.look_every())));
    let mut draining = std::pin::pin!(shutdown.draining());
    let (mut is_draining, mut was_silent, mut told) = (false, false, false);
    // Boxed: most connections end before the gateway drains.
    let mut silent = OptionFuture::<Pin<Box<dyn Future<Output = ()> + Send + '_>>>::default();
    let cancelled = async {
        shutdown.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    let mut cancelled = std::pin::pin!(cancelled);
    loop {
        tokio::select! {
            // A request that arrived before the client left may already have its answer.
            biased;
            // An error here means that the client left or did not speak HTTP. No action is needed.
            _ = connection.as_mut() => return !was_silent,
            () = &mut client_left => return false,
            () = &mut look => {
                let head_by = (!asked.load(Ordering::Relaxed)).then_some(by);
                match place.connection.look(head_by, Instant::now()) {
                    ConnectionLook::Close => return false,
                    ConnectionLook::IsIdle(next) => {
                        if !std::mem::replace(&mut told, true) {
                            end(connection.as_mut());
                        }
                        look.as_mut().reset(next);
                    }
                    ConnectionLook::Keep(next) => look.as_mut().reset(next),
                }
            }
            () = &mut draining, if !is_draining => {
                is_draining = true;
                // HTTP/2 names the last request that will still be answered. HTTP/1.1 cannot: a request that is
                // on its way to a connection that closes is lost, so this one waits until its client is quiet.
                if version == HttpVersion::Http2 {
                    end(connection.as_mut());
                }
                silent = OptionFuture::from(Some(Box::pin(quiet(shutdown, &place.connection, client)) as _));
            }
            Some(()) = &mut silent => {
                if !asked.load(Ordering::Relaxed) {
                    return false;
                }
                (was_silent, silent) = (true, OptionFuture::default());
                end(connection.as_mut());
            }
            () = &mut given_up => {
                end(connection.as_mut());
                // One poll, so that the client is notified.
                let _ = connection.as_mut().now_or_never();
                return false;
            }
            () = &mut cancelled => return false,
        }
    }
}
