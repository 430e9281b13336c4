//! The log: lines on standard error, as text or as JSON, each with the names of its request and attempt.
//!
//! Keys, prompts and answers must not appear in any line. Not for figures: see `metrics` and the rows.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IsTerminal};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{self, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, registry};

use self::context::ContextLevel;
pub use self::context::{EnteredContext, InContext, LogContext, WithLogContext};
use crate::printable::{PrintableWriter, printable_lines};

mod context;

/// The variable with the log filter, e.g. `debug` or `photofinish=debug`.
pub const LOG_VARIABLE: &str = "PHOTOFINISH_LOG";

/// The log filter if the variable is not set.
pub const DEFAULT: LevelFilter = LevelFilter::INFO;

/// These libraries log single frames, statements and notices of Postgres, which may contain secrets. So their level is fixed, unless the
/// variable names a part of one, such as `h2::codec=debug`. The store reports in its own words what a notice warns of.
const QUIET: [(&str, LevelFilter); 4] = [
    ("h2", LevelFilter::WARN),
    ("hyper", LevelFilter::WARN),
    ("rustls", LevelFilter::WARN),
    ("sqlx", LevelFilter::ERROR),
];

/// Starts the log; `default` is the log filter if the variable is not set. Later calls do nothing, so that tests may
/// start several gateways in one process.
pub fn start(default: LevelFilter, format: LogFormat) {
    let (filter, wrong) = match std::env::var_os(LOG_VARIABLE).filter(|value| !value.is_empty()) {
        None => (Targets::new().with_default(default), false),
        Some(value) => match value.to_str().and_then(|value| value.parse::<Targets>().ok()) {
            Some(filter) => (filter, false),
            None => (Targets::new().with_default(DEFAULT), true),
        },
    };
    let filter = filter.with_targets(QUIET);
    // At debug level and below, all lines are written.
    let bounded = Layer::<Registry>::max_level_hint(&filter).is_none_or(|level| level <= LevelFilter::INFO);
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(io::stderr);
    // A second start fails because the subscriber of the first one is in place, and stays.
    let _ = match format {
        LogFormat::Text => {
            let text = LimitedStderr::new(bounded, format, format::format().with_target(false));
            registry().with(filter).with(log.event_format(text).fmt_fields(TextFields)).try_init()
        }
        LogFormat::Json => {
            let json = format::format()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_target(false);
            let json = LimitedStderr::new(bounded, format, json);
            registry().with(filter).with(log.event_format(json).fmt_fields(JsonFields::new())).try_init()
        }
    };
    log_panics();
    if wrong {
        tracing::warn!(
            "{LOG_VARIABLE} is not a valid filter, so {DEFAULT} is used; expected debug, warn, photofinish=debug or the like"
        );
    }
}

/// Logs the place of a panic, with the names of its request. The message is left out: it may quote a prompt.
fn log_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            let thread = std::thread::current();
            tracing::error!(place, thread = thread.name(), "a panic: this is a fault of the gateway");
        }));
    });
}

/// The names of the request and the attempt, the message with its further lines indented, then `name=value`.
pub(crate) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let (dim, plain) = if writer.has_ansi_escapes() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        write!(writer, "{dim}{}{plain}", LogContext::current())?;
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

/// Equal lines of the log per second. Time and context are not compared.
const SAME_MAX: u32 = 20;
/// Lines of the log per second from one place in the code, with any text.
const PLACE_MAX: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Writes the lines of `format`, within the limit.
pub(crate) struct LimitedStderr<F> {
    limiter: Option<Mutex<LineLimiter>>,
    log: LogFormat,
    format: F,
}

impl<F> LimitedStderr<F> {
    /// Without `bounded` every line is written.
    pub fn new(bounded: bool, log: LogFormat, format: F) -> LimitedStderr<F> {
        LimitedStderr { limiter: bounded.then(Mutex::default), log, format }
    }
}

impl<S, N, F> FormatEvent<S, N> for LimitedStderr<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if let Some(limiter) = &self.limiter {
            let place = hash((event.metadata().file(), event.metadata().line()));
            let mut limiter = limiter.lock().unwrap_or_else(PoisonError::into_inner);
            // An empty line is not written.
            let Some(left_out) = limiter.say(place, words(event), Instant::now()) else { return Ok(()) };
            match self.log {
                _ if left_out == 0 => {}
                LogFormat::Text => {
                    writeln!(writer, "({left_out} lines were left out: they said the same, or came too fast)")?;
                }
                LogFormat::Json => writeln!(writer, "{{\"left_out\":{left_out}}}")?,
            }
        }
        match self.log {
            LogFormat::Text => self.format.format_event(context, writer, event),
            LogFormat::Json => {
                let mut line = String::new();
                self.format.format_event(context, Writer::new(&mut line), event)?;
                let levels = LogContext::current().levels();
                match line.strip_suffix("}\n").filter(|_| !levels.is_empty()) {
                    Some(members) => write_levels(&mut writer, members, levels),
                    None => writer.write_str(&line),
                }
            }
        }
    }
}

/// Writes an object of these `members`, of the names under `spans`, and of `race_id`.
fn write_levels(writer: &mut Writer<'_>, members: &str, levels: Vec<ContextLevel>) -> fmt::Result {
    let mut race_id = None;
    let spans = levels.into_iter().map(|(kind, names)| {
        let mut span: serde_json::Map<String, Value> =
            names.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        race_id = race_id.take().or_else(|| span.get("race_id").cloned());
        span.insert("name".to_owned(), kind.into());
        Value::Object(span)
    });
    let spans = Value::Array(spans.collect());
    write!(writer, "{members},\"spans\":{spans}")?;
    if let Some(race_id) = race_id {
        write!(writer, ",\"race_id\":{race_id}")?;
    }
    writeln!(writer, "}}")
}

/// Counts the lines of the current second.
#[derive(Default)]
struct LineLimiter {
    /// None before the first line.
    began: Option<Instant>,
    /// Lines so far, by the hash of their words and by the hash of their place. There are at most [`PLACE_MAX`] texts
    /// for each place.
    said: HashMap<u64, u32>,
    left_out: u64,
}

impl LineLimiter {
    /// None: the line must be left out. Otherwise the number of lines left out before it.
    fn say(&mut self, place: u64, words: u64, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= SECOND) {
            self.began = Some(now);
            self.said.clear();
        }
        let same = hash((place, words));
        let has_room = self.said.get(&place).is_none_or(|count| *count < PLACE_MAX)
            && self.said.get(&same).is_none_or(|count| *count < SAME_MAX);
        if !has_room {
            self.left_out += 1;
            return None;
        }
        *self.said.entry(place).or_default() += 1;
        *self.said.entry(same).or_default() += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The hash of a line's text.
fn words(event: &Event<'_>) -> u64 {
    let mut words = Words(DefaultHasher::new());
    event.record(&mut words);
    words.0.finish()
}

struct Words(DefaultHasher);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        field.name().hash(&mut self.0);
        // A hash takes all text.
        let _ = write!(self, "{value:?}");
    }
}

impl fmt::Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// `log = "text"` or `"json"`: how a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For human readers; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line, with the names of request and attempt under `spans`, and `race_id`.
    Json,
}

impl LogFormat {
    pub const ALL: [LogFormat; 2] = [LogFormat::Text, LogFormat::Json];

    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

#[cfg(test)]
mod fields_tests {
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

#[cfg(test)]
mod limit_tests {
    use super::*;

    #[test]
    fn equal_lines_are_written_a_few_times_and_counted() {
        let (mut limiter, now) = (LineLimiter::default(), Instant::now());
        let mut say = |upstream: &str, at: Instant| limiter.say(7, hash(upstream), at);
        for _ in 0..20 {
            assert_eq!(say("a/m", now), Some(0));
        }
        for _ in 0..1_000 {
            assert_eq!(say("a/m", now), None);
        }
        assert_eq!(say("b/m", now), Some(1_000), "another upstream is logged");
        let later = now + SECOND;
        assert_eq!(say("a/m", later), Some(0));
    }

    #[test]
    fn one_place_does_not_fill_the_log_with_different_lines() {
        let (mut limiter, now) = (LineLimiter::default(), Instant::now());
        let written = (0..10_000).filter(|n| limiter.say(7, hash(n), now).is_some()).count();
        assert_eq!(written, 100);
        assert!(limiter.said.len() <= 101);
        assert_eq!(limiter.say(8, hash("another place"), now), Some(9_900));
    }
}
