//! What each role may do: every route of the router with every method, over real sockets, against the table of `docs/keys.md`; and
//! whose keys, users and figures somebody sees and changes.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_rest};
use crate::harness::process::{RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, RawClient, Script};
use photofinish_config::{Reach, UserRole};
use photofinish_serve::server::{paths, right_of};

/// `ann` leads `search`, of which `bob` is a plain user, `vic` a viewer and `adm` an admin; `eve` is of another team.
const USERS: &str = r#"
    [teams.search]
    rpm = 1000
    [teams.other]
    rpm = 1000
    [users.root]
    token = "root-token"
    role = "admin"
    [users.vic]
    token = "vic-token"
    role = "viewer"
    team = "search"
    [users.adm]
    token = "adm-token"
    role = "admin"
    team = "search"
    [users.prom]
    token = "prom-token"
    role = "metrics"
    [users.ann]
    token = "ann-token"
    role = "lead"
    team = "search"
    [users.bob]
    token = "bob-token"
    team = "search"
    [users.eve]
    token = "eve-token"
    team = "other"
"#;

async fn served() -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!("{}[models.m]\nupstreams = [\"one/m\"]\n{USERS}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    (fake, served)
}

async fn asked(served: &RunningGateway, token: &str, (method, path): (&str, &str), body: Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let token = if token.contains('_') { token.to_owned() } else { format!("{token}-token") };
    served.send(method, path, &[("x-api-key", &token)], body).await
}

/// Asks, and gives back the status and what a refusal says. Reads no answer that may go on for ever.
async fn refusal(served: &RunningGateway, user: &str, method: &str, path: &str) -> (u16, String) {
    let mut client = RawClient::connect(served.addr).await;
    let token = format!("{user}-token");
    let headers = [("connection", "close"), ("x-api-key", token.as_str())];
    client.request(method, path, &headers[..if user.is_empty() { 1 } else { 2 }], "").await;
    let head = client.head().await;
    let status = head.status;
    let said = if status >= 400 { read_rest(&mut client, head).await.body } else { String::new() };
    (status, said)
}

/// The row of the documented table for a route, with the cells of its roles.
fn documented(table: &str, method: &str, path: &str) -> Option<Vec<(&'static str, String)>> {
    let names = ["root", "vic", "ann", "bob", "prom"];
    let matches = |entry: &str| {
        let (of, entry) = entry.split_once(' ').map_or((None, entry), |(of, entry)| (Some(of), entry));
        let is_path = entry.strip_suffix('…').map_or(path == entry, |start| path.starts_with(start));
        // A longer entry without dots comes first.
        is_path && of.is_none_or(|of| of == method)
    };
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let found = |exact: bool| {
        rows.iter().find(|row| {
            let entries = row[2].split('`').filter(|entry| entry.contains('/'));
            entries.into_iter().any(|entry| matches(entry) && (!exact || !entry.ends_with('…')))
        })
    };
    let row = found(true).or_else(|| found(false))?;
    Some(names.into_iter().zip(row[3..].iter().map(|cell| (*cell).to_owned())).collect())
}

#[tokio::test]
async fn every_route_answers_and_refuses_each_role_as_the_documented_table_says() {
    let (_fake, served) = served().await;
    let document = include_str!("../../../docs/keys.md");
    let table = document.split("| --- | --- | --- | --- | --- | --- | --- |\n").nth(1).unwrap();
    let table = table.split("\n\n").next().unwrap();
    let roles = [UserRole::Admin, UserRole::Viewer, UserRole::Lead, UserRole::User, UserRole::Metrics];
    let mut walked = 0;
    for path in paths() {
        let model = if path == "/v1/models/{*id}" { "m:generateContent" } else { "x" };
        let typed = path.replace("{*", "{").replace("{id}", model).replace("{race_id}", "x").replace("{run}", "x");
        let call = if path.starts_with("/openai") { "m/chat/completions" } else { "m:generateContent" };
        let typed = typed.replace("{item}", "x").replace("{page}", "races").replace("{path}", "one/x");
        let typed = typed.replace("{call}", call);
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if refusal(&served, "root", method, &typed).await.0 == 405 {
                continue;
            }
            let cells =
                documented(table, method, &typed).unwrap_or_else(|| panic!("{method} {path} is not in the table"));
            for ((user, cell), role) in cells.iter().zip(roles) {
                let (status, said) = refusal(&served, user, method, &typed).await;
                let refused = status == 403 && said.contains("may not do this");
                assert_eq!(refused, cell == "–", "{method} {path} of {user}: {status} {said}");
                assert_ne!(status, 401, "{method} {path} of {user}");
                let may = role.may(right_of(&method.parse().unwrap(), path)).map_or("–", Reach::as_str);
                assert_eq!(may, cell, "{method} {path} of {user}");
                walked += 1;
            }
            if cells[4].1 != "all" {
                assert_eq!(refusal(&served, "", method, &typed).await.0, 401, "{method} {path}");
            }
        }
    }
    assert!(walked > 300, "{walked}");
}

/// The id and the text of a new key.
async fn made(served: &RunningGateway, by: &str, body: Value) -> (String, String) {
    let answer = asked(served, by, ("POST", "/api/keys"), body).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let answer = answer.json();
    (answer["id"].as_str().unwrap().to_owned(), answer["key"].as_str().unwrap().to_owned())
}

async fn ids(served: &RunningGateway, by: &str, path: &str) -> Vec<String> {
    let listed = asked(served, by, ("GET", path), Value::Null).await.json();
    let kind = path.trim_start_matches("/api/").split('?').next().unwrap();
    let name = |of: &Value| of.get("id").or(of.get("name")).and_then(Value::as_str).map(str::to_owned);
    let mut ids: Vec<String> = listed[kind].as_array().unwrap().iter().filter_map(name).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_list_comes_in_pages_in_the_order_of_the_ids() {
    let (_fake, served) = served().await;
    for name in ["bea", "ann", "zoe", "a/b & c"] {
        let team = if name == "zoe" { "other" } else { "search" };
        let made = asked(&served, "root", ("POST", "/api/users"), json!({ "name": name, "team": team })).await;
        // A stored one may not have the name of one of the file.
        assert_eq!(made.status, if name == "ann" { 409 } else { 201 }, "{}", made.body);
    }
    for name in ["one", "two", "three"] {
        made(&served, "bob", json!({ "name": name })).await;
        made(&served, "eve", json!({ "name": name })).await;
    }
    for (by, path, all) in [
        ("root", "/api/users?", 10),
        ("vic", "/api/users?", 10),
        // The members of the team.
        ("ann", "/api/users?", 6),
        ("root", "/api/teams?", 2),
        ("root", "/api/keys?", 6),
        ("ann", "/api/keys?", 3),
        ("eve", "/api/keys?", 3),
        ("root", "/api/keys?user=bob&", 3),
        ("bob", "/api/keys?mine=true&", 3),
    ] {
        let kind = path.trim_start_matches("/api/").split('?').next().unwrap();
        let whole = asked(&served, by, ("GET", path.trim_end_matches(['?', '&'])), Value::Null).await.json();
        let name = |of: &Value| of.get("id").unwrap_or(&of["name"]).as_str().unwrap().to_owned();
        let names: Vec<String> = whole[kind].as_array().unwrap().iter().map(name).collect();
        assert!(names.is_sorted() && names.len() == all && whole["next"].is_null(), "{by} {path}: {whole}");
        for limit in [1, 2, 3, all - 1, all, all + 1, 10_000].into_iter().filter(|limit| *limit > 0) {
            let (mut read, mut after, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let behind = after.replace('/', "%2F").replace('&', "%26").replace(' ', "%20");
                let target = format!("{path}after={behind}&limit={limit}");
                let page = asked(&served, by, ("GET", &target), Value::Null).await.json();
                read.extend(page[kind].as_array().unwrap().iter().map(name));
                pages += 1;
                let Some(next) = page["next"].as_str() else { break };
                next.clone_into(&mut after);
            }
            assert_eq!((&read, pages), (&names, all.div_ceil(limit)), "{by} {path} {limit}");
        }
    }
    for wrong in ["limit=0", "limit=10001", "limit=-1", "limit=x", "limit=", "before=x", "user=bob"] {
        let answer = asked(&served, "root", ("GET", &format!("/api/users?{wrong}")), Value::Null).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_user_has_their_own_keys_and_learns_nothing_of_others() {
    let (_fake, served) = served().await;
    let (own, _) = made(&served, "bob", json!({ "name": "laptop" })).await;
    let (others, _) = made(&served, "eve", json!({ "name": "secret-plan" })).await;
    assert_eq!(ids(&served, "bob", "/api/keys").await, std::slice::from_ref(&own));
    assert_eq!(ids(&served, "bob", "/api/keys?user=eve").await, Vec::<String>::new());
    assert_eq!(ids(&served, "root", "/api/keys?mine=true").await, Vec::<String>::new());
    for (method, path, body, expected) in [
        ("GET", format!("/api/keys/{others}"), Value::Null, 404),
        ("DELETE", format!("/api/keys/{others}"), Value::Null, 404),
        ("POST", format!("/api/keys/{others}/rotate"), json!({}), 404),
        ("PATCH", format!("/api/keys/{others}"), json!({ "name": "x", "version": 1 }), 404),
        ("POST", "/api/keys".to_owned(), json!({ "user": "eve", "name": "x" }), 403),
        ("POST", "/api/keys".to_owned(), json!({ "user": "nobody", "name": "x" }), 403),
        ("POST", "/api/keys".to_owned(), json!({ "name": "x", "role": "admin" }), 400),
        ("GET", format!("/api/keys/{own}"), Value::Null, 200),
        ("PATCH", format!("/api/keys/{own}"), json!({ "rpm": 5, "version": 1 }), 200),
        ("POST", format!("/api/keys/{own}/rotate"), json!({}), 201),
        ("DELETE", format!("/api/keys/{own}"), Value::Null, 200),
    ] {
        let answer = asked(&served, "bob", (method, &path), body).await;
        assert_eq!(answer.status, expected, "{method} {path}: {}", answer.body);
        assert!(!answer.body.contains("secret-plan"), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_key_narrows_and_never_widens() {
    let (_fake, served) = served().await;
    let (limited, text) = made(&served, "bob", json!({ "name": "ci", "rpm": 5 })).await;
    let (other, _) = made(&served, "bob", json!({ "name": "laptop" })).await;
    for (method, path, body) in [
        ("POST", "/api/keys".to_owned(), json!({ "name": "x" })),
        ("PATCH", format!("/api/keys/{limited}"), json!({ "rpm": null, "version": 1 })),
        ("POST", format!("/api/keys/{other}/rotate"), json!({})),
        ("DELETE", format!("/api/keys/{other}"), Value::Null),
    ] {
        let answer = asked(&served, &text, (method, &path), body).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (403, "photofinish_forbidden"), "{method} {path}");
        assert!(answer.body.contains("limits of its own"), "{}", answer.body);
    }
    let rotated = asked(&served, &text, ("POST", &format!("/api/keys/{limited}/rotate")), json!({})).await.json();
    assert_eq!(rotated["rpm"], 5, "{rotated}");

    // One without limits makes others, which end with it.
    let (short, text) = made(&served, "bob", json!({ "name": "week", "expires": "7d" })).await;
    let until = asked(&served, "bob", ("GET", &format!("/api/keys/{short}")), Value::Null).await.json();
    let until = &until["expires_at"];
    for body in [json!({ "name": "a" }), json!({ "name": "b", "expires": "300d" })] {
        let made = asked(&served, &text, ("POST", "/api/keys"), body).await.json();
        assert_eq!(made["expires_at"], *until, "{made}");
    }
    let path = format!("/api/keys/{short}");
    let longer = asked(&served, &text, ("PATCH", &path), json!({ "expires": null, "version": 1 })).await.json();
    assert_eq!(longer["expires_at"], *until, "{longer}");
    // An admin's is not bound, and the token of the file neither.
    let (_, text) = made(&served, "root", json!({ "name": "ops", "expires": "7d" })).await;
    let made = asked(&served, &text, ("POST", "/api/keys"), json!({ "user": "bob", "name": "x" })).await.json();
    assert!(made["key"].is_string() && made.get("expires_at").is_none(), "{made}");
}

#[tokio::test]
async fn a_user_has_no_more_keys_than_fifty() {
    let (_fake, served) = served().await;
    let mut last = String::new();
    for n in 0..50 {
        last = made(&served, "bob", json!({ "name": format!("n{n}") })).await.0;
    }
    let one_more = || asked(&served, "bob", ("POST", "/api/keys"), json!({ "name": "more" }));
    let answer = one_more().await;
    assert_eq!((answer.status, answer.body.contains("50 keys")), (409, true), "{}", answer.body);
    assert_eq!(asked(&served, "bob", ("GET", "/api/me"), Value::Null).await.json()["keys"], 50);
    assert_eq!(asked(&served, "bob", ("DELETE", &format!("/api/keys/{last}")), Value::Null).await.status, 200);
    assert_eq!(one_more().await.status, 201);
    made(&served, "root", json!({ "user": "bob", "name": "by an admin" })).await;
}

#[tokio::test]
async fn a_lead_has_the_plain_users_of_the_team_and_their_keys() {
    let (_fake, served) = served().await;
    let (of_admin, _) = made(&served, "adm", json!({ "name": "of the admin" })).await;
    let (of_eve, _) = made(&served, "eve", json!({ "name": "elsewhere" })).await;
    let (of_bob, _) = made(&served, "ann", json!({ "user": "bob", "name": "ci" })).await;
    let (own, _) = made(&served, "ann", json!({ "name": "own" })).await;
    let mut seen = vec![of_admin.clone(), of_bob.clone(), own];
    seen.sort();
    assert_eq!(ids(&served, "ann", "/api/keys").await, seen);
    assert_eq!(ids(&served, "ann", "/api/users").await, ["adm", "ann", "bob", "vic"]);
    assert_eq!(ids(&served, "ann", "/api/teams").await, ["search"]);
    for (method, path, body, expected) in [
        ("POST", "/api/users", json!({ "name": "new" }), 201),
        ("POST", "/api/users", json!({ "name": "new2", "team": "search", "role": "user", "rpm": 9 }), 201),
        ("POST", "/api/users", json!({ "name": "new3", "team": "other" }), 403),
        ("POST", "/api/users", json!({ "name": "new3", "team": null }), 403),
        ("POST", "/api/users", json!({ "name": "new3", "role": "viewer" }), 403),
        ("POST", "/api/users", json!({ "name": "new3", "role": "lead" }), 403),
        ("POST", "/api/users", json!({ "name": "new3", "role": "boss" }), 400),
        ("PATCH", "/api/users/new", json!({ "team": "other", "version": 1 }), 403),
        ("PATCH", "/api/users/new", json!({ "team": null, "version": 1 }), 403),
        ("PATCH", "/api/users/new", json!({ "role": "admin", "version": 1 }), 403),
        ("PATCH", "/api/users/new", json!({ "rpm": 7, "version": 1 }), 200),
        ("GET", "/api/users/eve", Value::Null, 404),
        ("GET", "/api/teams/other", Value::Null, 404),
        ("DELETE", "/api/users/eve", Value::Null, 404),
        ("POST", "/api/keys", json!({ "user": "new", "name": "x" }), 201),
        ("POST", "/api/keys", json!({ "user": "eve", "name": "x" }), 403),
        ("POST", "/api/keys", json!({ "user": "adm", "name": "x" }), 403),
        ("POST", "/api/keys", json!({ "user": "vic", "name": "x" }), 403),
        ("POST", &format!("/api/keys/{of_admin}/rotate"), json!({}), 403),
        ("DELETE", &format!("/api/keys/{of_admin}"), Value::Null, 403),
        ("DELETE", &format!("/api/keys/{of_eve}"), Value::Null, 404),
        ("DELETE", &format!("/api/keys/{of_bob}"), Value::Null, 200),
        ("DELETE", "/api/users/new", Value::Null, 200),
    ] {
        let answer = asked(&served, "ann", (method, path), body.clone()).await;
        assert_eq!(answer.status, expected, "{method} {path} {body}: {}", answer.body);
    }
    assert_eq!(asked(&served, "root", ("GET", "/api/users/new2"), Value::Null).await.json()["team"], "search");
    // What limits leave is seen with them, those of the file too.
    let standing = |by: &'static str, path: &'static str| {
        let served = &served;
        async move { asked(served, by, ("GET", path), Value::Null).await.json()["standing"]["uses"][0]["left"].clone() }
    };
    for (by, path, left) in [
        ("ann", "/api/users/new2", json!(9)),
        ("vic", "/api/teams/search", json!(1000)),
        ("ann", "/api/users/bob", Value::Null),
    ] {
        assert_eq!(standing(by, path).await, left, "{path}");
    }
    let teams = asked(&served, "root", ("GET", "/api/teams"), Value::Null).await.json();
    assert_eq!(
        (&teams["teams"][0]["name"], &teams["teams"][0]["standing"]["uses"][0]["allowed"]),
        (&json!("other"), &json!(1000))
    );
    let lead = asked(&served, "root", ("POST", "/api/users"), json!({ "name": "l", "role": "lead" })).await;
    assert_eq!((lead.status, lead.body.contains("a lead needs a")), (400, true), "{}", lead.body);
}

/// A race of `bob` and one of `eve`, as they are in the history.
async fn two_races() -> (FakeProvider, RunningGateway, Vec<String>) {
    let (fake, served) = served().await;
    let mut races = Vec::new();
    for user in ["bob", "eve"] {
        let answer = served.chat(&[("x-api-key", &format!("{user}-token"))], &asking("m")).await;
        assert_eq!(answer.status, 200);
        races.push(answer.header("x-photofinish-race").to_owned());
    }
    let everything = || async { asked(&served, "root", ("GET", "/api/races"), Value::Null).await.json() };
    crate::support::soon("the rows", async {
        while everything().await["races"].as_array().unwrap().len() < 2 {
            crate::support::pause().await;
        }
    })
    .await;
    (fake, served, races)
}

#[tokio::test]
async fn races_are_cut_to_the_user_and_the_team() {
    let (_fake, served, races) = two_races().await;
    let listed = |by: &'static str, query: &'static str| {
        let served = &served;
        async move {
            let answer = asked(served, by, ("GET", &format!("/api/races{query}")), Value::Null).await;
            let mut users: Vec<String> =
                answer.json()["races"].as_array().into_iter().flatten().map(|race| race["user"].to_string()).collect();
            users.sort();
            (answer.status, users.join(" "))
        }
    };
    for (by, query, status, users) in [
        ("root", "", 200, "\"bob\" \"eve\""),
        ("vic", "", 200, "\"bob\" \"eve\""),
        ("vic", "?user=eve", 200, "\"eve\""),
        ("ann", "", 200, "\"bob\""),
        ("ann", "?user=eve", 200, ""),
        ("ann", "?team=other", 403, ""),
        ("bob", "", 200, "\"bob\""),
        ("bob", "?user=bob", 200, "\"bob\""),
        ("bob", "?user=eve", 403, ""),
        ("bob", "?team=other", 200, ""),
        ("bob", "?source=all", 200, "\"bob\""),
    ] {
        assert_eq!(listed(by, query).await, (status, users.to_owned()), "{by} {query}");
    }
    for (by, of_bob, of_eve) in
        [("root", 200, 200), ("vic", 200, 200), ("ann", 200, 404), ("bob", 200, 404), ("eve", 404, 200)]
    {
        for (race, expected) in races.iter().zip([of_bob, of_eve]) {
            let answer = asked(&served, by, ("GET", &format!("/api/races/{race}")), Value::Null).await;
            assert_eq!(answer.status, expected, "{by}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn figures_are_cut_to_the_user_and_the_team() {
    let (_fake, served, _) = two_races().await;
    for path in [
        "/api/usage?by=user",
        "/api/costs?by=user",
        "/api/stats?by=user",
        "/api/history?by=user&metric=cost",
        "/api/stats?compare=true",
    ] {
        for by in ["bob", "ann", "eve"] {
            let answer = asked(&served, by, ("GET", path), Value::Null).await;
            let others = if by == "eve" { "\"bob\"" } else { "\"eve\"" };
            assert_eq!(answer.status, 200, "{by} {path}: {}", answer.body);
            assert!(!answer.body.contains(others), "{by} {path}: {}", answer.body);
        }
        let all = asked(&served, "vic", ("GET", path), Value::Null).await.body;
        assert!(
            path.contains("compare") || path.contains("history") || (all.contains("bob") && all.contains("eve")),
            "{path}: {all}"
        );
    }
    let used = asked(&served, "ann", ("GET", "/api/usage?by=user"), Value::Null).await.json();
    assert_eq!((&used["groups"][0]["user"], &used["total"]["answers"]), (&json!("bob"), &json!(1)));
    let me = asked(&served, "bob", ("GET", "/api/me"), Value::Null).await.json();
    assert_eq!(
        (&me["role"], &me["team"], &me["today"]["answers"], &me["month"]["answers"]),
        (&json!("user"), &json!("search"), &json!(1), &json!(1)),
        "{me}"
    );
}

#[tokio::test]
async fn a_session_has_the_role_that_its_user_has_now() {
    let (fake, served) = served().await;
    let login = served.send("POST", "/dashboard/session", &[("authorization", "Bearer vic-token")], "").await;
    assert_eq!(login.status, 204);
    let cookie = login.header("set-cookie").split(';').next().unwrap().to_owned();
    let ask = |path: &'static str| {
        let (served, cookie) = (&served, cookie.clone());
        async move { served.get(path, &[("cookie", &cookie)]).await.status }
    };
    let statuses = || async { [ask("/api/routing").await, ask("/api/me").await, ask("/v1/models").await] };
    assert_eq!(statuses().await, [200, 200, 200]);
    for (turn, role, expected) in
        [(1, "user", [403, 200, 200]), (2, "metrics", [403, 403, 403]), (3, "viewer", [200, 200, 200])]
    {
        let users = USERS.replace("role = \"viewer\"", &format!("role = \"{role}\""));
        served.setup.configure(&format!("{}[models.m]\nupstreams = [\"one/m\"]\n{users}", provider("one", &fake)));
        served.process.signal("HUP");
        served.process.logged_times("the new configuration is in force", turn).await;
        assert_eq!(statuses().await, expected, "{role}");
    }
    let metrics = served.send("POST", "/dashboard/session", &[("authorization", "Bearer prom-token")], "").await;
    assert_eq!((metrics.status, metrics.header("set-cookie")), (403, ""));
}

#[tokio::test]
async fn a_token_of_metrics_opens_no_websocket() {
    let (_fake, served) = served().await;
    for (path, user, status) in [
        ("/v1/responses", "bob", 101),
        ("/v1/responses", "prom", 403),
        ("/v1", "bob", 101),
        ("/v1", "prom", 403),
        ("/v1", "vic", 101),
    ] {
        let mut client = RawClient::connect(served.addr).await;
        let token = format!("{user}-token");
        let headers = [
            ("x-api-key", token.as_str()),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        client.request("GET", path, &headers, "").await;
        assert_eq!(client.head().await.status, status, "{path} of {user}");
    }
}
