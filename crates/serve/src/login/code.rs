//! The login of a browser: it is sent to the issuer, and comes back with a code (authorization code flow, with PKCE). What the gateway
//! must know by then is in a cookie, sealed, so that any gateway behind a balancer can end what another began.

use std::sync::Arc;

use oauth2::{AuthorizationCode, CsrfToken, PkceCodeChallenge, PkceCodeVerifier};
use serde::{Deserialize, Serialize};

use super::issuer::{NoTokens, no_tokens};
use super::seal::{self, CODE};
use super::{LoginRefusal, Logins, login, no_random, place};
use photofinish_base::clock::wall_micros;
use photofinish_config::User;

/// How long a browser may take at the issuer, seconds.
pub const CODE_FOR: i64 = 600;

/// A login that runs.
#[derive(Deserialize, Serialize)]
struct RunningLogin {
    state: String,
    nonce: String,
    verifier: String,
    /// Microseconds since 1970, UTC.
    until_us: i64,
}

/// What the issuer sends a browser back with.
#[derive(Default)]
pub struct Returned {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

impl Returned {
    /// Of the parameters of the query.
    pub fn of(pairs: Vec<(String, String)>) -> Returned {
        let mut returned = Returned::default();
        for (name, value) in pairs {
            match name.as_str() {
                "code" => returned.code = Some(value),
                "state" => returned.state = Some(value),
                "error" => returned.error = Some(value),
                _ => {}
            }
        }
        returned
    }
}

impl Logins {
    /// Where the browser is sent, and what it keeps meanwhile.
    ///
    /// # Errors
    /// There is no login, or the issuer does not answer.
    pub async fn begin(&self) -> Result<(String, String), LoginRefusal> {
        let oidc = self.offered()?;
        let _place = place(&self.running)?;
        let (client, metadata) = self.client(&oidc).await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = CsrfToken::new_random();
        let request =
            client.authorize_url(CsrfToken::new_random).add_scopes(metadata.scopes()).set_pkce_challenge(challenge);
        let mut request = request.add_extra_param("nonce", nonce.secret().clone());
        if metadata.scopes().any(|scope| scope.as_str() == "offline_access") {
            // OpenID Connect has issuers ask the user before they give what lasts.
            request = request.add_extra_param("prompt", "consent");
        }
        let (url, state) = request.url();
        let running = RunningLogin {
            state: state.secret().clone(),
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
            until_us: wall_micros() + CODE_FOR * 1_000_000,
        };
        let text = serde_json::to_string(&running).map_err(|_| no_random())?;
        let kept = seal::seal(&login(&oidc)?.secret, CODE, &text).ok_or_else(no_random)?;
        Ok((url.to_string(), kept))
    }

    /// Whose browser it is that came back. `kept`: what it kept.
    ///
    /// # Errors
    /// The user is not logged in.
    pub async fn end(&self, returned: Returned, kept: Option<&str>) -> Result<Arc<User>, LoginRefusal> {
        let oidc = self.offered()?;
        let _place = place(&self.running)?;
        let running: Option<RunningLogin> = kept
            .and_then(|kept| seal::open(&login(&oidc).ok()?.secret, CODE, kept))
            .and_then(|text| serde_json::from_str(&text).ok())
            .filter(|running: &RunningLogin| running.until_us > wall_micros());
        let wrong = |why: &str| LoginRefusal::Wrong(why.to_owned());
        let running =
            running.ok_or_else(|| wrong("this login took too long, or was begun in another browser: begin again"))?;
        if returned.state.as_deref() != Some(&running.state) {
            return Err(wrong("the issuer's answer is of another login: begin again"));
        }
        let Some(code) = returned.code else {
            let error: String =
                returned.error.unwrap_or_default().chars().filter(char::is_ascii_graphic).take(100).collect();
            return Err(LoginRefusal::Forbidden(format!("the issuer let nobody in: {error}")));
        };
        let (client, metadata) = self.client(&oidc).await?;
        let exchange = client.exchange_code(AuthorizationCode::new(code));
        let exchange = exchange.set_pkce_verifier(PkceCodeVerifier::new(running.verifier));
        let tokens = exchange.request_async(&self.issuer).await;
        let tokens = tokens.map_err(|error| match no_tokens(error) {
            NoTokens::Over(why) => LoginRefusal::Wrong(format!("{why}: begin again")),
            NoTokens::Away(why) => LoginRefusal::Away(why),
        })?;
        let fresh = self.fresh((&oidc, &metadata), &tokens, Some(&running.nonce)).await?;
        self.admit(&oidc, fresh).await
    }
}
