//! One client's connection: its running requests, what it holds, and when something last moved on it.
//!
//! Everything that it holds counts in `memory`, so that no client can take more than others leave. Not for choosing
//! which connection must close: see `connection_slots`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::Notify;

use photofinish_base::clock::Instant;
use photofinish_base::memory::{ClientLease, Memory};

/// What a connection takes in bytes before its client has said anything: its task and its socket.
///
/// These seven are measured, as the growth of the process's resident memory by a thousand connections or ten thousand
/// requests of a kind: `tests/attacks/held` repeats it, and fails where they are wrong by more than a factor of two.
const CONNECTION: usize = 6 << 10;
/// What TLS takes in addition, from the first byte of the handshake on.
const TLS: usize = 12 << 10;
/// What HTTP/1.1 takes in addition, with a read buffer and a head.
const HTTP1: usize = 10 << 10;
/// What HTTP/2 takes in addition. Half of it is taken only while a head with many headers does not end.
const HTTP2: usize = 30 << 10;
/// What a request over HTTP/2 takes until its answer has left, without that answer.
const STREAM: usize = 4 << 10;
/// What it takes in addition until its answer begins, without its head.
const WORK: usize = 8 << 10;
/// What each of its headers takes until then, in addition to its value.
const HEADER: usize = 96;
/// Read buffers up to this size are part of [`HTTP1`], [`HTTP2`] and [`TLS`].
const READ_BUFFER: usize = 8 << 10;
/// Whole answers up to this size are part of [`HTTP1`] and [`STREAM`].
const SMALL_ANSWER: usize = 1 << 10;

/// Requests at once over an HTTP/2 connection of which none had a valid token. A server should allow as many (RFC 9113,
/// section 6.5.2).
pub(super) const UNKNOWN_STREAMS_MAX: usize = 100;
/// Refused requests after which an HTTP/2 connection without a valid token is closed: a client that reads the refusals
/// sends no more.
const REFUSED_MAX: usize = 100;

/// How long an HTTP/2 connection may be without a request before it is asked to close. A connection of HTTP/1.1 waits
/// `HEAD_FOR` for its next head.
pub(super) const IDLE_FOR: Duration = Duration::from_secs(60);
/// How long a client may read nothing while data waits for it; then it counts as gone.
pub(super) const TAKE_FOR: Duration = Duration::from_secs(300);
/// The same of a whole answer over an HTTP/2 connection that the client reads: it does not want it. To ask cost it a few
/// bytes.
pub(super) const TAKE_WHOLE_FOR: Duration = Duration::from_secs(10);

/// The state of one connection, shared by its requests.
pub(super) struct ConnectionPlace {
    since: Instant,
    /// Number of running requests.
    working: AtomicUsize,
    /// Milliseconds after `since` at which the last request ended, or a part of its answer left.
    moved_at: AtomicU64,
    /// Requests over HTTP/2 whose answer has not left yet.
    streams: AtomicUsize,
    /// Whole answers of which a part of the last frame has left. They have no task any more that could end them.
    left_behind: AtomicUsize,
    is_http2: AtomicBool,
    /// A request had a valid token.
    is_known: AtomicBool,
    /// Requests that were refused while none had a valid token.
    unknown_refused: AtomicUsize,
    /// The newest request is refused.
    is_refusing: AtomicBool,
    /// The latest answer was whole.
    was_whole: AtomicBool,
    /// The largest read buffer that was counted.
    read_buffer: AtomicUsize,
    lease: ClientLease,
    pub in_reserve: AtomicBool,
    /// Notified when the connection must close.
    pub close: Notify,
}

/// What is to be done with a connection, and when to look again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionLook {
    /// It is silent, or nothing of what waits on it is taken.
    Close,
    IsIdle(Instant),
    Keep(Instant),
}

/// One request until its answer has left. Not `Clone`: it counts once.
pub(super) struct RequestInProgress {
    connection: Arc<ConnectionPlace>,
    /// It keeps the connection busy.
    works: bool,
    is_stream: bool,
    is_whole: bool,
    /// It is counted in `left_behind`.
    is_left: bool,
    /// What it added to the connection's lease.
    bytes: usize,
    /// What it added to that until it rests.
    work: usize,
}

impl ConnectionPlace {
    pub fn new(memory: &Memory, in_reserve: bool) -> Arc<ConnectionPlace> {
        let lease = ClientLease::new(memory);
        lease.grow(CONNECTION);
        Arc::new(ConnectionPlace {
            since: Instant::now(),
            working: AtomicUsize::new(0),
            moved_at: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            left_behind: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            unknown_refused: AtomicUsize::new(0),
            is_refusing: AtomicBool::new(false),
            was_whole: AtomicBool::new(false),
            read_buffer: AtomicUsize::new(READ_BUFFER),
            lease,
            in_reserve: AtomicBool::new(in_reserve),
            close: Notify::new(),
        })
    }

    pub fn since(&self) -> Instant {
        self.since
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.lease.bytes()
    }

    /// It speaks TLS.
    pub fn encrypts(&self) {
        self.lease.grow(TLS);
    }

    /// The version of HTTP that it speaks is known.
    pub fn serves(&self, is_http2: bool) {
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.lease.grow(if is_http2 { HTTP2 } else { HTTP1 });
    }

    /// It reads into a buffer of this size. Such a buffer is kept, also where the head or body that it was for is gone.
    pub fn reads_into(&self, size: usize) {
        if size > self.read_buffer.load(Ordering::Relaxed) {
            let before = self.read_buffer.swap(size, Ordering::Relaxed);
            self.lease.grow(size.saturating_sub(before));
        }
    }

    pub fn begin(self: &Arc<Self>, is_stream: bool) -> RequestInProgress {
        self.working.fetch_add(1, Ordering::Relaxed);
        let mut request = RequestInProgress {
            connection: self.clone(),
            works: true,
            is_stream,
            is_whole: false,
            is_left: false,
            bytes: 0,
            work: 0,
        };
        if is_stream {
            self.streams.fetch_add(1, Ordering::Relaxed);
            request.grow(STREAM);
            request.works_with(WORK);
        }
        request
    }

    /// Requests over HTTP/2 whose answer has not left yet.
    pub fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Whether a request had a valid token. If none had, `has_token` is about the newest one.
    pub fn is_known(&self, has_token: impl FnOnce() -> bool) -> bool {
        let known = self.is_known.load(Ordering::Relaxed) || has_token();
        self.is_known.store(known, Ordering::Relaxed);
        known
    }

    /// The newest request is refused.
    pub fn refuses(&self) {
        self.is_refusing.store(true, Ordering::Relaxed);
    }

    /// The same, and none had a valid token.
    pub fn refuses_unknown(&self) {
        self.refuses();
        if self.unknown_refused.fetch_add(1, Ordering::Relaxed) >= REFUSED_MAX {
            self.close.notify_one();
        }
    }

    /// Whether the newest request is refused; once for each.
    pub fn takes_refusal(&self) -> bool {
        self.is_refusing.load(Ordering::Relaxed) && self.is_refusing.swap(false, Ordering::Relaxed)
    }

    /// Whether the number of refused requests requires it to close, whatever runs on it.
    pub fn floods(&self) -> bool {
        self.unknown_refused.load(Ordering::Relaxed) > REFUSED_MAX
    }

    pub fn is_idle(&self) -> bool {
        self.working.load(Ordering::Relaxed) == 0
    }

    /// Since when nothing has moved on it. None: it is busy.
    pub fn idle_since(&self) -> Option<Instant> {
        self.is_idle().then(|| self.since + Duration::from_millis(self.moved_at.load(Ordering::Relaxed)))
    }

    /// Whether only a whole answer can wait on it.
    pub fn has_only_whole_answers(&self) -> bool {
        self.is_idle() && self.was_whole.load(Ordering::Relaxed)
    }

    /// How often to look whether it is idle.
    pub fn look_every(&self) -> Duration {
        if self.is_http2.load(Ordering::Relaxed) { TAKE_WHOLE_FOR } else { IDLE_FOR }
    }

    /// Whether it is to be kept. `head_by`: when the head of its first request is due, if it has not come.
    pub fn look(&self, head_by: Option<Instant>, now: Instant) -> ConnectionLook {
        if let Some(by) = head_by {
            return if by <= now { ConnectionLook::Close } else { ConnectionLook::Keep(by) };
        }
        let Some(since) = self.idle_since() else { return ConnectionLook::Keep(now + self.look_every()) };
        let is_left = |count: &AtomicUsize, limit| count.load(Ordering::Relaxed) > 0 && since + limit <= now;
        if is_left(&self.left_behind, TAKE_WHOLE_FOR) || is_left(&self.streams, TAKE_FOR) {
            return ConnectionLook::Close;
        }
        let (idle_until, next) = (since + IDLE_FOR, now + self.look_every());
        if idle_until <= now { ConnectionLook::IsIdle(next) } else { ConnectionLook::Keep(idle_until.min(next)) }
    }

    /// A request ended, or a part of its answer was taken. Returns the milliseconds since its beginning.
    pub fn moved(&self) -> u64 {
        let moved_at = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_at.store(moved_at, Ordering::Relaxed);
        moved_at
    }
}

impl RequestInProgress {
    /// Its answer begins. How fast a whole one of `whole` bytes is read depends only on the client, so that it does not
    /// keep the connection busy.
    pub fn answers(&mut self, whole: Option<u64>) {
        self.is_whole = whole.is_some();
        self.connection.was_whole.store(self.is_whole, Ordering::Relaxed);
        let Some(length) = whole else { return };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > SMALL_ANSWER {
            self.grow(length);
        }
        self.rests();
    }

    /// It has this head.
    pub fn reads(&mut self, head: &HeaderMap) {
        self.works_with(head.values().map(|value| HEADER + value.len()).sum());
    }

    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    pub fn connection(&self) -> Arc<ConnectionPlace> {
        self.connection.clone()
    }

    /// A part of its last frame was taken.
    pub fn leaves(&mut self) {
        self.connection.moved();
        if self.is_whole && self.is_stream && !std::mem::replace(&mut self.is_left, true) {
            self.connection.left_behind.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether something is counted until its answer has left.
    pub fn holds(&self) -> bool {
        self.bytes > 0
    }

    pub fn grow(&mut self, bytes: usize) {
        self.connection.lease.grow(bytes);
        self.bytes += bytes;
    }

    fn works_with(&mut self, bytes: usize) {
        self.connection.lease.grow(bytes);
        self.work += bytes;
    }

    fn rests(&mut self) {
        if std::mem::take(&mut self.works) {
            self.connection.moved();
            self.connection.working.fetch_sub(1, Ordering::Relaxed);
            if self.is_stream {
                self.connection.lease.shrink(self.work);
            }
        }
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.rests();
        if self.bytes > 0 {
            self.connection.moved();
            self.connection.lease.shrink(self.bytes);
        }
        if self.is_left {
            self.connection.left_behind.fetch_sub(1, Ordering::Relaxed);
        }
        if self.is_stream {
            self.connection.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HOST;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_waits_decides_how_long_a_connection_is_kept() {
        let place = ConnectionPlace::new(&Memory::new(0), false);
        let at = |seconds| place.since() + Duration::from_secs(seconds);
        assert_eq!(place.look(Some(at(30)), at(10)), ConnectionLook::Keep(at(30)), "the head may still come");
        assert_eq!(place.look(Some(at(30)), at(30)), ConnectionLook::Close);
        assert_eq!(place.look(None, at(10)), ConnectionLook::Keep(at(60)));
        place.serves(true);
        assert_eq!(place.look(None, at(10)), ConnectionLook::Keep(at(20)), "something may be left behind soon");
        assert_eq!(place.look(None, at(55)), ConnectionLook::Keep(at(60)));
        assert_eq!(place.look(None, at(60)), ConnectionLook::IsIdle(at(70)));
        let mut whole = place.begin(true);
        assert_eq!(place.look(None, at(600)), ConnectionLook::Keep(at(610)), "it is busy");
        whole.answers(Some(10));
        assert_eq!(
            place.look(None, at(200)),
            ConnectionLook::IsIdle(at(210)),
            "its task ends an answer that is not taken"
        );
        whole.leaves();
        assert_eq!(place.look(None, at(9)), ConnectionLook::Keep(at(19)));
        assert_eq!(place.look(None, at(10)), ConnectionLook::Close);
        tokio::time::advance(Duration::from_secs(8)).await;
        whole.leaves();
        assert_eq!(place.look(None, at(17)), ConnectionLook::Keep(at(27)), "it is slow, and is taken");
        drop(whole);
        let mut streamed = place.begin(true);
        streamed.answers(None);
        streamed.rests();
        streamed.leaves();
        assert_eq!(place.look(None, at(30)), ConnectionLook::Keep(at(40)), "a streamed answer has longer");
        assert_eq!(place.look(None, at(8) + TAKE_FOR), ConnectionLook::Close);
    }

    #[test]
    fn what_a_connection_holds_is_returned() {
        let memory = Memory::new(1 << 20);
        let place = ConnectionPlace::new(&memory, false);
        place.encrypts();
        place.serves(true);
        let flat = CONNECTION + TLS + HTTP2;
        assert_eq!((place.held(), memory.clients()), (flat, flat));
        for (size, more) in [(100, 0), (READ_BUFFER, 0), (16 << 10, 8 << 10), (12 << 10, 8 << 10), (64 << 10, 56 << 10)]
        {
            place.reads_into(size);
            assert_eq!(place.held(), flat + more, "{size}");
        }
        let before = place.held();
        let mut small = place.begin(true);
        assert_eq!(place.held() - before, STREAM + WORK);
        small.reads(&HeaderMap::from_iter([(HOST, HeaderValue::from_static("127.0.0.1"))]));
        assert_eq!(place.held() - before, STREAM + WORK + HEADER + 9);
        small.answers(Some(15));
        assert_eq!((place.held() - before, place.streams()), (STREAM, 1));
        let mut large = place.begin(false);
        large.answers(Some(50_000));
        assert_eq!((place.held() - before, large.holds(), place.streams()), (STREAM + 50_000, true, 1));
        let plain = place.begin(false);
        assert!(!plain.holds() && !place.is_idle());
        drop((small, large, plain));
        assert_eq!((place.held(), place.is_idle()), (before, true));
        drop(place);
        assert_eq!((memory.clients(), memory.used()), (0, 0));
    }
}
