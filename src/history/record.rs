//! The two rows: one [`RaceRecord`] for a client request, one [`AttemptRecord`] for each attempt that was started.
//!
//! Raw facts only; TTFT, TPOT and tok/s are views over them. Times are microseconds after the attempt's dispatch unless
//! the field says otherwise. Definitions: `docs/measurement.md`.

/// Stored with each attempt: which edition of the definitions its numbers follow.
pub const DEFINITION_VERSION: i64 = 1;

macro_rules! stored_names {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every one, in the order of its declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The stored name.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// The reverse; none for a name that is not known here.
            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

stored_names! {
    /// How a race ended.
    RaceOutcome {
        Ok = "ok",
        Error = "error",
        ClientGone = "client_gone",
        /// The gateway itself refused the request, after authentication.
        Rejected = "rejected",
        Shutdown = "shutdown",
    }
}

stored_names! {
    /// How an attempt ended.
    AttemptOutcome {
        /// It served the client to its end.
        Won = "won",
        /// Cancelled for another.
        Lost = "lost",
        /// A loser that was read to its end.
        Drained = "drained",
        /// Failed before its first token.
        Failed = "failed",
        /// Failed after its first token.
        FailedMid = "failed_mid",
        /// Finished well without a payload.
        Empty = "empty",
        /// A content policy said no.
        Refused = "refused",
        /// Connect or first-token timeout, or the total deadline.
        Timeout = "timeout",
        ClientGone = "client_gone",
        Shutdown = "shutdown",
        /// Given up by the gateway, for want of descriptors or memory: it says nothing of its upstream.
        Shed = "shed",
    }
}

stored_names! {
    /// Why an attempt was started.
    StartReason { First = "first", Hedge = "hedge", Fallback = "fallback", Retry = "retry", Rescue = "rescue" }
}

stored_names! {
    /// Why the observation of an attempt's TTFT ended before its first token.
    CensorCause { Lost = "lost", ClientGone = "client_gone", Timeout = "timeout", Shutdown = "shutdown" }
}

stored_names! {
    /// Where the token count came from.
    TokenSource { Usage = "usage", Partial = "partial", Tokenizer = "tokenizer", Chars = "chars", Events = "events", None = "none" }
}

stored_names! {
    /// How far `cost_usd` can be trusted.
    CostBasis { Reported = "reported", Computed = "computed", AtLeast = "at_least", AtMost = "at_most", Unknown = "unknown" }
}

/// One client request.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceRecord {
    /// UUID v7, as in `x-photofinish-race`.
    pub race_id: String,
    /// Microseconds since 1970, UTC.
    pub started_at: i64,
    /// The caller's name under `[users]`.
    pub user: Option<String>,
    /// `chat`.
    pub api: &'static str,
    /// As asked for.
    pub model: String,
    pub stream: bool,
    /// The policy by which the plan was made; none where the request was rejected before.
    pub policy: Option<&'static str>,
    /// What "fastest" meant: `ttft`, `completion` or `goodput`; none where the request was rejected before.
    pub optimise: Option<&'static str>,
    pub n_choices: Option<i64>,
    pub max_tokens: Option<i64>,
    pub has_tools: bool,
    pub input_bytes: i64,
    /// Bytes of the request body / 4: an estimate, never used as a count.
    pub input_tokens_estimate: i64,
    /// How many were started.
    pub attempts: i64,
    /// Ordinal of the attempt that the client's response was bound to.
    pub winner: Option<i64>,
    /// First payload byte handed to the client, after the request was read.
    pub first_token_sent_us: Option<i64>,
    /// End of the answer, after the request was read.
    pub done_us: Option<i64>,
    pub outcome: RaceOutcome,
    /// The status that the client got; none when it left before.
    pub http_status: Option<i64>,
    /// Races running when this one began, itself not counted.
    pub in_flight: i64,
    pub gateway_version: &'static str,
    /// What was planned at the start, such as `groq/llama@0 openrouter/x@failure`; at most 512 characters.
    pub plan: Option<String>,
    /// Short codes of why, with spaces between; `listed` where nothing learned had a part in it.
    pub why: Option<String>,
    /// Ordinal of the attempt that went on with a streamed answer which broke off, the last of several; none where nobody did.
    pub rescued_by: Option<i64>,
}

/// One started attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRecord {
    pub race_id: String,
    /// From 0, in the order of starting.
    pub ordinal: i64,
    pub provider: String,
    pub model_sent: String,
    /// The `model` field of the answer.
    pub model_reported: Option<String>,
    pub dialect: &'static str,
    /// A short hash of the key, never the key; none where no key was sent.
    pub key_id: Option<String>,
    pub start_reason: StartReason,
    /// After the client's request was read.
    pub dispatch_us: i64,
    /// Probability with which the plan included this candidate.
    pub p_include: Option<f64>,
    /// Probability with which it would have been audited as a loser.
    pub p_audit: Option<f64>,
    /// It lost, and ran on to its own first token (or the bound of that).
    pub audited: bool,
    pub conn_reused: Option<bool>,
    /// `1.1` or `2`.
    pub http_version: Option<&'static str>,
    /// A connection was at hand: new (name look-up, TCP, TLS) or out of the pool.
    pub connect_us: Option<i64>,
    pub headers_us: Option<i64>,
    pub first_byte_us: Option<i64>,
    pub first_event_us: Option<i64>,
    pub first_token_us: Option<i64>,
    /// `text`, `reasoning`, `tool`, `refusal` or `audio`.
    pub first_kind: Option<&'static str>,
    pub first_answer_us: Option<i64>,
    pub second_token_us: Option<i64>,
    pub last_token_us: Option<i64>,
    pub finish_us: Option<i64>,
    pub eof_us: Option<i64>,
    pub cancel_us: Option<i64>,
    /// The TTFT, or how long none had been seen when observation ended; none where it failed.
    pub ttft_obs_us: Option<i64>,
    /// 1 when `first_token_us` is set, 0 when censored.
    pub ttft_event: Option<i64>,
    pub censor_cause: Option<CensorCause>,
    pub outcome: AttemptOutcome,
    pub http_status: Option<i64>,
    /// The stored name of a `FailureKind`.
    pub failure: Option<&'static str>,
    /// The stored name of a `Phase`.
    pub failure_phase: Option<&'static str>,
    pub retry_after_ms: Option<i64>,
    /// Events with payload.
    pub payload_events: i64,
    pub reasoning_events: i64,
    /// Unicode characters of payload.
    pub chars_total: i64,
    /// Of these, in the first payload event.
    pub chars_first: i64,
    /// Comments and pings.
    pub keepalives: i64,
    /// Between payload events.
    pub gap_p50_us: Option<i64>,
    pub gap_p99_us: Option<i64>,
    pub gap_max_us: Option<i64>,
    /// Buffered by the provider ("fake stream"): its tok/s is no measurement. None where it cannot be told.
    pub burst: Option<bool>,
    /// Reading stopped because the client did not take what was there.
    pub client_stalled: bool,
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    pub tok_src: TokenSource,
    pub finish_reason: Option<String>,
    /// As the provider reports it, like the next three.
    pub server_queue_us: Option<i64>,
    pub server_prefill_us: Option<i64>,
    pub server_decode_us: Option<i64>,
    pub server_total_us: Option<i64>,
    pub ratelimit_remaining_requests: Option<i64>,
    pub ratelimit_remaining_tokens: Option<i64>,
    pub cost_usd: Option<f64>,
    pub cost_basis: CostBasis,
    /// This upstream's running attempts at dispatch, itself not counted.
    pub in_flight_upstream: i64,
    pub definition_version: i64,
    /// US dollars: it cost no less than this. None where its upstream has no price and named no cost.
    pub cost_usd_min: Option<f64>,
    /// And no more than this. None where nothing bounds it.
    pub cost_usd_max: Option<f64>,
}

impl AttemptRecord {
    /// An attempt that has just been started: everything else is not known yet. `upstream`: its provider, and what is sent there
    /// as the model.
    pub fn new(race_id: String, ordinal: i64, upstream: (String, String), start_reason: StartReason) -> AttemptRecord {
        let (provider, model_sent) = upstream;
        AttemptRecord {
            race_id,
            ordinal,
            provider,
            model_sent,
            model_reported: None,
            dialect: "openai",
            key_id: None,
            start_reason,
            dispatch_us: 0,
            p_include: None,
            p_audit: None,
            audited: false,
            conn_reused: None,
            http_version: None,
            connect_us: None,
            headers_us: None,
            first_byte_us: None,
            first_event_us: None,
            first_token_us: None,
            first_kind: None,
            first_answer_us: None,
            second_token_us: None,
            last_token_us: None,
            finish_us: None,
            eof_us: None,
            cancel_us: None,
            ttft_obs_us: None,
            ttft_event: None,
            censor_cause: None,
            outcome: AttemptOutcome::ClientGone,
            http_status: None,
            failure: None,
            failure_phase: None,
            retry_after_ms: None,
            payload_events: 0,
            reasoning_events: 0,
            chars_total: 0,
            chars_first: 0,
            keepalives: 0,
            gap_p50_us: None,
            gap_p99_us: None,
            gap_max_us: None,
            burst: None,
            client_stalled: false,
            input_tokens: None,
            cached_input_tokens: None,
            output_tokens: None,
            reasoning_tokens: None,
            tok_src: TokenSource::None,
            finish_reason: None,
            server_queue_us: None,
            server_prefill_us: None,
            server_decode_us: None,
            server_total_us: None,
            ratelimit_remaining_requests: None,
            ratelimit_remaining_tokens: None,
            cost_usd: None,
            cost_basis: CostBasis::Unknown,
            in_flight_upstream: 0,
            definition_version: DEFINITION_VERSION,
            cost_usd_min: None,
            cost_usd_max: None,
        }
    }
}
