//! The objects with usage, as vendors write them.
//!
//! Not for what a later event changes: see `usage`.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::answer::service_tier::ServiceTier;

/// The counts of one object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub input: Option<i64>,
    /// Read from a cache, and written into one.
    pub cached: Option<i64>,
    pub created: Option<i64>,
    pub output: Option<i64>,
    pub reasoning: Option<i64>,
    /// `input` does not include `cached` and `created`.
    pub cache_apart: bool,
    /// `output` does not include `reasoning`.
    pub reasoning_apart: bool,
}

impl Counts {
    /// The total decides what is counted apart. Without one, or with one that fits nothing, it is as in the vendor's own
    /// API; but more reasoning than output cannot be a part of it. If the total says that it is, its count is wrong.
    fn decided(mut self, total: Option<i64>, may_hide: bool) -> Counts {
        let (Some(input), Some(output)) = (self.input, self.output) else { return self };
        let (cache, reasoning) = (self.cached.unwrap_or(0) + self.created.unwrap_or(0), self.reasoning.unwrap_or(0));
        let sum = |(cache_apart, reasoning_apart): (bool, bool)| {
            input + output + if cache_apart { cache } else { 0 } + if reasoning_apart { reasoning } else { 0 }
        };
        let own = (self.cache_apart, self.reasoning_apart);
        let forms = [own, (own.0, !own.1), (!own.0, own.1), (!own.0, !own.1)];
        if let Some(form) = forms.into_iter().find(|form| Some(sum(*form)) == total) {
            (self.cache_apart, self.reasoning_apart) = form;
            self.reasoning = self.reasoning.filter(|reasoning| form.1 || *reasoning <= output);
            return self;
        }
        if let Some(hidden) = total.map(|total| total - sum(own)).filter(|rest| *rest > 0) {
            // Google's OpenAI form counts thoughts in the total alone.
            if may_hide && reasoning == 0 {
                (self.reasoning, self.reasoning_apart) = (Some(hidden), true);
            }
        }
        self.reasoning_apart |= reasoning > output;
        self
    }

    /// With more input, cached input, input that was written into a cache, and output.
    fn plus(mut self, [input, cached, created, output]: [i64; 4]) -> Counts {
        let add = |count: &mut Option<i64>, more: i64| {
            *count = if more > 0 { Some(count.unwrap_or(0) + more) } else { *count }
        };
        add(&mut self.input, input);
        add(&mut self.cached, cached);
        add(&mut self.created, created);
        add(&mut self.output, output);
        self
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Number,
    input_tokens: Number,
    completion_tokens: Number,
    output_tokens: Number,
    total_tokens: Number,
    reasoning_tokens: Number,
    cached_tokens: Number,
    prompt_cache_hit_tokens: Number,
    cache_read_input_tokens: Number,
    cache_creation_input_tokens: Number,
    cache_write_tokens: Number,
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
    cost: Number,
    cost_in_usd_ticks: Number,
    /// OpenRouter: the request used the customer's own key at the vendor.
    is_byok: Value,
    cost_details: Value,
    /// Anthropic's, like the next three.
    iterations: Value,
    service_tier: Value,
    speed: Value,
    inference_geo: Value,
    /// Vertex AI's name, and Gemini's.
    #[serde(alias = "serviceTier")]
    #[serde(rename = "trafficType")]
    traffic_type: Value,
    queue_time: Number,
    prompt_time: Number,
    completion_time: Number,
    /// SambaNova's and Fireworks's names.
    #[serde(alias = "total_latency", alias = "server-processing-time")]
    total_time: Number,
    /// LocalAI, in milliseconds, like the next one.
    timing_prompt_processing: Number,
    timing_token_generation: Number,
    #[serde(rename = "promptTokenCount")]
    gemini_prompt: Number,
    #[serde(rename = "toolUsePromptTokenCount")]
    gemini_tool_use: Number,
    #[serde(rename = "cachedContentTokenCount")]
    gemini_cached: Number,
    #[serde(rename = "candidatesTokenCount")]
    gemini_candidates: Number,
    #[serde(rename = "thoughtsTokenCount")]
    gemini_thoughts: Number,
    #[serde(rename = "totalTokenCount")]
    gemini_total: Number,
    prompt_eval_count: Number,
    eval_count: Number,
    load_duration: Number,
    prompt_eval_duration: Number,
    eval_duration: Number,
    total_duration: Number,
    #[serde(rename = "inputTokens")]
    bedrock_input: Number,
    #[serde(rename = "outputTokens")]
    bedrock_output: Number,
    #[serde(rename = "totalTokens")]
    bedrock_total: Number,
    #[serde(rename = "cacheReadInputTokens")]
    bedrock_cache_read: Number,
    #[serde(rename = "cacheWriteInputTokens")]
    bedrock_cache_write: Number,
    #[serde(rename = "latencyMs")]
    bedrock_latency: Number,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Number,
    cache_write_tokens: Number,
    reasoning_tokens: Number,
    /// Anthropic's name.
    thinking_tokens: Number,
}

impl WireUsage {
    pub(super) fn counts(&self) -> Counts {
        let prompt = self.prompt_tokens_details.or(self.input_tokens_details).unwrap_or_default();
        let completion = self.completion_tokens_details.or(self.output_tokens_details).unwrap_or_default();
        // Anthropic and Bedrock count cache reads and writes apart from the input. These member names are their own.
        let own = if self.input_tokens_details.is_none() { self.input_tokens } else { Number(None) };
        let fresh = known([own, self.bedrock_input]);
        // Gemini counts tool tokens apart from the prompt.
        let gemini = self.gemini_prompt.plus(self.gemini_tool_use);
        let whole = known([self.prompt_tokens, self.input_tokens.unless(own), gemini, self.prompt_eval_count]);
        let is_whole = whole.is_positive() || (whole.0.is_some() && fresh.0.is_none());
        let thoughts = [self.gemini_candidates, self.gemini_thoughts].iter().any(|count| count.0.is_some());
        let has_details = self.prompt_tokens_details.is_some() || self.input_tokens_details.is_some();
        let counts = Counts {
            input: if is_whole { whole } else { fresh }.whole(),
            cached: known([
                prompt.cached_tokens,
                self.prompt_cache_hit_tokens,
                self.cached_tokens,
                self.cache_read_input_tokens,
                self.gemini_cached,
                self.bedrock_cache_read,
            ])
            .whole(),
            created: known([
                prompt.cache_write_tokens,
                self.cache_write_tokens,
                self.cache_creation_input_tokens,
                self.bedrock_cache_write,
            ])
            .whole(),
            output: known([
                self.completion_tokens,
                self.output_tokens,
                self.gemini_candidates,
                self.bedrock_output,
                self.eval_count,
            ])
            .whole(),
            reasoning: known([
                completion.reasoning_tokens,
                completion.thinking_tokens,
                self.reasoning_tokens,
                self.gemini_thoughts,
            ])
            .whole(),
            cache_apart: !is_whole && !has_details,
            reasoning_apart: thoughts,
        };
        let total = known([self.total_tokens, self.gemini_total, self.bedrock_total]).whole();
        counts.decided(total, is_whole).plus(self.compaction())
    }

    /// What the vendor used to compact the conversation. Its own counts leave it out, and it bills it.
    fn compaction(&self) -> [i64; 4] {
        let compactions = self.iterations.as_array().into_iter().flatten().filter(|one| one["type"] == "compaction");
        compactions.fold([0; 4], |sum, one| {
            let names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"];
            let more = names.map(|name| Number(number(&one[name])).whole().unwrap_or(0));
            std::array::from_fn(|at| sum[at] + more[at])
        })
    }

    /// None for the usual tier. Anthropic's `priority` is capacity that was paid for beforehand.
    pub(super) fn tier(&self) -> Option<ServiceTier> {
        let named = |value: &Value| value.as_str().map(ServiceTier::of_name);
        let own = match named(&self.service_tier) {
            Some(ServiceTier::Priority) if self.input_tokens.0.is_some() => Some(ServiceTier::Reserved),
            tier => tier,
        };
        let tier = if self.speed == "fast" { Some(ServiceTier::Fast) } else { own.or(named(&self.traffic_type)) };
        let tier = tier.filter(|tier| *tier != ServiceTier::Standard);
        tier.or((self.inference_geo == "us").then_some(ServiceTier::UsOnly))
    }

    /// Queue, prefill, decode and total, in microseconds. Ollama's are nanoseconds; loading the model counts as queue
    /// time.
    pub(super) fn times(&self) -> [Option<i64>; 4] {
        let [queue, prefill, decode, total] = self.seconds();
        [
            queue.or(self.load_duration.scaled(1e-3)),
            prefill.or(self.prompt_eval_duration.scaled(1e-3)).or(self.timing_prompt_processing.scaled(1e3)),
            decode.or(self.eval_duration.scaled(1e-3)).or(self.timing_token_generation.scaled(1e3)),
            total.or(self.total_duration.scaled(1e-3)),
        ]
        .map(Number::whole)
    }

    /// The same of an object with times alone.
    pub(super) fn time_info(&self) -> [Option<i64>; 4] {
        let [queue, prefill, decode, total] = self.seconds();
        [queue, prefill, decode, total.or(self.bedrock_latency.scaled(1e3))].map(Number::whole)
    }

    fn seconds(&self) -> [Number; 4] {
        [self.queue_time, self.prompt_time, self.completion_time, self.total_time].map(|time| time.scaled(1e6))
    }

    /// US dollars. With a key of one's own OpenRouter's price is only its fee; what the vendor bills is added. If that is
    /// not told, the price is unknown.
    pub(super) fn price(&self) -> Option<f64> {
        // xAI counts in ticks of 1e-10 USD.
        let told = self.cost.or(self.cost_in_usd_ticks.scaled(1e-10)).0;
        if self.is_byok != true {
            return told;
        }
        number(self.cost_details.get("upstream_inference_cost")?).map(|billed| billed + told.unwrap_or(0.0))
    }
}

/// llama.cpp's `timings`. `prompt_n` does not include cached tokens.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireTimings {
    prompt_n: Number,
    cache_n: Number,
    predicted_n: Number,
    prompt_ms: Number,
    predicted_ms: Number,
}

impl WireTimings {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            input: self.prompt_n.whole(),
            cached: self.cache_n.whole(),
            output: self.predicted_n.whole(),
            cache_apart: true,
            ..Counts::default()
        }
    }

    /// As [`WireUsage::times`].
    pub(super) fn times(&self) -> [Option<i64>; 4] {
        [None, self.prompt_ms.scaled(1e3).whole(), self.predicted_ms.scaled(1e3).whole(), None]
    }
}

/// A number, or a string with a number (Fireworks). For an object with a price, its `total_cost` (Perplexity) or `usd`
/// (Venice, whose other member is not money). None for other values.
#[derive(Clone, Copy, Default)]
struct Number(Option<f64>);

impl Number {
    fn or(self, other: Number) -> Number {
        Number(self.0.or(other.0))
    }

    /// None if this is the other number.
    fn unless(self, other: Number) -> Number {
        Number(self.0.filter(|_| other.0.is_none()))
    }

    /// The sum. A missing number counts as 0.
    fn plus(self, other: Number) -> Number {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Number(Some(a + b)),
            (a, b) => Number(a.or(b)),
        }
    }

    fn scaled(self, factor: f64) -> Number {
        Number(self.0.map(|value| value * factor))
    }

    fn is_positive(self) -> bool {
        self.0.is_some_and(|value| value > 0.0)
    }

    fn whole(self) -> Option<i64> {
        // Beyond 2^53 it is not a count.
        self.0.filter(|value| (0.0..9e15).contains(value)).map(|value| value.round() as i64)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        Value::deserialize(deserializer).map(|value| Number(number(&value)))
    }
}

/// The first that is above 0, else the first that is there: some servers write the names of two vendors and leave one of
/// them at 0.
fn known<const N: usize>(numbers: [Number; N]) -> Number {
    let positive = numbers.iter().find(|number| number.is_positive());
    positive.or(numbers.iter().find(|number| number.0.is_some())).copied().unwrap_or_default()
}

/// A price by itself.
pub(super) fn price(json: &str) -> Option<f64> {
    serde_json::from_str::<Number>(json).ok()?.0
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|value: &f64| value.is_finite()),
        Value::Object(members) => number(members.get("total_cost").or(members.get("usd"))?),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}
