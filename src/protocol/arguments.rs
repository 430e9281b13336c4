//! Whether the arguments of an answer's calls are whole: each has to be one JSON object.
//!
//! Arguments come in pieces of any size, so each call is scanned as it grows: no byte is looked at twice and nothing is kept
//! of it. Arguments that are not whole are never mended here or anywhere: see [`Arguments::is_broken`].

use std::collections::HashMap;

use super::neutral::{Finish, Piece};

/// Nesting that the readers of a whole answer follow (`serde_json`); deeper arguments are no JSON to them.
const DEPTH_MAX: u32 = 127;

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct Arguments {
    /// By choice and number. Calls that a limit on tokens cut are left out.
    calls: HashMap<(u32, u32), Call>,
    /// The one whose arguments came last.
    last: Option<(u32, u32)>,
    broken: bool,
}

#[derive(Debug)]
struct Call {
    scan: Scan,
    /// It stands for a tool that takes any text, so a text that does not even begin as an object is whole.
    takes_text: bool,
}

impl Arguments {
    /// Takes in a piece of the answer. `takes_text`: whether the function of this name stands for a tool that takes any text.
    pub fn add(&mut self, piece: &Piece, takes_text: impl FnOnce(&str) -> bool) {
        match piece {
            Piece::Call { index, call, name, custom: false, .. } => {
                let takes_text = takes_text(name);
                self.calls.insert((*index, *call), Call { scan: Scan::default(), takes_text });
            }
            Piece::Arguments { index, call, text } => {
                self.last = Some((*index, *call));
                if let Some(call) = self.calls.get_mut(&(*index, *call)) {
                    call.scan.add(text);
                }
            }
            // The finish itself tells that the arguments are cut.
            Piece::Finish { index, finish: Finish::Length } => self.calls.retain(|(choice, _), _| choice != index),
            Piece::Finish { index, .. } => {
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

impl Call {
    fn is_whole(&self) -> bool {
        match self.scan.state {
            // Many providers send an empty text for a call without arguments.
            State::Start | State::End => true,
            State::NoObject => self.takes_text,
            _ => false,
        }
    }
}

/// A text, as far as it has come.
#[derive(Debug, Default)]
struct Scan {
    state: State,
    depth: u32,
    /// What is open, a bit for each level, the innermost lowest: 1 for an object.
    objects: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
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
    Number(Digits),
    /// The object is whole.
    End,
    /// It does not begin as an object.
    NoObject,
    /// It is no JSON.
    Broken,
}

/// Where in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
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
            State::String { .. } if !matches!(byte, b'"' | b'\\' | ..0x20) => return,
            State::NoObject | State::Broken => return,
            State::Number(digits) => match digits.behind(byte) {
                Some(digits) => State::Number(digits),
                None if digits.may_end() => self.next(State::Behind, byte),
                None => State::Broken,
            },
            state => self.next(state, byte),
        };
    }

    fn next(&mut self, state: State, byte: u8) -> State {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match (state, byte) {
            (
                State::Start
                | State::FirstName
                | State::Name
                | State::Colon
                | State::FirstItem
                | State::Value
                | State::Behind
                | State::End,
                _,
            ) if is_space => state,
            (State::Start, b'{') => self.open(true),
            (State::Start, _) => State::NoObject,
            (State::FirstName, b'}') | (State::FirstItem, b']') => self.close(),
            (State::FirstName | State::Name, b'"') => State::String { is_name: true },
            (State::Colon, b':') => State::Value,
            (State::FirstItem | State::Value, _) => self.value(byte),
            (State::Behind, b',') => {
                if self.objects & 1 == 1 {
                    State::Name
                } else {
                    State::Value
                }
            }
            (State::Behind, b'}') if self.objects & 1 == 1 => self.close(),
            (State::Behind, b']') if self.objects & 1 == 0 => self.close(),
            (State::String { is_name: true }, b'"') => State::Colon,
            (State::String { is_name: false }, b'"') => State::Behind,
            (State::String { is_name }, b'\\') => State::Escape { is_name },
            (State::Escape { is_name }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                State::String { is_name }
            }
            (State::Escape { is_name }, b'u') => State::Hex { is_name, left: 4 },
            (State::Hex { is_name, left }, _) if byte.is_ascii_hexdigit() => match left {
                0 | 1 => State::String { is_name },
                left => State::Hex { is_name, left: left - 1 },
            },
            (State::Word([expected, rest @ ..]), _) if byte == *expected => {
                if rest.is_empty() {
                    State::Behind
                } else {
                    State::Word(rest)
                }
            }
            _ => State::Broken,
        }
    }

    fn value(&mut self, byte: u8) -> State {
        match byte {
            b'{' => self.open(true),
            b'[' => self.open(false),
            b'"' => State::String { is_name: false },
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            b'-' => State::Number(Digits::Minus),
            b'0' => State::Number(Digits::Zero),
            b'1'..=b'9' => State::Number(Digits::Whole),
            _ => State::Broken,
        }
    }

    fn open(&mut self, is_object: bool) -> State {
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        match (self.depth > DEPTH_MAX, is_object) {
            (true, _) => State::Broken,
            (false, true) => State::FirstName,
            (false, false) => State::FirstItem,
        }
    }

    fn close(&mut self) -> State {
        self.depth -= 1;
        self.objects >>= 1;
        if self.depth == 0 { State::End } else { State::Behind }
    }
}

impl Digits {
    /// Where in the number it is behind this byte. None if the byte does not belong to it.
    fn behind(self, byte: u8) -> Option<Digits> {
        Some(match (self, byte) {
            (Digits::Minus, b'0') => Digits::Zero,
            (Digits::Minus | Digits::Whole, b'0'..=b'9') => Digits::Whole,
            (Digits::Zero | Digits::Whole, b'.') => Digits::Point,
            (Digits::Zero | Digits::Whole | Digits::Fraction, b'e' | b'E') => Digits::Exponent,
            (Digits::Point | Digits::Fraction, b'0'..=b'9') => Digits::Fraction,
            (Digits::Exponent, b'+' | b'-') => Digits::Sign,
            (Digits::Exponent | Digits::Sign | Digits::Power, b'0'..=b'9') => Digits::Power,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Digits::Zero | Digits::Whole | Digits::Fraction | Digits::Power)
    }
}

#[cfg(test)]
mod tests;
