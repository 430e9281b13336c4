//! Tokens of the issuer of `[oidc]` (JWTs): whether they are right, and what they say of their user. Pure but for the keys, which
//! [`IssuerKeys::put`] brings.
//!
//! Not for the issuer itself: see the server's `login`. Not for what is known of its users: see `Callers`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::ring_jwt;
use photofinish_config::{Oidc, UserRole, token_hash};

/// Bytes of a token of the issuer; a longer one is refused.
const TOKEN_MAX: usize = 32 << 10;
/// Keys of the issuer that are looked at.
const KEYS_MAX: usize = 100;
/// Tokens whose signature was checked, and which are not checked again. With more of them all are forgotten.
const CHECKED_MAX: usize = 4_096;
/// How far the issuer's clock may be off, seconds.
const LEEWAY: u64 = 60;
/// Bytes of a user's name, as of those that are made at run time.
const NAME_MAX: usize = 64;

/// What the issuer says of a user: in a token, or after a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerWord {
    /// The user's name here.
    pub name: String,
    /// Who it is for the issuer: `SUB at ISSUER`.
    pub subject: String,
    /// Microseconds since 1970, UTC.
    pub issued_at_us: i64,
    /// None: no group of theirs may come.
    pub place: Option<(UserRole, Option<String>)>,
    /// It names the user's groups, none perhaps. Not every token does.
    pub names_groups: bool,
}

/// The claims of a token.
pub type Claims = Map<String, Value>;

/// The keys of the issuer, and what they checked.
#[derive(Default)]
pub struct IssuerKeys {
    known: Mutex<IssuerKeySet>,
    /// Somebody came with a key that is not known, or before there were any.
    wanted: Notify,
    /// They were read, or could not be.
    read: Notify,
}

#[derive(Default)]
struct IssuerKeySet {
    /// Whose they are. None: they are not read.
    issuer: Option<String>,
    /// The last reading failed, so there may be newer ones.
    is_stale: bool,
    keys: Vec<IssuerKey>,
    /// For this configuration, what tokens said, by their hash.
    oidc: Option<Arc<Oidc>>,
    checked: HashMap<[u8; 32], (u64, IssuerWord)>,
}

#[derive(Clone)]
struct IssuerKey {
    id: Option<String>,
    /// The only one that it is for, if it says so.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// Why a token does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// The issuer's keys, or newer ones, cannot be read yet.
    NotRead,
    /// None of the keys has its id: the issuer may have a new one.
    UnknownKey,
    /// As the end of a sentence about the token.
    Wrong(String),
}

fn wrong<T>(why: impl Into<String>) -> Result<T, TokenFault> {
    Err(TokenFault::Wrong(why.into()))
}

/// Whether a token may be one of an issuer: a JSON object in Base64, and three parts.
pub fn is_jwt(token: &[u8]) -> bool {
    token.starts_with(b"eyJ") && token.iter().filter(|byte| **byte == b'.').count() == 2
}

impl IssuerKeys {
    /// Takes the keys over that the issuer lists, which are those of a JWK set. Returns how many there are.
    pub fn put(&self, issuer: &str, listed: &Value) -> usize {
        ring_jwt::install();
        let listed = listed.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let keys: Vec<IssuerKey> = listed.iter().take(KEYS_MAX).filter_map(key).collect();
        let found = keys.len();
        if found > 0 {
            *self.known() = IssuerKeySet { issuer: Some(issuer.to_owned()), keys, ..IssuerKeySet::default() };
        }
        self.read.notify_waiters();
        found
    }

    /// The keys could not be read.
    pub fn failed(&self) {
        self.known().is_stale = true;
        self.read.notify_waiters();
    }

    /// Waits until somebody needs a key that is not known.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Asks for the keys, and waits until they are read or could not be.
    pub async fn renewed(&self) {
        let read = self.read.notified();
        self.wanted.notify_one();
        read.await;
    }

    /// What a right token says.
    ///
    /// # Errors
    /// It does not count.
    pub fn check(&self, oidc: &Arc<Oidc>, token: &[u8], now_us: i64) -> Result<IssuerWord, TokenFault> {
        let (hash, now) = (token_hash(token), u64::try_from(now_us / 1_000_000).unwrap_or(0));
        {
            let mut known = self.known();
            if known.oidc.as_ref().is_some_and(|of| !Arc::ptr_eq(of, oidc)) {
                known.checked.clear();
            }
            known.oidc = Some(oidc.clone());
            if let Some((_, word)) = known.checked.get(&hash).filter(|(until, _)| *until > now) {
                return Ok(word.clone());
            }
        }
        let claims = self.claims(oidc, token)?;
        let word = word(oidc, &claims)?;
        // With the leeway that `claims` gave; a token without an end does not come here.
        let until = claims.get("exp").and_then(Value::as_f64).map_or(0, |until| until as u64);
        let mut known = self.known();
        if known.checked.len() >= CHECKED_MAX {
            known.checked.clear();
        }
        known.checked.insert(hash, (until, word.clone()));
        Ok(word)
    }

    /// The claims of a token that the issuer signed, that has not ended, and that is for the gateway.
    ///
    /// # Errors
    /// It does not count.
    pub fn claims(&self, oidc: &Oidc, token: &[u8]) -> Result<Claims, TokenFault> {
        if token.len() > TOKEN_MAX {
            return wrong(format!("has more than {TOKEN_MAX} bytes"));
        }
        let Ok(header) = decode_header(token) else { return wrong("is no JWT with a signature") };
        let (issuer, keys, is_stale) = {
            let known = self.known();
            (known.issuer.clone(), known.keys.clone(), known.is_stale)
        };
        if issuer.as_deref() != Some(&oidc.issuer) {
            return Err(TokenFault::NotRead);
        }
        let is_meant = |key: &&IssuerKey| header.kid.is_none() || key.id == header.kid;
        let fits = |key: &&IssuerKey| key.algorithm.is_none_or(|algorithm| algorithm == header.alg);
        let mut meant = keys.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(if is_stale { TokenFault::NotRead } else { TokenFault::UnknownKey });
        }
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&oidc.issuer]);
        validation.set_audience(&oidc.audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        let mut why = "is signed in a way that the issuer's keys are not for".to_owned();
        for key in meant.filter(fits) {
            match decode::<Claims>(token, &key.key, &validation) {
                Ok(token) => return Ok(token.claims),
                Err(error) => why = fault(&error),
            }
        }
        wrong(why)
    }

    fn known(&self) -> MutexGuard<'_, IssuerKeySet> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// None: it is for something else, or of a kind that is not known.
fn key(listed: &Value) -> Option<IssuerKey> {
    let jwk: Jwk = serde_json::from_value(listed.clone()).ok()?;
    if matches!(jwk.common.public_key_use, Some(ref use_of) if *use_of != PublicKeyUse::Signature) {
        return None;
    }
    let algorithm = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string().parse()).transpose().ok()?;
    // A secret that is published signs nothing.
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|key| key.family() != AlgorithmFamily::Hmac)?;
    Some(IssuerKey { key, algorithm, id: jwk.common.key_id })
}

fn fault(error: &jsonwebtoken::errors::Error) -> String {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::ExpiredSignature => "has expired".to_owned(),
        ErrorKind::ImmatureSignature => "counts only later: is a clock wrong?".to_owned(),
        ErrorKind::InvalidIssuer => "is of another issuer".to_owned(),
        ErrorKind::InvalidAudience => "is for another audience".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("has no claim \"{claim}\""),
        ErrorKind::InvalidSignature => "has a wrong signature".to_owned(),
        ErrorKind::InvalidAlgorithm => "is signed in a way that the issuer's keys are not for".to_owned(),
        _ => "is no right JWT".to_owned(),
    }
}

/// What claims say of their user.
///
/// # Errors
/// They name none.
pub fn word(oidc: &Oidc, claims: &Claims) -> Result<IssuerWord, TokenFault> {
    let text = |claim: &str| claimed(claims, claim).and_then(Value::as_str);
    let Some(subject) = text("sub").filter(|subject| !subject.is_empty()) else { return wrong("has no claim \"sub\"") };
    let claim = &oidc.user_claim;
    let Some(name) = text(claim) else {
        return wrong(format!("has no text in the claim \"{claim}\", which names users (user in [oidc])"));
    };
    if name.is_empty() || name.len() > NAME_MAX || name.contains(char::is_control) {
        return wrong(format!(
            "names its user by something else than 1 to {NAME_MAX} bytes without control characters"
        ));
    }
    if claim == "email" && claims.get("email_verified") == Some(&Value::Bool(false)) {
        return wrong("has an address of e-mail that the issuer did not verify");
    }
    let groups = claimed(claims, &oidc.groups_claim);
    let is_elsewhere = |names: &Value| names.get(&oidc.groups_claim).is_some();
    if groups.is_none() && (claims.get("_claim_names").is_some_and(is_elsewhere) || claims.contains_key("hasgroups")) {
        return wrong(
            "lists no groups, since there are too many: let the issuer send only those that the gateway needs",
        );
    }
    let names_groups = groups.is_some_and(|groups| !groups.is_null());
    let groups = match groups {
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(group)) => vec![group.as_str()],
        _ => Vec::new(),
    };
    let issued_at = claims.get("iat").and_then(Value::as_f64).unwrap_or(0.0);
    Ok(IssuerWord {
        name: name.to_owned(),
        // Another issuer may call another user so.
        subject: format!("{subject} at {}", oidc.issuer),
        issued_at_us: (issued_at * 1e6) as i64,
        place: oidc.place_of(groups),
        names_groups,
    })
}

/// A claim by its name; or by a path of names with dots, if no claim has it whole.
pub fn claimed<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    if let Some(whole) = claims.get(name) {
        return Some(whole);
    }
    let (first, rest) = name.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}

#[cfg(test)]
mod tests;
