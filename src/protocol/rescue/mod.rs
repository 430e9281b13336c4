//! How an answer that broke off is gone on with: what the client got of it ([`DeliveredAnswer`]), and another upstream's answer joined
//! to that ([`JoinedAnswer`]). Pure; who is asked, and when, is for the relay and the proxy.
//!
//! Both read the events of the surface that was called, whatever the upstreams speak: what came down is a translation already.

mod delivered;
mod joined;
mod wire_position;

#[cfg(test)]
mod tests;

pub use delivered::DeliveredAnswer;
pub use joined::{Diverged, JoinMethod, JoinedAnswer};
