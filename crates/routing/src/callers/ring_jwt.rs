//! Signatures of JWTs, checked by `ring`, which is in the program anyway: `jsonwebtoken`'s own two backends would bring another
//! library for cryptography. It checks and signs nothing.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use signature::Verifier;

/// From here on `jsonwebtoken` checks by `ring`.
pub(super) fn install() {
    // A further call finds it installed.
    let _ = RING.install_default();
}

static RING: CryptoProvider =
    CryptoProvider { signer_factory: no_signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let method = method(*algorithm).filter(|method| method.family() == key.family());
    let method = method.ok_or(ErrorKind::InvalidAlgorithm)?;
    Ok(Box::new(RingVerifier { algorithm: *algorithm, method, key: key.clone() }))
}

#[derive(Clone, Copy)]
enum Method {
    Rsa(&'static RsaParameters),
    Curve(AlgorithmFamily, &'static dyn VerificationAlgorithm),
}

impl Method {
    fn family(self) -> AlgorithmFamily {
        match self {
            Method::Rsa(_) => AlgorithmFamily::Rsa,
            Method::Curve(family, _) => family,
        }
    }
}

/// None: of a secret that both sides know, which no issuer publishes.
fn method(algorithm: Algorithm) -> Option<Method> {
    Some(match algorithm {
        Algorithm::RS256 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Method::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Method::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Method::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Method::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Method::Curve(AlgorithmFamily::Ec, &ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Method::Curve(AlgorithmFamily::Ec, &ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Method::Curve(AlgorithmFamily::Ed, &ED25519),
        _ => return None,
    })
}

struct RingVerifier {
    algorithm: Algorithm,
    method: Method,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        let checked = match (self.method, self.key.kind()) {
            (Method::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Method::Curve(_, algorithm), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
