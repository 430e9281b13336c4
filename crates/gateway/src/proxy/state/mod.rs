//! What all requests share: the gateway with its configuration and connections, places and shares, sessions, and the answers that
//! are kept. Not for a single request.

pub mod blocking;
pub mod budget_lines;
pub mod configuration;
pub mod extras;
pub mod gateway;
pub mod holders;
pub mod kept;
pub mod load;
pub mod minute_counts;
pub mod places;
pub mod shares;
pub mod stored;
mod table;
pub mod wrong_tokens;
