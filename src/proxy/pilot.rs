//! Who decides, while a race runs, what it does next: a policy that learns puts its own pilot here. The race's mechanism is in
//! `race`, what the decisions are made of in `routing`.

use std::time::Duration;

use crate::attempt::Progress;
use crate::race::{Replan, Which};

/// Decides for one race. The defaults run a plan as it was made.
pub trait Pilot: Send {
    /// For a plan with `ask_after`: what is started beside those that run. See [`crate::race::Launch::replan`].
    fn replan(&mut self, _running: &[Seen], _waiting: &[usize]) -> Replan {
        Replan::Never
    }

    /// Which of those that wait, by its place among them, follows a failure.
    fn next_after_failure(&mut self, _waiting: &[usize]) -> usize {
        0
    }

    /// How long a first token is held back for those that run. Not asked where whole answers are raced.
    fn hold(&mut self, _ready: &Seen, _running: &[Seen]) -> Option<Duration> {
        None
    }

    /// Which of two first tokens is committed to.
    fn prefer(&mut self, _held: &Seen, _new: &Seen) -> Which {
        Which::Held
    }

    /// Where whole answers are raced: one of those that run, by its place among them, that will end too late to wait for.
    fn hopeless(&mut self, _running: &[Seen]) -> Option<usize> {
        None
    }
}

/// A candidate that runs, as a pilot sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub candidate: usize,
    /// Since it was started.
    pub waited: Duration,
    /// None before its first token.
    pub progress: Option<Progress>,
}

/// The plan was made once and for all.
pub struct AsPlanned;

impl Pilot for AsPlanned {}
