//! Whether the arguments of an answer's calls are whole: each has to be one JSON object.
//!
//! Arguments come in pieces of any size, so each call is scanned as it grows: no byte is looked at twice and nothing is kept
//! of it. Arguments that are not whole are never mended here or anywhere: see [`CallArguments::is_broken`].

use std::collections::HashMap;

use super::neutral::{AnswerPiece, FinishReason};

/// Nesting that the readers of a whole answer follow (`serde_json`); deeper arguments are no JSON to them.
const DEPTH_MAX: u32 = 127;

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct CallArguments {
    /// By choice and number. Calls that a limit on tokens cut are left out.
    calls: HashMap<(u32, u32), ScannedCall>,
    /// The one whose arguments came last.
    last: Option<(u32, u32)>,
    broken: bool,
}

#[derive(Debug)]
struct ScannedCall {
    scan: Scan,
    /// It stands for a tool that takes any text, so a text that does not even begin as an object is whole.
    takes_text: bool,
}

impl CallArguments {
    /// Takes in a piece of the answer. `takes_text`: whether the function of this name stands for a tool that takes any text.
    pub fn add(&mut self, piece: &AnswerPiece, takes_text: impl FnOnce(&str) -> bool) {
        match piece {
            AnswerPiece::Call { index, call, name, custom: false, .. } => {
                let takes_text = takes_text(name);
                self.calls.insert((*index, *call), ScannedCall { scan: Scan::default(), takes_text });
            }
            AnswerPiece::Arguments { index, call, text } => {
                self.last = Some((*index, *call));
                if let Some(call) = self.calls.get_mut(&(*index, *call)) {
                    call.scan.add(text);
                }
            }
            // The finish itself tells that the arguments are cut.
            AnswerPiece::Finish { index, finish: FinishReason::Length } => {
                self.calls.retain(|(choice, _), _| choice != index)
            }
            AnswerPiece::Finish { index, .. } => {
                self.broken |= self.calls.iter().any(|((choice, _), call)| choice == index && !call.is_whole());
            }
            _ => {}
        }
    }

    /// Arguments of perhaps another call follow.
    pub fn turn(&mut self) {
        self.last = None;
    }

    /// Takes in more of the arguments that came last; given what stands between the quotes of a JSON string.
    pub fn add_quoted(&mut self, inner: &str) {
        if let Some(call) = self.last.and_then(|last| self.calls.get_mut(&last)) {
            call.scan.add_quoted(inner);
        }
    }

    /// Calls so far, those left out that a limit on tokens cut.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// An answer ended as if it were whole, and the arguments of one of its calls are not.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The stream ends, whether a finish was told or not.
    pub fn end(&mut self) {
        self.broken |= self.calls.values().any(|call| !call.is_whole());
    }
}

impl ScannedCall {
    fn is_whole(&self) -> bool {
        match self.scan.state {
            // Many providers send an empty text for a call without arguments.
            ScanState::Start | ScanState::End => true,
            ScanState::NoObject => self.takes_text,
            _ => false,
        }
    }
}

/// A text, as far as it has come.
#[derive(Debug, Default)]
struct Scan {
    state: ScanState,
    depth: u32,
    /// What is open, a bit for each level, the innermost lowest: 1 for an object.
    objects: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    /// Nothing but white space yet.
    #[default]
    Start,
    /// Behind `{`: a name, or the end of the object.
    FirstName,
    /// Behind a comma in an object.
    Name,
    Colon,
    /// Behind `[`: a value, or the end of the list.
    FirstItem,
    Value,
    /// Behind a value: a comma, or the end of what it stands in.
    Behind,
    String {
        is_name: bool,
    },
    Escape {
        is_name: bool,
    },
    /// So many hexadecimal digits are to come.
    Hex {
        is_name: bool,
        left: u8,
    },
    /// What is to come of `true`, `false` or `null`.
    Word(&'static [u8]),
    Number(NumberState),
    /// The object is whole.
    End,
    /// It does not begin as an object.
    NoObject,
    /// It is no JSON.
    Broken,
}

/// Where in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberState {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Scan {
    fn add(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.step(byte));
    }

    /// What stands between the quotes of a string that is JSON.
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
                        // What is not ASCII is alike to a scan.
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
            ScanState::String { .. } if !matches!(byte, b'"' | b'\\' | ..0x20) => return,
            ScanState::NoObject | ScanState::Broken => return,
            ScanState::Number(digits) => match digits.behind(byte) {
                Some(digits) => ScanState::Number(digits),
                None if digits.may_end() => self.next(ScanState::Behind, byte),
                None => ScanState::Broken,
            },
            state => self.next(state, byte),
        };
    }

    fn next(&mut self, state: ScanState, byte: u8) -> ScanState {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match (state, byte) {
            (
                ScanState::Start
                | ScanState::FirstName
                | ScanState::Name
                | ScanState::Colon
                | ScanState::FirstItem
                | ScanState::Value
                | ScanState::Behind
                | ScanState::End,
                _,
            ) if is_space => state,
            (ScanState::Start, b'{') => self.open(true),
            (ScanState::Start, _) => ScanState::NoObject,
            (ScanState::FirstName, b'}') | (ScanState::FirstItem, b']') => self.close(),
            (ScanState::FirstName | ScanState::Name, b'"') => ScanState::String { is_name: true },
            (ScanState::Colon, b':') => ScanState::Value,
            (ScanState::FirstItem | ScanState::Value, _) => self.value(byte),
            (ScanState::Behind, b',') => {
                if self.objects & 1 == 1 {
                    ScanState::Name
                } else {
                    ScanState::Value
                }
            }
            (ScanState::Behind, b'}') if self.objects & 1 == 1 => self.close(),
            (ScanState::Behind, b']') if self.objects & 1 == 0 => self.close(),
            (ScanState::String { is_name: true }, b'"') => ScanState::Colon,
            (ScanState::String { is_name: false }, b'"') => ScanState::Behind,
            (ScanState::String { is_name }, b'\\') => ScanState::Escape { is_name },
            (ScanState::Escape { is_name }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                ScanState::String { is_name }
            }
            (ScanState::Escape { is_name }, b'u') => ScanState::Hex { is_name, left: 4 },
            (ScanState::Hex { is_name, left }, _) if byte.is_ascii_hexdigit() => match left {
                0 | 1 => ScanState::String { is_name },
                left => ScanState::Hex { is_name, left: left - 1 },
            },
            (ScanState::Word([expected, rest @ ..]), _) if byte == *expected => {
                if rest.is_empty() {
                    ScanState::Behind
                } else {
                    ScanState::Word(rest)
                }
            }
            _ => ScanState::Broken,
        }
    }

    fn value(&mut self, byte: u8) -> ScanState {
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => ScanState::String { is_name: false },
            b't' => ScanState::Word(b"rue"),
            b'f' => ScanState::Word(b"alse"),
            b'n' => ScanState::Word(b"ull"),
            b'-' => ScanState::Number(NumberState::Minus),
            b'0' => ScanState::Number(NumberState::Zero),
            b'1'..=b'9' => ScanState::Number(NumberState::Whole),
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
        if self.depth == 0 { ScanState::End } else { ScanState::Behind }
    }
}

impl NumberState {
    /// Where in the number it is behind this byte. None if the byte does not belong to it.
    fn behind(self, byte: u8) -> Option<NumberState> {
        Some(match (self, byte) {
            (NumberState::Minus, b'0') => NumberState::Zero,
            (NumberState::Minus | NumberState::Whole, b'0'..=b'9') => NumberState::Whole,
            (NumberState::Zero | NumberState::Whole, b'.') => NumberState::Point,
            (NumberState::Zero | NumberState::Whole | NumberState::Fraction, b'e' | b'E') => NumberState::Exponent,
            (NumberState::Point | NumberState::Fraction, b'0'..=b'9') => NumberState::Fraction,
            (NumberState::Exponent, b'+' | b'-') => NumberState::Sign,
            (NumberState::Exponent | NumberState::Sign | NumberState::Power, b'0'..=b'9') => NumberState::Power,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, NumberState::Zero | NumberState::Whole | NumberState::Fraction | NumberState::Power)
    }
}

#[cfg(test)]
mod tests;
