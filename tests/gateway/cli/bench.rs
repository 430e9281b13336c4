//! `photofinish bench` as a program: what it sends, what it says, its exit codes, the rows and the run that it leaves.

use serde_json::Value;

use crate::harness::process::{Setup, provider};
use crate::support::{FakeProvider, Script};

/// A small run. Nothing of it depends on speed.
const FEW: [&str; 8] = ["--concurrency", "2", "--requests", "8", "--input-tokens", "40", "--output-tokens", "2"];

fn answer() -> Script {
    Script::sse().role().tokens(&["Hello", " there"]).finish("stop").usage(40, 2).done().end()
}

/// `a` and `b` answer; requests to `a` cost 0.0001 USD at least.
async fn answering() -> (Setup, FakeProvider) {
    let fake = FakeProvider::answering(|_| answer()).await;
    let config = provider("a", &fake)
        + &provider("b", &fake)
        + "\n[models.m]\nupstreams = [{ upstream = \"a/x\", input_price = 1.0, output_price = 10.0 }, \"b/x\"]\n";
    (Setup::new(&config), fake)
}

fn result(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[tokio::test]
async fn a_run_measures_records_and_can_be_read_again() {
    let (setup, fake) = answering().await;
    let ran = setup.run(&[&["bench", "a/x", "--json", "--label", "first"][..], &FEW].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let result = result(&ran.out);
    let stage = &result["stages"][0];
    assert_eq!((&stage["users"], &stage["target"]), (&2.into(), &"a/x".into()));
    let in_window = stage["ends"]["answered"].as_u64().unwrap() + stage["warm_up"].as_u64().unwrap();
    assert_eq!(in_window, 8, "{stage}");
    assert!(stage["ttft_ms"]["p50"]["value"].as_f64().unwrap() > 0.0);
    // Two first requests, then the stage. No two prompts begin alike.
    let requests = fake.requests();
    assert_eq!(requests.len(), 10);
    let prompt = |at: usize| requests[at].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    let mut begins: Vec<String> = (0..10).map(|at| prompt(at)[..18].to_owned()).collect();
    begins.sort();
    begins.dedup();
    assert_eq!(begins.len(), 10);
    assert_eq!((&requests[3].json()["max_tokens"], &requests[3].json()["temperature"]), (&2.into(), &0.into()));
    assert_eq!(setup.races().await.len(), 10);
    let listed = setup.run(&["bench", "--list"]).await;
    assert!(listed.out.contains("first") && listed.out.contains("a/x"), "{}", listed.out);
    let shown = setup.run(&["bench", "--show", "first", "--json"]).await;
    assert_eq!(self::result(&shown.out), result);
}

#[tokio::test]
async fn two_targets_get_the_same_prompts_behind_other_salts() {
    let (setup, fake) = answering().await;
    let ran = setup.run(&[&["bench", "a/x", "b/x", "--json"][..], &FEW].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(result(&ran.out)["stages"].as_array().unwrap().len(), 2);
    let mut texts: Vec<String> = fake
        .requests()
        .iter()
        .map(|request| request.json()["messages"][0]["content"].as_str().unwrap()[18..].to_owned())
        .map(|text| text.split(" (bench-").next().unwrap().to_owned())
        .collect();
    let sent = texts.len();
    texts.sort();
    texts.dedup();
    assert_eq!((sent, texts.len()), (20, 10));
}

#[tokio::test]
async fn a_key_that_is_refused_costs_one_request() {
    let fake = FakeProvider::answering(|_| Script::status(401, &[], "{\"error\":{\"message\":\"no\"}}")).await;
    let setup = Setup::new(&provider("a", &fake));
    let ran = setup.run(&[&["bench", "a/x"][..], &FEW].concat()).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("photofinish: a/x: unauthorized; nothing more was sent"), "{}", ran.err);
    assert!(fake.requests().len() <= 2);
}

#[tokio::test]
async fn a_storm_of_429_ends_the_stage() {
    let answers = std::sync::atomic::AtomicUsize::new(0);
    let fake = FakeProvider::answering(move |_| match answers.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0..4 => answer(),
        _ => Script::status(429, &[("retry-after", "60")], "{}"),
    })
    .await;
    let setup = Setup::new(&provider("a", &fake));
    let ran =
        setup.run(&["bench", "a/x", "--concurrency", "2", "--requests", "500", "--output-tokens", "2", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let stage = &result(&ran.out)["stages"][0];
    assert!(stage["ended"].as_str().unwrap().starts_with("rate limited at"), "{stage}");
    assert!(fake.requests().len() < 20, "a key that was told to wait is not asked again");
}

#[tokio::test]
async fn the_cap_of_spending_is_never_passed() {
    let (setup, _fake) = answering().await;
    // A request costs 0.00006 USD; its reservation is more.
    let ran = setup
        .run(
            &[
                "bench",
                "a/x",
                "--concurrency",
                "4",
                "--requests",
                "500",
                "--input-tokens",
                "40",
                "--output-tokens",
                "2",
            ]
            .into_iter()
            .chain(["--max-cost", "0.006", "--json"])
            .collect::<Vec<_>>(),
        )
        .await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let result = result(&ran.out);
    assert_eq!(result["stages"][0]["ended"], "the cap of spending was reached");
    let spent = result["cost_usd"][1].as_f64().unwrap();
    assert!(spent > 0.002 && spent <= 0.006, "{spent}");
    let refused = setup.run(&["bench", "a/x", "--max-cost", "0.0000001"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("--max-cost does not cover one request"), "{}", refused.err);
}

#[tokio::test]
async fn conditions_and_comparisons_have_their_exit_codes() {
    let (setup, _fake) = answering().await;
    let bench = |more: &[&str]| [&["bench", "a/x"][..], &FEW, more].concat().into_iter().map(str::to_owned).collect();
    let run = async |more: &[&str]| {
        let arguments: Vec<String> = bench(more);
        setup.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    // Eight requests do not bound a p95, whoever was slow.
    let undecided = run(&["--fail-if", "ttft_p95>1ms", "--label", "base"]).await;
    assert_eq!(undecided.code, Some(4), "{}{}", undecided.out, undecided.err);
    assert!(undecided.out.contains("ttft_p95>1ms: cannot be decided"), "{}", undecided.out);
    let unknown = run(&["--against", "nothing"]).await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("there is no run \"nothing\""), "{}", unknown.err);
    assert!(matches!(run(&["--against", "base"]).await.code, Some(0 | 3 | 4)));
}

#[tokio::test]
async fn any_server_can_be_measured_without_a_configuration() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let setup = Setup::new("");
    let url = fake.base_url();
    let ran = setup.run(&[&["bench", "--url", &url, "--model", "q", "--json"][..], &FEW].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(result(&ran.out)["targets"], serde_json::json!(["url/q"]));
    assert_eq!(fake.request(0).await.json()["model"], "q");
}

#[tokio::test]
async fn an_interrupt_ends_the_run_with_what_there_is() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let setup = Setup::new(&provider("a", &fake));
    let process = setup.spawn(&["bench", "a/x", "--concurrency", "1", "--duration", "1h", "--label", "cut"]);
    fake.request(20).await;
    process.signal("INT");
    assert_eq!(process.ended().await, Some(130), "{}", process.log());
    let shown = setup.run(&["bench", "--show", "cut", "--json"]).await;
    let result = result(&shown.out);
    assert_eq!(result["cut_short"], "it was interrupted");
    assert!(result["stages"][0]["ends"]["answered"].as_u64().unwrap() > 5);
}
