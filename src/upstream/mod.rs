//! The only room that opens outgoing connections: a small pool of HTTP/1.1 and HTTP/2 connections for each origin.
//!
//! Its own, and not a ready-made client, because a race needs what those hide: whether a connection was reused, how long
//! it took to get one, a connect timeout that covers name look-up and TLS, and a dead pooled connection that is told from a
//! request that was refused. The system's proxy variables are not looked at.

mod connect;
mod endpoint;
mod line;
mod pool;
mod response;
mod sigv4;

pub use endpoint::{Endpoint, InvalidUrl};
pub use response::{Body, Response};
pub use sigv4::{Credentials, SignError, sign};

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Version};
use http_body_util::Full;

use crate::clock::Instant;
use crate::failure::{Failure, FailureKind, Phase};
use crate::shutdown::Shutdown;
use connect::Connector;
use pool::{Connection, Pool, SendError};

/// How often idle connections are looked through.
const SWEEP: Duration = Duration::from_secs(10);

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    connector: Connector,
    pools: Mutex<HashMap<endpoint::Origin, Arc<Pool>>>,
    shutdown: Shutdown,
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
    pub body: Bytes,
    pub connect_timeout: Duration,
}

/// How the connection for a request was come by.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    /// Out of the pool.
    pub reused: bool,
    pub http2: bool,
    /// When it was at hand.
    pub at: Instant,
}

impl Client {
    /// Loads the certificates that are trusted: the system's, or a bundled set where there are none.
    ///
    /// # Errors
    /// When TLS cannot be set up at all.
    pub fn new(shutdown: Shutdown) -> Result<Client, rustls::Error> {
        let client = Client {
            inner: Arc::new(Inner {
                connector: Connector::new(shutdown.clone())?,
                pools: Mutex::default(),
                shutdown: shutdown.clone(),
            }),
        };
        let inner = Arc::downgrade(&client.inner);
        let draining = shutdown.draining();
        shutdown.spawn(async move {
            let mut draining = std::pin::pin!(draining);
            while tokio::time::timeout(SWEEP, &mut draining).await.is_err() {
                let Some(inner) = inner.upgrade() else { return };
                inner.pools().values().for_each(|pool| pool.sweep());
            }
        });
        Ok(client)
    }

    /// Sends a request and waits for the head of its answer. `connected` is told as soon as a connection is at hand.
    ///
    /// A pooled connection that turns out dead before a byte of an answer is replaced by a new one, once. Dropping the
    /// future cancels the request; a connection that was still being made goes to the pool.
    ///
    /// # Errors
    /// A failure of phase connect or headers.
    pub async fn send(&self, outgoing: &Outgoing, mut connected: impl FnMut(Connected)) -> Result<Response, Failure> {
        let pool = self.inner.pool(&outgoing.endpoint);
        let mut fresh = false;
        loop {
            let pooled = if fresh { None } else { pool.checkout() };
            let connection = match pooled {
                Some(connection) => connection,
                None => self.dial(&pool, outgoing).await?,
            };
            let reused = connection.reused();
            connected(Connected { reused, http2: connection.is_http2(), at: Instant::now() });
            let request = request(outgoing, if connection.is_http2() { Version::HTTP_2 } else { Version::HTTP_11 });
            match connection.send(request, &pool).await {
                Ok(response) => return Ok(response),
                Err(SendError { dead: true, .. }) if reused && !fresh => fresh = true,
                Err(error) => return Err(error.failure),
            }
        }
    }

    /// Makes a connection in a task of its own, so that a loser that is cut meanwhile leaves a warm one behind.
    async fn dial(&self, pool: &Arc<Pool>, outgoing: &Outgoing) -> Result<Connection, Failure> {
        let (give, take) = tokio::sync::oneshot::channel();
        let (inner, endpoint, limit, keep) =
            (self.inner.clone(), outgoing.endpoint.clone(), outgoing.connect_timeout, pool.clone());
        let cancelled = self.inner.shutdown.cancelled();
        self.inner.shutdown.spawn(async move {
            let dialled = tokio::select! {
                dialled = tokio::time::timeout(limit, inner.connector.connect(&endpoint)) => dialled,
                () = cancelled => return,
            };
            let result = dialled.unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Timeout, Phase::Connect, format!("no connection within {limit:?}")))
            });
            let result = result.map(|made| keep.adopt(made));
            if let Err(Ok(unused)) = give.send(result) {
                keep.put_back(unused);
            }
        });
        take.await
            .unwrap_or_else(|_| Err(Failure::new(FailureKind::Connect, Phase::Connect, "the gateway is shutting down")))
    }
}

impl Inner {
    fn pools(&self) -> std::sync::MutexGuard<'_, HashMap<endpoint::Origin, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, endpoint: &Endpoint) -> Arc<Pool> {
        self.pools().entry(endpoint.origin().clone()).or_default().clone()
    }
}

fn request(outgoing: &Outgoing, version: Version) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.version_mut() = version;
    *request.uri_mut() = outgoing.endpoint.uri(&outgoing.path, version);
    *request.headers_mut() = outgoing.headers.clone();
    if version == Version::HTTP_11 {
        request.headers_mut().insert(http::header::HOST, outgoing.endpoint.host_header());
    }
    request
}
