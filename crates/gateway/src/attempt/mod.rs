//! One attempt: one exchange with one upstream, from its dispatch to its row.
//!
//! [`start`] makes a future that is ready at the first token. The relay or an [`Assembler`] reads the rest of its
//! result, a [`ReadyAttempt`]. Dropping either cancels the exchange, and the guard inside writes the row: once, at the
//! latest on drop. Not for choosing upstreams, nor for the effects of an outcome.

mod after_end;
mod answer_length;
mod bounds;
mod burst;
mod classify;
mod credential;
mod exchange;
mod gap_sketch;
mod guard;
mod held_back;
mod in_flight;
mod item;
mod last_event;
mod memory;
mod meter;
mod model_list;
mod no_answer;
mod observation;
mod ready;
mod served;
mod spec;
mod stream;
mod whole;

pub use in_flight::InFlightGuard;
pub use item::{ItemKind, StreamItem};
pub use model_list::{ModelListError, ModelListRequest};
pub use ready::ReadyAttempt;
pub use spec::AttemptSpec;
pub use stream::EventStream;
pub use whole::{Assembler, assemble_events};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use tracing::Instrument;

use crate::race::CutReason;
use bounds::Bounds;
use guard::{AttemptGuard, CancelReason};
use photofinish_base::failure::Failure;
use photofinish_wire::ResponseTranslation;

/// A started attempt: the race polls it.
pub struct Attempt {
    future: Pin<Box<dyn Future<Output = Result<ReadyAttempt, Failure>> + Send>>,
    fate: Arc<AtomicU8>,
}

/// Starts an attempt. From here on its row is certain; its clock starts at the first poll.
pub fn start(mut spec: AttemptSpec) -> Attempt {
    let fate = Arc::new(AtomicU8::new(CancelReason::Running as u8));
    // Boxed: it is large, and moves from future to future.
    let guard = Box::new(AttemptGuard::new(&mut spec, fate.clone()));
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
