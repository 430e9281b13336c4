//! Usage and timings, out of every place and under every name that providers give them.
//!
//! A provider may send usage once, in each chunk, or growing: [`Usage::add`] keeps the maximum of each field. What a
//! provider says of its own times is kept apart from what was measured.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What one request can have cost, US dollars; a provider that says more, or less than nothing, has not said it.
pub const COST_MAX: f64 = 1e6;

/// Token counts and times as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub input_tokens: Option<i64>,
    pub cached_input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub reasoning_tokens: Option<i64>,
    /// USD, where the provider itself names the price of the request.
    pub cost_usd: Option<f64>,
    /// Microseconds, like the next three.
    pub queue_us: Option<i64>,
    pub prefill_us: Option<i64>,
    pub decode_us: Option<i64>,
    pub total_us: Option<i64>,
}

impl Usage {
    /// Takes in a `usage` object.
    pub fn add(&mut self, json: &str) {
        let Ok(wire) = serde_json::from_str::<WireUsage>(json) else { return };
        let prompt_details = wire.prompt_tokens_details.or(wire.input_tokens_details).unwrap_or_default();
        let completion_details = wire.completion_tokens_details.or(wire.output_tokens_details).unwrap_or_default();
        raise(&mut self.input_tokens, wire.prompt_tokens.or(wire.input_tokens).whole());
        raise(&mut self.output_tokens, wire.completion_tokens.or(wire.output_tokens).whole());
        let cached = prompt_details.cached_tokens.or(wire.prompt_cache_hit_tokens).or(wire.cached_tokens);
        raise(&mut self.cached_input_tokens, cached.whole());
        raise(&mut self.reasoning_tokens, completion_details.reasoning_tokens.or(wire.reasoning_tokens).whole());
        self.add_seconds([wire.queue_time, wire.prompt_time, wire.completion_time, wire.total_time]);
        raise(&mut self.prefill_us, wire.timing_prompt_processing.scaled(1e3).whole());
        raise(&mut self.decode_us, wire.timing_token_generation.scaled(1e3).whole());
        // xAI counts its price in ticks of 1e-10 USD.
        let cost = wire.cost.or(wire.cost_in_usd_ticks.scaled(1e-10));
        self.cost_usd = cost.0.filter(|usd| (0.0..=COST_MAX).contains(usd)).or(self.cost_usd);
    }

    /// Fills what is not known here with what another place said.
    pub fn or(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.or(other.input_tokens),
            cached_input_tokens: self.cached_input_tokens.or(other.cached_input_tokens),
            output_tokens: self.output_tokens.or(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.or(other.reasoning_tokens),
            cost_usd: self.cost_usd.or(other.cost_usd),
            queue_us: self.queue_us.or(other.queue_us),
            prefill_us: self.prefill_us.or(other.prefill_us),
            decode_us: self.decode_us.or(other.decode_us),
            total_us: self.total_us.or(other.total_us),
        }
    }

    /// Takes in Cerebras' `time_info` or Fireworks' `perf_metrics`, in seconds.
    pub fn add_time_info(&mut self, json: &str) {
        let Ok(wire) = serde_json::from_str::<WireUsage>(json) else { return };
        self.add_seconds([wire.queue_time, wire.prompt_time, wire.completion_time, wire.total_time]);
    }

    /// Takes in llama.cpp's `timings`, in milliseconds, and its counts.
    pub fn add_timings(&mut self, json: &str) {
        let Ok(wire) = serde_json::from_str::<WireTimings>(json) else { return };
        let (read, cached) = (wire.prompt_n.whole(), wire.cache_n.whole());
        // What it took from its cache it does not count among what it read.
        raise(&mut self.input_tokens, read.map(|read| read + cached.unwrap_or(0)));
        raise(&mut self.cached_input_tokens, cached);
        raise(&mut self.output_tokens, wire.predicted_n.whole());
        raise(&mut self.prefill_us, wire.prompt_ms.scaled(1e3).whole());
        raise(&mut self.decode_us, wire.predicted_ms.scaled(1e3).whole());
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
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
    cost: Number,
    cost_in_usd_ticks: Number,
    queue_time: Number,
    prompt_time: Number,
    completion_time: Number,
    /// SambaNova and Fireworks have names of their own.
    #[serde(alias = "total_latency", alias = "server-processing-time")]
    total_time: Number,
    /// LocalAI, in milliseconds, like the next one.
    timing_prompt_processing: Number,
    timing_token_generation: Number,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Number,
    reasoning_tokens: Number,
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

/// A number where one is expected, or a string of one (Fireworks); anything else is none. An object is searched for `total_cost` (Perplexity).
#[derive(Clone, Copy, Default)]
struct Number(Option<f64>);

impl Number {
    fn or(self, other: Number) -> Number {
        Number(self.0.or(other.0))
    }

    fn scaled(self, factor: f64) -> Number {
        Number(self.0.map(|value| value * factor))
    }

    fn whole(self) -> Option<i64> {
        // Beyond 2^53 no count is meant.
        self.0.filter(|value| (0.0..9e15).contains(value)).map(|value| value.round() as i64)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        struct Lenient;
        impl<'de> Visitor<'de> for Lenient {
            type Value = Number;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number")
            }

            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value.is_finite().then_some(value)))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(Some(value as f64)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(Some(value as f64)))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.parse().ok().filter(|value: &f64| value.is_finite())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Number, A::Error> {
                while sequence.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Number(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
                let mut total = Number(None);
                while let Some(key) = map.next_key::<String>()? {
                    if key == "total_cost" {
                        total = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(total)
            }
        }
        deserializer.deserialize_any(Lenient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(parts: &[&str]) -> Usage {
        let mut usage = Usage::default();
        parts.iter().for_each(|part| usage.add(part));
        usage
    }

    #[test]
    fn every_vendor_s_names_are_read() {
        let openai = usage(&[r#"{"prompt_tokens":14,"completion_tokens":8,"total_tokens":22,
            "prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":5}}"#]);
        assert_eq!((openai.input_tokens, openai.output_tokens), (Some(14), Some(8)));
        assert_eq!((openai.cached_input_tokens, openai.reasoning_tokens), (Some(3), Some(5)));
        let deepseek = usage(&[
            r#"{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":4,"prompt_tokens_details":null}"#,
        ]);
        assert_eq!(deepseek.cached_input_tokens, Some(4));
        let groq = usage(&[
            r#"{"queue_time":0.02,"prompt_time":0.001,"completion_time":0.5,"total_time":0.501,"prompt_tokens":1}"#,
        ]);
        assert_eq!(
            (groq.queue_us, groq.prefill_us, groq.decode_us, groq.total_us),
            (Some(20_000), Some(1_000), Some(500_000), Some(501_000))
        );
        let together = usage(&[r#"{"prompt_tokens":41,"completion_tokens":15,"cached_tokens":7}"#]);
        assert_eq!(together.cached_input_tokens, Some(7));
    }

    #[test]
    fn growing_usage_keeps_its_maximum() {
        let grown = usage(&[
            r#"{"prompt_tokens":5,"completion_tokens":1}"#,
            r#"{"completion_tokens":9}"#,
            r#"{"completion_tokens":0,"prompt_tokens":null}"#,
        ]);
        assert_eq!((grown.input_tokens, grown.output_tokens), (Some(5), Some(9)));
    }

    #[test]
    fn a_price_is_read_as_a_number_an_object_or_ticks() {
        assert_eq!(usage(&[r#"{"cost":0.000669}"#]).cost_usd, Some(0.000669));
        assert_eq!(usage(&[r#"{"cost":{"request_cost":0.005,"total_cost":0.00501}}"#]).cost_usd, Some(0.00501));
        assert_eq!(usage(&[r#"{"cost_in_usd_ticks":10000000}"#]).cost_usd, Some(0.001));
    }

    #[test]
    fn a_price_that_nobody_asks_is_none() {
        assert_eq!(usage(&[r#"{"cost":1000000}"#]).cost_usd, Some(1e6));
        assert_eq!(usage(&[r#"{"cost":0}"#]).cost_usd, Some(0.0));
        for cost in ["1e27", "1000000.01", "-0.5", "\"inf\"", "\"NaN\"", r#"{"total_cost":1e300}"#] {
            assert_eq!(usage(&[&format!(r#"{{"cost":{cost}}}"#)]).cost_usd, None, "{cost}");
        }
        assert_eq!(usage(&[r#"{"cost":0.25}"#, r#"{"cost":-1}"#]).cost_usd, Some(0.25));
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(usage(&["[]", "7", r#"{"prompt_tokens":"many","completion_tokens":-4}"#]), Usage::default());
    }

    #[test]
    fn llama_cpp_s_timings_are_milliseconds() {
        let mut usage = Usage::default();
        usage.add_timings(r#"{"prompt_ms":12.5,"predicted_ms":80.25,"cache_n":3,"prompt_n":11,"predicted_n":8}"#);
        assert_eq!((usage.prefill_us, usage.decode_us), (Some(12_500), Some(80_250)));
        assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (Some(14), Some(3), Some(8)));
    }

    #[test]
    fn times_that_only_one_vendor_tells_are_read_in_its_unit() {
        assert_eq!(usage(&[r#"{"total_latency":0.25,"time_to_first_token":0.1}"#]).total_us, Some(250_000));
        let local_ai = usage(&[r#"{"timing_prompt_processing":84.2,"timing_token_generation":512.7}"#]);
        assert_eq!((local_ai.prefill_us, local_ai.decode_us), (Some(84_200), Some(512_700)));
        for fireworks in [r#"{"server-processing-time":1.25}"#, r#"{"server-processing-time":"1.25"}"#] {
            let mut usage = Usage::default();
            usage.add_time_info(fireworks);
            assert_eq!(usage, Usage { total_us: Some(1_250_000), ..Usage::default() });
        }
    }

    #[test]
    fn what_another_place_said_only_fills_gaps() {
        let body = Usage { input_tokens: Some(5), total_us: None, ..Usage::default() };
        let head = Usage { input_tokens: Some(7), total_us: Some(9), ..Usage::default() };
        assert_eq!(body.or(head), Usage { input_tokens: Some(5), total_us: Some(9), ..Usage::default() });
    }
}
