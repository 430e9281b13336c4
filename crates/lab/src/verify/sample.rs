//! Whether hosts answer alike, by samples at temperature 1: the maximum mean discrepancy (MMD) with the Hamming kernel, whose p comes
//! from permutations within prompts (*Model Equality Testing*, arXiv 2410.20247). The yardstick is each host against itself
//! between two sessions. Pure. Not for asking: see `run`.

use std::collections::BTreeMap;

use fastrand::Rng;

/// Permutations for one p.
const PERMUTATIONS: usize = 999;
/// Draws of prompts for one interval.
const RESAMPLES: usize = 400;
/// A difference is reported where the p that is adjusted for all hosts (Holm) is at most this.
const LEVEL: f64 = 0.05;
/// Letters of an answer that count.
pub const LETTERS_MAX: usize = 64;

/// One answer: its letters as numbers, and when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledAnswer {
    pub prompt: usize,
    pub session: usize,
    pub letters: Vec<u16>,
}

/// What is known of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleVerdict {
    pub host: String,
    /// Squared MMD to the others, and its interval with 95 % confidence over prompts.
    pub distance: f64,
    pub interval: (f64, f64),
    /// Adjusted for the number of hosts.
    pub p: f64,
    /// The greatest squared MMD of a host to itself between sessions.
    pub yardstick: f64,
    /// A difference of this size would have been found four times in five.
    pub detectable: f64,
    /// Beyond what an hour or a day changes at the same host.
    pub differs: bool,
}

/// Numbers for the letters of an answer; those of other scripts may share one.
pub fn letters(text: &str) -> Vec<u16> {
    text.chars().take(LETTERS_MAX).map(|letter| (u32::from(letter) % 65_535) as u16 + 1).collect()
}

/// The answers to one prompt, with the kernel between each two: equal letters at equal places over the geometric mean of both lengths.
struct PromptKernel {
    /// Of each answer: which host and session.
    of: Vec<(usize, usize)>,
    kernel: Vec<f64>,
}

impl PromptKernel {
    fn new(answers: &[(usize, &SampledAnswer)]) -> PromptKernel {
        let count = answers.len();
        let mut kernel = vec![0.0; count * count];
        for (place, (_, one)) in answers.iter().enumerate() {
            for (other_place, (_, other)) in answers.iter().enumerate().skip(place + 1) {
                let equal = one.letters.iter().zip(&other.letters).filter(|(one, other)| one == other).count();
                // Both are filled up to one length, and an end is a letter, too.
                let padding = LETTERS_MAX - one.letters.len().max(other.letters.len());
                let value = (equal + padding) as f64 / LETTERS_MAX as f64;
                kernel[place * count + other_place] = value;
                kernel[other_place * count + place] = value;
            }
        }
        PromptKernel { of: answers.iter().map(|(host, answer)| (*host, answer.session)).collect(), kernel }
    }

    /// The places of the answers in question, the sum of each one's kernel with the others, and that of all pairs.
    fn among(&self, asked: impl Fn(&(usize, usize)) -> bool) -> Among<'_> {
        let places: Vec<usize> = (0..self.of.len()).filter(|place| asked(&self.of[*place])).collect();
        let row = |place: &usize| places.iter().map(|other| self.kernel[place * self.of.len() + other]).sum::<f64>();
        let rows: Vec<f64> = places.iter().map(row).collect();
        Among { prompt: self, all: rows.iter().sum(), places, rows }
    }
}

struct Among<'p> {
    prompt: &'p PromptKernel,
    places: Vec<usize>,
    rows: Vec<f64>,
    all: f64,
}

impl Among<'_> {
    /// Sums of the kernel within a group, between it and the others, and within these; and the numbers of pairs. `group`: places in
    /// `places`.
    fn sums(&self, group: &[usize]) -> Sums {
        let count = self.prompt.of.len();
        let (mut within, mut rows) = (0.0, 0.0);
        for (number, one) in group.iter().enumerate() {
            rows += self.rows[*one];
            let row = &self.prompt.kernel[self.places[*one] * count..][..count];
            within += 2.0 * group[..number].iter().map(|other| row[self.places[*other]]).sum::<f64>();
        }
        let between = rows - within;
        let (own, others) = (group.len() as f64, (self.places.len() - group.len()) as f64);
        Sums {
            kernel: [within, between, self.all - within - 2.0 * between],
            pairs: [own * (own - 1.0), own * others, others * (others - 1.0)],
        }
    }

    fn group(&self, of: impl Fn(&(usize, usize)) -> bool) -> Vec<usize> {
        (0..self.places.len()).filter(|place| of(&self.prompt.of[self.places[*place]])).collect()
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    kernel: [f64; 3],
    pairs: [f64; 3],
}

/// The unbiased estimate of the squared MMD over all prompts.
fn mmd(all: impl IntoIterator<Item = Sums>) -> f64 {
    let (mut kernel, mut pairs) = ([0.0; 3], [0.0; 3]);
    for sums in all {
        for which in 0..3 {
            kernel[which] += sums.kernel[which];
            pairs[which] += sums.pairs[which];
        }
    }
    let mean = |which: usize| if pairs[which] > 0.0 { kernel[which] / pairs[which] } else { 0.0 };
    mean(0) - 2.0 * mean(1) + mean(2)
}

/// Compares each host with the others together. The host that differs most is taken out, and the rest is compared again.
pub fn compare_samples(hosts: &[(String, Vec<SampledAnswer>)], seed: u64) -> Vec<SampleVerdict> {
    compared(hosts, seed, PERMUTATIONS)
}

fn compared(hosts: &[(String, Vec<SampledAnswer>)], seed: u64, permutations: usize) -> Vec<SampleVerdict> {
    let mut by_prompt: BTreeMap<usize, Vec<(usize, &SampledAnswer)>> = BTreeMap::new();
    for (host, (_, answers)) in hosts.iter().enumerate() {
        for answer in answers {
            by_prompt.entry(answer.prompt).or_default().push((host, answer));
        }
    }
    let prompts: Vec<PromptKernel> = by_prompt.values().map(|answers| PromptKernel::new(answers)).collect();
    let mut rng = Rng::with_seed(seed);
    let of_session = |host: usize| {
        mmd(prompts.iter().map(|prompt| {
            let among = prompt.among(|of| of.0 == host);
            among.sums(&among.group(|of| of.1 == 0))
        }))
    };
    let yardstick = (0..hosts.len()).map(of_session).fold(0.0, f64::max);
    let (mut left, mut found): (Vec<usize>, Vec<Option<SampleVerdict>>) =
        ((0..hosts.len()).collect(), vec![None; hosts.len()]);
    while left.len() > 1 {
        let mut tested: Vec<(usize, SampleVerdict)> = left
            .iter()
            .map(|host| {
                (
                    *host,
                    one_against_others(&prompts, &hosts[*host].0, *host, &left, yardstick, (permutations, &mut rng)),
                )
            })
            .collect();
        holm(&mut tested);
        let odd = tested
            .iter()
            .filter(|(_, verdict)| verdict.differs)
            .max_by(|one, other| one.1.distance.total_cmp(&other.1.distance));
        let odd = odd.map(|(host, _)| *host);
        for (host, verdict) in tested {
            // Without a host that is taken out, the others are judged again; the last two differ from each other.
            if odd.is_none() || odd == Some(host) || left.len() == 2 {
                found[host] = Some(verdict);
            }
        }
        match odd {
            Some(host) if left.len() > 2 => left.retain(|kept| *kept != host),
            _ => break,
        }
    }
    found.into_iter().flatten().collect()
}

fn one_against_others(
    prompts: &[PromptKernel],
    name: &str,
    host: usize,
    hosts: &[usize],
    yardstick: f64,
    (permutations, rng): (usize, &mut Rng),
) -> SampleVerdict {
    let among: Vec<Among<'_>> = prompts.iter().map(|prompt| prompt.among(|of| hosts.contains(&of.0))).collect();
    let groups: Vec<Vec<usize>> = among.iter().map(|among| among.group(|of| of.0 == host)).collect();
    let sums: Vec<Sums> = among.iter().zip(&groups).map(|(among, group)| among.sums(group)).collect();
    let distance = mmd(sums.iter().copied());
    // Dealt out anew, prompt by prompt.
    let mut deal = |(among, group): (&Among<'_>, &Vec<usize>)| {
        let mut all: Vec<usize> = (0..among.places.len()).collect();
        rng.shuffle(&mut all);
        among.sums(&all[..group.len()])
    };
    let mut drawn: Vec<f64> = (0..permutations).map(|_| mmd(among.iter().zip(&groups).map(&mut deal))).collect();
    let beyond = drawn.iter().filter(|one| **one >= distance - 1e-12).count();
    let mut resampled: Vec<f64> =
        (0..RESAMPLES).map(|_| mmd((0..sums.len()).map(|_| sums[rng.usize(..sums.len())]))).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    resampled.sort_unstable_by(f64::total_cmp);
    let at = |sorted: &[f64], share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    // What is above the level of all hosts (Bonferroni's, the first of Holm) and the yardstick in four draws of five.
    let critical = at(&drawn, 1.0 - LEVEL / hosts.len() as f64).max(yardstick);
    SampleVerdict {
        host: name.to_owned(),
        distance,
        interval: (at(&resampled, 0.025), at(&resampled, 0.975)),
        p: (1 + beyond) as f64 / (1 + permutations) as f64,
        yardstick,
        detectable: critical + at(&drawn, 0.8) - at(&drawn, 0.5),
        differs: false,
    }
}

/// Adjusts the p of all hosts (Holm), and decides.
fn holm(tested: &mut [(usize, SampleVerdict)]) {
    tested.sort_by(|one, other| one.1.p.total_cmp(&other.1.p));
    let (count, mut least) = (tested.len(), 0.0_f64);
    for (place, (_, verdict)) in tested.iter_mut().enumerate() {
        least = least.max(verdict.p * (count - place) as f64).min(1.0);
        verdict.p = least;
        verdict.differs = least <= LEVEL && verdict.distance > verdict.yardstick;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::source::WordSource;

    /// Statistic and p of the package.
    const PUBLISHED: (f64, f64) = (0.074_404_761_904_761_97, 0.015);
    const PLAIN: WordSource = WordSource { host: 0, moved: 0.0, replicas: 1.0, daily: 0.0 };

    /// Ten answers of five words in each of two sessions, on two days, to each of 25 prompts.
    fn sampled(sources: &[WordSource], rng: &mut Rng) -> Vec<(String, Vec<SampledAnswer>)> {
        let salt = rng.u64(..);
        let of = |(place, source): (usize, &WordSource)| {
            let source = WordSource { host: salt ^ place as u64, ..*source };
            let mut answers = Vec::new();
            for prompt in 0..25 {
                for number in 0..20 {
                    let session = number / 10;
                    let words = source.words(&format!("{salt} {prompt}"), 5, session as i64, false, rng);
                    answers.push(SampledAnswer { prompt, session, letters: letters(&words.concat()) });
                }
            }
            (format!("h{place}"), answers)
        };
        sources.iter().enumerate().map(of).collect::<Vec<_>>()
    }

    fn flagged(sources: &[WordSource], seed: u64) -> Vec<bool> {
        let mut rng = Rng::with_seed(seed);
        compared(&sampled(sources, &mut rng), seed, 199).iter().map(|verdict| verdict.differs).collect()
    }

    /// The statistic and p of the PyPI package model-equality-testing 0.0.2 on the same answers.
    #[test]
    fn it_agrees_with_the_published_program() {
        let mut state = 1_u64;
        let mut next = move || {
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            (state >> 16) as u16
        };
        let mut host = |biased: bool| -> Vec<SampledAnswer> {
            let mut letter = || match next() {
                drawn if biased && drawn % 10 < 4 => 1,
                drawn => 1 + (drawn / 10) % 3,
            };
            let answers = (0..40).map(|number| (number / 8, (0..6).map(|_| letter()).collect::<Vec<u16>>()));
            answers.map(|(prompt, letters)| SampledAnswer { prompt, session: 0, letters }).collect()
        };
        let hosts = [("a".to_owned(), host(false)), ("b".to_owned(), host(true))];
        let found = compared(&hosts, 1, 9_999);
        // The package fills answers up to the longest, here 6 letters.
        let distance = found[0].distance * LETTERS_MAX as f64 / 6.0;
        assert!((distance - PUBLISHED.0).abs() < 1e-9, "{distance}");
        let p = found[0].p / 2.0;
        assert!((p - PUBLISHED.1).abs() < 0.006, "{p}");
    }

    /// Next-token total variation 0.17, with two hosts as they should be.
    #[test]
    fn a_moved_host_is_found_four_times_in_five() {
        let runs = 25;
        let found = (0..runs).filter(|seed| {
            flagged(&[PLAIN, PLAIN, WordSource { moved: 0.17, ..PLAIN }], *seed) == [false, false, true]
        });
        let found = found.count();
        assert!(found * 5 >= runs as usize * 4, "{found} of {runs}");
    }

    /// Equal hosts whose distributions move by up to 0.05 from day to day.
    #[test]
    fn what_a_day_changes_is_no_difference() {
        let daily = WordSource { daily: 0.05, ..PLAIN };
        let runs = 40;
        let flagged = (0..runs).filter(|seed| flagged(&[daily, daily, daily], 100 + seed).contains(&true)).count();
        assert!(flagged * 20 <= runs as usize, "{flagged} of {runs}");
    }
}
