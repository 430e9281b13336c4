//! `/api/live` against the rows, `/api/config` without secrets, and `/api/reload`.

use serde_json::Value;

use crate::harness::process::{RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Gate, RawClient, Script, soon};

const USERS: &str = "[users.ann]\ntoken = \"planted-ann\"\nrole = \"admin\"\n[users.bob]\ntoken = \"planted-bob\"\n";
const ANN: (&str, &str) = ("authorization", "Bearer planted-ann");

async fn watching(served: &RunningGateway, headers: &[(&str, &str)]) -> RawClient {
    let mut client = RawClient::connect(served.addr).await;
    client.request("GET", "/api/live", headers, "").await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(any_event(&mut client).await["running"], 0);
    client
}

async fn any_event(client: &mut RawClient) -> Value {
    serde_json::from_str(&client.event().await.unwrap().unwrap()).unwrap()
}

/// The next event of a race.
async fn event(client: &mut RawClient) -> Value {
    loop {
        let event = any_event(client).await;
        if event["event"] != "running" {
            return event;
        }
    }
}

/// The events of one race, to its end.
async fn until_done(client: &mut RawClient) -> Vec<Value> {
    let mut events = Vec::new();
    while events.last().is_none_or(|last: &Value| last["event"] != "done") {
        events.push(event(client).await);
    }
    events
}

#[tokio::test]
async fn a_watcher_sees_what_the_rows_say() {
    let never = Gate::new();
    let quick = FakeProvider::answering(|_| Script::stream(&["planted-answer"])).await;
    let late = never.clone();
    let slow = FakeProvider::answering(move |_| Script::sse().wait(&late)).await;
    let config = format!(
        "{}{}[models.m]\nupstreams = [\"slow/x\", \"quick/x\"]\n",
        provider("quick", &quick),
        provider("slow", &slow)
    );
    let served = Setup::new(&config).serve().await;
    let mut client = watching(&served, &[]).await;
    assert_eq!(served.ask("m").await.status, 200);
    let events = soon("the race is reported", until_done(&mut client)).await;
    let named = |upstream: &str| -> Vec<&str> {
        let own = events.iter().filter(|event| event["upstream"] == upstream);
        own.map(|event| event["event"].as_str().unwrap()).collect()
    };
    assert_eq!((&events[0]["event"], &events[0]["model"]), (&"race".into(), &"m".into()));
    assert_eq!(named("quick/x"), ["dispatch", "connect", "headers", "first_token", "end", "done"]);
    assert!(named("slow/x").starts_with(&["dispatch"]) && named("slow/x").ends_with(&["end"]), "{events:?}");
    let done = events.last().unwrap();
    assert_eq!((&done["model"], &done["outcome"], &done["attempts"]), (&"m".into(), &"ok".into(), &2.into()));
    assert!(!events.iter().any(|event| event.to_string().contains("planted")), "{events:?}");
    let setup = served.stop().await;
    let outcomes = setup.texts("SELECT provider || ' ' || outcome FROM attempt ORDER BY provider").await;
    let found = |upstream: &str| {
        let end = events.iter().find(|event| event["upstream"] == upstream && event["event"] == "end").unwrap();
        end["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcomes, [format!("quick {}", found("quick/x")), format!("slow {}", found("slow/x"))]);
    assert_eq!(setup.texts("SELECT race_id FROM race").await, [done["race_id"].as_str().unwrap()]);
    let first = setup.number("SELECT dispatch_us + first_token_us FROM attempt WHERE first_token_us IS NOT NULL").await;
    let first_token = events.iter().find(|event| event["event"] == "first_token").unwrap();
    assert_eq!(first_token["at_ms"].as_f64().unwrap(), first as f64 / 1e3);
    never.open();
}

#[tokio::test]
async fn there_is_room_for_32_and_it_ends_with_the_gateway() {
    let served = Setup::new("").serve().await;
    let mut watchers = Vec::new();
    for _ in 0..32 {
        watchers.push(watching(&served, &[]).await);
    }
    let refused = served.get("/api/live", &[]).await;
    assert_eq!((refused.status, refused.error_code().as_str()), (429, "photofinish_too_many_watchers"));
    assert_eq!(refused.header("retry-after"), "5");
    watchers.pop();
    soon("a place is free", async {
        let mut status = 0;
        while status != 200 {
            let mut client = RawClient::connect(served.addr).await;
            client.request("GET", "/api/live", &[], "").await;
            status = client.head().await.status;
        }
    })
    .await;
    served.stop().await;
}

#[tokio::test]
async fn a_replay_is_what_the_command_prints() {
    let fakes = [
        FakeProvider::answering(|_| Script::stream(&["a"])).await,
        FakeProvider::answering(|_| Script::stream(&["b"])).await,
    ];
    let config = format!(
        "{}{}[models.m]\nupstreams = [\"one/x\", \"two/x\"]\n",
        provider("one", &fakes[0]),
        provider("two", &fakes[1])
    );
    let served = Setup::new(&config).serve().await;
    let last = async |query: &str| -> Value {
        let answer = served.get(&format!("/api/replay?{query}"), &[]).await;
        let events = answer.events();
        serde_json::from_str(events.last().unwrap_or_else(|| panic!("{}", answer.body))).unwrap()
    };
    assert_eq!(last("").await, serde_json::json!({ "event": "nothing", "requests": 0, "plain": 0 }));
    for _ in 0..40 {
        served.ask("m").await;
    }
    soon("the rows", async {
        while served.setup.number("SELECT count(*) FROM race").await < 40 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let found = last("policy=race&policy=adaptive&budget=0.5").await;
    let printed =
        served.setup.run(&["replay", "--policy", "race", "--policy", "adaptive", "--budget", "0.5", "--json"]).await;
    assert_eq!(found["answer"], serde_json::from_str::<Value>(&printed.out).unwrap(), "{}", printed.err);
    let bad = served.get("/api/replay?model=nobody", &[]).await;
    assert_eq!((bad.status, bad.error_code().as_str()), (400, "photofinish_bad_parameter"));
}

#[tokio::test]
async fn the_configuration_has_no_secrets() {
    let config = format!(
        "[providers.one]\nbase_url = \"https://127.0.0.1/planted-path/v1\"\napi_key = \"planted-key\"\n\
         [models.m]\nupstreams = [\"one/x\"]\n{USERS}"
    );
    let served = Setup::new(&config).serve().await;
    assert_eq!(served.get("/api/config", &[("x-api-key", "planted-bob")]).await.status, 403);
    let answer = served.get("/api/config", &[ANN]).await;
    assert!(answer.status == 200 && !answer.body.contains("planted"), "{}", answer.body);
    let found = answer.json();
    assert_eq!((&found["providers"][0]["keys"], &found["models"][0]["model"]), (&1.into(), &"m".into()));
    assert_eq!((&found["users"][0]["user"], &found["users"][0]["role"]), (&"ann".into(), &"admin".into()));
}

#[tokio::test]
async fn a_reload_says_what_came_of_it() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = |model: &str| format!("{}[models.{model}]\nupstreams = [\"one/x\"]\n{USERS}", provider("one", &fake));
    let served = Setup::new(&config("m")).serve().await;
    let reload = |headers: &'static [(&'static str, &'static str)]| served.send("POST", "/api/reload", headers, "");
    assert_eq!(reload(&[]).await.status, 401);
    assert_eq!(reload(&[("x-api-key", "planted-bob")]).await.status, 403);
    assert_eq!(reload(&[ANN, ("origin", "https://evil.example")]).await.status, 403);
    served.setup.configure(&config("n"));
    assert_eq!(reload(&[ANN]).await.json()["reloaded"], true);
    assert_eq!(served.chat(&[ANN], &asking("n")).await.status, 200);
    served.setup.configure(&format!("{}\n[models.p]\nupstream = 3\n", config("o")));
    let (status, code, message) = reload(&[ANN]).await.error();
    assert_eq!((status, code.as_str()), (422, "photofinish_not_reloaded"));
    assert!(
        message.contains("config.toml:") && message.contains("upstream") && !message.contains("planted"),
        "{message}"
    );
    assert_eq!(served.chat(&[ANN], &asking("n")).await.status, 200, "the old one is in force");
    let problems = async || served.get("/api/config", &[ANN]).await.json()["problems"].clone();
    let found = problems().await;
    assert!(found.as_str().is_some_and(|found| found.contains("config.toml:") && message.ends_with(found)), "{found}");
    served.setup.configure(&config("n"));
    assert_eq!(reload(&[ANN]).await.json()["reloaded"], true);
    assert!(problems().await.is_null());
}
