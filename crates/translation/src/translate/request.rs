//! A request for one kind of upstream: passed through, with model and options set, if the upstream speaks the caller's
//! dialect; else translated. Also as its upstream demands it, with the operator's changes, or without a member that the upstream
//! refused; what is demanded: see [`photofinish_wire::quirks`].

use crate::adapt;
use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use serde_json::{Map, Value};

use crate::adapt::{Lesson, RefusedRequest};
use crate::request::ApiRequest;
use crate::request::asked::AskedAnswer;
use photofinish_base::memory::Lease;
use photofinish_base::parts::BodyParts;
use photofinish_dialects::embeddings::{self, EmbeddingForm, EmbeddingRequest};
use photofinish_dialects::responses;
use photofinish_wire::client_error::Invalid;
use photofinish_wire::conversation::losses::{IN_WORDS, name_of};
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::conversation::{Conversation, Format, Losses, MessagePart, ToolNames, as_functions};
use photofinish_wire::dialect::{AnswerForm, Dialect, Surface};
use photofinish_wire::quirks::prefix::Prefix;
use photofinish_wire::quirks::{self, Quirks, RequestChanges, TranslationOptions};
use photofinish_wire::stream::framing::Framing;

/// The request for all upstreams of one dialect with equal [`TranslationOptions`].
pub struct RequestTranslation {
    /// The surface that the caller called.
    surface: Surface,
    dialect: Dialect,
    /// Members are set in it for each upstream.
    request: Arc<ApiRequest>,
    losses: Losses,
    /// Free-form tools that were translated to functions, and whose calls are translated back.
    pub(super) customs: HashSet<String>,
    /// Tools whose names the upstream does not take.
    pub(super) names: Arc<ToolNames>,
    /// The caller lists `functions` instead of tools, so that an answer has a `function_call`.
    pub(super) legacy_functions: bool,
    /// The answer is the short form of its conversation.
    pub(super) compacts: bool,
    /// Members of the request that a translated answer repeats.
    pub(super) echo: Arc<Map<String, Value>>,
    /// How an answer with embeddings is translated back.
    pub(super) embedding: Option<EmbeddingForm>,
    /// Accounts for the memory of a translation.
    _lease: Option<Lease>,
}

impl fmt::Debug for RequestTranslation {
    /// Without the body: it is the prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestTranslation")
            .field("dialect", &self.dialect)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

impl RequestTranslation {
    /// For upstreams of the caller's dialect: passed through, without reasoning that another vendor made.
    pub fn untouched(request: Arc<ApiRequest>) -> RequestTranslation {
        RequestTranslation::cleaned(&request, RemovedReasoning::Foreign)
            .unwrap_or_else(|| RequestTranslation::passed(request, Losses::default()))
    }

    /// For an upstream that refused the reasoning: without any. None: it contained none.
    pub fn without_reasoning(
        request: &ApiRequest,
        dialect: Dialect,
        options: &TranslationOptions,
    ) -> Option<RequestTranslation> {
        let surface = request.surface;
        if dialect == surface.dialect() {
            return RequestTranslation::cleaned(request, RemovedReasoning::All);
        }
        let mut conversation = request.conversation().ok()?;
        if !conversation.forget_reasoning() {
            return None;
        }
        let mut translation = RequestTranslation::translated(surface, &conversation, dialect, options).ok()?;
        translation.losses.lose(surface.reasoning());
        Some(translation)
    }

    fn cleaned(request: &ApiRequest, taken: RemovedReasoning) -> Option<RequestTranslation> {
        let surface = request.surface;
        let request = request.with_body(surface.without_reasoning(request.body(), taken)?)?;
        let mut losses = Losses::default();
        losses.lose(surface.reasoning());
        Some(RequestTranslation::passed(Arc::new(request), losses))
    }

    fn passed(request: Arc<ApiRequest>, mut losses: Losses) -> RequestTranslation {
        losses.extend(&request.losses);
        RequestTranslation {
            surface: request.surface,
            dialect: request.surface.dialect(),
            legacy_functions: request.legacy_functions,
            compacts: false,
            request,
            losses,
            customs: HashSet::new(),
            names: Arc::default(),
            echo: Arc::default(),
            embedding: None,
            _lease: None,
        }
    }

    /// For upstreams of another dialect.
    ///
    /// # Errors
    /// If the translation is not an object, which no dialect writes.
    pub fn translated(
        surface: Surface,
        conversation: &Conversation,
        dialect: Dialect,
        options: &TranslationOptions,
    ) -> Result<RequestTranslation, Invalid> {
        let mut lost = Losses::default();
        let functions = if dialect.has_custom_tools(options) { None } else { as_functions(conversation, &mut lost) };
        let (plain, customs) = functions.map_or((None, HashSet::new()), |(plain, customs)| (Some(plain), customs));
        let written = plain.as_ref().unwrap_or(conversation);
        let most = options.quirks.tool_name_max_in(dialect);
        let fitted = most.and_then(|most| ToolNames::fit(written, most));
        let (fitted, mut names) = fitted.map_or((None, ToolNames::default()), |(fitted, names)| (Some(fitted), names));
        let written = fitted.as_ref().unwrap_or(written);
        if surface == Surface::Responses {
            names.also(responses::own_names(conversation));
        }
        let mut body = written_for(dialect, written, options, &mut lost);
        if let (Dialect::Anthropic | Dialect::Bedrock, Some(mut most)) = (dialect, options.quirks.cache_marks) {
            for place in ["/messages", "/system", "/tools", "/toolConfig/tools"] {
                if let Some(value) = body.pointer_mut(place) {
                    quirks::limit_marks(value, &mut most);
                }
            }
        }
        let body = Bytes::from(body.to_string());
        let max_tokens = conversation.sampling.max_tokens.and_then(|tokens| i64::try_from(tokens).ok());
        let mut losses = conversation.losses.clone();
        losses.extend(&lost.renamed(|name| name_of(surface, name)));
        Ok(RequestTranslation {
            surface,
            dialect,
            request: Arc::new(request_of(dialect, dialect.conversing(), body, max_tokens)?),
            losses,
            customs,
            names: Arc::new(names),
            legacy_functions: conversation.legacy_functions,
            compacts: conversation.compacts,
            echo: conversation.echo.clone(),
            embedding: None,
            _lease: None,
        })
    }

    /// A request for embeddings, for upstreams of another dialect.
    ///
    /// # Errors
    /// The request is invalid, or the model does not take its input.
    pub fn embedding(
        surface: Surface,
        body: &[u8],
        dialect: Dialect,
        options: &TranslationOptions,
    ) -> Result<RequestTranslation, Invalid> {
        let asked = EmbeddingRequest::read(surface, body)?;
        let mut losses = Losses::default();
        let body = Bytes::from(asked.write(dialect, &options.model, &mut losses)?.to_string());
        let own = |surface: &Surface| surface.embeds() && surface.dialect() == dialect;
        let of_dialect = Surface::ALL.into_iter().find(own).unwrap_or(Surface::Embeddings);
        let request = Arc::new(request_of(dialect, of_dialect, body, None)?);
        let embedding = Some(asked.form(surface, dialect, &losses));
        Ok(RequestTranslation { surface, dialect, embedding, ..RequestTranslation::passed(request, losses) })
    }

    /// The request to continue the text `said` of its answer, on which `spent` tokens went, and how many bytes of it
    /// are included. None if the dialect or the model does not support that.
    pub fn continued(
        &self,
        said: &str,
        spent: i64,
        prefix: Prefix,
        quirks: &Quirks,
    ) -> Option<(RequestTranslation, usize)> {
        let prefix = match (self.request.surface, prefix) {
            // A completion can always be continued with a longer prompt.
            (Surface::Completions, Prefix::Auto) => Prefix::Plain,
            _ => prefix.of(self.dialect, quirks),
        };
        let said = match self.dialect {
            _ if prefix == Prefix::Off => return None,
            Dialect::OpenAi => said,
            // Anthropic refuses a prefix that ends in white space.
            Dialect::Anthropic => said.trim_end(),
            _ => return None,
        };
        if said.is_empty() {
            return None;
        }
        let request = self.request.continued(said, spent, prefix)?;
        Some((RequestTranslation { embedding: None, ..self.with(request, &Losses::default()) }, said.len()))
    }

    /// The same with another request, and with these losses too.
    fn with(&self, request: ApiRequest, lost: &Losses) -> RequestTranslation {
        let mut losses = self.losses.clone();
        losses.extend(lost);
        RequestTranslation {
            request: Arc::new(request),
            losses,
            customs: self.customs.clone(),
            names: self.names.clone(),
            echo: self.echo.clone(),
            embedding: self.embedding.clone(),
            _lease: None,
            ..*self
        }
    }

    /// For an upstream of the caller's dialect that demands something: see [`photofinish_wire::quirks`]. None: it gets the request as it
    /// is.
    pub fn own_dialect(&self, options: &TranslationOptions, changes: &RequestChanges) -> Option<RequestTranslation> {
        if self.request.is_form() {
            return None;
        }
        let rewritten = adapt::rewritten(self.surface, self.request.body(), &options.quirks, changes);
        if self.surface.repeats_model() {
            let as_it_is = || (self.request.body().clone(), Losses::default());
            let (body, lost) = rewritten.map_or_else(as_it_is, |made| (made.text.into(), made.losses));
            return Some(self.with(self.request.with_body(embeddings::renamed(&body, &options.model))?, &lost));
        }
        let made = rewritten?;
        let request = self.with(self.request.with_body(made.text)?, &made.losses);
        Some(RequestTranslation { names: Arc::new(made.names), ..request })
    }

    /// A translation with the changes that the operator makes in requests to a provider.
    pub fn changed(mut self, changes: &RequestChanges) -> RequestTranslation {
        // Nothing but the operator's changes: the writer knew the quirks. A Claude demands the least.
        let quirks = Quirks { claude: true, ..Quirks::default() };
        let rewritten = adapt::rewritten(self.asked(), self.request.body(), &quirks, changes);
        if let Some(made) = rewritten
            && let Some(request) = self.request.with_body(made.text)
        {
            self.request = Arc::new(request);
            self.losses.extend(&made.losses);
        }
        self
    }

    /// Without what these refusals were about. None: it has nothing of it.
    pub fn without(&self, lessons: &[Lesson]) -> Option<RequestTranslation> {
        if lessons.is_empty() || self.request.is_form() || self.embedding.is_some() {
            return None;
        }
        let (body, lost) = adapt::without(self.request.body(), lessons)?;
        Some(self.with(self.request.with_body(body)?, &lost))
    }

    /// What a refusal of it teaches, by its status and body. None: nothing that could be done. `betas`: the header that went with it.
    pub fn lesson(
        &self,
        (status, refusal): (u16, &[u8]),
        betas: &str,
        has_other_path: bool,
        conversation: u64,
    ) -> Option<Lesson> {
        let betas = betas.split(',').map(str::trim).filter(|beta| !beta.is_empty()).collect();
        let body = Some(self.request.body()).filter(|_| !self.request.is_form() && self.embedding.is_none())?;
        let surface = self.asked();
        adapt::lesson(&RefusedRequest { surface, body, status, betas, has_other_path, conversation }, refusal)
    }

    /// See [`ApiRequest::call`].
    pub fn call(&self) -> Option<&(Method, String)> {
        self.request.call()
    }

    /// Bytes of the body, without members that are set for each upstream.
    pub fn len(&self) -> usize {
        self.request.len()
    }

    /// Never true: it is an object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest answer that it asks for.
    pub fn max_tokens(&self) -> Option<i64> {
        self.request.max_tokens
    }

    /// Bytes of a prompt that its answer repeats.
    pub fn echoed(&self) -> usize {
        if self.request.echoes { self.request.len() } else { 0 }
    }

    /// Holds `lease` for the memory of its body until it is dropped.
    pub fn leased(self, lease: Lease) -> RequestTranslation {
        RequestTranslation { _lease: Some(lease), ..self }
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// The surface of the upstream, whatever the caller's is.
    pub fn asked(&self) -> Surface {
        if self.is_translated() && self.surface.is_translated() { self.dialect.conversing() } else { self.surface }
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// What an answer that comes whole has to be.
    pub(super) fn asked_answer(&self) -> AskedAnswer {
        self.request.asked
    }

    /// Whether answers must be translated back: from another dialect, or from a summary to a short form.
    pub fn is_translated(&self) -> bool {
        self.compacts || self.dialect != self.surface.dialect()
    }

    /// The losses of the translation.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// How the upstream's answer is cut into events.
    pub fn framing(&self) -> Framing {
        if self.surface.streams() { self.dialect.framing() } else { Framing::Whole }
    }

    /// The content type of the body.
    pub fn content_type(&self) -> HeaderValue {
        self.request.content_type()
    }

    /// The body for an upstream's model.
    pub fn body_for(&self, model: &str, form: AnswerForm) -> BodyParts {
        self.request.body_for(model, form)
    }
}

/// The request in a dialect. A form of the answer that the dialect, or the model, has no member for is asked for in words.
fn written_for(dialect: Dialect, asked: &Conversation, options: &TranslationOptions, lost: &mut Losses) -> Value {
    let mut of_dialect = Losses::default();
    let mut body = dialect.request(asked, options, &mut of_dialect);
    if asked.format == Some(Format::Json) && of_dialect.deciding().any(|name| name == Format::Json.member()) {
        let mut worded = Conversation { format: None, ..asked.clone() };
        worded.system.push(MessagePart::Text { text: JSON_IN_WORDS.to_owned(), cache: None });
        of_dialect = Losses::default();
        body = dialect.request(&worded, options, &mut of_dialect);
        of_dialect.lose(IN_WORDS);
    }
    lost.extend(&of_dialect);
    body
}

/// Asks for what `json_object` asks for.
const JSON_IN_WORDS: &str =
    "Answer with one JSON object and nothing else: no text before or after it, and no code fence.";

/// A request that was just written; its surface decides which members are set. In some dialects the model is in the path.
fn request_of(dialect: Dialect, surface: Surface, body: Bytes, max_tokens: Option<i64>) -> Result<ApiRequest, Invalid> {
    if dialect.has_model_in_path() {
        return Ok(ApiRequest::fixed(body, max_tokens));
    }
    ApiRequest::written(surface, body).map_err(|invalid| Invalid { message: invalid.to_string(), param: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use photofinish_wire::dialect::PathCall;

    #[test]
    fn an_embedding_under_another_name_is_written_once() {
        let body = r#"{"model":"models/x","content":{"parts":[{"text":"a"}]}}"#;
        let call = PathCall::of_gemini("m:embedContent", "");
        let request = ApiRequest::parse_call(Surface::GeminiEmbed, body.into(), call.as_ref(), false);
        let options = TranslationOptions { model: "g".to_owned(), quirks: Quirks::default() };
        let untouched = RequestTranslation::untouched(Arc::new(request.unwrap()));
        let made = untouched.own_dialect(&options, &RequestChanges::default()).unwrap();
        let (one, two) =
            (made.body_for("g", AnswerForm::Plain).joined(), made.body_for("g", AnswerForm::Plain).joined());
        assert!(one.starts_with(b"{") && one.windows(8).any(|part| part == b"models/g"));
        assert_eq!(one.as_ptr(), two.as_ptr(), "no attempt writes it again");
    }

    fn lost(surface: Surface, body: &Value, dialect: Dialect, own: bool) -> Vec<String> {
        let conversation = surface.conversation(body.to_string().as_bytes()).unwrap();
        let options = TranslationOptions {
            model: "m".to_owned(),
            quirks: Quirks { max_completion_tokens: own, ..Quirks::default() },
        };
        let request_translation = RequestTranslation::translated(surface, &conversation, dialect, &options).unwrap();
        request_translation.losses().names().map(str::to_owned).collect()
    }

    #[test]
    fn losses_have_the_caller_s_names() {
        let messages = json!({
            "model": "m", "max_tokens": 9, "stop_sequences": ["a", "b", "c", "d", "e"], "metadata": { "user_id": "u" },
            "messages": [{ "role": "user", "content": "x" }], "tools": [{ "name": "f", "input_schema": { "type": "object" } }],
            "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
        });
        assert_eq!(lost(Surface::Messages, &messages, Dialect::OpenAi, true), ["stop_sequences"]);
        let of_ollama = lost(Surface::Messages, &messages, Dialect::Ollama, false);
        assert_eq!(of_ollama, ["tool_choice.disable_parallel_tool_use"]);
        let responses = |who: &str| {
            json!({ "model": "m", "input": "x", who: "u", "größe": 1, "text": { "verbosity": "low" },
                "tools": [{ "type": "function", "name": "f" }, { "type": "custom", "name": "g",
                    "format": { "type": "grammar", "syntax": "lark", "definition": "x" } }] })
        };
        let of_responses = |who: &str| lost(Surface::Responses, &responses(who), Dialect::Ollama, false);
        assert_eq!(of_responses("user"), ["gr??e", "tools[1].format", "text.verbosity"]);
        assert_eq!(
            of_responses("safety_identifier"),
            ["gr??e", "tools[1].format", "safety_identifier", "text.verbosity"]
        );
        let chat = json!({ "messages": [{ "role": "user", "content": "x" }], "stop": ["1", "2", "3", "4", "5", "6"] });
        assert_eq!(lost(Surface::Chat, &chat, Dialect::Gemini, false), ["stop"]);
    }

    #[test]
    fn changes_of_the_operator_take_nothing_from_a_translation() {
        let body = json!({ "model": "m", "input": "x", "reasoning": { "effort": "medium" } });
        let conversation = Surface::Responses.conversation(body.to_string().as_bytes()).unwrap();
        let options = TranslationOptions::of_model(Dialect::Anthropic, "claude-opus-5");
        let translated =
            || RequestTranslation::translated(Surface::Responses, &conversation, Dialect::Anthropic, &options).unwrap();
        let sent = |made: RequestTranslation| serde_json::from_slice::<Value>(made.request.body()).unwrap();
        let before = sent(translated());
        assert_eq!(
            (&before["thinking"]["type"], &before["output_config"]["effort"]),
            (&json!("adaptive"), &json!("medium"))
        );
        assert_eq!(sent(translated().changed(&RequestChanges::default())), before);
        let more = RequestChanges { set: vec![("top_k".to_owned(), json!(1))], ..RequestChanges::default() };
        let after = sent(translated().changed(&more));
        assert_eq!((&after["thinking"], &after["output_config"]), (&before["thinking"], &before["output_config"]));
        assert_eq!(after["top_k"], 1);
    }

    #[test]
    fn what_a_dialect_cannot_say_has_the_callers_name() {
        let lost = |surface, dialect, body: &str| lost(surface, &serde_json::from_str(body).unwrap(), dialect, false);
        let messages =
            r#"{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"x"}],"stop_sequences":["y"]}"#;
        assert_eq!(lost(Surface::Messages, Dialect::Responses, messages), ["stop_sequences"]);
        let chat = r#"{"model":"m","messages":[{"role":"user","content":"x"}],"stop":["y"]}"#;
        assert_eq!(lost(Surface::Chat, Dialect::Responses, chat), ["stop"]);
        let forced = r#"{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"x"}],
            "tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}}"#;
        assert_eq!(lost(Surface::Messages, Dialect::Gemini, forced), ["tool_choice.disable_parallel_tool_use"]);
    }
}
