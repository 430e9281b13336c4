//! Photofinish, a racing LLM gateway.
//!
//! Each request is fanned out to several providers. The **first token** wins, and the gateway streams that answer. The
//! losers are cancelled, and every attempt leaves one row in SQLite. The program is `src/main.rs`, three lines over
//! [`cli::main`]; this library is its rooms.
//!
//! The modules are listed in groups, bottom first. A module imports only from groups below its own, never from its own
//! group: `tests/architecture.rs` reads the groups out of this file and checks every `use`.

// 1 primitives
pub mod budget;
pub mod clock;
pub mod coding;
pub mod files;
pub mod machine;
pub mod pace;
pub mod printable;
pub mod shutdown;

// 2 vocabulary
pub mod failure;
pub mod telemetry;

// 3 wire formats, the catalogue of models
pub mod offerings;
pub mod protocol;

// 4 what is known
pub mod config;
pub mod history;

// 5 decisions
pub mod routing;

// 6 shared statistics
pub mod learning;

// 7 the policy of one race
pub mod policy;

// 8 mechanism
pub mod dashboard;
pub mod metrics;
pub mod race;
pub mod simulate;
pub mod store;
pub mod upstream;

// 9 recorder, answers, newer catalogues
pub mod recorder;
pub mod refresh;
pub mod rehearse;
pub mod report;

// 10 attempt, state of the upstreams, what-if
pub mod attempt;
pub mod health;
pub mod replay;

// 11 relay
pub mod relay;

// 12 proxy
pub mod proxy;

// 13 load generator
pub mod bench;

// 14 probes
pub mod probe;

// 15 server
pub mod server;

// 16 app
pub mod app;

// 17 cli
pub mod cli;
