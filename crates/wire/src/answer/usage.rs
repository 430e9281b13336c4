//! Reads usage and timings in all providers' formats.
//!
//! A provider may send usage once, in each chunk, or first as an estimate: in [`Usage::add`] a later count replaces an
//! earlier one. The provider's timings are kept apart from measured ones.

mod wire;

use super::service_tier::ServiceTier;
use wire::{Counts, WireTimings, WireUsage};

/// Maximum plausible price of one request, in USD. Other values, and negative ones, are ignored.
pub const COST_MAX: f64 = 1e6;

/// Token counts and times as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Those of the cache included, whatever the provider does.
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    /// Input tokens that were written into a cache, if counted.
    pub cache_creation_tokens: Option<i64>,
    /// Reasoning included, whatever the provider does.
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    /// USD, if the provider itself reports a price.
    pub cost_usd: Option<f64>,
    /// None: not told.
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
    }

    /// Adds a price that stands beside the `usage` object.
    pub fn add_cost(&mut self, json: &str) {
        self.add_price(wire::price(json));
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
        let told = [now.input, now.cached, now.created].into_iter().flatten().sum::<i64>();
        if told == 0 && self.input_tokens.is_some_and(|tokens| tokens > 0) {
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
        let told = [now.output, now.reasoning].into_iter().flatten().reduce(|one, other| one + other);
        if told.is_none_or(|told| told == 0 && self.output_tokens.is_some_and(|tokens| tokens > 0)) {
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

#[cfg(test)]
mod tests;
