//! The workload `fingerprint`: a dozen requests for one token each, and what a host says first. Hosts that give log-probabilities show
//! the shares of their likeliest tokens; of others the answer itself counts, which shows something if they answer deterministically. Kept
//! are hashes under a key of the database, and shares. Not for when, nor for whether something changed: see `estimate::fingerprint`.

use photofinish_facts::estimate::fingerprint::FirstTokens;
use serde_json::{Map, Value, json};

/// Likeliest tokens that are asked for: some vendors give no more.
const LIKELIEST: usize = 5;
/// Beginnings that models go on with in different ways.
pub const PROMPTS: [&str; 12] = [
    "Name a colour.",
    "Name an animal.",
    "Pick a number from 1 to 100.",
    "Write the first word of a poem.",
    "Name a city.",
    "Is a tomato a fruit? One word.",
    "Name a fruit.",
    "Complete: Once upon a",
    "Name a river in one word.",
    "What is 17 times 23? Only the number.",
    "Say hello in any language.",
    "Name a feeling in one word.",
];

/// The members of the request with this prompt. `shows_shares`: ask for log-probabilities.
pub fn members(prompt: &str, shows_shares: bool) -> Map<String, Value> {
    let messages = json!([{ "role": "user", "content": prompt }]);
    let mut members = Map::from_iter([("messages".to_owned(), messages), ("max_tokens".to_owned(), 1.into())]);
    if shows_shares {
        members.extend([("logprobs".to_owned(), true.into()), ("top_logprobs".to_owned(), LIKELIEST.into())]);
    }
    members.insert("temperature".to_owned(), 0.into());
    members
}

/// Adds what the answer to this prompt says first. `key`: of the database. False: it says nothing.
pub fn add(tokens: &mut FirstTokens, key: u64, prompt: usize, answer: &Value) -> bool {
    let whole = 1.0 / PROMPTS.len() as f64;
    let mut count = |text: &str, share: f64| {
        *tokens.entry(hash(key, prompt, text)).or_default() += whole * share;
    };
    let choice = &answer["choices"][0];
    let likeliest = choice["logprobs"]["content"][0]["top_logprobs"].as_array().filter(|list| !list.is_empty());
    let Some(likeliest) = likeliest else {
        let text = choice["message"]["content"].as_str().or(choice["message"]["reasoning_content"].as_str());
        return text.filter(|text| !text.is_empty()).map(|text| count(text, 1.0)).is_some();
    };
    let mut left = 1.0;
    for one in likeliest {
        let share = one["logprob"].as_f64().map_or(0.0, f64::exp).clamp(0.0, left);
        count(one["token"].as_str().unwrap_or_default(), share);
        left -= share;
    }
    // All tokens that are not listed.
    count("", left);
    true
}

/// FNV-1a: the same in every version.
fn hash(key: u64, prompt: usize, text: &str) -> u64 {
    let bytes = key.to_le_bytes().into_iter().chain((prompt as u64).to_le_bytes()).chain(text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// For a row: pairs of a hash and a share.
pub fn written(tokens: &FirstTokens) -> String {
    tokens.iter().map(|(token, share)| format!("{token:x}:{share:.4}")).collect::<Vec<_>>().join(" ")
}

/// Reads what `written` wrote.
pub fn read(text: &str) -> FirstTokens {
    let pair = |pair: &str| {
        let (token, share) = pair.split_once(':')?;
        Some((u64::from_str_radix(token, 16).ok()?, share.parse().ok()?))
    };
    text.split(' ').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::source::WordSource;
    use photofinish_facts::estimate::fingerprint::changes;

    /// What a simulated host that gives log-probabilities says on these days; `moved` by its day.
    fn days(host: u64, daily: f64, moved: impl Fn(i64) -> f64, count: i64) -> Vec<FirstTokens> {
        let day = |day: i64| {
            let mut tokens = FirstTokens::new();
            for (place, prompt) in PROMPTS.iter().enumerate() {
                let source = WordSource { host, moved: moved(day), replicas: 1.0, daily };
                let one = |(word, share): (&str, f64)| json!({ "token": word, "logprob": share.ln() });
                let likeliest: Vec<Value> = source.likeliest(prompt, day, LIKELIEST).into_iter().map(one).collect();
                let answer = json!({"choices": [{"logprobs": {"content": [{"top_logprobs": likeliest}]}}]});
                assert!(add(&mut tokens, 1, place, &answer));
            }
            tokens
        };
        (0..count).map(day).collect()
    }

    #[test]
    fn a_simulated_host_that_is_moved_is_found_and_days_alone_are_not() {
        for host in 0..5 {
            assert!(changes(&days(host, 0.15, |_| 0.0, 60)).is_empty(), "host {host}");
            assert_eq!(changes(&days(host, 0.05, |day| if day < 20 { 0.0 } else { 0.4 }, 40)), [20], "host {host}");
            assert!(
                changes(&days(host, 0.05, |day| if day < 20 { 0.0 } else { 0.1 }, 40)).is_empty(),
                "less is not seen"
            );
        }
    }

    #[test]
    fn shares_or_answers_are_kept_as_hashes_and_read_back() {
        let shown = json!({"choices": [{"message": {"content": "red"}, "logprobs": {"content": [{"token": "red", "logprob": -0.2,
            "top_logprobs": [{"token": "red", "logprob": -0.2}, {"token": "blue", "logprob": -2.0}]}]}}]});
        let plain = json!({"choices": [{"message": {"content": "red"}, "logprobs": null}]});
        let (mut tokens, mut other) = (FirstTokens::new(), FirstTokens::new());
        assert!(add(&mut tokens, 1, 0, &shown) && add(&mut tokens, 1, 1, &plain));
        assert!(add(&mut other, 2, 0, &shown) && !add(&mut other, 2, 1, &json!({"choices": []})));
        assert_eq!(tokens.len(), 4, "two tokens, the rest, and an answer");
        assert!((tokens.values().sum::<f64>() - 2.0 / 12.0).abs() < 1e-9);
        assert!(other.keys().all(|token| !tokens.contains_key(token)), "another database has other hashes");
        let text = written(&tokens);
        assert!(!text.contains("red") && text.len() < 200, "{text}");
        let back = read(&text);
        assert!(back.iter().zip(&tokens).all(|(one, other)| one.0 == other.0 && (one.1 - other.1).abs() < 1e-4));
    }
}
