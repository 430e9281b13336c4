//! Simulated providers: each failure on demand ends as its name states, and the fallback wins.

use crate::harness::process::Setup;

const CONFIG: &str = r#"
race.policy = "fallback"
race.timeouts = { first_token = "1s", idle = "1s" }
[providers.bad]
simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 10000, tokens = 5 }
[providers.good]
simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 10000, tokens = 5 }
"#;

async fn fails(failure: &str, first: &str) {
    let served = Setup::new(CONFIG).serve().await;
    let answer = served.ask(&format!("bad/fail-{failure},good/model")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("x-photofinish-upstream"), "good/model");
    assert_eq!(answer.header("x-simulated"), "true");
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
    let setup = served.stop().await;
    assert_eq!(setup.attempts().await, [first, "good won"]);
    assert_eq!(setup.races().await, ["ok 2 200"]);
    assert_eq!(setup.texts("SELECT start_reason FROM attempt ORDER BY ordinal").await, ["first", "fallback"]);
}

macro_rules! failures {
    ($($test:ident: $failure:literal is $first:literal;)+) => {
        $(#[tokio::test]
        async fn $test() {
            fails($failure, $first).await;
        })+
    };
}

failures! {
    a_429: "429" is "bad failed rate_limited";
    a_401: "401" is "bad failed unauthorized";
    a_400: "400" is "bad failed bad_request";
    a_500: "500" is "bad failed server_error";
    a_hang: "hang" is "bad timeout timeout";
    a_stall: "stall" is "bad timeout timeout";
    a_reset: "reset" is "bad failed closed";
    an_error_frame: "error-frame" is "bad failed overloaded";
    an_empty_answer: "empty" is "bad empty";
}

#[tokio::test]
async fn a_cut_stream_is_an_error_for_streaming_clients_and_a_fallback_for_others() {
    let served = Setup::new(CONFIG).serve().await;
    let answer = served.ask("bad/fail-cut,good/model").await;
    let events = answer.events();
    assert!(events.last().unwrap().contains("\"error\""), "{events:?}");
    assert!(!events.iter().any(|event| event == "[DONE]"));

    let mut body = crate::harness::process::asking("bad/fail-cut,good/model");
    body["stream"] = false.into();
    let answer = served.chat(&[], &body).await;
    assert_eq!((answer.status, answer.header("x-photofinish-upstream")), (200, "good/model"));
    let setup = served.stop().await;
    let outcomes = setup.texts("SELECT provider || ' ' || outcome FROM attempt ORDER BY race_id, ordinal").await;
    assert_eq!(outcomes, ["bad failed_mid", "bad failed", "good won"]);
    assert_eq!(setup.races().await, ["error 1 200", "ok 2 200"]);
}

#[tokio::test]
async fn if_all_fail_every_failure_is_listed() {
    let served = Setup::new(CONFIG).serve().await;
    let answer = served.ask("bad/fail-500,good/fail-401").await;
    let (status, code, message) = answer.error();
    assert_eq!((status, code.as_str()), (502, "photofinish_all_failed"), "{message}");
    let attempts = answer.json()["error"]["attempts"].clone();
    assert_eq!((&attempts[0]["upstream"], &attempts[0]["failure"]), (&"bad/fail-500".into(), &"server_error".into()));
    assert_eq!((&attempts[1]["upstream"], &attempts[1]["failure"]), (&"good/fail-401".into(), &"unauthorized".into()));
    assert_eq!((&attempts[0]["status"], &attempts[1]["status"]), (&500.into(), &401.into()));
    // The gateway has no key there that could be wrong, so nobody else is kept from asking.
    let answer = served.ask("good/fail-401").await;
    assert_eq!((answer.error().0, answer.error().1.as_str()), (502, "photofinish_all_failed"));
    assert_eq!(answer.json()["error"]["attempts"][0]["failure"], "unauthorized");
    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["error 2 502", "error 1 502"]);
}

#[tokio::test]
async fn images_moderations_and_transcripts_are_simulated_too() {
    let served = Setup::new(CONFIG).serve().await;
    let bodies = [
        ("/v1/images/generations", "{\"model\":\"good/m\",\"prompt\":\"a\"}", "application/json", "b64_json"),
        (
            "/v1/moderations",
            "{\"model\":\"bad/fail-500,good/m\",\"input\":[\"a\"]}",
            "application/json",
            "\"flagged\":false",
        ),
    ];
    for (path, body, content_type, part) in bodies {
        let answer = served.send("POST", path, &[], body).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, content_type), "{}", answer.body);
        assert!(answer.body.contains(part) && answer.header("x-simulated") == "true", "{}", answer.body);
    }
    let form = "--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nbad/fail-empty,good/m\r\n--x--\r\n";
    let headers = [("content-type", "multipart/form-data; boundary=x")];
    let answer = served.send("POST", "/v1/audio/transcriptions", &headers, form).await;
    assert!(answer.body.contains("a simulated answer from good"), "{}", answer.body);
    let setup = served.stop().await;
    assert_eq!(setup.races().await, ["ok 1 200", "ok 2 200", "ok 2 200"]);
}
