//! The running service: listeners, routes, `/api`, the dashboard, and the start, reload and end of it all. Not for commands.

pub mod accounts;
pub mod app;
pub mod dashboard;
pub mod login;
pub mod server;
mod traces;
