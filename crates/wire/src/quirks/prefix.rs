//! How to request the continuation of an answer: the text so far becomes the last assistant message. Servers differ in
//! how such a message is marked as incomplete.

use crate::dialect::Dialect;
use crate::quirks::Quirks;

photofinish_base::named! {
    /// How the continuation of an answer is requested: the text so far becomes the last assistant message, which servers mark as
    /// incomplete in different ways.
    #[derive(Default)]
    pub enum Prefix {
        /// Decided by what is known of the model: Claude up to 4.5 accepts a prefix, and other models get no such request.
        #[default]
        Auto = "auto",
        Off = "off",
        /// The message, without a mark.
        Plain = "plain",
        /// With `prefix: true` in the message (Mistral, DeepSeek's beta).
        Prefix = "prefix",
        /// With `partial: true` in the message (Moonshot).
        Partial = "partial",
        /// With `continue_final_message: true` in the request (vLLM, SGLang).
        ContinueFinalMessage = "continue_final_message",
    }
}

impl Prefix {
    /// The form for this model in this dialect: never `Auto`.
    pub fn of(self, dialect: Dialect, quirks: &Quirks) -> Prefix {
        match self {
            Prefix::Auto if dialect == Dialect::Anthropic && quirks.prefill => Prefix::Plain,
            Prefix::Auto => Prefix::Off,
            given => given,
        }
    }

    /// Additional members of the message and of the request, each after a comma.
    pub fn members(self) -> (&'static str, &'static str) {
        match self {
            Prefix::Auto | Prefix::Off | Prefix::Plain => ("", ""),
            Prefix::Prefix => (r#","prefix":true"#, ""),
            Prefix::Partial => (r#","partial":true"#, ""),
            Prefix::ContinueFinalMessage => ("", r#","add_generation_prompt":false,"continue_final_message":true"#),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quirks::TranslationOptions;

    #[test]
    fn names_tell_which_models_take_one() {
        for (prefix, dialect, model, taken) in [
            (Prefix::Auto, Dialect::Anthropic, "claude-sonnet-4-5-20250929", Prefix::Plain),
            (Prefix::Auto, Dialect::Anthropic, "claude-3-haiku", Prefix::Plain),
            (Prefix::Auto, Dialect::Anthropic, "claude-opus-4-6", Prefix::Off),
            (Prefix::Auto, Dialect::Anthropic, "claude-sonnet-5", Prefix::Off),
            (Prefix::Auto, Dialect::Anthropic, "glm-5.1", Prefix::Off),
            (Prefix::Auto, Dialect::OpenAi, "gpt-5", Prefix::Off),
            (Prefix::Plain, Dialect::Anthropic, "claude-opus-4-6", Prefix::Plain),
            (Prefix::Off, Dialect::Anthropic, "claude-3-haiku", Prefix::Off),
        ] {
            assert_eq!(prefix.of(dialect, &TranslationOptions::of_model(dialect, model).quirks), taken, "{model}");
        }
    }
}
