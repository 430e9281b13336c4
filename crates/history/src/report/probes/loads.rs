//! The last runs of benchmarks: how each target bears more load, and the highest rate that it takes.
//!
//! Reads what `bench` stored as the result of a run.

use serde::Serialize;
use serde_json::{Map, Value};

use super::public_names::PublicNames;
use crate::report::runs;
use crate::store::{ReadError, RunFilter, StoreReader};
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::interval::{InsufficientSample, insufficient_for_p99};

/// Runs that `report` looks through, newest first.
const RUNS_MAX: usize = 200;
/// Runs that `report` shows: the newest of each target and workload.
const LOADS_MAX: usize = 20;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredLoad {
    pub run_id: String,
    pub started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub target: String,
    pub workload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    pub trust: Option<String>,
    #[serde(flatten)]
    pub cost: Cost,
    pub levels: Vec<LoadLevel>,
    pub found: Vec<FoundGoodput>,
}

/// One level of load. `low` and `high` are 95 % intervals; null where the sample cannot bear them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadLevel {
    pub target: String,
    /// Closed loop: users at once.
    pub users: Option<u64>,
    /// Open loop: arrivals per second.
    pub request_rate: Option<f64>,
    /// Requests that were answered, the samples of the medians.
    pub answered: Option<u64>,
    pub ttft_p50_ms: Option<f64>,
    pub ttft_p50_low_ms: Option<f64>,
    pub ttft_p50_high_ms: Option<f64>,
    /// Null where the level has too few answers; then the next member says how many.
    pub ttft_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p99_insufficient: Option<InsufficientSample>,
    /// Median for one user.
    pub tok_s_p50: Option<f64>,
    pub tok_s_p50_low: Option<f64>,
    pub tok_s_p50_high: Option<f64>,
    /// Of all users.
    pub tok_s_all: Option<f64>,
    pub end_to_end_p50_ms: Option<f64>,
    pub end_to_end_p50_low_ms: Option<f64>,
    pub end_to_end_p50_high_ms: Option<f64>,
    /// Requests that met every target.
    pub goodput_per_s: Option<f64>,
    pub attainment: Option<f64>,
    pub attainment_low: Option<f64>,
    pub attainment_high: Option<f64>,
    /// The client was not what limited it.
    pub trusted: bool,
}

/// The end of a search for the highest rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundGoodput {
    pub target: String,
    /// The share of requests that had to meet every target.
    pub attain: Option<f64>,
    /// Requests per second that pass, and that fail.
    pub passes_per_s: Option<f64>,
    pub fails_per_s: Option<f64>,
    /// The target that was missed most.
    pub first_missed: Option<String>,
}

/// The newest run of each target and workload. `names`: set if anyone may read it.
pub(super) fn newest(
    reader: &StoreReader,
    since_us: i64,
    mut names: Option<&mut PublicNames<'_>>,
) -> Result<Vec<MeasuredLoad>, ReadError> {
    let filter = RunFilter { since: Some(since_us), before: None, limit: RUNS_MAX };
    let mut loads: Vec<MeasuredLoad> = Vec::new();
    let mut seen: Vec<(String, String)> = Vec::new();
    for run in reader.runs(&filter)?.into_iter().map(runs::readable) {
        let Some(load) = load(&run) else { continue };
        let key = (load.target.clone(), load.workload.clone());
        if !seen.contains(&key) && loads.len() < LOADS_MAX {
            seen.push(key);
            loads.push(match &mut names {
                Some(names) => load.for_everyone(names),
                None => load,
            });
        }
    }
    Ok(loads)
}

/// None: it has not ended, or measured nothing.
fn load(run: &Map<String, Value>) -> Option<MeasuredLoad> {
    let result = run.get("result").filter(|result| result.is_object())?;
    let text = |name: &str| run.get(name).and_then(Value::as_str).map(str::to_owned);
    let items = |name: &str| result[name].as_array().into_iter().flatten();
    let load = MeasuredLoad {
        run_id: text("run_id")?,
        started: text("started")?,
        label: text("label"),
        target: text("target")?,
        workload: result["workload"]["name"].as_str().unwrap_or("requests").to_owned(),
        machine: text("machine"),
        trust: text("trust"),
        cost: runs::cost(&run["result"]),
        levels: items("stages").map(level).collect(),
        found: items("found").map(found).collect(),
    };
    (!load.levels.is_empty() || !load.found.is_empty()).then_some(load)
}

fn level(stage: &Value) -> LoadLevel {
    let of = |estimate: &Value| ["value", "low", "high"].map(|side| estimate[side].as_f64());
    let [ttft_p50_ms, ttft_p50_low_ms, ttft_p50_high_ms] = of(&stage["ttft_ms"]["p50"]);
    let [tok_s_p50, tok_s_p50_low, tok_s_p50_high] = of(&stage["tok_s"]["p50"]);
    let [end_to_end_p50_ms, end_to_end_p50_low_ms, end_to_end_p50_high_ms] = of(&stage["e2e_ms"]["p50"]);
    let [attainment, attainment_low, attainment_high] = of(&stage["attainment"]);
    let answered = stage["ttft_ms"]["n"].as_u64();
    let ttft_p99_insufficient = insufficient_for_p99(usize::try_from(answered.unwrap_or(0)).unwrap_or(usize::MAX));
    let [ttft_p99_ms, ..] = of(&stage["ttft_ms"]["p99"]);
    LoadLevel {
        target: stage["target"].as_str().unwrap_or_default().to_owned(),
        users: stage["users"].as_u64(),
        request_rate: stage["request_rate"].as_f64(),
        answered,
        ttft_p50_ms,
        ttft_p50_low_ms,
        ttft_p50_high_ms,
        ttft_p99_ms: ttft_p99_ms.filter(|_| ttft_p99_insufficient.is_none()),
        ttft_p99_insufficient,
        tok_s_p50,
        tok_s_p50_low,
        tok_s_p50_high,
        tok_s_all: stage["tok_s_all"].as_f64(),
        end_to_end_p50_ms,
        end_to_end_p50_low_ms,
        end_to_end_p50_high_ms,
        goodput_per_s: stage["goodput"].as_f64(),
        attainment,
        attainment_low,
        attainment_high,
        trusted: stage["doubts"].as_array().is_none_or(Vec::is_empty),
    }
}

fn found(found: &Value) -> FoundGoodput {
    FoundGoodput {
        target: found["target"].as_str().unwrap_or_default().to_owned(),
        attain: found["attain"].as_f64(),
        passes_per_s: found["passes"].as_f64(),
        fails_per_s: found["fails"].as_f64(),
        first_missed: found["first_missed"].as_str().map(str::to_owned),
    }
}

impl MeasuredLoad {
    fn for_everyone(mut self, names: &mut PublicNames<'_>) -> MeasuredLoad {
        (self.label, self.machine) = (None, None);
        self.workload = names.workload(&self.workload);
        self.levels.iter_mut().for_each(|level| level.target = names.target(&level.target));
        self.found.iter_mut().for_each(|found| found.target = names.target(&found.target));
        // That of the row has all targets in one text.
        let of_levels = self.levels.iter().map(|level| &level.target);
        let mut targets: Vec<&str> = Vec::new();
        for target in of_levels.chain(self.found.iter().map(|found| &found.target)) {
            if !targets.contains(&target.as_str()) {
                targets.push(target);
            }
        }
        self.target = targets.join(" ");
        // A doubt may name what it was about.
        self.trust = self.trust.map(|trust| if trust == "trusted" { trust } else { "not trusted".to_owned() });
        self
    }
}
