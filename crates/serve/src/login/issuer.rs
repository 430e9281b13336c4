//! Questions to the issuer: what it says of itself, its keys, tokens for a code or a refresh token, and what it knows of a user.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
    BasicTokenType,
};
use oauth2::{
    AsyncHttpClient, Client, EndpointMaybeSet, EndpointNotSet, EndpointSet, ExtraTokenFields, HttpRequest,
    HttpResponse, RequestTokenError, StandardRevocableToken, StandardTokenResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use photofinish_base::clock::Instant;
use photofinish_config::{HttpAddress, Oidc};
use photofinish_routing::callers::TokenFault;
use photofinish_transport::upstream::{Endpoint, GetLimits, UpstreamClient, WholeAnswer};

/// Where the issuer sends a browser back to, behind the gateway's address.
pub const CALLBACK: &str = "/dashboard/login/callback";
/// What one question to the issuer may take.
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(10), bytes: 1 << 20 };
/// How long what the issuer says of itself is believed without asking again.
const METADATA_FOR: Duration = Duration::from_secs(600);

pub(super) struct IssuerClient {
    client: UpstreamClient,
    known: Mutex<Option<(Instant, Arc<IssuerMetadata>)>>,
}

/// What the issuer says of itself (OpenID Connect Discovery 1.0).
#[derive(Debug, Deserialize)]
pub(super) struct IssuerMetadata {
    issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    pub userinfo_endpoint: Option<String>,
    pub device_authorization_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// The ID token that comes with the others.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct IdToken {
    pub id_token: Option<String>,
}

impl ExtraTokenFields for IdToken {}

pub(super) type IssuerTokens = StandardTokenResponse<IdToken, BasicTokenType>;

/// The gateway's client at the issuer, as `oauth2` has it.
pub(super) type OauthClient = Client<
    BasicErrorResponse,
    IssuerTokens,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointSet,
    EndpointMaybeSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// Why the issuer gave no tokens.
pub(super) enum NoTokens {
    /// It says that the user, or the login, is over.
    Over(String),
    Away(String),
}

/// What a fault of a token is, as a sentence.
pub(super) fn sentence(fault: &TokenFault) -> String {
    match fault {
        TokenFault::NotRead => "the issuer's keys are not read yet".to_owned(),
        TokenFault::UnknownKey => "the issuer's token is signed with a key that it does not list".to_owned(),
        TokenFault::Wrong(why) => format!("the issuer's token {why}"),
    }
}

impl IssuerClient {
    pub fn new(client: UpstreamClient) -> IssuerClient {
        IssuerClient { client, known: Mutex::default() }
    }

    /// # Errors
    /// It cannot be had, or is of another issuer.
    pub async fn described(&self, oidc: &Oidc) -> Result<Arc<IssuerMetadata>, String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, metadata)) = known
            && metadata.issuer == oidc.issuer
            && at.elapsed() < METADATA_FOR
        {
            return Ok(metadata);
        }
        let url = format!("{}/.well-known/openid-configuration", oidc.issuer.trim_end_matches('/'));
        let metadata: IssuerMetadata = serde_json::from_value(self.json(&url, None).await?)
            .map_err(|error| format!("{url} is no description of an issuer: {error}"))?;
        if metadata.issuer != oidc.issuer {
            let named = metadata.issuer.chars().take(200).collect::<String>();
            return Err(format!("it calls itself {named:?}: write it so in [oidc]"));
        }
        let metadata = Arc::new(metadata);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }

    /// Gets JSON from an address; with a token if there is one.
    ///
    /// # Errors
    /// There is none, for an operator.
    pub async fn json(&self, url: &str, token: Option<&str>) -> Result<Value, String> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        if let Some(mut token) = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok()) {
            token.set_sensitive(true);
            headers.insert(AUTHORIZATION, token);
        }
        let answer = self.ask(Method::GET, url, headers, Bytes::new()).await?;
        if !answer.status.is_success() {
            return Err(format!("{url} answered with the status {}", answer.status.as_u16()));
        }
        serde_json::from_slice(&answer.body).map_err(|_| format!("{url} answered with something else than JSON"))
    }

    async fn ask(&self, method: Method, url: &str, mut headers: HeaderMap, body: Bytes) -> Result<WholeAnswer, String> {
        let address =
            HttpAddress::parse_secure(url).map_err(|why| format!("the address {url:?} of the issuer {why}"))?;
        let endpoint = Endpoint::parse(address.origin()).map_err(|error| error.to_string())?;
        let endpoint = endpoint.with_transport(address.transport());
        let agent = HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION")));
        headers.insert(USER_AGENT, agent);
        let path = address.path_and_query().to_owned();
        let answer = match method {
            Method::POST => self.client.post(endpoint, path, headers, body, LIMITS).await,
            _ => self.client.get(endpoint, path, headers, LIMITS).await,
        };
        answer.map_err(|error| format!("{}: {error}", address.origin()))
    }
}

/// The form that `oauth2` asks in.
impl<'c> AsyncHttpClient<'c> for IssuerClient {
    type Error = NotAsked;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, NotAsked>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let answer =
                self.ask(head.method, &head.uri.to_string(), head.headers, body.into()).await.map_err(NotAsked)?;
            let mut response = HttpResponse::new(answer.body.to_vec());
            (*response.status_mut(), *response.headers_mut()) = (answer.status, answer.headers);
            Ok(response)
        })
    }
}

/// The issuer was not reached.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotAsked(String);

impl IssuerMetadata {
    /// What is asked for: the claims of the user, and to be asked again.
    pub fn scopes(&self) -> impl Iterator<Item = oauth2::Scope> {
        let offers =
            |scope: &&str| self.scopes_supported.is_empty() || self.scopes_supported.iter().any(|of| of == scope);
        let wanted = ["profile", "email", "groups", "offline_access"].into_iter();
        // An issuer may refuse a scope that it does not know, and most do not list those of groups.
        let wanted = wanted.filter(|scope| {
            if *scope == "groups" { self.scopes_supported.iter().any(|of| of == scope) } else { offers(scope) }
        });
        std::iter::once("openid").chain(wanted.collect::<Vec<_>>()).map(|scope| oauth2::Scope::new(scope.to_owned()))
    }
}

/// Which of both an error of `oauth2` is.
pub(super) fn no_tokens(error: RequestTokenError<NotAsked, BasicErrorResponse>) -> NoTokens {
    match error {
        RequestTokenError::ServerResponse(answer) => {
            let of = format!("the issuer refuses: {}", answer.error().as_ref());
            match answer.error() {
                BasicErrorResponseType::InvalidGrant => NoTokens::Over(of),
                _ => NoTokens::Away(of),
            }
        }
        RequestTokenError::Request(error) => NoTokens::Away(format!("the issuer: {error}")),
        // What it sent may hold a token.
        RequestTokenError::Parse(..) => NoTokens::Away("the issuer answers with something else than tokens".to_owned()),
        RequestTokenError::Other(_) => NoTokens::Away("the issuer answers with something that is no answer".to_owned()),
    }
}
