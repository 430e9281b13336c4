//! Names as numbers. Gatherers look a name up for every attempt, so they must not copy it each time.

use std::collections::HashMap;

/// Each name once.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    places: HashMap<String, usize>,
    names: Vec<String>,
    /// The upstream that was looked up last; it keeps its memory.
    upstream: String,
}

impl NameIndex {
    pub fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    /// The place of `PROVIDER/MODEL`.
    pub fn upstream(&mut self, (provider, model_sent): (&str, &str)) -> usize {
        let mut name = std::mem::take(&mut self.upstream);
        name.clear();
        [provider, "/", model_sent].iter().for_each(|part| name.push_str(part));
        let place = self.place(&name);
        self.upstream = name;
        place
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}
