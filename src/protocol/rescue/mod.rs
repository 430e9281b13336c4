//! How an answer that broke off is gone on with: what the client got of it ([`Delivered`]), and another upstream's answer joined
//! to that ([`Joined`]). Pure; who is asked, and when, is for the relay and the proxy.
//!
//! Both read the events of the surface that was called, whatever the upstreams speak: what came down is a translation already.

mod delivered;
mod joined;
mod place;

#[cfg(test)]
mod tests;

pub use delivered::Delivered;
pub use joined::{Diverged, Joined, Way};
