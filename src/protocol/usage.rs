//! Reads usage and timings in all providers' formats.
//!
//! A provider may send usage once, in each chunk, or cumulatively: [`Usage::add`] keeps the maximum of each count. The
//! provider's timings are kept apart from measured ones.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Maximum plausible price of one request, in USD. Other values, and negative ones, are ignored.
pub const COST_MAX: f64 = 1e6;

/// Token counts and times as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    /// Input tokens that were written into a cache, if counted.
    pub cache_creation_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    /// USD, if the provider itself reports a price.
    pub cost_usd: Option<f64>,
    /// Microseconds, like the next three.
    pub queue_us: Option<i64>,
    pub prefill_us: Option<i64>,
    pub decode_us: Option<i64>,
    pub total_us: Option<i64>,
}

impl Usage {
    /// Reads a `usage` object.
    pub fn of(json: &str) -> Usage {
        let mut usage = Usage::default();
        usage.add(json);
        usage
    }

    /// Adds a `usage` object.
    pub fn add(&mut self, json: &str) {
        let Ok(wire) = serde_json::from_str::<WireUsage>(json) else { return };
        // Anthropic counts cache reads and writes apart from the input. These member names are its own.
        let apart = (wire.input_tokens.0.is_some() && wire.input_tokens_details.is_none())
            .then(|| wire.input_tokens.plus(wire.cache_read_input_tokens).plus(wire.cache_creation_input_tokens));
        let prompt_details = wire.prompt_tokens_details.or(wire.input_tokens_details).unwrap_or_default();
        let completion_details = wire.completion_tokens_details.or(wire.output_tokens_details).unwrap_or_default();
        raise(&mut self.input_tokens, wire.prompt_tokens.or(apart.unwrap_or(wire.input_tokens)).whole());
        raise(&mut self.output_tokens, wire.completion_tokens.or(wire.output_tokens).whole());
        let cached = prompt_details.cached_tokens.or(wire.prompt_cache_hit_tokens).or(wire.cached_tokens);
        let cached = cached.or(wire.cache_read_input_tokens);
        raise(&mut self.cached_input_tokens, cached.whole());
        let created = prompt_details.cache_write_tokens.or(wire.cache_write_tokens);
        raise(&mut self.cache_creation_tokens, created.or(wire.cache_creation_input_tokens).whole());
        let reasoning =
            completion_details.reasoning_tokens.or(completion_details.thinking_tokens).or(wire.reasoning_tokens);
        raise(&mut self.reasoning_tokens, reasoning.whole());
        self.add_gemini(&wire);
        self.add_ollama(&wire);
        self.add_bedrock(&wire);
        self.add_seconds([wire.queue_time, wire.prompt_time, wire.completion_time, wire.total_time]);
        raise(&mut self.prefill_us, wire.timing_prompt_processing.scaled(1e3).whole());
        raise(&mut self.decode_us, wire.timing_token_generation.scaled(1e3).whole());
        // xAI counts its price in ticks of 1e-10 USD.
        let cost = wire.cost.or(wire.cost_in_usd_ticks.scaled(1e-10));
        self.cost_usd = cost.0.filter(|usd| (0.0..=COST_MAX).contains(usd)).or(self.cost_usd);
    }

    /// The sum of two requests' counts, without times.
    pub fn plus(self, other: Usage) -> Usage {
        fn sum<T: std::ops::Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            }
        }
        let cost_usd = sum(self.cost_usd, other.cost_usd);
        Usage { cost_usd, ..Usage::default() }.with_counts(self, other, sum)
    }

    /// The larger of each count, because some vendors send cumulative usage. Price and times are the latest.
    pub fn largest(self, now: Usage) -> Usage {
        Usage { cost_usd: now.cost_usd.or(self.cost_usd), ..now }.with_counts(self, now, Option::max)
    }

    /// Fills unknown fields from another source.
    pub fn or(self, other: Usage) -> Usage {
        let usage = Usage {
            cost_usd: self.cost_usd.or(other.cost_usd),
            queue_us: self.queue_us.or(other.queue_us),
            prefill_us: self.prefill_us.or(other.prefill_us),
            decode_us: self.decode_us.or(other.decode_us),
            total_us: self.total_us.or(other.total_us),
            ..Usage::default()
        };
        usage.with_counts(self, other, Option::or)
    }

    /// With each token count combined from two usages.
    fn with_counts(self, one: Usage, other: Usage, join: fn(Option<i64>, Option<i64>) -> Option<i64>) -> Usage {
        Usage {
            input_tokens: join(one.input_tokens, other.input_tokens),
            cached_input_tokens: join(one.cached_input_tokens, other.cached_input_tokens),
            cache_creation_tokens: join(one.cache_creation_tokens, other.cache_creation_tokens),
            output_tokens: join(one.output_tokens, other.output_tokens),
            reasoning_tokens: join(one.reasoning_tokens, other.reasoning_tokens),
            ..self
        }
    }

    /// Adds Cerebras's `time_info` or Fireworks's `perf_metrics` (seconds), or Bedrock's `metrics` (milliseconds).
    pub fn add_time_info(&mut self, json: &str) {
        let Ok(wire) = serde_json::from_str::<WireUsage>(json) else { return };
        raise(&mut self.total_us, wire.bedrock_latency.scaled(1e3).whole());
        self.add_seconds([wire.queue_time, wire.prompt_time, wire.completion_time, wire.total_time]);
    }

    /// Adds llama.cpp's `timings` (milliseconds), with its counts.
    pub fn add_timings(&mut self, json: &str) {
        let Ok(wire) = serde_json::from_str::<WireTimings>(json) else { return };
        let (read, cached) = (wire.prompt_n.whole(), wire.cache_n.whole());
        // `prompt_n` does not include cached tokens.
        raise(&mut self.input_tokens, read.map(|read| read + cached.unwrap_or(0)));
        raise(&mut self.cached_input_tokens, cached);
        raise(&mut self.output_tokens, wire.predicted_n.whole());
        raise(&mut self.prefill_us, wire.prompt_ms.scaled(1e3).whole());
        raise(&mut self.decode_us, wire.predicted_ms.scaled(1e3).whole());
    }

    /// Gemini counts tool tokens apart from the prompt, and thoughts apart from the answer.
    fn add_gemini(&mut self, wire: &WireUsage) {
        raise(&mut self.input_tokens, wire.gemini_prompt.plus(wire.gemini_tool_use).whole());
        raise(&mut self.output_tokens, wire.gemini_candidates.plus(wire.gemini_thoughts).whole());
        raise(&mut self.cached_input_tokens, wire.gemini_cached.whole());
        raise(&mut self.reasoning_tokens, wire.gemini_thoughts.whole());
    }

    /// Ollama's counts and times (nanoseconds). Loading the model counts as queue time.
    fn add_ollama(&mut self, wire: &WireUsage) {
        raise(&mut self.input_tokens, wire.prompt_eval_count.whole());
        raise(&mut self.output_tokens, wire.eval_count.whole());
        raise(&mut self.queue_us, wire.load_duration.scaled(1e-3).whole());
        raise(&mut self.prefill_us, wire.prompt_eval_duration.scaled(1e-3).whole());
        raise(&mut self.decode_us, wire.eval_duration.scaled(1e-3).whole());
        raise(&mut self.total_us, wire.total_duration.scaled(1e-3).whole());
    }

    /// Bedrock's input tokens do not include cache reads and writes.
    fn add_bedrock(&mut self, wire: &WireUsage) {
        let (read, written) = (wire.bedrock_cache_read.whole(), wire.bedrock_cache_write.whole());
        let input = wire.bedrock_input.whole().map(|input| input + read.unwrap_or(0) + written.unwrap_or(0));
        raise(&mut self.input_tokens, input);
        raise(&mut self.cached_input_tokens, read);
        raise(&mut self.cache_creation_tokens, written);
        raise(&mut self.output_tokens, wire.bedrock_output.whole());
    }

    fn add_seconds(&mut self, [queue, prefill, decode, total]: [Number; 4]) {
        raise(&mut self.queue_us, queue.scaled(1e6).whole());
        raise(&mut self.prefill_us, prefill.scaled(1e6).whole());
        raise(&mut self.decode_us, decode.scaled(1e6).whole());
        raise(&mut self.total_us, total.scaled(1e6).whole());
    }
}

fn raise(field: &mut Option<i64>, value: Option<i64>) {
    *field = (*field).max(value);
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    prompt_tokens: Number,
    input_tokens: Number,
    completion_tokens: Number,
    output_tokens: Number,
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireTimings {
    prompt_n: Number,
    cache_n: Number,
    predicted_n: Number,
    prompt_ms: Number,
    predicted_ms: Number,
}

/// A number, or a string with a number (Fireworks). For an object, its `total_cost` (Perplexity). None for other
/// values.
#[derive(Clone, Copy, Default)]
struct Number(Option<f64>);

impl Number {
    fn or(self, other: Number) -> Number {
        Number(self.0.or(other.0))
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

    fn whole(self) -> Option<i64> {
        // Beyond 2^53 it is not a count.
        self.0.filter(|value| (0.0..9e15).contains(value)).map(|value| value.round() as i64)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        fn number(value: &Value) -> Option<f64> {
            match value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.parse().ok().filter(|value: &f64| value.is_finite()),
                Value::Object(members) => number(members.get("total_cost")?),
                Value::Null | Value::Bool(_) | Value::Array(_) => None,
            }
        }
        Value::deserialize(deserializer).map(|value| Number(number(&value)))
    }
}

#[cfg(test)]
mod tests;
