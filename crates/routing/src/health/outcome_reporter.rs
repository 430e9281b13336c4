//! Updates the state of an upstream after an attempt: cool-downs, breakers, context windows. Not for what a failure means: see
//! `failure_meaning`; and not for the race's next step: see `verdict`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::failure_meaning::FailureMeaning;
use super::refusals::RequestFeatures;
use super::sent_request::{RejectedFeature, RequestNotes, SentRequest};
use super::state::StreamingHabit;
use super::{CallerId, Candidate, UpstreamHealth, prompt_length};
use crate::money::lock;
use crate::verdict::CooldownReason;
use crate::verdict::{BreakerEffect, Verdict, is_shared_by_all, is_the_requests_fault, verdict};
use photofinish_base::clock::Instant;
use photofinish_base::failure::{Failure, FailureKind, Phase};
use photofinish_base::telemetry::LogContext;
use photofinish_config::keyring::HashedKey;
use photofinish_config::{BreakerSettings, UpstreamStream};
use photofinish_translation::ApiRequest;
use photofinish_translation::adapt::Lesson;
use photofinish_wire::answer::error::{in_short, too_long};
use photofinish_wire::{AnswerForm, Dialect, Surface};

/// A refusal for length is about the prompt, and not about the requested answer, if `max_tokens` is at most the
/// prompt's bytes divided by this.
const ANSWER_SHARE: usize = 16;

/// The reporter of one race. Losers that run on after the race report to it too.
pub struct OutcomeReporter {
    pub health: Arc<UpstreamHealth>,
    /// The names of the request in the log, also for lines after its answer has begun.
    pub context: LogContext,
    pub candidates: Vec<Arc<Candidate>>,
    breaker: BreakerSettings,
    caller: CallerId,
    /// Weak: the request is freed once an answer is streamed.
    request: Weak<ApiRequest>,
    /// The client itself sent `stream_options`.
    own_stream_options: bool,
    /// The latest start of each candidate.
    sent: Mutex<Vec<SentRequest>>,
    /// Failures of upstreams until it is known whether all attempts share them; none after that.
    pending: Mutex<Option<Vec<BreakerCharge>>>,
    refused: Mutex<RaceRefusals>,
}

/// A failure that a breaker counts.
struct BreakerCharge {
    candidate: usize,
    /// After its first token.
    broke: bool,
    /// The caller whose request may have caused it.
    caller: Option<u64>,
    sent_at: Instant,
}

/// Refusals of one upstream that one race follows: a vendor that refuses another thing at each try is not followed for long.
const LESSONS_MAX: usize = 4;

/// Candidates that refused the request, and why in short, until another one answers it; and who did.
#[derive(Default)]
struct RaceRefusals {
    by: Vec<(usize, String)>,
    answered: Option<usize>,
}

impl OutcomeReporter {
    pub fn new(
        health: &Arc<UpstreamHealth>,
        candidates: Vec<Arc<Candidate>>,
        breaker: BreakerSettings,
        caller: CallerId,
        request: &Arc<ApiRequest>,
        read_at: Instant,
    ) -> OutcomeReporter {
        let nothing = SentRequest {
            at: read_at,
            context: LogContext::default(),
            key: None,
            form: AnswerForm::Streamed,
            complained: RejectedFeature::default(),
            notes: RequestNotes::default(),
            stale: false,
        };
        OutcomeReporter {
            health: health.clone(),
            context: LogContext::current(),
            breaker,
            caller,
            request: Arc::downgrade(request),
            own_stream_options: request.has_stream_options(),
            sent: Mutex::new(vec![nothing; candidates.len()]),
            candidates,
            pending: Mutex::new(Some(Vec::new())),
            refused: Mutex::default(),
        }
    }

    /// The first token of this candidate's latest start arrived. Returns the notes of its request. `exhausted_for`: how long one of its rate limits is used up.
    pub fn answered(&self, candidate: usize, exhausted_for: Option<Duration>) -> RequestNotes {
        let sent = self.sent(candidate);
        self.first_token(candidate, &sent);
        if let Some(wait) = exhausted_for {
            self.health.exhausted(&self.candidates[candidate].target(sent.key.as_ref()), wait);
        }
        sent.notes
    }

    /// The answer of this candidate's latest start ended, well or by a failure.
    pub fn ended(&self, candidate: usize, failure: Option<&Failure>) {
        match failure {
            Some(failure) => {
                let sent = self.sent(candidate);
                let _entered = sent.context.enter();
                let (kind, phase) = (failure.kind.as_str(), failure.phase.as_str());
                tracing::debug!(failure = kind, phase, "the answer broke off");
                self.charge(candidate, &sent, failure);
            }
            None => self.health.ended_well(self.candidates[candidate].breaker_scope()),
        }
    }

    /// The race is over, with these failures, or an attempt answered (no failures). Breakers do not count failures that all
    /// attempts share.
    pub fn settle(&self, failures: &[(usize, Failure)]) {
        let pending = lock(&self.pending).take().unwrap_or_default();
        if !is_shared_by_all(failures) {
            pending.iter().for_each(|charge| self.apply(charge));
        }
    }

    /// The request is sent now.
    pub fn note(&self, candidate: usize, sent: SentRequest) {
        lock(&self.sent)[candidate] = sent;
    }

    /// The request of this candidate's latest start.
    pub fn sent(&self, candidate: usize) -> SentRequest {
        lock(&self.sent)[candidate].clone()
    }

    /// The first token of this request arrived.
    pub fn first_token(&self, candidate: usize, sent: &SentRequest) {
        self.settle(&[]);
        self.heard_well(candidate, sent);
        let asked = &self.candidates[candidate];
        let kind = || self.request.upgrade().map(|request| RequestFeatures::of(&request, asked.surface));
        self.health.took(asked, self.caller, kind);
        lock(&self.refused).answered.get_or_insert(candidate);
        self.tell_refusals();
        self.health.close_breaker(self.candidates[candidate].breaker_scope(), sent.at);
    }

    /// Somebody answered: what others refused was their own choice.
    fn tell_refusals(&self) {
        let (answered, refused) = {
            let mut refused = lock(&self.refused);
            let Some(answered) = refused.answered else { return };
            (answered, std::mem::take(&mut refused.by))
        };
        let Some(request) = self.request.upgrade() else { return };
        for (candidate, why) in refused.into_iter().filter(|(candidate, _)| *candidate != answered) {
            let refuser = &self.candidates[candidate];
            if !refuser.named {
                self.health.refused(refuser, self.caller, &request, why);
            }
        }
    }

    fn charge(&self, candidate: usize, sent: &SentRequest, failure: &Failure) {
        let caller = match verdict(failure).counts {
            BreakerEffect::Never => return,
            BreakerEffect::Doubtful => self.caller.for_breaker(),
            BreakerEffect::Certain => None,
        };
        let charge = BreakerCharge { candidate, broke: failure.phase == Phase::Stream, caller, sent_at: sent.at };
        match &mut *lock(&self.pending) {
            Some(pending) => pending.push(charge),
            None => self.apply(&charge),
        }
    }

    fn apply(&self, charge: &BreakerCharge) {
        let _entered = self.context.enter();
        let BreakerCharge { candidate, broke, caller, sent_at } = *charge;
        self.health.charge(self.candidates[candidate].breaker_scope(), &self.breaker, broke, caller, sent_at);
    }

    /// The cool-down that starts now. `certain`: the request cannot be the cause.
    fn cooldown(
        &self,
        candidate: usize,
        sent: &SentRequest,
        verdict: &Verdict,
        certain: bool,
    ) -> Option<CooldownReason> {
        let target = || self.candidates[candidate].target(sent.key.as_ref());
        let is_suspect = |request: &ApiRequest| self.health.suspect(&target(), self.caller, request.body());
        let begins = || certain || self.request.upgrade().is_some_and(|request| is_suspect(&request));
        verdict.cooldown.filter(|_| begins())
    }

    fn heard_well(&self, candidate: usize, sent: &SentRequest) {
        self.forgive(candidate, sent);
        let length = || self.request.upgrade().map(|request| prompt_length(&request));
        let asked = &self.candidates[candidate];
        self.health.took_length(&asked.name, length);
        // If the client sent it, the refusal may be about the client's value.
        if sent.complained.stream_options && sent.form != AnswerForm::WithUsage && !self.own_stream_options {
            self.health.learn_habit(&asked.name, asked.surface, StreamingHabit::RefusesOptions);
        }
        let refused = self.request.upgrade().filter(|_| sent.complained.stream && sent.form == AnswerForm::Plain);
        if let Some(request) = refused {
            self.health.learn_habit(&asked.name, asked.surface, StreamingHabit::Refuses(request.member_set));
        }
        for (surface, lesson) in &sent.complained.lessons {
            self.health.learn_refusal(&asked.name, *surface, lesson);
        }
    }

    /// Learns the context window from the message, or else from the length of the refused prompt.
    fn learn_window(&self, candidate: usize, failure: &Failure) {
        let Candidate { name, named, .. } = &*self.candidates[candidate];
        // Upstreams that callers name are not remembered.
        let Some(request) = self.request.upgrade().filter(|_| !named) else { return };
        let length = prompt_length(&request);
        // The requested answer may be the part that is too long.
        let most_answer = request.max_tokens.and_then(|tokens| usize::try_from(tokens).ok()).unwrap_or(0);
        let by_length = !length.has_media && most_answer <= length.bytes / ANSWER_SHARE;
        let window = too_long(&failure.message).window;
        self.health.refused_length(name, window, by_length.then_some(length.bytes));
    }

    fn forgive(&self, candidate: usize, sent: &SentRequest) {
        self.health.forgive(|| self.candidates[candidate].target(sent.key.as_ref()), sent.at);
    }

    /// Enters what this failure means. `taught`: it named a thing that can be changed, so that it says nothing of the upstream.
    pub fn failed(&self, candidate: usize, sent: &SentRequest, failure: &Failure, taught: bool) -> FailureMeaning {
        let _entered = sent.context.enter();
        self.log(candidate, sent, failure);
        let asked = &self.candidates[candidate];
        // Nothing changes where the call has no streams, or where the operator wants no plain answer.
        let may_be_plain = asked.surface.streams() && asked.upstream.upstream_stream != UpstreamStream::Always;
        let meaning = FailureMeaning::of(failure, sent, may_be_plain, taught);
        match meaning {
            FailureMeaning::StaleConnection => lock(&self.sent)[candidate].stale = true,
            FailureMeaning::RefusesStream => {
                tracing::info!(upstream = asked.name, "refuses to stream: asked again for a plain answer");
                lock(&self.sent)[candidate].complained.stream = true;
            }
            FailureMeaning::Taught => self.forgive(candidate, sent),
            FailureMeaning::RefusesOptions => {
                self.count(candidate, sent, failure);
                tracing::info!(upstream = asked.name, "rejects stream_options: asked again without");
                lock(&self.sent)[candidate].complained.stream_options = true;
            }
            FailureMeaning::OneKey | FailureMeaning::Other => {
                // With another key it is another request. A cool-down may have ended already, so compare the keys too.
                let of_key = self.count(candidate, sent, failure).is_some_and(|why| is_of_the_key(why, failure.kind));
                if of_key && self.health.has_rested_key_but(asked, sent.key.as_ref()) {
                    return FailureMeaning::OneKey;
                }
            }
        }
        meaning
    }

    /// Changes what is known of the upstream. Returns the cool-down that began.
    fn count(&self, candidate: usize, sent: &SentRequest, failure: &Failure) -> Option<CooldownReason> {
        self.charge(candidate, sent, failure);
        if failure.kind == FailureKind::ContextLength {
            self.learn_window(candidate, failure);
        }
        let cooldown = self.cool_down(candidate, sent, failure);
        self.note_refusal(candidate, failure);
        if failure.kind == FailureKind::Empty {
            self.heard_well(candidate, sent);
        } else if is_the_requests_fault(failure.kind) {
            // The key was accepted and the request read.
            self.forgive(candidate, sent);
        }
        cooldown
    }

    fn cool_down(&self, candidate: usize, sent: &SentRequest, failure: &Failure) -> Option<CooldownReason> {
        let (asked, verdict) = (&self.candidates[candidate], verdict(failure));
        // Where the gateway sends no key, the refused one may be the caller's own, in a header that is forwarded.
        let is_theirs = failure.kind == FailureKind::Unauthorized && sent.key.is_none();
        let certain = verdict.certain && !is_theirs;
        let reason = self.cooldown(candidate, sent, &verdict, certain)?;
        let wait = self.health.cool_down(reason, asked, sent.key.as_ref(), failure.retry_after);
        if !certain {
            let (upstream, failure) = (&asked.name, failure.kind.as_str());
            tracing::warn!(upstream, failure, "an upstream refuses every request: look at its model");
        }
        tracing::info!(upstream = asked.name, ?reason, ?wait, "cools down");
        Some(reason)
    }

    /// What it refused is reported once another one has answered.
    fn note_refusal(&self, candidate: usize, failure: &Failure) {
        let Some(answer) = failure.answer.as_ref().filter(|_| failure.kind == FailureKind::BadRequest) else { return };
        {
            let mut refused = lock(&self.refused);
            refused.by.retain(|(other, _)| *other != candidate);
            refused.by.push((candidate, in_short(answer.status, &answer.body)));
        }
        self.tell_refusals();
    }

    /// A client that does not stream got the answer of this candidate's latest start. `has_usage`: with usage in it.
    pub fn gave_whole(&self, candidate: usize, has_usage: bool) {
        // Only chat upstreams have to be asked for usage, and so may stream without.
        let asked = &self.candidates[candidate];
        let of_chat = asked.surface.dialect() == Dialect::OpenAi;
        let habit = match self.sent(candidate).form {
            _ if has_usage || !of_chat => return,
            AnswerForm::Plain => StreamingHabit::HasNoUsage,
            AnswerForm::Streamed | AnswerForm::WithUsage => StreamingHabit::OmitsUsage,
        };
        self.health.learn_habit(&asked.name, asked.surface, habit);
    }

    /// Status and words of a refusal that may teach, unless the last one of this race had the same. A 500 that comes
    /// again in the same words is no accident.
    pub fn teaches<'f>(&self, sent: &SentRequest, failure: &'f Failure) -> Option<(u16, &'f [u8])> {
        let answer = failure.answer.as_ref().filter(|_| failure.phase == Phase::Headers)?;
        let refuses = failure.kind == FailureKind::BadRequest || matches!(answer.status, 404 | 405 | 422 | 501);
        let is_again = sent.complained.words == Some(hash_of(&answer.body));
        let may = if refuses { !is_again } else { answer.status == 500 && is_again };
        (may && sent.complained.lessons.len() < LESSONS_MAX).then_some((answer.status, &answer.body[..]))
    }

    /// Remembers the words of this failure, so that the same ones are known again.
    pub fn remember_words(&self, candidate: usize, failure: &Failure) {
        let words = failure.answer.as_ref().map(|answer| hash_of(&answer.body));
        lock(&self.sent)[candidate].complained.words = words;
    }

    /// From now on its requests heed this.
    pub fn heed(&self, candidate: usize, surface: Surface, lesson: Lesson) {
        let _entered = self.context.enter();
        let upstream = &self.candidates[candidate].name;
        tracing::debug!(upstream, lesson = lesson.in_words(), "a refusal names what it is about: asked again");
        lock(&self.sent)[candidate].complained.lessons.push((surface, lesson));
    }

    fn log(&self, candidate: usize, sent: &SentRequest, failure: &Failure) {
        let upstream = &self.candidates[candidate].name;
        // The message is not logged: vendors quote the prompt in it.
        let (kind, phase, status) = (failure.kind.as_str(), failure.phase.as_str(), failure.status);
        if verdict(failure).loud {
            let key = sent.key.as_ref().map(HashedKey::id).unwrap_or("none");
            tracing::warn!(
                upstream,
                failure = kind,
                status,
                key,
                "an upstream refuses us: look at its key and its model"
            );
        } else {
            tracing::info!(upstream, failure = kind, phase, status, "an attempt failed");
        }
    }
}

fn hash_of(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

fn is_of_the_key(reason: CooldownReason, kind: FailureKind) -> bool {
    let is_keys =
        matches!(reason, CooldownReason::RateLimited | CooldownReason::AccountRateLimited | CooldownReason::KeyRefused);
    is_keys || kind == FailureKind::Forbidden
}

impl Drop for OutcomeReporter {
    /// The client left before any attempt answered.
    fn drop(&mut self) {
        self.settle(&[]);
    }
}
