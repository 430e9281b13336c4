//! The APIs that an app calls ([`Surface`]) and that a provider speaks ([`Dialect`]), and their constant properties.
//! Vocabulary: imports no dialect. Their functions are in `photofinish_dialects`.

use percent_encoding::percent_decode_str;

use crate::stream::framing::Framing;

/// Declares the surfaces, a line each: its stored name, the path at which the gateway serves it, and the dialect of its upstreams. A call that
/// is not read also has the member with the prompt of a JSON request, if there is one.
macro_rules! surfaces {
    (
        read { $($(#[doc = $about:literal])* $surface:ident = $name:literal, $path:literal, $dialect:ident;)+ }
        passed { $($(#[doc = $says:literal])* $call:ident = $call_name:literal, $call_path:literal, $call_dialect:ident $(, $prompt:literal)?;)+ }
        passed at paths of others { $($(#[doc = $means:literal])* $other:ident = $other_name:literal, $other_path:literal, $other_dialect:ident $(, $member:literal)?;)+ }
    ) => {
        /// An API that an app calls: one path of the gateway.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Surface {
            $($(#[doc = $about])* $surface,)+
            /// Calls that are not read.
            Passed(PassedCall),
        }

        photofinish_base::named! {
            /// A call that the gateway does not read, by its stored name. Requests and answers are passed through byte for byte, except for
            /// `model`; its answer is raced as a whole, whatever its format. Not for their bodies: see `request::form` and `answer::whole`.
            #[derive(Hash)]
            pub enum PassedCall { $($(#[doc = $says])* $call = $call_name,)+ $($(#[doc = $means])* $other = $other_name,)+ }
        }

        impl Surface {
            /// Each that has a path of its own.
            pub const ALL: [Surface; [$($path,)+ $($call_path),+].len()] =
                [$(Surface::$surface,)+ $(Surface::Passed(PassedCall::$call)),+];

            /// Its stored name, its path, and its dialect.
            #[inline]
            fn facts(self) -> (&'static str, &'static str, Dialect) {
                match self {
                    $(Surface::$surface => ($name, $path, Dialect::$dialect),)+
                    $(Surface::Passed(PassedCall::$call) => ($call_name, $call_path, Dialect::$call_dialect),)+
                    $(Surface::Passed(PassedCall::$other) => ($other_name, $other_path, Dialect::$other_dialect),)+
                }
            }
        }

        impl PassedCall {
            /// The member with the prompt of a JSON request.
            pub fn prompt(self) -> Option<&'static str> {
                match self {
                    $(PassedCall::$call => surfaces!(@prompt $($prompt)?),)+
                    $(PassedCall::$other => surfaces!(@prompt $($member)?),)+
                }
            }
        }
    };
    (@prompt) => { None };
    (@prompt $prompt:literal) => { Some($prompt) };
}

surfaces! {
    read {
        Chat = "chat", "/v1/chat/completions", OpenAi;
        Completions = "completions", "/v1/completions", OpenAi;
        Embeddings = "embeddings", "/v1/embeddings", OpenAi;
        Responses = "responses", "/v1/responses", Responses;
        Messages = "messages", "/v1/messages", Anthropic;
        CountTokens = "count_tokens", "/v1/messages/count_tokens", Anthropic;
        OllamaChat = "ollama_chat", "/api/chat", Ollama;
        OllamaGenerate = "ollama_generate", "/api/generate", Ollama;
        OllamaEmbed = "ollama_embed", "/api/embed", Ollama;
        /// The predecessor of `/api/embed`.
        OllamaEmbeddings = "ollama_embeddings", "/api/embeddings", Ollama;
        /// Also `streamGenerateContent`.
        Gemini = "gemini", "/v1beta/models/{model}:generateContent", Gemini;
        GeminiCount = "gemini_count_tokens", "/v1beta/models/{model}:countTokens", Gemini;
        GeminiEmbed = "gemini_embed", "/v1beta/models/{model}:embedContent", Gemini;
        GeminiEmbedBatch = "gemini_embed_batch", "/v1beta/models/{model}:batchEmbedContents", Gemini;
    }
    passed {
        /// Audio to text. Its request is a multipart form.
        Transcription = "transcriptions", "/v1/audio/transcriptions", OpenAi;
        /// Audio to English text. Its request is a multipart form.
        Translation = "translations", "/v1/audio/translations", OpenAi;
        /// Text to audio.
        Speech = "speech", "/v1/audio/speech", OpenAi, "input";
        /// Text to images.
        Image = "images", "/v1/images/generations", OpenAi, "prompt";
        /// Images and text to images. Its request is a multipart form, or names files.
        ImageEdit = "image_edits", "/v1/images/edits", OpenAi, "prompt";
        Moderation = "moderations", "/v1/moderations", OpenAi, "input";
        /// Documents in the order of how well they answer a question, as Cohere and Jina have it.
        Rerank = "rerank", "/v1/rerank", OpenAi, "documents";
        /// A conversation of the Responses API to a short form of it.
        Compaction = "compactions", "/v1/responses/compact", Responses, "input";
        /// The tokens of a conversation of the Responses API.
        InputTokens = "input_tokens", "/v1/responses/input_tokens", Responses, "input";
    }
    passed at paths of others {
        /// A response that the upstream makes in the background, or a question for it.
        Background = "background", "/v1/responses", Responses, "input";
        /// A question for something that an upstream of the Responses API stores.
        Stored = "stored", "/v1/responses/{id}", Responses;
    }
}

/// How an upstream is asked to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// In one piece.
    Plain,
    /// As a stream of events.
    Streamed,
    /// The same, and with its usage, which chat upstreams send only if asked.
    WithUsage,
}

photofinish_base::named! {
    /// An API that a provider speaks, by its name in the config and in `attempt.dialect`.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Dialect {
        /// OpenAI's chat completions, completions and embeddings.
        OpenAi = "openai",
        Responses = "responses",
        Anthropic = "anthropic",
        Gemini = "gemini",
        /// Bedrock's ConverseStream.
        Bedrock = "bedrock",
        /// Ollama's own API.
        Ollama = "ollama",
    }
}

impl Surface {
    /// Conversations, which upstreams of every dialect can serve.
    pub const TRANSLATED: [Surface; 6] = [
        Surface::Chat,
        Surface::Responses,
        Surface::Messages,
        Surface::Gemini,
        Surface::OllamaChat,
        Surface::OllamaGenerate,
    ];

    /// The stored name, in `race.api`.
    pub fn as_str(self) -> &'static str {
        self.facts().0
    }

    /// The path at which the gateway serves it.
    pub fn path(self) -> &'static str {
        self.facts().1
    }

    /// The dialect whose upstreams get requests of this surface unchanged.
    #[inline]
    pub fn dialect(self) -> Dialect {
        self.facts().2
    }

    /// See [`Dialect::has_model_in_path`].
    pub fn has_model_in_path(self) -> bool {
        self.dialect().has_model_in_path()
    }

    /// Whether the body names the model of the path again.
    pub fn repeats_model(self) -> bool {
        matches!(self, Surface::GeminiEmbed | Surface::GeminiEmbedBatch)
    }

    /// Whether the limits of the answer are members of an object in the request.
    pub fn has_nested_limits(self) -> bool {
        matches!(self.dialect(), Dialect::Ollama | Dialect::Gemini)
    }

    /// Whether it is translated for upstreams of another dialect.
    pub fn translates_to(self, dialect: Dialect) -> bool {
        let has_embeddings = matches!(dialect, Dialect::OpenAi | Dialect::Gemini | Dialect::Bedrock | Dialect::Ollama);
        self.is_translated() || (self.embeds() && has_embeddings)
    }

    /// Whether it is one of [`Surface::TRANSLATED`].
    pub fn is_translated(self) -> bool {
        Surface::TRANSLATED.contains(&self)
    }

    /// Whether the answer is a number of tokens.
    pub fn counts(self) -> bool {
        matches!(self, Surface::CountTokens | Surface::GeminiCount | Surface::Passed(PassedCall::InputTokens))
    }

    /// Whether comments may be put between the events of its streams. Google's clients read a comment as an event, and
    /// lines of JSON have none.
    pub fn has_comments(self) -> bool {
        !matches!(self.dialect(), Dialect::Gemini | Dialect::Ollama)
    }

    /// Whether a request without `stream` is streamed.
    pub fn streams_by_default(self) -> bool {
        matches!(self, Surface::OllamaChat | Surface::OllamaGenerate)
    }

    /// Whether the answer is vectors.
    pub fn embeds(self) -> bool {
        matches!(
            self,
            Surface::Embeddings
                | Surface::OllamaEmbed
                | Surface::OllamaEmbeddings
                | Surface::GeminiEmbed
                | Surface::GeminiEmbedBatch
        )
    }

    /// How its own answers are cut into events.
    pub fn framing(self) -> Framing {
        if self.streams() { self.dialect().framing() } else { Framing::Whole }
    }

    /// Whether its answers may be streamed.
    pub fn streams(self) -> bool {
        !self.embeds() && !self.counts() && !self.is_passed()
    }

    /// Whether its requests and answers are passed through unread.
    pub fn is_passed(self) -> bool {
        matches!(self, Surface::Passed(_))
    }

    /// The surface's name for reasoning of earlier turns.
    pub fn reasoning(self) -> &'static str {
        match self.dialect() {
            Dialect::Anthropic => "thinking",
            Dialect::Responses => "reasoning",
            Dialect::OpenAi | Dialect::Bedrock => "reasoning_details",
            Dialect::Ollama => "messages.thinking",
            Dialect::Gemini => "thoughts",
        }
    }

    /// Keeps a stream alive for the client and proxies before it. Clients ignore it.
    pub fn heartbeat(self) -> &'static [u8] {
        match self.dialect() {
            // The vendor's own event.
            Dialect::Anthropic => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
            Dialect::OpenAi | Dialect::Bedrock | Dialect::Responses => b": keep-alive\n\n",
            // Lines of JSON have no comments, so it is an answer without text.
            Dialect::Ollama if self == Surface::OllamaGenerate => {
                b"{\"model\":\"\",\"created_at\":\"1970-01-01T00:00:00Z\",\"response\":\"\",\"done\":false}\n"
            }
            Dialect::Ollama => {
                b"{\"model\":\"\",\"created_at\":\"1970-01-01T00:00:00Z\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n"
            }
            Dialect::Gemini => {
                b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},\"index\":0}]}\n\n"
            }
        }
    }

    /// Ends a complete stream whose upstream sent no end.
    pub fn ending(self) -> &'static [u8] {
        match self {
            Surface::Chat | Surface::Completions => b"data: [DONE]\n\n",
            Surface::Messages => b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            _ => b"",
        }
    }
}

impl Dialect {
    /// The surface of conversations with a server of this dialect. Dialects without a surface here count as chat.
    pub fn conversing(self) -> Surface {
        match self {
            Dialect::Responses => Surface::Responses,
            Dialect::Anthropic => Surface::Messages,
            Dialect::Ollama => Surface::OllamaChat,
            Dialect::Gemini => Surface::Gemini,
            Dialect::OpenAi | Dialect::Bedrock => Surface::Chat,
        }
    }

    /// Whether the path names the model, and whether the answer is streamed.
    pub fn has_model_in_path(self) -> bool {
        matches!(self, Dialect::Gemini | Dialect::Bedrock)
    }

    /// The header in which a key goes to its vendor. None: as a bearer token.
    pub fn key_header(self) -> Option<&'static str> {
        match self {
            Dialect::Anthropic => Some("x-api-key"),
            Dialect::Gemini => Some("x-goog-api-key"),
            Dialect::OpenAi | Dialect::Responses | Dialect::Bedrock | Dialect::Ollama => None,
        }
    }

    /// The path of the first page of a server's models. None: it has no list.
    pub fn model_list_path(self) -> Option<&'static str> {
        match self {
            Dialect::OpenAi | Dialect::Responses => Some("/models"),
            Dialect::Anthropic => Some("/models?limit=1000"),
            Dialect::Gemini => Some("/models?pageSize=1000"),
            Dialect::Ollama => Some("/api/tags"),
            Dialect::Bedrock => None,
        }
    }

    /// The longest name of a tool. None: there is no bound.
    pub fn tool_name_max(self) -> Option<usize> {
        match self {
            Dialect::OpenAi | Dialect::Gemini | Dialect::Bedrock => Some(64),
            Dialect::Anthropic | Dialect::Responses => Some(128),
            Dialect::Ollama => None,
        }
    }

    /// What each event has that begins a tool call.
    pub fn call_mark(self) -> &'static str {
        match self {
            Dialect::OpenAi | Dialect::Responses | Dialect::Ollama => "_call",
            Dialect::Anthropic => "tool_use",
            Dialect::Gemini => "functionCall",
            Dialect::Bedrock => "toolUse",
        }
    }

    /// Whether the arguments of a tool call are a text instead of an object.
    pub fn has_texts_as_arguments(self) -> bool {
        matches!(self, Dialect::OpenAi | Dialect::Responses)
    }

    /// The member, and its word, that only an answer that is not streamed has. None: the members of an event show it.
    pub fn whole_sign(self) -> Option<(&'static str, &'static str)> {
        match self {
            Dialect::Anthropic => Some(("type", "message")),
            Dialect::Responses => Some(("object", "response")),
            Dialect::OpenAi | Dialect::Gemini | Dialect::Bedrock | Dialect::Ollama => None,
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
}

impl PassedCall {
    /// The path at which the gateway serves it.
    pub fn path(self) -> &'static str {
        Surface::Passed(self).path()
    }

    /// The path behind the base URL of an upstream.
    pub fn upstream_path(self) -> &'static str {
        self.path().trim_start_matches("/v1")
    }
}

// What a request says in its URL instead of its body: the model and the call of Gemini's and Azure's clients, and Gemini's form
// of the answer and key.

/// A call that the path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCall {
    pub surface: Surface,
    pub model: String,
    /// Read where the body does not say it.
    pub stream: bool,
    /// The answer is a list of events. The gateway gives it one event, the whole answer.
    pub listed: bool,
}

impl PathCall {
    /// Reads `MODEL:CALL`, the path behind `/v1beta/models/`. None for an unknown call.
    pub fn of_gemini(path: &str, query: &str) -> Option<PathCall> {
        let (model, call) = path.rsplit_once(':')?;
        let events = query.split('&').any(|pair| pair == "alt=sse");
        let (surface, stream, listed) = match call {
            "generateContent" => (Surface::Gemini, false, false),
            "streamGenerateContent" => (Surface::Gemini, events, !events),
            "countTokens" => (Surface::GeminiCount, false, false),
            "embedContent" => (Surface::GeminiEmbed, false, false),
            "batchEmbedContents" => (Surface::GeminiEmbedBatch, false, false),
            _ => return None,
        };
        Some(PathCall { surface, model: model.to_owned(), stream, listed })
    }

    /// Reads `DEPLOYMENT/CALL`, the path behind `/openai/deployments/`. A deployment is a model. None for an unknown call.
    pub fn of_azure(path: &str) -> Option<PathCall> {
        let of_openai = Surface::ALL.into_iter().filter(|surface| surface.dialect() == Dialect::OpenAi);
        let called =
            of_openai.filter_map(|surface| Some((surface, path.strip_suffix(surface.path().strip_prefix("/v1")?)?)));
        // `chat/completions` ends with another call.
        let (surface, model) = called.min_by_key(|(_, model)| model.len())?;
        let is_name = !model.is_empty() && !model.contains(char::is_control);
        is_name.then(|| PathCall { surface, model: model.to_owned(), stream: false, listed: false })
    }
}

/// A path of OpenAI's without what its base URL ends in: `/v1`, also behind Azure's `/openai`, or nothing.
pub fn behind_version(path: &str) -> &str {
    let path = path.strip_prefix("/openai").unwrap_or(path);
    path.strip_prefix("/v1").unwrap_or(path)
}

/// The key in a query (`?key=…`).
pub fn key_in(query: &str) -> Option<String> {
    let key = query.split('&').find_map(|pair| pair.strip_prefix("key="))?;
    let key = percent_decode_str(key).decode_utf8().ok()?;
    (!key.is_empty()).then(|| key.into_owned())
}

#[cfg(test)]
mod path_call_tests {
    use super::*;

    #[test]
    fn a_path_names_model_and_call() {
        let of = |path: &str, query: &str| {
            PathCall::of_gemini(path, query).map(|call| (call.surface, call.model, call.stream, call.listed))
        };
        let call = |surface, model: &str, stream, listed| Some((surface, model.to_owned(), stream, listed));
        assert_eq!(of("m:generateContent", "alt=sse"), call(Surface::Gemini, "m", false, false));
        assert_eq!(of("a/m:x:streamGenerateContent", "key=k&alt=sse"), call(Surface::Gemini, "a/m:x", true, false));
        assert_eq!(of("m:streamGenerateContent", ""), call(Surface::Gemini, "m", false, true));
        assert_eq!(of("m:countTokens", ""), call(Surface::GeminiCount, "m", false, false));
        assert_eq!(of("m:embedContent", ""), call(Surface::GeminiEmbed, "m", false, false));
        assert_eq!(of("m:batchEmbedContents", "alt=sse"), call(Surface::GeminiEmbedBatch, "m", false, false));
        for unknown in ["m", "m:", "m:predict", "m:GenerateContent", ":", ""] {
            assert_eq!(of(unknown, ""), None, "{unknown}");
        }
        assert_eq!(key_in("alt=sse&key=a%2Fb").as_deref(), Some("a/b"));
        assert_eq!((key_in("key="), key_in("keys=x"), key_in("")), (None, None, None));
    }

    #[test]
    fn a_deployment_is_a_model() {
        let of = |path: &str| PathCall::of_azure(path).map(|call| (call.surface, call.model));
        for (path, surface, model) in [
            ("m/chat/completions", Surface::Chat, "m"),
            ("m/completions", Surface::Completions, "m"),
            ("groq/a/b/embeddings", Surface::Embeddings, "groq/a/b"),
            ("chat/completions", Surface::Completions, "chat"),
            ("m/images/edits", Surface::Passed(PassedCall::ImageEdit), "m"),
            ("m/audio/translations", Surface::Passed(PassedCall::Translation), "m"),
        ] {
            assert_eq!(of(path), Some((surface, model.to_owned())), "{path}");
        }
        for unknown in [
            "m",
            "/completions",
            "m/messages",
            "m/responses",
            "m/chat/completions/",
            "mcompletions",
            "",
            "m\r\n/embeddings",
        ] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}
