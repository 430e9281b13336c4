//! The property of answers: for every upstream dialect and every surface, streamed, whole from a stream, and whole from a
//! whole, a client's own parser gets what the model said. Answers, the order of their pieces and the ways to number calls
//! are by chance, from a seed. It compares with the truth that made the stream, not with the crate's own readers.
//!
//! `PHOTOFINISH_CASES=100000` runs more, `PHOTOFINISH_SEED=7` one, `PHOTOFINISH_TALLY=1` prints a table of all failures.

mod broken;
mod client;
mod long;
mod names;
mod truth;
mod upstream;

use photofinish_dialects::SurfaceFormat as _;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use serde_json::Value;

use client::Answer;
use truth::{Call, Truth};
use upstream::{KnownId, KnownOrder};

use crate::request::ApiRequest;
use crate::translate::request::RequestTranslation;
use crate::translate::response::ResponseTranslation;
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::quirks::{RequestChanges, TranslationOptions};
use photofinish_wire::stream::frame::Frame;
use photofinish_wire::stream::framing::Framing;
use photofinish_wire::stream::sse::SseEvent;
use photofinish_wire::stream::template::Template;

/// Cases of `cargo test`.
const CASES: u64 = 1_000;
const SURFACES: [Surface; 5] =
    [Surface::Chat, Surface::Responses, Surface::Messages, Surface::Gemini, Surface::OllamaChat];
/// In turn. Chat has the most ways to write a call.
const DIALECTS: [Dialect; 8] = [
    Dialect::OpenAi,
    Dialect::Responses,
    Dialect::OpenAi,
    Dialect::Anthropic,
    Dialect::Gemini,
    Dialect::OpenAi,
    Dialect::Bedrock,
    Dialect::Ollama,
];

/// How a client gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Streamed,
    /// Put together from a stream.
    Raced,
    /// From the upstream's whole answer.
    Alone,
}

fn events(framing: Framing, bytes: &Bytes) -> Vec<SseEvent> {
    let mut decoder = framing.decoder(usize::MAX);
    decoder.push(bytes.clone());
    std::iter::from_fn(|| decoder.next_event().unwrap().or_else(|| decoder.finish())).collect()
}

fn translation(surface: Surface, dialect: Dialect) -> ResponseTranslation {
    let body = match surface {
        Surface::Responses => r#"{"model":"m","input":"x"}"#,
        Surface::Gemini => r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}]}"#,
        _ => r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#,
    };
    let options = TranslationOptions::of_model(dialect, "m");
    ResponseTranslation::new(&requested(surface, body, dialect, &options), "m", true)
}

fn requested(surface: Surface, body: &str, dialect: Dialect, options: &TranslationOptions) -> RequestTranslation {
    if surface.dialect() == dialect {
        let request = ApiRequest::written(surface, Bytes::from(body.to_owned())).unwrap();
        let untouched = RequestTranslation::untouched(request.into());
        return untouched.own_dialect(options, &RequestChanges::default()).unwrap_or(untouched);
    }
    let conversation = surface.conversation(body.as_bytes()).unwrap();
    RequestTranslation::translated(surface, &conversation, dialect, options).unwrap()
}

/// What a client that streams gets, as an attempt of the gateway makes it.
///
/// # Errors
/// The answer is broken, or an event cannot be read.
fn delivered(translation: &mut ResponseTranslation, stream: &Bytes) -> Result<Bytes, String> {
    let (mut out, mut done, mut template) = (BytesMut::new(), false, None::<Template>);
    for event in events(translation.framing(), stream) {
        let event = SseEvent { raw: translation.named(event.raw) };
        if done {
            out.extend_from_slice(&translation.pass_behind(event));
            continue;
        }
        let more = template.as_ref().and_then(|template| template.fits(&event));
        if let Some(more) = more {
            if more.calls {
                translation.check_more(std::str::from_utf8(&event.raw[more.at]).unwrap());
            }
        } else {
            match translation.read(&event) {
                Frame::KeepAlive => {}
                Frame::Chunk(chunk) => {
                    translation.check(&event, &chunk);
                    template = if chunk.payload.is_some() { Template::learn(&event, &chunk) } else { template };
                }
                Frame::Done(chunk) => {
                    done = true;
                    translation.check(&event, &chunk);
                }
                other => return Err(format!("{other:?}")),
            }
        }
        out.extend_from_slice(&translation.pass(event));
        if translation.is_broken() || translation.is_overfull() {
            return Err("broken".to_owned());
        }
    }
    translation.end_calls();
    if translation.is_broken() {
        return Err("broken at its end".to_owned());
    }
    if !done || translation.is_translated() {
        out.extend_from_slice(&translation.ending());
    }
    Ok(out.freeze())
}

/// The whole answer that is made from what was delivered. The only place that knows how.
fn whole_of(surface: Surface, delivered: &Bytes) -> Result<Bytes, String> {
    let mut assembly = surface.growing();
    for event in events(surface.framing(), delivered) {
        if !assembly.add(&event) {
            return Err("an event cannot be put together with the others".to_owned());
        }
    }
    assembly.finish().map(|whole| whole.body).ok_or("no whole answer".to_owned())
}

/// Streamed and raced, from a stream; and alone, from a whole answer, if there is one.
fn answers(
    surface: Surface,
    dialect: Dialect,
    translation: impl Fn() -> ResponseTranslation,
    stream: &Bytes,
    whole: Option<&Bytes>,
) -> Vec<(Way, Result<Answer, String>)> {
    let native = surface.dialect() == dialect;
    let streamed = delivered(&mut translation(), stream);
    let raced = streamed.clone().and_then(|bytes| whole_of(surface, &bytes));
    let mut all = vec![
        (Way::Streamed, streamed.and_then(|bytes| client::streamed(surface, &bytes, native))),
        (Way::Raced, raced.and_then(|body| client::whole(surface, &body))),
    ];
    if let Some(whole) = whole {
        let mut translation = translation();
        let whole = translation.named(whole.clone());
        let events = translation.events_of_whole(&whole, "application/json").map_err(|_| "no answer".to_owned());
        let alone = events.and_then(|events| delivered(&mut translation, &events));
        let body = alone.and_then(|bytes| whole_of(surface, &bytes));
        all.push((Way::Alone, body.and_then(|body| client::whole(surface, &body))));
    }
    all
}

/// What differs between what was sent and an answer. None: nothing.
fn difference(truth: &Truth, known: &KnownOrder, surface: Surface, got: &Answer) -> Option<&'static str> {
    let is_of =
        |call: &Call, (_, name, arguments): &(String, String, Value)| call.name == *name && call.value() == *arguments;
    let mut calls: Vec<_> = got.calls.iter().collect();
    // The call of each one that was sent, which is taken.
    let mut take = |at: usize, call: &Call| {
        let id = known.ids[at];
        let is_it = |(id_got, ..): &(String, String, Value)| id != KnownId::Known || *id_got == call.id;
        let of_id = calls.iter().position(|got| is_of(call, got) && is_it(got));
        let found = of_id.or(calls.iter().position(|got| is_of(call, got)));
        let found = if known.in_order { (!calls.is_empty() && is_of(call, calls[0])).then_some(0) } else { found };
        found.map(|at| calls.remove(at))
    };
    let taken: Option<Vec<_>> = truth.calls.iter().enumerate().map(|(at, call)| take(at, call)).collect();
    let same_calls = taken.is_some() && calls.is_empty();
    // Gemini and Ollama know calls without ids.
    let needs_ids = !matches!(surface, Surface::Gemini | Surface::OllamaChat);
    let is_apart = |id: &str| !id.is_empty() && got.calls.iter().filter(|(other, ..)| other == id).count() == 1;
    let same_ids = taken.into_iter().flatten().enumerate().all(|(at, (id, ..))| match known.ids[at] {
        KnownId::Known => *id == truth.calls[at].id,
        KnownId::Late | KnownId::Never => !needs_ids || is_apart(id),
    });
    let is_same = [
        ("text", got.text == truth.text.concat()),
        ("reasoning", got.reasoning == truth.reasoning.concat()),
        ("images", got.images == truth.images),
        ("calls", same_calls),
        ("finish", got.finish == truth.finish),
        ("usage", got.usage == truth.usage),
        ("ids", same_ids),
    ];
    is_same.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

#[derive(Default)]
struct Tally {
    cells: BTreeMap<(String, String, Way), (usize, usize)>,
    forms: BTreeMap<(String, &'static str, Way), (usize, usize)>,
    /// Failures by dialect, way and difference.
    differences: BTreeMap<(String, Way, String), usize>,
    /// Whether only to count: else the failures are described.
    counts_only: bool,
    failures: Vec<String>,
}

impl Tally {
    fn case(&mut self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let dialect = DIALECTS[usize::try_from(seed % DIALECTS.len() as u64).unwrap()];
        let truth = Truth::by_chance(&mut rng, upstream::has_images(dialect));
        let written = upstream::stream(dialect, &truth, true, &mut rng);
        let whole = upstream::whole(dialect, &truth, &mut rng);
        for surface in SURFACES {
            for (way, got) in answers(surface, dialect, || translation(surface, dialect), &written.bytes, Some(&whole))
            {
                if way == Way::Streamed && surface.dialect() == dialect && !written.plain {
                    // Its bytes pass unchanged.
                    continue;
                }
                let known = if way == Way::Alone { &KnownOrder::all(&truth) } else { &written.known };
                let wrong = match &got {
                    Ok(got) => difference(&truth, known, surface, got),
                    Err(error) => Some(error.split(':').next().unwrap_or_default()),
                };
                self.count(surface, dialect, way, written.form, wrong);
                if let Some(wrong) = wrong.filter(|_| !self.counts_only && self.failures.len() < 5) {
                    let place =
                        format!("seed {seed}: {surface:?} over {dialect:?}, {way:?}, {}: {wrong}", written.form);
                    let sent = if way == Way::Alone { &whole } else { &written.bytes };
                    self.failures.push(format!("{place}\n{}\nexpected {truth:#?}\ngot {got:#?}", shown(sent)));
                }
            }
        }
    }

    fn count(&mut self, surface: Surface, dialect: Dialect, way: Way, form: &'static str, wrong: Option<&str>) {
        let (surface, dialect) = (format!("{surface:?}"), format!("{dialect:?}"));
        let forms = (way != Way::Alone).then(|| self.forms.entry((dialect.clone(), form, way)).or_default());
        let cell = self.cells.entry((dialect.clone(), surface, way)).or_default();
        for (failed, all) in forms.into_iter().chain([cell]) {
            *all += 1;
            *failed += usize::from(wrong.is_some());
        }
        if let Some(wrong) = wrong {
            *self.differences.entry((dialect, way, wrong.to_owned())).or_default() += 1;
        }
    }

    fn table(&self) -> String {
        let mut out = String::new();
        for ((dialect, surface, way), (failed, all)) in &self.cells {
            writeln!(out, "{dialect:10} {surface:10} {:9} {failed:6} of {all}", format!("{way:?}")).unwrap();
        }
        for ((dialect, form, way), (failed, all)) in &self.forms {
            writeln!(out, "{dialect:10} {form:22} {:9} {failed:6} of {all}", format!("{way:?}")).unwrap();
        }
        for ((dialect, way, what), failed) in &self.differences {
            writeln!(out, "{dialect:10} {what:22} {:9} {failed:6}", format!("{way:?}")).unwrap();
        }
        out
    }
}

/// A stream for people: frames as far as they are text.
fn shown(stream: &Bytes) -> String {
    String::from_utf8_lossy(stream).replace(|c: char| c.is_control() && c != '\n', "·")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is for whoever asked for it")]
fn every_client_gets_what_the_model_said_in_whatever_order_it_came() {
    let mut tally = Tally { counts_only: number("PHOTOFINISH_TALLY").is_some(), ..Tally::default() };
    match number("PHOTOFINISH_SEED") {
        Some(seed) => tally.case(seed),
        None => (0..number("PHOTOFINISH_CASES").unwrap_or(CASES)).for_each(|seed| tally.case(seed)),
    }
    if tally.counts_only {
        return println!("{}", tally.table());
    }
    assert!(tally.failures.is_empty(), "{}\n{}", tally.failures.join("\n\n"), tally.table());
}
