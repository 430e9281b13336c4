//! Writes the truth as chat servers stream it, which number and name calls in many ways. Not for a way that leaves open
//! which call a fragment belongs to: see `broken`.

use bytes::{BufMut as _, BytesMut};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::super::truth::{Call, Mix, Step, Truth, fragments, shuffled};
use super::{KnownId, KnownOrder, Written, reason, sse};
use photofinish_wire::dialect::Dialect;

/// How the fragments of calls say which call they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    FromZero,
    FromOne,
    Sparse,
    Descending,
    Huge,
    Text,
    Float,
    WithoutIds,
    /// No index; the id comes once.
    NoIndex,
    NullIndex,
    /// No index; every fragment has the id.
    IdRepeated,
    NullIndexIdRepeated,
    /// Every index is 0; the id comes once.
    AllZero,
    AllZeroIdRepeated,
    /// The index comes once, later the id.
    IndexThenId,
    /// The index comes once, later nothing.
    IndexThenPlace,
    /// Each call in one fragment.
    WholeNoIndex,
    WholeNoIndexNoIds,
    WholeAllZero,
    WholeAllZeroNoIds,
}

impl Numbering {
    const ALL: [Numbering; 20] = [
        Numbering::FromZero,
        Numbering::FromOne,
        Numbering::Sparse,
        Numbering::Descending,
        Numbering::Huge,
        Numbering::Text,
        Numbering::Float,
        Numbering::WithoutIds,
        Numbering::NoIndex,
        Numbering::NullIndex,
        Numbering::IdRepeated,
        Numbering::NullIndexIdRepeated,
        Numbering::AllZero,
        Numbering::AllZeroIdRepeated,
        Numbering::IndexThenId,
        Numbering::IndexThenPlace,
        Numbering::WholeNoIndex,
        Numbering::WholeNoIndexNoIds,
        Numbering::WholeAllZero,
        Numbering::WholeAllZeroNoIds,
    ];

    fn name(self) -> &'static str {
        match self {
            Numbering::FromZero => "from 0",
            Numbering::FromOne => "from 1",
            Numbering::Sparse => "sparse",
            Numbering::Descending => "descending",
            Numbering::Huge => "huge",
            Numbering::Text => "text",
            Numbering::Float => "float",
            Numbering::WithoutIds => "index, no ids",
            Numbering::NoIndex => "no index",
            Numbering::NullIndex => "null index",
            Numbering::IdRepeated => "id repeated",
            Numbering::NullIndexIdRepeated => "null, id repeated",
            Numbering::AllZero => "all 0",
            Numbering::AllZeroIdRepeated => "all 0, id repeated",
            Numbering::IndexThenId => "index, then id",
            Numbering::IndexThenPlace => "index, then place",
            Numbering::WholeNoIndex => "whole",
            Numbering::WholeNoIndexNoIds => "whole, no ids",
            Numbering::WholeAllZero => "whole, all 0",
            Numbering::WholeAllZeroNoIds => "whole, all 0, no ids",
        }
    }

    fn is_whole(self) -> bool {
        use Numbering::*;
        matches!(self, WholeNoIndex | WholeNoIndexNoIds | WholeAllZero | WholeAllZeroNoIds)
    }

    /// A later fragment belongs to the last call: nothing else says so.
    fn is_by_place(self) -> bool {
        matches!(self, Numbering::NoIndex | Numbering::NullIndex | Numbering::AllZero | Numbering::IndexThenPlace)
    }

    /// Every fragment has an index of its call, so the id may come late.
    fn has_own_index(self) -> bool {
        use Numbering::*;
        matches!(self, FromZero | FromOne | Sparse | Descending | Huge | Text | Float)
    }

    fn has_ids(self) -> bool {
        !matches!(self, Numbering::WithoutIds | Numbering::WholeNoIndexNoIds | Numbering::WholeAllZeroNoIds)
    }

    fn repeats_id(self) -> bool {
        use Numbering::*;
        matches!(self, IdRepeated | NullIndexIdRepeated | AllZeroIdRepeated | IndexThenId)
    }

    /// The index in the fragment `at` of call `call` of `calls`.
    fn index(self, call: usize, calls: usize, at: usize) -> Option<Value> {
        Some(match self {
            Numbering::FromZero | Numbering::WithoutIds => json!(call),
            Numbering::FromOne => json!(call + 1),
            Numbering::Sparse => json!([3, 7, 9, 12][call]),
            Numbering::Descending => json!(calls - 1 - call),
            Numbering::Huge => json!(9_007_199_254_740_993 + call),
            Numbering::Text => json!(call.to_string()),
            Numbering::Float => json!(call as f64),
            Numbering::IndexThenId | Numbering::IndexThenPlace if at == 0 => json!(call),
            Numbering::NullIndex | Numbering::NullIndexIdRepeated => Value::Null,
            Numbering::AllZero
            | Numbering::AllZeroIdRepeated
            | Numbering::WholeAllZero
            | Numbering::WholeAllZeroNoIds => json!(0),
            _ => return None,
        })
    }
}

/// An oddity of one call's fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Oddity {
    None,
    /// Arguments come before the name.
    LateName,
    RepeatedName,
    SplitName,
    /// The id comes after the name, before the arguments.
    LateId,
    /// The id comes after the first arguments.
    VeryLateId,
    /// Later fragments have empty names and ids.
    Empty,
    /// Some arguments are null.
    Null,
}

const ODDITIES: [Oddity; 9] = [
    Oddity::None,
    Oddity::None,
    Oddity::LateName,
    Oddity::RepeatedName,
    Oddity::SplitName,
    Oddity::LateId,
    Oddity::VeryLateId,
    Oddity::Empty,
    Oddity::Null,
];

impl Oddity {
    /// Name or id are complete only after the first fragment: another call may be known before it.
    fn begins_late(self) -> bool {
        matches!(self, Oddity::LateName | Oddity::SplitName | Oddity::LateId)
    }

    fn by_chance(numbering: Numbering, rng: &mut Rng) -> Oddity {
        let oddity = ODDITIES[rng.usize(..ODDITIES.len())];
        let is_visible = match oddity {
            // An id without a name under a known number: some servers give each fragment an id of its own.
            Oddity::LateName if numbering == Numbering::AllZeroIdRepeated => false,
            Oddity::LateName | Oddity::RepeatedName | Oddity::SplitName => !numbering.is_by_place(),
            Oddity::LateId | Oddity::VeryLateId => numbering.has_own_index(),
            _ => true,
        };
        if is_visible && !numbering.is_whole() { oddity } else { Oddity::None }
    }
}

/// A fragment before it is numbered.
#[derive(Default)]
struct WrittenFragment {
    name: Option<String>,
    arguments: Option<Value>,
    id: bool,
}

impl WrittenFragment {
    fn of(name: &str, arguments: Option<Value>) -> WrittenFragment {
        WrittenFragment { name: Some(name.to_owned()), arguments, id: false }
    }
}

fn fragments_of(call: &Call, numbering: Numbering, oddity: Oddity, rng: &mut Rng) -> Vec<WrittenFragment> {
    if numbering.is_whole() {
        let object = serde_json::from_str(&call.arguments).ok().filter(|_| rng.bool());
        let arguments = object.unwrap_or_else(|| Value::from(call.arguments.as_str()));
        return vec![WrittenFragment { id: true, ..WrittenFragment::of(&call.name, Some(arguments)) }];
    }
    let more = |text: String| WrittenFragment { arguments: Some(Value::from(text)), ..WrittenFragment::default() };
    let mut rest: Vec<WrittenFragment> = fragments(&call.arguments, rng).into_iter().map(more).collect();
    let empty = [None, Some(Value::from("")), Some(Value::Null)][rng.usize(..3)].clone();
    let mut all = Vec::new();
    match oddity {
        Oddity::LateName => {
            let late = rng.usize(1..=rest.len());
            all.extend(rest.drain(..late));
            all.push(WrittenFragment::of(&call.name, empty));
        }
        Oddity::SplitName if call.name.len() > 1 => {
            let at = rng.usize(1..call.name.len());
            all.push(WrittenFragment::of(&call.name[..at], empty.clone()));
            all.push(WrittenFragment::of(&call.name[at..], empty));
        }
        Oddity::LateId => {
            all.push(WrittenFragment::of(&call.name, empty));
            all.push(WrittenFragment { id: true, ..WrittenFragment::default() });
        }
        // The first arguments may come with the name.
        _ if rng.bool() => all.push(WrittenFragment { name: Some(call.name.clone()), ..rest.remove(0) }),
        _ => all.push(WrittenFragment::of(&call.name, empty)),
    }
    all.extend(rest);
    match oddity {
        Oddity::RepeatedName => all.iter_mut().for_each(|fragment| fragment.name = Some(call.name.clone())),
        Oddity::Empty => all.iter_mut().skip(1).for_each(|fragment| fragment.name = Some(String::new())),
        Oddity::Null => {
            let at = rng.usize(1..=all.len());
            all.insert(at, WrittenFragment { arguments: Some(Value::Null), ..WrittenFragment::default() });
        }
        Oddity::VeryLateId => {
            let at = rng.usize(1..=all.len());
            all.insert(at, WrittenFragment { id: true, ..WrittenFragment::default() });
        }
        _ => {}
    }
    if !matches!(oddity, Oddity::LateId | Oddity::VeryLateId) {
        all[0].id = true;
    }
    all
}

/// The fragments of a call as they are sent.
fn written(truth: &Truth, call: usize, numbering: Numbering, oddity: Oddity, rng: &mut Rng) -> Vec<Value> {
    let of = &truth.calls[call];
    let mut all = Vec::new();
    for (at, fragment) in fragments_of(of, numbering, oddity, rng).into_iter().enumerate() {
        let mut members = Map::new();
        if let Some(index) = numbering.index(call, truth.calls.len(), at) {
            members.insert("index".to_owned(), index);
        }
        if numbering.has_ids() && (fragment.id || numbering.repeats_id()) {
            members.insert("id".to_owned(), Value::from(of.id.as_str()));
        } else if oddity == Oddity::Empty {
            members.insert("id".to_owned(), Value::from(""));
        }
        if at == 0 || rng.u8(..3) == 0 {
            members.insert("type".to_owned(), Value::from("function"));
        }
        let mut function = Map::new();
        if let Some(name) = fragment.name {
            function.insert("name".to_owned(), Value::from(name));
        }
        if let Some(arguments) = fragment.arguments {
            function.insert("arguments".to_owned(), arguments);
        }
        members.insert("function".to_owned(), Value::Object(function));
        all.push(Value::Object(members));
    }
    all
}

/// The chunks of an answer. `odd`: in any numbering, and with the oddities of single calls.
pub(super) fn stream(truth: &Truth, odd: bool, rng: &mut Rng) -> Written {
    let numbering = if odd { Numbering::ALL[rng.usize(..Numbering::ALL.len())] } else { Numbering::FromZero };
    let oddities: Vec<Oddity> =
        truth.calls.iter().map(|_| if odd { Oddity::by_chance(numbering, rng) } else { Oddity::None }).collect();
    let calls: Vec<Vec<Value>> =
        oddities.iter().enumerate().map(|(call, oddity)| written(truth, call, numbering, *oddity, rng)).collect();
    let lengths: Vec<usize> = calls.iter().map(Vec::len).collect();
    let mix = if numbering.is_by_place() { Mix::NoCalls } else { Mix::All };
    let mut chunks = Chunks::new(rng);
    for step in shuffled(truth, &lengths, mix, rng) {
        if rng.u8(..3) > 0 {
            chunks.send(None);
        }
        match step {
            Step::Text(text) => chunks.text("content", &text),
            Step::Reasoning(text) => chunks.text(chunks.reasoning, &text),
            Step::Image(data) => {
                let url = format!("data:image/png;base64,{data}");
                chunks.push("images", json!({ "type": "image_url", "image_url": { "url": url } }));
            }
            Step::Call(call, at) => chunks.push("tool_calls", calls[call][at].clone()),
        }
    }
    let plain = numbering == Numbering::FromZero && oddities.iter().all(|oddity| *oddity == Oddity::None);
    let ids = oddities.iter().map(|oddity| match oddity {
        _ if !numbering.has_ids() => KnownId::Never,
        Oddity::VeryLateId => KnownId::Late,
        _ => KnownId::Known,
    });
    let known = KnownOrder { ids: ids.collect(), in_order: !oddities.iter().any(|oddity| oddity.begins_late()) };
    Written { plain, known, ..Written::new(chunks.end(truth, rng), numbering.name(), truth) }
}

struct Chunks {
    out: BytesMut,
    delta: Map<String, Value>,
    /// The server's name for it.
    reasoning: &'static str,
    /// Every chunk has a content.
    nulls: bool,
}

impl Chunks {
    fn new(rng: &mut Rng) -> Chunks {
        let delta = Map::from_iter([("role".to_owned(), Value::from("assistant"))]);
        let reasoning = ["reasoning_content", "reasoning"][rng.usize(..2)];
        Chunks { out: BytesMut::new(), delta, reasoning, nulls: rng.bool() }
    }

    fn text(&mut self, member: &str, text: &str) {
        let before = self.delta.get(member).and_then(Value::as_str).unwrap_or_default();
        let text = format!("{before}{text}");
        self.delta.insert(member.to_owned(), Value::from(text));
    }

    fn push(&mut self, member: &str, value: Value) {
        if let Value::Array(list) = self.delta.entry(member).or_insert_with(|| json!([])) {
            list.push(value);
        }
    }

    fn send(&mut self, finish: Option<&str>) {
        let mut delta = std::mem::take(&mut self.delta);
        if self.nulls {
            delta.entry("content").or_insert(Value::Null);
        }
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        self.chunk(json!([choice]), Value::Null);
    }

    fn chunk(&mut self, choices: Value, usage: Value) {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices,
            "usage": usage,
        });
        sse(&chunk, &mut self.out);
    }

    /// The finish comes with the last pieces, or alone.
    fn end(mut self, truth: &Truth, rng: &mut Rng) -> BytesMut {
        if rng.bool() {
            self.send(None);
        }
        self.send(Some(reason(Dialect::OpenAi, truth.finish)));
        self.chunk(json!([]), usage(truth));
        self.out.put_slice(b"data: [DONE]\n\n");
        self.out
    }
}

fn usage(truth: &Truth) -> Value {
    let (input, output) = truth.usage;
    json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
}

/// The plain whole answer.
pub(super) fn whole(truth: &Truth) -> Value {
    let mut message = json!({
        "role": "assistant", "content": truth.text.concat(), "reasoning_content": truth.reasoning.concat(),
    });
    if !truth.calls.is_empty() {
        let call = |call: &Call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        message["tool_calls"] = truth.calls.iter().map(call).collect();
    }
    if !truth.images.is_empty() {
        let image = |data: &String| json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}") } });
        message["images"] = truth.images.iter().map(image).collect();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": reason(Dialect::OpenAi, truth.finish) });
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
        "usage": usage(truth),
    })
}
