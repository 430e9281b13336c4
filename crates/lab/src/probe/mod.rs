//! Probes: measured requests that the gateway sends by itself, a few times a day, to every upstream of the chosen models.
//!
//! `schedule` and `caps` decide when, and with how much money; they are pure. `prober` sends one probe with the
//! client of the load generator, so its rows mean the same. Not for the task that runs them in a gateway: see `app`.

mod caps;
mod prober;
mod schedule;

pub use caps::{DayCaps, ProbeCaps, ProbeEstimate};
pub use prober::{ProbeResult, Prober, jobs, last_moments, probed, seed};
pub use schedule::{DueProbe, ProbeJob, ProbeSchedule};
