//! Series by the value of a label. Only configured names get a separate series, because callers can send any name; the
//! others share one.
//!
//! Not for the figures of a series.

use std::collections::HashMap;
use std::sync::Arc;

/// The label value of names that are not configured.
pub(super) const OTHER: &str = "other";

/// One `S` per name.
#[derive(Debug)]
pub(super) struct NamedSeries<S> {
    /// In the order of the configuration.
    own: Vec<(String, Arc<S>)>,
    /// From a name to its place.
    places: HashMap<String, usize>,
    other: Arc<S>,
}

impl<S> NamedSeries<S> {
    pub fn new(make: impl Fn() -> S) -> NamedSeries<S> {
        NamedSeries { own: Vec::new(), places: HashMap::new(), other: Arc::new(make()) }
    }

    /// The series of these names, at most `max`; their counts are kept.
    pub fn renamed(&self, names: impl IntoIterator<Item = String>, max: usize, make: impl Fn() -> S) -> NamedSeries<S> {
        let mut next = NamedSeries { own: Vec::new(), places: HashMap::new(), other: self.other.clone() };
        for name in names {
            if next.own.len() < max && name != OTHER && !next.places.contains_key(&name) {
                let series = self.own_of(&name).cloned().unwrap_or_else(|| Arc::new(make()));
                next.places.insert(name.clone(), next.own.len());
                next.own.push((name, series));
            }
        }
        next
    }

    pub fn of(&self, name: &str) -> &S {
        self.own_of(name).unwrap_or(&self.other)
    }

    /// [`NamedSeries::of`], to keep.
    pub fn shared(&self, name: &str) -> Arc<S> {
        Arc::clone(self.own_of(name).unwrap_or(&self.other))
    }

    /// The label value of this name.
    pub fn label(&self, name: &str) -> &str {
        self.places.get(name).map_or(OTHER, |place| &self.own[*place].0)
    }

    /// The series with their label values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &S)> {
        let own = self.own.iter().map(|(name, series)| (name.as_str(), series.as_ref()));
        own.chain([(OTHER, self.other.as_ref())])
    }

    fn own_of(&self, name: &str) -> Option<&Arc<S>> {
        self.places.get(name).map(|place| &self.own[*place].1)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn shown(series: &NamedSeries<Cell<u32>>) -> Vec<(&str, u32)> {
        series.iter().map(|(name, count)| (name, count.get())).collect()
    }

    #[test]
    fn only_known_names_have_a_series_of_their_own() {
        let series =
            NamedSeries::new(Cell::default).renamed(names(&["a", "b", "a", "other", "c", "d"]), 3, Cell::default);
        for (name, count) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("other", 10), ("x", 20)] {
            let cell = series.of(name);
            cell.set(cell.get() + count);
        }
        assert_eq!(shown(&series), [("a", 1), ("b", 2), ("c", 3), ("other", 34)]);
        assert_eq!(["a", "d", "x"].map(|name| series.label(name)), ["a", "other", "other"]);

        let series = series.renamed(names(&["d", "b"]), 3, Cell::default);
        series.of("a").set(65);
        assert_eq!(shown(&series), [("d", 0), ("b", 2), ("other", 65)]);
    }
}
