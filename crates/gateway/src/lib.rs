//! What happens to a request: the race, its attempts, the relay of the winner, and the path of a request through them. Not for
//! listeners and routes.

pub mod attempt;
pub mod proxy;
pub mod relay;
