//! Prices of upstreams, and the substitute for an unknown price. Not for costs: see `history`.

use std::fmt;
use std::sync::Arc;

use crate::offerings::{ModelCatalogue, Offering, PriceTier};

/// USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    pub input: f64,
    /// For input tokens that the provider read from its cache.
    pub cached: f64,
    /// For input tokens that the provider wrote into its cache.
    pub written: f64,
    pub output: f64,
    /// Other prices for long prompts, if there are any.
    pub long: Option<LongPromptPrice>,
}

/// A token that the provider keeps for an hour costs this multiple of a usual one at Anthropic and Amazon. No catalogue has a price for it.
const HOUR_IN_USUAL: f64 = 2.0;

/// The tokens of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// `cached` and `written` included.
    pub input: i64,
    /// What the provider read from its cache.
    pub cached: i64,
    /// What the provider wrote into its cache; `hour` included.
    pub written: i64,
    /// What it keeps there for an hour.
    pub hour: i64,
    pub output: i64,
}

/// What a provider takes for a prompt of more than `above` tokens and its answer, in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongPromptPrice {
    pub above: u64,
    pub input: f64,
    pub cached: f64,
    pub written: f64,
    pub output: f64,
}

/// Where a price comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceSource {
    Config,
    /// The catalogue, with the day of its facts: `2026-11-22`.
    Catalogue(Arc<str>),
}

impl fmt::Display for PriceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PriceSource::Config => f.write_str("config"),
            PriceSource::Catalogue(date) => write!(f, "catalogue {date}"),
        }
    }
}

impl Price {
    /// The price in the catalogue. None: input or output is unknown. Reading and writing the cache cost as much as other input
    /// unless the catalogue says otherwise. Of several prices for long prompts the dearest counts, from the shortest such
    /// prompt on.
    pub fn of_offering(offering: &Offering) -> Option<Price> {
        let (input, output) = (offering.input?, offering.output?);
        let (cached, written) = (offering.cached.unwrap_or(input), offering.written.unwrap_or(input));
        let long = offering.tiers.first().map(|first| {
            let most = |usual: f64, of: fn(&PriceTier) -> Option<f64>| {
                offering.tiers.iter().filter_map(of).fold(usual, f64::max)
            };
            let long_input = most(input, |tier| tier.input);
            LongPromptPrice {
                above: first.above,
                input: long_input,
                cached: most(cached, |tier| tier.cached),
                written: most(written.max(long_input), |tier| tier.written),
                output: most(output, |tier| tier.output),
            }
        });
        Some(Price { input, cached, written, output, long })
    }

    /// What is assumed of a model without a price: the dearest price of what its provider offers of the same family, the first word of
    /// their names; else of all that it offers. None: the catalogue has no price of this provider.
    pub fn dearest_like(catalogue: &ModelCatalogue, provider: &str, id: &str) -> Option<Price> {
        let prices = |family: Option<&str>| {
            let is_like = |offering: &&Arc<Offering>| family.is_none() || family_of(&offering.id) == family;
            let offered = catalogue.of_provider(provider).filter(is_like);
            let prices = offered.filter_map(|offering| Price::of_offering(offering));
            let most = dearest(prices.flat_map(|price| [price, price.of_prompt(u64::MAX)]));
            most.filter(|price| price.input + price.output > 0.0)
        };
        family_of(id).and_then(|family| prices(Some(family))).or_else(|| prices(None))
    }

    /// The price of a prompt of this many tokens.
    pub fn of_prompt(self, tokens: u64) -> Price {
        match self.long {
            Some(long) if tokens > long.above => {
                let LongPromptPrice { input, cached, written, output, .. } = long;
                Price { input, cached, written, output, long: None }
            }
            _ => self,
        }
    }

    /// USD of these tokens.
    pub fn usd(self, tokens: TokenCounts) -> f64 {
        let TokenCounts { input, cached, written, hour, output } = tokens;
        let price = self.of_prompt(input.unsigned_abs());
        let cached = cached.clamp(0, input.max(0));
        let written = written.clamp(0, (input - cached).max(0));
        let hour = hour.clamp(0, written);
        let usual = (input - cached - written) as f64 * price.input + cached as f64 * price.cached;
        let kept = (written - hour) as f64 * price.written + hour as f64 * price.hour();
        (usual + kept + output as f64 * price.output) / 1e6
    }

    /// Of a token that the provider keeps for an hour.
    fn hour(self) -> f64 {
        self.written.max(self.input * HOUR_IN_USUAL)
    }

    /// The most that a token of the prompt may cost that the provider writes into its cache, `for_hour` if it may keep it so long.
    pub fn most_written(self, for_hour: bool) -> f64 {
        if for_hour && self.keeps_dearer() { self.hour() } else { self.written }
    }

    /// Writing into its cache costs more than other input, as where it depends on how long it keeps it.
    pub fn keeps_dearer(self) -> bool {
        self.written > self.input
    }

    /// USD of a request with `input` and `output` tokens, if no token comes from the cache and all may be written into it, `for_hour`
    /// if it asks for that.
    pub fn most_usd(self, input: f64, output: f64, for_hour: bool) -> f64 {
        let price = self.of_prompt(input as u64);
        (price.input.max(price.most_written(for_hour)) * input + price.output * output) / 1e6
    }
}

/// The price assumed for an upstream without one: the highest of each kind among the others, so that an unknown price is never
/// preferred as cheap. None: no upstream has a price.
pub fn dearest(prices: impl Iterator<Item = Price>) -> Option<Price> {
    prices.reduce(|most, price| Price {
        input: most.input.max(price.input),
        cached: most.cached.max(price.cached),
        written: most.written.max(price.written),
        output: most.output.max(price.output),
        long: None,
    })
}

/// `claude` of `anthropic/claude-next`.
fn family_of(id: &str) -> Option<&str> {
    let name = id.rsplit('/').next().unwrap_or(id);
    name.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_price_is_the_dearest_of_its_family_or_else_of_its_provider() {
        let text = r#"{"format":1,"date":"2026-11-22","sources":{},"columns":["id","model","input","output","tiers"],"models":[],
            "rows":{"p":[["line-1",null,1,5,null],["x/line-2-pro",null,3,4,[[200000,null,null,null,9]]],["big",null,20,80,null],
            ["free-1",null,0,0,null]],"q":[["free-2",null,0,0,null]]}}"#;
        let catalogue = ModelCatalogue::read(text.as_bytes()).unwrap();
        let of = |provider, id| Price::dearest_like(&catalogue, provider, id).map(|price| (price.input, price.output));
        for (provider, id, expected) in [
            ("p", "line-3", Some((3.0, 9.0))),
            ("p", "lab/line-3", Some((3.0, 9.0))),
            ("p", "liner", Some((20.0, 80.0))),
            ("p", "free-3", Some((20.0, 80.0))),
            ("p", "7", Some((20.0, 80.0))),
            ("q", "free-3", None),
            ("r", "line-3", None),
        ] {
            assert_eq!(of(provider, id), expected, "{provider}/{id}");
        }
    }

    #[test]
    fn the_dearest_of_several_tiers_counts_from_the_first_one_on() {
        let tier = |above, output| PriceTier { above, output: Some(output), ..PriceTier::default() };
        let offering = Offering {
            input: Some(1.0),
            output: Some(2.0),
            tiers: vec![tier(100, 3.0), tier(1_000, 8.0)],
            ..Offering::default()
        };
        let price = Price::of_offering(&offering).unwrap();
        assert_eq!((price.cached, price.of_prompt(100).output, price.of_prompt(101).output), (1.0, 2.0, 8.0));
        assert_eq!(price.of_prompt(101).input, 1.0, "a tier that does not say keeps the usual price");
        assert_eq!(price.written, 1.0, "writing a cache costs as much as other input unless it is known");
        let dear = Offering {
            written: Some(1.25),
            tiers: vec![PriceTier { above: 100, input: Some(2.0), ..tier(0, 3.0) }],
            ..offering.clone()
        };
        let dear = Price::of_offering(&dear).unwrap();
        assert_eq!((dear.written, dear.of_prompt(101).written), (1.25, 2.0));
        assert_eq!(Price::of_offering(&Offering { output: None, ..offering }), None, "unknown is not free");
    }

    #[test]
    fn a_cache_of_an_hour_costs_twice_the_input() {
        let price = Price { input: 2.0, cached: 0.2, written: 2.5, output: 10.0, long: None };
        let usd = |hour| price.usd(TokenCounts { input: 4_818, cached: 0, written: 4_803, hour, output: 47 });
        assert!(
            (usd(0) - 0.012_507_5).abs() < 1e-9 && (usd(4_803) - 0.019_712).abs() < 1e-9,
            "{} {}",
            usd(0),
            usd(4_803)
        );
        let dear = Price { written: 5.0, ..price };
        assert_eq!(dear.most_written(true), 5.0, "a dearer price is the operator's own");
    }
}
