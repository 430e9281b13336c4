//! Assigns the call fragments of a chat stream to calls. Vendors number calls, or identify them only by id, or send
//! each whole.

use std::collections::HashMap;

use crate::answer::assemble::ITEMS_MAX;
use crate::json::surrogates::words;
use crate::json::{InvalidJson, Json};
use crate::translate::AnswerPiece;
use crate::translate::signature::{SignatureOwner, tag};

/// Maximum calls of a choice that are read: one more than allowed, so that the excess is noticed.
const CALLS_MAX: usize = ITEMS_MAX + 1;

/// The calls of one choice.
#[derive(Default)]
pub(super) struct ChoiceCalls {
    calls: Vec<PartialCall>,
    /// The call that grows under a vendor's number.
    by_number: HashMap<u64, usize>,
    /// The last call of an id.
    by_id: HashMap<String, usize>,
    /// Calls reported so far.
    told: u32,
    /// The call that came last, if its name may get longer.
    waiting: Option<usize>,
}

#[derive(Default)]
struct PartialCall {
    id: String,
    name: String,
    /// Arguments that came before the name.
    held: String,
    custom: bool,
    signature: Option<String>,
    /// Position among the reported calls. None until the name is complete.
    told: Option<u32>,
}

/// Adds a piece of a function's name. Some vendors cut names, others repeat the whole name with every piece of the
/// arguments.
pub(super) fn lengthen_name(name: &mut String, piece: &str) {
    if name != piece {
        name.push_str(piece);
    }
}

/// One entry of `tool_calls`.
#[derive(Default)]
struct Fragment {
    number: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    custom: bool,
    signature: Option<String>,
}

impl ChoiceCalls {
    /// Reads a list of `tool_calls`.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(super) fn read(&mut self, index: u32, raw: &str, pieces: &mut Vec<AnswerPiece>) -> Result<(), InvalidJson> {
        Json::new(raw).list(|json| {
            let mut fragment = Fragment::default();
            json.object(|name, json| {
                match name {
                    "index" => fragment.number = json.skip()?.parse().ok(),
                    "id" => fragment.id = json.string_or_skip()?.map(words).unwrap_or_default(),
                    "function" => fragment.function(json)?,
                    "custom" => {
                        fragment.custom = true;
                        fragment.function(json)?;
                    }
                    "extra_content" => fragment.signature = signature(json.skip()?, "/google/thought_signature"),
                    "provider_specific_fields" => {
                        let found = signature(json.skip()?, "/thought_signature");
                        fragment.signature = fragment.signature.take().or(found);
                    }
                    _ => drop(json.skip()?),
                }
                Ok(())
            })?;
            self.add(index, fragment, pieces);
            Ok(())
        })
    }

    /// Reads a legacy `function_call`.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(super) fn read_legacy(
        &mut self,
        index: u32,
        raw: &str,
        pieces: &mut Vec<AnswerPiece>,
    ) -> Result<(), InvalidJson> {
        // There is only one.
        let mut fragment = Fragment { number: Some(0), ..Fragment::default() };
        fragment.function(&mut Json::new(raw))?;
        self.add(index, fragment, pieces);
        Ok(())
    }

    fn add(&mut self, index: u32, fragment: Fragment, pieces: &mut Vec<AnswerPiece>) {
        let Some(at) = self.place_of(&fragment) else { return };
        self.close(index, Some(at), pieces);
        let call = &mut self.calls[at];
        if let Some(told) = call.told {
            if !fragment.arguments.is_empty() {
                pieces.push(AnswerPiece::Arguments { index, call: told, text: fragment.arguments });
            }
            return;
        }
        if call.id.is_empty() && !fragment.id.is_empty() {
            self.by_id.insert(fragment.id.clone(), at);
            call.id = fragment.id;
        }
        call.custom |= fragment.custom;
        call.signature = call.signature.take().or(fragment.signature);
        call.held.push_str(&fragment.arguments);
        lengthen_name(&mut call.name, &fragment.name);
        self.waiting = Some(at);
        // Arguments follow the whole name.
        if !self.calls[at].held.is_empty() {
            self.close(index, None, pieces);
        }
    }

    /// The name of the call that waits is complete, unless it is `but`: reports the call.
    pub(super) fn close(&mut self, index: u32, but: Option<usize>, pieces: &mut Vec<AnswerPiece>) {
        let Some(at) = self.waiting.take_if(|at| Some(*at) != but) else { return };
        let call = &mut self.calls[at];
        if call.name.is_empty() || call.told.is_some() {
            return;
        }
        let number = self.told;
        call.told = Some(number);
        self.told += 1;
        let (id, name) = (call.id.clone(), std::mem::take(&mut call.name));
        let (custom, signature) = (call.custom, call.signature.take());
        pieces.push(AnswerPiece::Call { index, call: number, id, name, custom, signature });
        let text = std::mem::take(&mut call.held);
        pieces.extend((!text.is_empty()).then_some(AnswerPiece::Arguments { index, call: number, text }));
    }

    /// The call that a fragment continues, or a new one.
    fn place_of(&mut self, fragment: &Fragment) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        let found = match fragment.number {
            Some(number) => self.by_number.get(&number).copied(),
            None if !fragment.id.is_empty() => self.by_id.get(&fragment.id).copied(),
            None if !fragment.name.is_empty() => None,
            None => last,
        };
        // Some vendors number every call 0. A name with another id starts a new call.
        let another = |at: &usize| {
            let before = &self.calls[*at].id;
            !fragment.name.is_empty() && !fragment.id.is_empty() && !before.is_empty() && *before != fragment.id
        };
        let found = found.filter(|at| !another(at));
        if found.is_none() && self.calls.len() >= CALLS_MAX {
            return None;
        }
        let at = found.unwrap_or_else(|| {
            self.calls.push(PartialCall::default());
            self.calls.len() - 1
        });
        if let Some(number) = fragment.number {
            self.by_number.insert(number, at);
        }
        Some(at)
    }
}

impl Fragment {
    fn function(&mut self, json: &mut Json<'_>) -> Result<(), InvalidJson> {
        json.object(|name, json| {
            match (name, json.peek()) {
                ("name", _) => self.name = json.string_or_skip()?.map(words).unwrap_or_default(),
                ("arguments" | "input", Some(b'"')) => {
                    self.arguments = json.string_or_skip()?.map(words).unwrap_or_default();
                }
                // Some servers send arguments as an object. The scan of arguments checks that.
                ("arguments", _) => self.arguments = json.some()?.unwrap_or_default().to_owned(),
                _ => drop(json.skip()?),
            }
            Ok(())
        })
    }
}

fn signature(raw: &str, pointer: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(raw).ok()?;
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(|text| tag(SignatureOwner::Gemini, text))
}
