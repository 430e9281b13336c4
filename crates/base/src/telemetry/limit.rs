//! Limits the number of lines: a failure that repeats a thousand times per second is logged a few times, with a count
//! of the rest.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::log_format::LogFormat;

/// Maximum equal lines per second. Time and spans are not compared.
const SAME_MAX: u32 = 20;
/// Maximum lines per second from one place in the code, with any text.
const PLACE_MAX: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Writes the lines of `format`, within the limit.
pub(super) struct LimitedStderr<F> {
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
        self.format.format_event(context, writer, event)
    }
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

#[cfg(test)]
mod tests {
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
