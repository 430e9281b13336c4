//! One attempt: one exchange with one upstream, from its dispatch to its row.
//!
//! [`start`] makes a future that is ready at the first token. The relay or an [`Assembler`] reads the rest of its
//! result, a [`ReadyAttempt`]. Dropping either cancels the exchange, and the guard inside writes the row: once, at the
//! latest on drop. Not for choosing upstreams, nor for the effects of an outcome.

mod answer_length;
mod classify;
mod credential;
mod exchange;
mod guard;
mod item;
mod judge;
mod meter;
mod model_list;
mod no_answer;
mod pass;
mod spec;
mod stream;
mod stream_clock;
mod whole;

pub use item::{ItemKind, StreamItem};
pub use judge::{AnswerJudge, AnswerTape};
pub use meter::JobCost;
pub use model_list::{ModelListError, ModelListRequest};
pub use no_answer::ReadyAttempt;
pub use pass::{PassedAnswer, PassedStream, UploadLook};
pub use spec::{AttemptSpec, ExchangeSpec, InFlightGuard, PassSpec};
pub use stream::EventStream;
pub use whole::{Assembler, assemble_events};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use exchange::Bounds;
use guard::{AttemptGuard, AttemptShared, RaceDecision};
use photofinish_base::failure::Failure;
use photofinish_base::telemetry::WithLogContext as _;
use photofinish_limits::AttemptReservation;
use photofinish_race::CutReason;
use photofinish_translation::ResponseTranslation;

/// A started attempt: the race polls it.
pub struct Attempt {
    future: Pin<Box<dyn Future<Output = Result<ReadyAttempt, Failure>> + Send>>,
    shared: Arc<AttemptShared>,
}

/// Starts an attempt that its caller's limits allow. From here on its row is certain; its clock starts at the first poll.
pub fn start(mut spec: AttemptSpec, reservation: AttemptReservation) -> Attempt {
    let shared = Arc::new(AttemptShared::default());
    // Boxed: it is large, and moves from future to future.
    let guard = Box::new(AttemptGuard::new(&mut spec, shared.clone(), reservation));
    let outgoing = exchange::outgoing(&spec);
    let names_stored = spec.request_translation.call().is_some();
    let bounds = Bounds { event_max: spec.event_max, memory: spec.exchange.memory.clone(), names_stored };
    let AttemptSpec { request_translation, upstream, include_usage, .. } = &spec;
    let mut response_translation = ResponseTranslation::new(request_translation, &upstream.model, *include_usage);
    guard.tape.iter().for_each(|tape| response_translation.keep(tape.wanted()));
    if !spec.streams {
        response_translation.keep_calls();
    }
    let exchange =
        exchange::exchange(spec.exchange.client, outgoing, response_translation, bounds, spec.exchange.key, guard);
    let future = Box::pin(exchange.in_context(spec.exchange.context));
    Attempt { future, shared }
}

impl Attempt {
    /// Records the race's decision: called right before it is dropped, or runs on outside the race.
    pub fn cut(&mut self, cut: CutReason) {
        let decision = match cut {
            CutReason::Lost => RaceDecision::Lost,
            CutReason::Late => RaceDecision::Late,
            CutReason::Deadline => RaceDecision::Deadline,
        };
        self.shared.decide(decision);
    }

    /// Cancelling it closes its connection: it is asked over HTTP/1.1.
    pub fn owns_connection(&self) -> bool {
        self.shared.owns_connection()
    }

    /// Its answer began as a refusal, whose words are still read.
    pub fn is_refused(&self) -> bool {
        self.shared.is_refused()
    }

    /// It lost, and runs on to its own first token.
    pub fn audit(&mut self) {
        self.shared.decide(RaceDecision::Audited);
    }

    /// It lost, and is read to its end.
    pub fn drain(&mut self, is_billed: bool) {
        self.shared.decide(if is_billed { RaceDecision::Drained } else { RaceDecision::ReadOn });
    }
}

impl Future for Attempt {
    type Output = Result<ReadyAttempt, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(context)
    }
}
