//! The gateway over real sockets, one binary. `race`, `relay`, `upstreams`, `connections`, `dialects`, `http`, `store`
//! and `cli` are the tested areas; `harness` has the shared helpers. Not for single functions: unit tests are next to
//! the code.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helper fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod connections;
mod dialects;
mod harness;
mod http;
mod limits;
mod race;
mod relay;
mod store;
mod upstreams;
