//! Translates an upstream's answer for the caller, event by event. Passes it through if the caller uses the same
//! dialect.

use bytes::{Bytes, BytesMut};
use photofinish_dialects::DialectFormat as _;
use photofinish_dialects::SurfaceFormat as _;

use crate::request::asked::{self, AskedAnswer, NoAnswer};
use crate::translate::request::RequestTranslation;
use photofinish_dialects::embeddings::EmbeddingForm;
use photofinish_dialects::responses;
use photofinish_wire::PayloadKind;
use photofinish_wire::answer::ends::End;
use photofinish_wire::answer::error::{self, ErrorFacts};
use photofinish_wire::answer::growing::ITEMS_MAX;
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::{
    AnswerCalls, AnswerPiece, Customs, NameRestorer, ReadPieces, SaidAnswer, WritePieces,
};
use photofinish_wire::dialect::{Dialect, Surface};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::stream::frame::{Chunk, Frame};
use photofinish_wire::stream::framing::{FrameDecoder, Framing};
use photofinish_wire::stream::mended;
use photofinish_wire::stream::sse::SseEvent;
use serde_json::Value;

/// The state of one attempt's answer: the called surface, the upstream's dialect, and the translation.
pub struct ResponseTranslation {
    surface: Surface,
    dialect: Dialect,
    legacy_functions: bool,
    /// Not every call that is read is written.
    leaves_calls_out: bool,
    /// Tools of an untranslated answer that went up under other names. None: none did.
    names: Option<NameRestorer>,
    /// None if the upstream speaks the caller's dialect, and for embeddings.
    translation: Option<AnswerTranslation>,
    /// How the answer of another dialect becomes the caller's, and the upstream's model.
    embedding: Option<(EmbeddingForm, String)>,
    /// What an untranslated answer that comes whole has to be.
    asked: AskedAnswer,
    /// The calls of an untranslated answer, from the first one on.
    calls: Option<Box<CallReader>>,
    /// What goes to the client in place of the untranslated event that was checked last.
    renumbered: Option<Bytes>,
    /// The first and the last event of an untranslated stream, which its error event needs (Responses). Shared, not
    /// copied.
    seen: Option<(SseEvent, SseEvent)>,
    /// Kept for those who judge it.
    said: Option<Box<SaidAnswer>>,
    keeps_calls: bool,
}

/// Reads the calls of an untranslated answer.
struct CallReader {
    reader: Box<dyn ReadPieces>,
    /// Reused for each event.
    pieces: Vec<AnswerPiece>,
}

struct AnswerTranslation {
    reader: Box<dyn ReadPieces>,
    writer: Box<dyn WritePieces>,
    customs: Customs,
    /// Reused for each event.
    pieces: Vec<AnswerPiece>,
    /// Calls and encrypted blocks of reasoning so far.
    items: usize,
    /// Bytes of events so far. Some writers hold text or arguments until the end.
    bytes: usize,
    ended: bool,
    /// All that was written: debug builds compare its calls with those that were read.
    #[cfg(debug_assertions)]
    written: BytesMut,
}

/// Maximum bytes of the events of a translated answer.
const TRANSLATED_MAX: usize = 64 << 20;

impl ResponseTranslation {
    /// `model` is used in a translated answer until the upstream names its own. `include_usage`: a chat client
    /// requested usage.
    pub fn new(request_translation: &RequestTranslation, model: &str, include_usage: bool) -> ResponseTranslation {
        let (surface, dialect) = (request_translation.surface(), request_translation.dialect());
        let legacy_functions = request_translation.legacy_functions;
        let compacts = request_translation.compacts;
        let is_conversation = request_translation.is_translated() && surface.is_translated();
        let customs = &request_translation.customs;
        let translation = is_conversation.then(|| AnswerTranslation {
            customs: match surface {
                Surface::Messages | Surface::OllamaChat | Surface::OllamaGenerate | Surface::Gemini => {
                    Customs::for_functions()
                }
                _ => Customs::new(customs.clone()),
            },
            reader: reader_with(
                dialect,
                kept_in_debug(AnswerCalls::taking_text(customs.clone(), request_translation.names.clone())),
            ),
            writer: surface.writer(model, include_usage, legacy_functions, compacts, &request_translation.echo),
            pieces: Vec::new(),
            items: 0,
            bytes: 0,
            ended: false,
            #[cfg(debug_assertions)]
            written: BytesMut::new(),
        });
        let embedding = request_translation.embedding.as_ref().map(|form| (form.clone(), model.to_owned()));
        ResponseTranslation {
            surface,
            dialect,
            legacy_functions,
            leaves_calls_out: legacy_functions || compacts,
            names: NameRestorer::of(&request_translation.names).filter(|_| !is_conversation),
            translation,
            embedding,
            asked: request_translation.asked_answer(),
            calls: None,
            renumbered: None,
            seen: None,
            said: None,
            keeps_calls: false,
        }
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    pub fn is_translated(&self) -> bool {
        self.translation.is_some()
    }

    /// The caller lists `functions`, so that its answer has a `function_call`.
    pub fn legacy_functions(&self) -> bool {
        self.legacy_functions
    }

    pub fn framing(&self) -> Framing {
        if self.surface.streams() { self.dialect.framing() } else { Framing::Whole }
    }

    /// The upstream's bytes, with the client's names of its tools: of an event, or of a whole answer that is not translated.
    pub fn named(&mut self, text: Bytes) -> Bytes {
        match &mut self.names {
            Some(names) => names.restored(&text),
            None => text,
        }
    }

    /// Holds at most `max` bytes.
    pub fn decoder(&self, max: usize) -> FrameDecoder {
        self.framing().decoder(max)
    }

    /// Classifies one event of the upstream.
    pub fn read<'a>(&self, event: &'a SseEvent) -> Frame<'a> {
        self.dialect.read(self.surface, event)
    }

    /// Turns a whole answer of the upstream into the bytes of a stream.
    ///
    /// # Errors
    /// The body is not the answer to the request.
    pub fn events_of_whole(&self, body: &Bytes, content_type: &str) -> Result<Bytes, NoAnswer> {
        if let Some((form, model)) = &self.embedding {
            return form.answer(body, model).map_err(|why| Some(why).filter(|_| !asked::is_error(body)));
        }
        if !self.surface.streams() {
            return self.asked.answer(self.surface, body, content_type);
        }
        let events = |body: &[u8]| self.dialect.events_of_whole(self.surface, body);
        events(body).or_else(|| events(mended::mended_json(body)?.as_bytes())).ok_or(None)
    }

    /// The events of a whole answer that came as one event, without the mark that ends a stream: more may follow.
    pub fn events_in(&self, event: &SseEvent) -> Vec<SseEvent> {
        let data = mended::data(self.framing(), event).unwrap_or_default();
        let events = self.dialect.events_of_whole(self.surface, &data).unwrap_or_default();
        let mut decoder = self.decoder(usize::MAX);
        decoder.push(events);
        let events = std::iter::from_fn(|| decoder.next_event().ok().flatten());
        events.filter(|event| event.fields().data.as_deref() != Some(b"[DONE]")).collect()
    }

    /// An event that cannot be read, as valid JSON: see `mended`.
    pub fn mended(&self, event: &SseEvent) -> Option<SseEvent> {
        mended::mended(self.framing(), event)
    }

    /// A server-sent event that lacks its `data:` line, with one.
    pub fn framed(&self, event: &SseEvent) -> Option<SseEvent> {
        mended::framed(self.framing(), event)
    }

    /// Whether an event that cannot be read cannot have carried a part of the answer.
    pub fn is_noise(&self, event: &SseEvent) -> bool {
        mended::is_noise(self.framing(), event)
    }

    /// The failure of an answer that this event ends with a word for a broken one.
    pub fn broken_off(&self, event: &SseEvent, chunk: &Chunk<'_>) -> Option<ErrorFacts> {
        let reason = chunk.finish_reason.as_deref().filter(|reason| End::of(reason) == End::BrokenOff)?;
        Some(error::of_end(reason, &mended::data(self.framing(), event).unwrap_or_default()))
    }

    /// The name of another dialect that this body is written in, if it is not of the upstream's.
    pub fn of_another(&self, body: &[u8]) -> Option<&'static str> {
        self.dialect.of_another(body)
    }

    /// The bytes for the caller. May be empty.
    pub fn pass(&mut self, event: SseEvent) -> Bytes {
        let Some(translation) = &mut self.translation else {
            self.remember(&event);
            return self.renumbered.take().unwrap_or(event.raw);
        };
        let mut out = BytesMut::new();
        translation.event(&event, self.said.as_deref_mut(), &mut out);
        #[cfg(debug_assertions)]
        translation.written.extend_from_slice(&out);
        out.freeze()
    }

    /// The bytes for the caller of an event after the end: only usage for a translated answer, everything for others.
    pub fn pass_behind(&mut self, event: SseEvent) -> Bytes {
        let Some(translation) = &mut self.translation else { return event.raw };
        let mut out = BytesMut::new();
        translation.usage(&event, &mut out);
        out.freeze()
    }

    /// Checks the calls in an event of an untranslated answer. `chunk` is the result of reading the event. Events that
    /// cannot concern a call are not parsed again.
    pub fn check(&mut self, event: &SseEvent, chunk: &Chunk<'_>) {
        self.renumbered = None;
        let may_concern_call = chunk.payload.is_none_or(|payload| payload.kind == PayloadKind::Tool);
        let concerns_call = chunk.calls || (self.calls.is_some() && (chunk.finished != 0 || may_concern_call));
        let keeps_text = self.said.as_ref().is_some_and(|said| said.keeps_text());
        if self.translation.is_some() || !(concerns_call || keeps_text) {
            return;
        }
        let (dialect, keeps) = (self.dialect, self.keeps_calls);
        let fresh = || {
            let mut calls = calls_of(dialect, keeps);
            if dialect == Dialect::OpenAi {
                calls.tell_numbers();
            }
            calls
        };
        let reads = || Box::new(CallReader { reader: reader_with(dialect, fresh()), pieces: Vec::new() });
        let calls = self.calls.get_or_insert_with(reads);
        calls.reader.read(event, &mut calls.pieces);
        self.renumbered = renumbered(event, &calls.reader.calls().take_numbers());
        for piece in calls.pieces.drain(..) {
            // A second start means that the server started again. The vendor's own clients discard the earlier content.
            if dialect == Dialect::Anthropic && matches!(piece, AnswerPiece::Start { id: Some(_), .. }) {
                *calls.reader.calls() = fresh();
                self.said.iter_mut().for_each(|said| said.restart());
            }
            self.said.iter_mut().for_each(|said| said.add(&piece));
        }
    }

    /// An untranslated event has only more arguments of the call that came last.
    pub fn check_more(&mut self, quoted: &str) {
        let Some(calls) = &mut self.calls else { return };
        let grown = calls.reader.calls().add_quoted(quoted);
        if let Some((said, call)) = self.said.as_mut().zip(grown) {
            said.add_quoted_arguments(call, quoted);
        }
    }

    /// An untranslated event has only more text of the choice that came last.
    pub fn more_text(&mut self, quoted: &str) {
        if let Some(said) = self.said.as_mut().filter(|said| said.keeps_text()) {
            said.add_quoted_text(quoted);
        }
    }

    /// From now on it keeps what the answer says.
    pub fn keep(&mut self, said: SaidAnswer) {
        self.said = Some(Box::new(said));
    }

    /// What it kept.
    pub fn said(&mut self) -> &mut Option<Box<SaidAnswer>> {
        &mut self.said
    }

    /// The stream has ended, with or without a finish reason. Calls that are incomplete now stay so.
    pub fn end_calls(&mut self) {
        if let Some(CallReader { reader, pieces }) = self.calls.as_deref_mut() {
            reader.calls().end(pieces);
            let drained = pieces.drain(..);
            drained.for_each(|piece| self.said.iter_mut().for_each(|said| said.add(&piece)));
        }
        if let Some(translation) = &mut self.translation {
            translation.reader.calls().end(&mut translation.pieces);
        }
    }

    /// Whether the answer has calls that could be incomplete.
    pub fn has_calls(&mut self) -> bool {
        let items = self.translation.as_ref().map_or(0, |translation| translation.items);
        items > 0 || self.calls.is_some() || self.read_calls().is_some_and(|calls| !calls.is_empty())
    }

    /// A call cannot be separated for sure, or has arguments that are not a JSON object, and no token limit explains it.
    pub fn is_broken(&mut self) -> bool {
        self.read_calls().is_some_and(|calls| calls.is_broken())
    }

    /// Whether the answer exceeds the bound on items, or the bound on bytes of a translated answer. A translated answer
    /// omits everything beyond them.
    pub fn is_overfull(&mut self) -> bool {
        self.translation.as_ref().is_some_and(AnswerTranslation::is_overfull)
            || self.read_calls().is_some_and(|calls| calls.len() > ITEMS_MAX)
    }

    fn read_calls(&mut self) -> Option<&mut AnswerCalls> {
        let of_translation = self.translation.as_mut().map(|translation| translation.reader.calls());
        of_translation.or(self.calls.as_mut().map(|calls| calls.reader.calls()))
    }

    /// Keeps the arguments of calls, so that a whole answer can be compared with them.
    pub fn keep_calls(&mut self) {
        self.keeps_calls = true;
        self.read_calls().into_iter().for_each(AnswerCalls::keep);
    }

    /// Whether a whole answer for the caller has the calls that were read.
    pub fn agrees_with(&mut self, whole: &[u8]) -> bool {
        let surface = self.surface;
        // A client of `functions` gets the first call alone.
        let is_compared = self.keeps_calls && !self.leaves_calls_out;
        let Some(read) = self.read_calls().filter(|calls| is_compared && !calls.is_empty()) else { return true };
        let events = surface.dialect().events_of_whole(surface, whole).unwrap_or_default();
        read.agree(&written_calls(surface, events))
    }

    /// The event that ends a broken stream, continuing from the events that were passed.
    pub fn error_event(&mut self, error: &ErrorShape<'_>) -> Bytes {
        let written = self.translation.as_mut().and_then(|translation| translation.writer.error_event(error));
        match (written, &self.seen) {
            (Some(written), _) => written,
            (None, Some((first, last))) => responses::error_event_behind(first, last, error),
            (None, None) => self.surface.error_event(error),
        }
    }

    fn remember(&mut self, event: &SseEvent) {
        // Comments have no sequence number.
        if self.surface != Surface::Responses || event.raw.starts_with(b":") {
            return;
        }
        let event = SseEvent { raw: event.raw.clone() };
        match &mut self.seen {
            Some((_, last)) => *last = event,
            None => self.seen = Some((SseEvent { raw: event.raw.clone() }, event)),
        }
    }

    /// Ends a complete answer whose own end is missing. Empty if the end was already written.
    pub fn ending(&mut self) -> Bytes {
        let Some(translation) = &mut self.translation else { return Bytes::from_static(self.surface.ending()) };
        let mut out = BytesMut::new();
        translation.end(&mut out);
        #[cfg(debug_assertions)]
        translation.check_written(self.surface, self.leaves_calls_out, &out);
        out.freeze()
    }
}

impl AnswerTranslation {
    fn is_overfull(&self) -> bool {
        self.items > ITEMS_MAX || self.bytes > TRANSLATED_MAX
    }

    fn event(&mut self, event: &SseEvent, mut said: Option<&mut SaidAnswer>, out: &mut BytesMut) {
        self.bytes += event.raw.len();
        self.reader.read(event, &mut self.pieces);
        for piece in &self.pieces {
            said.iter_mut().for_each(|said| said.add(piece));
        }
        self.write(out);
    }

    /// Writes the pieces that were read.
    fn write(&mut self, out: &mut BytesMut) {
        if self.reader.calls().is_broken() || self.is_overfull() {
            // No part of it may look like an end.
            self.pieces.clear();
        }
        for piece in self.pieces.drain(..) {
            self.items += usize::from(matches!(
                piece,
                AnswerPiece::Call { .. } | AnswerPiece::Redacted { .. } | AnswerPiece::Signature { .. }
            ));
            if self.items > ITEMS_MAX {
                continue;
            }
            self.customs.pass(piece, |piece| self.writer.write(piece, out));
        }
    }

    /// Whether what was written has the calls that were read.
    #[cfg(debug_assertions)]
    fn check_written(&mut self, surface: Surface, leaves_calls_out: bool, end: &[u8]) {
        self.written.extend_from_slice(end);
        let read = std::mem::take(self.reader.calls());
        let is_compared = !read.is_empty() && !read.is_broken() && !self.is_overfull() && !leaves_calls_out;
        let written = self.written.split().freeze();
        debug_assert!(!is_compared || read.agree(&written_calls(surface, written)), "a call is written as it was read");
    }

    /// Writes only the usage of an event.
    fn usage(&mut self, event: &SseEvent, out: &mut BytesMut) {
        self.reader.read(event, &mut self.pieces);
        for piece in self.pieces.drain(..).filter(|piece| matches!(piece, AnswerPiece::Usage(_))) {
            self.writer.write(piece, out);
        }
    }

    fn end(&mut self, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.ended, true) {
            self.reader.calls().end(&mut self.pieces);
            self.write(out);
            self.writer.end(out);
        }
    }
}

/// How complete the arguments of calls must be that are passed on as they came.
fn calls_of(dialect: Dialect, keeps: bool) -> AnswerCalls {
    // Else the client gets an object.
    let mut calls = if dialect.has_texts_as_arguments() { AnswerCalls::of_texts() } else { AnswerCalls::default() };
    if keeps {
        calls.keep();
    }
    calls
}

/// A chunk of a chat whose calls have these numbers. None if they have them already.
fn renumbered(event: &SseEvent, numbers: &[Option<i128>]) -> Option<Bytes> {
    if !numbers.iter().any(Option::is_some) {
        return None;
    }
    let mut chunk = parse(&event.fields().data?).ok()?;
    let mut numbers = numbers.iter();
    for choice in chunk.get_mut("choices")?.as_array_mut()? {
        let delta = choice.get_mut("delta").and_then(Value::as_object_mut);
        for (name, value) in delta.into_iter().flatten() {
            let calls = match (name.as_str(), value) {
                ("tool_calls", Value::Array(calls)) => calls.iter_mut(),
                ("tool_calls", call @ Value::Object(_)) => std::slice::from_mut(call).iter_mut(),
                _ => continue,
            };
            for call in calls {
                // What is no object is no call, but was counted as one.
                if let (Some(number), Some(call)) = (*numbers.next()?, call.as_object_mut()) {
                    call.insert("index".to_owned(), u64::try_from(number).ok()?.into());
                }
            }
        }
    }
    // A fragment that is in no list of calls has a number too: then it is not known whose each is.
    numbers.next().is_none().then(|| Bytes::from(format!("data: {chunk}\n\n")))
}

/// The calls in events of a surface.
fn written_calls(surface: Surface, events: Bytes) -> AnswerCalls {
    let (mut reader, mut pieces) = (reader_with(surface.dialect(), calls_of(surface.dialect(), true)), Vec::new());
    let mut decoder = surface.framing().decoder(usize::MAX);
    decoder.push(events);
    while let Ok(Some(event)) = decoder.next_event() {
        reader.read(&event, &mut pieces);
        pieces.clear();
    }
    reader.calls().end(&mut pieces);
    std::mem::take(reader.calls())
}

/// Debug builds compare all calls with what is written.
fn kept_in_debug(mut calls: AnswerCalls) -> AnswerCalls {
    if cfg!(debug_assertions) {
        calls.keep();
    }
    calls
}

fn reader_with(dialect: Dialect, calls: AnswerCalls) -> Box<dyn ReadPieces> {
    let mut reader = dialect.reader();
    *reader.calls() = calls;
    reader
}

#[cfg(test)]
mod tests;
