//! Single races: pages of them, newest first, and one with its attempts and a timeline of their events on one clock.
//!
//! Rows as stored, by column name, with the figures of the views. Not for SQL.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::members::{MemberField, integer, members, number, text};
use super::question::{RaceWindow, choice, positive_duration};
use crate::store::{ExportRow, RaceFilter, RaceOrder, ReadError, StoreReader};
use photofinish_facts::estimate::racing::{CostedAttempt, CostedRequest, RacingKind};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, RaceSource, StartReason, left_out};

/// Races, or other entries, on a page of `/api`.
pub const PAGE_MAX: u16 = 1_000;
const RACES_BY_DEFAULT: u16 = 50;

/// Which races.
#[derive(Args, Clone, Debug)]
pub struct RacesQuestion {
    #[command(flatten)]
    pub window: RaceWindow,
    /// Only races with an attempt at this upstream.
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = upstream)]
    pub upstream: Option<UpstreamName>,
    /// Only races that ended so.
    #[arg(long, value_parser = choice::<RaceOutcome>())]
    pub outcome: Option<RaceOutcome>,
    /// Only races that took longer: to their first token if that is what they are sorted by, else to their end.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, allow_hyphen_values = true)]
    pub longer: Option<Duration>,
    /// Only the race with this id, or the newest one of the window whose provider gave an answer or a response this id.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub id: Option<String>,
    /// What comes first.
    #[arg(long, value_parser = choice::<RaceOrder>(), default_value = "newest")]
    pub order: RaceOrder,
    /// Maximum number of races; 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = RACES_BY_DEFAULT, value_parser = limit, allow_hyphen_values = true)]
    pub limit: u16,
    /// Only races that began before this one: `next` of the page before. Only of the newest first.
    #[arg(long, value_name = "RACE_ID", value_parser = race_id)]
    pub before: Option<String>,
}

/// Both parts of `PROVIDER/MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamName {
    pub provider: String,
    pub model: String,
}

/// A page of races.
#[derive(Clone, Debug)]
pub struct Page {
    pub races: Vec<Map<String, Value>>,
    /// The `before` of the next page, if there is one.
    pub next: Option<String>,
}

members! {
    /// Races, newest first.
    pub RACE_PAGE: page_object(of: &Page) {
        races: List("Race", usize::MAX) = of.races;
        /// the value of `before` for the next page; null on the last page, and where the slowest come first
        next: Text or_null = of.next;
    }
}

impl Page {
    pub fn json(&self) -> Value {
        page_object(self).into()
    }
}

/// Reads a page.
///
/// # Errors
/// For an operator.
pub fn page(reader: &StoreReader, question: &RacesQuestion, now_us: i64) -> Result<Page, ReadError> {
    let limit = usize::from(question.limit);
    let upstream = question.upstream.clone();
    let filter = RaceFilter {
        races: question.window.filter(now_us),
        upstream: upstream.map(|UpstreamName { provider, model }| (provider, model)),
        outcome: question.outcome,
        longer_us: question.longer.map(photofinish_base::clock::micros),
        id: question.id.clone(),
        order: question.order,
        before: question.before.clone(),
        // One more shows whether there is a next page.
        limit: limit + 1,
    };
    let mut races = reader.races(&filter)?;
    let more = races.len() > limit;
    races.truncate(limit);
    let last = || Some(races.last()?.get("race_id")?.as_str()?.to_owned());
    let next = if more && question.order == RaceOrder::Newest { last() } else { None };
    Ok(Page { races: races.into_iter().map(readable).collect(), next })
}

/// Reads one race with its attempts; none if nothing is stored. `race` is null until its own row is written, which may
/// be after the rows of its attempts.
///
/// # Errors
/// For an operator.
pub fn one(reader: &StoreReader, race_id: &str) -> Result<Option<Value>, ReadError> {
    let (race, mut attempts) = reader.race(race_id)?;
    if race.is_none() && attempts.is_empty() {
        return Ok(None);
    }
    let timeline = timeline(race.as_ref(), &attempts);
    tell_racing(race.as_ref(), &mut attempts);
    let race = race.map(readable);
    Ok(Some(json!({ "race_id": race_id, "race": race, "attempts": attempts, "timeline": timeline })))
}

/// Adds to each attempt what it was for.
fn tell_racing(race: Option<&ExportRow>, attempts: &mut [ExportRow]) {
    let text = |row: &ExportRow, name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |row: &ExportRow, name: &str| row.get(name).and_then(Value::as_i64);
    let outcome = |row: &ExportRow| AttemptOutcome::from_name(&text(row, "outcome")?);
    let outcomes = attempts.iter().filter_map(|row| Some((number(row, "ordinal")?, outcome(row)?)));
    let request = race.map(|race| {
        let source = text(race, "source").and_then(|name| RaceSource::from_name(&name)).unwrap_or_default();
        CostedRequest::new(source, ["winner", "rescued_by"].map(|name| number(race, name)), outcomes)
    });
    let look = race.and_then(|race| text(race, "look"));
    for row in attempts {
        let attempt = || {
            Some(CostedAttempt {
                ordinal: number(row, "ordinal")?,
                outcome: outcome(row)?,
                start_reason: StartReason::from_name(&text(row, "start_reason")?)?,
                audited: row.get("audited").is_some_and(|audited| *audited == true || *audited == 1),
                is_look: look.is_some() && look == text(row, "upstream"),
            })
        };
        let racing = attempt().and_then(|attempt| RacingKind::of(&attempt, request.as_ref()));
        row.insert("racing".to_owned(), json!(racing.map(RacingKind::as_str)));
    }
}

/// For clap and for paths: the stored form of an id.
///
/// # Errors
/// When it is not a UUID.
pub fn race_id(text: &str) -> Result<String, String> {
    match uuid::Uuid::try_parse(text) {
        Ok(id) => Ok(id.hyphenated().to_string()),
        Err(_) => Err("expected a race's id, as in the header x-photofinish-race: a UUID".to_owned()),
    }
}

/// A race's id in its stored form, or an id that a provider gave.
fn id(text: &str) -> Result<String, String> {
    match race_id(text) {
        Ok(race_id) => Ok(race_id),
        Err(_) if (1..=256).contains(&text.len()) => Ok(text.to_owned()),
        Err(_) => Err("expected an id of 1 to 256 bytes: of a race, or of a provider's answer".to_owned()),
    }
}

pub(super) fn limit(text: &str) -> Result<u16, String> {
    let limit = text.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
    limit.ok_or_else(|| format!("expected a whole number from 1 to {PAGE_MAX}"))
}

fn upstream(text: &str) -> Result<UpstreamName, String> {
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(UpstreamName { provider: provider.to_owned(), model: model.to_owned() })
        }
        _ => Err("expected PROVIDER/MODEL, such as groq/openai/gpt-oss-120b".to_owned()),
    }
}

/// The row with its start as a time, and the upstreams that it could not start as a list.
fn readable(mut race: ExportRow) -> Map<String, Value> {
    if let Some(text) = race.get("left_out").and_then(Value::as_str) {
        let left_out = left_out::parse(text).into_iter();
        let left_out = left_out.map(|one| json!({ "upstream": one.upstream, "reason": one.reason.as_str() }));
        let left_out = left_out.collect();
        race.insert("left_out".to_owned(), left_out);
    }
    let started = race.get("started_at").and_then(Value::as_i64);
    let started = started.and_then(|started| Timestamp::from_microsecond(started).ok());
    race.insert("started".to_owned(), json!(started.map(|started| format!("{started:.6}"))));
    race
}

/// Figures of a race, after its columns.
pub const OF_RACE: [MemberField; 9] = [
    text("upstream", "the winner's `provider` / `model_sent`; null when no attempt won").or_null(),
    number("client_ttft_ms", "ms", "from the request to the first payload byte handed to the client").or_null(),
    number(
        "overhead_ms",
        "ms",
        "part of `client_ttft_ms` added by the gateway; null for a client that does not stream",
    )
    .or_null(),
    number("duration_ms", "ms", "from the request to the end of the answer").or_null(),
    integer("input_tokens", "tokens", "of the winner's request, by the provider's count").or_null(),
    integer("output_tokens", "tokens", "that the winner generated, by the provider's count").or_null(),
    number("cost_usd_min", "USD", "lower bound of the cost of all its attempts; null where no price is known")
        .or_null(),
    number("cost_usd_max", "USD", "upper bound of it; null where nothing bounds it").or_null(),
    text("started", "`started_at` in the format of RFC 3339"),
];

/// Figures of an attempt, after its columns.
pub const OF_ATTEMPT: [MemberField; 5] = [
    text("upstream", "`provider` / `model_sent`"),
    number("ttft_ms", "ms", "first token − dispatch; null where no token was seen").or_null(),
    number("tpot_ms", "ms", "time per output token after the first; null where it cannot be measured").or_null(),
    number("tok_s", "tokens/s", "1 / TPOT: decoding speed for one user").or_null(),
    text(
        "racing",
        "what it was for if it was not the answer, as `GET /api/costs` names it; null where it is no racing",
    )
    .or_null(),
];

/// An event of a race's timeline.
pub const EVENT: [MemberField; 3] = [
    number("at_ms", "ms", "since the client's request was read"),
    integer("attempt", "", "its ordinal; null for what the client saw").or_null(),
    text("event", "what happened"),
];

/// The events of an attempt, in their usual order. Each is a column's name without `_us`; all but the first are stored
/// as times since the first.
pub const ATTEMPT_EVENTS: [&str; 12] = [
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
pub const RACE_EVENTS: [&str; 2] = ["first_token_sent", "done"];

/// Sorted by time; simultaneous events in the order of the attempts.
pub fn timeline(race: Option<&ExportRow>, attempts: &[ExportRow]) -> Vec<Value> {
    let mut events: Vec<(i64, Option<&Value>, &str)> = vec![(0, None, BEGIN)];
    for attempt in attempts {
        let dispatched = micros(attempt, ATTEMPT_EVENTS[0]).unwrap_or(0);
        for event in ATTEMPT_EVENTS {
            let since = if event == ATTEMPT_EVENTS[0] { 0 } else { dispatched };
            events.extend(micros(attempt, event).map(|at| (since + at, attempt.get("ordinal"), event)));
        }
    }
    for event in RACE_EVENTS {
        events.extend(race.and_then(|race| micros(race, event)).map(|at| (at, None, event)));
    }
    events.sort_by_key(|(at, ..)| *at);
    let object = |(at, attempt, event)| json!({ "at_ms": at as f64 / 1e3, "attempt": attempt, "event": event });
    events.into_iter().map(object).collect()
}

fn micros(row: &ExportRow, event: &str) -> Option<i64> {
    row.get(&format!("{event}_us"))?.as_i64()
}
