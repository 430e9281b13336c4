//! `photofinish providers`, and token files that are read while the gateway runs.

use serde_json::{Value, json};

use crate::harness::process::{Setup, asking, provider, words_of};
use crate::support::{FakeProvider, Script};

#[tokio::test]
async fn the_catalogue_is_printed_with_and_without_a_config() {
    let setup = Setup::new("[providers.groq]\napi_key = \"${GROQ_API_KEY}\"").env("GROQ_API_KEY", "planted-key");
    let ran = setup.run(&["providers"]).await;
    let line = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace();
        line.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(line(&ran.out, "groq ")[1..4], ["on", "GROQ_API_KEY", "bills_full"]);
    assert!(!ran.out.contains("planted"), "{}", ran.out);
    let ran = setup.run(&["providers", "--config", "nowhere.toml"]).await;
    assert_eq!((ran.code, line(&ran.out, "groq ")[1].as_str()), (Some(0), "-"));
    assert!(ran.err.contains("nowhere.toml"), "{}", ran.err);
    let ran = setup.run(&["providers", "groq", "--json"]).await;
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json["providers"][0]["name"], &json["providers"][0]["here"]), (&json!("groq"), &json!("on")));
}

#[tokio::test]
async fn wrong_arguments_are_reported() {
    let setup = Setup::new("");
    let ran = setup.run(&["providers", "grok"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("did you mean groq?"), "{}", ran.err);
    setup.write("bad.toml", "[sever]");
    assert_eq!(setup.run(&["providers", "--config", "bad.toml"]).await.code, Some(2));
}

#[tokio::test]
async fn a_provider_is_off_until_its_token_is_there() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!(
        "{}token = {{ file = \"token\", refresh = \"1s\" }}\n[models.llama-fast]\nupstreams = [\"one/x\"]\n",
        provider("one", &fake)
    );
    let setup = Setup::new(&config);
    let check = setup.run(&["check"]).await.out;
    assert!(words_of(&check).contains("token every 1s from the file token"), "{check}");
    let served = setup.serve().await;
    let ready = served.get("/readyz", &[]).await;
    assert_eq!((ready.status, &ready.json()["without_token"]), (503, &json!(["one"])));
    let (status, code, message) = served.chat(&[], &asking("llama-fast")).await.error();
    assert_eq!((status, code.as_str()), (400, "photofinish_no_upstream"));
    assert!(message.contains("there is no token yet"), "{message}");
    served.setup.write("token", "planted-token\n");
    while served.get("/readyz", &[]).await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(served.chat(&[], &asking("llama-fast")).await.status, 200);
    assert_eq!(fake.request(0).await.header("authorization"), Some("Bearer planted-token"));
}
