//! One attempt: one exchange with one upstream, from its dispatch to its row.
//!
//! [`start`] makes a future that is ready at the first token. Its result, a [`ReadyAttempt`], is read on by the relay or
//! by an [`Assembler`]. Dropping either cancels the exchange, and the guard inside writes the row: once, at the latest on drop.
//! Not for choosing upstreams, nor for what an outcome changes.

mod after_end;
mod bounds;
mod burst;
mod credential;
mod exchange;
mod gap_sketch;
mod guard;
mod held_back;
mod in_flight;
mod item;
mod meter;
mod no_answer;
mod observation;
mod stream;
mod whole;

pub use exchange::ReadyAttempt;
pub use in_flight::InFlightGuard;
pub use item::{ItemKind, StreamItem};
pub use stream::EventStream;
pub use whole::{Assembler, assemble_events};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use http::HeaderMap;
use tracing::{Instrument, Span};

use crate::budget::Budget;
use crate::clock::Instant;
use crate::config::{FirstToken, UpstreamConfig};
use crate::failure::Failure;
use crate::learning::AttemptObserver;
use crate::protocol::request_translation::RequestTranslation;
use crate::protocol::response_translation::ResponseTranslation;
use crate::race::{AttemptStart, CutReason};
use crate::recorder::Recorder;
use crate::routing::keyring::HashedKey;
use crate::shutdown::Shutdown;
use crate::upstream::{Endpoint, UpstreamClient};
use bounds::Bounds;
use guard::{AttemptGuard, CancelReason};

/// Everything that an attempt needs. Owned: an audited attempt outlives its race.
pub struct AttemptSpec {
    pub client: UpstreamClient,
    pub recorder: Recorder,
    pub shutdown: Shutdown,
    pub race_id: String,
    /// The attempt's.
    pub span: Span,
    /// When the client's request was read.
    pub read_at: Instant,
    pub starting: AttemptStart,
    pub upstream: UpstreamConfig,
    pub endpoint: Endpoint,
    pub key: Option<HashedKey>,
    pub request_translation: Arc<RequestTranslation>,
    /// The number of answers that the request asks for, if given.
    pub choices: Option<i64>,
    /// A chat client asked for the usage chunk itself.
    pub include_usage: bool,
    /// Ask the upstream for the usage chunk.
    pub stream_options: bool,
    /// The kind of token that makes it ready.
    pub first_token: FirstToken,
    /// Bytes of one event of its answer; a larger event is a failure.
    pub event_max: usize,
    /// Memory for its buffers.
    pub budget: Budget,
    /// The client's headers that are forwarded.
    pub headers: HeaderMap,
    /// Use a new connection: a pooled one has just died.
    pub fresh: bool,
    /// Probability of an audit if it loses.
    pub p_audit: f64,
    /// Counts it among this upstream's running attempts; the guard takes it.
    pub slot: Option<InFlightGuard>,
    /// Feeds the statistics of its upstream; the guard takes it.
    pub attempt_observer: Option<AttemptObserver>,
}

/// A started attempt: the race polls it.
pub struct Attempt {
    future: Pin<Box<dyn Future<Output = Result<ReadyAttempt, Failure>> + Send>>,
    fate: Arc<AtomicU8>,
}

/// Starts an attempt. From here on its row is certain; its clock starts at the first poll.
pub fn start(mut spec: AttemptSpec) -> Attempt {
    let fate = Arc::new(AtomicU8::new(CancelReason::Running as u8));
    let guard = AttemptGuard::new(&mut spec, fate.clone());
    let outgoing = exchange::outgoing(&spec);
    let bounds = Bounds { event_max: spec.event_max, budget: spec.budget.clone() };
    let AttemptSpec { request_translation, upstream, include_usage, .. } = &spec;
    let response_translation = ResponseTranslation::new(request_translation, &upstream.model, *include_usage);
    let exchange = exchange::exchange(spec.client, outgoing, response_translation, bounds, spec.key, guard);
    let future = Box::pin(exchange.instrument(spec.span));
    Attempt { future, fate }
}

impl Attempt {
    /// Records the race's decision: called right before it is dropped, or runs on outside the race.
    pub fn cut(&mut self, cut: CutReason) {
        let fate = match cut {
            CutReason::Lost => CancelReason::Lost,
            CutReason::Late => CancelReason::Late,
            CutReason::Deadline => CancelReason::Deadline,
        };
        self.fate.store(fate as u8, Ordering::Relaxed);
    }

    /// It lost, and runs on to its own first token.
    pub fn audit(&mut self) {
        self.fate.store(CancelReason::Audited as u8, Ordering::Relaxed);
    }

    /// It lost, and is read to its end.
    pub fn drain(&mut self) {
        self.fate.store(CancelReason::Drained as u8, Ordering::Relaxed);
    }
}

impl Future for Attempt {
    type Output = Result<ReadyAttempt, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(context)
    }
}
