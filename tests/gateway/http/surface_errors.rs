//! Errors of each surface for requests that cannot be served, in the shape and the words of its vendor.

use serde_json::{Value, json};

use crate::harness::answer::{Response, ending, read_response};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::harness::matrix::{Pair, rules};
use crate::harness::surface::Surface;
use crate::support::{FakeProvider, RawClient, Script};

rules! { everywhere:
    an_upstream_s_refusal_is_passed_on_in_the_surface_s_shape,
    a_refusal_that_is_no_json_is_told_in_the_surface_s_shape,
    when_all_failed_the_attempts_are_listed,
    when_all_are_rate_limited_the_answer_is_a_429,
}

/// Every surface with a valid request.
fn surfaces() -> [(&'static str, Value); 6] {
    let [chat, responses, messages] = [Surface::Chat, Surface::Responses, Surface::Messages]
        .map(|surface| (surface.path(), surface.body("m", false)));
    let mut counted = messages.1.clone();
    counted.as_object_mut().unwrap().remove("max_tokens");
    let count = ("/v1/messages/count_tokens", counted);
    let completions = ("/v1/completions", json!({"model": "m", "prompt": "x"}));
    [chat, responses, messages, count, completions, ("/v1/embeddings", json!({"model": "m", "input": "x"}))]
}

/// The error in the shape of the surface at this path: its type, code and message.
fn error(path: &str, response: &Response) -> (String, String, String) {
    let answer = response.json();
    assert_eq!(response.header("content-type"), "application/json", "{path}");
    let is_messages = path.starts_with("/v1/messages");
    assert_eq!(answer["type"] == "error", is_messages, "{path}: {}", response.body);
    if is_messages {
        assert!(
            !response.header("request-id").is_empty() || response.status == 401 || response.status == 405,
            "{path}"
        );
    } else {
        let members = answer["error"].as_object().unwrap();
        assert!(
            ["message", "type", "param", "code"].iter().all(|name| members.contains_key(*name)),
            "{}",
            response.body
        );
    }
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    (text("type"), text("code"), text("message"))
}

async fn idle() -> (FakeProvider, TestGateway) {
    let fake = FakeProvider::start(vec![]).await;
    let setup = Setup::new().provider("a", &fake, "dialect = [\"openai\", \"responses\", \"anthropic\"]");
    let gateway = setup.server("body_max = \"64KiB\"").table("[users.ann]\ntoken = \"ann-token\"").start().await;
    (fake, gateway)
}

async fn sent(gateway: &TestGateway, method: &str, path: &str, body: &str) -> Response {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request(method, path, &[("x-api-key", "ann-token")], body).await;
    read_response(&mut client).await
}

#[tokio::test]
async fn every_surface_gives_the_gateway_s_errors_in_its_own_shape() {
    let (fake, gateway) = idle().await;
    for (path, good) in surfaces() {
        let kinds = |openai: &'static str, anthropic: &'static str| {
            if path.starts_with("/v1/messages") { anthropic } else { openai }
        };
        let mut client = gateway.request(path, &[("x-api-key", "wrong")], &good).await;
        let response = read_response(&mut client).await;
        let (kind, code, _) = error(path, &response);
        assert_eq!((response.status, kind.as_str()), (401, "authentication_error"), "{path}");
        assert_eq!(code, "photofinish_unauthorized", "{path}");

        let mut unknown = good.clone();
        unknown["model"] = json!("nobody-knows");
        let response = sent(&gateway, "POST", path, &unknown.to_string()).await;
        let (kind, code, message) = error(path, &response);
        assert_eq!(
            (response.status, kind.as_str()),
            (404, kinds("invalid_request_error", "not_found_error")),
            "{path}"
        );
        assert!(code == "model_not_found" && message.contains("nobody-knows"), "{path}: {message}");

        for body in ["{", "", "[1]", "null"] {
            let response = sent(&gateway, "POST", path, body).await;
            let (kind, _, message) = error(path, &response);
            assert_eq!((response.status, kind.as_str()), (400, "invalid_request_error"), "{path}: {body}");
            assert!(message.contains("JSON"), "{path}: {message}");
        }

        let response = sent(&gateway, "POST", path, &" ".repeat(65 << 10)).await;
        let (kind, code, _) = error(path, &response);
        assert_eq!(
            (response.status, kind.as_str()),
            (413, kinds("invalid_request_error", "request_too_large")),
            "{path}"
        );
        assert_eq!(code, "photofinish_too_large", "{path}");

        let response = sent(&gateway, "GET", path, "").await;
        let (kind, code, _) = error(path, &response);
        assert_eq!(
            (response.status, kind.as_str(), response.header("allow")),
            (405, "invalid_request_error", "POST"),
            "{path}"
        );
        assert_eq!(code, "photofinish_method_not_allowed", "{path}");
    }
    let rows = gateway.stop().await;
    assert!(fake.requests().is_empty() && rows.attempts.is_empty());
    assert!(rows.races.iter().all(|race| race["outcome"] == "rejected"));
    // Requests with a wrong token or method have no row.
    assert_eq!(rows.races.len(), 6 * surfaces().len());
}

#[tokio::test]
async fn a_missing_member_is_reported_in_the_vendor_s_words() {
    let (fake, gateway) = idle().await;
    let message = json!([{"role": "user", "content": "x"}]);
    for (path, body, words) in [
        ("/v1/messages", json!({"model": "m", "max_tokens": 1}), "messages: Field required"),
        ("/v1/messages", json!({"model": "m", "messages": message}), "max_tokens: Field required"),
        ("/v1/messages", json!({"max_tokens": 1, "messages": message}), "model: Field required"),
        ("/v1/messages/count_tokens", json!({"model": "m"}), "messages: Field required"),
        ("/v1/chat/completions", json!({"model": "m"}), "Missing required parameter: 'messages'."),
        ("/v1/completions", json!({"model": "m"}), "Missing required parameter: 'prompt'."),
        ("/v1/embeddings", json!({"model": "m"}), "Missing required parameter: 'input'."),
    ] {
        let response = sent(&gateway, "POST", path, &body.to_string()).await;
        let (kind, _, message) = error(path, &response);
        assert_eq!((response.status, kind.as_str(), message.as_str()), (400, "invalid_request_error", words), "{path}");
    }
    gateway.stop().await;
    assert!(fake.requests().is_empty());
}

async fn an_upstream_s_refusal_is_passed_on_in_the_surface_s_shape(pair: Pair) {
    let said = "temperature: it is too hot in here";
    let body =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": said, "code": 400}}).to_string();
    let refusal = || Script::status(422, &[("request-id", "up-1"), ("x-request-id", "up-1")], &body);
    let fake = FakeProvider::start(vec![refusal(), refusal()]).await;
    let gateway = pair.over(&[&fake]).start().await;
    for response in
        [read_response(&mut pair.streaming(&gateway).await).await, read_response(&mut pair.whole(&gateway).await).await]
    {
        assert_eq!((response.status, response.upstream()), (422, "a/m"), "{}", response.body);
        let (kind, message) = pair.surface.error(&response);
        assert_eq!((kind.as_str(), message.as_str()), ("invalid_request_error", said));
        if pair.surface.dialect() == pair.dialect {
            assert_eq!(response.body, body, "as it came");
        }
    }
    let rows = gateway.stop().await;
    assert_eq!(
        ending(&rows.attempts[0]),
        json!({"outcome": "failed", "failure": "bad_request", "failure_phase": "headers"})
    );
}

async fn a_refusal_that_is_no_json_is_told_in_the_surface_s_shape(pair: Pair) {
    let page = "<html><head><title>413 Request Entity Too Large</title></head></html>";
    for (status, kind, body) in [
        (413, "text/html", page),
        (422, "text/plain", "it is too hot in here"),
        (400, "text/plain", "prompt is too long: 9 tokens > 8 maximum"),
        (400, "application/json", ""),
    ] {
        let fake = FakeProvider::start(vec![Script::status(status, &[("content-type", kind)], body)]).await;
        let gateway = pair.over(&[&fake]).start().await;
        let response = read_response(&mut pair.streaming(&gateway).await).await;
        assert_eq!((response.status, response.upstream()), (status, "a/m"), "{}", response.body);
        assert_eq!(response.header("content-type"), "application/json", "{}", response.body);
        assert!(!pair.surface.error(&response).1.is_empty(), "{}", response.body);
        gateway.stop().await;
    }
}

async fn when_all_failed_the_attempts_are_listed(pair: Pair) {
    let a = FakeProvider::start(vec![Script::status(500, &[], "{}"), Script::status(500, &[], "{}")]).await;
    let b = FakeProvider::start(vec![pair.open().role().error().end(), pair.open().role().error().end()]).await;
    let gateway = pair.over(&[&a, &b]).start().await;
    for response in
        [read_response(&mut pair.streaming(&gateway).await).await, read_response(&mut pair.whole(&gateway).await).await]
    {
        assert_eq!(response.status, 502, "{}", response.body);
        let (kind, message) = pair.surface.error(&response);
        assert_eq!(kind, if pair.surface == Surface::Messages { "api_error" } else { "server_error" });
        assert!(message.contains("a/m") && message.contains("b/m"), "{message}");
        let answer = response.json();
        let error = pair.surface.error_members(&answer);
        let mut listed: Vec<(&str, &str)> = error["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| (attempt["upstream"].as_str().unwrap(), attempt["failure"].as_str().unwrap()))
            .collect();
        listed.sort_unstable();
        assert_eq!(listed, [("a/m", "server_error"), ("b/m", "overloaded")]);
    }
    let rows = gateway.stop().await;
    assert_eq!(rows.attempts.len(), 4);
    for race in &rows.races {
        assert_row!(race, json!({"outcome": "error", "http_status": 502}));
    }
}

async fn when_all_are_rate_limited_the_answer_is_a_429(pair: Pair) {
    let limited = |wait: &str| Script::status(429, &[("retry-after", wait)], "{}");
    let a = FakeProvider::start(vec![limited("30")]).await;
    let b = FakeProvider::start(vec![limited("7")]).await;
    let gateway = pair.over(&[&a, &b]).start().await;
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    assert_eq!((response.status, response.header("retry-after")), (429, "7"), "{}", response.body);
    assert_eq!(pair.surface.error(&response).0, "rate_limit_error");
    // Both upstreams cool down now.
    let response = read_response(&mut pair.streaming(&gateway).await).await;
    let answer = response.json();
    let error = pair.surface.error_members(&answer);
    assert_eq!((response.status, error["attempts"].as_array().map(Vec::len)), (429, Some(2)));
    assert_eq!(error["code"], "photofinish_cooling_down");
    let rows = gateway.stop().await;
    assert!(rows.attempts.iter().all(|attempt| attempt["failure"] == "rate_limited"));
}
