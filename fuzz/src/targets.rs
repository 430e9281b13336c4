//! The fuzz targets: every reader and writer of bytes that a provider, a client or an operator wrote. A target takes any
//! bytes; it must not panic, and its cost must not grow faster than its input.
//!
//! Three programs share these functions: that of cargo-fuzz in this folder, `examples/fuzz` for stable Rust,
//! and the growth probe (`tests/growth.rs`). So this file uses nothing but the library.

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use photofinish_config as config;
use photofinish_config::offerings::{CatalogueChange, ModelCatalogue};
use photofinish_translation::adapt;
use photofinish_translation::{ApiRequest, RequestTranslation};
use photofinish_wire::answer::error;
use photofinish_wire::answer::growing::GrowingAnswer;
use photofinish_wire::conversation::signature::RemovedReasoning;
use photofinish_wire::conversation::{AnswerPiece, WritePieces};
use photofinish_wire::dialect::key_in;
use photofinish_wire::{each_form, each_quirk};
// With the types of all quirks.
use photofinish_wire::quirks::*;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::framing::Framing;
use photofinish_wire::stream::template::Template;
use photofinish_wire::{AnswerForm, Dialect, PassedCall, PathCall, SseEvent, Surface, TranslationOptions};

/// Bytes of an event, at most.
const EVENT_MAX: usize = 8 << 20;

pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Small valid inputs, for a search to begin with.
    pub seeds: &'static [&'static str],
}

const EVENTS: &[&str] = &[
    "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"He\"},\"finish_reason\":null}]}\n\n",
    "\u{feff}: ping\r\n\r\nevent: error\rdata: one\rdata:two\r\rid: 7\nretry: 5\n\ndata: [DONE]\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"hm\",\"signature\":\"s\",\"index\":0}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
];
const RESPONSES: &[&str] = &[
    "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"model\":\"m\",\"output\":[]}}\n\nevent: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"i\",\"content\":[]}}\n\nevent: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"He\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}],\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n",
];
const MESSAGES: &[&str] = &[
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":3}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":[1,\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];
const GEMINI: &[&str] = &[
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"thought\":true},{\"functionCall\":{\"name\":\"f\",\"args\":{\"x\":1}},\"thoughtSignature\":\"cw==\"}]},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":4},\"modelVersion\":\"g\"}\r\n\r\n",
];
/// Turned into frames before they are mutated: see [`binary`].
const CONVERSE: &[&str] = &[
    "{\"output\":{\"message\":{\"role\":\"assistant\",\"content\":[{\"text\":\"a\"},{\"toolUse\":{\"toolUseId\":\"t\",\"name\":\"f\",\"input\":{\"x\":1}}},{\"reasoningContent\":{\"reasoningText\":{\"text\":\"h\",\"signature\":\"s\"}}}]}},\"stopReason\":\"tool_use\",\"usage\":{\"inputTokens\":1,\"outputTokens\":2}}",
];
const LINES: &[&str] = &[
    "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"a\",\"thinking\":\"b\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},\"done\":false}\n{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":3}\n",
    "{\"model\":\"m\",\"response\":\"a\",\"thinking\":\"b\",\"done\":false}\n{\"response\":\"\",\"done\":true,\"done_reason\":\"length\",\"context\":[1],\"prompt_eval_count\":2}\n",
];
const CHAT_REQUEST: &[&str] = &[
    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AA==\"}}]},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":[\"string\",\"null\"],\"enum\":[\"a\"]}},\"$defs\":{\"y\":{}}}}}],\"tool_choice\":\"auto\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{}}},\"stream\":true,\"stop\":[\"x\"],\"metadata\":{\"k\":\"v\"},\"reasoning_effort\":\"low\"}",
];
const RESPONSES_REQUEST: &[&str] = &[
    "{\"model\":\"m\",\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]},{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"t\"}],\"encrypted_content\":\"e\"},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"o\"}],\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}},{\"type\":\"custom\",\"name\":\"g\",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":\"x\"}}],\"stream\":false}",
];
const MESSAGES_REQUEST: &[&str] = &[
    "{\"model\":\"m\",\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"s\",\"cache_control\":{\"type\":\"ephemeral\"}}],\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\",\"signature\":\"photofinish.openai.s\"},{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]}],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}],\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}}",
];
const GEMINI_REQUEST: &[&str] = &[
    "{\"systemInstruction\":{\"parts\":[{\"text\":\"s\"}]},\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"a\"},{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"AA==\"}}]},{\"role\":\"model\",\"parts\":[{\"text\":\"t\",\"thought\":true,\"thoughtSignature\":\"cw==\"},{\"functionCall\":{\"id\":\"c\",\"name\":\"f\",\"args\":{\"x\":1}}}]},{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"id\":\"c\",\"name\":\"f\",\"response\":{\"output\":\"r\"}}}]}],\"tools\":[{\"functionDeclarations\":[{\"name\":\"f\",\"parameters\":{\"type\":\"OBJECT\",\"properties\":{\"x\":{\"type\":\"STRING\",\"nullable\":true}}}}]},{\"googleSearch\":{}}],\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"ANY\",\"allowedFunctionNames\":[\"f\"]}},\"generationConfig\":{\"maxOutputTokens\":9,\"stopSequences\":[\"x\"],\"responseMimeType\":\"application/json\",\"responseSchema\":{\"type\":\"OBJECT\",\"required\":[\"x\"]},\"thinkingConfig\":{\"thinkingBudget\":1024,\"includeThoughts\":true}}}",
    "{\"contents\":[{\"parts\":[{\"inline_data\":{\"mime_type\":\"image/png\",\"data\":\"AA==\"}},{\"file_data\":{\"file_uri\":\"https://a/b\"}}]}],\"system_instruction\":{\"parts\":{\"text\":\"s\"}},\"generation_config\":{\"top_k\":1,\"thinking_config\":{\"thinking_level\":\"LOW\"}}}",
];
const OLLAMA_REQUEST: &[&str] = &[
    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\",\"images\":[\"AA==\"]},{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"t\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"r\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":[\"string\",\"null\"]}}}}}],\"format\":{\"type\":\"object\"},\"think\":\"high\",\"options\":{\"num_predict\":9,\"stop\":[\"x\"],\"num_ctx\":4096},\"keep_alive\":\"5m\",\"stream\":false}",
    "{\"model\":\"m\",\"prompt\":\"a\",\"system\":\"s\",\"suffix\":\"b\",\"images\":[\"AA==\"],\"format\":\"json\",\"raw\":false,\"context\":[1],\"think\":true,\"keep_alive\":0}",
];
const OTHER_REQUESTS: &[&str] = &["{\"model\":\"m\",\"prompt\":[\"a\"],\"n\":2}", "{\"model\":\"e\",\"input\":\"a\"}"];
const PATHS: &[&str] = &["a/m:x:streamGenerateContent?alt=sse&key=a%2Fb"];
const FORM: &[&str] = &[
    "multipart/form-data; boundary=\"b\"\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".mp3\"\r\ncontent-type: audio/mpeg\r\n\r\nID3\r\n--b--\r\n",
];
const ERRORS: &[&str] = &[
    "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"stream_options\",\"code\":null,\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}",
    "[{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}}]",
];
const CONFIG: &[&str] = &[
    "[server]\nlisten = \"127.0.0.1:0\"\n\n[providers.a]\nbase_url = \"http://127.0.0.1:1/v1\"\nauth = \"none\"\n\n[models.m]\nupstreams = [\"a/x\"]\n\n[race]\npolicy = \"race\"\n",
];
const CATALOGUE: &[&str] = &[
    "{\"format\":1,\"date\":\"2026-11-22\",\"sources\":{\"m\":{\"date\":\"2026-07-02\"}},\"columns\":[\"id\",\"model\",\"input\",\"output\",\"context\",\"kinds\",\"abilities\",\"source\",\"tiers\"],\"models\":[{\"name\":\"m\",\"open\":true,\"precision\":\"fp8\",\"also\":[\"n\"],\"of\":\"o\"}],\"rows\":{\"groq\":[[\"m-2026-04-23\",\"m\",1,2.5,131072,\"image pdf\",\"+-?\",\"m\",[[200000,2,null,null,5]]]]}}",
];

pub const ALL: &[Target] = &[
    Target { name: "sse", run: |bytes| cut(Framing::Sse, bytes), seeds: EVENTS },
    Target { name: "lines", run: |bytes| cut(Framing::Lines, bytes), seeds: LINES },
    Target { name: "binary", run: |bytes| cut(Framing::Binary, bytes), seeds: CONVERSE },
    Target { name: "stream_openai", run: |bytes| streams(Dialect::OpenAi, bytes), seeds: EVENTS },
    Target { name: "stream_responses", run: |bytes| streams(Dialect::Responses, bytes), seeds: RESPONSES },
    Target { name: "stream_anthropic", run: |bytes| streams(Dialect::Anthropic, bytes), seeds: MESSAGES },
    Target { name: "stream_gemini", run: |bytes| streams(Dialect::Gemini, bytes), seeds: GEMINI },
    Target { name: "stream_bedrock", run: |bytes| streams(Dialect::Bedrock, &binary(bytes)), seeds: CONVERSE },
    Target { name: "stream_ollama", run: |bytes| streams(Dialect::Ollama, bytes), seeds: LINES },
    Target { name: "request_chat", run: |bytes| request(Surface::Chat, bytes), seeds: CHAT_REQUEST },
    Target { name: "request_responses", run: |bytes| request(Surface::Responses, bytes), seeds: RESPONSES_REQUEST },
    Target { name: "request_messages", run: |bytes| request(Surface::Messages, bytes), seeds: MESSAGES_REQUEST },
    Target { name: "request_gemini", run: gemini_requests, seeds: GEMINI_REQUEST },
    Target { name: "request_ollama", run: ollama_requests, seeds: OLLAMA_REQUEST },
    Target { name: "request_other", run: other_requests, seeds: OTHER_REQUESTS },
    Target { name: "paths", run: paths, seeds: PATHS },
    Target { name: "form", run: form, seeds: FORM },
    Target { name: "errors", run: errors, seeds: ERRORS },
    Target { name: "config", run: configuration, seeds: CONFIG },
    Target { name: "catalogue", run: catalogue, seeds: CATALOGUE },
];

/// Cuts bytes into events, in reads of different sizes; every byte has to come out again.
fn cut(framing: Framing, bytes: &[u8]) {
    // The first byte sets the size of the reads.
    let size = usize::from(bytes.first().copied().unwrap_or(1) % 32) + 1;
    let whole: Vec<u8> = events(framing, bytes, usize::MAX).iter().flat_map(|event| event.raw.clone()).collect();
    let parts: Vec<u8> = events(framing, bytes, size).iter().flat_map(|event| event.raw.clone()).collect();
    assert!(framing == Framing::Binary || whole == bytes, "bytes were lost");
    assert_eq!(whole, parts, "the events depend on the reads that they came in");
}

/// The events of a stream that is read in pieces of this many bytes. Ends at the first error.
pub fn events(framing: Framing, bytes: &[u8], size: usize) -> Vec<SseEvent> {
    let mut decoder = framing.decoder(EVENT_MAX);
    let mut found = Vec::new();
    for read in bytes.chunks(size) {
        decoder.push(Bytes::copy_from_slice(read));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => found.push(event),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found.extend(decoder.finish());
    found
}

/// Bytes of a whole answer become the frames of one, so that mutations get behind the checksums.
pub fn binary(bytes: &[u8]) -> Bytes {
    let frames = Dialect::Bedrock.events_of_whole(Surface::Chat, bytes);
    frames.unwrap_or_else(|| Bytes::copy_from_slice(bytes))
}

fn streams(dialect: Dialect, bytes: &[u8]) {
    Surface::TRANSLATED.into_iter().for_each(|surface| stream(dialect, surface, bytes));
    for surface in Surface::ALL {
        if let Some(events) = dialect.events_of_whole(surface, bytes) {
            stream(dialect, surface, &events);
        }
    }
}

/// One answer on its way down: cut, classified, translated where the surface is another's, and put together.
pub fn stream(dialect: Dialect, surface: Surface, bytes: &[u8]) {
    // Answers that are not streamed are one event, and nothing writes them in pieces.
    let untouched = surface.dialect() == dialect || !surface.streams();
    let (mut reader, mut writer) = (dialect.reader(), surface.writer("model", true, false, false, &Arc::default()));
    let mut growing = surface.growing();
    let mut template: Option<Template> = None;
    let (mut pieces, mut out) = (Vec::new(), BytesMut::new());
    let (framing, size) = if surface.streams() { (dialect.framing(), 16 << 10) } else { (Framing::Whole, usize::MAX) };
    for event in events(framing, bytes, size) {
        if template.as_ref().and_then(|template| template.fits(&event)).is_none() {
            match dialect.read(surface, &event) {
                Frame::Chunk(chunk) => template = Template::learn(&event, &chunk),
                Frame::Error { data, .. } => drop(error::of_frame(&data)),
                _ => {}
            }
        }
        if untouched {
            growing.add(&event);
        } else {
            reader.read(&event, &mut pieces);
            write(&mut pieces, &mut *writer, &mut out);
        }
    }
    if !untouched {
        writer.end(&mut out);
        add(surface.framing(), &out, &mut growing);
    }
    growing.finish();
}

fn write(pieces: &mut Vec<AnswerPiece>, writer: &mut dyn WritePieces, out: &mut BytesMut) {
    pieces.drain(..).for_each(|piece| writer.write(piece, out));
}

/// What the gateway itself wrote has to be read again.
fn add(framing: Framing, written: &[u8], growing: &mut GrowingAnswer) {
    let mut too_much = false;
    for event in events(framing, written, usize::MAX) {
        let readable = event.fields().data.is_none_or(|data| {
            data.as_ref() == b"[DONE]" || serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok()
        });
        assert!(readable, "an event that was written is no JSON");
        too_much |= !growing.add(&event);
    }
    // Too many items are an error of the answer, not a fault.
    let _ = too_much;
}

/// A request on its way up: read, checked, and written for every dialect.
pub fn request(surface: Surface, body: &[u8]) {
    if let Ok(request) = ApiRequest::parse(surface, Bytes::copy_from_slice(body)) {
        request.prompt();
        request.body_for("another", AnswerForm::WithUsage);
        request.body_for("another", AnswerForm::Plain);
        RequestTranslation::untouched(Arc::new(request)).body_for("another", AnswerForm::WithUsage);
    }
    for taken in [RemovedReasoning::Foreign, RemovedReasoning::All] {
        surface.without_reasoning(body, taken);
    }
    // Half a surrogate pair goes through as it came, and serde_json takes none.
    let is_read = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).is_ok();
    for demanding in DEMANDING.iter() {
        if let Some(made) = adapt::rewritten(surface, body, demanding, &RequestChanges::default()) {
            assert!(is_read(made.text.as_bytes()) || !is_read(body), "what is written can be read");
        }
    }
    if !surface.is_translated() {
        return;
    }
    let Ok(conversation) = surface.conversation(body) else { return };
    let foreign = Dialect::ALL.into_iter().filter(|dialect| *dialect != surface.dialect());
    for (dialect, quirks) in foreign.flat_map(|dialect| DEMANDING.iter().map(move |quirks| (dialect, quirks))) {
        let options = TranslationOptions { model: "model".to_owned(), quirks: *quirks };
        if let Ok(request_translation) = RequestTranslation::translated(surface, &conversation, dialect, &options) {
            request_translation.losses().names().for_each(drop);
            request_translation.body_for("another", AnswerForm::WithUsage);
        }
    }
}

/// A type of quirks, with values that a search tries.
trait QuirkValues: Sized {
    fn values() -> Vec<Self>;
}

impl QuirkValues for bool {
    fn values() -> Vec<bool> {
        vec![true, false]
    }
}

impl QuirkValues for u64 {
    fn values() -> Vec<u64> {
        vec![1, 16, 128_000]
    }
}

impl QuirkValues for ThinkingLevels {
    fn values() -> Vec<ThinkingLevels> {
        let levels =
            [&["low"][..], &["minimal", "max"]].map(|levels| serde_json::from_value(serde_json::json!(levels)));
        levels.into_iter().flatten().chain([ThinkingLevels::USUAL]).collect()
    }
}

macro_rules! listed_values {
    ($($name:ident),+) => { $(impl QuirkValues for $name {
        fn values() -> Vec<$name> {
            $name::ALL.to_vec()
        }
    })+ };
}

each_form!(listed_values);

macro_rules! demanding {
    ($($(#[doc = $about:literal])* $quirk:ident: $type:ty $(= $usual:expr)?;)+) => {
        /// Upstreams of which each value of each quirk is demanded by one, and one that demands nothing unusual.
        static DEMANDING: LazyLock<Vec<Quirks>> = LazyLock::new(|| {
            let most = [$(<$type as QuirkValues>::values().len(),)+].into_iter().max().unwrap_or_default();
            let at = |place: usize| {
                QuirkSet { $($quirk: <$type as QuirkValues>::values().into_iter().cycle().nth(place),)+ }.settled()
            };
            (0..most).map(at).chain([Quirks::default()]).collect()
        });
    };
}

each_quirk!(demanding);

fn gemini_requests(body: &[u8]) {
    request(Surface::Gemini, body);
    request(Surface::GeminiCount, body);
}

fn ollama_requests(body: &[u8]) {
    request(Surface::OllamaChat, body);
    request(Surface::OllamaGenerate, body);
}

fn other_requests(body: &[u8]) {
    request(Surface::Completions, body);
    request(Surface::CountTokens, body);
    for surface in Surface::ALL.into_iter().filter(|surface| surface.embeds()) {
        request(surface, body);
        let options = TranslationOptions { model: "model".to_owned(), quirks: Quirks::default() };
        for dialect in Dialect::ALL {
            _ = RequestTranslation::embedding(surface, body, dialect, &options);
        }
    }
}

/// The path and the query of one of Gemini's calls.
fn paths(path: &[u8]) {
    let Ok(path) = std::str::from_utf8(path) else { return };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    PathCall::of_azure(path);
    if let Some(call) = PathCall::of_gemini(path, query) {
        let body = Bytes::from_static(b"{\"contents\":[{\"parts\":[{\"text\":\"a\"}]}]}");
        if let Ok(request) = ApiRequest::parse_call(call.surface, body, Some(&call), true) {
            assert_eq!(request.model, call.model, "the model of the path is lost");
        }
    }
    key_in(query);
}

/// The first line is the content type, the rest a form.
pub fn form(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (content_type, body) = (&bytes[..at], &bytes[(at + 1).min(bytes.len())..]);
    let content_type = HeaderValue::from_bytes(content_type).ok();
    let surface = Surface::Passed(PassedCall::Transcription);
    let request = ApiRequest::parse_passed(surface, Bytes::copy_from_slice(body), content_type.as_ref(), None, true);
    let Ok(request) = request else { return };
    // Only the model differs, and it is found again.
    let sent = request.body_for("another", AnswerForm::Streamed);
    assert_eq!(sent.len() + request.model.len(), body.len() + "another".len());
    let again = ApiRequest::parse_passed(surface, sent.joined(), Some(&request.content_type()), None, true);
    assert_eq!(again.map(|request| request.model).as_deref(), Ok("another"));
}

pub fn errors(body: &[u8]) {
    error::of_frame(body);
    error::rejects_stream_options(body);
    for status in [200, 400, 401, 404, 429, 500] {
        error::of_body(status, body);
    }
}

pub fn configuration(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Err(problems) = config::parse(text, Path::new("config.toml"), &|_| Some("value".to_owned())) {
        problems.to_string();
    }
}

/// A catalogue from elsewhere is read, compared, and asked for names with and without a date.
pub fn catalogue(text: &[u8]) {
    match ModelCatalogue::read(text) {
        Ok(catalogue) => {
            assert!(CatalogueChange::between(&catalogue, &catalogue).is_empty(), "it differs from itself");
            for row in catalogue.offerings() {
                assert!(catalogue.offering_or_undated(&row.provider, &row.id).is_some(), "a row is not found");
                catalogue.undated_model(&row.id);
            }
        }
        Err(error) => drop(error.to_string()),
    }
}
