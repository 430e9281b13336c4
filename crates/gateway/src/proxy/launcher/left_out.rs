//! The next request to an upstream that refused a part of the first one: without that part. What may be left out: see
//! `photofinish_wire::quirks`.

use std::sync::Arc;

use super::Launcher;
use crate::proxy::outbound;
use photofinish_base::failure::Failure;
use photofinish_config::config::Lossy;
use photofinish_routing::health::{Candidate, SentRequest};
use photofinish_wire::RequestTranslation;
use photofinish_wire::answer::error::RefusedMember;
use photofinish_wire::quirks::RefusalLesson;

impl Launcher {
    /// True if reasoning of earlier turns was rejected, and there is now a request without it.
    pub(super) fn leaves_out_reasoning(&mut self, candidate: usize, sent: &SentRequest, failure: &Failure) -> bool {
        if !self.outcome_reporter.refuses_reasoning(sent, failure) {
            return false;
        }
        let Candidate { upstream, name, surface, .. } = &self.outcome_reporter.candidates[candidate];
        let without = outbound::without_reasoning(&self.request, upstream, self.gateway.budget());
        let Some(mut request_translation) = without else { return false };
        // It was made from the client's request, which has all members.
        let mut lessons = self.gateway.health().lessons(name, *surface);
        lessons.extend(sent.complained.members.iter().cloned());
        if let Some(without) = request_translation.without(&lessons) {
            request_translation = self.leased(without);
        }
        self.uploads[candidate] = Arc::new(request_translation);
        self.outcome_reporter.leave_out_reasoning(candidate);
        true
    }

    /// True if a member was refused, and there is now a request without it.
    pub(super) fn leaves_out_member(&mut self, candidate: usize, sent: &SentRequest, failure: &Failure) -> bool {
        if self.request.surface.counts() {
            return false;
        }
        let Some(RefusedMember { name, by_value }) = self.outcome_reporter.refused_member(sent, failure) else {
            return false;
        };
        let before = &self.uploads[candidate];
        let value = if by_value { before.value_of(&name) } else { None };
        let lesson = RefusalLesson { name, value };
        let Some(without) = before.without(std::slice::from_ref(&lesson)) else { return false };
        if self.settings.lossy == Lossy::Refuse && !without.losses().keeps_settings() {
            return false;
        }
        self.uploads[candidate] = Arc::new(self.leased(without));
        self.outcome_reporter.leave_out_member(candidate, lesson);
        true
    }

    fn leased(&self, request_translation: RequestTranslation) -> RequestTranslation {
        let mut lease = self.gateway.budget().lease();
        lease.settle(request_translation.len());
        request_translation.leased(lease)
    }
}
