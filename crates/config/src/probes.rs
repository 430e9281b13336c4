//! The keys of `[probes]` and `[workloads.NAME]`, and the probes that they ask for. Not for when a probe runs: see `photofinish_lab::probe`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::keys::{PlainText, RealNumber, TableKeys as _, Texts, TimeSpan, WholeNumber, keys};
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable};
use super::text::ExpandedText;

const HOUR: Duration = Duration::from_secs(3_600);
/// Names in one list of `[probes]`.
const NAMES_MAX: usize = 256;
/// Characters of `from`, the place where the gateway runs, and of a workload's name.
const PLACE_MAX: usize = 64;

keys! {
    /// `[probes]`
    #[derive(Clone)]
    pub(super) struct ProbeKeys {
        /// What is sent: `1k`, `10k`, `10k1k`, `100k` (weekly), `parallel` (ten `1k` at once, daily), or names of `[workloads]`.
        workloads: Option<Vec<ExpandedText>> = Texts { max: NAMES_MAX, noun: "names" };
        /// Each upstream gets each workload once per this interval, at a random moment.
        every: Duration = TimeSpan(Duration::from_secs(300)..=168 * HOUR), or 3 * HOUR;
        /// The models whose upstreams are probed; all of `[models]` unless set.
        models: Option<Vec<ExpandedText>> = Texts { max: NAMES_MAX, noun: "names" };
        /// USD that the probes of one day (UTC) may cost together. A hosted upstream without a known price needs `max_tokens`.
        max_cost: Option<f64> = RealNumber(0.0..=1e6);
        /// Tokens, in and out, that the probes of one day (UTC) may use together.
        max_tokens: Option<u64> = WholeNumber(1..=1_000_000_000_000);
        /// Where the gateway runs, for those who read the figures.
        from: Option<ExpandedText> = PlainText;
    }
}

keys! {
    /// `[workloads.NAME]`
    #[derive(Clone)]
    pub(super) struct WorkloadKeys {
        /// Tokens of a prompt, as the server counts them.
        input_tokens: Option<u32> = WholeNumber(1..=2_000_000);
        /// `max_tokens` of a request; the prompt asks for more than that.
        output_tokens: Option<u32> = WholeNumber(1..=100_000);
    }
}

/// `[probes]`: measured requests that the gateway sends by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeSettings {
    /// At least one, each once.
    pub workloads: Vec<ProbeWorkload>,
    /// Names of models, each once.
    pub models: Vec<String>,
    /// USD a day. One of the two caps is set.
    pub max_cost: Option<f64>,
    /// Tokens a day, in and out.
    pub max_tokens: Option<u64>,
    /// Where the gateway runs.
    pub from: Option<String>,
}

/// What a probe sends, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeWorkload {
    pub name: String,
    /// Tokens of a prompt.
    pub input_tokens: u32,
    /// `max_tokens` of the request.
    pub output_tokens: u32,
    /// Requests at the same time.
    pub at_once: u32,
    /// The interval between two probes.
    pub every: Duration,
}

/// A dozen requests for one token each: they show whether the model behind an upstream changes.
pub const FINGERPRINT: &str = "fingerprint";

/// The built-in workloads of probes: name, input tokens, output tokens, requests at once, and the least time from one to the
/// next. The first two are Artificial Analysis' (2026), `10k1k` is that of the Munich measurements.
const BUILT_IN: [(&str, u32, u32, u32, Duration); 6] = [
    ("1k", 1_000, 1_000, 1, Duration::ZERO),
    ("10k", 10_000, 1_500, 1, Duration::ZERO),
    ("10k1k", 10_000, 1_000, 1, Duration::ZERO),
    ("100k", 100_000, 2_000, 1, Duration::from_secs(168 * 3_600)),
    ("parallel", 1_000, 1_000, 10, Duration::from_secs(24 * 3_600)),
    (FINGERPRINT, 20, 1, 12, Duration::from_secs(24 * 3_600)),
];
/// The request of a probe before the measured one: its name, input and output tokens. It opens the connection.
pub const PING: (&str, u32, u32) = ("ping", 200, 16);
/// Name, input and output tokens of what only benchmarks have by name.
pub const OF_BENCHMARKS: [(&str, u32, u32); 2] = [("chat", 500, 200), PING];
/// Sent unless `workloads` is set.
const USUAL: [&str; 2] = ["1k", "10k"];

/// Whether every installation has a workload of this name, for probes or for benchmarks.
pub fn is_built_in_workload(name: &str) -> bool {
    BUILT_IN.iter().map(|known| known.0).chain(OF_BENCHMARKS.map(|known| known.0)).any(|known| known == name)
}

/// `[probes]` and `[workloads]` as they were read.
pub(super) struct RawProbes {
    probes: Option<Located<ProbeKeys>>,
    /// `[probes]` has a cap, maybe a wrong one.
    has_cap: bool,
    /// `[probes]` has `models`, maybe wrong ones.
    has_models: bool,
    /// Without those that are wrong.
    own: BTreeMap<String, (u32, u32)>,
}

impl RawProbes {
    pub(super) fn read(root: &mut TomlTable<'_, '_>) -> RawProbes {
        let own =
            root.named_tables("workloads", &["input_tokens", "output_tokens"]).into_iter().filter_map(own_workload);
        let own = own.collect();
        let (mut has_cap, mut has_models) = (false, false);
        let probes = root.table("probes", "[probes]".to_owned()).map(|mut table| {
            has_cap = table.has("max_cost") || table.has("max_tokens");
            has_models = table.has("models");
            let value = ProbeKeys::read(&mut table, &ProbeKeys::default());
            let offset = table.offset;
            table.finish();
            Located { offset, value }
        });
        RawProbes { probes, has_cap, has_models, own }
    }

    /// Every workload that has a name, sent as often as it may be.
    pub(super) fn workloads(&self) -> BTreeMap<String, ProbeWorkload> {
        let names = BUILT_IN.iter().map(|(name, ..)| *name).chain(self.own.keys().map(String::as_str));
        names.filter_map(|name| Some((name.to_owned(), workload(&self.own, name, Duration::ZERO)?))).collect()
    }

    /// None without `[probes]`, or if something is wrong, which is reported then.
    pub(super) fn resolve(
        self,
        scope: &ReaderScope<'_>,
        models: &BTreeSet<String>,
        serves_catalogue: bool,
    ) -> Option<ProbeSettings> {
        let RawProbes { probes, has_cap, has_models, own } = self;
        let Located { offset, value: keys } = probes?;
        if !has_cap {
            let message = "[probes] has no \"max_cost\" and no \"max_tokens\"";
            scope.wrong(offset, message, "a cap for one day, such as max_cost = 1.00");
        }
        if serves_catalogue && !has_models {
            let message = "[probes] has no \"models\", and the file has no [models]";
            scope.wrong(offset, message, "a list of models: every model of the catalogue would be probed");
        }
        let usual = || USUAL.iter().map(|name| Some((*name).to_owned())).collect();
        let is_workload = |name: &str| own.contains_key(name) || BUILT_IN.iter().any(|(known, ..)| *known == name);
        let known = BUILT_IN.iter().map(|(name, ..)| *name).chain(own.keys().map(String::as_str));
        let workloads = match &keys.workloads {
            Some(listed) => names(scope, listed, "workload", is_workload, known),
            None => usual(),
        };
        let of_all = || models.iter().map(|name| Some(name.clone())).collect();
        let models = match &keys.models {
            Some(listed) => {
                names(scope, listed, "model", |name| models.contains(name), models.iter().map(String::as_str))
            }
            None => of_all(),
        };
        let workloads = workloads.into_iter().flatten().filter_map(|name| workload(&own, &name, keys.every)).collect();
        Some(ProbeSettings {
            workloads,
            models: models.into_iter().flatten().collect(),
            max_cost: keys.max_cost,
            max_tokens: keys.max_tokens,
            from: keys.from.map(|from| from.value.chars().filter(|c| !c.is_control()).take(PLACE_MAX).collect()),
        })
    }
}

/// A workload of the file, or a built-in one.
fn workload(own: &BTreeMap<String, (u32, u32)>, name: &str, every: Duration) -> Option<ProbeWorkload> {
    let own = own.get(name).map(|(input, output)| (*input, *output, 1, Duration::ZERO));
    let built_in = BUILT_IN.iter().find(|(known, ..)| *known == name);
    let (input_tokens, output_tokens, at_once, least) =
        own.or(built_in.map(|&(_, input, output, at_once, least)| (input, output, at_once, least)))?;
    Some(ProbeWorkload { name: name.to_owned(), input_tokens, output_tokens, at_once, every: every.max(least) })
}

/// The listed names, None for each that is unknown or there twice, which is reported.
fn names<'n>(
    scope: &ReaderScope<'_>,
    listed: &[ExpandedText],
    noun: &str,
    is_known: impl Fn(&str) -> bool,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Vec<Option<String>> {
    let mut seen = BTreeSet::new();
    let check = |name: &ExpandedText| {
        let text = &name.value;
        if is_known(text) && seen.insert(text.clone()) {
            return Some(text.clone());
        }
        let problem = if is_known(text) {
            LocatedProblem::at(name.offset, format!("the {noun} \"{}\" is in [probes] twice", shown(text)))
        } else {
            let message = format!("there is no {noun} \"{}\" for [probes]", shown(&name.typed));
            LocatedProblem::at(name.offset, message).nearest(text, known.clone())
        };
        scope.report(problem);
        None
    };
    listed.iter().map(check).collect()
}

fn own_workload((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> Option<(String, (u32, u32))> {
    let keys = WorkloadKeys::read(&mut table, &WorkloadKeys::default());
    for (key, value) in [("input_tokens", keys.input_tokens), ("output_tokens", keys.output_tokens)] {
        if value.is_none() && !table.has(key) {
            let message = format!("{} has no \"{key}\"", table.name);
            table.scope.wrong(table.offset, message, "a number of tokens");
        }
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = (1..=PLACE_MAX).contains(&name.value.len()) && name.value.chars().all(is_word);
    if !is_name || is_built_in_workload(&name.value) {
        let message = format!("bad name \"{}\" for a workload", shown(&name.value));
        let expected = "at most 64 letters, digits, dots, hyphens and underscores, and not the name of a built-in one";
        table.scope.wrong(name.offset, message, expected);
    }
    table.finish();
    Some((name.value, (keys.input_tokens?, keys.output_tokens?)))
}
