//! Reads the numbers in the refusal of a prompt that is too long. A number counts only if the message explains it.

/// Token counts that the message names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOverflow {
    /// The model's context window.
    pub window: Option<u64>,
    /// The prompt, or prompt and requested answer together.
    pub asked: Option<u64>,
}

/// The window follows these phrases; lower case.
const WINDOW_BEHIND: [&str; 13] = [
    // OpenAI, DeepSeek, vLLM, Fireworks.
    "maximum context length is ",
    "maximum context length: ",
    // xAI.
    "maximum prompt length is ",
    // Gemini.
    "maximum number of tokens allowed (",
    "maximum number of tokens allowed is ",
    // llama.cpp.
    "available context size (",
    "context size of ",
    "context window of ",
    "context length of ",
    "context limit of ",
    // Cohere, TGI.
    "cannot exceed ",
    "must be <= ",
    // Anthropic: `210000 tokens > 200000 maximum`, `190000 + 20000 > 200000`.
    " > ",
];
/// The window precedes these. Mistral.
const WINDOW_BEFORE: [&str; 2] = [" maximum context length", " token context"];
/// The requested tokens follow these phrases.
const ASKED_BEHIND: [&str; 9] = [
    "resulted in ",
    "you requested ",
    "you requested about ",
    "request contains ",
    "prompt contains ",
    "prompt is too long: ",
    "input token count (",
    "input token count of ",
    "request (",
];
/// Plausible windows. Other numbers are ignored.
const WINDOWS: std::ops::RangeInclusive<u64> = 512..=100_000_000;

/// Reads a message of kind `ContextLength`.
pub fn too_long(message: &str) -> ContextOverflow {
    let text = message.to_lowercase();
    let behind = |words: &[&str]| {
        words.iter().find_map(|words| {
            let at = text.find(words)? + words.len();
            number_at_start(&text[at..])
        })
    };
    let before = || WINDOW_BEFORE.iter().find_map(|words| number_at_end(&text[..text.find(words)?]));
    let window = behind(&WINDOW_BEHIND).or_else(before).filter(|window| WINDOWS.contains(window));
    let asked = behind(&ASKED_BEHIND).filter(|asked| window.is_none_or(|window| *asked > window));
    ContextOverflow { window, asked }
}

/// Digits, with or without commas.
fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == ','
}

fn number_at_start(text: &str) -> Option<u64> {
    let end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
    number(&text[..end])
}

fn number_at_end(text: &str) -> Option<u64> {
    let start =
        text.rfind(|c| !is_of_number(c)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    number(&text[start..])
}

fn number(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_many_vendors() {
        let table = [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
                Some(8_192),
                Some(9_001),
            ),
            (
                "This model's maximum context length is 131072 tokens. However, you requested 150000 tokens (140000 in the messages, 10000 in the completion).",
                Some(131_072),
                Some(150_000),
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000), Some(210_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
                Some(200_000),
                None,
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
                Some(1_200_000),
            ),
            (
                "This model's maximum prompt length is 131,072 but the request contains 250,000 tokens.",
                Some(131_072),
                Some(250_000),
            ),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                Some(32_768),
                Some(40_000),
            ),
            ("The prompt is too long: 140000, model maximum context length: 131071", Some(131_071), Some(140_000)),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(4_096),
                Some(5_000),
            ),
            ("Input is too long for requested model.", None, None),
            ("too many tokens", None, None),
            ("the prompt > 3 pages exceeds the context window", None, None),
            ("größer: 9 maximum context length", None, None),
        ];
        for (message, window, asked) in table {
            assert_eq!(too_long(message), ContextOverflow { window, asked }, "{message}");
        }
    }
}
