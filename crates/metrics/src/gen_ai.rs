//! The client metrics of OpenTelemetry's GenAI conventions, in Prometheus' spelling: the gateway is a client of its
//! providers, and one operation is one attempt.
//!
//! <https://github.com/open-telemetry/semantic-conventions-genai> 0.1.0, `docs/gen-ai/client-inference.md`. Not for
//! `time_per_output_chunk`, which would add a cost to every chunk of every stream.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::histogram::{self, MetricHistogram, micros};
use super::series::NamedSeries;
use super::text::MetricsText;
use photofinish_base::failure::FailureKind;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord};

/// The figures of one upstream.
#[derive(Debug)]
pub(super) struct GenAi {
    /// By the name of the failure; there are few. The empty name is success.
    durations: Mutex<BTreeMap<&'static str, MetricHistogram>>,
    first_chunk: MetricHistogram,
    input: MetricHistogram,
    output: MetricHistogram,
}

impl GenAi {
    pub fn new() -> GenAi {
        GenAi {
            durations: Mutex::default(),
            first_chunk: MetricHistogram::new(histogram::OPERATION),
            input: MetricHistogram::new(histogram::TOKENS),
            output: MetricHistogram::new(histogram::TOKENS),
        }
    }

    /// `took_us`: microseconds from dispatch to the end of the attempt.
    pub fn attempt(&self, attempt: &AttemptRecord, took_us: i64) {
        for (tokens, histogram) in [(attempt.input_tokens, &self.input), (attempt.output_tokens, &self.output)] {
            if let Some(tokens) = tokens.and_then(|tokens| u64::try_from(tokens).ok()) {
                histogram.count(tokens);
            }
        }
        if let Some(first) = attempt.first_event_us.filter(|_| attempt.failure.is_none()) {
            self.first_chunk.observe(micros(first));
        }
        if let Some((error, took)) = ended(attempt, took_us) {
            let mut durations = self.durations.lock().unwrap_or_else(PoisonError::into_inner);
            let duration = durations.entry(error).or_insert_with(|| MetricHistogram::new(histogram::OPERATION));
            duration.observe(micros(took));
        }
    }
}

/// How an attempt ended, and its length in microseconds. None: it was cancelled, so its length is unknown.
fn ended(attempt: &AttemptRecord, took_us: i64) -> Option<(&'static str, i64)> {
    let (error, good_end) = match (attempt.failure, attempt.outcome) {
        (Some(failure), _) => (failure, None),
        (None, AttemptOutcome::Empty) => (FailureKind::Empty.as_str(), attempt.finish_us),
        (None, AttemptOutcome::Won | AttemptOutcome::Drained) => ("", attempt.finish_us),
        (None, _) => return None,
    };
    Some((error, attempt.eof_us.or(good_end).unwrap_or(took_us)))
}

/// The three families, by upstream.
pub(super) fn render<S>(upstreams: &NamedSeries<S>, gen_ai: fn(&S) -> &GenAi, text: &mut MetricsText) {
    let all = || upstreams.iter().map(|(name, of)| (labels(name), gen_ai(of)));
    let help = "From an attempt's own dispatch to the end of its answer, for attempts that the gateway did not cancel.";
    text.shared_family("gen_ai_client_inference_duration_seconds", "histogram", help);
    for (labels, of) in all() {
        for (error, duration) in &*of.durations.lock().unwrap_or_else(PoisonError::into_inner) {
            let error = if error.is_empty() { &[][..] } else { &[("error_type", *error)] };
            text.histogram(&[&labels[..], error].concat(), duration);
        }
    }
    let help = "From an attempt's own dispatch to its first event other than a comment, for attempts where it was seen: a role \
                without a token counts.";
    text.shared_family("gen_ai_client_inference_time_to_first_chunk_seconds", "histogram", help);
    for (labels, of) in all().filter(|(_, of)| !of.first_chunk.is_empty()) {
        text.histogram(&labels, &of.first_chunk);
    }
    for (kind, tokens) in [("input", (|of| &of.input) as fn(&GenAi) -> &MetricHistogram), ("output", |of| &of.output)] {
        let help = format!("{kind} tokens of an attempt, winner or loser, as its provider counts them.");
        text.shared_family(&format!("gen_ai_client_inference_operation_{kind}_tokens"), "histogram", &help);
        for (labels, of) in all().filter(|(_, of)| !tokens(of).is_empty()) {
            text.histogram(&labels, tokens(of));
        }
    }
}

/// The provider's name is the one in the config.
fn labels(upstream: &str) -> [(&'static str, &str); 3] {
    // The shared series has one name for both.
    let (provider, model) = upstream.split_once('/').unwrap_or((upstream, upstream));
    [("gen_ai_operation_name", "chat"), ("gen_ai_provider_name", provider), ("gen_ai_request_model", model)]
}
