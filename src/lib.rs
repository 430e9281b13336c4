//! Photofinish, a racing LLM gateway.
//!
//! Each request is fanned out to several providers; the answer is streamed from whichever **first token** wins; the
//! losers are cancelled; every attempt leaves one row in SQLite. The program is `src/main.rs`, three lines over
//! [`cli::main`]; this library is its rooms.
//!
//! The modules stand in groups, bottom first. A module imports only from groups below its own, never from its own
//! group: `tests/architecture.rs` reads the groups out of this file and checks every `use`.

// 1 primitives
pub mod budget;
pub mod clock;
pub mod machine;
pub mod pace;
pub mod printable;
pub mod shutdown;

// 2 vocabulary
pub mod failure;
pub mod telemetry;

// 3 wire formats
pub mod protocol;

// 4 what is known
pub mod config;
pub mod history;

// 5 decisions
pub mod routing;

// 6 mechanism
pub mod learning;
pub mod metrics;
pub mod race;
pub mod rehearse;
pub mod simulate;
pub mod store;
pub mod upstream;

// 7 recorder, answers
pub mod recorder;
pub mod replay;
pub mod report;

// 8 attempt, state of the upstreams
pub mod attempt;
pub mod health;

// 9 relay
pub mod relay;

// 10 proxy
pub mod proxy;

// 11 server
pub mod server;

// 12 app
pub mod app;

// 13 cli
pub mod cli;
