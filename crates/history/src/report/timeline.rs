//! The events of all attempts of a race, in order, on one clock.
//!
//! Not for drawing them.

use serde_json::{Value, json};

use crate::store::ExportRow;

/// The events of an attempt, in their usual order. Each is a column's name without `_us`; all but the first are stored
/// as times since the first.
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

/// The request was read: time 0.
pub const BEGIN: &str = "request_read";

/// The events of a race that its client saw.
pub const OF_RACE: [&str; 2] = ["first_token_sent", "done"];

/// Sorted by time; simultaneous events in the order of the attempts.
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
    let object = |(at, attempt, event)| json!({ "at_ms": at as f64 / 1e3, "attempt": attempt, "event": event });
    events.into_iter().map(object).collect()
}

fn micros(row: &ExportRow, event: &str) -> Option<i64> {
    row.get(&format!("{event}_us"))?.as_i64()
}
