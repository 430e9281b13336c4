//! The log: lines on standard error, coloured only on a terminal. Keys and prompts must not be logged.

mod fields;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::{MakeWriter, format};

/// The variable that sets what is logged, e.g. `debug` or `photofinish=debug`.
pub const LOG_VARIABLE: &str = "PHOTOFINISH_LOG";

/// What is logged where the variable is not set.
pub const DEFAULT: &str = "info";

/// These libraries log single frames and statements, which could hold what must not be logged. So their level is fixed,
/// unless the variable names a part of one, such as `h2::codec=debug`.
const QUIET: [&str; 4] = ["h2=warn", "hyper=warn", "rustls=warn", "sqlx=warn"];

/// Starts the log; `default` is what is logged where the variable is not set. Later calls do nothing, so that tests may
/// start several gateways in one process.
pub fn start(default: &str) {
    let (mut filter, wrong) = match std::env::var_os(LOG_VARIABLE).filter(|value| !value.is_empty()) {
        None => (EnvFilter::new(default), false),
        Some(value) => match value.to_str().and_then(|value| EnvFilter::try_new(value).ok()) {
            Some(filter) => (filter, false),
            None => (EnvFilter::new(DEFAULT), true),
        },
    };
    for quiet in QUIET.iter().filter_map(|quiet| quiet.parse().ok()) {
        filter = filter.add_directive(quiet);
    }
    // Whoever asks for more than the default wants every line.
    let bounded = filter.max_level_hint().is_none_or(|level| level <= LevelFilter::INFO);
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A second start fails because the first one's subscriber is in place. That one stays, and nothing is lost.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_target(false)
        .fmt_fields(format::debug_fn(fields::write).delimited(" "))
        .with_writer(LimitedStderr(bounded.then(Mutex::default)))
        .try_init();
    if wrong {
        tracing::warn!(
            "{LOG_VARIABLE} is not a valid filter, so {DEFAULT} is used; expected debug, warn, photofinish=debug or the like"
        );
    }
}

/// How many equal lines are written in a second. Their time does not count.
const SAME_MAX: u32 = 20;
/// How many lines from one place in the code are written in a second, whatever they say.
const PLACE_MAX: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Standard error with a limit: what fails a thousand times a second is logged a few times, with a count of the rest.
/// Without a limiter every line is written.
struct LimitedStderr(Option<Mutex<LineLimiter>>);

/// Writes one line to standard error.
struct LogLine<'a> {
    limiter: Option<&'a Mutex<LineLimiter>>,
    place: u64,
}

impl<'a> MakeWriter<'a> for LimitedStderr {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine { limiter: self.0.as_ref(), place: 0 }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> LogLine<'a> {
        LogLine { limiter: self.0.as_ref(), place: hash((meta.file(), meta.line())) }
    }
}

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let say = |limiter: &Mutex<LineLimiter>| {
            limiter.lock().unwrap_or_else(PoisonError::into_inner).say(self.place, line, Instant::now())
        };
        let Some(left_out) = self.limiter.map_or(Some(0), say) else { return Ok(line.len()) };
        let mut out = io::stderr().lock();
        if left_out > 0 {
            writeln!(out, "({left_out} lines were left out: they said the same, or came too fast)")?;
        }
        out.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Counts the lines of the current second.
#[derive(Default)]
struct LineLimiter {
    /// None before the first line.
    began: Option<Instant>,
    /// Lines so far, by the hash of their text and by the hash of their place. There are at most [`PLACE_MAX`] texts
    /// for each place.
    said: HashMap<u64, u32>,
    left_out: u64,
}

impl LineLimiter {
    /// None if the line must be left out, else how many were left out before it.
    fn say(&mut self, place: u64, line: &[u8], now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= SECOND) {
            self.began = Some(now);
            self.said.clear();
        }
        // A line begins with its time, which is not compared.
        let words = line.iter().position(|byte| *byte == b' ').map_or(line, |end| &line[end..]);
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

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_the_same_is_written_a_few_times_and_counted() {
        let (mut limiter, now) = (LineLimiter::default(), Instant::now());
        let mut say = |text: &str, at: Instant| limiter.say(7, format!("12:00:00 {text}").as_bytes(), at);
        let failed = "INFO an attempt failed upstream=a/m";
        for _ in 0..20 {
            assert_eq!(say(failed, now), Some(0));
        }
        for _ in 0..1_000 {
            assert_eq!(say(failed, now), None);
        }
        assert_eq!(say("INFO an attempt failed upstream=b/m", now), Some(1_000), "another upstream is heard");
        let later = now + SECOND;
        assert_eq!(say(failed, later), Some(0));
    }

    #[test]
    fn one_place_does_not_fill_the_log_by_saying_ever_new_things() {
        let (mut limiter, now) = (LineLimiter::default(), Instant::now());
        let written = (0..10_000).filter(|n| limiter.say(7, format!("t line {n}").as_bytes(), now).is_some()).count();
        assert_eq!(written, 100);
        assert!(limiter.said.len() <= 101);
        assert_eq!(limiter.say(8, b"t another place", now), Some(9_900));
    }
}
