//! The integration tests, one binary.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helper fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod failures;
mod gateway;
mod http2;
mod limits;
mod policies;
mod pool;
mod program;
mod race_record;
mod race_rules;
mod relay_rules;
mod rescue;
mod shutdown;
mod support_works;
mod talk;
