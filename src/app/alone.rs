//! A gateway without a listener: for requests of its own process, which go the same way as those of clients.
//!
//! It looks at nothing in the background: no roll-ups, no regressions, no reload.

use std::sync::Arc;
use std::time::Duration;

use super::{CANCEL_FOR, FLUSH_FOR, Parts};
use crate::config::Config;
use crate::proxy::Gateway;
use crate::recorder::{Onlooker, Recorder, Writer};
use crate::store::Store;
use crate::upstream::system_resolver;

/// A gateway that only its owner can ask.
pub struct Alone {
    parts: Parts,
    /// None where nothing is stored.
    writer: Option<Writer>,
}

impl Alone {
    /// Starts the simulated providers of `config` and, if `stored`, opens its store. `onlooker` hears of everything.
    ///
    /// # Errors
    /// When the store cannot be opened, in words for an operator.
    pub async fn start(config: Config, stored: bool, onlooker: Arc<dyn Onlooker>) -> anyhow::Result<Alone> {
        let (recorder, writer) = if stored {
            let (recorder, writer) = Recorder::start(Store::open(&config.store.path).await?);
            (recorder, Some(writer))
        } else {
            (Recorder::without_store(), None)
        };
        let parts = Parts::join(config, recorder.watched(onlooker), system_resolver()).await?;
        // Its requests are about to come, and are done before a token is old.
        parts.tokens.tried().await;
        parts.tokens.stop();
        Ok(Alone { parts, writer })
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
        let Alone { parts, writer } = self;
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
