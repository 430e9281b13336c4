//! Writes the fields of lines and spans in the text format. Text of callers and providers can neither control the
//! terminal nor look like a separate line. Not for JSON, which escapes by itself.

use std::fmt::{self, Write as _};

use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

use crate::printable::{PrintableWriter, printable_lines};

/// The message with its further lines indented, then `name=value`.
///
/// Each request writes the fields of its spans, whether or not a line is logged within them, so a value is not copied.
pub(super) fn write(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() == "message" {
        return writer.write_str(&printable_lines(&format!("{value:?}")).replace('\n', "\n  "));
    }
    let (italic, equals) = if writer.has_ansi_escapes() { ("\x1b[3m", "\x1b[0m\x1b[2m=\x1b[0m") } else { ("", "=") };
    writer.write_str(italic)?;
    writer.write_str(field.name())?;
    writer.write_str(equals)?;
    write!(PrintableWriter(writer), "{value:?}")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::field::MakeExt as _;
    use tracing_subscriber::fmt::format;

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
            .fmt_fields(format::debug_fn(write).delimited(" "))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let (model, error) = ("m\u{202e}x", "no\n2026-01-01 ERROR all is lost \x1b[2J");
            tracing::warn!(model, %error, count = 3, "it failed");
            tracing::warn!("two\nlines");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let expected = " WARN it failed model=\"m\\u{202e}x\" error=no\\n2026-01-01 ERROR all is lost \\u{1b}[2J count=3\n \
                        WARN two\n  lines\n";
        assert_eq!(text, expected);
    }
}
