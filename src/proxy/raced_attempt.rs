//! An attempt as the gateway races it: ready at its first token, or with its whole answer where a client that does not stream
//! waits for the first whole one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use crate::attempt::{Attempt, AttemptProgress, ReadyAttempt};
use crate::budget::Budget;
use crate::clock::Instant;
use crate::failure::Failure;
use crate::health::OutcomeReporter;
use crate::race::{self, CutReason, HeldAttempt};
use crate::relay::Assembler;

/// A started attempt and what it has become.
pub struct RacedAttempt {
    candidate: usize,
    stage: AttemptStage,
    /// It runs on to its whole answer, with this idle timeout and for this memory. None: it is ready at its first token.
    whole: Option<(Duration, Budget)>,
    outcome_reporter: Arc<OutcomeReporter>,
}

/// An answer that has begun.
pub struct AttemptReady {
    pub ready: ReadyAttempt,
    /// When its first token was seen.
    pub at: Instant,
    /// All of it, where it ran on to that: then nothing is left to be read.
    pub whole: Option<Bytes>,
    /// It was asked without the reasoning of earlier turns.
    pub without_reasoning: bool,
}

/// How far an entrant came.
pub enum AttemptStage {
    /// No token yet.
    Asking(Attempt),
    /// Its whole answer is awaited.
    Answering(Box<(AttemptReady, Assembler)>),
    /// It was ready, or failed.
    Over,
}

impl RacedAttempt {
    pub fn new(
        attempt: Attempt,
        candidate: usize,
        whole: Option<(Duration, Budget)>,
        outcome_reporter: Arc<OutcomeReporter>,
    ) -> RacedAttempt {
        RacedAttempt { candidate, stage: AttemptStage::Asking(attempt), whole, outcome_reporter }
    }

    pub fn candidate(&self) -> usize {
        self.candidate
    }

    /// None before its first token.
    pub fn progress(&self) -> Option<AttemptProgress> {
        match &self.stage {
            AttemptStage::Answering(answering) => answering.0.ready.stream.progress(),
            AttemptStage::Asking(_) | AttemptStage::Over => None,
        }
    }

    pub fn into_stage(self) -> AttemptStage {
        self.stage
    }

    fn poll_first_token(&mut self, context: &mut Context<'_>) -> Poll<Result<AttemptReady, Failure>> {
        let AttemptStage::Asking(attempt) = &mut self.stage else { return Poll::Pending };
        let ready = ready!(Pin::new(attempt).poll(context))?;
        self.stage = AttemptStage::Over;
        let complained = self.outcome_reporter.answered(self.candidate, ready.exhausted_for);
        Poll::Ready(Ok(AttemptReady {
            ready,
            at: Instant::now(),
            whole: None,
            without_reasoning: complained.reasoning,
        }))
    }
}

impl Future for RacedAttempt {
    type Output = Result<AttemptReady, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let raced_attempt = &mut *self;
        if let AttemptStage::Asking(_) = raced_attempt.stage {
            let mut begun = ready!(raced_attempt.poll_first_token(context))?;
            let Some((idle, budget)) = &raced_attempt.whole else { return Poll::Ready(Ok(begun)) };
            begun.ready.stream.serve(*idle);
            let lease = budget.lease();
            let assembler = Assembler::new(&mut begun.ready, lease);
            raced_attempt.stage = AttemptStage::Answering(Box::new((begun, assembler)));
        }
        let AttemptStage::Answering(answering) = &mut raced_attempt.stage else { return Poll::Pending };
        let (begun, assembler) = &mut **answering;
        let whole = ready!(assembler.poll(&mut begun.ready, context));
        let AttemptStage::Answering(answering) = std::mem::replace(&mut raced_attempt.stage, AttemptStage::Over) else {
            return Poll::Pending;
        };
        let (begun, _) = *answering;
        Poll::Ready(whole.map(|whole| AttemptReady { whole: Some(whole), ..begun }))
    }
}

impl race::RacingAttempt for RacedAttempt {
    type Ready = AttemptReady;

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

impl HeldAttempt for AttemptReady {
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        self.ready.stream.read_ahead(context)
    }

    fn cut(&mut self, cut: CutReason) {
        match cut {
            CutReason::Lost => self.ready.stream.lost(),
            CutReason::Late | CutReason::Deadline => {
                self.ready.stream.time_out();
            }
        }
    }
}
