//! Which callers are accepted, and which key is sent: tokens of users, shared keys, keys of a user, keys sent with a
//! request.

use ring::digest::{SHA256, digest};

use crate::harness::process::{RunningGateway, Setup, asking, provider};
use crate::support::{FakeProvider, Gate, Request, Script};

async fn fake() -> FakeProvider {
    FakeProvider::answering(|_| Script::stream(&["a"])).await
}

fn bearer(request: &Request) -> Option<&str> {
    request.header("authorization").and_then(|value| value.strip_prefix("Bearer "))
}

fn keys_sent(fake: &FakeProvider) -> Vec<String> {
    fake.requests().iter().map(|request| bearer(request).unwrap_or("none").to_owned()).collect()
}

const TWO_USERS: &str = r#"
[models.m]
upstreams = ["one/m"]
[users.ann]
token = "${ANN_TOKEN}"
keys = { one = "ann-own-key" }
[users.bob]
token_sha256 = "BOB"
"#;

async fn two_users(fake: &FakeProvider) -> RunningGateway {
    let bob: String = digest(&SHA256, b"bob-token").as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let config = format!("{}api_key = \"shared-key\"\n{}", provider("one", fake), TWO_USERS.replace("BOB", &bob));
    Setup::new(&config).env("ANN_TOKEN", "ann-token").serve().await
}

#[tokio::test]
async fn each_way_of_sending_a_token_works_and_the_row_names_the_user() {
    let fake = fake().await;
    let served = two_users(&fake).await;
    let long = format!("Bearer {}", "x".repeat(8_000));
    for header in [
        ("authorization", "Bearer ann-token"),
        ("authorization", "bearer ann-token"),
        ("authorization", "Bearer  ann-token"),
        ("x-api-key", "ann-token"),
        ("x-api-key", "bob-token"),
    ] {
        let answer = served.chat(&[header], &asking("m")).await;
        assert_eq!(answer.status, 200, "{header:?}: {}", answer.body);
    }
    assert_eq!(served.chat(&[("authorization", &long)], &asking("m")).await.status, 401);
    assert_eq!(keys_sent(&fake), ["ann-own-key", "ann-own-key", "ann-own-key", "ann-own-key", "shared-key"]);
    let setup = served.stop().await;
    assert_eq!(setup.texts("SELECT caller FROM race ORDER BY race_id").await, ["ann", "ann", "ann", "ann", "bob"]);
}

#[tokio::test]
async fn a_caller_s_own_key_wins_and_reaches_its_provider_only() {
    // Both requests are sent before either is answered.
    let both = [Gate::new(), Gate::new()];
    let script = |mine: usize| {
        let script = Script::sse().role().reached(&both[mine]).wait(&both[1 - mine]).token("a").finish("stop").done();
        FakeProvider::answering(move |_| script.clone().end())
    };
    let (one, two) = (script(0).await, script(1).await);
    let config = format!(
        "{}api_key = \"shared-one\"\n{}api_key = \"shared-two\"\n[models.m]\nupstreams = [\"one/m\", \"two/m\"]\n\
         [users.ann]\ntoken = \"ann-token\"\nkeys = {{ one = \"ann-own-key\" }}\n",
        provider("one", &one),
        provider("two", &two)
    );
    let served = Setup::new(&config).serve().await;
    let headers =
        [("x-api-key", "ann-token"), ("x-photofinish-key-one", "brought-key"), ("x-photofinish-policy", "race")];
    assert_eq!(served.chat(&headers, &asking("m")).await.status, 200);
    one.request(0).await;
    two.request(0).await;
    assert_eq!((keys_sent(&one), keys_sent(&two)), (vec!["brought-key".to_owned()], vec!["shared-two".to_owned()]));
    for request in one.requests().into_iter().chain(two.requests()) {
        let sent: Vec<&str> = request.headers.iter().map(|(_, value)| value.as_str()).collect();
        let other = if bearer(&request) == Some("brought-key") { "shared" } else { "brought" };
        for secret in ["ann-token", "ann-own-key", other] {
            assert!(sent.iter().all(|value| !value.contains(secret)), "{secret}: {sent:?}");
        }
    }
    // Only for that request.
    assert_eq!(served.chat(&headers[..1], &asking("one/m")).await.status, 200);
    assert_eq!(keys_sent(&one)[1], "ann-own-key");
}

#[tokio::test]
async fn a_provider_without_a_key_serves_callers_who_bring_one() {
    let fake = fake().await;
    let config = format!("{}api_key = \"${{NOT_SET}}\"\n[models.m]\nupstreams = [\"one/m\"]\n", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    let (status, code, message) = served.ask("m").await.error();
    assert_eq!((status, code.as_str()), (400, "photofinish_no_upstream"));
    assert!(message.contains("NOT_SET") && message.contains("x-photofinish-key-"), "{message}");
    assert_eq!(served.ask("one/m").await.error().1, "photofinish_no_upstream");
    assert!(fake.requests().is_empty());

    assert_eq!(served.chat(&[("x-photofinish-key-one", "brought-key")], &asking("m")).await.status, 200);
    assert_eq!(served.chat(&[("x-photofinish-key-one", "brought-key")], &asking("one/m")).await.status, 200);
    assert_eq!(keys_sent(&fake), ["brought-key", "brought-key"]);
    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["rejected 0 400", "rejected 0 400", "ok 1 200", "ok 1 200"]);
}

#[tokio::test]
async fn shared_keys_take_turns_and_a_rate_limited_key_cools_down() {
    let fake = FakeProvider::answering(|request| match bearer(request) {
        Some("key-b") => Script::status(429, &[("retry-after", "60")], r#"{"error":{"message":"slow down"}}"#),
        _ => Script::stream(&["a"]),
    })
    .await;
    let config = format!(
        "{}api_key = [\"key-a\", \"${{SECOND}}\", \"key-c\"]\n[models.m]\nupstreams = [\"one/m\"]\n",
        provider("one", &fake)
    );
    let served = Setup::new(&config).env("SECOND", "key-b").serve().await;
    for _ in 0..9 {
        assert_eq!(served.ask("m").await.status, 200, "a limited key costs a second exchange, not the answer");
    }
    let sent = keys_sent(&fake);
    let count = |key: &str| sent.iter().filter(|sent| *sent == key).count();
    assert_eq!((sent.len(), count("key-b")), (10, 1), "one 429 sets the key aside, not the others: {sent:?}");
    assert!(count("key-a") >= 3 && count("key-c") >= 3, "{sent:?}");

    let setup = served.stop().await;
    let hashes = setup.texts("SELECT DISTINCT key_id FROM attempt ORDER BY key_id").await;
    let mut expected: Vec<String> = ["key-a", "key-b", "key-c"]
        .iter()
        .map(|key| digest(&SHA256, key.as_ref()).as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect())
        .collect();
    expected.sort();
    assert_eq!(hashes, expected);
}

#[tokio::test]
async fn without_users_and_keys_no_credential_goes_up() {
    let fake = fake().await;
    let served = Setup::new(&format!("{}[models.m]\nupstreams = [\"one/m\"]\n", provider("one", &fake))).serve().await;
    // Apps always send a key.
    let headers = [("authorization", "Bearer sk-of-the-app"), ("x-api-key", "sk-of-the-app")];
    assert_eq!(served.chat(&headers, &asking("m")).await.status, 200);
    let request = fake.request(0).await;
    assert!(request.header("authorization").is_none() && request.header("x-api-key").is_none());
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM attempt WHERE key_id IS NULL").await, 1);
}
