//! Answers whose calls cannot be separated: they are broken, whatever the surface, and never end well. Not for those that a token
//! limit cut.

use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Value, json};

use super::truth::{Finish, Truth};
use super::upstream;
use super::{SURFACES, delivered, shown, translation};
use photofinish_wire::dialect::Dialect;

const CASES: u64 = 60;

/// What is wrong with one of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Its name changes amid its arguments, under one id and one index.
    AnotherName,
    /// Arguments come after its object.
    ArgumentsBehind,
    NoName,
    /// Its arguments end before their object does.
    NoEnd,
}

const WRONGS: [Wrong; 4] = [Wrong::AnotherName, Wrong::ArgumentsBehind, Wrong::NoName, Wrong::NoEnd];

/// A stream with such a call. None: the dialect cannot write it.
fn stream(wrong: Wrong, dialect: Dialect, rng: &mut Rng) -> Option<Bytes> {
    let mut truth = Truth::by_chance(rng, false);
    while truth.calls.is_empty() {
        truth = Truth::by_chance(rng, false);
    }
    truth.finish = Finish::Calls;
    let at = rng.usize(..truth.calls.len());
    let call = &mut truth.calls[at];
    let calls_are_whole = matches!(dialect, Dialect::Gemini | Dialect::Ollama);
    match wrong {
        Wrong::AnotherName => {
            return (dialect == Dialect::OpenAi).then(|| two_names(&call.arguments.clone(), rng));
        }
        Wrong::ArgumentsBehind | Wrong::NoEnd if calls_are_whole => return None,
        Wrong::ArgumentsBehind => call.arguments += ["{\"b\":2}", "{}", "1", "}"][rng.usize(..4)],
        Wrong::NoName => call.name.clear(),
        Wrong::NoEnd => {
            let length = call.arguments.chars().count();
            call.arguments = call.arguments.chars().take(rng.usize(1..length)).collect();
        }
    }
    Some(upstream::stream(dialect, &truth, false, rng).bytes)
}

/// One call of chat that has two names.
fn two_names(arguments: &str, rng: &mut Rng) -> Bytes {
    let mut first = arguments.to_owned();
    let last = first.split_off(first.ceil_char_boundary(rng.usize(1..first.len())));
    let chunk = |name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "tool_calls": [{ "index": 0, "id": "call_123456789abc", "function": function }] })
    };
    let sent = |delta: Value, reason: Option<&str>| {
        format!(
            "data: {}\n\n",
            json!({ "id": "c", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })
        )
    };
    let chunks = [
        sent(chunk("get_weather", &first), None),
        sent(chunk("delete_rows", &last), None),
        sent(json!({}), Some("tool_calls")),
    ];
    Bytes::from(chunks.concat() + "data: [DONE]\n\n")
}

#[test]
fn an_answer_that_cannot_be_told_is_broken() {
    let mut failures = Vec::new();
    for seed in 0..CASES {
        for (wrong, dialect) in WRONGS.into_iter().flat_map(|wrong| Dialect::ALL.map(|dialect| (wrong, dialect))) {
            let Some(stream) = stream(wrong, dialect, &mut Rng::with_seed(seed)) else { continue };
            for surface in SURFACES {
                let delivered = delivered(&mut translation(surface, dialect), &stream);
                if !delivered.is_err_and(|error| error.starts_with("broken")) {
                    failures.push((wrong, dialect, surface, seed, shown(&stream)));
                }
            }
        }
    }
    let mut places: Vec<String> =
        failures.iter().map(|(wrong, dialect, surface, ..)| format!("{wrong:?} {dialect:?} {surface:?}")).collect();
    places.dedup();
    places.sort();
    places.dedup();
    assert!(failures.is_empty(), "{} failures; {:#?}\n{places:#?}", failures.len(), failures.first());
}
