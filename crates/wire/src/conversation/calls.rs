//! Which fragment of an answer belongs to which of its calls: decided here alone, from number, id, name and position. And whether each
//! call is whole. Not for how a dialect writes fragments, nor for what follows from a broken call.
//!
//! Vendors number calls, or identify them only by id, or send each whole; fragments of several calls may alternate. A call is passed on
//! when its name is whole and its id has come, and at the end at the latest, always in the order in which calls began. What cannot be separated
//! for sure breaks the answer: it is never guessed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::arguments::ArgumentScan;
use super::{AnswerPiece, FinishReason, ToolNames};
use crate::answer::growing::ITEMS_MAX;
use crate::json::numbers::parse;
use crate::json::unescape;

/// Maximum calls that are read: one more than allowed, so that the excess is noticed.
const CALLS_MAX: usize = ITEMS_MAX + 1;

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct AnswerCalls {
    calls: Vec<GrowingCall>,
    /// The call that grows under a vendor's number, by choice.
    by_number: HashMap<(u32, i128), usize>,
    /// The last call of an id, by choice.
    by_id: HashMap<(u32, String), usize>,
    /// The call that grew last.
    last: Option<usize>,
    /// Calls from here on may not be passed on yet.
    untold: usize,
    /// Functions whose arguments may be a free text.
    take_text: HashSet<String>,
    /// Tools that went up under other names.
    names: Arc<ToolNames>,
    /// Arguments may be any JSON value: they are passed on as a text.
    take_any_value: bool,
    /// Arguments are kept, to be compared with what is written.
    keeps: bool,
    /// For each fragment since they were taken, if they are wanted: the number that its call must have, if it is another.
    numbers: Option<Vec<Option<i128>>>,
    broken: bool,
}

/// What one event says of one call.
#[derive(Debug, Default)]
pub struct Fragment {
    /// The vendor's number of the call.
    pub number: Option<i128>,
    /// It is not written as an integer.
    pub is_odd_number: bool,
    pub id: String,
    /// The name or a piece of it.
    pub name: String,
    /// The name is whole: no piece follows.
    pub is_named: bool,
    pub arguments: String,
    /// The input of the tool is free text.
    pub custom: bool,
    pub signature: Option<String>,
}

#[derive(Debug, Default)]
struct GrowingCall {
    choice: u32,
    /// Among the calls of its choice.
    call: u32,
    id: String,
    name: String,
    is_named: bool,
    is_numbered: bool,
    /// The number that is its own, if numbers are wanted.
    number: Option<i128>,
    /// Arguments that came before the call was passed on.
    held: String,
    custom: bool,
    signature: Option<String>,
    scan: ArgumentScan,
    passed_on: bool,
    ended: bool,
    /// A limit of tokens cut it: the finish reason says so.
    is_cut: bool,
    /// All arguments, if they are kept.
    arguments: String,
}

impl Fragment {
    fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty() && self.signature.is_none()
    }

    fn says(&self) -> bool {
        !self.arguments.trim().is_empty()
    }
}

impl GrowingCall {
    /// Whether another fragment with a name cannot be a part of it.
    fn is_another(&self, fragment: &Fragment) -> bool {
        let is_over = self.ended || !self.custom && self.scan.is_object();
        let is_named = !self.name.is_empty() && !fragment.name.is_empty();
        is_over && is_named && (fragment.says() || fragment.name != self.name)
    }

    fn may_pass_on(&self) -> bool {
        self.ended || !self.name.is_empty() && !self.id.is_empty() && (self.is_named || !self.held.is_empty())
    }

    /// The arguments as JSON. What is no JSON is a text, and none are no members.
    fn said(&self) -> Value {
        match self.arguments.trim() {
            "" => Value::Object(Map::new()),
            text => parse(text.as_bytes()).unwrap_or_else(|_| Value::from(text)),
        }
    }

    fn is_whole(&self, calls: &AnswerCalls) -> bool {
        match self.scan.begins() {
            _ if self.custom || self.is_cut => true,
            // Many providers send an empty text for a call without arguments.
            None => true,
            Some(b'{') => self.scan.is_object(),
            Some(_) => {
                calls.take_text.contains(calls.names.asked(&self.name)) || calls.take_any_value && self.scan.is_value()
            }
        }
    }
}

impl AnswerCalls {
    /// For calls that are passed on with the text of their arguments: any JSON value is complete. Some servers give one for a tool
    /// that the request forces.
    pub fn of_texts() -> AnswerCalls {
        AnswerCalls { take_any_value: true, ..AnswerCalls::default() }
    }

    /// These functions replace free-form tools, so a text that does not begin as an object is complete.
    pub fn taking_text(functions: HashSet<String>, names: Arc<ToolNames>) -> AnswerCalls {
        AnswerCalls { take_text: functions, names, ..AnswerCalls::default() }
    }

    /// Keeps the arguments from now on.
    pub fn keep(&mut self) {
        self.keeps = true;
    }

    /// Tells from now on which fragments need another number.
    pub fn tell_numbers(&mut self) {
        self.numbers = Some(Vec::new());
    }

    /// For each fragment since the last time: the number that its call must have, if it has another, none, or an odd one.
    /// Clients know calls by their numbers alone.
    pub fn take_numbers(&mut self) -> Vec<Option<i128>> {
        self.numbers.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The number of a call that no other call of its choice has: the vendor's, if it is free.
    fn own_number(&mut self, at: usize, given: Option<i128>) -> i128 {
        if let Some(number) = self.calls[at].number {
            return number;
        }
        let choice = self.calls[at].choice;
        let others = || self.calls.iter().filter(|call| call.choice == choice).filter_map(|call| call.number);
        let free = given.filter(|given| !others().any(|other| other == *given));
        let number = free.unwrap_or_else(|| others().max().map_or(0, |most| most.saturating_add(1)));
        self.calls[at].number = Some(number);
        number
    }

    /// Whether calls that were written say the same as these: choice by choice, the arguments as JSON, if both are kept and of one form.
    /// Not their names: a surface may have its own for them.
    pub fn agree(&self, written: &AnswerCalls) -> bool {
        let in_order = |calls: &AnswerCalls| {
            let mut order: Vec<usize> = (0..calls.calls.len()).collect();
            order.sort_by_key(|at| calls.calls[*at].choice);
            order
        };
        let is_same = |read: &GrowingCall, written: &GrowingCall| {
            let is_turned = read.custom || written.custom || self.take_text.contains(self.names.asked(&read.name));
            read.choice == written.choice && (is_turned || read.is_cut || read.said() == written.said())
        };
        let mut pairs = in_order(self).into_iter().zip(in_order(written));
        self.calls.len() == written.calls.len() && pairs.all(|(at, to)| is_same(&self.calls[at], &written.calls[to]))
    }

    /// Adds what an event says of a call.
    pub fn add(&mut self, choice: u32, fragment: Fragment, pieces: &mut Vec<AnswerPiece>) {
        let place = if fragment.is_empty() { None } else { self.place_of(choice, &fragment) };
        if self.numbers.is_some() {
            // One that says nothing is of the last call, if it has no number.
            let of = place.or(self.last.filter(|_| fragment.number.is_none()));
            let number = of.map(|at| self.own_number(at, fragment.number));
            self.numbers
                .iter_mut()
                .for_each(|all| all.push(number.filter(|_| fragment.is_odd_number || fragment.number != number)));
        }
        let Some(at) = place else { return };
        self.last = Some(at);
        let call = &mut self.calls[at];
        if call.id.is_empty() && !fragment.id.is_empty() {
            self.by_id.insert((choice, fragment.id.clone()), at);
            call.id = fragment.id;
        }
        call.custom |= fragment.custom;
        call.signature = call.signature.take().or(fragment.signature);
        call.is_named |= fragment.is_named;
        if !fragment.name.is_empty() && fragment.name != call.name {
            // The arguments follow the whole name, if it came at all.
            self.broken |= !call.name.is_empty() && (call.passed_on || call.scan.begins().is_some());
            call.name.push_str(&fragment.name);
        }
        self.lengthen(at, fragment.arguments, pieces);
        self.pass_on(choice, false, pieces);
    }

    /// Adds a call that came whole.
    pub fn add_whole(&mut self, choice: u32, fragment: Fragment, pieces: &mut Vec<AnswerPiece>) {
        if self.calls.len() < CALLS_MAX {
            let keeps = self.keeps;
            let at = self.push(choice);
            let call = &mut self.calls[at];
            call.scan.add(&fragment.arguments);
            call.arguments = if keeps { fragment.arguments.clone() } else { String::new() };
            let Fragment { id, name, arguments: held, custom, signature, .. } = fragment;
            (call.id, call.name, call.held, call.custom, call.signature) = (id, name, held, custom, signature);
            call.ended = true;
            self.pass_on(choice, false, pieces);
        }
    }

    fn push(&mut self, choice: u32) -> usize {
        let before = self.calls.iter().rev().find(|call| call.choice == choice);
        let call = before.map_or(0, |before| before.call + 1);
        self.calls.push(GrowingCall { choice, call, ..GrowingCall::default() });
        self.calls.len() - 1
    }

    fn lengthen(&mut self, at: usize, text: String, pieces: &mut Vec<AnswerPiece>) {
        let call = &mut self.calls[at];
        if call.ended {
            self.broken |= !text.trim().is_empty();
        } else if !text.is_empty() {
            call.scan.add(&text);
            if self.keeps {
                call.arguments.push_str(&text);
            }
            match call.passed_on {
                true => pieces.push(AnswerPiece::Arguments { index: call.choice, call: call.call, text }),
                false => call.held.push_str(&text),
            }
            self.end_if_whole(at, pieces);
        }
    }

    /// Passes on the calls of a choice in their order, as far as each is known well enough, or all that have a name.
    fn pass_on(&mut self, choice: u32, all: bool, pieces: &mut Vec<AnswerPiece>) {
        for at in self.untold..self.calls.len() {
            let call = &mut self.calls[at];
            if call.passed_on || call.choice != choice {
                continue;
            }
            if !all && !call.may_pass_on() {
                break;
            }
            call.passed_on = true;
            if call.name.is_empty() {
                self.broken = true;
                continue;
            }
            let (index, call) = (choice, &mut self.calls[at]);
            let (number, id, name, custom) =
                (call.call, call.id.clone(), self.names.asked(&call.name).to_owned(), call.custom);
            let (signature, text) = (call.signature.take(), std::mem::take(&mut call.held));
            pieces.push(AnswerPiece::Call { index, call: number, id, name, custom, signature });
            pieces.extend((!text.is_empty()).then_some(AnswerPiece::Arguments { index, call: number, text }));
            match call.ended {
                true => pieces.push(AnswerPiece::CallEnd { index, call: number }),
                false => self.end_if_whole(at, pieces),
            }
        }
        while self.calls.get(self.untold).is_some_and(|call| call.passed_on) {
            self.untold += 1;
        }
    }

    fn end_if_whole(&mut self, at: usize, pieces: &mut Vec<AnswerPiece>) {
        let call = &mut self.calls[at];
        if call.passed_on && !call.custom && call.scan.is_object() {
            call.ended = true;
            pieces.push(AnswerPiece::CallEnd { index: call.choice, call: call.call });
        }
    }

    /// The vendor says that the call with this number has no more fragments than this rest. The number may come again for another call.
    pub fn end_of(&mut self, choice: u32, number: i128, rest: String, pieces: &mut Vec<AnswerPiece>) {
        let Some(at) = self.by_number.remove(&(choice, number)) else { return };
        self.lengthen(at, rest, pieces);
        self.end_call(at, pieces);
        self.pass_on(choice, false, pieces);
    }

    fn end_call(&mut self, at: usize, pieces: &mut Vec<AnswerPiece>) {
        let call = &mut self.calls[at];
        if !std::mem::replace(&mut call.ended, true) && call.passed_on && !call.name.is_empty() {
            pieces.push(AnswerPiece::CallEnd { index: call.choice, call: call.call });
        }
    }

    /// The choice ends, for this reason: passes on the calls that wait, and checks whether each is whole.
    pub fn finish(&mut self, choice: u32, finish: &FinishReason, pieces: &mut Vec<AnswerPiece>) {
        let is_cut = *finish == FinishReason::Length;
        self.pass_on(choice, true, pieces);
        for at in 0..self.calls.len() {
            if self.calls[at].choice == choice {
                self.calls[at].is_cut |= is_cut;
                self.end_call(at, pieces);
                self.broken |= !self.calls[at].is_whole(self);
            }
        }
    }

    /// The stream ends, with or without a finish reason.
    pub fn end(&mut self, pieces: &mut Vec<AnswerPiece>) {
        let choices: HashSet<u32> = self.calls.iter().filter(|call| !call.ended).map(|call| call.choice).collect();
        for choice in choices {
            self.finish(choice, &FinishReason::Stop, pieces);
        }
    }

    /// The vendor's numbers begin anew.
    pub fn renumber(&mut self) {
        self.by_number.clear();
    }

    /// Adds arguments to the call that grew last, and returns its choice and number if it is passed on. `inner` is the text between
    /// the quotes of a JSON string.
    pub fn add_quoted(&mut self, inner: &str) -> Option<(u32, u32)> {
        let call = self.calls.get_mut(self.last?)?;
        call.scan.add_quoted(inner);
        if self.keeps {
            call.arguments.push_str(&unescape(inner).unwrap_or_default());
        }
        if !call.passed_on {
            call.held.push_str(&unescape(inner).unwrap_or_default());
        }
        call.passed_on.then_some((call.choice, call.call))
    }

    /// The place of the call that grew last, among all.
    pub fn last(&self) -> Option<usize> {
        self.last
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// A call may still grow, also one that is not passed on yet.
    pub fn are_open(&self) -> bool {
        self.calls.iter().any(|call| !call.ended)
    }

    /// The answer ended as if complete, but a call is not; or its fragments contradict each other.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The call that a fragment continues, or a new one. None: there are too many.
    fn place_of(&mut self, choice: u32, fragment: &Fragment) -> Option<usize> {
        let found = self.found(choice, fragment).filter(|at| !self.calls[*at].is_another(fragment));
        if found.is_none() && self.calls.len() >= CALLS_MAX {
            return None;
        }
        let at = found.unwrap_or_else(|| self.push(choice));
        if let Some(number) = fragment.number {
            self.by_number.insert((choice, number), at);
            self.calls[at].is_numbered = true;
        }
        if found.is_none() && !fragment.id.is_empty() {
            self.by_id.insert((choice, fragment.id.clone()), at);
        }
        Some(at)
    }

    fn found(&self, choice: u32, fragment: &Fragment) -> Option<usize> {
        let has_name = !fragment.name.is_empty();
        let by_id = || self.by_id.get(&(choice, fragment.id.clone())).copied();
        let last = self.last.filter(|at| self.calls[*at].choice == choice);
        let last = last.or_else(|| self.calls.iter().rposition(|call| call.choice == choice));
        if let Some(number) = fragment.number {
            let at = self.by_number.get(&(choice, number)).copied();
            let has_other_id = |at: &usize| {
                let before = &self.calls[*at].id;
                !fragment.id.is_empty() && !before.is_empty() && *before != fragment.id
            };
            return match at {
                // Some vendors number every call 0. Others give each fragment an id of its own.
                Some(at) if has_other_id(&at) => by_id().or((!has_name).then_some(at)),
                Some(at) => Some(at),
                // Some number the fragments, or only the later ones.
                None if has_name => None,
                None if !fragment.id.is_empty() => by_id(),
                None => last.filter(|at| !self.calls[*at].is_numbered),
            };
        }
        let grows = last.map(|at| (at, &self.calls[at]));
        if !fragment.id.is_empty() {
            let waits = |(_, call): &(usize, &GrowingCall)| {
                call.id.is_empty() && !call.ended && (!has_name || call.name.is_empty() || call.name == fragment.name)
            };
            return by_id().or(grows.filter(waits).map(|(at, _)| at));
        }
        let repeats = |(_, call): &(usize, &GrowingCall)| {
            !has_name || call.name.is_empty() || call.name == fragment.name && !call.ended
        };
        grows.filter(repeats).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests;
