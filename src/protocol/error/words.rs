//! The words of an error that classify it: type, code and status, in lower case.

/// Whether one of `needles` occurs in one of the words.
pub fn has_word(words: &[String], needles: &[&str]) -> bool {
    words.iter().any(|word| needles.iter().any(|needle| word.contains(needle)))
}
