//! Which upstreams continue a broken streamed answer, and in which order: first those that accept the delivered text as
//! a prefix, then all of them with a replay; the broken upstream comes last each time. Not for joining the answers: see
//! `relay`.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::attempt::ReadyAttempt;
use crate::proxy::request::candidate_set::CandidateSet;
use crate::proxy::run::launcher::Launcher;
use crate::relay::{Continuation, RescueCandidates};
use photofinish_base::clock::Instant;
use photofinish_base::failure::Failure;
use photofinish_config::RescuePolicy;
use photofinish_facts::record::StartReason;
use photofinish_race::{AttemptStart, Race};
use photofinish_routing::verdict::{NextStep, is_the_requests_fault, next};
use photofinish_translation::ApiRequest;
use photofinish_translation::rescue::{DeliveredAnswer, JoinMethod};

/// Bytes of a request that is replayed by default.
const REPLAYED_MAX: usize = 256 << 10;

/// The rescuer of one answer.
pub struct AnswerRescuer {
    launcher: Launcher,
    /// The upstreams that remain to be tried.
    queue: VecDeque<RescueTurn>,
    /// The latest turn; at first the winner's.
    last: RescueTurn,
    /// The ordinal of the next attempt.
    ordinal: usize,
    /// Attempts that may still start, in addition to those of the race.
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RescueTurn {
    candidate: usize,
    /// Whether the request contains the delivered text as a prefix.
    prefix: bool,
}

/// Attempts at the rest of one answer: each may be billed for all of it.
const CONTINUED_MAX: usize = 4;

/// Whether a broken answer to this request is continued. Several answers in one stream are not, nor is the short form of a
/// conversation: its client has nothing of it yet.
pub fn may_rescue(candidates: &CandidateSet, request: &ApiRequest) -> bool {
    let has_next = match candidates.settings.rescue {
        RescuePolicy::Off => false,
        // Its request is kept, and would be billed once more. The upstream that broke off seldom says the same again.
        RescuePolicy::Replay => candidates.list.len() > 1 && request.len() <= REPLAYED_MAX,
        RescuePolicy::Continue => true,
    };
    has_next && request.n_choices.is_none_or(|choices| choices == 1) && !request.state.compacts
}

impl AnswerRescuer {
    /// For a race that `winner` has won.
    pub fn new(race: Race<Launcher>, winner: usize) -> AnswerRescuer {
        let ordinal = race.started();
        let mut launcher = race.into_launch();
        // The race is over.
        launcher.candidates.iter_mut().for_each(|one| one.trial = None);
        let left = launcher.settings.failovers.min(CONTINUED_MAX);
        let last = RescueTurn { candidate: winner, prefix: false };
        AnswerRescuer { launcher, queue: VecDeque::new(), last, ordinal, left }
    }

    /// Starts an attempt, unless this candidate cannot continue in this way.
    fn start(&mut self, turn: RescueTurn, delivered: &DeliveredAnswer) -> Option<Continuation> {
        let (outcome_reporter, gateway) = (self.launcher.outcome_reporter.clone(), &self.launcher.gateway);
        let candidate = outcome_reporter.candidates.get(turn.candidate)?;
        if outcome_reporter.health.held(candidate).is_some() {
            return None;
        }
        let left = (self.launcher.read_at + self.launcher.settings.timeouts.stream_total)
            .saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        // There is nothing to continue.
        if turn.prefix && delivered.text().is_empty() {
            return None;
        }
        let continued = || {
            let upload = &self.launcher.candidates[turn.candidate].upload;
            let (prefix, quirks) = (candidate.upstream.provider.prefix, candidate.upstream.quirks(upload.dialect()));
            let (request_translation, shown) =
                upload.continued(delivered.text(), delivered.tokens(), prefix, &quirks)?;
            let mut lease = gateway.memory().lease();
            lease.cover(request_translation.len()).ok()?;
            Some((Arc::new(request_translation.leased(lease)), shown))
        };
        let continued = if turn.prefix { Some(continued()?) } else { None };
        let given = continued.as_ref().map(|(request_translation, _)| request_translation);
        let reservation = self.launcher.reserve(turn.candidate, self.ordinal, given)?;
        let starting = AttemptStart {
            candidate: turn.candidate,
            ordinal: self.ordinal,
            reason: StartReason::Rescue,
            p_include: 1.0,
        };
        self.ordinal += 1;
        self.left -= 1;
        self.last = turn;
        let timeouts = candidate.upstream.timeouts;
        Some(Continuation {
            attempt: self.launcher.start(starting, given, reservation),
            way: continued.map_or(JoinMethod::Replay, |(_, shown)| JoinMethod::Prefix(shown)),
            upstream: candidate.name.clone(),
            candidate: turn.candidate,
            ordinal: starting.ordinal,
            first_token: timeouts.first_token.min(left),
            idle: timeouts.silence(true, true),
        })
    }
}

impl RescueCandidates for AnswerRescuer {
    fn next(&mut self, delivered: &DeliveredAnswer, afresh: bool) -> Option<Continuation> {
        if afresh {
            let continues = self.launcher.settings.rescue == RescuePolicy::Continue;
            self.queue = turns(self.launcher.outcome_reporter.candidates.len(), self.last.candidate, continues);
        }
        while self.left > 0 {
            let turn = self.queue.pop_front()?;
            if let Some(asked) = self.start(turn, delivered) {
                return Some(asked);
            }
        }
        None
    }

    fn began(&mut self, ready: &ReadyAttempt) {
        self.launcher.outcome_reporter.answered(self.last.candidate, ready.exhausted_for);
    }

    fn failed(&mut self, failure: &Failure) {
        let (outcome_reporter, turn) = (self.launcher.outcome_reporter.clone(), self.last);
        let sent = outcome_reporter.sent(turn.candidate);
        if outcome_reporter.failed(turn.candidate, &sent, failure, false).asks_again() {
            self.queue.push_front(turn);
        } else if next(failure, self.launcher.settings.content_policy) == NextStep::Stop {
            self.queue.clear();
        } else if !is_the_requests_fault(failure.kind) {
            // It would fail without the prefix too.
            self.queue.retain(|other| other.candidate != turn.candidate);
        }
    }
}

/// The order of the candidates after this one broke. `continues`: they may be asked for the rest of the text.
fn turns(candidates: usize, broken: usize, continues: bool) -> VecDeque<RescueTurn> {
    let order = || (0..candidates).filter(move |candidate| *candidate != broken).chain([broken]);
    let turn = |prefix| move |candidate| RescueTurn { candidate, prefix };
    order().filter(|_| continues).map(turn(true)).chain(order().map(turn(false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_go_before_replays_and_the_broken_one_comes_last() {
        let order = |candidates, broken, continues| -> Vec<(usize, bool)> {
            turns(candidates, broken, continues).iter().map(|turn| (turn.candidate, turn.prefix)).collect()
        };
        assert_eq!(order(1, 0, true), [(0, true), (0, false)]);
        assert_eq!(order(2, 0, false), [(1, false), (0, false)]);
        assert_eq!(order(3, 1, true), [(0, true), (2, true), (1, true), (0, false), (2, false), (1, false)]);
    }
}
