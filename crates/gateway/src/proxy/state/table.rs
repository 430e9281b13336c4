//! A table within a bound of bytes: where room is short, the caller who holds most loses what was used least lately; and what was not
//! used for a time leaves. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use photofinish_base::clock::Instant;

/// What a table counts for an entry, in addition to its value: its key twice, and its places in the two maps.
const ENTRY_BYTES: usize = 256;

/// How much a table holds.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// After the last use.
    pub kept_for: Duration,
    pub bytes: usize,
}

/// Entries by their key.
pub struct BoundedTable<V> {
    entries: HashMap<String, TableEntry<V>>,
    /// Keys in the order of their last use.
    order: BTreeMap<u64, String>,
    callers: HashMap<u64, CallerShare>,
    next: u64,
    bytes: usize,
}

/// What one caller holds: places in the order of the last use, and their bytes.
#[derive(Default)]
struct CallerShare {
    places: BTreeSet<u64>,
    bytes: usize,
}

struct TableEntry<V> {
    caller: u64,
    value: V,
    bytes: usize,
    place: u64,
    used_at: Instant,
}

impl<V> Default for BoundedTable<V> {
    fn default() -> BoundedTable<V> {
        BoundedTable { entries: HashMap::new(), order: BTreeMap::new(), callers: HashMap::new(), next: 0, bytes: 0 }
    }
}

impl<V> BoundedTable<V> {
    /// Puts an entry in place of one with the same key. `bytes`: those of the value. False: it never fits, and the one before stays.
    pub fn put(
        &mut self,
        (caller, key): (u64, String),
        value: V,
        bytes: usize,
        limits: TableLimits,
        now: Instant,
    ) -> bool {
        let bytes = bytes + 2 * key.len() + ENTRY_BYTES;
        if bytes > limits.bytes {
            return false;
        }
        self.remove(&key);
        self.bytes += bytes;
        self.order.insert(self.next, key.clone());
        let share = self.callers.entry(caller).or_default();
        share.bytes += bytes;
        share.places.insert(self.next);
        self.entries.insert(key, TableEntry { caller, value, bytes, place: self.next, used_at: now });
        self.next += 1;
        self.trim(limits, now);
        true
    }

    /// An entry, which is used by that.
    pub fn get(&mut self, key: &str, limits: TableLimits, now: Instant) -> Option<&V> {
        self.trim(limits, now);
        let entry = self.entries.get_mut(key)?;
        if let Some(key) = self.order.remove(&entry.place) {
            self.order.insert(self.next, key);
            if let Some(share) = self.callers.get_mut(&entry.caller) {
                share.places.remove(&entry.place);
                share.places.insert(self.next);
            }
            (entry.place, entry.used_at) = (self.next, now);
            self.next += 1;
        }
        Some(&entry.value)
    }

    pub fn remove(&mut self, key: &str) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.place);
        self.bytes -= entry.bytes;
        if let Some(share) = self.callers.get_mut(&entry.caller) {
            share.bytes -= entry.bytes;
            share.places.remove(&entry.place);
            if share.places.is_empty() {
                self.callers.remove(&entry.caller);
            }
        }
        Some(entry.value)
    }

    /// Drops what is too old or too much.
    pub fn trim(&mut self, limits: TableLimits, now: Instant) {
        while let Some((_, key)) = self.order.first_key_value() {
            let oldest = self.entries.get(key);
            if oldest.is_some_and(|oldest| now.saturating_duration_since(oldest.used_at) < limits.kept_for) {
                break;
            }
            let key = key.clone();
            self.remove(&key);
        }
        while self.bytes > limits.bytes {
            let most = self.callers.values().max_by_key(|share| share.bytes);
            let oldest = most.and_then(|share| share.places.first()).and_then(|place| self.order.get(place));
            let Some(key) = oldest.cloned() else { return };
            self.remove(&key);
        }
    }

    /// Of all entries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TableLimits = TableLimits { kept_for: Duration::from_secs(10), bytes: 10 * (ENTRY_BYTES + 102) };

    fn got(table: &mut BoundedTable<usize>, key: &str, limits: TableLimits, now: Instant) -> Option<usize> {
        table.get(key, limits, now).copied()
    }

    fn key(number: usize) -> String {
        format!("{}", number % 10)
    }

    #[test]
    fn what_is_used_stays_and_the_rest_leaves_in_order() {
        let (mut table, now) = (BoundedTable::default(), Instant::now());
        assert!((0..10).all(|number| table.put((0, key(number)), number, 100, LIMITS, now)));
        assert_eq!(table.bytes(), LIMITS.bytes, "full");
        assert_eq!(got(&mut table, "0", LIMITS, now), Some(0));
        table.put((0, "x".to_owned()), 10, 100, LIMITS, now);
        assert_eq!((got(&mut table, "0", LIMITS, now), got(&mut table, "1", LIMITS, now)), (Some(0), None));
        table.put((0, "y".to_owned()), 11, 500, LIMITS, now);
        assert_eq!(
            (got(&mut table, "4", LIMITS, now), got(&mut table, "5", LIMITS, now)),
            (None, Some(5)),
            "a large one takes several places"
        );
        assert!(!table.put((0, "z".to_owned()), 12, LIMITS.bytes, LIMITS, now));
        assert_eq!(
            (got(&mut table, "z", LIMITS, now), got(&mut table, "0", LIMITS, now)),
            (None, Some(0)),
            "what never fits takes none"
        );
        assert!(!table.put((0, "0".to_owned()), 13, LIMITS.bytes, LIMITS, now));
        assert_eq!(got(&mut table, "0", LIMITS, now), Some(0), "and replaces none");
    }

    #[test]
    fn time_counts_from_the_last_use() {
        let (mut table, now) = (BoundedTable::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        table.put((0, "a".to_owned()), 1, 10, LIMITS, now);
        table.put((0, "b".to_owned()), 2, 10, LIMITS, now);
        assert_eq!(got(&mut table, "a", LIMITS, at(9)), Some(1));
        assert_eq!((got(&mut table, "b", LIMITS, at(11)), got(&mut table, "a", LIMITS, at(18))), (None, Some(1)));
        assert_eq!(table.remove("a"), Some(1));
        assert_eq!((table.bytes(), table.order.len(), table.entries.len(), table.callers.len()), (0, 0, 0, 0));
    }

    #[test]
    fn a_hundred_thousand_answers_stay_within_the_bound() {
        let (mut table, now) = (BoundedTable::default(), Instant::now());
        let limits = TableLimits { bytes: 8 << 20, ..LIMITS };
        for number in 0..100_000 {
            table.put((number as u64 % 7, format!("resp_{number}")), number, 1_000 + number % 7_000, limits, now);
            assert!(table.bytes() <= limits.bytes);
        }
        assert_eq!(got(&mut table, "resp_99999", limits, now), Some(99_999));
        assert!(table.entries.len() == table.order.len() && table.entries.len() > 1_000, "{}", table.entries.len());
    }

    #[test]
    fn who_holds_most_gives_way() {
        let (mut table, now) = (BoundedTable::default(), Instant::now());
        for number in 0..3 {
            table.put((1, format!("mine{number}")), number, 100, LIMITS, now);
        }
        for number in 0..1_000 {
            assert!(table.put((2, format!("theirs{number}")), number, 100, LIMITS, now));
        }
        assert!((0..3).all(|number| got(&mut table, &format!("mine{number}"), LIMITS, now).is_some()));
        assert_eq!(got(&mut table, "theirs999", LIMITS, now), Some(999), "the newest stays");
        assert!(table.bytes() <= LIMITS.bytes && table.entries.len() >= 9);
    }
}
