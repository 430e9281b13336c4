//! Tokens that an issuer signed, and those that somebody else made of them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;
use photofinish_base::clock::wall_micros;
use photofinish_config::{UserRole, parse};

const FILE: &str = "[users.root]\ntoken = \"a-token-of-an-admin\"\nrole = \"admin\"\n[teams.ml]\nrpm = 5\n[oidc]\n\
    issuer = \"https://login.example.com\"\nclient_id = \"photofinish\"\naudience = [\"api\"]\ngroups = \"realm.groups\"\n\
    [oidc.group.ml]\nteam = \"ml\"\n";

fn oidc() -> Arc<Oidc> {
    parse(FILE, Path::new("config.toml"), &|_| None).unwrap().oidc.unwrap()
}

fn encoded(part: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(part)
}

/// An issuer's key: P-256, or Ed25519.
enum Signer {
    Curve(EcdsaKeyPair),
    Edwards(Ed25519KeyPair),
}

impl Signer {
    fn curve() -> Signer {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Signer::Curve(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap())
    }

    fn edwards() -> Signer {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signer::Edwards(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
    }

    fn listed(&self, id: &str) -> Value {
        match self {
            Signer::Curve(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": encoded(x), "y": encoded(y) })
            }
            Signer::Edwards(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "alg": "EdDSA", "x": encoded(pair.public_key()) })
            }
        }
    }

    fn signed(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = match self {
            Signer::Curve(pair) => pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec(),
            Signer::Edwards(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", encoded(signature))
    }
}

fn now() -> i64 {
    wall_micros() / 1_000_000
}

fn claims() -> Value {
    json!({
        "iss": "https://login.example.com", "aud": ["other", "api"], "sub": "7", "email": "ada@example.com",
        "iat": now() - 5, "exp": now() + 300, "realm": { "groups": ["x", "ml"] },
    })
}

/// The claims with this one in place.
fn with(claim: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[claim] = value;
    claims
}

fn keys(listed: Value) -> IssuerKeys {
    let keys = IssuerKeys::default();
    keys.put("https://login.example.com", &json!({ "keys": listed }));
    keys
}

fn header(algorithm: &str, id: &str) -> Value {
    json!({ "alg": algorithm, "kid": id, "typ": "JWT" })
}

#[test]
fn a_token_of_the_issuer_names_its_user_and_their_place() {
    let (oidc, curve, edwards) = (oidc(), Signer::curve(), Signer::edwards());
    // Some keys are for something else, or not known: they take nothing from the others.
    let strange = json!([{ "kty": "XYZ" }, 5, { "kty": "oct", "k": "AAAA" }, { "kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB" }]);
    let mut listed = strange.as_array().unwrap().clone();
    listed.extend([curve.listed("one"), edwards.listed("two")]);
    let keys = keys(listed.into());
    for token in [curve.signed(&header("ES256", "one"), &claims()), edwards.signed(&header("EdDSA", "two"), &claims())]
    {
        assert!(is_jwt(token.as_bytes()));
        for _ in 0..2 {
            let word = keys.check(&oidc, token.as_bytes(), wall_micros()).unwrap();
            assert_eq!(
                (word.name.as_str(), word.subject.as_str()),
                ("ada@example.com", "7 at https://login.example.com")
            );
            assert_eq!(word.place, Some((UserRole::User, Some("ml".to_owned()))));
            assert_eq!(word.issued_at_us / 1_000_000, claims()["iat"].as_i64().unwrap());
        }
    }
    // A key of the set is meant where the token names none.
    let unnamed = edwards.signed(&json!({ "alg": "EdDSA" }), &claims());
    assert!(keys.check(&oidc, unnamed.as_bytes(), wall_micros()).is_ok());
    // Another configuration maps other groups: what was checked before says nothing.
    let other = FILE.replace("[oidc.group.ml]", "[oidc.group.x]\nrole = \"viewer\"\n[oidc.group.ml]");
    let other = parse(&other, Path::new("config.toml"), &|_| None).unwrap().oidc.unwrap();
    let word = keys.check(&other, unnamed.as_bytes(), wall_micros()).unwrap();
    assert_eq!(word.place, Some((UserRole::Viewer, Some("ml".to_owned()))));
}

#[test]
fn what_the_issuer_did_not_sign_for_the_gateway_does_not_count() {
    let (oidc, signer, stranger) = (oidc(), Signer::curve(), Signer::curve());
    let keys = keys(json!([signer.listed("one")]));
    let usual = header("ES256", "one");
    let signed = |claims: Value| signer.signed(&usual, &claims);
    let unsigned = format!("{}.{}.", encoded(json!({ "alg": "none" }).to_string()), encoded(claims().to_string()));
    // The public key as the secret of HMAC.
    let of_secret = {
        let public = signer.listed("one").to_string();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_bytes());
        let text = format!("{}.{}", encoded(header("HS256", "one").to_string()), encoded(claims().to_string()));
        format!("{text}.{}", encoded(ring::hmac::sign(&key, text.as_bytes())))
    };
    let good = signed(claims());
    let (head, rest) = good.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let changed = format!("{head}.{}.{signature}", encoded(with("email", json!("root@example.com")).to_string()));
    let absent = |claim: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(claim);
        signed(claims)
    };
    let groups: Vec<String> = (0..10_000).map(|number| format!("group-{number}")).collect();
    for (token, words) in [
        (unsigned, "no JWT"),
        (of_secret, "a way that the issuer's keys are not for"),
        (stranger.signed(&usual, &claims()), "wrong signature"),
        (changed, "wrong signature"),
        (signer.signed(&header("ES384", "one"), &claims()), "wrong signature"),
        (signer.signed(&header("RS256", "one"), &claims()), "a way that the issuer's keys are not for"),
        (signed(with("iss", json!("https://login.example.com/"))), "another issuer"),
        (signed(with("aud", json!("photofinish-of-another"))), "another audience"),
        (signed(with("exp", json!(now() - 70))), "has expired"),
        (signed(with("exp", json!("never"))), "\"exp\""),
        (signed(with("nbf", json!(now() + 70))), "counts only later"),
        (absent("exp"), "\"exp\""),
        (absent("aud"), "\"aud\""),
        (absent("iss"), "\"iss\""),
        (absent("sub"), "\"sub\""),
        (absent("email"), "\"email\""),
        (signed(with("email", json!(["ada@example.com"]))), "\"email\""),
        (signed(with("email", json!("a".repeat(65)))), "1 to 64 bytes"),
        (signed(with("email", json!("ada\n"))), "1 to 64 bytes"),
        (signed(with("email_verified", json!(false))), "did not verify"),
        (signed(with("email", json!("a".repeat(1 << 20)))), "more than 32768 bytes"),
        (signed(with("realm", json!({ "groups": groups }))), "more than 32768 bytes"),
        ("eyJ.eyJ.x".to_owned(), "no JWT"),
        (format!("eyJhbGciOiJFUzI1NiIsImtpZCI6Im9uZSJ9.{}.{signature}", encoded("[]")), "signature"),
    ] {
        let checked = keys.check(&oidc, token.as_bytes(), wall_micros());
        let Err(TokenFault::Wrong(why)) = &checked else { panic!("{checked:?} instead of {words}") };
        assert!(why.contains(words), "{why} instead of {words}");
        assert!(!why.contains("example.com"), "a claim is quoted: {why}");
    }
}

#[test]
fn an_unknown_key_and_a_clock_that_is_off_are_no_fault_of_the_token() {
    let (oidc, signer) = (oidc(), Signer::curve());
    let keys = keys(json!([signer.listed("one")]));
    let signed = |claims: Value| signer.signed(&header("ES256", "one"), &claims);
    let good = signed(claims());
    let unknown = signer.signed(&header("ES256", "two"), &claims());
    assert_eq!(keys.check(&oidc, unknown.as_bytes(), wall_micros()), Err(TokenFault::UnknownKey));
    // While its keys cannot be read, there may be one.
    keys.failed();
    assert_eq!(keys.check(&oidc, unknown.as_bytes(), wall_micros()), Err(TokenFault::NotRead));
    assert!(keys.check(&oidc, good.as_bytes(), wall_micros()).is_ok());
    // A clock that is a minute off.
    for claim in ["exp", "nbf"] {
        let at = if claim == "exp" { now() - 50 } else { now() + 50 };
        let token = signed(with(claim, json!(at)));
        assert!(keys.check(&oidc, token.as_bytes(), wall_micros()).is_ok(), "{claim}");
    }
    // Keys of another issuer, and none.
    assert_eq!(IssuerKeys::default().check(&oidc, good.as_bytes(), 0), Err(TokenFault::NotRead));
    let moved = IssuerKeys::default();
    moved.put("https://other.example.com", &json!({ "keys": [signer.listed("one")] }));
    assert_eq!(moved.check(&oidc, good.as_bytes(), 0), Err(TokenFault::NotRead));
    // An empty or broken list takes no key away.
    for listed in [
        json!({}),
        json!({ "keys": [] }),
        json!([]),
        json!({ "keys": [{ "kty": "EC" }, { "kty": "oct", "k": "AAAA" }] }),
    ] {
        assert_eq!(keys.put("https://login.example.com", &listed), 0);
        assert!(keys.check(&oidc, good.as_bytes(), wall_micros()).is_ok(), "{listed}");
    }
}

#[test]
fn groups_are_found_wherever_the_issuer_puts_them() {
    let oidc = oidc();
    let place = |claims: Value| word(&oidc, claims.as_object().unwrap()).map(|word| word.place.map(|(_, team)| team));
    let ml = Ok(Some(Some("ml".to_owned())));
    let base = || json!({ "sub": "7", "email": "ada@example.com" });
    let with = |claim: &str, value: Value| {
        let mut claims = base();
        claims[claim] = value;
        claims
    };
    assert_eq!(place(with("realm", json!({ "groups": "ml" }))), ml);
    assert_eq!(place(with("realm.groups", json!([5, null, "ml"]))), ml);
    assert_eq!(place(with("realm", json!({ "groups": { "ml": true } }))), Ok(None));
    assert_eq!(place(with("realm", json!("groups"))), Ok(None));
    assert_eq!(place(base()), Ok(None));
    let too_many = place(with("hasgroups", json!(true)));
    assert!(matches!(&too_many, Err(TokenFault::Wrong(why)) if why.contains("too many")), "{too_many:?}");
}
