//! At and after first tokens: whether to hold one back for an attempt that should finish sooner, and which attempts of a race
//! to the whole answer have lost. Not for `Aim::Ttft`, where the first token decides.

use super::{Picks, Progress, Question, Running};

/// How long to hold back the first token of `ready` for the others in `running`, µs; none: commit it now. When the time is
/// over the caller asks again with what is there then, or commits. `hold_max_us` counts from the first token.
pub fn hold(_question: &Question<'_>, _ready: usize, _running: &[Running], _hold_max_us: i64) -> Option<i64> {
    None
}

/// Those of a race to the whole answer that should be cut: they would finish later than 1.05 × the best + 50 ms. Nobody before
/// one has shown 8 tokens.
pub fn hopeless(_question: &Question<'_>, _running: &[Progress]) -> Picks {
    Picks::default()
}
