//! The policy `weighted`: one drawn by its weight; the others only after a failure.

use std::cmp::Ordering;
use std::time::Duration;

use super::plan::{PlannedStart, RacePlan, StartRule};
use super::rules::{PolicyRules, PolicySetting};
use super::state::PolicyState;
use photofinish_facts::reason::DecisionReason;

pub struct Weighted;

impl PolicyRules for Weighted {
    fn settings(&self) -> &'static [PolicySetting] {
        &[PolicySetting::Weights]
    }

    fn open(&self, state: &PolicyState, plan: &mut RacePlan, _now_us: i64) {
        state.reasons.add(DecisionReason::Listed);
        let regular = state.regular();
        let weight =
            |candidate: usize| if state.is_later(candidate) { 0.0 } else { state.parts.candidates[candidate].weight };
        let weights: Vec<f64> = (0..regular).map(weight).collect();
        draw_first(&mut plan.entries[..regular], &weights, state.parts.draw);
    }
}

/// Puts the drawn entry first. `draw` is in 0..1; the entries come in the order of their candidates, as the weights.
fn draw_first(entries: &mut [PlannedStart], weights: &[f64], draw: f64) {
    if entries.is_empty() {
        return;
    }
    let first = drawn(weights, draw * weights.iter().sum::<f64>());
    entries[..=first].rotate_right(1);
    for (place, entry) in entries.iter_mut().enumerate() {
        entry.start = if place == 0 { StartRule::At(Duration::ZERO) } else { StartRule::AfterFailure };
        entry.p_include = p_here(weights, entry.candidate, first);
    }
}

/// The probability that a draw puts `candidate` where it is now that `first` was drawn. The others keep their order behind
/// `first`, so a draw from behind a candidate moves it back by one.
fn p_here(weights: &[f64], candidate: usize, first: usize) -> f64 {
    let total: f64 = weights.iter().sum();
    if total <= 0.0 {
        return 1.0;
    }
    let same_place = |other: usize| match first.cmp(&candidate) {
        Ordering::Equal => other == candidate,
        Ordering::Greater => other > candidate,
        Ordering::Less => other < candidate,
    };
    let draws = weights.iter().enumerate().filter(|(other, _)| same_place(*other));
    draws.map(|(_, weight)| weight).sum::<f64>() / total
}

/// The candidate whose share of the summed weights holds `point`.
fn drawn(weights: &[f64], point: f64) -> usize {
    let mut sum = 0.0;
    let by_share = weights.iter().position(|weight| {
        sum += weight;
        point < sum
    });
    by_share.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The candidates in order, each with the probability of its place.
    fn drawn(weights: &[f64], draw: f64) -> Vec<(usize, f64)> {
        let listed = |candidate| PlannedStart::listed(candidate, Duration::from_secs(1), false);
        let mut entries: Vec<PlannedStart> = (0..weights.len()).map(listed).collect();
        draw_first(&mut entries, weights, draw);
        let starts: Vec<bool> = entries.iter().map(|entry| entry.start == StartRule::AfterFailure).collect();
        assert_eq!(starts, (0..weights.len()).map(|place| place > 0).collect::<Vec<_>>(), "the drawn one alone starts");
        entries.iter().map(|entry| (entry.candidate, entry.p_include)).collect()
    }

    fn order(weights: &[f64], draw: f64) -> Vec<usize> {
        drawn(weights, draw).into_iter().map(|(candidate, _)| candidate).collect()
    }

    #[test]
    fn the_first_is_drawn_by_weight() {
        assert_eq!(order(&[1.0, 3.0, 0.0], 0.2), [0, 1, 2]);
        assert_eq!(order(&[1.0, 3.0, 0.0], 0.3), [1, 0, 2]);
        assert_eq!(order(&[0.0, 0.0], 0.9), [0, 1], "no weight left: the listed order");
        assert_eq!(order(&[], 0.0), [0; 0]);
    }

    #[test]
    fn the_probability_of_each_place_is_recorded() {
        assert_eq!(drawn(&[1.0, 5.0, 2.0], 0.0), [(0, 0.125), (1, 0.125), (2, 0.75)]);
        assert_eq!(drawn(&[1.0, 5.0, 2.0], 0.5), [(1, 0.625), (0, 0.875), (2, 0.75)]);
        assert_eq!(drawn(&[1.0, 5.0, 2.0], 0.9), [(2, 0.25), (0, 0.875), (1, 0.25)]);
    }
}
