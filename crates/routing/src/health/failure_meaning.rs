//! What the failure of one request means, without any effect. Not for the race's next step: see `verdict`.

use http::StatusCode;

use super::sent_request::SentRequest;
use photofinish_base::failure::{Failure, FailureKind};
use photofinish_wire::AnswerForm;
use photofinish_wire::answer::error::{rejects_stream, rejects_stream_options};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMeaning {
    /// Only a new connection shows whether the upstream is at fault.
    StaleConnection,
    /// It may give a plain answer.
    RefusesStream,
    /// It named a thing that can be changed, so it says nothing of the upstream.
    Taught,
    /// It may answer without `stream_options`.
    RefusesOptions,
    /// It counts against its key alone, and the upstream has another one.
    OneKey,
    /// It counts against the upstream, its key or the request.
    Other,
}

impl FailureMeaning {
    /// The same upstream is asked again at once, with another request, another key, or over a new connection.
    pub fn asks_again(self) -> bool {
        self != FailureMeaning::Other
    }

    /// `may_be_plain`: the upstream may be asked for a plain answer. `taught`: the race learnt what to change.
    pub(super) fn of(failure: &Failure, sent: &SentRequest, may_be_plain: bool, taught: bool) -> FailureMeaning {
        let is_streamed = sent.form != AnswerForm::Plain && !sent.complained.stream;
        if failure.stale && !sent.stale {
            FailureMeaning::StaleConnection
        } else if may_be_plain && is_streamed && refuses_stream(failure) {
            FailureMeaning::RefusesStream
        } else if taught {
            FailureMeaning::Taught
        } else if sent.form == AnswerForm::WithUsage && refuses(failure, rejects_stream_options) {
            FailureMeaning::RefusesOptions
        } else {
            FailureMeaning::Other
        }
    }
}

fn refuses_stream(failure: &Failure) -> bool {
    let may_be = matches!(failure.kind, FailureKind::BadRequest | FailureKind::NotFound | FailureKind::Forbidden)
        || failure.status == Some(StatusCode::NOT_IMPLEMENTED.as_u16());
    may_be && failure.answer.as_ref().is_some_and(|answer| rejects_stream(answer.status, &answer.body))
}

fn refuses(failure: &Failure, complains: fn(&[u8]) -> bool) -> bool {
    // For a stored item of another vendor it may answer "not found".
    matches!(failure.kind, FailureKind::BadRequest | FailureKind::NotFound)
        && failure.answer.as_ref().is_some_and(|answer| complains(&answer.body))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::health::{RejectedFeature, RequestNotes};
    use photofinish_base::clock::Instant;
    use photofinish_base::failure::{Phase, RawAnswer};
    use photofinish_base::telemetry::LogContext;

    fn sent(form: AnswerForm) -> SentRequest {
        SentRequest {
            at: Instant::now(),
            context: LogContext::default(),
            key: None,
            form,
            complained: RejectedFeature::default(),
            notes: RequestNotes::default(),
            stale: false,
        }
    }

    fn refusal(words: &'static str) -> Failure {
        let mut failure = Failure::new(FailureKind::BadRequest, Phase::Headers, words);
        let body = words.as_bytes().into();
        failure.answer = Some(RawAnswer { status: 400, headers: Box::new(HeaderMap::new()), body, whole: false });
        failure
    }

    #[test]
    fn a_stale_connection_explains_one_failure() {
        let mut failure = Failure::new(FailureKind::Closed, Phase::Headers, "");
        failure.stale = true;
        let mut request = sent(AnswerForm::WithUsage);
        assert_eq!(FailureMeaning::of(&failure, &request, true, true), FailureMeaning::StaleConnection);
        request.stale = true;
        assert_eq!(FailureMeaning::of(&failure, &request, true, false), FailureMeaning::Other);
    }

    #[test]
    fn a_refusal_of_what_was_added_means_that() {
        let options = refusal(r#"{"error":{"message":"unknown member: stream_options"}}"#);
        let of = |failure, form, may_be_plain, taught| FailureMeaning::of(failure, &sent(form), may_be_plain, taught);
        assert_eq!(of(&options, AnswerForm::WithUsage, false, false), FailureMeaning::RefusesOptions);
        assert_eq!(of(&options, AnswerForm::Streamed, false, false), FailureMeaning::Other, "it was not sent");
        assert_eq!(of(&options, AnswerForm::WithUsage, false, true), FailureMeaning::Taught);
        let stream = refusal(r#"{"error":{"message":"streaming is not supported"}}"#);
        assert_eq!(of(&stream, AnswerForm::Streamed, true, true), FailureMeaning::RefusesStream);
        assert_eq!(of(&stream, AnswerForm::Streamed, false, false), FailureMeaning::Other, "it may not be plain");
        assert_eq!(of(&stream, AnswerForm::Plain, true, false), FailureMeaning::Other, "it was asked for in one piece");
        let mut again = sent(AnswerForm::Streamed);
        again.complained.stream = true;
        assert_eq!(FailureMeaning::of(&stream, &again, true, false), FailureMeaning::Other, "that was tried");
    }
}
