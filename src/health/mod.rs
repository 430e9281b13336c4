//! The state of the upstreams: which breakers are open, what cools down, which limits are used up, whose turn a key is, how
//! long a prompt each takes, and what an attempt's outcome changes of all that. Not for requests: those are `proxy`'s.

mod breakers;
mod caller_id;
mod cooling;
mod judge;
mod live;
mod runner;
pub mod standing;
mod state;

pub use breakers::{Lineup, Trial};
pub use caller_id::CallerId;
pub use cooling::{Cooling, SetAside, cooling_down, finish};
pub use judge::{Judge, Sent};
pub use live::{Live, named, why_off};
pub use runner::Runner;
pub use state::{UpstreamHealth, prompt_length};
