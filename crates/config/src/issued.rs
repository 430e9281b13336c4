//! The text of a key that is made at run time: `pf_<8: id>_<43: 256 random bits>_<6: CRC-32>`, in letters and digits. Its checksum
//! shows without a look-up that a key is mistyped, and to a scanner for secrets that a text is a key.
//!
//! Not for who has which key: see the gateway.

use ring::rand::{SecureRandom, SystemRandom};
use secrecy::SecretString;

const PREFIX: &str = "pf_";
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID: usize = 8;
/// 43 of 62 digits are 256 bits.
const SECRET: usize = 43;
const CHECKSUM: usize = 6;

/// What a token is by its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenForm {
    /// Of no key that was made at run time.
    Foreign,
    /// It begins as such a key, and is cut, doubled or mistyped.
    Mistyped,
    Issued,
}

impl TokenForm {
    pub fn of(token: &[u8]) -> TokenForm {
        let Some(rest) = token.strip_prefix(PREFIX.as_bytes()) else { return TokenForm::Foreign };
        let parts: Vec<&[u8]> = rest.splitn(4, |byte| *byte == b'_').collect();
        let lengths = parts.iter().map(|part| part.len()).eq([ID, SECRET, CHECKSUM]);
        let before = token.len().checked_sub(CHECKSUM + 1).and_then(|end| token.get(..end));
        let is_right = before.zip(parts.last()).is_some_and(|(before, last)| checksum(before).as_bytes() == *last);
        if lengths && is_right { TokenForm::Issued } else { TokenForm::Mistyped }
    }
}

/// A new key: its id and its text. None if the system has no random numbers.
pub fn new_token() -> Option<(String, SecretString)> {
    let (id, secret) = (random(ID)?, random(SECRET)?);
    let before = format!("{PREFIX}{id}_{secret}");
    let text = format!("{before}_{}", checksum(before.as_bytes()));
    Some((id, text.into()))
}

fn random(digits: usize) -> Option<String> {
    let (source, mut text) = (SystemRandom::new(), String::with_capacity(digits));
    while text.len() < digits {
        let mut bytes = [0_u8; 64];
        source.fill(&mut bytes).ok()?;
        // Bytes from 248 on would make the first digits likelier.
        let even = bytes.iter().filter(|byte| **byte < 248).map(|byte| char::from(DIGITS[usize::from(*byte) % 62]));
        text.extend(even.take(digits - text.len()));
    }
    Some(text)
}

fn checksum(before: &[u8]) -> String {
    let mut rest = crc32fast::hash(before);
    let mut digits = [0_u8; CHECKSUM];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[rest as usize % 62];
        rest /= 62;
    }
    digits.map(char::from).iter().collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn only_a_whole_key_is_one() {
        let (id, key) = new_token().unwrap();
        let key = key.expose_secret();
        assert_eq!((key.len(), &key[3..11], TokenForm::of(key.as_bytes())), (62, &*id, TokenForm::Issued));
        for cut in 3..key.len() {
            assert_eq!(TokenForm::of(&key.as_bytes()[..cut]), TokenForm::Mistyped, "{}", &key[..cut]);
        }
        for at in 3..key.len() {
            let mut other = key.as_bytes().to_vec();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(TokenForm::of(&other), TokenForm::Mistyped, "{at}");
        }
        let spaced = format!("{} {}", &key[..20], &key[20..]);
        for wrong in [format!("{key}{key}"), format!("{key} {key}"), spaced, format!("{key}_"), "pf_".to_owned()] {
            assert_eq!(TokenForm::of(wrong.as_bytes()), TokenForm::Mistyped, "{wrong}");
        }
        for foreign in ["", "sk-1234", "pf-x", &key[1..]] {
            assert_eq!(TokenForm::of(foreign.as_bytes()), TokenForm::Foreign, "{foreign}");
        }
    }

    /// So that a scanner can be written from the documents.
    #[test]
    fn the_checksum_is_crc_32_in_base_62() {
        assert_eq!(checksum(b"123456789"), "3jZRME");
        assert_eq!(checksum(b""), "000000");
    }

    #[test]
    fn keys_differ_in_every_digit() {
        let keys: Vec<String> = (0..400).map(|_| new_token().unwrap().1.expose_secret().to_owned()).collect();
        for at in (3..11).chain(12..55) {
            let mut seen: Vec<u8> = keys.iter().map(|key| key.as_bytes()[at]).collect();
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.len() > 50, "{at}: {seen:?}");
        }
    }
}
