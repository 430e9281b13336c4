//! One HTTP/1.1 connection. The reader of its answer drives it; it has no task.
//!
//! So all bytes of one read are passed on before the task sleeps, a token costs one wake-up instead of two, and dropping the
//! connection closes it at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::counted_stream::StreamCount;
use super::upload::{RequestBody, SentBody};

/// Bytes of the head of an answer, including informational answers (1xx) before it.
pub(super) const HEAD_MAX: u64 = 256 * 1024;

/// Reads and writes the socket; ready when the connection has ended.
type ConnectionDriver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub(super) struct Http1Connection {
    sender: SendRequest<SentBody>,
    /// Counts the bytes read.
    count: Arc<StreamCount>,
    /// Bytes that had been read when the latest request was sent.
    read_before: u64,
    /// The latest answer began before its request was sent to the end.
    was_early: bool,
    /// None once it ended. Its error reaches the request that it breaks.
    driver: Option<ConnectionDriver>,
    wake: Arc<DriverWake>,
    /// Of `wake`.
    waker: Waker,
}

/// Wakes the task that polls a connection.
///
/// hyper's driver and the reader of its answer wake each other, and one task polls both. A wake-up from within that poll is
/// only noted: without this, each token would cost a second poll of the task.
#[derive(Default)]
struct DriverWake {
    /// [`DriverWake::WOKEN`] and [`DriverWake::HELD`].
    state: AtomicU8,
    task: AtomicWaker,
}

impl DriverWake {
    /// The driver or the reader has something to do.
    const WOKEN: u8 = 1;
    /// The task polls them now.
    const HELD: u8 = 2;

    fn take_woken(&self) -> bool {
        self.state.fetch_and(!DriverWake::WOKEN, Ordering::AcqRel) & DriverWake::WOKEN != 0
    }
}

impl Wake for DriverWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(DriverWake::WOKEN, Ordering::AcqRel) & DriverWake::HELD == 0 {
            self.task.wake();
        }
    }
}

/// Turns of driver and reader within one poll. More are left to the next poll: a driver whose turn is over wakes itself.
const TURNS: usize = 2;

impl Http1Connection {
    /// `count` is that of the stream that `driver` reads.
    pub fn new(sender: SendRequest<SentBody>, driver: ConnectionDriver, count: Arc<StreamCount>) -> Http1Connection {
        let wake = Arc::new(DriverWake::default());
        let waker = Waker::from(wake.clone());
        Http1Connection { sender, count, read_before: 0, was_early: false, driver: Some(driver), wake, waker }
    }

    /// Whether a byte has arrived since the latest request was sent.
    pub fn heard(&self) -> bool {
        self.count.read() != self.read_before
    }

    /// Whether another request may follow: a server that answers before it has read the body may take the rest of it for a request, and
    /// its answer for that of the next one.
    pub fn may_go_on(&self) -> bool {
        !self.was_early
    }

    /// Whether a request can be sent now. Checks the socket, so it sees that the peer has closed it.
    pub fn is_usable(&mut self) -> bool {
        // Twice: the first poll may only finish the last answer.
        drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// The error of the connection, and whether it came before a byte of the request was written.
    pub async fn send(&mut self, request: Request<RequestBody>) -> Result<Response<Incoming>, (hyper::Error, bool)> {
        self.read_before = self.count.read();
        self.count.bound(HEAD_MAX);
        let (parts, body) = request.into_parts();
        let (body, is_taken) = SentBody::new(body);
        let sending = self.sender.try_send_request(Request::from_parts(parts, body));
        let mut sending = std::pin::pin!(sending);
        // Until now it woke no task.
        self.waker.wake_by_ref();
        let (driver, wake, waker) = (&mut self.driver, &*self.wake, &self.waker);
        let answer =
            std::future::poll_fn(|context| poll_both(driver, wake, waker, context, |own| sending.as_mut().poll(own)));
        let answer = answer.await.map_err(|mut error| {
            let unsent = error.take_message().is_some();
            (error.into_error(), unsent)
        });
        self.count.unbound();
        self.was_early = !is_taken.load(Ordering::Relaxed) || self.count.is_blocked();
        answer
    }

    /// The next frame of the answer. Moves bytes from the socket to it.
    pub fn poll_frame(
        &mut self,
        answer: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let next = |own: &mut Context<'_>| Pin::new(&mut *answer).poll_frame(own);
        poll_both(&mut self.driver, &self.wake, &self.waker, context, next)
    }
}

/// Polls the reader, and the driver whenever something woke it.
fn poll_both<T>(
    driver: &mut Option<ConnectionDriver>,
    wake: &DriverWake,
    waker: &Waker,
    context: &Context<'_>,
    mut reader: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    let task = context.waker();
    wake.task.register(task);
    wake.state.fetch_or(DriverWake::HELD, Ordering::AcqRel);
    let mut own = Context::from_waker(waker);
    let mut read = reader(&mut own);
    for _ in 0..TURNS {
        if read.is_ready() || !wake.take_woken() {
            break;
        }
        drive(driver, &mut own);
        read = reader(&mut own);
    }
    let before = wake.state.fetch_and(!DriverWake::HELD, Ordering::AcqRel);
    if read.is_pending() && before & DriverWake::WOKEN != 0 {
        task.wake_by_ref();
    }
    read
}

fn drive(driver: &mut Option<ConnectionDriver>, context: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|running| running.as_mut().poll(context).is_ready()) {
        *driver = None;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts its wake-ups.
    #[derive(Default)]
    struct TaskWake(AtomicUsize);

    impl Wake for TaskWake {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls once: the driver wakes its reader `wakes` times in a row, and the reader is ready after `turns` turns of the driver.
    /// Returns whether it was ready, the turns, and the wake-ups of the task during the poll and by one after it.
    fn poll_once(wakes: usize, turns: usize) -> (bool, usize, [usize; 2]) {
        let wake = Arc::new(DriverWake::default());
        let waker = Waker::from(wake.clone());
        let task = Arc::new(TaskWake::default());
        let driven = Arc::new(AtomicUsize::new(0));
        let driver = {
            let driven = driven.clone();
            std::future::poll_fn(move |context| {
                if driven.fetch_add(1, Ordering::Relaxed) < wakes {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            })
        };
        let mut driver: Option<ConnectionDriver> = Some(Box::pin(driver));
        let registered = Cell::new(None);
        waker.wake_by_ref();
        let task_waker = Waker::from(task.clone());
        let ready = poll_both(&mut driver, &wake, &waker, &Context::from_waker(&task_waker), |own| {
            registered.set(Some(own.waker().clone()));
            if driven.load(Ordering::Relaxed) >= turns { Poll::Ready(()) } else { Poll::Pending }
        });
        let during = task.0.load(Ordering::Relaxed);
        registered.take().unwrap().wake();
        (ready.is_ready(), driven.load(Ordering::Relaxed), [during, task.0.load(Ordering::Relaxed) - during])
    }

    #[test]
    fn a_task_is_woken_by_others_and_not_by_its_own_poll() {
        assert_eq!(poll_once(0, 9), (false, 1, [0, 1]), "nothing to read: a later wake-up wakes the task");
        assert_eq!(poll_once(1, 1), (true, 1, [0, 1]), "the driver wakes the reader, which is polled anyway");
        assert_eq!(poll_once(1, 9), (false, 2, [0, 1]), "woken once more, it has another turn");
        assert_eq!(
            poll_once(9, 9),
            (false, TURNS, [1, 1]),
            "a driver that never rests leaves the rest to the next poll"
        );
    }
}
