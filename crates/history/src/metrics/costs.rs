//! Sums of US dollars: lower bounds, as in the columns `cost_usd_min`. A sum never falls.

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

/// What one upstream cost, by the label of the requested model; there are few.
#[derive(Debug, Default)]
pub(super) struct ModelCosts(Mutex<BTreeMap<String, Cost>>);

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    usd: f64,
    /// Of the losers.
    extra_usd: f64,
}

impl ModelCosts {
    /// `usd`: not negative.
    pub fn add(&self, model: &str, usd: f64, is_extra: bool) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !costs.contains_key(model) {
            costs.insert(model.to_owned(), Cost::default());
        }
        if let Some(cost) = costs.get_mut(model) {
            cost.usd += usd;
            cost.extra_usd += if is_extra { usd } else { 0.0 };
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
    let help = "US dollars that attempts of clients cost, by upstream and requested model: a lower bound, the sum of \
                cost_usd_min. What is unknown adds nothing.";
    let help_extra = "US dollars of these that losers cost, which is the price of racing: a lower bound too.";
    for (name, help, usd) in [
        ("cost_usd_total", help, (|cost| cost.usd) as fn(&Cost) -> f64),
        ("extra_cost_usd_total", help_extra, |cost| cost.extra_usd),
    ] {
        text.family(name, "counter", help);
        for (upstream, of) in upstreams.iter() {
            for (model, cost) in &*costs(of).0.lock().unwrap_or_else(PoisonError::into_inner) {
                text.sample(&[("upstream", upstream), ("model", model)], usd(cost));
            }
        }
    }
}
