//! The text of a configuration as it was written, which shows that a newer one was cut. Not for what either means.

use secrecy::{ExposeSecret as _, SecretString};

/// It may hold secrets.
#[derive(Clone, Debug, Default)]
pub struct WrittenText(SecretString);

/// A table as it was written: its header and its lines, without comments. The first has no header.
struct WrittenTable<'t> {
    header: &'t str,
    lines: Vec<&'t str>,
}

impl WrittenText {
    pub(super) fn of(text: &str) -> WrittenText {
        WrittenText(SecretString::from(text))
    }

    /// Why this may be a half of a file that replaces `before`: it ends inside or after a table where `before` goes on, with lines or with
    /// tables that are nowhere in this text. A file that ends with a table of its own is not judged.
    pub fn is_cut_from(&self, before: &WrittenText) -> Option<String> {
        let (text, old) = (self.0.expose_secret(), tables(before.0.expose_secret()));
        let new = tables(text);
        let last = new.last()?;
        let at = old.iter().position(|table| table.header == last.header)?;
        let (same, later) = old.get(at..)?.split_first()?;
        if later.iter().any(|table| new.iter().any(|kept| kept.header == table.header)) {
            return None;
        }
        let is_half_line = |end: &&&str| {
            !text.ends_with('\n') && !same.lines.contains(end) && same.lines.iter().any(|line| line.starts_with(**end))
        };
        let half_lines = usize::from(last.lines.last().as_ref().is_some_and(is_half_line));
        let whole = last.lines.len() - half_lines;
        let gone =
            same.lines.len().saturating_sub(whole) + later.iter().map(|table| table.lines.len() + 1).sum::<usize>();
        let end = text.lines().count();
        (gone > 0).then(|| {
            format!(
                "the file ends at line {end}, and the one in force goes on there ({gone} lines): it may be half-written"
            )
        })
    }
}

fn tables(text: &str) -> Vec<WrittenTable<'_>> {
    let mut tables = vec![WrittenTable { header: "", lines: Vec::new() }];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match tables.last_mut() {
            Some(table) if !line.starts_with('[') => table.lines.push(line),
            _ => tables.push(WrittenTable { header: line, lines: Vec::new() }),
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_ends_where_the_one_before_goes_on_may_be_cut() {
        let before = "a = 1\n# c\n[x]\nb = 2000\nc = 3\n[y]\nd = 4\n";
        for (after, gone) in [
            (before, None),
            ("a = 2\n[x]\nb = 2000\nc = 3\n\n[y]\nd = 5\n# more", None),
            ("a = 1\n[y]\nd = 4\n[x]\nb = 2000\nc = 3", None),
            ("a = 1\n[x]\nb = 2\n[y]\nd = 4\n", None),
            ("a = 1\n[x]\nb = 2000\n[z]\nd = 4\n", None),
            ("a = 1\n[x]\nb = 2000\nc = 3\n", Some(2)),
            ("a = 7\n[x]\nb = 2000\n", Some(3)),
            ("a = 7\n[x]\nb = 20", Some(4)),
            ("a = 1\n[x]\nb = 2000\nc = 3\n[y]", Some(1)),
            ("a = 1\n", Some(5)),
            ("", Some(6)),
        ] {
            let cut = WrittenText::of(after).is_cut_from(&WrittenText::of(before));
            let expected = gone.map(|gone| format!("({gone} lines)"));
            assert_eq!(cut.is_some(), gone.is_some(), "{after}: {cut:?}");
            assert!(cut.unwrap_or_default().contains(&expected.unwrap_or_default()), "{after}");
        }
        let changed = |text| WrittenText::of(text).is_cut_from(&WrittenText::of("[x]\nb = 2000\n"));
        assert!(changed("[x]\nb = 20").is_some() && changed("[x]\nb = 20\n").is_none(), "a line that ends was meant");
    }
}
