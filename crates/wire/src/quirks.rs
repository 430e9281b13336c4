//! What an upstream demands of a request beyond its dialect, as data: of a model, by the rules of the catalogue of models; of a
//! provider, from the catalogue of providers and the configuration.
//!
//! Writers of translations look here instead of at names. A request in the upstream's own dialect is changed by
//! `photofinish_translation::adapt`.

pub mod changes;
pub mod prefix;
#[cfg(any(test, feature = "test-support"))]
pub mod sample;
pub mod thinking_levels;
pub mod turns;

use serde::Deserialize;

use crate::conversation::{Losses, Reasoning, ToolChoice};
use crate::dialect::Dialect;

pub use crate::conversation::call_ids::CallIdForm;
pub use changes::RequestChanges;
pub use thinking_levels::ThinkingLevels;
pub use turns::{fit_turns, limit_marks, think_before_calls};

/// Replaces reasoning that a vendor wants back and that the client did not keep.
pub const UNKNOWN_REASONING: &str = "(The reasoning of this turn is not known.)";

/// How the block begins that Claude Code puts before its prompt for Anthropic's accounts. It differs in each session, so that the
/// caches of other vendors would never hit.
pub const BILLING: &str = "x-anthropic-billing-header:";

/// The types of tools and items that Codex sends, and that few servers except OpenAI's know.
pub const CODEX_TYPES: [&str; 12] = [
    "additional_tools",
    "compaction_trigger",
    "custom",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell",
    "local_shell_call",
    "local_shell_call_output",
    "namespace",
    "tool_search",
    "tool_search_call",
    "tool_search_output",
];

/// What is said in place of a tool that was found, where its schema is among the tools anyway.
pub fn reference(tool: &str) -> String {
    format!("{tool} can be called now.")
}

/// What the system says in the middle of a conversation, for a vendor that takes it only from the user.
pub fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// Calls the macro `$then` with every quirk, written `/// What it means (of which dialects).` and `key: Type = usual;`, or `key: Type;` where no
/// value is usual. The keys of the configuration and the facts of the catalogue are made from it too. Each is heeded in translations to
/// its dialects and in requests of their clients; else its parentheses say that these go up as they are, or are translated.
#[macro_export]
macro_rules! each_quirk {
    ($then:ident) => {
        $then! {
            /// It takes `stream_options` (`openai`).
            stream_options: bool = true;
            /// It wants `max_completion_tokens`: a client's `max_tokens` gets this name (`openai`).
            max_completion_tokens: bool = false;
            /// How it takes the reasoning of earlier turns. `loop`: with the calls of the running loop of tools;
            /// `wanted`: with each turn that called a tool, in Messages too, and a placeholder where none is known;
            /// `refused`: not in translations; `never`: nor in chats of clients (`openai`, `anthropic`, `gemini`,
            /// `bedrock`).
            past_reasoning: PastReasoning = PastReasoning::Refused;
            /// The ids of tool calls that it takes. `forty`: 40 letters, digits, `_` and `-` at most; `nine`: nine
            /// letters and digits (`openai`).
            call_ids: CallIdForm = CallIdForm::Any;
            /// The longest name of a tool, in bytes. Longer ones, and those with other characters than letters, digits,
            /// `_` and `-`, go up shortened with a checksum, and calls come back with the client's. Translations know
            /// the usual bound: 64, and 128 for `anthropic` and `responses`. Ollama has none (`openai`, `responses`,
            /// `anthropic`, `gemini`, `bedrock`).
            tool_name_max: u64;
            /// Which chats go up on `/v1/responses`, where the provider has it: those with tools and an effort, with
            /// tools, all (`openai`).
            responses_for: ResponsesFor = ResponsesFor::Nothing;
            /// It has `/v1/responses`; else requests of the Responses API go up as chats, where the provider has them
            /// (`responses`).
            responses: bool = true;
            /// It takes what Codex sends on `/v1/responses` (free-form tools, namespaces, searches, tools among the
            /// items); else such requests go up as chats, where the provider has them. Those with functions and hosted
            /// tools alone do not (`responses`).
            codex_tools: bool = true;
            /// It makes short forms of conversations: it has `/v1/responses/compact` and knows `compaction_trigger`.
            /// Else it is asked for a summary in words (`responses`, where such a request is translated).
            compaction: bool = true;
            /// It takes `developer` turns; else they become `system` (`openai`).
            developer_turns: bool = true;
            /// It takes a user turn right after the result of a tool; else an assistant's `OK.` is between (`openai`).
            user_after_tool: bool = true;
            /// It takes pictures and files in the results of tools; else they follow in a user turn (`openai`).
            result_media: bool = true;
            /// A tool call can be forced; else it becomes `auto`, and `x-photofinish-dropped` names `tool_choice`
            /// (`openai`, `responses`, `anthropic`, `bedrock`).
            forced_tools: bool = true;
            /// How thinking is asked for (`anthropic`, `bedrock`, `gemini`; `effort` for `ollama`).
            thinking: ThinkingForm = ThinkingForm::Budget;
            /// How thinking is switched off. `never`: the wish is dropped and named, or becomes the least (`anthropic`,
            /// `bedrock`, `gemini`).
            thinking_off: ThinkingOff = ThinkingOff::Disabled;
            /// The efforts that it knows. Another becomes the next one above it, but nothing above `high` unasked
            /// (`anthropic`, `bedrock`, `gemini`, `ollama`).
            thinking_levels: ThinkingLevels = ThinkingLevels::USUAL;
            /// The least tokens of a budget for thinking (`gemini`).
            thinking_min: u64;
            /// The most tokens of a budget for thinking (`gemini`).
            thinking_max: u64;
            /// Which sampling options it takes. `one`: `temperature` or `top_p`; `refused`: neither, nor `top_k`
            /// (`anthropic`, `bedrock`).
            sampling: SamplingForm = SamplingForm::Free;
            /// It takes a schema of the answer, and strict tools (`anthropic`, `bedrock`).
            schemas: bool = true;
            /// It takes a schema of the answer together with tools (`gemini`).
            schemas_with_tools: bool = true;
            /// It fetches files from public addresses (`gemini`, where the addresses of its own clients go up as they are).
            fetches: bool = true;
            /// Whose own members its requests have (`bedrock`).
            family: ModelFamily = ModelFamily::Other;
            /// It takes `system` turns in the middle of a conversation; else a user turn says it (`openai`, where that
            /// is usual, and `anthropic`).
            system_turns: bool;
            /// It takes the beginning of its answer as the last turn: so it goes on with what broke off (`anthropic`, where
            /// a turn of its own clients goes up as it is).
            prefill: bool = false;
            /// It is a Claude. Else what only Claude's own API has is left out and named: `context_management`, betas,
            /// an effort (unless `thinking` takes one), the line that Claude Code puts first for Anthropic's billing,
            /// which voids caches; adaptive thinking gets a budget (`anthropic`).
            claude: bool = false;
            /// The most cache marks of a request: the first ones are left out (`anthropic`, `bedrock`).
            cache_marks: u64;
            /// It takes letters, digits, `_` and `-` alone in `metadata.user_id`: other characters become dashes
            /// (`anthropic`).
            plain_user_ids: bool = false;
            /// It takes cache marks that last an hour (`bedrock`).
            long_cache: bool = false;
            /// The longest answer in tokens: a request for more is cut to it, and `max_tokens` is named (`anthropic`,
            /// `bedrock`, `openai`).
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
        #[serde(default)]
        pub struct QuirkSet { $(pub $key: Option<$type>,)+ }

        impl Default for Quirks {
            fn default() -> Quirks {
                QuirkSet::default().settled()
            }
        }

        impl QuirkSet {
            pub const NAMES: &[&str] = &[$(stringify!($key),)+];
            pub const NOTHING: QuirkSet = QuirkSet { $($key: None,)+ };

            /// These, and what `others` say beyond them.
            pub fn or(self, others: QuirkSet) -> QuirkSet {
                QuirkSet { $($key: self.$key.or(others.$key),)+ }
            }

            /// These, and else those.
            pub fn over(self, quirks: Quirks) -> Quirks {
                QuirkSet { $($key: self.$key.or(quirks!(@known quirks.$key $(, $usual)?)),)+ }.settled()
            }

            /// The names of what it says.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($key), self.$key.is_some()),)+].into_iter().filter(|(_, says)| *says).map(|(name, _)| name)
            }

            /// These, and else the usual.
            pub fn settled(self) -> Quirks {
                Quirks { $($key: self.$key $(.unwrap_or($usual))?,)+ }
            }
        }
    };
    (@type $type:ty, $usual:expr) => { $type };
    (@type $type:ty) => { Option<$type> };
    (@known $known:expr, $usual:expr) => { Some($known) };
    (@known $known:expr) => { $known };
}

each_quirk!(quirks);

/// The properties of an upstream, apart from the conversation, that its request depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslationOptions {
    /// The upstream's name for the model.
    pub model: String,
    pub quirks: Quirks,
}

/// Calls the macro `$then` with the enums that are types of quirks.
#[macro_export]
macro_rules! each_form {
    ($then:ident) => {
        $then! { CallIdForm, ModelFamily, PastReasoning, ResponsesFor, SamplingForm, ThinkingForm, ThinkingOff }
    };
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
        /// It is refused, or does nothing: translations have none.
        Refused = "refused",
        /// It is refused: no chat has it, also of clients of that dialect.
        Never = "never",
        /// With the calls of the running loop of tools.
        Loop = "loop",
        /// Wanted with every turn that called a tool.
        Wanted = "wanted",
    }
}

forms! {
    /// Requests that are taken on `/v1/responses` alone.
    ResponsesFor {
        Nothing = "nothing",
        /// Those with tools and an effort.
        Effort = "effort",
        /// Those with tools.
        Tools = "tools",
        All = "all",
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

forms! {
    /// Models whose requests at Bedrock have members of their own.
    ModelFamily {
        Claude = "claude",
        Nova = "nova",
        /// The open models of OpenAI.
        OpenAi = "openai",
        Qwen = "qwen",
        Other = "other",
    }
}

impl Quirks {
    /// Whether this wish to think is said as a budget.
    pub fn wants_budget(&self, reasoning: &Reasoning) -> bool {
        match self.thinking {
            ThinkingForm::Effort => false,
            ThinkingForm::Either => reasoning.budget.is_some(),
            ThinkingForm::Budget | ThinkingForm::Off => true,
        }
    }

    /// The longest name of a tool in a translation.
    pub fn tool_name_max_in(&self, dialect: Dialect) -> Option<usize> {
        self.tool_name_max.map(|most| usize::try_from(most).unwrap_or(usize::MAX)).or(dialect.tool_name_max())
    }

    /// Whether a request goes up as one of the Responses API, where the provider has that too.
    pub fn goes_to_responses(&self, has_tools: bool, body: &[u8]) -> bool {
        let has_effort = || {
            let says = |name: &str| memchr::memmem::find(body, name.as_bytes()).is_some();
            ["effort\"", "\"thinking", "\"think\""].iter().any(|name| says(name))
        };
        match self.responses_for {
            ResponsesFor::Nothing => false,
            ResponsesFor::Effort => has_tools && has_effort(),
            ResponsesFor::Tools => has_tools,
            ResponsesFor::All => true,
        }
    }

    /// Whether a request of the Responses API goes up as a chat, where the provider has chats too.
    pub fn goes_to_chat(&self, body: &[u8]) -> bool {
        let says = |name: &str| memchr::memmem::find(body, format!("\"{name}\"").as_bytes()).is_some();
        !self.responses || !self.codex_tools && CODEX_TYPES.iter().any(|name| says(name))
    }

    /// An id of a user as it takes it: each other character becomes a dash.
    pub fn user_id(&self, id: &str) -> Option<String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let exceeds = self.plain_user_ids && !id.chars().all(is_plain);
        exceeds.then(|| id.chars().map(|c| if is_plain(c) { c } else { '-' }).collect())
    }

    /// The limit of an answer that it takes: a higher one is cut, and named.
    pub fn limit(&self, max_tokens: Option<u64>, losses: &mut Losses) -> Option<u64> {
        let most = self.max_output.unwrap_or(u64::MAX);
        losses.lose_if(max_tokens.is_some_and(|tokens| tokens > most), "max_tokens");
        max_tokens.map(|tokens| tokens.min(most))
    }

    /// The choice of a tool that it takes: an upstream that cannot be forced is left to choose.
    pub fn choice(&self, choice: &ToolChoice, losses: &mut Losses) -> ToolChoice {
        let is_forced = matches!(choice, ToolChoice::Required | ToolChoice::Named(_));
        if is_forced && !self.forced_tools {
            losses.lose("tool_choice");
            return ToolChoice::Auto;
        }
        choice.clone()
    }
}

/// What models demand of a request, from the catalogue of models.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<ModelRule>")]
pub struct ModelRules(Vec<ModelRule>);

/// Names in the rules of models: each upstream of a configuration is compared with all of them.
const RULE_NAMES_MAX: usize = 1_000;

impl TryFrom<Vec<ModelRule>> for ModelRules {
    type Error = String;

    /// # Errors
    /// There are too many.
    fn try_from(rules: Vec<ModelRule>) -> Result<ModelRules, String> {
        match rules.iter().map(|rule| rule.names.len()).sum::<usize>() {
            0..=RULE_NAMES_MAX => Ok(ModelRules(rules)),
            names => Err(format!("its rules have {names} names, more than {RULE_NAMES_MAX}")),
        }
    }
}

#[derive(Debug, Deserialize)]
struct ModelRule {
    /// None: in each dialect. A newer program may have more dialects, so this is a text.
    dialect: Option<String>,
    names: Vec<String>,
    quirks: QuirkSet,
}

impl ModelRules {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is known of a model in a dialect: first what is said of that dialect. Of each kind the first fitting rule counts.
    pub fn of(&self, model: &str, dialect: Dialect) -> QuirkSet {
        let name = normal(model);
        let said = |dialect: Option<&str>, name: &str| {
            let mut rules = self.0.iter().filter(|rule| rule.dialect.as_deref() == dialect);
            let rule = rules.find(|rule| rule.names.iter().any(|pattern| matches(pattern, name)));
            rule.map_or_else(QuirkSet::default, |rule| rule.quirks)
        };
        said(Some(dialect.as_str()), &name).or(said(None, plain(&name)))
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
    /// What is demanded for one model in one dialect: the configuration before what is known, and what is said of models before
    /// what is said of the provider.
    pub fn quirks(&self, model: &str, dialect: Dialect, rules: &ModelRules) -> Quirks {
        let said = self.own_of(model).iter().fold(QuirkSet::default(), |said, its| said.or(its.quirks));
        said.or(self.own).or(rules.of(model, dialect)).or(self.known).settled()
    }

    /// What is changed for one model.
    pub fn changes(&self, model: &str) -> RequestChanges {
        let mut changes = self.changes.clone();
        self.own_of(model).iter().rev().for_each(|its| changes.over(&its.changes));
        changes.refused.clone_from(&self.refused);
        changes
    }

    /// What the configuration says of this model, the longest pattern first.
    fn own_of(&self, model: &str) -> Vec<&ModelRequests> {
        let mut own: Vec<&ModelRequests> = self.models.iter().filter(|its| matches(&its.pattern, model)).collect();
        own.sort_by_key(|its| std::cmp::Reverse(its.pattern.len()));
        own
    }
}

/// The name without the vendor's before it: `anthropic-claude-…`, `us-anthropic-claude-…`.
fn plain(name: &str) -> &str {
    name.rsplit_once("anthropic-").map_or(name, |(_, own)| own)
}

/// One spelling for all hosts: lower case, with `-` between words, and between the numbers of a version (`k2p6` at Fireworks).
fn normal(name: &str) -> String {
    let parts = |c: char| matches!(c, '.' | '@' | ':' | '_' | '/');
    let mut normal = name.to_ascii_lowercase().replace(parts, "-");
    let is_digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_digit);
    let of_version = |&at: &usize| {
        let bytes = normal.as_bytes();
        bytes[at] == b'p' && is_digit(bytes.get(at + 1)) && is_digit(bytes[..at].last())
    };
    let places: Vec<usize> = (0..normal.len()).filter(of_version).collect();
    places.into_iter().for_each(|at| normal.replace_range(at..=at, "-"));
    normal
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
