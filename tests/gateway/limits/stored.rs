//! What a user with limits may do with a response that an upstream made in the background: judged and charged as its making was.

use serde_json::{Value, json};

use super::{TOKEN, spent, usage, user};
use crate::harness::answer::{Response, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, RawClient, Script};

const RESPONSES: &str = "/v1/responses";
const JOB: &str = "/v1/responses/resp_job";
const USERS: &str = "[users.ann]\ntoken = \"token-of-ann\"\nmodels = [\"m\"]\nbudget.day = 0.015\n\
                     [users.bob]\ntoken = \"token-of-bob\"\nmodels = [\"other\"]\n[users.eve]\ntoken = \"token-of-eve\"\n";

/// Makes one job, which is done when it is asked for a second time and cost ten tokens.
async fn working() -> FakeProvider {
    let asks = std::sync::atomic::AtomicUsize::new(0);
    FakeProvider::answering(move |request| {
        if request.path.ends_with("/input_items") {
            return Script::status(200, &[], "{\"object\":\"list\",\"data\":[]}");
        }
        let asked = match (request.method.as_str(), request.path.as_str()) {
            ("GET", JOB) => asks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1,
            _ => 0,
        };
        let mut job = json!({"id": "resp_job", "object": "response", "output": [], "status": "in_progress"});
        if asked > 1 {
            job["status"] = json!("completed");
            job["usage"] = json!({"input_tokens": 9, "output_tokens": 10, "total_tokens": 19});
        }
        Script::status(200, &[], &job.to_string())
    })
    .await
}

fn setup(fake: &FakeProvider) -> Setup {
    let upstream = "{ upstream = \"a/real-name\", input_price = 0, output_price = 1000 }";
    let models = format!("[models.m]\nupstreams = [{upstream}]\n[models.other]\nupstreams = [\"a/else\"]");
    Setup::new().provider("a", fake, "dialect = \"responses\"\napi_key = \"sk-one\"").model(&models).table(USERS)
}

async fn send(gateway: &TestGateway, (method, path, who): (&str, &str, &str), body: &Value) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.request(method, path, &[("x-api-key", &format!("token-of-{who}"))], body).await;
    read_response(&mut client).await
}

fn making() -> Value {
    json!({"model": "m", "input": "x", "background": true, "max_output_tokens": 12})
}

#[tokio::test]
async fn what_was_paid_for_is_fetched_cancelled_and_deleted_by_the_model_that_made_it() {
    let fake = working().await;
    let gateway = setup(&fake).start().await;
    let ann = async |method: &str, path: &str, body: &Value| send(&gateway, (method, path, "ann"), body).await;
    let none = Value::Null;
    let created = ann("POST", RESPONSES, &making()).await;
    assert_eq!(created.status, 200, "{}", created.body);
    // What it will cost is reserved, and then charged as an estimate.
    for (status, cost) in [("in_progress", 12), ("completed", 10), ("completed", 10)] {
        let got = ann("GET", JOB, &none).await;
        assert_eq!((got.status, &got.json()["status"]), (200, &json!(status)), "{}", got.body);
        assert_eq!(spent(&gateway, &user("ann")).await, cost * TOKEN, "paid for once, at the price of the model");
    }
    // Five tokens are left, and what costs nothing is still answered.
    assert_eq!(ann("POST", RESPONSES, &making()).await.status, 429);
    let items = format!("{JOB}/input_items");
    for (method, path) in [("GET", JOB), ("GET", &items), ("POST", &format!("{JOB}/cancel")), ("DELETE", JOB)] {
        let other = send(&gateway, (method, path, "bob"), &none).await;
        assert_eq!(other.status, 404, "{method} {path} of another user");
        let got = ann(method, path, &none).await;
        assert_eq!((got.status, got.upstream()), (200, "a/real-name"), "{method} {path}: {}", got.body);
    }
    assert_eq!(spent(&gateway, &user("ann")).await, 10 * TOKEN);
    assert_eq!(usage(&gateway, &user("ann")).streams.0, 0);
    let rows = gateway.stop().await;
    assert_row!(&rows.races[1], json!({"api": "stored", "model": "m", "caller": "ann", "outcome": "ok"}));
}

#[tokio::test]
async fn what_is_streamed_to_its_end_is_judged_and_paid_in_the_same_way() {
    let fake = FakeProvider::answering(|request| {
        if request.method == "POST" {
            let job = json!({"id": "resp_job", "object": "response", "output": [], "status": "queued"});
            return Script::status(200, &[], &job.to_string());
        }
        let delta = json!({"type": "response.output_text.delta", "delta": "hello"});
        let usage = json!({"input_tokens": 9, "output_tokens": 10, "total_tokens": 19});
        let response =
            json!({"id": "resp_job", "object": "response", "status": "completed", "output": [], "usage": usage});
        let done = json!({"type": "response.completed", "response": response});
        Script::sse().event(delta).event(done).end()
    })
    .await;
    let gateway = setup(&fake).start().await;
    assert_eq!(send(&gateway, ("POST", RESPONSES, "ann"), &making()).await.status, 200);
    let streamed = send(&gateway, ("GET", "/v1/responses/resp_job?stream=true", "ann"), &Value::Null).await;
    assert_eq!((streamed.status, streamed.upstream()), (200, "a/real-name"), "{}", streamed.body);
    assert_eq!(spent(&gateway, &user("ann")).await, 10 * TOKEN);
}

#[tokio::test]
async fn after_a_restart_an_id_is_nobodys_where_there_are_users() {
    let fake = working().await;
    let before = setup(&fake).start().await;
    assert_eq!(send(&before, ("POST", RESPONSES, "ann"), &making()).await.status, 200);
    before.stop().await;
    let asked = fake.requests().len();
    let gateway = setup(&fake).start().await;
    for who in ["ann", "bob"] {
        for (method, path) in [("GET", JOB.to_owned()), ("POST", format!("{JOB}/cancel")), ("DELETE", JOB.to_owned())] {
            assert_eq!(send(&gateway, (method, &path, who), &Value::Null).await.status, 404, "{who}: {method} {path}");
        }
        let model = if who == "ann" { "m" } else { "other" };
        let body = json!({"model": model, "input": "x", "previous_response_id": "resp_job"});
        let refused = send(&gateway, ("POST", RESPONSES, who), &body).await;
        assert_eq!((refused.status, refused.error_code().as_str()), (400, "previous_response_not_found"));
    }
    assert_eq!(fake.requests().len(), asked, "the shared key fetches nothing that may be another caller's");
    let own = [("x-api-key", "token-of-eve"), ("x-photofinish-key-a", "sk-of-eve")];
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("GET", JOB, &own, "").await;
    assert_eq!(read_response(&mut client).await.status, 200, "an account of one's own");
}
