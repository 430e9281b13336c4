//! The words that a simulated model samples: a distribution for each prompt and place, which can be moved by a stated total variation,
//! differently each day, and for a share of the requests only. Not for what else an answer has: see `obedient`.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use fastrand::Rng;
use photofinish_config::Simulation;

/// The words, none of which begins another.
const WORDS: [&str; 16] = [
    "amber ", "birch ", "cedar ", "delta ", "ember ", "fjord ", "grove ", "harbor ", "indigo ", "jasper ", "kelp ",
    "lagoon ", "maple ", "nectar ", "onyx ", "pebble ",
];

/// A source of words.
#[derive(Clone, Copy, Debug)]
pub struct WordSource {
    /// What days do to it: each host has its own.
    pub host: u64,
    pub moved: f64,
    pub replicas: f64,
    pub daily: f64,
}

impl WordSource {
    pub fn new(name: &str, simulation: &Simulation) -> WordSource {
        let Simulation { moved, replicas, daily, .. } = *simulation;
        WordSource { host: hash(name), moved, replicas, daily }
    }

    /// `tokens` words after this prompt, on this day; the likeliest ones if `greedy`.
    pub fn words(&self, prompt: &str, tokens: usize, day: i64, greedy: bool, rng: &mut Rng) -> Vec<&'static str> {
        let moved = if rng.f64() < self.replicas { self.moved } else { 0.0 };
        let today = self.on(day);
        (0..tokens)
            .map(|place| today.word(hash(&(prompt, place)), moved, if greedy { None } else { Some(rng.f64()) }))
            .collect()
    }

    /// The likeliest first words after this prompt on this day, each with its share.
    pub fn likeliest(&self, prompt: &str, day: i64, count: usize) -> Vec<(&'static str, f64)> {
        const STEPS: u32 = 200;
        let (today, order) = (self.on(day), hash(&(prompt, 0_usize)));
        let mut shares = WORDS.map(|word| (word, 0.0));
        let mut add = |word: &str, share: f64| {
            shares.iter_mut().filter(|(known, _)| *known == word).for_each(|(_, sum)| *sum += share / f64::from(STEPS));
        };
        for step in 0..if count == 0 { 0 } else { STEPS } {
            let drawn = Some((f64::from(step) + 0.5) / f64::from(STEPS));
            add(today.word(order, self.moved, drawn), self.replicas);
            add(today.word(order, 0.0, drawn), 1.0 - self.replicas);
        }
        shares.sort_by(|one, other| other.1.total_cmp(&one.1));
        shares.into_iter().take(count).collect()
    }

    fn on(&self, day: i64) -> SourceToday {
        let of_day = hash(&(self.host, day));
        // Uniform from 0 to `daily`.
        SourceToday { of_day, daily: self.daily * ((of_day >> 11) as f64 / (1_u64 << 53) as f64) }
    }
}

/// What a day does to a source.
struct SourceToday {
    of_day: u64,
    daily: f64,
}

impl SourceToday {
    /// `order`: of the words at this place. `drawn`: from 0 to 1; none gives the likeliest word.
    fn word(&self, order: u64, moved: f64, drawn: Option<f64>) -> &'static str {
        let word = |rank: usize| WORDS[(rank + order as usize) % WORDS.len()];
        // The mass comes from the likeliest words, and goes to the unlikeliest one, or to one of the day.
        match drawn {
            None => word(0),
            Some(drawn) if drawn < moved => word(WORDS.len() - 1),
            Some(drawn) if drawn < moved + self.daily => word(8 + hash(&(self.of_day, order)) as usize % 7),
            Some(drawn) => word(rank(drawn)),
        }
    }
}

/// The word at which the likelihoods, from the greatest on, have come to `drawn`: half, a quarter of the rest and so on, evenly at last.
fn rank(drawn: f64) -> usize {
    let mut left = 1.0 - drawn;
    for rank in 0..WORDS.len() / 2 {
        if left > 0.7 {
            return rank;
        }
        left /= 0.7;
    }
    WORDS.len() / 2 + ((1.0 - left) * (WORDS.len() / 2) as f64) as usize % (WORDS.len() / 2)
}

/// The same in every process of one program.
fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_moves_by_what_was_stated() {
        let draws = 40_000;
        let counts = |source: WordSource, day| {
            let (mut counts, mut rng) = ([0.0; WORDS.len()], Rng::with_seed(1));
            for _ in 0..draws {
                let word = source.words("p", 1, day, false, &mut rng)[0];
                counts[WORDS.iter().position(|known| *known == word).unwrap()] += 1.0 / f64::from(draws);
            }
            counts
        };
        let apart = |one: [f64; 16], other: [f64; 16]| {
            0.5 * one.iter().zip(other).map(|(one, other)| (one - other).abs()).sum::<f64>()
        };
        let plain = WordSource { host: 1, moved: 0.0, replicas: 1.0, daily: 0.0 };
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 0.01, "{value}, not {expected}");
        near(apart(counts(plain, 1), counts(plain, 2)), 0.0);
        near(apart(counts(plain, 1), counts(WordSource { moved: 0.17, ..plain }, 1)), 0.17);
        near(apart(counts(plain, 1), counts(WordSource { moved: 0.17, replicas: 0.5, ..plain }, 1)), 0.085);
        let daily = WordSource { daily: 0.2, ..plain };
        assert!(apart(counts(daily, 1), counts(daily, 2)) > 0.02);
        assert!(apart(counts(plain, 1), counts(daily, 1)) < 0.21);
    }
}
