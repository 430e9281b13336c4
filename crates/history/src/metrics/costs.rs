//! Sums of US dollars, with their bounds, as in the columns `cost_usd_min` and `cost_usd_max`. A sum never falls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::series::NamedSeries;
use super::text::MetricsText;

/// The bits of a floating-point number, so that many may add.
#[derive(Debug, Default)]
pub(super) struct UsdSum(AtomicU64);

impl UsdSum {
    pub fn add(&self, usd: f64) {
        let more = |bits| Some((f64::from_bits(bits) + usd.max(0.0)).to_bits());
        // It always has a new value.
        let _ = self.0.fetch_update(Relaxed, Relaxed, more);
    }

    pub fn usd(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

/// Sums of both bounds of costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostBounds {
    pub min: f64,
    /// Where nothing bounds an attempt, its lower bound.
    pub max: f64,
    /// Attempts that nothing bounds from above.
    pub open: u64,
}

impl CostBounds {
    /// Of one attempt. None: its upstream has no price.
    pub fn of(min: Option<f64>, max: Option<f64>) -> Option<CostBounds> {
        let min = min?.max(0.0);
        Some(CostBounds { min, max: max.unwrap_or(min).max(min), open: u64::from(max.is_none()) })
    }

    pub fn add(&mut self, more: CostBounds) {
        *self = CostBounds { min: self.min + more.min, max: self.max + more.max, open: self.open + more.open };
    }
}

/// One series of a sum: name, help, and what a sample of it is.
type BoundSeries = (&'static str, &'static str, fn(&CostBounds) -> f64);

pub(super) const BOUNDS: [BoundSeries; 3] = [
    ("usd_total", "Lower bounds (cost_usd_min) of the US dollars", |cost| cost.min),
    ("usd_max_total", "Upper bounds, or the lower one where nothing bounds an attempt, of the US dollars", |cost| {
        cost.max
    }),
    ("open_total", "Attempts that nothing bounds from above, of the US dollars", |cost| cost.open as f64),
];

/// What one upstream cost, by the label of the requested model; there are few.
#[derive(Debug, Default)]
pub(super) struct ModelCosts(Mutex<BTreeMap<String, Cost>>);

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    all: CostBounds,
    /// Of the losers.
    extra: CostBounds,
}

impl ModelCosts {
    pub fn add(&self, model: &str, cost: CostBounds, is_extra: bool) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !costs.contains_key(model) {
            costs.insert(model.to_owned(), Cost::default());
        }
        if let Some(of) = costs.get_mut(model) {
            of.all.add(cost);
            if is_extra {
                of.extra.add(cost);
            }
        }
    }

    /// Drops the costs of models that have no series any more.
    pub fn keep<S>(&self, models: &NamedSeries<S>) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        costs.retain(|model, _| models.label(model) == model);
    }
}

/// An upstream of which no cost is known has no series.
pub(super) fn render<S>(upstreams: &NamedSeries<S>, costs: fn(&S) -> &ModelCosts, text: &mut MetricsText) {
    for (name, whose, of) in [
        ("cost", "that attempts of clients cost", (|cost| &cost.all) as fn(&Cost) -> &CostBounds),
        ("extra_cost", "of these that losers cost, which is the price of racing", |cost| &cost.extra),
    ] {
        for (series, help, sample) in BOUNDS {
            let help = format!("{help} {whose}, by upstream and requested model.");
            text.family(&format!("{name}_{series}"), "counter", &help);
            for (upstream, costs) in upstreams.iter().map(|(upstream, series)| (upstream, costs(series))) {
                for (model, cost) in &*costs.0.lock().unwrap_or_else(PoisonError::into_inner) {
                    text.sample(&[("upstream", upstream), ("model", model)], sample(of(cost)));
                }
            }
        }
    }
}
