//! How an upstream is asked to answer: plainly, or as a stream. Which races are plain: see `policy`.

use super::Launcher;
use photofinish_config::config::UpstreamStream;
use photofinish_routing::health::{Candidate, RejectedFeature, StreamingHabit};
use photofinish_wire::{AnswerForm, Dialect, RequestTranslation};

impl Launcher {
    /// How an upstream is asked to answer this request.
    pub(super) fn form(
        &self,
        candidate: &Candidate,
        request_translation: &RequestTranslation,
        complained: &RejectedFeature,
    ) -> AnswerForm {
        let health = self.gateway.health();
        let is_plain =
            self.policy.driver.is_plain() || complained.stream || health.answers_plain(candidate, &self.request);
        if is_plain && self.request.surface.streams() && candidate.upstream.upstream_stream != UpstreamStream::Always {
            return AnswerForm::Plain;
        }
        let takes_options = request_translation.dialect() == Dialect::OpenAi
            && !complained.stream_options
            && candidate.upstream.quirks.stream_options
            && !health.has_habit(&candidate.name, candidate.surface, StreamingHabit::RefusesOptions);
        if takes_options { AnswerForm::WithUsage } else { AnswerForm::Streamed }
    }
}
