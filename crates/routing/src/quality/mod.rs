//! Which hosts of a model are worse than the others: by the calls that they break in traffic, and by facts that were found out.
//! Shared by all requests. Not for judging an answer, nor for what a race does about it.

mod evidence;
mod history;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

pub use evidence::{CallsEvidence, JudgedAnswers};
pub use history::REMEMBERED_MAX;

/// Models whose answers are counted.
const MODELS_MAX: usize = 1_000;
/// Judged answers of a host, old ones less, from which on its looks need not be read to their end.
const JUDGED_ENOUGH: f64 = 30.0;
/// Upstreams with facts, and facts of one.
const FACTS_MAX: usize = 1_000;

/// What is known of one host of a model (pure).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostQuality {
    pub calls: Option<CallsEvidence>,
    /// It breaks more calls than the others.
    pub breaks_calls: bool,
    /// Names of facts by which it is worse.
    pub facts: Vec<String>,
}

impl HostQuality {
    /// Why it is worse than the others, in a few words: `calls`, and the names of facts. None: it is not.
    pub fn why_worse(&self) -> Option<String> {
        let calls = self.breaks_calls.then_some("calls");
        let why: Vec<&str> = calls.into_iter().chain(self.facts.iter().map(String::as_str)).collect();
        (!why.is_empty()).then(|| why.join(" "))
    }
}

/// An answer that was judged.
#[derive(Clone, Copy, Debug)]
pub struct JudgedAnswer<'a> {
    /// The configured model.
    pub model: &'a str,
    /// `provider/model`
    pub upstream: &'a str,
    /// Its tools and its schema, in short.
    pub class: u32,
    pub broken: bool,
    /// Microseconds since 1970.
    pub at_us: i64,
}

/// By model and upstream: why it is worse.
type WorseHosts = HashMap<String, HashMap<String, Arc<str>>>;

/// What is known of all hosts.
#[derive(Default)]
pub struct Quality {
    known: Mutex<Known>,
    /// Read by every request with tools or a schema.
    worse: ArcSwap<WorseHosts>,
}

#[derive(Default)]
struct Known {
    models: BTreeMap<String, JudgedAnswers>,
    facts: HashMap<String, Vec<String>>,
}

impl Quality {
    /// Counts an answer, and looks at the hosts of its model again.
    pub fn judged(&self, answer: &JudgedAnswer<'_>) {
        let mut known = self.known();
        known.add(answer);
        self.look(&mut known, answer.model, answer.at_us);
    }

    /// Looks at the hosts of all models.
    pub fn look_at_all(&self, now_us: i64) {
        let mut known = self.known();
        let models: Vec<String> = known.models.keys().cloned().collect();
        models.iter().for_each(|model| self.look(&mut known, model, now_us));
    }

    /// The facts by which an upstream is worse, for every model that lists it; they replace those before. `now_us`: as in
    /// [`JudgedAnswer::at_us`].
    pub fn set_facts(&self, upstream: &str, facts: Vec<String>, models: &[&str], now_us: i64) {
        let mut known = self.known();
        if facts.is_empty() && !known.facts.contains_key(upstream) {
            return;
        }
        if facts.is_empty() {
            known.facts.remove(upstream);
        } else if known.facts.len() < FACTS_MAX || known.facts.contains_key(upstream) {
            known.facts.insert(upstream.to_owned(), facts.into_iter().take(FACTS_MAX).collect());
        }
        for model in models {
            if known.models.len() < MODELS_MAX {
                known.models.entry((*model).to_owned()).or_default();
            }
            self.look(&mut known, model, now_us);
        }
    }

    /// Forgets the upstreams that changed.
    pub fn retain(&self, remains: impl Fn(&str) -> bool) {
        let mut known = self.known();
        known.models.values_mut().for_each(|model| model.retain(&remains));
        known.facts.retain(|upstream, _| remains(upstream));
        self.worse.rcu(|worse| {
            let mut worse = WorseHosts::clone(worse);
            worse.values_mut().for_each(|hosts| hosts.retain(|upstream, _| remains(upstream)));
            worse
        });
    }

    /// Why this host of the model is worse than the others. None: it is not, or that is unknown.
    pub fn why_worse(&self, model: &str, upstream: &str) -> Option<Arc<str>> {
        self.worse.load().get(model)?.get(upstream).cloned()
    }

    /// The hosts that are worse now: model, upstream and why.
    pub fn worse_now(&self) -> Vec<(String, String, Arc<str>)> {
        let worse = self.worse.load();
        let hosts =
            worse.iter().flat_map(|(model, hosts)| hosts.iter().map(move |(upstream, why)| (model, upstream, why)));
        let mut all: Vec<_> =
            hosts.map(|(model, upstream, why)| (model.clone(), upstream.clone(), why.clone())).collect();
        all.sort();
        all
    }

    /// Whether a look at this host is to be judged: it can hardly be compared with the others, or the others hardly with one of them.
    pub fn wants_answers(&self, model: &str, upstream: &str, now_us: i64) -> bool {
        let known = self.known();
        let is_wanted =
            |judged: &JudgedAnswers| judged.is_in_doubt() || judged.answers(upstream, now_us) < JUDGED_ENOUGH;
        known.models.get(model).is_none_or(is_wanted)
    }

    /// Whether a host of this model breaks answers, and too few of the others were judged to know whether they do too.
    pub fn is_in_doubt(&self, model: &str) -> bool {
        self.known().models.get(model).is_some_and(JudgedAnswers::is_in_doubt)
    }

    /// What is known of this host.
    pub fn of(&self, model: &str, upstream: &str, now_us: i64) -> HostQuality {
        self.known().of(model, upstream, now_us)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, known: &mut Known, model: &str, now_us: i64) {
        if let Some(judged) = known.models.get_mut(model) {
            judged.look(now_us);
        }
        let before = self.worse.load().get(model).cloned().unwrap_or_default();
        let after = known.worse(model, now_us);
        if after == before {
            return;
        }
        for (upstream, why) in after.iter().filter(|(upstream, _)| !before.contains_key(*upstream)) {
            let HostQuality { calls, .. } = known.of(model, upstream, now_us);
            let share = |of: fn(&CallsEvidence) -> f64| calls.as_ref().map(of);
            let (broken, others) = (share(|calls| calls.broken_share), share(|calls| calls.others_broken_share));
            tracing::warn!(model, upstream, %why, broken, others, "an upstream answers worse than the others of its model");
        }
        for upstream in before.keys().filter(|upstream| !after.contains_key(*upstream)) {
            tracing::info!(model, upstream, "an upstream is no longer known to answer worse");
        }
        self.worse.rcu(|worse| {
            let mut worse = WorseHosts::clone(worse);
            worse.insert(model.to_owned(), after.clone());
            worse
        });
    }
}

impl Known {
    fn add(&mut self, answer: &JudgedAnswer<'_>) {
        if self.models.len() < MODELS_MAX || self.models.contains_key(answer.model) {
            let model = self.models.entry(answer.model.to_owned()).or_default();
            model.add(answer.class, answer.upstream, answer.broken, answer.at_us);
        }
    }

    fn of(&self, model: &str, upstream: &str, now_us: i64) -> HostQuality {
        let judged = self.models.get(model);
        let calls = judged.and_then(|judged| judged.evidence(upstream, now_us));
        let breaks_calls = judged.is_some_and(|judged| judged.is_worse(upstream));
        HostQuality { calls, breaks_calls, facts: self.facts.get(upstream).cloned().unwrap_or_default() }
    }

    fn worse(&self, model: &str, now_us: i64) -> HashMap<String, Arc<str>> {
        let judged = self.models.get(model).map(JudgedAnswers::hosts).unwrap_or_default();
        let hosts = judged.iter().chain(self.facts.keys());
        hosts
            .filter_map(|upstream| Some((upstream.clone(), self.of(model, upstream, now_us).why_worse()?.into())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_worse_by_its_calls_or_by_facts_and_no_longer() {
        let quality = Quality::default();
        let judge = |upstream, broken| {
            quality.judged(&JudgedAnswer { model: "m", upstream, class: 1, broken, at_us: 5 });
        };
        for n in 0..300 {
            judge("bad/m", n % 5 == 0);
            judge("good/m", n % 50 == 0);
        }
        assert_eq!(quality.why_worse("m", "bad/m").as_deref(), Some("calls"));
        assert_eq!(quality.why_worse("m", "good/m"), None);
        assert_eq!(quality.why_worse("other", "bad/m"), None);
        quality.set_facts("good/m", vec!["reasoning".to_owned()], &["m", "n"], 5);
        assert_eq!(quality.why_worse("m", "good/m").as_deref(), Some("reasoning"));
        assert_eq!(quality.why_worse("n", "good/m").as_deref(), Some("reasoning"));
        for _ in 0..60 {
            judge("bad/m", false);
        }
        assert_eq!(
            quality.why_worse("m", "bad/m").as_deref(),
            Some("calls"),
            "a few right answers do not take it back"
        );
        quality.set_facts("bad/m", vec!["stop".to_owned()], &["m"], 5);
        assert_eq!(quality.why_worse("m", "bad/m").as_deref(), Some("calls stop"));
        quality.set_facts("good/m", Vec::new(), &["m", "n"], 5);
        assert_eq!(quality.why_worse("m", "good/m"), None);
        for _ in 0..3_000 {
            judge("bad/m", false);
        }
        assert_eq!(quality.why_worse("m", "bad/m").as_deref(), Some("stop"), "and many do");
        quality.retain(|upstream| upstream == "good/m");
        assert_eq!((quality.why_worse("m", "bad/m"), quality.of("m", "bad/m", 5)), (None, HostQuality::default()));
    }
}
