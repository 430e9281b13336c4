//! The context window of each upstream, from the configuration, the catalogue or refusals. Used only for the order of
//! upstreams; it refuses no request.

use std::collections::HashMap;
use std::time::Duration;

use memchr::memmem;

use crate::clock::Instant;

/// Maximum number of upstreams with a learnt window.
const REMEMBERED_MAX: usize = 10_000;
/// How long a learnt window is used: a server may be restarted with a larger one.
const BELIEVED_FOR: Duration = Duration::from_secs(3_600);
/// Assumed maximum of visible bytes per token in a long prompt: English prose has 3 to 4. It gives a lower bound for the
/// tokens of a prompt.
const BYTES_PER_TOKEN: usize = 6;
const UNICODE_ESCAPE: &[u8] = b"\\u";
/// Bytes of an escape such as \u00e9.
const UNICODE_ESCAPE_BYTES: usize = 6;
/// Marks a prompt with images or files, in every dialect that carries their bytes.
const MEDIA: &[u8] = b"base64";

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
    /// Bytes without blanks, and with one byte for each escape: a tokenizer makes one token of a long run of blanks, and two
    /// characters that are escaped with twelve bytes may be one token.
    visible: usize,
    /// The prompt has images or files, so its bytes say nothing about its tokens.
    pub has_media: bool,
}

impl PromptLength {
    /// Of the parts of a prompt, which are JSON.
    pub fn of(parts: &[&[u8]]) -> PromptLength {
        let invisible = |part: &&[u8]| {
            let [blanks, escapes] = [b' ', b'\\'].map(|byte| memchr::memchr_iter(byte, part).count());
            let unicode = if escapes == 0 { 0 } else { memmem::find_iter(part, UNICODE_ESCAPE).count() };
            blanks + escapes + (UNICODE_ESCAPE_BYTES - UNICODE_ESCAPE.len()) * unicode
        };
        let bytes = parts.iter().map(|part| part.len()).sum();
        PromptLength {
            bytes,
            visible: usize::saturating_sub(bytes, parts.iter().map(invisible).sum()),
            has_media: parts.iter().any(|part| memmem::find(part, MEDIA).is_some()),
        }
    }

    pub fn tokens_at_least(self) -> u64 {
        let tokens = if self.has_media { 0 } else { self.visible / BYTES_PER_TOKEN };
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

    /// The window of this upstream: the smaller of the known one and the one that its refusal told.
    pub fn of(&self, upstream: &str, known: Option<u64>, now: Instant) -> ContextWindow {
        let learnt = self.learnt(upstream, now);
        ContextWindow { tokens: [known, learnt.tokens].into_iter().flatten().min(), ..learnt }
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
        PromptLength { bytes, visible: bytes, has_media: false }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_refusal_tells_is_believed_for_a_while() {
        let (mut windows, now) = (ContextWindows::default(), Instant::now());
        windows.refused("a/m", None, None, now);
        assert!(windows.is_empty(), "it told nothing");
        windows.refused("a/m", Some(1_000), Some(9_000), now);
        assert_eq!(windows.of("a/m", None, now), ContextWindow { tokens: Some(1_000), refused_bytes: Some(9_000) });
        assert_eq!(windows.of("a/m", Some(2_000), now).tokens, Some(1_000), "it says so itself");
        assert_eq!(windows.of("a/m", Some(500), now).tokens, Some(500));
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
        assert!(!window.is_too_small_for(PromptLength { has_media: true, ..text(9_000_000) }), "images are few tokens");
    }

    #[test]
    fn the_fewest_tokens_of_a_prompt() {
        let tokens = |part: &str| PromptLength::of(&[part.as_bytes()]).tokens_at_least();
        assert_eq!(tokens("\"It depends.\""), 2);
        assert_eq!(
            tokens(&format!("\"{}\"", "\\n    ".repeat(1_000))),
            1_002 / 6,
            "indentation is a few long runs of blanks"
        );
        assert_eq!(
            tokens(&format!("\"{}\"", "\\u4f60\\u597d".repeat(600))),
            1_202 / 6,
            "one token may be two characters"
        );
        assert_eq!(tokens(&format!("\"{}\"", "\\\\u".repeat(600))), 0, "a backslash before u is no escape, but rare");
        assert_eq!(PromptLength::of(&[b"\"data:image/png;base64,AAAA\"", &[b'x'; 600]]).tokens_at_least(), 0);
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
