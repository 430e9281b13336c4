//! Who decides, while a race runs, what it does next: the seam between the launcher and a policy that learns. The race's
//! mechanism is in `race`, what the decisions are made of in `routing::adaptive`.

use std::time::Duration;

use crate::race::{Replan, Which};
use crate::routing::adaptive::{Picks, Progress, Running};

/// Decides for one race. The defaults run a plan as it was made.
pub trait Steering: Send {
    /// For a plan with `ask_after`: what is started beside those that run. See [`crate::race::Launch::replan`].
    fn replan(&mut self, _running: &[Running], _waiting: &[usize]) -> Replan {
        Replan::Never
    }

    /// Which of those that wait, by its place among them, follows a failure.
    fn next_after_failure(&mut self, _waiting: &[usize]) -> usize {
        0
    }

    /// How long the first token of `ready` is held back for those that run. Not asked where whole answers are raced.
    fn hold(&mut self, _ready: usize, _running: &[Running]) -> Option<Duration> {
        None
    }

    /// Which of two first tokens is committed to.
    fn prefer(&mut self, _held: usize, _new: usize) -> Which {
        Which::Held
    }

    /// Where whole answers are raced: those that will end too late to wait for.
    fn hopeless(&mut self, _running: &[Progress]) -> Picks {
        Picks::default()
    }
}

/// The plan was made once and for all.
pub struct AsPlanned;

impl Steering for AsPlanned {}
