//! Reads a Responses stream into pieces, for translation. Not on the hot path: items are parsed, deltas are not.

use std::collections::HashMap;

use serde_json::Value;

use super::SseEvent;
use super::conversation::{SEARCH, SHELL, thoughts};
use super::read::end_word;
use crate::openai::url_citation;
use crate::responses::read::ResponsesWire;
use photofinish_wire::answer::usage::Usage;
use photofinish_wire::conversation::signature::{SignatureOwner, SignatureUse, held, own};
use photofinish_wire::conversation::{AnswerCalls, AnswerPiece, FinishReason, Fragment, ReadPieces};
use photofinish_wire::json::numbers::parse;
use photofinish_wire::json::surrogates::{HalfCharacters, words};
use photofinish_wire::json::values::{self, list, text};
use photofinish_wire::stream::event_reader::{EventData, data_of};

/// Reads one stream.
#[derive(Debug, Default)]
pub struct ResponsesReader {
    /// With their `output_index`, in order of arrival.
    items: Vec<(u64, OutputItem)>,
    /// Positions of items by index: the last one, because some servers give all items the same index.
    places: HashMap<u64, usize>,
    calls: AnswerCalls,
    /// The message whose text came last.
    message: Option<usize>,
    blocks: u32,
    started: bool,
    /// The signature of the next call.
    signature: Option<String>,
    halves: HalfCharacters,
}

/// The known part of an output item, and the part passed on.
#[derive(Debug, Default)]
struct OutputItem {
    is_call: bool,
    call_id: String,
    /// The number of the block of reasoning.
    block: Option<u32>,
    /// The part of the last text: whether it is of a summary, and its index.
    part: Option<(bool, u64)>,
    /// Text or arguments were passed on.
    said: bool,
    /// Its citations were.
    is_cited: bool,
    /// A message that is not the answer itself, but says what the model does.
    is_commentary: bool,
    id: Option<String>,
    /// The item was reported as [`AnswerPiece::Other`].
    named: bool,
    done: bool,
}

impl ReadPieces for ResponsesReader {
    fn read(&mut self, event: &SseEvent, pieces: &mut Vec<AnswerPiece>) {
        let EventData::Json { data, name } = data_of(event) else { return };
        let data = self.halves.joined(&data);
        if let Some(wire) = std::str::from_utf8(&data).ok().and_then(|text| ResponsesWire::read(text, name).ok()) {
            self.read_wire(&wire, pieces);
        }
    }

    fn calls(&mut self) -> &mut AnswerCalls {
        &mut self.calls
    }
}

impl ResponsesReader {
    fn read_wire(&mut self, wire: &ResponsesWire<'_>, pieces: &mut Vec<AnswerPiece>) {
        match wire.kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = value(wire.response) {
                    self.start(&response, pieces);
                }
            }
            kind @ ("response.output_item.added" | "response.output_item.done") => {
                let Some(item) = value(wire.item) else { return };
                let index = self.position(wire.output_index, item["id"].as_str());
                match kind {
                    "response.output_item.added" => drop(self.begin(index, &item, pieces)),
                    _ => self.close(index, &item, pieces),
                }
            }
            "response.output_text.annotation.added" => {
                value(wire.annotation).iter().for_each(|note| self.annotation(note, pieces));
                let at = self.position(wire.output_index, wire.item_id);
                self.items[at].1.is_cited = true;
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                if let Some(response) = value(wire.response) {
                    self.end(wire.kind, &response, pieces);
                }
            }
            _ => self.delta(wire, pieces),
        }
    }

    fn start(&mut self, response: &Value, pieces: &mut Vec<AnswerPiece>) {
        let text = |name: &str| text(response, name).map(str::to_owned);
        let (id, model) = (text("id"), text("model"));
        if !self.started && (id.is_some() || model.is_some()) {
            self.started = true;
            pieces.push(AnswerPiece::Start { id, model });
        }
    }

    /// The position of the item with this index, or with this id. Without either, the last item.
    fn position(&mut self, index: Option<u64>, id: Option<&str>) -> usize {
        let of_id = |id| self.items.iter().rposition(|(_, item)| item.id.as_deref() == Some(id));
        if let (None, Some(at)) = (index, id.and_then(of_id)) {
            return at;
        }
        let index = index.or(self.items.last().map(|(index, _)| *index)).unwrap_or(0);
        match self.places.get(&index) {
            Some(at) => *at,
            None => self.push(index),
        }
    }

    /// Whether the item is a call that no event had.
    fn is_unheard(&self, item: &Value) -> bool {
        is_function(item) && !self.items.iter().any(|(_, known)| known.is_call && known.call_id == call_id(item))
    }

    fn push(&mut self, index: u64) -> usize {
        self.items.push((index, OutputItem::default()));
        self.places.insert(index, self.items.len() - 1);
        self.items.len() - 1
    }

    fn annotation(&self, note: &Value, pieces: &mut Vec<AnswerPiece>) {
        let kind = text(note, "type").unwrap_or("annotation");
        pieces.push(match url_citation(note).filter(|_| kind == "url_citation") {
            Some(citation) => AnswerPiece::Citation { index: 0, citation },
            None => AnswerPiece::Other(kind.to_owned()),
        });
    }

    /// Adds an item and returns its position.
    fn begin(&mut self, at: usize, item: &Value, pieces: &mut Vec<AnswerPiece>) -> usize {
        // An index that is used again means another item.
        let id = item["id"].as_str().filter(|id| !id.is_empty());
        let is_another =
            |known: &OutputItem| known.done || id.is_some() && known.id.is_some() && known.id.as_deref() != id;
        let at = match self.items.get(at) {
            Some((index, known)) if is_another(known) => self.push(*index),
            _ => at,
        };
        let blocks = &mut self.blocks;
        let Some((_, known)) = self.items.get_mut(at) else { return at };
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        known.is_commentary |= item["phase"] == "commentary";
        known.id = known.id.take().or(Some(text("id")).filter(|id| !id.is_empty()));
        match item["type"].as_str().unwrap_or_default() {
            kind @ ("function_call" | "custom_tool_call" | "tool_search_call" | "local_shell_call")
                if !known.is_call && is_called(item) =>
            {
                known.is_call = true;
                known.call_id = call_id(item).to_owned();
                let fragment = Fragment {
                    number: Some(at as i128),
                    id: known.call_id.clone(),
                    name: match kind {
                        "tool_search_call" => SEARCH.to_owned(),
                        "local_shell_call" => SHELL.to_owned(),
                        _ => text("name"),
                    },
                    is_named: true,
                    custom: kind == "custom_tool_call",
                    signature: self.signature.take(),
                    ..Fragment::default()
                };
                self.calls.add(0, fragment, pieces);
            }
            "reasoning" if known.block.is_none() => known.block = Some(next(blocks)),
            "message" | "function_call" | "custom_tool_call" | "reasoning" | "image_generation_call" | "" => {}
            "tool_search_call" | "local_shell_call" if known.is_call => {}
            other if !known.named => {
                known.named = true;
                pieces.push(AnswerPiece::Other(other.to_owned()));
            }
            _ => {}
        }
        at
    }

    /// An item is finished: passes on everything that was not passed on yet.
    fn close(&mut self, at: usize, item: &Value, pieces: &mut Vec<AnswerPiece>) {
        let at = self.begin(at, item, pieces);
        let Some((_, known)) = self.items.get_mut(at) else { return };
        known.done = true;
        match item["type"].as_str().unwrap_or_default() {
            "local_shell_call" => {
                let mut action = item["action"].clone();
                action.as_object_mut().map(|members| members.shift_remove("type"));
                self.calls.end_of(0, at as i128, action.to_string(), pieces);
            }
            "tool_search_call" if is_called(item) => {
                self.calls.end_of(0, at as i128, item["arguments"].to_string(), pieces);
            }
            "function_call" | "custom_tool_call" => {
                let arguments = [&item["arguments"], &item["input"]].into_iter().find(|value| !value.is_null());
                let arguments = arguments.filter(|_| !known.said).map(values::arguments);
                self.calls.end_of(0, at as i128, arguments.unwrap_or_default(), pieces);
            }
            "message" => self.close_message(at, item, pieces),
            "reasoning" => {
                let block = known.block.unwrap_or(0);
                if !known.said {
                    let text = thoughts(item.get("content"), item.get("summary"));
                    known.said = !text.is_empty();
                    pieces.extend(known.said.then_some(AnswerPiece::Thinking { index: 0, block, text }));
                }
                match held(SignatureOwner::Responses, text(item, "encrypted_content").unwrap_or_default()) {
                    SignatureUse::Thought(data) if !known.said && own(SignatureOwner::Responses, &data).is_some() => {
                        pieces.push(AnswerPiece::Redacted { index: 0, block, data });
                    }
                    SignatureUse::Thought(signature) => {
                        pieces.push(AnswerPiece::Signature { index: 0, block, signature })
                    }
                    SignatureUse::Redacted(data) => pieces.push(AnswerPiece::Redacted { index: 0, block, data }),
                    SignatureUse::Call(signature) => self.signature = Some(signature),
                    SignatureUse::Unsigned => {}
                }
            }
            "image_generation_call" => {
                let format = item["output_format"].as_str().unwrap_or("png");
                if let Some(data) = text(item, "result") {
                    let (media_type, data) = (format!("image/{format}"), data.to_owned());
                    pieces.push(AnswerPiece::Image { index: 0, media_type, data });
                }
            }
            _ => {}
        }
    }

    /// Passes on what no delta of the message had.
    fn close_message(&mut self, at: usize, item: &Value, pieces: &mut Vec<AnswerPiece>) {
        let (said, is_cited) = (self.items[at].1.said, self.items[at].1.is_cited);
        // Some servers write the text itself.
        if let Some(text) = text(item, "content").filter(|_| !said) {
            self.turn_to(at, pieces);
            pieces.push(AnswerPiece::Text { index: 0, text: text.to_owned() });
        }
        for part in list(item, "content") {
            let text = |name: &str| text(part, name).map(str::to_owned);
            if let Some(text) = text("text").filter(|_| !said) {
                self.turn_to(at, pieces);
                pieces.push(AnswerPiece::Text { index: 0, text });
            }
            pieces.extend(text("refusal").filter(|_| !said).map(|text| AnswerPiece::Refusal { index: 0, text }));
            if !is_cited {
                list(part, "annotations").for_each(|note| self.annotation(note, pieces));
            }
        }
    }

    /// The next text is of this message. One after a commentary is apart from it.
    fn turn_to(&mut self, at: usize, pieces: &mut Vec<AnswerPiece>) {
        let before = self.message.replace(at).filter(|before| *before != at);
        let is_next = before.is_some_and(|before| self.items[before].1.is_commentary);
        pieces.extend(is_next.then_some(AnswerPiece::NextMessage { index: 0 }));
    }

    fn delta(&mut self, wire: &ResponsesWire<'_>, pieces: &mut Vec<AnswerPiece>) {
        let Some(text) = wire.delta.map(words) else { return };
        let summary = matches!(wire.kind, "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta");
        match wire.kind {
            "response.audio.delta" | "response.output_audio.delta" => {
                return pieces.push(AnswerPiece::Audio { index: 0, id: None, data: text, transcript: String::new() });
            }
            "response.audio.transcript.delta" | "response.output_audio_transcript.delta" => {
                return pieces.push(AnswerPiece::Audio { index: 0, id: None, data: String::new(), transcript: text });
            }
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning.delta" => {}
            _ if summary => {}
            // Arguments of a tool that the vendor runs, which was already reported.
            _ => return,
        }
        let at = self.position(wire.output_index, wire.item_id);
        if wire.kind == "response.output_text.delta" {
            self.turn_to(at, pieces);
        }
        let blocks = &mut self.blocks;
        let Some((_, known)) = self.items.get_mut(at) else { return };
        match wire.kind {
            "response.output_text.delta" => pieces.push(AnswerPiece::Text { index: 0, text }),
            "response.refusal.delta" => pieces.push(AnswerPiece::Refusal { index: 0, text }),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let fragment = Fragment { number: Some(at as i128), arguments: text, ..Fragment::default() };
                self.calls.add(0, fragment, pieces);
            }
            _ => {
                let block = *known.block.get_or_insert_with(|| next(blocks));
                let part = (summary, wire.part_index.unwrap_or(0));
                // Parts are paragraphs.
                let apart = known.part.replace(part).is_some_and(|before| before != part);
                let text = if apart { format!("\n\n{text}") } else { text };
                pieces.push(AnswerPiece::Thinking { index: 0, block, text });
            }
        }
        known.said = true;
    }

    fn end(&mut self, kind: &str, response: &Value, pieces: &mut Vec<AnswerPiece>) {
        self.start(response, pieces);
        // Some servers send everything, or some calls, or the message at the end.
        let known = self.items.len();
        // Some servers give each call another id at the end.
        let heard = self.items.iter().filter(|(_, known)| known.is_call).count();
        let mut unheard = list(response, "output").filter(|item| is_function(item)).count().saturating_sub(heard);
        let is_silent = self.items.iter().all(|(_, known)| known.is_call || known.block.is_some());
        for (at, item) in list(response, "output").enumerate() {
            let is_open = self.items.get(at).is_some_and(|(_, known)| !known.done);
            if at < known && is_open {
                self.close(at, item, pieces);
            } else if known == 0 || unheard > 0 && self.is_unheard(item) || is_silent && item["type"] == "message" {
                unheard = unheard.saturating_sub(1);
                let at = self.push(u64::try_from(at).unwrap_or_default());
                self.close(at, item, pieces);
            }
        }
        let reason = response["incomplete_details"]["reason"].as_str();
        let finish = match FinishReason::of(reason.unwrap_or_else(|| end_word(kind, response["status"].as_str()))) {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolCalls,
            finish => finish,
        };
        self.calls.finish(0, &finish, pieces);
        pieces.push(AnswerPiece::Finish { index: 0, finish });
        if response["usage"].is_object() {
            pieces.push(AnswerPiece::Usage(Usage::of(&response["usage"].to_string())));
        }
    }
}

fn is_function(item: &Value) -> bool {
    matches!(item["type"].as_str(), Some("function_call" | "custom_tool_call"))
}

fn call_id(item: &Value) -> &str {
    item["call_id"].as_str().or(item["id"].as_str()).unwrap_or_default()
}

fn next(counter: &mut u32) -> u32 {
    let now = *counter;
    *counter = counter.saturating_add(1);
    now
}

fn value(text: Option<&str>) -> Option<Value> {
    parse(text?.as_bytes()).ok()
}

/// Whether the client runs this call: the vendor runs its own search for tools.
fn is_called(item: &Value) -> bool {
    item["type"] != "tool_search_call" || item["execution"] == "client"
}
