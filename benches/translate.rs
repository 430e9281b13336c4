//! The cost of translation: an event of a stream from one dialect to another surface, and a request. Not for streams that pass
//! unchanged: see `stream`.

#![expect(clippy::expect_used, reason = "a measurement of something broken must not go on")]

mod sample;

use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;
use std::hint::black_box;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use photofinish_wire::stream::sse::SseScanner;
use photofinish_wire::{Dialect, Losses, SseEvent, Surface, TranslationOptions};

/// Text events of one stream.
const TOKENS: usize = 400;
const EVENT_MAX: usize = 1 << 20;

/// Anthropic's events: the beginning of a stream, and one text event.
const MESSAGES_START: [&str; 2] = [
    concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","#,
        r#""model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":null,"stop_sequence":null,"#,
        r#""usage":{"input_tokens":19,"output_tokens":1}}}"#,
        "\n\n"
    ),
    concat!(
        "event: content_block_start\n",
        r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        "\n\n"
    ),
];
const MESSAGES_TEXT: &str = concat!(
    "event: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" wonderful"}}"#,
    "\n\n"
);
const GEMINI_TEXT: &str = concat!(
    r#"data: {"candidates":[{"content":{"parts":[{"text":" wonderful"}],"role":"model"},"index":0}],"#,
    r#""usageMetadata":{"promptTokenCount":19,"candidatesTokenCount":7,"totalTokenCount":26,"#,
    r#""promptTokensDetails":[{"modality":"TEXT","tokenCount":19}]},"modelVersion":"gemini-2.5-flash","#,
    r#""responseId":"k3SJaJ6fEbWDkdUPzqCTmQc"}"#,
    "\n\n"
);

fn stream(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("translate");
    let chat = sample::stream(TOKENS);
    let other = |start: &[&'static str], text: &'static str| {
        let texts = start.iter().copied().chain(std::iter::repeat_n(text, TOKENS));
        texts.map(|event| Bytes::from_static(event.as_bytes())).collect::<Vec<_>>()
    };
    let kinds = [
        ("chat to messages", Dialect::OpenAi, Surface::Messages, &chat),
        ("chat to responses", Dialect::OpenAi, Surface::Responses, &chat),
        ("messages to chat", Dialect::Anthropic, Surface::Chat, &other(&MESSAGES_START, MESSAGES_TEXT)),
        ("gemini to chat", Dialect::Gemini, Surface::Chat, &other(&[], GEMINI_TEXT)),
    ];
    for (name, dialect, surface, stream) in kinds {
        let mut scanner = SseScanner::new(EVENT_MAX);
        let mut events = Vec::new();
        for read in sample::reads(stream, 16 << 10) {
            scanner.push(read);
            events.extend(std::iter::from_fn(|| scanner.next_event().expect("events within the bound")));
        }
        group.throughput(Throughput::Elements(events.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| translate(dialect, surface, black_box(&events))));
    }
    group.finish();
}

fn translate(dialect: Dialect, surface: Surface, events: &[SseEvent]) -> BytesMut {
    let (mut reader, mut writer) =
        (dialect.reader(), surface.writer("model", true, false, false, &std::sync::Arc::default()));
    let (mut pieces, mut out) = (Vec::new(), BytesMut::new());
    for event in events {
        reader.read(event, &mut pieces);
        pieces.drain(..).for_each(|piece| writer.write(piece, &mut out));
    }
    out
}

fn request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("translate a request");
    for (name, size) in [("1kB", 1 << 10), ("1MB", 1 << 20)] {
        let body = body(size);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("read chat, {name}"), |bencher| {
            bencher.iter(|| Surface::Chat.conversation(black_box(body.as_bytes())));
        });
        let conversation = Surface::Chat.conversation(body.as_bytes()).expect("a valid request");
        let options = TranslationOptions { model: "model".to_owned(), ..TranslationOptions::default() };
        for dialect in Dialect::ALL {
            group.bench_function(format!("write {}, {name}", dialect.as_str()), |bencher| {
                bencher
                    .iter(|| dialect.request(black_box(&conversation), &options, &mut Losses::default()).to_string());
            });
        }
    }
    group.finish();
}

/// A chat request with tools, calls and an image of about this size.
fn body(size: usize) -> String {
    let image = "QUJD".repeat(size / 4);
    format!(
        r#"{{"model":"demo","stream":true,"temperature":0.2,"tools":[{{"type":"function","function":{{"name":"weather","parameters":
        {{"type":"object","properties":{{"city":{{"type":"string"}}}},"required":["city"]}}}}}}],"messages":[
        {{"role":"system","content":"You are brief."}},
        {{"role":"user","content":[{{"type":"text","text":"Where is this, and how is the weather there?"}},
        {{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}},
        {{"role":"assistant","content":null,"tool_calls":[{{"id":"call_1","type":"function","function":
        {{"name":"weather","arguments":"{{\"city\":\"Paris\"}}"}}}}]}},
        {{"role":"tool","tool_call_id":"call_1","content":"18 degrees, light rain"}}]}}"#
    )
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = stream, request
}
criterion_main!(benches);
