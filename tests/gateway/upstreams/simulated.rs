//! Simulated providers: each failure on demand ends as its name states, and the fallback wins.

use serde_json::{Value, json};

use crate::harness::process::{RunningGateway, Setup, asking};

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
    // The gateway has no key there that could be wrong, so no other caller is kept from asking.
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

/// One host breaks a call in ten, the other none.
const BREAKS_CALLS: &str = r#"
race.policy = "weighted"
race.quality = "QUALITY"
race.patience = 0
models.m.upstreams = ["bad/m", "good/m"]
[providers.bad]
simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 100000, bad_calls = 0.1, seed = 3 }
[providers.good]
simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 100000, bad_calls = 0, seed = 4 }
"#;

fn with_tools() -> Value {
    let mut body = asking("m");
    let schema = json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}});
    body["tools"] = json!([{"type": "function", "function": {"name": "weather", "parameters": schema}}]);
    body
}

/// What `/api/routing` says of this upstream.
async fn quality(served: &RunningGateway, upstream: &str) -> Value {
    let seen = served.get("/api/routing", &[]).await.json();
    let all = seen["upstreams"].as_array().unwrap().iter();
    all.filter(|now| now["upstream"] == upstream).map(|now| now["quality"][0].clone()).next().unwrap()
}

/// Asks until the broken host is found.
async fn find(served: &RunningGateway) {
    for _ in 0..30 {
        for _ in 0..40 {
            assert_eq!(served.chat(&[], &with_tools()).await.status, 200);
        }
        if quality(served, "bad/m").await["worse"] == "calls" {
            return;
        }
    }
    panic!("not found: {}", quality(served, "bad/m").await);
}

#[tokio::test]
async fn a_host_that_breaks_one_call_in_ten_is_found_in_traffic_and_moved() {
    let served = Setup::new(&BREAKS_CALLS.replace("QUALITY", "prefer")).serve().await;
    find(&served).await;
    let (bad, good) = (quality(&served, "bad/m").await, quality(&served, "good/m").await);
    assert!(bad["broken_share"].as_f64().unwrap() > 0.05 && good["broken_share"] == 0.0, "{bad} {good}");
    assert_eq!((&bad["model"], &good["worse"]), (&"m".into(), &Value::Null));
    for _ in 0..20 {
        let answer = served.chat(&[], &with_tools()).await;
        assert_eq!((answer.header("x-photofinish-upstream"), answer.header("x-photofinish-quality")), ("good/m", ""));
    }
    let mut plain = Vec::new();
    for _ in 0..20 {
        plain.push(served.ask("m").await.header("x-photofinish-upstream").to_owned());
    }
    assert!(plain.iter().any(|upstream| upstream == "bad/m"), "without tools nothing changes: {plain:?}");
    let setup = served.stop().await;
    let log = setup.texts("SELECT DISTINCT why FROM race WHERE has_tools = 1 ORDER BY 1").await;
    assert_eq!(log, ["listed", "listed quality"]);
    let kinds =
        setup.texts("SELECT DISTINCT provider || ' ' || calls FROM attempt WHERE calls IS NOT NULL ORDER BY 1").await;
    assert_eq!(kinds, ["bad breaks_schema", "bad not_json", "bad unknown_name", "bad valid", "good valid"]);
    assert_eq!(setup.number("SELECT count(DISTINCT tool_set) FROM attempt").await, 1);
    assert_eq!(setup.number("SELECT count(*) FROM attempt WHERE structured IS NOT NULL").await, 0);

    // What was learnt outlives the process.
    let served = setup.serve().await;
    assert_eq!(quality(&served, "bad/m").await["worse"], "calls");
    served.stop().await;
}

/// The quickest host has an old engine.
const OLD_ENGINE: &str = r#"
race.policy = "race"
race.quality = "prefer"
race.patience = 0
models.m.upstreams = ["old/m", "one/m", "two/m"]
[providers.old]
simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 100000, obeys = true, wrong = ["effort"], seed = 1 }
[providers.one]
simulate = { ttft = "100ms", jitter = 0, tokens_per_second = 100000, obeys = true, seed = 2 }
[providers.two]
simulate = { ttft = "100ms", jitter = 0, tokens_per_second = 100000, obeys = true, seed = 3 }
"#;

#[tokio::test]
async fn an_engine_that_ignores_a_switch_wins_until_it_is_verified() {
    let served = Setup::new(OLD_ENGINE).serve().await;
    let winner = async || served.chat(&[], &with_tools()).await.header("x-photofinish-upstream").to_owned();
    for _ in 0..3 {
        assert_eq!(winner().await, "old/m");
    }
    let verified = served.setup.run(&["verify", "m"]).await;
    assert_eq!(verified.code, Some(3), "{}", verified.err);
    assert!(verified.out.contains("old/m  effort  no"), "{}", verified.out);
    let setup = served.stop().await;
    let served = setup.serve().await;
    assert_eq!(quality(&served, "old/m").await["worse"], "effort");
    for _ in 0..3 {
        let answer = served.chat(&[], &with_tools()).await;
        assert_ne!(answer.header("x-photofinish-upstream"), "old/m");
    }
    let plain = served.ask("m").await;
    assert_eq!(plain.header("x-photofinish-upstream"), "old/m", "without tools nothing changes");
    let setup = served.stop().await;
    let why = setup.texts("SELECT DISTINCT why FROM race WHERE why LIKE '%quality%'").await;
    assert_eq!(why.len(), 1, "{why:?}");
}

#[tokio::test]
async fn such_a_host_is_named_or_left_out_but_never_the_last() {
    let served = Setup::new(&BREAKS_CALLS.replace("QUALITY", "warn")).serve().await;
    find(&served).await;
    served.process.logged("answers worse than the others").await;
    let mut named = false;
    for _ in 0..40 {
        let answer = served.chat(&[], &with_tools()).await;
        let is_bad = answer.header("x-photofinish-upstream") == "bad/m";
        assert_eq!(answer.header("x-photofinish-quality"), if is_bad { "calls" } else { "" });
        named |= is_bad;
    }
    assert!(named, "it is still asked");
    let (checked, reported) = (served.setup.run(&["check"]).await, served.setup.run(&["report"]).await);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = "bad/m answers requests with tools worse than the other hosts of m: calls.";
    assert!(words(&checked.out).contains(named) && !checked.out.contains("good/m answers"), "{}", checked.out);
    let calls = words(reported.out.split_once("Calls").unwrap().1);
    assert!(calls.contains("bad/m") && calls.contains("good/m") && calls.contains(" 0.0 %"), "{}", reported.out);
    let setup = served.stop().await;

    setup.configure(&BREAKS_CALLS.replace("QUALITY", "exclude"));
    let served = setup.serve().await;
    for _ in 0..20 {
        assert_eq!(served.chat(&[], &with_tools()).await.header("x-photofinish-upstream"), "good/m");
    }
    let mut alone = with_tools();
    alone["model"] = "bad/m".into();
    assert_eq!(served.chat(&[], &alone).await.header("x-photofinish-upstream"), "bad/m");
    let setup = served.stop().await;
    let left_out = setup.texts("SELECT DISTINCT left_out FROM race WHERE left_out IS NOT NULL").await;
    assert_eq!(left_out, ["bad/m@quality"]);

    // Where the others fail during the race, it is the last resort.
    setup.configure(
        &BREAKS_CALLS.replace("QUALITY", "exclude").replace("bad_calls = 0,", "failures = 1, bad_calls = 0,"),
    );
    let served = setup.serve().await;
    for stream in [false, true] {
        let mut body = with_tools();
        body["stream"] = stream.into();
        let answer = served.chat(&[], &body).await;
        assert_eq!((answer.status, answer.header("x-photofinish-upstream")), (200, "bad/m"));
        assert_eq!((answer.header("x-photofinish-quality"), answer.header("x-photofinish-attempts")), ("calls", "2"));
    }
    let setup = served.stop().await;
    let decided = setup
        .texts(
            "SELECT plan || ', ' || why || ', ' || ifnull(left_out, 'none') FROM race ORDER BY started_at DESC LIMIT 2",
        )
        .await;
    assert_eq!(decided, vec!["good/m@0 bad/m@last, listed last_resort, none"; 2]);

    // Where no other is left, it is asked.
    let alone = BREAKS_CALLS.replace("QUALITY", "exclude").replace(", \"good/m\"", "");
    setup.configure(&alone);
    let served = setup.serve().await;
    assert_eq!(served.chat(&[], &with_tools()).await.header("x-photofinish-upstream"), "bad/m");
    served.stop().await;
}

/// A newcomer as a shadow of the one host: every request goes there too.
const SHADOWED: &str = r#"
models.m.upstreams = ["good/m"]
models.m.shadow = "new/m"
models.m.shadow_share = 1
[providers.good]
simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 100000, bad_calls = 0, seed = 3 }
[providers.new]
simulate = { ttft = "TTFT", jitter = 0, tokens_per_second = 100000, bad_calls = 0.5, seed = 4 }
"#;

#[tokio::test]
async fn a_shadow_is_asked_too_judged_and_recorded_and_answers_nobody() {
    let served = Setup::new(&SHADOWED.replace("TTFT", "1ms")).serve().await;
    for stream in [true, false].repeat(20) {
        let mut body = with_tools();
        body["stream"] = stream.into();
        let answer = served.chat(&[], &body).await;
        assert_eq!((answer.header("x-photofinish-upstream"), answer.header("x-photofinish-attempts")), ("good/m", "1"));
    }
    let models = served.setup.run(&["models", "m"]).await;
    assert!(models.out.contains("new/m") && models.out.contains("shadow of 100 %"), "{}", models.out);
    let setup = served.stop().await;
    let rows = setup
        .texts(
            "SELECT source || ' ' || provider || ' ' || attempts || ' ' || race.model \
             FROM race JOIN attempt USING (race_id) GROUP BY 1 ORDER BY 1",
        )
        .await;
    assert_eq!(rows, ["client good 1 m", "shadow new 1 m"]);
    let broken = "SELECT count(*) FROM attempt WHERE provider = 'new' AND calls NOT IN ('valid', 'not_checked')";
    assert!(setup.number(broken).await > 5, "its calls are judged");
    let (clients, shadows) = (setup.run(&["stats"]).await, setup.run(&["stats", "--source", "shadow", "--wide"]).await);
    let attempts = |name: &str| clients.out.lines().find(|line| line.contains(name))?.split_whitespace().nth(1);
    assert_eq!(
        (attempts("good/m"), attempts("new/m")),
        (Some("40"), Some("0")),
        "only the cost counts: {}",
        clients.out
    );
    assert!(shadows.out.contains("new/m") && !shadows.out.contains("good/m"), "{}", shadows.out);

    // One that hangs delays neither an answer nor the end.
    setup.configure(&SHADOWED.replace("TTFT", "10m"));
    let served = setup.serve().await;
    assert_eq!(served.chat(&[], &with_tools()).await.header("x-photofinish-upstream"), "good/m");
    let setup = served.stop().await;
    let cut = "SELECT attempt.outcome FROM race JOIN attempt USING (race_id) WHERE source = 'shadow' AND attempt.outcome IN ('client_gone', 'shutdown')";
    assert_eq!(setup.texts(cut).await.len(), 1, "and its row is written");
}

/// One host that gives log-probabilities.
const SHOWS_SHARES: &str = r#"
models.m.upstreams = ["host/m"]
providers.host.simulate = { ttft = "1ms", jitter = 0, tokens_per_second = 100000, obeys = true, seed = 1 }
probes = { max_tokens = 100000, workloads = ["fingerprint"], every = "7d" }
"#;

#[tokio::test]
async fn a_host_that_begins_its_answers_in_another_way_for_three_days_has_changed() {
    let setup = Setup::new(SHOWS_SHARES);
    let probe = async || {
        let probed = setup.run(&["probe", "--upstreams", "host/m", "--workload", "fingerprint"]).await;
        assert_eq!(probed.code, Some(0), "{}{}", probed.out, probed.err);
    };
    probe().await;
    let [kept] = &setup.texts("SELECT detail FROM verdict WHERE fact = 'first_tokens'").await[..] else { panic!() };
    assert!(
        kept.split(' ').all(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))),
        "{kept}"
    );
    // Six earlier days on which it said something else, and two like today.
    let days = "WITH RECURSIVE day(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM day WHERE n < 8) INSERT INTO verdict \
         SELECT at - n * 86400000000, model, host, fact, answer, reference, CASE WHEN n <= 2 THEN detail ELSE '1:1.0' END, wrong \
         FROM verdict, day";
    setup.texts(days).await;
    setup.texts("DELETE FROM verdict WHERE at = (SELECT max(at) FROM verdict)").await;
    probe().await;
    let seen = setup.run(&["incidents"]).await;
    let words = seen.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("host/m") && words.contains("the model behind it changed about 20"),
        "{}{}",
        seen.out,
        seen.err
    );
    probe().await;
    assert_eq!(setup.number("SELECT count(*) FROM incident").await, 1, "it is reported once");
}
