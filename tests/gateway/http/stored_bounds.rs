//! What is kept of the Responses API has bounds: in items, in bytes, and by caller.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway};
use crate::support::{FakeProvider, RawClient, Script};

const CONVERSATIONS: &str = "/v1/conversations";
const USERS: &str =
    "[users.ann]\ntoken = \"ann-token\"\nrole = \"admin\"\n[users.bob]\ntoken = \"bob-token\"\nrpm = 3\n";

async fn send(gateway: &TestGateway, method: &str, path: &str, user: &str, body: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    let token = format!("Bearer {user}-token");
    client.request(method, path, &[("authorization", &token)], body).await;
    read_response(&mut client).await
}

async fn chat(text: String) -> FakeProvider {
    FakeProvider::answering(move |_| Script::stream(&[&text])).await
}

async fn made(gateway: &TestGateway, user: &str, body: &str) -> String {
    let made = send(gateway, "POST", CONVERSATIONS, user, body).await;
    assert_eq!(made.status, 200, "{}", made.body);
    format!("{CONVERSATIONS}/{}", made.json()["id"].as_str().unwrap())
}

#[tokio::test]
async fn what_is_no_object_or_no_list_of_items_is_refused_and_keeps_nothing() {
    let gateway = Setup::over(&[&chat("x".to_owned()).await]).table(USERS).start().await;
    let path = made(&gateway, "ann", "").await;
    let bytes = gateway.gateway().stored_bytes();
    let broken = [
        "{",
        "[]",
        "3",
        "\"x\"",
        "null",
        "nonsense",
        "{\"items\":",
        "{\"items\":3}",
        "{\"items\":{}}",
        "{\"items\":[3]}",
        "{\"items\":[{},\"x\"]}",
        "{\"items\":[{}],\"items\":[{}]}",
        "{\"items\":[{}]}x",
        "{\"metadata\":[]}",
    ];
    for body in broken {
        for at in [CONVERSATIONS, &path, &format!("{path}/items")] {
            let refused = send(&gateway, "POST", at, "ann", body).await;
            assert_eq!(refused.status, 400, "{at} {body}: {}", refused.body);
            assert_eq!(refused.json()["error"]["type"], "invalid_request_error", "{at} {body}");
        }
    }
    assert_eq!(send(&gateway, "POST", &format!("{path}/items"), "ann", "{}").await.status, 400, "no items");
    assert_eq!(gateway.gateway().stored_bytes(), bytes);
    gateway.stop().await;
}

#[tokio::test]
async fn a_conversation_has_ten_thousand_items_and_is_read_in_pages() {
    let gateway = Setup::over(&[&chat("x".to_owned()).await]).table(USERS).start().await;
    let items =
        |count: usize| format!("{{\"items\":[{}]}}", vec!["{\"role\":\"user\",\"content\":\"y\"}"; count].join(","));
    let refused = send(&gateway, "POST", CONVERSATIONS, "ann", &items(350_000)).await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("items")), "{}", refused.body);
    let path = made(&gateway, "ann", &items(9_999)).await;
    let page = send(&gateway, "GET", &format!("{path}/items?limit=1"), "ann", "").await.json();
    let last = page["last_id"].as_str().unwrap();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (1, &json!(true)));
    let before = send(&gateway, "GET", &format!("{path}/items?limit=2&after={last}"), "ann", "").await.json();
    assert_eq!(before["data"].as_array().unwrap().len(), 2);
    assert_ne!(before["data"][0]["id"], page["data"][0]["id"]);
    assert_eq!(send(&gateway, "POST", &format!("{path}/items"), "ann", &items(2)).await.status, 400);
    assert_eq!(send(&gateway, "POST", &format!("{path}/items"), "ann", &items(1)).await.status, 200);
    let id = path.rsplit('/').next().unwrap();
    let ask = json!({"model": "m", "input": "more", "conversation": id}).to_string();
    let full = send(&gateway, "POST", "/v1/responses", "ann", &ask).await;
    assert_eq!((full.status, &full.json()["error"]["param"]), (400, &json!("conversation")), "{}", full.body);
    gateway.stop().await;
}

#[tokio::test]
async fn references_to_one_large_answer_stop_at_the_bound_of_a_body() {
    let large = "word ".repeat(40_000);
    let fake = chat(large).await;
    let gateway = Setup::over(&[&fake]).table(USERS).start().await;
    let ask = json!({"model": "m", "input": "x"}).to_string();
    let answer = send(&gateway, "POST", "/v1/responses", "ann", &ask).await.json();
    let item = answer["output"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let refer = |count: usize| {
        let references = vec![json!({"type": "item_reference", "id": item}); count];
        json!({"model": "m", "input": references}).to_string()
    };
    let few = send(&gateway, "POST", "/v1/responses", "ann", &refer(2)).await;
    assert_eq!(few.status, 200, "{}", few.body);
    let many = send(&gateway, "POST", "/v1/responses", "ann", &refer(12_000)).await;
    assert_eq!(many.status, 413, "{}", many.body);
    gateway.stop().await;
}

#[tokio::test]
async fn one_caller_leaves_the_others_what_they_keep() {
    let setup = Setup::over(&[&chat("x".to_owned()).await]).server("stored = { size = \"1MiB\" }");
    let gateway = setup.table(USERS).start().await;
    let kept = made(&gateway, "bob", "{\"items\":[{\"role\":\"user\",\"content\":\"mine\"}]}").await;
    let large = json!({"items": [{"role": "user", "content": "z".repeat(200_000)}]}).to_string();
    for _ in 0..12 {
        made(&gateway, "ann", &large).await;
    }
    let mine: Value = send(&gateway, "GET", &format!("{kept}/items"), "bob", "").await.json();
    assert_eq!(mine["data"][0]["content"][0]["text"], "mine");
    gateway.stop().await;
}

#[tokio::test]
async fn making_a_conversation_counts_towards_the_rate() {
    let gateway = Setup::over(&[&chat("x".to_owned()).await]).table(USERS).start().await;
    for _ in 0..3 {
        made(&gateway, "bob", "{}").await;
    }
    let refused = send(&gateway, "POST", CONVERSATIONS, "bob", "{}").await;
    assert_eq!(refused.status, 429, "{}", refused.body);
    let metrics = send(&gateway, "GET", "/metrics", "ann", "").await;
    assert!(metrics.body.contains("photofinish_conversations_total 4"), "{}", metrics.body);
    gateway.stop().await;
}
