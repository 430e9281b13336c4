//! Continues a broken answer: records what the client received ([`DeliveredAnswer`]), and joins another upstream's answer to
//! it ([`JoinedAnswer`]). Pure. Not for choosing who is asked, and when: see the relay and the proxy.
//!
//! Both read events of the called surface, whatever the upstreams speak, because answers are translated before.

mod delivered;
mod joined;
mod wire_position;

#[cfg(test)]
mod tests;

pub use delivered::DeliveredAnswer;
pub use joined::{Diverged, JoinMethod, JoinedAnswer};
