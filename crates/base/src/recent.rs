//! A bounded map that forgets what was used longest ago. Not for many values: see [`Recent`].

use std::collections::HashMap;
use std::hash::Hash;

/// At most `max` values; the search for what was used longest ago goes through all of them, so not many.
#[derive(Debug)]
pub struct Recent<K, V> {
    max: usize,
    /// Raised with each use.
    uses: u64,
    values: HashMap<K, (u64, V)>,
}

impl<K: Clone + Eq + Hash, V: Clone> Recent<K, V> {
    pub fn new(max: usize) -> Recent<K, V> {
        Recent { max, uses: 0, values: HashMap::new() }
    }

    /// The value of a key; made if it is not there.
    pub fn get_or_make(&mut self, key: &K, make: impl FnOnce() -> V) -> V {
        self.uses += 1;
        if let Some((used, value)) = self.values.get_mut(key) {
            *used = self.uses;
            return value.clone();
        }
        if self.values.len() >= self.max {
            let oldest = self.values.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.map(|key| self.values.remove(&key));
        }
        let value = make();
        self.values.insert(key.clone(), (self.uses, value.clone()));
        value
    }

    /// The value of a key, if it is there.
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.uses += 1;
        let (used, value) = self.values.get_mut(key)?;
        *used = self.uses;
        Some(value.clone())
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.values.remove(key).map(|(_, value)| value)
    }

    pub fn retain(&mut self, remains: impl Fn(&K) -> bool) {
        self.values.retain(|key, _| remains(key));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.values.iter().map(|(key, (_, value))| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let mut recent = Recent::new(3);
        for key in [1, 2, 3, 1, 4] {
            recent.get_or_make(&key, || key * 10);
        }
        let mut kept: Vec<i32> = recent.iter().map(|(key, _)| *key).collect();
        kept.sort_unstable();
        assert_eq!(kept, [1, 3, 4]);
        assert_eq!((recent.get_or_make(&1, || 0), recent.get_or_make(&2, || 7)), (10, 7), "known, and made anew");
        recent.retain(|key| *key == 1);
        assert_eq!((recent.remove(&1), recent.iter().count()), (Some(10), 0));
    }
}
