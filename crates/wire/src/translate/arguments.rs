//! Checks that the arguments of every call in an answer are complete: one JSON object each.
//!
//! Arguments arrive in pieces of any size. Each call is scanned as it grows: every byte is scanned once, and nothing is
//! stored. Incomplete arguments are never repaired: see [`CallArguments::is_broken`].

use std::collections::HashMap;

use crate::json::is_scalar;
use crate::translate::{AnswerPiece, FinishReason};

/// Maximum nesting, that of `serde_json`. Deeper arguments are not JSON for readers of a whole answer.
const DEPTH_MAX: u32 = 127;
/// Maximum bytes of a number.
const SCALAR_MAX: usize = 1_024;

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct CallArguments {
    /// The key is choice and number. Calls that a token limit cut are excluded.
    calls: HashMap<(u32, u32), ScannedCall>,
    /// The call whose arguments came last.
    last: Option<(u32, u32)>,
    /// Arguments may be any JSON value: they are passed on as a text.
    any_value: bool,
    broken: bool,
}

#[derive(Debug)]
struct ScannedCall {
    scan: ArgumentScan,
    /// The function represents a free-form tool, so text that does not begin as an object is complete.
    takes_text: bool,
}

impl CallArguments {
    /// For calls that are passed on with the text of their arguments: any JSON value is complete. Some servers give one for
    /// a tool that the request forces.
    pub fn of_texts() -> CallArguments {
        CallArguments { any_value: true, ..CallArguments::default() }
    }

    /// Adds a piece of the answer. `takes_text`: whether the function with this name represents a free-form tool.
    pub fn add(&mut self, piece: &AnswerPiece, takes_text: impl FnOnce(&str) -> bool) {
        match piece {
            AnswerPiece::Call { index, call, name, custom: false, .. } => {
                let takes_text = takes_text(name);
                self.calls.insert((*index, *call), ScannedCall { scan: ArgumentScan::default(), takes_text });
            }
            AnswerPiece::Arguments { index, call, text } => {
                self.last = Some((*index, *call));
                if let Some(call) = self.calls.get_mut(&(*index, *call)) {
                    call.scan.add(text);
                }
            }
            // The finish reason already reports that the arguments are cut.
            AnswerPiece::Finish { index, finish: FinishReason::Length } => {
                self.calls.retain(|(choice, _), _| choice != index)
            }
            AnswerPiece::Finish { index, .. } => {
                let any_value = self.any_value;
                self.broken |=
                    self.calls.iter().any(|((choice, _), call)| choice == index && !call.is_whole(any_value));
            }
            _ => {}
        }
    }

    /// The next arguments may belong to another call.
    pub fn turn(&mut self) {
        self.last = None;
    }

    /// Choice and number of that call.
    pub fn last(&self) -> Option<(u32, u32)> {
        self.last
    }

    /// Adds arguments to the call that came last. `inner` is the text between the quotes of a JSON string.
    pub fn add_quoted(&mut self, inner: &str) {
        if let Some(call) = self.last.and_then(|last| self.calls.get_mut(&last)) {
            call.scan.add_quoted(inner);
        }
    }

    /// Calls so far, without those that a token limit cut.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// The answer ended as if complete, but the arguments of a call are not.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The stream ends, with or without a finish reason.
    pub fn end(&mut self) {
        self.broken |= self.calls.values().any(|call| !call.is_whole(self.any_value));
    }
}

impl ScannedCall {
    fn is_whole(&self, any_value: bool) -> bool {
        match self.scan.begins {
            // Many providers send an empty text for a call without arguments.
            None => true,
            Some(b'{') => self.scan.is_object(),
            Some(_) => self.takes_text || any_value && self.scan.is_value(),
        }
    }
}

/// The state of scanning the arguments of one call.
#[derive(Debug, Default)]
pub struct ArgumentScan {
    state: ScanState,
    /// The first byte that is no white space.
    begins: Option<u8>,
    depth: u32,
    /// The number or word so far.
    scalar: Vec<u8>,
    /// Open brackets, one bit per level, the innermost lowest: 1 for an object.
    objects: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    /// Only white space so far.
    #[default]
    Start,
    /// After `{`: a name, or the end of the object.
    FirstName,
    /// After a comma in an object.
    Name,
    Colon,
    /// After `[`: a value, or the end of the list.
    FirstItem,
    Value,
    /// After a value: a comma, or the end of the object or list.
    Behind,
    /// In a string. Here and in the next two: whether it is a name.
    String(bool),
    Escape(bool),
    /// With the number of hexadecimal digits that are still missing.
    Hex(bool, u8),
    /// A number, `true`, `false` or `null`.
    Scalar,
    /// The value is complete.
    End,
    /// The text is not JSON.
    Broken,
}

impl ArgumentScan {
    pub fn add(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.step(byte));
    }

    /// Whether the text so far is one complete object.
    pub fn is_object(&self) -> bool {
        self.begins == Some(b'{') && self.state == ScanState::End
    }

    /// Whether the text so far is one complete JSON value.
    fn is_value(&self) -> bool {
        match self.state {
            ScanState::End => true,
            ScanState::Scalar => self.depth == 0 && is_scalar(&self.scalar),
            _ => false,
        }
    }

    /// Adds the text between the quotes of a valid JSON string.
    fn add_quoted(&mut self, inner: &str) {
        let mut bytes = inner.bytes();
        while let Some(byte) = bytes.next() {
            let byte = match byte {
                b'\\' => match bytes.next().unwrap_or_default() {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'u' => {
                        let digits = bytes.by_ref().take(4);
                        let code =
                            digits.fold(0, |code, digit| code << 4 | char::from(digit).to_digit(16).unwrap_or(0));
                        // All characters outside ASCII are the same to the scan.
                        u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(0x80)
                    }
                    itself => itself,
                },
                byte => byte,
            };
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        self.state = match self.state {
            ScanState::String(_) if !matches!(byte, b'"' | b'\\' | ..0x20) => return,
            ScanState::Broken => return,
            ScanState::Scalar if matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.' | b'E') => {
                self.scalar.push(byte);
                if self.scalar.len() > SCALAR_MAX { ScanState::Broken } else { return }
            }
            ScanState::Scalar if is_scalar(&std::mem::take(&mut self.scalar)) => self.next(self.behind_value(), byte),
            ScanState::Scalar => ScanState::Broken,
            state => self.next(state, byte),
        };
    }

    fn next(&mut self, state: ScanState, byte: u8) -> ScanState {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match (state, byte) {
            _ if is_space && !matches!(state, ScanState::String(_) | ScanState::Escape(_) | ScanState::Hex(..)) => {
                state
            }
            (ScanState::Start, _) => {
                self.begins = Some(byte);
                self.value(byte)
            }
            (ScanState::FirstName, b'}') | (ScanState::FirstItem, b']') => self.close(),
            (ScanState::FirstName | ScanState::Name, b'"') => ScanState::String(true),
            (ScanState::Colon, b':') => ScanState::Value,
            (ScanState::FirstItem | ScanState::Value, _) => self.value(byte),
            (ScanState::Behind, b',') if self.objects & 1 == 1 => ScanState::Name,
            (ScanState::Behind, b',') => ScanState::Value,
            (ScanState::Behind, b'}') if self.objects & 1 == 1 => self.close(),
            (ScanState::Behind, b']') if self.objects & 1 == 0 => self.close(),
            (ScanState::String(true), b'"') => ScanState::Colon,
            (ScanState::String(false), b'"') => self.behind_value(),
            (ScanState::String(is_name), b'\\') => ScanState::Escape(is_name),
            (ScanState::Escape(is_name), b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                ScanState::String(is_name)
            }
            (ScanState::Escape(is_name), b'u') => ScanState::Hex(is_name, 4),
            (ScanState::Hex(is_name, left), _) if byte.is_ascii_hexdigit() => match left {
                0 | 1 => ScanState::String(is_name),
                left => ScanState::Hex(is_name, left - 1),
            },
            _ => ScanState::Broken,
        }
    }

    fn value(&mut self, byte: u8) -> ScanState {
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => ScanState::String(false),
            b't' | b'f' | b'n' | b'-' | b'0'..=b'9' => {
                self.scalar.push(byte);
                ScanState::Scalar
            }
            _ => ScanState::Broken,
        }
    }

    fn open(&mut self, is_object: bool) -> ScanState {
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        match (self.depth > DEPTH_MAX, is_object) {
            (true, _) => ScanState::Broken,
            (false, true) => ScanState::FirstName,
            (false, false) => ScanState::FirstItem,
        }
    }

    fn close(&mut self) -> ScanState {
        self.depth -= 1;
        self.objects >>= 1;
        self.behind_value()
    }

    fn behind_value(&self) -> ScanState {
        if self.depth == 0 { ScanState::End } else { ScanState::Behind }
    }
}

#[cfg(test)]
mod tests;
