//! Calls that the gateway does not read: transcriptions, speech, images, moderations, rerankings and compactions.

use serde_json::{Value, json};

use crate::harness::answer::{Response, ending, read_response, silent};
use crate::harness::gateway::{Setup, TestGateway, assert_row};
use crate::support::{FakeProvider, RawClient, Script};

const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
const SPEECH: &str = "/v1/audio/speech";
const IMAGES: &str = "/v1/images/generations";
const MODERATIONS: &str = "/v1/moderations";
const FORM: &str = "multipart/form-data; boundary=\"a b\"";
/// Bytes that are no UTF-8, a line that looks like a border, and one that looks like a field.
const AUDIO: &[u8] = b"ID3\xff\xfb\x90\r\n--a\r\nname=\"model\"\r\n\r\n\x00";

/// A form with these fields around a file.
fn form(fields: &[(&str, &str)], file: &[u8]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, value) in fields {
        let head = format!("--a b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        form.extend_from_slice(format!("{head}{value}\r\n").as_bytes());
    }
    let head = "--a b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n";
    [&form, head.as_bytes(), file, b"\r\n--a b--\r\n"].concat()
}

fn typed(content_type: &str, body: &[u8]) -> Script {
    let length = body.len().to_string();
    Script::new().head(200, &[("content-type", content_type), ("content-length", &length)]).raw(body).end()
}

async fn upload(gateway: &TestGateway, content_type: &str, body: &[u8]) -> RawClient {
    let mut client = RawClient::connect(gateway.addr()).await;
    client.request("POST", TRANSCRIPTIONS, &[("content-type", content_type)], body).await;
    client
}

async fn transcribed(gateway: &TestGateway, content_type: &str, body: &[u8]) -> Response {
    read_response(&mut upload(gateway, content_type, body).await).await
}

#[tokio::test]
async fn an_upload_is_raced_and_goes_up_byte_for_byte_but_for_the_model() {
    let slow = FakeProvider::start(vec![silent()]).await;
    let quick = FakeProvider::start(vec![typed("text/plain; charset=utf-8", b"hello\n")]).await;
    let model = "[models.whisper]\nupstreams = [\"a/large-v3\", \"b/turbo\"]";
    let gateway = Setup::over(&[&slow, &quick]).model(model).start().await;
    let fields = |model| [("response_format", "text"), ("model", model), ("language", "de")];
    let mut client = upload(&gateway, FORM, &form(&fields("whisper"), AUDIO)).await;
    slow.request(0).await;
    let response = read_response(&mut client).await;
    assert_eq!((response.status, response.upstream(), response.body.as_str()), (200, "b/turbo", "hello\n"));
    assert_eq!(response.header("content-type"), "text/plain; charset=utf-8");
    slow.closed(0).await;
    for (fake, model) in [(&slow, "large-v3"), (&quick, "turbo")] {
        let up = fake.request(0).await;
        assert_eq!((up.path.as_str(), up.header("content-type")), (TRANSCRIPTIONS, Some(FORM)));
        assert_eq!(up.body, form(&fields(model), AUDIO));
    }
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "transcriptions", "model": "whisper", "stream": 0, "winner": 1}));
    assert_row!(rows.one("b"), json!({"outcome": "won", "first_kind": "whole", "input_tokens": null}));
    assert_eq!(ending(rows.one("a")), json!({"outcome": "lost", "ttft_event": 0, "censor_cause": "lost"}));
}

#[tokio::test]
async fn audio_comes_back_byte_for_byte_and_a_cut_answer_is_replaced() {
    let cut = Script::new().head(200, &[("content-type", "audio/mpeg"), ("content-length", "99")]).raw(AUDIO);
    let a = FakeProvider::start(vec![cut.step(crate::support::Step::Close)]).await;
    let chunked =
        Script::new().head(200, &[("content-type", "audio/mpeg")]).chunk(&AUDIO[..9]).chunk(&AUDIO[9..]).end();
    let b = FakeProvider::start(vec![chunked]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let ask = json!({"model": "m", "input": "hello", "voice": "alloy", "speed": 1.50, "x_odd": [1]});
    let mut client = gateway.post(SPEECH, &ask).await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("audio/mpeg")));
    assert_eq!(
        (head.header("x-photofinish-upstream"), client.body(&head).await.unwrap().as_ref()),
        (Some("b/m"), AUDIO)
    );
    assert_eq!((b.request(0).await.path.as_str(), b.request(0).await.json()), (SPEECH, ask), "no `stream` is added");
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "speech", "attempts": 2, "outcome": "ok"}));
    assert_row!(rows.one("a"), json!({"outcome": "failed", "failure": "closed", "failure_phase": "first_token"}));
}

#[tokio::test]
async fn a_stream_of_such_a_call_comes_as_a_whole_with_its_usage() {
    let usage = json!({"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59});
    let done = json!({"type": "transcript.text.done", "text": "hi", "usage": usage});
    let stream =
        format!("event: a\r\ndata: {{\"type\":\"transcript.text.delta\",\"delta\":\"hi\"}}\r\n\r\ndata: {done}\n\n");
    let error = json!({"type": "error", "error": {"message": "The server had an error", "type": "server_error"}});
    let a = FakeProvider::start(vec![typed("text/event-stream", format!("data: {error}\n\n").as_bytes())]).await;
    let b = FakeProvider::start(vec![typed("text/event-stream", stream.as_bytes())]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = transcribed(&gateway, FORM, &form(&[("model", "m"), ("stream", "true")], AUDIO)).await;
    assert_eq!((response.status, response.body.as_str()), (200, stream.as_str()));
    assert_eq!((response.header("content-type"), response.upstream()), ("text/event-stream", "b/m"));
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"stream": 0}));
    assert_row!(rows.one("a"), json!({"outcome": "failed", "failure": "server_error"}));
    assert_row!(rows.one("b"), json!({"outcome": "won", "input_tokens": 14, "output_tokens": 45}));
}

#[tokio::test]
async fn images_and_moderations_pass_through() {
    let images = "{ \"created\": 1,\n \"data\": [{\"b64_json\": \"AA==\"}, {\"b64_json\": \"AQ==\"}],\n \"usage\": {\"input_tokens\": 5, \"output_tokens\": 7} }\n";
    let moderation =
        json!({"id": "modr-1", "model": "omni", "results": [{"flagged": false}, {"flagged": true}]}).to_string();
    let scripts = [images, &moderation].map(|body| typed("application/json", body.as_bytes()));
    let fake = FakeProvider::start(scripts.into()).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let asks = [
        (IMAGES, json!({"model": "m", "prompt": "a cat", "n": 2, "stream": false}), images),
        (MODERATIONS, json!({"model": "m", "input": ["a", "b"]}), moderation.as_str()),
    ];
    for (number, (path, ask, body)) in asks.into_iter().enumerate() {
        let response = read_response(&mut gateway.post(path, &ask).await).await;
        assert_eq!((response.status, response.body.as_str()), (200, body));
        assert_eq!(response.header("content-type"), "application/json");
        let up = fake.request(number).await;
        assert_eq!((up.path.as_str(), up.json()), (path, ask));
        // The same without the version.
        let unknown = json!({"model": "nobody", "input": "a", "prompt": "b"});
        let response = read_response(&mut gateway.post(path.trim_start_matches("/v1"), &unknown).await).await;
        assert_eq!((response.status, response.error_code().as_str()), (404, "model_not_found"), "{path}");
    }
    let rows = gateway.stop().await;
    let names: Vec<&Value> = rows.races.iter().map(|race| &race["api"]).collect();
    assert_eq!(names, ["images", "images", "moderations", "moderations"]);
    assert_row!(&rows.attempts[0], json!({"outcome": "won", "input_tokens": 5, "output_tokens": 7}));
    assert_row!(&rows.attempts[1], json!({"outcome": "won", "model_reported": "omni"}));
}

#[tokio::test]
async fn edits_and_translations_are_forms_and_rerankings_have_two_paths() {
    let ranked = json!({"id": "r", "results": [{"index": 1, "relevance_score": 0.9}], "meta": {"billed_units": {"search_units": 1}}});
    let answer = ranked.to_string();
    let fake = FakeProvider::answering(move |request| match request.path.as_str() {
        "/v1/images/edits" => typed("application/json", b"{\"data\":[{\"b64_json\":\"AA==\"}]}"),
        "/v1/audio/translations" => typed("application/json", b"{\"text\":\"\"}"),
        _ => typed("application/json", answer.as_bytes()),
    })
    .await;
    let gateway = Setup::over(&[&fake]).start().await;
    for path in ["/v1/images/edits", "/v1/audio/translations"] {
        let mut client = RawClient::connect(gateway.addr()).await;
        let body = form(&[("model", "m"), ("prompt", "a hat"), ("image[]", "x")], AUDIO);
        client.request("POST", path, &[("content-type", FORM)], body).await;
        assert_eq!(read_response(&mut client).await.status, 200, "{path}");
    }
    let edit = json!({"model": "m", "prompt": "a hat", "images": [{"file_id": "f-1"}]});
    assert_eq!(read_response(&mut gateway.post("/v1/images/edits", &edit).await).await.status, 200);
    let ask = json!({"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1, "x_odd": 1.0});
    for path in ["/v1/rerank", "/v2/rerank", "/rerank"] {
        let response = read_response(&mut gateway.post(path, &ask).await).await;
        assert_eq!((response.status, response.json()), (200, ranked.clone()), "{path}");
    }
    let without = json!({"model": "m", "query": "q"});
    let (status, _, message) = read_response(&mut gateway.post("/v2/rerank", &without).await).await.error();
    assert!(status == 400 && message.contains("'documents'"), "{message}");
    let up = fake.requests();
    let paths: Vec<&str> = up.iter().map(|request| request.path.as_str()).collect();
    let expected =
        ["/v1/images/edits", "/v1/audio/translations", "/v1/images/edits", "/v1/rerank", "/v1/rerank", "/v1/rerank"];
    assert_eq!(paths, expected);
    assert_eq!((up[2].json(), up[4].json()), (edit, ask));
    let rows = gateway.stop().await;
    let names: Vec<&Value> = rows.races.iter().map(|race| &race["api"]).collect();
    assert_eq!(names, ["image_edits", "translations", "image_edits", "rerank", "rerank", "rerank", "rerank"]);
}

#[tokio::test]
async fn azures_clients_name_the_model_in_the_path() {
    let chat = Script::stream(&["hi"]);
    let fake = FakeProvider::answering(move |request| match request.path.as_str() {
        "/v1/chat/completions" => chat.clone(),
        "/v1/audio/transcriptions" => typed("application/json", b"{\"text\":\"hi\"}"),
        _ => typed("application/json", b"{\"data\":[{\"embedding\":[1],\"b64_json\":\"AA==\"}]}"),
    })
    .await;
    let gateway = Setup::over(&[&fake]).table("[users.ann]\ntoken = \"ann-token\"").start().await;
    let version = "?api-version=2024-10-21";
    for (path, ask) in [
        ("/openai/deployments/m/chat/completions", json!({"model": "gpt-other", "messages": [{}], "stream": true})),
        ("/openai/deployments/a%2Fm/chat/completions", json!({"messages": [{}]})),
        ("/openai/deployments/m/embeddings", json!({"input": "a"})),
        ("/openai/deployments/m/images/generations", json!({"prompt": "a"})),
        ("/openai/embeddings", json!({"model": "m", "input": "a"})),
        ("/openai/v1/embeddings", json!({"model": "m", "input": "a"})),
    ] {
        let mut client = gateway.request(&format!("{path}{version}"), &[("api-key", "ann-token")], &ask).await;
        let response = read_response(&mut client).await;
        assert_eq!((response.status, response.upstream()), (200, "a/m"), "{path}: {}", response.body);
    }
    for request in fake.requests() {
        assert_eq!(request.json()["model"], "m");
        assert!(!request.path.contains("api-version") && request.header("api-key").is_none());
    }
    let before = fake.requests().len();
    let path = format!("/openai/deployments/m/audio/transcriptions{version}");
    for (sent, up) in [
        (form(&[], AUDIO), form(&[("model", "m")], AUDIO)),
        (form(&[("model", "gpt-other")], AUDIO), form(&[("model", "m")], AUDIO)),
    ] {
        let mut client = RawClient::connect(gateway.addr()).await;
        client.request("POST", &path, &[("api-key", "ann-token"), ("content-type", FORM)], &sent).await;
        assert_eq!(read_response(&mut client).await.status, 200);
        let got = String::from_utf8_lossy(&fake.requests().pop().unwrap().body).replace(
            "Content-Disposition: form-data; name=\"model\"",
            "content-disposition: form-data; name=\"model\"",
        );
        assert_eq!(got, String::from_utf8_lossy(&up), "the path names the model");
    }
    assert_eq!(fake.requests().len(), before + 2);
    let ask = json!({"messages": [{}]});
    for (path, key, status, code) in [
        ("/openai/deployments/nobody/chat/completions", "ann-token", 404, "model_not_found"),
        ("/openai/deployments/m/extensions/chat", "ann-token", 404, "photofinish_not_found"),
        ("/openai/deployments/m/chat/completions", "wrong", 401, "photofinish_unauthorized"),
    ] {
        let response = read_response(&mut gateway.request(path, &[("api-key", key)], &ask).await).await;
        assert_eq!((response.status, response.error_code().as_str()), (status, code), "{path}");
    }
    let rows = gateway.stop().await;
    assert_row!(&rows.races[0], json!({"api": "chat", "model": "m", "stream": 1, "caller": "ann"}));
}

#[tokio::test]
async fn a_bad_form_is_refused_before_any_attempt() {
    let fake = FakeProvider::start(vec![]).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let good = form(&[("model", "m")], AUDIO);
    let invalid = |said| (400, "photofinish_invalid_request", said);
    // Content type, body, and the status, code and text of the answer.
    type BadForm<'a> = (&'a str, &'a [u8], (u16, &'a str, &'a str));
    let cases: [BadForm<'_>; 11] = [
        (FORM, &good[..good.len() - 6], invalid("ends before its closing boundary")),
        (FORM, b"", invalid("does not contain its own boundary")),
        ("multipart/form-data", &good, invalid("has no valid `boundary`")),
        ("multipart/form-data; boundary=other", &good, invalid("does not contain its own boundary")),
        ("application/json", &good, invalid("needs the content-type multipart/form-data")),
        ("application/json", b"{\"file\":\"AA==\"}", invalid("`model` is missing")),
        (FORM, &form(&[("language", "de")], AUDIO), invalid("`model` is missing")),
        (FORM, &form(&[("model", "")], AUDIO), invalid("`model` is missing")),
        (FORM, &form(&[("model", "m"), ("model", "m")], AUDIO), invalid("`model` occurs twice")),
        (FORM, &form(&[("model\"; filename=\"x", "m"), ("model\"; name=\"y", "m")], AUDIO), invalid("cannot be read")),
        (FORM, &form(&[("model", "nobody")], AUDIO), (404, "model_not_found", "nobody")),
    ];
    for (content_type, body, (status, code, said)) in cases {
        let response = transcribed(&gateway, content_type, body).await;
        let (got, got_code, message) = response.error();
        assert_eq!((got, got_code.as_str()), (status, code), "{message}");
        assert!(message.contains(said), "{message}");
    }
    for (path, ask, said) in [
        (SPEECH, json!({"model": "m"}), "Missing required parameter: 'input'."),
        (IMAGES, json!({"model": "m"}), "Missing required parameter: 'prompt'."),
        (MODERATIONS, json!({"input": "a"}), "`model` is missing"),
    ] {
        let (status, _, message) = read_response(&mut gateway.post(path, &ask).await).await.error();
        assert!(status == 400 && message.contains(said), "{message}");
    }
    let rows = gateway.stop().await;
    assert!(rows.attempts.is_empty() && fake.requests().is_empty());
}

#[tokio::test]
async fn a_large_upload_goes_through_and_a_larger_one_is_a_413() {
    let fake = FakeProvider::answering(|_| typed("application/json", b"{\"text\":\"hi\"}")).await;
    let gateway = Setup::over(&[&fake]).start().await;
    let body = form(&[("model", "m")], &vec![0xff; 26 << 20]);
    let response = transcribed(&gateway, FORM, &body).await;
    assert_eq!((response.status, response.body.as_str()), (200, "{\"text\":\"hi\"}"));
    assert!(fake.request(0).await.body == body, "26 MB as they came");
    gateway.settled("after a large upload").await;
    let mut client = RawClient::connect(gateway.addr()).await;
    let length = (64_usize << 20).to_string();
    let head = format!(
        "POST {TRANSCRIPTIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {FORM}\r\ncontent-length: {length}\r\nexpect: 100-continue\r\n\r\n"
    );
    client.send(head).await;
    let head = client.head().await;
    assert_eq!(head.status, 413);
    gateway.stop().await;
}

#[tokio::test]
async fn upstreams_that_cannot_serve_it_are_named() {
    let a = FakeProvider::start(vec![typed("text/html", b"<html>"), typed("application/json", b"{\"text\":")]).await;
    let b = FakeProvider::start(vec![Script::status(500, &[], "{}"), Script::status(500, &[], "{}")]).await;
    let gemini = FakeProvider::start(vec![]).await;
    let gateway = Setup::over(&[&a, &b])
        .race("policy = \"fallback\"")
        .table(&format!("[providers.g]\nbase_url = \"{}\"\ndialect = \"gemini\"", gemini.base_url()));
    let gateway = gateway.start().await;
    for said in ["web page", "no JSON"] {
        let response = transcribed(&gateway, FORM, &form(&[("model", "m")], AUDIO)).await;
        let (status, code, _) = response.error();
        assert_eq!((status, code.as_str()), (502, "photofinish_all_failed"));
        assert!(response.body.contains(said) && response.body.contains("\"b/m\""), "{}", response.body);
    }
    for (path, ask) in
        [(SPEECH, json!({"model": "g/m", "input": "a"})), (IMAGES, json!({"model": "g/m", "prompt": "a"}))]
    {
        let (status, code, message) = read_response(&mut gateway.post(path, &ask).await).await.error();
        assert_eq!((status, code.as_str()), (400, "photofinish_no_upstream"));
        assert!(
            message.contains("g speaks gemini") && message.contains(path) && message.contains("speaks openai"),
            "{message}"
        );
    }
    gateway.stop().await;
    assert!(gemini.requests().is_empty());
}

#[tokio::test]
async fn a_transcript_of_silence_is_passed_on_if_no_other_comes() {
    let a = FakeProvider::start(vec![typed("text/plain", b"")]).await;
    let b = FakeProvider::start(vec![typed("text/plain", b"\n")]).await;
    let gateway = Setup::over(&[&a, &b]).race("policy = \"fallback\"").start().await;
    let response = transcribed(&gateway, FORM, &form(&[("model", "m"), ("response_format", "text")], AUDIO)).await;
    assert_eq!((response.status, response.header("content-type"), response.upstream()), (200, "text/plain", "a/m"));
    let rows = gateway.stop().await;
    assert_row!(rows.one("a"), json!({"outcome": "empty"}));
    assert_row!(rows.one("b"), json!({"outcome": "empty"}));
}

#[tokio::test]
async fn a_compaction_goes_to_upstreams_of_the_responses_api_first() {
    let compacted = json!({"id": "r", "object": "response.compaction", "output": [{"type": "compaction", "encrypted_content": "x"}],
        "usage": {"input_tokens": 9, "output_tokens": 2}});
    let of_chat = FakeProvider::start(vec![]).await;
    let fake = FakeProvider::start(vec![typed("application/json", compacted.to_string().as_bytes())]).await;
    let gateway = Setup::new()
        .provider("a", &of_chat, "dialect = \"openai\"")
        .provider("b", &fake, "dialect = \"responses\"")
        .start()
        .await;
    let ask = json!({"model": "m", "input": [{"role": "user", "content": "hello"}], "instructions": "be brief"});
    let response = read_response(&mut gateway.post("/v1/responses/compact", &ask).await).await;
    assert_eq!((response.status, response.upstream(), response.json()), (200, "b/m", compacted));
    let up = fake.request(0).await;
    assert_eq!((up.path.as_str(), &up.json()["instructions"]), ("/v1/responses/compact", &json!("be brief")));
    assert!(up.json().get("stream").is_none());
    let rows = gateway.stop().await;
    assert_row!(rows.one("b"), json!({"outcome": "won", "input_tokens": 9, "output_tokens": 2}));
    assert!(of_chat.requests().is_empty());
}
