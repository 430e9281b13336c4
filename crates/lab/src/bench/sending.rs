//! What all requests of a generator share: how they are made, priced and sent. Not for when they leave: see `generator`.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};

use super::block::LoadTarget;
use super::client::LoadClient;
use super::estimate;
use super::patience::patience;
use super::prompt::{Prompt, PromptMaker};
use super::spend::Spend;

pub(super) struct Sending {
    pub client: LoadClient,
    pub prompts: PromptMaker,
    pub spend: Spend,
    pub run_id: String,
    /// Members that are added to each request.
    members: Map<String, Value>,
    /// Their bytes.
    added: usize,
    /// Microseconds of the longest answer so far.
    longest_us: AtomicI64,
}

impl Sending {
    pub fn new(
        client: LoadClient,
        prompts: PromptMaker,
        spend: Spend,
        members: Map<String, Value>,
        run_id: String,
    ) -> Sending {
        let added = if members.is_empty() { 0 } else { Value::Object(members.clone()).to_string().len() };
        Sending { client, prompts, spend, run_id, members, added, longest_us: AtomicI64::new(0) }
    }

    /// A prompt with the members that are added to each.
    pub fn prompt(&self, number: u64, target: &LoadTarget) -> Prompt {
        let mut prompt = self.prompts.make(number, target.lane, &target.name);
        prompt.members.extend(self.members.clone());
        prompt
    }

    /// USD, if the server keeps to its bounds.
    pub fn estimate(&self, prompt: &Prompt, target: &LoadTarget) -> f64 {
        estimate::usd(target, prompt, self.prompts.workload().input_tokens, self.added)
    }

    /// How long the answer to this prompt is waited for: as long as one may need, or twice as long as one took so far.
    pub fn patience(&self, prompt: &Prompt) -> Duration {
        let input = f64::from(self.prompts.workload().input_tokens);
        let longest = Duration::from_micros(self.longest_us.load(Ordering::Relaxed).unsigned_abs());
        patience(input, estimate::answer_tokens(&prompt.members)).max(2 * longest)
    }

    /// An answer took so long.
    pub fn took(&self, answer_us: i64) {
        self.longest_us.fetch_max(answer_us, Ordering::Relaxed);
    }
}
