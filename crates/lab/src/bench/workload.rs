//! Workloads: how long the prompts and the answers of a run are. Not for the text of a prompt: see `prompt`.

use serde::{Deserialize, Serialize};

use photofinish_config::config::{Config, OF_BENCHMARKS, ProbeWorkload, nearest};

/// Tokens of a prompt or an answer at most.
pub const TOKENS_MAX: u32 = 2_000_000;
/// Tokens of a prompt that the server counts may exceed those of its workload by this factor, for its price before it is sent.
pub const INPUT_MARGIN: f64 = 1.5;

/// The shape of the requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub name: String,
    /// Tokens of a prompt, as the server counts them.
    pub input_tokens: u32,
    /// `max_tokens` of a request; the prompt asks for more than that.
    pub output_tokens: u32,
}

impl Workload {
    pub fn new(name: &str, input_tokens: u32, output_tokens: u32) -> Workload {
        Workload { name: name.to_owned(), input_tokens, output_tokens }
    }

    /// The workload of this name: the configuration's own, one of the probes', or one of benchmarks.
    ///
    /// # Errors
    /// In words, if there is none, or if it is a probe of several requests at once: that is a level of load, not a workload.
    pub fn named(name: &str, config: &Config) -> Result<Workload, String> {
        let of_benchmarks = || OF_BENCHMARKS.iter().find(|known| known.0 == name).map(|known| (known.1, known.2));
        let lengths = match config.workloads.get(name) {
            Some(known) if known.at_once > 1 => {
                let is_alone = |other: &&ProbeWorkload| {
                    other.at_once == 1
                        && (other.input_tokens, other.output_tokens) == (known.input_tokens, known.output_tokens)
                };
                let alone = config.workloads.values().find(is_alone).map_or("1k", |other| other.name.as_str());
                let at_once = known.at_once;
                return Err(format!(
                    "the workload {name:?} is {at_once} requests at once: use --workload {alone} --concurrency {at_once}"
                ));
            }
            known => known.map(|known| (known.input_tokens, known.output_tokens)).or_else(of_benchmarks),
        };
        let (input_tokens, output_tokens) = lengths.ok_or_else(|| {
            let names = Workload::names(config);
            let nearest = nearest(name, names.iter().copied(), 1);
            let hint = nearest.first().map_or(String::new(), |nearest| format!(" (did you mean {nearest}?)"));
            format!("there is no workload {name:?}{hint}; there are {}", names.join(", "))
        })?;
        Ok(Workload::new(name, input_tokens, output_tokens))
    }

    /// The names of all of them.
    fn names(config: &Config) -> Vec<&str> {
        let of_probes = config.workloads.values().filter(|known| known.at_once == 1);
        OF_BENCHMARKS.iter().map(|known| known.0).chain(of_probes.map(|known| known.name.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::config;

    #[test]
    fn workloads_are_the_configurations_the_probes_and_two_more() {
        let text = "[workloads.agent]\ninput_tokens = 4000\noutput_tokens = 300\n";
        let config = config::parse(text, Path::new("test"), &|_| None).unwrap();
        let named = |name: &str| Workload::named(name, &config);
        assert_eq!(named("10k"), Ok(Workload::new("10k", 10_000, 1_500)));
        assert_eq!(named("agent"), Ok(Workload::new("agent", 4_000, 300)));
        assert!(named("chat").is_ok() && named("1K").unwrap_err().contains("did you mean 1k?"));
        assert!(Workload::names(&config).into_iter().all(|name| named(name).is_ok()));
    }

    #[test]
    fn requests_at_once_are_a_level_and_no_workload() {
        let config = config::parse("", Path::new("test"), &|_| None).unwrap();
        let why = Workload::named("parallel", &config).unwrap_err();
        assert!(why.ends_with("10 requests at once: use --workload 1k --concurrency 10"), "{why}");
    }
}
