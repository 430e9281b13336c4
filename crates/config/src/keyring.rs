//! Which key an attempt uses: one brought with the request, else the caller's own, else the provider's in turn. Not for
//! cool-downs of keys: see `cooldown`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretString};

use super::scrub::without;
use crate::{Keys, Provider, Token};

/// A key with its short hash. Cheap to clone: a configured one is hashed once, not with every request.
#[derive(Clone)]
pub struct HashedKey {
    known: Arc<KnownKeys>,
    /// The caller's own key (brought with the request, or the user's), not one that the gateway shares.
    pub own: bool,
    /// Its holder pays for what is asked with it: budgets and rights of the shared keys do not count. Not where any text would do as
    /// a key.
    pub pays: bool,
}

struct KnownKeys {
    secret: SecretString,
    id: String,
}

impl HashedKey {
    pub fn new(secret: SecretString, own: bool) -> HashedKey {
        let id = key_id(&secret);
        HashedKey { known: Arc::new(KnownKeys { secret, id }), own, pays: own }
    }

    /// The first 12 hex digits of its SHA-256.
    pub fn id(&self) -> &str {
        &self.known.id
    }

    /// The value of the header that carries the key.
    pub fn expose(&self) -> &str {
        self.known.secret.expose_secret()
    }
}

impl fmt::Debug for HashedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// The shared keys of a provider: keys from the file, or a token that changes.
#[derive(Debug)]
pub enum SharedKeys {
    Fixed(KeyOrder),
    Token(Arc<Token>),
}

impl SharedKeys {
    pub fn of(provider: &Provider) -> SharedKeys {
        match &provider.keys {
            Keys::NotConfigured => SharedKeys::Fixed(KeyOrder::NoneNeeded),
            Keys::Off(_) => SharedKeys::Fixed(KeyOrder::Off),
            Keys::Keys(keys) => {
                SharedKeys::Fixed(KeyOrder::Keys(keys.iter().map(|key| HashedKey::new(key.clone(), false)).collect()))
            }
            Keys::Token(token) => SharedKeys::Token(token.clone()),
        }
    }

    /// The current keys.
    pub fn ring(&self) -> Cow<'_, KeyOrder> {
        match self {
            SharedKeys::Fixed(ring) => Cow::Borrowed(ring),
            SharedKeys::Token(token) => Cow::Owned(match token.current() {
                Some(current) => KeyOrder::Keys(vec![HashedKey::new(SecretString::clone(&current), false)]),
                None => KeyOrder::Off,
            }),
        }
    }
}

/// The keys that an attempt at a provider may use, in the order of trying.
#[derive(Clone, Debug)]
pub enum KeyOrder {
    /// The provider needs no key.
    NoneNeeded,
    /// At least one.
    Keys(Vec<HashedKey>),
    /// The provider is off, and this caller has no key for it.
    Off,
}

impl KeyOrder {
    /// The keys for one request: only the caller's `own` if there is one, otherwise these, rotated by `turn`.
    pub fn for_request(&self, own: Option<HashedKey>, turn: usize) -> KeyOrder {
        if let Some(key) = own {
            return KeyOrder::Keys(vec![key]);
        }
        let mut ring = self.clone();
        if let KeyOrder::Keys(keys) = &mut ring
            && !keys.is_empty()
        {
            let first = turn % keys.len();
            keys.rotate_left(first);
        }
        ring
    }

    /// All of them.
    pub fn keys(&self) -> &[HashedKey] {
        match self {
            KeyOrder::Keys(keys) => keys,
            KeyOrder::NoneNeeded | KeyOrder::Off => &[],
        }
    }

    /// The keys to try, empty if none is needed. None: the provider is off.
    pub fn into_keys(self) -> Option<Vec<HashedKey>> {
        match self {
            KeyOrder::Off => None,
            KeyOrder::NoneNeeded => Some(Vec::new()),
            KeyOrder::Keys(keys) => Some(keys),
        }
    }
}

/// Identifies a key in rows and logs without revealing it.
pub fn key_id(key: &SecretString) -> String {
    let hash = digest(&SHA256, key.expose_secret().as_bytes());
    hash.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Removes `key` from a provider's bytes: some vendors quote the key that they refuse.
pub fn scrub(bytes: Bytes, key: Option<&HashedKey>) -> Bytes {
    key.and_then(|key| without_key(&bytes, key)).map_or(bytes, Bytes::from)
}

/// Removes `key` from a text.
pub fn scrubbed(text: &str, key: Option<&HashedKey>) -> String {
    let clean = key.and_then(|key| without_key(text.as_bytes(), key));
    clean.map_or_else(|| text.to_owned(), |clean| String::from_utf8_lossy(&clean).into_owned())
}

/// Removes `key` from the values of headers.
pub fn scrub_headers(headers: &mut HeaderMap, key: Option<&HashedKey>) {
    let Some(key) = key else { return };
    for value in headers.values_mut() {
        if let Some(clean) = without_key(value.as_bytes(), key) {
            *value = HeaderValue::from_bytes(&clean).unwrap_or(HeaderValue::from_static("***"));
        }
    }
}

/// Shorter parts of a key may be ordinary words.
const PART_LEAST: usize = 16;

/// Removes the key and each of its parts: an AWS key is `ID:SECRET:TOKEN`, and only the parts are sent. None if the
/// bytes contain neither.
fn without_key(bytes: &[u8], key: &HashedKey) -> Option<Vec<u8>> {
    let key = key.expose();
    let parts = key.split(':').filter(|part| part.len() >= PART_LEAST && *part != key);
    let mut clean = without(bytes, key.as_bytes());
    for part in parts {
        clean = without(clean.as_deref().unwrap_or(bytes), part.as_bytes()).or(clean);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_keys_take_turns_and_an_own_one_goes_before_them() {
        let key = |text: &str, own| HashedKey::new(SecretString::from(text), own);
        let shared = KeyOrder::Keys(vec![key("one", false), key("two", false)]);
        let exposed = |ring: KeyOrder| match ring {
            KeyOrder::Keys(keys) => keys.iter().map(|key| (key.expose().to_owned(), key.own)).collect(),
            KeyOrder::NoneNeeded | KeyOrder::Off => Vec::new(),
        };
        let (one, two) = (("one".to_owned(), false), ("two".to_owned(), false));
        assert_eq!(exposed(shared.for_request(None, 4)), [one.clone(), two.clone()]);
        assert_eq!(exposed(shared.for_request(None, 7)), [two, one]);
        for ring in [shared, KeyOrder::NoneNeeded, KeyOrder::Off] {
            assert_eq!(exposed(ring.for_request(Some(key("mine", true)), 1)), [("mine".to_owned(), true)]);
        }
        assert!(matches!(KeyOrder::Off.for_request(None, 1), KeyOrder::Off));
    }

    #[test]
    fn a_token_is_the_key_as_soon_as_it_is_there() {
        let source = crate::CredentialSource::File("/run/token".into());
        let token = Arc::new(Token::new(source, std::time::Duration::from_secs(60)));
        let shared = SharedKeys::Token(token.clone());
        assert!(matches!(*shared.ring(), KeyOrder::Off));
        for text in ["first", "second"] {
            token.put(text).unwrap();
            let ring = shared.ring().for_request(None, 3);
            assert!(matches!(&ring, KeyOrder::Keys(keys) if keys[0].expose() == text), "{ring:?}");
        }
    }

    #[test]
    fn a_key_that_a_vendor_quotes_is_taken_out() {
        let key = HashedKey::new(SecretString::from("sk-planted"), false);
        let said = Bytes::from_static(b"{\"error\":\"Incorrect API key provided: sk-planted\"}");
        assert_eq!(scrub(said.clone(), Some(&key)), "{\"error\":\"Incorrect API key provided: ***\"}");
        assert_eq!(scrub(said.clone(), None), said);
        assert_eq!(format!("{key:?}").find("planted"), None);
    }

    #[test]
    fn the_parts_of_a_key_of_aws_are_taken_out() {
        let key = HashedKey::new(
            SecretString::from("AKIAEXAMPLE000000000:secret/part-of-the-key:session-token-of-the-key"),
            false,
        );
        for (said, clean) in [
            ("x-amz-security-token:session-token-of-the-key", "x-amz-security-token:***"),
            ("AKIAEXAMPLE000000000 and secret/part-of-the-key", "*** and ***"),
            ("AKIAEXAMPLE000000000:secret/part-of-the-key:session-token-of-the-key", "***"),
            ("AKIA and secret", "AKIA and secret"),
        ] {
            assert_eq!(scrubbed(said, Some(&key)), clean);
        }
        let basic = HashedKey::new(SecretString::from("default:word"), false);
        assert_eq!(scrubbed("a default word", Some(&basic)), "a default word");
    }
}
