//! Endings that the race decides: win, hold, loss, late, hopeless, deadline. Not for failures: see `verdict`.

use std::task::{Context, Poll};

use super::{CutReason, HeldAttempt, Launch, Race, RaceFinish, RaceSide, RacingAttempt, RunningAttempt};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_history::record::StartReason;
use photofinish_routing::routing::plan::PlannedStart;

impl<A: RacingAttempt> RunningAttempt<A> {
    pub(super) fn has_begun(&self) -> bool {
        self.attempt.has_begun()
    }
}

impl<L: Launch> Race<L> {
    /// Declares the winner and cuts all others.
    pub(super) fn win(&mut self, winner: RunningAttempt<L::Ready>) -> RaceFinish<L::Ready> {
        for loser in std::mem::take(&mut self.running) {
            tracing::debug!(ordinal = loser.ordinal, winner = winner.ordinal, "cut: another attempt won");
            if loser.was_late { self.cut_late(loser) } else { self.lose(loser) }
        }
        let RunningAttempt { attempt: ready, entry, ordinal, .. } = winner;
        RaceFinish::Won { ready, candidate: entry.candidate, ordinal }
    }

    /// An attempt is ready: holds it back for the others (none), or returns the winner.
    pub(super) fn hold_or_choose(&mut self, arrival: RunningAttempt<L::Ready>) -> Option<RunningAttempt<L::Ready>> {
        let Some((held, _)) = self.held.take() else {
            return self.hold(arrival);
        };
        let (winner, mut loser) = match self.launch.prefer(&held, &arrival) {
            RaceSide::Held => (held, arrival),
            RaceSide::New => (arrival, held),
        };
        loser.attempt.cut(CutReason::Lost);
        self.losers.push(loser.entry);
        self.launch.lost_ready(loser.entry.candidate, loser.attempt);
        Some(winner)
    }

    /// The held attempt, once its time is over or no other runs.
    pub(super) fn end_hold(&mut self) -> Option<RunningAttempt<L::Ready>> {
        if self.hold_is_over() { self.held.take().map(|(held, _)| held) } else { None }
    }

    pub(super) fn hold_is_over(&self) -> bool {
        self.held.as_ref().is_some_and(|(_, until)| self.running.is_empty() || *until <= self.launch.now())
    }

    /// Lets the held attempt read on. Returns its failure if it broke.
    pub(super) fn poll_held(
        &mut self,
        mut held: RunningAttempt<L::Ready>,
        until: Instant,
        context: &mut Context<'_>,
    ) -> Poll<(PlannedStart, Failure)> {
        match held.attempt.poll_held(context) {
            Poll::Ready(failure) => Poll::Ready((held.entry, failure)),
            Poll::Pending => {
                self.held = Some((held, until));
                Poll::Pending
            }
        }
    }

    /// Replaces late attempts. The last running attempt is not cut, nor one whose answer may only be long. A probe does not count as running for this.
    pub(super) fn cut_the_late(&mut self) {
        let now = self.launch.now();
        for begun in self.running.iter_mut().filter(|running| running.has_begun()) {
            begun.late_at = None;
        }
        while let Some(position) = self.latest(now) {
            let trial = self.running[position].entry.trial;
            if !trial {
                self.start_next(StartReason::Fallback);
            }
            let alive = self.running.iter().filter(|running| trial || !running.entry.trial).count();
            let may_be_long = self.running[position].attempt.may_be_long();
            if may_be_long || (alive == 1 && self.held.is_none()) {
                let running = &mut self.running[position];
                (running.late_at, running.was_late) = (None, may_be_long);
                continue;
            }
            let late = self.running.remove(position);
            self.cut_late(late);
            if !trial {
                self.ask_at = self.plan.ask_after.map(|_| now);
            }
        }
    }

    fn cut_late(&mut self, mut late: RunningAttempt<L::Attempt>) {
        late.attempt.cut(CutReason::Late);
        tracing::debug!(ordinal = late.ordinal, limit = ?late.entry.first_token, "cut: it is late");
        let awaited = if late.was_late { "answer" } else { "first token" };
        let message = format!("no {awaited} within {:?}", late.entry.first_token);
        let failure = Failure::new(FailureKind::Timeout, Phase::FirstToken, message);
        self.launch.failed(late.entry.candidate, &failure);
        self.failures.push((late.entry.candidate, failure));
    }

    /// A late attempt, probes first.
    fn latest(&self, now: Instant) -> Option<usize> {
        let is_late = |running: &RunningAttempt<L::Attempt>| running.late_at.is_some_and(|at| at <= now);
        let trial = self.running.iter().position(|running| running.entry.trial && is_late(running));
        trial.or_else(|| self.running.iter().position(is_late))
    }

    /// Cuts attempts that cannot win any more. The last running attempt stays.
    pub(super) fn cut_the_hopeless(&mut self) {
        while self.running.len() > 1
            && let Some(position) = self.launch.hopeless(&self.running).filter(|at| *at < self.running.len())
        {
            let loser = self.running.remove(position);
            tracing::debug!(ordinal = loser.ordinal, "cut: it cannot win any more");
            self.lose(loser);
        }
    }

    pub(super) fn cut_at_deadline(&mut self) {
        for mut running in self.running.drain(..) {
            running.attempt.cut(CutReason::Deadline);
            tracing::debug!(ordinal = running.ordinal, "cut: the total deadline passed");
            let begun = running.has_begun();
            let phase = if begun { Phase::Stream } else { Phase::FirstToken };
            let failure = Failure::new(FailureKind::Timeout, phase, "the total deadline passed");
            // A long answer is not the upstream's fault.
            if !begun {
                self.launch.failed(running.entry.candidate, &failure);
            }
            self.failures.push((running.entry.candidate, failure));
        }
    }

    /// Holds it back if the launcher wants that, at most until the deadline.
    fn hold(&mut self, arrival: RunningAttempt<L::Ready>) -> Option<RunningAttempt<L::Ready>> {
        let now = self.launch.now();
        let left = self.deadline().saturating_duration_since(now);
        let hold = if self.running.is_empty() { None } else { self.launch.hold(&arrival, &self.running) };
        match hold.map(|hold| hold.min(left)).filter(|hold| !hold.is_zero()) {
            None => Some(arrival),
            Some(hold) => {
                tracing::debug!(ordinal = arrival.ordinal, ?hold, "held back: another may end first");
                self.held = Some((arrival, now + hold));
                None
            }
        }
    }

    fn lose(&mut self, mut loser: RunningAttempt<L::Attempt>) {
        loser.attempt.cut(CutReason::Lost);
        self.losers.push(loser.entry);
        self.launch.lost(loser.attempt);
    }
}
