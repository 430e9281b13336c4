//! What happened in a race, in the order in which it happened: the events of all its attempts on one clock.

use serde_json::{Value, json};

use crate::store::ExportRow;

/// The events of an attempt, each the name of a column with `_us` behind it, in the order in which they usually come.
/// All but the first are stored as times since it.
pub const OF_ATTEMPT: [&str; 12] = [
    "dispatch",
    "connect",
    "headers",
    "first_byte",
    "first_event",
    "first_token",
    "first_answer",
    "second_token",
    "last_token",
    "finish",
    "eof",
    "cancel",
];

/// When the request was read: where the clock begins.
pub const BEGIN: &str = "request_read";

/// The same of a race, as its client saw it.
pub const OF_RACE: [&str; 2] = ["first_token_sent", "done"];

/// Sorted by time, and at one time as the attempts stand.
pub fn timeline(race: Option<&ExportRow>, attempts: &[ExportRow]) -> Vec<Value> {
    let mut events: Vec<(i64, Option<&Value>, &str)> = vec![(0, None, BEGIN)];
    for attempt in attempts {
        let dispatched = micros(attempt, OF_ATTEMPT[0]).unwrap_or(0);
        for event in OF_ATTEMPT {
            let since = if event == OF_ATTEMPT[0] { 0 } else { dispatched };
            events.extend(micros(attempt, event).map(|at| (since + at, attempt.get("ordinal"), event)));
        }
    }
    for event in OF_RACE {
        events.extend(race.and_then(|race| micros(race, event)).map(|at| (at, None, event)));
    }
    events.sort_by_key(|(at, ..)| *at);
    let told = |(at, attempt, event)| json!({ "at_ms": at as f64 / 1e3, "attempt": attempt, "event": event });
    events.into_iter().map(told).collect()
}

fn micros(row: &ExportRow, event: &str) -> Option<i64> {
    row.get(&format!("{event}_us"))?.as_i64()
}
