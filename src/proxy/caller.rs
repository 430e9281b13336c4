//! Authentication: the caller, and the keys sent with the request. Not for permissions to override settings: see `overrides`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use secrecy::SecretString;

use super::gateway::Gateway;
use super::overrides::{Overrides, PREFIX};
use super::rejection::Rejection;
use crate::clock::Instant;
use crate::config::{User, token_hash};
use crate::health::{CallerId, LiveConfig};
use crate::routing::keyring::HashedKey;

/// Keys in one request; more are refused.
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

/// Checks the token (`Authorization: Bearer …`, `x-api-key` or `x-goog-api-key`), or without one the session of the
/// dashboard, and counts failures. None if the configuration has no users.
///
/// # Errors
/// 401 without a valid token.
pub fn authenticate(gateway: &Gateway, live: &LiveConfig, headers: &HeaderMap) -> Result<Option<Arc<User>>, Rejection> {
    let user = match session(gateway, live, headers) {
        Some(user) => Ok(Some(user)),
        None => known(&live.config.users, headers),
    };
    if user.is_err() {
        gateway.totals().unauthorized();
    }
    user
}

/// Checks that the caller is an admin. Without users every caller is one.
///
/// # Errors
/// 401 without a valid token, 403 for a user who is not an admin.
pub fn admin(gateway: &Gateway, headers: &HeaderMap) -> Result<(), Rejection> {
    admin_user(gateway, headers).map(drop)
}

/// As [`admin`]; returns the user, or none without users.
///
/// # Errors
/// As [`admin`].
pub fn admin_user(gateway: &Gateway, headers: &HeaderMap) -> Result<Option<Arc<User>>, Rejection> {
    let user = authenticate(gateway, &gateway.live(), headers)?;
    if user.as_ref().is_some_and(|user| !user.admin) { Err(Rejection::forbidden()) } else { Ok(user) }
}

/// For answers that have more detail for admins. A missing token is allowed; a wrong one is counted.
pub fn is_admin(gateway: &Gateway, headers: &HeaderMap) -> bool {
    let live = gateway.live();
    if !live.config.users.is_empty() && token(headers).is_none() && session(gateway, &live, headers).is_none() {
        return false;
    }
    admin(gateway, headers).is_ok()
}

/// Exchanges an admin's token for the secret of a session. None without users: nobody needs one.
///
/// # Errors
/// 401 for a wrong token, 403 for a user who is not an admin, 429 after too many wrong tokens from this address.
pub fn log_in(gateway: &Gateway, headers: &HeaderMap, address: IpAddr) -> Result<Option<String>, Rejection> {
    let (live, sessions, now) = (gateway.live(), gateway.sessions(), Instant::now());
    if live.config.users.is_empty() {
        return Ok(None);
    }
    sessions.try_token(address, now).map_err(Rejection::too_many_tokens)?;
    let user = known(&live.config.users, headers).inspect_err(|_| gateway.totals().unauthorized())?;
    sessions.was_right(address);
    let admin = user.filter(|user| user.admin).ok_or_else(Rejection::forbidden)?;
    sessions.open(&admin, now).map(Some).ok_or_else(Rejection::internal)
}

/// Whether the token in the headers is valid. Without users nobody needs one. Counts nothing.
pub fn has_token(users: &[Arc<User>], headers: &HeaderMap) -> bool {
    known(users, headers).is_ok()
}

/// The user of the session of the dashboard. A token counts before it.
fn session(gateway: &Gateway, live: &LiveConfig, headers: &HeaderMap) -> Option<Arc<User>> {
    if live.config.users.is_empty() || !headers.contains_key(COOKIE) || token(headers).is_some() {
        return None;
    }
    gateway.sessions().user(&live.config.users, headers, Instant::now())
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
        CallerId::new(self.user.as_ref().map(|user| user.name.as_str()), live.config.users.len())
    }

    /// The caller's own key for a provider: from this request, else from the configuration.
    pub fn own_key(&self, live: &LiveConfig, provider: &str) -> Option<HashedKey> {
        let brought = self.brought.get(provider);
        brought.or_else(|| live.key_of_user(self.user.as_ref()?, provider)).cloned()
    }
}

fn known(users: &[Arc<User>], headers: &HeaderMap) -> Result<Option<Arc<User>>, Rejection> {
    if users.is_empty() {
        return Ok(None);
    }
    let token = token(headers).ok_or_else(|| Rejection::unauthorized("no token was sent"))?;
    // Comparing hashes reveals no timing information about the token.
    let hash = token_hash(token);
    let user = users.iter().find(|user| user.token_sha256 == hash);
    user.cloned().map(Some).ok_or_else(|| Rejection::unauthorized("the token is not known"))
}

fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|value| {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    let vendors = || ["x-api-key", "x-goog-api-key"].iter().find_map(|name| headers.get(*name));
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
