//! A gateway without a listener: for requests of its own process, which go the same way as those of clients.
//!
//! It looks at nothing in the background: no roll-ups, no regressions, no reload.

use std::sync::Arc;
use std::time::Duration;

use super::{CANCEL_FOR, FLUSH_FOR, GatewayParts};
use crate::config::Config;
use crate::proxy::Gateway;
use crate::recorder::{RaceObserver, Recorder, WriterTask};
use crate::store::Store;
use crate::upstream::system_resolver;

/// A gateway that only its owner can ask.
pub struct LocalGateway {
    parts: GatewayParts,
    /// None where nothing is stored.
    writer: Option<WriterTask>,
}

impl LocalGateway {
    /// Starts the simulated providers of `config` and, if `stored`, opens its store. `race_observer` hears of everything.
    ///
    /// # Errors
    /// When the store cannot be opened, in words for an operator.
    pub async fn start(
        config: Config,
        stored: bool,
        race_observer: Arc<dyn RaceObserver>,
    ) -> anyhow::Result<LocalGateway> {
        let (recorder, writer) = if stored {
            let (recorder, writer) = Recorder::start(Store::open(&config.store.path).await?);
            (recorder, Some(writer))
        } else {
            (Recorder::without_store(), None)
        };
        let parts = GatewayParts::join(config, recorder.watched(race_observer), system_resolver()).await?;
        // Its requests are about to come, and are done before a token is old.
        parts.tokens.tried().await;
        parts.tokens.stop();
        Ok(LocalGateway { parts, writer })
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.parts.gateway
    }

    /// Waits until the losers that run on have ended, at most `limit`.
    pub async fn losers_ended(&self, limit: Duration) {
        self.parts.serving.finished(limit).await;
    }

    /// Cancels what still runs and writes the rows. Gives the number of those that could not be written.
    pub async fn stop(self) -> usize {
        let LocalGateway { parts, writer } = self;
        parts.serving.cancel();
        parts.serving.finished(CANCEL_FOR).await;
        parts.lines.cancel();
        parts.simulated.stop();
        match writer {
            Some(writer) => writer.finish(FLUSH_FOR).await,
            None => 0,
        }
    }
}
