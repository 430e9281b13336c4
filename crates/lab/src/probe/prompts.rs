//! The prompts of probes. Their words follow from the history and a number, so the upstreams of a model get the same ones,
//! also when a restart lies between them. Their salts are drawn, so no prompt is ever sent twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::bench::prompt::{Prompt, PromptMaker};
use crate::bench::workload::Workload;

/// One maker for each workload; they learn how long a token is at each upstream.
pub(super) struct ProbePrompts {
    seed: u64,
    makers: Mutex<BTreeMap<(String, u32, u32), Arc<PromptMaker>>>,
}

impl ProbePrompts {
    /// `seed`: that of the schedule.
    pub fn new(seed: u64) -> ProbePrompts {
        ProbePrompts { seed, makers: Mutex::default() }
    }

    /// Of a workload.
    pub fn maker(&self, name: &str, input_tokens: u32, output_tokens: u32) -> Arc<PromptMaker> {
        let mut makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), input_tokens, output_tokens);
        let make = || Arc::new(PromptMaker::new(Workload::new(name, input_tokens, output_tokens), 0.0, self.seed));
        Arc::clone(makers.entry(key).or_insert_with(make))
    }
}

/// The prompt of this number for this upstream, behind a new salt.
pub(super) fn make(maker: &PromptMaker, number: u64, upstream: &str) -> Prompt {
    maker.make(number, u64::from(fastrand::u32(..)), upstream)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(prompts: &ProbePrompts, workload: &str, number: u64, upstream: &str) -> String {
        let prompt = make(&prompts.maker(workload, 100, 10), number, upstream);
        prompt.members["messages"][0]["content"].as_str().unwrap().to_owned()
    }

    #[test]
    fn upstreams_get_the_same_words_behind_other_salts_also_after_a_restart() {
        let (before, after) = (ProbePrompts::new(7), ProbePrompts::new(7));
        let texts = [
            text(&before, "1k", 3, "a/m"),
            text(&before, "1k", 3, "b/m"),
            text(&after, "1k", 3, "b/m"),
            text(&after, "ping", 3, "b/m"),
        ];
        let words: BTreeSet<&str> = texts.iter().map(|text| &text[18..300]).collect();
        assert_eq!(words.len(), 1, "{words:?}");
        let salts: BTreeSet<&str> = texts.iter().map(|text| &text[..18]).collect();
        assert_eq!(salts.len(), 4, "not even a probe that is sent again finds its prompt in a cache: {salts:?}");
        assert_ne!(text(&before, "1k", 4, "a/m")[18..300], texts[0][18..300], "each slot has its own words");
    }
}
