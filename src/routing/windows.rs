//! The context window of each upstream, from the configuration, the catalogue or refusals. Used only for the order of
//! upstreams; it refuses no request.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Instant;

/// Maximum number of upstreams with a learnt window.
const REMEMBERED_MAX: usize = 10_000;
/// How long a learnt window is used: a server may be restarted with a larger one.
const BELIEVED_FOR: Duration = Duration::from_secs(3_600);
/// Assumed maximum of prompt bytes per token in a long prompt. Prose has 4 to 5, and no human-readable text has more
/// than 6. It gives a lower bound for the tokens of a prompt.
const BYTES_PER_TOKEN: usize = 6;

/// Learnt windows of all upstreams, by name.
#[derive(Debug, Default)]
pub struct ContextWindows {
    learnt: HashMap<String, LearntWindow>,
}

#[derive(Clone, Copy, Debug)]
struct LearntWindow {
    at: Instant,
    window: ContextWindow,
}

/// The known limits of one upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextWindow {
    /// The size of the window in tokens. None: unknown.
    pub tokens: Option<u64>,
    /// The length in bytes of a prompt that it refused. None: unknown.
    pub refused_bytes: Option<usize>,
}

/// How long a prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptLength {
    pub bytes: usize,
    /// The prompt has images or files, so its bytes say nothing about its tokens.
    pub has_media: bool,
}

impl PromptLength {
    pub fn tokens_at_least(self) -> u64 {
        let tokens = if self.has_media { 0 } else { self.bytes / BYTES_PER_TOKEN };
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

impl ContextWindow {
    /// Whether a prompt is surely too long, or as long as a refused one.
    pub fn is_too_small_for(self, length: PromptLength) -> bool {
        let refused = self.refused_bytes.is_some_and(|bytes| !length.has_media && length.bytes >= bytes);
        refused || self.tokens.is_some_and(|tokens| length.tokens_at_least() > tokens)
    }
}

impl ContextWindows {
    /// True while nothing was learnt, so no look-up is needed.
    pub fn is_empty(&self) -> bool {
        self.learnt.is_empty()
    }

    /// An upstream refused a prompt as too long. `tokens`: the window that it reported; `bytes`: the length of the
    /// prompt. None: unknown.
    pub fn refused(&mut self, upstream: &str, tokens: Option<u64>, bytes: Option<usize>, now: Instant) {
        if tokens.is_none() && bytes.is_none() {
            return;
        }
        if self.learnt.len() >= REMEMBERED_MAX && !self.learnt.contains_key(upstream) {
            self.learnt.retain(|_, learnt| now < learnt.at + BELIEVED_FOR);
            if self.learnt.len() >= REMEMBERED_MAX {
                return;
            }
        }
        let before = self.learnt(upstream, now);
        let shorter = [bytes, before.refused_bytes].into_iter().flatten().min();
        let window = ContextWindow { tokens: tokens.or(before.tokens), refused_bytes: shorter };
        self.learnt.insert(upstream.to_owned(), LearntWindow { at: now, window });
    }

    /// An upstream accepted a prompt, so a refusal of a shorter one had another cause.
    pub fn took(&mut self, upstream: &str, length: PromptLength) {
        let Some(LearntWindow { window, .. }) = self.learnt.get_mut(upstream) else { return };
        if length.has_media || !window.is_too_small_for(length) {
            return;
        }
        window.refused_bytes = window.refused_bytes.filter(|bytes| length.bytes < *bytes);
        window.tokens = window.tokens.filter(|tokens| length.tokens_at_least() <= *tokens);
        if *window == ContextWindow::default() {
            self.learnt.remove(upstream);
        }
    }

    /// The window of this upstream. The configuration has priority over learnt values.
    pub fn of(&self, upstream: &str, configured: Option<u64>, now: Instant) -> ContextWindow {
        let learnt = self.learnt(upstream, now);
        match configured {
            Some(tokens) => ContextWindow { tokens: Some(tokens), ..learnt },
            None => learnt,
        }
    }

    fn learnt(&self, upstream: &str, now: Instant) -> ContextWindow {
        let learnt = self.learnt.get(upstream).filter(|learnt| now < learnt.at + BELIEVED_FOR);
        learnt.map_or(ContextWindow::default(), |learnt| learnt.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> PromptLength {
        PromptLength { bytes, has_media: false }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_refusal_tells_is_believed_for_a_while() {
        let (mut windows, now) = (ContextWindows::default(), Instant::now());
        windows.refused("a/m", None, None, now);
        assert!(windows.is_empty(), "it told nothing");
        windows.refused("a/m", Some(1_000), Some(9_000), now);
        assert_eq!(windows.of("a/m", None, now), ContextWindow { tokens: Some(1_000), refused_bytes: Some(9_000) });
        assert_eq!(windows.of("a/m", Some(2_000), now).tokens, Some(2_000), "the configuration knows better");
        assert_eq!(windows.of("b/m", None, now), ContextWindow::default());
        assert_eq!(windows.of("a/m", None, now + BELIEVED_FOR), ContextWindow::default());
    }

    #[tokio::test(start_paused = true)]
    async fn without_numbers_the_shortest_that_was_refused_counts_until_one_as_long_is_taken() {
        let (mut windows, now) = (ContextWindows::default(), Instant::now());
        windows.refused("a/m", None, Some(900), now);
        windows.refused("a/m", None, Some(950), now);
        let window = windows.of("a/m", None, now);
        assert_eq!(window, ContextWindow { tokens: None, refused_bytes: Some(900) });
        assert!(window.is_too_small_for(text(900)) && !window.is_too_small_for(text(899)));
        windows.took("a/m", text(899));
        assert!(!windows.is_empty());
        windows.refused("a/m", Some(100), None, now);
        windows.took("a/m", text(900));
        assert_eq!(
            windows.of("a/m", None, now),
            ContextWindow { tokens: None, refused_bytes: None },
            "150 tokens at least"
        );
        assert!(windows.is_empty());
    }

    #[test]
    fn only_what_surely_does_not_fit_is_too_long() {
        let window = ContextWindow { tokens: Some(1_000), refused_bytes: Some(100) };
        assert!(!ContextWindow { refused_bytes: None, ..window }.is_too_small_for(text(6_005)));
        assert!(ContextWindow { refused_bytes: None, ..window }.is_too_small_for(text(6_006)));
        assert!(!window.is_too_small_for(PromptLength { bytes: 9_000_000, has_media: true }), "images are few tokens");
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded() {
        let (mut windows, now) = (ContextWindows::default(), Instant::now());
        for number in 0..=REMEMBERED_MAX {
            windows.refused(&number.to_string(), Some(1_000), None, now);
        }
        assert_eq!(windows.learnt.len(), REMEMBERED_MAX);
        windows.refused("later", Some(1_000), None, now + BELIEVED_FOR);
        assert_eq!(windows.learnt.len(), 1);
    }
}
