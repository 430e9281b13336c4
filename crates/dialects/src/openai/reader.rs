//! Reads a chat stream into pieces for translation. Not for the race: see `read`.

use std::str;

use serde_json::Value;

use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::{SignatureOwner, tag};
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, Citation, FinishReason, Fragment, ReadPieces, Source};
use photofinish_wire::json::surrogates::{HalfCharacters, words};
use photofinish_wire::json::values::text;
use photofinish_wire::json::{InvalidJson, Json};
use photofinish_wire::stream::sse::SseEvent;

/// Maximum choices that are read: more than any vendor sends.
const CHOICES_MAX: usize = 128;

/// Reads one stream.
#[derive(Default)]
pub struct OpenAiReader {
    id_told: bool,
    model_told: bool,
    choices: Vec<ChoiceReader>,
    calls: AnswerCalls,
    /// Sources that belong to no place in the text, as Perplexity names them with every chunk.
    sources: Vec<String>,
    usage: Usage,
    halves: HalfCharacters,
}

#[derive(Default)]
struct ChoiceReader {
    index: u32,
    thoughts: ReasoningBlocks,
    /// Some vendors repeat the finish reason with the usage.
    finished: bool,
}

/// The open block of reasoning. Plain text names no block; a signature ends one.
#[derive(Default)]
struct ReasoningBlocks {
    block: u32,
    /// The block has text.
    open: bool,
    /// The block is signed: more text begins another.
    closed: bool,
    /// The vendor's number of the block.
    number: Option<u64>,
    /// The vendor's id of the block.
    id: Option<String>,
    /// Reasoning came as plain text, so `reasoning_details` that repeat it are skipped.
    plain: bool,
}

impl ReadPieces for OpenAiReader {
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>) {
        let before = pieces.len();
        let Some(data) = event.fields().data else { return };
        let data = self.halves.joined(&data);
        let Ok(text) = str::from_utf8(&data) else { return };
        if text.starts_with("[DONE]") {
            self.calls.end(pieces);
        } else if self.chunk(text, pieces).is_err() {
            pieces.truncate(before);
        }
    }

    fn calls(&mut self) -> &mut AnswerCalls {
        &mut self.calls
    }
}

/// Sources of an answer that are named apart from its text; no vendor names as many.
const SOURCES_MAX: usize = 256;

impl OpenAiReader {
    fn chunk(&mut self, text: &str, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        let start = pieces.len();
        let (mut id, mut model, mut timings, mut counts, mut cost) = (None, None, None, None, None);
        let (mut sources, mut urls) = (None, None);
        let mut usage = self.usage;
        Json::whole(
            text,
            members!(|json| {
                "id" if !self.id_told => id = json.string_or_skip()?.filter(|id| !id.is_empty()),
                "model" if !self.model_told => model = json.string_or_skip()?.filter(|model| !model.is_empty()),
                "choices" => json.list(|json| self.choice(json, &mut usage, pieces))?,
                "usage" => counts = json.some()?,
                "cost" => cost = json.some()?,
                "search_results" => sources = json.some()?,
                "citations" => urls = json.some()?,
                "timings" => timings = json.some()?,
                "time_info" | "perf_metrics" => json.some()?.into_iter().for_each(|text| usage.add_time_info(text)),
                "x_groq" => json.member("usage", Json::some)?.into_iter().for_each(|text| usage.add(text)),
            }),
        )?;
        if id.is_some() || model.is_some() {
            self.id_told |= id.is_some();
            self.model_told |= model.is_some();
            pieces.insert(start, AnswerPiece::Start { id: id.map(words), model: model.map(words) });
        }
        [sources, urls].into_iter().flatten().for_each(|list| self.sources(list, pieces));
        timings.into_iter().for_each(|text| usage.add_timings(text));
        counts.into_iter().for_each(|text| usage.add(text));
        cost.into_iter().for_each(|text| usage.add_cost(text));
        if usage != self.usage {
            self.usage = usage;
            pieces.push(AnswerPiece::Usage(usage));
        }
        Ok(())
    }

    /// A list of addresses, or of objects with `url` and `title`. It comes again with every chunk.
    fn sources(&mut self, list: &str, pieces: &mut Vec<AnswerPiece>) {
        for source in serde_json::from_str::<Vec<Value>>(list).unwrap_or_default() {
            let Some(url) = source.as_str().or_else(|| text(&source, "url")) else { continue };
            if self.sources.len() < SOURCES_MAX && !self.sources.iter().any(|known| known == url) {
                self.sources.push(url.to_owned());
                let title = text(&source, "title").map(str::to_owned);
                let citation = Citation { url: url.to_owned(), title, ..Citation::default() };
                pieces.push(AnswerPiece::Citation { index: 0, citation });
            }
        }
    }

    fn choice(
        &mut self,
        json: &mut Json<'_>,
        usage: &mut Usage,
        pieces: &mut Vec<AnswerPiece>,
    ) -> Result<(), InvalidJson> {
        let (mut index, mut delta, mut text, mut reason, mut sequence) = (0, None, None, None, None);
        json.object(members!(|json| {
            "index" => index = json.skip()?.parse().unwrap_or(0),
            "delta" => delta = json.some()?,
            "text" => text = json.some()?,
            "finish_reason" => reason = json.string_or_skip()?.filter(|reason| !reason.is_empty()),
            // vLLM and SGLang name the matched sequence. A number is a token's id.
            "stop_reason" | "matched_stop" => sequence = json.string_or_skip()?.or(sequence),
            "usage" => json.some()?.into_iter().for_each(|text| usage.add(text)),
        }))?;
        let position = self.choices.iter().position(|choice| choice.index == index);
        if position.is_none() {
            if self.choices.len() >= CHOICES_MAX {
                return Ok(());
            }
            self.choices.push(ChoiceReader { index, ..ChoiceReader::default() });
        }
        let position = position.unwrap_or(self.choices.len() - 1);
        let (choice, calls) = (&mut self.choices[position], &mut self.calls);
        match (delta, text) {
            (Some(delta), _) => choice.delta(delta, calls, pieces)?,
            (None, Some(text)) => choice.content(text, pieces)?,
            (None, None) => {}
        }
        if let Some(reason) = reason.filter(|_| !choice.finished) {
            choice.finished = true;
            let finish = finish_of(&words(reason), sequence.map(words));
            calls.finish(index, &finish, pieces);
            pieces.push(AnswerPiece::Finish { index, finish });
        }
        Ok(())
    }
}

/// The raw members of a delta.
#[derive(Default)]
struct DeltaMembers<'a> {
    content: Option<&'a str>,
    reasoning: Option<&'a str>,
    details: Option<&'a str>,
    refusal: Option<&'a str>,
    calls: Option<&'a str>,
    function: Option<&'a str>,
    audio: Option<&'a str>,
    images: Option<&'a str>,
    annotations: Option<&'a str>,
}

impl ChoiceReader {
    fn delta(&mut self, text: &str, calls: &mut AnswerCalls, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        let mut delta = DeltaMembers::default();
        Json::new(text).object(|name, json| {
            let place = match name {
                "content" => &mut delta.content,
                // Some vendors send the same text under two of these names.
                "reasoning_content" | "reasoning" | "thinking" => &mut delta.reasoning,
                "reasoning_details" => &mut delta.details,
                "refusal" => &mut delta.refusal,
                "tool_calls" => &mut delta.calls,
                "function_call" => &mut delta.function,
                "audio" => &mut delta.audio,
                "images" => &mut delta.images,
                "annotations" => &mut delta.annotations,
                _ => return json.skip().map(drop),
            };
            let value = json.some()?.filter(|value| !matches!(*value, "\"\"" | "[]" | "{}"));
            *place = place.take().or(value);
            Ok(())
        })?;
        self.reasoning(&delta, pieces)?;
        delta.content.map_or(Ok(()), |text| self.content(text, pieces))?;
        if let Some(refusal) = delta.refusal {
            let text = words_of_parts(refusal)?;
            pieces.extend((!text.is_empty()).then_some(AnswerPiece::Refusal { index: self.index, text }));
        }
        delta.calls.map_or(Ok(()), |text| read_calls(self.index, text, calls, pieces))?;
        delta.function.map_or(Ok(()), |text| read_legacy_call(self.index, text, calls, pieces))?;
        delta.audio.map_or(Ok(()), |text| self.audio(text, pieces))?;
        delta.images.map_or(Ok(()), |text| self.images(text, pieces))?;
        delta.annotations.into_iter().for_each(|text| self.annotations(text, pieces));
        Ok(())
    }

    fn annotations(&self, list: &str, pieces: &mut Vec<AnswerPiece>) {
        let index = self.index;
        for note in serde_json::from_str::<Vec<Value>>(list).unwrap_or_default() {
            let inner = note.get("url_citation").unwrap_or(&note);
            pieces.push(match url_citation(inner).filter(|_| note["type"] == "url_citation") {
                Some(citation) => AnswerPiece::Citation { index, citation },
                None => AnswerPiece::Other("annotations".to_owned()),
            });
        }
    }

    /// A string, or Mistral's list of `text` and `thinking` parts. Some servers read the JSON that a model wrote: then it
    /// is the text.
    fn content(&mut self, raw: &str, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        let index = self.index;
        let mut json = Json::new(raw);
        if !matches!(json.peek(), Some(b'[' | b'{')) {
            let text = match json.peek() {
                Some(b'-' | b'0'..=b'9') => json.skip()?.to_owned(),
                _ => json.string_or_skip()?.map(words).unwrap_or_default(),
            };
            pieces.extend((!text.is_empty()).then_some(AnswerPiece::Text { index, text }));
            return Ok(());
        }
        json.items(|json| {
            let (mut kind, mut text, mut thought, mut image) = (None, None, None, None);
            let written = json.skip()?;
            if !written.starts_with('{') {
                return self.content(written, pieces);
            }
            Json::new(written).object(members!(|json| {
                "type" => kind = Some(json.string_or_skip()?.unwrap_or_default()),
                "text" => text = Some(json.skip()?),
                "thinking" => thought = Some(json.skip()?),
                "image_url" => image = Some(json.skip()?),
            }))?;
            if let Some(thought) = thought {
                self.thought(words_of_parts(thought)?, pieces);
            } else if let Some(text) = text {
                let text = words_of_parts(text)?;
                pieces.extend((!text.is_empty()).then_some(AnswerPiece::Text { index, text }));
            } else if let Some(image) = image {
                pieces.push(image_of(index, image));
            } else if let Some(kind) = kind {
                pieces.push(AnswerPiece::Other(words(kind)));
            } else if written != "{}" {
                pieces.push(AnswerPiece::Text { index, text: written.to_owned() });
            }
            Ok(())
        })
    }

    fn reasoning(&mut self, delta: &DeltaMembers<'_>, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        let plain = delta.reasoning.map(words_of_parts).transpose()?.filter(|text| !text.is_empty());
        self.thoughts.plain |= plain.is_some();
        let details = delta.details.and_then(|raw| serde_json::from_str::<Vec<Value>>(raw).ok()).unwrap_or_default();
        // Text first, because the signature applies to it.
        if let Some(text) = plain {
            details.iter().for_each(|detail| self.thoughts.turn_to(detail));
            self.thought(text, pieces);
        }
        details.iter().for_each(|detail| self.detail(detail, pieces));
        Ok(())
    }

    fn thought(&mut self, text: String, pieces: &mut Vec<AnswerPiece>) {
        if text.is_empty() {
            return;
        }
        self.thoughts.reopen();
        self.thoughts.open = true;
        pieces.push(AnswerPiece::Thinking { index: self.index, block: self.thoughts.block, text });
    }

    /// One of OpenRouter's `reasoning_details`.
    fn detail(&mut self, detail: &Value, pieces: &mut Vec<AnswerPiece>) {
        let index = self.index;
        let text = |name| text(detail, name).map(str::to_owned);
        let same =
            text("id").is_some() && text("id") == self.thoughts.id && self.thoughts.open && !self.thoughts.closed;
        if !same {
            self.thoughts.turn_to(detail);
        }
        if let Some(data) = text("data").map(|data| tag(SignatureOwner::OpenAi, &data)) {
            // Encrypted data belongs to the summary of the same id, if there is one.
            if same {
                pieces.push(AnswerPiece::Signature { index, block: self.thoughts.block, signature: data });
            } else {
                self.thoughts.next();
                pieces.push(AnswerPiece::Redacted { index, block: self.thoughts.block, data });
            }
            self.thoughts.closed = true;
            return;
        }
        if let Some(words) = text("text").or_else(|| text("summary")).filter(|_| !self.thoughts.plain) {
            self.thought(words, pieces);
        }
        if let Some(signature) = text("signature").map(|signature| tag(SignatureOwner::OpenAi, &signature)) {
            self.thoughts.reopen();
            pieces.push(AnswerPiece::Signature { index, block: self.thoughts.block, signature });
            self.thoughts.closed = true;
        }
        self.thoughts.id = text("id").or(self.thoughts.id.take());
    }

    fn audio(&mut self, raw: &str, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        let (mut id, mut data, mut transcript) = (None, String::new(), String::new());
        Json::new(raw).object(|name, json| {
            let value = json.string_or_skip()?.map(words);
            match name {
                "id" => id = value,
                "data" => data = value.unwrap_or_default(),
                "transcript" => transcript = value.unwrap_or_default(),
                _ => {}
            }
            Ok(())
        })?;
        if id.is_some() || !data.is_empty() || !transcript.is_empty() {
            pieces.push(AnswerPiece::Audio { index: self.index, id, data, transcript });
        }
        Ok(())
    }

    fn images(&mut self, raw: &str, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        Json::new(raw).objects(|name, json| {
            let value = json.skip()?;
            pieces.extend((name == "image_url").then(|| image_of(self.index, value)));
            Ok(())
        })
    }
}

impl ReasoningBlocks {
    /// Switches to the block that a detail names.
    fn turn_to(&mut self, detail: &Value) {
        let number = detail.get("index").and_then(Value::as_u64);
        if number.is_some() && number != self.number {
            // The first number belongs to everything so far.
            if self.number.is_some() {
                self.next();
            }
            self.number = number;
        }
    }

    /// A signed block accepts no more text. The number of the next block is unknown.
    fn reopen(&mut self) {
        if self.closed {
            self.next();
            self.number = None;
        }
    }

    fn next(&mut self) {
        if self.open || self.closed {
            self.block = self.block.saturating_add(1);
            self.open = false;
            self.closed = false;
        }
    }
}

/// A string, or the texts of a list of parts.
fn words_of_parts(raw: &str) -> Result<String, InvalidJson> {
    let mut json = Json::new(raw);
    let mut all = String::new();
    if !matches!(json.peek(), Some(b'[' | b'{')) {
        return Ok(json.string_or_skip()?.map(words).unwrap_or_default());
    }
    json.items(|json| {
        if json.peek() != Some(b'{') {
            all.extend(json.string_or_skip()?.map(words));
            return Ok(());
        }
        json.object(|name, json| {
            let text = json.string_or_skip()?.filter(|_| name == "text");
            all.extend(text.map(words));
            Ok(())
        })
    })?;
    Ok(all)
}

/// `image_url`: an object with a URL, or the URL itself.
fn image_of(index: u32, raw: &str) -> AnswerPiece {
    let value: Value = serde_json::from_str(raw).unwrap_or_default();
    let url = value.get("url").unwrap_or(&value).as_str().unwrap_or_default();
    match Source::of_data_url(url) {
        Some(Source::Base64 { media_type, data }) => AnswerPiece::Image { index, media_type, data },
        _ => AnswerPiece::Other("images".to_owned()),
    }
}

/// Servers that name the matched sequence say `stop`.
fn finish_of(reason: &str, sequence: Option<String>) -> FinishReason {
    match (FinishReason::of(reason), sequence) {
        (FinishReason::Stop | FinishReason::StopSequence(_), Some(sequence)) => {
            FinishReason::StopSequence(Some(sequence))
        }
        (FinishReason::StopSequence(_), None) => FinishReason::Stop,
        (other, _) => other,
    }
}

/// OpenAI's `url_citation`, in chat and in Responses.
pub fn url_citation(note: &Value) -> Option<Citation> {
    let place = |name: &str| note.get(name).and_then(Value::as_u64);
    Some(Citation {
        url: text(note, "url")?.to_owned(),
        title: text(note, "title").map(str::to_owned),
        // Servers that do not know the place write two zeros.
        span: place("start_index").zip(place("end_index")).filter(|(from, to)| from < to),
        quote: text(note, "content").map(str::to_owned),
    })
}

/// Reads a list of `tool_calls`.
///
/// # Errors
/// If it is not JSON.
pub(super) fn read_calls(
    index: u32,
    raw: &str,
    calls: &mut AnswerCalls,
    pieces: &mut Vec<AnswerPiece>,
) -> Result<(), InvalidJson> {
    Json::new(raw).items(|json| {
        let mut fragment = Fragment::default();
        json.object(members!(|json| {
            "index" => {
                let written = json.skip()?;
                fragment.number = number(written);
                fragment.is_odd_number = written.parse::<i128>().is_err();
            },
            "id" => fragment.id = json.string_or_skip()?.map(words).unwrap_or_default(),
            "function" => read_function(&mut fragment, json)?,
            "custom" => {
                fragment.custom = true;
                read_function(&mut fragment, json)?;
            },
            "extra_content" => fragment.signature = signature(json.skip()?, "/google/thought_signature"),
            "provider_specific_fields" => {
                let found = signature(json.skip()?, "/thought_signature");
                fragment.signature = fragment.signature.take().or(found);
            },
        }))?;
        calls.add(index, fragment, pieces);
        Ok(())
    })
}

/// Reads a legacy `function_call`: there is only one.
///
/// # Errors
/// If it is not JSON.
pub(super) fn read_legacy_call(
    index: u32,
    raw: &str,
    calls: &mut AnswerCalls,
    pieces: &mut Vec<AnswerPiece>,
) -> Result<(), InvalidJson> {
    let mut fragment = Fragment { number: Some(0), ..Fragment::default() };
    read_function(&mut fragment, &mut Json::new(raw))?;
    calls.add(index, fragment, pieces);
    Ok(())
}

/// Some servers write the number as a text, or as a fraction.
fn number(raw: &str) -> Option<i128> {
    let raw = raw.trim_matches('"');
    raw.parse()
        .ok()
        .or_else(|| raw.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number as i128))
}

fn read_function(fragment: &mut Fragment, json: &mut Json<'_>) -> Result<(), InvalidJson> {
    json.object(|name, json| {
        match (name, json.peek()) {
            ("name", _) => fragment.name = json.string_or_skip()?.map(words).unwrap_or_default(),
            ("arguments" | "input", Some(b'"')) => {
                fragment.arguments = json.string_or_skip()?.map(words).unwrap_or_default();
            }
            // Some servers send arguments as an object. The scan of arguments checks that.
            ("arguments", _) => fragment.arguments = json.some()?.unwrap_or_default().to_owned(),
            _ => drop(json.skip()?),
        }
        Ok(())
    })
}

fn signature(raw: &str, pointer: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(raw).ok()?;
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(|text| tag(SignatureOwner::Gemini, text))
}
