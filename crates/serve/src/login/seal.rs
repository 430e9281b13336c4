//! Texts that only who has a secret can read: with the client secret what the issuer may be asked again with, and the state of a login that
//! a browser or a command keeps meanwhile; with the secret of a session of the dashboard whose it is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use secrecy::{ExposeSecret as _, SecretString};

/// What a sealed text is for: one for something else does not open.
pub(super) const REFRESH: &str = "refresh token";
pub(super) const CODE: &str = "login by code";
pub(super) const DEVICE: &str = "login by device";
pub(super) const SESSION: &str = "session of the dashboard";

/// None if the system has no random numbers.
pub(super) fn seal(secret: &SecretString, purpose: &str, text: &str) -> Option<String> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).ok()?;
    let mut sealed = text.as_bytes().to_vec();
    let given = Nonce::assume_unique_for_key(nonce);
    key(secret, purpose)?.seal_in_place_append_tag(given, Aad::empty(), &mut sealed).ok()?;
    Some(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
}

/// None: it was sealed with another secret, for something else, or changed.
pub(super) fn open(secret: &SecretString, purpose: &str, sealed: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
    let mut sealed = sealed.to_vec();
    let text =
        key(secret, purpose)?.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut sealed).ok()?;
    String::from_utf8(text.to_vec()).ok()
}

fn key(secret: &SecretString, purpose: &str) -> Option<LessSafeKey> {
    let drawn = Salt::new(HKDF_SHA256, b"photofinish").extract(secret.expose_secret().as_bytes());
    let info = [purpose.as_bytes()];
    Some(LessSafeKey::new(UnboundKey::from(drawn.expand(&info, &AES_256_GCM).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_opens_it_and_for_the_same_use() {
        let [secret, other] = ["one", "two"].map(SecretString::from);
        let sealed = seal(&secret, REFRESH, "a token").unwrap();
        assert_ne!(sealed, seal(&secret, REFRESH, "a token").unwrap());
        assert_eq!(open(&secret, REFRESH, &sealed).as_deref(), Some("a token"));
        assert_eq!(open(&other, REFRESH, &sealed), None);
        assert_eq!(open(&secret, CODE, &sealed), None);
        let swapped = if sealed.ends_with('A') { "B" } else { "A" };
        for changed in [&sealed[1..], "", "a", "ä", &format!("{swapped}{}", &sealed[1..])] {
            assert_eq!(open(&secret, REFRESH, changed), None, "{changed}");
        }
    }
}
