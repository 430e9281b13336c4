//! What an upstream demands of a request beyond its dialect, as data: of a model, wherever it is served, by `models.toml`;
//! of a provider, from the catalogue of providers and the configuration.
//!
//! Writers of translations look here instead of at names. A request in the upstream's own dialect is changed by `own_dialect`.

mod changes;
mod own_dialect;

use std::sync::LazyLock;

use serde::Deserialize;

use crate::translate::{Losses, ToolChoice};

pub use changes::{RefusalLesson, RequestChanges, without};
pub use own_dialect::{concerns, parses, rewritten};

/// Replaces reasoning that a vendor wants back and that the client did not keep.
pub(crate) const UNKNOWN_REASONING: &str = "(The reasoning of this turn is not known.)";

/// What the system says in the middle of a conversation, for a vendor that takes it only from the user.
pub(crate) fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// Calls the macro `$then` with every quirk, written `/// What it means.` and `key: Type = usual;`, or `key: Type;` where no
/// value is usual. The keys of the configuration and the facts of the catalogue are made from it too.
#[macro_export]
macro_rules! each_quirk {
    ($then:ident) => {
        $then! {
            /// It takes `stream_options` (dialect `openai`).
            stream_options: bool = true;
            /// It wants `max_completion_tokens` instead of `max_tokens` (dialect `openai`).
            max_completion_tokens: bool = false;
            /// How it takes the reasoning of earlier turns (dialect `openai`).
            past_reasoning: PastReasoning = PastReasoning::Refused;
            /// The ids of tool calls that it takes (dialect `openai`).
            call_ids: CallIdForm = CallIdForm::Any;
            /// A tool call can be forced.
            forced_tools: bool = true;
            /// How thinking is asked for (dialects `anthropic` and `bedrock`).
            thinking: ThinkingForm = ThinkingForm::Budget;
            /// How thinking is switched off (dialects `anthropic` and `bedrock`).
            thinking_off: ThinkingOff = ThinkingOff::Disabled;
            /// Which sampling options it takes (dialects `anthropic` and `bedrock`).
            sampling: SamplingForm = SamplingForm::Free;
            /// It takes a schema of the answer, and strict tools (dialects `anthropic` and `bedrock`).
            schemas: bool = true;
            /// It takes `system` turns in the middle of a conversation (dialects `openai`, where that is usual, and `anthropic`).
            system_turns: bool;
            /// It takes the beginning of its answer as the last turn (dialect `anthropic`).
            prefill: bool = false;
            /// It takes cache marks that last an hour (dialect `bedrock`).
            long_cache: bool = false;
            /// The longest answer in tokens: a request for more is cut to it (dialects `anthropic` and `bedrock`).
            max_output: u64;
        }
    };
}

macro_rules! quirks {
    ($($(#[doc = $about:literal])* $key:ident: $type:ty $(= $usual:expr)?;)+) => {
        /// The demands of one upstream. None: unknown.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Quirks { $($(#[doc = $about])* pub $key: quirks!(@type $type $(, $usual)?),)+ }

        /// Some demands; of the others it says nothing.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct QuirkSet { $(pub $key: Option<$type>,)+ }

        impl Default for Quirks {
            fn default() -> Quirks {
                QuirkSet::default().settled()
            }
        }

        impl QuirkSet {
            /// These, and what `others` say beyond them.
            pub fn or(self, others: QuirkSet) -> QuirkSet {
                QuirkSet { $($key: self.$key.or(others.$key),)+ }
            }

            /// These, and else the usual.
            pub fn settled(self) -> Quirks {
                Quirks { $($key: self.$key $(.unwrap_or($usual))?,)+ }
            }
        }
    };
    (@type $type:ty, $usual:expr) => { $type };
    (@type $type:ty) => { Option<$type> };
}

each_quirk!(quirks);

/// The properties of an upstream, apart from the conversation, that its request depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslationOptions {
    /// The upstream's name for the model.
    pub model: String,
    pub quirks: Quirks,
}

impl TranslationOptions {
    /// For a model of which nothing else is known.
    pub fn of_model(model: impl Into<String>) -> TranslationOptions {
        let model = model.into();
        TranslationOptions { quirks: Quirks::of_model(&model), model }
    }
}

/// Makes an enum with the names of its values in files.
macro_rules! forms {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $says:literal])* $variant:ident = $text:literal,)+ }) => {
        photofinish_base::named! {
            $(#[doc = $about])+
            #[derive(Deserialize)]
            pub enum $name { $($(#[doc = $says])* #[serde(rename = $text)] $variant = $text,)+ }
        }
    };
}

forms! {
    /// How reasoning of earlier turns is taken.
    PastReasoning {
        /// It is refused, or does nothing.
        Refused = "refused",
        /// With the calls of the running loop of tools.
        Loop = "loop",
        /// Wanted with every turn that called a tool.
        Wanted = "wanted",
    }
}

forms! {
    /// The form of ids.
    CallIdForm {
        Any = "any",
        /// Exactly nine letters and digits.
        Nine = "nine",
    }
}

forms! {
    /// How thinking is asked for.
    ThinkingForm {
        /// It cannot think.
        Off = "off",
        /// With a budget in tokens.
        Budget = "budget",
        /// With a budget, or with an effort.
        Either = "either",
        /// With an effort alone.
        Effort = "effort",
    }
}

forms! {
    /// How thinking is switched off.
    ThinkingOff {
        Disabled = "disabled",
        BetweenTools = "between_tools",
        /// It always thinks.
        Never = "never",
    }
}

forms! {
    /// Which sampling options are taken.
    SamplingForm {
        Free = "free",
        /// `temperature` or `top_p`, not both.
        One = "one",
        Refused = "refused",
    }
}

impl Quirks {
    /// Of a model by this name alone.
    pub fn of_model(name: &str) -> Quirks {
        QuirkSet::of_model(name).settled()
    }

    /// The limit of an answer that it takes: a higher one is cut, and named.
    pub(crate) fn limit(&self, max_tokens: Option<u64>, losses: &mut Losses) -> Option<u64> {
        let most = self.max_output.unwrap_or(u64::MAX);
        losses.lose_if(max_tokens.is_some_and(|tokens| tokens > most), "max_tokens");
        max_tokens.map(|tokens| tokens.min(most))
    }

    /// The choice of a tool that it takes: an upstream that cannot be forced is left to choose.
    pub(crate) fn choice(&self, choice: &ToolChoice, losses: &mut Losses) -> ToolChoice {
        let is_forced = matches!(choice, ToolChoice::Required | ToolChoice::Named(_));
        if is_forced && !self.forced_tools {
            losses.lose("tool_choice");
            return ToolChoice::Auto;
        }
        choice.clone()
    }
}

impl QuirkSet {
    /// What is known of a model, whoever serves it.
    pub fn of_model(name: &str) -> QuirkSet {
        let name = plain(name);
        let its = MODELS.iter().find(|row| row.names.iter().any(|pattern| matches(pattern, &name)));
        its.map_or_else(QuirkSet::default, |row| row.quirks)
    }
}

/// What a provider demands of requests, and what the operator changes in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderRequests {
    /// From the catalogue of providers.
    pub known: QuirkSet,
    /// Members that the provider refuses, from the catalogue.
    pub refused: Vec<String>,
    /// By the configuration.
    pub own: QuirkSet,
    pub changes: RequestChanges,
    /// By the configuration, for some models.
    pub models: Vec<ModelRequests>,
}

/// The same for the models whose names match a pattern, in which `*` matches any text.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequests {
    pub pattern: String,
    pub quirks: QuirkSet,
    pub changes: RequestChanges,
}

impl ProviderRequests {
    /// For one model: the configuration before what is known, and what is said of models before what is said of the provider.
    /// Of several patterns the longest counts first.
    pub fn of_model(&self, model: &str) -> (Quirks, RequestChanges) {
        let mut own: Vec<&ModelRequests> = self.models.iter().filter(|its| matches(&its.pattern, model)).collect();
        own.sort_by_key(|its| std::cmp::Reverse(its.pattern.len()));
        let said = own.iter().fold(QuirkSet::default(), |said, its| said.or(its.quirks));
        let quirks = said.or(self.own).or(QuirkSet::of_model(model)).or(self.known).settled();
        let mut changes = self.changes.clone();
        own.iter().rev().for_each(|its| changes.over(&its.changes));
        changes.refused.clone_from(&self.refused);
        (quirks, changes)
    }
}

/// The rows of `models.toml`. A test reads the file, so it is never empty.
static MODELS: LazyLock<Vec<ModelRow>> = LazyLock::new(|| read(include_str!("quirks/models.toml")).unwrap_or_default());

#[derive(Debug, Deserialize)]
struct ModelRow {
    names: Vec<String>,
    #[cfg_attr(not(test), expect(dead_code, reason = "for people; a test checks that it is there"))]
    source: String,
    #[serde(default)]
    quirks: QuirkSet,
}

fn read(text: &str) -> Result<Vec<ModelRow>, toml::de::Error> {
    #[derive(Deserialize)]
    struct ModelFile {
        model: Vec<ModelRow>,
    }
    toml::from_str(text).map(|ModelFile { model }| model)
}

/// The name without the vendor's before it: `anthropic/claude-…`, `us.anthropic.claude-…`.
fn plain(name: &str) -> String {
    let name = normal(name);
    match name.rsplit_once("anthropic-") {
        Some((_, own)) => own.to_owned(),
        None => name,
    }
}

/// One spelling for all hosts: lower case, with `-` between words.
fn normal(name: &str) -> String {
    name.chars().map(|c| if matches!(c, '.' | '@' | ':' | '_' | '/') { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Whether `name` matches this pattern, in which `*` matches any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests;
