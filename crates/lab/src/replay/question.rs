//! What a replay is asked, and the policies that it names. Not for replaying them.

use std::sync::Arc;
use std::time::Duration;

use super::answer::ReplayedPlan;
use super::past_requests::{PastRequests, REQUESTS_MAX};
use photofinish_config::units::{bounded, duration_within, format_duration, within};
use photofinish_config::{Config, ModelConfig, Objective, Policy, RaceSettings, SloSettings};
use photofinish_facts::estimate::goodput;
use photofinish_history::report::question::{RaceWindow, TimePoint, choice, moment, slo, whole_number};
use photofinish_history::store::SourceFilter;
use photofinish_routing::policy::{PolicySetting, rules};

/// Policies of one replay.
const POLICIES_MAX: usize = 16;
/// Least share of the requests that the model's present policy planned, for "the same, replayed" to be shown.
const MOSTLY: f64 = 0.9;

/// The requests and the policies.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayQuestion {
    /// The policy to play; up to 16 times.
    #[arg(long, default_value = "adaptive")]
    pub policy: Vec<Policy>,
    /// For adaptive: what extra attempts may cost, as a share of what single ones would, 0 to 10.
    #[arg(long, value_parser = |text: &str| within(text, RaceSettings::BUDGET))]
    pub budget: Option<f64>,
    /// The objective: auto, ttft, completion or goodput.
    #[arg(long, value_name = "OBJECTIVE")]
    pub optimise: Option<Objective>,
    /// For hedge: a duration, such as 250ms.
    #[arg(long, value_name = "DELAY", value_parser = |text: &str| duration_within(text, RaceSettings::HEDGE_AFTER))]
    pub hedge_after: Option<Duration>,
    /// The targets of goodput, such as ttft=1s,tpot=50ms.
    #[arg(long, value_name = "TARGETS", value_parser = targets)]
    pub slo: Option<goodput::SloTargets>,
    /// For completion and goodput: how long a first token may be held back, 0s to 5s.
    #[arg(long, value_name = "DURATION", value_parser = |text: &str| duration_within(text, RaceSettings::HOLD))]
    pub hold_max: Option<Duration>,
    /// Only requests for this model, under any of its names; by default the one with the most requests.
    #[arg(long)]
    pub model: Option<String>,
    /// Only requests begun since: an age (7d), a day (2026-01-31) or a time (2026-01-31T09:00:00Z), UTC.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub since: Option<TimePoint>,
    /// Only requests begun before, in the same forms.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub until: Option<TimePoint>,
    /// Only this number of the newest requests of the window, of all models; 1 to 200000.
    #[arg(long, value_name = "N", default_value_t = REQUESTS_MAX, value_parser = newest)]
    pub newest: usize,
    /// Who asked: clients, probes, benchmarks, or all.
    #[arg(long, default_value = "client", value_parser = choice::<SourceFilter>())]
    pub source: SourceFilter,
    /// The seed of the draws: the same seed gives the same answer.
    #[arg(long, default_value_t = 1, value_parser = whole_number)]
    pub seed: u64,
}

impl ReplayQuestion {
    /// An error in the combination of valid options.
    pub fn problem(&self, now_us: i64) -> Option<String> {
        if self.policy.len() > POLICIES_MAX {
            return Some(format!("--policy is given {} times; at most {POLICIES_MAX}", self.policy.len()));
        }
        RaceWindow { since: self.since, until: self.until, ..RaceWindow::default() }.problem(now_us)
    }

    /// The model that is asked for.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn wanted(&self, config: &Config) -> Result<Option<Arc<ModelConfig>>, String> {
        let Some(model) = &self.model else { return Ok(None) };
        config.model(model).cloned().map(Some).ok_or_else(|| {
            let nearest = config.nearest_models(model);
            let hint =
                if nearest.is_empty() { String::new() } else { format!(" Did you mean {}?", nearest.join(" or ")) };
            format!("the model \"{model}\" is not configured.{hint} `photofinish models` lists what there is.")
        })
    }

    /// The recorded policy, if the rows show it, and then the requested ones; and why the former is missing.
    pub fn plans(&self, model: &ModelConfig, past: &PastRequests) -> (Vec<ReplayedPlan>, Result<(), String>) {
        let as_it_was = was_so(model.race.policy, past);
        let mut plans = Vec::new();
        if as_it_was.is_ok() {
            let name = format!("{}, replayed", name(&model.race));
            plans.push(ReplayedPlan { name, settings: model.race.clone(), as_it_was: true });
        }
        for policy in &self.policy {
            let settings = self.settings(*policy, &model.race);
            plans.push(ReplayedPlan { name: name(&settings), settings, as_it_was: false });
        }
        (plans, as_it_was)
    }

    fn settings(&self, policy: Policy, model: &RaceSettings) -> RaceSettings {
        let slo = SloSettings {
            ttft: self.slo.and_then(|slo| slo.ttft_us).map_or(model.slo.ttft, micros),
            tpot: self.slo.and_then(|slo| slo.tpot_ms).map_or(model.slo.tpot, |ms| micros((ms * 1e3) as i64)),
        };
        RaceSettings {
            policy,
            budget: self.budget.unwrap_or(model.budget),
            optimise: self.optimise.unwrap_or(model.optimise),
            hedge_after: self.hedge_after.unwrap_or(model.hedge_after),
            hold_max: self.hold_max.unwrap_or(model.hold_max),
            slo,
            ..model.clone()
        }
    }
}

/// Whether the model's present policy planned nearly all of the history.
fn was_so(policy: Policy, past: &PastRequests) -> Result<(), String> {
    let all: u64 = past.policies.values().sum();
    let same = past.policies.get(policy.as_str()).copied().unwrap_or(0);
    if all > 0 && same as f64 >= MOSTLY * all as f64 {
        return Ok(());
    }
    let mut shares: Vec<(&String, &u64)> = past.policies.iter().collect();
    shares.sort_by_key(|(_, requests)| std::cmp::Reverse(**requests));
    let shares =
        shares.iter().map(|(policy, requests)| format!("{policy} {:.0} %", 100.0 * **requests as f64 / all as f64));
    let shares = shares.collect::<Vec<_>>().join(", ");
    Err(if shares.is_empty() { "the rows do not show it".to_owned() } else { shares })
}

/// With the settings that this policy goes by.
fn name(settings: &RaceSettings) -> String {
    let policy = settings.policy.as_str();
    let optimise = match settings.optimise {
        Objective::Auto => String::new(),
        objective => format!(" for {}", objective.as_str()),
    };
    let shown = |setting: &PolicySetting| match setting {
        PolicySetting::Objective => optimise.clone(),
        PolicySetting::HedgeAfter => format!("{optimise} after {}", format_duration(settings.hedge_after)),
        PolicySetting::Budget => format!(", budget {}", settings.budget),
        PolicySetting::HoldMax | PolicySetting::Weights => String::new(),
    };
    format!("{policy}{}", rules(settings.policy).settings().iter().map(shown).collect::<String>())
}

fn micros(us: i64) -> Duration {
    Duration::from_micros(us.unsigned_abs())
}

fn newest(text: &str) -> Result<usize, String> {
    let newest = text.parse().ok().filter(|newest| (1..=REQUESTS_MAX).contains(newest));
    newest.ok_or_else(|| format!("must be a whole number from 1 to {REQUESTS_MAX}"))
}

fn targets(text: &str) -> Result<goodput::SloTargets, String> {
    let read = slo(text)?;
    for target in [read.ttft_us.map(micros), read.tpot_ms.map(|ms| micros((ms * 1e3) as i64))].into_iter().flatten() {
        bounded(target, SloSettings::TARGETS)?;
    }
    Ok(read)
}
