//! The APIs that an app calls ([`Surface`]) and that a provider speaks ([`Dialect`]), and their constant properties.
//! Vocabulary: imports no dialect. Their functions are in `photofinish_dialects`.

use percent_encoding::percent_decode_str;

use crate::stream::framing::Framing;

/// An API that an app calls: one path of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Surface {
    Chat,
    Completions,
    Embeddings,
    Responses,
    Messages,
    CountTokens,
    /// Ollama's `/api/chat`.
    OllamaChat,
    /// Ollama's `/api/generate`.
    OllamaGenerate,
    /// Ollama's `/api/embed`.
    OllamaEmbed,
    /// Ollama's `/api/embeddings`, the predecessor of `/api/embed`.
    OllamaEmbeddings,
    /// Gemini's `generateContent` and `streamGenerateContent`.
    Gemini,
    /// Gemini's `countTokens`.
    GeminiCount,
    /// Gemini's `embedContent`.
    GeminiEmbed,
    /// Gemini's `batchEmbedContents`.
    GeminiEmbedBatch,
    /// OpenAI's calls that are not read.
    Passed(PassedCall),
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

    pub const ALL: [Surface; 23] = [
        Surface::Chat,
        Surface::Completions,
        Surface::Embeddings,
        Surface::Responses,
        Surface::Messages,
        Surface::CountTokens,
        Surface::OllamaChat,
        Surface::OllamaGenerate,
        Surface::OllamaEmbed,
        Surface::OllamaEmbeddings,
        Surface::Gemini,
        Surface::GeminiCount,
        Surface::GeminiEmbed,
        Surface::GeminiEmbedBatch,
        Surface::Passed(PassedCall::Transcription),
        Surface::Passed(PassedCall::Translation),
        Surface::Passed(PassedCall::Speech),
        Surface::Passed(PassedCall::Image),
        Surface::Passed(PassedCall::ImageEdit),
        Surface::Passed(PassedCall::Moderation),
        Surface::Passed(PassedCall::Rerank),
        Surface::Passed(PassedCall::Compaction),
        Surface::Passed(PassedCall::InputTokens),
    ];

    /// Its stored name, its path, and its dialect.
    #[inline]
    fn facts(self) -> (&'static str, &'static str, Dialect) {
        match self {
            Surface::Chat => ("chat", "/v1/chat/completions", Dialect::OpenAi),
            Surface::Completions => ("completions", "/v1/completions", Dialect::OpenAi),
            Surface::Embeddings => ("embeddings", "/v1/embeddings", Dialect::OpenAi),
            Surface::Responses => ("responses", "/v1/responses", Dialect::Responses),
            Surface::Messages => ("messages", "/v1/messages", Dialect::Anthropic),
            Surface::CountTokens => ("count_tokens", "/v1/messages/count_tokens", Dialect::Anthropic),
            Surface::OllamaChat => ("ollama_chat", "/api/chat", Dialect::Ollama),
            Surface::OllamaGenerate => ("ollama_generate", "/api/generate", Dialect::Ollama),
            Surface::OllamaEmbed => ("ollama_embed", "/api/embed", Dialect::Ollama),
            Surface::OllamaEmbeddings => ("ollama_embeddings", "/api/embeddings", Dialect::Ollama),
            Surface::Gemini => ("gemini", "/v1beta/models/{model}:generateContent", Dialect::Gemini),
            Surface::GeminiCount => ("gemini_count_tokens", "/v1beta/models/{model}:countTokens", Dialect::Gemini),
            Surface::GeminiEmbed => ("gemini_embed", "/v1beta/models/{model}:embedContent", Dialect::Gemini),
            Surface::GeminiEmbedBatch => {
                ("gemini_embed_batch", "/v1beta/models/{model}:batchEmbedContents", Dialect::Gemini)
            }
            Surface::Passed(
                call @ (PassedCall::Compaction | PassedCall::InputTokens | PassedCall::Background | PassedCall::Stored),
            ) => (call.as_str(), call.path(), Dialect::Responses),
            Surface::Passed(call) => (call.as_str(), call.path(), Dialect::OpenAi),
        }
    }

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

    /// Whether the path names the model, and whether the answer is streamed.
    pub fn is_in_path(self) -> bool {
        self.dialect() == Dialect::Gemini
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

    /// How its streams are cut into events.
    pub fn framing(self) -> Framing {
        match self {
            Dialect::OpenAi | Dialect::Responses | Dialect::Anthropic | Dialect::Gemini => Framing::Sse,
            Dialect::Bedrock => Framing::Binary,
            Dialect::Ollama => Framing::Lines,
        }
    }
}

// Calls that the gateway does not read: audio, images, moderations, compactions and rerankings. Requests and answers are passed
// through byte for byte, except for `model`. Vocabulary: imports no dialect. Not for their bodies: see
// `request::form` and `answer::whole`.

photofinish_base::named! {
    /// A call whose answer is raced as a whole, whatever its format, by its stored name.
    #[derive(Hash)]
    pub enum PassedCall {
        /// Audio to text. Its request is a multipart form.
        Transcription = "transcriptions",
        /// Audio to English text. Its request is a multipart form.
        Translation = "translations",
        /// Text to audio.
        Speech = "speech",
        /// Text to images.
        Image = "images",
        /// Images and text to images. Its request is a multipart form, or names files.
        ImageEdit = "image_edits",
        Moderation = "moderations",
        /// Documents in the order of how well they answer a question, as Cohere and Jina have it.
        Rerank = "rerank",
        /// A conversation of the Responses API to a short form of it.
        Compaction = "compactions",
        /// The tokens of a conversation of the Responses API.
        InputTokens = "input_tokens",
        /// A response that the upstream makes in the background, or a question for it.
        Background = "background",
        /// A question for something that an upstream of the Responses API stores.
        Stored = "stored",
    }
}

impl PassedCall {
    /// The path at which the gateway serves it.
    pub fn path(self) -> &'static str {
        match self {
            PassedCall::Transcription => "/v1/audio/transcriptions",
            PassedCall::Translation => "/v1/audio/translations",
            PassedCall::Speech => "/v1/audio/speech",
            PassedCall::Image => "/v1/images/generations",
            PassedCall::ImageEdit => "/v1/images/edits",
            PassedCall::Moderation => "/v1/moderations",
            PassedCall::Rerank => "/v1/rerank",
            PassedCall::Compaction => "/v1/responses/compact",
            PassedCall::InputTokens => "/v1/responses/input_tokens",
            PassedCall::Background => "/v1/responses",
            PassedCall::Stored => "/v1/responses/{id}",
        }
    }

    /// The path behind the base URL of an upstream.
    pub fn upstream_path(self) -> &'static str {
        self.path().trim_start_matches("/v1")
    }

    /// The member with the prompt of a JSON request.
    pub fn prompt(self) -> Option<&'static str> {
        match self {
            PassedCall::Transcription | PassedCall::Translation | PassedCall::Stored => None,
            PassedCall::Speech
            | PassedCall::Moderation
            | PassedCall::Compaction
            | PassedCall::InputTokens
            | PassedCall::Background => Some("input"),
            PassedCall::Image | PassedCall::ImageEdit => Some("prompt"),
            PassedCall::Rerank => Some("documents"),
        }
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
