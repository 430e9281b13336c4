//! The gateway's own answers. Not for errors of upstreams that are passed on: see `run::all_failed`.

pub mod code;
pub mod limit_headers;
pub mod limited;
pub mod rejection;
pub mod shed;
