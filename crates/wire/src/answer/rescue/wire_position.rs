//! The position in a surface's event stream, so that another writer can continue: names, numbers, open blocks and
//! items.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client_error::ErrorShape;
use crate::dialect::Surface;
use crate::dialects::ollama::{OllamaForm, OllamaWriter};
use crate::dialects::openai::ChunkNames;
use crate::dialects::{anthropic, completions, gemini, openai, responses};
use crate::stream::sse::SseEvent;
use crate::translate::WritePieces;

/// The position of each surface.
pub(super) enum WirePosition {
    /// None before the first chunk.
    Chat(Option<ChunkNames>),
    Completions(Option<ChunkNames>),
    Messages(MessageBlocks),
    Responses(Box<Items>),
    /// Every line is complete. The model's name, from the first line.
    Ollama(OllamaForm, Option<String>),
    /// Every event is complete. Its names, from the first one.
    Gemini(Option<GeminiNames>),
}

/// The names of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiNames {
    response_id: Option<String>,
    model_version: String,
}

/// The blocks of a message.
#[derive(Debug, Default)]
pub(super) struct MessageBlocks {
    started: bool,
    /// Index of the next block.
    next: u64,
    /// Whether the open block is text. None if no block is open.
    open: Option<bool>,
}

/// The items of a response.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The response of the first event.
    response: Map<String, Value>,
    /// Number of the last event.
    number: u64,
    /// Finished items, by `output_index`.
    done: BTreeMap<u64, Value>,
    open: Option<OpenItem>,
    /// The events are not in the vendor's order.
    odd: bool,
}

#[derive(Debug)]
struct OpenItem {
    index: u64,
    id: String,
    is_message: bool,
    /// Finished parts.
    content: Vec<Value>,
    /// The beginning of the open part, in bytes of the whole text.
    part: Option<usize>,
}

#[derive(Deserialize)]
struct OllamaLine {
    #[serde(default)]
    model: String,
}

#[derive(Deserialize)]
struct BlockWire {
    #[serde(rename = "type", default)]
    kind: String,
    index: Option<u64>,
    content_block: Option<Value>,
}

#[derive(Deserialize)]
struct ItemWire {
    #[serde(rename = "type", default)]
    kind: String,
    sequence_number: Option<u64>,
    output_index: Option<u64>,
    response: Option<Map<String, Value>>,
    item: Option<Value>,
    part: Option<Value>,
}

impl WirePosition {
    pub fn new(surface: Surface) -> WirePosition {
        match surface {
            Surface::Chat | Surface::Embeddings | Surface::Passed(_) => WirePosition::Chat(None),
            Surface::Completions => WirePosition::Completions(None),
            Surface::Messages | Surface::CountTokens => WirePosition::Messages(MessageBlocks::default()),
            Surface::Responses => WirePosition::Responses(Box::default()),
            Surface::OllamaChat | Surface::OllamaEmbed => WirePosition::Ollama(OllamaForm::Chat, None),
            Surface::OllamaGenerate => WirePosition::Ollama(OllamaForm::Generate, None),
            Surface::Gemini | Surface::GeminiCount => WirePosition::Gemini(None),
        }
    }

    /// Reads the next event. `said`: bytes of text before it.
    pub fn see(&mut self, event: &SseEvent, said: usize) {
        if let WirePosition::Ollama(_, model) = self {
            if model.is_none() {
                *model = serde_json::from_slice(&event.raw).ok().map(|OllamaLine { model }| model);
            }
            return;
        }
        let Some(data) = event.fields().data else { return };
        match self {
            WirePosition::Chat(names @ None) | WirePosition::Completions(names @ None) => {
                *names = ChunkNames::of(&data)
            }
            WirePosition::Chat(_) | WirePosition::Completions(_) => {}
            WirePosition::Messages(blocks) if event.fields().name != Some(b"content_block_delta") => {
                serde_json::from_slice(&data).into_iter().for_each(|wire| blocks.see(wire));
            }
            WirePosition::Gemini(names @ None) => *names = serde_json::from_slice(&data).ok(),
            WirePosition::Messages(_) | WirePosition::Ollama(..) | WirePosition::Gemini(_) => {}
            WirePosition::Responses(items) => {
                serde_json::from_slice(&data).into_iter().for_each(|wire| items.see(wire, said));
            }
        }
    }

    /// Whether another writer can continue.
    pub fn is_known(&self) -> bool {
        match self {
            WirePosition::Chat(names) | WirePosition::Completions(names) => names.is_some(),
            WirePosition::Ollama(_, model) => model.is_some(),
            WirePosition::Gemini(names) => names.is_some(),
            WirePosition::Messages(blocks) => blocks.started && blocks.open != Some(false),
            WirePosition::Responses(items) => {
                let open = items.open.as_ref();
                !items.odd && !items.response.is_empty() && open.is_none_or(|item| item.is_message)
            }
        }
    }

    /// A writer that continues. `text`: the whole text so far.
    pub fn writer(&self, text: &str, include_usage: bool, legacy_functions: bool) -> Box<dyn WritePieces> {
        match self {
            WirePosition::Chat(names) => {
                let names = names.clone().unwrap_or_default();
                Box::new(openai::OpenAiWriter::behind(names, include_usage, legacy_functions))
            }
            WirePosition::Completions(names) => {
                Box::new(completions::CompletionContinuation::behind(&names.clone().unwrap_or_default(), include_usage))
            }
            WirePosition::Messages(blocks) => {
                Box::new(anthropic::AnthropicWriter::behind(blocks.next, blocks.open.is_some()))
            }
            WirePosition::Responses(items) => Box::new(items.writer(text)),
            WirePosition::Gemini(names) => {
                let GeminiNames { response_id, model_version } = names.clone().unwrap_or_default();
                Box::new(gemini::GeminiWriter::behind(response_id, &model_version))
            }
            WirePosition::Ollama(form, model) => {
                Box::new(OllamaWriter::new(*form, model.as_deref().unwrap_or_default()))
            }
        }
    }

    /// The error event of a broken stream, if it has to continue from earlier events.
    pub fn error_event(&self, error: &ErrorShape<'_>) -> Option<Bytes> {
        match self {
            WirePosition::Responses(items) if !items.response.is_empty() => items.writer("").error_event(error),
            _ => None,
        }
    }
}

impl MessageBlocks {
    fn see(&mut self, wire: BlockWire) {
        match wire.kind.as_str() {
            "message_start" => self.started = true,
            "content_block_start" => {
                let index = wire.index.unwrap_or(self.next);
                self.next = self.next.max(index.saturating_add(1));
                self.open = Some(wire.content_block.is_some_and(|block| block["type"] == "text"));
            }
            "content_block_stop" => self.open = None,
            _ => {}
        }
    }
}

impl Items {
    fn see(&mut self, wire: ItemWire, said: usize) {
        self.number = wire.sequence_number.unwrap_or(self.number);
        match wire.kind.as_str() {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = wire.response.filter(|_| self.response.is_empty()) {
                    self.response = response;
                }
            }
            "response.output_item.added" => {
                self.odd |= self.open.is_some();
                let item = wire.item.unwrap_or_default();
                self.open = Some(OpenItem {
                    index: wire.output_index.unwrap_or(0),
                    id: item["id"].as_str().unwrap_or_default().to_owned(),
                    is_message: item["type"] == "message",
                    content: Vec::new(),
                    part: None,
                });
            }
            "response.output_item.done" => {
                self.done.insert(wire.output_index.unwrap_or(0), wire.item.unwrap_or_default());
                self.open = None;
            }
            kind => self.see_part(kind, wire.part, said),
        }
    }

    fn see_part(&mut self, kind: &str, part: Option<Value>, said: usize) {
        match (kind, &mut self.open) {
            ("response.content_part.added" | "response.output_text.delta", Some(open)) => {
                open.part.get_or_insert(said);
            }
            ("response.output_text.delta", None) => self.odd = true,
            ("response.content_part.done", Some(open)) => {
                open.part = None;
                open.content.extend(part);
            }
            _ => {}
        }
    }

    fn writer(&self, text: &str) -> responses::ResponsesWriter {
        let mut output: Vec<Value> = Vec::new();
        let last = self.open.as_ref().map(|open| open.index).into_iter().chain(self.done.keys().copied()).max();
        for index in 0..last.map_or(0, |last| last.saturating_add(1).min(ITEMS_MAX)) {
            output.push(self.done.get(&index).cloned().unwrap_or_default());
        }
        let open = self.open.as_ref().map(|open| {
            let part = open.part.map(|from| text.get(from..).unwrap_or_default().to_owned());
            let index = usize::try_from(open.index).unwrap_or(usize::MAX);
            responses::OpenMessage { index, id: open.id.clone(), content: open.content.clone(), part }
        });
        responses::ResponsesWriter::behind(&self.response, self.number, output, open)
    }
}

/// Maximum items that the end of an answer repeats.
const ITEMS_MAX: u64 = 4_096;
