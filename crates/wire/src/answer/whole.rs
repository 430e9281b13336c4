//! Answers that arrive all at once: embeddings, token counts, and the calls that are passed through. Each is one event,
//! and its bytes are those of the body.

use std::borrow::Cow;

use super::usage::Usage;
use crate::PayloadKind;
use crate::dialect::PassedCall;
use crate::json::values::says_error;
use crate::json::{InvalidJson, Json, unescape};
use crate::stream::frame::{Chunk, Frame, Payload};
use crate::stream::service_tier::ServiceTier;
use crate::stream::sse::SseEvent;

/// The content of the event: the whole answer.
pub fn read(event: &SseEvent) -> Frame<'_> {
    let mut chunk = chunk_of(event.raw.len());
    match std::str::from_utf8(&event.raw).map_err(|_| InvalidJson).and_then(|text| facts(text, &mut chunk)) {
        Ok(true) => Frame::Error { data: Cow::Borrowed(&event.raw), usage: chunk.usage },
        Ok(false) => {
            // Every input has tokens, so a count of zero means an unknown one.
            chunk.usage = chunk.usage.filter(|usage| Usage::of(usage).input_tokens != Some(0));
            Frame::Chunk(chunk)
        }
        Err(InvalidJson) => Frame::Malformed,
    }
}

/// The same for an answer of any format. Facts are read from a JSON object, and from the events of a stream, which is
/// passed on as a whole. An empty body has no payload.
pub fn read_passed(event: &SseEvent, call: PassedCall) -> Frame<'_> {
    let mut chunk = chunk_of(event.raw.len());
    chunk.payload = chunk.payload.filter(|_| !event.raw.trim_ascii().is_empty());
    let Ok(text) = std::str::from_utf8(&event.raw) else { return Frame::Chunk(chunk) };
    let is_stream = is_stream(text);
    let texts = text.lines().filter_map(|line| line.strip_prefix("data:")).filter(|_| is_stream);
    for text in texts.chain((!is_stream).then_some(text)).map(str::trim).filter(|text| text.starts_with('{')) {
        // Other texts have no facts.
        // The error of a job is what was asked for.
        let is_asked = matches!(call, PassedCall::Background | PassedCall::Stored);
        if facts(text, &mut chunk) == Ok(true) && !is_asked {
            return Frame::Error { data: Cow::Borrowed(text.as_bytes()), usage: chunk.usage };
        }
    }
    Frame::Chunk(chunk)
}

/// Whether a body is the text of a stream.
pub fn is_stream(text: &str) -> bool {
    ["data:", "event:", ":"].iter().any(|start| text.trim_start().starts_with(start))
}

fn chunk_of(length: usize) -> Chunk<'static> {
    Chunk {
        payload: Some(Payload { kind: PayloadKind::Whole, chars: u32::try_from(length).unwrap_or(u32::MAX) }),
        finish_reason: Some(Cow::Borrowed("stop")),
        choices: 1,
        finished: 1,
        ..Chunk::default()
    }
}

/// Adds the facts of a JSON object to the chunk. True: it is an error.
fn facts<'a>(text: &'a str, chunk: &mut Chunk<'a>) -> Result<bool, InvalidJson> {
    let mut is_error = false;
    Json::new(text).object(members!(|json| {
        "usage" => chunk.usage = json.some()?.map(Cow::Borrowed).or(chunk.usage.take()),
        // Gemini's.
        "usageMetadata" => chunk.usage = json.some()?.map(Cow::Borrowed).or(chunk.usage.take()),
        // Ollama's count.
        "prompt_eval_count" => {
            chunk.usage = json.some()?.map(|count| Cow::Owned(format!("{{\"prompt_eval_count\":{count}}}")));
        },
        "service_tier" => chunk.tier = json.string_or_skip()?.map(ServiceTier::of_name),
        "cost" => chunk.cost = json.some()?.map(Cow::Borrowed),
        "model" => chunk.model = json.string_or_skip()?.and_then(unescape),
        "error" => is_error |= says_error(json.skip()?),
        // A token count is the answer, not the usage of the attempt.
    }))?;
    Ok(is_error)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn an_answer_of_any_format_is_passed_on_unless_it_is_an_error() {
        let read = |body: &[u8]| {
            let event = SseEvent { raw: Bytes::copy_from_slice(body) };
            match read_passed(&event, PassedCall::Moderation) {
                Frame::Chunk(chunk) => (
                    if chunk.payload.is_some() { "answer" } else { "empty" },
                    chunk.usage.unwrap_or_default().into_owned(),
                ),
                Frame::Error { data, .. } => ("error", String::from_utf8(data.into_owned()).unwrap()),
                other => panic!("{other:?}"),
            }
        };
        let (usage, error) = ("{\"input_tokens\":3}", "{\"type\":\"error\",\"error\":{\"message\":\"no\"}}");
        let stream = format!(
            "event: a\ndata: {{\"delta\":\"aa\"}}\n\ndata:{{\"text\":\"b\",\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
        );
        for (body, expected) in [
            (&b"\xff\xfb\x90ID3"[..], ("answer", "")),
            (b"{laughs} hello", ("answer", "")),
            (b"data", ("answer", "")),
            (b"", ("empty", "")),
            (b" \n", ("empty", "")),
            (format!(" {{\"text\":\"\",\"usage\":{usage}}}").as_bytes(), ("answer", usage)),
            (stream.as_bytes(), ("answer", usage)),
            (error.as_bytes(), ("error", error)),
            (format!(": hm\n\ndata: {error}\n\n").as_bytes(), ("error", error)),
        ] {
            let (kind, text) = read(body);
            assert_eq!((kind, text.as_str()), expected, "{}", String::from_utf8_lossy(body));
        }
    }
}
