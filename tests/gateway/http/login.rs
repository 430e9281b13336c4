//! The issuer of `[oidc]`: its tokens on the API, its login for browsers and commands, and what it answers when it is broken. A real one:
//! `tests/login/run`.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::harness::answer::Response;
use crate::harness::process::{RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Script, pause, soon};

/// What the issuer does next.
struct IssuerState {
    key: EcdsaKeyPair,
    key_id: &'static str,
    /// The claims of who logs in.
    claims: Value,
    /// An answer in place of the usual one, by path.
    instead: Vec<(&'static str, u16, String)>,
    /// How often a device login is not confirmed yet.
    pending: usize,
    /// What refresh tokens get.
    refresh: u16,
}

#[derive(Clone)]
struct Issuer(Arc<Mutex<IssuerState>>);

fn encoded(part: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(part)
}

fn key_pair() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl IssuerState {
    fn token(&self, issuer: &str, more: &Value) -> String {
        let mut claims = json!({ "iss": issuer, "aud": "photofinish", "sub": "7", "email": "ada@example.com", "iat": now(), "exp": now() + 300 });
        for (claim, value) in self.claims.as_object().into_iter().chain(more.as_object()).flatten() {
            claims[claim] = value.clone();
        }
        let header = json!({ "alg": "ES256", "kid": self.key_id });
        let text = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        format!("{text}.{}", encoded(self.key.sign(&SystemRandom::new(), text.as_bytes()).unwrap()))
    }

    fn tokens(&self, issuer: &str, nonce: &Value) -> Value {
        let token = self.token(issuer, &json!({ "nonce": nonce }));
        json!({ "access_token": "access", "token_type": "Bearer", "expires_in": 300, "refresh_token": "planted-refresh", "id_token": token })
    }

    fn answer(&mut self, issuer: &str, path: &str, body: &str) -> Script {
        let ok = |body: Value| Script::status(200, &[], &body.to_string());
        if let Some((_, status, body)) = self.instead.iter().find(|(of, ..)| path.ends_with(of)) {
            return Script::status(*status, &[], body);
        }
        let refused = |error: &str| Script::status(400, &[], &json!({ "error": error }).to_string());
        match path {
            path if path.ends_with("/.well-known/openid-configuration") => ok(json!({
                "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"), "token_endpoint": format!("{issuer}/token"),
                "jwks_uri": format!("{issuer}/keys"), "device_authorization_endpoint": format!("{issuer}/device"),
                "scopes_supported": ["openid", "email", "offline_access"],
            })),
            path if path.ends_with("/keys") => {
                let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
                let key = json!({ "kty": "EC", "crv": "P-256", "kid": self.key_id, "x": encoded(x), "y": encoded(y) });
                ok(json!({ "keys": [key] }))
            }
            path if path.ends_with("/device") => ok(json!({
                "device_code": "planted-device", "user_code": "ABCD-EFGH", "verification_uri": format!("{issuer}/activate"),
                "expires_in": 600, "interval": 0,
            })),
            _ if body.contains("grant_type=refresh_token") && self.refresh != 200 => refused("invalid_grant"),
            _ if body.contains("device_code") && self.pending > 0 => {
                self.pending -= 1;
                refused("authorization_pending")
            }
            _ if body.contains("code=wrong") => refused("invalid_grant"),
            // The code is the nonce, so that the issuer keeps nothing.
            _ => {
                let code = body.split('&').find_map(|pair| pair.strip_prefix("code="));
                ok(self.tokens(issuer, &json!(code)))
            }
        }
    }
}

impl Issuer {
    async fn start() -> (Issuer, FakeProvider) {
        let state = IssuerState {
            key: key_pair(),
            key_id: "one",
            claims: json!({ "groups": ["ml"] }),
            instead: Vec::new(),
            pending: 0,
            refresh: 200,
        };
        let issuer = Issuer(Arc::new(Mutex::new(state)));
        let answering = issuer.clone();
        let server = FakeProvider::answering(move |request| {
            let (host, prefix) = (request.header("host").unwrap(), "/v1");
            let body = String::from_utf8_lossy(&request.body).into_owned();
            answering.0.lock().unwrap().answer(&format!("http://{host}{prefix}"), &request.path, &body)
        })
        .await;
        (issuer, server)
    }

    fn set(&self, change: impl FnOnce(&mut IssuerState)) {
        change(&mut self.0.lock().unwrap());
    }

    fn token(&self, server: &FakeProvider, more: &Value) -> String {
        self.0.lock().unwrap().token(&server.base_url(), more)
    }
}

fn config(issuer: &str, fake: &FakeProvider) -> String {
    format!(
        "{}[models.m]\nupstreams = [\"one/m\"]\n[users.file]\ntoken = \"a-token-of-the-file\"\nrole = \"admin\"\n[teams.ml]\nrpm = 600\n\
         [oidc]\nissuer = \"{issuer}\"\nclient_id = \"photofinish\"\nclient_secret = \"planted-secret\"\nurl = \"http://gateway.example.com/\"\n\
         [oidc.group.ml]\nteam = \"ml\"\n[oidc.group.admins]\nrole = \"admin\"\n",
        provider("one", fake)
    )
}

async fn served() -> (Issuer, FakeProvider, FakeProvider, RunningGateway) {
    let (issuer, server) = Issuer::start().await;
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let served = Setup::new(&config(&server.base_url(), &fake)).serve().await;
    (issuer, server, fake, served)
}

async fn chat(served: &RunningGateway, token: &str) -> Response {
    served.chat(&[("authorization", &format!("Bearer {token}"))], &asking("m")).await
}

async fn me(served: &RunningGateway, token: &str) -> Value {
    served.get("/api/me", &[("x-api-key", token)]).await.json()
}

#[tokio::test]
async fn tokens_of_the_issuer_follow_its_keys_and_its_groups() {
    let (issuer, server, _fake, served) = served().await;
    let token = issuer.token(&server, &json!({}));
    // At the start its keys may not be read yet; the request waits for them.
    assert_eq!(chat(&served, &token).await.status, 200);
    assert_eq!(me(&served, &token).await["team"], "ml");
    let made = served.send("POST", "/api/keys", &[("x-api-key", &token)], json!({ "name": "ci" }).to_string()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let key = made.json()["key"].as_str().unwrap().to_owned();
    // A new key of the issuer.
    issuer.set(|state| (state.key, state.key_id) = (key_pair(), "two"));
    let newer = issuer.token(&server, &json!({ "iat": now() + 1 }));
    assert_eq!(chat(&served, &newer).await.status, 200, "it waits for the new key");
    // The newest word of the issuer counts, also for keys and for older tokens.
    let moved = issuer.token(&server, &json!({ "iat": now() + 2, "groups": ["admins"] }));
    for token in [&moved, &key, &newer] {
        let me = me(&served, token).await;
        assert_eq!((&me["role"], &me["team"]), (&json!("admin"), &Value::Null), "{me}");
    }
    // A token that names no groups takes none away.
    let silent = issuer.token(&server, &json!({ "iat": now() + 3, "groups": null }));
    assert_eq!((chat(&served, &silent).await.status, me(&served, &key).await["role"].as_str()), (200, Some("admin")));
    let gone = issuer.token(&server, &json!({ "iat": now() + 3, "groups": ["others"] }));
    let refused = chat(&served, &gone).await;
    assert_eq!((refused.status, refused.error_code().as_str()), (401, "photofinish_unauthorized"));
    assert!(refused.body.contains("no group of ada@example.com may come"), "{}", refused.body);
    for token in [&moved, &key, &newer] {
        let refused = chat(&served, token).await;
        assert!(refused.status == 401 && refused.body.contains("log in again"), "{}", refused.body);
    }
    let back = issuer.token(&server, &json!({ "iat": now() + 4 }));
    assert_eq!((chat(&served, &back).await.status, chat(&served, &key).await.status), (200, 200));
    let audit =
        served.get("/api/audit?subject=user:ada@example.com", &[("x-api-key", "a-token-of-the-file")]).await.json();
    let who: Vec<&str> = audit.as_array().unwrap().iter().map(|line| line["who"].as_str().unwrap()).collect();
    assert_eq!(who, ["the issuer"; 4], "one line for each change: {audit}");
    served.stop().await;
}

#[tokio::test]
async fn a_token_takes_nobody_else_s_name() {
    let (issuer, server, _fake, served) = served().await;
    assert_eq!(chat(&served, &issuer.token(&server, &json!({}))).await.status, 200);
    for (claims, words) in [
        (json!({ "sub": "8", "iat": now() + 5 }), "of another user"),
        (json!({ "sub": "9", "email": "file" }), "of another user"),
        (json!({ "aud": "other" }), "another audience"),
    ] {
        let refused = chat(&served, &issuer.token(&server, &claims)).await;
        assert!(refused.status == 401 && refused.body.contains(words), "{claims}: {}", refused.body);
    }
    served.stop().await;
}

#[tokio::test]
async fn an_issuer_that_is_broken_makes_nobody_else_wait() {
    for (path, status, body) in [
        ("/openid-configuration", 500, "{}"),
        ("/openid-configuration", 200, "<html>"),
        (
            "/openid-configuration",
            200,
            "{\"issuer\": \"https://another.example.com\", \"authorization_endpoint\": \"https://a/\", \"token_endpoint\": \"https://a/\", \"jwks_uri\": \"https://a/\"}",
        ),
        ("/keys", 200, "{\"keys\": [{\"kty\": \"oct\", \"k\": \"AA\"}, 5]}"),
        ("/keys", 200, "[]"),
    ] {
        let (issuer, server) = Issuer::start().await;
        issuer.set(|state| state.instead.push((path, status, body.to_owned())));
        let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
        let served = Setup::new(&config(&server.base_url(), &fake)).serve().await;
        assert_eq!(chat(&served, "a-token-of-the-file").await.status, 200);
        let token = issuer.token(&server, &json!({}));
        let unread = chat(&served, &token).await;
        assert_eq!((unread.status, unread.error_code().as_str()), (503, "photofinish_keys_unavailable"), "{body}");
        let begun = served.get("/dashboard/login", &[]).await;
        if path == "/openid-configuration" {
            assert_eq!(begun.status, 503, "{body}: {}", begun.body);
            assert!(begun.body.contains("the issuer:") && !begun.body.contains("<html>"), "{}", begun.body);
        }
        issuer.set(|state| state.instead.clear());
        let well = async {
            while chat(&served, &token).await.status != 200 {
                pause().await;
            }
        };
        soon("the issuer is well again", well).await;
        served.stop().await;
    }
}

/// The value of a cookie that an answer sets.
fn cookie(answer: &Response, name: &str) -> Option<String> {
    let set = answer.headers.iter().filter(|(known, _)| known == "set-cookie");
    set.filter_map(|(_, value)| value.split(';').next()?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
        .next()
}

fn parameter(url: &str, name: &str) -> String {
    let query = url.split_once('?').unwrap().1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap().to_owned()
}

#[tokio::test]
async fn a_browser_logs_in_and_only_with_the_login_that_it_began() {
    let (issuer, _server, _fake, served) = served().await;
    let begin = async || {
        let begun = served.get("/dashboard/login", &[]).await;
        assert_eq!(begun.status, 303, "{}", begun.body);
        let url = begun.header("location").to_owned();
        (cookie(&begun, "photofinish-login").unwrap(), parameter(&url, "state"), parameter(&url, "nonce"), url)
    };
    let end = async |kept: &str, query: String| {
        let kept = format!("photofinish-login={kept}");
        served.get(&format!("/dashboard/login/callback?{query}"), &[("cookie", &kept)]).await
    };
    let (kept, state, nonce, url) = begin().await;
    assert!(url.contains("code_challenge_method=S256") && url.contains("scope=openid+email+offline_access"), "{url}");
    assert_eq!(parameter(&url, "redirect_uri"), "http%3A%2F%2Fgateway.example.com%2Fdashboard%2Flogin%2Fcallback");
    let (other, other_state, other_nonce, _) = begin().await;
    for (kept, query, status, words) in [
        ("", format!("code={nonce}&state={state}"), 400, "begin again"),
        ("AAAA", format!("code={nonce}&state={state}"), 400, "begin again"),
        (&kept, format!("code={nonce}&state={other_state}"), 400, "another login"),
        (&other, format!("code={nonce}&state={state}"), 400, "another login"),
        (&kept, format!("code={other_nonce}&state={state}"), 403, "another login"),
        (&kept, format!("code=wrong&state={state}"), 400, "invalid_grant"),
        (&kept, format!("error=access_denied%3Cscript%3E&state={state}"), 403, "access_denied\u{b7}script\u{b7}"),
    ] {
        let refused = end(kept, query.clone()).await;
        assert_eq!(refused.status, status, "{query}: {}", refused.body);
        assert!(refused.body.contains(words), "{query}: {}", refused.body);
        assert_eq!(cookie(&refused, "photofinish-session"), None);
    }
    let done = end(&kept, format!("code={nonce}&state={state}")).await;
    assert_eq!((done.status, done.header("location")), (303, "http://gateway.example.com/dashboard/"), "{}", done.body);
    let session = format!("photofinish-session={}", cookie(&done, "photofinish-session").unwrap());
    let of_session = async || served.get("/api/me", &[("cookie", &session)]).await;
    assert_eq!(of_session().await.json()["user"], "ada@example.com");
    // What the issuer is asked again with is in no answer and no column in plain text.
    let users = served.get("/api/users", &[("x-api-key", "a-token-of-the-file")]).await;
    assert!(users.body.contains("\"subject\":\"7 at http") && !users.body.contains("planted"), "{}", users.body);
    // A newer word ends the session too.
    issuer.set(|state| state.claims = json!({ "groups": [] }));
    let (kept, state, nonce, _) = begin().await;
    let refused = end(&kept, format!("code={nonce}&state={state}")).await;
    assert!(refused.status == 403 && refused.body.contains("no group of"), "{}", refused.body);
    assert_eq!(of_session().await.status, 401);
    let setup = served.stop().await;
    assert_eq!(setup.texts("SELECT sealed FROM login WHERE sealed LIKE '%planted%'").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_command_logs_in_once_a_browser_has_confirmed_it() {
    let (issuer, _server, _fake, served) = served().await;
    issuer.set(|state| state.pending = 2);
    let post = async |body: Value| served.send("POST", "/api/login", &[], body.to_string()).await;
    let begun = post(json!({})).await.json();
    assert_eq!((&begun["code"], &begun["url_with_code"]), (&json!("ABCD-EFGH"), &Value::Null), "{begun}");
    assert!(!begun.to_string().contains("planted"), "{begun}");
    for (body, status, words) in [
        (json!({ "login": "AAAA" }), 400, "begin again"),
        (json!({ "logn": "x" }), 400, "unknown field"),
        (json!({ "login": begun["login"], "expires": "soon" }), 400, "is neither"),
    ] {
        let refused = post(body.clone()).await;
        assert!(refused.status == status && refused.body.contains(words), "{body}: {}", refused.body);
    }
    let made = post(json!({ "login": begun["login"], "name": "laptop", "expires": "90d" })).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made = made.json();
    assert_eq!((&made["user"], &made["name"]), (&json!("ada@example.com"), &json!("laptop")));
    assert_eq!(chat(&served, made["key"].as_str().unwrap()).await.status, 200);
    // Pages of other origins do not ask.
    let foreign = served.send("POST", "/api/login", &[("origin", "https://evil.example.com")], "{}").await;
    assert_eq!(foreign.status, 403);
    served.stop().await;

    // Without [oidc] there is no login, and that is said.
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let plain = format!("{}[users.file]\ntoken = \"a-token-of-the-file\"\n", provider("one", &fake));
    let served = Setup::new(&plain).serve().await;
    assert_eq!(served.get("/api/login", &[]).await.json(), json!({ "issuer": null }));
    for (method, path) in [("POST", "/api/login"), ("GET", "/dashboard/login")] {
        let refused = served.send(method, path, &[], "").await;
        assert!(refused.status == 404 && refused.body.contains("[oidc]"), "{}", refused.body);
    }
    served.stop().await;
}
