//! The client's socket, as hyper reads and writes it, and the events that hyper does not report.
//!
//! hyper detects that a client left only by reading. It does not read while its buffer holds bytes of a next request,
//! nor while it cannot write. [`ClientPresence::left`] gets this from the system instead. If a client stops reading,
//! its writes fail after [`TAKE_FOR`], or sooner if only a whole answer waits.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::connection_place::{ConnectionPlace, TAKE_FOR};
use photofinish_base::clock::Instant;
use photofinish_base::shutdown::Shutdown;

/// How long a client may take no byte while only a whole answer waits. With [`UNSENT_MAX`] it demands what a request's
/// body is held to: 2 KiB/s.
pub(super) const TAKE_WHOLE_FOR: Duration = Duration::from_secs(30);
/// Bytes that the system may keep unsent. Without this bound it keeps megabytes for a client that reads nothing, and
/// reports room only after a third of them has left: a client that reads slowly would look like one that does not.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 128 << 10;
/// A connection without traffic is probed after this time, …
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// … and then at this interval, until the system gives up (on Linux after nine probes without an answer).
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// How long hyper has to read the bytes that a client sent before it left. After that it will not read them.
const READ_REST_FOR: Duration = Duration::from_millis(100);
/// How long a client has to close a connection that ended with an answer.
const SEEN_OFF_FOR: Duration = Duration::from_secs(1);

/// The two views of one socket. Options that only TCP has fail for a socket file, which does not need them.
pub(super) fn share(stream: TcpStream, connection: Arc<ConnectionPlace>) -> (Socket, ClientPresence) {
    // Without it, small events wait for the client's delayed acknowledgement. An error means that the client has left.
    let _ = stream.set_nodelay(true);
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_MAX);
    let shared = Arc::new(SocketState { stream, reads: AtomicUsize::new(0), connection });
    (Socket { shared: Arc::clone(&shared), untaken: None, handshake: None }, ClientPresence(shared))
}

/// The view for hyper: reads and writes.
pub(super) struct Socket {
    shared: Arc<SocketState>,
    /// Since when a write waits, and its timer. None: no write waits.
    untaken: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Bytes of a TLS handshake so far, all of which rustls may hold. None: there is no handshake.
    handshake: Option<usize>,
}

/// Detects whether the client is still connected.
pub(super) struct ClientPresence(Arc<SocketState>);

struct SocketState {
    stream: TcpStream,
    /// Number of reads that returned something; wraps.
    reads: AtomicUsize,
    connection: Arc<ConnectionPlace>,
}

impl ClientPresence {
    /// The client's first bytes, as many as have arrived and fit, without consuming them. Empty: the client left.
    pub(super) async fn first_bytes<'a>(&self, room: &'a mut [u8]) -> &'a [u8] {
        let arrived = self.0.stream.peek(room).await.unwrap_or(0);
        &room[..arrived]
    }

    /// What has come from the client so far: how often something was read, and how many bytes wait to be read, up to 64. It
    /// changes whenever more comes. Asks the system itself, which knows of bytes that the runtime has not heard of yet.
    pub(super) fn heard(&self) -> (usize, usize) {
        let mut room = [MaybeUninit::uninit(); 64];
        let waiting = SockRef::from(&self.0.stream).peek(&mut room).unwrap_or(0);
        (self.0.reads.load(Ordering::Relaxed), waiting)
    }

    /// Resolves when the client has closed its sending side and hyper does not read the rest. A half-closed connection
    /// counts as closed, as everywhere in hyper. If the client sent more than the receive buffer holds, the close is
    /// not visible; the next write detects it.
    pub(super) async fn left(&self) {
        self.sends_no_more().await;
        loop {
            let reads = self.0.reads.load(Ordering::Relaxed);
            // The rest may still be the body of a request.
            if !matches!(self.0.stream.peek(&mut [0]).await, Ok(1..)) {
                return;
            }
            tokio::time::sleep(READ_REST_FOR).await;
            if reads == self.0.reads.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Reads on after the last answer, until the client closes the connection too: call it once hyper has let go of the socket.
    /// The system resets a connection that is closed with unread bytes, such as acknowledgements of HTTP/2, and the end of
    /// the answer may be lost with it.
    pub(super) async fn see_off(&self) {
        let closes = async {
            while self.0.stream.readable().await.is_ok() {
                match self.0.stream.try_read(&mut [0; 4096]) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(0) | Err(_) => return,
                }
            }
        };
        // A client that stays has had its time to read the answer.
        let _ = tokio::time::timeout(SEEN_OFF_FOR, closes).await;
    }

    /// Waits for the end of the client's data. The interest is urgent data, which clients do not send, so the task
    /// wakes only at the end and not for every byte.
    #[cfg(target_os = "linux")]
    async fn sends_no_more(&self) {
        while !self.0.stream.ready(tokio::io::Interest::PRIORITY).await.is_ok_and(|ready| ready.is_read_closed()) {
            tokio::time::sleep(READ_REST_FOR).await;
        }
    }

    /// Other systems have no such interest. There, hyper must detect the end.
    #[cfg(not(target_os = "linux"))]
    async fn sends_no_more(&self) {
        std::future::pending().await
    }
}

impl Socket {
    #[cfg(test)]
    pub(super) fn is_probed(&self) -> bool {
        SockRef::from(&self.shared.stream).keepalive().is_ok_and(|on| on)
    }

    /// Counts what the client sends as held, until the handshake has ended.
    pub(super) fn shakes_hands(&mut self, begins: bool) {
        self.handshake = begins.then_some(0);
    }

    /// Sends until the system's buffer is full, and then waits as long as the client may take.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        while self.shared.stream.poll_write_ready(context)?.is_ready() {
            match send(&self.shared.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => {
                    self.untaken = None;
                    return Poll::Ready(sent);
                }
            }
        }
        let (since, timer) =
            (self.untaken).get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(TAKE_WHOLE_FOR))));
        loop {
            ready!(timer.as_mut().poll(context));
            let limit = if self.shared.connection.has_only_whole_answers() { TAKE_WHOLE_FOR } else { TAKE_FOR };
            let waited = since.elapsed();
            if waited >= limit {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(Instant::now() + TAKE_WHOLE_FOR.min(limit - waited));
        }
    }
}

/// Reads what is there. A read that does not fill the buffer has emptied the socket: the next one waits for the system to say
/// that there is more, instead of trying in vain.
fn read_at_once(stream: &TcpStream, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
    let room = buffer.remaining();
    let mut read = Err(io::ErrorKind::WouldBlock.into());
    // tokio takes "would block" for "not readable any more", unless more has arrived since before the read.
    let _ = stream.try_io(tokio::io::Interest::READABLE, || {
        read = stream.try_read_buf(buffer);
        let is_part = read.as_ref().is_ok_and(|read| (1..room).contains(read));
        if is_part && EDGE_TRIGGERED { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    read
}

/// Whether the system reports each arrival once.
const EDGE_TRIGGERED: bool = cfg!(any(target_os = "linux", target_os = "macos"));

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Socket { shared, handshake, .. } = &mut *self;
        let SocketState { stream, reads, connection } = &**shared;
        loop {
            ready!(stream.poll_read_ready(context))?;
            match read_at_once(stream, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    reads.fetch_add(1, Ordering::Relaxed);
                    if let (Some(held), Ok(read)) = (handshake, &read) {
                        *held += read;
                        connection.reads_into(*held);
                    }
                    return Poll::Ready(read.map(|_| ()));
                }
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.shared.stream).shutdown(std::net::Shutdown::Write))
    }
}

/// How long a client is quiet before its connection is closed while the gateway drains. Longer than a request is under way,
/// and than most clients pause between two requests; short, because a stop without work waits for it.
const QUIET_FOR: Duration = Duration::from_millis(500);

/// Resolves when the gateway drains, no request of this connection has run for [`QUIET_FOR`], and nothing has come from its client
/// for as long; or when the gateway cancels what still runs.
///
/// HTTP/1.1 cannot say which request is still answered: one that is on its way to a connection that closes is lost. A client with
/// more to ask learns it from the next answer. One that has been quiet for a while hardly asks at the moment of the close.
pub(super) async fn quiet(shutdown: &Shutdown, connection: &ConnectionPlace, client: &ClientPresence) {
    shutdown.draining().await;
    let (mut since, mut before) = (Instant::now(), client.heard());
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(since + QUIET_FOR) => {}
            () = shutdown.cancelled() => return,
        }
        let (now, heard) = (Instant::now(), client.heard());
        let idle_since = connection.idle_since().filter(|_| heard == before).unwrap_or(now);
        if now >= idle_since + QUIET_FOR {
            return;
        }
        (since, before) = (idle_since, heard);
    }
}

/// The first bytes of an HTTP/2 connection (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause after the first part of a preface, until the rest is looked for. It doubles each time.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The HTTP version of a connection, known before hyper reads from it. hyper-util finds it too, but reads the first bytes for
/// that. hyper then enlarges its read buffer for the rest of the head: twice the memory as long as the connection is open.
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
    use crate::server::connection_slots::{ConnectionSlot, Places};
    use photofinish_base::memory::Memory;
    use share;

    /// A client, and what the server knows of it.
    async fn connected() -> (TcpStream, ClientPresence, ConnectionSlot) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let slot = Places::new(1, 0, Memory::new(1 << 20)).enter(peer.ip()).await.unwrap();
        (client, share(stream, slot.connection.clone()).1, slot)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_given_a_while_from_the_drain_on() {
        let (_client, presence, slot) = connected().await;
        let (shutdown, began) = (Shutdown::new(), Instant::now());
        // It was idle before, too; but who knows what is under way.
        tokio::time::sleep(Duration::from_secs(20)).await;
        tokio::join!(quiet(&shutdown, &slot.connection, &presence), async { shutdown.drain() });
        assert_eq!(began.elapsed(), Duration::from_secs(20) + QUIET_FOR);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_and_what_comes_from_the_client_make_it_wait() {
        let (mut client, presence, slot) = connected().await;
        let (shutdown, began) = (Shutdown::new(), Instant::now());
        shutdown.drain();
        let activity = async {
            let running = slot.connection.begin(false);
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            drop(running);
            tokio::time::sleep(Duration::from_millis(400)).await;
            client.write_all(b"G").await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            client.write_all(b"ET").await.unwrap();
        };
        tokio::join!(quiet(&shutdown, &slot.connection, &presence), activity);
        // Looked at after 500, 1,000, 1,500, 1,800 (one byte) and 2,300 ms (three bytes).
        assert_eq!(began.elapsed(), Duration::from_millis(2_800));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_once_all_is_cancelled() {
        let (_client, presence, slot) = connected().await;
        let _running = slot.connection.begin(false);
        let (shutdown, began) = (Shutdown::new(), Instant::now());
        shutdown.drain();
        tokio::join!(quiet(&shutdown, &slot.connection, &presence), async { shutdown.cancel() });
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

#[cfg(test)]
mod version_tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::server::connection_place::ConnectionPlace;
    use photofinish_base::memory::Memory;
    use share;

    /// The version of a client that sends these parts, each after the one before was seen.
    async fn version(parts: &[&[u8]]) -> Option<HttpVersion> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_socket, presence) =
            share(listener.accept().await.unwrap().0, ConnectionPlace::new(&Memory::new(0), false));
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
