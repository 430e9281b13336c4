//! Makes external text safe to show on a terminal or in a log line: names that callers choose, and messages of
//! providers. Characters that control a terminal, change the direction of writing or are invisible become escapes such
//! as `\u{202e}`.

use std::fmt::{self, Write};

/// Escapes text that is shown on one line.
pub fn printable(text: &str) -> String {
    escaped(text, is_harmful)
}

/// Escapes text of several lines, such as an answer. Line feeds and tabs stay, and so do the joiners and marks that
/// some scripts and emoji need.
pub fn printable_lines(text: &str) -> String {
    escaped(text, |c| is_harmful(c) && !matches!(c, '\n' | '\t' | '\u{200c}'..='\u{200f}' | '\u{e0020}'..='\u{e007f}'))
}

/// A client's text, for a message: quoted, and shortened if it is long.
pub fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(200).collect::<String>())
}

/// Writes text as [`printable`] shows it.
pub struct PrintableWriter<W>(pub W);

impl<W: Write> Write for PrintableWriter<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(&mut self.0, text, is_harmful)
    }
}

fn escaped(text: &str, harmful: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    // A string takes everything.
    let _ = write_escaped(&mut shown, text, harmful);
    shown
}

fn write_escaped(out: &mut impl Write, text: &str, harmful: impl Fn(char) -> bool) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(&harmful) {
        let (before, from) = rest.split_at(at);
        let mut from = from.chars();
        out.write_str(before)?;
        from.next().map_or(Ok(()), |c| write!(out, "{}", c.escape_default()))?;
        rest = from.as_str();
    }
    out.write_str(rest)
}

/// Control characters, line separators, direction marks, and characters that are invisible.
fn is_harmful(c: char) -> bool {
    // Most text.
    if matches!(c, ' '..='~') {
        return false;
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_an_escape() {
        for (text, line, lines) in [
            ("llama-3.3 70b", "llama-3.3 70b", "llama-3.3 70b"),
            ("Grüße 日本 é 😀", "Grüße 日本 é 😀", "Grüße 日本 é 😀"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\nb\tc\r", "a\\nb\\tc\\r", "a\nb\tc\\r"),
            ("\u{202e}evil\u{2066}", "\\u{202e}evil\\u{2066}", "\\u{202e}evil\\u{2066}"),
            ("a\u{61c}b\u{feff}", "a\\u{61c}b\\u{feff}", "a\\u{61c}b\\u{feff}"),
            ("a\u{200e}\u{200b}", "a\\u{200e}\\u{200b}", "a\u{200e}\\u{200b}"),
            ("👩\u{200d}💻", "👩\\u{200d}💻", "👩\u{200d}💻"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}", "\\u{9b}31m\\u{7f}"),
        ] {
            assert_eq!((printable(text).as_str(), printable_lines(text).as_str()), (line, lines), "{text:?}");
        }
    }
}
