//! Whether the arguments of a call are complete: one JSON object.
//!
//! Arguments arrive in pieces of any size. They are scanned as they grow: every byte is scanned once, and nothing is stored. Incomplete
//! arguments are never repaired: see [`super::calls::AnswerCalls::is_broken`].

use crate::json::is_scalar;

/// Nesting of a call's arguments, that of `serde_json`. Deeper arguments are not JSON for readers of a whole answer.
const DEPTH_MAX: u32 = 127;
/// Bytes of a number there.
const SCALAR_MAX: usize = 1_024;

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

    /// The first byte that is no white space.
    pub fn begins(&self) -> Option<u8> {
        self.begins
    }

    /// Whether the text so far is one complete JSON value.
    pub fn is_value(&self) -> bool {
        match self.state {
            ScanState::End => true,
            ScanState::Scalar => self.depth == 0 && is_scalar(&self.scalar),
            _ => false,
        }
    }

    /// Adds the text between the quotes of a valid JSON string.
    pub fn add_quoted(&mut self, inner: &str) {
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
