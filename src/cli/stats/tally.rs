//! Attempts, gathered by group and turned into figures. No output, no database.

use std::collections::BTreeMap;

use super::group::{Dimension, Part};
use crate::history::AttemptOutcome;
use crate::history::cost::CostSum;
use crate::history::goodput::{Request, Slo, Verdict, Window};
use crate::history::survival::{Estimate, Observation, Survival, quantile};
use crate::store::AttemptSample;

/// What one group did.
#[derive(Debug)]
pub(super) struct Figures {
    /// One for each dimension.
    pub keys: Vec<Part>,
    pub attempts: usize,
    pub wins: usize,
    /// Failed, failed midway, timed out or refused.
    pub failures: usize,
    pub empty: usize,
    /// No first token was seen, and the attempt had not failed by then.
    pub censored: usize,
    /// p and its estimate; none where there is no observation.
    pub ttft: [(f64, Option<Estimate>); 3],
    /// First tokens that were seen.
    pub ttft_samples: usize,
    /// p and tokens per second.
    pub tok_s: [(f64, Option<f64>); 2],
    pub tpot_p95_ms: Option<f64>,
    pub tok_s_samples: usize,
    /// Requests that were judged: those that the group answered, and those that it tried and nobody answered.
    pub requests: usize,
    /// Of these, those that met the targets, by the second of the window.
    pub goodput: Option<f64>,
    /// Of these, the share that met the targets.
    pub attainment: Option<f64>,
    pub cost: CostSum,
    /// Of the losers alone.
    pub extra_cost: CostSum,
}

/// By group.
pub(super) struct Tallies {
    by: Vec<Dimension>,
    slo: Slo,
    groups: BTreeMap<Vec<Part>, Tally>,
    /// The race of the sample before; samples come race by race.
    race_id: String,
    /// Counts the races.
    race: usize,
    /// When the first race began; microseconds since 1970, UTC.
    pub oldest: Option<i64>,
}

#[derive(Default)]
struct Tally {
    attempts: usize,
    wins: usize,
    failures: usize,
    empty: usize,
    ttft: Vec<Observation>,
    tok_s: Vec<f64>,
    tpot_ms: Vec<f64>,
    /// The last race that was judged here: one that nobody answered counts once, however many attempts it made.
    judged: usize,
    met: usize,
    missed: usize,
    unknown: usize,
    cost: CostSum,
    extra_cost: CostSum,
}

impl Tallies {
    pub(super) fn new(by: &[Dimension], slo: Slo) -> Tallies {
        Tallies { by: by.into(), slo, groups: BTreeMap::new(), race_id: String::new(), race: 0, oldest: None }
    }

    /// All attempts of a race must come one after the other.
    pub(super) fn add(&mut self, sample: &AttemptSample) {
        if self.race_id != sample.race_id {
            self.race_id.clone_from(&sample.race_id);
            self.race += 1;
            self.oldest = Some(self.oldest.map_or(sample.started_at, |oldest| oldest.min(sample.started_at)));
        }
        let keys = self.by.iter().map(|dimension| dimension.of(sample)).collect();
        let tally: &mut Tally = self.groups.entry(keys).or_default();
        tally.count(sample);
        tally.judge(sample, &self.slo, self.race);
    }

    /// Attempts that generated something, but whose tok/s is not known.
    pub(super) fn without_speed(&self) -> usize {
        let of_one = |tally: &Tally| tally.ttft.iter().filter(|observation| observation.event).count();
        self.groups.values().map(|tally| of_one(tally).saturating_sub(tally.tok_s.len())).sum()
    }

    /// Requests that came in time, but whose TPOT is not known.
    pub(super) fn without_verdict(&self) -> usize {
        self.groups.values().map(|tally| tally.unknown).sum()
    }

    /// In the order of the keys.
    pub(super) fn figures(self, window: &Window) -> Vec<Figures> {
        let by = self.by;
        self.groups
            .into_iter()
            .map(|(keys, tally)| {
                let find = |wanted: Dimension| by.iter().position(|dimension| *dimension == wanted);
                let hour = find(Dimension::Hour).and_then(|at| match keys.get(at) {
                    Some(Part::Hour(hour)) => Some(*hour),
                    _ => None,
                });
                let weekday = find(Dimension::Weekday).and_then(|at| match keys.get(at) {
                    Some(Part::Weekday(day)) => Some(*day),
                    _ => None,
                });
                tally.figures(keys, window.seconds(hour, weekday))
            })
            .collect()
    }
}

impl Tally {
    fn count(&mut self, sample: &AttemptSample) {
        let is = |outcomes: &[AttemptOutcome]| outcomes.iter().any(|outcome| outcome.as_str() == sample.outcome);
        self.attempts += 1;
        self.wins += usize::from(is(&[AttemptOutcome::Won]));
        self.failures += usize::from(is(&[
            AttemptOutcome::Failed,
            AttemptOutcome::FailedMid,
            AttemptOutcome::Timeout,
            AttemptOutcome::Refused,
        ]));
        self.empty += usize::from(is(&[AttemptOutcome::Empty]));
        if let (Some(ms), Some(event)) = (sample.ttft_obs_ms, sample.ttft_event) {
            self.ttft.push(Observation { time_us: (ms * 1e3).round() as i64, event: event == 1 });
        }
        self.tok_s.extend(sample.tok_s);
        self.tpot_ms.extend(sample.tpot_ms);
        self.cost.add(sample.cost_usd, &sample.cost_basis);
        if is(&[AttemptOutcome::Lost, AttemptOutcome::Drained]) {
            self.extra_cost.add(sample.cost_usd, &sample.cost_basis);
        }
    }

    /// A request belongs to the attempt that served it; one that none served, to each group that tried.
    fn judge(&mut self, sample: &AttemptSample, slo: &Slo, race: usize) {
        let Some(request) = &sample.request else { return };
        if request.served == Some(false) || (request.served.is_none() && self.judged == race) {
            return;
        }
        self.judged = race;
        let verdict = slo.judge(&Request {
            outcome: &request.outcome,
            client_ttft_us: request.client_ttft_us,
            tpot_ms: sample.tpot_ms,
            at_once: sample.at_once,
        });
        match verdict {
            Verdict::Met => self.met += 1,
            Verdict::Missed => self.missed += 1,
            Verdict::Unknown => self.unknown += 1,
            Verdict::ClientGone => {}
        }
    }

    fn figures(mut self, keys: Vec<Part>, seconds: f64) -> Figures {
        let ttft = Survival::new(self.ttft);
        let requests = self.met + self.missed;
        let judged = |figure: f64| (requests > 0 && figure.is_finite()).then_some(figure);
        Figures {
            keys,
            attempts: self.attempts,
            wins: self.wins,
            failures: self.failures,
            empty: self.empty,
            censored: ttft.n - ttft.events,
            ttft: [0.50, 0.95, 0.99].map(|p| (p, ttft.quantile(p))),
            ttft_samples: ttft.events,
            tok_s: [0.50, 0.05].map(|p| (p, quantile(&mut self.tok_s, p))),
            tpot_p95_ms: quantile(&mut self.tpot_ms, 0.95),
            tok_s_samples: self.tok_s.len(),
            requests,
            goodput: judged(self.met as f64 / seconds),
            attainment: judged(self.met as f64 / requests as f64),
            cost: self.cost,
            extra_cost: self.extra_cost,
        }
    }
}
