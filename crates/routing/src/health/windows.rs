//! The context window of each upstream, from the configuration, the catalogue or refusals. Used only for the order of
//! upstreams; it refuses no request.

use std::collections::HashMap;
use std::time::Duration;

use memchr::memmem;

use photofinish_base::clock::Instant;

/// Maximum number of upstreams with a learnt window.
const REMEMBERED_MAX: usize = 10_000;
/// How long a context window that was learnt from a refusal is used: a server may be restarted with a larger one.
const BELIEVED_FOR: Duration = Duration::from_secs(3_600);
/// Assumed maximum of characters per token, for a lower bound of a prompt's tokens: English prose has 5 to 6 with its blanks,
/// other languages fewer. Only a list of very long words has more.
const CHARS_PER_TOKEN: usize = 7;
const UNICODE_ESCAPE: &[u8] = b"\\u";
/// Bytes of an escape such as \u00e9.
const UNICODE_ESCAPE_BYTES: usize = 6;
/// The most ones that a byte can sum.
const COUNTED_AT_ONCE: usize = 255;
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
    /// Characters without repetitions, and with one for each escape: a tokenizer makes one token of a long run of one
    /// character, and two characters that are escaped with twelve bytes may be one token.
    visible: usize,
    /// The prompt has images or files, so its bytes say nothing about its tokens.
    pub has_media: bool,
}

impl PromptLength {
    /// Of the parts of a prompt, which are JSON.
    pub fn of(parts: &[&[u8]]) -> PromptLength {
        PromptLength {
            bytes: parts.iter().map(|part| part.len()).sum(),
            visible: parts.iter().map(|part| visible(part)).sum(),
            has_media: parts.iter().any(|part| memmem::find(part, MEDIA).is_some()),
        }
    }

    pub fn tokens_at_least(self) -> u64 {
        let tokens = if self.has_media { 0 } else { self.visible / CHARS_PER_TOKEN };
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// The characters of a JSON text that surely make tokens.
fn visible(part: &[u8]) -> usize {
    let after = part.get(1..).unwrap_or_default();
    // The later bytes of a UTF-8 character are 10xxxxxx.
    let counts = |(before, byte): (&u8, &u8)| {
        u8::from(byte != before) & u8::from(*byte & 0xc0 != 0x80) & u8::from(*byte != b'\\')
    };
    // Sums of bytes, so that the compiler counts many at once.
    let blocks = part.chunks(COUNTED_AT_ONCE).zip(after.chunks(COUNTED_AT_ONCE));
    let characters: usize =
        blocks.map(|(before, bytes)| usize::from(before.iter().zip(bytes).map(counts).sum::<u8>())).sum();
    let escaped = match memchr::memchr(b'\\', part) {
        Some(first) => memmem::find_iter(&part[first..], UNICODE_ESCAPE).count(),
        None => 0,
    };
    characters.saturating_sub((UNICODE_ESCAPE_BYTES - UNICODE_ESCAPE.len()) * escaped)
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

    /// The window of this upstream: the smaller of the known one and the one in its refusal.
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
        assert!(windows.is_empty(), "it taught nothing");
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
            "128 tokens at least"
        );
        assert!(windows.is_empty());
    }

    #[test]
    fn only_what_surely_does_not_fit_is_too_long() {
        let window = ContextWindow { tokens: Some(1_000), refused_bytes: Some(100) };
        assert!(!ContextWindow { refused_bytes: None, ..window }.is_too_small_for(text(7_006)));
        assert!(ContextWindow { refused_bytes: None, ..window }.is_too_small_for(text(7_007)));
        assert!(!window.is_too_small_for(PromptLength { has_media: true, ..text(9_000_000) }), "images are few tokens");
    }

    /// With the count of OpenAI's tokenizer o200k for 200 repetitions.
    const COUNTED: [(&str, u64); 9] = [
        ("The committee meets on Thursday to settle the remaining questions.\\n", 2_200),
        ("Die Versammlung entscheidet am Donnerstag über die übrigen Fragen.\\n", 2_400),
        ("Комитет собирается в четверг, чтобы решить оставшиеся вопросы.\\n", 2_800),
        ("समिति शेष प्रश्नों को हल करने के लिए गुरुवार को मिलेगी।\\n", 3_400),
        ("კომიტეტი ხუთშაბათს იკრიბება დარჩენილი საკითხების გადასაწყვეტად.\\n", 4_800),
        ("委员会周四开会解决剩余问题。\\n", 2_000),
        ("| column | value | difference |\\n| --- | --- | --- |\\n", 2_800),
        ("----------------------------------------------------------------\\n", 400),
        ("        if (value !== undefined) {\\n            return value;\\n        }\\n", 2_800),
    ];

    #[test]
    fn the_estimate_is_below_the_tokens_of_every_script() {
        let tokens = |part: &str| PromptLength::of(&[part.as_bytes()]).tokens_at_least();
        for (text, counted) in COUNTED {
            let text = text.repeat(200);
            let escape =
                |unit: u16| if unit < 128 { char::from(unit as u8).to_string() } else { format!("\\u{unit:04x}") };
            let escaped: String = text.encode_utf16().map(escape).collect();
            for estimate in [tokens(&text), tokens(&escaped)] {
                assert!(
                    estimate * 10 < counted * 9 && estimate * 10 > counted,
                    "{estimate} of {counted}: {}",
                    &text[..9]
                );
            }
        }
        assert_eq!(tokens(&"\\\\u".repeat(600)), 0, "a backslash before u is no escape, but rare");
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
