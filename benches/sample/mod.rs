//! The events that the measurements read: OpenAI's layout, about 330 bytes each. Not for tests, which have recordings.

use bytes::{Bytes, BytesMut};

/// The beginning of every chunk.
macro_rules! head {
    () => {
        concat!(
            r#"data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741570283,"#,
            r#""model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_06737a9306","#
        )
    };
}

/// A chunk with one choice.
macro_rules! chunk {
    ($delta:expr, $finish:expr) => {
        concat!(
            head!(),
            r#""choices":[{"index":0,"delta":"#,
            $delta,
            r#","logprobs":null,"finish_reason":"#,
            $finish,
            r#"}],"usage":null,"obfuscation":"q1kZ8vW2"}"#,
            "\n\n"
        )
    };
}
pub const ROLE: &str = chunk!(r#"{"role":"assistant","content":"","refusal":null}"#, "null");
pub const TEXT: &str = chunk!(r#"{"content":" wonderful"}"#, "null");
pub const TOOL: &str =
    chunk!(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Paris\",\"unit\""}}]}"#, "null");
pub const FINISH: &str = chunk!("{}", r#""stop""#);
pub const USAGE: &str = concat!(
    head!(),
    r#""choices":[],"usage":{"prompt_tokens":19,"completion_tokens":200,"total_tokens":219,"#,
    r#""prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":"#,
    r#"{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
    "\n\n"
);
pub const DONE: &str = "data: [DONE]\n\n";

/// One whole stream of `tokens` text events, one element per event.
pub fn stream(tokens: usize) -> Vec<Bytes> {
    let text = std::iter::repeat_n(TEXT, tokens);
    let tail = [TOOL, FINISH, USAGE, DONE];
    std::iter::once(ROLE).chain(text).chain(tail).map(|event| Bytes::from_static(event.as_bytes())).collect()
}

/// The same bytes, split into reads of `size` bytes.
pub fn reads(events: &[Bytes], size: usize) -> Vec<Bytes> {
    let mut joined = BytesMut::new();
    events.iter().for_each(|event| joined.extend_from_slice(event));
    let mut rest = joined.freeze();
    let mut reads = Vec::new();
    while !rest.is_empty() {
        reads.push(rest.split_to(size.min(rest.len())));
    }
    reads
}
