//! The estimated cost of an attempt, for plans: in US dollars, or in tokens if no upstream of the race has a price.
//!
//! Not for rows, which hold known costs and no estimate.

use photofinish_config::{Price, UpstreamConfig, dearest};

/// Prices of one upstream, per token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tariff {
    pub input: f64,
    /// Cached input.
    pub cached: f64,
    pub output: f64,
    /// A cancelled attempt is billed to its end.
    pub billed_on: bool,
}

/// The prompt of an attempt, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PromptTokens {
    pub uncached: f64,
    pub cached: f64,
}

/// The unit of cost for a model's attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Basis {
    /// Highest price of each kind of token. None: no upstream has a price, so tokens are counted.
    dearest: Option<Price>,
}

impl Basis {
    /// Uses all upstreams of a model, also those that this request does not ask: the unit of its budget must not change
    /// from request to request.
    pub fn of<'u>(upstreams: impl Iterator<Item = &'u UpstreamConfig>) -> Basis {
        Basis { dearest: dearest(upstreams.filter_map(|upstream| upstream.price)) }
    }

    pub fn is_money(&self) -> bool {
        self.dearest.is_some()
    }

    /// The tariff of an upstream, from its price and whether it bills a cancelled attempt to its end. One without a
    /// price counts as the most expensive of the others. If it counted as free, it would get all requests.
    pub fn tariff(&self, (price, billed_on): (Option<Price>, bool)) -> Tariff {
        match price.or(self.dearest) {
            Some(Price { input, cached, output, .. }) => {
                Tariff { input: input / 1e6, cached: cached / 1e6, output: output / 1e6, billed_on }
            }
            None => Tariff { input: 1.0, cached: 1.0, output: 1.0, billed_on },
        }
    }
}

/// The tariffs of all upstreams of a model.
pub fn tariffs(upstreams: &[(Option<Price>, bool)]) -> Vec<Tariff> {
    let basis = Basis { dearest: dearest(upstreams.iter().filter_map(|(price, _)| *price)) };
    upstreams.iter().map(|upstream| basis.tariff(*upstream)).collect()
}

impl Tariff {
    /// Cost of an attempt that is started and then cancelled: its prompt. If a cancel saves nothing, half a usual
    /// answer in addition, because the attempt may win.
    pub fn started(&self, prompt: PromptTokens, answer_tokens: f64) -> f64 {
        self.whole(prompt, if self.billed_on { answer_tokens / 2.0 } else { 0.0 })
    }

    /// The most that such an attempt costs: nothing of the prompt is cached, and a cancel that saves nothing bills a usual answer.
    pub fn worst(&self, prompt: PromptTokens, answer_tokens: f64) -> f64 {
        let prompt = PromptTokens { uncached: prompt.uncached + prompt.cached, cached: 0.0 };
        self.whole(prompt, if self.billed_on { answer_tokens } else { 0.0 })
    }

    /// Cost of an attempt with this output.
    pub fn whole(&self, prompt: PromptTokens, output_tokens: f64) -> f64 {
        prompt.uncached * self.input + prompt.cached * self.cached + output_tokens * self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_where_a_price_is_known_and_tokens_where_none_is() {
        let priced = |input, output| Some(Price { input, cached: input / 10.0, written: input, output, long: None });
        let prompt = PromptTokens { uncached: 1_000.0, cached: 500.0 };
        let cost = |upstreams: &[(Option<Price>, bool)]| -> Vec<f64> {
            let round = |cost: f64| (cost * 1e6).round() / 1e6;
            tariffs(upstreams).iter().map(|tariff| round(tariff.started(prompt, 200.0))).collect()
        };
        assert_eq!(cost(&[(None, false), (None, true)]), [1_500.0, 1_600.0]);
        assert_eq!(cost(&[(priced(1.0, 4.0), false), (priced(2.0, 8.0), true)]), [0.00105, 0.0029]);
        assert_eq!(cost(&[(priced(1.0, 8.0), false), (None, true), (priced(2.0, 4.0), false)])[1], 0.0029);
        assert_eq!(cost(&[(priced(0.0, 0.0), true)]), [0.0]);
        let worst = |billed_on| Tariff { input: 2.0, cached: 0.5, output: 8.0, billed_on }.worst(prompt, 200.0);
        assert_eq!([false, true].map(worst), [3_000.0, 4_600.0], "as if nothing were cached, and the whole answer");
    }
}
