//! A request of a client on any surface, a JSON object or a multipart form: parsed only at its top level, and rewritten
//! for upstreams of its own dialect by splicing bytes. Not for upstreams of another dialect: see [`crate::translate::request`].
//!
//! `model`, `stream` and `stream_options` are set if the surface has them. All other members are copied byte for byte
//! and in order, so a megabyte of base64 is not parsed and unknown members are kept.

mod ambiguous;
pub mod asked;
mod form;
mod members;
pub mod recalled;
mod responses_form;
mod session;
mod settings;
pub mod state;
pub mod tags;

use photofinish_dialects::SurfaceFormat as _;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;

pub use ambiguous::{AmbiguousMember, OtherReading};
pub use members::{InvalidRequest, MemberSet};
pub use responses_form::as_chat;
pub use session::session_hash;
pub use settings::RequestSettings;

use crate::request::asked::AskedAnswer;
use form::FormModel;
use members::{Member, boolean, count, include_usage, limits, lists_some, position, span, string, with_usage};
use photofinish_base::parts::{BodyParts, Splicer};
use photofinish_wire::Prefix;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::{Conversation, Losses};
use photofinish_wire::dialect::{AnswerForm, Dialect, PassedCall, PathCall, Surface};
use photofinish_wire::json::SERDE_DEPTH_MAX;
use photofinish_wire::json::raw_members::members;
use photofinish_wire::json::{InvalidJson, Json};
use session::{ends_with_result, session, user_id};
use state::StateUse;

/// A request, and the few facts that the gateway needs.
#[derive(Clone)]
pub struct ApiRequest {
    pub surface: Surface,
    body: Bytes,
    /// The content type of a multipart form. None: the body is a JSON object.
    form: Option<HeaderValue>,
    /// Positions of the members that are set.
    edits: Vec<(SetMembers, Member)>,
    /// Position of the closing brace.
    end: usize,
    /// False for `{}`.
    has_members: bool,
    /// Positions of the prompt's values, in the order in which a provider reads them. Empty ranges if absent.
    prompt: [Range<usize>; PROMPT_PARTS],
    pub model: String,
    pub stream: bool,
    /// The whole answer is the only item of a list.
    pub listed: bool,
    /// The client asked for the usage chunk.
    pub include_usage: bool,
    pub n_choices: Option<i64>,
    /// Answers that are made for each that is asked for (`best_of`, images), and prompts in a list: each is billed.
    best_of: i64,
    prompts: i64,
    /// The largest, if several members say it.
    pub max_tokens: Option<i64>,
    /// It says so with `max_tokens`, the name that OpenAI has given up.
    pub has_older_limit: bool,
    /// The answer begins with the prompt.
    pub echoes: bool,
    pub has_tools: bool,
    /// A hash of what it says of its session: `prompt_cache_key`, or Anthropic's `metadata.user_id`.
    pub session: Option<u64>,
    /// What it is charged to, by OpenAI's `metadata`: see [`tags`].
    pub tags: Option<String>,
    pub member_set: MemberSet,
    /// A chat client lists `functions`, the predecessor of tools.
    pub legacy_functions: bool,
    /// The answer has to follow a JSON schema.
    pub has_schema: bool,
    /// The answer has to be JSON, by a schema or without one.
    pub asks_json: bool,
    /// A member that may make an upstream use another model. Looked for only in strict requests.
    pub ambiguous: Option<AmbiguousMember>,
    /// What the client said and the body does not, because it came in another form.
    pub losses: Losses,
    /// What it says of earlier answers of the Responses API.
    pub state: StateUse,
    /// What its answer has to be, if that comes whole.
    pub(crate) asked: AskedAnswer,
    /// The method and the path of a call that names no model.
    call: Option<(Method, String)>,
}

impl fmt::Debug for ApiRequest {
    /// Without the body: it is the prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiRequest").field("model", &self.model).field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Maximum members that hold the prompt: tools, system prompt, messages.
const PROMPT_PARTS: usize = 3;

/// The members that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetMembers {
    Model,
    Stream,
    StreamOptions,
}

impl SetMembers {
    const ALL: [SetMembers; 3] = [SetMembers::Model, SetMembers::Stream, SetMembers::StreamOptions];

    /// Whether the surface has this member.
    fn is_of(self, surface: Surface) -> bool {
        match self {
            SetMembers::Model => !surface.has_model_in_path(),
            SetMembers::Stream => surface.streams() && !surface.has_model_in_path(),
            SetMembers::StreamOptions => matches!(surface, Surface::Chat | Surface::Completions),
        }
    }

    fn name(self) -> &'static str {
        match self {
            SetMembers::Model => "model",
            SetMembers::Stream => "stream",
            SetMembers::StreamOptions => "stream_options",
        }
    }
}

impl ApiRequest {
    /// Parses the top level of a body, and checks it as the surface's vendor would.
    ///
    /// # Errors
    /// The problem. Names the member, never its value.
    pub fn parse(surface: Surface, body: Bytes) -> Result<ApiRequest, InvalidRequest> {
        ApiRequest::parse_call(surface, body, None, false)
    }

    /// The same for a call whose model is in the path: `call` is what the path says. `strict`: looks for a member
    /// that is [`ambiguous`](ApiRequest::ambiguous).
    ///
    /// # Errors
    /// The problem. Names the member, never its value.
    pub fn parse_call(
        surface: Surface,
        body: Bytes,
        call: Option<&PathCall>,
        strict: bool,
    ) -> Result<ApiRequest, InvalidRequest> {
        let text = std::str::from_utf8(&body).map_err(|_| InvalidRequest::Json("it is not UTF-8".to_owned()))?;
        if !text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
            return Err(InvalidRequest::NotAnObject);
        }
        let members = members(text).map_err(|error| InvalidRequest::Json(position(&error)))?;
        let mut request = ApiRequest::read(surface, text, &members)?;
        if let Some(PathCall { model, stream, listed, .. }) = call {
            request.model = model.clone();
            if surface.has_model_in_path() {
                (request.stream, request.listed) = (*stream, *listed);
            }
        }
        let member = |name: &str| {
            let value = members.iter().rev().find(|(member, _)| member == name)?.1;
            (value != "null").then_some(value)
        };
        // Without a model no other error matters, and only the gateway knows the models. Anthropic's own check reports
        // a missing model itself.
        if request.model.is_empty() && surface.dialect() != Dialect::Anthropic {
            return Err(InvalidRequest::NoModel);
        }
        if surface == Surface::Chat && responses_form::has_it(&member) {
            return Err(InvalidRequest::ResponsesForm);
        }
        surface.check(&member).map_err(InvalidRequest::Surface)?;
        if request.model.is_empty() {
            return Err(InvalidRequest::NoModel);
        }
        request.ambiguous = if strict { ambiguous::find(surface, &members) } else { None };
        request.body = body;
        Ok(request)
    }

    /// A request of a surface that takes multipart forms; `content_type` is its own. Any other body must be JSON.
    /// `strict`: as in [`ApiRequest::parse_call`].
    ///
    /// # Errors
    /// The problem. Names the member, never its value.
    pub fn parse_passed(
        surface: Surface,
        body: Bytes,
        content_type: Option<&HeaderValue>,
        call: Option<&PathCall>,
        strict: bool,
    ) -> Result<ApiRequest, InvalidRequest> {
        let form =
            content_type.and_then(|value| Some((value, value.to_str().ok().filter(|text| form::is_form(text))?)));
        let Some((content_type, text)) = form else {
            if body.trim_ascii_start().starts_with(b"--") {
                return Err(InvalidRequest::Form("needs the content-type multipart/form-data with its boundary"));
            }
            return ApiRequest::parse_call(surface, body, call, strict);
        };
        let FormModel { value, ambiguous, fields } = form::model_field(text, &body)?;
        let mut request = ApiRequest::empty(surface);
        request.asked = AskedAnswer::of(surface, &fields);
        request.best_of = fields.iter().find_map(|(name, value)| count(value).filter(|_| name == "n")).unwrap_or(1);
        request.ambiguous = ambiguous.filter(|_| strict);
        request.model = match (call, std::str::from_utf8(&body[value.clone()])) {
            (_, Err(_)) => return Err(InvalidRequest::Member { member: "model", expected: "a string" }),
            (Some(call), _) => call.model.clone(),
            (None, Ok("")) => return Err(InvalidRequest::NoModel),
            (None, Ok(model)) => model.to_owned(),
        };
        request.edits.push((SetMembers::Model, Member { whole: value.clone(), value }));
        request.form = Some(content_type.clone());
        request.end = body.len();
        request.body = body;
        Ok(request)
    }

    /// A request that a translation wrote, to be spliced like a client's.
    ///
    /// # Errors
    /// None for an object that was just written.
    pub(crate) fn written(surface: Surface, body: Bytes) -> Result<ApiRequest, InvalidRequest> {
        let text = std::str::from_utf8(&body).map_err(|_| InvalidRequest::NotAnObject)?;
        let members = members(text).map_err(|error| InvalidRequest::Json(position(&error)))?;
        let mut request = ApiRequest::read(surface, text, &members)?;
        request.body = body;
        Ok(request)
    }

    /// A request that a translation wrote for an upstream whose path has the model: nothing is set in it.
    pub(crate) fn fixed(body: Bytes, max_tokens: Option<i64>) -> ApiRequest {
        ApiRequest { end: body.len(), body, max_tokens, ..ApiRequest::empty(Surface::Gemini) }
    }

    /// The same request with another body. None: it is no object.
    pub(crate) fn with_body(&self, body: impl Into<Bytes>) -> Option<ApiRequest> {
        let request = ApiRequest::written(self.surface, body.into()).ok()?;
        // What a translation asks for in a form that is not read here.
        let asked = self.max_tokens.filter(|_| self.surface.has_model_in_path());
        Some(ApiRequest { max_tokens: request.max_tokens.or(asked), losses: self.losses.clone(), ..request })
    }

    /// The facts, without the body.
    fn read(surface: Surface, text: &str, members: &[(Cow<'_, str>, &str)]) -> Result<ApiRequest, InvalidRequest> {
        let mut request = ApiRequest {
            end: text.trim_end().len().saturating_sub(1),
            has_members: !members.is_empty(),
            ..ApiRequest::empty(surface)
        };
        for (name, value) in members {
            request.take(name.as_ref(), value)?;
            request.member_set.add(name);
            if let Some(part) = prompt_part(surface, name) {
                request.prompt[part] = span(text, name, value).value;
            }
            let Some(set) = SetMembers::ALL.into_iter().find(|set| set.name() == name && set.is_of(surface)) else {
                continue;
            };
            if request.edits.iter().any(|(before, _)| *before == set) {
                return Err(InvalidRequest::Twice(set.name()));
            }
            request.edits.push((set, span(text, name, value)));
        }
        let lists = |wanted| members.iter().any(|(name, value)| name == wanted && lists_some(value));
        if state::has_state(surface) {
            state::check_once(members)?;
            request.state.look_at_input(&text.as_bytes()[request.prompt[PROMPT_PARTS - 1].clone()]);
        }
        request.asked = AskedAnswer::of(surface, members);
        request.legacy_functions = surface == Surface::Chat && lists("functions") && !lists("tools");
        Ok(request)
    }

    fn empty(surface: Surface) -> ApiRequest {
        ApiRequest {
            surface,
            body: Bytes::new(),
            form: None,
            edits: Vec::new(),
            end: 0,
            has_members: false,
            prompt: [0..0, 0..0, 0..0],
            model: String::new(),
            stream: surface.streams_by_default(),
            listed: false,
            include_usage: false,
            n_choices: None,
            best_of: 1,
            prompts: 1,
            max_tokens: None,
            has_older_limit: false,
            echoes: false,
            has_tools: false,
            session: None,
            tags: None,
            member_set: MemberSet::default(),
            legacy_functions: false,
            has_schema: false,
            asks_json: false,
            ambiguous: None,
            losses: Losses::default(),
            state: StateUse::default(),
            asked: AskedAnswer::default(),
            call: None,
        }
    }

    /// How many answers are billed: each choice of each prompt.
    pub fn answers(&self) -> f64 {
        self.n_choices.unwrap_or(1).max(self.best_of).max(1) as f64 * self.prompts.max(1) as f64
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), InvalidRequest> {
        match name {
            "model" if SetMembers::Model.is_of(self.surface) => self.model = string(value)?,
            "stream" if SetMembers::Stream.is_of(self.surface) => self.stream = boolean(value)?.unwrap_or(self.stream),
            "stream_options" if SetMembers::StreamOptions.is_of(self.surface) => {
                self.include_usage = include_usage(value)?
            }
            // Several images are one answer.
            "n" if self.surface.streams() => self.n_choices = count(value),
            "n" | "best_of" => self.best_of = count(value).unwrap_or(1),
            "prompt" => self.prompts = prompts(value),
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                self.max_tokens = serde_json::from_str(value).ok().max(self.max_tokens);
                self.has_older_limit |= name == "max_tokens";
            }
            "echo" => self.echoes = value == "true",
            "options" | "generationConfig" | "generation_config" if self.surface.has_nested_limits() => {
                (self.max_tokens, self.n_choices) = limits(self.surface, value);
                let has_schema = value.contains("\"responseSchema\"") || value.contains("\"responseJsonSchema\"");
                self.has_schema |= has_schema;
                self.asks_json |=
                    has_schema || (self.surface.has_model_in_path() && value.contains("\"application/json\""));
            }
            "response_format" | "text" | "output_format" | "output_config" => {
                self.has_schema |= value.contains("\"json_schema\"");
                self.asks_json |= asks_json(value);
            }
            "format" => {
                self.has_schema |= value.starts_with('{');
                self.asks_json |= value.starts_with('{') || asks_json(value);
            }
            "tools" | "functions" => self.has_tools |= lists_some(value),
            "prompt_cache_key" => self.session = session(value),
            "previous_response_id" | "conversation" | "store" | "background" if state::has_state(self.surface) => {
                self.state.take(name, value)?;
            }
            "metadata" if matches!(self.surface, Surface::Chat | Surface::Responses) => {
                self.tags = tags::of_metadata(value)
            }
            "metadata" if self.surface == Surface::Messages => self.session = user_id(value).or(self.session),
            _ => {}
        }
        Ok(())
    }

    /// The prompt's values, in the order in which a provider reads them.
    pub fn prompt(&self) -> [&[u8]; PROMPT_PARTS] {
        self.prompt.each_ref().map(|part| &self.body[part.clone()])
    }

    /// The member that asks for an answer in JSON, as it was written.
    pub fn format(&self) -> Option<&str> {
        let mut found = None;
        Json::nested(std::str::from_utf8(&self.body).ok()?, SERDE_DEPTH_MAX)
            .object(|name, json| {
                let value = json.skip()?;
                let asks = match name {
                    "response_format" | "text" | "output_format" | "output_config" => asks_json(value),
                    "format" => value.starts_with('{') || asks_json(value),
                    "generationConfig" => self.surface == Surface::Gemini,
                    _ => false,
                };
                found = found.or(asks.then_some(value));
                Ok(())
            })
            .ok()?;
        found
    }

    /// The client can do nothing before the whole answer is there: it does not stream, or it is an agent that sent the result of a tool.
    pub fn waits_for_answer(&self) -> bool {
        !self.stream || self.has_tools && ends_with_result(self.prompt()[PROMPT_PARTS - 1])
    }

    /// Its neutral form.
    ///
    /// # Errors
    /// What its vendor would say of it.
    pub fn conversation(&self) -> Result<Conversation, Invalid> {
        let mut conversation = self.surface.conversation(&self.body)?;
        conversation.losses.extend(&self.losses);
        Ok(conversation)
    }

    /// Whether it may ask to keep parts of its prompt in the provider's cache for an hour.
    pub fn asks_hour(&self) -> bool {
        memchr::memmem::find(&self.body, b"\"1h\"").is_some()
    }

    /// The original body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The content type of the body.
    pub fn content_type(&self) -> HeaderValue {
        self.form.clone().unwrap_or(HeaderValue::from_static("application/json"))
    }

    /// It is a multipart form.
    pub fn is_form(&self) -> bool {
        self.form.is_some()
    }

    /// Bytes of the original body.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Never true: a request names its model.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// The client sent `stream_options`.
    pub fn has_stream_options(&self) -> bool {
        self.edits.iter().any(|(set, _)| *set == SetMembers::StreamOptions)
    }
}

/// Whether the value of a member for the form of the answer asks for JSON. Ollama's is a schema, or a word.
/// Prompts of a completion: a list of texts, or of lists of tokens, is several.
fn prompts(value: &str) -> i64 {
    let mut several = 0;
    if Json::new(value).peek() == Some(b'[') {
        // What is no list ends the count.
        let _ = Json::new(value).list(|json| {
            several += i64::from(matches!(json.peek(), Some(b'"' | b'[')));
            json.skip().map(drop)
        });
    }
    several.max(1)
}

fn asks_json(value: &str) -> bool {
    value == "\"json\"" || ["\"json_schema\"", "\"json_object\""].iter().any(|word| value.contains(word))
}

/// The prompt part that a member is, in the order in which a provider reads them.
fn prompt_part(surface: Surface, name: &str) -> Option<usize> {
    let names = match surface {
        Surface::Chat => ["tools", "", "messages"],
        Surface::Completions => ["", "", "prompt"],
        Surface::Embeddings => ["", "", "input"],
        Surface::Responses => ["tools", "instructions", "input"],
        Surface::Messages | Surface::CountTokens => ["tools", "system", "messages"],
        Surface::OllamaChat => ["tools", "", "messages"],
        Surface::OllamaGenerate => ["", "system", "prompt"],
        Surface::OllamaEmbed => ["", "", "input"],
        Surface::OllamaEmbeddings => ["", "", "prompt"],
        Surface::GeminiEmbed => ["", "", "content"],
        Surface::GeminiEmbedBatch => ["", "", "requests"],
        Surface::Gemini | Surface::GeminiCount => ["tools", "systemInstruction", "contents"],
        Surface::Passed(PassedCall::InputTokens | PassedCall::Background) => ["tools", "instructions", "input"],
        Surface::Passed(call) => ["", "", call.prompt().unwrap_or_default()],
    };
    names.iter().position(|part| *part == name && !name.is_empty())
}

// The body for one upstream of the request's own dialect: with its model, and as it is asked to answer.

impl ApiRequest {
    /// The body for an upstream: with its model name, and, if the surface has them, with streaming and a request for
    /// usage as `form` says. All other members keep their bytes.
    pub fn body_for(&self, model: &str, form: AnswerForm) -> BodyParts {
        if self.surface.has_model_in_path() || self.call.is_some() {
            return self.body.clone().into();
        }
        let mut body = Splicer::new(&self.body, model.len() + 64);
        let mut position = 0;
        let mut seen = [false; 3];
        for (set, member) in &self.edits {
            let value = self.value_of(*set, member, model, form);
            // Vendors refuse `stream_options` in a request that does not stream.
            let cut = if value.is_none() { self.with_comma(&member.whole) } else { member.value.clone() };
            body.keep(position..cut.start.max(position));
            body.write(value.unwrap_or_default().as_bytes());
            position = cut.end;
            seen[*set as usize] = true;
        }
        body.keep(position..self.end);
        let mut separator = if self.has_members { "," } else { "" };
        let missing = |set: SetMembers| !seen[set as usize] && set.is_of(self.surface);
        let mut add = |member: &str| {
            body.write(separator.as_bytes());
            body.write(member.as_bytes());
            separator = ",";
        };
        // Only a translated request may lack it.
        if missing(SetMembers::Model) {
            add(&format!("\"model\":{}", serde_json::Value::from(model)));
        }
        if missing(SetMembers::Stream) && (form != AnswerForm::Plain || self.stream) {
            add(&format!("\"stream\":{}", form != AnswerForm::Plain));
        }
        if form == AnswerForm::WithUsage && missing(SetMembers::StreamOptions) {
            add("\"stream_options\":{\"include_usage\":true}");
        }
        body.keep(self.end..self.body.len());
        body.done()
    }

    /// The JSON text of a member that is set. None: it is left out.
    fn value_of(&self, set: SetMembers, member: &Member, model: &str, form: AnswerForm) -> Option<Cow<'_, str>> {
        let own = || std::str::from_utf8(&self.body[member.value.clone()]).ok().map(Cow::Borrowed);
        match (set, form) {
            (SetMembers::Model, _) if self.form.is_some() => Some(match &self.body[member.value.start..] {
                rest if member.value.is_empty() && rest.starts_with(b"--") => form::model_part(rest, model).into(),
                _ => Cow::Owned(model.to_owned()),
            }),
            (SetMembers::Model, _) => Some(Cow::Owned(serde_json::Value::from(model).to_string())),
            (SetMembers::Stream, AnswerForm::Plain) if self.stream => Some(Cow::Borrowed("false")),
            (SetMembers::Stream, AnswerForm::Plain) => own(),
            (SetMembers::Stream, _) => Some(Cow::Borrowed("true")),
            (SetMembers::StreamOptions, AnswerForm::WithUsage) => {
                Some(Cow::Owned(with_usage(&self.body[member.value.clone()])))
            }
            (SetMembers::StreamOptions, _) => None,
        }
    }

    /// The range of a member and one adjacent comma, so that the rest is valid JSON.
    fn with_comma(&self, whole: &Range<usize>) -> Range<usize> {
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        let after = whole.end + self.body[whole.end..].iter().take_while(|byte| blank(byte)).count();
        if self.body.get(after) == Some(&b',') {
            return whole.start..after + 1;
        }
        let before = whole.start - self.body[..whole.start].iter().rev().take_while(|byte| blank(byte)).count();
        if before > 0 && self.body[before - 1] == b',' { before - 1..whole.end } else { whole.clone() }
    }
}

// Writes a request that continues its answer: with one more message, or a longer prompt. All other bytes are kept.

#[derive(Deserialize)]
struct ContinuedTurn {
    #[serde(default)]
    role: String,
}

impl ApiRequest {
    /// With `said` as the last assistant message, or appended to the prompt of a completion, and with as many tokens less
    /// as were `spent` on it. None if the last message is already the assistant's: then the answer has more than `said`.
    pub fn continued(&self, said: &str, spent: i64, prefix: Prefix) -> Option<ApiRequest> {
        let range = self.prompt[PROMPT_PARTS - 1].clone();
        let (list, end) = (self.body.get(range.clone())?, range.end.checked_sub(1)?);
        let (inner, members) = match self.surface {
            Surface::Chat | Surface::Messages => {
                let turns: Vec<ContinuedTurn> = serde_json::from_slice(list).ok()?;
                if turns.last()?.role == "assistant" {
                    return None;
                }
                let (of_message, of_request) = prefix.members();
                (format!(r#",{{"role":"assistant","content":{}{of_message}}}"#, Value::from(said)), of_request)
            }
            Surface::Completions if list.first() == Some(&b'"') && !self.echoes => {
                let text = Value::from(said).to_string();
                (text.strip_prefix('"')?.strip_suffix('"')?.to_owned(), "")
            }
            _ => return None,
        };
        let mut body = Vec::with_capacity(self.body.len() + inner.len() + members.len());
        body.extend_from_slice(self.body.get(..end)?);
        body.extend_from_slice(inner.as_bytes());
        body.extend_from_slice(self.body.get(end..self.end)?);
        body.extend_from_slice(members.as_bytes());
        body.extend_from_slice(self.body.get(self.end..)?);
        ApiRequest::written(self.surface, with_fewer_tokens(body, spent).into()).ok()
    }
}

/// Members that bound the tokens of the answer.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// The request with a smaller bound, but at least one token.
fn with_fewer_tokens(mut body: Vec<u8>, spent: i64) -> Vec<u8> {
    let mut limits = Vec::new();
    let text = std::str::from_utf8(&body).unwrap_or_default();
    // Only what was read is changed.
    let _ = Json::nested(text, SERDE_DEPTH_MAX).object(|name, json| {
        let value = json.skip()?;
        if let Some(tokens) = value.parse::<i64>().ok().filter(|_| LIMITS.contains(&name)) {
            let start = value.as_ptr() as usize - text.as_ptr() as usize;
            limits.push((start..start + value.len(), tokens.saturating_sub(spent).max(1)));
        }
        Ok(())
    });
    for (at, tokens) in limits.into_iter().rev() {
        body.splice(at, tokens.to_string().into_bytes());
    }
    body
}

// Finds the opening of a conversation: everything up to the first question. Later requests of a conversation begin
// with the same bytes. Other conversations hardly do, even with the same system prompt.

/// Maximum messages that are searched for the first question. Examples may precede it.
const MESSAGES_MAX: usize = 16;

/// The parts of the prompt up to the end of the first user message. None if there is no such message.
pub fn opening(request: &ApiRequest) -> Option<[&[u8]; 3]> {
    let [tools, system, messages] = request.prompt();
    let end = first_question(messages)?;
    Some([tools, system, &messages[..end]])
}

/// The end of the first user message. Reading stops there.
fn first_question(messages: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(messages).ok()?;
    let (mut found, mut left) = (None, MESSAGES_MAX);
    let walked = Json::nested(text, SERDE_DEPTH_MAX).list(|json| {
        let message = json.skip()?;
        let role = Json::nested(message, SERDE_DEPTH_MAX).member("role", Json::text)?;
        left -= 1;
        if role.is_some_and(|role| role == "user") {
            found = (message.as_ptr() as usize).checked_sub(text.as_ptr() as usize).map(|at| at + message.len());
        }
        // An error stops the walk.
        if found.is_some() || left == 0 { Err(InvalidJson) } else { Ok(()) }
    });
    walked.err().and(found)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod continued_tests {
    use bytes::Bytes;

    use super::*;

    fn continued(surface: Surface, body: &'static str, prefix: Prefix) -> Option<String> {
        let request = ApiRequest::parse(surface, Bytes::from_static(body.as_bytes())).unwrap();
        let continued = request.continued("a \"b\"", 4, prefix)?;
        Some(
            String::from_utf8(continued.body_for("up", photofinish_wire::AnswerForm::Streamed).joined().to_vec())
                .unwrap(),
        )
    }

    #[test]
    fn what_was_said_is_the_last_message() {
        let chat = r#"{"model":"m","messages":[{"role":"user","content":"x"} ],"seed":1}"#;
        let with = |message: &str, members: &str| {
            Some(format!(
                r#"{{"model":"up","messages":[{{"role":"user","content":"x"}} ,{{"role":"assistant","content":"a \"b\""{message}}}],"seed":1{members},"stream":true}}"#
            ))
        };
        assert_eq!(continued(Surface::Chat, chat, Prefix::Plain), with("", ""));
        assert_eq!(continued(Surface::Chat, chat, Prefix::Prefix), with(r#","prefix":true"#, ""));
        assert_eq!(continued(Surface::Chat, chat, Prefix::Partial), with(r#","partial":true"#, ""));
        let members = r#","add_generation_prompt":false,"continue_final_message":true"#;
        assert_eq!(continued(Surface::Chat, chat, Prefix::ContinueFinalMessage), with("", members));
        let messages = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
        let expected = r#"{"model":"up","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a \"b\""}],"stream":true}"#;
        assert_eq!(continued(Surface::Messages, messages, Prefix::Plain).as_deref(), Some(expected));
    }

    #[test]
    fn a_completion_goes_on_from_a_longer_prompt() {
        let body = r#"{"model":"m","prompt":"say:","max_tokens":4}"#;
        let expected = r#"{"model":"up","prompt":"say:a \"b\"","max_tokens":1,"stream":true}"#;
        assert_eq!(continued(Surface::Completions, body, Prefix::Plain).as_deref(), Some(expected));
        assert_eq!(continued(Surface::Completions, r#"{"model":"m","prompt":["a","b"]}"#, Prefix::Plain), None);
        let less = |body: &str| String::from_utf8(with_fewer_tokens(body.into(), 7)).unwrap();
        assert_eq!(
            less(r#"{"max_tokens": 40, "x": {"max_tokens": 9}, "max_completion_tokens":null,"max_output_tokens":9.5}"#),
            r#"{"max_tokens": 33, "x": {"max_tokens": 9}, "max_completion_tokens":null,"max_output_tokens":9.5}"#
        );
        assert_eq!(
            less(r#"{"max_completion_tokens":10,"max_tokens":100}"#),
            r#"{"max_completion_tokens":3,"max_tokens":93}"#
        );
    }

    #[test]
    fn what_the_client_itself_began_is_not_gone_on_with() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"{"}]}"#;
        assert_eq!(continued(Surface::Chat, body, Prefix::Plain), None);
    }
}

#[cfg(test)]
mod opening_tests {
    use bytes::Bytes;

    use super::*;
    use photofinish_wire::Surface;

    fn of(surface: Surface, body: &str) -> Option<String> {
        let request = ApiRequest::parse(surface, Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let parts = opening(&request)?.map(|part| String::from_utf8(part.to_vec()).unwrap());
        Some(parts.join("|"))
    }

    #[test]
    fn a_conversation_opens_with_its_first_question() {
        let chat = r#"[{"role":"system","content":"s"}, {"role":"user","content":"q"}"#;
        for (surface, body, expected) in [
            (Surface::Chat, format!(r#"{{"model":"m","messages":{chat}]}}"#), Some(format!("||{chat}"))),
            (
                Surface::Chat,
                format!(r#"{{"model":"m","tools":[1],"messages":{chat},{{"role":"assistant","content":"a"}}]}}"#),
                Some(format!("[1]||{chat}")),
            ),
            (
                Surface::Messages,
                r#"{"model":"m","max_tokens":1,"system":"s","messages":[{"content":"q","role":"user"},{"role":"assistant","content":"a"}]}"#.to_owned(),
                Some(r#"|"s"|[{"content":"q","role":"user"}"#.to_owned()),
            ),
            (
                Surface::Responses,
                r#"{"model":"m","instructions":"s","input":[{"role":"user","content":"q"},{"type":"function_call_output","call_id":"c","output":"o"}]}"#.to_owned(),
                Some(r#"|"s"|[{"role":"user","content":"q"}"#.to_owned()),
            ),
            (Surface::Responses, r#"{"model":"m","input":"q"}"#.to_owned(), None),
            (Surface::Completions, r#"{"model":"m","prompt":"q"}"#.to_owned(), None),
            (Surface::Embeddings, r#"{"model":"m","input":["q"]}"#.to_owned(), None),
        ] {
            assert_eq!(of(surface, &body), expected, "{body}");
        }
        let examples = r#"{"role":"system","content":"x"},"#.repeat(MESSAGES_MAX);
        assert_eq!(first_question(format!("[{examples}{{\"role\":\"user\"}}]").as_bytes()), None, "too far behind");
        for odd in ["", "[", "{}", "[1, 2]", r#"[{"role":1}]"#] {
            assert_eq!(first_question(odd.as_bytes()), None, "{odd}");
        }
    }
}
