//! The login of a command (device authorization grant, RFC 8628): it shows an address and a code, a browser anywhere confirms it, and the
//! command gets a key of its user. What the gateway must know meanwhile is with the command, sealed.

use std::time::Duration;

use oauth2::{DeviceCodeErrorResponseType, RequestTokenError, StandardDeviceAuthorizationResponse};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::seal::{self, DEVICE};
use super::{LoginRefusal, Logins, login, no_random, place};
use crate::accounts::{AccountAction, AccountRefusal, AccountRequest, AccountScope};
use photofinish_base::clock::wall_micros;
use photofinish_base::printable::quoted;
use photofinish_config::{Oidc, Right};
use photofinish_gateway::proxy::Asker;
use photofinish_history::report::members::members;
use photofinish_history::report::question::moment;
use photofinish_history::store::{AccountKind, Author};

/// How long one request waits for the browser; then the command asks again.
const WAIT: Duration = Duration::from_secs(10);

/// A login that runs.
#[derive(Deserialize, Serialize)]
struct RunningDevice {
    details: StandardDeviceAuthorizationResponse,
    /// Microseconds since 1970, UTC.
    until_us: i64,
}

/// What a command asks: with nothing it begins a login, with `login` it goes on with one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLogin {
    login: Option<String>,
    /// Of the key, such as the name of the machine.
    name: Option<String>,
    /// Of the key.
    expires: Option<String>,
}

pub enum LoginAnswer {
    Begun(Map<String, Value>),
    /// It is not confirmed yet.
    Waiting,
    /// The new key, as of `POST /api/keys`.
    Key(Value),
}

members! {
    /// Whether users log in here.
    pub OFFER: offer(issuer: Option<String>) {
        /// at which issuer; null if they do not, and a token or key is what counts
        issuer: Text or_null = issuer;
    }
}

members! {
    /// A login that was begun.
    pub BEGUN: begun(login: &str, details: &StandardDeviceAuthorizationResponse) {
        /// what to ask again with
        login: Text = login;
        /// what a browser opens
        url: Text = details.verification_uri().as_str();
        /// the code that is confirmed there
        code: Text = details.user_code().secret();
        /// the address with the code in it; null if the issuer has none
        url_with_code: Text or_null = details.verification_uri_complete().map(|url| url.secret());
        /// until when, in seconds from now
        expires_in: Integer = details.expires_in().as_secs();
    }
}

impl Logins {
    /// # Errors
    /// There is no login, it is over, or the issuer does not answer.
    pub async fn device(&self, asked: DeviceLogin, origin: String) -> Result<LoginAnswer, LoginRefusal> {
        let oidc = self.offered()?;
        let _place = place(if asked.login.is_some() { &self.waiting } else { &self.running })?;
        // Before anybody confirms what then fails.
        if let Some(expires) = asked.expires.as_ref().filter(|expires| moment(expires).is_err()) {
            let expected = "expected how long the key lives (such as 12h or 90d), a day (2026-01-31) or a time with Z";
            return Err(LoginRefusal::Wrong(format!("\"expires\": {} is neither: {expected}", quoted(expires))));
        }
        match &asked.login {
            None => self.begin_device(&oidc).await,
            Some(sealed) => self.go_on(&oidc, sealed, &asked, origin).await,
        }
    }

    async fn begin_device(&self, oidc: &Oidc) -> Result<LoginAnswer, LoginRefusal> {
        let (client, metadata) = self.client(oidc).await?;
        let request = client.exchange_device_code().map_err(|_| {
            LoginRefusal::Away(
                "the issuer has no login for commands (device_authorization_endpoint): make a key on the dashboard"
                    .to_owned(),
            )
        })?;
        let asked = request.add_scopes(metadata.scopes());
        let details: Result<StandardDeviceAuthorizationResponse, _> = asked.request_async(&self.issuer).await;
        let details = details.map_err(|error| match super::issuer::no_tokens(error) {
            super::issuer::NoTokens::Over(why) | super::issuer::NoTokens::Away(why) => LoginRefusal::Away(why),
        })?;
        let life = i64::try_from(details.expires_in().as_micros()).unwrap_or(i64::MAX);
        let running = RunningDevice { details, until_us: wall_micros().saturating_add(life) };
        let text = serde_json::to_string(&running).map_err(|_| no_random())?;
        let sealed = seal::seal(&login(oidc)?.secret, DEVICE, &text).ok_or_else(no_random)?;
        Ok(LoginAnswer::Begun(begun(&sealed, &running.details)))
    }

    async fn go_on(
        &self,
        oidc: &Oidc,
        sealed: &str,
        asked: &DeviceLogin,
        origin: String,
    ) -> Result<LoginAnswer, LoginRefusal> {
        let running: Option<RunningDevice> =
            seal::open(&login(oidc)?.secret, DEVICE, sealed).and_then(|text| serde_json::from_str(&text).ok());
        let over = || LoginRefusal::Wrong("this login is over, or of another gateway: begin again".to_owned());
        let RunningDevice { details, until_us } = running.ok_or_else(over)?;
        let (client, metadata) = self.client(oidc).await?;
        let exchange = client.exchange_device_access_token(&details);
        let tokens = match exchange.request_async(&self.issuer, tokio::time::sleep, Some(WAIT)).await {
            Ok(tokens) => tokens,
            Err(RequestTokenError::ServerResponse(answer)) => {
                return match answer.error() {
                    // Of this wait, or of the whole.
                    DeviceCodeErrorResponseType::ExpiredToken if wall_micros() < until_us => Ok(LoginAnswer::Waiting),
                    DeviceCodeErrorResponseType::ExpiredToken => Err(over()),
                    DeviceCodeErrorResponseType::AccessDenied => {
                        Err(LoginRefusal::Forbidden("it was refused in the browser".to_owned()))
                    }
                    other => Err(LoginRefusal::Wrong(format!("the issuer refuses: {}", other.as_ref()))),
                };
            }
            Err(RequestTokenError::Request(error)) => return Err(LoginRefusal::Away(format!("the issuer: {error}"))),
            Err(_) => return Err(LoginRefusal::Away("the issuer answers with something that is no answer".to_owned())),
        };
        let fresh = self.fresh((oidc, &metadata), &tokens, None).await?;
        let user = self.admit(oidc, fresh).await?;
        let reach = user.role.may(Right::ChangeKeys);
        let reach =
            reach.ok_or_else(|| LoginRefusal::Forbidden(format!("role = \"{}\" makes no keys", user.role.as_str())))?;
        let mut members = json!({ "user": user.name, "name": asked.name.as_deref().unwrap_or("login") });
        if let Some(expires) = &asked.expires {
            members["expires"] = json!(expires);
        }
        let Value::Object(members) = members else { return Err(over()) };
        let by = Author { who: user.name.clone(), origin };
        let scope = AccountScope::of(&Asker { user: Some(user), reach });
        let request =
            AccountRequest { kind: AccountKind::Key, action: AccountAction::Make, id: String::new(), members };
        let accounts = self.accounts.clone();
        let made = self.gateway.shutdown().run_blocking(move || accounts.answer(&request, &by, &scope)).await;
        match made {
            Ok(Ok(answer)) => Ok(LoginAnswer::Key(answer.body)),
            Ok(Err(AccountRefusal::Away(why))) => Err(LoginRefusal::Away(why)),
            Ok(Err(refusal)) => Err(LoginRefusal::Wrong(refusal.to_string())),
            Err(_) => Err(LoginRefusal::Away("the gateway stops".to_owned())),
        }
    }
}
