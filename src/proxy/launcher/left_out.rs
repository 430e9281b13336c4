//! The next request to an upstream that refused a part of the first one: without that part. What may be left out: see
//! `protocol::quirks`.

use std::sync::Arc;

use super::Launcher;
use crate::failure::Failure;
use crate::health::SentRequest;
use crate::proxy::outbound;

impl Launcher {
    /// True if reasoning of earlier turns was rejected, and there is now a request without it.
    pub(super) fn leaves_out_reasoning(&mut self, candidate: usize, sent: &SentRequest, failure: &Failure) -> bool {
        if !self.outcome_reporter.refuses_reasoning(sent, failure) {
            return false;
        }
        let upstream = &self.outcome_reporter.candidates[candidate].upstream;
        let without = outbound::without_reasoning(&self.request, upstream, self.gateway.budget());
        let Some(request_translation) = without else { return false };
        self.uploads[candidate] = Arc::new(request_translation);
        self.outcome_reporter.leave_out_reasoning(candidate);
        true
    }

    /// True if a member was refused, and there is now a request without it.
    pub(super) fn leaves_out_member(&mut self, candidate: usize, sent: &SentRequest, failure: &Failure) -> bool {
        let names = self.outcome_reporter.refused_names(sent, failure);
        if names.is_empty() {
            return false;
        }
        let Some((without, member)) = self.uploads[candidate].without(&names) else { return false };
        self.uploads[candidate] = Arc::new(without);
        self.outcome_reporter.leave_out_member(candidate, member);
        true
    }
}
