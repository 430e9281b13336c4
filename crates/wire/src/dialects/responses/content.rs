//! Reads and writes content parts of input items: text, images, files and audio.

use serde_json::Value;

use super::Invalid;
use super::check::{optional, required, wrong_type};
use crate::json::values::json;
use crate::translate::outgoing::lose_cache;
use crate::translate::parameter::{missing, wrong_value};
use crate::translate::{Audio, Document, Image, Losses, MessagePart, Source};

const OF_USER: [&str; 4] = ["input_text", "input_image", "input_file", "input_audio"];
const OF_ASSISTANT: [&str; 2] = ["output_text", "refusal"];

/// The reasoning text of an item: its thoughts if shown, else their summary.
pub(super) fn thoughts(item: &Value) -> String {
    let texts = |name: &str| -> Vec<&str> {
        let parts = item[name].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).filter(|text| !text.is_empty()).collect()
    };
    let content = texts("content");
    // Parts are paragraphs, as in a stream.
    if content.is_empty() { texts("summary").join("\n\n") } else { content.join("\n\n") }
}

/// Reads a string or a list of parts. `path` is its place in the request.
pub(super) fn read(content: &Value, path: &str, assistant: bool) -> Result<Vec<MessagePart>, Invalid> {
    match content {
        Value::String(text) => Ok(vec![MessagePart::Text { text: text.clone(), cache: None }]),
        Value::Array(parts) => {
            parts.iter().enumerate().map(|(at, part)| read_part(part, &format!("{path}[{at}]"), assistant)).collect()
        }
        Value::Null => Err(missing(path)),
        other => Err(wrong_type(path, "one of a string or array of objects", other)),
    }
}

fn read_part(part: &Value, path: &str, assistant: bool) -> Result<MessagePart, Invalid> {
    if !part.is_object() {
        return Err(wrong_type(path, "an object", part));
    }
    let kind = required(part, path, "type")?;
    match kind {
        "input_text" | "output_text" if assistant == (kind == "output_text") => {
            Ok(MessagePart::Text { text: required(part, path, "text")?.to_owned(), cache: None })
        }
        "refusal" if assistant => Ok(MessagePart::Refusal(required(part, path, "refusal")?.to_owned())),
        "input_image" if !assistant => image(part, path),
        "input_file" if !assistant => file(part, path),
        "input_audio" if !assistant => {
            let (audio, path) = (&part["input_audio"], format!("{path}.input_audio"));
            if audio.is_null() {
                return Err(missing(&path));
            }
            let text = |name: &str| required(audio, &path, name).map(str::to_owned);
            Ok(MessagePart::Audio(Audio { format: text("format")?, data: text("data")? }))
        }
        other => {
            let supported: &[&str] = if assistant { &OF_ASSISTANT } else { &OF_USER };
            Err(wrong_value(&format!("{path}.type"), other, supported))
        }
    }
}

fn image(part: &Value, path: &str) -> Result<MessagePart, Invalid> {
    let detail = optional(part, path, "detail")?.filter(|detail| detail != "auto");
    let at = format!("{path}.image_url");
    let source = match (optional(part, path, "image_url")?, optional(part, path, "file_id")?) {
        (Some(url), _) => source(&url).ok_or_else(|| no_url(&at, "image", "image/png"))?,
        (None, Some(id)) => Source::File(id),
        (None, None) => return Err(missing(&at)),
    };
    Ok(MessagePart::Image(Image { source, detail, cache: None }))
}

fn file(part: &Value, path: &str) -> Result<MessagePart, Invalid> {
    let name = optional(part, path, "filename")?;
    let text = |name: &str| optional(part, path, name);
    let source = match (text("file_data")?, text("file_url")?, text("file_id")?) {
        (Some(data), _, _) => {
            data_url(&data).ok_or_else(|| no_url(&format!("{path}.file_data"), "supported", "application/pdf"))?
        }
        (None, Some(url), _) => Source::Url(url),
        (None, None, Some(id)) => Source::File(id),
        (None, None, None) => return Err(missing(&format!("{path}.file_id"))),
    };
    Ok(MessagePart::Document(Document { source, name, cache: None }))
}

fn no_url(param: &str, what: &str, media_type: &str) -> Invalid {
    Invalid {
        message: format!(
            "Invalid '{param}'. Expected a valid URL or a base64-encoded data URL with a {what} MIME type (e.g. 'data:{media_type};base64,aW1n')."
        ),
        param: Some(param.to_owned()),
    }
}

fn source(url: &str) -> Option<Source> {
    let web = url.starts_with("https://") || url.starts_with("http://");
    if web { Some(Source::Url(url.to_owned())) } else { data_url(url) }
}

fn data_url(url: &str) -> Option<Source> {
    Source::of_data_url(url)
        .filter(|source| !matches!(source, Source::Base64 { media_type, .. } if media_type.is_empty()))
}

/// Writes a part of a user message or a tool result. None if the dialect does not support the part; that is reported to
/// `losses`.
pub(super) fn write(part: &MessagePart, losses: &mut Losses) -> Option<Value> {
    lose_cache(part.cache(), losses);
    match part {
        MessagePart::Text { text, .. } | MessagePart::Refusal(text) => {
            Some(json!({ "type": "input_text", "text": text }))
        }
        MessagePart::Image(image) => {
            let detail = image.detail.as_deref().unwrap_or("auto");
            let url = url_of(&image.source, losses)?;
            Some(json!({ "type": "input_image", "image_url": url, "detail": detail }))
        }
        MessagePart::Document(document) => write_document(document, losses),
        MessagePart::Audio(audio) => Some(json!({
            "type": "input_audio", "input_audio": { "data": audio.data, "format": audio.format },
        })),
        // These are separate items.
        MessagePart::Thinking(_) | MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}

fn write_document(document: &Document, losses: &mut Losses) -> Option<Value> {
    match &document.source {
        Source::Text(text) => {
            let name = document.name.iter().map(|name| format!("{name}\n\n"));
            Some(json!({ "type": "input_text", "text": name.chain([text.clone()]).collect::<String>() }))
        }
        Source::Url(url) => Some(json!({ "type": "input_file", "file_url": url })),
        source => {
            let name = document.name.as_deref().unwrap_or(match source {
                Source::Base64 { media_type, .. } if media_type == "application/pdf" => "document.pdf",
                _ => "document",
            });
            let data = url_of(source, losses)?;
            Some(json!({ "type": "input_file", "filename": name, "file_data": data }))
        }
    }
}

/// A URL of the bytes. None if they are in one vendor's file store.
fn url_of(source: &Source, losses: &mut Losses) -> Option<String> {
    source.url().or_else(|| losses.part("file_id"))
}
