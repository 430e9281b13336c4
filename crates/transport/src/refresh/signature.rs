//! Who signed a catalogue. Not for where the signature comes from: see `mod`.

use minisign_verify::{Error, PublicKey, Signature};

use super::replace::UpdateError;
use photofinish_config::Config;

/// What the name of a signature's file adds to that of the catalogue.
pub(super) const ENDING: &str = ".minisig";
/// Bytes of the file with the catalogue's signature; it has about 300.
pub(super) const SIGNATURE_MAX: u16 = 4 << 10;
/// The word for catalogues that need no signature.
const UNSIGNED: &str = "none";

/// Whose catalogues are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogueSigner {
    Key(PublicKey),
    /// The user said that it needs no signature.
    Unsigned,
}

impl CatalogueSigner {
    /// Who the configuration says.
    ///
    /// # Errors
    /// It names no signer, or no key.
    pub fn of(config: &Config) -> Result<CatalogueSigner, UpdateError> {
        let key = config.catalogue_public_key.as_deref().ok_or_else(|| {
            UpdateError("`public_key` under [catalogue] has to say who signs it, or \"none\"".to_owned())
        })?;
        CatalogueSigner::parse(key)
    }

    /// A public key of minisign, `RW…`, or `none`.
    ///
    /// # Errors
    /// It is neither: a whole sentence.
    pub fn parse(text: &str) -> Result<CatalogueSigner, UpdateError> {
        if text == UNSIGNED {
            return Ok(CatalogueSigner::Unsigned);
        }
        PublicKey::from_base64(text).map(CatalogueSigner::Key).map_err(|_| {
            UpdateError(
                "the public key is not one of minisign, such as \"RWQ…\" with 56 characters, nor \"none\"".to_owned(),
            )
        })
    }
}

/// Checks that this key made the signature of this text.
pub(super) fn verify(key: &PublicKey, text: &[u8], signature: &[u8]) -> Result<(), UpdateError> {
    let signature = std::str::from_utf8(signature).ok().and_then(|text| Signature::decode(text).ok());
    let signature = signature.ok_or_else(|| UpdateError(format!("its {ENDING} file is no signature of minisign")))?;
    key.verify(text, &signature, false).map_err(|error| {
        UpdateError(match error {
            Error::UnexpectedKeyId => "it is signed by another key than the public key that was given".to_owned(),
            Error::UnsupportedAlgorithm | Error::UnexpectedAlgorithm => {
                "its signature has the old form: minisign 0.10 or newer makes the one that is needed".to_owned()
            }
            _ => "its signature does not fit: the file or the signature was changed".to_owned(),
        })
    })
}
