//! Authentication: who sends a request, by its token or session, and the keys sent with it. Not for permissions to override
//! settings: see `overrides`.
//!
//! [`check_token`] is the one door for tokens: every path passes it, and it counts, logs and slows wrong ones. Handlers
//! refuse by what it found.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Request};
use secrecy::SecretString;

use crate::proxy::door::overrides::{Overrides, PREFIX};
use crate::proxy::refusals::rejection::Rejection;
use crate::proxy::state::gateway::Gateway;
use crate::proxy::state::wrong_tokens::{SlowedAnswer, WrongToken};
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::keyring::HashedKey;
use photofinish_config::{Reach, Right, User};
use photofinish_routing::callers::{FoundCaller, IssuerWord, LoggedIn, TokenFault, ended, is_jwt};
use photofinish_routing::health::{CallerId, LiveConfig};

/// Provider keys that one request may bring; more are refused.
const BROUGHT_MAX: usize = 32;
/// The part after [`PREFIX`] in the name of a header with a key.
const KEY: &str = "key-";

/// The authenticated client.
pub struct Caller {
    /// None if the configuration has no users: the listener is then on loopback.
    pub user: Option<Arc<User>>,
    /// The keys in the request, by provider. Used only for this request, never stored.
    pub brought: HashMap<String, HashedKey>,
}

/// Who sends a request. The server adds it to every request, with the address alone.
#[derive(Clone, Debug)]
pub struct Client {
    /// An IPv4 address, or a /64 network of IPv6.
    pub address: IpAddr,
    identity: Identity,
}

#[derive(Clone, Debug)]
enum Identity {
    /// Without a token or a session. Also if the configuration has no users.
    Anonymous,
    Token(Arc<User>),
    Session(Arc<User>),
    /// Of no user.
    Wrong(WrongIdentity),
    /// It may be of a key, and the keys are not read yet.
    NotRead,
}

/// A token of no user.
#[derive(Clone, Debug, Default)]
struct WrongIdentity {
    why: Option<String>,
    /// The wait if there were too many from this address.
    refused_for: Option<Duration>,
}

impl Client {
    pub fn at(address: IpAddr) -> Client {
        Client { address, identity: Identity::Anonymous }
    }

    /// The client of a request with these extensions. A request without one came over no connection.
    fn of(extensions: &Extensions) -> Client {
        extensions.get().cloned().unwrap_or(Client::at(Ipv4Addr::UNSPECIFIED.into()))
    }

    fn user(&self) -> Option<&Arc<User>> {
        match &self.identity {
            Identity::Token(user) | Identity::Session(user) => Some(user),
            Identity::Anonymous | Identity::Wrong(_) | Identity::NotRead => None,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Client, Infallible> {
        Ok(Client::of(&parts.extensions))
    }
}

/// Finds out who sends a request: by its token (`Authorization: Bearer …`, `x-api-key`, `x-goog-api-key` or `api-key`), or without one by the
/// session of the dashboard. A wrong token is counted by the client's address and logged. Returned if its answer is to be
/// slowed. No token is looked at if the configuration has no users.
pub fn check_token(gateway: &Gateway, request: &mut Request<Body>) -> Option<SlowedAnswer> {
    let live = gateway.live();
    if live.config.users.is_empty() {
        return None;
    }
    let mut identity = identify(gateway, &live, request.headers());
    let address = Client::of(request.extensions()).address;
    let mut slowed = None;
    if let Identity::Wrong(identity) = &mut identity {
        let wrong = gateway.door().wrong_tokens.count(address, Instant::now());
        gateway.totals().wrong_token();
        log_wrong(&wrong, address);
        identity.refused_for = wrong.refused_for;
        slowed = wrong.slowed;
    }
    request.extensions_mut().insert(Client { address, identity });
    slowed
}

fn log_wrong(wrong: &WrongToken, address: IpAddr) {
    let WrongToken { times, refused_for, .. } = wrong;
    match refused_for {
        _ if !wrong.is_logged() => {}
        None => tracing::warn!(%address, times, "a wrong token"),
        Some(wait) => {
            let seconds = wait.as_secs();
            tracing::warn!(%address, times, seconds, "too many wrong tokens: further ones are refused for these seconds");
        }
    }
}

/// The user whom [`check_token`] found, if they may ask models.
///
/// # Errors
/// 401 and 429 as for a wrong or missing token, and 403 for a user who may not.
pub fn authenticate(gateway: &Gateway, live: &LiveConfig, client: &Client) -> Result<Option<Arc<User>>, Rejection> {
    let user = known(gateway, live, client)?;
    reach(user.as_deref(), Right::Ask).map(|_| user)
}

/// The user whom [`check_token`] found, and counts failures. None if the configuration has no users.
///
/// # Errors
/// 401 without a valid token, 429 for a wrong one after too many.
fn known(gateway: &Gateway, live: &LiveConfig, client: &Client) -> Result<Option<Arc<User>>, Rejection> {
    if live.config.users.is_empty() {
        return Ok(None);
    }
    if let Some(user) = client.user() {
        return Ok(Some(user.clone()));
    }
    gateway.totals().unauthorized();
    Err(match &client.identity {
        Identity::Wrong(WrongIdentity { refused_for: Some(wait), .. }) => Rejection::too_many_tokens(*wait),
        Identity::Wrong(WrongIdentity { why: Some(why), .. }) => Rejection::unauthorized(why),
        Identity::Wrong(_) => Rejection::unauthorized("the token is not known"),
        Identity::NotRead => Rejection::keys_not_read(),
        _ => Rejection::unauthorized("no token was sent"),
    })
}

/// The answer to a request for which [`check_token`] found no user, whatever its path. The layers of the server ask, before axum
/// makes parameters of the extensions.
pub fn missing_token<B>(gateway: &Gateway, request: &Request<B>) -> Option<Rejection> {
    known(gateway, &gateway.live(), &Client::of(request.extensions())).err()
}

/// Whether a token was sent, of any user or of none.
pub fn sends_token(headers: &HeaderMap) -> bool {
    token(headers).is_some()
}

/// Who asks, and whose figures, keys and users they may see or change.
#[derive(Clone, Debug)]
pub struct Asker {
    /// None if the configuration has no users.
    pub user: Option<Arc<User>>,
    pub reach: Reach,
}

/// Finds out whether a caller has a right. Without users every caller has all.
///
/// # Errors
/// 401 and 429 as for any caller, and 403 for a user without this right.
pub fn permitted(gateway: &Gateway, client: &Client, right: Right) -> Result<Asker, Rejection> {
    let user = known(gateway, &gateway.live(), client)?;
    Ok(Asker { reach: reach(user.as_deref(), right)?, user })
}

fn reach(user: Option<&User>, right: Right) -> Result<Reach, Rejection> {
    let Some(user) = user else { return Ok(Reach::All) };
    user.role.may(right).ok_or_else(|| Rejection::forbidden(user.role, right))
}

/// For answers that have more detail for some. A missing token is allowed; a wrong one counts as a failure.
pub fn has_right(gateway: &Gateway, client: &Client, right: Right) -> bool {
    if matches!(client.identity, Identity::Wrong(_)) {
        gateway.totals().unauthorized();
    }
    gateway.live().config.users.is_empty() || client.user().is_some_and(|user| user.role.may(right).is_some())
}

/// Whether these headers are still those of a user with this right, for an answer that goes on for long.
pub fn still_has_right(gateway: &Gateway, headers: &HeaderMap, right: Right) -> bool {
    let live = gateway.live();
    let has = || match identify(gateway, &live, headers) {
        Identity::Token(user) | Identity::Session(user) => user.role.may(right).is_some(),
        Identity::Anonymous | Identity::Wrong(_) | Identity::NotRead => false,
    };
    live.config.users.is_empty() || has()
}

/// Exchanges a user's token for the secret of a session. None without users: no one needs a session.
///
/// # Errors
/// As [`permitted`]. A session is not renewed by itself.
pub fn log_in(gateway: &Gateway, client: &Client) -> Result<Option<String>, Rejection> {
    let is_session = matches!(client.identity, Identity::Session(_));
    let anonymous = Client::at(client.address);
    match permitted(gateway, if is_session { &anonymous } else { client }, Right::Me)?.user {
        None => Ok(None),
        Some(user) => open_session(gateway, &user).map(Some),
    }
}

/// The secret of a new session of this user.
///
/// # Errors
/// The system has no random numbers.
pub fn open_session(gateway: &Gateway, user: &User) -> Result<String, Rejection> {
    gateway.sessions().open(user, Instant::now()).ok_or_else(Rejection::internal)
}

fn identify(gateway: &Gateway, live: &LiveConfig, headers: &HeaderMap) -> Identity {
    let Some(token) = token(headers) else {
        let still = |name: &str, hash| live.callers.still(name, hash, wall_micros());
        let session = || gateway.sessions().user(still, headers, Instant::now());
        let user = if headers.contains_key(COOKIE) { session() } else { None };
        return user.map_or(Identity::Anonymous, Identity::Session);
    };
    let wrong = |why| Identity::Wrong(WrongIdentity { why, refused_for: None });
    match live.callers.find(token, wall_micros()) {
        FoundCaller::User(user) => Identity::Token(user),
        FoundCaller::Nobody if is_jwt(token) && live.config.oidc.is_some() => match by_issuer(gateway, live, token) {
            IssuerAnswer::Settled(identity) => identity,
            IssuerAnswer::Unsettled(Unsettled::UnknownKey) => {
                wrong(Some("the token is signed with a key that the issuer does not list".to_owned()))
            }
            IssuerAnswer::Unsettled(_) => Identity::NotRead,
        },
        FoundCaller::Nobody => wrong(None),
        FoundCaller::LoggedOut(name) => wrong(Some(ended(&name))),
        FoundCaller::Mistyped => wrong(Some("the key is mistyped or cut off: its checksum is wrong".to_owned())),
        FoundCaller::Expired(id) => wrong(Some(format!("the key {id} has expired"))),
        FoundCaller::NotRead => Identity::NotRead,
    }
}

/// What is to be done before [`check_token`] knows whose token of the issuer it is.
#[derive(Clone, Debug)]
pub enum Unsettled {
    /// Reading the issuer's keys.
    Keys,
    /// Reading them again: it may have a new one.
    UnknownKey,
    /// Taking over what the issuer says.
    Word(IssuerWord),
}

enum IssuerAnswer {
    Settled(Identity),
    Unsettled(Unsettled),
}

/// See [`Unsettled`]. None: nothing.
pub fn unsettled(gateway: &Gateway, headers: &HeaderMap) -> Option<Unsettled> {
    let live = gateway.live();
    live.config.oidc.as_ref()?;
    let token = token(headers).filter(|token| is_jwt(token))?;
    match live.callers.find(token, wall_micros()) {
        FoundCaller::Nobody => {}
        _ => return None,
    }
    match by_issuer(gateway, &live, token) {
        IssuerAnswer::Unsettled(unsettled) => Some(unsettled),
        IssuerAnswer::Settled(_) => None,
    }
}

fn by_issuer(gateway: &Gateway, live: &LiveConfig, token: &[u8]) -> IssuerAnswer {
    let wrong = |why: String| {
        let why = Some(why);
        IssuerAnswer::Settled(Identity::Wrong(WrongIdentity { why, refused_for: None }))
    };
    let Some(oidc) = &live.config.oidc else { return wrong("it is of no issuer".to_owned()) };
    let now_us = wall_micros();
    let word = match gateway.issuer_keys().check(oidc, token, now_us) {
        Ok(word) => word,
        Err(TokenFault::Wrong(why)) => return wrong(format!("the token {why}")),
        Err(TokenFault::UnknownKey) => return IssuerAnswer::Unsettled(Unsettled::UnknownKey),
        Err(TokenFault::NotRead) => return IssuerAnswer::Unsettled(Unsettled::Keys),
    };
    match live.callers.by_word(&word, now_us) {
        LoggedIn::User(user) => IssuerAnswer::Settled(Identity::Token(user)),
        LoggedIn::Refused(why) => wrong(why),
        LoggedIn::New(word) => IssuerAnswer::Unsettled(Unsettled::Word(word)),
        LoggedIn::NotRead => IssuerAnswer::Settled(Identity::NotRead),
    }
}

/// Whether the token in the headers is valid. Without users it always is. Counts nothing.
pub fn has_token(live: &LiveConfig, headers: &HeaderMap) -> bool {
    let is_valid = |token| matches!(live.callers.find(token, wall_micros()), FoundCaller::User(_));
    live.config.users.is_empty() || token(headers).is_some_and(is_valid)
}

impl Caller {
    /// Reads the keys in the headers.
    ///
    /// # Errors
    /// 400 for a key header that names no provider or contains no key, and for an unknown `x-photofinish-…` header.
    pub fn new(live: &LiveConfig, user: Option<Arc<User>>, headers: &HeaderMap) -> Result<Caller, Rejection> {
        Ok(Caller { user, brought: brought(live, headers)? })
    }

    pub fn id(&self, live: &LiveConfig) -> CallerId {
        CallerId::new(self.user.as_ref().map(|user| user.name.as_str()), live.users())
    }

    /// The caller's own key for a provider: from this request, else from the configuration.
    pub fn own_key(&self, live: &LiveConfig, provider: &str) -> Option<HashedKey> {
        let Some(brought) = self.brought.get(provider) else {
            return live.key_of_user(self.user.as_ref()?, provider).cloned();
        };
        let mut key = brought.clone();
        key.pays = live.config.takes_keys(provider);
        Some(key)
    }
}

fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|value| {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    let vendors = || ["x-api-key", "x-goog-api-key", "api-key"].iter().find_map(|name| headers.get(*name));
    let token = bearer.or_else(|| vendors().map(HeaderValue::as_bytes))?;
    Some(token.trim_ascii()).filter(|token| !token.is_empty())
}

fn brought(live: &LiveConfig, headers: &HeaderMap) -> Result<HashMap<String, HashedKey>, Rejection> {
    let mut keys = HashMap::new();
    for (name, value) in headers {
        let Some(own) = name.as_str().strip_prefix(PREFIX) else { continue };
        let Some(provider) = own.strip_prefix(KEY) else {
            Overrides::check_name(name.as_str())?;
            continue;
        };
        if !live.config.providers.contains_key(provider) {
            return Err(Rejection::header(name.as_str(), &live.config.why_no_provider(provider)));
        }
        let key = value.to_str().map(str::trim).unwrap_or_default();
        if key.is_empty() || keys.len() == BROUGHT_MAX {
            return Err(Rejection::header(name.as_str(), "expected a key: visible ASCII characters"));
        }
        let key = HashedKey::new(SecretString::from(key), true);
        if keys.insert(provider.to_owned(), key).is_some() {
            return Err(Rejection::header(name.as_str(), "it is sent more than once"));
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    fn live(text: &str) -> LiveConfig {
        LiveConfig::new(parse(text, Path::new("config.toml"), &|_| None).unwrap(), &HashMap::new()).unwrap()
    }

    #[test]
    fn a_token_is_found_in_each_of_its_headers_and_only_if_it_is_right() {
        let (open_door, live) =
            (live(""), live("[users.ada]\ntoken = \"token-of-ada\"\n[users.bob]\ntoken = \"token-of-bob\""));
        for (header, value, expected) in [
            ("authorization", "Bearer token-of-ada", Some("ada")),
            ("authorization", "bearer  token-of-bob ", Some("bob")),
            ("x-api-key", "token-of-bob", Some("bob")),
            ("x-goog-api-key", "token-of-ada", Some("ada")),
            ("api-key", "token-of-bob", Some("bob")),
            ("authorization", "Bearer token-of-eve", None),
            ("authorization", "Bearer token-of-ad", None),
            ("authorization", "Bearer ", None),
            ("authorization", "token-of-ada", None),
            ("cookie", "token-of-ada", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header, HeaderValue::from_static(value));
            let found = token(&headers).map(|token| live.callers.find(token, 0));
            let found = if let Some(FoundCaller::User(user)) = found { Some(user.name.clone()) } else { None };
            assert_eq!(found.as_deref(), expected, "{header}: {value}");
            assert_eq!(has_token(&live, &headers), expected.is_some(), "{header}: {value}");
            assert!(has_token(&open_door, &headers), "none is needed");
        }
        assert!(!has_token(&live, &HeaderMap::new()));
    }
}
