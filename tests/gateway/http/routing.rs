//! `GET /api/routing`, and the command that prints it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::read_response;
use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::process::{self, RunningGateway, provider};
use crate::support::{FakeProvider, RawClient, Script};

/// A provider that answers after a while, one that always fails, and one that is rate limited.
async fn three() -> [FakeProvider; 3] {
    let script =
        Script::sse().role().delay(Duration::from_millis(80)).token("a").token("b").finish("stop").done().end();
    [
        FakeProvider::answering(move |_| script.clone()).await,
        FakeProvider::answering(|_| Script::status(500, &[], "{}")).await,
        FakeProvider::answering(|_| Script::status(429, &[("retry-after", "200")], "{}")).await,
    ]
}

async fn shown(gateway: &TestGateway, query: &str) -> Value {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", &format!("/api/routing{query}"), &[], "").await;
    let response = read_response(&mut client).await;
    assert_eq!(response.status, 200, "{}", response.body);
    response.json()
}

fn of<'a>(list: &'a Value, member: &str, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[member] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

fn names(list: &Value, member: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn routing_shows_what_was_learnt_and_excluded_upstreams() {
    let [a, b, c] = three().await;
    let breaker = "breaker = { failures = 2, open = \"1h\", open_max = \"3h\" }";
    let gateway = Setup::over(&[&a, &b, &c]).race(breaker).start().await;
    let before = shown(&gateway, "").await;
    assert_eq!(before["models"][0]["order"].as_array().unwrap().len(), 3, "{before}");
    assert_eq!(
        (&before["models"][0]["bucket"], &before["models"][0]["why"][0]["code"]),
        (&json!(null), &json!("listed"))
    );
    for _ in 0..12 {
        read_response(&mut gateway.streaming().await).await;
    }
    read_response(&mut gateway.ask(&json!({"model": "a/other", "stream": true, "messages": [{}]})).await).await;
    let after = shown(&gateway, "").await;
    let rows = gateway.stop().await;

    let known = of(&after["upstreams"], "upstream", "a/m");
    let mut seen: Vec<i64> = rows.attempts.iter().filter_map(|attempt| attempt["first_token_us"].as_i64()).collect();
    seen.sort_unstable();
    let (median_ms, p50_ms) =
        (seen[seen.len() / 2] as f64 / 1e3, known["predicted"][0]["ttft_p50_ms"].as_f64().unwrap());
    assert!((0.7..1.6).contains(&(p50_ms / median_ms)), "predicted {p50_ms}, seen {median_ms}: {known}");
    assert_eq!(known["predicted"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&known["launches"], &known["breaker"], &known["models"]),
        (&json!(12), &json!("closed"), &json!(["m"]))
    );
    assert!(
        known["samples"].as_f64().unwrap() > 8.0 && known["last_observation_s"].as_f64().unwrap() < 60.0,
        "{known}"
    );

    let broken = of(&after["upstreams"], "upstream", "b/m");
    assert_eq!((&broken["breaker"], &broken["predicted"][0]["ttft_p50_ms"]), (&json!("open"), &Value::Null));
    assert!((3_000.0..=3_600.0).contains(&broken["breaker_wait_s"].as_f64().unwrap()), "{broken}");
    let limited = of(&after["upstreams"], "upstream", "c/m");
    assert!((100.0..=200.0).contains(&limited["cooling_down_s"].as_f64().unwrap()), "{limited}");

    let model = of(&after["models"], "model", "m");
    assert_eq!(model["order"], json!(["a/m"]));
    let codes: Vec<&Value> = model["why"].as_array().unwrap().iter().map(|why| &why["code"]).collect();
    assert_eq!(codes, [&json!("listed"), &json!("breaker"), &json!("cooling_down")]);
    assert!(model["bucket"].is_number() && model["unit"] == "tokens", "{model}");
    assert_eq!(of(&after["upstreams"], "upstream", "a/other")["models"], json!([]), "a caller named it");
}

#[tokio::test]
async fn routing_answers_for_a_model_an_alias_or_named_upstreams() {
    let [a, b, _c] = three().await;
    let models =
        "[models.m]\nupstreams = [\"a/m\", \"b/m\"]\naliases = [\"gpt\"]\n[models.other]\nupstreams = [\"b/x\"]";
    let setup = Setup::over(&[&a, &b]).model(models).table("[providers.groq]\napi_key = \"${NO_SUCH_KEY}\"");
    let gateway = setup.start().await;
    for (query, model, upstreams) in [
        ("?model=m", "m", &["a/m", "b/m"][..]),
        ("?model=gpt", "gpt", &["a/m", "b/m"]),
        ("?model=other", "other", &["b/x"]),
        ("?model=b/x,a/y", "b/x,a/y", &["b/x", "a/y"]),
        ("?model=groq%2Fz", "groq/z", &["groq/z"]),
    ] {
        let shown = shown(&gateway, query).await;
        assert_eq!(
            (names(&shown["models"], "model"), names(&shown["upstreams"], "upstream")),
            (vec![model.to_owned()], upstreams.iter().map(ToString::to_string).collect())
        );
    }
    assert_eq!(names(&shown(&gateway, "").await["models"], "model"), ["m", "other"]);
    let off = shown(&gateway, "?model=groq/z").await;
    assert_eq!((&off["upstreams"][0]["on"], &off["models"][0]["order"]), (&json!(false), &json!([])));
    assert!(off["models"][0]["why"][0]["text"].as_str().unwrap().contains("NO_SUCH_KEY"), "{off}");
    assert_eq!(shown(&gateway, "?model=gpt").await["models"][0]["alias_of"], "m");
    for (query, status, code) in
        [("?model=nobody", 404, "model_not_found"), ("?sodel=m", 400, "photofinish_bad_parameter")]
    {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request("GET", &format!("/api/routing{query}"), &[], "").await;
        let response = read_response(&mut client).await;
        assert_eq!((response.status, response.error_code().as_str()), (status, code), "{query}");
    }
    gateway.stop().await;
}

async fn with_users() -> (FakeProvider, RunningGateway) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let users = "[users.ann]\ntoken = \"planted-ann\"\nrole = \"admin\"\n[users.bob]\ntoken = \"planted-bob\"\n";
    let config =
        format!("{}api_key = \"planted-key\"\n[models.m]\nupstreams = [\"one/m\"]\n{users}", provider("one", &fake));
    (fake, process::Setup::new(&config).env("PHOTOFINISH_TOKEN", "planted-ann").serve().await)
}

#[tokio::test]
async fn the_command_shows_the_gateway_s_answer() {
    let (_fake, served) = with_users().await;
    served.chat(&[("x-api-key", "planted-bob")], &process::asking("m")).await;
    let url = format!("http://{}", served.addr);
    let drawn = served.setup.run(&["routing", "--url", &url]).await;
    assert_eq!((drawn.code, drawn.err.as_str()), (Some(0), ""), "{}", drawn.out);
    assert!(drawn.out.starts_with("m: policy ") && drawn.out.contains("\n one/m "), "{}", drawn.out);
    assert!(drawn.out.contains("more: --wide, --explain") && !drawn.out.contains('\x1b'), "{}", drawn.out);
    let json = served.setup.run(&["routing", "--url", &url, "--model", "m", "--json"]).await;
    let shown: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (names(&shown["upstreams"], "upstream"), names(&shown["models"], "model")),
        (vec!["one/m".to_owned()], vec!["m".to_owned()])
    );
    assert!(!(drawn.out + &json.out).contains("planted"));
}

#[tokio::test]
async fn the_command_reports_errors() {
    let (_fake, served) = with_users().await;
    let url = format!("http://{}", served.addr);
    // A port without a listener.
    let closed = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let stranger = FakeProvider::answering(|_| Script::status(404, &[], "{}")).await;
    let (closed, other) = (format!("http://{closed}"), stranger.base_url());
    for (options, code, words) in [
        (&["--url", &url, "--token", "planted-bob"][..], 1, &["role = \"user\"", "admin, viewer"][..]),
        (&["--url", &url, "--token", "planted-nobody"], 1, &["PHOTOFINISH_TOKEN or --token"]),
        (&["--url", &url, "--model", "n"], 1, &["the model \"n\" is not configured"]),
        (&["--url", &closed], 1, &["no gateway answers at", "photofinish serve", "--url"]),
        (&["--url", &other], 1, &["is no photofinish gateway", "--url"]),
        (&[], 1, &["say with --url where the gateway is"]),
        (&["--url", "nowhere"], 2, &["expected a URL such as http://"]),
        (&["--url", &url, "--config", "absent.toml", "--model", ""], 1, &["the model \"\" is not configured"]),
        (&["--config", "absent.toml"], 2, &["absent.toml"]),
    ] {
        let ran = served.setup.run(&[&["routing"], options].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{options:?}: {}", ran.err);
        assert!(words.iter().all(|word| ran.said().contains(word)), "{options:?}: {}", ran.err);
        assert!(!ran.err.contains("planted"), "{}", ran.err);
    }
}
