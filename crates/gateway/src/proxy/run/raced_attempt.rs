//! An attempt as the gateway races it: ready at its first token, or, if the client does not stream, with its whole answer. Not
//! for the exchange: see `attempt`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::attempt::{Assembler, Attempt, EventStream, ReadyAttempt};
use photofinish_base::clock::micros;
use photofinish_base::failure::Failure;
use photofinish_base::memory::Memory;
use photofinish_race::{self, CutReason, HeldAttempt as _};
use photofinish_routing::health::OutcomeReporter;
use photofinish_routing::policy::question::AttemptView;

/// A started attempt and its stage.
pub struct RacedAttempt {
    candidate: usize,
    stage: AttemptStage,
    /// It runs to its whole answer, with this idle timeout and this memory. None: it is ready at its first token.
    whole: Option<(Duration, Memory)>,
    outcome_reporter: Arc<OutcomeReporter>,
}

/// The progress of an attempt.
pub enum AttemptStage {
    /// No token yet.
    Asking(Attempt),
    /// Its answer is being assembled.
    Answering(Box<(ReadyAttempt, Assembler)>),
    /// It was ready, or failed.
    Over,
}

impl RacedAttempt {
    pub fn new(
        attempt: Attempt,
        candidate: usize,
        whole: Option<(Duration, Memory)>,
        outcome_reporter: Arc<OutcomeReporter>,
    ) -> RacedAttempt {
        RacedAttempt { candidate, stage: AttemptStage::Asking(attempt), whole, outcome_reporter }
    }

    pub fn candidate(&self) -> usize {
        self.candidate
    }

    /// Its view for the policy; `waited`: time since its start.
    pub fn view(&self, waited: Duration) -> AttemptView {
        let stream = match &self.stage {
            AttemptStage::Answering(answering) => Some(&answering.0.stream),
            AttemptStage::Asking(_) | AttemptStage::Over => None,
        };
        AttemptView {
            candidate: self.candidate,
            waited_us: micros(waited),
            first_token_us: stream.and_then(EventStream::first_token_us),
            tokens: stream.map_or(0, EventStream::tokens),
        }
    }

    pub fn into_stage(self) -> AttemptStage {
        self.stage
    }

    fn poll_first_token(&mut self, context: &mut Context<'_>) -> Poll<Result<ReadyAttempt, Failure>> {
        let AttemptStage::Asking(attempt) = &mut self.stage else { return Poll::Pending };
        let mut ready = ready!(Pin::new(attempt).poll(context))?;
        self.stage = AttemptStage::Over;
        ready.notes = self.outcome_reporter.answered(self.candidate, ready.exhausted_for);
        Poll::Ready(Ok(ready))
    }
}

impl Future for RacedAttempt {
    type Output = Result<ReadyAttempt, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let raced_attempt = &mut *self;
        if let AttemptStage::Asking(_) = raced_attempt.stage {
            let mut ready = ready!(raced_attempt.poll_first_token(context))?;
            let Some((idle, memory)) = &raced_attempt.whole else { return Poll::Ready(Ok(ready)) };
            ready.stream.serve(*idle);
            let assembler = Assembler::new(&mut ready, memory.lease());
            raced_attempt.stage = AttemptStage::Answering(Box::new((ready, assembler)));
        }
        let AttemptStage::Answering(answering) = &mut raced_attempt.stage else { return Poll::Pending };
        let (ready, assembler) = &mut **answering;
        let whole = ready!(assembler.poll(ready, context));
        let AttemptStage::Answering(answering) = std::mem::replace(&mut raced_attempt.stage, AttemptStage::Over) else {
            return Poll::Pending;
        };
        if whole.is_ok() {
            raced_attempt.outcome_reporter.gave_whole(raced_attempt.candidate, answering.0.stream.has_usage());
        }
        Poll::Ready(whole.map(|whole| ReadyAttempt { whole: Some(whole), ..answering.0 }))
    }
}

impl photofinish_race::RacingAttempt for RacedAttempt {
    type Ready = ReadyAttempt;

    fn cut(&mut self, cut: CutReason) {
        match &mut self.stage {
            AttemptStage::Asking(attempt) => attempt.cut(cut),
            AttemptStage::Answering(answering) => answering.0.cut(cut),
            AttemptStage::Over => {}
        }
    }

    fn has_begun(&self) -> bool {
        matches!(self.stage, AttemptStage::Answering(_))
    }
}
