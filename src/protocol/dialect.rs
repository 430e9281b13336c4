//! The seam between the gateway and the wire formats: what an app calls ([`Surface`]) and what a provider speaks
//! ([`Dialect`]), and what can be done with each. A dialect is a module beside this one; to add one is to write that module
//! and its lines here.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::assemble::Assemble;
use super::frame::Frame;
use super::framing::Framing;
use super::neutral::signature::Taken;
use super::neutral::{Conversation, Losses, ReadPieces, WritePieces};
use super::sse::Event;
use super::{anthropic, bedrock, bounds, completions, gemini, ollama, openai, other_dialect, responses, whole};

/// What an app calls: one path of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Surface {
    Chat,
    Completions,
    Embeddings,
    Responses,
    Messages,
    CountTokens,
}

/// What a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// OpenAI's chat completions, completions and embeddings.
    OpenAi,
    Responses,
    Anthropic,
    Gemini,
    /// Bedrock's ConverseStream.
    Bedrock,
    /// Ollama's own `/api/chat`.
    Ollama,
}

/// What a request for one upstream may depend on, beside the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The upstream's name for the model.
    pub model: String,
    /// The provider wants `max_completion_tokens` for `max_tokens` (dialect `openai`).
    pub max_completion_tokens: bool,
    /// The provider takes `reasoning_content` back within a run of tools; others refuse the member (dialect `openai`).
    pub takes_thoughts: bool,
}

impl Surface {
    pub const ALL: [Surface; 6] = [
        Surface::Chat,
        Surface::Completions,
        Surface::Embeddings,
        Surface::Responses,
        Surface::Messages,
        Surface::CountTokens,
    ];

    /// The stored name, in `race.api`.
    pub fn as_str(self) -> &'static str {
        match self {
            Surface::Chat => "chat",
            Surface::Completions => "completions",
            Surface::Embeddings => "embeddings",
            Surface::Responses => "responses",
            Surface::Messages => "messages",
            Surface::CountTokens => "count_tokens",
        }
    }

    /// Where the gateway serves it.
    pub fn path(self) -> &'static str {
        match self {
            Surface::Chat => "/v1/chat/completions",
            Surface::Completions => "/v1/completions",
            Surface::Embeddings => "/v1/embeddings",
            Surface::Responses => "/v1/responses",
            Surface::Messages => "/v1/messages",
            Surface::CountTokens => "/v1/messages/count_tokens",
        }
    }

    /// The dialect whose upstreams get its requests untouched.
    pub fn dialect(self) -> Dialect {
        match self {
            Surface::Chat | Surface::Completions | Surface::Embeddings => Dialect::OpenAi,
            Surface::Responses => Dialect::Responses,
            Surface::Messages | Surface::CountTokens => Dialect::Anthropic,
        }
    }

    /// Whether an upstream of another dialect can serve it.
    pub fn is_translated(self) -> bool {
        matches!(self, Surface::Chat | Surface::Responses | Surface::Messages)
    }

    /// Whether its answers may be streamed.
    pub fn streams(self) -> bool {
        !matches!(self, Surface::Embeddings | Surface::CountTokens)
    }

    /// Reads a request for translation.
    ///
    /// # Errors
    /// What is wrong with it, in the words that the surface's own vendor would use.
    pub fn conversation(self, body: &[u8]) -> Result<Conversation, Invalid> {
        bounds::check(self, body)?;
        let read = match self {
            Surface::Chat | Surface::Completions | Surface::Embeddings => openai::conversation(body),
            Surface::Responses => responses::conversation(body),
            Surface::Messages | Surface::CountTokens => anthropic::conversation(body),
        };
        read.map_err(|invalid| bounds::unreadable(self, body).unwrap_or(invalid))
    }

    /// A request that goes up untouched without reasoning of earlier turns: what translated answers left in it, which is other
    /// vendors' and would be refused, or all of it. None if there is none.
    pub fn without_reasoning(self, body: &[u8], taken: Taken) -> Option<Vec<u8>> {
        match self {
            Surface::Chat => openai::without_reasoning(body, taken),
            Surface::Responses => responses::without_reasoning(body, taken),
            Surface::Messages | Surface::CountTokens => anthropic::without_reasoning(body, taken),
            Surface::Completions | Surface::Embeddings => None,
        }
    }

    /// What it calls reasoning of earlier turns.
    pub fn reasoning(self) -> &'static str {
        match self {
            Surface::Messages | Surface::CountTokens => "thinking",
            Surface::Responses => "reasoning",
            Surface::Chat | Surface::Completions | Surface::Embeddings => "reasoning_details",
        }
    }

    /// Checks the top-level members of a request that goes up untouched, as far as its vendor would: what is required is there,
    /// and is of the right type. `member` gives a member's JSON text.
    ///
    /// # Errors
    /// What is wrong with it, in the words that the surface's own vendor would use.
    pub fn check<'a>(self, member: &dyn Fn(&str) -> Option<&'a str>) -> Result<(), Invalid> {
        match self {
            Surface::Chat => openai::check(member),
            Surface::Completions => completions::check(member),
            Surface::Embeddings => completions::check_embeddings(member),
            Surface::Responses => responses::check(member),
            Surface::Messages => anthropic::check(member, true),
            Surface::CountTokens => anthropic::check(member, false),
        }
    }

    /// Writes a translated answer. `model` is the name that stands in it until the upstream names its own; `echo` are members of
    /// the request that it repeats.
    pub fn writer(self, model: &str, include_usage: bool, echo: &Arc<Map<String, Value>>) -> Box<dyn WritePieces> {
        match self {
            Surface::Chat | Surface::Completions | Surface::Embeddings => {
                Box::new(openai::Writer::new(model, include_usage))
            }
            Surface::Responses => Box::new(responses::Writer::new(model, echo.clone())),
            Surface::Messages | Surface::CountTokens => Box::new(anthropic::Writer::new(model)),
        }
    }

    /// Puts a whole answer together, for a client that did not ask to stream.
    pub fn assembly(self) -> Box<dyn Assemble> {
        match self {
            Surface::Chat => Box::new(openai::Assembly::default()),
            Surface::Completions => Box::new(completions::Assembly::default()),
            Surface::Responses => Box::new(responses::Assembly::default()),
            Surface::Messages => Box::new(anthropic::Assembly::default()),
            Surface::Embeddings | Surface::CountTokens => Box::new(whole::Assembly::default()),
        }
    }

    /// What an error is in this surface's shape. `kind` is OpenAI's `type`; `extra` are members that go beside the message.
    pub fn error(self, error: &ErrorShape<'_>) -> Value {
        match self.dialect() {
            Dialect::Anthropic => anthropic::error(error),
            _ => openai::error(error),
        }
    }

    /// The event that ends a broken stream.
    pub fn error_event(self, error: &ErrorShape<'_>) -> Bytes {
        match self {
            Surface::Chat | Surface::Completions | Surface::Embeddings => {
                Bytes::from(format!("data: {}\n\n", openai::error(error)))
            }
            Surface::Responses => responses::error_event(error),
            Surface::Messages | Surface::CountTokens => {
                Bytes::from(format!("event: error\ndata: {}\n\n", anthropic::error(error)))
            }
        }
    }

    /// The event that ends a stream with an upstream's own error, which came with this status and body in the surface's shape.
    pub fn error_event_of(self, status: u16, body: &[u8]) -> Bytes {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &said["error"];
        match self.dialect() {
            Dialect::OpenAi if error.is_object() => return Bytes::from(format!("data: {said}\n\n")),
            Dialect::Anthropic if error.is_object() => return Bytes::from(format!("event: error\ndata: {said}\n\n")),
            _ => {}
        }
        let member = |name: &str| error[name].as_str();
        let unread = format!("the upstream answered {status}");
        self.error_event(&ErrorShape {
            status,
            kind: member("type").unwrap_or("invalid_request_error"),
            code: member("code").or(member("type")).unwrap_or("bad_request"),
            message: member("message").unwrap_or(&unread),
            param: member("param"),
            attempts: None,
        })
    }

    /// What tells the client, and every proxy before it, that a stream is alive. Clients read over it.
    pub fn heartbeat(self) -> &'static [u8] {
        match self {
            // The vendor's own.
            Surface::Messages | Surface::CountTokens => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
            Surface::Chat | Surface::Completions | Surface::Responses | Surface::Embeddings => b": keep-alive\n\n",
        }
    }

    /// What ends a stream that is complete, where the upstream's own end has not come.
    pub fn ending(self) -> &'static [u8] {
        match self {
            Surface::Chat | Surface::Completions => b"data: [DONE]\n\n",
            Surface::Responses | Surface::Embeddings | Surface::CountTokens => b"",
            Surface::Messages => b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        }
    }

    /// Whether the surface's official client takes this event for an error.
    pub fn is_error_event(self, event: &Event) -> bool {
        match self.dialect() {
            Dialect::Anthropic => anthropic::is_error_event(event),
            Dialect::Responses => responses::is_error_event(event),
            _ => openai::is_error_event(event),
        }
    }
}

/// An error to be written in a surface's shape.
#[derive(Clone, Debug)]
pub struct ErrorShape<'a> {
    pub status: u16,
    /// OpenAI's `type`, such as `invalid_request_error`. A surface with names of its own goes by the status.
    pub kind: &'a str,
    pub code: &'a str,
    pub message: &'a str,
    pub param: Option<&'a str>,
    /// Failed attempts, as a JSON list; none where there are none.
    pub attempts: Option<&'a Value>,
}

/// What is wrong with a request, as the surface's own vendor would say it. Never quotes a value of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub message: String,
    /// `messages[0].content`, or in the vendor's own way of pointing.
    pub param: Option<String>,
}

impl Dialect {
    /// The surface on which a server of this dialect has conversations. What has no surface of its own here counts as chat.
    pub fn conversing(self) -> Surface {
        match self {
            Dialect::Responses => Surface::Responses,
            Dialect::Anthropic => Surface::Messages,
            Dialect::OpenAi | Dialect::Gemini | Dialect::Bedrock | Dialect::Ollama => Surface::Chat,
        }
    }

    pub const ALL: [Dialect; 6] =
        [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini, Dialect::Bedrock, Dialect::Ollama];

    /// The name in the config and in `attempt.dialect`.
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Responses => "responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Bedrock => "bedrock",
            Dialect::Ollama => "ollama",
        }
    }

    /// How its streams are cut into events.
    pub fn framing(self) -> Framing {
        match self {
            Dialect::OpenAi | Dialect::Responses | Dialect::Anthropic | Dialect::Gemini => Framing::Sse,
            Dialect::Bedrock => Framing::Binary,
            Dialect::Ollama => Framing::Lines,
        }
    }

    /// What one event carries: the one place that knows what counts as payload (the rules: `docs/measurement.md`).
    pub fn read(self, surface: Surface, event: &Event) -> Frame<'_> {
        match self {
            _ if !surface.streams() => whole::read(event),
            Dialect::OpenAi => openai::read(event),
            Dialect::Responses => responses::read(event),
            Dialect::Anthropic => anthropic::read(event),
            Dialect::Gemini => gemini::read(event),
            Dialect::Bedrock => bedrock::read(event),
            Dialect::Ollama => ollama::read(event),
        }
    }

    /// The bytes of a stream that a server would have sent which answered as a whole. None if the body is no answer.
    pub fn events_of_whole(self, surface: Surface, body: &[u8]) -> Option<Bytes> {
        match self {
            _ if !surface.streams() => whole::event(body),
            Dialect::OpenAi => openai::events_of_whole(body),
            Dialect::Responses => responses::events_of_whole(body),
            Dialect::Anthropic => anthropic::events_of_whole(body),
            Dialect::Gemini => gemini::events_of_whole(body),
            Dialect::Bedrock => bedrock::events_of_whole(body),
            Dialect::Ollama => ollama::events_of_whole(body),
        }
    }

    /// The name of the dialect of a body that is of another than this one.
    pub fn of_another(self, body: &[u8]) -> Option<&'static str> {
        let body = std::str::from_utf8(body).ok()?;
        other_dialect::name(self, body.trim_start_matches('\u{feff}'))
    }

    /// Reads a stream for translation.
    pub fn reader(self) -> Box<dyn ReadPieces> {
        match self {
            Dialect::OpenAi => Box::new(openai::Reader::default()),
            Dialect::Responses => Box::new(responses::Reader::default()),
            Dialect::Anthropic => Box::new(anthropic::Reader::default()),
            Dialect::Gemini => Box::new(gemini::Reader::default()),
            Dialect::Bedrock => Box::new(bedrock::Reader::default()),
            Dialect::Ollama => Box::new(ollama::Reader::default()),
        }
    }

    /// Writes a conversation as a request. `model`, `stream` and `stream_options` are set later where the body has them. What
    /// cannot be said is told to `losses`; what the conversation itself had lost is not repeated.
    pub fn request(self, conversation: &Conversation, options: &Options, losses: &mut Losses) -> Value {
        match self {
            Dialect::OpenAi => openai::request(conversation, options, losses),
            Dialect::Responses => responses::request(conversation, options, losses),
            Dialect::Anthropic => anthropic::request(conversation, options, losses),
            Dialect::Gemini => gemini::request(conversation, options, losses),
            Dialect::Bedrock => bedrock::request(conversation, options, losses),
            Dialect::Ollama => ollama::request(conversation, options, losses),
        }
    }

    /// Whether a request is written alike for two models, so that one translation serves both. The model's name is set apart.
    pub fn writes_alike(self, one: &str, other: &str) -> bool {
        match self {
            _ if one == other => true,
            Dialect::Anthropic => anthropic::writes_alike(one, other),
            Dialect::Gemini => gemini::writes_alike(one, other),
            Dialect::Bedrock => bedrock::writes_alike(one, other),
            Dialect::OpenAi | Dialect::Responses | Dialect::Ollama => false,
        }
    }

    /// Whether its tools may take a text of any form and not only JSON.
    pub fn has_custom_tools(self, options: &Options) -> bool {
        match self {
            Dialect::Responses => true,
            // OpenAI itself; servers that speak its dialect know functions only.
            Dialect::OpenAi => options.max_completion_tokens,
            Dialect::Anthropic | Dialect::Gemini | Dialect::Bedrock | Dialect::Ollama => false,
        }
    }

    /// Where a request for a model goes, behind the base URL: with a slash in front; a query may follow.
    pub fn path(self, surface: Surface, model: &str) -> Cow<'static, str> {
        match (self, surface) {
            (Dialect::OpenAi, Surface::Completions) => "/completions".into(),
            (Dialect::OpenAi, Surface::Embeddings) => "/embeddings".into(),
            (Dialect::OpenAi, _) => "/chat/completions".into(),
            (Dialect::Responses, _) => "/responses".into(),
            (Dialect::Anthropic, Surface::CountTokens) => "/messages/count_tokens".into(),
            (Dialect::Anthropic, _) => "/messages".into(),
            (Dialect::Gemini, _) => gemini::path(model).into(),
            (Dialect::Bedrock, _) => bedrock::path(model).into(),
            (Dialect::Ollama, _) => "/api/chat".into(),
        }
    }
}
