//! What a model said, by chance: the truth that a stream is made from, and the order in which its pieces are sent. Not
//! for any wire format: see `upstream` and `client`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Map, Number, Value};

/// How an answer ends, whatever the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Calls,
    Length,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub id: String,
    pub name: String,
    /// An object, as a JSON text.
    pub arguments: String,
}

impl Call {
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap()
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub text: Vec<String>,
    pub reasoning: Vec<String>,
    /// PNG, as base64.
    pub images: Vec<String>,
    /// In the order in which they begin.
    pub calls: Vec<Call>,
    pub finish: Finish,
    /// Tokens in and out.
    pub usage: (i64, i64),
}

const TEXTS: [&str; 14] =
    ["Hello", " world", " ", "\n", "\n\n  ", "é", "\u{1f600}", "{\"a\":", "}", "\"", "\\", "</x>", "data: ", "\t1."];
const NAMES: [&str; 6] = ["get_weather", "delete_rows", "f", "search-web", "A1", "lookup_customer_by_id"];

impl Truth {
    /// `images`: the dialect can say one.
    pub fn by_chance(rng: &mut Rng, images: bool) -> Truth {
        let calls: Vec<Call> = (0..[0, 1, 1, 2, 2, 3, 4][rng.usize(..7)]).map(|_| call(rng)).collect();
        let finish = match calls.is_empty() {
            false => Finish::Calls,
            true if rng.u8(..4) == 0 => Finish::Length,
            true => Finish::Stop,
        };
        let images = if images && rng.u8(..4) == 0 { rng.usize(1..3) } else { 0 };
        Truth {
            text: texts(rng),
            reasoning: texts(rng),
            images: (0..images).map(|_| image(rng)).collect(),
            calls,
            finish,
            usage: (rng.i64(1..100_000), rng.i64(1..100_000)),
        }
    }
}

fn texts(rng: &mut Rng) -> Vec<String> {
    let pieces = if rng.u8(..3) == 0 { 0 } else { rng.usize(1..7) };
    (0..pieces).map(|_| TEXTS[rng.usize(..TEXTS.len())].to_owned()).collect()
}

fn image(rng: &mut Rng) -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend((0..rng.usize(1..20)).map(|_| rng.u8(..)));
    STANDARD.encode(bytes)
}

/// Its id is one that every surface keeps.
fn call(rng: &mut Rng) -> Call {
    let id: String = (0..12).map(|_| rng.alphanumeric()).collect();
    let mut left = rng.usize(..12);
    let arguments = object(rng, &mut left, 0);
    let arguments = match rng.u8(..4) {
        0 => serde_json::to_string_pretty(&arguments).unwrap(),
        _ => arguments.to_string(),
    };
    Call { id: format!("call_{id}"), name: NAMES[rng.usize(..NAMES.len())].to_owned(), arguments }
}

const WORDS: [&str; 12] =
    ["", "id = 7", "a\"b", "\\", "{\"x\":[", "}}", "\n\t", "ü", "\u{1f469}\u{200d}\u{1f4bb}", "\u{0}", "/", "\u{2028}"];

fn object(rng: &mut Rng, left: &mut usize, depth: usize) -> Value {
    let mut members = Map::new();
    for _ in 0..rng.usize(..=(*left).min(4)) {
        let name = format!("{}{}", ["a", "where", "ö", "{", "\""][rng.usize(..5)], members.len());
        let value = value(rng, left, depth + 1);
        members.insert(name, value);
    }
    Value::Object(members)
}

fn value(rng: &mut Rng, left: &mut usize, depth: usize) -> Value {
    *left = left.saturating_sub(1);
    match rng.u8(..8) {
        0 => Value::Null,
        1 => Value::Bool(rng.bool()),
        2 => {
            let texts =
                ["9007199254740993", "-18446744073709551617", "0", "1.50", "1e3", "-0.25", "123456789012345678"];
            Value::Number(texts[rng.usize(..texts.len())].parse::<Number>().unwrap())
        }
        3 if depth < 4 => object(rng, left, depth),
        4 if depth < 4 => (0..rng.usize(..=(*left).min(3))).map(|_| value(rng, left, depth + 1)).collect(),
        _ => Value::from(WORDS[rng.usize(..WORDS.len())].repeat(rng.usize(1..3))),
    }
}

/// A text in pieces of any size, also empty ones.
pub(super) fn fragments(text: &str, rng: &mut Rng) -> Vec<String> {
    // A long text comes in many pieces.
    let size = if text.len() > 10_000 { 8 } else { [1, 4, 12, 40, 300][rng.usize(..5)] };
    let mut left: Vec<char> = text.chars().rev().collect();
    let mut all = Vec::new();
    while !left.is_empty() {
        let least = usize::from(rng.u8(..6) != 0);
        let taken = rng.usize(least..=size).min(left.len());
        all.push(left.split_off(left.len() - taken).into_iter().rev().collect());
    }
    all
}

/// What may come between the fragments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Everything, also fragments of other calls.
    All,
    /// Text, reasoning and images.
    NoCalls,
    Nothing,
}

/// What is sent next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Text(String),
    Reasoning(String),
    Image(String),
    /// This fragment of this call.
    Call(usize, usize),
}

/// A shuffle that keeps the order of each text, of the fragments of each call (`lengths` many), and of the calls'
/// beginnings.
pub(super) fn shuffled(truth: &Truth, lengths: &[usize], mix: Mix, rng: &mut Rng) -> Vec<Step> {
    let calls = lengths.iter().enumerate().map(|(call, length)| (0..*length).map(|at| Step::Call(call, at)).collect());
    let mut lanes: Vec<Vec<Step>> = vec![
        truth.text.iter().cloned().map(Step::Text).collect(),
        truth.reasoning.iter().cloned().map(Step::Reasoning).collect(),
        truth.images.iter().cloned().map(Step::Image).collect(),
    ];
    lanes.extend(calls);
    lanes.iter_mut().for_each(|lane| lane.reverse());
    const FIRST: usize = 3;
    let (mut steps, mut begun, mut open) = (Vec::new(), 0, None);
    loop {
        let may_go = |at: usize| match (mix, open) {
            (Mix::NoCalls, Some(open)) if at >= FIRST => at == open,
            (Mix::Nothing, Some(open)) => at == open,
            _ => at <= FIRST + begun,
        };
        let ready: Vec<usize> = (0..lanes.len()).filter(|at| !lanes[*at].is_empty() && may_go(*at)).collect();
        if ready.is_empty() {
            return steps;
        }
        let lane = ready[rng.usize(..ready.len())];
        let step = lanes[lane].pop().unwrap();
        if lane >= FIRST {
            begun = begun.max(lane - FIRST + 1);
            open = (!lanes[lane].is_empty()).then_some(lane);
        }
        steps.push(step);
    }
}
