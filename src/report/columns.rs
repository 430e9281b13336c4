//! What the columns of a race and of its attempts say, for the description of `/api`. Where they come from and how they are
//! filled: `docs/measurement.md`.

use super::fields::{Field, integer, number, text};

/// The columns of the table `race`.
pub const RACE: [Field; 24] = [
    text("race_id", "", "UUID v7, as in the header `x-photofinish-race`; its text sorts by time"),
    integer("started_at", "µs", "when the request was read; since 1970, UTC"),
    text("user", "", "the caller's name under `[users]`; null without users").or_null(),
    text("api", "", "`chat`"),
    text("model", "", "as the client asked for it"),
    integer("stream", "", "1 when the client asked to stream"),
    text("policy", "", "the policy's name, such as `race`; null when rejected before a plan was made").or_null(),
    text("optimise", "", "what was to be good: `ttft`, `completion` or `goodput`").or_null(),
    integer("n_choices", "", "`n` of the request; null where it had none, which means 1").or_null(),
    integer("max_tokens", "tokens", "as requested").or_null(),
    integer("has_tools", "", "1 when the request offered tools"),
    integer("input_bytes", "bytes", "size of the request's body"),
    integer("input_tokens_estimate", "tokens", "`input_bytes` / 4: an estimate, never used as a count"),
    integer("attempts", "", "how many were started"),
    integer("winner", "", "`ordinal` of the attempt that the client's answer came from; null when none won").or_null(),
    integer("first_token_sent_us", "µs", "first payload byte handed to the client, since the request was read")
        .or_null(),
    integer("done_us", "µs", "end of the answer, since the request was read").or_null(),
    text("outcome", "", "how it ended: `ok`, `error`, `client_gone`, `rejected` (by the gateway), `shutdown`"),
    integer("http_status", "", "what the client got; null when it left before").or_null(),
    integer("in_flight", "", "other races that ran when this one began"),
    text("gateway_version", "", "version of photofinish"),
    text("plan", "", "what was planned at the start, such as `groq/llama@0 openrouter/x@failure`").or_null(),
    text("why", "", "short codes of why it was planned so, with spaces between").or_null(),
    integer("rescued_by", "", "`ordinal` of the attempt that went on with an answer that broke off").or_null(),
];

/// What is told of a race beside them.
pub const OF_RACE: [Field; 5] = [
    text("upstream", "", "the winner's `provider` / `model_sent`; null when none won").or_null(),
    number("client_ttft_ms", "ms", "from the request to the first payload byte handed to the client").or_null(),
    number("overhead_ms", "ms", "what the gateway added to it; null for a client that does not stream").or_null(),
    number("duration_ms", "ms", "from the request to the end of the answer").or_null(),
    text("started", "", "`started_at` as RFC 3339 has it"),
];

/// The columns of the table `attempt`. Times are since the attempt's own dispatch, where nothing else is said.
pub const ATTEMPT: [Field; 62] = [
    text("race_id", "", "its race"),
    integer("ordinal", "", "from 0, in the order of starting"),
    text("provider", "", "name of the provider in the config"),
    text("model_sent", "", "what was sent as `model`; the upstream is `provider` / `model_sent`"),
    text("model_reported", "", "the `model` field of the answer").or_null(),
    text("dialect", "", "wire format: `openai`, `responses`, `anthropic`, `gemini`, `bedrock`, `ollama`"),
    text("key_id", "", "a short hash of the key, never the key; null where none was sent").or_null(),
    text("start_reason", "", "`first`, `hedge` (the others were late), `fallback` (another failed), `retry`, `rescue`"),
    integer("dispatch_us", "µs", "when it was started, since the client's request was read"),
    number("p_include", "", "probability with which the plan included this upstream").or_null(),
    number("p_audit", "", "probability with which it would have been audited as a loser").or_null(),
    integer("audited", "", "1: it lost, and ran on to its own first token so that the history stays unbiased"),
    integer("conn_reused", "", "1: its connection came out of the pool").or_null(),
    text("http_version", "", "`1.1` or `2`").or_null(),
    integer("connect_us", "µs", "a connection was at hand (name look-up, TCP and TLS, or the pool)").or_null(),
    integer("headers_us", "µs", "status and headers were read").or_null(),
    integer("first_byte_us", "µs", "first byte of the body").or_null(),
    integer("first_event_us", "µs", "first event that is no comment or ping").or_null(),
    integer("first_token_us", "µs", "first token").or_null(),
    text("first_kind", "", "`text`, `reasoning`, `tool`, `refusal`, `audio`, `image`, `whole` (an embedding)")
        .or_null(),
    integer("first_answer_us", "µs", "first token that is no reasoning").or_null(),
    integer("second_token_us", "µs", "second event with payload").or_null(),
    integer("last_token_us", "µs", "last event with payload").or_null(),
    integer("finish_us", "µs", "the finish reason").or_null(),
    integer("eof_us", "µs", "the body ended").or_null(),
    integer("cancel_us", "µs", "the gateway dropped it").or_null(),
    integer("ttft_obs_us", "µs", "the TTFT, or for how long none had been seen; null where it failed").or_null(),
    integer("ttft_event", "", "1: `ttft_obs_us` is the TTFT; 0: it is censored").or_null(),
    text("censor_cause", "", "why no first token was seen: `lost`, `client_gone`, `timeout`, `shutdown`").or_null(),
    text(
        "outcome",
        "",
        "`won`, `lost`, `drained`, `failed`, `failed_mid`, `empty`, `refused`, `timeout`, `client_gone`, `shutdown` or `shed`",
    ),
    integer("http_status", "", "the provider's").or_null(),
    text("failure", "", "why it failed, such as `rate_limited`, `timeout` or `reset`; the reference lists all")
        .or_null(),
    text("failure_phase", "", "where it failed: `connect`, `headers`, `first_token`, `stream`").or_null(),
    integer("retry_after_ms", "ms", "how long the provider asked to be left alone").or_null(),
    integer("payload_events", "", "events with payload"),
    integer("reasoning_events", "", "events with reasoning, among `payload_events`"),
    integer("chars_total", "", "Unicode characters of payload"),
    integer("chars_first", "", "characters of payload in the first event"),
    integer("keepalives", "", "comments and pings"),
    integer("gap_p50_us", "µs", "between events with payload: median").or_null(),
    integer("gap_p99_us", "µs", "between events with payload: 99th percentile").or_null(),
    integer("gap_max_us", "µs", "between events with payload: the longest").or_null(),
    integer("burst", "", "1: buffered by the provider; null where it cannot be told").or_null(),
    integer("client_stalled", "", "1: reading stopped because the client did not take what was there"),
    integer("input_tokens", "tokens", "tokens of the request, as the provider counts").or_null(),
    integer("cached_input_tokens", "tokens", "of `input_tokens`, read from its cache").or_null(),
    integer("output_tokens", "tokens", "generated tokens, as the provider counts").or_null(),
    integer("reasoning_tokens", "tokens", "tokens generated while reasoning, as the provider counts").or_null(),
    text("tok_src", "", "where the counts come from: `usage`, `partial` or `none`"),
    text("finish_reason", "", "as the provider says").or_null(),
    integer("server_queue_us", "µs", "as the provider reports about itself: waiting").or_null(),
    integer("server_prefill_us", "µs", "as the provider reports about itself: reading the prompt").or_null(),
    integer("server_decode_us", "µs", "as the provider reports about itself: generating").or_null(),
    integer("server_total_us", "µs", "as the provider reports about itself: altogether").or_null(),
    integer("ratelimit_remaining_requests", "", "requests that the provider's headers said were left").or_null(),
    integer("ratelimit_remaining_tokens", "tokens", "tokens that the provider's headers said were left").or_null(),
    number("cost_usd", "USD", "cost of this attempt").or_null(),
    text(
        "cost_basis",
        "",
        "`reported` (by the provider), `computed` (tokens × price), `at_least`, `at_most` or `unknown`",
    ),
    integer("in_flight_upstream", "", "other attempts that ran at this upstream at dispatch"),
    integer("definition_version", "", "edition of these definitions: 1"),
    number("cost_usd_min", "USD", "it cost no less than this; null where it has no price").or_null(),
    number("cost_usd_max", "USD", "and no more than this; null where nothing bounds it").or_null(),
];

/// What is told of an attempt beside them.
pub const OF_ATTEMPT: [Field; 4] = [
    text("upstream", "", "`provider` / `model_sent`"),
    number("ttft_ms", "ms", "first token − dispatch; null where none was seen").or_null(),
    number("tpot_ms", "ms", "time per output token after the first; null where it cannot be told").or_null(),
    number("tok_s", "tokens/s", "1 / TPOT: decoding speed for one user").or_null(),
];
