//! The tier that served a request, as its answer says. The price depends on it.
//!
//! Not for prices: see `photofinish_history`.

/// The tiers that vendors sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceTier {
    Standard,
    /// Spare capacity, for less.
    Flex,
    /// Before others, for more.
    Priority,
    /// OpenAI's fastest.
    Ultrafast,
    /// Anthropic's fast mode.
    Fast,
    /// Anthropic: inference in the United States alone.
    UsOnly,
    /// Capacity that is paid for beforehand.
    Reserved,
    /// No tier of this list.
    Other,
}

impl ServiceTier {
    /// The tier with this name at OpenAI and compatible servers, Gemini, Vertex AI and Bedrock.
    pub fn of_name(name: &str) -> ServiceTier {
        match name.to_ascii_lowercase().as_str() {
            "" | "auto" | "default" | "standard" | "standard_only" | "on_demand" | "traffic_type_unspecified" => {
                ServiceTier::Standard
            }
            "flex" | "on_demand_flex" | "batch" => ServiceTier::Flex,
            // OpenAI's newer name.
            "priority" | "on_demand_priority" | "fast" => ServiceTier::Priority,
            "ultrafast" => ServiceTier::Ultrafast,
            "scale" | "reserved" | "provisioned_throughput" => ServiceTier::Reserved,
            _ => ServiceTier::Other,
        }
    }

    /// The stored name. None for the usual tier.
    pub fn stored(self) -> Option<&'static str> {
        match self {
            ServiceTier::Standard => None,
            ServiceTier::Flex => Some("flex"),
            ServiceTier::Priority => Some("priority"),
            ServiceTier::Ultrafast => Some("ultrafast"),
            ServiceTier::Fast => Some("fast"),
            ServiceTier::UsOnly => Some("us"),
            ServiceTier::Reserved => Some("reserved"),
            ServiceTier::Other => Some("other"),
        }
    }
}
