//! One attempt: one exchange with one upstream, from its dispatch to its row.
//!
//! [`start`] makes a future that is ready at the first token; what it gives then, a [`Ready`], is read on by the relay.
//! Whoever drops either cancels the exchange, and the guard inside writes the row: once, and at the latest on drop.

mod ahead;
mod behind;
mod bounds;
mod burst;
mod credential;
mod exchange;
mod gaps;
mod guard;
mod item;
mod meter;
mod no_answer;
mod progress;
mod slot;
mod stream;
mod told;

pub use exchange::Ready;
pub use item::{Item, Kind};
pub use progress::Progress;
pub use slot::Slot;
pub use stream::EventStream;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use http::HeaderMap;

use crate::budget::Budget;
use crate::clock::Instant;
use crate::config::{FirstToken, Upstream};
use crate::failure::Failure;
use crate::learning::Sighting;
use crate::protocol::downward::Downward;
use crate::protocol::upward::Upward;
use crate::race::{Cut, Starting};
use crate::recorder::Recorder;
use crate::routing::keyring::Key;
use crate::shutdown::Shutdown;
use crate::upstream::{Client, Endpoint};
use bounds::Bounds;
use guard::{Fate, Guard};

/// Everything that an attempt needs. Owned, for it outlives the race when it is audited.
pub struct Spec {
    pub client: Client,
    pub recorder: Recorder,
    pub shutdown: Shutdown,
    pub race_id: String,
    /// When the client's request was read.
    pub read_at: Instant,
    pub starting: Starting,
    pub upstream: Upstream,
    pub endpoint: Endpoint,
    pub key: Option<Key>,
    pub upward: Arc<Upward>,
    /// How many answers the request asks for, where it says so.
    pub choices: Option<i64>,
    /// A chat client asked for the usage chunk itself.
    pub include_usage: bool,
    /// Ask for the usage chunk.
    pub stream_options: bool,
    /// Which token it is ready with.
    pub first_token: FirstToken,
    /// Bytes of one event of its answer; a larger one is no answer.
    pub event_max: usize,
    /// For what it buffers.
    pub budget: Budget,
    /// The client's headers that go up.
    pub headers: HeaderMap,
    /// Over a new connection: one out of the pool has just died.
    pub fresh: bool,
    /// Probability with which it will be audited should it lose.
    pub p_audit: f64,
    /// Its place in the count of this upstream's running attempts; the guard takes it.
    pub slot: Option<Slot>,
    /// Tells what it shows of its upstream; the guard takes it.
    pub sighting: Option<Sighting>,
}

/// A started attempt: the race polls it.
pub struct Attempt {
    future: Pin<Box<dyn Future<Output = Result<Ready, Failure>> + Send>>,
    fate: Arc<AtomicU8>,
}

/// Starts an attempt. Its row is certain from here on; its clock runs from its first poll.
pub fn start(mut spec: Spec) -> Attempt {
    let fate = Arc::new(AtomicU8::new(Fate::Running as u8));
    let guard = Guard::new(&mut spec, fate.clone());
    let outgoing = exchange::outgoing(&spec);
    let bounds = Bounds { event_max: spec.event_max, budget: spec.budget.clone() };
    let Spec { upward, upstream, include_usage, .. } = &spec;
    let downward = Downward::new(upward, &upstream.model, *include_usage);
    let future = Box::pin(exchange::exchange(spec.client, outgoing, downward, bounds, spec.key, guard));
    Attempt { future, fate }
}

impl Attempt {
    /// What the race decided: called right before it is dropped, or run on beside the race.
    pub fn cut(&mut self, cut: Cut) {
        let fate = match cut {
            Cut::Lost => Fate::Lost,
            Cut::Late => Fate::Late,
            Cut::Deadline => Fate::Deadline,
        };
        self.fate.store(fate as u8, Ordering::Relaxed);
    }

    /// It lost, but runs on to its own first token.
    pub fn audit(&mut self) {
        self.fate.store(Fate::Audited as u8, Ordering::Relaxed);
    }

    /// It lost, but is read to its end.
    pub fn drain(&mut self) {
        self.fate.store(Fate::Drained as u8, Ordering::Relaxed);
    }
}

impl Future for Attempt {
    type Output = Result<Ready, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(context)
    }
}
