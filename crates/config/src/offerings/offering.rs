//! One row of the catalogue: one provider's offer of one model. Not for finding it: see `catalogue`.

/// What one provider says of one of its models.
#[derive(Clone, Debug, Default)]
pub struct Offering {
    /// As in `[providers.NAME]`.
    pub provider: String,
    /// What is sent as `model`.
    pub id: String,
    /// The name that all hosts of the same model share. None: nobody has decided which model it is.
    pub model: Option<String>,
    /// USD per million input tokens.
    pub input: Option<f64>,
    /// USD per million input tokens that the provider reads from its cache.
    pub cached: Option<f64>,
    /// USD per million input tokens that the provider writes into its cache.
    pub written: Option<f64>,
    /// USD per million output tokens.
    pub output: Option<f64>,
    /// Other prices for long prompts, the shortest first.
    pub tiers: Vec<PriceTier>,
    /// Tokens of prompt and answer.
    pub context: Option<u64>,
    /// Tokens of the answer.
    pub max_output: Option<u64>,
    /// What a prompt may contain.
    pub kinds: Option<Vec<InputKind>>,
    pub tools: Option<bool>,
    pub reasoning: Option<bool>,
    /// Answers by a JSON schema.
    pub schema: Option<bool>,
    /// It makes embeddings and no text.
    pub embedding: bool,
    /// The precision of its weights where the host says it: `fp8`.
    pub precision: Option<String>,
    /// The only dialect in which its provider serves it: `responses`.
    pub dialect: Option<String>,
    /// Only callers in this region can use it: `us`.
    pub region: Option<String>,
    pub status: OfferingStatus,
    /// The day from which the provider no longer serves it: `2026-02-16`.
    pub retires: Option<String>,
    /// Sources differ about its price by more than a tenth; the dearer one is here.
    pub disputed: bool,
    /// The day of its facts.
    pub date: Option<String>,
    /// The sources, a letter each; the catalogue's head names them.
    pub source: String,
}

/// The prices of a prompt of more than `above` tokens, in USD per million tokens. Absent: the usual price.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PriceTier {
    pub above: u64,
    pub input: Option<f64>,
    pub cached: Option<f64>,
    pub written: Option<f64>,
    pub output: Option<f64>,
}

/// A kind of content in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    Text,
    Image,
    Audio,
    Video,
    Pdf,
}

/// How far along an offering is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfferingStatus {
    #[default]
    Active,
    Preview,
    Deprecated,
    Retired,
}

impl InputKind {
    pub const ALL: [InputKind; 5] =
        [InputKind::Text, InputKind::Image, InputKind::Audio, InputKind::Video, InputKind::Pdf];

    pub fn as_str(self) -> &'static str {
        match self {
            InputKind::Text => "text",
            InputKind::Image => "image",
            InputKind::Audio => "audio",
            InputKind::Video => "video",
            InputKind::Pdf => "pdf",
        }
    }
}

impl OfferingStatus {
    pub const ALL: [OfferingStatus; 4] =
        [OfferingStatus::Active, OfferingStatus::Preview, OfferingStatus::Deprecated, OfferingStatus::Retired];

    pub fn as_str(self) -> &'static str {
        match self {
            OfferingStatus::Active => "active",
            OfferingStatus::Preview => "preview",
            OfferingStatus::Deprecated => "deprecated",
            OfferingStatus::Retired => "retired",
        }
    }
}

impl Offering {
    /// `provider/id`
    pub fn upstream(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// Whether the provider has stopped serving it by this day, such as `2026-11-22`.
    pub fn is_retired(&self, today: &str) -> bool {
        self.status == OfferingStatus::Retired || self.retires.as_deref().is_some_and(|day| day <= today)
    }

    /// One figure to compare hosts by: USD per million tokens of a prompt with a third as much answer.
    pub fn blended_price(&self) -> Option<f64> {
        Some((3.0 * self.input? + self.output?) / 4.0)
    }

    /// Bits of each weight, if the host says how it serves the model.
    pub fn bits(&self) -> Option<u8> {
        self.precision.as_deref().and_then(bits)
    }
}

/// Bits of each weight in a named precision.
pub(super) fn bits(precision: &str) -> Option<u8> {
    Some(match precision {
        "fp32" => 32,
        "bf16" | "fp16" => 16,
        "fp8" | "int8" => 8,
        "fp6" => 6,
        "fp4" | "mxfp4" | "nvfp4" | "int4" | "awq" => 4,
        _ => return None,
    })
}
