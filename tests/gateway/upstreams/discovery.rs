//! What providers list: a model that is gone is the last choice, local models are served by name, and a list that cannot be
//! read changes nothing. Not for reading one list: see `model_lists`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::answer::{Response, advance_clock, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::harness::process::{self, CommandOutput};
use crate::support::{FakeProvider, Gate, RawClient, Request, Script, soon};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// A local server's list is kept for as long.
const LOCAL_KEPT_FOR: Duration = Duration::from_secs(300);
/// A model of the catalogue with these hosts, and the ids that they give it.
const MODEL: &str = "[models.\"gpt-oss-120b\"]\npolicy = \"race\"";
const GROQ_ID: &str = "openai/gpt-oss-120b";
const CEREBRAS_ID: &str = "gpt-oss-120b";

pub(super) fn list(ids: &[&str]) -> String {
    let data: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "object": "model" })).collect();
    json!({ "object": "list", "data": data }).to_string()
}

/// Answers a GET with this text and everything else with a stream.
async fn listing(status: u16, text: String) -> FakeProvider {
    FakeProvider::answering(move |request| match request.method.as_str() {
        "GET" => Script::status(status, &[], &text),
        _ => Script::stream(&["hello"]),
    })
    .await
}

fn of_method(fake: &FakeProvider, method: &str) -> Vec<Request> {
    fake.requests().into_iter().filter(|request| request.method == method).collect()
}

pub(super) fn provider(name: &str, fake: &FakeProvider, lines: &str) -> String {
    format!("[providers.{name}]\nbase_url = \"{}\"\n{lines}\n", fake.base_url())
}

/// Both hosts are on, and [`MODEL`] is raced.
fn hosts(groq: &FakeProvider, cerebras: &FakeProvider) -> Setup {
    Setup::new()
        .table(&provider("groq", groq, "api_key = \"planted\""))
        .table(&provider("cerebras", cerebras, "api_key = \"planted\""))
        .model(MODEL)
}

async fn get(gateway: &TestGateway, path: &str) -> Value {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", path, &[], "").await;
    read_response(&mut client).await.json()
}

/// Asks for the status until it is as wanted.
async fn until(gateway: &TestGateway, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    soon("the effect of a list", async {
        loop {
            let found = get(gateway, path).await;
            if wanted(&found) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// The reason for an upstream's place.
fn code<'v>(found: &'v Value, upstream: &str) -> &'v str {
    let why = found["models"][0]["why"].as_array().unwrap();
    why.iter().find(|reason| reason["upstream"] == upstream).unwrap()["code"].as_str().unwrap()
}

async fn ask(gateway: &TestGateway, model: &str) -> Response {
    let body = json!({ "model": model, "stream": true, "messages": [{ "role": "user", "content": "x" }] });
    read_response(&mut gateway.ask(&body).await).await
}

fn names(models: &Value) -> Vec<&str> {
    models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_model_that_its_provider_no_longer_lists_is_left_out_and_says_why() {
    let groq = listing(200, list(&["openai/gpt-oss-20b", "brand-new"])).await;
    let cerebras = listing(200, list(&[CEREBRAS_ID])).await;
    let gateway = hosts(&groq, &cerebras).start().await;
    let gone = format!("groq/{GROQ_ID}");
    let found = until(&gateway, "/api/routing?model=gpt-oss-120b", |found| code(found, &gone) == "unlisted").await;
    let why = found["models"][0]["why"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned();
    assert!(why.starts_with("groq did not list it when asked at 20") && why.ends_with(" UTC"), "{why}");

    let answer = ask(&gateway, "gpt-oss-120b").await;
    assert_eq!(
        (answer.streamed_text().as_str(), answer.header("x-photofinish-upstream")),
        ("hello", "cerebras/gpt-oss-120b")
    );
    assert_eq!(answer.header("x-photofinish-left-out"), gone);
    assert!(of_method(&groq, "POST").is_empty());
    // A caller may still ask for it, and for a model that the catalogue does not have.
    for id in [GROQ_ID, "brand-new"] {
        assert_eq!(ask(&gateway, &format!("groq/{id}")).await.streamed_text(), "hello");
    }
    let asked = of_method(&groq, "GET").remove(0);
    assert_eq!((asked.path.as_str(), asked.header("authorization")), ("/v1/models", Some("Bearer planted")));
    let rows = gateway.stop().await;
    assert_eq!(rows.races[0]["left_out"], format!("{gone}@unlisted"));
    assert!(rows.races[1]["left_out"].is_null());
}

#[tokio::test]
async fn a_name_that_nobody_knows_makes_the_lists_be_asked_again_a_few_times() {
    let asked = Arc::new(AtomicUsize::new(0));
    let fake = {
        let asked = asked.clone();
        FakeProvider::answering(move |request| match request.method.as_str() {
            // It lists the model from the second time on.
            "GET" if asked.fetch_add(1, Relaxed) == 0 => Script::status(200, &[], &list(&["old"])),
            "GET" => Script::status(200, &[], &list(&["old", "new"])),
            _ => Script::stream(&["hello"]),
        })
        .await
    };
    let gateway = Setup::new().table(&provider("mine", &fake, "discover = true")).start().await;
    until(&gateway, "/v1/models", |models| names(models).contains(&"old")).await;
    assert_eq!(ask(&gateway, "new").await.status, 404);
    until(&gateway, "/v1/models", |models| names(models).contains(&"new")).await;
    assert_eq!(ask(&gateway, "new").await.streamed_text(), "hello");
    for n in 0..20 {
        assert_eq!(ask(&gateway, &format!("none-{n}")).await.status, 404);
    }
    until(&gateway, "/v1/models", |_| asked.load(Relaxed) >= 3).await;
    gateway.stop().await;
    assert!(asked.load(Relaxed) <= 4, "{} lists for 21 names", asked.load(Relaxed));
}

#[tokio::test]
async fn if_every_upstream_is_gone_all_are_asked() {
    let groq = listing(200, list(&["openai/gpt-oss-20b"])).await;
    let cerebras = listing(200, list(&["other"])).await;
    let gateway = hosts(&groq, &cerebras).start().await;
    let (one, other) = (format!("groq/{GROQ_ID}"), format!("cerebras/{CEREBRAS_ID}"));
    let both = |found: &Value| code(found, &one) == "unlisted" && code(found, &other) == "unlisted";
    let found = until(&gateway, "/api/routing?model=gpt-oss-120b", both).await;
    assert!(found["models"][0]["why"][0]["text"].as_str().unwrap().ends_with("there is no other"), "{found}");
    let answer = ask(&gateway, "gpt-oss-120b").await;
    assert_eq!((answer.streamed_text().as_str(), answer.header("x-photofinish-left-out")), ("hello", ""));
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 2, "{:#?}", rows.attempts);
}

#[tokio::test]
async fn while_the_listed_upstream_waits_for_a_rate_limit_the_gone_one_is_not_asked() {
    let groq = listing(200, list(&["openai/gpt-oss-20b"])).await;
    let cerebras = FakeProvider::answering(move |request| match request.method.as_str() {
        "GET" => Script::status(200, &[], &list(&[CEREBRAS_ID])),
        _ => Script::status(429, &[("retry-after", "30")], "{}"),
    })
    .await;
    let gateway = hosts(&groq, &cerebras).start().await;
    let gone = format!("groq/{GROQ_ID}");
    until(&gateway, "/api/routing?model=gpt-oss-120b", |found| code(found, &gone) == "unlisted").await;
    for _ in 0..2 {
        let answer = ask(&gateway, "gpt-oss-120b").await;
        assert_eq!((answer.status, answer.header("retry-after").is_empty()), (429, false));
    }
    assert!(of_method(&groq, "POST").is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstream_that_the_file_names_stays_and_a_provider_without_discovery_is_not_asked() {
    let (groq, cerebras) = (listing(200, list(&["other"])).await, listing(200, list(&["other"])).await);
    let custom = listing(200, list(&["other"])).await;
    let setup = Setup::new()
        .table(&provider("cerebras", &cerebras, "api_key = \"planted\"\ndiscover = false"))
        .table(&provider("groq", &groq, "api_key = \"planted\""))
        .table(&provider("custom", &custom, ""))
        .model(&format!("{MODEL}\n[models.mine]\npolicy = \"race\"\nupstreams = [\"groq/ft:mine\", \"custom/x\"]"));
    let gateway = setup.start().await;
    let gone = format!("groq/{GROQ_ID}");
    until(&gateway, "/api/routing?model=gpt-oss-120b", |found| code(found, &gone) == "unlisted").await;
    assert_eq!(ask(&gateway, "mine").await.header("x-photofinish-left-out"), "");
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 2, "{:#?}", rows.attempts);
    // Providers are asked in the order of their names, so these would have been.
    assert!(of_method(&cerebras, "GET").is_empty() && of_method(&custom, "GET").is_empty());
}

#[tokio::test]
async fn a_named_local_server_needs_no_configured_model() {
    let ollama = listing(200, list(&["llama3.2:3b", "groq/trap"])).await;
    let vllm = listing(200, list(&[GROQ_ID])).await;
    let groq = listing(200, list(&[GROQ_ID])).await;
    let setup = Setup::new()
        .race("policy = \"race\"")
        .table(&provider("groq", &groq, "api_key = \"planted\""))
        .table(&provider("ollama", &ollama, ""))
        .table(&provider("vllm", &vllm, ""));
    let gateway = setup.start().await;
    let has = |models: &Value, name: &str| names(models).contains(&name);
    let all = until(&gateway, "/v1/models", |models| has(models, "llama3.2:3b") && has(models, GROQ_ID)).await;
    assert!(!has(&all, "groq/trap"), "that is a name of groq's: {all}");
    assert_eq!(ask(&gateway, "llama3.2:3b").await.upstream(), "ollama/llama3.2:3b");
    for name in ["gpt-oss-120b", GROQ_ID] {
        assert_eq!(ask(&gateway, name).await.streamed_text(), "hello", "{name}");
    }
    let rows = gateway.stop().await;
    for race in [1, 2] {
        let mut raced: Vec<&str> = rows.of(race).iter().map(|row| row["provider"].as_str().unwrap()).collect();
        raced.sort_unstable();
        assert_eq!(raced, ["groq", "vllm"]);
    }
}

#[tokio::test]
async fn a_list_is_kept_for_an_hour_and_asked_for_again_after_a_reload() {
    let groq = listing(200, list(&["other"])).await;
    let gone = format!("groq/{GROQ_ID}");
    let setup = |key: &str| Setup::new().table(&provider("groq", &groq, &format!("api_key = \"{key}\""))).model(MODEL);
    let gateway = setup("one").start().await;
    let routing = "/api/routing?model=gpt-oss-120b";
    until(&gateway, routing, |found| code(found, &gone) == "unlisted").await;
    gateway.reload(&setup("one")).await;
    assert_eq!(
        code(&get(&gateway, routing).await, &gone),
        "unlisted",
        "at once: the list before counts until there is another"
    );
    groq.answered(1).await;
    gateway.reload(&setup("two")).await;
    groq.answered(2).await;
    until(&gateway, routing, |found| code(found, &gone) == "unlisted").await;
    advance_clock(HOUR).await;
    groq.answered(3).await;
    let keys: Vec<Option<String>> =
        of_method(&groq, "GET").iter().map(|request| request.header("authorization").map(str::to_owned)).collect();
    assert_eq!(keys, ["Bearer one", "Bearer one", "Bearer two", "Bearer two"].map(|key| Some(key.to_owned())));
    gateway.stop().await;
}

#[tokio::test]
async fn a_model_of_this_day_is_served_after_a_reload_or_an_hour() {
    let groq = FakeProvider::answering(move |request| match (request.method.as_str(), request.number) {
        ("GET", 0) => Script::status(200, &[], &list(&[GROQ_ID])),
        ("GET", 1) => Script::status(200, &[], &list(&[GROQ_ID, "maker/launched-1"])),
        ("GET", _) => Script::status(200, &[], &list(&[GROQ_ID, "maker/launched-1", "maker/launched-2"])),
        _ => Script::stream(&["hello"]),
    });
    let groq = groq.await;
    let setup = Setup::new().table(&provider("groq", &groq, "api_key = \"planted\""));
    let gateway = setup.start().await;
    groq.answered(0).await;
    let unknown = ask(&gateway, "launched-1").await;
    assert_eq!(unknown.status, 404);
    gateway.reload(&setup).await;
    until(&gateway, "/v1/models", |models| names(models).contains(&"launched-1")).await;
    assert_eq!(ask(&gateway, "launched-1").await.status, 200);
    assert_eq!(of_method(&groq, "POST")[0].json()["model"], "maker/launched-1");
    advance_clock(HOUR).await;
    until(&gateway, "/v1/models", |models| names(models).contains(&"launched-2")).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_local_server_that_did_not_answer_is_asked_again_after_a_reload() {
    let text = list(&["llama3.2:3b"]);
    let vllm = FakeProvider::answering(move |request| match request.number {
        0 => Script::status(503, &[], "{}"),
        _ => Script::status(200, &[], &text),
    });
    let vllm = vllm.await;
    let setup = Setup::new().table(&provider("vllm", &vllm, ""));
    let gateway = setup.start().await;
    vllm.answered(0).await;
    gateway.reload(&setup).await;
    until(&gateway, "/v1/models", |models| names(models) == ["llama3.2:3b"]).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_model_pulled_into_a_local_server_is_served_after_a_reload_or_five_minutes() {
    let answers = Gate::new();
    let held = answers.clone();
    let vllm = FakeProvider::answering(move |request| {
        let script = if request.number == 1 { Script::new().wait(&held) } else { Script::new() };
        script.head(200, &[]).chunk(list(&["a", "b", "c"][..=request.number.min(2)])).end()
    });
    let vllm = vllm.await;
    let setup = Setup::new().table(&provider("vllm", &vllm, ""));
    let gateway = setup.start().await;
    until(&gateway, "/v1/models", |models| names(models) == ["a"]).await;
    gateway.reload(&setup).await;
    vllm.request(1).await;
    assert_eq!(names(&get(&gateway, "/v1/models").await), ["a"], "until the server answers");
    answers.open();
    until(&gateway, "/v1/models", |models| names(models) == ["a", "b"]).await;
    advance_clock(LOCAL_KEPT_FOR).await;
    until(&gateway, "/v1/models", |models| names(models) == ["a", "b", "c"]).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_counts_for_two_days_while_no_newer_one_can_be_read() {
    let text = list(&["other"]);
    let groq = FakeProvider::answering(move |request| match request.number {
        0 => Script::status(200, &[], &text),
        _ => Script::status(503, &[], "{}"),
    });
    let groq = groq.await;
    let gone = format!("groq/{GROQ_ID}");
    let setup = Setup::new().table(&provider("groq", &groq, "api_key = \"planted\"")).model(MODEL);
    let gateway = setup.start().await;
    let routing = "/api/routing?model=gpt-oss-120b";
    until(&gateway, routing, |found| code(found, &gone) == "unlisted").await;
    advance_clock(DAY).await;
    groq.answered(1).await;
    advance_clock(DAY - HOUR).await;
    assert_eq!(code(&get(&gateway, routing).await, &gone), "unlisted", "an outage changes nothing at first");
    advance_clock(2 * HOUR).await;
    until(&gateway, routing, |found| code(found, &gone) != "unlisted").await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_provider_with_a_token_is_asked_with_it() {
    let groq = listing(200, list(&["other"])).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "minted\n").unwrap();
    let token = format!("token = {{ file = \"{}\" }}", path.display());
    let gateway = Setup::new().table(&provider("groq", &groq, &token)).model(MODEL).start().await;
    assert_eq!(groq.request(0).await.header("authorization"), Some("Bearer minted"));
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_changes_nothing() {
    let whole = list(&["other"]);
    let other = listing(200, whole.clone()).await;
    let moved = format!("{}/models", other.base_url());
    for (script, what) in [
        (Script::status(304, &[], ""), "304"),
        (Script::status(500, &[], &whole), "500"),
        (Script::status(200, &[], &whole[..whole.len() / 2]), "half a JSON"),
        (Script::status(302, &[("location", &moved)], &whole), "a redirect"),
    ] {
        let groq = FakeProvider::answering(move |request| match request.method.as_str() {
            "GET" => script.clone(),
            _ => Script::stream(&["hello"]),
        });
        let groq = groq.await;
        let setup =
            |key: &str| Setup::new().table(&provider("groq", &groq, &format!("api_key = \"{key}\""))).model(MODEL);
        let gateway = setup("one").start().await;
        groq.answered(0).await;
        // That it asks with the new key shows that it has finished with the first answer.
        gateway.reload(&setup("two")).await;
        groq.answered(1).await;
        let found = get(&gateway, "/api/routing?model=gpt-oss-120b").await;
        assert_ne!(code(&found, &format!("groq/{GROQ_ID}")), "unlisted", "{what}");
        gateway.stop().await;
    }
    assert!(other.requests().is_empty(), "no redirect is followed");
}

/// `photofinish models`, with a gateway at this address.
async fn models_command(setup: &process::Setup, more: &[&str], gateway: SocketAddr) -> CommandOutput {
    let mut command = setup.command(&[&["models"], more].concat());
    command.env("PHOTOFINISH_LISTEN", gateway.to_string());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    CommandOutput::new(&soon("the command ends", output).await.unwrap())
}

#[tokio::test]
async fn the_command_shows_what_the_running_gateway_knows() {
    let (groq, ollama) = (listing(200, list(&["other"])).await, listing(200, list(&["llama3.2:3b"])).await);
    let groq_table = provider("groq", &groq, "api_key = \"planted\"");
    let config = format!("\n{groq_table}{}{MODEL}\n", provider("ollama", &ollama, ""));
    let served = process::Setup::new(&config).serve().await;
    served.process.logged("groq does not list groq/openai/gpt-oss-120b").await;
    served.process.logged("ollama serves by name: llama3.2:3b").await;
    while !served.get("/v1/models", &[]).await.body.contains("llama3.2:3b") {
        tokio::task::yield_now().await;
    }
    let models = async |more: &[&str]| models_command(&served.setup, more, served.addr).await;
    let drawn = models(&[]).await;
    assert!(
        drawn.out.contains("\n    groq/openai/gpt-oss-120b  groq did not list it when asked at 20"),
        "{}",
        drawn.out
    );
    assert!(drawn.out.ends_with("  The running gateway also serves: llama3.2:3b.\n"), "{}", drawn.out);
    let one = models(&["gpt-oss-120b"]).await;
    assert!(one.out.contains("groq did not list it") && !one.out.contains("llama3.2"), "{}", one.out);
    let found: Value = serde_json::from_str(&models(&["--json"]).await.out).unwrap();
    assert_eq!(found["running"]["served"], json!(["llama3.2:3b"]));
    assert_eq!(found["running"]["unlisted"][0]["upstream"], "groq/openai/gpt-oss-120b");
    assert!(!served.process.log().contains("planted"));
    let setup = served.stop().await;
    let alone: Value = serde_json::from_str(&setup.run(&["models", "--json"]).await.out).unwrap();
    assert!(alone["running"].is_null(), "{alone}");
}

#[tokio::test]
async fn the_command_s_options_choose_among_the_running_gateway_s_models_too() {
    let groq = listing(200, list(&["other"])).await;
    let (ollama, vllm) = (listing(200, list(&["one", "both"])).await, listing(200, list(&["both"])).await);
    let config = format!(
        "\n{}{}{}{MODEL}\naliases = [\"mine\"]\n",
        provider("groq", &groq, "api_key = \"planted\""),
        provider("ollama", &ollama, ""),
        provider("vllm", &vllm, "")
    );
    let served = process::Setup::new(&config).serve().await;
    served.process.logged("groq does not list groq/openai/gpt-oss-120b").await;
    served.process.logged("ollama serves by name: both, one").await;
    served.process.logged("vllm serves by name: both").await;
    for (options, models, unlisted) in [
        (&[][..], &["both", "one"][..], 1),
        (&["--raceable"], &["both"], 0),
        (&["--provider", "groq"], &[], 1),
        (&["--provider", "vllm"], &["both"], 0),
    ] {
        let found = models_command(&served.setup, &[options, &["--json"]].concat(), served.addr).await;
        let found: Value = serde_json::from_str(&found.out).unwrap();
        let running = &found["running"];
        assert_eq!(running["served"], json!(models), "{options:?}");
        assert_eq!(running["unlisted"].as_array().unwrap().len(), unlisted, "{options:?}: {running}");
    }
    served.stop().await;
}

#[tokio::test]
async fn the_json_of_one_model_needs_no_gateway() {
    let setup = process::Setup::new(&format!("\n{MODEL}\n"));
    let gateway = FakeProvider::answering(|_| Script::status(503, &[], "{}")).await;
    let one = models_command(&setup, &["gpt-oss-120b", "--json"], gateway.addr()).await;
    assert!(one.out.contains("\"hosts\"") && gateway.requests().is_empty(), "{}", one.out);
    models_command(&setup, &["--json"], gateway.addr()).await;
    assert_eq!(gateway.requests().len(), 1, "all models are asked for at this address");
}
