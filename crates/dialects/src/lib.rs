//! Which dialect speaks each surface: the functions of a [`Surface`] and a [`Dialect`]. No dialect calls these. To add a dialect, write
//! its module with its [`UpstreamFormat`], and its line in `upstream_format`; for clients that speak it a [`ClientFormat`] too.

#[macro_use(members)]
extern crate photofinish_wire;

pub mod anthropic;
pub mod bedrock;
pub mod claude;
pub mod completions;
pub mod embeddings;
pub mod format;
pub mod gemini;
pub mod model_list;
pub mod ollama;
pub mod openai;
pub mod responses;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use format::{AskedWriting, ClientFormat, UpstreamFormat};
use photofinish_wire::answer::growing::GrowingAnswer;
use photofinish_wire::answer::whole;
use photofinish_wire::client_error::{ErrorShape, Invalid};
use photofinish_wire::conversation::members::required;
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::conversation::{Conversation, Losses, ReadPieces, WritePieces, bounds};
use photofinish_wire::dialect::{AnswerForm, Dialect, Surface};
use photofinish_wire::quirks::TranslationOptions;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::sse::SseEvent;
use photofinish_wire::stream::{event_reader, mended};

fn upstream_format(dialect: Dialect) -> &'static dyn UpstreamFormat {
    match dialect {
        Dialect::OpenAi => &openai::OpenAiFormat,
        Dialect::Responses => &responses::ResponsesFormat,
        Dialect::Anthropic => &anthropic::AnthropicFormat,
        Dialect::Gemini => &gemini::GeminiFormat,
        Dialect::Bedrock => &bedrock::BedrockFormat,
        Dialect::Ollama => &ollama::OllamaFormat,
    }
}

fn client_format(surface: Surface) -> &'static dyn ClientFormat {
    match surface.dialect() {
        // No surface is Bedrock's.
        Dialect::OpenAi | Dialect::Bedrock => &openai::OpenAiFormat,
        Dialect::Responses => &responses::ResponsesFormat,
        Dialect::Anthropic => &anthropic::AnthropicFormat,
        Dialect::Gemini => &gemini::GeminiFormat,
        Dialect::Ollama => &ollama::OllamaFormat,
    }
}

/// How requests and answers of a surface are read and written.
pub trait SurfaceFormat: Into<Surface> {
    /// Reads a request for translation.
    ///
    /// # Errors
    /// The problem, in the words of the surface's vendor.
    fn conversation(self, body: &[u8]) -> Result<Conversation, Invalid> {
        let surface = self.into();
        bounds::check(surface, body)?;
        let read = client_format(surface).conversation(surface, body);
        read.map_err(|invalid| bounds::unreadable(surface, body).unwrap_or(invalid))
    }

    /// A passed-through request without reasoning of earlier turns: without that of other vendors, which would be
    /// refused, or without any. None: it contained none.
    fn without_reasoning(self, body: &[u8], taken: RemovedReasoning) -> Option<Vec<u8>> {
        let surface = self.into();
        // Other surfaces have no earlier turns.
        let has_turns = surface.is_translated() || surface == Surface::CountTokens;
        if has_turns { client_format(surface).without_reasoning(body, taken) } else { None }
    }

    /// Checks the top-level members of a passed-through request as its vendor would: required members exist and have
    /// the right type. `member` returns the JSON text of a member.
    ///
    /// # Errors
    /// The problem, in the words of the surface's vendor.
    fn check<'a>(self, member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
        let surface = self.into();
        match surface {
            Surface::Chat => openai::check(member),
            Surface::Completions => completions::check(member),
            Surface::Embeddings => completions::check_embeddings(member),
            Surface::Responses => responses::check(member),
            Surface::Messages => anthropic::check(member, true),
            Surface::CountTokens => anthropic::check(member, false),
            Surface::OllamaChat => ollama::check_chat(member),
            Surface::OllamaGenerate => ollama::check_generate(member),
            Surface::OllamaEmbed => completions::check_embeddings(member),
            Surface::OllamaEmbeddings => required("prompt", member).map(drop),
            Surface::GeminiEmbed => required("content", member).map(drop),
            Surface::GeminiEmbedBatch => required("requests", member).map(drop),
            Surface::Gemini => gemini::check(member, false),
            Surface::GeminiCount => gemini::check(member, true),
            Surface::Passed(_) if surface.dialect() == Dialect::Responses => responses::check(member),
            Surface::Passed(call) => call.prompt().map_or(Ok(()), |prompt| required(prompt, member).map(drop)),
        }
    }

    /// Writes a translated answer. `model` is used until the upstream names its own; `legacy_functions`: a chat client
    /// lists `functions`; `compacts`: it is the short form of its conversation; `echo` are members of the request that the answer repeats.
    fn writer(
        self,
        model: &str,
        include_usage: bool,
        legacy_functions: bool,
        compacts: bool,
        echo: &Arc<Map<String, Value>>,
    ) -> Box<dyn WritePieces> {
        let surface = self.into();
        client_format(surface).writer(&AskedWriting { surface, model, include_usage, legacy_functions, compacts, echo })
    }

    /// A whole answer that grows, for a client that did not ask to stream.
    fn growing(self) -> GrowingAnswer {
        let surface = self.into();
        match surface {
            Surface::Completions => GrowingAnswer::new(completions::CompletionWhole),
            _ if surface.is_translated() => client_format(surface).growing(),
            // It is one event.
            _ => GrowingAnswer::default(),
        }
    }

    /// An event of this surface that cannot be read, as valid JSON, if only its encoding or its numbers are wrong.
    fn mended(self, event: &SseEvent) -> Option<SseEvent> {
        let surface = self.into();
        mended::mended(surface.framing(), event)
    }

    /// An error in this surface's shape.
    fn error(self, error: &ErrorShape<'_>) -> Value {
        let surface = self.into();
        client_format(surface).error(error)
    }

    /// The event that ends a broken stream.
    fn error_event(self, error: &ErrorShape<'_>) -> Bytes {
        let surface = self.into();
        client_format(surface).error_event(error)
    }

    /// The event that ends a stream with an upstream's own error, from its status and its body in the surface's shape.
    fn error_event_of(self, status: u16, body: &[u8]) -> Bytes {
        let surface = self.into();
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(event) = client_format(surface).own_error_event(&said) {
            return event;
        }
        let error = &said["error"];
        let member = |name: &str| error[name].as_str();
        let unread = format!("the upstream answered {status}");
        surface.error_event(&ErrorShape {
            status,
            kind: member("type").unwrap_or("invalid_request_error"),
            code: member("code").or(member("type")).unwrap_or("bad_request"),
            message: member("message").unwrap_or(&unread),
            param: member("param"),
            attempts: None,
        })
    }

    /// Whether the surface's official client treats this event as an error.
    fn sees_error(self, event: &SseEvent) -> bool {
        let surface = self.into();
        client_format(surface).is_error_event(event)
    }
}

impl SurfaceFormat for Surface {}

/// How requests and answers of a dialect are read and written.
pub trait DialectFormat: Into<Dialect> {
    /// The content of one event. This decides what counts as payload (the rules: `docs/measurement.md`).
    fn read(self, surface: Surface, event: &SseEvent) -> Frame<'_> {
        let dialect = self.into();
        match dialect {
            _ if let Surface::Passed(call) = surface => whole::read_passed(event, call),
            _ if !surface.streams() => whole::read(event),
            _ => upstream_format(dialect).read(event),
        }
    }

    /// Turns a whole answer into the bytes of a stream. None if the body is not an answer.
    fn events_of_whole(self, surface: Surface, body: &[u8]) -> Option<Bytes> {
        let dialect = self.into();
        if surface.streams() { upstream_format(dialect).events_of_whole(body) } else { None }
    }

    /// The name of another dialect that this body is written in, if it is not of this one.
    fn of_another(self, body: &[u8]) -> Option<&'static str> {
        let dialect = self.into();
        let body = std::str::from_utf8(body).ok()?;
        event_reader::name(dialect, body.trim_start_matches('\u{feff}'))
    }

    /// Reads a stream for translation.
    fn reader(self) -> Box<dyn ReadPieces> {
        let dialect = self.into();
        upstream_format(dialect).reader()
    }

    /// Writes a conversation as a request. `model`, `stream` and `stream_options` are set later where the body has
    /// them. Reports to `losses` what cannot be written, except what was already lost in reading the conversation.
    fn request(self, conversation: &Conversation, options: &TranslationOptions, losses: &mut Losses) -> Value {
        let dialect = self.into();
        upstream_format(dialect).request(conversation, options, losses)
    }

    /// Whether its tools may take free text instead of JSON.
    fn has_custom_tools(self, options: &TranslationOptions) -> bool {
        let dialect = self.into();
        upstream_format(dialect).has_custom_tools(options)
    }

    /// The path of a request for a model, appended to the base URL. May have a query.
    fn path(self, surface: Surface, model: &str, form: AnswerForm) -> Cow<'static, str> {
        let dialect = self.into();
        match surface.embeds() {
            true => upstream_format(dialect).embeddings_path(surface, model),
            false => upstream_format(dialect).path(surface, model, form != AnswerForm::Plain),
        }
    }
}

impl DialectFormat for Dialect {}
