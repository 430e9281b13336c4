//! Sessions of the dashboard at every gateway on a database. What one gateway opened the others find there, encrypted with the secret that
//! only the browser has.
//!
//! Not for what a session is: see `Sessions` of the routing crate.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use secrecy::SecretString;
use tokio::time::timeout;

use super::{Logins, seal};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::token_hash;
use photofinish_routing::callers::SharedSession;

/// How long a login, a log-out or a request with an unknown session waits for the database.
const SESSION_KEPT_FOR: Duration = Duration::from_secs(1);

impl Logins {
    /// Lets the session with this secret hold at the other gateways too. Where the database does not take it, it holds here alone.
    pub async fn share_session(&self, secret: &str) {
        let Some(session) = self.gateway.sessions().of(secret) else { return };
        let text = format!("{} {}", URL_SAFE_NO_PAD.encode(session.token_sha256), session.user);
        let Some(sealed) = seal::seal(&SecretString::from(secret), seal::SESSION, &text) else { return };
        let left = session.until.saturating_duration_since(Instant::now());
        let until_us = wall_micros() + i64::try_from(left.as_micros()).unwrap_or(0);
        let (accounts, hash) = (self.accounts.clone(), token_hash(secret.as_bytes()));
        let kept = self.gateway.shutdown().run_blocking(move || accounts.keep_session(&hash, &sealed, until_us));
        match timeout(SESSION_KEPT_FOR, kept).await {
            Ok(Ok(Err(error))) => tracing::warn!(%error, "a session of the dashboard holds at this gateway alone"),
            // What is late may have been kept.
            _ => self.gateway.sessions().take_over(secret, session, Instant::now()),
        }
    }

    /// Takes over those of these sessions that another gateway opened.
    pub async fn find_sessions(&self, secrets: Vec<String>) {
        let find = async {
            let _place = self.lookups.acquire().await;
            for secret in secrets {
                let (accounts, hash) = (self.accounts.clone(), token_hash(secret.as_bytes()));
                let found = self.gateway.shutdown().run_blocking(move || accounts.session(&hash)).await;
                let Ok(Ok(Some((sealed, until_us)))) = found else { continue };
                if let Some(session) = opened(&secret, &sealed, until_us) {
                    self.gateway.sessions().take_over(&secret, session, Instant::now());
                }
            }
        };
        let _ = timeout(SESSION_KEPT_FOR, find).await;
    }

    /// Ends the sessions in these headers, at all gateways.
    pub async fn end_sessions(&self, headers: &HeaderMap) {
        self.gateway.sessions().close(headers);
        let accounts = self.accounts.clone();
        let ending = self.gateway.shutdown().run_blocking(move || accounts.end_sessions());
        match timeout(SESSION_KEPT_FOR, ending).await {
            Ok(Ok(Ok(()))) => {}
            _ => tracing::warn!("a session ended here; at other gateways it ends when the database answers"),
        }
    }
}

fn opened(secret: &str, sealed: &str, until_us: i64) -> Option<SharedSession> {
    let text = seal::open(&SecretString::from(secret), seal::SESSION, sealed)?;
    let (hash, user) = text.split_once(' ')?;
    let token_sha256 = URL_SAFE_NO_PAD.decode(hash).ok()?.try_into().ok()?;
    let left = Duration::from_micros(u64::try_from(until_us - wall_micros()).ok()?);
    Some(SharedSession { user: user.to_owned(), token_sha256, until: Instant::now() + left })
}
