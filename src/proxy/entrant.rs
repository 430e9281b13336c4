//! An attempt as the gateway races it: ready at its first token, or with its whole answer where a client that does not stream
//! waits for the first whole one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use crate::attempt::{Attempt, Progress, Ready};
use crate::budget::Budget;
use crate::clock::Instant;
use crate::failure::Failure;
use crate::health::Judge;
use crate::race::{self, Cut, Held};
use crate::relay::Assembler;

/// A started attempt and what it has become.
pub struct Entrant {
    candidate: usize,
    stage: Stage,
    /// It runs on to its whole answer, with this idle timeout and for this memory. None: it is ready at its first token.
    whole: Option<(Duration, Budget)>,
    judge: Arc<Judge>,
}

/// An answer that has begun.
pub struct Begun {
    pub ready: Ready,
    /// When its first token was seen.
    pub at: Instant,
    /// All of it, where it ran on to that: then nothing is left to be read.
    pub whole: Option<Bytes>,
    /// It was asked without the reasoning of earlier turns.
    pub without_reasoning: bool,
}

/// How far an entrant came.
pub enum Stage {
    /// No token yet.
    Asking(Attempt),
    /// Its whole answer is awaited.
    Answering(Box<(Begun, Assembler)>),
    /// It was ready, or failed.
    Over,
}

impl Entrant {
    pub fn new(attempt: Attempt, candidate: usize, whole: Option<(Duration, Budget)>, judge: Arc<Judge>) -> Entrant {
        Entrant { candidate, stage: Stage::Asking(attempt), whole, judge }
    }

    pub fn candidate(&self) -> usize {
        self.candidate
    }

    /// None before its first token.
    pub fn progress(&self) -> Option<Progress> {
        match &self.stage {
            Stage::Answering(answering) => answering.0.ready.stream.progress(),
            Stage::Asking(_) | Stage::Over => None,
        }
    }

    pub fn into_stage(self) -> Stage {
        self.stage
    }

    fn poll_first_token(&mut self, context: &mut Context<'_>) -> Poll<Result<Begun, Failure>> {
        let Stage::Asking(attempt) = &mut self.stage else { return Poll::Pending };
        let ready = ready!(Pin::new(attempt).poll(context))?;
        self.stage = Stage::Over;
        let complained = self.judge.answered(self.candidate, ready.exhausted_for);
        Poll::Ready(Ok(Begun { ready, at: Instant::now(), whole: None, without_reasoning: complained.reasoning }))
    }
}

impl Future for Entrant {
    type Output = Result<Begun, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let entrant = &mut *self;
        if let Stage::Asking(_) = entrant.stage {
            let mut begun = ready!(entrant.poll_first_token(context))?;
            let Some((idle, budget)) = &entrant.whole else { return Poll::Ready(Ok(begun)) };
            begun.ready.stream.serve(*idle);
            let lease = budget.lease();
            let assembler = Assembler::new(&mut begun.ready, lease);
            entrant.stage = Stage::Answering(Box::new((begun, assembler)));
        }
        let Stage::Answering(answering) = &mut entrant.stage else { return Poll::Pending };
        let (begun, assembler) = &mut **answering;
        let whole = ready!(assembler.poll(&mut begun.ready, context));
        let Stage::Answering(answering) = std::mem::replace(&mut entrant.stage, Stage::Over) else {
            return Poll::Pending;
        };
        let (begun, _) = *answering;
        Poll::Ready(whole.map(|whole| Begun { whole: Some(whole), ..begun }))
    }
}

impl race::Attempt for Entrant {
    type Ready = Begun;

    fn cut(&mut self, cut: Cut) {
        match &mut self.stage {
            Stage::Asking(attempt) => attempt.cut(cut),
            Stage::Answering(answering) => answering.0.cut(cut),
            Stage::Over => {}
        }
    }

    fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Answering(_))
    }
}

impl Held for Begun {
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        self.ready.stream.read_ahead(context)
    }

    fn cut(&mut self, cut: Cut) {
        match cut {
            Cut::Lost => self.ready.stream.lost(),
            Cut::Late | Cut::Deadline => {
                self.ready.stream.time_out();
            }
        }
    }
}
