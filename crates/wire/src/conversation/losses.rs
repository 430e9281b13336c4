//! Records what a request loses in translation, so that the request is refused or the loss reported, never silent.
//! [`TABLE`] says what each loss means.

use std::collections::HashMap;
use std::sync::LazyLock;

use LossClass::{Content, Form, Hint, Setting};
use serde_json::Value;

use crate::dialect::Surface;

/// Lost members, by the caller's names (`seed`, `tools[2]`, `messages[0].content[1]`). Hints are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    content: Vec<String>,
    settings: Vec<String>,
    forms: Vec<String>,
}

/// Maximum names of each kind. One more, `...`, replaces the rest.
const NAMES_MAX: usize = 16;
/// Maximum bytes of a name.
const NAME_MAX: usize = 64;

impl Losses {
    /// Records the loss of a member; its name decides what that means.
    pub fn lose(&mut self, name: impl AsRef<str>) {
        let name = name.as_ref();
        match class_of(name) {
            LossClass::Hint => {}
            LossClass::Form => add(&mut self.forms, name),
            LossClass::Setting => add(&mut self.settings, name),
            LossClass::Content => add(&mut self.content, name),
        }
    }

    /// [`Losses::lose`], if it is lost.
    pub fn lose_if(&mut self, lost: bool, name: &str) {
        if lost {
            self.lose(name);
        }
    }

    /// [`Losses::lose`] of an unknown member with this value. Inside another member an empty one is nothing, and within
    /// the conversation one without text is a form.
    pub fn lose_value(&mut self, name: &str, value: &Value) {
        let is_inside = name.contains('.');
        match value {
            Value::Null => {}
            Value::String(text) if is_inside && text.is_empty() => {}
            Value::Array(items) if is_inside && items.is_empty() => {}
            Value::Object(members) if is_inside && members.is_empty() => {}
            Value::Bool(_) | Value::Number(_) if is_inside && class_of(name) == LossClass::Content => {
                add(&mut self.forms, name);
            }
            _ => self.lose(name),
        }
    }

    /// [`Losses::lose_value`] of each member of an object that is not known.
    pub fn lose_others<'m>(
        &mut self,
        members: impl IntoIterator<Item = (&'m String, &'m Value)>,
        path: &str,
        known: &[&str],
    ) {
        for (name, value) in members {
            if !known.contains(&name.as_str()) && value != false {
                self.lose_value(&format!("{path}.{name}"), value);
            }
        }
    }

    /// Records a loss that the operator wants, whatever its name.
    pub fn form(&mut self, name: impl AsRef<str>) {
        add(&mut self.forms, name.as_ref());
    }

    /// Records the loss of a part, an item or a tool, whatever its name.
    pub fn content(&mut self, name: impl AsRef<str>) {
        add(&mut self.content, name.as_ref());
    }

    /// [`Losses::content`]. Returns none, in place of the part.
    pub fn part<T>(&mut self, name: impl AsRef<str>) -> Option<T> {
        self.content(name);
        None
    }

    /// Adds other losses.
    pub fn extend(&mut self, other: &Losses) {
        for (into, from) in self.lists_mut().into_iter().zip(other.lists()) {
            from.iter().for_each(|name| add(into, name));
        }
    }

    /// The same losses under other names.
    pub fn renamed<'a>(&'a self, rename: impl Fn(&'a str) -> &'a str) -> Losses {
        let mut renamed = Losses::default();
        for (into, from) in renamed.lists_mut().into_iter().zip(self.lists()) {
            from.iter().for_each(|name| add(into, rename(name)));
        }
        renamed
    }

    /// True if nothing is lost that the request is about.
    pub fn keeps_content(&self) -> bool {
        self.content.is_empty()
    }

    /// True if nothing is lost that the request is about or that shapes the answer.
    pub fn keeps_settings(&self) -> bool {
        self.content.is_empty() && self.settings.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// Names of lost content and settings, each once.
    pub fn deciding(&self) -> impl Iterator<Item = &str> {
        self.content.iter().chain(&self.settings).map(String::as_str)
    }

    /// All names: content, settings, forms.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.lists().into_iter().flatten().map(String::as_str)
    }

    fn lists(&self) -> [&Vec<String>; 3] {
        [&self.content, &self.settings, &self.forms]
    }

    fn lists_mut(&mut self) -> [&mut Vec<String>; 3] {
        [&mut self.content, &mut self.settings, &mut self.forms]
    }
}

/// Names come from callers: they are cut, white space is removed, and characters outside ASCII become `?`.
fn add(names: &mut Vec<String>, name: &str) {
    let visible = name.chars().filter(|c| !c.is_whitespace() && !c.is_control() && *c != ',');
    let name: String = visible.map(|c| if c.is_ascii() { c } else { '?' }).take(NAME_MAX).collect();
    let name = if name.is_empty() { "?".to_owned() } else { name };
    if names.contains(&name) || names.len() > NAMES_MAX {
        return;
    }
    names.push(if names.len() == NAMES_MAX { "...".to_owned() } else { name });
}

// What it means that a translation drops a member: one table for the writers and readers of all dialects.
// `docs/translation.md` prints it.

/// How much of a request a lost member is, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossClass {
    /// Helps the vendor's accounting or caching. Dropped silently.
    Hint,
    /// How something is said, and additions to it. Dropped and named.
    Form,
    /// A form that shapes the answer. Dropped and named; upstreams that keep it are preferred.
    Setting,
    /// What the request is about. Never dropped, unless the operator says so.
    Content,
}

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
            "reasoning.context",
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

/// The members that hold the conversation. Unknown members in them are content.
const CONVERSATION: [&str; 6] = ["messages", "input", "contents", "system", "systemInstruction", "instructions"];

/// The class of a member by its name, such as `seed` or `messages[2].content[0].citations`. An unknown member is content
/// within the conversation, a form within a tool, and a setting elsewhere.
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

/// What a request keeps after a refusal: how long and in which form its answer is, and what is called.
const KEPT: [&str; 6] = ["max_tokens", "n", "options", "response_format", "tool_choice", "tools"];
/// Members of some servers without which a request is still what the client asks; as are unknown numbers and flags.
const EXTRAS: [&str; 3] = ["betas", "chat_template_kwargs", "stream_options.include_obfuscation"];
/// Flags that say what the rest is.
const FLAGS: [&str; 2] = ["stream", ".thought"];

/// Whether a request is still what its client asks without this member, which is none of its conversation and tools. The name is that
/// of any surface.
pub fn is_optional(name: &str) -> bool {
    // Bedrock's settings have Gemini's names.
    let of_gemini = name.strip_prefix("inferenceConfig.").map(|own| format!("generationConfig.{own}"));
    let name = of_gemini.as_deref().unwrap_or(name);
    let chat = NAMES.iter().find(|(_, names)| names.contains(&name)).map_or(name, |(chat, _)| *chat);
    let is_known = |name: &str| BY_NAME.get(name).is_some_and(|class| *class != Content) && !KEPT.contains(&name);
    EXTRAS.contains(&name) || is_known(name) || (is_known(chat) && !chat.starts_with("response_format"))
}

/// Whether a member has a meaning here. The name is that of any surface.
pub fn is_known(name: &str) -> bool {
    let is_its = |(chat, names): &(&str, [&str; 4])| *chat == name || names.contains(&name);
    BY_NAME.contains_key(name) || FLAGS.contains(&name) || NAMES.iter().any(is_its)
}

/// Whether an item of the conversation, or a tool, is the same without this member, as without most numbers and flags.
pub fn is_addition(name: &str) -> bool {
    const CARRIES: [&str; 5] = ["id", "name", "role", "description", "thinking_blocks"];
    const ADDED: [&str; 6] = ["allowed_callers", "detail", "input_examples", "output_config", "scope", "ttl"];
    ADDED.contains(&name) || !CARRIES.contains(&name) && BY_NAME.contains_key(format!(".{name}").as_str())
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

/// The form of the answer is not asked for by a member, but in the instructions.
pub const IN_WORDS: &str = "response_format:in_words";

/// Dialects report losses by chat's names. These are the names of Messages, Responses, Ollama and Gemini; empty: the same.
const NAMES: [(&str, [&str; 4]); 36] = [
    ("budget_tokens", ["thinking.budget_tokens", "reasoning.effort", "", ""]),
    ("document.title", ["title", "filename", "", ""]),
    ("document.url", ["source.url", "file_url", "", ""]),
    ("document_url", ["source.url", "file_url", "", ""]),
    ("file_id", ["source.file_id", "", "", ""]),
    ("frequency_penalty", ["", "", "options.frequency_penalty", "generationConfig.frequencyPenalty"]),
    ("image_url", ["source.url", "", "", ""]),
    ("image_url.detail", ["", "detail", "", ""]),
    ("logprobs", ["", "top_logprobs", "", "generationConfig.responseLogprobs"]),
    ("max_completion_tokens", ["max_tokens", "max_output_tokens", "options.num_predict", ""]),
    ("max_tokens", ["", "max_output_tokens", "options.num_predict", "generationConfig.maxOutputTokens"]),
    ("n", ["", "", "", "generationConfig.candidateCount"]),
    ("parallel_tool_calls", ["tool_choice.disable_parallel_tool_use", "", "", ""]),
    ("presence_penalty", ["", "", "options.presence_penalty", "generationConfig.presencePenalty"]),
    ("reasoning", ["thinking", "", "think", "generationConfig.thinkingConfig"]),
    ("reasoning.encrypted_content", ["", "include", "", ""]),
    ("reasoning.exclude", ["thinking.display", "reasoning.summary", "", ""]),
    ("reasoning_content", ["thinking", "reasoning", "messages.thinking", ""]),
    ("reasoning_effort", ["output_config.effort", "reasoning.effort", "think", "generationConfig.thinkingConfig"]),
    ("response_format", ["output_config.format", "text.format", "format", "generationConfig.responseMimeType"]),
    (
        IN_WORDS,
        [
            "output_config.format:in_words",
            "text.format:in_words",
            "format:in_words",
            "generationConfig.responseMimeType:in_words",
        ],
    ),
    (
        "response_format.json_schema",
        ["output_config.format", "text.format", "format", "generationConfig.responseJsonSchema"],
    ),
    ("response_format.json_schema.description", ["", "text.format.description", "", ""]),
    ("response_format.json_schema.name", ["output_config.format.name", "text.format.name", "", ""]),
    (
        "response_format.schema",
        ["output_config.format.schema", "text.format.schema", "format", "generationConfig.responseJsonSchema"],
    ),
    ("seed", ["", "", "options.seed", "generationConfig.seed"]),
    ("stop", ["stop_sequences", "", "options.stop", "generationConfig.stopSequences"]),
    ("temperature", ["", "", "options.temperature", "generationConfig.temperature"]),
    ("thinking", ["", "reasoning", "messages.thinking", ""]),
    ("thinking.budget_tokens", ["", "reasoning.effort", "", ""]),
    ("tool_choice", ["", "", "", "toolConfig"]),
    ("top_k", ["", "", "options.top_k", "generationConfig.topK"]),
    ("top_logprobs", ["", "", "", "generationConfig.logprobs"]),
    ("top_p", ["", "", "options.top_p", "generationConfig.topP"]),
    ("user", ["metadata.user_id", "", "", ""]),
    ("verbosity", ["", "text.verbosity", "", ""]),
];

/// The caller's name for a lost member.
pub fn name_of(surface: Surface, name: &str) -> &str {
    let column = match surface {
        Surface::Messages => 0,
        Surface::Responses => 1,
        Surface::OllamaChat | Surface::OllamaGenerate => 2,
        Surface::Gemini => 3,
        _ => return name,
    };
    let own = NAMES.iter().find(|(chat, _)| *chat == name).map_or("", |(_, names)| names[column]);
    if own.is_empty() { name } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_within_bounds() {
        let mut losses = Losses::default();
        assert!(losses.is_empty() && losses.keeps_settings());
        losses.lose("cache_control");
        assert!(losses.is_empty(), "a hint is dropped silently");
        losses.lose("service_tier");
        losses.lose("service_tier");
        assert!(losses.keeps_settings());
        losses.lose("seed");
        assert!(losses.keeps_content() && !losses.keeps_settings());
        losses.content("a\r\nb, c");
        losses.content("x".repeat(1_000));
        losses.content("größe");
        losses.content("");
        assert!(!losses.keeps_content());
        let names = ["abc", &"x".repeat(NAME_MAX), "gr??e", "?", "seed", "service_tier"];
        assert_eq!(losses.names().collect::<Vec<_>>(), names);
        let renamed = losses.renamed(|name| if name == "abc" { "d" } else { name });
        assert_eq!((renamed.deciding().next(), renamed.names().count()), (Some("d"), 6));
        (0..100).for_each(|n| losses.content(format!("tools[{n}]")));
        assert_eq!(losses.content.len(), NAMES_MAX + 1);
        assert_eq!(losses.content[NAMES_MAX], "...");
    }
}

#[cfg(test)]
mod loss_class_tests {
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
