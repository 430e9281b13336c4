//! What it means that a translation drops a member: one table for the writers and readers of all dialects.
//! `docs/translation.md` prints it.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How much of a request a lost member is, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossClass {
    /// Helps the vendor's accounting or caching. Dropped silently.
    Hint,
    /// How something is said, and what stands beside it. Dropped and named.
    Form,
    /// A form that shapes the answer. Dropped and named; upstreams that keep it are preferred.
    Setting,
    /// What the request is about. Never dropped, unless the operator says so.
    Content,
}

use LossClass::{Content, Form, Hint, Setting};

/// The class of each member that is known by name, in the words of the surface that has it. A name that begins with a dot
/// is a member at any depth. Members that are not here: see [`class_of`].
pub const TABLE: [(LossClass, &[&str]); 4] = [
    (
        Hint,
        &[
            "cache_control",
            "cache_control.ttl",
            "metadata",
            "user",
            ".cache_control",
            // Codex keeps its own books in items.
            ".internal_chat_message_metadata_passthrough",
        ],
    ),
    (
        Form,
        &[
            // Accounting, caching and storing.
            "client_metadata",
            "inference_geo",
            "keep_alive",
            "options",
            "labels",
            "metadata.user_id",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "safetySettings",
            "service_tier",
            "store",
            "usage",
            "user_profile_id",
            // Bounds and helps that no answer depends on.
            "context_management",
            "include",
            "max_tokens",
            "max_tool_calls",
            "prediction",
            "shift",
            "truncate",
            "truncation",
            "verbosity",
            "generationConfig.mediaResolution",
            // How much is thought, and whether it is shown.
            "budget_tokens",
            "reasoning.encrypted_content",
            "reasoning.exclude",
            "reasoning.summary",
            "reasoning_effort",
            "thinking.budget_tokens",
            // Thoughts of earlier turns: only the vendor that made them takes them.
            "messages.thinking",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "signature",
            "thinking",
            "thought_signature",
            "thoughts",
            // Names, descriptions and details.
            "document.title",
            "image_url.detail",
            "response_format.schema",
            "strict",
            "tools",
            "is_error",
            ".annotations",
            ".caller",
            ".citations",
            ".created_by",
            ".description",
            ".displayName",
            ".id",
            ".is_error",
            ".logprobs",
            ".name",
            ".parsed",
            ".phase",
            ".provider_specific_fields",
            ".role",
            ".scheduling",
            ".status",
            ".thinking_blocks",
            ".thoughtSignature",
            ".weight",
            // Ollama's options of the server.
            "options.embedding_only",
            "options.f16_kv",
            "options.low_vram",
            "options.main_gpu",
            "options.num_batch",
            "options.num_ctx",
            "options.num_gpu",
            "options.num_keep",
            "options.num_thread",
            "options.numa",
            "options.use_mlock",
            "options.use_mmap",
            "options.vocab_only",
        ],
    ),
    (
        Setting,
        &[
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "n",
            "parallel_tool_calls",
            "presence_penalty",
            "response_format",
            "seed",
            "stop",
            "temperature",
            "tool_choice",
            "top_k",
            "top_logprobs",
            "top_p",
        ],
    ),
    (
        Content,
        &[
            // What the vendor stored earlier.
            "background",
            "cachedContent",
            "container",
            "conversation",
            "previous_response_id",
            "prompt",
            // Tools, and which of them may be called.
            "allowedFunctionNames",
            "mcp_servers",
            "tool_choice.allowed_tools",
            "web_search_options",
            // What the answer has to be.
            "audio",
            "dimensions",
            "generationConfig.responseModalities",
            "generationConfig.speechConfig",
            "modalities",
            "response_format.json_schema",
            // Ollama's prompts as raw text.
            "context",
            "raw",
            "suffix",
            "template",
        ],
    ),
];

/// The members that hold the conversation. What stands in them and is not known is content.
const CONVERSATION: [&str; 6] = ["messages", "input", "contents", "system", "systemInstruction", "instructions"];

/// The class of a member by its name, such as `seed` or `messages[2].content[0].citations`. What nobody knows is content
/// within the conversation, a form within a tool, and a setting beside them.
pub fn class_of(name: &str) -> LossClass {
    let plain = without_indexes(name);
    let anywhere = plain.rfind('.').map_or("", |at| &plain[at..]);
    match (BY_NAME.get(plain.as_str()).or_else(|| BY_NAME.get(anywhere)), plain.split('.').next()) {
        (Some(class), _) => *class,
        (None, Some(root)) if CONVERSATION.contains(&root) => Content,
        (None, Some("tools")) => Form,
        (None, _) => Setting,
    }
}

static BY_NAME: LazyLock<HashMap<&str, LossClass>> =
    LazyLock::new(|| TABLE.iter().flat_map(|(class, names)| names.iter().map(|name| (*name, *class))).collect());

/// `messages[2].content[0]` → `messages.content`
fn without_indexes(name: &str) -> String {
    let mut depth = 0_u32;
    name.chars()
        .filter(|c| {
            depth += u32::from(*c == '[');
            let outside = depth == 0;
            depth -= u32::from(*c == ']' && depth > 0);
            outside
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_judged_by_its_place() {
        let table = [
            ("cache_control", Hint),
            ("messages[0].content[3].cache_control", Hint),
            ("user", Hint),
            ("safety_identifier", Form),
            ("tools[3].function.strict", Form),
            ("tools[0].invented", Form),
            ("messages[1].name", Form),
            ("messages[1].content[0].logprobs", Form),
            ("seed", Setting),
            ("logprobs", Setting),
            ("invented", Setting),
            ("text.invented", Setting),
            ("response_format.json_schema", Content),
            ("messages[1].invented", Content),
            ("input[0].content[1]", Content),
            ("contents[0].parts[0].videoMetadata", Content),
            ("previous_response_id", Content),
            ("messages[1].a]b[", Content),
            ("", Setting),
        ];
        for (name, class) in table {
            assert_eq!(class_of(name), class, "{name}");
        }
    }

    #[test]
    fn a_member_has_one_class() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|(_, names)| *names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_document_prints_the_table() {
        const PAGE: &str = include_str!("../../../../docs/translation.md");
        for (class, names) in TABLE {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let row = format!("| {} | {} |", format!("{class:?}").to_lowercase(), names.join(", "));
            assert!(PAGE.contains(&row), "docs/translation.md must have the row\n{row}");
        }
    }
}
