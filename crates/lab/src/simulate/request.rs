//! The parts of a request that the simulation uses: chat, legacy completions, embeddings, and the calls that the
//! gateway passes through. Unknown members are ignored, as most providers do. Not for the answer: see `answer`.

use bytes::Bytes;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use photofinish_translation::ApiRequest;
use photofinish_wire::{PassedCall, Surface};

/// Maximum choices of one answer.
const CHOICES_MAX: u32 = 8;
/// Maximum inputs of one embeddings request; the same as OpenAI's.
const INPUTS_MAX: usize = 2_048;
/// Maximum numbers of one embedding.
const DIMENSIONS_MAX: u32 = 4_096;
/// Characters of `user` that are kept.
const USER_MAX: usize = 64;
/// How a marker in a prompt begins.
const MARKER: &str = "bench-";
/// Bytes of a marker that are kept.
const MARKER_MAX: usize = 64;

/// The tokens of a prompt whose JSON has this many bytes.
pub(super) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Chat,
    Completion,
    Embedding,
    Passed(PassedCall),
}

impl RequestKind {
    /// The kind that is served at this path.
    pub(super) fn at(path: &str) -> Option<RequestKind> {
        match path {
            "/v1/chat/completions" => Some(RequestKind::Chat),
            "/v1/completions" => Some(RequestKind::Completion),
            "/v1/embeddings" => Some(RequestKind::Embedding),
            _ => PassedCall::ALL.into_iter().find(|call| call.path() == path).map(RequestKind::Passed),
        }
    }

    /// The member that holds the prompt.
    fn prompt(self) -> &'static str {
        match self {
            RequestKind::Chat => "messages",
            RequestKind::Completion => "prompt",
            RequestKind::Embedding => "input",
            RequestKind::Passed(call) => call.prompt().unwrap_or_default(),
        }
    }

    /// Whether the answer comes at once, after the time to first token.
    pub(super) fn is_instant(self) -> bool {
        matches!(self, RequestKind::Embedding | RequestKind::Passed(_))
    }

    fn as_str(self) -> &'static str {
        match self {
            RequestKind::Chat => "chat",
            RequestKind::Completion => "completion",
            RequestKind::Embedding => "embeddings",
            RequestKind::Passed(call) => call.as_str(),
        }
    }
}

/// A valid request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ValidRequest {
    pub(super) kind: RequestKind,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// 1 to 8; each of several prompts has its own.
    pub(super) choices: u32,
    /// The smaller of `max_tokens` and `max_completion_tokens`; at least 1.
    pub(super) tokens_max: Option<u32>,
    /// The JSON of `messages`, `prompt` or `input`.
    pub(super) prompt: Bytes,
    /// Bytes of the prompt / 4, rounded up.
    pub(super) prompt_tokens: u64,
    pub(super) seed: Option<i64>,
    /// At most 64 characters.
    pub(super) user: Option<String>,
    /// The inputs of an embeddings or moderation request, as JSON texts.
    pub(super) inputs: Vec<String>,
    pub(super) dimensions: Option<u32>,
    /// The client wants vectors in base64, as OpenAI's own client does.
    pub(super) base64: bool,
    /// The JSON of `tools`; empty if there are none, or none may be called.
    pub(super) tools: String,
}

impl ValidRequest {
    /// Reads a request of a call that is passed through: a JSON object or a form.
    ///
    /// # Errors
    /// The problem, for the client, without quoting the request.
    pub(super) fn parse_passed(
        call: PassedCall,
        body: Bytes,
        content_type: Option<&HeaderValue>,
    ) -> Result<ValidRequest, String> {
        let request = ApiRequest::parse_passed(Surface::Passed(call), body, content_type, None, false);
        let request = request.map_err(|invalid| invalid.to_string())?;
        let [.., prompt] = request.prompt();
        let several: Vec<&RawValue> = serde_json::from_slice(prompt).unwrap_or_default();
        let most = serde_json::from_slice::<RawTop>(request.body()).ok().and_then(|raw| raw.top_n);
        Ok(ValidRequest {
            kind: RequestKind::Passed(call),
            prompt: Bytes::new(),
            prompt_tokens: tokens_of(prompt.len()),
            inputs: several
                .iter()
                .take(most.unwrap_or(INPUTS_MAX).min(INPUTS_MAX))
                .map(|input| input.get().to_owned())
                .collect(),
            model: request.model,
            stream: false,
            include_usage: false,
            choices: 1,
            tokens_max: None,
            seed: None,
            user: None,
            dimensions: None,
            base64: false,
            tools: String::new(),
        })
    }

    /// # Errors
    /// The problem, for the client, without quoting the request.
    pub(super) fn parse(kind: RequestKind, body: &Bytes) -> Result<ValidRequest, String> {
        let raw: RawChatRequest<'_> = serde_json::from_slice(body).map_err(|error| {
            format!("not a {} request (line {}, column {})", kind.as_str(), error.line(), error.column())
        })?;
        let prompt = match kind {
            RequestKind::Chat => raw.messages,
            RequestKind::Completion => raw.prompt,
            RequestKind::Embedding | RequestKind::Passed(_) => raw.input,
        };
        let prompt = prompt.ok_or_else(|| format!("`{}` is missing", kind.prompt()))?.get();
        let inputs = inputs(kind, prompt)?;
        let prompts = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
        let n = raw.n.unwrap_or(1);
        let choices = if kind == RequestKind::Completion { n.saturating_mul(prompts) } else { n };
        if !(1..=CHOICES_MAX).contains(&choices) {
            return Err(format!("`n` must be 1 to {CHOICES_MAX}"));
        }
        let tokens_max = raw.max_tokens.into_iter().chain(raw.max_completion_tokens).min();
        if tokens_max == Some(0) {
            return Err("`max_tokens` must be at least 1".into());
        }
        if raw.dimensions.is_some_and(|dimensions| !(1..=DIMENSIONS_MAX).contains(&dimensions)) {
            return Err(format!("`dimensions` must be 1 to {DIMENSIONS_MAX}"));
        }
        Ok(ValidRequest {
            kind,
            model: raw.model.ok_or("`model` is missing")?,
            stream: raw.stream.unwrap_or(false) && kind != RequestKind::Embedding,
            include_usage: raw.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            choices,
            tokens_max,
            prompt: body.slice_ref(prompt.as_bytes()),
            prompt_tokens: tokens_of(prompt.len()),
            seed: raw.seed,
            user: raw.user.map(|user| user.chars().take(USER_MAX).collect()),
            inputs,
            dimensions: raw.dimensions,
            base64: raw.encoding_format.as_deref() == Some("base64"),
            tools: raw
                .tools
                .filter(|_| {
                    kind == RequestKind::Chat && raw.tool_choice.is_none_or(|choice| choice.get() != "\"none\"")
                })
                .map_or(String::new(), |tools| tools.get().to_owned()),
        })
    }
}

impl ValidRequest {
    /// The last `bench-…` in the prompt, of letters, digits and hyphens.
    pub(super) fn marker(&self) -> Option<String> {
        let prompt = str::from_utf8(&self.prompt).ok()?;
        let marker = &prompt[prompt.rfind(MARKER)?..];
        let end = marker.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(marker.len());
        Some(marker[..end.min(MARKER_MAX)].to_owned())
    }
}

/// The prompts as JSON texts: a string or a list of tokens is one prompt, a list of either is several. Chat has none.
fn inputs(kind: RequestKind, prompt: &str) -> Result<Vec<String>, String> {
    let name = kind.prompt();
    if kind == RequestKind::Chat {
        return if prompt.starts_with('[') { Ok(Vec::new()) } else { Err(format!("`{name}` must be an array")) };
    }
    let is_number = |item: &&RawValue| item.get().starts_with(|c: char| c.is_ascii_digit());
    let items: Vec<&RawValue> = match prompt.as_bytes().first() {
        Some(b'"') => return Ok(vec![prompt.to_owned()]),
        Some(b'[') => serde_json::from_str(prompt).unwrap_or_default(),
        _ => Vec::new(),
    };
    match items.first() {
        Some(item) if is_number(item) => Ok(vec![prompt.to_owned()]),
        Some(_) if items.len() <= INPUTS_MAX => Ok(items.iter().map(|item| item.get().to_owned()).collect()),
        Some(_) => Err(format!("`{name}` must have at most {INPUTS_MAX} items")),
        None => Err(format!("`{name}` must be a string or an array that is not empty")),
    }
}

#[derive(Deserialize)]
struct RawChatRequest<'a> {
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    stream: Option<bool>,
    stream_options: Option<RawStreamOptions>,
    n: Option<u32>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    seed: Option<i64>,
    user: Option<String>,
    dimensions: Option<u32>,
    encoding_format: Option<String>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
}

/// How many documents of a reranking are answered.
#[derive(Deserialize)]
struct RawTop {
    top_n: Option<usize>,
}

#[derive(Deserialize)]
struct RawStreamOptions {
    include_usage: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let body = Bytes::from_static(br#"{"model":"m","messages":[{}]}"#);
        let request = ValidRequest::parse(RequestKind::Chat, &body).unwrap();
        let expected = ValidRequest {
            kind: RequestKind::Chat,
            model: "m".into(),
            stream: false,
            include_usage: false,
            choices: 1,
            tokens_max: None,
            prompt: Bytes::from_static(b"[{}]"),
            prompt_tokens: 1,
            seed: None,
            user: None,
            inputs: Vec::new(),
            dimensions: None,
            base64: false,
            tools: String::new(),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn what_is_said_counts() {
        let body = br#"{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true,"x":1},
            "n":2,"max_tokens":9,"max_completion_tokens":5,"seed":-3,"user":"u","temperature":null}"#;
        let request = ValidRequest::parse(RequestKind::Chat, &Bytes::from_static(body)).unwrap();
        assert!(request.stream && request.include_usage);
        assert_eq!(request.seed, Some(-3));
        assert_eq!((request.choices, request.tokens_max, request.user), (2, Some(5), Some("u".into())));
    }

    #[test]
    fn what_is_wrong_is_said_without_quoting() {
        let cases = [
            ("{", "not a chat request"),
            (r#"{"model":"m","messages":[],"stream":"sk-secret"}"#, "not a chat request"),
            (r#"{"model":"m"}"#, "`messages` is missing"),
            (r#"{"model":"m","messages":null}"#, "`messages` is missing"),
            (r#"{"model":"m","messages":"hi"}"#, "`messages` must be an array"),
            (r#"{"messages":[]}"#, "`model` is missing"),
            (r#"{"model":"m","messages":[],"n":0}"#, "`n` must be"),
            (r#"{"model":"m","messages":[],"n":9}"#, "`n` must be"),
            (r#"{"model":"m","messages":[],"max_tokens":0}"#, "`max_tokens` must be"),
        ];
        for (body, expected) in cases {
            let error = ValidRequest::parse(RequestKind::Chat, &Bytes::from(body)).unwrap_err();
            assert!(error.contains(expected) && !error.contains("sk-secret"), "{body}: {error}");
        }
    }

    #[test]
    fn the_last_marker_of_a_prompt_is_found() {
        let marker = |prompt: &str| {
            let body = format!(r#"{{"model":"m","messages":["{prompt}"]}}"#);
            ValidRequest::parse(RequestKind::Chat, &body.into()).unwrap().marker()
        };
        assert_eq!(marker("bench-7f-1 tell, bench-7f-2. ok").as_deref(), Some("bench-7f-2"));
        assert_eq!(marker("a bench"), None);
        assert_eq!(marker(&format!("bench-{}", "x".repeat(100))).map(|marker| marker.len()), Some(64));
    }

    #[test]
    fn prompts_are_counted() {
        let wanted = |kind, json: &str| ValidRequest::parse(kind, &format!(r#"{{"model":"m",{json}}}"#).into());
        let completion =
            |json| wanted(RequestKind::Completion, json).map(|wanted| (wanted.inputs.len(), wanted.choices));
        assert_eq!(completion(r#""prompt":"hi","n":2"#), Ok((1, 2)));
        assert_eq!(completion(r#""prompt":["a","b"],"n":2"#), Ok((2, 4)));
        assert_eq!(completion(r#""prompt":[1,2,3]"#), Ok((1, 1)));
        let embedding =
            wanted(RequestKind::Embedding, r#""input":[[1],[2,3]],"encoding_format":"base64","dimensions":3"#);
        let embedding = embedding.unwrap();
        assert_eq!(
            (embedding.inputs, embedding.dimensions, embedding.base64),
            (vec!["[1]".into(), "[2,3]".into()], Some(3), true)
        );
        for (kind, json, expected) in [
            (RequestKind::Completion, r#""messages":[]"#, "`prompt` is missing"),
            (RequestKind::Completion, r#""prompt":["a","b","c"],"n":3"#, "`n` must be"),
            (RequestKind::Embedding, r#""input":[]"#, "`input` must be a string"),
            (RequestKind::Embedding, r#""input":7"#, "`input` must be a string"),
            (RequestKind::Embedding, r#""input":"a","dimensions":0"#, "`dimensions` must be"),
        ] {
            let error = wanted(kind, json).unwrap_err();
            assert!(error.contains(expected), "{json}: {error}");
        }
    }
}
