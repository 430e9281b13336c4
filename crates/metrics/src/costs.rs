//! Sums of US dollars, with their bounds, as in the columns `cost_usd_min` and `cost_usd_max`. A sum never falls.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::series::NamedSeries;
use super::text::MetricsText;
use photofinish_facts::estimate::cost::{Cost, CostSum};

/// One series of a sum: name, help, and what a sample of it is; none where no price is known.
type BoundSeries = (&'static str, &'static str, fn(&CostSum) -> Option<f64>);

pub(super) const BOUNDS: [BoundSeries; 4] = [
    ("usd_total", "Lower bounds (cost_usd_min) of the US dollars", CostSum::min_usd),
    ("usd_max_total", "Upper bounds, or the lower one where nothing bounds an attempt, of the US dollars", |cost| {
        cost.min_usd().map(|_| cost.bounded_usd())
    }),
    ("open_total", "Attempts that nothing bounds from above, of the US dollars", |cost| Some(cost.open() as f64)),
    ("unpriced_total", "Attempts without a price, of the US dollars", |cost| Some(cost.unpriced() as f64)),
];

/// What one upstream cost, by the label of the requested model; there are few.
#[derive(Debug, Default)]
pub(super) struct ModelCosts(Mutex<BTreeMap<String, SpentSums>>);

#[derive(Clone, Copy, Debug, Default)]
struct SpentSums {
    all: CostSum,
    /// What racing cost of it.
    extra: CostSum,
}

impl ModelCosts {
    pub fn add(&self, model: &str, cost: &Cost, is_extra: bool) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !costs.contains_key(model) {
            costs.insert(model.to_owned(), SpentSums::default());
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

/// An upstream without an attempt has no series.
pub(super) fn render<S>(upstreams: &NamedSeries<S>, costs: fn(&S) -> &ModelCosts, text: &mut MetricsText) {
    for (name, whose, of) in [
        (
            "cost",
            "that attempts and shadows of clients' requests cost",
            (|cost| &cost.all) as fn(&SpentSums) -> &CostSum,
        ),
        ("extra_cost", "of these that racing cost: attempts that were not the answer, and shadows", |cost| &cost.extra),
    ] {
        for (series, help, sample) in BOUNDS {
            let help = format!("{help} {whose}, by upstream and requested model.");
            text.family(&format!("{name}_{series}"), "counter", &help);
            for (upstream, costs) in upstreams.iter().map(|(upstream, series)| (upstream, costs(series))) {
                for (model, cost) in &*costs.0.lock().unwrap_or_else(PoisonError::into_inner) {
                    if let Some(sample) = sample(of(cost)) {
                        text.sample(&[("upstream", upstream), ("model", model)], sample);
                    }
                }
            }
        }
    }
}
