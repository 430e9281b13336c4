//! Walks a JSON text without building anything: reads the few members that matter and skips the rest. Costs a fifth of
//! typed deserializing, and runs for every token of every stream.
//!
//! Checks the syntax of what it walks, but not whether surrogate escapes form pairs. Not for values that must be
//! understood: use `serde_json`.

mod block;
pub mod numbers;
pub mod raw_members;
pub mod surrogates;
pub mod values;

use std::borrow::Cow;

/// Nesting of JSON, unless another bound says otherwise.
const DEPTH_MAX: u32 = 64;
/// Nesting of a request, and in items of the Responses API: that of `serde_json`.
pub const SERDE_DEPTH_MAX: u32 = 128;

/// The text is not JSON, or is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidJson;

/// A position in a JSON text.
pub struct Json<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    depth_max: u32,
}

impl<'a> Json<'a> {
    pub fn new(text: &'a str) -> Json<'a> {
        Json::nested(text, DEPTH_MAX)
    }

    /// With another maximum nesting.
    pub fn nested(text: &'a str, depth_max: u32) -> Json<'a> {
        Json { text, at: 0, depth: 0, depth_max }
    }

    /// Walks an object. `member` gets each name as written and must take the value. Skips any other value.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Json<'a>) -> Result<(), InvalidJson>,
    ) -> Result<(), InvalidJson> {
        if self.peek() != Some(b'{') {
            return self.skip().map(drop);
        }
        self.enter()?;
        if self.peek() == Some(b'}') {
            return self.leave();
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(InvalidJson);
            }
            let name = self.string()?;
            self.expect(b':')?;
            member(name, self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => return self.leave(),
                _ => return Err(InvalidJson),
            }
        }
    }

    /// Walks a list. `item` must take each value. Skips any other value.
    pub fn list(&mut self, mut item: impl FnMut(&mut Json<'a>) -> Result<(), InvalidJson>) -> Result<(), InvalidJson> {
        if self.peek() != Some(b'[') {
            return self.skip().map(drop);
        }
        self.enter()?;
        if self.peek() == Some(b']') {
            return self.leave();
        }
        loop {
            item(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => return self.leave(),
                _ => return Err(InvalidJson),
            }
        }
    }

    /// Walks the values of a list that has no brackets.
    ///
    /// # Errors
    /// It is none, or `item` fails.
    pub fn listed(text: &'a str, mut item: impl FnMut(&'a str) -> Result<(), InvalidJson>) -> Result<(), InvalidJson> {
        let mut json = Json::nested(text, SERDE_DEPTH_MAX);
        if json.peek().is_none() {
            return Ok(());
        }
        loop {
            item(json.skip()?)?;
            match json.peek() {
                Some(b',') => json.at += 1,
                None => return Ok(()),
                Some(_) => return Err(InvalidJson),
            }
        }
    }

    /// Walks a whole text, see [`Json::object`]. Fails if anything follows the object.
    #[inline]
    pub fn whole(
        text: &'a str,
        member: impl FnMut(&'a str, &mut Json<'a>) -> Result<(), InvalidJson>,
    ) -> Result<(), InvalidJson> {
        Json::new(text).to_end(member)
    }

    /// The same with another maximum nesting.
    #[inline]
    pub fn to_end(
        mut self,
        member: impl FnMut(&'a str, &mut Json<'a>) -> Result<(), InvalidJson>,
    ) -> Result<(), InvalidJson> {
        self.object(member)?;
        if self.peek().is_some() { Err(InvalidJson) } else { Ok(()) }
    }

    /// Walks an object for one of its members. Skips any other value.
    pub fn member<T>(
        &mut self,
        wanted: &str,
        mut take: impl FnMut(&mut Json<'a>) -> Result<Option<T>, InvalidJson>,
    ) -> Result<Option<T>, InvalidJson> {
        let mut found = None;
        self.object(|name, json| {
            if name == wanted {
                found = take(json)?;
            } else {
                json.skip()?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Walks the members of all objects of a list, or of an object alone. Skips any other value.
    pub fn objects(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Json<'a>) -> Result<(), InvalidJson>,
    ) -> Result<(), InvalidJson> {
        self.items(|json| json.object(&mut member))
    }

    /// Walks a list as [`Json::list`] does, and an object as a list of it alone: some servers leave the brackets out.
    pub fn items(&mut self, mut item: impl FnMut(&mut Json<'a>) -> Result<(), InvalidJson>) -> Result<(), InvalidJson> {
        if self.peek() == Some(b'{') { item(self) } else { self.list(item) }
    }

    /// Takes any value and returns its text.
    pub fn skip(&mut self) -> Result<&'a str, InvalidJson> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => drop(self.string()?),
            Some(b'{') => self.object(|_, json| json.skip().map(drop))?,
            Some(b'[') => self.list(|json| json.skip().map(drop))?,
            _ => self.scalar()?,
        }
        Ok(&self.text[start..self.at])
    }

    /// Takes any value. Returns the text between the quotes of a string. None for other values.
    pub fn string_or_skip(&mut self) -> Result<Option<&'a str>, InvalidJson> {
        match self.peek() {
            Some(b'"') => self.string().map(Some),
            _ => self.skip().map(|_| None),
        }
    }

    /// Takes any value. Returns an unescaped string. None for an empty string or another value, so that an unusual
    /// vendor loses no event.
    pub fn text(&mut self) -> Result<Option<Cow<'a, str>>, InvalidJson> {
        Ok(self.string_or_skip()?.filter(|text| !text.is_empty()).and_then(unescape))
    }

    /// Takes any value. Returns its text unless it is null.
    pub fn some(&mut self) -> Result<Option<&'a str>, InvalidJson> {
        self.skip().map(|value| (value != "null").then_some(value))
    }

    /// The next byte that is not white space.
    pub fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn expect(&mut self, byte: u8) -> Result<(), InvalidJson> {
        if self.peek() != Some(byte) {
            return Err(InvalidJson);
        }
        self.at += 1;
        Ok(())
    }

    fn enter(&mut self) -> Result<(), InvalidJson> {
        self.at += 1;
        self.depth += 1;
        if self.depth > self.depth_max { Err(InvalidJson) } else { Ok(()) }
    }

    fn leave(&mut self) -> Result<(), InvalidJson> {
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    /// Called at a quote: the text up to the closing quote, with its escapes.
    fn string(&mut self) -> Result<&'a str, InvalidJson> {
        let start = self.at + 1;
        let end = string_end(self.text.as_bytes(), start).ok_or(InvalidJson)?;
        self.at = end + 1;
        Ok(&self.text[start..end])
    }

    /// A number, true, false or null.
    fn scalar(&mut self) -> Result<(), InvalidJson> {
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest
            .iter()
            .position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E'))
            .unwrap_or(rest.len());
        let word = &rest[..len];
        if !is_scalar(word) {
            return Err(InvalidJson);
        }
        self.at += len;
        Ok(())
    }
}

/// Bytes of a string after which looking at whole blocks pays off. Most strings are shorter.
const NEAR: usize = 64;

/// The index of the closing quote of a string whose content begins at `start`. None if the string is invalid.
pub fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let near = &bytes[..bytes.len().min(start + NEAR)];
    let mut at = start;
    while let Some(special) = next_special(near, at) {
        at = after_special(bytes, special)?;
        if at == special {
            return Some(special);
        }
    }
    far_end(bytes, at.max(near.len()))
}

/// The bytes of a block, and as many behind it as an escape at its end may cover.
const WINDOW: usize = block::BYTES + 8;

/// The rest of a long string, block by block.
fn far_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(window) = bytes.get(at..)?.first_chunk::<WINDOW>() {
        let (mut specials, mut last) = (block::specials(window.first_chunk()?), 0);
        while specials != 0 {
            last = specials.trailing_zeros() as usize % block::BYTES;
            if window[last] != b'\\' || ESCAPE_BYTES[usize::from(window[last + 1])] != 2 {
                let special = at + last;
                if after_special(bytes, special)? == special {
                    return Some(special);
                }
            }
            // Neither is the letter of an escape special, nor are the digits behind it.
            specials &= (u64::MAX << 2) << last;
        }
        at += block::BYTES + usize::from(last == block::BYTES - 1);
    }
    while let Some(special) = next_special(bytes, at) {
        at = after_special(bytes, special)?;
        if at == special {
            return Some(special);
        }
    }
    None
}

/// The bytes of an escape by its letter. 0: there is none.
const ESCAPE_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut letters: &[u8] = b"\"\\/bfnrt";
    while let [letter, rest @ ..] = letters {
        bytes[*letter as usize] = 2;
        letters = rest;
    }
    bytes[b'u' as usize] = 6;
    bytes
};

/// Where a string goes on after the escape at `at`. `at` itself for the quote that ends it. None: it is invalid.
#[inline]
fn after_special(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes[at] {
        b'"' => Some(at),
        b'\\' => match ESCAPE_BYTES[usize::from(*bytes.get(at + 1)?)] {
            2 => Some(at + 2),
            6 if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => Some(at + 6),
            _ => None,
        },
        _ => None,
    }
}

/// Marks the lowest byte of a word that is below the limit, and perhaps bytes above it.
#[inline]
fn below(word: u64, limit: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(LOW * limit) & !word & HIGH
}

/// The index of the first quote, backslash or control character from `at` on. Checks eight bytes a step.
fn next_special(bytes: &[u8], mut at: usize) -> Option<usize> {
    let of = |byte: u8| u64::from_ne_bytes([byte; 8]);
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*eight);
        let found = below(word ^ of(b'"'), 1) | below(word ^ of(b'\\'), 1) | below(word, 0x20);
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20)).map(|offset| at + offset)
}

/// Whether a word is a number, true, false or null.
#[inline]
pub fn is_scalar(word: &[u8]) -> bool {
    is_number(word) || matches!(word, b"null" | b"true" | b"false")
}

/// Whether a word is a JSON number.
fn is_number(word: &[u8]) -> bool {
    let digits = |rest: &mut &[u8]| {
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *rest = &rest[count..];
        count > 0
    };
    let mut rest = word.strip_prefix(b"-").unwrap_or(word);
    let zero = rest.first() == Some(&b'0');
    let whole = rest;
    let mut good = digits(&mut rest) && !(zero && whole.len() - rest.len() > 1);
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = fraction;
        good &= digits(&mut rest);
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        good &= digits(&mut rest);
    }
    good && rest.is_empty()
}

/// Unescapes the text between the quotes of a string. None if an escape is invalid.
pub fn unescape(inner: &str) -> Option<Cow<'_, str>> {
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Some(Cow::Borrowed(inner)),
        Some(_) => serde_json::from_str(&format!("\"{inner}\"")).ok().map(Cow::Owned),
    }
}

/// Counts the Unicode characters of a string. `inner` is the text between its quotes.
pub fn characters(inner: &str) -> u32 {
    let bytes = inner.as_bytes();
    let mut count = inner.chars().count();
    let mut at = 0;
    while let Some(offset) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += offset;
        if bytes.get(at + 1) == Some(&b'u') {
            // A low surrogate is the second half of a character that was already counted.
            let low =
                bytes.get(at + 2..at + 4).is_some_and(|hex| matches!(hex, [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F']));
            count = count.saturating_sub(5 + usize::from(low));
            at += 6;
        } else {
            count = count.saturating_sub(1);
            at += 2;
        }
    }
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the whole text is one valid value.
    fn walks(text: &str) -> bool {
        let mut json = Json::new(text);
        json.skip().is_ok() && json.peek().is_none()
    }

    #[test]
    fn structure_is_checked() {
        for good in [
            "{}",
            "[]",
            "-0.5E+10",
            "\"\\ud83d\"",
            " { \"a\" : [ 1 , -2.5e3 , true , null , \"x\\\"y\" ] , \"b\" : { } } ",
            "\"\"",
            "0",
        ] {
            assert!(walks(good), "{good}");
        }
        for bad in [
            "",
            "{",
            "}",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "[1 2]",
            "\"x",
            "\"\\",
            "\"\\q\"",
            "nul",
            "01",
            "1.",
            ".5",
            "1.2.3",
            "1e",
            "+1",
            "\"a\tb\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "truee",
            "1-",
            "-",
            "{}}",
        ] {
            assert!(!walks(bad), "{bad}");
        }
        assert!(!walks(&"[".repeat(100_000)), "no stack is used up");
    }

    #[test]
    fn an_escape_may_be_anywhere_in_a_block() {
        for before in NEAR - 6..NEAR + 3 * block::BYTES {
            for after in ["", &"y".repeat(100)] {
                let end = |piece: &str| string_end(format!("{}{piece}\"{after}", "x".repeat(before)).as_bytes(), 0);
                for good in ["", r"\\", r#"\""#, r#"\\\""#, r#"\u00e9\"\n"#, "é"] {
                    assert_eq!(end(good), Some(before + good.len()), "{good} behind {before}");
                }
                for bad in [r"\q", r"\u00g9", r#"\u00""#, "\u{1f}"] {
                    assert_eq!(end(bad), None, "{bad} behind {before}");
                }
            }
        }
    }

    #[test]
    fn members_are_given_as_they_stand() {
        let mut seen = Vec::new();
        let mut json = Json::new("{\"a\":\"x\\n\",\"b\":[1,{\"c\":2}],\"d\":null}");
        json.object(|name, json| {
            seen.push((name, json.some()?));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [("a", Some("\"x\\n\"")), ("b", Some("[1,{\"c\":2}]")), ("d", None)]);
        assert_eq!(unescape("x\\n").as_deref(), Some("x\n"));
        assert_eq!(unescape("\\ud800"), None);
    }

    proptest::proptest! {
        #[test]
        fn a_string_ends_where_serde_says(text in r#"([a-z"\u{0}-\u{1f}]|\\[a-z"]|\\u[0-9a-g]{4}|[^"\\\u{0}-\u{1f}]{1,100}){0,9}"#, after in "[a-z\",]{0,100}") {
            let json = format!("\"{text}\"{after}");
            let mut values = serde_json::Deserializer::from_str(&json).into_iter::<serde::de::IgnoredAny>();
            let expected = values.next().and_then(Result::ok).map(|_| values.byte_offset() - 1);
            proptest::prop_assert_eq!(string_end(json.as_bytes(), 1), expected);
        }

        #[test]
        fn what_serde_writes_is_walked_whole(text in "\\PC{0,40}", number: f64, whole: i64) {
            let value = serde_json::json!({ text.clone(): [text, { "n": number, "w": whole }, [], {}, null, true] });
            proptest::prop_assert!(walks(&value.to_string()));
            let pretty = format!("{value:#}");
            proptest::prop_assert!(walks(&pretty));
        }

        #[test]
        fn what_is_cut_short_is_broken(text in "\\PC{0,20}", cut in 0usize..1000) {
            let whole = serde_json::json!({ "a": [text, {"b": 1}] }).to_string();
            let cut = whole.floor_char_boundary(cut % whole.len());
            proptest::prop_assert!(!walks(&whole[..cut]));
        }

        #[test]
        fn never_panics(text in "[\\[\\]{}\":,a-u0-9\\\\. é-]{0,60}") {
            walks(&text);
            characters(&text);
            unescape(&text);
        }

        #[test]
        fn characters_are_counted_as_serde_counts_them(text in "\\PC{0,40}", escaped: bool) {
            let json = serde_json::to_string(&text).unwrap();
            let mut inner = json[1..json.len() - 1].to_owned();
            if escaped {
                inner = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            }
            proptest::prop_assert_eq!(characters(&inner) as usize, text.chars().count());
        }
    }
}
