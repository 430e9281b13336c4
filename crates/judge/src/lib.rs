//! Whether the calls and the structured output of an answer are what its request asked for. Not for when to check, nor for what
//! follows from it.
//!
//! Per request the first defect counts: arguments that are no JSON, a tool that was not offered, arguments that break the
//! schema of their tool.

mod offered;
mod schema;

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use photofinish_translation::ApiRequest;
use photofinish_wire::answer::judgement::{CallsVerdict, Judgement, StructuredVerdict};
use photofinish_wire::conversation::{SaidAnswer, SaidCall};
use photofinish_wire::dialect::Surface;
use schema::{Schema, SchemaVerdict};

/// Whether a value obeys a schema, as far as it can be checked.
pub fn obeys(schema: &Value, value: &Value) -> bool {
    Schema::compile(&schema.to_string()).check(value, value.to_string().len()) != SchemaVerdict::Broken
}

/// Bytes of the tools of a request and of the schema of its answer together.
const ASKED_MAX: usize = 128 << 10;

/// What requests ask of answers: the tools that they offer, and the form that the answer must have.
pub struct Asked {
    surface: Surface,
    tools: Box<str>,
    format: Box<str>,
    class: u32,
    contract: OnceLock<Contract>,
}

/// The texts of what a request asks for. None: nothing that can be checked, or more than that.
fn texts(request: &ApiRequest) -> Option<(&str, &str)> {
    if !request.has_tools && !request.asks_json || request.legacy_functions {
        return None;
    }
    let [tools, ..] = request.prompt();
    let tools = if request.has_tools { std::str::from_utf8(tools).ok()? } else { "" };
    let format = if request.asks_json { request.format()? } else { "" };
    let is_chat = matches!(
        request.surface,
        Surface::Chat
            | Surface::Responses
            | Surface::Messages
            | Surface::OllamaChat
            | Surface::OllamaGenerate
            | Surface::Gemini
    );
    is_chat.then_some((tools, format))
}

impl Asked {
    /// What its tools and its schema are, in short: equal for equal texts. None: see [`Asked::new`].
    pub fn class_of(request: &ApiRequest) -> Option<u32> {
        let (tools, format) = texts(request)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(tools.as_bytes());
        hasher.update(format.as_bytes());
        Some(hasher.finalize())
    }

    /// None: the request asks for nothing that can be checked.
    pub fn new(request: &ApiRequest) -> Option<Asked> {
        let (class, (tools, format)) = (Asked::class_of(request)?, texts(request)?);
        let kept = if tools.len() + format.len() > ASKED_MAX { ("", "") } else { (tools, format) };
        let contract = OnceLock::new();
        if kept.0.len() + kept.1.len() != tools.len() + format.len() {
            // Too large to be looked at.
            let _ = contract.set(Contract::too_large(!tools.is_empty(), !format.is_empty()));
        }
        Some(Asked { surface: request.surface, tools: kept.0.into(), format: kept.1.into(), class, contract })
    }

    /// Whether this request asks for the same.
    pub fn is_of(&self, request: &ApiRequest) -> bool {
        self.surface == request.surface && texts(request) == Some((&self.tools, &self.format))
    }

    pub fn class(&self) -> u32 {
        self.class
    }

    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// The answer has to be JSON.
    pub fn has_format(&self) -> bool {
        !self.format.is_empty()
    }

    /// What is said of an answer that cannot be looked at.
    pub fn unchecked(&self) -> Judgement {
        let contract = self.contract.get();
        let has = |text: &str, known: fn(&Contract) -> bool| !text.is_empty() || contract.is_some_and(known);
        Judgement {
            calls: has(&self.tools, |contract| contract.offers).then_some(CallsVerdict::NotChecked),
            structured: has(&self.format, |contract| contract.format.is_some())
                .then_some(StructuredVerdict::NotChecked),
        }
    }

    /// Judges what an answer says that came whole.
    pub fn judge(&self, said: &SaidAnswer) -> Judgement {
        let unchecked = self.unchecked();
        if said.is_cut || said.is_partial {
            return unchecked;
        }
        let contract = self.contract.get_or_init(|| Contract::read(self.surface, &self.tools, &self.format));
        let calls = unchecked.calls.map(|_| contract.calls(said));
        // An answer that makes calls, or refuses, is not the one that must follow the schema.
        let answers = said.calls.is_empty() && !said.refuses;
        Judgement { calls, structured: unchecked.structured.filter(|_| answers).map(|_| contract.structured(said)) }
    }
}

/// What an [`Asked`] says, read once.
struct Contract {
    offers: bool,
    /// By name.
    tools: HashMap<String, OfferedSchema>,
    /// It has tools whose names are not known here, such as those of a server.
    is_open: bool,
    format: Option<Schema>,
    is_too_large: bool,
}

struct OfferedSchema {
    /// JSON. Empty: none.
    text: String,
    /// Compiled when it is first called.
    schema: OnceLock<Schema>,
    /// Its input is free text.
    is_free: bool,
}

impl Contract {
    fn too_large(offers: bool, has_format: bool) -> Contract {
        let format = has_format.then_some(Schema::Unchecked);
        Contract { offers, tools: HashMap::new(), is_open: true, format, is_too_large: true }
    }

    fn read(surface: Surface, tools: &str, format: &str) -> Contract {
        let mut contract = Contract {
            offers: !tools.is_empty(),
            tools: HashMap::new(),
            is_open: false,
            format: (!format.is_empty()).then(|| Schema::compile(&offered::schema_in(surface, format))),
            is_too_large: false,
        };
        let offered: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
        for tool in &offered {
            let found = offered::tools_in(surface, tool);
            contract.is_open |= found.is_none();
            for (name, schema, is_free) in found.into_iter().flatten() {
                let text = schema.map(Value::to_string).unwrap_or_default();
                contract.tools.insert(name.to_owned(), OfferedSchema { text, schema: OnceLock::new(), is_free });
            }
        }
        contract
    }

    fn calls(&self, said: &SaidAnswer) -> CallsVerdict {
        if said.calls.is_empty() {
            return CallsVerdict::None;
        }
        if self.is_too_large {
            return CallsVerdict::NotChecked;
        }
        let mut worst = CallsVerdict::Valid;
        for call in &said.calls {
            match self.call(call, said.len()) {
                CallsVerdict::Valid => {}
                CallsVerdict::NotChecked => worst = CallsVerdict::NotChecked,
                defect => return defect,
            }
        }
        worst
    }

    /// `bytes`: of the arguments of all calls, so that many calls cost no more than one.
    fn call(&self, call: &SaidCall, bytes: usize) -> CallsVerdict {
        let Some(tool) = self.tools.get(&call.name) else {
            // Of a known tool the arguments come first.
            return match value(call) {
                None => CallsVerdict::NotJson,
                Some(_) if self.is_open => CallsVerdict::NotChecked,
                Some(_) => CallsVerdict::UnknownName,
            };
        };
        if tool.is_free {
            return CallsVerdict::Valid;
        }
        let Some(value) = value(call) else { return CallsVerdict::NotJson };
        let compile = || if tool.text.is_empty() { Schema::None } else { Schema::compile(&tool.text) };
        match tool.schema.get_or_init(compile).check(&value, bytes) {
            SchemaVerdict::Obeyed => CallsVerdict::Valid,
            SchemaVerdict::Broken => CallsVerdict::BreaksSchema,
            SchemaVerdict::Unknown => CallsVerdict::NotChecked,
        }
    }

    fn structured(&self, said: &SaidAnswer) -> StructuredVerdict {
        let Some(format) = self.format.as_ref().filter(|_| !self.is_too_large && !said.texts.is_empty()) else {
            return StructuredVerdict::NotChecked;
        };
        let mut worst = StructuredVerdict::Valid;
        for (_, text) in &said.texts {
            let Ok(value) = serde_json::from_str::<Value>(text) else { return StructuredVerdict::Invalid };
            match format.check(&value, said.len()) {
                SchemaVerdict::Obeyed => {}
                SchemaVerdict::Broken => return StructuredVerdict::Invalid,
                SchemaVerdict::Unknown => worst = StructuredVerdict::NotChecked,
            }
        }
        worst
    }
}

/// The arguments of a call. None: they are no JSON. None at all are an empty object.
fn value(call: &SaidCall) -> Option<Value> {
    match call.arguments.trim() {
        _ if call.is_free => Some(Value::Null),
        "" => Some(Value::Object(serde_json::Map::new())),
        text => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests;
