//! The tables, column by column: one [`RaceRecord`] for each request, one [`AttemptRecord`] for each started attempt, one
//! [`RunRecord`] for each run of a benchmark or of probes, one [`IncidentRecord`] for each incident. Each column is declared only here; `table` derives everything else from the declaration.
//!
//! Raw facts only: TTFT, TPOT and tok/s are views over them. A new column goes to the end of its table, with a
//! migration. The comments are the text of `docs/measurement.md`; `PHOTOFINISH_BLESS=1 cargo test -p photofinish-history
//! every_column_is_explained` writes them there.

use super::names::{
    AttemptOutcome, CensorCause, IncidentKind, IncidentState, RaceOutcome, RaceSource, RunKind, StartReason,
    TokenSource,
};
use super::table::{readable, table};
use photofinish_wire::answer::judgement::{CallsVerdict, Judgement, StructuredVerdict};

/// The edition of the definitions that the numbers of a row follow. Stored with each attempt.
pub const DEFINITION_VERSION: i64 = 1;

table! {
    /// One client request. A new one ends as `client_gone` until another outcome is known.
    RaceRecord is "race" {
        /// UUID v7, as in the header `x-photofinish-race`
        race_id: String,
        /// when the request was read; µs since 1970, UTC
        started_at: i64,
        /// the caller's name
        user: Option<String>,
        /// the surface, such as `chat`
        api: &'static str,
        /// as the client asked for it; an alias counts as its model
        model: String,
        /// 1: the client asked to stream
        stream: bool,
        /// the policy; null: rejected before it had a plan
        policy: Option<&'static str>,
        /// `auto`, `ttft`, `completion` or `goodput`; null where `policy` is null
        optimise: Option<&'static str>,
        /// `n` of the request; null means 1
        n_choices: Option<i64>,
        /// `max_tokens` of the request
        max_tokens: Option<i64>,
        /// 1: the request offered tools
        has_tools: bool,
        /// size of the body
        input_bytes: i64,
        /// `input_bytes` / 4
        input_tokens_estimate: i64,
        /// attempts that were started
        attempts: i64,
        /// `ordinal` of the attempt that the client got
        winner: Option<i64>,
        /// first payload byte handed to the client; µs since the request was read
        first_token_sent_us: Option<i64>,
        /// end of the answer; µs since the request was read
        done_us: Option<i64>,
        /// `ok`, `error`, `client_gone`, `rejected` (by the gateway), `shutdown`
        outcome: RaceOutcome = RaceOutcome::ClientGone,
        /// status that the client received
        http_status: Option<i64>,
        /// other races that ran when this one began
        in_flight: i64,
        /// version of photofinish
        gateway_version: &'static str = env!("CARGO_PKG_VERSION"),
        /// the upstreams in order with their earliest start, such as `groq/llama@0 cerebras/llama@412ms x/y@failure`;
        /// cut at 512 characters
        plan: Option<String>,
        /// [codes](routing.md#why-was-it-chosen) for the reasons of the plan
        why: Option<String>,
        /// `ordinal` of the last attempt that continued a broken answer
        rescued_by: Option<i64>,
        /// upstreams that could not start, with the reason, such as `groq/llama@breaker`: `dialect` (it does not serve
        /// the surface), `capability` (it cannot take all of the request), `too_long`, `unlisted` (by its provider),
        /// `cooling_down`, `breaker`, `failovers` (enough others were listed before it), `forbidden`, `limit` (of the
        /// caller), `quality` (it is worse), `refuses` (it refused the last requests of this kind); cut at 512
        /// characters
        left_out: Option<String>,
        /// who asked: `client`, `probe`, `bench` or `shadow`
        source: RaceSource,
        /// the benchmark that asked, as in the table `run`
        run_id: Option<String>,
        /// kind of prompt, such as `1k`
        workload: Option<String>,
        /// planned start; µs relative to `started_at`
        scheduled_us: Option<i64>,
        /// probability of its look; if it drew none, the mean over the upstreams
        p_look: Option<f64>,
        /// the upstream that was drawn
        look: Option<String>,
        /// why it did not start: as in `left_out`, `full` (`in_flight_max`), or `budget`
        look_out: Option<&'static str>,
        /// the user's team at that time
        team: Option<String>,
        /// id of the key that the user sent
        caller_key: Option<String>,
        /// what it is [charged to](keys.md#tags), separated by spaces
        tags: Option<String>,
        /// a checksum of the [session's](routing.md#sessions) name: requests with the same one are of one session
        session: Option<i64>,
    }
}

table! {
    /// One started attempt.
    AttemptRecord is "attempt" {
        /// its race
        race_id: String,
        /// from 0, in the order of starting
        ordinal: i64,
        /// name of the provider in the config
        provider: String,
        /// the `model` that was sent
        model_sent: String,
        /// the `model` field of the answer
        model_reported: Option<String>,
        /// wire format, by the name of the [dialect](providers.md)
        dialect: &'static str = "openai",
        /// a short hash of the key
        key_id: Option<String>,
        /// `first`, `hedge` (the others were late), `fallback` (another failed), `retry` (the same upstream again),
        /// `rescue` (to continue a broken answer)
        start_reason: StartReason = StartReason::First,
        /// when it was started; µs since the client's request was read
        dispatch_us: i64,
        /// probability of this upstream at this position
        p_include: Option<f64>,
        /// probability of an audit if it loses
        p_audit: Option<f64>,
        /// 1: it lost, and ran on to its first token
        audited: bool,
        /// 1: its connection came from the pool
        conn_reused: Option<bool>,
        /// `1.1` or `2`
        http_version: Option<&'static str>,
        /// a connection was ready, new or from the pool
        connect_us: Option<i64>,
        /// status and headers read
        headers_us: Option<i64>,
        /// first byte of the body
        first_byte_us: Option<i64>,
        /// first event that is not a comment or ping
        first_event_us: Option<i64>,
        /// first token
        first_token_us: Option<i64>,
        /// `text`, `reasoning`, `tool`, `refusal`, `audio`, `image`, `whole` (an embedding)
        first_kind: Option<&'static str>,
        /// first token that is not reasoning
        first_answer_us: Option<i64>,
        /// second event with payload
        second_token_us: Option<i64>,
        /// last event with payload
        last_token_us: Option<i64>,
        /// the finish reason
        finish_us: Option<i64>,
        /// the body ended
        eof_us: Option<i64>,
        /// the gateway dropped it
        cancel_us: Option<i64>,
        /// the TTFT, or the time without a token; null if it failed
        ttft_obs_us: Option<i64>,
        /// 1: `ttft_obs_us` is the TTFT; 0: it is censored
        ttft_event: Option<i64>,
        /// why it is censored: `lost`, `client_gone`, `timeout`, `shutdown`
        censor_cause: Option<CensorCause>,
        /// `won`, `lost` (cancelled for another), `drained` (a loser read to its end), `failed` (before its first
        /// token), `failed_mid` (after it), `empty`, `refused` (by a content policy), `timeout`, `client_gone`,
        /// `shutdown`, `shed` (no descriptor or memory was left)
        outcome: AttemptOutcome = AttemptOutcome::ClientGone,
        /// status of the provider's answer
        http_status: Option<i64>,
        /// one of the [failures](answers.md#failures)
        failure: Option<&'static str>,
        /// `connect`, `headers`, `first_token`, `stream`
        failure_phase: Option<&'static str>,
        /// the wait that the provider asked for
        retry_after_ms: Option<i64>,
        /// events with payload
        payload_events: i64,
        /// those of them with reasoning
        reasoning_events: i64,
        /// Unicode characters of payload
        chars_total: i64,
        /// characters in the first of these events
        chars_first: i64,
        /// comments and pings
        keepalives: i64,
        /// median time between events with payload
        gap_p50_us: Option<i64>,
        /// its 95th percentile: how much the answer jitters
        gap_p95_us: Option<i64>,
        /// its 99th percentile
        gap_p99_us: Option<i64>,
        /// the longest
        gap_max_us: Option<i64>,
        /// 1: the provider buffered the answer
        burst: Option<bool>,
        /// 1: the client read more slowly than the provider sent
        client_stalled: bool,
        /// tokens of the request, by the provider's count
        input_tokens: Option<i64>,
        /// those that the provider read from its cache
        cached_input_tokens: Option<i64>,
        /// generated tokens with reasoning, by the provider's count
        output_tokens: Option<i64>,
        /// those of them that were reasoning
        reasoning_tokens: Option<i64>,
        /// source of the counts: `usage`, `partial` (of a stream that was cut), `none`
        tok_src: TokenSource,
        /// as the provider reports it
        finish_reason: Option<String>,
        /// waiting, by the provider's clock
        server_queue_us: Option<i64>,
        /// reading the prompt
        server_prefill_us: Option<i64>,
        /// generating
        server_decode_us: Option<i64>,
        /// total time
        server_total_us: Option<i64>,
        /// requests left, by the headers
        ratelimit_remaining_requests: Option<i64>,
        /// tokens left, by the headers
        ratelimit_remaining_tokens: Option<i64>,
        /// other attempts that ran at this upstream at dispatch
        in_flight_upstream: i64,
        /// edition of these definitions: 1
        definition_version: i64 = DEFINITION_VERSION,
        /// lower bound of its cost; null where no price is known
        cost_usd_min: Option<f64>,
        /// upper bound of its cost, equal to the lower one where it is exact; null where nothing bounds it
        cost_usd_max: Option<f64>,
        /// `config`, `catalogue 2026-11-22` (the day of its facts), `reported` (the cost itself, by the provider)
        price_source: Option<String>,
        /// those of `input_tokens` that the provider wrote into its cache; one that it keeps for an hour costs twice the
        /// input price, where it says so (Anthropic, Bedrock)
        cache_write_tokens: Option<i64>,
        /// the tier that the answer names, such as `flex` or `priority`; null for the usual one
        service_tier: Option<&'static str>,
        /// 1: requested in one piece, so it has no token times
        plain: bool,
        /// predicted time to its first token, or to a whole plain answer
        predicted_us: Option<i64>,
        /// its tool calls, [checked](quality.md#broken-calls-in-your-traffic)
        calls: Option<&'static str>,
        /// its answer by the request's schema: `valid`, `invalid`, `not_checked`
        structured: Option<&'static str>,
        /// a checksum of the request's tools and schema
        tool_set: Option<i64>,
        /// the id that the provider gave its answer, such as `chatcmpl-…`
        response_id: Option<String>,
    }
}

table! {
    /// One call of a benchmark. Written when it begins, and again when it ends.
    RunRecord is "run" {
        /// UUID v7; its text sorts by time
        run_id: String,
        /// `bench`
        kind: RunKind,
        /// its name
        label: Option<String>,
        /// when it began; µs since 1970, UTC (indexed)
        started_at: i64,
        /// when it ended; µs since 1970, UTC; null while it runs, and where it was killed
        ended_at: Option<i64>,
        /// what was measured, separated by spaces
        target: String,
        /// what was asked for: JSON without keys and prompts
        spec: String = "{}".to_owned(),
        /// processor and system of the client
        machine: Option<String>,
        /// `trusted`, or why the client may have spoiled the figures
        trust: Option<String>,
        /// lower bound of the cost of its requests
        cost_usd_min: Option<f64>,
        /// upper bound
        cost_usd_max: Option<f64>,
        /// the figures: JSON; null while it runs
        result: Option<String>,
    }
}

table! {
    /// A stretch of time in which an upstream failed or was slow. Written when it is found, every five minutes, and when it ends.
    IncidentRecord is "incident" {
        /// when it was found (µs since 1970), its kind and its upstream
        incident_id: String,
        /// `provider` / `model_sent`; null for an incident of the gateway
        upstream: Option<String>,
        /// `failures`, `slower`, `tok_s`, `week_slower`, `week_tok_s` or `changed`
        kind: IncidentKind = IncidentKind::Failures,
        /// `open`, `ended`, or `end_unknown`: not asked after `last_at`
        state: IncidentState = IncidentState::Open,
        /// when it began; µs since 1970, UTC (indexed)
        began_at: i64,
        /// when it ended; null in the other states
        ended_at: Option<i64>,
        /// when it was last asked, or its breaker last seen open
        last_at: i64,
        /// when this row was written
        updated_at: i64,
        /// how many times as long tokens took
        factor: Option<f64>,
        /// 1: `factor` is a lower bound
        at_least: bool,
        /// attempts within it
        attempts: i64,
        /// those that failed or were refused
        failures: i64,
        /// failures by a content policy
        refusals: i64,
        /// the usual share of failures
        usual_share: f64,
        /// first tokens that were seen
        seen: i64,
        /// first tokens that would usually have come
        expected: f64,
        /// 1: its breaker was open for a minute
        breaker: bool,
        /// how many upstreams it is of
        upstreams: i64 = 1,
        /// the incident of the gateway that it belongs to
        part_of: Option<String>,
        /// requests that ended in an error, of its failed attempts
        broke: i64,
        /// requests that another upstream answered, of its failed attempts
        saved: i64,
        /// attempts in races that another upstream won
        lost: i64,
        /// the upstream that won most of those races
        traffic: Option<String>,
        /// callers whose attempts failed, by their user or else their key, of a minute at most 16; 0 where none is known
        callers: i64,
    }
}

readable! {
    IncidentRecord: incident_id, upstream, kind, state, began_at, ended_at, last_at, updated_at, factor, at_least, attempts, failures,
    refusals, usual_share, seen, expected, breaker, upstreams, part_of, broke, saved, lost,
    traffic, callers
}

impl AttemptRecord {
    /// Its cost, if it is known exactly.
    pub fn exact_cost_usd(&self) -> Option<f64> {
        self.cost_usd_min.filter(|_| self.cost_usd_min == self.cost_usd_max)
    }

    /// What its answer was, compared with what the request asked for.
    pub fn judgement(&self) -> Judgement {
        Judgement {
            calls: self.calls.and_then(CallsVerdict::from_name),
            structured: self.structured.and_then(StructuredVerdict::from_name),
        }
    }

    /// An attempt that has just been started. `upstream`: its provider, and the name of the model there.
    pub fn new(race_id: String, ordinal: i64, upstream: (String, String), start_reason: StartReason) -> AttemptRecord {
        let (provider, model_sent) = upstream;
        AttemptRecord { race_id, ordinal, provider, model_sent, start_reason, ..AttemptRecord::default() }
    }
}
