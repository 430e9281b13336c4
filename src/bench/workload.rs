//! Workloads: how long the prompts and the answers of a run are. Not for the text of a prompt: see `prompt`.

use serde::{Deserialize, Serialize};

use crate::config::Config;

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

/// Name, input and output tokens of what only benchmarks have; the others are those of probes, in the configuration. `ping`
/// opens a connection.
const BUILT_IN: [(&str, u32, u32); 2] = [("chat", 500, 200), PING];
/// The request of a probe before the measured one: its name, input and output tokens.
pub const PING: (&str, u32, u32) = ("ping", 200, 16);

impl Workload {
    pub fn new(name: &str, input_tokens: u32, output_tokens: u32) -> Workload {
        Workload { name: name.to_owned(), input_tokens, output_tokens }
    }

    /// The workload of this name: the configuration's own, one of the probes', or one of benchmarks.
    pub fn named(name: &str, config: &Config) -> Option<Workload> {
        let of_probes = config.workloads.get(name).map(|known| (known.input_tokens, known.output_tokens));
        let of_benchmarks = || BUILT_IN.iter().find(|known| known.0 == name).map(|known| (known.1, known.2));
        let (input_tokens, output_tokens) = of_probes.or_else(of_benchmarks)?;
        Some(Workload::new(name, input_tokens, output_tokens))
    }

    /// The names of all of them.
    pub fn names(config: &Config) -> Vec<&str> {
        BUILT_IN.iter().map(|known| known.0).chain(config.workloads.keys().map(String::as_str)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    #[test]
    fn workloads_are_the_configurations_the_probes_and_two_more() {
        let text = "[workloads.agent]\ninput_tokens = 4000\noutput_tokens = 300\n";
        let config = config::parse(text, Path::new("test"), &|_| None).unwrap();
        let named = |name: &str| Workload::named(name, &config);
        assert_eq!(named("10k"), Some(Workload::new("10k", 10_000, 1_500)));
        assert_eq!(named("agent"), Some(Workload::new("agent", 4_000, 300)));
        assert_eq!((named("chat").is_some(), named("1K")), (true, None));
        assert!(Workload::names(&config).into_iter().all(|name| named(name).is_some()));
    }
}
