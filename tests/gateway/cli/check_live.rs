//! `photofinish check --live`: which upstreams answer and why the others fail; and the startup log's lines about
//! disabled providers. Not for `check` without a network: see `commands`.

use serde_json::Value;

use crate::harness::process::{CommandOutput, Setup, provider, words_of};
use crate::support::{FakeProvider, Script};

/// A model with these upstreams.
fn model(name: &str, upstreams: &[&str]) -> String {
    format!("[models.{name}]\nupstreams = {upstreams:?}\n")
}

/// The requests for answers, without those for the list of models.
fn asked(fake: &FakeProvider) -> Vec<Value> {
    let requests = fake.requests();
    let asked = requests.iter().filter(|request| !request.path.ends_with("/models"));
    asked.map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

/// The line of an upstream, with single spaces.
fn line(ran: &CommandOutput, upstream: &str) -> String {
    let (_, live) = ran.out.split_once("\nLive\n").unwrap_or_else(|| panic!("{} {}", ran.out, ran.err));
    let mut lines = live.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.find(|line| line.starts_with(upstream)).unwrap_or_else(|| panic!("no {upstream}: {live}"))
}

#[tokio::test]
async fn check_live_reports_working_and_failing_upstreams() {
    let good = FakeProvider::answering(|_| Script::stream(&["Hello", " there"])).await;
    let refused = r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error"}}"#;
    let bad = FakeProvider::answering(move |_| Script::status(401, &[], refused)).await;
    let unknown = r#"{"error":{"message":"The model does not exist","code":"model_not_found"}}"#;
    let other = FakeProvider::answering(move |_| Script::status(404, &[], unknown)).await;
    let page =
        FakeProvider::answering(|_| Script::new().head(200, &[("content-type", "text/html")]).chunk("<html>").end());
    let page = page.await;
    let mut config = provider("good", &good) + &provider("bad", &bad) + "api_key = \"${BAD_KEY}\"\n";
    config += &(provider("other", &other) + &provider("page", &page));
    config += "[providers.off]\nbase_url = \"http://away.invalid\"\napi_key = \"${OFF_KEY}\"\n";
    config += &model("first", &["good/m", "bad/m", "off/m"]);
    config += &model("second", &["good/m", "other/gone", "page/m"]);
    let setup = Setup::new(&config).env("BAD_KEY", "planted-key");
    let ran = setup.run(&["check", "--live"]).await;
    assert_eq!(ran.code, Some(1), "{} {}", ran.out, ran.err);
    assert!(line(&ran, "good/m").starts_with("good/m ok TTFT "), "{}", ran.out);
    assert!(line(&ran, "good/m").ends_with("in all as fake-model"), "{}", ran.out);
    let words = "bad/m FAILED 401: the key in BAD_KEY is refused: put a valid key there (Incorrect API key provided)";
    assert!(words_of(&ran.out).contains(words), "{}", ran.out);
    assert!(line(&ran, "other/gone").starts_with("other/gone FAILED 404: the provider does not know gone, or not at"));
    assert!(words_of(&ran.out).contains("is not the expected API: are base_url and dialect"), "{}", ran.out);
    assert!(ran.out.contains("1 of 4 upstreams answered") && ran.out.contains("OFF_KEY is not set"), "{}", ran.out);
    assert!(ran.out.contains("first: ") && ran.out.contains("2 of 3 upstreams on"), "{}", ran.out);
    assert!(!ran.out.contains(['\x1b']) && !ran.out.contains("planted") && !ran.err.contains("planted"));
    assert_eq!([&good, &bad, &other, &page].map(|fake| asked(fake).len()), [1; 4], "each once");
    assert_eq!((&asked(&good)[0]["max_tokens"], &asked(&good)[0]["model"]), (&16.into(), &"m".into()));
    assert!(!setup.database().exists(), "no row is kept");
}

#[tokio::test]
async fn check_live_succeeds_if_all_upstreams_answer() {
    let vectors = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"vectors","usage":{"prompt_tokens":1,"total_tokens":1}}"#;
    let embeds = FakeProvider::answering(move |_| Script::status(200, &[], vectors)).await;
    // All of its tokens are reasoning that it does not send.
    let thinks = FakeProvider::answering(|_| Script::sse().role().finish("length").usage(9, 16).done().end()).await;
    let mut config = provider("embeds", &embeds) + &provider("thinks", &thinks);
    config += "[providers.sim]\nsimulate = { ttft = \"1ms\", tokens_per_second = 1000 }\n";
    config += &model("all", &["embeds/text-embed-1", "thinks/m", "sim/demo"]);
    let setup = Setup::new(&config);
    let ran = setup.run(&["check", "--live"]).await;
    assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
    assert!(line(&ran, "embeds/text-embed-1").ends_with(" vectors") && line(&ran, "sim/demo").contains(" ok TTFT "));
    assert!(line(&ran, "thinks/m").starts_with("thinks/m ok no text"), "{}", ran.out);
    assert!(embeds.requests().iter().any(|request| request.path.ends_with("/embeddings")));
    assert!(ran.out.contains("3 of 3 upstreams answered") && !setup.database().exists(), "{}", ran.out);
    let nobody = Setup::new("").run(&["check", "--live"]).await;
    assert!(nobody.code == Some(1) && nobody.out.contains("no model lists an upstream that is on"), "{}", nobody.out);
}

#[tokio::test]
async fn each_provider_is_asked_once_unless_all_are_wanted() {
    let fake = FakeProvider::answering(|_| Script::stream(&["Hello"])).await;
    let priced = |model: &str, price: f64| {
        format!("{{ upstream = \"one/{model}\", input_price = {price}, output_price = {price} }}")
    };
    let upstreams = [priced("dear", 9.0), priced("cheap", 0.5), "\"one/unknown\"".to_owned(), priced("embed", 0.1)];
    let config = format!("{}[models.m]\nupstreams = [{}]\n", provider("one", &fake), upstreams.join(", "));
    let setup = Setup::new(&config);
    let ran = setup.run(&["check", "--live"]).await;
    assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
    assert!(line(&ran, "one/cheap").starts_with("one/cheap ok") && ran.out.contains("--all asks all 4"), "{}", ran.out);
    assert_eq!(asked(&fake).len(), 1);
    // This machine bills for nothing.
    assert!(!ran.out.contains("costs"), "{}", ran.out);
    let refused = setup.run(&["check", "--live", "--all"]).await;
    assert!(refused.code == Some(2) && refused.err.contains("add --yes"), "{}", refused.err);
    let ran = setup.run(&["check", "--live", "--all", "--yes"]).await;
    assert!(ran.out.contains("asking 4 upstreams") && asked(&fake).len() == 5, "{}", ran.out);
}

#[tokio::test]
async fn a_provider_is_asked_for_a_model_that_it_lists() {
    let list = |ids: &[&str]| {
        let data: Vec<Value> = ids.iter().map(|id| serde_json::json!({ "id": id, "object": "model" })).collect();
        serde_json::json!({ "object": "list", "data": data }).to_string()
    };
    let serving = |ids: &[&str]| {
        let list = list(ids);
        FakeProvider::answering(move |request| {
            if request.path.ends_with("/models") { Script::status(200, &[], &list) } else { Script::stream(&["Hello"]) }
        })
    };
    // One of the two names is there; neither is; a server of which the catalogue knows nothing.
    let half = serving(&["a-embed", "kept"]).await;
    let groq = serving(&["whisper-large-v3", "openai/gpt-oss-120b", "openai/gpt-oss-20b"]).await;
    let local = serving(&["an-embedding", "pulled"]).await;
    let discovering = |name: &str, fake: &FakeProvider| provider(name, fake) + "discover = true\n";
    let config = discovering("half", &half)
        + &format!("[providers.groq]\nbase_url = \"{}\"\napi_key = \"k\"\n", groq.base_url())
        + &discovering("local", &local)
        + &model("m", &["half/gone", "half/kept", "groq/gone-1", "groq/gone-2", "local/gone"]);
    let ran = Setup::new(&config).run(&["check", "--live"]).await;
    assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
    for (fake, sent, said) in [
        (&half, "kept", "its list lacks half/gone"),
        (&groq, "openai/gpt-oss-20b", "its list lacks groq/gone-1 and 1 more"),
        (&local, "pulled", "its list lacks local/gone"),
    ] {
        let models: Vec<Value> = asked(fake).into_iter().map(|body| body["model"].clone()).collect();
        assert_eq!(models, [sent], "{}", ran.out);
        assert!(words_of(&ran.out).contains(said), "{}", ran.out);
    }
    assert!(ran.out.contains("3 of 3 upstreams answered"), "{}", ran.out);
}

#[tokio::test]
async fn a_signal_ends_check_live() {
    let silent = FakeProvider::answering(|_| Script::new().until_closed()).await;
    let setup = Setup::new(&(provider("silent", &silent) + &model("m", &["silent/m"])));
    let process = setup.spawn(&["check", "--live"]);
    silent.request(0).await;
    process.signal("INT");
    assert_eq!(process.ended().await, Some(130), "{}", process.log());
    silent.closed(0).await;
}

#[tokio::test]
async fn the_startup_log_names_disabled_providers_with_the_reason() {
    let fake = FakeProvider::answering(|_| Script::stream(&["x"])).await;
    let mut config = provider("here", &fake) + &model("half", &["here/m", "groq/m"]) + &model("none", &["groq/m"]);
    config += "[providers.away]\nbase_url = \"http://away.invalid\"\napi_key = \"file:/nonexistent/key\"\n";
    let served = Setup::new(&config).serve().await;
    let off = served.process.logged("providers off: ").await;
    assert!(
        off.contains("groq (GROQ_API_KEY is not set)") && off.contains("away (/nonexistent/key is missing"),
        "{off}"
    );
    let half = served.process.logged("model half: ").await;
    assert!(half.ends_with("model half: race, 1 of 2 upstreams on"), "{half}");
    let none = served.process.logged("model none: ").await;
    assert!(none.ends_with("off: none of its providers is on"), "{none}");
    let setup = served.stop().await;
    let checked = setup.run(&["check"]).await.out;
    assert!(checked.contains("half: race, 1 of 2 upstreams on") && checked.contains("GROQ_API_KEY is not set"));
}
