//! Orders candidates by whether the prompt fits their context window. It leaves no candidate out: windows that are surely too
//! small come last, and after a refusal as too long the larger windows come first.

use super::plan::{PlannedStart, StartRule};
use crate::health::windows::{ContextWindow, PromptLength};
use photofinish_wire::answer::error::ContextOverflow;

/// How well a window suits the prompt, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ContextFit {
    Larger,
    #[default]
    Unknown,
    TooSmall,
}

/// The candidates of one race.
#[derive(Debug, Default)]
pub struct ContextFits {
    /// By candidate.
    windows: Vec<ContextWindow>,
    /// By candidate; empty while no window is known.
    fits: Vec<ContextFit>,
}

impl ContextFits {
    /// `windows`: by candidate. `length` is asked only if one is known.
    pub fn new(windows: Vec<ContextWindow>, length: impl FnOnce() -> PromptLength) -> ContextFits {
        if windows.iter().all(|window| *window == ContextWindow::default()) {
            return ContextFits { windows, fits: Vec::new() };
        }
        let length = length();
        let fit = |window: &ContextWindow| {
            if window.is_too_small_for(length) { ContextFit::TooSmall } else { ContextFit::Unknown }
        };
        ContextFits { fits: windows.iter().map(fit).collect(), windows }
    }

    /// Other candidates go first.
    pub fn is_too_small(&self, candidate: usize) -> bool {
        self.fit(candidate) == ContextFit::TooSmall && self.fits.iter().any(|fit| *fit != ContextFit::TooSmall)
    }

    fn fit(&self, candidate: usize) -> ContextFit {
        self.fits.get(candidate).copied().unwrap_or_default()
    }

    /// Moves candidates with too small a window to the end, to start only after a failure.
    pub fn put_behind(&self, entries: &mut [PlannedStart]) {
        if !entries.iter().any(|entry| self.is_too_small(entry.candidate)) {
            return;
        }
        let starts: Vec<StartRule> = entries.iter().map(|entry| entry.start).collect();
        entries.sort_by_key(|entry| self.is_too_small(entry.candidate));
        for (entry, start) in entries.iter_mut().zip(starts) {
            entry.start = if self.is_too_small(entry.candidate) { StartRule::AfterFailure } else { start };
        }
    }

    /// This candidate has refused the prompt as too long.
    pub fn refused(&mut self, candidate: usize, overflow: ContextOverflow) {
        let own = self.windows.get(candidate).and_then(|window| window.tokens);
        // Without a count the prompt has at least one token too many.
        let least = overflow.asked.or(overflow.window.or(own).map(|window| window + 1));
        self.fits.resize(self.windows.len(), ContextFit::Unknown);
        self.fits[candidate] = ContextFit::TooSmall;
        for (fit, window) in self.fits.iter_mut().zip(&self.windows) {
            if let (Some(least), Some(tokens)) = (least, window.tokens) {
                *fit = if tokens >= least { ContextFit::Larger } else { ContextFit::TooSmall };
            }
        }
    }

    /// The waiting candidates that suit the prompt best, as indices into `waiting`.
    pub fn best_of(&self, waiting: &[usize]) -> Vec<usize> {
        let best = waiting.iter().map(|candidate| self.fit(*candidate)).min();
        (0..waiting.len()).filter(|place| Some(self.fit(waiting[*place])) == best).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fits(tokens: &[Option<u64>]) -> ContextFits {
        let windows = tokens.iter().map(|tokens| ContextWindow { tokens: *tokens, refused_bytes: None }).collect();
        ContextFits { windows, fits: Vec::new() }
    }

    #[test]
    fn after_a_refusal_the_larger_go_first_and_the_smaller_last() {
        let mut fits = fits(&[Some(8_000), None, Some(4_000), Some(128_000), Some(10_000)]);
        assert_eq!(fits.best_of(&[1, 2, 3, 4]), [0, 1, 2, 3], "nothing was refused");
        fits.refused(0, ContextOverflow { window: Some(8_192), asked: Some(9_000) });
        assert_eq!(fits.best_of(&[1, 2, 3, 4]), [2, 3]);
        assert_eq!(fits.best_of(&[1, 2]), [0]);
        assert_eq!(fits.best_of(&[2]), [0], "none is left out");
        fits.refused(4, ContextOverflow { window: None, asked: Some(20_000) });
        assert_eq!(fits.best_of(&[1, 2, 3]), [2]);
        assert_eq!(fits.best_of(&[]), [0; 0]);
    }

    #[test]
    fn without_numbers_a_window_that_is_known_tells() {
        let mut known = fits(&[Some(8_000), Some(8_000), Some(9_000)]);
        known.refused(0, ContextOverflow::default());
        assert_eq!(known.best_of(&[1, 2]), [1]);
        let mut unknown = fits(&[None, Some(8_000), Some(9_000)]);
        unknown.refused(0, ContextOverflow::default());
        assert_eq!(unknown.best_of(&[1, 2]), [0, 1]);
        assert!(unknown.is_too_small(0));
    }

    #[test]
    fn those_that_are_too_small_stand_behind_and_start_last() {
        let entry = |(candidate, start): (usize, StartRule)| PlannedStart {
            candidate,
            start,
            first_token: Duration::from_secs(1),
            p_include: 1.0,
            trial: false,
            only_shows: false,
        };
        let now = StartRule::At(Duration::ZERO);
        let mut fits = fits(&[None, None, None]);
        let mut entries: Vec<PlannedStart> =
            [(0, now), (1, StartRule::AfterFailure), (2, now)].into_iter().map(entry).collect();
        let as_they_were = entries.clone();
        fits.put_behind(&mut entries);
        assert_eq!(entries, as_they_were);
        fits.refused(0, ContextOverflow::default());
        fits.put_behind(&mut entries);
        let starts: Vec<(usize, StartRule)> = entries.iter().map(|entry| (entry.candidate, entry.start)).collect();
        assert_eq!(starts, [(1, now), (2, StartRule::AfterFailure), (0, StartRule::AfterFailure)]);
        fits.fits = vec![ContextFit::TooSmall; 3];
        let mut entries = as_they_were.clone();
        fits.put_behind(&mut entries);
        assert_eq!(entries, as_they_were, "if all are, none is");
    }
}
