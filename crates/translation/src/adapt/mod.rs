//! Requests in the upstream's own dialect, changed as the upstream demands; and what its refusals teach.

#[cfg(test)]
mod every_quirk;
mod lessons;
mod own_dialect;
mod repeats;

#[cfg(test)]
mod tests;

pub use lessons::{Lesson, RefusedRequest, demands, lesson, without};
pub use own_dialect::{concerns, parses, rewritten};
