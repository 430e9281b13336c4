//! The load generator of `photofinish bench` in this process, for one server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use photofinish_config as config;
use photofinish_lab::bench::prompt::{PromptMaker, Workload};
use photofinish_lab::bench::spend::Spend;
use photofinish_lab::bench::{BlockPlan, Generator, Load, LoadTarget, RowFeed};
use photofinish_serve::app::LocalGateway;

/// A model of a simulated provider.
pub const SERVER: &str = "sim/m";
/// Input tokens of a prompt.
const INPUT_TOKENS: u32 = 20;

pub struct LocalGenerator {
    pub alone: LocalGateway,
    pub generator: Generator,
}

impl LocalGenerator {
    /// With made prompts. Its rows go to a database in `dir`.
    pub async fn start(base_url: &str, dir: &Path, tokens: u32) -> anyhow::Result<LocalGenerator> {
        LocalGenerator::start_with(base_url, Some(dir), PromptMaker::new(workload(tokens), 0.0, 1)).await
    }

    /// Without `dir` it keeps no rows.
    pub async fn start_with(
        base_url: &str,
        dir: Option<&Path>,
        prompts: PromptMaker,
    ) -> anyhow::Result<LocalGenerator> {
        let store = dir.map(|dir| format!("[store]\nurl = \"sqlite:{}\"\n", dir.join("rows.db").display()));
        let store = store.as_deref().unwrap_or_default();
        let text = format!("{store}[race]\nbreaker = {{ failures = 0 }}\n[providers.sim]\nbase_url = \"{base_url}\"\n");
        let config = config::parse(&text, Path::new("load"), &|_| None)?;
        let feed = RowFeed::new();
        let alone = LocalGateway::start(config, dir.is_some(), Arc::clone(&feed) as _).await?;
        let client = alone.load_client(feed);
        let members = serde_json::Map::new();
        let generator = Generator::new(client, prompts, Spend::unlimited(), members, "load".to_owned());
        Ok(LocalGenerator { alone, generator })
    }
}

/// Its prompts.
pub fn workload(tokens: u32) -> Workload {
    Workload::new("load", INPUT_TOKENS, tokens)
}

/// The server `sim`, asked for any model, such as [`SERVER`]; each lane has the same prompts behind other salts.
pub fn target(lane: u64, name: &str) -> LoadTarget {
    let mut headers = HeaderMap::new();
    headers.insert("x-photofinish-policy", HeaderValue::from_static("fallback"));
    LoadTarget { name: name.to_owned(), model: name.to_owned(), headers, prices: Vec::new(), lane }
}

/// This load without other limits, for ten minutes at most.
pub fn plan(load: Load) -> BlockPlan {
    BlockPlan {
        load,
        duration: Duration::from_secs(600),
        requests: usize::MAX,
        first: 0,
        in_flight_max: usize::MAX,
        ramp: Duration::ZERO,
        seed: 1,
    }
}
