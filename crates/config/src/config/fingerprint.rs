//! Tells one text of a configuration from another, in few letters. Not for its content: nobody can guess it from the fingerprint, which
//! differs from process to process.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// Identifies a text within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    hash: u64,
    /// The text says nothing: it has no line but comments.
    pub is_blank: bool,
}

/// Drawn at the start: otherwise a reader of the log could try out which token makes it.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    pub(super) fn of(text: &str) -> Fingerprint {
        let says_nothing = |line: &str| line.is_empty() || line.starts_with('#');
        Fingerprint { hash: KEY.hash_one(text), is_blank: text.lines().map(str::trim).all(says_nothing) }
    }
}

impl fmt::Display for Fingerprint {
    /// Twelve hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.hash >> 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_and_a_text_without_content_is_blank() {
        let (one, other) = (Fingerprint::of("[users.ann]\n"), Fingerprint::of("[users.bob]\n"));
        assert!(one == Fingerprint::of("[users.ann]\n") && one != other);
        assert!(one.to_string() != other.to_string() && one.to_string().len() == 12);
        for (text, is_blank) in [("", true), ("\n \t\n# a comment\n  # another", true), ("a = 1 # one", false)] {
            assert_eq!(Fingerprint::of(text).is_blank, is_blank, "{text:?}");
        }
    }
}
