//! The members that a model behind Bedrock accepts, by its id. Converse has one format, but many models refuse members
//! that they do not support. What a model takes wherever it is served: see `quirks`.

use crate::dialect::TranslationOptions;
use crate::quirks::Quirks;

/// The maker of the model, as far as requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Claude,
    /// With its generation.
    Nova(u32),
    /// The open-weight models of OpenAI.
    GptOss,
    Qwen,
    /// The id names no model, as in the ARN of an application inference profile.
    Unknown,
    Other,
}

/// The facts of a model that a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BedrockModel {
    pub family: Family,
    pub quirks: Quirks,
    /// Accepts a JSON schema for its text, and strict tools.
    pub takes_schemas: bool,
    /// Can be forced to call a tool.
    pub can_be_forced: bool,
}

impl BedrockModel {
    pub fn of(options: &TranslationOptions) -> BedrockModel {
        let (id, quirks) = (options.model.to_ascii_lowercase(), options.quirks);
        let family = if id.contains("claude-") {
            Family::Claude
        } else if let Some((_, name)) = id.rsplit_once("amazon.nova-") {
            Family::Nova(name.split('-').next().and_then(|word| word.parse().ok()).unwrap_or(1))
        } else if id.contains("openai.gpt-oss") {
            Family::GptOss
        } else if id.contains("qwen.") {
            Family::Qwen
        } else if id.contains("application-inference-profile/") || id.contains("-model/") {
            Family::Unknown
        } else {
            Family::Other
        };
        let dated = ["amazon.titan", "meta.", "cohere.", "ai21.", "writer."].iter().any(|maker| id.contains(maker));
        let takes_schemas = match family {
            Family::Claude => quirks.schemas,
            Family::Nova(_) | Family::Unknown => false,
            Family::GptOss | Family::Qwen => true,
            Family::Other => !dated,
        };
        BedrockModel { family, quirks, takes_schemas, can_be_forced: !dated && quirks.forced_tools }
    }

    /// Accepts cache points in system prompts and messages.
    pub fn caches(&self) -> bool {
        matches!(self.family, Family::Claude | Family::Nova(_))
    }

    /// Accepts cache points after tools.
    pub fn caches_tools(&self) -> bool {
        self.family == Family::Claude
    }

    /// Accepts cache points that last an hour.
    pub fn caches_long(&self) -> bool {
        self.family == Family::Claude && self.quirks.long_cache
    }

    /// Accepts `status` in a tool result.
    pub fn takes_status(&self) -> bool {
        self.caches()
    }
}

/// Whether requests for two models with the same quirks have the same form.
pub fn writes_alike(one: &str, other: &str) -> bool {
    let of = |model: &str| BedrockModel::of(&TranslationOptions { model: model.to_owned(), quirks: Quirks::default() });
    of(one) == of(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_the_model() {
        let table: &[(&str, Family, bool)] = &[
            ("anthropic.claude-3-haiku-20240307-v1:0", Family::Claude, false),
            ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", Family::Claude, false),
            ("anthropic.claude-sonnet-4-20250514-v1:0", Family::Claude, false),
            ("global.anthropic.claude-opus-4-6-v1", Family::Claude, true),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                Family::Claude,
                true,
            ),
            ("us.anthropic.claude-fable-5", Family::Claude, true),
            ("us.amazon.nova-pro-v1:0", Family::Nova(1), false),
            ("global.amazon.nova-2-lite-v1:0", Family::Nova(2), false),
            ("openai.gpt-oss-120b-1:0", Family::GptOss, true),
            ("qwen.qwen3-32b-v1:0", Family::Qwen, true),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", Family::Unknown, false),
            ("arn:aws:bedrock:us-east-1:1:provisioned-model/abc", Family::Unknown, false),
            ("meta.llama3-8b-instruct-v1:0", Family::Other, false),
            ("deepseek.v3.2", Family::Other, true),
            ("", Family::Other, true),
        ];
        for (id, family, takes_schemas) in table {
            let model = BedrockModel::of(&TranslationOptions::of_model(*id));
            assert_eq!((model.family, model.takes_schemas), (*family, *takes_schemas), "{id}");
            assert_eq!(model.can_be_forced, !id.starts_with("meta."), "{id}");
        }
    }
}
