//! Classifies the generated output of a delta and counts its characters. Strings are not copied.

use super::Payload;
use photofinish_wire::PayloadKind;
use photofinish_wire::json::{InvalidJson, Json, characters};

/// The facts of a delta.
#[derive(Default)]
pub(super) struct DeltaPayload<'a> {
    pub payload: Option<Payload>,
    /// The text, if it is a single plain string and all of the payload.
    pub text: Option<&'a str>,
    /// The delta contains part of a call.
    pub calls: bool,
}

/// Reads the text of a legacy completion.
pub(super) fn of_text<'a>(json: &mut Json<'a>) -> Result<DeltaPayload<'a>, InvalidJson> {
    let mut text = None;
    let payload = text_or_parts(json, PayloadKind::Text, &mut text)?;
    Ok(DeltaPayload { payload, text, calls: false })
}

/// Reads a delta.
pub(super) fn of_delta<'a>(json: &mut Json<'a>) -> Result<DeltaPayload<'a>, InvalidJson> {
    let (mut answer, mut reasoning, mut details) = (None, None, None);
    let mut calls = false;
    let (mut text, mut strings, mut others) = (None, 0, 0);
    json.object(|name, json| {
        let payload = match name {
            "content" => {
                let payload = text_or_parts(json, PayloadKind::Text, &mut text)?;
                strings += usize::from(payload.is_some());
                payload
            }
            // Some vendors send the same text under two of these names.
            "reasoning_content" | "reasoning" | "thinking" => {
                let payload = text_or_parts(json, PayloadKind::Reasoning, &mut text)?;
                strings += usize::from(payload.is_some());
                reasoning = reasoning.or(payload);
                return Ok(());
            }
            "reasoning_details" => {
                details = thoughts(json)?;
                // Details vary between chunks in addition to the text.
                others += usize::from(details.is_some());
                return Ok(());
            }
            "refusal" => content(json, PayloadKind::Refusal)?,
            "tool_calls" => {
                let (found, payload) = tool_calls(json)?;
                calls |= found;
                payload
            }
            "function_call" => {
                let payload = Payload::of_chars(PayloadKind::Tool, function(json)?);
                calls |= payload.is_some();
                payload
            }
            "audio" => audio(json)?,
            "images" => images(json)?,
            _ => return json.skip().map(drop),
        };
        others += usize::from(payload.is_some() && name != "content");
        answer = Payload::merge(answer, payload);
        Ok(())
    })?;
    let text = text.filter(|_| strings == 1 && others == 0);
    // Details repeat the plain text.
    Ok(DeltaPayload { payload: Payload::merge(answer, reasoning.or(details)), text, calls })
}

/// A string, which is also stored in `text`, or parts.
fn text_or_parts<'a>(
    json: &mut Json<'a>,
    kind: PayloadKind,
    text: &mut Option<&'a str>,
) -> Result<Option<Payload>, InvalidJson> {
    match json.peek() {
        Some(b'[' | b'{') => return parts(json, kind),
        // Some servers read the JSON that a model wrote.
        Some(b'-' | b'0'..=b'9') if kind == PayloadKind::Text => return Ok(Payload::of_text(kind, json.skip()?)),
        _ => {}
    }
    let found = json.string_or_skip()?.filter(|found| !found.is_empty());
    *text = found.or(*text);
    Ok(found.map(|found| Payload { kind, chars: characters(found) }))
}

/// A string, or a list of parts.
fn content(json: &mut Json<'_>, kind: PayloadKind) -> Result<Option<Payload>, InvalidJson> {
    text_or_parts(json, kind, &mut None)
}

/// Mistral: `thinking` and `text`, each again a string or a list. Some servers list strings.
fn parts(json: &mut Json<'_>, kind: PayloadKind) -> Result<Option<Payload>, InvalidJson> {
    let mut all = None;
    json.items(|json| {
        let (mut thinking, mut part, mut is_part) = (false, None, false);
        if json.peek() != Some(b'{') {
            all = Payload::merge(all, content(json, kind)?);
            return Ok(());
        }
        let written = json.skip()?;
        Json::new(written).object(|name, json| {
            is_part |= matches!(name, "type" | "text" | "thinking" | "image_url");
            match name {
                "type" => thinking = json.string_or_skip()? == Some("thinking"),
                "text" | "thinking" => part = Payload::merge(part, content(json, kind)?),
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        if !is_part && kind == PayloadKind::Text && written != "{}" {
            part = Payload::of_text(kind, written);
        }
        let part =
            part.map(|part: Payload| if thinking { Payload { kind: PayloadKind::Reasoning, ..part } } else { part });
        all = Payload::merge(all, part);
        Ok(())
    })?;
    Ok(all)
}

/// OpenRouter's list of thoughts: texts and summaries. Signatures and encrypted data are not generated text.
fn thoughts(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut all = None;
    json.objects(|name, json| {
        let text = json.string_or_skip()?.filter(|_| matches!(name, "text" | "summary"));
        all = Payload::merge(all, text.and_then(|text| Payload::of_text(PayloadKind::Reasoning, text)));
        Ok(())
    })?;
    Ok(all)
}

/// Whether there are any calls, and their payload.
fn tool_calls(json: &mut Json<'_>) -> Result<(bool, Option<Payload>), InvalidJson> {
    let (mut found, mut all) = (false, None);
    json.items(|json| {
        found = true;
        json.object(members!(|json| {
            "function" | "custom" => {
                all = Payload::merge(all, Payload::of_chars(PayloadKind::Tool, function(json)?))
            },
        }))
    })?;
    Ok((found, all))
}

/// Characters of a call's name and arguments, or of a custom tool's input.
fn function(json: &mut Json<'_>) -> Result<u32, InvalidJson> {
    let mut chars: u32 = 0;
    json.object(|name, json| {
        let more = match (name, json.peek()) {
            ("name" | "arguments" | "input", Some(b'"')) => json.string_or_skip()?.map_or(0, characters),
            // Some servers send arguments as an object.
            ("arguments", Some(b'{')) => u32::try_from(json.skip()?.len()).unwrap_or(u32::MAX),
            _ => json.skip().map(|_| 0)?,
        };
        chars = chars.saturating_add(more);
        Ok(())
    })?;
    Ok(chars)
}

fn audio(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut chars: u32 = 0;
    json.object(|name, json| {
        let value = json.string_or_skip()?;
        if matches!(name, "data" | "transcript") {
            chars = chars.saturating_add(value.map_or(0, characters));
        }
        Ok(())
    })?;
    Ok(Payload::of_chars(PayloadKind::Audio, chars))
}

/// OpenRouter: a list of `image_url` parts.
fn images(json: &mut Json<'_>) -> Result<Option<Payload>, InvalidJson> {
    let mut all = None;
    json.list(|json| {
        let url = json.member("image_url", |json| json.member("url", Json::string_or_skip))?;
        let bytes =
            url.filter(|url| !url.is_empty()).map(|url| url.split_once(";base64,").map_or(url, |(_, data)| data));
        let payload = bytes.map(|bytes| Payload { kind: PayloadKind::Image, chars: characters(bytes) });
        all = Payload::merge(all, payload);
        Ok(())
    })?;
    Ok(all)
}
