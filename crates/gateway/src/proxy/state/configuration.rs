//! The configuration in force, and a newer one that is not. Not for reading them: see `app::reload` of the crate `serve`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use photofinish_config::Fingerprint;
use photofinish_routing::health::LiveConfig;

pub(super) struct ConfigurationInForce {
    live: ArcSwap<LiveConfig>,
    /// The newest configuration, if it is not in force.
    refused: Mutex<Option<RefusedConfiguration>>,
    /// Held while another configuration takes the place of `live`.
    changing: Mutex<()>,
    /// A client named a model that is not known.
    unknown: Notify,
}

impl ConfigurationInForce {
    pub fn new(live: LiveConfig) -> ConfigurationInForce {
        ConfigurationInForce {
            live: ArcSwap::from_pointee(live),
            refused: Mutex::default(),
            changing: Mutex::default(),
            unknown: Notify::new(),
        }
    }

    pub fn live(&self) -> Arc<LiveConfig> {
        self.live.load_full()
    }

    /// `notify` gets the one before and the new one, which is in force after it.
    pub fn replace(&self, make: impl FnOnce(&LiveConfig) -> LiveConfig, notify: impl FnOnce(&LiveConfig, &LiveConfig)) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.live();
        let live = make(&before);
        notify(&before, &live);
        self.live.store(Arc::new(live));
    }

    pub fn unknown(&self) -> &Notify {
        &self.unknown
    }

    pub fn refuse(&self, refused: Option<RefusedConfiguration>) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    pub fn refused(&self) -> Option<RefusedConfiguration> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A newer configuration that is not in force.
#[derive(Clone, Debug)]
pub struct RefusedConfiguration {
    /// For operators.
    pub why: String,
    /// Its text. None: it cannot be read.
    pub text: Option<Fingerprint>,
    pub acceptance: Acceptance,
}

/// How a person may accept what a newer configuration drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is not valid.
    Never,
    /// It takes all authentication away.
    ByRequest,
    ByRequestOrSignal,
}

impl RefusedConfiguration {
    /// The request that accepts it.
    pub fn accepted_by(&self) -> Option<String> {
        let text = self.text.filter(|_| self.acceptance != Acceptance::Never)?;
        Some(format!("POST /api/reload?accept={text}"))
    }
}

impl fmt::Display for RefusedConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        let Some(request) = self.accepted_by() else { return Ok(()) };
        write!(f, "\nIf that is meant, accept it with {request}")?;
        match self.acceptance {
            Acceptance::ByRequestOrSignal => f.write_str(", or send SIGHUP"),
            Acceptance::Never | Acceptance::ByRequest => Ok(()),
        }
    }
}
