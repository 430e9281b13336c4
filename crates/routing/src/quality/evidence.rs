//! Whether one host of a model breaks more answers than the others, by a rule that may be looked at after every answer (pure).
//!
//! A host is worse if its answers are 30 times as likely with a share of its own as with that of all, and it breaks more than
//! 5 points more: see the tests for how often the rule is wrong and how soon it is right.
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Tool sets of one model that are compared, the last used ones.
const CLASSES_MAX: usize = 64;
/// Upstreams of one tool set.
const HOSTS_MAX: usize = 64;
/// After this time an answer counts half: providers change engines and templates within days, and a host that is not asked any more
/// must come back to be judged anew. µs.
const HALF_LIFE_US: f64 = 3.0 * 86_400e6;
/// How much more likely the answers must be. Of equal hosts some host is called worse in about one history of fifty: more would be
/// safer, and with few answers of the others it would never be reached.
const FACTOR: f64 = 30.0;
/// How much larger the share of broken answers must be.
const POINTS: f64 = 0.05;
/// A host that is worse stays so while its answers are this much more likely, and half of [`POINTS`] are left: one right answer must not
/// take back what the last broken one showed.
const FACTOR_LEFT: f64 = 2.0;
/// What is expected of a share before any answer, as a Beta distribution: about one answer in forty is broken, and it counts as
/// little as twenty answers.
const PRIOR: (f64, f64) = (0.5, 19.5);
/// Broken answers of a host from which on it is doubted, and judged answers of the others from which on they are enough.
const DOUBTED_FROM: f64 = 2.0;
const OTHERS_ENOUGH: f64 = 100.0;

/// Answers of one host, old ones less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AnswerTally {
    answers: f64,
    broken: f64,
    at_us: i64,
}

impl AnswerTally {
    fn at(self, now_us: i64) -> AnswerTally {
        let left = (-((now_us - self.at_us).max(0) as f64) / HALF_LIFE_US).exp2();
        AnswerTally { answers: self.answers * left, broken: self.broken * left, at_us: self.at_us.max(now_us) }
    }

    fn and(self, other: AnswerTally, now_us: i64) -> AnswerTally {
        AnswerTally { answers: self.answers + other.answers, broken: self.broken + other.broken, at_us: now_us }
    }
}

#[derive(Debug, Default)]
struct ToolSetTallies {
    hosts: BTreeMap<String, AnswerTally>,
    at_us: i64,
}

/// The judged answers of one model, by tool set and host. Only answers to the same tools are compared.
#[derive(Debug, Default)]
pub struct JudgedAnswers {
    classes: HashMap<u32, ToolSetTallies>,
    /// The hosts that were worse when they were last looked at.
    worse: BTreeSet<String>,
    /// One of the others was doubtful then.
    in_doubt: bool,
}

/// What the answers of one host say, over the tool sets that others got too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallsEvidence {
    /// Judged answers of the host, old ones less, and the share of them that is broken.
    pub answers: f64,
    pub broken_share: f64,
    /// The same of the others, with the host's mix of tool sets.
    pub others: f64,
    pub others_broken_share: f64,
    /// How much more likely the answers are with a share of its own; natural logarithm.
    pub ln_factor: f64,
}

impl CallsEvidence {
    /// It breaks more answers than the others.
    pub fn is_worse(&self) -> bool {
        self.is_beyond(POINTS, FACTOR)
    }

    /// It was worse, and nothing has shown otherwise.
    fn is_still_worse(&self) -> bool {
        self.is_beyond(POINTS / 2.0, FACTOR_LEFT)
    }

    fn is_beyond(&self, points: f64, factor: f64) -> bool {
        self.broken_share - self.others_broken_share > points && self.ln_factor >= factor.ln()
    }
}

impl JudgedAnswers {
    /// An answer to the tools of `class`.
    pub fn add(&mut self, class: u32, upstream: &str, broken: bool, at_us: i64) {
        if self.classes.len() >= CLASSES_MAX && !self.classes.contains_key(&class) {
            let oldest = self.classes.iter().min_by_key(|(_, class)| class.at_us).map(|(class, _)| *class);
            oldest.map(|oldest| self.classes.remove(&oldest));
        }
        let ToolSetTallies { hosts, at_us: used_us } = self.classes.entry(class).or_default();
        *used_us = at_us.max(*used_us);
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(upstream) {
            return;
        }
        let tally = hosts.entry(upstream.to_owned()).or_default();
        *tally = tally.at(at_us);
        tally.answers += 1.0;
        tally.broken += f64::from(u8::from(broken));
    }

    /// Judged answers of this host, old ones less.
    pub(super) fn answers(&self, upstream: &str, now_us: i64) -> f64 {
        let tallies = self.classes.values().filter_map(|class| class.hosts.get(upstream));
        tallies.map(|tally| tally.at(now_us).answers).sum()
    }

    /// Looks at all hosts again.
    pub fn look(&mut self, now_us: i64) {
        let is_worse = |host: &String| {
            let evidence = self.evidence(host, now_us).unwrap_or_default();
            evidence.is_worse() || self.worse.contains(host) && evidence.is_still_worse()
        };
        let hosts = self.hosts();
        let worse: BTreeSet<String> = hosts.iter().filter(|host| is_worse(host)).cloned().collect();
        self.in_doubt = hosts.iter().any(|host| !worse.contains(host) && self.is_doubtful(host, now_us));
        self.worse = worse;
    }

    /// Whether answers of more hosts are wanted, because one that breaks calls can hardly be compared.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Whether this host was worse at the last look.
    pub fn is_worse(&self, host: &str) -> bool {
        self.worse.contains(host)
    }

    pub fn retain(&mut self, remains: impl Fn(&str) -> bool) {
        self.worse.retain(|host| remains(host));
        self.classes.values_mut().for_each(|class| class.hosts.retain(|host, _| remains(host)));
    }

    pub fn hosts(&self) -> Vec<String> {
        let mut all: Vec<String> = self.classes.values().flat_map(|class| class.hosts.keys().cloned()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// None: nothing can be compared.
    pub fn evidence(&self, upstream: &str, now_us: i64) -> Option<CallsEvidence> {
        let mut sum = CallsEvidence::default();
        for (own, rest) in self.own_and_rest(upstream, now_us).filter(|(_, rest)| rest.answers >= 1.0) {
            sum.answers += own.answers;
            sum.broken_share += own.broken;
            sum.others += rest.answers;
            sum.others_broken_share += own.answers * rest.broken / rest.answers;
            sum.ln_factor += ln_apart(own, rest);
        }
        (sum.answers > 0.0).then(|| CallsEvidence {
            broken_share: sum.broken_share / sum.answers,
            others_broken_share: sum.others_broken_share / sum.answers,
            ..sum
        })
    }

    /// It breaks answers, and too few of the others were judged to know whether they do too.
    fn is_doubtful(&self, upstream: &str, now_us: i64) -> bool {
        let sums = self.own_and_rest(upstream, now_us);
        let (own, rest) = sums.fold(<(AnswerTally, AnswerTally)>::default(), |sums, (own, rest)| {
            (sums.0.and(own, now_us), sums.1.and(rest, now_us))
        });
        own.broken >= DOUBTED_FROM
            && rest.answers < OTHERS_ENOUGH
            && own.broken / own.answers - rest.broken / rest.answers.max(1.0) > POINTS
    }

    /// By tool set that this host got: its answers, and those of all others together.
    fn own_and_rest(&self, upstream: &str, now_us: i64) -> impl Iterator<Item = (AnswerTally, AnswerTally)> {
        self.classes.values().filter_map(move |class| {
            let own = class.hosts.get(upstream).map(|tally| tally.at(now_us)).filter(|own| own.answers > 0.0)?;
            let others = class.hosts.iter().filter(|(host, _)| *host != upstream).map(|(_, tally)| tally.at(now_us));
            Some((own, others.fold(AnswerTally::default(), |sum, tally| sum.and(tally, now_us))))
        })
    }
}

/// How much more likely two tallies are with a share each than with one for both.
fn ln_apart(own: AnswerTally, rest: AnswerTally) -> f64 {
    ln_likely(own) + ln_likely(rest) - ln_likely(own.and(rest, 0))
}

/// The likelihood of a tally, over all shares.
fn ln_likely(tally: AnswerTally) -> f64 {
    let (broken, whole) = PRIOR;
    ln_beta(broken + tally.broken, whole + tally.answers - tally.broken) - ln_beta(broken, whole)
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Stirling's series, from 8 on; below by the recurrence. Right to 10 digits for positive numbers.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 8.0 {
        below += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1_260.0 - square / 1_680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
}

#[cfg(test)]
mod tests;
