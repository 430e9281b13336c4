//! The commands in a directory without a configuration: the keys in the environment are enough.

use crate::harness::process::Setup;
use crate::support::{FakeProvider, Script};

fn empty() -> Setup {
    let setup = Setup::new("");
    std::fs::remove_file(setup.path("config.toml")).unwrap();
    let home = setup.path("home").display().to_string();
    setup.env("HOME", &home)
}

#[tokio::test]
async fn without_a_key_serve_says_what_it_looks_for_and_offers_a_race() {
    for key in ["", "dummy"] {
        let ran = empty().env("OPENAI_API_KEY", key).env("HF_TOKEN", "planted").run(&["serve"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
        for words in ["GROQ_API_KEY", "ANTHROPIC_API_KEY", "  photofinish   ", "photofinish init"] {
            assert!(ran.err.contains(words), "{words}: {}", ran.err);
        }
        let placeholder = ran.err.contains("OPENAI_API_KEY holds a placeholder and no key: openai is off.\n");
        assert_eq!(placeholder, key == "dummy", "{}", ran.err);
        assert!(!ran.err.contains("HF_TOKEN") && !ran.err.contains("planted"), "{}", ran.err);
    }
    let setup = empty();
    let raced = setup.run(&["race", "Hello"]).await;
    assert_eq!(raced.code, Some(0), "{}", raced.err);
    assert!(raced.err.contains("these providers are") && !raced.out.is_empty(), "{}", raced.err);
    // Its history is that of the other commands here.
    let stats = setup.run(&["stats"]).await;
    assert!(stats.code == Some(0) && stats.out.contains("sim-quick/demo"), "{}{}", stats.out, stats.err);
    let check = setup.run(&["check"]).await;
    assert!(check.out.contains("no key of a provider is set") && !check.out.contains("no [models]"), "{}", check.out);
}

#[tokio::test]
async fn the_command_alone_serves_without_a_key_and_with_a_file() {
    // A model server may run on the machine of the test; then it is served, which is no failure.
    let setup = empty().env("OPENAI_API_KEY", "dummy").env("PHOTOFINISH_LISTEN", "127.0.0.1:0");
    let served = setup.serve_by(&[]).await;
    let log = served.process.log();
    assert!(log.contains("OPENAI_API_KEY holds a placeholder") && !log.contains("no [models]"), "{log}");
    let home = served.get("/", &[("accept", "text/html,*/*")]).await;
    assert!(
        home.body.contains("href=dashboard") && home.header("content-type").starts_with("text/html"),
        "{}",
        home.body
    );
    assert_eq!(served.get("/", &[]).await.json()["dashboard"], "/dashboard");
    if served.process.log().contains("providers simulated") {
        assert_eq!(served.ask("demo").await.status, 200);
    }
    let setup = served.stop().await;
    assert!(setup.path("home/.local/state/photofinish/photofinish.db").exists());

    let of_file = Setup::new("providers.sim.simulate = {}\nmodels.m.upstreams = [\"sim/m\"]");
    let served = of_file.serve_by(&[]).await;
    assert_eq!(served.ask("m").await.status, 200);
    served.stop().await;
}

#[tokio::test]
async fn two_keys_serve_the_models_that_they_open() {
    let setup = empty().env("GROQ_API_KEY", "planted").env("CEREBRAS_API_KEY", "planted-other");
    let check = setup.run(&["check"]).await;
    assert_eq!((check.code, check.err.as_str()), (Some(0), ""), "{}", check.out);
    let store = setup.path("home/.local/state/photofinish/photofinish.db").display().to_string();
    assert!(check.out.contains("built in") && check.out.contains(&store), "{}", check.out);
    assert!(!check.out.contains("planted") && !setup.path("home").exists(), "{}", check.out);

    let raceable = setup.run(&["models", "--raceable"]).await;
    assert!(raceable.out.contains("gpt-oss-120b: adaptive, budget 0.1, 2 of 2 upstreams on"), "{}", raceable.out);
    let one = setup.run(&["models", "gpt-oss-120b"]).await;
    assert!(one.code == Some(0) && one.out.contains("together/openai/gpt-oss-120b"), "{}", one.out);
    let dated = setup.run(&["models", "gpt-oss-120b-2099-01-01"]).await;
    assert_eq!(dated.out, format!("gpt-oss-120b-2099-01-01 is a snapshot of gpt-oss-120b\n\n{}", one.out));
    let off = setup.run(&["models", "claude-sonnet-5"]).await;
    assert!(off.code == Some(0) && off.out.contains("ANTHROPIC_API_KEY"), "{}", off.out);
    let unknown = setup.run(&["models", "gpt-oss-12b"]).await;
    assert!(unknown.code == Some(2) && unknown.err.contains("gpt-oss-120b"), "{}", unknown.err);
    let provider = setup.run(&["models", "--provider", "gorq"]).await;
    assert!(provider.code == Some(2) && provider.err.contains("groq"), "{}", provider.err);
}

#[tokio::test]
async fn it_serves_and_lists_them() {
    let setup = empty().env("GROQ_API_KEY", "planted").env("PHOTOFINISH_LISTEN", "127.0.0.1:0");
    let alone = setup.spawn(&[]);
    alone.logged("listening on http://").await;
    assert!(alone.log().contains("nothing races: a second key would help"), "{}", alone.log());
    alone.signal("TERM");
    assert_eq!(alone.ended().await, Some(0), "{}", alone.log());
    let served = setup.serve().await;
    let models = served.get("/v1/models", &[]).await.json();
    let names: Vec<&str> = models["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert!(names.contains(&"gpt-oss-120b") && !names.contains(&"claude-sonnet-5"), "{names:?}");
    let (status, code, message) = served.ask("claude-sonnet-5").await.error();
    assert_eq!((status, code.as_str()), (404, "model_not_found"));
    assert!(message.contains("anthropic (ANTHROPIC_API_KEY)"), "{message}");
    let setup = served.stop().await;
    assert!(setup.path("home/.local/state/photofinish/photofinish.db").exists());
}

#[tokio::test]
async fn a_server_is_benchmarked_and_the_store_is_made() {
    let fake = FakeProvider::answering(|_| Script::stream(&["Hello", " there"])).await;
    let setup = empty();
    let url = fake.base_url();
    let ran = setup.run(&["bench", "--url", &url, "--model", "q", "--concurrency", "1", "--requests", "1"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(setup.path("home/.local/state/photofinish/photofinish.db").exists());
}
