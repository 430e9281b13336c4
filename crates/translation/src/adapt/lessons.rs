//! What a refusal teaches: of the things that a request has the first that the message names, and the smallest change for it. The
//! words decide nothing else: the change is proved by the answer to the next try. Content is never left out.

use photofinish_dialects::SurfaceFormat as _;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::request::state::TRIGGER;
use photofinish_wire::answer::error::RefusalWords;
use photofinish_wire::conversation::Losses;
use photofinish_wire::conversation::losses::{is_addition, is_known, is_optional};
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::conversation::tool_names::{OPAQUE, each_name, fits};
use photofinish_wire::dialect::{PassedCall, Surface};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::raw_members::{RawMembers, raw_members, written};
use photofinish_wire::quirks::changes::rename;
use photofinish_wire::quirks::turns::{REFERENCE, SYSTEM_ROLES, cache_marks, has_parts};
use photofinish_wire::quirks::{CODEX_TYPES, CallIdForm, PastReasoning, QuirkSet, ResponsesFor, ThinkingForm};

/// What an upstream does not take on a surface, or demands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lesson {
    /// Members are left out, or a limit gets its other name. Places have no indexes: `tools.strict`. `value`: only with this value.
    Members { places: Vec<String>, value: Option<String> },
    /// A demand of the table.
    Demand(QuirkSet),
    /// The reasoning of earlier turns of the conversation with this opening is left out.
    Reasoning(u64),
    /// These values of `anthropic-beta` are not sent. Empty: none is.
    Betas(Vec<String>),
}

impl Lesson {
    /// For people: what is done.
    pub fn in_words(&self) -> String {
        match self {
            Lesson::Members { places, .. } => format!("without {}", places.join(" ")),
            Lesson::Demand(demand) => demand.names().collect::<Vec<_>>().join(" "),
            Lesson::Reasoning(_) => "without past reasoning".to_owned(),
            Lesson::Betas(values) if values.is_empty() => "without anthropic-beta".to_owned(),
            Lesson::Betas(values) => format!("without {}", values.join(" ")),
        }
    }
}

/// What these lessons demand, the last one first.
pub fn demands(lessons: &[Lesson]) -> QuirkSet {
    lessons.iter().fold(QuirkSet::default(), |known, lesson| match lesson {
        Lesson::Demand(demand) => demand.or(known),
        _ => known,
    })
}

/// A request that was refused, as it was sent.
pub struct RefusedRequest<'a> {
    pub surface: Surface,
    pub body: &'a [u8],
    /// Values of its header `anthropic-beta`.
    pub betas: Vec<&'a str>,
    /// Of the refusal.
    pub status: u16,
    /// Its provider has chats and the Responses API, and this is one of the two.
    pub has_other_path: bool,
    /// Of the opening of its conversation.
    pub conversation: u64,
}

/// Bytes of a refused value that is remembered: a longer one is refused by its name.
const VALUE_MAX: usize = 64;
/// Places of a request that a message is compared with.
const PLACES_MAX: usize = 256;
/// Levels below the top of a request that are looked at.
const DEPTH_MAX: usize = 8;

/// The longest name of a tool, where a refusal says none, and the least that is believed, in bytes.
const USUAL_NAME: usize = 64;
const NAME_LEAST: usize = 16;

/// The two names of one limit: where one is refused, the other is sent.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The demand for one thing.
macro_rules! demand {
    ($key:ident: $value:expr) => {
        QuirkSet { $key: Some($value), ..QuirkSet::NOTHING }
    };
}

/// What this refusal of this request teaches. None: it names nothing that can be changed.
pub fn lesson(request: &RefusedRequest<'_>, body: &[u8]) -> Option<Lesson> {
    let refusal = RefusalWords::read(body);
    let value = parse(request.body).ok()?;
    let looked = Looked { request, value: &value, refusal: &refusal, text: refusal.text.to_lowercase() };
    let demand = || looked.demand().map(Lesson::Demand);
    looked
        .beta()
        .or_else(demand)
        .or_else(|| looked.reasoning())
        .or_else(|| looked.member())
        .or_else(|| looked.some_type())
}

/// A request and the words of its refusal.
struct Looked<'a> {
    request: &'a RefusedRequest<'a>,
    value: &'a Value,
    refusal: &'a RefusalWords,
    /// In lower case.
    text: String,
}

impl<'a> Looked<'a> {
    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|words| self.text.contains(words))
    }

    fn beta(&self) -> Option<Lesson> {
        let betas = &self.request.betas;
        let named = betas.iter().filter(|beta| self.text.contains(&beta.to_lowercase()));
        let named: Vec<String> = named.map(ToString::to_string).collect();
        let names_header = || self.has(&["anthropic-beta", "beta flag", "beta header"]);
        (!named.is_empty() || !betas.is_empty() && names_header()).then_some(Lesson::Betas(named))
    }

    /// The demand that the message names, if the request has what it is about and does not meet it.
    fn demand(&self) -> Option<QuirkSet> {
        self.another_path()
            .or_else(|| self.turns())
            .or_else(|| self.names())
            .or_else(|| self.calls())
            .or_else(|| self.limits())
            .or_else(|| {
                let forced = is_forced(&self.value["tool_choice"]) && self.has(&["tool_choice", "tool choice"]);
                forced.then_some(demand!(forced_tools: false))
            })
            .or_else(|| {
                let is_budget = self.value["thinking"]["type"] == "enabled" && self.text.contains("adaptive");
                is_budget.then_some(demand!(thinking: ThinkingForm::Effort))
            })
            .or_else(|| {
                let refers = self.text.contains(REFERENCE) && self.value["messages"].to_string().contains(REFERENCE);
                (refers && self.request.surface == Surface::Messages).then_some(demand!(claude: false))
            })
            .or_else(|| self.codex_tools())
    }

    /// It names `/v1/responses`, and the request was a chat; or there is nothing at that path.
    fn another_path(&self) -> Option<QuirkSet> {
        let names_path = self.has(&["/responses", "responses api", "responses endpoint"]);
        let is_missing = matches!(self.request.status, 404 | 405 | 501) && !self.refusal.says(&["model", "models"]);
        match self.request.surface {
            Surface::Passed(PassedCall::Compaction) if is_missing => return Some(demand!(compaction: false)),
            _ if !self.request.has_other_path => return None,
            Surface::Responses if names_path || is_missing => {
                return Some(demand!(responses: false));
            }
            Surface::Chat if names_path => {}
            _ => return None,
        }
        let has_tools = self.value["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let responses_for = match has_tools && self.text.contains("tool") {
            false => ResponsesFor::All,
            true if self.value["reasoning_effort"].is_string() => ResponsesFor::Effort,
            true => ResponsesFor::Tools,
        };
        Some(demand!(responses_for: responses_for))
    }

    /// The types of Codex that the request has, where a chat may have them as functions.
    fn codex_types(&self) -> impl Iterator<Item = &'a str> {
        let is_asked = self.request.surface == Surface::Responses && self.request.has_other_path;
        let values =
            ["tools", "input"].into_iter().filter(move |_| is_asked).filter_map(|place| self.value[place].as_array());
        values.flatten().filter_map(|of| of["type"].as_str()).filter(|of| CODEX_TYPES.contains(of))
    }

    fn asks_for_short_form(&self) -> bool {
        let mut items = self.value["input"].as_array().into_iter().flatten();
        self.request.surface == Surface::Responses && items.any(|item| item["type"] == TRIGGER)
    }

    /// It names one of them.
    fn codex_tools(&self) -> Option<QuirkSet> {
        let is_named = |own: &str| words(&self.refusal.text).any(|(word, marked)| marked && word == own);
        if self.asks_for_short_form() && is_named(TRIGGER) {
            return Some(demand!(compaction: false));
        }
        self.codex_types().any(is_named).then_some(demand!(codex_tools: false))
    }

    /// It names the types of tools or items, and none of them.
    fn some_type(&self) -> Option<Lesson> {
        let says = |words: &[&str]| self.refusal.says(words);
        let is_named = says(&["type", "types", "variant", "kind"])
            && says(&["tool", "tools", "item", "items", "input", "modelinput"]);
        let demand = match self.codex_types().next() {
            Some(_) => demand!(codex_tools: false),
            None if self.asks_for_short_form() => demand!(compaction: false),
            None => return None,
        };
        is_named.then_some(Lesson::Demand(demand))
    }

    fn messages(&self) -> &'a [Value] {
        self.value["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// It names a role of the conversation, or an order of roles.
    fn turns(&self) -> Option<QuirkSet> {
        let (messages, says) = (self.messages(), |words: &[&str]| self.refusal.says(words));
        let is_chat = self.request.surface == Surface::Chat;
        let role = |message: &Value, role: &str| message["role"] == role;
        let is_system = |message: &Value| SYSTEM_ROLES.iter().any(|system| role(message, system));
        let names_one = says(&["system", "user", "assistant", "tool"]);
        let names_unknown = says(&["developer"]) || says(&["role", "roles"]) && !names_one;
        if is_chat && names_unknown && messages.iter().any(|message| role(message, "developer")) {
            return Some(demand!(developer_turns: false));
        }
        let behind_tool = |pair: &[Value]| role(&pair[0], "tool") && role(&pair[1], "user");
        let names_both = says(&["user"]) && says(&["tool"]);
        let has_media = messages.iter().filter(|message| role(message, "tool")).any(has_parts);
        if is_chat && has_media && says(&["image", "images", "image_url", "text"]) && says(&["tool", "tools"]) {
            return Some(demand!(result_media: false));
        }
        if is_chat && names_both && says(&["after", "order", "follow"]) && messages.windows(2).any(behind_tool) {
            return Some(demand!(user_after_tool: false));
        }
        let is_behind = messages.iter().skip_while(|message| is_system(message)).any(is_system);
        let points = self.refusal.places.iter().any(|place| place.ends_with("role"));
        let lists_roles = says(&["assistant"]) && says(&["alternate", "role", "roles"]);
        let names_system = words(&self.refusal.text).any(|(word, _)| word.eq_ignore_ascii_case("system"));
        let is_refused = is_behind || !is_chat && messages.iter().any(is_system);
        (is_refused && (points || lists_roles || names_system)).then_some(demand!(system_turns: false))
    }

    /// It names names of tools, and one of them is longer than its number or has other characters than usual.
    fn names(&self) -> Option<QuirkSet> {
        let says = |words: &[&str]| self.refusal.says(words);
        if !says(&["name", "names"]) || !says(&["tool", "tools", "function", "functions", "toolspec", "custom"]) {
            return None;
        }
        let (mut request, mut names) = (self.value.clone(), Vec::new());
        each_name(&mut request, &mut |name| names.push(name.clone()));
        let longest = names.iter().map(String::len).max()?;
        let numbers = self.text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        let most = numbers.filter(|number| (NAME_LEAST..longest).contains(number)).max().unwrap_or(USUAL_NAME);
        let exceeds = names.iter().any(|name| !fits(name, most));
        exceeds.then_some(demand!(tool_name_max: most as u64))
    }

    /// It names the id of a call, or wants the reasoning of a turn that called, or refuses it.
    fn calls(&self) -> Option<QuirkSet> {
        let past = |form| Some(demand!(past_reasoning: form));
        let names_reasoning = self.has(&["reasoning_content", "reasoning content"]);
        let is_missed = self.has(&["missing", "must", "required", "passed back"]);
        match self.request.surface {
            Surface::Chat => {}
            Surface::Messages if is_missed && (names_reasoning || self.has(&["passed back"])) => {
                return past(PastReasoning::Wanted);
            }
            _ => return None,
        }
        let calls = || self.messages().iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
        let is_named =
            |call: &Value| call["id"].as_str().is_some_and(|id| id.len() > 5 && self.refusal.text.contains(id));
        let names_id = ["tool_call_id", "tool call id", ".id"].iter().any(|name| self.names_in_any(name));
        if calls().next().is_some() && (names_id || calls().any(is_named)) && !self.has(&["not found", "no tool"]) {
            let form = if self.numbers().any(|number| number == 9) { CallIdForm::Nine } else { CallIdForm::Forty };
            return Some(demand!(call_ids: form));
        }
        let called = || self.messages().iter().filter(|message| message["tool_calls"].is_array());
        let has = |message: &Value| message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty());
        let lacks = called().any(|message| !has(message));
        if names_reasoning && lacks && (is_missed || !called().any(has)) {
            return past(PastReasoning::Wanted);
        }
        let is_there = names_reasoning && !is_missed && self.messages().iter().any(has);
        is_there.then(|| past(PastReasoning::Never)).flatten()
    }

    fn names_in_any(&self, name: &str) -> bool {
        self.text.contains(&format!("{name} "))
            || self.refusal.places.iter().any(|place| place.ends_with(name))
            || self.text.contains(&format!("{name}'"))
    }

    /// It names a bound with a number that the request exceeds.
    fn limits(&self) -> Option<QuirkSet> {
        let marks = cache_marks(self.request.body) as u64;
        let is_of_marks = self.request.surface == Surface::Messages && self.text.contains("cache_control");
        if let Some(most) = self.numbers().filter(|number| is_of_marks && (1..marks).contains(number)).max() {
            return Some(demand!(cache_marks: most));
        }
        const NAMES: [&str; 5] =
            ["max_tokens", "max_completion_tokens", "max_output_tokens", "completion tokens", "output tokens"];
        let names = NAMES.iter().filter(|name| self.has(&[name]));
        let asked = NAMES[..3].iter().find_map(|name| self.value[*name].as_u64())?;
        names.count().checked_sub(1)?;
        let most = self.numbers().filter(|number| (256..asked).contains(number)).max()?;
        Some(demand!(max_output: most))
    }

    /// The whole numbers of the message.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        let plain = self.text.replace(',', "");
        let numbers = words(&plain).filter_map(|(word, _)| word.trim_matches(['[', ']']).parse().ok());
        numbers.collect::<Vec<u64>>().into_iter()
    }

    /// It names what vendors sign or encrypt, and the request has such thoughts of earlier turns.
    fn reasoning(&self) -> Option<Lesson> {
        const THOUGHTS: [&str; 8] = [
            "encrypted_content",
            "signature",
            "signatures",
            "redacted_thinking",
            "reasoning_content",
            "reasoning_details",
            "thought_signature",
            "thinking_blocks",
        ];
        let thinks = self.refusal.says(&["thinking", "reasoning", "encrypted"]);
        let of_turns =
            self.refusal.says(&["block", "blocks", "item", "items", "content", "messages", "input", "turn", "history"]);
        let is_named = self.refusal.says(&THOUGHTS) || self.text.contains("rs_") || thinks && of_turns;
        let has = || self.request.surface.without_reasoning(self.request.body, RemovedReasoning::All).is_some();
        (is_named && has()).then_some(Lesson::Reasoning(self.request.conversation))
    }

    /// The first optional member that it names, or those that it names by one word.
    fn member(&self) -> Option<Lesson> {
        let mut places = BTreeSet::new();
        self.optional(self.value, &mut Vec::new(), &mut places);
        let named =
            |word: &str, marked: bool| places.iter().find(|place| is_called(place, self.own(word), marked)).cloned();
        let mut in_places = self.refusal.places.iter().map(|place| self.own(place));
        let place = in_places.clone().find_map(|place| named(place, true)).map(|place| vec![place]).or_else(|| {
            // It points at content: no other member is at fault.
            let mut points = in_places.any(|place| is_content(place, self.value)) || self.has(&["schema for function"]);
            let words = || words(&self.refusal.text);
            points |= words().any(|(word, _)| word.contains(['.', '[']) && is_content(word, self.value));
            let marked = || words().filter(|(_, marked)| *marked).find_map(|(word, _)| named(word, true));
            let plain = || words().find_map(|(word, _)| named(word, false)).or_else(|| self.effort(&places));
            let at_depth = || {
                let deep = || words().map(|(word, _)| word).filter(|word| word.contains('.'));
                let roots = || words().map(|(word, _)| word.split(['.', '[']).next().unwrap_or_default());
                let root = roots().find(|root| is_content(root, self.value));
                let quoted = || words().filter(|(word, marked)| *marked && !word.contains(['.', '[']));
                let in_it = |place: &str| quoted().find_map(|(word, _)| named(&format!("{place}.{word}"), true));
                deep().find_map(|word| named(word, true)).or_else(|| deep().chain(root).find_map(in_it))
            };
            let found = if points { at_depth() } else { marked().or_else(plain) };
            found.map(|place| vec![place]).or_else(|| self.family(&places).filter(|_| !points))
        })?;
        let value = |place: &str| place.split('.').try_fold(self.value, |value, name| value.get(name));
        // What has a type needs its other members.
        let whole = |place: String| match place.rsplit_once('.') {
            Some((of, _)) if self.by_value() && value(of).is_some_and(|of| of["type"].is_string()) => of.to_owned(),
            _ => place,
        };
        let places: Vec<String> = place.into_iter().map(whole).collect();
        let only = places.first().filter(|_| self.by_value() && places.len() == 1).and_then(|place| value(place));
        let value = only.map(Value::to_string).filter(|text| text.len() <= VALUE_MAX);
        Some(Lesson::Members { places, value })
    }

    /// A place without its root, where the request has no such member: it is a word of the vendor's for all of it, as `body.`.
    fn own<'w>(&self, place: &'w str) -> &'w str {
        match place.split_once('.') {
            Some((root, rest)) if self.value.get(root.split('[').next().unwrap_or_default()).is_none() => rest,
            _ => place,
        }
    }

    /// The settings whose names end in a word of the message, as "Penalty is not enabled" means both penalties. None where it has the
    /// last words of different names.
    fn family(&self, places: &BTreeSet<String>) -> Option<Vec<String>> {
        let settings = places.iter().filter(|place| is_setting(&place.split('.').collect::<Vec<_>>()));
        let said = |last: &str| last.len() > 5 && self.refusal.says(&[last]);
        let named =
            settings.filter_map(|place| Some((last_word(place)?, place.clone())).filter(|(last, _)| said(last)));
        let (words, places): (BTreeSet<String>, Vec<String>) = named.unzip();
        (words.len() == 1).then_some(places)
    }

    /// How much is thought has a name in each dialect, and vendors say any of them.
    fn effort(&self, places: &BTreeSet<String>) -> Option<String> {
        const NAMES: [&str; 7] = [
            "reasoning_effort",
            "reasoning.effort",
            "output_config.effort",
            "generationConfig.thinkingConfig",
            "thinking",
            "think",
            "enable_thinking",
        ];
        let mut words = self.text.split(|c: char| !c.is_ascii_alphanumeric());
        let is_named = words.any(|word| matches!(word, "thinking" | "reasoning" | "effort" | "think"));
        NAMES.iter().find(|name| is_named && places.contains(**name)).map(|name| (*name).to_owned())
    }

    /// Whether another value may be taken.
    fn by_value(&self) -> bool {
        self.has(&["value", "only ", "must be", "invalid t", "one of", "between", "range", "expected"])
    }
}

/// Words and places of a text, and whether they are in quotes, or before or after a colon.
fn words(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']');
    let starts = text.char_indices().filter(move |(at, c)| is_of_word(*c) && !text[..*at].ends_with(is_of_word));
    starts.map(move |(start, _)| {
        let end = text[start..].find(|c| !is_of_word(c)).map_or(text.len(), |length| start + length);
        let (before, behind) = (text[..start].trim_end_matches(' '), &text[end..]);
        let word = text[start..end].trim_end_matches(['.', '-']);
        let quoted =
            before.len() == start && before.ends_with(['\'', '"', '`']) && behind.starts_with(['\'', '"', '`', '\\']);
        let colon =
            behind.starts_with(':') || before.ends_with(':') && behind.trim_start_matches(['.', ' ']).starts_with('\n');
        (word, quoted || colon || word.contains(['_', '.']))
    })
}

/// English words that name members too: they count where they are marked as names.
const ENGLISH: [&str; 21] = [
    "caller",
    "citations",
    "detail",
    "id",
    "include",
    "labels",
    "metadata",
    "name",
    "options",
    "parsed",
    "phase",
    "prediction",
    "scope",
    "shift",
    "status",
    "stop",
    "store",
    "strict",
    "truncate",
    "usage",
    "user",
];

/// Whether a word of a message, in any case and form, is this place of the request.
fn is_called(place: &str, word: &str, marked: bool) -> bool {
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let parts = |text: &str| {
        let named = text.split(['.', '[', ']']).filter(|part| part.chars().any(|c| !c.is_ascii_digit()));
        named.map(plain).filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    let (word_parts, place_parts) = (parts(word), parts(place));
    let (Some(last), Some(own)) = (word_parts.last(), place_parts.last()) else { return false };
    if !marked && ENGLISH.contains(&last.as_str()) {
        return false;
    }
    let whole = place_parts.concat();
    let is_setting = is_setting(&place.split('.').collect::<Vec<_>>());
    match &word_parts[..] {
        [one] => *one == whole || (one == own && (is_setting || marked && one.len() > 3)),
        [first, ..] => word_parts.concat() == whole || last == own && *first == place_parts[0],
        [] => false,
    }
}

/// Bedrock, Gemini and Ollama have settings in an object.
fn is_setting(place: &[&str]) -> bool {
    matches!(place, [_] | ["inferenceConfig" | "generationConfig" | "options", _])
}

/// The last word of a name of several: `penalty`.
fn last_word(place: &str) -> Option<String> {
    let name = place.rsplit('.').next().unwrap_or_default();
    let at = name.rfind(|c: char| c == '_' || c.is_ascii_uppercase()).filter(|at| *at > 0)?;
    Some(name[at..].trim_start_matches('_').to_ascii_lowercase())
}

/// Whether a place of a message is in the conversation or the tools.
fn is_content(place: &str, request: &Value) -> bool {
    const CONTENT: [&str; 7] =
        ["messages", "input", "contents", "system", "instructions", "tools", "systemInstruction"];
    let root = place.split(['.', '[']).next().unwrap_or_default();
    CONTENT.contains(&root) && request.get(root).is_some()
}

impl Looked<'_> {
    /// The optional members of the request, without indexes.
    fn optional(&self, value: &Value, path: &mut Vec<String>, places: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) if path.len() <= DEPTH_MAX => {
                items.iter().for_each(|item| self.optional(item, path, places))
            }
            Value::Object(members) if path.len() <= DEPTH_MAX && places.len() < PLACES_MAX => {
                for (name, value) in members {
                    path.push(name.clone());
                    let place = path.join(".");
                    let of_items = is_item(&path[0]);
                    let is_left_out = if of_items && path.len() > 1 {
                        let is_id = path[0] == "contents" && name == "id";
                        let is_addition = is_addition(name) || is_flag(value) && !is_known(&format!(".{name}"));
                        value.is_null() && name != "content" || is_addition || place == "messages.name" || is_id
                    } else {
                        // The keys of these are the caller's own.
                        let is_named = !matches!(path[0].as_str(), "metadata" | "labels" | "client_metadata");
                        let is_of_optional = || (1..path.len()).any(|depth| is_optional(&path[..depth].join(".")));
                        let is_part = is_named && name != "type" && is_of_optional();
                        let is_limit = self.request.surface == Surface::Chat && LIMITS.contains(&place.as_str());
                        let is_unknown = path.len() == 1 && is_flag(value) && self.request.surface.is_translated();
                        let is_optional = is_optional(&place) || is_unknown && !is_known(name);
                        !of_items && (is_part || is_optional || is_limit)
                    };
                    if path.len() == 1 || !OPAQUE.contains(&name.as_str()) {
                        self.optional(value, path, places);
                    }
                    let mut parts = value.as_object().into_iter().flat_map(|value| value.keys()).peekable();
                    let is_whole =
                        parts.peek().is_some() && parts.all(|part| places.contains(&format!("{place}.{part}")));
                    if is_left_out || !of_items && is_whole {
                        places.insert(place);
                    }
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

/// Numbers and flags carry no content.
fn is_flag(value: &Value) -> bool {
    value.is_number() || value.is_boolean()
}

fn is_item(root: &str) -> bool {
    matches!(root, "messages" | "input" | "contents" | "system" | "tools" | "instructions" | "systemInstruction")
}

fn is_forced(choice: &Value) -> bool {
    match choice["type"].as_str().or(choice.as_str()) {
        Some(kind) => !matches!(kind, "auto" | "none"),
        None => false,
    }
}

/// The body without what these lessons are about, and what is lost. None: it has nothing of it.
pub fn without(body: &[u8], lessons: &[Lesson]) -> Option<(String, Losses)> {
    let mut members = raw_members(body)?;
    let (mut changed, mut losses) = (false, Losses::default());
    for lesson in lessons {
        let Lesson::Members { places, value } = lesson else { continue };
        for place in places {
            changed |= leave_out(&mut members, place, value.as_deref(), &mut losses);
        }
    }
    changed.then(|| (written(&members), losses))
}

fn leave_out(members: &mut RawMembers<'_>, place: &str, value: Option<&str>, losses: &mut Losses) -> bool {
    let (root, rest) = place.split_once('.').map_or((place, None), |(root, rest)| (root, Some(rest)));
    let Some(at) = members.iter().rposition(|(name, text)| name == root && text != "null") else { return false };
    let Some(rest) = rest else {
        if value.is_some_and(|value| value != members[at].1) {
            return false;
        }
        if let Some(other) = LIMITS.iter().position(|limit| *limit == place).map(|at| LIMITS[1 - at]) {
            return rename(members, place, other);
        }
        // A member that says nothing is no loss.
        losses.lose_if(!matches!(members[at].1.as_ref(), "false" | "{}" | "[]"), place);
        members.retain(|(name, _)| name != root);
        return true;
    };
    let Some(mut inner) = parse(members[at].1.as_bytes()).ok() else { return false };
    if !remove_in(&mut inner, rest, value) {
        return false;
    }
    if is_item(root) {
        losses.form(place)
    } else {
        losses.lose(place)
    }
    match inner.as_object().is_some_and(serde_json::Map::is_empty) && !is_item(root) {
        true => drop(members.remove(at)),
        false => members[at].1 = inner.to_string().into(),
    }
    true
}

fn remove_in(value: &mut Value, place: &str, is: Option<&str>) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| remove_in(item, place, is) | changed),
        Value::Object(members) => match place.split_once('.') {
            Some((name, rest)) => members.get_mut(name).is_some_and(|value| remove_in(value, rest, is)),
            None => {
                let is_its = members.get(place).is_some_and(|value| {
                    is.is_none_or(|is| serde_json::from_str::<Value>(is).is_ok_and(|is| is == *value))
                });
                is_its && members.shift_remove(place).is_some()
            }
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
