//! The log: lines on standard error, coloured only on a terminal. No key and no prompt may be given to it.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The variable that sets what is logged, e.g. `debug` or `photofinish=debug`.
pub const LOG_VARIABLE: &str = "PHOTOFINISH_LOG";

/// What is logged where the variable says nothing.
pub const DEFAULT: &str = "info";

/// What these say of single frames and statements could hold what must not be logged, whatever level is asked for.
const QUIET: [&str; 4] = ["h2=warn", "hyper=warn", "rustls=warn", "sqlx=warn"];

/// Starts the log; `default` is what is logged where the variable says nothing. Later calls do nothing, so that tests may start several gateways in one process.
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
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A second start finds the first one's subscriber in place: that one stays, and nothing is lost.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_target(false)
        .with_writer(std::io::stderr)
        .try_init();
    if wrong {
        tracing::warn!(
            "{LOG_VARIABLE} is no filter, {DEFAULT} is used; expected debug, warn, photofinish=debug or the like"
        );
    }
}
