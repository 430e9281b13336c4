//! The cost of the gateway's own work: an event of a stream, a request's body, a plan. Not for sockets: see
//! `examples/load`.

#![expect(clippy::expect_used, reason = "a measurement of something broken must not go on")]

mod sample;

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use photofinish_config::parse;
use photofinish_dialects::openai;
use photofinish_routing::policy::plan::{PlannedStart, RacePlan};
use photofinish_translation::ApiRequest;
use photofinish_wire::stream::sse::SseScanner;
use photofinish_wire::{AnswerForm, SseEvent, Surface};

/// Text events of one stream.
const TOKENS: usize = 400;
const EVENT_MAX: usize = 1 << 20;

fn stream(criterion: &mut Criterion) {
    let events = sample::stream(TOKENS);
    let mut group = criterion.benchmark_group("stream");
    group.throughput(Throughput::Elements(events.len() as u64));
    for (cut, reads) in [("event", events.clone()), ("16k", sample::reads(&events, 16 << 10))] {
        group.bench_function(format!("scan, {cut} per read"), |bencher| {
            bencher.iter(|| each_event(&reads, |event| drop(black_box(event))));
        });
        group.bench_function(format!("scan and read, {cut} per read"), |bencher| {
            bencher.iter(|| each_event(&reads, |event| drop(black_box(openai::read(&event)))));
        });
    }
    group.finish();
}

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    let kinds = [
        ("role", sample::ROLE),
        ("text", sample::TEXT),
        ("tool", sample::TOOL),
        ("finish", sample::FINISH),
        ("usage", sample::USAGE),
        ("done", sample::DONE),
    ];
    for (name, text) in kinds {
        let event = SseEvent { raw: Bytes::from_static(text.as_bytes()) };
        group.bench_function(name, |bencher| bencher.iter(|| drop(black_box(openai::read(black_box(&event))))));
    }
    group.finish();
}

fn request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request");
    for (name, size) in [("1kB", 1 << 10), ("1MB", 1 << 20)] {
        let content = "QUJD".repeat(size / 4);
        let body = format!(
            r#"{{"model":"demo","stream":true,"temperature":0.2,"messages":[{{"role":"user","content":"{content}"}}]}}"#
        );
        let body = Bytes::from(body);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("parse, {name}"), |bencher| {
            bencher.iter(|| ApiRequest::parse(Surface::Chat, black_box(body.clone())));
        });
        let request = ApiRequest::parse(Surface::Chat, body).expect("a valid request");
        group.bench_function(format!("body for an upstream, {name}"), |bencher| {
            bencher.iter(|| request.body_for(black_box("llama-3.3-70b-versatile"), AnswerForm::WithUsage));
        });
    }
    group.finish();
}

fn planning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    let second = Duration::from_secs(1);
    let config = parse("", Path::new("config.toml"), &|_| None).expect("the defaults");
    let entries: Vec<PlannedStart> = (0..4).map(|candidate| PlannedStart::listed(candidate, second, false)).collect();
    group.bench_function("listed", |bencher| {
        bencher.iter(|| RacePlan::listed(black_box(&config.race), black_box(&entries).clone()));
    });
    group.finish();
}

fn each_event(reads: &[Bytes], mut seen: impl FnMut(SseEvent)) {
    let mut scanner = SseScanner::new(EVENT_MAX);
    for read in reads {
        scanner.push(read.clone());
        while let Some(event) = scanner.next_event().expect("events within the bound") {
            seen(event);
        }
    }
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
    targets = stream, read, request, planning
}
criterion_main!(benches);
