//! Removes a key from a provider's text, plain and escaped: `\u0073` and `\/` of JSON, also of JSON within JSON, and
//! `%73` of URLs. Linear in the text. Not for other encodings such as base64: a caller who reveals a key to its own
//! owner gains nothing.

use bytes::Bytes;

/// The replacement for the key.
const INSTEAD: &[u8] = b"***";

/// Shorter keys are placeholders for servers that need none (`x`, `none`, `EMPTY`). They also occur in ordinary words.
const SECRET_LEAST: usize = 6;

/// The text without `key`. None if the text does not contain it.
pub fn without(text: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < SECRET_LEAST {
        return None;
    }
    let plain = memchr::memmem::find(text, key).is_some().then(|| {
        let mut ends = memchr::memmem::find_iter(text, key).map(|start| (start, start + key.len()));
        cut(text, &mut ends)
    });
    let rest = plain.as_deref().unwrap_or(text);
    let escaped = may_escape(rest, key).then(|| find_escaped(rest, key)).filter(|places| !places.is_empty());
    escaped.map(|places| cut(rest, &mut places.into_iter())).or(plain)
}

fn cut(text: &[u8], places: &mut dyn Iterator<Item = (usize, usize)>) -> Vec<u8> {
    let (mut kept, mut from) = (Vec::with_capacity(text.len()), 0);
    for (start, end) in places {
        kept.extend_from_slice(&text[from..start]);
        kept.extend_from_slice(INSTEAD);
        from = end;
    }
    kept.extend_from_slice(&text[from..]);
    kept
}

/// Bytes of a text that wait for what follows them. More are no beginning of a key.
const HELD_MAX: usize = 4 << 10;

/// Masks a key in a text that comes in pieces: each of its bytes becomes a star, so that the length stays.
#[derive(Default)]
pub struct ScrubbedPieces {
    /// The end of the last piece, if a key may begin there.
    held: Vec<u8>,
}

impl ScrubbedPieces {
    /// The next piece, as far as it is known that no key ends behind it.
    pub fn push(&mut self, piece: Bytes, key: &[u8]) -> Bytes {
        let may_begin = || memchr::memchr3(b'\\', b'%', key.first().copied().unwrap_or_default(), &piece).is_some();
        if key.len() < SECRET_LEAST || self.held.is_empty() && !may_begin() {
            return piece;
        }
        let mut found = if self.held.is_empty() { Some(find_in_piece(&piece, key, false)) } else { None };
        if found.as_ref().is_some_and(|(places, waits)| places.is_empty() && *waits == piece.len()) {
            return piece;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&piece);
        let (places, waits) = found.take().unwrap_or_else(|| find_in_piece(&text, key, false));
        for (start, end) in places {
            text[start..end].fill(b'*');
        }
        if text.len() - waits <= HELD_MAX {
            self.held = text.split_off(waits);
        }
        text.into()
    }

    /// The end of the text.
    pub fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }
}

/// Whether any byte of the key may be escaped. Providers escape other characters in good answers.
fn may_escape(text: &[u8], key: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\\', b'%', &text[from..]) {
        let (byte, length) = unescape(&text[from + at..]);
        if length > 1 && byte != b'\\' && key.contains(&byte) {
            return true;
        }
        from += at + length;
    }
    false
}

/// The places of the key, escaped or not: the Knuth–Morris–Pratt search over the unescaped bytes.
fn find_escaped(text: &[u8], key: &[u8]) -> Vec<(usize, usize)> {
    find_in_piece(text, key, true).0
}

/// The same, and where a key begins that may go on behind the end, if more follows.
fn find_in_piece(text: &[u8], key: &[u8], is_end: bool) -> (Vec<(usize, usize)>, usize) {
    let borders = borders(key);
    let (mut places, mut matched, mut at) = (Vec::new(), 0, 0);
    // Where each of the latest bytes began; as many entries as the key has bytes.
    let mut begins = vec![0; key.len()];
    let mut read = 0;
    while at < text.len() && (is_end || !is_cut(&text[at..])) {
        let (byte, length) = unescape(&text[at..]);
        begins[read % key.len()] = at;
        read += 1;
        at += length;
        while matched > 0 && key[matched] != byte {
            matched = borders[matched - 1];
        }
        if key[matched] == byte {
            matched += 1;
        }
        if matched == key.len() {
            places.push((begins[(read - key.len()) % key.len()], at));
            matched = 0;
        }
    }
    (places, if matched == 0 { at } else { begins[(read - matched) % key.len()] })
}

/// Whether an escape that begins here goes on behind the end.
fn is_cut(text: &[u8]) -> bool {
    match text[0] {
        b'%' => text.len() < 3,
        b'\\' => {
            let run = text.iter().take_while(|byte| **byte == b'\\').count();
            text.get(run).is_none_or(|byte| *byte == b'u' && text.len() < run + 5)
        }
        _ => false,
    }
}

/// For each prefix of the key, the length of its longest proper prefix that is also its suffix.
fn borders(key: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; key.len()];
    let mut matched = 0;
    for at in 1..key.len() {
        while matched > 0 && key[matched] != key[at] {
            matched = borders[matched - 1];
        }
        if key[matched] == key[at] {
            matched += 1;
        }
        borders[at] = matched;
    }
    borders
}

/// The first unescaped byte of a text, and the length of its written form.
fn unescape(text: &[u8]) -> (u8, usize) {
    match text[0] {
        b'%' => match hex(text.get(1..3)) {
            Some(byte) => (u8::try_from(byte).unwrap_or(0), 3),
            None => (b'%', 1),
        },
        b'\\' => {
            // JSON within JSON escapes the backslashes of the inner one.
            let run = text.iter().take_while(|byte| **byte == b'\\').count();
            match text.get(run) {
                Some(b'u') => match hex(text.get(run + 1..run + 5)) {
                    Some(code) => (u8::try_from(code).unwrap_or(0), run + 5),
                    None => (b'\\', run),
                },
                Some(byte @ (b'/' | b'"')) => (*byte, run + 1),
                _ => (b'\\', run),
            }
        }
        byte => (byte, 1),
    }
}

fn hex(digits: Option<&[u8]>) -> Option<u32> {
    digits?.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(text: &str, key: &str) -> Option<String> {
        without(text.as_bytes(), key.as_bytes()).map(|clean| String::from_utf8(clean).unwrap())
    }

    #[test]
    fn a_key_is_taken_out_however_it_is_written() {
        for (text, expected) in [
            ("bad key sk-p/1.", Some("bad key ***.")),
            (r"bad key sk-p\/1.", Some("bad key ***.")),
            (r"sk-p\\\/1 sk-p/1", Some("*** ***")),
            (r"\u0073\u006b\u002D\u0070\u002f1", Some("***")),
            (r"\\u0073\\u006B-p/1, and on", Some("***, and on")),
            ("key=sk-p%2f1&k2=%73%6B%2Dp%2F1", Some("key=***&k2=***")),
            (r"ssk-p\/1", Some("s***")),
            (r"sk-sk-p\/1", Some("sk-***")),
            (r"sk-p\/2", None),
            (r"\u0073\u006", None),
            ("%73%6", None),
            (r"100 % of caf\u00e9s\n\", None),
            ("", None),
        ] {
            assert_eq!(scrubbed(text, "sk-p/1").as_deref(), expected, "{text}");
        }
        assert_eq!((scrubbed("anything", ""), scrubbed("anything", "thing")), (None, None));
        assert_eq!(scrubbed("aa%41b", "aa%41b").as_deref(), Some("***"), "a key that looks escaped itself");
        assert_eq!(scrubbed(r"xaaaaa\u0061ab", "aaaaab").as_deref(), Some("xaa***"));
    }

    #[test]
    fn a_key_is_masked_wherever_the_pieces_are_cut() {
        let key = b"sk-p/1";
        for (text, expected) in [
            ("bad key sk-p/1.", "bad key ******."),
            (r"ask-p\/1 ssk-p/1", r"a******* s******"),
            (r"\u0073\u006b\u002D\u0070\u002f1!", "*******************************!"),
            ("k=sk-p%2f1&k2=%73%6B%2Dp%2F1&%7", "k=********&k2=**************&%7"),
            (r"sk-sk-p\\\/1\\", r"sk-*********\\"),
            ("no key, 100 % of sk-p and sk-", "no key, 100 % of sk-p and sk-"),
        ] {
            for size in 1..=text.len() {
                let mut pieces = ScrubbedPieces::default();
                let mut clean: Vec<u8> = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    clean.extend(pieces.push(Bytes::copy_from_slice(piece), key));
                }
                clean.extend(pieces.finish());
                assert_eq!(String::from_utf8(clean).unwrap(), expected, "{text} in pieces of {size}");
            }
        }
        let (mut pieces, event) = (ScrubbedPieces::default(), Bytes::from_static(b"data: class\n\n"));
        assert_eq!(pieces.push(event.clone(), key), event, "an event waits for nothing");
        let run = Bytes::from(vec![b'\\'; HELD_MAX + 1]);
        assert_eq!(pieces.push(run.clone(), key), run, "what waits is bounded");
    }

    #[test]
    fn the_work_is_linear() {
        // Each would take minutes if the search looked ahead again at every byte.
        for part in [r"\", r"\u0073", "%73", "sk-p", r"\u00", "s"] {
            let text = part.repeat((4 << 20) / part.len());
            assert_eq!(without(text.as_bytes(), b"sk-p/1"), None, "{part}");
        }
    }
}
