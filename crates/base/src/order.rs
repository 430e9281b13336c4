//! A stable sort with little code. The standard library's has five kilobytes for each type and comparison, in a hundred places. Not
//! for many items that have to be sorted fast: it moves each through an index.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Up to so many items are sorted where they are.
const FEW: usize = 16;

pub trait StableSort<T> {
    fn stable_sort_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    fn stable_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.stable_sort_by(|one, other| key(one).cmp(&key(other)));
    }

    fn stable_sort(&mut self)
    where
        T: Ord,
    {
        self.stable_sort_by(T::cmp);
    }
}

impl<T> StableSort<T> for [T] {
    fn stable_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        if self.len() <= FEW {
            for end in 1..self.len() {
                let mut at = end;
                while at > 0 && compare(&self[at], &self[at - 1]).is_lt() {
                    self.swap(at, at - 1);
                    at -= 1;
                }
            }
            return;
        }
        let mut from = in_order(self.len(), &mut |one, other| compare(&self[one], &self[other]));
        for place in 0..self.len() {
            // Fills a place from where its item is, and that place from its own, until the circle is closed.
            let mut to = place;
            while from[to] != place {
                let next = std::mem::replace(&mut from[to], to);
                self.swap(to, next);
                to = next;
            }
            from[to] = to;
        }
    }
}

/// The places of so many items in order.
#[inline(never)]
fn in_order(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    places.sort_by(|one, other| compare(*one, *other));
    places
}

/// Makes a map item by item: `collect` has a sort for each type of map.
pub trait IntoMap<K, V> {
    /// Of items with the same key the last one counts.
    fn into_map(self) -> BTreeMap<K, V>;
}

impl<K: Ord, V, I: Iterator<Item = (K, V)>> IntoMap<K, V> for I {
    fn into_map(self) -> BTreeMap<K, V> {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }
}

/// Makes a set item by item.
pub trait IntoSet<T> {
    fn into_set(self) -> BTreeSet<T>;
}

impl<T: Ord, I: Iterator<Item = T>> IntoSet<T> for I {
    fn into_set(self) -> BTreeSet<T> {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_as_the_standard_library_does() {
        let mut random = 7_u32;
        for len in (0..40).chain([200, 1_000]) {
            for values in [2, 10, 1_000] {
                let mut draw = || {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    random >> 16
                };
                let mut items: Vec<(u32, String)> =
                    (0..len).map(|number| (draw() % values, number.to_string())).collect();
                let mut expected = items.clone();
                expected.sort_by_key(|(value, _)| *value);
                items.stable_sort_by_key(|(value, _)| *value);
                assert_eq!(items, expected);
                expected.sort();
                items.stable_sort();
                assert_eq!(items, expected);
            }
        }
    }
}
