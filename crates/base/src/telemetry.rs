//! The log: lines on standard error, as text or as JSON, and the spans that put a request's names on every line.
//!
//! Keys, prompts and answers must not appear in any span or line. Not for figures: see `metrics` and the rows.

mod fields;
mod limit;
mod log_format;

pub use log_format::LogFormat;

use std::io::{self, IsTerminal};
use std::sync::Once;

use tracing::Span;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{self, JsonFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt, registry};

use fields::TextFields;
use limit::LimitedStderr;

/// The variable with the log filter, e.g. `debug` or `photofinish=debug`.
pub const LOG_VARIABLE: &str = "PHOTOFINISH_LOG";

/// The log filter if the variable is not set.
pub const DEFAULT: LevelFilter = LevelFilter::INFO;

/// These libraries log single frames and statements, which may contain secrets. So their level is fixed, unless the variable
/// names a part of one, such as `h2::codec=debug`.
const QUIET: [(&str, LevelFilter); 4] = [
    ("h2", LevelFilter::WARN),
    ("hyper", LevelFilter::WARN),
    ("rustls", LevelFilter::WARN),
    ("sqlx", LevelFilter::WARN),
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
    let log = fmt::layer().with_ansi(colour).with_writer(io::stderr);
    // A second start fails because the subscriber of the first one is in place, and stays.
    let _ = match format {
        LogFormat::Text => {
            let text = LimitedStderr::new(bounded, format, format::format().with_target(false));
            registry().with(filter).with(log.event_format(text).fmt_fields(TextFields)).try_init()
        }
        LogFormat::Json => {
            let json = format::format().json().flatten_event(true).with_current_span(false).with_target(false);
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

/// Logs the place of a panic, within the span of its request. The message is left out: it may quote a prompt.
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

/// The span of a request to `surface`; the other fields are recorded once they are known.
///
/// Spans are at error level, so that lines of every level carry them. With the log `off` they cost nothing.
pub fn request_span(surface: &'static str) -> Span {
    tracing::error_span!("request", surface, race_id = Empty, model = Empty, user = Empty)
}

/// The span of an attempt within its request's.
pub fn attempt_span(request: &Span, upstream: &str, ordinal: usize, reason: &'static str) -> Span {
    tracing::error_span!(parent: request, "attempt", upstream, ordinal, reason)
}
