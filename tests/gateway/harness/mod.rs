//! Helpers that all tests of the gateway share: the gateway itself, in process or as a program; scripts of providers,
//! answers as a client reads them, and the table of surfaces and dialects. Not for helpers that do not depend on the
//! gateway: see `support`.

pub mod answer;
pub mod biller;
pub mod coding;
pub mod edges;
pub mod gateway;
pub mod matrix;
#[path = "../../support/postgres.rs"]
pub mod postgres;
pub mod process;
pub mod program;
pub mod samples;
mod self_test;
pub mod surface;
