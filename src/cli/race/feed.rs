//! The gateway's events for the picture, through a bounded queue. Not for the store.

use std::sync::Arc;

use tokio::sync::mpsc;

use photofinish_history::record::{AttemptRecord, StartReason};
use photofinish_history::recorder::{AttemptStep, RaceObserver};
use photofinish_history::store::Record;

/// Events that may wait while the terminal takes none; a race of 16 attempts has less than a hundred.
const EVENTS_MAX: usize = 4_096;

/// One thing that happened.
#[derive(Debug)]
pub enum FeedEvent {
    Step(AttemptStepped),
    /// The answer is bound to the attempt of this ordinal.
    Committed {
        race_id: String,
        ordinal: i64,
    },
    /// An attempt, or the race, is over.
    Recorded(Record),
    /// All of a race is over; its rows.
    Settled(Vec<Record>),
}

/// How far an attempt got.
#[derive(Clone, Debug)]
pub struct AttemptStepped {
    pub race_id: String,
    pub ordinal: i64,
    /// `provider/model`
    pub upstream: String,
    pub reason: StartReason,
    /// Microseconds since the request was read, as the next.
    pub dispatch_us: i64,
    pub at_us: i64,
    pub step: AttemptStep,
    /// Of the headers.
    pub http_status: Option<i64>,
}

struct Sender(mpsc::Sender<FeedEvent>);

/// The two ends.
pub fn feed() -> (Arc<dyn RaceObserver>, mpsc::Receiver<FeedEvent>) {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    (Arc::new(Sender(sender)), receiver)
}

/// `provider/model`
pub fn upstream_of(attempt: &AttemptRecord) -> String {
    format!("{}/{}", attempt.provider, attempt.model_sent)
}

impl Sender {
    /// A race never waits for its picture: what does not fit is not drawn.
    fn send(&self, event: FeedEvent) {
        let _ = self.0.try_send(event);
    }
}

impl RaceObserver for Sender {
    fn step(&self, attempt: &AttemptRecord, step: AttemptStep, at_us: i64) {
        self.send(FeedEvent::Step(AttemptStepped {
            race_id: attempt.race_id.clone(),
            ordinal: attempt.ordinal,
            upstream: upstream_of(attempt),
            reason: attempt.start_reason,
            dispatch_us: attempt.dispatch_us,
            at_us: attempt.dispatch_us + at_us,
            step,
            http_status: attempt.http_status,
        }));
    }

    fn committed(&self, race_id: &str, ordinal: i64) {
        self.send(FeedEvent::Committed { race_id: race_id.to_owned(), ordinal });
    }

    fn recorded(&self, record: &Record) {
        self.send(FeedEvent::Recorded(record.clone()));
    }

    fn settled(&self, rows: &[Record]) {
        self.send(FeedEvent::Settled(rows.to_vec()));
    }
}
