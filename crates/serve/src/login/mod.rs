//! Logins at the issuer of `[oidc]`, by OpenID Connect: its keys for tokens (`keys`), what it gives and says (`tokens`), the login of the dashboard (`code`) and of the
//! command line (`device`), whether users are still there (`confirm`), and sessions of the dashboard at several gateways (`sessions`). What the issuer says is taken over by `accounts`.
//!
//! Not for checking a token: see `IssuerKeys` of the gateway.

mod code;
mod confirm;
mod device;
mod issuer;
mod keys;
mod seal;
mod sessions;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use code::{CODE_FOR, Returned};
pub use device::{BEGUN, DeviceLogin, LoginAnswer, OFFER, offer};

use crate::accounts::{AccountKeeper, AskAgain};
pub use issuer::CALLBACK;
use issuer::IssuerClient;
use photofinish_base::clock::wall_micros;
use photofinish_config::{Oidc, OidcLogin, User};
use photofinish_gateway::proxy::{Gateway, Unsettled, unsettled};
use photofinish_routing::callers::{Claims, word};
use photofinish_routing::callers::{IssuerWord, LoggedIn};

/// Logins of browsers that ask the issuer at the same time, and logins of commands that begin; further ones get an error.
const LOGINS_MAX: usize = 64;
/// Commands that wait until a browser has confirmed their login; likewise.
const WAITING_MAX: usize = 512;
/// Sessions that are looked for in the database at the same time.
const LOOKUPS_MAX: usize = 4;
/// How long a request with a token of the issuer waits for its new keys.
const KEYS_FOR: Duration = Duration::from_secs(3);

/// What is asked of the issuer. One for each gateway.
pub struct Logins {
    gateway: Arc<Gateway>,
    accounts: Arc<AccountKeeper>,
    issuer: IssuerClient,
    running: Semaphore,
    waiting: Semaphore,
    lookups: Semaphore,
}

/// Why the login failed, for whoever tried.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The gateway has no issuer, or no client secret.
    #[error("this gateway has no login: its configuration has no [oidc] with a client_secret")]
    NotOffered,
    /// What was sent is of no login that runs.
    #[error("{0}")]
    Wrong(String),
    /// The issuer, or the groups, do not let them come.
    #[error("{0}")]
    Forbidden(String),
    /// The issuer or the store does not answer, or too many log in.
    #[error("{0}")]
    Away(String),
}

/// The claims of somebody who logged in, and what the issuer may be asked again with.
struct Fresh {
    claims: Claims,
    again: Option<String>,
}

impl Logins {
    pub fn new(gateway: Arc<Gateway>, accounts: Arc<AccountKeeper>) -> Arc<Logins> {
        let issuer = IssuerClient::new(gateway.client().clone());
        Arc::new(Logins {
            gateway,
            accounts,
            issuer,
            running: Semaphore::new(LOGINS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
            lookups: Semaphore::new(LOOKUPS_MAX),
        })
    }

    /// Does what comes before the gateway knows whose token of the issuer these headers have.
    pub async fn settle(&self, headers: &HeaderMap) {
        if let Some(Unsettled::Keys | Unsettled::UnknownKey) = unsettled(&self.gateway, headers) {
            // Late keys make this token unknown, and no other request late.
            let _ = tokio::time::timeout(KEYS_FOR, self.gateway.issuer_keys().renewed()).await;
        }
        if let Some(Unsettled::Word(word)) = unsettled(&self.gateway, headers) {
            let issuer = self.gateway.live().config.oidc.as_ref().map(|oidc| oidc.issuer.clone());
            let taken = self.accounts.take_word_aside(word, AskAgain::AsKnown, issuer.unwrap_or_default()).await;
            if let Err(refusal) = taken {
                tracing::warn!(%refusal, "what the issuer says of a user is not taken over");
            }
        }
    }

    fn offered(&self) -> Result<Arc<Oidc>, LoginRefusal> {
        let oidc = self.gateway.live().config.oidc.clone();
        oidc.filter(|oidc| oidc.login.is_some()).ok_or(LoginRefusal::NotOffered)
    }

    /// Whether users log in here, and at which issuer.
    pub fn issuer(&self) -> Option<String> {
        self.offered().ok().map(|oidc| oidc.issuer.clone())
    }

    /// Where browsers reach the gateway.
    pub fn url(&self) -> Option<String> {
        Some(self.offered().ok()?.login.as_ref()?.url.clone())
    }

    /// The user who logged in.
    async fn admit(&self, oidc: &Oidc, fresh: Fresh) -> Result<Arc<User>, LoginRefusal> {
        let said = word(oidc, &fresh.claims).map_err(|fault| LoginRefusal::Forbidden(issuer::sentence(&fault)))?;
        // Newer than any token of before, and the issuer was asked for the groups.
        let word = IssuerWord { issued_at_us: said.issued_at_us.max(wall_micros()), names_groups: true, ..said };
        let again = match (&oidc.login, &fresh.again) {
            (Some(login), Some(token)) => {
                AskAgain::With(seal::seal(&login.secret, seal::REFRESH, token).ok_or_else(no_random)?)
            }
            _ => AskAgain::Never,
        };
        let is_known = word.place.is_some();
        let user = |logins: &Logins| logins.gateway.live().callers.by_word(&word, wall_micros());
        if is_known || matches!(user(self), LoggedIn::New(_)) {
            let taken = self.accounts.take_word_aside(word.clone(), again, oidc.issuer.clone()).await;
            taken.map_err(|refusal| match refusal {
                crate::accounts::AccountRefusal::Away(why) => LoginRefusal::Away(why),
                other => LoginRefusal::Forbidden(other.to_string()),
            })?;
        }
        match user(self) {
            LoggedIn::User(user) => Ok(user),
            LoggedIn::Refused(why) => Err(LoginRefusal::Forbidden(why)),
            LoggedIn::New(_) | LoggedIn::NotRead => Err(LoginRefusal::Away("the store does not answer now".to_owned())),
        }
    }
}

fn no_random() -> LoginRefusal {
    LoginRefusal::Away("the system has no random numbers".to_owned())
}

fn login(oidc: &Oidc) -> Result<&OidcLogin, LoginRefusal> {
    oidc.login.as_ref().ok_or(LoginRefusal::NotOffered)
}

fn place(of: &Semaphore) -> Result<SemaphorePermit<'_>, LoginRefusal> {
    of.try_acquire().map_err(|_| LoginRefusal::Away("too many log in at this moment".to_owned()))
}
