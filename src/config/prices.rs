//! Prices of upstreams, and the substitute for an unknown price. Not for costs: see `history`.

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
