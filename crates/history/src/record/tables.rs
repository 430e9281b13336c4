//! The tables, column by column: one [`RaceRecord`] for each request, one [`AttemptRecord`] for each started attempt, one
//! [`RunRecord`] for each run of a benchmark or of probes, one [`IncidentRecord`] for each incident. Each column is declared only here; `table` derives everything else from the declaration.
//!
//! Raw facts only: TTFT, TPOT and tok/s are views over them. A new column goes to the end of its table, with a
//! migration. The comments are the text of `docs/measurement.md`; `PHOTOFINISH_BLESS=1 cargo test -p photofinish-history
//! every_column_is_explained` writes them there.

use super::names::{
    AttemptOutcome, CensorCause, CostBasis, IncidentKind, IncidentState, RaceOutcome, RaceSource, RunKind, StartReason,
    TokenSource,
};
use super::table::{readable, table};
use photofinish_wire::judge::{CallsVerdict, Judgement, StructuredVerdict};

/// The edition of the definitions that the numbers of a row follow. Stored with each attempt.
pub const DEFINITION_VERSION: i64 = 1;

table! {
    /// One client request. A new one ends as `client_gone` until another outcome is known.
    RaceRecord is "race" {
        /// UUID v7, as in the header `x-photofinish-race`; its text sorts by time
        race_id: String,
        /// when the request was read; microseconds since 1970, UTC
        started_at: i64,
        /// the caller's name under `[users]`; null without users
        user: Option<String>,
        /// the surface, such as `chat`, `responses` or `messages`; `provider` for a path of a provider
        api: &'static str,
        /// the model that the client asked for; an alias counts as its model. Of a path of a provider its first word, such as `files`
        model: String,
        /// 1 when the client asked to stream
        stream: bool,
        /// `adaptive`, `race`, `hedge`, `fallback`, `weighted`, and in rows of older versions `rule`, `fastest`; null when the
        /// request was rejected before it had a plan
        policy: Option<&'static str>,
        /// what "best" meant: `auto`, `ttft`, `completion`, `goodput`; null when the request was rejected before it had a plan
        optimise: Option<&'static str>,
        /// `n` of the request; null where the request had none, which means 1
        n_choices: Option<i64>,
        /// `max_tokens` of the request
        max_tokens: Option<i64>,
        /// 1 when the request offered tools
        has_tools: bool,
        /// size of the request's body
        input_bytes: i64,
        /// `input_bytes` / 4: an estimate, never used as a count
        input_tokens_estimate: i64,
        /// how many attempts were started
        attempts: i64,
        /// `ordinal` of the attempt that the client's answer came from; null when none won
        winner: Option<i64>,
        /// first payload byte handed to the client; µs since the request was read
        first_token_sent_us: Option<i64>,
        /// end of the answer; µs since the request was read
        done_us: Option<i64>,
        /// `ok`, `error`, `client_gone`, `rejected` (by the gateway), `shutdown`
        outcome: RaceOutcome = RaceOutcome::ClientGone,
        /// status that the client received: always 200 if the head of the answer was sent early (`keepalive`); null if
        /// the client left before the race had an answer
        http_status: Option<i64>,
        /// other races that ran when this one began, including those of probes
        in_flight: i64,
        /// version of photofinish
        gateway_version: &'static str = env!("CARGO_PKG_VERSION"),
        /// the plan at the start: the upstreams in order, each with its earliest start, such as
        /// `groq/llama@0 cerebras/llama@412ms openrouter/x@failure`; `@last` when no other is left; at most 512 characters, `…` marks a cut; null when
        /// the request was rejected before it had a plan, and in rows of older versions
        plan: Option<String>,
        /// short codes for the reasons of the plan, separated by spaces; `listed`: the configured order, nothing learned;
        /// null where `plan` is null
        why: Option<String>,
        /// `ordinal` of the attempt that continued a streamed answer which broke off (`rescue`), the last if there were
        /// several; null when there was no rescue
        rescued_by: Option<i64>,
        /// upstreams of the model that this race could not start, each with the reason: `dialect` (it does not serve the
        /// surface), `capability` (its dialect cannot express all of the request, or according to the catalogue the model lacks
        /// tools, a kind of input or JSON schemas), `too_long` (prompt and answer certainly exceed its context, or the answer
        /// exceeds its limit), `unlisted` (its provider does not list it now), `cooling_down`, `breaker`, `failovers` (as
        /// many as may replace another were listed before it), `forbidden`, `limit` (by the [limits](limits.md) of its caller), `quality` (it answers [worse](quality.md)), such as `groq/llama@cooling_down openrouter/x@breaker`; at most 512 characters, `…` marks a cut; a
        /// list in `/api/races`. Also set when the request was rejected because no upstream was left; null when no upstream was
        /// left out, when the request was rejected for another reason, and in rows of older versions. Upstreams without a key
        /// are not listed. The budget of a model is no reason, because it excludes no upstream; `why` has `budget` where an extra attempt
        /// exceeded it
        left_out: Option<String>,
        /// who asked: `client`, `probe`, `bench` or [`shadow`](quality.md#a-newcomer-beside-the-race). Figures count clients only, unless a question asks for others
        source: RaceSource,
        /// the run that asked, as in the table `run`; null for clients and probes
        run_id: Option<String>,
        /// the kind of prompt and answer, such as `1k`; null for clients
        workload: Option<String>,
        /// planned start; µs relative to `started_at`, so 0 or less if it started late. Null for clients, and for requests
        /// without a planned start
        scheduled_us: Option<i64>,
        /// probability with which this request drew each upstream of its model to be looked at; null where none could be drawn: the
        /// client does not stream, names its upstreams, or the model has one upstream
        p_look: Option<f64>,
        /// the upstream that it drew; null in most rows
        look: Option<String>,
        /// why the drawn upstream did not start: as in `left_out`, or `budget`; null if it started
        look_out: Option<&'static str>,
        /// the team of the user at that time; null without one
        team: Option<String>,
        /// the id of the key that the user sent; null for the token of the configuration
        caller_key: Option<String>,
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
        /// the `model` that was sent; the upstream is `provider` / `model_sent`
        model_sent: String,
        /// the `model` field of the answer
        model_reported: Option<String>,
        /// wire format: `openai`, `responses`, `anthropic`, `gemini`, `bedrock`, `ollama`
        dialect: &'static str = "openai",
        /// a short hash of the key, never the key; null where no key was sent
        key_id: Option<String>,
        /// `first`, `hedge` (the others were late), `fallback` (another failed), `retry` (the same upstream again: with
        /// another key, with a changed request, over a new connection after a pooled one died, after a wait (`retries`),
        /// or in a race that lost its winner), `rescue` (to continue a streamed answer that broke off; nothing is
        /// learned about TTFT from it, and its cost counts as extra)
        start_reason: StartReason = StartReason::First,
        /// when it was started; µs since the client's request was read
        dispatch_us: i64,
        /// probability that the plan put this upstream at this position: 1 except for `weighted`
        p_include: Option<f64>,
        /// probability of an audit if it loses; 1 for a look, a revisit, and a trial of an upstream whose breaker is open; a
        /// drained loser is not audited
        p_audit: Option<f64>,
        /// 1: it lost, and ran on to its own first token so that the history stays unbiased
        audited: bool,
        /// 1: its connection came from the pool
        conn_reused: Option<bool>,
        /// `1.1` or `2`
        http_version: Option<&'static str>,
        /// a connection was ready (name look-up, TCP, a proxy's tunnel and TLS, or the pool)
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
        /// the TTFT, or the time without a token until observation ended; null if the attempt failed
        ttft_obs_us: Option<i64>,
        /// 1: `ttft_obs_us` is the TTFT; 0: it is censored
        ttft_event: Option<i64>,
        /// why it is censored: `lost`, `client_gone`, `timeout`, `shutdown`
        censor_cause: Option<CensorCause>,
        /// `won` (served the client to its end), `lost` (cancelled for another), `drained` (a loser read to its end,
        /// because its provider bills it in full anyway, or because its rest is shorter than a new connection takes),
        /// `failed` (before its first token), `failed_mid` (after it),
        /// `empty` (finished without a token or, for a client that does not stream, with only white space or reasoning),
        /// `refused` (by a content policy), `timeout`, `client_gone`, `shutdown`, `shed` (given up by the gateway because
        /// descriptors or memory ran out: not a failure of its upstream)
        outcome: AttemptOutcome = AttemptOutcome::ClientGone,
        /// status of the provider's answer
        http_status: Option<i64>,
        /// `dns`, `connect`, `tls`, `reset`, `closed`, `timeout`, `idle_timeout`, `rate_limited`, `overloaded`,
        /// `server_error`, `unauthorized`, `forbidden`, `not_found`, `bad_request`, `context_length`, `content_policy`,
        /// `too_large`, `in_stream_error`, `malformed`, `endless`, `protocol`
        failure: Option<&'static str>,
        /// `connect`, `headers`, `first_token`, `stream`
        failure_phase: Option<&'static str>,
        /// the wait that the provider asked for
        retry_after_ms: Option<i64>,
        /// events with payload
        payload_events: i64,
        /// events with reasoning, counted in `payload_events` too
        reasoning_events: i64,
        /// Unicode characters of payload
        chars_total: i64,
        /// Unicode characters in the first event with payload
        chars_first: i64,
        /// comments and pings
        keepalives: i64,
        /// between events with payload: median
        gap_p50_us: Option<i64>,
        /// between events with payload: 99th percentile
        gap_p99_us: Option<i64>,
        /// between events with payload: the longest
        gap_max_us: Option<i64>,
        /// 1: the provider buffered the answer, so it has no tok/s; null if this cannot be decided
        burst: Option<bool>,
        /// 1: reading stopped because the client was slower than the provider
        client_stalled: bool,
        /// tokens of the request, as the provider counts
        input_tokens: Option<i64>,
        /// part of `input_tokens` that the provider read from its cache
        cached_input_tokens: Option<i64>,
        /// generated tokens, as the provider counts, including reasoning even if the provider counts it separately
        output_tokens: Option<i64>,
        /// part of `output_tokens` that was reasoning, as the provider counts
        reasoning_tokens: Option<i64>,
        /// where the counts come from: `usage`, `partial` (usage of a stream that was cut), `none`; `tokenizer`, `chars`
        /// and `events` are not used yet
        tok_src: TokenSource,
        /// as the provider reports it
        finish_reason: Option<String>,
        /// time of waiting, as the provider reports it
        server_queue_us: Option<i64>,
        /// time of reading the prompt, as the provider reports it
        server_prefill_us: Option<i64>,
        /// time of generating, as the provider reports it
        server_decode_us: Option<i64>,
        /// total time, as the provider reports it; if only a header reports it (`openai-processing-ms`,
        /// `x-envoy-upstream-service-time`), up to the head of the answer
        server_total_us: Option<i64>,
        /// requests left, by the provider's headers; the tightest of several limits
        ratelimit_remaining_requests: Option<i64>,
        /// tokens left, by the provider's headers; the tightest of several limits
        ratelimit_remaining_tokens: Option<i64>,
        /// cost of this attempt; `cost_basis` states how exact it is
        cost_usd: Option<f64>,
        /// `reported` (by the provider, if from 0 to 1,000,000 USD), `computed` (tokens × price, cached input tokens ×
        /// `cached_price`, those written into the cache × `cache_write_price`; or it is certain that nothing is billed),
        /// `at_least` (the lower bound), `at_most` (the upper bound, where the lower is 0), `unknown`
        cost_basis: CostBasis,
        /// other attempts that ran at this upstream at dispatch, including those of probes
        in_flight_upstream: i64,
        /// edition of these definitions: 1
        definition_version: i64 = DEFINITION_VERSION,
        /// lower bound of its cost; null where its upstream has no price and reported no cost, and in rows of older
        /// versions
        cost_usd_min: Option<f64>,
        /// upper bound of its cost; null where nothing bounds it
        cost_usd_max: Option<f64>,
        /// where the price comes from: `config`, `catalogue 2026-11-22` (the day of its facts), `reported` (by the
        /// provider, as a cost); null where its upstream has no price
        price_source: Option<String>,
        /// part of `input_tokens` that the provider wrote into its cache
        cache_write_tokens: Option<i64>,
        /// the tier that served it, as its answer says: `flex`, `priority`, `ultrafast`, `fast` (Anthropic's mode), `us`
        /// (Anthropic: only in the United States), `reserved` (capacity that was paid for in advance), `other`; null for the
        /// usual tier, and where the answer names no tier
        service_tier: Option<&'static str>,
        /// 1: the answer was requested in one piece, and was not streamed. It has no token times and no TTFT; `eof_us` is the
        /// time to the whole answer
        plain: bool,
        /// the time to its first token (of a plain answer: to all of it) that was predicted when it was started: the geometric mean
        /// of what was expected, µs. Null where too little was known of its upstream, for rescues, and in rows of older versions
        predicted_us: Option<i64>,
        /// the tool calls of an answer that came whole, where the request offered tools: `valid`, `not_json` (arguments that are no
        /// JSON), `unknown_name` (a tool that was not offered), `breaks_schema` (arguments that break the schema of their tool),
        /// `none` (no call), `not_checked`; the first defect counts: see [Quality](quality.md)
        calls: Option<&'static str>,
        /// the answer, where the request gave a schema for it: `valid`, `invalid`, `not_checked`; null if it made calls or refused
        structured: Option<&'static str>,
        /// equal for requests with the same tools and schema: a checksum of their text
        tool_set: Option<i64>,
    }
}

table! {
    /// One call of a benchmark. Written when it begins, and again when it ends.
    RunRecord is "run" {
        /// UUID v7; its text sorts by time
        run_id: String,
        /// `bench`
        kind: RunKind,
        /// the name that the operator gave it
        label: Option<String>,
        /// when it began; microseconds since 1970, UTC (indexed)
        started_at: i64,
        /// when it ended; null while it runs, and where it was killed; microseconds since 1970, UTC
        ended_at: Option<i64>,
        /// what was measured, such as `groq/openai/gpt-oss-120b`; several are separated by spaces
        target: String,
        /// what was asked for: a JSON object without keys and prompts
        spec: String = "{}".to_owned(),
        /// the machine of the client: processor and system
        machine: Option<String>,
        /// `trusted`, or why the client may have spoiled the figures; null where this was not checked
        trust: Option<String>,
        /// cost of its requests; null if unknown
        cost_usd: Option<f64>,
        /// the figures: a JSON object; null while it runs
        result: Option<String>,
    }
}

table! {
    /// A stretch of time in which an upstream failed or was slow. Written when it is found, every five minutes, and when it ends.
    IncidentRecord is "incident" {
        /// when it was found (microseconds since 1970), its kind and its upstream; its text sorts by time
        incident_id: String,
        /// `provider` / `model_sent`; null for an incident of the gateway: half of the providers at once
        upstream: Option<String>,
        /// `failures` (failed or refused attempts, or an open breaker), `slower` (first tokens), `tok_s` (tokens after the first), `changed` (the model behind it says other things first: see
        /// [Quality](quality.md#a-change-over-time))
        kind: IncidentKind = IncidentKind::Failures,
        /// `open`, `ended`, or `end_unknown`: the upstream was not asked after `last_at`
        state: IncidentState = IncidentState::Open,
        /// when it began; microseconds since 1970, UTC (indexed)
        began_at: i64,
        /// when it ended; null in the other states; microseconds since 1970, UTC
        ended_at: Option<i64>,
        /// start of the newest race with an attempt of it, or when its breaker was last seen open; microseconds since 1970, UTC
        last_at: i64,
        /// when this row was written; microseconds since 1970, UTC
        updated_at: i64,
        /// how many times as long first tokens took, or tokens after the first; null for `failures`
        factor: Option<f64>,
        /// 1: `factor` is a lower bound, because all attempts were cut before their first token
        at_least: bool,
        /// attempts within it; of `failures` those that failed or had a first token or plain answer
        attempts: i64,
        /// attempts of them that failed or were refused
        failures: i64,
        /// failures of them that a content policy refused
        refusals: i64,
        /// the usual share of failures: of the 7 days before
        usual_share: f64,
        /// first tokens that were seen within the usual 95th percentile
        seen: i64,
        /// first tokens that would usually have come in the time that was waited
        expected: f64,
        /// 1: its breaker was open for a minute
        breaker: bool,
        /// how many upstreams it is of: more than 1 for an incident of the gateway
        upstreams: i64 = 1,
        /// the incident of the gateway that it belongs to
        part_of: Option<String>,
    }
}

readable! {
    IncidentRecord: incident_id, upstream, kind, state, began_at, ended_at, last_at, updated_at, factor, at_least, attempts, failures,
    refusals, usual_share, seen, expected, breaker, upstreams, part_of
}

impl AttemptRecord {
    /// What its answer was, beside what the request asked for.
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
