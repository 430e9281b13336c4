//! Whether the model behind a host became another, by what it says first to the same prompts each day (pure). Not for asking, nor for
//! the words about it.
//!
//! The rule is the one published for public endpoints: further from its own past than usual by a total variation of 0.2 and by four
//! standard deviations, three days in a row. Days differ also where nothing changed, so one day proves nothing.

use std::collections::BTreeMap;

/// The share of each first token over all prompts, by hashes of prompt and token.
pub type FirstTokens = BTreeMap<u64, f64>;

/// Days that are needed before a day can be compared, and the newest that it is compared with.
const PAST_MIN: usize = 5;
/// Days that a fingerprint is compared with.
const PAST_MAX: usize = 14;
/// How much further than usual, as total variation and in standard deviations.
const APART: f64 = 0.2;
const DEVIATIONS: f64 = 4.0;
/// Days in a row.
const RUNNING: usize = 3;

/// Places of the days since which the host has been another, given its days in order.
pub fn changes(days: &[FirstTokens]) -> Vec<usize> {
    let (mut past, mut strange, mut found) = (Vec::<&FirstTokens>::new(), Vec::<usize>::new(), Vec::new());
    for (place, day) in days.iter().enumerate() {
        if past.len() < PAST_MIN || !is_strange(&past, day) {
            // Strange days that did not last are a part of what is usual.
            past.extend(strange.drain(..).map(|place| &days[place]));
            past.push(day);
        } else {
            strange.push(place);
        }
        if strange.len() == RUNNING {
            found.push(strange[0]);
            past = strange.drain(..).map(|place| &days[place]).collect();
        }
        past.drain(..past.len().saturating_sub(PAST_MAX));
    }
    found
}

/// The place of the day since which the host has been another, if the newest day shows it.
pub fn changed_now(days: &[FirstTokens]) -> Option<usize> {
    changes(days).last().copied().filter(|first| first + RUNNING == days.len())
}

/// Whether this day is further from the past than the days of the past are from each other.
fn is_strange(past: &[&FirstTokens], day: &FirstTokens) -> bool {
    let usual: Vec<f64> = (0..past.len())
        .map(|place| {
            let others: Vec<&FirstTokens> =
                past.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, day)| *day).collect();
            apart(past[place], &mean(&others))
        })
        .collect();
    let count = usual.len() as f64;
    let middle = usual.iter().sum::<f64>() / count;
    let variance = usual.iter().map(|one| (one - middle).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let further = apart(day, &mean(past)) - middle;
    further > APART && further > DEVIATIONS * variance.sqrt()
}

fn mean(days: &[&FirstTokens]) -> FirstTokens {
    let mut sum = FirstTokens::new();
    for (token, share) in days.iter().flat_map(|day| day.iter()) {
        *sum.entry(*token).or_default() += share / days.len().max(1) as f64;
    }
    sum
}

/// Total variation.
fn apart(one: &FirstTokens, other: &FirstTokens) -> f64 {
    let share = |of: &FirstTokens, token: &u64| of.get(token).copied().unwrap_or(0.0);
    let here: f64 = one.iter().map(|(token, is)| (is - share(other, token)).abs()).sum();
    let only_there: f64 = other.iter().filter(|(token, _)| !one.contains_key(token)).map(|(_, is)| is).sum();
    (here + only_there) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens, the second with this share; what is left goes to one that is new on this day.
    fn day(second: f64, number: u64, other: f64) -> FirstTokens {
        [(1, 1.0 - second - other), (2, second), (100 + number, other)].into()
    }

    #[test]
    fn a_change_is_dated_after_three_days_and_days_that_only_differ_are_none() {
        let mut days: Vec<FirstTokens> = (0..20).map(|number| day(0.1, number, 0.01 * (number % 3) as f64)).collect();
        assert!(changes(&days).is_empty());
        days.extend((20..22).map(|number| day(0.6, number, 0.0)));
        assert!(changes(&days).is_empty(), "two days may be a replica");
        days.push(day(0.6, 22, 0.0));
        assert_eq!(changes(&days), [20]);
        days.extend((23..60).map(|number| day(0.6, number, 0.02)));
        assert_eq!(changes(&days), [20], "it is reported once");
        days.extend((60..70).map(|number| day(0.1, number, 0.0)));
        assert_eq!(changes(&days), [20, 60], "and back");
        assert!(changes(&days[..4]).is_empty());
    }

    #[test]
    fn single_days_and_wild_hosts_are_no_change() {
        let single: Vec<FirstTokens> =
            (0..60).map(|number| day(if number % 7 == 6 { 0.8 } else { 0.1 }, number, 0.0)).collect();
        assert!(changes(&single).is_empty());
        // A host that answers at random: each day is far from every other.
        let wild: Vec<FirstTokens> = (0..60).map(|number| day(0.0, number, 0.9)).collect();
        assert!(changes(&wild).is_empty());
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let days: Vec<FirstTokens> =
                (0..60).map(|number| day(0.3 + 0.2 * rng.f64(), number, 0.05 * rng.f64())).collect();
            assert!(changes(&days).is_empty(), "days that move by up to 0.2 on their own");
        }
    }
}
