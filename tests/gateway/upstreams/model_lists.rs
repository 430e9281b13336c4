//! Reading the list of a provider: every page, and why an answer is no list. Not for what a list changes: see `discovery`.

use std::time::Duration;

use photofinish_base::shutdown::Shutdown;
use photofinish_config as config;
use photofinish_gateway::attempt::ModelListRequest;
use photofinish_transport::upstream::{Endpoint, UpstreamClient};
use serde_json::json;

use super::discovery::{list, provider};
use crate::harness::answer::{advance_clock_until, silent};
use crate::support::{FakeProvider, Request, Script};

/// The list of a provider that answers the pages with these scripts, or why there is none.
async fn asked(dialect: &str, scripts: Vec<Script>) -> (Result<Vec<String>, String>, Vec<Request>) {
    let fake = FakeProvider::start(scripts).await;
    let text = provider("x", &fake, &format!("dialect = \"{dialect}\"\ndiscover = true"));
    let config = config::parse(&text, "x".as_ref(), &|_| None).unwrap();
    let (spoken, path) = config.providers["x"].model_list().unwrap();
    let shutdown = Shutdown::new();
    let request = ModelListRequest {
        spoken,
        endpoint: Endpoint::parse(&spoken.base_url).unwrap(),
        key: None,
        path,
        deadline: Duration::from_secs(5),
    };
    let client = UpstreamClient::new(shutdown.clone()).unwrap();
    let read = advance_clock_until(request.send(&client)).await;
    shutdown.cancel();
    (read.map_err(|error| error.to_string()), fake.requests())
}

#[tokio::test]
async fn each_bad_answer_has_its_reason() {
    let whole = list(&["a"]);
    let endless = Script::new().head(200, &[]).chunk("{\"data\":[").chunk(" ".repeat(20 << 20)).chunk("]}").end();
    for (script, why) in [
        (Script::status(304, &[], ""), "it answered with status 304"),
        (Script::status(404, &[], &whole), "it answered with status 404"),
        (Script::status(500, &[], &whole), "it answered with status 500"),
        (Script::status(301, &[("location", "http://example.invalid/models")], &whole), "it answered with status 301"),
        (
            Script::status(200, &[("content-type", "text/html")], "<html></html>"),
            "it is not the JSON of a list of models",
        ),
        (Script::status(200, &[], &whole[..9]), "it is not the JSON of a list of models"),
        (Script::status(200, &[], &list(&[])), "it is empty"),
        (endless, "the answer has more than 8388608 bytes"),
    ] {
        let (read, requests) = asked("openai", vec![script]).await;
        assert_eq!((read, requests.len()), (Err(why.to_owned()), 1));
    }
    let (read, _) = asked("openai", vec![silent()]).await;
    assert_eq!(read, Err("the answer was not complete within 5s".to_owned()));
    let half = Script::new().head(200, &[("content-length", "99")]).raw(&whole[..9]).close();
    assert!(asked("openai", vec![half]).await.0.is_err());
}

#[tokio::test]
async fn every_page_is_read_and_a_list_without_end_is_none() {
    let page = |id: &str, more: bool| {
        Script::status(200, &[], &json!({ "data": [{ "id": id }], "has_more": more, "last_id": id }).to_string())
    };
    let (read, requests) = asked("anthropic", vec![page("a", true), page("b", true), page("c", false)]).await;
    assert_eq!(read, Ok(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    let first = "/v1/models?limit=1000";
    assert_eq!(paths, [first, &format!("{first}&after_id=a"), &format!("{first}&after_id=b")]);
    assert_eq!(requests[1].header("anthropic-version"), Some("2023-06-01"));

    let (read, requests) = asked("anthropic", vec![page("a", true); 30]).await;
    assert_eq!((read.is_err(), requests.len()), (true, 20));
    let token = json!({ "models": [{ "name": "models/a" }], "nextPageToken": "x" }).to_string();
    let last = json!({ "models": [{ "name": "models/b" }] }).to_string();
    let (read, requests) = asked("gemini", [token, last].map(|text| Script::status(200, &[], &text)).into()).await;
    assert_eq!(read, Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(requests[1].path, "/v1/models?pageSize=1000&pageToken=x");
    let (read, _) = asked("anthropic", vec![page("a", true), Script::status(500, &[], "{}")]).await;
    assert!(read.is_err(), "a list that is cut short says nothing about the models that it lacks");
}
