//! `/v1/models`, liveness and readiness.

use serde_json::{Value, json};

use crate::harness::process::{CHAT, Setup, provider};
use crate::support::{FakeProvider, Script};

async fn config() -> (FakeProvider, String) {
    let fake = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!(
        "{}{}api_key = \"${{NOT_SET}}\"\n{}",
        provider("on", &fake),
        provider("off", &fake),
        r#"
        [models.plain]
        upstreams = ["on/x", "off/x"]
        aliases = ["gpt-4o-mini", "alias/with/slashes"]
        [models."org/model:free"]
        upstreams = [{ upstream = "on/y", context = 8192 }, { upstream = "off/y", context = 4096 }]
        [models.hidden]
        upstreams = ["off/y"]
        aliases = ["hidden-alias"]
        [users.ann]
        token = "ann-token"
        keys = { off = "ann-own-key" }
        [users.bob]
        token = "bob-token"
        "#
    );
    (fake, config)
}

fn ids(list: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn the_list_is_what_the_caller_may_use() {
    let (_fake, config) = config().await;
    let served = Setup::new(&config).serve().await;
    let list = served.get("/v1/models", &[("x-api-key", "bob-token")]).await;
    assert_eq!(list.header("content-type"), "application/json");
    let list = list.json();
    assert_eq!(list["object"], "list");
    let entry = list["data"].as_array().unwrap().iter().find(|model| model["id"] == "plain").unwrap();
    assert_eq!(*entry, json!({"id": "plain", "object": "model", "created": 0, "owned_by": "photofinish"}));
    let entry = list["data"].as_array().unwrap().iter().find(|model| model["id"] == "org/model:free").unwrap();
    assert_eq!(entry["max_model_len"], 4_096, "the smallest window");
    assert_eq!(entry["context_length"], 4_096, "as OpenRouter names it");
    let visible = ["alias/with/slashes", "gpt-4o-mini", "org/model:free", "plain"];
    assert_eq!(ids(&list), visible);

    let all = ["alias/with/slashes", "gpt-4o-mini", "hidden", "hidden-alias", "org/model:free", "plain"];
    let own = served.get("/v1/models", &[("x-api-key", "ann-token")]).await.json();
    assert_eq!(ids(&own), all, "her own key turns it on");
    let brought = [("x-api-key", "bob-token"), ("x-photofinish-key-off", "k")];
    assert_eq!(ids(&served.get("/v1/models", &brought).await.json()), all);
}

#[tokio::test]
async fn what_the_catalogue_knows_of_a_model_is_told_in_each_vendors_words() {
    let config = "[providers.anthropic]\napi_key = \"k\"\n[models.\"claude-sonnet-4-6\"]\nupstreams = [\"anthropic/claude-sonnet-4-6\"]\n";
    let served = Setup::new(config).serve().await;
    let path = "/v1/models/claude-sonnet-4-6";
    let entry = served.get(path, &[]).await.json();
    let (context, longest) = (entry["context_length"].as_u64().unwrap(), entry["max_output_tokens"].as_u64().unwrap());
    assert!(context >= 200_000 && longest >= 32_000, "{entry}");
    let kinds = entry["architecture"]["input_modalities"].as_array().unwrap();
    assert!(kinds.contains(&json!("text")) && kinds.contains(&json!("image")), "{entry}");
    let parameters = entry["supported_parameters"].as_array().unwrap();
    assert!(parameters.contains(&json!("tools")) && parameters.contains(&json!("reasoning")), "{entry}");
    let of_anthropic = served.get(path, &[("anthropic-version", "2023-06-01")]).await.json();
    assert_eq!((&of_anthropic["max_input_tokens"], &of_anthropic["max_tokens"]), (&json!(context), &json!(longest)));
    let of_gemini = served.get("/v1beta/models/claude-sonnet-4-6", &[]).await.json();
    assert_eq!((&of_gemini["inputTokenLimit"], &of_gemini["outputTokenLimit"]), (&json!(context), &json!(longest)));
    let of_ollama = served.send("POST", "/api/show", &[], "{\"model\":\"claude-sonnet-4-6\"}").await.json();
    assert_eq!(of_ollama["capabilities"], json!(["completion", "tools", "vision", "thinking"]));
}

#[tokio::test]
async fn one_model_is_found_under_every_id() {
    let (_fake, config) = config().await;
    let served = Setup::new(&config).serve().await;
    let bob = [("x-api-key", "bob-token")];
    for (path, id) in [
        ("plain", "plain"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("alias/with/slashes", "alias/with/slashes"),
        ("org/model:free", "org/model:free"),
        ("org%2Fmodel%3Afree", "org/model:free"),
    ] {
        let answer = served.get(&format!("/v1/models/{path}"), &bob).await;
        assert_eq!((answer.status, &answer.json()["id"]), (200, &json!(id)), "{path}");
    }
    for id in ["hidden", "hidden-alias", "nothing-like-it", "on"] {
        let (status, code, _) = served.get(&format!("/v1/models/{id}"), &bob).await.error();
        assert_eq!((status, code.as_str()), (404, "model_not_found"), "{id}");
    }
    let own = served.get("/v1/models/hidden", &[("x-api-key", "ann-token")]).await;
    assert_eq!(own.status, 200);
    let (_, _, message) = served.get("/v1/models/plan", &bob).await.error();
    assert!(message.contains("is not configured") && message.contains("Did you mean plain"), "{message}");
    for id in ["hidden", "hidden-alias"] {
        let (_, _, message) = served.get(&format!("/v1/models/{id}"), &bob).await.error();
        assert!(message.contains("is configured, but none of its providers is on for you"), "{message}");
        assert!(message.contains("x-photofinish-key-") && !message.contains("Did you mean"), "{message}");
    }
}

#[tokio::test]
async fn liveness_and_readiness_are_reported() {
    let (_fake, config) = config().await;
    let served = Setup::new(&config).serve().await;
    for path in ["/healthz", "/health"] {
        let answer = served.get(path, &[]).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"status": "ok"})), "{path}");
    }
    let answer = served.get("/readyz", &[]).await;
    let ready = answer.json();
    assert_eq!(answer.status, 200);
    assert_eq!(ready, json!({"ready": true, "store": "ok", "draining": false}));
}

#[tokio::test]
async fn only_admins_see_the_names_of_providers_and_users() {
    let config = "[providers.waiting-one]\nbase_url = \"http://10.0.0.7:8000\"\ntoken = { file = \"no-file\" }\n\
                  [users.zoe]\ntoken = \"zoe-token\"\nrole = \"admin\"\n[users.xavier]\ntoken = \"xavier-token\"\n";
    let served = Setup::new(config).serve().await;
    let strangers = [&[][..], &[("x-api-key", "xavier-token")], &[("x-api-key", "wrong")]];
    for headers in strangers {
        for path in ["/readyz", "/", "/healthz", "/v1/models", "/metrics", "/api/routing", CHAT, "/nowhere"] {
            let answer = served.get(path, headers).await;
            let head: String = answer.headers.iter().map(|(_, value)| value.as_str()).collect();
            let found = answer.body + &head;
            assert!(
                !["waiting-one", "10.0.0.7", "zoe", "xavier"].iter().any(|name| found.contains(name)),
                "{path}: {found}"
            );
        }
        let ready = served.get("/readyz", headers).await;
        assert_eq!((ready.status, ready.json()), (503, json!({"ready": false, "store": "ok", "draining": false})));
    }
    let ready = served.get("/readyz", &[("x-api-key", "zoe-token")]).await.json();
    assert_eq!((&ready["without_token"], &ready["providers_on"]), (&json!(["waiting-one"]), &json!(0)));
    // Three paths require a token. `/readyz` does not, but counts a wrong one.
    assert_eq!(ready["unauthorized"], 8);
}

#[tokio::test]
async fn without_a_usable_provider_it_is_alive_and_not_ready() {
    let config = "[providers.groq]\napi_key = \"${NOT_SET}\"\n[models.m]\nupstreams = [\"groq/x\"]\n";
    let served = Setup::new(config).serve().await;
    assert_eq!(served.get("/healthz", &[]).await.status, 200);
    let answer = served.get("/readyz", &[]).await;
    assert_eq!((answer.status, &answer.json()["ready"]), (503, &json!(false)));
    assert_eq!(ids(&served.get("/v1/models", &[]).await.json()), Vec::<&str>::new());
}
