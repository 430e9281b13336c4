//! The one table of the words with which vendors end an answer, for all readers. Vocabulary: imports no dialect. Not for
//! how an end is written: each surface has its own words.

/// What the end of an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Stop,
    StopSequence,
    /// `max_tokens`, or the context window.
    Length,
    ToolCalls,
    /// The vendor's filter cut it.
    Filtered,
    /// The model refused.
    Refusal,
    /// The vendor paused a long turn; sending it back continues it.
    Pause,
    /// The vendor says that the answer failed: the attempt failed.
    BrokenOff,
    /// An unknown word. It is passed on to clients of the same dialect, and is no good end for others.
    Unknown,
}

/// The words of all dialects; none means something else in another dialect.
const ENDS: [(End, &[&str]); 8] = [
    (
        End::Stop,
        &[
            // OpenAI and compatible servers (TGI, Together), Anthropic and Bedrock, Responses, Gemini.
            "stop",
            "eos",
            "eos_token",
            "end_turn",
            "completed",
            "STOP",
            // Ollama: the request only loaded or unloaded the model.
            "load",
            "unload",
        ],
    ),
    (End::StopSequence, &["stop_sequence"]),
    (
        End::Length,
        &[
            "length",
            "max_tokens",
            "MAX_TOKENS",
            // Responses.
            "max_output_tokens",
            // Mistral; Anthropic, Bedrock and Z.ai.
            "model_length",
            "model_context_window_exceeded",
        ],
    ),
    (End::ToolCalls, &["tool_calls", "function_call", "tool_use"]),
    (
        End::Filtered,
        &[
            // OpenAI and Responses, Z.ai, Bedrock.
            "content_filter",
            "sensitive",
            "content_filtered",
            "guardrail_intervened",
            // Gemini.
            "SAFETY",
            "RECITATION",
            "PROHIBITED_CONTENT",
            "BLOCKLIST",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "MODEL_ARMOR",
        ],
    ),
    (End::Refusal, &["refusal"]),
    // Anthropic.
    (End::Pause, &["pause_turn", "compaction"]),
    (
        End::BrokenOff,
        &[
            // OpenRouter, Mistral, vLLM; Z.ai; vLLM and SGLang; DeepSeek.
            "error",
            "network_error",
            "abort",
            "insufficient_system_resource",
            // Compatible servers whose own upstream failed.
            "aborted",
            "cancelled",
            "canceled",
            "failed",
            "internal_error",
            "model_error",
            "server_error",
            "timeout",
            // Responses: without a reason.
            "incomplete",
            // Bedrock.
            "malformed_model_output",
            "malformed_tool_use",
            // Gemini: a call that cannot be run, and ends without a cause.
            "MALFORMED_FUNCTION_CALL",
            "MALFORMED_RESPONSE",
            "MISSING_THOUGHT_SIGNATURE",
            "TOO_MANY_TOOL_CALLS",
            "UNEXPECTED_TOOL_CALL",
            "IMAGE_OTHER",
            "LANGUAGE",
            "NO_IMAGE",
            "OTHER",
        ],
    ),
];

impl End {
    /// The meaning of a finish reason.
    pub fn of(word: &str) -> End {
        ENDS.iter().find(|(_, words)| words.contains(&word)).map_or(End::Unknown, |(end, _)| *end)
    }

    /// The answer was withheld, by the vendor's filter or by the model.
    pub fn is_refusal(self) -> bool {
        matches!(self, End::Filtered | End::Refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_means_two_things() {
        let mut words: Vec<&str> = ENDS.iter().flat_map(|(_, words)| words.iter().copied()).collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all);
    }

    #[test]
    fn a_word_that_nobody_knows_is_no_good_end() {
        for (word, end) in [
            ("stop", End::Stop),
            ("STOP", End::Stop),
            ("sensitive", End::Filtered),
            ("refusal", End::Refusal),
            ("network_error", End::BrokenOff),
            ("OTHER", End::BrokenOff),
            ("Stop", End::Unknown),
            ("", End::Unknown),
            ("a_word_of_next_year", End::Unknown),
        ] {
            assert_eq!(End::of(word), end, "{word}");
        }
    }
}
