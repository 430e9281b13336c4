//! The words of an error that classify it: its type, code and status, lower case.

/// Whether one of these is part of one of the words.
pub fn has_word(words: &[String], needles: &[&str]) -> bool {
    words.iter().any(|word| needles.iter().any(|needle| word.contains(needle)))
}
