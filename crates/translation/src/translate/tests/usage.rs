//! One usage everywhere: the row of an attempt and the client's answer on every surface, streamed or whole, have the same
//! numbers, whatever dialect the upstream speaks.

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::{AnswerPiece, ReadPieces};
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::stream::binary::sample::event;
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::service_tier::ServiceTier;
use photofinish_wire::stream::sse::SseEvent;

/// Input, of it read from a cache; output, of it reasoning.
type Counts = [i64; 4];

fn frame(name: &str, payload: &str) -> Bytes {
    event(name, payload).raw
}

fn counts(usage: &Usage) -> Counts {
    [usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.reasoning_tokens]
        .map(Option::unwrap_or_default)
}

const TEXT: &str = r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// The data of an upstream's events: its name, its dialect, its events, and what it used.
const STREAMS: &[(&str, Dialect, &[&str], Counts)] = &[
    (
        "xAI",
        Dialect::OpenAi,
        &[
            TEXT,
            STOP,
            r#"{"choices":[],"usage":{"prompt_tokens":37,"completion_tokens":530,"total_tokens":887,"completion_tokens_details":{"reasoning_tokens":320}}}"#,
            "[DONE]",
        ],
        [37, 0, 850, 320],
    ),
    (
        "usage in every chunk, zeros first, details only once",
        Dialect::OpenAi,
        &[
            r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            STOP,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}"#,
            "[DONE]",
        ],
        [9, 4, 7, 0],
    ),
    (
        "llama.cpp, which times every chunk",
        Dialect::OpenAi,
        &[
            r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}],"timings":{"cache_n":4,"prompt_n":5,"predicted_n":1}}"#,
            STOP,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16},"timings":{"cache_n":4,"prompt_n":5,"predicted_n":8}}"#,
            "[DONE]",
        ],
        [9, 4, 7, 0],
    ),
    (
        "an estimate, then the truth",
        Dialect::Anthropic,
        &[
            r#"{"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":18000,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":900,"cache_read_input_tokens":14000,"output_tokens":50}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        [14_900, 14_000, 50, 0],
    ),
    (
        "a prompt that is counted at the start alone",
        Dialect::Anthropic,
        &[
            r#"{"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":9,"cache_read_input_tokens":200,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":50,"output_tokens_details":{"thinking_tokens":20}}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        [209, 200, 50, 20],
    ),
    (
        "Gemini, whose thoughts come first",
        Dialect::Gemini,
        &[
            r#"{"responseId":"r","modelVersion":"m","candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":8,"thoughtsTokenCount":447}}"#,
            r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":122,"totalTokenCount":577}}"#,
        ],
        [8, 0, 569, 447],
    ),
    (
        "xAI in Responses",
        Dialect::Responses,
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"hi"}"#,
            r#"{"type":"response.completed","response":{"id":"r","model":"m","usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":3},"output_tokens":530,"output_tokens_details":{"reasoning_tokens":320},"total_tokens":887}}}"#,
        ],
        [37, 3, 850, 320],
    ),
];

fn sse(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// The same with whole events, and those that are not server-sent.
fn answers() -> Vec<(&'static str, Dialect, Vec<Bytes>, Counts)> {
    let streams = STREAMS.iter();
    let streams = streams
        .map(|(name, dialect, data, counts)| (*name, *dialect, data.iter().map(|data| sse(data)).collect(), *counts));
    let others = [
        (
            "Bedrock with the cache in its input",
            Dialect::Bedrock,
            vec![
                frame("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"hi"}}"#),
                frame("messageStop", r#"{"stopReason":"end_turn"}"#),
                frame(
                    "metadata",
                    r#"{"usage":{"inputTokens":310,"outputTokens":4,"totalTokens":314,"cacheReadInputTokens":200}}"#,
                ),
            ],
            [310, 200, 4, 0],
        ),
        (
            "Ollama",
            Dialect::Ollama,
            vec![
                Bytes::from("{\"model\":\"m\",\"message\":{\"content\":\"hi\"},\"done\":false}\n"),
                Bytes::from(
                    "{\"model\":\"m\",\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":26,\"eval_count\":298}\n",
                ),
            ],
            [26, 0, 298, 0],
        ),
    ];
    streams.chain(others).collect()
}

/// As the meter adds it up.
fn metered(dialect: Dialect, events: &[Bytes]) -> Usage {
    let mut usage = Usage::default();
    for raw in events {
        let event = SseEvent { raw: raw.clone() };
        let (Frame::Chunk(chunk) | Frame::Done(chunk)) = dialect.read(Surface::Chat, &event) else { panic!("{raw:?}") };
        chunk.timings.iter().for_each(|json| usage.add_timings(json));
        chunk.usage.iter().for_each(|json| usage.add(json));
        usage.tier = chunk.tier.or(usage.tier);
    }
    usage
}

/// As a client of this surface reads it.
fn usage_read(surface: Surface, answer: Bytes) -> Usage {
    let mut scanner = surface.framing().decoder(usize::MAX);
    scanner.push(answer);
    let (mut reader, mut pieces) = (surface.dialect().reader(), Vec::new());
    while let Ok(Some(event)) = scanner.next_event() {
        reader.read(&event, &mut pieces);
    }
    scanner.finish().iter().for_each(|event| reader.read(event, &mut pieces));
    let mut usages = pieces.into_iter().filter_map(|piece| match piece {
        AnswerPiece::Usage(usage) => Some(usage),
        _ => None,
    });
    usages.next_back().unwrap_or_default()
}

fn translated(mut reader: Box<dyn ReadPieces>, events: &[Bytes], surface: Surface) -> Bytes {
    let (mut writer, mut out, mut pieces) =
        (surface.writer("m", true, false, false, &Arc::default()), BytesMut::new(), Vec::new());
    events.iter().for_each(|raw| reader.read(&SseEvent { raw: raw.clone() }, &mut pieces));
    pieces.into_iter().for_each(|piece| writer.write(piece, &mut out));
    writer.end(&mut out);
    out.freeze()
}

fn whole(surface: Surface, stream: &Bytes) -> Bytes {
    let (mut scanner, mut growing) = (surface.framing().decoder(usize::MAX), surface.growing());
    scanner.push(stream.clone());
    while let Ok(Some(event)) = scanner.next_event() {
        assert!(growing.add(&event), "{event:?}");
    }
    let body = growing.finish().unwrap().body;
    surface.dialect().events_of_whole(surface, &body).unwrap()
}

#[test]
fn the_row_and_every_client_see_the_same_usage() {
    for (answer, dialect, events, expected) in answers() {
        assert_eq!(counts(&metered(dialect, &events)), expected, "{answer}: row");
        for surface in Surface::TRANSLATED {
            let streamed = translated(dialect.reader(), &events, surface);
            // Ollama has no place for parts of its counts.
            let [input, cached, output, reasoning] = expected;
            let is_ollama = surface.dialect() == Dialect::Ollama;
            let expected = if is_ollama { [input, 0, output, 0] } else { [input, cached, output, reasoning] };
            assert_eq!(counts(&usage_read(surface, streamed.clone())), expected, "{answer}: {surface:?}");
            let whole = whole(surface, &streamed);
            assert_eq!(counts(&usage_read(surface, whole)), expected, "{answer}: {surface:?}, whole");
        }
    }
}

#[test]
fn the_tier_is_read_wherever_a_vendor_names_it() {
    let anthropic = |usage: &str| {
        sse(&format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"input_tokens":9,{usage}}}}}"#
        ))
    };
    let gemini = |more: &str| sse(&format!(r#"{{"candidates":[],"usageMetadata":{{"promptTokenCount":8,{more}}}}}"#));
    let bedrock = |tier: &str| {
        frame("metadata", &format!(r#"{{"usage":{{"inputTokens":1}},"serviceTier":{{"type":"{tier}"}}}}"#))
    };
    let chat = |tier: &str| sse(&format!(r#"{{"choices":[{{"index":0,"delta":{{}}}}],"service_tier":{tier}}}"#));
    for (dialect, events, expected) in [
        (Dialect::OpenAi, vec![chat("\"flex\"")], Some("flex")),
        (Dialect::OpenAi, vec![chat("\"fast\"")], Some("priority")),
        (Dialect::OpenAi, vec![chat("\"scale\"")], Some("reserved")),
        (Dialect::OpenAi, vec![chat("\"on_demand\"")], None),
        (Dialect::OpenAi, vec![chat("\"gold\"")], Some("other")),
        (Dialect::OpenAi, vec![chat("null")], None),
        // What was asked for, then what was given.
        (Dialect::OpenAi, vec![chat("\"priority\""), chat("\"default\"")], None),
        (
            Dialect::Responses,
            vec![
                sse(r#"{"type":"response.created","response":{"service_tier":"priority"}}"#),
                sse(r#"{"type":"response.completed","response":{"service_tier":"default"}}"#),
            ],
            None,
        ),
        (
            Dialect::Responses,
            vec![sse(r#"{"type":"response.completed","response":{"service_tier":"flex"}}"#)],
            Some("flex"),
        ),
        (Dialect::Anthropic, vec![anthropic(r#""service_tier":"standard""#)], None),
        (Dialect::Anthropic, vec![anthropic(r#""service_tier":"priority""#)], Some("reserved")),
        (Dialect::Anthropic, vec![anthropic(r#""service_tier":"standard","speed":"fast""#)], Some("fast")),
        (Dialect::Anthropic, vec![anthropic(r#""service_tier":"standard","inference_geo":"us""#)], Some("us")),
        (Dialect::Anthropic, vec![anthropic(r#""inference_geo":"not_available""#)], None),
        (Dialect::Gemini, vec![gemini(r#""trafficType":"ON_DEMAND""#)], None),
        (Dialect::Gemini, vec![gemini(r#""trafficType":"ON_DEMAND_FLEX""#)], Some("flex")),
        (Dialect::Gemini, vec![gemini(r#""trafficType":"PROVISIONED_THROUGHPUT""#)], Some("reserved")),
        (Dialect::Gemini, vec![gemini(r#""serviceTier":"priority""#)], Some("priority")),
        (Dialect::Bedrock, vec![bedrock("default")], None),
        (Dialect::Bedrock, vec![bedrock("flex")], Some("flex")),
    ] {
        assert_eq!(metered(dialect, &events).tier.and_then(ServiceTier::stored), expected, "{events:?}");
    }
}
