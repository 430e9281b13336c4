//! Continues a broken answer: records what the client received ([`DeliveredAnswer`]), and joins another upstream's
//! answer to it ([`JoinedAnswer`]). Pure. Not for choosing the upstream and the time: see the relay and the proxy.
//!
//! Both read events of the client's surface, whatever the upstreams use, because answers are translated before.

mod continued;
mod delivered;
mod held_calls;
mod joined;
mod wire_position;

#[cfg(test)]
mod tests;

pub use continued::Diverged;
pub use delivered::DeliveredAnswer;
pub use held_calls::HeldCalls;
pub use joined::{JoinMethod, JoinedAnswer};
