//! Prices of upstreams, and the substitute for an unknown price. Not for costs: see `history`.

use super::reader::ReaderScope;
use super::{RaceSettings, UpstreamConfig};

/// USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    pub input: f64,
    /// For input tokens that the provider read from its cache.
    pub cached: f64,
    pub output: f64,
}

/// The price assumed for an upstream without one: the highest of each kind among the others, so that an unknown price is never
/// preferred as cheap. None: no upstream has a price.
pub fn dearest(prices: impl Iterator<Item = Price>) -> Option<Price> {
    prices.reduce(|most, price| Price {
        input: most.input.max(price.input),
        cached: most.cached.max(price.cached),
        output: most.output.max(price.output),
    })
}

/// Warns if a budget is not counted in plain money.
pub(super) fn warn(scope: &ReaderScope<'_>, model: &str, race: &RaceSettings, upstreams: &[UpstreamConfig]) {
    if !race.policy.spends_budget() || race.budget == 0.0 || upstreams.len() < 2 {
        return;
    }
    let without: Vec<String> = upstreams
        .iter()
        .filter(|upstream| upstream.price.is_none())
        .map(|upstream| format!("{}/{}", upstream.provider.name, upstream.model))
        .collect();
    match dearest(upstreams.iter().filter_map(|upstream| upstream.price)) {
        None => {
            scope.warn(format!("model {model}: no upstream has a price: its budget counts tokens instead of money"));
        }
        Some(dearest) if !without.is_empty() => scope.warn(format!(
            "model {model}: {} without a price: counted at the highest of the others, {} USD per million input tokens \
             and {} per million output tokens",
            without.join(", "),
            dearest.input,
            dearest.output
        )),
        Some(_) => {}
    }
}
