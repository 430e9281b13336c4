//! Authentication: the caller, and the keys sent with the request. Not for permissions to override settings: see `overrides`.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use secrecy::SecretString;

use super::gateway::Gateway;
use super::overrides::{Overrides, PREFIX};
use super::rejection::Rejection;
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

/// Checks the token (`Authorization: Bearer …`, `x-api-key` or `x-goog-api-key`), and counts failures. None if the configuration has no users.
///
/// # Errors
/// 401 without a valid token.
pub fn authenticate(gateway: &Gateway, live: &LiveConfig, headers: &HeaderMap) -> Result<Option<Arc<User>>, Rejection> {
    let user = known(&live.config.users, headers);
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
    match authenticate(gateway, &gateway.live(), headers)? {
        Some(user) if !user.admin => Err(Rejection::forbidden()),
        _ => Ok(()),
    }
}

/// For answers that have more detail for admins. A missing token is allowed; a wrong one is counted.
pub fn is_admin(gateway: &Gateway, headers: &HeaderMap) -> bool {
    if !gateway.live().config.users.is_empty() && token(headers).is_none() {
        return false;
    }
    admin(gateway, headers).is_ok()
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
