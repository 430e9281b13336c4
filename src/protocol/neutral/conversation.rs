//! A request, in words of no dialect.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Losses;

/// What is asked. `model`, `stream` and `stream_options` are not in here: they are set for each upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// System prompts from before the first turn, in their order: text parts.
    pub system: Vec<MessagePart>,
    pub turns: Vec<ConversationTurn>,
    /// Functions that the caller runs. What a vendor runs itself cannot be carried over.
    pub tools: Vec<Tool>,
    pub tool_choice: Option<ToolChoice>,
    /// Whether several tools may be called at once.
    pub parallel_tool_calls: Option<bool>,
    pub format: Option<Format>,
    /// How much the model is to think before it answers, and whether the thoughts are to be shown.
    pub reasoning: Option<Reasoning>,
    pub sampling: Sampling,
    /// Who the end user is (`user`, `metadata.user_id`, `safety_identifier`).
    pub user: Option<String>,
    /// Free key-value pairs for the vendor's logs.
    pub metadata: Option<Map<String, Value>>,
    pub service_tier: Option<String>,
    /// OpenAI's `verbosity`: low, medium, high.
    pub verbosity: Option<String>,
    /// Members of the request as they came, for a surface whose answers repeat them (Responses).
    pub echo: Arc<Map<String, Value>>,
    /// What of the request has no place in here, by the names that the surface gives it.
    pub losses: Losses,
}

impl Conversation {
    /// Takes out what models thought in earlier turns, and the signatures of their calls. False if there is none.
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
}

/// Options that shape the tokens. All numbers are as the caller wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Tokens of the answer, reasoning included, at most.
    pub max_tokens: Option<u64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub seed: Option<i64>,
    /// Several answers to one request.
    pub n: Option<u64>,
    pub stop: Vec<String>,
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<u64>,
    /// OpenAI's `logit_bias`, as it came.
    pub logit_bias: Option<Value>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A system or developer message behind the first turn.
    System,
    User,
    Assistant,
}

/// Neighbours of one role may follow each other; a dialect that wants them to alternate joins them. Tool results are parts of
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
    /// What the assistant thought in an earlier turn.
    Thinking(ReasoningPart),
    /// What the assistant refused with in an earlier turn.
    Refusal(String),
    Call(ToolCall),
    Result(ToolResult),
}

/// A hint to cache what stands up to here: Anthropic's `ephemeral`, with its `ttl` if it names one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    pub ttl: Option<String>,
}

/// Where the bytes of an image or a document are.
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
    /// An id in one vendor's own file store: no other can read it.
    File(String),
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
    /// A file's name or a title.
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

/// Reasoning that a model showed, and what proves to its vendor that it is its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasoningPart {
    pub text: String,
    /// Anthropic's and Gemini's `signature`, Responses' `encrypted_content`. Only the vendor that made it takes it back, so it
    /// says who that is: see [`super::signature`].
    pub signature: Option<String>,
    /// It is shown encrypted only (Anthropic's `redacted_thinking`): `text` is empty and `signature` holds the data.
    pub redacted: bool,
    /// The id of a Responses item.
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// A JSON text, as the model wrote it; empty means `{}`.
    pub arguments: String,
    /// Gemini's `thoughtSignature` on a call, with its owner.
    pub signature: Option<String>,
    /// A free-form tool of the Responses surface (`custom_tool_call`): `arguments` is the bare input, not JSON.
    pub custom: bool,
    pub cache: Option<CacheHint>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// The [`ToolCall::id`] that it answers.
    pub call_id: String,
    /// The name of the function, where the surface repeats it or it is known from the call (Gemini and Ollama need it).
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
    /// A JSON schema of an object; none means that it takes no arguments.
    pub parameters: Option<Value>,
    pub strict: Option<bool>,
    /// A free-form tool (Responses' and chat's `custom`): it takes one text. Its grammar, if any, is in `format`.
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

/// What the answer's text has to look like.
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
    /// Tokens (Anthropic's and Gemini's thinking budget).
    pub budget: Option<u64>,
    /// Whether the thoughts, or a summary of them, are to be shown (Responses' `summary`, Gemini's `includeThoughts`, Anthropic's `display`).
    pub show: Option<bool>,
    /// Whether encrypted reasoning is asked for, to be sent back later (Responses' `include`).
    pub encrypted: bool,
}

/// Ordered from little to much. `from_name`/`as_str` use OpenAI's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

impl Effort {
    const ALL: [Effort; 7] =
        [Effort::None, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];

    pub fn as_str(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::XHigh => "xhigh",
            Effort::Max => "max",
        }
    }

    pub fn from_name(name: &str) -> Option<Effort> {
        Effort::ALL.into_iter().find(|effort| effort.as_str() == name)
    }

    /// The thinking budget that stands for it where only budgets are known, tokens. The figures are those that the common
    /// gateways agree on: 1,024, 4,096 and more by powers of two.
    pub fn budget(self) -> u64 {
        match self {
            Effort::None => 0,
            Effort::Minimal | Effort::Low => 1_024,
            Effort::Medium => 4_096,
            Effort::High => 16_384,
            Effort::XHigh | Effort::Max => 32_768,
        }
    }

    /// The effort that a budget comes nearest to.
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
