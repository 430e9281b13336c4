//! Writes the fields of lines and spans in the text format. Text of callers and providers can neither control the
//! terminal nor look like a separate line. Not for JSON, which escapes by itself.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use crate::printable::{PrintableWriter, printable_lines};

/// The message with its further lines indented, then `name=value`.
///
/// Each request writes the fields of its spans, whether or not a line is logged within them, so a value is not copied.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor { writer, written: 0, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct FieldVisitor<'w> {
    writer: Writer<'w>,
    written: usize,
    result: fmt::Result,
}

impl FieldVisitor<'_> {
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) -> fmt::Result {
        if self.written > 0 {
            self.writer.write_char(' ')?;
        }
        self.written += 1;
        if field.name() != MESSAGE {
            let is_colourful = self.writer.has_ansi_escapes();
            let (italic, equals) = if is_colourful { ("\x1b[3m", "\x1b[0m\x1b[2m=\x1b[0m") } else { ("", "=") };
            self.writer.write_str(italic)?;
            self.writer.write_str(field.name())?;
            self.writer.write_str(equals)?;
        }
        value(&mut self.writer)
    }
}

impl Visit for FieldVisitor<'_> {
    /// As [`Visit::record_debug`] writes it; most texts need no escape.
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE || !value.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte))
        {
            return self.record_debug(field, &value);
        }
        self.result = self.result.and_then(|()| {
            self.write(field, |writer| {
                writer.write_char('"')?;
                writer.write_str(value)?;
                writer.write_char('"')
            })
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.result = self.result.and_then(|()| {
            self.write(field, |writer| match field.name() {
                MESSAGE => writer.write_str(&printable_lines(&format!("{value:?}")).replace('\n', "\n  ")),
                _ => write!(PrintableWriter(writer), "{value:?}"),
            })
        });
    }
}

/// The name of the field that holds a line's message.
const MESSAGE: &str = "message";

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_others_say_is_one_line_without_escapes() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .fmt_fields(TextFields)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let (model, error) = ("m\u{202e}x", "no\n2026-01-01 ERROR all is lost \x1b[2J");
            tracing::warn!(model, plain = "up/gpt", quote = "a\"b", %error, count = 3, "it failed");
            tracing::warn!("two\nlines");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let expected = " WARN it failed model=\"m\\u{202e}x\" plain=\"up/gpt\" quote=\"a\\\"b\" error=no\\n2026-01-01 ERROR all is lost \\u{1b}[2J count=3\n \
                        WARN two\n  lines\n";
        assert_eq!(text, expected);
    }
}
