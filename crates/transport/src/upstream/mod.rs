//! The only room that opens outgoing connections: a small pool of HTTP/1.1 and HTTP/2 connections for each origin.
//!
//! A ready-made client hides information that a race needs: whether a connection was reused, how long it took to get
//! one, a connect timeout that covers name look-up and TLS, and the difference between a dead pooled connection and a
//! refused request. The endpoint determines the proxy and the certificate authorities of its connections.

mod connect;
mod connection_error;
mod counted_stream;
mod dns;
mod endpoint;
mod http1;
mod http2;
mod pool;
mod response;
mod sigv4;
mod tunnel;
mod upload;

pub use dns::{Resolver, system_resolver};
pub use endpoint::{Endpoint, InvalidUrl};
pub use response::{Response, ResponseBody};
pub use sigv4::{Credentials, SignError, sign};
pub use upload::{BodyError, Upload};

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use http_body_util::Either;
use tokio::sync::Notify;
use tokio::sync::oneshot::Receiver;

use connect::{Connector, NewConnection};
use http2::DIAL_PATIENCE;
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::machine::Descriptors;
use photofinish_base::parts::BodyParts;
use photofinish_base::shutdown::Shutdown;
use pool::{ConnectionClaim, ConnectionRequest, Dial, Pool, PooledConnection};
use upload::{Held, RequestBody};

/// Interval of the check for idle connections that have expired, and for warm ones that are missing.
const SWEEP: Duration = Duration::from_secs(10);
/// Times that one request is sent again that no peer has processed.
const RESENDS_MAX: usize = 3;

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct UpstreamClient {
    inner: Arc<ClientState>,
}

struct ClientState {
    connector: Connector,
    pools: Mutex<HashMap<endpoint::Origin, Arc<Pool>>>,
    warm: Mutex<Vec<WarmEndpoint>>,
    /// Notified when connections are to be replaced.
    closed: Arc<Notify>,
    shutdown: Shutdown,
}

/// An endpoint to which a connection is kept open.
#[derive(Clone, Debug)]
pub struct WarmEndpoint {
    pub endpoint: Endpoint,
    /// Timeout for a new connection.
    pub connect_timeout: Duration,
}

/// One request to an upstream.
#[derive(Clone)]
pub struct Outgoing {
    pub endpoint: Endpoint,
    pub method: Method,
    /// Appended to the endpoint's path, with a slash in front; a query may follow.
    pub path: Cow<'static, str>,
    /// Everything but `host` and `content-length`.
    pub headers: HeaderMap,
    pub body: BodyParts,
    /// Timeout for a connection, new or awaited.
    pub connect_timeout: Duration,
    /// Use a new connection: a pooled one has just died.
    pub fresh: bool,
}

/// The origin of a request's connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOrigin {
    /// From the pool.
    pub reused: bool,
    pub http2: bool,
    /// When it was ready.
    pub at: Instant,
}

impl UpstreamClient {
    /// Loads the trusted certificates: the system's, or a bundled set if the system has none.
    ///
    /// # Errors
    /// TLS cannot be set up at all.
    pub fn new(shutdown: Shutdown) -> Result<UpstreamClient, rustls::Error> {
        UpstreamClient::with_resolver(shutdown, system_resolver())
    }

    /// [`UpstreamClient::new`] with a different resolver.
    ///
    /// # Errors
    /// TLS cannot be set up at all.
    pub fn with_resolver(shutdown: Shutdown, resolver: Resolver) -> Result<UpstreamClient, rustls::Error> {
        let connector = Connector::new(shutdown.clone(), resolver)?;
        Ok(UpstreamClient::with_connector(shutdown, connector))
    }

    /// Connections in memory, for tests on a stopped clock.
    #[cfg(any(test, feature = "test-support"))]
    pub fn in_memory(shutdown: Shutdown, dial: connect::Dial) -> Result<UpstreamClient, rustls::Error> {
        let mut connector = Connector::new(shutdown.clone(), system_resolver())?;
        connector.in_memory = Some(dial);
        Ok(UpstreamClient::with_connector(shutdown, connector))
    }

    fn with_connector(shutdown: Shutdown, connector: Connector) -> UpstreamClient {
        let client = UpstreamClient {
            inner: Arc::new(ClientState {
                connector,
                pools: Mutex::default(),
                warm: Mutex::default(),
                closed: Arc::default(),
                shutdown: shutdown.clone(),
            }),
        };
        let (inner, closed) = (Arc::downgrade(&client.inner), client.inner.closed.clone());
        let draining = shutdown.draining();
        shutdown.spawn(async move {
            let mut draining = std::pin::pin!(draining);
            let mut sweep = tokio::time::interval_at(tokio::time::Instant::now() + SWEEP, SWEEP);
            loop {
                let is_sweep = tokio::select! {
                    () = &mut draining => return,
                    _ = sweep.tick() => true,
                    () = closed.notified() => false,
                };
                let Some(inner) = inner.upgrade() else { return };
                let client = UpstreamClient { inner };
                if is_sweep {
                    client.inner.pools().values().for_each(|pool| pool.sweep());
                    client.warm();
                } else {
                    client.replace();
                }
            }
        });
        client
    }

    fn replace(&self) {
        let dials: Vec<Dial> = self.inner.pools().values().flat_map(|pool| pool.replacements()).collect();
        if !self.descriptors().are_scarce() {
            dials.into_iter().for_each(|dial| self.dial(dial));
        }
    }

    /// Whether they are running out.
    pub fn descriptors(&self) -> &Descriptors {
        &self.inner.connector.descriptors
    }

    /// From now on keeps a connection open to each of these, and to no other: it is made now, and again when none is left
    /// or the idle one is about to expire. No request is sent over it. Connections to one origin are shared.
    pub fn keep_warm(&self, endpoints: Vec<WarmEndpoint>) {
        *self.inner.warm.lock().unwrap_or_else(PoisonError::into_inner) = endpoints;
        self.warm();
    }

    fn warm(&self) {
        if self.descriptors().are_scarce() {
            return;
        }
        let warm = self.inner.warm.lock().unwrap_or_else(PoisonError::into_inner);
        for WarmEndpoint { endpoint, connect_timeout } in warm.iter() {
            if let Some(dial) = self.inner.pool(endpoint).warm(SWEEP, *connect_timeout) {
                self.dial(dial);
            }
        }
    }

    /// Sends a request and waits for the head of its answer. `connected` is called as soon as a connection is ready.
    ///
    /// A request is sent again only if no peer has processed it: it was never sent, or the peer reports that. If a
    /// pooled connection dies in another way the failure is `stale`. Dropping the future cancels the request; an
    /// unfinished new connection goes to the pool.
    ///
    /// # Errors
    /// A failure of phase connect or headers.
    pub async fn send(
        &self,
        outgoing: &Outgoing,
        connected: impl FnMut(ConnectionOrigin),
    ) -> Result<Response, Failure> {
        self.send_as(outgoing, None, connected).await
    }

    /// The same with a body that is sent as it comes, in place of that of `outgoing`.
    ///
    /// # Errors
    /// As [`UpstreamClient::send`].
    pub async fn send_upload(
        &self,
        outgoing: &Outgoing,
        upload: &Upload,
        connected: impl FnMut(ConnectionOrigin),
    ) -> Result<Response, Failure> {
        self.send_as(outgoing, Some(upload), connected).await
    }

    async fn send_as(
        &self,
        outgoing: &Outgoing,
        upload: Option<&Upload>,
        mut connected: impl FnMut(ConnectionOrigin),
    ) -> Result<Response, Failure> {
        let pool = self.inner.pool(&outgoing.endpoint);
        let mut resends = 0;
        loop {
            let connection = self.connection(&pool, outgoing).await?;
            let (reused, is_http2) = (connection.reused(), connection.is_http2());
            connected(ConnectionOrigin { reused, http2: is_http2, at: Instant::now() });
            let version = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
            let request = request(outgoing, upload, version);
            let error = match connection.send(request, &pool).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if error.wants_http1 {
                pool.speak_http1();
            } else if !is_http2 && !reused {
                pool.http1_failed();
            }
            if !error.unsent || resends == RESENDS_MAX || upload.is_some_and(|upload| !upload.is_whole()) {
                return Err(Failure { stale: reused && error.died, ..error.failure });
            }
            resends += 1;
        }
    }

    async fn connection(&self, pool: &Arc<Pool>, outgoing: &Outgoing) -> Result<PooledConnection, Failure> {
        let limit = outgoing.connect_timeout;
        let asker = ConnectionRequest { since: Instant::now(), fresh: outgoing.fresh, connect_timeout: limit };
        let claim = pool.claim(&asker, false);
        if let ConnectionClaim::Have(connection) = claim {
            return Ok(connection);
        }
        // Boxed: making one takes 8 KB of state, which the many requests that find one need not carry.
        let made = Box::pin(tokio::time::timeout(limit, self.make(pool, outgoing, &asker, claim)));
        made.await.unwrap_or_else(|_| Err(pool.late(limit)))
    }

    /// Makes a connection, or waits for one under way or for a free stream.
    async fn make(
        &self,
        pool: &Arc<Pool>,
        outgoing: &Outgoing,
        asker: &ConnectionRequest,
        mut claim: ConnectionClaim,
    ) -> Result<PooledConnection, Failure> {
        let mut waiting = None;
        loop {
            match claim {
                ConnectionClaim::Have(connection) => return Ok(connection),
                ConnectionClaim::Failed(failure) => return Err(failure),
                ConnectionClaim::DialOwn => {
                    if let Some(connection) = self.dial_own(pool, outgoing).await? {
                        return Ok(connection);
                    }
                }
                ConnectionClaim::Dial(dial) => self.dial(dial),
                ConnectionClaim::Wait => {}
            }
            waiting.get_or_insert_with(|| pool.wait());
            let mut change = std::pin::pin!(pool.change());
            change.as_mut().enable();
            claim = pool.claim(asker, true);
            if matches!(claim, ConnectionClaim::Wait) {
                // Also check from time to time: a dial may have become too old.
                let _ = tokio::time::timeout(DIAL_PATIENCE, change).await;
                claim = pool.claim(asker, true);
            }
        }
    }

    /// Makes a connection for one request, in a separate task, so that a cancelled loser still leaves a warm
    /// connection. None: the pool did not need another shared one.
    async fn dial_own(&self, pool: &Arc<Pool>, outgoing: &Outgoing) -> Result<Option<PooledConnection>, Failure> {
        self.begin_own(pool, outgoing).await.unwrap_or_else(|_| Err(ending()))
    }

    /// Not async: the code of an async function is in the program once for each crate that awaits it.
    fn begin_own(&self, pool: &Arc<Pool>, outgoing: &Outgoing) -> Receiver<Result<Option<PooledConnection>, Failure>> {
        let (give, take) = tokio::sync::oneshot::channel();
        let (inner, endpoint, limit, keep) =
            (self.inner.clone(), outgoing.endpoint.clone(), outgoing.connect_timeout, pool.clone());
        self.inner.shutdown.spawn(async move {
            let made = inner.connect(&keep, &endpoint, limit).await;
            if let Err(Ok(Some(unused))) = give.send(made.map(|made| keep.adopt(made, None))) {
                keep.put_back(unused);
            }
        });
        take
    }

    /// Makes a connection for all waiting requests.
    fn dial(&self, dial: Dial) {
        let inner = self.inner.clone();
        self.inner.shutdown.spawn(async move {
            let made = inner.connect(dial.pool(), dial.endpoint(), dial.limit).await;
            dial.end(made);
        });
    }
}

impl ClientState {
    fn pools(&self) -> std::sync::MutexGuard<'_, HashMap<endpoint::Origin, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, endpoint: &Endpoint) -> Arc<Pool> {
        let origin = endpoint.origin();
        let made = || Arc::new(Pool::new(endpoint, self.closed.clone()));
        self.pools().entry(origin.clone()).or_insert_with(made).clone()
    }

    /// Ends after `limit`, or when the gateway ends.
    async fn connect(&self, pool: &Pool, endpoint: &Endpoint, limit: Duration) -> Result<NewConnection, Failure> {
        let http1 = pool.wants_http1();
        // Boxed: the task that waits for it is moved several times.
        let connecting = Box::pin(self.connector.connect(endpoint, http1, pool.changes()));
        let made = tokio::select! {
            made = tokio::time::timeout(limit, connecting) => made.unwrap_or_else(|_| Err(pool.late(limit))),
            () = self.shutdown.cancelled() => Err(ending()),
        };
        made.inspect_err(|_| {
            if http1 {
                pool.http1_failed();
            }
        })
    }
}

fn ending() -> Failure {
    Failure::new(FailureKind::Connect, Phase::Connect, "the gateway is shutting down")
}

fn request(outgoing: &Outgoing, upload: Option<&Upload>, version: Version) -> Request<RequestBody> {
    let body = upload.map_or_else(|| Either::Left(Held(outgoing.body.clone())), |upload| Either::Right(upload.clone()));
    let mut request = Request::new(body);
    *request.method_mut() = outgoing.method.clone();
    *request.version_mut() = version;
    *request.uri_mut() = outgoing.endpoint.uri(&outgoing.path, version);
    *request.headers_mut() = outgoing.headers.clone();
    if version == Version::HTTP_11 {
        request.headers_mut().insert(http::header::HOST, outgoing.endpoint.host_header());
    }
    request
}

/// What one request that is read to its end may take.
#[derive(Clone, Copy, Debug)]
pub struct GetLimits {
    /// From the look-up of the name to the last byte.
    pub time: Duration,
    /// Bytes of the answer's body.
    pub bytes: usize,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct WholeAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("the answer was not complete within {0:?}")]
    Late(Duration),
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    #[error("{}", .0.message)]
    Failed(Failure),
}

impl UpstreamClient {
    /// Gets `path` of the endpoint; `path` may have a query.
    ///
    /// # Errors
    /// No whole answer came within the limits. An answer with an error status is an answer.
    pub async fn get(
        &self,
        endpoint: Endpoint,
        path: String,
        headers: HeaderMap,
        limits: GetLimits,
    ) -> Result<WholeAnswer, GetError> {
        self.whole(endpoint, (Method::GET, path), headers, Bytes::new(), limits).await
    }

    /// Posts `body` to `path` of the endpoint.
    ///
    /// # Errors
    /// As [`UpstreamClient::get`].
    pub async fn post(
        &self,
        endpoint: Endpoint,
        path: String,
        headers: HeaderMap,
        body: Bytes,
        limits: GetLimits,
    ) -> Result<WholeAnswer, GetError> {
        self.whole(endpoint, (Method::POST, path), headers, body, limits).await
    }

    async fn whole(
        &self,
        endpoint: Endpoint,
        (method, path): (Method, String),
        headers: HeaderMap,
        body: Bytes,
        limits: GetLimits,
    ) -> Result<WholeAnswer, GetError> {
        let (path, connect_timeout) = (path.into(), limits.time);
        let outgoing = Outgoing { endpoint, method, path, headers, body: body.into(), connect_timeout, fresh: false };
        let answer = tokio::time::timeout(limits.time, self.read_whole(&outgoing, limits.bytes)).await;
        answer.unwrap_or(Err(GetError::Late(limits.time)))
    }

    async fn read_whole(&self, outgoing: &Outgoing, bytes_max: usize) -> Result<WholeAnswer, GetError> {
        let mut response = self.send(outgoing, |_| {}).await.map_err(GetError::Failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.body.next_chunk().await {
            body.extend_from_slice(&chunk.map_err(GetError::Failed)?);
            if body.len() > bytes_max {
                return Err(GetError::TooLong(bytes_max));
            }
        }
        Ok(WholeAnswer { status: response.status, headers: response.headers, body: body.into() })
    }
}

#[cfg(test)]
mod tests;
