//! Translation between the client's surface and the provider's dialect, over sockets.

mod cases;
mod content;
mod demands;
mod kept;
mod requests;
mod snapshots;
pub mod tool_calls;
mod vendors;
