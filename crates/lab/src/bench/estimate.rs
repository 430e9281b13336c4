//! What a request costs at most if the server keeps to its bounds. Not for what it may cost beyond them: see `spend`.

use serde_json::{Map, Value};

use super::block::LoadTarget;
use super::prompt::Prompt;
use super::workload::INPUT_MARGIN;

/// Members of a request that bound the length of an answer, by vendor. The longest counts.
pub const ANSWER_BOUNDS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
/// The member that says how many answers one request gets.
pub const CHOICES: &str = "n";
/// Bytes of a token at least, for text that was not made here.
const BYTES_PER_TOKEN_LEAST: f64 = 2.0;

/// USD, if every upstream of the target reads the prompt and writes as much as it may. `input_tokens`: of a made prompt.
/// `added`: bytes of the members that every request of the run has beside its prompt.
pub fn usd(target: &LoadTarget, prompt: &Prompt, input_tokens: u32, added: usize) -> f64 {
    let input = match prompt.bytes {
        0 => Value::Object(prompt.members.clone()).to_string().len() as f64 / BYTES_PER_TOKEN_LEAST,
        _ => f64::from(input_tokens) * INPUT_MARGIN + added as f64 / BYTES_PER_TOKEN_LEAST,
    };
    let output = answer_tokens(&prompt.members);
    target.prices.iter().flatten().map(|price| price.most_usd(input, output)).sum()
}

/// Tokens of all answers to a request with these members.
pub fn answer_tokens(members: &Map<String, Value>) -> f64 {
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    let longest = ANSWER_BOUNDS.iter().filter_map(|name| number(name)).fold(0.0, f64::max);
    longest * number(CHOICES).unwrap_or(1.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::json;

    use super::*;
    use photofinish_config::config::Price;

    #[test]
    fn the_longest_answer_counts_as_often_as_it_is_asked_for() {
        let tokens = |members: Value| answer_tokens(members.as_object().unwrap());
        assert_eq!(tokens(json!({ "max_tokens": 200 })), 200.0);
        assert_eq!(tokens(json!({ "max_tokens": 200, "max_completion_tokens": 50_000 })), 50_000.0);
        assert_eq!(tokens(json!({ "max_output_tokens": 300, "max_tokens": 200, "n": 10 })), 3_000.0);
    }

    #[test]
    fn every_upstream_is_paid_for_and_added_members_are_read_too() {
        let price = Some(Price { input: 1.0, cached: 0.1, written: 1.25, output: 10.0, long: None });
        let target = |prices: Vec<Option<Price>>| LoadTarget {
            name: String::new(),
            model: String::new(),
            headers: HeaderMap::new(),
            prices,
            lane: 0,
        };
        let members = json!({ "messages": [], "max_tokens": 200 }).as_object().unwrap().clone();
        let made = Prompt { members: members.clone(), bytes: 5_600 };
        let near = |usd: f64, expected: f64| assert!((usd - expected).abs() < 1e-12, "{usd}");
        near(usd(&target(vec![price]), &made, 1_000, 0), (1_500.0 * 1.25 + 2_000.0) / 1e6);
        near(usd(&target(vec![price, None, price]), &made, 1_000, 0), 2.0 * (1_500.0 * 1.25 + 2_000.0) / 1e6);
        near(usd(&target(vec![price]), &made, 1_000, 400), (1_700.0 * 1.25 + 2_000.0) / 1e6);
        // The bytes of a given prompt count, not the workload's.
        near(usd(&target(vec![price]), &Prompt { members, bytes: 0 }, 1_000, 400), (16.0 * 1.25 + 2_000.0) / 1e6);
    }
}
