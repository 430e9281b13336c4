//! Translation between the client's surface and the provider's dialect, over sockets.

mod requests;
pub mod tool_calls;
mod vendors;
