//! The connections to one origin: idle HTTP/1.1 connections, and shared HTTP/2 connections.
//!
//! An origin with HTTP/1.1 gets a dial for each request that finds no idle connection. Otherwise the pool itself dials,
//! and all waiting requests share the result, so that a burst shares one connection. Not for choosing the connection of
//! a stream, or for deciding when to open another: see `http2`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::connect::NewConnection;
use super::endpoint::Endpoint;
use super::http1::Http1Connection;
use super::http2::{ConnectionQueue, DIAL_PATIENCE, HTTP2_MAX, Http2, STREAMS_MAX, Stream, StreamStep, step};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};

/// Idle HTTP/1.1 connections per address; a further one is closed.
const IDLE_MAX: usize = 256;
/// How long an idle HTTP/1.1 connection is kept: shorter than the keep-alive of common servers, so that a reused
/// connection is rarely dead.
const IDLE_FOR: Duration = Duration::from_secs(50);
/// Idle HTTP/1.1 connections, with those being made, from which on a closed one is not replaced.
const REPLACED_MAX: usize = 8;
/// How long an origin that asked for HTTP/1.1 gets only that, unless it fails.
const HTTP1_FOR: Duration = Duration::from_secs(600);

pub(super) struct Pool {
    /// One of those that share it.
    endpoint: Endpoint,
    /// Notified when a connection was closed that is to be replaced.
    closed: Arc<Notify>,
    state: Mutex<PoolState>,
    /// Notified when a stream may be free, or when a dial or a connection has ended.
    changed: Arc<Notify>,
}

struct PoolState {
    idle: Vec<IdleConnection>,
    shared: Vec<Arc<Http2>>,
    /// The protocol of the latest connection. None: no connection yet.
    speaks_http2: Option<bool>,
    /// The origin asked for HTTP/1.1 and gets it until this time.
    http1_until: Option<Instant>,
    /// When each of the pool's own dials began.
    dials: Vec<Instant>,
    /// The longest connect timeout of a request so far: the timeout of the pool's own dials.
    patience: Duration,
    /// Requests that wait for a stream.
    waiting: usize,
    /// Streams that the latest HTTP/2 connections took.
    streams_each: usize,
    /// The latest failure of one of the pool's own dials.
    failed: Option<(Instant, Failure)>,
    /// Connections that were closed and are not replaced.
    unreplaced: usize,
}

struct IdleConnection {
    connection: Http1Connection,
    since: Instant,
    /// A request was sent over it before.
    used: bool,
}

/// One connection for one request.
pub(super) enum PooledConnection {
    Http1 { connection: Http1Connection, reused: bool },
    Http2 { stream: Stream, reused: bool },
}

/// The next step of a request that needs a connection.
pub(super) enum ConnectionClaim {
    Have(PooledConnection),
    /// Make a separate connection, over HTTP/1.1.
    DialOwn,
    /// Begin this dial for all requests, and wait.
    Dial(Dial),
    Wait,
    Failed(Failure),
}

/// A request that needs a connection.
#[derive(Clone, Copy)]
pub(super) struct ConnectionRequest {
    pub since: Instant,
    /// Connections that existed before it are not allowed.
    pub fresh: bool,
    pub connect_timeout: Duration,
}

/// A dial of the pool. It ends when dropped.
pub(super) struct Dial {
    pool: Arc<Pool>,
    begun: Instant,
    pub limit: Duration,
    /// The pool already has the result.
    ended: bool,
}

/// A request that waits for a stream, until dropped.
pub(super) struct WaitingRequest(Arc<Pool>);

impl Pool {
    /// `closed`: notified when it has [`Pool::replacements`].
    pub fn new(endpoint: &Endpoint, closed: Arc<Notify>) -> Pool {
        let state = PoolState {
            idle: Vec::new(),
            shared: Vec::new(),
            speaks_http2: None,
            http1_until: None,
            dials: Vec::new(),
            patience: Duration::ZERO,
            waiting: 0,
            streams_each: STREAMS_MAX,
            failed: None,
            unreplaced: 0,
        };
        Pool { endpoint: endpoint.clone(), closed, state: Mutex::new(state), changed: Arc::default() }
    }

    fn is_tls(&self) -> bool {
        self.endpoint.origin().https
    }

    /// A connection, or the next step. `counted`: the request is already counted as waiting.
    pub fn claim(self: &Arc<Pool>, asker: &ConnectionRequest, counted: bool) -> ConnectionClaim {
        loop {
            // Taken out first: the connection must not be checked under the lock.
            let idle = {
                let mut state = self.state();
                if self.is_tls() && state.speaks_http2 != Some(false) && !state.wants_http1() {
                    return self.claim_stream(&mut state, asker, counted);
                }
                if asker.fresh { None } else { state.idle.pop() }
            };
            let Some(IdleConnection { mut connection, since, used }) = idle else { return ConnectionClaim::DialOwn };
            if since.elapsed() < IDLE_FOR && connection.is_usable() {
                // A connection that was made while the request waited is new to it.
                return ConnectionClaim::Have(PooledConnection::Http1 {
                    connection,
                    reused: used || since < asker.since,
                });
            }
        }
    }

    fn claim_stream(
        self: &Arc<Pool>,
        state: &mut PoolState,
        asker: &ConnectionRequest,
        counted: bool,
    ) -> ConnectionClaim {
        state.shared.retain(|connection| !connection.is_closed() && !connection.is_spent());
        if let Some(latest) = state.shared.last() {
            state.streams_each = latest.streams_max();
        }
        let now = Instant::now();
        let queue = ConnectionQueue {
            waiting: state.waiting + usize::from(!counted),
            streams_each: state.streams_each,
            dials: state.dials.len(),
            young_dials: state.dials.iter().filter(|begun| now - **begun < DIAL_PATIENCE).count(),
            unknown: state.speaks_http2.is_none(),
            dial_failed: state.failed.as_ref().is_some_and(|(at, _)| now - *at < DIAL_PATIENCE),
        };
        let seats = state.shared.iter().map(|shared| shared.seat(asker.fresh && shared.born < asker.since));
        let step = step(seats, queue);
        if let StreamStep::Use(place) = step {
            let connection = state.shared[place].clone();
            let reused = connection.born < asker.since;
            return ConnectionClaim::Have(PooledConnection::Http2 { stream: Stream::open(connection), reused });
        }
        if let Some(failure) = state.failure_for(asker) {
            return ConnectionClaim::Failed(failure);
        }
        if step == StreamStep::Wait {
            return ConnectionClaim::Wait;
        }
        ConnectionClaim::Dial(self.begin_dial(state, asker.connect_timeout))
    }

    /// A dial for a connection before a request needs it. None: one is idle and stays so for `lasting`, one has a free
    /// stream, or one is being made.
    pub fn warm(self: &Arc<Pool>, lasting: Duration, connect_timeout: Duration) -> Option<Dial> {
        self.sweep();
        let mut state = self.state();
        let is_idle = state.idle.last().is_some_and(|idle| idle.since.elapsed() + lasting < IDLE_FOR);
        let mut seats = state.shared.iter().map(|shared| shared.seat(false));
        let has_room = seats.any(|seat| !seat.worn && seat.streams < seat.streams_max);
        let is_warm = is_idle || has_room || !state.dials.is_empty();
        (!is_warm).then(|| self.begin_dial(&mut state, connect_timeout))
    }

    /// Dials in place of connections that were closed, so that the next race waits for no handshake.
    pub fn replacements(self: &Arc<Pool>) -> Vec<Dial> {
        let mut state = self.state();
        let room = REPLACED_MAX.saturating_sub(state.idle.len() + state.dials.len());
        let count = std::mem::take(&mut state.unreplaced).min(room);
        (0..count).map(|_| self.begin_dial(&mut state, Duration::ZERO)).collect()
    }

    /// A connection is closed because its answer is not read to its end: that of a loser. Without TLS a new one costs little.
    pub(super) fn closes_http1(&self) {
        if self.is_tls() {
            self.state().unreplaced += 1;
            self.closed.notify_one();
        }
    }

    fn begin_dial(self: &Arc<Pool>, state: &mut PoolState, connect_timeout: Duration) -> Dial {
        let begun = Instant::now();
        state.dials.push(begun);
        state.patience = state.patience.max(connect_timeout);
        Dial { pool: self.clone(), begun, limit: state.patience, ended: false }
    }

    /// The next change. A future registered before [`Pool::claim`] misses no change.
    pub fn change(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Notified when something changes; for connections that are being made.
    pub fn changes(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Counts a request that waits for a stream.
    pub fn wait(self: &Arc<Pool>) -> WaitingRequest {
        self.state().waiting += 1;
        WaitingRequest(self.clone())
    }

    /// Whether a new connection may offer only HTTP/1.1.
    pub fn wants_http1(&self) -> bool {
        self.state().wants_http1()
    }

    /// Records that the origin asked for HTTP/1.1.
    pub fn speak_http1(&self) {
        let mut state = self.state();
        state.http1_until = Some(Instant::now() + HTTP1_FOR);
        state.shared.clear();
        drop(state);
        self.changed.notify_waiters();
    }

    /// HTTP/1.1 failed too, so what the origin asked for is forgotten: it may have been wrong, or one server's alone.
    pub fn http1_failed(&self) {
        self.state().http1_until = None;
    }

    /// Adds a new connection, made by the pool's dial that began at `dial` or by a request. None: the maximum is
    /// reached.
    pub fn adopt(&self, made: NewConnection, dial: Option<Instant>) -> Option<PooledConnection> {
        let mut state = self.state();
        state.end_dial(dial);
        state.failed = None;
        state.speaks_http2 = Some(matches!(made, NewConnection::Http2 { .. }));
        match made {
            NewConnection::Http1(connection) => Some(PooledConnection::Http1 { connection, reused: false }),
            NewConnection::Http2 { .. } if state.shared.len() + state.dials.len() >= HTTP2_MAX => None,
            NewConnection::Http2 { sender, streams_max, count } => {
                let connection = Http2::new(sender, streams_max, state.streams_each, count, self.changed.clone());
                let connection = Arc::new(connection);
                state.shared.push(connection.clone());
                Some(PooledConnection::Http2 { stream: Stream::open(connection), reused: false })
            }
        }
    }

    /// The failure of a request that has no connection after this time.
    pub fn late(&self, waited: Duration) -> Failure {
        let connections = self.state().shared.len();
        let (kind, message) = if connections < HTTP2_MAX {
            let through = self
                .endpoint
                .origin()
                .transport
                .proxy
                .as_ref()
                .map(|proxy| format!(" through the proxy {proxy}"))
                .unwrap_or_default();
            (FailureKind::Timeout, format!("no connection within {waited:?}{through}"))
        } else {
            let full = format!("no free stream within {waited:?}: the {connections} HTTP/2 connections are full");
            (FailureKind::GatewayLimit, full)
        };
        Failure::new(kind, Phase::Connect, message)
    }

    /// Keeps a connection for a later request.
    pub fn put_back(&self, connection: PooledConnection) {
        match connection {
            PooledConnection::Http1 { connection, reused } => self.keep(connection, reused),
            PooledConnection::Http2 { mut stream, .. } => stream.ended = true,
        }
    }

    /// Keeps a connection after a request.
    pub(super) fn put_back_http1(&self, connection: Http1Connection) {
        self.keep(connection, true);
    }

    fn keep(&self, connection: Http1Connection, used: bool) {
        let mut state = self.state();
        if state.idle.len() < IDLE_MAX {
            state.idle.push(IdleConnection { connection, since: Instant::now(), used });
        }
    }

    /// Closes connections that were idle for too long or cannot be used any more.
    pub fn sweep(&self) {
        let mut state = self.state();
        state.idle.retain_mut(|idle| idle.since.elapsed() < IDLE_FOR && idle.connection.is_usable());
        state.shared.retain(|connection| !connection.is_closed() && !connection.is_spent());
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn wants_http1(&self) -> bool {
        self.http1_until.is_some_and(|until| Instant::now() < until)
    }

    fn end_dial(&mut self, begun: Option<Instant>) {
        if let Some(place) = self.dials.iter().position(|dial| Some(*dial) == begun) {
            self.dials.swap_remove(place);
        }
    }

    /// The failure of a dial that this request has waited for, if no other dial is under way. A timeout counts only for requests
    /// with no longer timeout.
    fn failure_for(&self, asker: &ConnectionRequest) -> Option<Failure> {
        let (at, failure) = self.failed.as_ref().filter(|_| self.shared.is_empty())?;
        let under_way = self.dials.iter().any(|begun| begun < at);
        let mine = *at >= asker.since && !under_way && failure.kind != FailureKind::Timeout;
        mine.then(|| failure.clone())
    }
}

impl Dial {
    /// Ends it; all waiting requests share its result.
    pub fn end(mut self, made: Result<NewConnection, Failure>) {
        match made {
            Ok(made) => {
                self.ended = true;
                if let Some(connection) = self.pool.adopt(made, Some(self.begun)) {
                    self.pool.put_back(connection);
                }
            }
            Err(failure) => self.pool.state().failed = Some((Instant::now(), failure)),
        }
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.pool.endpoint
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        if !self.ended {
            self.pool.state().end_dial(Some(self.begun));
        }
        self.pool.changed.notify_waiters();
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

impl PooledConnection {
    pub fn reused(&self) -> bool {
        match self {
            PooledConnection::Http1 { reused, .. } | PooledConnection::Http2 { reused, .. } => *reused,
        }
    }

    pub fn is_http2(&self) -> bool {
        matches!(self, PooledConnection::Http2 { .. })
    }
}
