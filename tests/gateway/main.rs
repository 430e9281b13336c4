//! The integration tests, one binary.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's helper fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod breaker;
mod breaks;
mod called;
mod cancel;
mod cli_commands;
mod cli_providers;
mod cli_proxy;
mod cli_race;
mod cli_serve;
mod clock;
mod columns;
mod door;
mod drains;
mod endings;
mod failures;
<<<<<<< HEAD
mod floods;
=======
mod flooded;
>>>>>>> 8a31d58 (Read what providers send in time by its length, and give others a turn)
mod garbled;
mod gateway;
mod held;
mod held_races;
mod http2;
mod http_api;
mod http_api_races;
mod http_auth;
mod http_cors;
mod http_errors;
mod http_metrics;
mod http_models;
mod http_passing;
mod http_plan;
mod http_routing;
mod http_secrets;
mod http_simulated;
mod http_two;
mod learning;
mod limits;
mod lines;
mod lines_http2;
mod names;
mod oddities;
mod overload;
mod pairs;
mod payloads;
mod policies;
mod pool;
mod process;
mod program;
mod promises;
mod race_record;
mod race_rules;
mod relay_rules;
mod rescue;
mod shutdown;
mod store_rollup;
mod store_shutdown;
mod store_trouble;
mod support_works;
mod surface_errors;
mod surfaces;
mod talk;
mod tools;
mod translated;
mod vendors;
mod verdicts;
mod whole_races;
