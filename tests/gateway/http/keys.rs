//! Keys, users and teams that are made at run time: over `/api` and by command, and what a running gateway makes of them.

use photofinish_config::token_hash;
use serde_json::{Value, json};

use crate::harness::answer::{Response, first_text, stream_after};
use crate::harness::process::{CHAT, RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Gate, RawClient, Script};

const USERS: &str = "[teams.search]\nrpm = 1000\n[users.root]\ntoken = \"root-token\"\nrole = \"admin\"\n\
                     [users.ann]\ntoken = \"ann-token\"\nteam = \"search\"\n";
const ROOT: [(&str, &str); 1] = [("authorization", "Bearer root-token")];

async fn fake() -> FakeProvider {
    FakeProvider::answering(|_| Script::stream(&["a"])).await
}

fn config(fake: &FakeProvider, users: &str) -> String {
    format!("{}[models.m]\nupstreams = [\"one/m\"]\n{users}", provider("one", fake))
}

async fn served(fake: &FakeProvider) -> RunningGateway {
    Setup::new(&config(fake, USERS)).serve().await
}

async fn asked(served: &RunningGateway, method: &str, path: &str, body: Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    served.send(method, path, &ROOT, body).await
}

/// The id and the text of a new key.
async fn made(served: &RunningGateway, body: Value) -> (String, String) {
    let answer = asked(served, "POST", "/api/keys", body).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let answer = answer.json();
    (answer["id"].as_str().unwrap().to_owned(), answer["key"].as_str().unwrap().to_owned())
}

async fn status(served: &RunningGateway, key: &str) -> u16 {
    served.chat(&[("x-api-key", key)], &asking("m")).await.status
}

/// A server that accepts connections and says nothing.
#[tokio::test]
async fn a_key_that_was_known_last_counts_at_once_where_postgres_hangs() {
    let fake = fake().await;
    let first = served(&fake).await;
    let (id, key) = made(&first, json!({ "user": "ann", "name": "ci" })).await;
    first.stop().await;
    let hash: String = token_hash(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let hung = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://u:p@{}/history", hung.local_addr().unwrap());
    let setup = Setup::new(&format!("store.url = \"{url}\"\nstore.spill = \"x.spill.db\"\n{}", config(&fake, USERS)));
    let entry = json!({ "kind": "key", "id": id, "settings": { "user": "ann" }, "version": 1, "sha256": hash });
    setup.write("x.spill.db.keys", format!("{entry}\n"));
    let served = setup.serve().await;
    assert_eq!((status(&served, &key).await, status(&served, "pf_unknown").await), (200, 401));
}

#[tokio::test]
async fn a_key_is_shown_once_counts_at_once_and_is_taken_back_at_once() {
    let fake = fake().await;
    let served = served(&fake).await;
    let (id, key) = made(&served, json!({ "user": "ann", "name": "ci", "expires": "90d", "models": ["m"] })).await;
    assert_eq!(status(&served, &key).await, 200);
    for wrong in [&key[..61], &format!("{key}{key}"), &format!("{key} {key}"), &key.replace("pf_", "pf_a")] {
        let answer = served.chat(&[("x-api-key", wrong)], &asking("m")).await;
        assert_eq!((answer.status, answer.body.contains("checksum")), (401, true), "{wrong}: {}", answer.body);
    }
    let listed = asked(&served, "GET", "/api/keys", Value::Null).await.json();
    assert_eq!((&listed["keys"][0]["id"], &listed["keys"][0]["state"]), (&json!(id), &json!("active")));

    let rotated = asked(&served, "POST", &format!("/api/keys/{id}/rotate"), json!({ "grace": "1h" })).await;
    assert_eq!(rotated.status, 201, "{}", rotated.body);
    let next = rotated.json()["key"].as_str().unwrap().to_owned();
    assert_eq!((status(&served, &key).await, status(&served, &next).await), (200, 200));
    let old = asked(&served, "GET", &format!("/api/keys/{id}"), Value::Null).await.json();
    assert_eq!(old["replaced_by"], rotated.json()["id"]);

    assert_eq!(asked(&served, "DELETE", &format!("/api/keys/{id}"), Value::Null).await.status, 200);
    assert_eq!((status(&served, &key).await, status(&served, &next).await), (401, 200));
    assert_eq!(asked(&served, "DELETE", &format!("/api/keys/{id}"), Value::Null).await.json()["state"], "revoked");
    let audit = asked(&served, "GET", &format!("/api/audit?subject=key:{id}"), Value::Null).await;
    assert_eq!(audit.json().as_array().unwrap().len(), 3, "{}", audit.body);
    assert!(audit.json()[0]["who"] == "root" && audit.json()[2]["before"].is_null(), "{}", audit.body);
    assert_eq!(served.send("GET", "/api/me", &[("x-api-key", &next)], "").await.json()["team"], "search");

    let log = served.process.log();
    let setup = served.stop().await;
    let rows = setup.texts("SELECT caller || ' ' || team || ' ' || caller_key FROM race WHERE outcome = 'ok'").await;
    assert_eq!((rows.len(), rows[0].clone()), (4, format!("ann search {id}")));
    // Neither the key nor its hash is anywhere but in its own column.
    for name in std::fs::read_dir(setup.path(".")).unwrap().map(|file| file.unwrap().path()) {
        // The log of the database goes with its last connection.
        let Ok(bytes) = std::fs::read(&name) else { continue };
        let has = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!has(&key[12..55]) && !has(&next[12..55]), "{}", name.display());
    }
    assert!(!log.contains(&key[12..55]), "{log}");
    assert_eq!(setup.number("SELECT count(*) FROM audit WHERE instr(before || after, 'sha256')").await, 0);
}

#[tokio::test]
async fn a_key_that_replaces_another_goes_on_with_its_limits() {
    let fake = fake().await;
    let served = served(&fake).await;
    let (mut id, mut key) =
        made(&served, json!({ "user": "ann", "name": "ci", "rpm": { "requests": 1, "burst": 3 } })).await;
    for left in [2, 1, 0] {
        assert_eq!(status(&served, &key).await, 200, "{left} are left");
        let rotated = asked(&served, "POST", &format!("/api/keys/{id}/rotate"), json!({ "grace": "1h" })).await.json();
        (id, key) = (rotated["id"].as_str().unwrap().to_owned(), rotated["key"].as_str().unwrap().to_owned());
    }
    assert_eq!(status(&served, &key).await, 429, "the third key of three has the same limits");
    served.stop().await;
}

#[tokio::test]
async fn an_expired_and_a_rotated_key_are_refused() {
    let fake = fake().await;
    let served = served(&fake).await;
    let (id, key) = made(&served, json!({ "user": "ann", "name": "ci" })).await;
    let rotated = asked(&served, "POST", &format!("/api/keys/{id}/rotate"), json!({ "grace": "0s" })).await;
    assert_eq!(rotated.status, 201, "{}", rotated.body);
    let answer = served.chat(&[("x-api-key", &key)], &asking("m")).await;
    assert_eq!((answer.status, answer.body.contains("has expired")), (401, true), "{}", answer.body);
    assert_eq!(status(&served, rotated.json()["key"].as_str().unwrap()).await, 200);
    let again = asked(&served, "POST", &format!("/api/keys/{id}/rotate"), Value::Null).await;
    assert_eq!((again.status, again.error_code()), (409, "photofinish_conflict".to_owned()));
}

#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_is_made() {
    let fake = fake().await;
    let served = served(&fake).await;
    let key = |more: Value| {
        let mut body = json!({ "user": "ann", "name": "ci" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (path, body, status, words) in [
        ("/api/keys", key(json!({ "expires": "2020-01-31" })), 400, "in the past"),
        ("/api/keys", key(json!({ "expires": "0s" })), 400, "in the past"),
        ("/api/keys", key(json!({ "expires": "soon" })), 400, "expires"),
        ("/api/keys", key(json!({ "expires": 5 })), 400, "expires"),
        ("/api/keys", key(json!({ "rmp": 5 })), 400, "rmp"),
        ("/api/keys", key(json!({ "role": "admin" })), 400, "role"),
        ("/api/keys", key(json!({ "revoked_at": "2020-01-31" })), 400, "revoked_at"),
        ("/api/keys", key(json!({ "rpm": 0 })), 400, "rpm"),
        ("/api/keys", key(json!({ "name": "" })), 400, "name"),
        ("/api/keys", key(json!({ "user": "nobody" })), 400, "photofinish user create nobody"),
        ("/api/keys", json!([]), 400, "JSON object"),
        ("/api/users", json!({ "name": "ann" }), 409, "config.toml"),
        ("/api/users", json!({ "name": "bob", "team": "none" }), 400, "photofinish team create none"),
        ("/api/users", json!({ "name": "bob", "role": "yes" }), 400, "admin, viewer, metrics, lead, user"),
        ("/api/teams", json!({ "name": "search" }), 409, "config.toml"),
        ("/api/teams", json!({ "name": "a\u{7}b" }), 400, "name"),
        ("/api/teams", json!({ "name": "other", "budget": { "year": 5 } }), 400, "year"),
    ] {
        let answer = asked(&served, "POST", path, body.clone()).await;
        assert_eq!((answer.status, answer.body.contains(words)), (status, true), "{path} {body}: {}", answer.body);
    }
    for (method, path) in [("PATCH", "/api/users/ann"), ("DELETE", "/api/teams/search"), ("DELETE", "/api/users/root")]
    {
        let answer = asked(&served, method, path, json!({})).await;
        assert_eq!((answer.status, answer.body.contains("config.toml")), (409, true), "{path}: {}", answer.body);
    }
    assert_eq!(asked(&served, "GET", "/api/users/root", Value::Null).await.json()["role"], "admin");
    assert_eq!(asked(&served, "GET", "/api/keys/none", Value::Null).await.error_code(), "photofinish_unknown_account");
    let foreign = [ROOT[0], ("origin", "https://elsewhere.example")];
    for (headers, code) in [
        (&[("x-api-key", "ann-token")][..], "photofinish_forbidden"),
        (&[], "photofinish_unauthorized"),
        (&foreign, "photofinish_foreign_page"),
    ] {
        let body = json!({ "user": "root", "name": "ci" }).to_string();
        assert_eq!(served.send("POST", "/api/keys", headers, body).await.error_code(), code, "{headers:?}");
    }
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT (SELECT count(*) FROM key) + (SELECT count(*) FROM audit)").await, 0);
}

#[tokio::test]
async fn without_users_nobody_needs_a_key() {
    let fake = fake().await;
    let served = Setup::new(&config(&fake, "")).serve().await;
    let answer = served.send("POST", "/api/users", &[], json!({ "name": "bob" }).to_string()).await;
    assert_eq!((answer.status, answer.body.contains(r#"role = \"admin\""#)), (409, true), "{}", answer.body);
}

#[tokio::test]
async fn the_second_of_two_admins_gets_a_conflict() {
    let fake = fake().await;
    let served = served(&fake).await;
    let (id, _) = made(&served, json!({ "user": "ann", "name": "ci" })).await;
    let path = format!("/api/keys/{id}");
    let set = |name: &str, version: Value| asked(&served, "PATCH", &path, json!({ "name": name, "version": version }));
    assert_eq!(set("first", json!(1)).await.json()["version"], 2);
    assert_eq!(set("second", json!(1)).await.error_code(), "photofinish_conflict");
    assert_eq!(asked(&served, "DELETE", &path, json!({ "version": 1 })).await.error_code(), "photofinish_conflict");
    let without = asked(&served, "PATCH", &path, json!({ "name": "third" })).await;
    assert_eq!((without.status, without.body.contains("version")), (400, true), "{}", without.body);
    assert_eq!(asked(&served, "GET", &path, Value::Null).await.json()["name"], "first");
}

#[tokio::test]
async fn a_user_who_is_deleted_ends_what_runs_and_begins_nothing() {
    let gate = Gate::new();
    let held = stream_after(&gate, &["b"]);
    let fake = FakeProvider::answering(move |_| held.clone()).await;
    let served = served(&fake).await;
    for (path, body) in [
        ("/api/teams", json!({ "name": "new", "rpm": 100 })),
        ("/api/users", json!({ "name": "bob", "team": "new", "rpm": 50 })),
    ] {
        let answer = asked(&served, "POST", path, body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let (_, key) = made(&served, json!({ "user": "bob", "name": "ci", "rpm": 5 })).await;
    let me = served.get("/api/me", &[("x-api-key", &key)]).await.json();
    let levels: Vec<&Value> = me["limits"].as_array().unwrap().iter().map(|level| &level["level"]).collect();
    assert_eq!(levels, ["team", "user", "key"], "{me}");
    let team = asked(&served, "DELETE", "/api/teams/new", Value::Null).await;
    assert_eq!((team.status, team.body.contains("bob")), (409, true), "{}", team.body);

    let mut client = RawClient::connect(served.addr).await;
    client.request("POST", CHAT, &[("x-api-key", key.as_str())], asking("m").to_string()).await;
    fake.request(0).await;
    let deleted = asked(&served, "DELETE", "/api/users/bob", Value::Null).await;
    assert_eq!((deleted.status, &deleted.json()["keys_revoked"]), (200, &json!(1)), "{}", deleted.body);
    assert_eq!(status(&served, &key).await, 401);
    gate.open();
    client.head().await;
    assert_eq!(first_text(&mut client).await, "b");
    // The keys of the one do not count for another of the same name.
    assert_eq!(asked(&served, "POST", "/api/users", json!({ "name": "bob" })).await.status, 201);
    assert_eq!(status(&served, &key).await, 401);
}

#[tokio::test]
async fn a_reload_that_drops_a_user_takes_the_keys_along() {
    let fake = fake().await;
    let served = served(&fake).await;
    let (_, key) = made(&served, json!({ "user": "ann", "name": "ci" })).await;
    assert_eq!(status(&served, &key).await, 200);
    let without = USERS.split("[users.ann]").next().unwrap();
    served.setup.configure(&config(&fake, without));
    served.process.logged("it may be half-written").await;
    served.process.signal("HUP");
    served.process.logged("the new configuration is in force").await;
    assert_eq!(status(&served, &key).await, 401);
    served.setup.configure(&config(&fake, USERS));
    served.process.signal("HUP");
    served.process.logged_times("the new configuration is in force", 2).await;
    assert_eq!(status(&served, &key).await, 200);
    // The audit says what the file did.
    let setup = served.stop().await;
    let lines = "SELECT origin || ': ' || coalesce(before, '-') || ' ' || coalesce(after, '-') FROM audit \
                 WHERE subject = 'file:user:ann' ORDER BY after";
    let lines = setup.texts(lines).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("configuration file, on SIGHUP: {") && lines[0].ends_with("} -"), "{lines:?}");
    assert!(lines[1].starts_with("configuration file, on SIGHUP: - {") && !lines[1].contains("token"), "{lines:?}");
}

#[tokio::test]
async fn the_audit_says_what_a_file_changed_and_what_had_it_read() {
    let fake = fake().await;
    let with = |users: &[&str]| {
        let user = |name: &&str| format!("[users.{name}]\ntoken = \"planted-{name}\"\nrole = \"admin\"\n");
        config(&fake, &format!("{USERS}{}", users.iter().map(user).collect::<String>()))
    };
    let setup = served(&fake).await.stop().await;
    // Nobody knows what was before the first start, and a second one finds nothing new.
    let setup = setup.serve().await.stop().await;
    let lines =
        "SELECT who || '|' || origin || '|' || subject || ' ' || coalesce(after, 'gone') FROM audit ORDER BY id";
    assert_eq!(setup.texts(lines).await, Vec::<String>::new());
    // While no gateway runs; by an order; and by itself.
    setup.configure(&with(&["one"]));
    let served = setup.serve().await;
    served.setup.configure(&with(&["one", "two"]));
    assert_eq!(asked(&served, "POST", "/api/reload", Value::Null).await.status, 200);
    served.setup.configure(&with(&["two"]));
    served.process.logged_times("the new configuration is in force", 2).await;
    let setup = served.stop().await;
    let admin = |name: &str| format!("file:user:{name} {{\"role\":\"admin\"}}");
    let expected = [
        format!("|configuration file, at a start|{}", admin("one")),
        format!("root|127.0.0.1|{}", admin("two")),
        "|configuration file|file:user:one gone".to_owned(),
    ];
    assert_eq!(setup.texts(lines).await, expected);
    let setup = setup.serve().await.stop().await;
    assert_eq!(setup.texts(lines).await, expected);
    assert!(!setup.texts("SELECT content FROM audited_file").await.concat().contains("planted"));
}

#[tokio::test]
async fn a_store_that_is_away_makes_no_key() {
    let fake = fake().await;
    let served = served(&fake).await;
    let (id, key) = made(&served, json!({ "user": "ann", "name": "ci" })).await;
    let mut other = served.setup.connect().await;
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
    let answer = asked(&served, "POST", "/api/keys", json!({ "user": "ann", "name": "second" })).await;
    assert_eq!(answer.error_code(), "photofinish_history_unavailable", "{}", answer.body);
    assert_eq!(asked(&served, "DELETE", &format!("/api/keys/{id}"), Value::Null).await.status, 503);
    assert_eq!(status(&served, &key).await, 200);
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    let listed = asked(&served, "GET", "/api/keys", Value::Null).await.json();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1, "{listed}");
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM audit").await, 1);
}
