//! Workloads: how long the prompts and the answers of a run are. Not for the text of a prompt: see `prompt`.

use serde::{Deserialize, Serialize};

/// Tokens of a prompt or an answer at most.
pub const TOKENS_MAX: u32 = 2_000_000;

/// The shape of the requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub name: String,
    /// Tokens of a prompt, as the server counts them.
    pub input_tokens: u32,
    /// `max_tokens` of a request; the prompt asks for more than that.
    pub output_tokens: u32,
}

/// Name, input and output tokens. `1k`, `10k` and `100k` are Artificial Analysis' (2026), `10k1k` is that of the Munich
/// measurements, `ping` opens a connection.
const BUILT_IN: [(&str, u32, u32); 6] = [
    ("chat", 500, 200),
    ("1k", 1_000, 1_000),
    ("10k", 10_000, 1_500),
    ("10k1k", 10_000, 1_000),
    ("100k", 100_000, 2_000),
    ("ping", 200, 16),
];

impl Workload {
    pub fn new(name: &str, input_tokens: u32, output_tokens: u32) -> Workload {
        Workload { name: name.to_owned(), input_tokens, output_tokens }
    }

    /// The built-in workload of this name.
    pub fn built_in(name: &str) -> Option<Workload> {
        let found = BUILT_IN.iter().find(|(known, ..)| *known == name)?;
        Some(Workload::new(found.0, found.1, found.2))
    }

    /// The names of the built-in workloads, the most usual first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, ..)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_the_lengths_of_their_sources() {
        assert_eq!(Workload::built_in("10k"), Some(Workload::new("10k", 10_000, 1_500)));
        assert_eq!(Workload::built_in("1K"), None);
        assert!(Workload::names().all(|name| Workload::built_in(name).is_some()));
    }
}
