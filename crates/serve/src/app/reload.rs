//! Reads the configuration again while the gateway runs, and puts it in force or keeps the old one.
//!
//! It fails closed: a configuration that cannot be read, is invalid, or drops much of the one in force changes nothing until a person
//! says so. Not for when to look: see `reload_watch`.

use std::sync::Arc;

use super::config_losses::losses;
use super::discovery::Discovery;
use super::simulated::Simulated;
use super::startup_log;
use super::tokens::Tokens;
use crate::server::ReloadCall;
use photofinish_base::files::FileLimits;
use photofinish_base::printable::quoted;
use photofinish_base::shutdown::Shutdown;
use photofinish_config::config::{Config, ConfigText, Listen, load_text};
use photofinish_gateway::proxy::{Gateway, RefusedConfiguration};
use photofinish_routing::health::LiveConfig;

/// The parts that a reload changes, and the state that it cannot change.
#[derive(Clone)]
pub(super) struct Reloading {
    pub gateway: Arc<Gateway>,
    pub simulated: Simulated,
    pub tokens: Tokens,
    pub discovery: Discovery,
    /// The addresses the gateway listens on, whatever `listen` says now.
    pub bound: Vec<Listen>,
    pub one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

/// Who wants a reload, and so what it may take.
pub(super) enum ReloadOrder {
    /// The watch, of the text that it found; none if it found another file changed.
    Settled(Option<ConfigText>),
    /// An administrator, and the fingerprint of the text whose losses they accept.
    Asked { accept: Option<String> },
    /// SIGHUP: whatever the file says now.
    Accepted,
}

impl ReloadOrder {
    fn limits(&self) -> FileLimits {
        FileLimits::regular(!matches!(self, ReloadOrder::Settled(_)))
    }
}

/// Why a reload changed nothing.
enum NotReloaded {
    Refused(RefusedConfiguration),
    /// The text is not the one that was accepted. What was told of the file stays.
    NotAccepted(String),
}

impl From<anyhow::Error> for NotReloaded {
    fn from(error: anyhow::Error) -> NotReloaded {
        NotReloaded::Refused(RefusedConfiguration { why: format!("{error:#}"), text: None, is_acceptable: false })
    }
}

impl Reloading {
    /// Reads the configuration again and puts it in force, or reports why not.
    ///
    /// # Errors
    /// For an operator, and already in the log.
    pub async fn reload(&self, order: ReloadOrder) -> Result<(), String> {
        let _one_at_a_time = self.one_at_a_time.lock().await;
        let why = match self.replace(order).await {
            Ok(()) => {
                self.gateway.refuse_configuration(None);
                tracing::info!("the new configuration is in force");
                return Ok(());
            }
            Err(NotReloaded::Refused(refused)) => {
                let why = refused.to_string();
                self.gateway.refuse_configuration(Some(refused));
                why
            }
            Err(NotReloaded::NotAccepted(why)) => why,
        };
        tracing::error!("the new configuration is not used, the old one stays in force:\n{why}");
        Err(why)
    }

    /// For a request to the server.
    pub fn call(&self) -> ReloadCall {
        let reloading = self.clone();
        Arc::new(move |accept| {
            let reloading = reloading.clone();
            Box::pin(async move { reloading.reload(ReloadOrder::Asked { accept }).await })
        })
    }

    /// Does work on files, which may wait for them. None: the gateway ends, and waits for no file.
    pub async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let working = Shutdown::new().run_blocking(work);
        tokio::select! {
            biased;
            () = self.gateway.shutdown().draining() => None,
            done = working => done.ok(),
        }
    }

    async fn replace(&self, order: ReloadOrder) -> Result<(), NotReloaded> {
        let before = self.gateway.live();
        let accept = match &order {
            ReloadOrder::Settled(_) => Some(None),
            ReloadOrder::Asked { accept } => Some(accept.clone()),
            ReloadOrder::Accepted => None,
        };
        let config = self.read(&before, order).await?;
        self.check_listeners(&config)?;
        if let Some(accept) = accept {
            self.check_losses(before.as_read(), &config, accept)?;
        }
        self.put_in_force(&before, config).await.map_err(NotReloaded::from)
    }

    async fn read(&self, before: &LiveConfig, order: ReloadOrder) -> Result<Config, NotReloaded> {
        let (source, listen) = (before.config.source.clone(), before.config.given_listen.clone());
        let reading = self.aside(move || {
            let limits = order.limits();
            let text = match order {
                ReloadOrder::Settled(Some(text)) => text,
                _ => ConfigText::read(&source, limits).map_err(|error| (error, None))?,
            };
            load_text(&text, listen.as_ref(), limits).map_err(|error| (error, text.fingerprint()))
        });
        let ended =
            || NotReloaded::from(anyhow::anyhow!("it was not read to its end: the gateway ends, or the log says why"));
        reading.await.ok_or_else(ended)?.map_err(|(error, text)| {
            NotReloaded::Refused(RefusedConfiguration { why: error.to_string(), text, is_acceptable: false })
        })
    }

    /// # Errors
    /// The new configuration drops much of the old one, and nobody has accepted it.
    fn check_losses(&self, before: &Config, config: &Config, accept: Option<String>) -> Result<(), NotReloaded> {
        if let Some(accept) = accept {
            let print = config.text.map_or_else(|| "none".to_owned(), |text| text.to_string());
            if accept == print {
                return Ok(());
            }
            return Err(NotReloaded::NotAccepted(format!(
                "the text with the fingerprint {} was accepted, and the file has {print} now: see what it says, and accept that",
                quoted(&accept)
            )));
        }
        let losses = losses(before, config, &self.bound);
        if losses.is_empty() {
            return Ok(());
        }
        let why = format!("{}: {}", config.source, losses.join("; "));
        Err(NotReloaded::Refused(RefusedConfiguration { why, text: config.text, is_acceptable: true }))
    }

    /// # Errors
    /// A listener that others can reach would need no token. Nobody can accept that: a start refuses it too.
    fn check_listeners(&self, config: &Config) -> Result<(), NotReloaded> {
        let open = self.bound.iter().find(|listen| !listen.is_local() && config.users.is_empty());
        let Some(open) = open else { return Ok(()) };
        let why = format!(
            "the gateway listens on {open}, which others can reach, and the new configuration has no [users]: \
             restart the gateway if it is to listen elsewhere, or keep a user"
        );
        Err(NotReloaded::Refused(RefusedConfiguration { why, text: config.text, is_acceptable: false }))
    }

    async fn put_in_force(&self, before: &LiveConfig, config: Config) -> anyhow::Result<()> {
        let next = self.simulated.next(&config).await?;
        let restart = restart_needed(&before.config, &config);
        let live = self.discovery.applied(&LiveConfig::new(config, &next.addresses())?);
        self.tokens.hand_over(&live.config);
        startup_log::configuration(&live.config);
        for (what, _) in restart.iter().filter(|(_, changed)| *changed) {
            tracing::warn!("a new `{what}` takes effect only after a restart");
        }
        self.gateway.reload(live);
        self.tokens.keep(&self.gateway.live().config);
        next.put_in_force();
        self.gateway.client().keep_warm(self.gateway.live().warm());
        self.discovery.reloaded();
        Ok(())
    }
}

fn restart_needed(before: &Config, after: &Config) -> [(&'static str, bool); 4] {
    [
        ("server.listen", before.server.listen != after.server.listen),
        // A different certificate needs no restart.
        ("server.tls", before.server.tls.is_some() != after.server.tls.is_some()),
        ("server.log", before.server.log != after.server.log),
        ("store.url", before.store.path != after.store.path),
    ]
}
