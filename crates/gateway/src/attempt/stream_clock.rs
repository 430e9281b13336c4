//! The times of an answer that is read: since when it is silent, and when it is cut. Not for its row: see `meter`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use photofinish_base::clock::Instant;

/// How long an answer may go on without a token, after its first: pings, empty events, tools that the provider runs, thoughts that it
/// hides. An hour is the longest that one call may take where a provider says it (Bedrock), so no honest answer has such a gap.
pub(super) const TOKENLESS_FOR: Duration = Duration::from_secs(3_600);

pub(super) struct StreamClock {
    /// When the read that brought the current events returned.
    pub read_at: Instant,
    /// Start of the current silence: the last read, or when reading resumed after a slow client.
    quiet_since: Instant,
    /// Fires after too long a silence. Moved only when it fires. None before the commit.
    timer: Option<Pin<Box<Sleep>>>,
    /// How it is served; none before the commit.
    served: Option<ServedTimes>,
    /// When the answer became complete; only usage may follow.
    complete_since: Option<Instant>,
}

/// The times of an answer that is served.
struct ServedTimes {
    /// Without a byte.
    idle: Duration,
    /// Since the commit, or since reading resumed after a slow client.
    since: Instant,
    /// It may be overdue from then on, if no token comes; not before.
    look_at: Instant,
}

/// What the tokens of an answer say of its end.
#[derive(Clone, Copy)]
pub(super) struct TokenTimes {
    /// When the latest one came.
    pub last: Option<Instant>,
    /// The end of the race's time.
    pub until: Instant,
}

impl StreamClock {
    pub fn new() -> StreamClock {
        let now = Instant::now();
        StreamClock { read_at: now, quiet_since: now, timer: None, served: None, complete_since: None }
    }

    /// A read returned.
    pub fn note_read(&mut self) {
        self.read_at = Instant::now();
        self.quiet_since = self.read_at;
    }

    /// The provider is not silent, although nothing is read.
    pub fn note_sound(&mut self) {
        self.quiet_since = Instant::now();
    }

    /// The times run from now on. `idle`: without a byte.
    pub fn serve(&mut self, idle: Duration, tokens: TokenTimes) {
        let since = Instant::now();
        self.quiet_since = since;
        self.served = Some(ServedTimes { idle, since, look_at: since });
        self.timer = self.due(tokens).map(|due| Box::pin(tokio::time::sleep_until(due)));
    }

    /// Reading resumes after a slow client. Its silences did not count during the pause.
    pub fn resume(&mut self) {
        self.quiet_since = Instant::now();
        if let Some(served) = &mut self.served {
            served.since = self.quiet_since;
        }
    }

    pub fn quiet_for(&self) -> Duration {
        self.quiet_since.elapsed()
    }

    /// How long it may be without a byte. None before the commit.
    pub fn idle(&self) -> Option<Duration> {
        self.served.as_ref().map(|served| served.idle)
    }

    /// A comparison, for nearly every read.
    #[inline]
    pub fn may_be_overdue(&self) -> bool {
        self.served.as_ref().is_some_and(|served| self.read_at >= served.look_at)
    }

    /// When it is cut if nothing more comes.
    pub fn due(&mut self, tokens: TokenTimes) -> Option<Instant> {
        let of_tokens = self.due_of_tokens(tokens)?;
        self.served.as_ref().map(|served| of_tokens.min(self.quiet_since + served.idle))
    }

    /// When it is cut if no token comes.
    pub fn due_of_tokens(&mut self, tokens: TokenTimes) -> Option<Instant> {
        let served = self.served.as_mut()?;
        let last = tokens.last.map_or(served.since, |at| at.max(served.since));
        served.look_at = tokens.until.min(last + TOKENLESS_FOR);
        Some(served.look_at)
    }

    pub fn has_timer(&self) -> bool {
        self.timer.is_some()
    }

    pub fn set_timer(&mut self, at: Instant) {
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(at);
        }
    }

    /// Pending for ever where there is no timer.
    pub fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }

    pub fn complete_since(&self) -> Option<Instant> {
        self.complete_since
    }

    /// The answer is complete, but more may come within this time.
    pub fn wait_for_more(&mut self, most: Duration) {
        let now = Instant::now();
        self.complete_since.get_or_insert(now);
        self.set_timer(now + most);
    }

    /// From now on it waits only for the end of the body, for so long since the answer became complete.
    pub fn wait_for_end(&mut self, most: Duration) {
        let since = self.complete_since.unwrap_or_else(Instant::now);
        self.set_timer(since + most);
    }
}
