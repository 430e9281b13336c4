//! Reads the content parts of chat messages, and the members that gateways add next to the content: reasoning in
//! several forms, images, cache hints.

use serde_json::Value;

use crate::client_error::Invalid;
use crate::json::values::text;
use crate::translate::members::{ObjectMembers, objects};
use crate::translate::parameter::{kind_of, missing, wrong_type, wrong_value};
use crate::translate::signature::{SignatureOwner, tag};
use crate::translate::{Audio, CacheHint, Document, Image, Losses, MessagePart, ReasoningPart, Source};

/// The speaker of the content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

impl Speaker {
    /// The types that the vendor lists in its complaint.
    fn supported(self) -> &'static [&'static str] {
        match self {
            Speaker::System => &["text"],
            Speaker::Assistant => &["text", "refusal"],
            Speaker::User => &["text", "image_url", "input_audio", "refusal", "audio", "file"],
            Speaker::Tool => &["text", "image_url", "file"],
        }
    }
}

/// Reads content: a string, or a list of parts.
///
/// # Errors
/// The problem, in the vendor's words.
pub(super) fn read(
    content: Value,
    path: &str,
    speaker: Speaker,
    losses: &mut Losses,
) -> Result<Vec<MessagePart>, Invalid> {
    match content {
        Value::String(text) => Ok(vec![MessagePart::Text { text, cache: None }]),
        Value::Array(_) => {
            let mut parts = Vec::new();
            for mut part in objects(content, path)? {
                parts.extend(read_part(&mut part, speaker, losses)?);
                part.tell_rest(losses);
            }
            Ok(parts)
        }
        other => Err(wrong_type(path, "one of a string or array of objects", kind_of(&other))),
    }
}

/// Moves a message's cache hint to its last part.
pub(super) fn mark(parts: &mut [MessagePart], hint: Option<CacheHint>) {
    let Some(hint) = hint else { return };
    let cache = parts.iter_mut().rev().find_map(|part| match part {
        MessagePart::Text { cache, .. }
        | MessagePart::Image(Image { cache, .. })
        | MessagePart::Document(Document { cache, .. }) => Some(cache),
        MessagePart::Call(call) => Some(&mut call.cache),
        MessagePart::Result(result) => Some(&mut result.cache),
        _ => None,
    });
    if let Some(cache) = cache {
        cache.get_or_insert(hint);
    }
}

/// `{"type":"ephemeral","ttl":"5m"}`
pub(super) fn cache_hint(value: &Value) -> CacheHint {
    CacheHint { ttl: value.get("ttl").and_then(Value::as_str).map(str::to_owned) }
}

/// Reads the assistant's thoughts, from the most informative form: Anthropic's `thinking_blocks`, OpenRouter's
/// `reasoning_details`, or plain text.
pub(super) fn thinking_of(message: &mut ObjectMembers) -> Vec<MessagePart> {
    let blocks = message.take("thinking_blocks");
    let details = message.take("reasoning_details");
    let plain = ["reasoning_content", "reasoning", "thinking"].map(|name| message.take(name));
    let items = |value: Option<Value>| match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let blocks: Vec<ReasoningPart> = items(blocks).iter().filter_map(thinking_block).collect();
    let mut thoughts = if blocks.is_empty() { of_details(&items(details)) } else { blocks };
    if thoughts.is_empty() {
        let text = plain.into_iter().flatten().find_map(|text| match text {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => None,
        });
        thoughts.extend(text.map(|text| ReasoningPart { text, ..ReasoningPart::default() }));
    }
    thoughts.into_iter().map(MessagePart::Thinking).collect()
}

/// Images that the assistant made (OpenRouter).
pub(super) fn images_of(message: &mut ObjectMembers) -> Vec<MessagePart> {
    let Some(Value::Array(images)) = message.take("images") else { return Vec::new() };
    let urls = images.iter().filter_map(|image| image.pointer("/image_url/url")?.as_str());
    let image = |url: &str| Image { source: source(url.to_owned()), detail: None, cache: None };
    urls.map(|url| MessagePart::Image(image(url))).collect()
}

/// Members, with a JSON pointer into them, where Gemini's OpenAI form and a common gateway put a call's signature.
pub(super) const CALL_SIGNATURES: [(&str, &str); 2] =
    [("extra_content", "/google/thought_signature"), ("provider_specific_fields", "/thought_signature")];

/// Gemini's signature of a call.
pub(super) fn call_signature(call: &mut ObjectMembers) -> Option<String> {
    let found = CALL_SIGNATURES.map(|(name, pointer)| {
        let value = call.take(name)?;
        value.pointer(pointer).and_then(Value::as_str).map(|signature| tag(SignatureOwner::Gemini, signature))
    });
    found.into_iter().flatten().next()
}

/// A URL, or the bytes that a data URL holds.
pub(super) fn source(url: String) -> Source {
    match Source::of_data_url(&url) {
        Some(Source::Base64 { media_type, data }) => {
            Source::Base64 { media_type: media_type.to_ascii_lowercase(), data }
        }
        _ => Source::Url(url),
    }
}

fn read_part(part: &mut ObjectMembers, speaker: Speaker, losses: &mut Losses) -> Result<Option<MessagePart>, Invalid> {
    let kind = part.required_string("type")?;
    let cache = part.take("cache_control").map(|value| cache_hint(&value));
    let supported = speaker.supported();
    Ok(Some(match kind.as_str() {
        "text" => MessagePart::Text { text: part.required_string("text")?, cache },
        "thinking" | "redacted_thinking" if speaker == Speaker::Assistant => {
            let mut block = serde_json::Map::new();
            for name in ["thinking", "signature", "data"] {
                block.extend(part.take(name).map(|value| (name.to_owned(), value)));
            }
            block.insert("type".to_owned(), Value::from(kind));
            // Mistral marks whether a thought is finished.
            part.take("closed");
            return Ok(thinking_block(&Value::Object(block)).map(MessagePart::Thinking));
        }
        // Not in the vendor's API, but harmless: an assistant's image in a history.
        "image_url" if speaker != Speaker::System => MessagePart::Image(image(part, cache, losses)?),
        other if !supported.contains(&other) => {
            return Err(wrong_value(&part.path_of("type"), other, supported));
        }
        "refusal" => MessagePart::Refusal(part.required_string("refusal")?),
        "input_audio" => MessagePart::Audio(audio(part, losses)?),
        "file" => MessagePart::Document(file(part, cache, losses)?),
        other => return Err(wrong_value(&part.path_of("type"), other, supported)),
    }))
}

fn image(part: &mut ObjectMembers, cache: Option<CacheHint>, losses: &mut Losses) -> Result<Image, Invalid> {
    let path = part.path_of("image_url");
    let mut image = match part.take("image_url") {
        None => return Err(missing(&path)),
        // Some clients send the bare URL.
        Some(Value::String(url)) => return Ok(Image { source: source(url), detail: None, cache }),
        Some(object) => ObjectMembers::new(object, path)?,
    };
    let url = image.required_string("url")?;
    if url.is_empty() {
        let path = image.path_of("url");
        return Err(Invalid { message: format!("Invalid '{path}': empty string."), param: Some(path) });
    }
    let detail = image.one_of("detail", &["low", "high", "auto", "original"])?.filter(|detail| detail != "auto");
    image.tell_rest(losses);
    Ok(Image { source: source(url), detail, cache })
}

fn audio(part: &mut ObjectMembers, losses: &mut Losses) -> Result<Audio, Invalid> {
    let mut audio = part.required_object("input_audio")?;
    let read = Audio { data: audio.required_string("data")?, format: audio.required_string("format")? };
    audio.tell_rest(losses);
    Ok(read)
}

fn file(part: &mut ObjectMembers, cache: Option<CacheHint>, losses: &mut Losses) -> Result<Document, Invalid> {
    let mut file = part.required_object("file")?;
    let name = file.string("filename")?;
    let source = match (file.string("file_data")?, file.string("file_id")?) {
        (Some(data), _) if data.starts_with("data:") || data.contains("://") => source(data),
        // Bare base64. The vendor requires a data URL, compatible servers do not.
        (Some(data), _) => Source::Base64 { media_type: "application/pdf".to_owned(), data },
        (None, Some(id)) => Source::File(id),
        (None, None) => return Err(missing(&file.path_of("file_id"))),
    };
    file.tell_rest(losses);
    Ok(Document { source, name, cache })
}

/// Anthropic's form, so a bare signature is Anthropic's. Mistral's `thinking` is a list of text parts.
fn thinking_block(block: &Value) -> Option<ReasoningPart> {
    let text = |name| text(block, name).map(str::to_owned);
    let owner = if block.get("thinking").is_some_and(Value::is_array) {
        SignatureOwner::OpenAi
    } else {
        SignatureOwner::Anthropic
    };
    let signed = |name| text(name).map(|signature| tag(owner, &signature));
    if block.get("type").and_then(Value::as_str) == Some("redacted_thinking") {
        return Some(ReasoningPart { signature: Some(signed("data")?), redacted: true, ..ReasoningPart::default() });
    }
    let listed = || {
        let parts = block.get("thinking")?.as_array()?;
        Some(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<String>())
    };
    let thought = text("thinking").or_else(listed).unwrap_or_default();
    let signature = signed("signature");
    (!thought.is_empty() || signature.is_some()).then_some(ReasoningPart {
        text: thought,
        signature,
        ..ReasoningPart::default()
    })
}

/// OpenRouter's form: entries for a text with its signature, a summary, or encrypted data; the last two may share an
/// id. A bare signature may be from any vendor behind the server.
fn of_details(details: &[Value]) -> Vec<ReasoningPart> {
    let mut thoughts: Vec<ReasoningPart> = Vec::new();
    for detail in details {
        let text = |name| text(detail, name).map(str::to_owned);
        let signed = |name| text(name).map(|signature| tag(SignatureOwner::OpenAi, &signature));
        let id = text("id");
        let thought = match detail.get("type").and_then(Value::as_str) {
            Some("reasoning.encrypted") => {
                let Some(data) = signed("data") else { continue };
                let summary = thoughts.last_mut().filter(|last| id.is_some() && last.id == id);
                if let Some(summary) = summary {
                    summary.signature.get_or_insert(data);
                    continue;
                }
                ReasoningPart { signature: Some(data), redacted: true, id, ..ReasoningPart::default() }
            }
            _ => {
                let (words, signature) = (text("text").or_else(|| text("summary")), signed("signature"));
                if words.is_none() && signature.is_none() {
                    continue;
                }
                ReasoningPart { text: words.unwrap_or_default(), signature, redacted: false, id }
            }
        };
        thoughts.push(thought);
    }
    thoughts
}
