//! What questions about costs have in common: the shadows of clients' requests count as costs, and why a range is wide is said.
//!
//! Not for sums and bounds: see `estimate::cost`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::store::{AttemptFilter, Coverage, Gather, ReadError, RollupCell, Selection, SourceFilter, StoreReader};
use photofinish_config::{CancelBilling, Config};
use photofinish_facts::estimate::ShortBytes;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::estimate::facts::{AttemptFacts, RequestFacts};

/// Gathers costs too.
pub trait GatherCosts: Gather {
    /// Only what it cost.
    fn cost(&mut self, facts: &AttemptFacts<'_>);
}

/// Reads attempts. With those of clients it reads the shadows of their requests, of which only the costs count: they are rows, as
/// far back as rows are kept.
///
/// # Errors
/// For an operator.
pub fn gather<G: GatherCosts>(
    reader: &StoreReader,
    selection: &Selection,
    make: impl Fn() -> G + Sync,
) -> Result<(G, Coverage), ReadError> {
    let (mut gathered, coverage) = reader.gather(selection, &make)?;
    if selection.filter.source == SourceFilter::Client {
        let filter = AttemptFilter { source: SourceFilter::Shadow, ..selection.filter.clone() };
        let (shadows, _) = reader.gather(&Selection { filter, ..selection.clone() }, || CostsOnly(make()))?;
        gathered.merge(shadows.0);
    }
    Ok((gathered, coverage))
}

struct CostsOnly<G>(G);

impl<G: GatherCosts> Gather for CostsOnly<G> {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        self.0.cost(facts);
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, _: &RollupCell<'_>) -> Result<(), ShortBytes> {
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

/// What cancelled attempts cost, by provider.
#[derive(Debug, Default)]
pub struct CancelledCosts(BTreeMap<String, CostSum>);

impl CancelledCosts {
    pub fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        if facts.outcome.is_cut() {
            self.add(facts.provider, &CostSum::of([facts.cost]));
        }
    }

    /// Of cancelled attempts of this provider.
    pub fn add(&mut self, provider: &str, sum: &CostSum) {
        if sum.width() == 0 && sum.open() == 0 {
            return;
        }
        if !self.0.contains_key(provider) {
            self.0.insert(provider.to_owned(), CostSum::default());
        }
        if let Some(own) = self.0.get_mut(provider) {
            own.merge(sum);
        }
    }

    pub fn merge(&mut self, other: &CancelledCosts) {
        other.0.iter().for_each(|(provider, sum)| self.add(provider, sum));
    }

    /// Why most of the range of this sum, which has these attempts, is not known, and how to find out. None: for other reasons.
    pub fn about_range(&self, all: &CostSum, config: &Config) -> Option<String> {
        let is_silent = |name: &String| {
            config.providers.get(name).is_some_and(|known| known.cancel_billing == CancelBilling::Unknown)
        };
        let mut silent: Vec<(&String, &CostSum)> = self.0.iter().filter(|(name, _)| is_silent(name)).collect();
        silent.sort_by_key(|(_, sum)| Reverse((sum.open(), sum.width())));
        let (width, open) =
            silent.iter().fold((0, 0), |(width, open), (_, sum)| (width + sum.width(), open + sum.open()));
        let is_most = open > 0 || width > 0 && width.saturating_mul(2) >= all.width();
        if silent.is_empty() || !is_most || !all.cost().is_range() {
            return None;
        }
        let names: Vec<&str> = silent.iter().map(|(name, _)| name.as_str()).collect();
        let (who, says) = match names.as_slice() {
            [one] => ((*one).to_owned(), "does"),
            [most @ .., last] => (format!("{} and {last}", most.join(", ")), "do"),
            [] => return None,
        };
        Some(format!(
            "Most of the range is there because {who} {says} not say what a cancelled request costs: compare with the vendor's own \
             bill, and set `cancel_billing` in the provider's configuration."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use photofinish_facts::estimate::cost::Cost;

    #[test]
    fn a_wide_range_says_whose_silence_it_is() {
        let toml = "[providers.a]\nbase_url = \"http://127.0.0.1:1/v1\"\ncancel_billing = \"unknown\"\n\
                    [providers.b]\nbase_url = \"http://127.0.0.1:1/v1\"\ncancel_billing = \"unknown\"\n\
                    [providers.c]\nbase_url = \"http://127.0.0.1:1/v1\"\ncancel_billing = \"bills_full\"\n";
        let config = photofinish_config::parse(toml, "config.toml".as_ref(), &|_| None).unwrap();
        let about = |parts: &[(&str, Cost)]| {
            let (mut cancelled, mut all) = (CancelledCosts::default(), CostSum::of([Cost::exactly(1.0)]));
            for (provider, cost) in parts {
                cancelled.add(provider, &CostSum::of([*cost]));
                all.merge(&CostSum::of([*cost]));
            }
            cancelled.about_range(&all, &config)
        };
        let (wide, narrow) = (Cost::between(0.0, Some(2.0)), Cost::between(0.0, Some(0.5)));
        assert!(about(&[("a", wide)]).unwrap().contains("because a does not say"));
        assert!(about(&[("a", narrow), ("b", wide)]).unwrap().contains("because b and a do not say"));
        assert!(about(&[("a", Cost::between(0.0, None)), ("c", wide)]).unwrap().contains("because a does not"));
        assert_eq!(about(&[("a", narrow), ("c", wide)]), None, "most of it has another reason");
        assert_eq!(about(&[("a", Cost::exactly(2.0))]), None);
        assert_eq!(about(&[("a", Cost::between(0.0, Some(0.0001)))]), None, "no range is shown");
        assert_eq!(about(&[("gone", wide)]), None, "nothing is known of it any more");
    }
}
