//! Outgoing connections, and the newer catalogue that one of them fetches. Not for what is sent: see the gateway.

pub mod refresh;
pub mod upstream;
