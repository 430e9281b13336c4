//! What the issuer gives for a code, a device code or a refresh token, and what it then says of the user.

use std::sync::Arc;

use oauth2::{
    AuthUrl, Client, ClientId, ClientSecret, DeviceAuthorizationUrl, RedirectUrl, TokenResponse as _, TokenUrl,
};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::issuer::{CALLBACK, IssuerMetadata, IssuerTokens, OauthClient, sentence};
use super::{Fresh, LoginRefusal, Logins, login};
use photofinish_config::Oidc;
use photofinish_routing::callers::{Claims, TokenFault, claimed};

impl Logins {
    /// # Errors
    /// The issuer does not say where it is asked.
    pub(super) async fn client(&self, oidc: &Oidc) -> Result<(OauthClient, Arc<IssuerMetadata>), LoginRefusal> {
        let metadata =
            self.issuer.described(oidc).await.map_err(|why| LoginRefusal::Away(format!("the issuer: {why}")))?;
        let login = login(oidc)?;
        let bad = |_| LoginRefusal::Away("the issuer: it names an address that is none".to_owned());
        let device = metadata.device_authorization_endpoint.clone().map(DeviceAuthorizationUrl::new).transpose();
        let redirect = RedirectUrl::new(format!("{}{}", login.url, CALLBACK));
        let client = Client::new(ClientId::new(oidc.client_id.clone()))
            .set_client_secret(ClientSecret::new(login.secret.expose_secret().to_owned()))
            .set_auth_uri(AuthUrl::new(metadata.authorization_endpoint.clone()).map_err(bad)?)
            .set_token_uri(TokenUrl::new(metadata.token_endpoint.clone()).map_err(bad)?)
            .set_device_authorization_url_option(device.map_err(bad)?)
            .set_redirect_uri(redirect.map_err(bad)?);
        Ok((client, metadata))
    }

    /// The claims that come with tokens. `nonce`: of the login. What the ID token does not say, the issuer is asked.
    ///
    /// # Errors
    /// They are not right, or the issuer does not answer.
    pub(super) async fn fresh(
        &self,
        (oidc, metadata): (&Oidc, &IssuerMetadata),
        tokens: &IssuerTokens,
        nonce: Option<&str>,
    ) -> Result<Fresh, LoginRefusal> {
        let mut claims = Claims::new();
        if let Some(token) = &tokens.extra_fields().id_token {
            claims = self.of_id_token(oidc, token).await?;
            if nonce.is_some() && claims.get("nonce").and_then(Value::as_str) != nonce {
                return Err(LoginRefusal::Forbidden("the issuer's token is of another login".to_owned()));
            }
        } else if nonce.is_some() {
            return Err(LoginRefusal::Away("the issuer sent no ID token".to_owned()));
        }
        let lacks =
            |claims: &Claims| [&oidc.user_claim, &oidc.groups_claim].iter().any(|name| claimed(claims, name).is_none());
        if let Some(url) = metadata.userinfo_endpoint.as_ref().filter(|_| lacks(&claims)) {
            let more = self.issuer.json(url, Some(tokens.access_token().secret())).await;
            let more = more.map_err(|why| LoginRefusal::Away(format!("the issuer: {why}")))?;
            let Value::Object(more) = more else { return Err(LoginRefusal::Away(format!("{url} sent no claims"))) };
            // What it knows of another user is none of this one's.
            if claims.get("sub").is_some_and(|subject| more.get("sub") != Some(subject)) {
                return Err(LoginRefusal::Forbidden("the issuer speaks of two users".to_owned()));
            }
            claims = more.into_iter().chain(claims).collect();
        }
        Ok(Fresh { claims, again: tokens.refresh_token().map(|token| token.secret().clone()) })
    }

    async fn of_id_token(&self, oidc: &Oidc, token: &str) -> Result<Claims, LoginRefusal> {
        let keys = self.gateway.issuer_keys();
        let mut checked = keys.claims(oidc, token.as_bytes());
        if matches!(checked, Err(TokenFault::UnknownKey | TokenFault::NotRead)) {
            let _ = tokio::time::timeout(super::KEYS_FOR, keys.renewed()).await;
            checked = keys.claims(oidc, token.as_bytes());
        }
        checked.map_err(|fault| LoginRefusal::Away(sentence(&fault)))
    }
}
