//! The position in a surface's event stream, so that another writer can continue: names, numbers, open blocks and
//! items.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use photofinish_dialects::ollama::{OllamaForm, OllamaWriter};
use photofinish_dialects::openai::ChunkNames;
use photofinish_dialects::{anthropic, completions, gemini, openai, responses};
use photofinish_wire::client_error::ErrorShape;
use photofinish_wire::conversation::{InTurn, WritePieces};
use photofinish_wire::dialect::Surface;
use photofinish_wire::stream::sse::SseEvent;

/// The position of each surface.
pub(super) enum WirePosition {
    /// None before the first chunk.
    Chat(Option<ChunkNames>),
    Completions(Option<ChunkNames>),
    Messages(MessageBlocks),
    Responses(Box<Items>),
    /// Every line is complete. The model's name, from the first line.
    Ollama(OllamaForm, Option<String>),
    /// Every event is complete. The id and the model, from the first one.
    Gemini(Option<(Option<String>, String)>),
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

impl WirePosition {
    pub fn new(surface: Surface) -> WirePosition {
        match surface {
            Surface::Chat | Surface::Embeddings | Surface::Passed(_) => WirePosition::Chat(None),
            Surface::Completions => WirePosition::Completions(None),
            Surface::Messages | Surface::CountTokens => WirePosition::Messages(MessageBlocks::default()),
            Surface::Responses => WirePosition::Responses(Box::default()),
            Surface::OllamaChat | Surface::OllamaEmbed | Surface::OllamaEmbeddings | Surface::OllamaGenerate => {
                WirePosition::Ollama(OllamaForm::of(surface), None)
            }
            Surface::Gemini | Surface::GeminiCount | Surface::GeminiEmbed | Surface::GeminiEmbedBatch => {
                WirePosition::Gemini(None)
            }
        }
    }

    /// Reads the next event. `said`: bytes of text before it.
    pub fn see(&mut self, event: &SseEvent, said: usize) {
        let is_delta = event.fields().name == Some(b"content_block_delta");
        let data = || event.fields().data.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        match self {
            WirePosition::Chat(names @ None) | WirePosition::Completions(names @ None) => {
                *names = event.fields().data.and_then(|data| ChunkNames::of(&data));
            }
            WirePosition::Ollama(_, model @ None) => {
                let line = serde_json::from_slice(&event.raw).ok().filter(Value::is_object);
                *model = line.map(|line| owned(&line, "model"));
            }
            WirePosition::Gemini(names @ None) => {
                let named =
                    |chunk: Value| (chunk["responseId"].as_str().map(str::to_owned), owned(&chunk, "modelVersion"));
                *names = data().filter(Value::is_object).map(named);
            }
            WirePosition::Messages(blocks) if !is_delta => data().iter().for_each(|event| blocks.see(event)),
            WirePosition::Responses(items) => data().into_iter().for_each(|event| items.see(event, said)),
            _ => {}
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
                Box::new(InTurn::new(anthropic::AnthropicWriter::behind(blocks.next, blocks.open.is_some())))
            }
            WirePosition::Responses(items) => Box::new(items.writer(text)),
            WirePosition::Gemini(names) => {
                let (id, model) = names.clone().unwrap_or_default();
                Box::new(InTurn::new(gemini::GeminiWriter::behind(id, &model)))
            }
            WirePosition::Ollama(form, model) => {
                Box::new(InTurn::new(OllamaWriter::new(*form, model.as_deref().unwrap_or_default())))
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
    fn see(&mut self, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.started = true,
            "content_block_start" => {
                let index = event["index"].as_u64().unwrap_or(self.next);
                self.next = self.next.max(index.saturating_add(1));
                self.open = Some(event["content_block"]["type"] == "text");
            }
            "content_block_stop" => self.open = None,
            _ => {}
        }
    }
}

impl Items {
    fn see(&mut self, mut event: Value, said: usize) {
        self.number = event["sequence_number"].as_u64().unwrap_or(self.number);
        let index = event["output_index"].as_u64().unwrap_or(0);
        let mut taken = |name: &str| event.get_mut(name).map(Value::take).unwrap_or_default();
        let kind = taken("type");
        match (kind.as_str().unwrap_or_default(), &mut self.open) {
            ("response.created" | "response.in_progress" | "response.queued", _) => {
                if let Value::Object(response) = taken("response")
                    && self.response.is_empty()
                {
                    self.response = response;
                }
            }
            ("response.output_item.added", open) => {
                self.odd |= open.is_some();
                let item = taken("item");
                let (id, is_message) = (owned(&item, "id"), item["type"] == "message");
                *open = Some(OpenItem { index, id, is_message, content: Vec::new(), part: None });
            }
            ("response.output_item.done", open) => {
                self.done.insert(index, taken("item"));
                *open = None;
            }
            ("response.content_part.added" | "response.output_text.delta", Some(open)) => {
                open.part.get_or_insert(said);
            }
            ("response.output_text.delta", None) => self.odd = true,
            ("response.content_part.done", Some(open)) => {
                open.part = None;
                open.content.extend(Some(taken("part")).filter(|part| !part.is_null()));
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

fn owned(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Maximum items that the end of an answer repeats.
const ITEMS_MAX: u64 = 4_096;
