//! The spans of one race, made from its finished rows: one for the request, one for each attempt. Names, times, counts and
//! outcomes; never content, never a key.
//!
//! Only attempts have the attributes of generative AI: a tool that adds up costs would otherwise count a request twice.

use super::encode::{Message, SpanHead, SpanKind};
use super::names;
use photofinish_config::config::Config;
use photofinish_gateway::proxy::RaceTrace;
use photofinish_history::record::{AttemptOutcome, AttemptRecord, RaceOutcome, RaceRecord};
use photofinish_history::recorder::EndedRace;
use photofinish_history::store::Record;

/// Bytes that a span usually takes.
const USUAL: usize = 1024;
/// The field of a scope that has a span.
const SPAN: u64 = 2;

/// Writes them, and returns how many they are.
pub fn spans(trace: &RaceTrace, config: &Config, ended: &EndedRace<'_>) -> (Message, u64) {
    let mut all = Message::with_capacity(ended.rows.len() * USUAL);
    let mut span = Message::with_capacity(USUAL);
    let Some(race) = ended.rows.iter().find_map(|row| if let Record::Race(race) = row { Some(race) } else { None })
    else {
        return (all, 0);
    };
    let attempts =
        || ended.rows.iter().filter_map(|row| if let Record::Attempt(attempt) = row { Some(attempt) } else { None });
    let mut count = 1;
    let winner = attempts().find(|attempt| Some(attempt.ordinal) == race.winner);
    of_request(&mut span, trace, race, winner.map(|winner| &**winner));
    all.field(SPAN, span.bytes());
    for attempt in attempts() {
        span.clear();
        of_attempt(&mut span, (trace, config), race, (attempt, ended.took_us(attempt.ordinal)));
        all.field(SPAN, span.bytes());
        count += 1;
    }
    (all, count)
}

fn of_request(span: &mut Message, trace: &RaceTrace, race: &RaceRecord, winner: Option<&AttemptRecord>) {
    let error = request_error(race);
    span.head(&SpanHead {
        trace_id: trace.trace_id,
        span_id: trace.span_id,
        parent_id: trace.parent_id,
        state: trace.state(),
        name: (race.api, &race.model),
        kind: SpanKind::Server,
        start: race.started_at,
        end: race.started_at + race.done_us.unwrap_or(0),
        is_error: error.is_some(),
    });
    span.text(names::RACE_ID, &race.race_id);
    span.text(names::API, race.api);
    span.text(names::MODEL, &race.model);
    span.text(names::OUTCOME, race.outcome.as_str());
    span.whole(names::ATTEMPTS, race.attempts);
    some(race.policy, |policy| span.text(names::POLICY, policy));
    some(winner, |winner| span.texts(names::WINNER, upstream(winner)));
    some(race.first_token_sent_us, |us| span.real(names::FIRST_TOKEN, seconds(us)));
    some(race.user.as_deref(), |user| span.text(names::USER, user));
    some(race.team.as_deref(), |team| span.text(names::TEAM, team));
    some(race.http_status, |status| span.whole(names::HTTP_STATUS, status));
    some(error.as_deref(), |error| span.text(names::ERROR_TYPE, error));
}

fn of_attempt(
    span: &mut Message,
    (trace, config): (&RaceTrace, &Config),
    race: &RaceRecord,
    (attempt, took_us): (&AttemptRecord, i64),
) {
    let (operation, error) = (names::operation(race.api), attempt_error(attempt));
    let start = race.started_at + attempt.dispatch_us;
    span.head(&SpanHead {
        trace_id: trace.trace_id,
        span_id: trace.attempt_id(usize::try_from(attempt.ordinal).unwrap_or(0)),
        parent_id: Some(trace.span_id),
        state: trace.state(),
        name: (operation, &attempt.model_sent),
        kind: SpanKind::Client,
        start,
        end: start + attempt.cancel_us.or(attempt.eof_us).unwrap_or(took_us),
        is_error: error.is_some(),
    });
    let server = config.providers.get(&attempt.provider).and_then(|provider| names::server(provider, attempt.dialect));
    span.text(names::OPERATION, operation);
    span.text(names::PROVIDER, names::vendor(&attempt.provider, server.map_or("", |(host, _)| host)));
    span.text(names::REQUEST_MODEL, &attempt.model_sent);
    if race.stream {
        span.flag(names::REQUEST_STREAM, true);
        some(attempt.first_event_us, |us| span.real(names::FIRST_CHUNK, seconds(us)));
    }
    some(race.max_tokens, |tokens| span.whole(names::REQUEST_MAX_TOKENS, tokens));
    some(attempt.model_reported.as_deref(), |model| span.text(names::RESPONSE_MODEL, model));
    some(attempt.finish_reason.as_deref(), |reason| span.list_of_one(names::FINISH_REASONS, reason));
    for (name, tokens) in [
        (names::INPUT_TOKENS, attempt.input_tokens),
        (names::CACHE_READ_TOKENS, attempt.cached_input_tokens),
        (names::CACHE_WRITE_TOKENS, attempt.cache_write_tokens),
        (names::OUTPUT_TOKENS, attempt.output_tokens),
        (names::REASONING_TOKENS, attempt.reasoning_tokens),
    ] {
        some(tokens, |tokens| span.whole(name, tokens));
    }
    if let Some((host, port)) = server {
        span.text(names::SERVER_ADDRESS, host);
        span.whole(names::SERVER_PORT, i64::from(port));
    }
    some(attempt.http_status, |status| span.whole(names::HTTP_STATUS, status));
    some(attempt.http_version, |version| span.text(names::HTTP_VERSION, version));
    some(error, |error| span.text(names::ERROR_TYPE, error));
    span.texts(names::UPSTREAM, upstream(attempt));
    span.whole(names::ORDINAL, attempt.ordinal);
    span.text(names::START_REASON, attempt.start_reason.as_str());
    span.text(names::OUTCOME, attempt.outcome.as_str());
    some(attempt.cost_usd_min, |usd| span.real(names::COST_MIN, usd));
    some(attempt.cost_usd_max, |usd| span.real(names::COST_MAX, usd));
}

/// The type of the error that the client got. A refusal of what the client sent is none.
fn request_error(race: &RaceRecord) -> Option<String> {
    match (race.http_status, race.outcome) {
        (Some(status @ 500..), _) => Some(status.to_string()),
        (Some(400..), _) => None,
        (_, RaceOutcome::Shutdown) => Some("shutdown".to_owned()),
        (_, RaceOutcome::Error) => Some("stream_broken".to_owned()),
        (_, RaceOutcome::Ok | RaceOutcome::ClientGone | RaceOutcome::Rejected) => None,
    }
}

/// The type of its error. Another's victory is none, and neither is the end of the client or of the gateway.
fn attempt_error(attempt: &AttemptRecord) -> Option<&'static str> {
    match attempt.outcome {
        AttemptOutcome::Lost | AttemptOutcome::Drained | AttemptOutcome::ClientGone | AttemptOutcome::Shutdown => None,
        AttemptOutcome::Empty => Some("empty"),
        _ => attempt.failure,
    }
}

fn upstream(attempt: &AttemptRecord) -> [&str; 3] {
    [&attempt.provider, "/", &attempt.model_sent]
}

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

fn some<T>(value: Option<T>, write: impl FnOnce(T)) {
    if let Some(value) = value {
        write(value);
    }
}
