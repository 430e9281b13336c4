//! What `photofinish bench` says for CI: conditions, comparisons with earlier runs, searches, and their exit codes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::harness::process::{CommandOutput, Setup, provider};
use crate::support::{FakeProvider, Script};

/// One token, so that there is no speed between tokens to compare.
const FEW: [&str; 10] =
    ["--concurrency", "4", "--requests", "12", "--input-tokens", "40", "--output-tokens", "1", "--warm-up", "0s"];
/// A stage is measured again where the machine was too busy to trust it.
const TRIES: usize = 4;

fn answer(after: Duration) -> Script {
    Script::sse().delay(after).role().token("Hello").finish("stop").usage(40, 1).done().end()
}

/// `fast` has its first token after 100 ms, `slow` after 500 ms.
async fn servers() -> (Setup, FakeProvider, FakeProvider) {
    let fast = FakeProvider::answering(|_| answer(Duration::from_millis(100))).await;
    let slow = FakeProvider::answering(|_| answer(Duration::from_millis(500))).await;
    (Setup::new(&(provider("fast", &fast) + &provider("slow", &slow))), fast, slow)
}

async fn bench(setup: &Setup, target: &str, more: &[&str]) -> CommandOutput {
    setup.run(&[&["bench", target][..], &FEW, more].concat()).await
}

fn json(ran: &CommandOutput) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

fn is_trusted(result: &Value) -> bool {
    result["stages"].as_array().unwrap().iter().all(|stage| stage["doubts"].as_array().unwrap().is_empty())
}

/// Runs until the client was fast enough, a few times at most. The exit code must be `code`; where the client was too slow, what
/// was asked for may be undecided. `before` prepares the server for a run.
async fn judged_after(before: impl Fn(), setup: &Setup, target: &str, more: &[&str], code: i32) -> Value {
    let asks = more.iter().any(|option| ["--fail-if", "--against"].contains(option));
    let more = [more, &["--json"]].concat();
    let mut result = Value::Null;
    for _ in 0..TRIES {
        before();
        let ran = bench(setup, target, &more).await;
        result = json(&ran);
        let is_open = asks && !is_trusted(&result) && ran.code == Some(4);
        assert!(is_open || ran.code == Some(code), "{:?}: {}{}", ran.code, ran.out, ran.err);
        if is_trusted(&result) {
            break;
        }
    }
    result
}

async fn judged(setup: &Setup, target: &str, more: &[&str], code: i32) -> Value {
    judged_after(|| {}, setup, target, more, code).await
}

#[tokio::test]
async fn a_condition_ends_with_0_or_3() {
    let (setup, _fast, _slow) = servers().await;
    let met = judged(&setup, "fast/x", &["--no-store", "--fail-if", "ttft_p50>300ms"], 0).await;
    let missed = judged(&setup, "slow/x", &["--no-store", "--fail-if", "ttft_p50>300ms"], 3).await;
    for (result, outcome) in [(met, "met"), (missed, "missed")] {
        let condition = &result["conditions"][0];
        assert_eq!(condition["condition"], "ttft_p50>300ms");
        let is_open = !is_trusted(&result) && condition["outcome"] == "undecided";
        assert!(is_open || condition["outcome"] == outcome, "{condition}");
    }
}

#[tokio::test]
async fn a_client_that_is_late_does_not_hide_what_is_far_beyond_a_limit() {
    let (setup, _fast, _slow) = servers().await;
    for _ in 0..TRIES {
        let ran = bench(&setup, "slow/x", &["--no-store", "--fail-if", "ttft_p50>10ms", "--json"]).await;
        let error_ms = json(&ran)["stages"][0]["client_error_ms"].as_f64().unwrap();
        // Beyond that the client itself might be the whole time.
        if error_ms < 400.0 {
            return assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
        }
    }
    panic!("the client was never within 400 ms");
}

#[tokio::test]
async fn a_run_that_measured_nothing_does_not_end_with_0() {
    let (setup, fast, _slow) = servers().await;
    let load =
        ["--concurrency", "4", "--requests", "12", "--output-tokens", "1", "--warm-up", "29s", "--label", "none"];
    let ran = setup.run(&[&["bench", "fast/x"][..], &load].concat()).await;
    assert_eq!(ran.code, Some(4), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("cannot be decided: fast/x: nothing was measured"), "{}", ran.out);
    assert_eq!(fast.requests().len(), 14);
    assert_eq!(setup.run(&["bench", "--show", "none"]).await.code, Some(4));
}

#[tokio::test]
async fn a_run_is_better_or_worse_than_another() {
    let (setup, _fast, _slow) = servers().await;
    let fast = judged(&setup, "fast/x", &["--label", "fast"], 0).await;
    let slow = judged(&setup, "slow/x", &["--label", "slow"], 0).await;
    for (name, base, target, code) in [("fast", &fast, "slow/x", 3), ("slow", &slow, "fast/x", 0)] {
        let code = if is_trusted(base) { code } else { 4 };
        let result = judged(&setup, target, &["--against", name, "--no-store"], code).await;
        if code != 4 && is_trusted(&result) {
            let verdict = if code == 3 { "worse" } else { "better" };
            assert_eq!(result["against"][0]["verdict"], verdict, "{}", result["against"]);
        }
    }
    // A stored run is judged without a request.
    let shown =
        setup.run(&["bench", "--show", "slow", "--against", "fast", "--fail-if", "ttft_p50>300ms", "--json"]).await;
    let is_open = !is_trusted(&slow) && shown.code == Some(4);
    assert!(is_open || shown.code == Some(3), "{}{}", shown.out, shown.err);
    assert_eq!(json(&shown)["conditions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn other_work_is_refused_before_a_request() {
    let (setup, fast, _slow) = servers().await;
    setup.write("own.jsonl", "{\"prompt\":\"secret\"}\n");
    assert_eq!(bench(&setup, "fast/x", &["--label", "base"]).await.code, Some(0));
    let sent = fast.requests().len();
    let usual = ["bench", "fast/x", "--against", "base"];
    for (arguments, said) in [
        (
            &["--concurrency", "4", "--input-tokens", "80", "--output-tokens", "1"][..],
            "lengths: 40 tokens in, 1 out there",
        ),
        (&["--concurrency", "4", "--workload", "10k"], "lengths: 40 tokens in"),
        (
            &["--input-tokens", "40", "--output-tokens", "1", "--concurrency", "4,5"],
            "it did not measure fast/x at 5 users",
        ),
        (&["--input-tokens", "40", "--output-tokens", "1", "--request-rate", "4"], "it did not measure fast/x at 4/s"),
        (
            &["--input-tokens", "40", "--output-tokens", "1", "--concurrency", "4", "--prefix", "0.5"],
            "--prefix: 0 there",
        ),
        (
            &["--input-tokens", "40", "--output-tokens", "1", "--concurrency", "4", "--body", "{\"user\":\"u\"}"],
            "--body: given here",
        ),
        (
            &["--find", "rate", "--slo", "ttft=1s", "--input-tokens", "40", "--output-tokens", "1"],
            "it searched no rate",
        ),
    ] {
        let ran = setup.run(&[&usual[..], arguments].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(&format!("--against base: {said}")), "{arguments:?}: {}", ran.err);
    }
    assert_eq!(fast.requests().len(), sent, "nothing was sent");
    // Own prompts, and a fingerprint instead of them.
    let own = ["--concurrency", "4", "--requests", "12", "--output-tokens", "1", "--prompts", "own.jsonl"];
    let ran = setup.run(&[&["bench", "fast/x", "--label", "own", "--json"][..], &own].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(json(&ran)["prompts"].as_str().unwrap().len(), 16);
    setup.write("own.jsonl", "{\"prompt\":\"another\"}\n");
    let ran = setup.run(&[&["bench", "fast/x", "--against", "own"][..], &own].concat()).await;
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("--against own: --prompts: others there than here"), "{}", ran.err);
}

#[tokio::test]
async fn what_cannot_be_decided_has_a_reason() {
    let (setup, _fast, _slow) = servers().await;
    // Nothing bounds a p95 of twelve requests above.
    let undecided = bench(&setup, "fast/x", &["--fail-if", "ttft_p95>1h", "--label", "base"]).await;
    assert_eq!(undecided.code, Some(4), "{}{}", undecided.out, undecided.err);
    assert!(undecided.out.contains("ttft_p95>1h: cannot be decided: fast/x, 4 users"), "{}", undecided.out);
    let newer = "UPDATE run SET result = json_set(result, '$.version', 2)";
    sqlx::query(newer).execute(&mut setup.connect().await).await.unwrap();
    let ran = bench(&setup, "fast/x", &["--against", "base", "--no-store"]).await;
    assert_eq!(ran.code, Some(4), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("cannot be decided: base: its result is of version 2"), "{}", ran.out);
    let unknown = bench(&setup, "fast/x", &["--against", "bsae"]).await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.said().contains("no run has the id or the label 'bsae'"), "{}", unknown.err);
    assert!(unknown.said().contains("did you mean base?"), "{}", unknown.err);
}

#[tokio::test]
async fn a_server_that_answers_half_of_the_requests_is_not_the_same() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let half = FakeProvider::answering(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        // The first requests of a run are answered, then every other one.
        at if at >= 2 && at % 2 == 1 => Script::status(500, &[], "{}"),
        _ => answer(Duration::from_millis(100)),
    })
    .await;
    let fast = FakeProvider::answering(|_| answer(Duration::from_millis(100))).await;
    let setup = Setup::new(&(provider("fast", &fast) + &provider("half", &half)));
    let base = judged(&setup, "fast/x", &["--label", "base"], 0).await;
    let code = if is_trusted(&base) { 3 } else { 4 };
    let anew = || asked.store(0, Ordering::Relaxed);
    let result = judged_after(anew, &setup, "half/x", &["--against", "base", "--no-store"], code).await;
    if is_trusted(&base) && is_trusted(&result) {
        let first = &result["against"][0];
        assert_eq!((&first["figure"], &first["verdict"]), (&"answered".into(), &"worse".into()), "{first}");
    }
}

#[tokio::test]
async fn a_search_that_decides_nothing_ends_with_4() {
    let (setup, _fast, _slow) = servers().await;
    let asked = ["--find", "rate", "--slo", "ttft=5s", "--requests", "20", "--output-tokens", "1", "--no-store"];
    let ran = setup.run(&[&["bench", "fast/x"][..], &asked].concat()).await;
    assert_eq!(ran.code, Some(4), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("cannot be decided: fast/x: no rate passes or fails for certain"), "{}", ran.out);
}

#[tokio::test]
async fn a_dead_server_ends_a_search() {
    let answers = AtomicUsize::new(0);
    let fake = FakeProvider::answering(move |_| match answers.fetch_add(1, Ordering::Relaxed) {
        0..2 => answer(Duration::ZERO),
        _ => Script::new().reset(),
    })
    .await;
    let setup = Setup::new(&provider("a", &fake));
    let asked =
        ["--find", "rate", "--slo", "ttft=1s", "--requests", "500", "--output-tokens", "1", "--no-store", "--json"];
    let ran = setup.run(&[&["bench", "a/x"][..], &asked].concat()).await;
    assert_eq!(ran.code, Some(4), "{}{}", ran.out, ran.err);
    let result = json(&ran);
    assert_eq!(result["stages"].as_array().unwrap().len(), 1, "no rate was tried after it");
    assert_eq!(result["stages"][0]["ended_by"], "failing");
}

#[tokio::test]
async fn runs_are_listed_as_json_and_with_a_configuration() {
    let (setup, _fast, _slow) = servers().await;
    assert_eq!(bench(&setup, "fast/x", &["--label", "base"]).await.code, Some(0));
    let listed = setup.run(&["bench", "--list", "--json"]).await;
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    assert_eq!(json(&listed)["runs"][0]["label"], "base");
    let config = setup.path("config.toml");
    let listed = setup.run(&["bench", "--list", "--config", config.to_str().unwrap()]).await;
    assert!(listed.code == Some(0) && listed.out.contains("base"), "{}{}", listed.out, listed.err);
}
