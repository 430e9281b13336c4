//! The commands as programs: output, exit codes and rows.

mod accounts;
mod bench;
mod bench_load;
mod bench_money;
mod bench_verdicts;
mod check_live;
mod columns;
mod commands;
mod costs;
mod endless_servers;
mod env;
mod log;
mod mistakes;
mod models_update;
mod packaged;
mod providers;
mod race;
mod reloads;
mod restart;
mod serve;
mod without_file;
