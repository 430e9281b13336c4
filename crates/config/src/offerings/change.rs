//! What differs between two versions of the catalogue: rows that are new or gone, and prices that moved.
//!
//! Not for whether a newer version may be used: see `refresh`.

use std::fmt;

use super::catalogue::ModelCatalogue;
use super::offering::{Offering, PriceTier};

/// A price that moved by less is the same.
const SAME_WITHIN: f64 = 1.10;

/// The difference between two versions of the catalogue. Upstreams are sorted by name.
#[derive(Debug, Default)]
pub struct CatalogueChange {
    /// Rows of the older version.
    pub rows_before: usize,
    /// Upstreams with a row in the newer version alone.
    pub added: Vec<String>,
    /// Upstreams with a row in the older version alone.
    pub gone: Vec<String>,
    /// Prices of the older version that moved by more than 10 %, or that the newer version does not know.
    pub moved: Vec<PriceMove>,
}

/// One price of one upstream in two versions of the catalogue, in USD per million tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceMove {
    pub upstream: String,
    /// Which price: `input`, or `input above 200000` for long prompts.
    pub price: String,
    pub before: f64,
    /// None: the newer version does not know it.
    pub after: Option<f64>,
}

impl PriceMove {
    /// How many times larger the larger one is; infinite if one of them is 0 or unknown.
    pub fn ratio(&self) -> f64 {
        match self.after {
            Some(after) if after == self.before => 1.0,
            Some(after) => (after / self.before).max(self.before / after),
            None => f64::INFINITY,
        }
    }
}

/// Such as `groq/openai/gpt-oss-120b output $0.6 → $6`.
impl fmt::Display for PriceMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ${} → ", self.upstream, self.price, self.before)?;
        match self.after {
            Some(after) => write!(f, "${after}"),
            None => f.write_str("unknown"),
        }
    }
}

impl CatalogueChange {
    pub fn between(before: &ModelCatalogue, after: &ModelCatalogue) -> CatalogueChange {
        let missing = |from: &ModelCatalogue, of: &ModelCatalogue| {
            let rows = of.offerings().filter(|row| from.offering(&row.provider, &row.id).is_none());
            let mut upstreams: Vec<String> = rows.map(|row| row.upstream()).collect();
            upstreams.sort();
            upstreams
        };
        let both = before.offerings().filter_map(|row| Some((row, after.offering(&row.provider, &row.id)?)));
        let mut moved: Vec<PriceMove> = both.flat_map(|(before, after)| moves(before, after)).collect();
        moved.sort_by(|one, other| (&one.upstream, &one.price).cmp(&(&other.upstream, &other.price)));
        CatalogueChange {
            rows_before: before.len(),
            added: missing(before, after),
            gone: missing(after, before),
            moved,
        }
    }

    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.gone.is_empty() && self.moved.is_empty()
    }
}

/// The usual prices as a tier of their own.
fn usual(row: &Offering) -> PriceTier {
    PriceTier { above: 0, input: row.input, cached: row.cached, written: row.written, output: row.output }
}

/// What a prompt of more than `above` tokens costs.
fn tier(row: &Offering, above: u64) -> PriceTier {
    let usual = usual(row);
    let Some(tier) = row.tiers.iter().rev().find(|tier| tier.above <= above) else { return usual };
    PriceTier {
        above,
        input: tier.input.or(usual.input),
        cached: tier.cached.or(usual.cached),
        written: tier.written.or(usual.written),
        output: tier.output.or(usual.output),
    }
}

fn moves(before: &Offering, after: &Offering) -> Vec<PriceMove> {
    let mut limits: Vec<u64> = before.tiers.iter().chain(&after.tiers).map(|tier| tier.above).collect();
    limits.push(0);
    limits.sort_unstable();
    limits.dedup();
    let mut moved = Vec::new();
    for above in limits {
        let (old, new) = (tier(before, above), tier(after, above));
        for (name, old, new) in [
            ("input", old.input, new.input),
            ("cached", old.cached, new.cached),
            ("written", old.written, new.written),
            ("output", old.output, new.output),
        ] {
            let price = if above == 0 { name.to_owned() } else { format!("{name} above {above}") };
            let change = old.map(|old| PriceMove { upstream: before.upstream(), price, before: old, after: new });
            moved.extend(change.filter(|change| change.ratio() > SAME_WITHIN));
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(rows: &str) -> ModelCatalogue {
        let columns = r#"["id","model","input","cached","output","tiers"]"#;
        let text = format!(
            r#"{{"format":1,"date":"2026-11-22","sources":{{}},"columns":{columns},"models":[],"rows":{rows}}}"#
        );
        ModelCatalogue::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn rows_and_prices_are_compared() {
        let before =
            catalogue(r#"{"groq":[["same",null,1],["gone",null,1],["near",null,1,1,1]],"zai":[["free",null,0,0,2]]}"#);
        let after =
            catalogue(r#"{"groq":[["same",null,1],["near",null,1.09,0.5,4],["new"]],"zai":[["free",null,1,0]]}"#);
        let change = CatalogueChange::between(&before, &after);
        assert_eq!(
            (change.rows_before, change.added, change.gone),
            (4, vec!["groq/new".to_owned()], vec!["groq/gone".to_owned()])
        );
        let moved: Vec<_> = change.moved.iter().map(|moved| (&*moved.upstream, &*moved.price, moved.ratio())).collect();
        let endless = f64::INFINITY;
        let expected = [
            ("groq/near", "cached", 2.0),
            ("groq/near", "output", 4.0),
            ("zai/free", "input", endless),
            ("zai/free", "output", endless),
        ];
        assert_eq!(moved, expected, "an unknown price moved as far as can be");
        assert!(CatalogueChange::between(&before, &before).is_empty());
    }

    #[test]
    fn a_new_tier_is_a_move_of_its_long_prompts() {
        let before = catalogue(r#"{"zai":[["x",null,1,null,2]]}"#);
        let after = catalogue(r#"{"zai":[["x",null,1,null,2,[[1000,9,null,null,2]]]]}"#);
        let change = CatalogueChange::between(&before, &after);
        let dear =
            PriceMove { upstream: "zai/x".into(), price: "input above 1000".into(), before: 1.0, after: Some(9.0) };
        assert_eq!(change.moved, [dear]);
        assert_eq!(CatalogueChange::between(&after, &before).moved[0].after, Some(1.0));
    }
}
