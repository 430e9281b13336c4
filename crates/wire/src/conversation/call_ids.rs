//! Makes the call ids of a history unique and valid for a vendor.
//!
//! Some vendors restart counting in each answer (`call_0`), others refuse a repeated id. A call with a used id gets a
//! new one, and the results after it follow.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;

photofinish_base::named! {
    /// The form of ids.
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum CallIdForm {
        Any = "any",
        /// Letters, digits, `_` and `-`, 40 at most.
        Forty = "forty",
        /// Exactly nine letters and digits.
        Nine = "nine",
    }
}

/// The ids of one request.
pub struct CallIds {
    /// Makes an id valid for the vendor (length, ASCII characters). Must be a pure function.
    fit: fn(&str) -> String,
    /// Another id of this base, by number, where the first one is used.
    renew: fn(&str, u64, usize) -> String,
    /// Maximum bytes of an id.
    most: usize,
    known: HashMap<String, KnownCall>,
    given: HashSet<String>,
    /// The suffix for a used id.
    next: u64,
}

/// The ids assigned to an original id.
#[derive(Default)]
struct KnownCall {
    last: String,
    /// Calls that have no result yet.
    open: VecDeque<String>,
}

impl CallIds {
    pub fn new(fit: fn(&str) -> String, most: usize) -> CallIds {
        CallIds { fit, renew: suffixed, most, known: HashMap::new(), given: HashSet::new(), next: 1 }
    }

    /// As this vendor takes them. None: it takes any.
    pub fn of_form(form: CallIdForm) -> Option<CallIds> {
        match form {
            CallIdForm::Any => None,
            CallIdForm::Forty => Some(CallIds::new(|id| fitted(id, 40), 40)),
            CallIdForm::Nine => Some(CallIds::of_nine()),
        }
    }

    /// Of exactly nine letters and digits.
    fn of_nine() -> CallIds {
        CallIds { renew: |base, number, _| nine(&format!("{base}_{number}")), ..CallIds::new(nine, NINE) }
    }

    /// The id of a call.
    pub fn call(&mut self, id: &str) -> String {
        let given = self.give(id);
        let known = self.known.entry(id.to_owned()).or_default();
        known.open.push_back(given.clone());
        known.last.clone_from(&given);
        given
    }

    /// The id of the call that a result answers.
    pub fn result(&mut self, id: &str) -> String {
        if let Some(known) = self.known.get_mut(id) {
            return known.open.pop_front().unwrap_or_else(|| known.last.clone());
        }
        let given = self.give(id);
        self.known.insert(id.to_owned(), KnownCall { last: given.clone(), open: VecDeque::new() });
        given
    }

    fn give(&mut self, id: &str) -> String {
        let base = (self.fit)(id);
        let mut given = base.clone();
        while given.is_empty() || !self.given.insert(given.clone()) {
            given = (self.renew)(&base, self.next, self.most);
            self.next += 1;
        }
        given
    }
}

/// The base with a number behind it.
pub fn suffixed(base: &str, number: u64, most: usize) -> String {
    let number = number.to_string();
    let kept = base.get(..base.len().min(most.saturating_sub(number.len() + 1))).unwrap_or_default();
    format!("{kept}_{number}")
}

/// At most this number of letters, digits, `_` and `-`: a checksum replaces the end of what is cut.
pub fn fitted(name: &str, most: usize) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect();
    if plain == name && name.len() <= most {
        return plain;
    }
    let kept = plain.get(..plain.len().min(most.saturating_sub(NINE + 1))).unwrap_or_default();
    format!("{kept}_{}", nine(name))
}

const NINE: usize = 9;

/// The id itself if it has nine letters and digits, else nine that are made from it.
pub fn nine(id: &str) -> String {
    if id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    let mut left = hasher.finish();
    let mut digit = || {
        let digit = DIGITS[(left % DIGITS.len() as u64) as usize];
        left /= DIGITS.len() as u64;
        char::from(digit)
    };
    (0..NINE).map(|_| digit()).collect()
}

// Calls of a conversation that wait for their results, for surfaces whose clients may send neither id.

/// In order of the calls.
#[derive(Default)]
pub struct OpenCalls {
    /// Ids and names.
    open: Vec<(String, String)>,
    /// Calls so far.
    count: usize,
}

impl OpenCalls {
    /// Adds a call, and returns its id: its own, or one by its number.
    pub fn call(&mut self, id: Option<String>, name: &str) -> String {
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{}", self.count));
        self.count += 1;
        self.open.push((id.clone(), name.to_owned()));
        id
    }

    /// Id and name of the call that a result belongs to: the one with its id, else the first of its function, else the
    /// first. None without an open call.
    pub fn answer(&mut self, id: Option<&str>, name: Option<&str>) -> Option<(String, String)> {
        let by_id = self.open.iter().position(|(open, _)| id == Some(open));
        let by_name = || self.open.iter().position(|(_, open)| name == Some(open));
        let at = by_id.or_else(by_name).or((!self.open.is_empty()).then_some(0))?;
        Some(self.open.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_stay_apart_and_results_find_theirs() {
        let mut ids = CallIds::new(str::to_owned, 8);
        assert_eq!([ids.call("call_0"), ids.call("call_1")], ["call_0", "call_1"]);
        assert_eq!([ids.result("call_1"), ids.result("call_0")], ["call_1", "call_0"]);
        assert_eq!([ids.call("call_0"), ids.result("call_0"), ids.result("call_0")], ["call_0_1"; 3]);
        assert_eq!([ids.call("a"), ids.call("a"), ids.result("a"), ids.result("a")], ["a", "a_2", "a", "a_2"]);
        assert_eq!([ids.result("nobody's"), ids.call("")], ["nobody's", "_3"]);
        assert_eq!([ids.call("12345678"), ids.call("12345678")], ["12345678", "123456_4"]);
    }

    #[test]
    fn nine_letters_and_digits_stay_and_others_become_nine() {
        let mut ids = CallIds::of_nine();
        assert_eq!(ids.call("aB3dE6gH9"), "aB3dE6gH9");
        let odd = ["call_0", "toolu_01A09q90qw90lq917835lq9", "", "aB3dE6gH-", "ä"];
        let made: Vec<String> = odd.iter().map(|id| ids.call(id)).collect();
        for (id, made) in odd.iter().zip(&made) {
            assert!(made.len() == NINE && made.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}: {made}");
            assert_eq!((ids.result(id), CallIds::of_nine().call(id)), (made.clone(), made.clone()));
        }
        let again = ids.call("call_0");
        assert!(again != made[0] && again.len() == NINE && ids.result("call_0") == again);
    }
}
