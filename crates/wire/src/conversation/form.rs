//! A request in neutral form.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Losses;

/// The content of a request. Without `model`, `stream` and `stream_options`, which are set for each upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// System prompts before the first turn, in order: text parts.
    pub system: Vec<MessagePart>,
    pub turns: Vec<ConversationTurn>,
    /// Functions that the caller runs. Tools that a vendor runs itself cannot be translated.
    pub tools: Vec<Tool>,
    pub tool_choice: Option<ToolChoice>,
    /// Whether the model may call several tools at once.
    pub parallel_tool_calls: Option<bool>,
    /// The caller lists `functions`, the predecessor of tools: an answer has one call at most.
    pub legacy_functions: bool,
    /// It asks for a short form of itself, with which it is continued (Responses).
    pub compacts: bool,
    pub format: Option<Format>,
    /// How much the model thinks before it answers, and whether the thoughts are shown.
    pub reasoning: Option<Reasoning>,
    pub sampling: Sampling,
    /// The end user (`user`, `metadata.user_id`, `safety_identifier`).
    pub user: Option<String>,
    /// `user` comes from `safety_identifier`.
    pub user_is_identifier: bool,
    /// Free key-value pairs for the vendor's logs.
    pub metadata: Option<Map<String, Value>>,
    pub service_tier: Option<String>,
    /// OpenAI's `verbosity`: low, medium, high.
    pub verbosity: Option<String>,
    /// Original members of the request, for a surface whose answers repeat them (Responses).
    pub echo: Arc<Map<String, Value>>,
    /// Members of the request that have no place here, by the surface's names.
    pub losses: Losses,
}

impl Conversation {
    /// Removes the thoughts of earlier turns, and the signatures of calls. False if there are none.
    pub fn forget_reasoning(&mut self) -> bool {
        let mut found = false;
        for turn in &mut self.turns {
            let before = turn.parts.len();
            turn.parts.retain(|part| !matches!(part, MessagePart::Thinking(_)));
            found |= turn.parts.len() < before;
            for part in &mut turn.parts {
                if let MessagePart::Call(call) = part {
                    found |= call.signature.take().is_some();
                }
            }
        }
        self.turns.retain(|turn| !turn.parts.is_empty());
        found
    }

    /// Whether the model may call several tools at once, for a dialect that can say so.
    pub fn parallel_calls(&self) -> Option<bool> {
        self.parallel_tool_calls.or(self.legacy_functions.then_some(false))
    }

    /// The member that names the end user.
    pub fn user_member(&self) -> &'static str {
        if self.user_is_identifier { "safety_identifier" } else { "user" }
    }

    /// Adds a system message: to the system prompt before the first turn, else as a turn.
    pub fn add_system(&mut self, parts: Vec<MessagePart>) {
        match self.turns.as_slice() {
            [] => self.system.extend(parts),
            _ => self.turns.push(ConversationTurn { role: Role::System, parts }),
        }
    }

    /// Whether the last turn has this result of this call already: some clients repeat results when they resume a session.
    pub fn repeats_result(&self, call_id: &str, parts: &[MessagePart]) -> bool {
        let is_it = |part: &MessagePart| matches!(part, MessagePart::Result(known) if known.call_id == call_id && known.parts == parts);
        !call_id.is_empty() && self.turns.last().is_some_and(|turn| turn.parts.iter().any(is_it))
    }

    /// Adds the result of a call, once. Consecutive results are parts of one turn; a user message begins another.
    pub fn add_result(&mut self, result: ToolResult) {
        if self.repeats_result(&result.call_id, &result.parts) {
            return;
        }
        let result = MessagePart::Result(result);
        match self.turns.last_mut() {
            Some(turn) if matches!(turn.parts.last(), Some(MessagePart::Result(_))) => turn.parts.push(result),
            _ => self.turns.push(ConversationTurn { role: Role::User, parts: vec![result] }),
        }
    }
}

/// Options that shape the tokens, as the caller wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Maximum tokens of the answer, reasoning included.
    pub max_tokens: Option<u64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub seed: Option<i64>,
    /// Number of answers to one request.
    pub n: Option<u64>,
    pub stop: Vec<String>,
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<u64>,
    /// OpenAI's `logit_bias`, unchanged.
    pub logit_bias: Option<Value>,
}

photofinish_base::named! {
    /// The speaker of a turn, by the name that most dialects use.
    pub enum Role {
        /// A system or developer message after the first turn.
        System = "system",
        User = "user",
        Assistant = "assistant",
    }
}

/// Turns of one role may follow each other; a dialect that requires alternation joins them. Tool results are parts of
/// user turns.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationTurn {
    pub role: Role,
    pub parts: Vec<MessagePart>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MessagePart {
    Text {
        text: String,
        cache: Option<CacheHint>,
    },
    Image(Image),
    Document(Document),
    Audio(Audio),
    /// Thoughts of the assistant in an earlier turn.
    Thinking(ReasoningPart),
    /// A refusal of the assistant in an earlier turn.
    Refusal(String),
    Call(ToolCall),
    Result(ToolResult),
}

impl MessagePart {
    pub fn cache(&self) -> Option<&CacheHint> {
        match self {
            MessagePart::Text { cache, .. } => cache.as_ref(),
            MessagePart::Image(image) => image.cache.as_ref(),
            MessagePart::Document(document) => document.cache.as_ref(),
            MessagePart::Call(call) => call.cache.as_ref(),
            MessagePart::Result(result) => result.cache.as_ref(),
            MessagePart::Audio(_) | MessagePart::Thinking(_) | MessagePart::Refusal(_) => None,
        }
    }
}

/// A hint to cache everything up to here: Anthropic's `ephemeral`, with its `ttl` if given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    pub ttl: Option<String>,
}

/// The bytes of an image or a document, or their address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Url(String),
    /// `media_type` such as `image/png`; `data` is base64.
    Base64 {
        media_type: String,
        data: String,
    },
    /// Plain text (documents only).
    Text(String),
    /// An id in one vendor's file store. No other vendor can read it.
    File(String),
}

impl Source {
    /// The bytes that a data URL (`data:image/png;base64,...`) holds. None for other addresses.
    pub fn of_data_url(url: &str) -> Option<Source> {
        let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
        let media_type = head.strip_suffix(";base64")?.split(';').next().unwrap_or_default();
        Some(Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() })
    }

    /// An address of the content, or a data URL. None for plain text and files.
    pub fn url(&self) -> Option<String> {
        match self {
            Source::Url(url) => Some(url.clone()),
            Source::Base64 { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
            Source::Text(_) | Source::File(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub source: Source,
    /// OpenAI's `detail`: low, high, auto.
    pub detail: Option<String>,
    pub cache: Option<CacheHint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub source: Source,
    /// A file name or a title.
    pub name: Option<String>,
    pub cache: Option<CacheHint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// Such as `wav`, `mp3`.
    pub format: String,
    /// Base64.
    pub data: String,
}

/// Reasoning that a model showed, with its vendor's signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasoningPart {
    pub text: String,
    /// Anthropic's and Gemini's `signature`, Responses' `encrypted_content`. Only the vendor that made it accepts it,
    /// so it names its owner: see [`super::signature`].
    pub signature: Option<String>,
    /// The reasoning is shown only encrypted (Anthropic's `redacted_thinking`): `text` is empty and `signature` holds
    /// the data.
    pub redacted: bool,
    /// The id of a Responses item.
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// JSON text as the model wrote it. Empty means `{}`.
    pub arguments: String,
    /// Gemini's `thoughtSignature` of a call, with its owner.
    pub signature: Option<String>,
    /// A call of a free-form tool (Responses' `custom_tool_call`): `arguments` is plain text, not JSON.
    pub custom: bool,
    pub cache: Option<CacheHint>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// The [`ToolCall::id`] of the answered call.
    pub call_id: String,
    /// The function's name, if the surface repeats it or the call is known. Gemini and Ollama need it.
    pub name: Option<String>,
    /// Text, images, documents.
    pub parts: Vec<MessagePart>,
    pub is_error: bool,
    pub custom: bool,
    pub cache: Option<CacheHint>,
}

/// A function that the model may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: Option<String>,
    /// A JSON schema of an object. None: no arguments.
    pub parameters: Option<Value>,
    pub strict: Option<bool>,
    /// A free-form tool (`custom` in Responses and chat): takes one text. Its grammar, if any, is in `format`.
    pub custom: bool,
    pub format: Option<Value>,
    pub cache: Option<CacheHint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    None,
    /// At least one call.
    Required,
    Named(String),
}

impl Format {
    /// The member that is lost with it. A request for any JSON says so in its prompt too; a schema is only in this member.
    pub fn member(&self) -> &'static str {
        match self {
            Format::Text | Format::Json => "response_format",
            Format::Schema { .. } => "response_format.json_schema",
        }
    }
}

/// The required format of the answer's text.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    Text,
    /// Any JSON object.
    Json,
    Schema {
        name: Option<String>,
        description: Option<String>,
        schema: Value,
        strict: Option<bool>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// False: explicitly switched off.
    pub enabled: Option<bool>,
    pub effort: Option<Effort>,
    /// Token budget (Anthropic, Gemini).
    pub budget: Option<u64>,
    /// Whether to show the thoughts or a summary (Responses' `summary`, Gemini's `includeThoughts`, Anthropic's
    /// `display`).
    pub show: Option<bool>,
    /// Whether to return encrypted reasoning, to be sent back later (Responses' `include`).
    pub encrypted: bool,
}

impl Reasoning {
    /// Whether it is off, for a vendor that has only efforts: no effort says so.
    pub fn is_off_without_effort(&self) -> bool {
        let off = self.enabled == Some(false) || (self.effort.is_none() && self.budget == Some(0));
        off && self.effort != Some(Effort::None)
    }
}

photofinish_base::named! {
    /// In ascending order, by OpenAI's names.
    #[derive(PartialOrd, Ord)]
    pub enum Effort {
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        XHigh = "xhigh",
        Max = "max",
    }
}

impl Effort {
    /// The thinking budget for this effort, in tokens. The values are those that common gateways use: 1,024, 4,096, and
    /// so on by powers of two.
    pub fn budget(self) -> u64 {
        match self {
            Effort::None => 0,
            Effort::Minimal | Effort::Low => 1_024,
            Effort::Medium => 4_096,
            Effort::High => 16_384,
            Effort::XHigh | Effort::Max => 32_768,
        }
    }

    /// The effort nearest to a budget.
    pub fn of_budget(budget: u64) -> Effort {
        match budget {
            0 => Effort::None,
            1..=2_048 => Effort::Low,
            2_049..=8_192 => Effort::Medium,
            8_193..=24_576 => Effort::High,
            _ => Effort::XHigh,
        }
    }
}
