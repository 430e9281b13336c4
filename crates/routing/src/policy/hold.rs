//! Decisions at and after first tokens: whether to hold one back for an attempt that should finish sooner, and which attempts of a
//! race to the whole answer have lost. Not for `Minimise::Ttft`, where the first token decides.

use super::question::{AdaptiveQuestion, AttemptView, CandidateForecast, CandidateOrder, Minimise};
use super::value::AttemptForecast;
use crate::forecast::grid;

/// Hold times that are considered, µs.
const HOLDS_US: [i64; 4] = [50_000, 100_000, 200_000, 400_000];
/// Steps in which a wait is looked at.
const STEPS: i64 = 8;
/// A hold must raise the chance to meet both limits by this much.
const WORTH: f32 = 0.02;
/// Tokens before an attempt's pace counts as evidence.
pub const PACE_TOKENS: i64 = 8;
/// An attempt is hopeless if it finishes later than this multiple of the best time, plus this, µs.
const LATER: f64 = 1.05;
const LATER_US: f64 = 50_000.0;
/// Share of a usual answer that is still expected of an answer beyond the usual length.
const STILL: f64 = 0.25;

/// How long to hold back the first token of `ready` for the others in `running`, µs; none: commit it now. When the time is
/// over, or another first token is there, the caller commits the one that should finish first. `hold_max_us` counts from the
/// first token.
pub fn hold(question: &AdaptiveQuestion<'_>, ready: usize, running: &[AttemptView], hold_max_us: i64) -> Option<i64> {
    let ready = question.candidates.get(ready)?;
    let mut best = (0.0, None);
    for running in running {
        let Some(candidate) = question.candidates.get(running.candidate) else { continue };
        let prospect = AttemptForecast::new(question, candidate, running.waited_us);
        for hold_us in HOLDS_US.into_iter().filter(|hold_us| *hold_us <= hold_max_us) {
            let gain = match question.aim {
                Minimise::Ttft | Minimise::Both { .. } => 0.0,
                Minimise::Completion => sooner(question, ready, candidate, &prospect, hold_us),
                Minimise::Goodput { ttft_us, tpot_us } => {
                    let in_time = question.elapsed_us + hold_us < ttft_us;
                    let faster = within(candidate, tpot_us) - within(ready, tpot_us);
                    let there = 1.0 - grid::at(&prospect.alive, hold_us as f64);
                    if in_time { (there * faster - WORTH).max(0.0) } else { 0.0 }
                }
            };
            if gain > best.0 {
                best = (gain, Some(hold_us));
            }
        }
    }
    best.1
}

/// The attempts of a race to the whole answer that should be cut: they would finish later than 1.05 × the best + 50 ms. None before
/// an attempt has 8 tokens.
pub fn hopeless(question: &AdaptiveQuestion<'_>, running: &[AttemptView]) -> CandidateOrder {
    if running.iter().all(|progress| progress.tokens < PACE_TOKENS) {
        return CandidateOrder::default();
    }
    let begun = running.iter().filter(|progress| progress.first_token_us.is_some());
    let best = begun.filter_map(|progress| rest_us(question, progress)).fold(f64::INFINITY, f64::min);
    let late = |progress: &&AttemptView| rest_us(question, progress).is_some_and(|rest| rest > LATER * best + LATER_US);
    running.iter().filter(late).map(|progress| progress.candidate).collect()
}

/// Expected time saved until the end of the answer by waiting `hold_us`, less the delay of its beginning, µs.
fn sooner(
    question: &AdaptiveQuestion<'_>,
    ready: &CandidateForecast<'_>,
    other: &CandidateForecast<'_>,
    prospect: &AttemptForecast,
    hold_us: i64,
) -> f32 {
    let saved_us = decode_us(question, ready) - decode_us(question, other);
    let (mut gain, mut waiting) = (0.0, 1.0);
    for step in 1..=STEPS {
        let at_us = (hold_us * step / STEPS) as f64;
        let still = grid::at(&prospect.alive, at_us);
        gain += (waiting - still) * (saved_us - at_us).max(0.0) as f32;
        gain -= (waiting + still) / 2.0 * (hold_us / STEPS) as f32;
        waiting = still;
    }
    gain
}

/// Until the end of the answer, µs.
fn rest_us(question: &AdaptiveQuestion<'_>, progress: &AttemptView) -> Option<f64> {
    let candidate = question.candidates.get(progress.candidate)?;
    let usual = question.terms.answer_tokens;
    let left = (usual - progress.tokens as f64).max(STILL * usual);
    match progress.first_token_us {
        Some(first_token_us) if progress.tokens >= PACE_TOKENS => {
            let pace = (progress.waited_us - first_token_us).max(0) as f64 / (progress.tokens - 1) as f64;
            Some(left * pace)
        }
        Some(_) => Some(left * candidate.tpot_us()),
        None => Some(first_token_us(question, progress)? + left * candidate.tpot_us()),
    }
}

/// Until its first token in the median, µs.
pub fn first_token_us(question: &AdaptiveQuestion<'_>, waiting: &AttemptView) -> Option<f64> {
    let candidate = question.candidates.get(waiting.candidate)?;
    let alive = AttemptForecast::new(question, candidate, waiting.waited_us).alive;
    let median = alive.partition_point(|alive| *alive > 0.5);
    Some(grid::grid().times.get(median).map_or(f64::INFINITY, |time| f64::from(*time)))
}

fn decode_us(question: &AdaptiveQuestion<'_>, candidate: &CandidateForecast<'_>) -> f64 {
    question.terms.answer_tokens * candidate.tpot_us()
}

fn within(candidate: &CandidateForecast<'_>, limit_us: i64) -> f32 {
    candidate.forecast.tpot.within(limit_us as f64, candidate.sent.in_flight) as f32
}

#[cfg(test)]
mod tests;
