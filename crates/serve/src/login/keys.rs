//! The issuer's keys: read at the start, every few minutes, and when a token names one that is not known. While the issuer is away,
//! those that are known go on.

use std::sync::Arc;
use std::time::Duration;

use super::Logins;
use photofinish_config::Oidc;

/// From one reading of the issuer's keys to the next.
const READ_EVERY: Duration = Duration::from_secs(600);
/// The shortest pause between two readings: a token may name any key.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after readings that failed.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often the configuration is looked at while it has no issuer.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Logins {
    /// Runs until the gateway drains.
    pub async fn keep_keys(self: Arc<Logins>) {
        let keep = async {
            let (mut pause, mut told) = (PAUSE, None);
            loop {
                let Some(oidc) = self.gateway.live().config.oidc.clone() else {
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                };
                let read = self.read_keys(&oidc).await;
                let wait = match &read {
                    Ok(_) => {
                        pause = PAUSE;
                        READ_EVERY
                    }
                    Err(_) => {
                        self.gateway.issuer_keys().failed();
                        pause = (pause * 2).min(PAUSE_MAX);
                        pause
                    }
                };
                if told.as_ref() != Some(&read) {
                    match &read {
                        Ok(keys) => tracing::info!(keys, "the keys of the issuer {} are read", oidc.issuer),
                        Err(why) => tracing::warn!(
                            "the keys of the issuer {} cannot be read: {why}; those that are known go on",
                            oidc.issuer
                        ),
                    }
                    told = Some(read);
                }
                // A further reading within the pause could say nothing new.
                tokio::time::sleep(PAUSE).await;
                tokio::select! {
                    () = tokio::time::sleep(wait.saturating_sub(PAUSE)) => {}
                    () = self.gateway.issuer_keys().wanted() => {}
                    () = self.another_issuer(&oidc) => told = None,
                }
            }
        };
        tokio::select! {
            () = self.gateway.shutdown().draining() => {}
            () = keep => {}
        }
    }

    async fn read_keys(&self, oidc: &Oidc) -> Result<usize, String> {
        let metadata = self.issuer.described(oidc).await?;
        let listed = self.issuer.json(&metadata.jwks_uri, None).await?;
        match self.gateway.issuer_keys().put(&oidc.issuer, &listed) {
            0 => Err(format!("{} lists none that the gateway knows the kind of", metadata.jwks_uri)),
            keys => Ok(keys),
        }
    }

    async fn another_issuer(&self, oidc: &Oidc) {
        while self.gateway.live().config.oidc.as_ref().is_some_and(|now| now.issuer == oidc.issuer) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
