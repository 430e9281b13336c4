//! The words of an error that classify it: type, code and status, in lower case.

/// Whether one of `needles` occurs in one of the words. Vendors write `rate_limit`, `rate-limit` and `RateLimit`.
pub fn has_word(words: &[String], needles: &[&str]) -> bool {
    words.iter().any(|word| {
        let letters = letters(word);
        // `image_` is not the same as `image`.
        let alike = |needle: &str| needle.trim_matches('_') == needle && letters.contains(&self::letters(needle));
        needles.iter().any(|needle| word.contains(needle) || alike(needle))
    })
}

fn letters(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).collect()
}
