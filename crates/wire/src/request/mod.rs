//! A request of a client on any surface, a JSON object or a multipart form: parsed only at its top level, and rewritten
//! for upstreams of its own dialect by splicing bytes. Not for upstreams of another dialect: see [`crate::translate::request`].
//!
//! `model`, `stream` and `stream_options` are set if the surface has them. All other members are copied byte for byte
//! and in order, so a megabyte of base64 is not parsed and unknown members are kept.

pub mod opening;
pub mod path_call;
pub mod prefix;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::value::RawValue;

pub use ambiguous::{AmbiguousMember, OtherReading};
pub use members::{InvalidRequest, MemberSet};
use members::{Member, boolean, include_usage, limits, lists_some, position, span, string};

use super::dialect::{Dialect, Surface};
use crate::json::raw_members::RequestMembers;
use crate::request::path_call::PathCall;
use form::FormModel;

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
    /// The largest, if several members say it.
    pub max_tokens: Option<i64>,
    /// It says so with `max_tokens`, the name that OpenAI has given up.
    pub has_older_limit: bool,
    /// The answer begins with the prompt.
    pub echoes: bool,
    pub has_tools: bool,
    pub member_set: MemberSet,
    /// A chat client lists `functions`, the predecessor of tools.
    pub legacy_functions: bool,
    /// The answer has to follow a JSON schema.
    pub has_schema: bool,
    /// A member that may make an upstream use another model. Looked for only in strict requests.
    pub ambiguous: Option<AmbiguousMember>,
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
            SetMembers::Model => !surface.is_in_path(),
            SetMembers::Stream => surface.streams() && !surface.is_in_path(),
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

    /// The same for a surface whose model is in the path: `call` is what the path says. `strict`: looks for a member
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
        let RequestMembers(members) =
            serde_json::from_str(text).map_err(|error| InvalidRequest::Json(position(&error)))?;
        let mut request = ApiRequest::read(surface, text, &members)?;
        if let Some(PathCall { model, stream, listed, .. }) = call {
            (request.model, request.stream, request.listed) = (model.clone(), *stream, *listed);
        }
        let member = |name: &str| {
            let value = members.iter().rev().find(|(member, _)| member == name)?.1.get();
            (value != "null").then_some(value)
        };
        // Without a model no other error matters, and only the gateway knows the models. Anthropic's own check reports
        // a missing model itself.
        if request.model.is_empty() && surface.dialect() != Dialect::Anthropic {
            return Err(InvalidRequest::NoModel);
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
        strict: bool,
    ) -> Result<ApiRequest, InvalidRequest> {
        let form =
            content_type.and_then(|value| Some((value, value.to_str().ok().filter(|text| form::is_form(text))?)));
        let Some((content_type, text)) = form else {
            if body.trim_ascii_start().starts_with(b"--") {
                return Err(InvalidRequest::Form("needs the content-type multipart/form-data with its boundary"));
            }
            return ApiRequest::parse_call(surface, body, None, strict);
        };
        let FormModel { value, ambiguous } = form::model_field(text, &body)?;
        let mut request = ApiRequest::empty(surface);
        request.ambiguous = ambiguous.filter(|_| strict);
        request.model = match std::str::from_utf8(&body[value.clone()]) {
            Ok("") => return Err(InvalidRequest::NoModel),
            Ok(model) => model.to_owned(),
            Err(_) => return Err(InvalidRequest::Member { member: "model", expected: "a string" }),
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
        let RequestMembers(members) =
            serde_json::from_str(text).map_err(|error| InvalidRequest::Json(position(&error)))?;
        let mut request = ApiRequest::read(surface, text, &members)?;
        request.body = body;
        Ok(request)
    }

    /// The facts, without the body.
    fn read(surface: Surface, text: &str, members: &[(Cow<'_, str>, &RawValue)]) -> Result<ApiRequest, InvalidRequest> {
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
            max_tokens: None,
            has_older_limit: false,
            echoes: false,
            has_tools: false,
            member_set: MemberSet::default(),
            legacy_functions: false,
            has_schema: false,
            ambiguous: None,
        }
    }

    fn take(&mut self, name: &str, value: &RawValue) -> Result<(), InvalidRequest> {
        match name {
            "model" if SetMembers::Model.is_of(self.surface) => self.model = string(value)?,
            "stream" if SetMembers::Stream.is_of(self.surface) => self.stream = boolean(value)?.unwrap_or(self.stream),
            "stream_options" if SetMembers::StreamOptions.is_of(self.surface) => {
                self.include_usage = include_usage(value)?
            }
            // Several images are one answer.
            "n" if self.surface.streams() => self.n_choices = serde_json::from_str(value.get()).ok(),
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                self.max_tokens = serde_json::from_str(value.get()).ok().max(self.max_tokens);
                self.has_older_limit |= name == "max_tokens";
            }
            "echo" => self.echoes = value.get() == "true",
            "options" | "generationConfig" if self.surface.has_nested_limits() => {
                (self.max_tokens, self.n_choices) = limits(self.surface, value);
                self.has_schema =
                    value.get().contains("\"responseSchema\"") || value.get().contains("\"responseJsonSchema\"");
            }
            "response_format" | "text" | "output_format" | "output_config" => {
                self.has_schema = value.get().contains("\"json_schema\"");
            }
            "format" => self.has_schema = value.get().starts_with('{'),
            "tools" | "functions" => self.has_tools |= lists_some(value),
            _ => {}
        }
        Ok(())
    }

    /// The prompt's values, in the order in which a provider reads them.
    pub fn prompt(&self) -> [&[u8]; PROMPT_PARTS] {
        self.prompt.each_ref().map(|part| &self.body[part.clone()])
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
        Surface::Gemini | Surface::GeminiCount => ["tools", "systemInstruction", "contents"],
        Surface::Passed(call) => ["", "", call.prompt().unwrap_or_default()],
    };
    names.iter().position(|part| *part == name && !name.is_empty())
}

mod ambiguous;
mod continued;
mod form;
mod members;
mod upload;

#[cfg(test)]
mod tests;
