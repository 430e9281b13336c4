//! What the history teaches before the first request is served, so that a gateway that was started again decides as well as
//! before.

use crate::clock::Instant;
use crate::config::Config;
use crate::history::recorded::Recorded;
use crate::learning::{Learning, Remembering};
use crate::race::verdict::slows_hedging;
use crate::routing::tariff::Basis;
use crate::store::{Reader, RecordedFilter};

/// Requests that are remembered: the newest. What is older has faded from what is learnt.
const REMEMBERED_MAX: usize = 20_000;

/// Blocks: not for a task of the runtime. A history that cannot be read is logged, and nothing is learnt from it.
pub fn remember(config: &Config, learning: &Learning) {
    let (began, path) = (Instant::now(), &config.store.path);
    if !path.exists() {
        return;
    }
    let filter = RecordedFilter { newest: REMEMBERED_MAX, ..RecordedFilter::default() };
    let mut requests = 0_u64;
    let read = Reader::open(path).map_err(anyhow::Error::from).and_then(|reader| {
        let each = |recorded: Recorded| {
            requests += 1;
            let ledger = config.model(&recorded.model).map(|model| {
                learning.ledger(&model.name, model.race.budget, Basis::of(model.upstreams.iter()).is_money())
            });
            learning.remember(&recorded, &Remembering { counts: &slows_hedging, ledger });
        };
        Ok(reader.recorded(&filter, each)?)
    });
    learning.publish();
    match read {
        Ok(()) => tracing::info!(requests, after = ?began.elapsed(), "learnt from the history"),
        Err(error) => tracing::warn!(requests, %error, "the history teaches no more: plans begin with what is known"),
    }
}
