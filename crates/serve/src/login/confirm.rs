//! Whether users who logged in are still there, and in which groups: the issuer is asked again about each within a minute, by one of the
//! gateways on a database. Where it is away, no user loses anything.

use std::sync::Arc;
use std::time::Duration;

use oauth2::RefreshToken;

use super::issuer::{NoTokens, no_tokens};
use super::seal::{self, REFRESH};
use super::{Fresh, Logins, login};
use crate::accounts::{AskAgain, KnownLogin};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::Oidc;
use photofinish_history::store::Store;
use photofinish_routing::callers::IssuerWord;
use photofinish_routing::callers::{claimed, word};

/// From one round of questions about all users to the next: somebody who was removed is refused within a minute.
const ROUND: Duration = Duration::from_secs(45);
/// Users about whom the issuer is asked in a second. With more than 450 of them a round takes longer.
const PER_SECOND: u32 = 10;
/// Users in a row about whom the issuer does not say anything until a round ends: it is away.
const AWAY_MAX: u32 = 3;
/// One gateway on a database asks.
const DUTY: &str = "logins";

impl Logins {
    /// Runs until the gateway drains.
    pub async fn confirm(self: Arc<Logins>) {
        let rounds = async {
            loop {
                let began = Instant::now();
                // Without such users neither the issuer nor the store is asked.
                if self.gateway.live().callers.has_logins() && self.is_ours().await {
                    self.round(self.offered().ok()).await;
                }
                tokio::time::sleep(ROUND.saturating_sub(began.elapsed())).await;
            }
        };
        tokio::select! {
            () = self.gateway.shutdown().draining() => {}
            () = rounds => {}
        }
    }

    /// Not where the database does not answer.
    async fn is_ours(&self) -> bool {
        let address = self.gateway.live().config.store.address.clone();
        let held = self
            .gateway
            .shutdown()
            .run_blocking(move || !address.is_server() || Store::holds_duty(&address, DUTY).unwrap_or(false));
        held.await.unwrap_or(false)
    }

    /// `oidc`: none where the configuration has no login any more.
    async fn round(&self, oidc: Option<Arc<Oidc>>) {
        let accounts = self.accounts.clone();
        let Ok(Ok(logins)) = self.gateway.shutdown().run_blocking(move || accounts.logins()).await else { return };
        let Some(oidc) = &oidc else {
            for KnownLogin { word, .. } in logins.into_iter().filter(|login| !login.ends) {
                let name = word.name.clone();
                let by = "a configuration without a login".to_owned();
                let now = IssuerWord { issued_at_us: wall_micros(), ..word };
                if self.accounts.take_word_aside(now, AskAgain::Later, by).await.is_ok() {
                    tracing::warn!(
                        user = name,
                        "no issuer can be asked about a login any more: it counts for another day"
                    );
                }
            }
            return;
        };
        let (mut away, mut is_told) = (0, false);
        for before in logins {
            let began = Instant::now();
            away = if self.confirm_one(oidc, before).await { 0 } else { away + 1 };
            if away > 0 && !std::mem::replace(&mut is_told, true) {
                let issuer = &oidc.issuer;
                tracing::warn!("the issuer {issuer} does not say whether users are still there: their logins go on");
            }
            if away == AWAY_MAX {
                break;
            }
            tokio::time::sleep((Duration::from_secs(1) / PER_SECOND).saturating_sub(began.elapsed())).await;
        }
    }

    /// False: that is unknown.
    async fn confirm_one(&self, oidc: &Arc<Oidc>, before: KnownLogin) -> bool {
        let KnownLogin { word: before, sealed, ends } = before;
        let now = IssuerWord { issued_at_us: wall_micros(), ..before };
        let name = now.name.clone();
        let token = sealed.as_ref().and_then(|sealed| seal::open(&login(oidc).ok()?.secret, REFRESH, sealed));
        let (said, again) = match token {
            // Copied from another database, or the client has another secret.
            None => (now, AskAgain::Never),
            Some(token) => match self.ask_about(oidc, &token).await {
                Ok(fresh) => {
                    let is_silent = claimed(&fresh.claims, &oidc.user_claim).is_none();
                    let said = match word(oidc, &fresh.claims) {
                        // The issuer describes a user once, at the login, and then only that they are still there.
                        _ if is_silent => now.clone(),
                        Ok(said) if said.name == now.name && said.subject == now.subject => {
                            IssuerWord { issued_at_us: now.issued_at_us, ..said }
                        }
                        // They have another name by now, or none.
                        _ => IssuerWord { place: None, ..now.clone() },
                    };
                    let newer = fresh.again.filter(|again| *again != token || ends).or(ends.then_some(token));
                    let sealed = newer.and_then(|token| seal::seal(&login(oidc).ok()?.secret, REFRESH, &token));
                    (said, sealed.map_or(AskAgain::AsKnown, AskAgain::With))
                }
                Err(NoTokens::Over(_)) => (IssuerWord { place: None, ..now }, AskAgain::Never),
                Err(NoTokens::Away(why)) => {
                    tracing::debug!(why, "the issuer does not say whether a user is still there");
                    return false;
                }
            },
        };
        let is_over = said.place.is_none();
        if is_over && !self.is_kept(&name, sealed).await {
            // They logged in meanwhile, which ended the login before.
            return true;
        }
        match self.accounts.take_word_aside(said, again, oidc.issuer.clone()).await {
            Ok(()) if is_over => {
                tracing::info!(user = name, "the issuer ended a login: keys and sessions of the user count no more");
                true
            }
            Ok(()) => true,
            Err(_) => false,
        }
    }

    async fn is_kept(&self, name: &str, sealed: Option<String>) -> bool {
        let (accounts, name) = (self.accounts.clone(), name.to_owned());
        let now = self.gateway.shutdown().run_blocking(move || accounts.logins()).await;
        let is_it = |known: KnownLogin| known.word.name == name && known.sealed == sealed;
        now.is_ok_and(|logins| logins.is_ok_and(|logins| logins.into_iter().any(is_it)))
    }

    async fn ask_about(&self, oidc: &Oidc, token: &str) -> Result<Fresh, NoTokens> {
        let (client, metadata) = self.client(oidc).await.map_err(|refusal| NoTokens::Away(refusal.to_string()))?;
        let token = RefreshToken::new(token.to_owned());
        let tokens = client.exchange_refresh_token(&token).request_async(&self.issuer).await;
        let tokens = tokens.map_err(no_tokens)?;
        self.fresh((oidc, &metadata), &tokens, None).await.map_err(|refusal| NoTokens::Away(refusal.to_string()))
    }
}
