//! A winner's answer while it is served, or put together: its silences, and its end in time and in length. Not for events after
//! its end: see `after_end`; nor for what bounds its length: see `answer_length`.

use std::task::{Context, Poll};
use std::time::Duration;

use super::item::{LastEvent, StreamItem};
use super::stream::{EventStream, READ_OUT_FOR, ServedTimes};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind};

/// How long an answer may go on without a token, after its first: pings, empty events, tools that the provider runs, thoughts that it
/// hides. An hour is the longest that one call may take where a provider says it (Bedrock), so no honest answer has such a gap.
const TOKENLESS_FOR: Duration = Duration::from_secs(3_600);

impl EventStream {
    /// The attempt won: its times run from now on. `idle`: without a byte.
    pub fn serve(&mut self, idle: Duration) {
        self.let_go(usize::MAX);
        let since = Instant::now();
        self.quiet_since = since;
        self.served = Some(ServedTimes { idle, since, look_at: since });
        self.timer = self.due().map(|due| Box::pin(tokio::time::sleep_until(due)));
    }

    /// The next event of a winner, including its end: see [`EventStream::poll_served`].
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        if let Some(item) = self.ahead.pop() {
            return Poll::Ready(Some(Ok(item)));
        }
        // Events after the end, such as pings, do not delay it.
        if self.complete_since.is_some_and(|since| since.elapsed() >= READ_OUT_FOR) {
            self.body = None;
            return Poll::Ready(None);
        }
        if let Poll::Ready(item) = self.poll_item(context) {
            return Poll::Ready(item);
        }
        if self.end.is_some() || matches!(self.last, LastEvent::Held(_)) {
            return Poll::Pending;
        }
        let complete = self.is_complete();
        if complete && self.complete_since.is_none() {
            let now = Instant::now();
            self.complete_since = Some(now);
            self.set_timer(now + self.read_out_for());
        }
        if self.pace.rests() {
            // More can be read: the provider is not silent.
            self.quiet_since = Instant::now();
            return Poll::Pending;
        }
        while self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready()) {
            if complete {
                self.body = None;
                return Poll::Ready(None);
            }
            match self.due() {
                Some(due) if due > Instant::now() => self.set_timer(due),
                _ => return Poll::Ready(Some(Err(self.late()))),
            }
        }
        Poll::Pending
    }

    /// Reading resumes after a slow client. Its silences did not count during the pause.
    pub fn stalled(&mut self) {
        self.guard.meter.stalled = true;
        self.quiet_since = Instant::now();
        if let Some(served) = &mut self.served {
            served.since = self.quiet_since;
        }
    }

    /// Ends the attempt: the total deadline passed.
    pub fn time_out(&mut self) -> Failure {
        self.fail(FailureKind::Timeout, "the total deadline passed")
    }

    /// Ends the attempt: its answer goes on without end.
    pub(super) fn endless(&mut self) -> Failure {
        self.body = None;
        let message = format!("it goes on without end: more than {}", self.guard.meter.bound());
        self.fail(FailureKind::Endless, message)
    }

    /// Called after a read. The failure of an answer whose time is over, although it is never silent.
    #[inline]
    pub(super) fn overdue(&mut self) -> Option<Failure> {
        let read_at = self.read_at;
        self.served.as_ref().filter(|served| read_at >= served.look_at)?;
        let is_over = self.due_of_tokens()? <= read_at && !self.is_complete();
        is_over.then(|| self.late())
    }

    /// How long to wait for the end of the body of a complete answer.
    pub(super) fn read_out_for(&self) -> Duration {
        self.served.as_ref().map_or(READ_OUT_FOR, |served| READ_OUT_FOR.min(served.idle))
    }

    pub(super) fn set_timer(&mut self, at: Instant) {
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(at);
        }
    }

    /// When it is cut if nothing more comes.
    fn due(&mut self) -> Option<Instant> {
        let of_tokens = self.due_of_tokens()?;
        self.served.as_ref().map(|served| of_tokens.min(self.quiet_since + served.idle))
    }

    /// When it is cut if no token comes.
    fn due_of_tokens(&mut self) -> Option<Instant> {
        let served = self.served.as_mut()?;
        let last = self.guard.meter.last_token_at().map_or(served.since, |at| at.max(served.since));
        served.look_at = self.guard.until.min(last + TOKENLESS_FOR);
        Some(served.look_at)
    }

    /// Ends the attempt: its time is over.
    fn late(&mut self) -> Failure {
        self.body = None;
        let (now, quiet_for) = (Instant::now(), self.quiet_since.elapsed());
        match self.served.as_ref().map(|served| served.idle) {
            _ if now >= self.guard.until => self.time_out(),
            Some(idle) if quiet_for >= idle => self.fail(FailureKind::IdleTimeout, format!("no byte for {idle:?}")),
            _ => self.fail(FailureKind::IdleTimeout, format!("no token for {TOKENLESS_FOR:?}")),
        }
    }
}
