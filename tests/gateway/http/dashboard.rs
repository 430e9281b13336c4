//! `/dashboard`: its pages and their headers, and who gets a session. `tests/dashboard` drives a browser.

use std::collections::BTreeSet;

use crate::harness::answer::{Response, read_response};
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Script, soon};

const USERS: &str =
    "[users.ann]\ntoken = \"ann-token\"\nrole = \"admin\"\n[users.prom]\ntoken = \"prom-token\"\nrole = \"metrics\"\n";
const SESSION: &str = "/dashboard/session";

async fn served(settings: &str, more: &str) -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("{settings}{}[models.m]\nupstreams = [\"one/x\"]\n{more}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

async fn log_in(served: &RunningGateway, token: &str) -> Response {
    served.send("POST", SESSION, &[("authorization", &format!("Bearer {token}"))], "").await
}

fn cookie(answer: &Response) -> String {
    let set = answer.header("set-cookie");
    set.split(';').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn pages_come_with_their_headers_compressed_and_only_once() {
    let (_fake, served) = served("", "").await;
    for path in ["/dashboard", "/dashboard/status", "/dashboard/assets/style.css", "/dashboard/nowhere", SESSION] {
        let answer = served.get(path, &[]).await;
        assert_eq!(answer.status, if path.ends_with("nowhere") { 404 } else { 200 }, "{path}");
        let policy: BTreeSet<&str> = answer.header("content-security-policy").split("; ").collect();
        let expected = [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ];
        assert_eq!(policy, BTreeSet::from(expected), "{path}");
        for (name, value) in
            [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("x-frame-options", "DENY")]
        {
            assert_eq!(answer.header(name), value, "{path}");
        }
    }
    for (path, script) in [
        ("/dashboard", "dashboard/assets/app.js"),
        ("/dashboard/", "assets/app.js"),
        ("/dashboard/status", "assets/app.js"),
        ("/dashboard/races/x", "../assets/app.js"),
    ] {
        let answer = served.get(path, &[]).await;
        assert!(answer.status == 200 && answer.body.contains(&format!("src=\"{script}\"")), "{path}: {}", answer.body);
    }
    let plain = served.get("/dashboard", &[]).await;
    assert!(plain.header("content-type") == "text/html; charset=utf-8" && plain.body.contains("<script"));
    let client = |headers: &'static [(&'static str, &'static str)]| {
        let served = &served;
        async move {
            let mut client = crate::support::RawClient::connect(served.addr).await;
            client.request("GET", "/dashboard/assets/style.css", headers, "").await;
            let head = client.head().await;
            let body = client.body(&head).await.unwrap();
            (head, body)
        }
    };
    let (head, small) = client(&[("accept-encoding", "br, gzip;q=0.5")]).await;
    assert_eq!((head.header("content-encoding"), head.header("vary")), (Some("gzip"), Some("accept-encoding")));
    let (other, large) = client(&[("accept-encoding", "gzip;q=0")]).await;
    assert!(other.header("content-encoding").is_none() && small.len() < large.len());
    let (etag, etag_of_plain) = (head.header("etag").unwrap(), other.header("etag").unwrap());
    assert_ne!(etag, etag_of_plain);
    let again = [("accept-encoding", "gzip"), ("if-none-match", etag)];
    let mut client = crate::support::RawClient::connect(served.addr).await;
    client.request("GET", "/dashboard/assets/style.css", &again, "").await;
    let answer = client.head().await;
    assert_eq!((answer.status, answer.header("etag")), (304, Some(etag)));
}

#[tokio::test]
async fn a_token_becomes_a_session_and_one_of_metrics_does_not() {
    let (_fake, served) = served("", USERS).await;
    assert_eq!(served.get("/dashboard", &[]).await.status, 200, "the page needs none");
    assert_eq!(served.get(SESSION, &[]).await.status, 401);
    for (token, status, code) in
        [("prom-token", 403, "photofinish_forbidden"), ("wrong", 401, "photofinish_unauthorized")]
    {
        let answer = log_in(&served, token).await;
        assert_eq!((answer.status, answer.error_code().as_str(), answer.header("set-cookie")), (status, code, ""));
    }
    let answer = log_in(&served, "ann-token").await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    let set = answer.header("set-cookie");
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"), "{set}");
    let cookie = cookie(&answer);
    assert!(cookie.len() > 60 && !cookie.contains("ann"), "{cookie}");
    for path in [SESSION, "/api/stats", "/api/races", "/api/routing", "/api/openapi.json", "/metrics"] {
        assert_eq!(served.get(path, &[("cookie", &cookie)]).await.status, 200, "{path}");
        assert_eq!(served.get(path, &[("cookie", "photofinish-session=guessed")]).await.status, 401, "{path}");
        let token_in_query = format!("{path}?token=ann-token&key=ann-token");
        assert_ne!(served.get(&token_in_query, &[]).await.status, 200, "{path}");
    }
    assert_eq!(served.get(SESSION, &[("cookie", &cookie)]).await.json()["role"], "admin");
    // A wrong token together with a session is a wrong token.
    let both = [("cookie", cookie.as_str()), ("authorization", "Bearer wrong")];
    assert_eq!(served.get("/api/stats", &both).await.status, 401);
    let own = [("cookie", cookie.as_str()), ("origin", "http://localhost")];
    assert_eq!(served.chat(&own, &asking("m")).await.status, 200, "the page itself");
    assert_eq!(served.chat(&own[..1], &asking("m")).await.status, 401, "no browser leaves the origin out");
    assert_eq!(served.send("DELETE", SESSION, &own, "").await.status, 204);
    assert_eq!(served.get("/api/stats", &own).await.status, 401);
    let log = served.process.log();
    assert!(!log.contains("ann-token") && !log.contains(&cookie), "{log}");
}

#[tokio::test]
async fn a_session_goes_with_its_user() {
    let (_fake, served) = served("", USERS).await;
    let cookie = cookie(&log_in(&served, "ann-token").await);
    let cookie = [("cookie", cookie.as_str())];
    assert_eq!(served.get("/api/stats", &cookie).await.status, 200);
    served.setup.configure(&USERS.replace("ann", "eve"));
    // What it drops is logged before a signal accepts it.
    served.process.logged("1 of 1 models are gone").await;
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert_eq!(served.get("/api/stats", &cookie).await.status, 401);
    served.setup.configure(USERS);
    served.process.signal("HUP");
    served.process.logged_times("the new configuration is in force", 2).await;
    assert_eq!(served.get("/api/stats", &cookie).await.status, 401, "it does not come back");
}

#[tokio::test]
async fn a_session_is_not_renewed_by_itself() {
    let (_fake, served) = served("", USERS).await;
    let cookie = cookie(&log_in(&served, "ann-token").await);
    let own = [("cookie", cookie.as_str()), ("origin", "http://localhost")];
    assert_eq!(served.get(SESSION, &own).await.status, 200);
    let again = served.send("POST", SESSION, &own, "").await;
    assert_eq!((again.status, again.header("set-cookie")), (401, ""));
}

#[tokio::test]
async fn other_pages_get_nothing_even_listed_ones() {
    let page = "https://app.example";
    let (_fake, served) = served(&format!("server.cors = [\"{page}\"]\n"), USERS).await;
    let cookie = cookie(&log_in(&served, "ann-token").await);
    let (cookie, listed) = (("cookie", cookie.as_str()), ("origin", page));
    assert_eq!(served.get("/api/stats", &[cookie, listed]).await.status, 401, "a listed page needs a token");
    assert_eq!(served.chat(&[cookie, listed], &asking("m")).await.status, 401);
    let token = ("authorization", "Bearer ann-token");
    assert_eq!(served.get("/api/stats", &[token, listed]).await.status, 200);
    for (method, path) in [("GET", "/dashboard"), ("GET", SESSION), ("POST", SESSION), ("DELETE", SESSION)] {
        for foreign in [("origin", page), ("origin", "https://evil.example"), ("sec-fetch-site", "same-site")] {
            let answer = served.send(method, path, &[token, foreign], "").await;
            assert_eq!((answer.status, answer.error_code().as_str()), (403, "photofinish_foreign_page"), "{path}");
        }
    }
    // A link leads to a page; a frame or a script does not.
    let from = ("sec-fetch-site", "cross-site");
    for (mode, target, status) in
        [("navigate", "document", 200), ("navigate", "iframe", 403), ("no-cors", "script", 403)]
    {
        let headers = [from, ("sec-fetch-mode", mode), ("sec-fetch-dest", target)];
        assert_eq!(served.get("/dashboard/status", &headers).await.status, status, "{target}");
        assert_eq!(served.get("/api/stats", &headers).await.status, 403, "{target}");
    }
    assert_eq!(served.send("POST", CHAT, &[from], "").await.status, 403);
}

#[tokio::test]
async fn without_users_only_for_names_of_the_gateway_s_own() {
    let (_fake, served) = served("", "").await;
    assert_eq!(served.get(SESSION, &[]).await.json()["user"], serde_json::Value::Null);
    let none = served.send("POST", SESSION, &[], "").await;
    assert_eq!((none.status, none.header("set-cookie")), (204, ""));
    for path in ["/dashboard", SESSION, "/api/stats"] {
        let mut client = crate::support::RawClient::connect(served.addr).await;
        client.send(format!("GET {path} HTTP/1.1\r\nhost: evil.example:{}\r\n\r\n", served.addr.port())).await;
        assert_eq!(client.head().await.status, 421, "{path}");
        assert_eq!(served.get(path, &[("origin", "http://evil.example")]).await.status, 403, "{path}");
    }
}

/// On one SQLite file, as on one Postgres.
#[tokio::test]
async fn a_session_holds_at_every_gateway_on_a_database_and_ends_at_all_of_them() {
    let (_fake, one) = served("", USERS).await;
    let second = one.setup.spawn(&["serve"]);
    let addr = second.address("listening on http://").await;
    let at = async |addr, method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let mut client = RawClient::connect(addr).await;
        client.request(method, path, headers, body).await;
        read_response(&mut client).await
    };
    let status = async |addr, cookie: &str| at(addr, "GET", SESSION, &[("cookie", cookie)], "").await.status;
    let gone = async |addr, cookie: &str| soon("it ended", async { while status(addr, cookie).await != 401 {} }).await;
    let root = [("x-api-key", "ann-token")];
    let key = one.send("POST", "/api/keys", &root, "{\"name\": \"ci\"}").await.json();
    soon("the second knows the key", async {
        while at(addr, "GET", "/api/me", &[("x-api-key", key["key"].as_str().unwrap())], "").await.status != 200 {}
    })
    .await;
    let [of_token, of_key] = [&"ann-token".into(), &key["key"]].map(|token| token.as_str().unwrap().to_owned());
    let [first, with_key] = [cookie(&log_in(&one, &of_token).await), cookie(&log_in(&one, &of_key).await)];
    for session in [&first, &with_key] {
        assert_eq!((status(one.addr, session).await, status(addr, session).await), (200, 200));
    }
    for wrong in ["photofinish-session=x", &first[..first.len() - 1], "photofinish-session="] {
        assert_eq!((status(one.addr, wrong).await, status(addr, wrong).await), (401, 401), "{wrong}");
    }
    // The database alone opens no session, and has no token.
    let kept = one.setup.texts("SELECT hex(hash) || ' ' || sealed FROM session").await;
    assert!(kept.len() == 2 && !kept.concat().contains("ann"), "{kept:?}");
    // A log-out at the one ends it at the other, and so does the end of its key.
    let own = [("cookie", first.as_str()), ("origin", "http://localhost")];
    assert_eq!(at(addr, "DELETE", SESSION, &own, "").await.status, 204);
    assert_eq!(status(addr, &first).await, 401);
    gone(one.addr, &first).await;
    assert_eq!(status(addr, &first).await, 401, "it does not come back");
    let path = format!("/api/keys/{}", key["id"].as_str().unwrap());
    assert_eq!(one.send("DELETE", &path, &root, "").await.status, 200);
    gone(addr, &with_key).await;
    // A restart goes on with it, and a user who is gone has none.
    let kept = cookie(&log_in(&one, "ann-token").await);
    let setup = one.stop().await;
    assert_eq!(status(addr, &kept).await, 200);
    let one = setup.serve().await;
    assert_eq!(status(one.addr, &kept).await, 200);
    let text = std::fs::read_to_string(one.setup.path("config.toml")).unwrap();
    std::fs::write(one.setup.path("config.toml"), text.replace("\"ann-token\"", "\"new-token\"")).unwrap();
    gone(one.addr, &kept).await;
    gone(addr, &kept).await;
}
