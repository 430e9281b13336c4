//! The commands as programs: output, exit codes and rows.

mod check_live;
mod commands;
mod costs;
mod providers;
mod race;
mod serve;
