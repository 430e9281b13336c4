//! Reads usage and timings in all providers' formats.
//!
//! A provider may send usage once, in each chunk, or first as an estimate: in [`Usage::add`] a later count replaces an
//! earlier one. The provider's timings are kept apart from measured ones.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::stream::service_tier::ServiceTier;

/// The largest plausible price of one request, in USD. Other values, and negative ones, are ignored.
pub const COST_MAX: f64 = 1e6;

/// Token counts and times as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Those of the cache included, whatever the provider does.
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    /// Input tokens that were written into a cache, if counted.
    pub cache_creation_tokens: Option<i64>,
    /// Those of them that are kept for an hour, if reported.
    pub cache_hour_tokens: Option<i64>,
    /// Reasoning included, whatever the provider does.
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    /// USD, if the provider itself reports a price.
    pub cost_usd: Option<f64>,
    /// None: unknown.
    pub tier: Option<ServiceTier>,
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
        self.add_counts(&wire.counts());
        self.add_times(wire.times());
        self.add_price(wire.price());
        self.tier = wire.tier().or(self.tier);
        self.cache_hour_tokens = wire.hour().or(self.cache_hour_tokens);
    }

    /// Adds a price that is outside the `usage` object.
    pub fn add_cost(&mut self, json: &str) {
        self.add_price(price(json));
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

    /// Fills unknown fields from another source, or from what was known before.
    pub fn or(self, other: Usage) -> Usage {
        let usage = Usage {
            cost_usd: self.cost_usd.or(other.cost_usd),
            tier: self.tier.or(other.tier),
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
            cache_hour_tokens: join(one.cache_hour_tokens, other.cache_hour_tokens),
            output_tokens: join(one.output_tokens, other.output_tokens),
            reasoning_tokens: join(one.reasoning_tokens, other.reasoning_tokens),
            ..self
        }
    }

    /// Adds Cerebras's `time_info` or Fireworks's `perf_metrics` (seconds), or Bedrock's `metrics` (milliseconds).
    pub fn add_time_info(&mut self, json: &str) {
        if let Ok(wire) = serde_json::from_str::<WireUsage>(json) {
            self.add_times(wire.time_info());
        }
    }

    /// Adds llama.cpp's `timings` (milliseconds), with its counts. A `usage` object of the same event is added after
    /// them: it is truer.
    pub fn add_timings(&mut self, json: &str) {
        if let Ok(wire) = serde_json::from_str::<WireTimings>(json) {
            self.add_counts(&wire.counts());
            self.add_times(wire.times());
        }
    }

    fn add_counts(&mut self, now: &Counts) {
        self.add_input(now);
        self.add_output(now);
    }

    /// What an object leaves out stays. So does everything if it only says 0, as some servers do in their last event.
    fn add_input(&mut self, now: &Counts) {
        let counted = [now.input, now.cached, now.created].into_iter().flatten().sum::<i64>();
        if counted == 0 && self.input_tokens.is_some_and(|tokens| tokens > 0) {
            return;
        }
        let kept = self.cached_input_tokens.unwrap_or(0) + self.cache_creation_tokens.unwrap_or(0);
        let before = self.input_tokens.map(|all| all - kept);
        let no_cache = now.cached.unwrap_or(0) + now.created.unwrap_or(0) == 0;
        if now.cache_apart && no_cache && kept > 0 && now.input == before {
            return;
        }
        let cached = now.cached.or(self.cached_input_tokens);
        let created = now.created.or(self.cache_creation_tokens);
        let input = if now.cache_apart {
            // As much as before or more, and no word of the cache: it is the whole prompt.
            let is_whole = now.cached.or(now.created).is_none() && now.input >= self.input_tokens;
            let caches = if is_whole { 0 } else { cached.unwrap_or(0) + created.unwrap_or(0) };
            now.input.or(before).map(|fresh| fresh + caches)
        } else {
            now.input
        };
        self.input_tokens = input.or(self.input_tokens);
        let most = self.input_tokens.unwrap_or(i64::MAX);
        self.cached_input_tokens = cached.map(|tokens| tokens.min(most));
        self.cache_creation_tokens = created.map(|tokens| tokens.min(most));
    }

    /// The same for the answer.
    fn add_output(&mut self, now: &Counts) {
        let counted = [now.output, now.reasoning].into_iter().flatten().reduce(|one, other| one + other);
        if counted.is_none_or(|counted| counted == 0 && self.output_tokens.is_some_and(|tokens| tokens > 0)) {
            return;
        }
        let before = self.output_tokens.map(|all| all - self.reasoning_tokens.unwrap_or(0));
        let reasoning = now.reasoning.or(self.reasoning_tokens);
        let output = if now.reasoning_apart {
            Some(now.output.or(before).unwrap_or(0) + reasoning.unwrap_or(0))
        } else {
            now.output
        };
        self.output_tokens = output.or(self.output_tokens);
        let most = self.output_tokens.unwrap_or(i64::MAX);
        self.reasoning_tokens = reasoning.map(|tokens| tokens.min(most));
    }

    /// Queue, prefill, decode and total, in microseconds. Times grow; of several choices the longest counts.
    fn add_times(&mut self, [queue, prefill, decode, total]: [Option<i64>; 4]) {
        self.queue_us = self.queue_us.max(queue);
        self.prefill_us = self.prefill_us.max(prefill);
        self.decode_us = self.decode_us.max(decode);
        self.total_us = self.total_us.max(total);
    }

    fn add_price(&mut self, usd: Option<f64>) {
        let usd = usd.filter(|usd| (0.0..=COST_MAX).contains(usd) && (*usd > 0.0 || self.cost_usd.is_none()));
        self.cost_usd = usd.or(self.cost_usd);
    }
}

// The objects with usage, as vendors write them.
//
// Not for what a later event changes: see `usage`.

/// The counts of one object.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
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
struct WireUsage {
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
    /// Anthropic's writes by how long they are kept, and Bedrock's.
    cache_creation: Value,
    #[serde(rename = "cacheDetails")]
    cache_details: Value,
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
    fn counts(&self) -> Counts {
        let prompt = self.prompt_tokens_details.or(self.input_tokens_details).unwrap_or_default();
        let completion = self.completion_tokens_details.or(self.output_tokens_details).unwrap_or_default();
        // Anthropic and Bedrock count cache reads and writes apart from the input. These member names are their own.
        let own = if self.input_tokens_details.is_none() { self.input_tokens } else { Number(None) };
        let fresh = known(&[own, self.bedrock_input]);
        // Gemini counts tool tokens apart from the prompt.
        let gemini = self.gemini_prompt.plus(self.gemini_tool_use);
        let whole = known(&[self.prompt_tokens, self.input_tokens.unless(own), gemini, self.prompt_eval_count]);
        let is_whole = whole.is_positive() || (whole.0.is_some() && fresh.0.is_none());
        let thoughts = [self.gemini_candidates, self.gemini_thoughts].iter().any(|count| count.0.is_some());
        let has_details = self.prompt_tokens_details.is_some() || self.input_tokens_details.is_some();
        let count = |numbers: &[Number]| known(numbers).whole();
        let counts = Counts {
            input: if is_whole { whole } else { fresh }.whole(),
            cached: count(&[
                prompt.cached_tokens,
                self.prompt_cache_hit_tokens,
                self.cached_tokens,
                self.cache_read_input_tokens,
                self.gemini_cached,
                self.bedrock_cache_read,
            ]),
            created: count(&[
                prompt.cache_write_tokens,
                self.cache_write_tokens,
                self.cache_creation_input_tokens,
                self.bedrock_cache_write,
            ]),
            output: count(&[
                self.completion_tokens,
                self.output_tokens,
                self.gemini_candidates,
                self.bedrock_output,
                self.eval_count,
            ]),
            reasoning: count(&[
                completion.reasoning_tokens,
                completion.thinking_tokens,
                self.reasoning_tokens,
                self.gemini_thoughts,
            ]),
            cache_apart: !is_whole && !has_details,
            reasoning_apart: thoughts,
        };
        let total = count(&[self.total_tokens, self.gemini_total, self.bedrock_total]);
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

    /// Tokens written into a cache for an hour.
    fn hour(&self) -> Option<i64> {
        let of = |value: &Value| Number(number(value)).whole();
        let details = self.cache_details.as_array().into_iter().flatten();
        let bedrock = details.filter(|detail| detail["ttl"] == "1h").find_map(|detail| of(&detail["inputTokens"]));
        of(&self.cache_creation["ephemeral_1h_input_tokens"]).or(bedrock)
    }

    /// None for the usual tier. Anthropic's `priority` is capacity that was paid for beforehand.
    fn tier(&self) -> Option<ServiceTier> {
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
    fn times(&self) -> [Option<i64>; 4] {
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
    fn time_info(&self) -> [Option<i64>; 4] {
        let [queue, prefill, decode, total] = self.seconds();
        [queue, prefill, decode, total.or(self.bedrock_latency.scaled(1e3))].map(Number::whole)
    }

    fn seconds(&self) -> [Number; 4] {
        [self.queue_time, self.prompt_time, self.completion_time, self.total_time].map(|time| time.scaled(1e6))
    }

    /// US dollars. With a key of one's own OpenRouter's price is only its fee; what the vendor bills is added. If that is
    /// not reported, the price is unknown.
    fn price(&self) -> Option<f64> {
        // xAI counts in ticks of 1e-10 USD.
        let counted = self.cost.or(self.cost_in_usd_ticks.scaled(1e-10)).0;
        if self.is_byok != true {
            return counted;
        }
        number(self.cost_details.get("upstream_inference_cost")?).map(|billed| billed + counted.unwrap_or(0.0))
    }
}

/// llama.cpp's `timings`. `prompt_n` does not include cached tokens.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireTimings {
    prompt_n: Number,
    cache_n: Number,
    predicted_n: Number,
    prompt_ms: Number,
    predicted_ms: Number,
}

impl WireTimings {
    fn counts(&self) -> Counts {
        Counts {
            input: self.prompt_n.whole(),
            cached: self.cache_n.whole(),
            output: self.predicted_n.whole(),
            cache_apart: true,
            ..Counts::default()
        }
    }

    /// As [`WireUsage::times`].
    fn times(&self) -> [Option<i64>; 4] {
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
fn known(numbers: &[Number]) -> Number {
    let positive = numbers.iter().find(|number| number.is_positive());
    positive.or(numbers.iter().find(|number| number.0.is_some())).copied().unwrap_or_default()
}

/// A price by itself.
fn price(json: &str) -> Option<f64> {
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

#[cfg(test)]
mod tests;
