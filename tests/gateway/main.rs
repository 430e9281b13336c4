//! The integration tests, one binary.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helper fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod connections;
mod dialects;
mod harness;
mod http;
mod race;
mod relay;
mod store;
mod upstreams;
