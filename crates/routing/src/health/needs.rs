//! What a request needs of a model, against what the catalogue knows: who surely cannot serve it goes last.
//!
//! Only explicit facts count: what is unknown is no lack. Tokens are estimated from below, and of text alone. So an upstream may
//! be left out, and no request is refused: without another upstream these are asked after all.

use std::cell::OnceCell;

use memchr::memmem;

use super::windows::PromptLength;
use photofinish_config::UpstreamConfig;
use photofinish_config::offerings::{InputKind, Offering};
use photofinish_facts::record::LeftOutReason;
use photofinish_translation::ApiRequest;

/// The needs of one request, found out when the first upstream is compared with them.
pub struct RequestNeeds<'r> {
    request: &'r ApiRequest,
    /// Kinds of input other than text.
    kinds: OnceCell<Vec<InputKind>>,
    /// The least tokens of the prompt.
    tokens: OnceCell<u64>,
}

/// The start of every mark in `MARKS`: most prompts have none of them.
const FIRST: [&[u8]; 3] = [b"\"image", b"\"input_", b"\"audio/"];
/// Also marks, rarer: documents as data.
const DOCUMENT: &[u8] = b"application/pdf";
/// Whole JSON strings, or the first bytes of them, that say what a part of a message is. The quotes keep out prose: inside a
/// string they are escaped.
const MARKS: [(InputKind, &[u8]); 8] = [
    (InputKind::Image, b"\"image_url\""),
    (InputKind::Image, b"\"input_image\""),
    (InputKind::Image, b"\"image\""),
    (InputKind::Image, b"\"images\""),
    (InputKind::Image, b"\"image/"),
    (InputKind::Audio, b"\"input_audio\""),
    (InputKind::Audio, b"\"audio/"),
    (InputKind::Pdf, b"\"application/pdf\""),
];

impl<'r> RequestNeeds<'r> {
    pub fn of(request: &'r ApiRequest) -> RequestNeeds<'r> {
        RequestNeeds { request, kinds: OnceCell::new(), tokens: OnceCell::new() }
    }

    /// Why this upstream surely cannot serve the request. None: it may.
    pub fn unmet_by(&self, upstream: &UpstreamConfig) -> Option<LeftOutReason> {
        if let Some(offering) = upstream.offering.as_deref()
            && self.lacks(offering)
        {
            return Some(LeftOutReason::Capability);
        }
        let too_long = upstream.context.is_some_and(|context| self.least_tokens() > context);
        let asks_too_much = || {
            let most = upstream.offering.as_deref().and_then(|offering| offering.max_output);
            most.zip(self.request.max_tokens).is_some_and(|(most, asked)| asked > 0 && asked.unsigned_abs() > most)
        };
        (too_long || asks_too_much()).then_some(LeftOutReason::TooLong)
    }

    fn lacks(&self, offering: &Offering) -> bool {
        let lacks_kind = |kinds: &Vec<InputKind>| self.kinds().iter().any(|kind| !kinds.contains(kind));
        (offering.tools == Some(false) && self.request.has_tools)
            || (offering.schema == Some(false) && self.request.has_schema)
            || offering.kinds.as_ref().is_some_and(lacks_kind)
    }

    pub(super) fn kinds(&self) -> &[InputKind] {
        self.kinds.get_or_init(|| {
            let [.., messages] = self.request.prompt();
            let has = |mark: &[u8]| memmem::find(messages, mark).is_some();
            if !FIRST.into_iter().any(has) && !has(DOCUMENT) {
                return Vec::new();
            }
            let mut kinds: Vec<InputKind> =
                MARKS.into_iter().filter(|(_, mark)| has(mark)).map(|(kind, _)| kind).collect();
            kinds.dedup();
            kinds
        })
    }

    /// The least tokens of prompt and answer together.
    fn least_tokens(&self) -> u64 {
        let answer = self.request.max_tokens.unwrap_or(0).max(0).unsigned_abs();
        let prompt = *self.tokens.get_or_init(|| prompt_length(self.request).tokens_at_least());
        prompt.saturating_add(answer)
    }
}

/// The length of a request's prompt.
pub fn prompt_length(request: &ApiRequest) -> PromptLength {
    PromptLength::of(&request.prompt())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use photofinish_wire::Surface;

    /// An upstream that the catalogue knows this of.
    fn upstream(offering: Offering) -> UpstreamConfig {
        let config =
            photofinish_config::parse("models.m.upstreams = [\"ollama/m\"]", Path::new("x"), &|_| None).unwrap();
        let known = config.model("m").unwrap().upstreams[0].clone();
        UpstreamConfig { context: offering.context, offering: Some(Arc::new(offering)), ..known }
    }

    fn request(surface: Surface, body: &Value) -> ApiRequest {
        ApiRequest::parse(surface, body.to_string().into()).unwrap_or_else(|error| panic!("{error} in {body}"))
    }

    fn unmet(surface: Surface, body: &Value, offering: Offering) -> Option<LeftOutReason> {
        RequestNeeds::of(&request(surface, body)).unmet_by(&upstream(offering))
    }

    #[test]
    fn each_dialect_s_way_to_ask_is_seen() {
        let text_only = || Offering { kinds: Some(vec![InputKind::Text]), ..Offering::default() };
        let without_schema = || Offering { schema: Some(false), ..Offering::default() };
        let user =
            |content: Value| json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]});
        let schema = json!({"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}});
        let plain = || user(json!("\"image_url\" and \"application/pdf\" are words here"));
        for (surface, body, offering) in [
            (Surface::Chat, user(json!([{"type": "image_url", "image_url": {"url": "https://x/y.png"}}])), text_only()),
            (
                Surface::Chat,
                user(json!([{"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}])),
                text_only(),
            ),
            (
                Surface::Messages,
                user(json!([{"type": "image", "source": {"type": "url", "url": "https://x/y"}}])),
                text_only(),
            ),
            (
                Surface::Messages,
                user(
                    json!([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A"}}]),
                ),
                text_only(),
            ),
            (
                Surface::Responses,
                json!({"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]}]}),
                text_only(),
            ),
            (
                Surface::OllamaChat,
                json!({"model": "m", "messages": [{"role": "user", "content": "x", "images": ["AAAA"]}]}),
                text_only(),
            ),
            (
                Surface::Chat,
                json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": schema}),
                without_schema(),
            ),
            (
                Surface::Responses,
                json!({"model": "m", "input": "x", "text": {"format": {"type": "json_schema", "name": "s", "schema": {}}}}),
                without_schema(),
            ),
            (
                Surface::OllamaChat,
                json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "format": {"type": "object"}}),
                without_schema(),
            ),
        ] {
            assert_eq!(unmet(surface, &body, offering), Some(LeftOutReason::Capability), "{body}");
        }
        for offering in [text_only(), without_schema()] {
            assert_eq!(unmet(Surface::Chat, &plain(), offering.clone()), None);
            assert_eq!(unmet(Surface::Messages, &plain(), offering), None);
        }
    }
}
