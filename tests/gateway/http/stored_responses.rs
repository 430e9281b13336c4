//! The state of the Responses API: answers that a client names again, over every dialect and at the upstream that made them.

use serde_json::{Value, json};

use crate::harness::answer::{Response, read_response, silent};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, Gate, RawClient, Script, Step};

const RESPONSES: &str = "/v1/responses";
const USERS: &str = "[users.ann]\ntoken = \"ann-token\"\nrole = \"admin\"\n[users.bob]\ntoken = \"bob-token\"\n";

async fn send(gateway: &TestGateway, method: &str, path: &str, user: &str, body: &Value) -> Response {
    send_text(gateway, method, path, user, if body.is_null() { String::new() } else { body.to_string() }).await
}

async fn send_text(gateway: &TestGateway, method: &str, path: &str, user: &str, body: String) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    let token = format!("Bearer {user}-token");
    client.request(method, path, &[("authorization", &token)], body).await;
    read_response(&mut client).await
}

async fn create(gateway: &TestGateway, body: &Value) -> Response {
    send(gateway, "POST", RESPONSES, "ann", body).await
}

async fn get(gateway: &TestGateway, path: &str) -> Response {
    send(gateway, "GET", path, "ann", &Value::Null).await
}

/// The response of a whole answer, or of a stream's end.
fn response(answer: &Response) -> Value {
    if answer.header("content-type").starts_with("application/json") {
        return answer.json();
    }
    let last = answer.events().pop().unwrap();
    serde_json::from_str::<Value>(&last).unwrap()["response"].clone()
}

/// Chat that answers with the number of messages that it got.
async fn counting() -> FakeProvider {
    FakeProvider::answering(|request| {
        let count = request.json()["messages"].as_array().unwrap().len().to_string();
        Script::stream(&["got ", &count])
    })
    .await
}

/// An upstream of the Responses API whose answers have ids of their own, and that knows the ids of these prefixes.
async fn native(name: &'static str) -> FakeProvider {
    FakeProvider::answering(move |request| {
        let (path, id) = (request.path.clone(), format!("resp_{name}{}", request.number));
        if request.method == "POST" && path == RESPONSES {
            let previous = request.json()["previous_response_id"].as_str().map(str::to_owned);
            if let Some(previous) = previous.filter(|previous| !previous.starts_with(&format!("resp_{name}"))) {
                let message = format!("Previous response with id '{previous}' not found.");
                let error = json!({"error": {"message": message, "type": "invalid_request_error",
                    "param": "previous_response_id", "code": "previous_response_not_found"}});
                return Script::status(400, &[], &error.to_string());
            }
            let text = json!({"type": "output_text", "text": "hello", "annotations": []});
            let item = json!({"id": format!("msg_{name}{}", request.number), "type": "message", "role": "assistant",
                "status": "completed", "content": [text]});
            let usage = json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11});
            let answer = json!({"id": id, "object": "response", "status": "completed", "model": "m", "output": [item], "usage": usage});
            return Script::status(200, &[], &answer.to_string());
        }
        let known = path.contains(&format!("/resp_{name}"));
        let said = if known {
            json!({"at": name, "usage": {"input_tokens": 9, "output_tokens": 2}})
        } else {
            json!({"error": {"message": "Response with id 'x' not found.", "type": "invalid_request_error"}})
        };
        Script::status(if known { 200 } else { 404 }, &[], &said.to_string())
    })
    .await
}

const NATIVE: &str = "dialect = \"responses\"\napi_key = \"sk-one\"";

#[tokio::test]
async fn a_chat_goes_on_by_the_id_of_its_answer_over_another_dialect() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").table(USERS).start().await;
    let first = response(&create(&gateway, &json!({"model": "m", "input": "one", "instructions": "be brief"})).await);
    assert_eq!((&first["store"], &first["output"][0]["content"][0]["text"]), (&json!(true), &json!("got 2")));
    let mut id = first["id"].as_str().unwrap().to_owned();
    for (turn, stream) in [(2, true), (3, false), (4, true)] {
        let input = json!([{"role": "user", "content": format!("turn {turn}")}]);
        let body = json!({"model": "m", "previous_response_id": id, "input": input, "stream": stream});
        let answer = response(&create(&gateway, &body).await);
        assert_eq!(answer["previous_response_id"], *id, "turn {turn}");
        assert_eq!(answer["output"][0]["content"][0]["text"], format!("got {}", 2 * turn - 1));
        answer["id"].as_str().unwrap().clone_into(&mut id);
    }
    let up = fake.requests().pop().unwrap().json();
    let said: Vec<&str> = up["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(said, ["user", "assistant", "user", "assistant", "user", "assistant", "user"]);
    let got = get(&gateway, &format!("{RESPONSES}/{id}")).await;
    assert_eq!((got.status, &got.json()["output"][0]["content"][0]["text"]), (200, &json!("got 7")));
    let items = get(&gateway, &format!("{RESPONSES}/{id}/input_items?order=asc&limit=3")).await.json();
    let texts: Vec<&Value> = items["data"].as_array().unwrap().iter().map(|item| &item["content"][0]["text"]).collect();
    assert_eq!((texts, &items["has_more"]), (vec![&json!("one"), &json!("got 2"), &json!("turn 2")], &json!(true)));
    let cancelled = send(&gateway, "POST", &format!("{RESPONSES}/{id}/cancel"), "ann", &Value::Null).await;
    assert_eq!(cancelled.status, 400, "{}", cancelled.body);
    let rows = gateway.stop().await;
    assert_eq!((rows.races.len(), fake.requests().len()), (4, 4), "what is kept costs no exchange");
}

#[tokio::test]
async fn what_is_not_there_is_refused_as_the_vendor_does() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").table(USERS).start().await;
    let unstored = response(&create(&gateway, &json!({"model": "m", "input": "x", "store": false})).await);
    let kept = response(&create(&gateway, &json!({"model": "m", "input": "x"})).await);
    let gone = kept["id"].as_str().unwrap();
    assert!(gateway.gateway().stored_bytes() > 0);
    let path = format!("{RESPONSES}/{gone}");
    for (user, status) in [("bob", 404), ("ann", 200)] {
        assert_eq!(send(&gateway, "GET", &path, user, &Value::Null).await.status, status, "{user}");
    }
    assert_eq!(send(&gateway, "DELETE", &path, "ann", &Value::Null).await.json()["deleted"], true);
    assert_eq!(gateway.gateway().stored_bytes(), 0, "it is really gone");
    let asked = fake.requests().len();
    for id in ["resp_none", gone, unstored["id"].as_str().unwrap(), &"x".repeat(500)] {
        let refused = create(&gateway, &json!({"model": "m", "input": "x", "previous_response_id": id})).await;
        assert_eq!((refused.status, refused.error_code().as_str()), (400, "previous_response_not_found"), "{id}");
        assert_eq!(get(&gateway, &format!("{RESPONSES}/{id}")).await.status, 404, "{id}");
    }
    let item = json!([{"type": "item_reference", "id": "msg_none"}]);
    let refused = create(&gateway, &json!({"model": "m", "input": item})).await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("input")), "{}", refused.body);
    let both = json!({"model": "m", "input": "x", "previous_response_id": "a", "conversation": "b"});
    assert_eq!(create(&gateway, &both).await.status, 400);
    for odd in ["/v1/responses/..%2fx", "/v1/responses/a%20b", "/v1/responses/%ff"] {
        assert_eq!(get(&gateway, odd).await.status, 404, "{odd}");
    }
    assert_eq!(send(&gateway, "GET", &path, "eve", &Value::Null).await.status, 401);
    assert_eq!(fake.requests().len(), asked, "no upstream is asked");
}

#[tokio::test]
async fn items_that_are_named_are_put_in_their_place() {
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]});
    let fake = FakeProvider::start(vec![
        Script::sse().event(calls).finish("tool_calls").done().end(),
        Script::stream(&["sunny"]),
    ])
    .await;
    let gateway = Setup::new().provider("a", &fake, "api_key = \"sk-one\"").table(USERS).start().await;
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let question = json!({"role": "user", "content": "weather?"});
    let first = response(&create(&gateway, &json!({"model": "m", "input": [question], "tools": tools})).await);
    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "warm"});
    let body = json!({"model": "m", "input": [question, reference, result], "tools": tools, "stream": true});
    assert_eq!(create(&gateway, &body).await.status, 200);
    let up = fake.request(1).await.json();
    assert_eq!(up["messages"][1]["tool_calls"][0]["id"], "call_1");
    assert_eq!((&up["messages"][2]["role"], &up["messages"][2]["content"]), (&json!("tool"), &json!("warm")));
    gateway.stop().await;
}

#[tokio::test]
async fn an_id_belongs_to_the_upstream_that_made_it() {
    let (a, b) = (native("a").await, native("b").await);
    let setup = Setup::new().provider("a", &a, NATIVE).provider("b", &b, NATIVE).race("policy = \"race\"").table(USERS);
    let gateway = setup.start().await;
    let first = create(&gateway, &json!({"model": "m", "input": "one"})).await;
    let (winner, id) = (first.upstream().to_owned(), response(&first)["id"].as_str().unwrap().to_owned());
    let (own, other) = if winner == "a/m" { (&a, &b) } else { (&b, &a) };
    other.request(0).await;
    let (before, others) = (own.requests().len(), other.requests().len());
    for _ in 0..5 {
        let next = create(&gateway, &json!({"model": "m", "input": "two", "previous_response_id": id})).await;
        assert_eq!((next.status, next.upstream()), (200, winner.as_str()));
    }
    let item = json!([{"type": "item_reference", "id": response(&first)["output"][0]["id"]}]);
    assert_eq!(create(&gateway, &json!({"model": "m", "input": item})).await.upstream(), winner);
    for (method, rest) in [("GET", ""), ("GET", "/input_items?limit=5"), ("DELETE", "")] {
        let answer = send(&gateway, method, &format!("{RESPONSES}/{id}{rest}"), "ann", &Value::Null).await;
        assert_eq!((answer.status, answer.upstream()), (200, winner.as_str()), "{method} {rest}: {}", answer.body);
        let up = own.requests().pop().unwrap();
        assert_eq!((up.method.as_str(), up.path.as_str()), (method, format!("{RESPONSES}/{id}{rest}").as_str()));
    }
    assert_eq!((own.requests().len(), other.requests().len()), (before + 9, others), "it alone is asked");
    for (method, path) in [("GET", format!("{RESPONSES}/{id}")), ("POST", RESPONSES.to_owned())] {
        let body = if method == "POST" {
            json!({"model": "m", "input": "x", "previous_response_id": id})
        } else {
            Value::Null
        };
        let answer = send(&gateway, method, &path, "bob", &body).await;
        assert_eq!(answer.status, if method == "POST" { 400 } else { 404 }, "another user's is unknown");
    }
    let of_both = json!([item[0], {"type": "item_reference", "id": "msg_nobody"}]);
    for input in [of_both.clone(), json!([of_both[1], of_both[0]])] {
        let body = json!({"model": "m", "input": input});
        assert_eq!(send(&gateway, "POST", RESPONSES, "bob", &body).await.status, 400, "one of another user is enough");
    }
    let (named, id) = (item.to_string(), item[0]["id"].as_str().unwrap());
    for input in [
        named.replace("item_reference", "item\\u005freference"),
        named.replace("\"id\"", "\"\\u0069d\""),
        format!("[{{\"id\":\"{id}\"}}]"),
        format!("[{{\"type\":null,\"ID\":\"{id}\"}}]"),
        format!("[{{\"deep\":{}1{},\"type\":\"item_reference\",\"id\":\"{id}\"}}]", "[".repeat(300), "]".repeat(300)),
        format!("[{{\"type\":\"item_reference\",\"id\":\"x\",\"id\":\"{id}\"}}]"),
        format!("[],\"input\":[{{\"id\":\"{id}\"}}]"),
    ] {
        let body = format!("{{\"model\":\"m\",\"input\":{input}}}");
        let refused = send_text(&gateway, "POST", RESPONSES, "bob", body).await;
        assert_eq!(refused.status, 400, "however it is spelt: {input:.60}");
    }
    assert_eq!((own.requests().len(), other.requests().len()), (before + 9, others), "and no upstream is asked");
    let rows = gateway.stop().await;
    let stored: Vec<_> =
        rows.attempts.iter().filter(|row| row["input_tokens"].is_null() && row["outcome"] == "won").collect();
    assert_eq!(stored.len(), 3, "what was paid for before is not paid again");
    assert_row!(&rows.races[7], json!({"api": "stored", "stream": 0, "outcome": "ok"}));
}

#[tokio::test]
async fn an_unknown_id_goes_to_one_upstream_after_the_other() {
    let (a, b, chat) = (native("a").await, native("b").await, counting().await);
    let setup = Setup::new().provider("chat", &chat, "").provider("a", &a, NATIVE).provider("b", &b, NATIVE);
    let gateway = setup.race("policy = \"race\"").start().await;
    let answer = create(&gateway, &json!({"model": "m", "input": "x", "previous_response_id": "resp_b7"})).await;
    assert_eq!((answer.status, answer.upstream()), (200, "b/m"), "{}", answer.body);
    assert_eq!((get(&gateway, "/v1/responses/resp_b9").await.upstream(), chat.requests().len()), ("b/m", 0));
    let nowhere = create(&gateway, &json!({"model": "m", "input": "x", "previous_response_id": "resp_c7"})).await;
    assert_eq!((nowhere.status, nowhere.error_code().as_str()), (400, "previous_response_not_found"));
    assert_eq!(get(&gateway, "/v1/responses/resp_c7").await.status, 404);
    let asked = (a.requests().len(), b.requests().len());
    assert_eq!(asked, (4, 4));
    for _ in 0..3 {
        assert_eq!(get(&gateway, "/v1/responses/resp_b9").await.status, 200, "its absence says nothing of an upstream");
    }
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), a.requests().len() + b.requests().len(), "rows are exchanges");
}

#[tokio::test]
async fn an_upstream_that_died_is_not_replaced() {
    let a = FakeProvider::answering(|request| {
        let answer = json!({"id": format!("resp_a{}", request.number), "object": "response", "status": "completed",
            "output": [{"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]});
        if request.number == 0 { Script::status(200, &[], &answer.to_string()) } else { Script::new().step(Step::Close) }
    })
    .await;
    let b = FakeProvider::answering(|_| silent()).await;
    let setup =
        Setup::new().provider("a", &a, NATIVE).provider("b", &b, NATIVE).race("policy = \"fallback\"\nretries = 0");
    let gateway = setup.table(USERS).start().await;
    let first = response(&create(&gateway, &json!({"model": "m", "input": "x"})).await);
    let body = json!({"model": "m", "input": "x", "previous_response_id": first["id"]});
    let asked = (0..8).map(|_| create(&gateway, &body));
    for refused in futures_util::future::join_all(asked).await {
        assert!(matches!(refused.status, 429 | 502), "{}: {}", refused.status, refused.body);
    }
    assert!(b.requests().is_empty());
}

#[tokio::test]
async fn a_reload_keeps_what_is_stored_and_off_drops_it() {
    let fake = counting().await;
    let setup = |line: &str| Setup::new().provider("a", &fake, "").server(line).table(USERS);
    let gateway = setup("").start().await;
    let first = response(&create(&gateway, &json!({"model": "m", "input": "x"})).await);
    let follow = json!({"model": "m", "input": "y", "previous_response_id": first["id"]});
    gateway.reload(&setup("stored = { for = \"2h\" }")).await;
    assert_eq!(create(&gateway, &follow).await.status, 200);
    gateway.reload(&setup("stored = \"off\"")).await;
    assert_eq!((gateway.gateway().stored_bytes(), create(&gateway, &follow).await.status), (0, 400));
    let off = response(&create(&gateway, &json!({"model": "m", "input": "x"})).await);
    assert_eq!((&off["store"], gateway.gateway().stored_bytes()), (&json!(false), 0));
    assert_eq!(send(&gateway, "POST", "/v1/conversations", "ann", &json!({})).await.status, 400);
}

#[tokio::test]
async fn a_conversation_is_kept_here_whoever_answers() {
    let (chat, of_responses) = (counting().await, native("a").await);
    let model = "[models.m]\nupstreams = [\"c/m\"]\n[models.n]\nupstreams = [\"a/m\"]";
    let setup = Setup::new().provider("c", &chat, "").provider("a", &of_responses, NATIVE).model(model);
    let gateway = setup.table(USERS).start().await;
    let started = json!({"items": [{"role": "user", "content": "hello"}], "metadata": {"topic": "x"}});
    let conversation = send(&gateway, "POST", "/v1/conversations", "ann", &started).await.json();
    let path = format!("/v1/conversations/{}", conversation["id"].as_str().unwrap());
    let ask =
        |model: &str| json!({"model": model, "input": "more", "conversation": conversation["id"], "store": false});
    let answer = response(&create(&gateway, &ask("m")).await);
    assert_eq!(answer["output"][0]["content"][0]["text"], "got 2");
    assert_eq!(create(&gateway, &ask("n")).await.status, 200);
    let up = of_responses.requests().pop().unwrap().json();
    assert_eq!((up["input"].as_array().unwrap().len(), up.get("conversation")), (4, None));
    let items = get(&gateway, &format!("{path}/items?order=asc")).await.json();
    let roles: Vec<&str> =
        items["data"].as_array().unwrap().iter().map(|item| item["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "user", "assistant", "user", "assistant"]);
    let added = json!({"items": [{"role": "user", "content": "added"}]});
    let added = send(&gateway, "POST", &format!("{path}/items"), "ann", &added).await.json();
    let item = format!("{path}/items/{}", added["data"][0]["id"].as_str().unwrap());
    assert_eq!(get(&gateway, &item).await.json()["content"][0]["text"], "added");
    assert_eq!(send(&gateway, "DELETE", &item, "ann", &Value::Null).await.json()["id"], conversation["id"]);
    assert_eq!(get(&gateway, &item).await.status, 404);
    let many = |number: usize| {
        let items = json!({"items": [{"role": "user", "content": format!("item {number}")}]});
        let (gateway, path) = (&gateway, &path);
        async move { send(gateway, "POST", &format!("{path}/items"), "ann", &items).await.status }
    };
    assert_eq!(futures_util::future::join_all((0..20).map(many)).await, [200; 20]);
    let items = get(&gateway, &format!("/openai{path}/items?limit=100")).await.json();
    assert_eq!(items["data"].as_array().unwrap().len(), 25, "none is lost among others, whatever the address ends in");
    let described = json!({"metadata": {"topic": "y"}});
    assert_eq!(send(&gateway, "POST", &path, "ann", &described).await.json()["metadata"], described["metadata"]);
    assert_eq!(send(&gateway, "GET", &path, "bob", &Value::Null).await.status, 404);
    assert_eq!(send(&gateway, "DELETE", &path, "ann", &Value::Null).await.json()["deleted"], true);
    assert_eq!((get(&gateway, &path).await.status, create(&gateway, &ask("m")).await.status), (404, 404));
    assert_eq!(gateway.gateway().stored_bytes(), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn tokens_are_counted_where_an_upstream_can_and_estimated_elsewhere() {
    let counted = json!({"object": "response.input_tokens", "input_tokens": 17});
    let a = FakeProvider::start(vec![Script::status(200, &[], &counted.to_string())]).await;
    let chat = counting().await;
    let model = "[models.m]\nupstreams = [\"a/m\"]\n[models.n]\nupstreams = [\"c/m\"]";
    let gateway =
        Setup::new().provider("a", &a, NATIVE).provider("c", &chat, "").model(model).table(USERS).start().await;
    let ask = |model: &str| json!({"model": model, "input": "0123456789", "instructions": "abcd"});
    let path = "/v1/responses/input_tokens";
    assert_eq!(send(&gateway, "POST", path, "ann", &ask("m")).await.json(), counted);
    let estimate = send(&gateway, "POST", path, "ann", &ask("n")).await;
    assert_eq!((estimate.header("x-photofinish-estimate"), &estimate.json()["input_tokens"]), ("bytes/4", &json!(5)));
    let stored = response(&create(&gateway, &json!({"model": "n", "input": "x".repeat(400)})).await);
    let more = json!({"model": "n", "previous_response_id": stored["id"], "input": "more"});
    let estimate = send(&gateway, "POST", path, "ann", &more).await.json();
    assert!(estimate["input_tokens"].as_i64().unwrap() > 100, "with what came before: {estimate}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_job_stays_with_its_upstream_and_is_paid_for_once() {
    let usage = json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11});
    let (asks, job) =
        (std::sync::atomic::AtomicUsize::new(0), json!({"id": "resp_job", "object": "response", "output": []}));
    let a = FakeProvider::answering(move |request| {
        let mut job = job.clone();
        let asked =
            if request.method == "GET" { asks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 } else { 0 };
        job["status"] = json!(match (request.path.as_str(), asked) {
            ("/v1/responses/resp_job/cancel", _) => "cancelled",
            (_, 0) => "queued",
            (_, 1) => "in_progress",
            _ => "completed",
        });
        if job["status"] == "completed" {
            job["usage"] = usage.clone();
        }
        Script::status(200, &[], &job.to_string())
    })
    .await;
    let b = FakeProvider::answering(|_| silent()).await;
    let setup = Setup::new().provider("a", &a, NATIVE).provider("b", &b, NATIVE).race("policy = \"race\"").table(USERS);
    let gateway = setup.start().await;
    let created = create(&gateway, &json!({"model": "m", "input": "x", "background": true})).await;
    assert_eq!((created.status, &created.json()["status"]), (200, &json!("queued")), "{}", created.body);
    let path = "/v1/responses/resp_job";
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(get(&gateway, path).await.json()["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, ["in_progress", "completed", "completed"]);
    let cancelled = send(&gateway, "POST", &format!("{path}/cancel"), "ann", &Value::Null).await.json();
    assert_eq!((&cancelled["status"], b.requests().len()), (&json!("cancelled"), 0));
    gateway.reload(&Setup::new().provider("b", &b, NATIVE).table(USERS)).await;
    assert_eq!(get(&gateway, path).await.status, 404, "its provider is gone");
    let rows = gateway.stop().await;
    let paid: Vec<_> = rows.attempts.iter().map(|row| &row["output_tokens"]).collect();
    assert_eq!(paid, [&Value::Null, &Value::Null, &json!(2), &Value::Null, &Value::Null]);
}

#[tokio::test]
async fn a_job_needs_an_upstream_that_keeps_it() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "").start().await;
    let refused =
        read_response(&mut gateway.post(RESPONSES, &json!({"model": "m", "input": "x", "background": true})).await)
            .await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("background")));
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn one_id_of_two_upstreams_or_two_users_is_two_things() {
    let same = |name: &'static str| {
        FakeProvider::answering(move |_| {
            let text = json!({"type": "output_text", "text": name, "annotations": []});
            let item = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [text]});
            let answer = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [item]});
            Script::status(200, &[], &answer.to_string())
        })
    };
    let (a, b) = (same("a").await, same("b").await);
    let model = "[models.m]\nupstreams = [\"a/m\"]\n[models.n]\nupstreams = [\"b/m\"]";
    let setup = Setup::new().provider("a", &a, NATIVE).provider("b", &b, NATIVE).model(model).table(USERS);
    let gateway = setup.start().await;
    let ask = async |user: &str, model: &str, previous: Value| {
        let body = json!({"model": model, "input": "x", "previous_response_id": previous});
        let answer = send(&gateway, "POST", RESPONSES, user, &body).await;
        (answer.status, answer.upstream().to_owned())
    };
    let get = async |user: &str| send(&gateway, "GET", "/v1/responses/resp_1", user, &Value::Null).await;
    assert_eq!(ask("ann", "m", Value::Null).await, (200, "a/m".to_owned()));
    assert_eq!(get("bob").await.status, 404);
    assert_eq!(ask("bob", "n", Value::Null).await, (200, "b/m".to_owned()));
    assert_eq!((get("ann").await.upstream(), get("bob").await.upstream()), ("a/m", "b/m"), "each has its own");
    assert_eq!(ask("ann", "n", Value::Null).await, (200, "b/m".to_owned()));
    assert_eq!(get("ann").await.upstream(), "b/m", "the newest first");
    for (model, upstream) in [("m", "a/m"), ("n", "b/m")] {
        assert_eq!(ask("ann", model, json!("resp_1")).await, (200, upstream.to_owned()), "that of the model");
    }
}

#[tokio::test]
async fn two_that_see_the_end_of_a_job_pay_for_it_once() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |request| {
        let mut job = json!({"id": "resp_job", "object": "response", "output": [], "status": "queued"});
        if request.method == "GET" {
            job["status"] = json!("completed");
            job["usage"] = json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11});
        }
        let mut script = Script::status(200, &[], &job.to_string());
        if request.method == "GET" {
            script.steps.insert(0, Step::Wait(open.clone()));
        }
        script
    })
    .await;
    let gateway = Setup::new().provider("a", &fake, NATIVE).table(USERS).start().await;
    create(&gateway, &json!({"model": "m", "input": "x", "background": true})).await;
    let poll = || get(&gateway, "/v1/responses/resp_job");
    let both = async { tokio::join!(poll(), poll()) };
    let released = async {
        fake.request(2).await;
        gate.open();
    };
    let ((one, other), ()) = tokio::join!(both, released);
    assert_eq!((one.json()["status"].clone(), other.status), (json!("completed"), 200));
    let rows = gateway.stop().await;
    let paid: Vec<_> = rows.attempts.iter().filter_map(|row| row["output_tokens"].as_i64()).collect();
    assert_eq!((rows.attempts.len(), paid), (3, vec![2]));
}

#[tokio::test]
async fn what_an_upstream_stores_is_streamed_as_it_comes_and_what_is_here_is_not() {
    let gate = Gate::new();
    let open = gate.clone();
    let fake = FakeProvider::answering(move |_| {
        let response = json!({"id": "resp_a1", "status": "completed", "output": [],
            "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}});
        let delta = json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "delta": "hi", "sequence_number": 4});
        let end = json!({"type": "response.completed", "response": response, "sequence_number": 5});
        Script::sse().event(delta).wait(&open).event(end).end()
    })
    .await;
    let chat = counting().await;
    let model = "[models.m]\nupstreams = [\"a/m\"]\n[models.n]\nupstreams = [\"c/m\"]";
    let setup = Setup::new().provider("a", &fake, NATIVE).provider("c", &chat, "").model(model);
    let gateway = setup.start().await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let path = "/v1/responses/resp_a1?stream=true&starting_after=3";
    client.request("GET", path, &[("authorization", "Bearer ann-token")], "").await;
    let head = client.head().await;
    assert_eq!(
        (head.status, head.header("content-type").unwrap_or_default()),
        (200, "text/event-stream; charset=utf-8")
    );
    assert!(client.event().await.unwrap().unwrap().contains("\"hi\""), "before the rest is there");
    gate.open();
    assert!(client.event().await.unwrap().unwrap().contains("response.completed"));
    assert_eq!(fake.requests()[0].path, path);
    let kept = response(&create(&gateway, &json!({"model": "n", "input": "x"})).await);
    let path = format!("{RESPONSES}/{}?stream=true", kept["id"].as_str().unwrap());
    let refused = get(&gateway, &path).await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("stream")), "{}", refused.body);
    let rows = gateway.stop().await;
    assert_row!(&rows.attempts[0], json!({"outcome": "won", "output_tokens": null}));
}

#[tokio::test]
async fn the_metadata_of_a_conversation_has_the_vendors_bounds() {
    let fake = counting().await;
    let gateway = Setup::new().provider("a", &fake, "").table(USERS).start().await;
    let pairs = |count: usize| (0..count).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let all = json!({"metadata": pairs(16)});
    let made = send(&gateway, "POST", "/v1/conversations", "ann", &all).await.json();
    let path = format!("/v1/conversations/{}", made["id"].as_str().unwrap());
    assert_eq!(made["metadata"], all["metadata"]);
    let most = json!({"metadata": {"k".repeat(64): "ä".repeat(512)}});
    assert_eq!(send(&gateway, "POST", &path, "ann", &most).await.status, 200);
    for (metadata, param) in [
        (json!(pairs(17)), "metadata"),
        (json!({"k".repeat(65): "v"}), "metadata"),
        (json!({"k": "v".repeat(513)}), "metadata"),
        (json!({"k": 1}), "metadata"),
        (json!("x"), "metadata"),
    ] {
        for path in ["/v1/conversations", path.as_str()] {
            let refused = send(&gateway, "POST", path, "ann", &json!({"metadata": metadata})).await;
            let error = &refused.json()["error"];
            let said = (refused.status, &error["type"], &error["param"]);
            assert_eq!(said, (400, &json!("invalid_request_error"), &json!(param)), "{}", refused.body);
        }
    }
    assert_eq!(get(&gateway, &path).await.json()["metadata"], most["metadata"], "and it stays as it was");
}
