//! Which key an attempt uses: one brought with the request, else the caller's own, else the provider's in turn.

use std::fmt;

use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::config::{Keys, Provider, User};

/// A key with its short hash. Cheap to clone.
#[derive(Clone)]
pub struct Key {
    secret: SecretString,
    id: String,
    /// It is the caller's own (brought, or the user's), not one that the gateway shares.
    pub own: bool,
}

impl Key {
    pub fn new(secret: SecretString, own: bool) -> Key {
        let id = key_id(&secret);
        Key { secret, id, own }
    }

    /// The first 12 hex digits of its SHA-256.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// For the one header that carries it.
    pub fn expose(&self) -> &str {
        self.secret.expose_secret()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// The keys that an attempt at `provider` may use, in the order of trying; an empty list where it must be left out.
#[derive(Clone, Debug)]
pub enum Ring {
    /// The provider asks for none.
    NoneNeeded,
    /// At least one.
    Keys(Vec<Key>),
    /// It is off, and this caller has no key for it.
    Off,
}

/// Collects the keys. `brought` is the one of this request's headers; `turn` rotates the provider's shared keys.
pub fn ring(provider: &Provider, user: Option<&User>, brought: Option<&SecretString>, turn: usize) -> Ring {
    let own = brought.or_else(|| user.and_then(|user| user.keys.get(&provider.name)));
    if let Some(key) = own {
        return Ring::Keys(vec![Key::new(key.clone(), true)]);
    }
    match &provider.keys {
        Keys::NotConfigured => Ring::NoneNeeded,
        Keys::Off(_) => Ring::Off,
        Keys::Keys(keys) => {
            let first = if keys.is_empty() { 0 } else { turn % keys.len() };
            let (before, after) = keys.split_at(first);
            Ring::Keys(after.iter().chain(before).map(|key| Key::new(key.clone(), false)).collect())
        }
    }
}

/// Identifies a key in rows and logs without telling it.
pub fn key_id(key: &SecretString) -> String {
    let hash = Sha256::digest(key.expose_secret().as_bytes());
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Takes `key` out of what a provider said: some vendors quote the key that they refuse.
pub fn scrub(bytes: Bytes, key: Option<&Key>) -> Bytes {
    match key.map(Key::expose).filter(|key| !key.is_empty()) {
        Some(key) if memchr::memmem::find(&bytes, key.as_bytes()).is_some() => {
            Bytes::from(String::from_utf8_lossy(&bytes).replace(key, "***"))
        }
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_vendor_quotes_is_taken_out() {
        let key = Key::new(SecretString::from("sk-planted"), false);
        let said = Bytes::from_static(b"{\"error\":\"Incorrect API key provided: sk-planted\"}");
        assert_eq!(scrub(said.clone(), Some(&key)), "{\"error\":\"Incorrect API key provided: ***\"}");
        assert_eq!(scrub(said.clone(), None), said);
        assert_eq!(format!("{key:?}").find("planted"), None);
    }
}
