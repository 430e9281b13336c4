//! Spans as OTLP's Protocol Buffers, written straight into bytes: a message object for each attribute would cost a request more
//! than everything else about its trace ([decision](../../../../docs/decisions/0027-traces-from-rows.md)).
//!
//! The numbers are those of `opentelemetry/proto/trace/v1/trace.proto`, `common.proto` and `resource.proto`, which are stable. Tests
//! decode what is written with OpenTelemetry's own code.

/// Bytes of a text in an attribute; a longer one is cut.
const TEXT_MAX: usize = 1024;

/// The kinds of the wire format.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// Who a span talks with.
#[derive(Clone, Copy, Debug)]
pub enum SpanKind {
    /// It answers a client.
    Server = 2,
    /// It asks an upstream.
    Client = 3,
}

/// What every span has.
#[derive(Clone, Copy, Debug)]
pub struct SpanHead<'s> {
    pub trace_id: u128,
    pub span_id: u64,
    /// None: it begins its trace.
    pub parent_id: Option<u64>,
    pub state: &'s str,
    pub name: (&'s str, &'s str),
    pub kind: SpanKind,
    /// Microseconds since 1970.
    pub start: i64,
    pub end: i64,
    pub is_error: bool,
}

/// The name of an attribute, with the bytes before and behind it: a copy of them is cheaper than to put them together.
#[derive(Clone, Copy, Debug)]
pub struct Name(pub &'static [u8]);

/// Declares names of at most 127 bytes.
macro_rules! attributes {
    ($($(#[doc = $about:literal])* $name:ident = $text:literal,)+) => {
        $($(#[doc = $about])* pub const $name: $crate::traces::encode::Name = $crate::traces::encode::Name(&{
            const LENGTH: usize = $text.len();
            let (mut bytes, mut at) = ([0; LENGTH + 3], 0);
            // The field with the name, and the tag of the one with the value.
            (bytes[0], bytes[1], bytes[LENGTH + 2]) = (1 << 3 | 2, LENGTH as u8, 2 << 3 | 2);
            while at < LENGTH {
                bytes[at + 2] = $text.as_bytes()[at];
                at += 1;
            }
            bytes
        });)+
    };
}
pub(super) use attributes;

/// A message under construction.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn with_capacity(bytes: usize) -> Message {
        Message(Vec::with_capacity(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What every span has, but for its attributes.
    pub fn head(&mut self, head: &SpanHead<'_>) {
        self.field(1, &head.trace_id.to_be_bytes());
        self.field(2, &head.span_id.to_be_bytes());
        if !head.state.is_empty() {
            self.field(3, head.state.as_bytes());
        }
        if let Some(parent) = head.parent_id {
            self.field(4, &parent.to_be_bytes());
        }
        let (operation, model) = (cut(head.name.0), cut(head.name.1));
        let blank = if model.is_empty() { "" } else { " " };
        self.begin(5, operation.len() + blank.len() + model.len());
        [operation, blank, model].iter().for_each(|part| self.0.extend_from_slice(part.as_bytes()));
        self.number(6, head.kind as u64);
        for (field, at) in [(7, head.start), (8, head.end)] {
            self.varint(field << 3 | FIXED64);
            self.0.extend_from_slice(&nanos(at).to_le_bytes());
        }
        if head.is_error {
            // A status with the code of an error.
            self.field(15, &[3 << 3, 2]);
        }
        // It is sampled; and it is known whether its parent is of another process.
        let is_remote = matches!(head.kind, SpanKind::Server) && head.parent_id.is_some();
        self.varint(16 << 3 | FIXED32);
        self.0.extend_from_slice(&(0x101_u32 | if is_remote { 0x200 } else { 0 }).to_le_bytes());
    }

    pub fn text(&mut self, name: Name, value: &str) {
        self.texts(name, [value, "", ""]);
    }

    /// These texts as one, each cut.
    pub fn texts(&mut self, name: Name, parts: [&str; 3]) {
        let parts = parts.map(cut);
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.attribute(name, 1 + length(bytes as u64) + bytes);
        self.begin(1, bytes);
        parts.iter().for_each(|part| self.0.extend_from_slice(part.as_bytes()));
    }

    /// A list with one text.
    pub fn list_of_one(&mut self, name: Name, value: &str) {
        let value = cut(value);
        let text = 1 + length(value.len() as u64) + value.len();
        let item = 1 + length(text as u64) + text;
        self.attribute(name, 1 + length(item as u64) + item);
        self.begin(5, item);
        self.begin(1, text);
        self.field(1, value.as_bytes());
    }

    pub fn whole(&mut self, name: Name, value: i64) {
        // A negative number takes ten bytes.
        let value = value.cast_unsigned();
        self.attribute(name, 1 + length(value));
        self.number(3, value);
    }

    pub fn flag(&mut self, name: Name, value: bool) {
        self.attribute(name, 2);
        self.number(2, u64::from(value));
    }

    pub fn real(&mut self, name: Name, value: f64) {
        self.attribute(name, 9);
        self.varint(4 << 3 | FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// The begin of an attribute whose value has this length.
    fn attribute(&mut self, name: Name, value: usize) {
        self.begin(9, name.0.len() + length(value as u64) + value);
        self.0.extend_from_slice(name.0);
        self.varint(value as u64);
    }

    /// An attribute of a resource.
    pub fn of_resource(&mut self, name: &str, value: &str) {
        let value = cut(value);
        let text = 1 + length(value.len() as u64) + value.len();
        self.begin(1, 1 + length(name.len() as u64) + name.len() + 1 + length(text as u64) + text);
        self.field(1, name.as_bytes());
        self.begin(2, text);
        self.field(1, value.as_bytes());
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    pub fn field(&mut self, field: u64, bytes: &[u8]) {
        self.begin(field, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// The begin of a field with so many bytes.
    pub fn begin(&mut self, field: u64, bytes: usize) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes as u64);
    }

    /// Without what was written, and with its memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Bytes of a number.
fn length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn nanos(micros: i64) -> u64 {
    u64::try_from(micros).unwrap_or(0).saturating_mul(1_000)
}

fn cut(text: &str) -> &str {
    if text.len() <= TEXT_MAX { text } else { &text[..text.floor_char_boundary(TEXT_MAX)] }
}

/// A whole export request. `attributes`: who sends it; `spans`: the `spans` fields of a scope, as they are.
pub fn request(attributes: &[u8], spans: &[u8]) -> Vec<u8> {
    const NAME: &str = "photofinish";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let mut scope = Message::default();
    scope.field(1, NAME.as_bytes());
    scope.field(2, VERSION.as_bytes());
    let of_scope = 1 + length(scope.0.len() as u64) + scope.0.len() + spans.len();
    let of_resource = 1 + length(attributes.len() as u64) + attributes.len();
    let whole = of_resource + 1 + length(of_scope as u64) + of_scope;
    let mut request = Message::with_capacity(whole + 16);
    request.begin(1, whole);
    request.field(1, attributes);
    request.begin(2, of_scope);
    request.field(1, scope.bytes());
    request.0.extend_from_slice(spans);
    request.0
}

/// How many spans of a request a collector that took it says it refused.
pub fn refused(answer: &[u8]) -> u64 {
    // The first field of a `partial_success`, which is the first field of the answer.
    let inner = answer.strip_prefix(&[1 << 3 | BYTES as u8]).and_then(|rest| Some(read_varint(rest)?.1));
    let count = inner.and_then(|inner| inner.strip_prefix(&[1 << 3])).and_then(read_varint);
    count.map_or(0, |(count, _)| count)
}

/// A number and what follows.
fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().take(10).position(|byte| *byte < 0x80)?;
    let value = bytes[..=last].iter().rev().fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, &bytes[last + 1..]))
}
