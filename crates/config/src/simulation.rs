//! The keys of `simulate = { … }`, and how a simulated provider can fail. Not for the provider itself: see `photofinish_lab::simulate`.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::keys::{Flag, ParsedText, ParsedTexts, RealNumber, Texts, TimeSpan, WholeNumber, choice, keys};
use super::names::names;
use super::units::{format_duration, parse_duration};

keys! {
    /// `simulate = { … }`: a simulated provider over real HTTP on loopback. Distributions are log-normal.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Simulation {
        /// Median time to first token, 0s to 1h.
        ttft: Duration = TimeSpan(Simulation::TTFT), or Duration::from_millis(200);
        /// Standard deviation of the logarithm of the TTFT and of each gap; 0 is exact.
        jitter: f64 = RealNumber(Simulation::JITTER), or 0.2;
        /// Share of requests whose TTFT is multiplied by a Pareto draw: at least 2, with a median of 3.6.
        tail: f64 = RealNumber(Simulation::TAIL), or 0.0;
        /// Median decode speed.
        tokens_per_second: f64 = RealNumber(Simulation::TOKENS_PER_SECOND), or 50.0;
        /// Tokens in an answer, unless the request's `max_tokens` is smaller.
        tokens: u32 = WholeNumber(Simulation::TOKENS), or 40;
        /// Share of requests that fail.
        failures: f64 = RealNumber(Simulation::FAILURES), or 0.0;
        /// How they fail.
        failure: SimulatedFailure = choice(), or SimulatedFailure::ServerError;
        /// Requests that are served at once; more wait, first come, first served. 0: no limit.
        slots: u32 = WholeNumber(Simulation::SLOTS), or 0;
        /// Each further request in service adds this share to the time per token: a token takes
        /// (1 + slowdown × (requests in service − 1)) / tokens_per_second.
        slowdown: f64 = RealNumber(Simulation::SLOWDOWN), or 0.0;
        /// Input tokens per second: TTFT grows by input tokens / prefill. 0: input takes no time. An input token is 4 bytes of the
        /// JSON of `messages`, `prompt` or `input`, rounded up.
        prefill: f64 = RealNumber(Simulation::PREFILL), or 0.0;
        /// The beginning that a prompt shares with an earlier one needs no prefill. Usage has it as `cached_tokens`.
        prefix_cache: bool = Flag, or false;
        /// Tokens in one event of a stream. The last event may have fewer.
        tokens_per_event: u32 = WholeNumber(Simulation::TOKENS_PER_EVENT), or 1;
        /// The whole server pauses at times: `2s every 20s`.
        stall: Option<ServerStall> = STALL;
        /// It answers requests with tools by a call of the first one, and breaks this share of the calls: no JSON, an unknown name, or
        /// arguments that are no object. Without it no call is made.
        bad_calls: Option<f64> = RealNumber(Simulation::SHARE);
        /// Whether answers have their usage.
        usage: bool = Flag, or true;
        /// Chat answers do what the request says, as a model would: counts, tools, schemas, reasoning, sampling. They come at once
        /// after the time to first token.
        obeys: bool = Flag, or false;
        /// What such a provider does wrong: facts of `photofinish verify`.
        wrong: Vec<HostFact> = WRONG, or Vec::new();
        /// Total variation by which the distribution of each sampled word is moved, where `obeys` is set.
        moved: f64 = RealNumber(Simulation::SHARE), or 0.0;
        /// Share of requests that a moved replica answers.
        replicas: f64 = RealNumber(Simulation::SHARE), or 1.0;
        /// Total variation, at most, by which the distribution also moves with each day.
        daily: f64 = RealNumber(Simulation::SHARE), or 0.0;
        /// Seeds the draws: the same seed gives the same sequence. A request with a `seed` of its own always gets the same answer.
        /// Without it the clock seeds them.
        seed: Option<u64> = WholeNumber(0..=i64::MAX.unsigned_abs());
    }
}

impl Simulation {
    pub const TTFT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);
    pub const JITTER: RangeInclusive<f64> = 0.0..=5.0;
    pub const TAIL: RangeInclusive<f64> = 0.0..=1.0;
    pub const TOKENS_PER_SECOND: RangeInclusive<f64> = 0.01..=1e6;
    pub const TOKENS: RangeInclusive<u32> = 1..=100_000;
    pub const FAILURES: RangeInclusive<f64> = 0.0..=1.0;
    pub const SHARE: RangeInclusive<f64> = 0.0..=1.0;
    pub const SLOTS: RangeInclusive<u32> = 0..=100_000;
    pub const SLOWDOWN: RangeInclusive<f64> = 0.0..=100.0;
    pub const PREFILL: RangeInclusive<f64> = 0.0..=1e9;
    pub const TOKENS_PER_EVENT: RangeInclusive<u32> = 1..=1_000;
}

/// The server pauses for `length`, the first time `every` after its start and then again each `every`. It writes nothing
/// then, and no time of a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStall {
    /// At least 1 ms, and shorter than `every`.
    pub length: Duration,
    /// At most a day.
    pub every: Duration,
}

impl ServerStall {
    const LIMITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);
}

impl FromStr for ServerStall {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerStall, String> {
        (STALL.parse)(text).ok_or_else(|| format!("expected {}", STALL.expected))
    }
}

const STALL: ParsedText<ServerStall> = ParsedText {
    parse: |text| {
        let (length, every) = text.split_once(" every ")?;
        let length = parse_duration(length.trim()).ok()?;
        let every = parse_duration(every.trim()).ok()?;
        let fits = length < every && [length, every].iter().all(|time| ServerStall::LIMITS.contains(time));
        fits.then_some(ServerStall { length, every })
    },
    expected: "two durations such as \"2s every 20s\", the first at least 1ms and shorter than the second, which is at most 1d",
    pattern: r"\d+(\.\d+)?\s*(ms|s|m|h|d) every \d+(\.\d+)?\s*(ms|s|m|h|d)",
    format: |stall| format!("{} every {}", format_duration(stall.length), format_duration(stall.every)),
};

const WRONG: ParsedTexts<HostFact> = ParsedTexts {
    texts: Texts { max: HostFact::ALL.len(), noun: "facts" },
    parse: HostFact::from_name,
    expected: "facts of `photofinish verify`, such as \"stop\" or \"tool_named\"",
    pattern: "[a-z_]+",
    format: |fact| fact.as_str().to_owned(),
};

names! {
    /// What can be said of a host without statistics: what `photofinish verify` asks, and what a simulated provider can do wrong.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum HostFact {
        /// Temperature 0 is taken.
        Temperature = "temperature",
        /// The same prompts have as many tokens as elsewhere.
        Template = "template",
        /// A prompt as long as the declared context is read whole.
        Context = "context",
        /// A system prompt is read.
        System = "system",
        /// No answer is longer than `max_tokens`.
        MaxTokens = "max_tokens",
        /// Answers become as long as `max_tokens`.
        AnswerLength = "answer_length",
        /// The answer ends before a `stop` text.
        Stop = "stop",
        /// The same `seed` gives the same answer.
        Seed = "seed",
        /// `n` answers come.
        N = "n",
        /// `logprobs` come.
        Logprobs = "logprobs",
        /// A tiny `top_p` leaves one answer.
        TopP = "top_p",
        /// Answers keep to a JSON schema.
        Schema = "schema",
        /// `tool_choice` none: no call.
        ToolNone = "tool_none",
        /// `tool_choice` auto: a call where the prompt asks for it.
        ToolAuto = "tool_auto",
        /// `tool_choice` required: a call in any case.
        ToolRequired = "tool_required",
        /// A named tool is the one that is called.
        ToolNamed = "tool_named",
        /// Several calls in one answer.
        Parallel = "parallel",
        /// Arguments keep to the schema of their tool, nested and enum ones too.
        Arguments = "arguments",
        /// More `reasoning_effort` is more reasoning.
        Effort = "effort",
        /// Which member of the answer has the reasoning.
        ReasoningPlace = "reasoning_place",
        /// A whole answer has its usage.
        UsageWhole = "usage_whole",
        /// A stream has its usage.
        UsageStream = "usage_stream",
        /// Both count the same.
        UsageEqual = "usage_equal",
        /// Random answers differ: they come from no cache.
        Fresh = "fresh",
        /// Letters and signs of all scripts come back intact.
        Unicode = "unicode",
        /// The answer is in the language that was asked for.
        Language = "language",
        /// The host names its build as `system_fingerprint`.
        Fingerprint = "fingerprint",
    }
}

names! {
    /// How a simulated provider fails. A request for the model `fail-NAME` always fails like that.
    pub enum SimulatedFailure {
        /// 429 with Retry-After.
        RateLimit = "429",
        /// 401.
        Unauthorized = "401",
        /// 400.
        BadRequest = "400",
        /// 500.
        ServerError = "500",
        /// Takes the request and never answers.
        Hang = "hang",
        /// Sends headers and a role chunk, then nothing.
        Stall = "stall",
        /// Closes the connection without an answer.
        Reset = "reset",
        /// Breaks off in the middle of the stream.
        Cut = "cut",
        /// An error frame in a 200, before any token.
        ErrorFrame = "error-frame",
        /// A stream that finishes without a token.
        Empty = "empty",
    }
}
