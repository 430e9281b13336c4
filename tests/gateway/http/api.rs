//! `/api`: the same numbers as the commands, for who has the role, with checked parameters and without secrets. Races: `api_races`.

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use crate::harness::answer::{Response, read_response, silent};
use crate::harness::process::{self, RunningGateway, asking, provider, words_of};
use crate::support::{FakeProvider, RawClient, Script};

const PATHS: [&str; 13] = [
    "/api/stats",
    "/api/history",
    "/api/races",
    "/api/races/01900000-0000-7000-8000-000000000000",
    "/api/openapi.json",
    "/api/routing",
    "/api/distribution",
    "/api/costs",
    "/api/config",
    "/api/live",
    "/api/replay",
    "/api/runs",
    "/api/runs/x",
];

fn fields(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}"))
}

async fn get(served: &RunningGateway, path: &str) -> Response {
    served.get(path, &[]).await
}

/// Waits until this many races are in the database.
async fn races_written(served: &RunningGateway, races: i64) {
    crate::support::soon("the races", async {
        while served.setup.number("SELECT count(*) FROM race").await < races {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_numbers_are_those_of_the_command() {
    let a = FakeProvider::answering(|_| Script::stream(&["one", " two", " three"])).await;
    let b = FakeProvider::answering(|request| match request.json()["model"].as_str() {
        Some("m") => silent(),
        _ => Script::status(500, &[], "{}"),
    })
    .await;
    let model = "[models.m]\nupstreams = [\"a/m\", \"b/m\"]\naliases = [\"gpt\"]\n";
    let config = format!("{}{}{model}", provider("a", &a), provider("b", &b));
    let served = process::Setup::new(&config).serve().await;
    for model in ["m", "gpt", "m", "b/x", "nobody/x", "m"] {
        served.ask(model).await;
    }
    races_written(&served, 6).await;
    let newest = get(&served, "/api/races?limit=1").await.json();
    // Without an end in the past, the window and with it the goodput would grow between two requests.
    let until = newest["races"][0]["started"].as_str().unwrap();
    for (query, options) in [
        (String::new(), vec![]),
        ("&by=upstream,model,weekday".to_owned(), vec!["--by", "upstream,model,weekday"]),
        ("&by=hour&slo=ttft%3D2s%2Ctpot%3D100ms".to_owned(), vec!["--by", "hour", "--slo", "ttft=2s,tpot=100ms"]),
        ("&provider=b&exact=true".to_owned(), vec!["--provider", "b", "--exact"]),
        ("&model=gpt".to_owned(), vec!["--model", "m"]),
    ] {
        let answer = get(&served, &format!("/api/stats?since=2026-01-01&until={until}{query}")).await;
        let found = served
            .setup
            .run(&[&["stats", "--json", "--since", "2026-01-01", "--until", until][..], &options].concat())
            .await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        assert_eq!(answer.body, found.out, "{query}: {}", found.err);
        assert!(!answer.json().as_array().unwrap().is_empty(), "{query}");
    }
    for (query, options) in [
        ("&metric=goodput&every=1d", vec!["--metric", "goodput", "--every", "1d"]),
        ("&by=concurrency&quantile=p95", vec!["--by", "concurrency", "--quantile", "p95"]),
        ("&metric=client_ttft&by=model&every=1d", vec!["--metric", "client_ttft", "--by", "model", "--every", "1d"]),
    ] {
        let answer = get(&served, &format!("/api/history?since=2026-01-01&until={until}{query}")).await;
        let line = [&["history", "--json", "--since", "2026-01-01", "--until", until][..], &options].concat();
        let found = served.setup.run(&line).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, found.out.as_str()), "{query}: {}", found.err);
        assert!(!answer.json().as_array().unwrap().is_empty(), "{query}");
    }
    let races = get(&served, "/api/races?model=gpt").await.json();
    assert_eq!(races["races"].as_array().map(Vec::len), Some(4), "an alias counts as its model: {races}");
    let groups = get(&served, &format!("/api/stats?until={until}")).await.json();
    let attempts: u64 = groups.as_array().unwrap().iter().map(|group| group["attempts"].as_u64().unwrap()).sum();
    assert_eq!(attempts, 7, "three races of two, and one of one: {groups}");
}

#[tokio::test]
async fn series_that_an_answer_has_no_room_for_are_counted() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let served = process::Setup::new(&provider("a", &fake)).serve().await;
    for (from, to, left_out) in [(0, 62, ""), (62, 64, "2")] {
        for at in from..to {
            served.ask(&format!("a/m{at}")).await;
        }
        races_written(&served, to).await;
        let answer = get(&served, "/api/history?metric=failures").await;
        assert_eq!(answer.header("x-photofinish-left-out"), left_out, "{to} series");
    }
}

async fn with_users() -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["planted-answer"])).await;
    let config = format!(
        "{}api_key = \"planted-key\"\n{}",
        provider("one", &fake),
        "[models.m]\nupstreams = [\"one/m\"]\n[users.ann]\ntoken = \"planted-ann\"\nrole = \"admin\"\n\
         [users.bob]\ntoken = \"planted-bob\"\n[users.prom]\ntoken = \"planted-prom\"\nrole = \"metrics\"\n"
    );
    (fake, process::Setup::new(&config).serve().await)
}

#[tokio::test]
async fn the_api_needs_a_role_and_shows_no_secret() {
    let (_fake, served) = with_users().await;
    let key = [("x-api-key", "planted-bob"), ("x-photofinish-key-one", "planted-brought")];
    let mut body = asking("m");
    body["messages"][0]["content"] = json!("planted-prompt");
    let race = served.chat(&key, &body).await;
    let race = format!("/api/races/{}", race.header("x-photofinish-race"));
    races_written(&served, 1).await;
    for path in PATHS {
        for (headers, status, code) in [
            (&[][..], 401, "photofinish_unauthorized"),
            (&[("x-api-key", "planted-prom")][..], 403, "photofinish_forbidden"),
        ] {
            let (response, heard_code, message) = served.get(path, headers).await.error();
            assert_eq!((response, heard_code.as_str()), (status, code), "{path} {headers:?}: {message}");
        }
    }
    let wrong = PATHS.map(|path| served.get(path, &[("x-api-key", "nobody")]));
    let statuses: Vec<u16> = join_all(wrong).await.iter().map(|answer| answer.status).collect();
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    let admin = [("authorization", "Bearer planted-ann")];
    for path in [
        PATHS[0],
        PATHS[1],
        PATHS[2],
        race.as_str(),
        PATHS[4],
        PATHS[5],
        PATHS[6],
        PATHS[7],
        PATHS[8],
        "/api/stats?by=user",
    ] {
        let answer = served.get(path, &admin).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, "no-store"), "{path}: {}", answer.body);
        assert!(!answer.body.contains("planted"), "{path}: {}", answer.body);
    }
    let whole = served.get(&race, &admin).await.json();
    assert_eq!((&whole["race"]["user"], &whole["attempts"][0]["provider"]), (&json!("bob"), &json!("one")));
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let served = process::Setup::new("").serve().await;
    for (query, param, words) in [
        ("/api/stats?by=planet", Some("by"), &["'planet'", "upstream", "weekday"][..]),
        ("/api/stats?by=hour,hour", Some("by"), &["hour", "twice"]),
        ("/api/stats?since=soon", Some("since"), &["'soon'", "24h", "2026-01-31"]),
        ("/api/stats?since=2200-01-01", Some("since"), &["lies in the future"]),
        ("/api/stats?since=1h&until=2h", Some("since"), &["since must be before until"]),
        (
            "/api/stats?sinse=1h",
            Some("sinse"),
            &["'sinse'", "since, until, model, provider, user, team, source, by, slo"],
        ),
        ("/api/stats?slo=fast", Some("slo"), &["'fast'", "ttft=1s,tpot=50ms"]),
        ("/api/stats?exact=maybe", Some("exact"), &["'maybe'", "true or false"]),
        ("/api/stats?model=a&model=b", Some("model"), &["multiple times"]),
        ("/api/stats?json=true", Some("json"), &["'json'"]),
        ("/api/stats?model=%zz", Some("model"), &["'model=%zz'", "percent-encoded"]),
        ("/api/races?user=%ff", Some("user"), &["'user=%ff'", "UTF-8"]),
        ("/api/stats?compare=true&by=model", Some("compare"), &["'compare'", "'by"]),
        ("/api/stats?compare=true&by=model&exact=true&slo=ttft%3D1s", Some("compare"), &["by", "exact"]),
        ("/api/stats?=1", None, &["unexpected"]),
        ("/api/history?metric=speed", Some("metric"), &["'speed'", "client_ttft", "goodput"]),
        ("/api/history?every=7m", Some("every"), &["'7m'", "15m"]),
        ("/api/history?since=300d&every=1m", Some("every"), &["2000 at most"]),
        ("/api/history?metric=cost&quantile=p5", Some("quantile"), &["client_ttft and tok_s"]),
        ("/api/history?slo=ttft%3D1s", Some("slo"), &["goodput"]),
        ("/api/races?limit=0", Some("limit"), &["'0'", "from 1 to 1000"]),
        ("/api/races?limit=1001", Some("limit"), &["'1001'"]),
        ("/api/races?limit=all", Some("limit"), &["'all'", "a whole number"]),
        ("/api/races?before=yesterday", Some("before"), &["'yesterday'", "UUID"]),
        ("/api/races?outcome=lost", Some("outcome"), &["'lost'", "client_gone"]),
        ("/api/races?upstream=groq", Some("upstream"), &["'groq'", "PROVIDER/MODEL"]),
        ("/api/races/first", Some("race_id"), &["'first'", "UUID"]),
        ("/api/races/%ff", Some("race_id"), &["UUID"]),
    ] {
        let answer = get(&served, query).await;
        let (status, code, message) = answer.error();
        assert_eq!((status, code.as_str()), (400, "photofinish_bad_parameter"), "{query}: {message}");
        assert_eq!(answer.json()["error"]["param"], json!(param), "{query}: {message}");
        assert!(words.iter().all(|word| message.contains(word)) && !message.contains("--"), "{query}: {message}");
    }
    let long = get(&served, &format!("/api/races?outcome={}", "x".repeat(20_000))).await;
    assert!(long.status == 400 && long.body.len() < 4_000);
    let (status, code, _) = get(&served, PATHS[3]).await.error();
    assert_eq!((status, code.as_str()), (404, "photofinish_unknown_race"));
}

#[tokio::test]
async fn the_api_is_read_only() {
    let served = process::Setup::new("").serve().await;
    for path in PATHS {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let answer = served.send(method, path, &[], "").await;
            assert_eq!((answer.status, answer.header("allow")), (405, "GET"), "{method} {path}");
        }
        let answer = served.send("OPTIONS", path, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (204, "GET, HEAD, OPTIONS"), "{path}");
    }
    let mut client = RawClient::connect(served.addr).await;
    client.request("HEAD", "/api/races", &[], "").await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
    // If a body followed, the next answer would not be read.
    client.request("GET", "/api/races", &[], "").await;
    assert_eq!(read_response(&mut client).await.json(), json!({ "races": [], "next": null }));
}

#[tokio::test]
async fn an_unreadable_history_is_reported() {
    let served = process::Setup::new("").serve().await;
    for path in &PATHS[..2] {
        assert_eq!(get(&served, path).await.json(), json!([]), "{path}");
    }
    for name in ["photofinish.db", "photofinish.db-wal", "photofinish.db-shm"] {
        std::fs::remove_file(served.setup.path(name)).unwrap();
    }
    for path in &PATHS[..4] {
        let (status, code, message) = get(&served, path).await.error();
        assert_eq!((status, code.as_str()), (503, "photofinish_history_unavailable"), "{path}: {message}");
        assert!(message.contains("there is no database"), "{message}");
    }
    served.setup.write("photofinish.db", "this is no database".repeat(100));
    for path in &PATHS[..4] {
        let (status, code, message) = get(&served, path).await.error();
        assert_eq!((status, code.as_str()), (500, "photofinish_history_unavailable"), "{path}: {message}");
        assert!(message.contains("not an SQLite database"), "{message}");
    }
    let document = get(&served, PATHS[4]).await.json();
    assert_eq!((&document["openapi"], fields(&document["paths"]).contains_key("/api/stats")), (&json!("3.1.0"), true));
    assert_eq!(get(&served, "/health").await.status, 200);
}

/// A clock was an hour ahead for one of three races, of which the page, the command and the log say so.
#[tokio::test]
async fn answers_say_what_is_dated_after_now() {
    let fake = FakeProvider::answering(|_| Script::stream(&["one", " two", " three"])).await;
    let config = format!("{}[models.m]\nupstreams = [\"a/m\"]\n", provider("a", &fake));
    let served = process::Setup::new(&config).serve().await;
    for _ in 0..3 {
        served.ask("m").await;
    }
    races_written(&served, 3).await;
    let setup = served.stop().await;
    for table in ["race_row", "attempt_row"] {
        let later = format!(
            "UPDATE {table} SET race_id = printf('%08x', (unixepoch() + 3600) * 1000 >> 16) || substr(race_id, 9) \
             WHERE race_id = (SELECT max(race_id) FROM {table})"
        );
        sqlx::query(sqlx::AssertSqlSafe(later)).execute(&mut setup.connect().await).await.unwrap();
    }
    sqlx::query(
        "UPDATE race_row SET started_at = started_at + 3600000000 WHERE race_id = (SELECT max(race_id) FROM race_row)",
    )
    .execute(&mut setup.connect().await)
    .await
    .unwrap();
    let served = setup.serve().await;
    served.process.logged("dated after now").await;
    for path in
        ["/api/stats?since=1h", "/api/history", "/api/costs?since=1h", "/api/usage?since=1h", "/api/distribution"]
    {
        let answer = get(&served, path).await;
        assert!(answer.header("x-photofinish-ahead-until").contains("T"), "{path}: {:?}", answer.headers);
        assert!(!answer.body.contains("\"attempts\":3"), "{path}: {}", answer.body);
    }
    let stats = served.setup.run(&["stats"]).await;
    assert!(
        words_of(&stats.out).contains("2 attempts") && words_of(&stats.out).contains("a clock was ahead"),
        "{}",
        stats.out
    );
}
