//! The loads of `photofinish bench` as a program: what is sent, how it is counted, and what a result says of it. Counts and names,
//! never times: other tests use the machine meanwhile.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{FEW, answer, answering, result};
use crate::harness::process::{CommandOutput, Setup, provider};
use crate::support::{Dialect, FakeProvider, Gate, Request, Script, soon};

/// Answers of two tokens, nothing stored, no warm-up left out.
const PLAIN: [&str; 6] = ["--output-tokens", "2", "--warm-up", "0s", "--no-store", "--json"];

async fn bench(setup: &Setup, target: &str, more: &[&str]) -> Value {
    let ran = setup.run(&[&["bench", target][..], &PLAIN, more].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    result(&ran.out)
}

fn texts(requests: &[Request]) -> Vec<String> {
    let text = |request: &Request| request.json()["messages"][0]["content"].as_str().unwrap().to_owned();
    requests.iter().map(text).collect()
}

#[tokio::test]
async fn an_open_loop_sends_every_arrival_and_tells_both_times() {
    let (setup, fake) = answering().await;
    let ran = bench(&setup, "b/x", &["--request-rate", "50", "--arrivals", "constant", "--requests", "20"]).await;
    let stage = &ran["stages"][0];
    assert_eq!((&stage["request_rate"], &stage["arrivals"]), (&json!(50.0), &json!("constant")));
    assert_eq!(stage["ends"], json!({ "answered": 20 }));
    assert_eq!(fake.requests().len(), 22, "two first requests");
    let (dispatched, scheduled) = (&stage["ttft_ms"], &stage["client_ttft_ms"]);
    assert_eq!((&dispatched["n"], &scheduled["n"]), (&json!(20), &json!(20)));
    assert!(scheduled["mean"].as_f64() >= dispatched["mean"].as_f64(), "the schedule has the lag in it: {stage}");
    assert!(stage["lag_p99_ms"].as_f64() >= stage["lag_p50_ms"].as_f64() && stage["lag_p50_ms"].is_number(), "{stage}");
}

#[tokio::test]
async fn arrivals_beyond_the_bound_are_dropped_and_are_not_good() {
    // The first arrival is answered long after the last one came.
    let held = || Script::sse().role().delay(Duration::from_millis(1_500)).token("a").finish("stop").usage(40, 2);
    let fake = FakeProvider::answering(move |request| match request.number {
        2 => held().done().end(),
        _ => answer(),
    })
    .await;
    let setup = Setup::new(&provider("a", &fake));
    let load = ["--request-rate", "50", "--arrivals", "constant", "--requests", "10", "--in-flight-max", "1"];
    let ran = bench(&setup, "a/x", &[&load[..], &["--slo", "e2e=1h"]].concat()).await;
    let stage = &ran["stages"][0];
    assert_eq!(stage["ends"], json!({ "answered": 1, "dropped": 9 }));
    assert!((stage["attainment"]["value"].as_f64().unwrap() - 0.1).abs() < 1e-9, "{stage}");
    assert_eq!(fake.requests().len(), 3);
}

#[tokio::test]
async fn a_search_for_what_no_server_can_do_finds_only_rates_that_fail() {
    let setup = Setup::new(
        "[providers.sim]\nsimulate = { ttft = \"20ms\", jitter = 0.0, tokens = 1, tokens_per_second = 1000, seed = 1 }\n",
    );
    let load = ["--find", "rate", "--slo", "ttft=1ms", "--duration", "700ms", "--requests", "60"];
    let ran = setup.run(&[&["bench", "sim/m"][..], &PLAIN, &load].concat()).await;
    assert_eq!(ran.code, Some(4), "no rate passed: {}", ran.err);
    let found = result(&ran.out)["found"][0].clone();
    let trials = found["trials"].as_array().unwrap();
    let of = |verdict: &str| trials.iter().filter(|trial| trial["verdict"] == verdict).collect::<Vec<_>>();
    assert!(found["passes"].is_null() && of("pass").is_empty(), "{found}");
    // A busy machine spoils trials, which then count for nothing; three in a row end the search.
    let spoiled = |trial: &&Value| trial["doubts"].as_array().is_some_and(|doubts| !doubts.is_empty());
    let failed = of("fail");
    assert!(!failed.is_empty() || trials.iter().rev().take(3).filter(spoiled).count() == 3, "{found}");
    let lowest = failed.iter().filter_map(|trial| trial["rate"].as_f64()).reduce(f64::min);
    assert_eq!(found["fails"].as_f64(), lowest);
    assert!(failed.iter().all(|trial| trial["missed"] == "ttft" && trial["attainment"] == 0.0), "{found}");
}

#[tokio::test]
async fn policies_of_a_model_are_compared_on_the_same_prompts() {
    let (setup, fake) = answering().await;
    let policies = ["--model", "m", "--policy", "race", "--policy", "fallback"];
    let ran = setup.run(&[&["bench", "--json"][..], &policies, &FEW].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let found = result(&ran.out);
    assert_eq!(found["targets"], json!(["model m, race", "model m, fallback"]));
    let stages = found["stages"].as_array().unwrap();
    assert_eq!(
        stages.iter().map(|stage| &stage["target"]).collect::<Vec<_>>(),
        found["targets"].as_array().unwrap().iter().collect::<Vec<_>>()
    );
    // Where the client was too slow, the stages are not compared.
    for compared in found["comparisons"].as_array().unwrap() {
        assert_eq!((&compared["base"], &compared["other"]), (&found["targets"][0], &found["targets"][1]));
    }
    let mut races = setup.texts("SELECT policy || ' ' || attempts FROM race").await;
    races.sort();
    assert_eq!(races, [vec!["fallback 1"; 10], vec!["race 2"; 10]].concat());
    let mut words: Vec<String> =
        texts(&fake.requests()).iter().map(|text| text[18..].split(" (bench-").next().unwrap().to_owned()).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), 10);
}

#[tokio::test]
async fn a_user_asks_again_while_the_loser_of_its_race_is_drained() {
    // The loser of a request ends once the next request came. The two first requests are blocks of their own, and the last
    // request has no next.
    let gates: Vec<Gate> = (0..6).map(|_| Gate::new()).collect();
    let next = gates.clone();
    let winner = FakeProvider::answering(move |request| {
        if let Some(before) = request.number.checked_sub(1) {
            next[before].open();
        }
        answer()
    })
    .await;
    let loser = FakeProvider::answering(move |request| match request.number {
        0 | 1 | 4 => Script::status(500, &[], "{}"),
        number => Script::sse().role().wait(&gates[number]).token("late").finish("stop").usage(40, 1).done().end(),
    })
    .await;
    let full = provider("b", &loser) + "cancel_billing = \"bills_full\"\n";
    let setup = Setup::new(&(provider("a", &winner) + &full + "[models.m]\nupstreams = [\"a/x\", \"b/x\"]\n"));
    let load = ["--policy", "race", "--concurrency", "1", "--requests", "3"];
    let ran = setup.run(&[&["bench", "--model", "m"][..], &PLAIN, &load].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(result(&ran.out)["stages"][0]["ends"], json!({ "answered": 3 }));
    assert_eq!((winner.requests().len(), loser.requests().len()), (5, 5));
}

#[tokio::test]
async fn a_race_needs_a_descriptor_for_each_attempt() {
    let (setup, fake) = answering().await;
    let program = setup.command(&[]).get_program().to_owned();
    for (load, said) in [
        ("--policy race --concurrency 4", "4 users with 2 attempts each: at least 72 file descriptors are needed"),
        ("--policy fallback --concurrency 7", "7 users: at least 71 file descriptors are needed"),
    ] {
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n 70; exec \"$0\" bench --model m {load}")).arg(&program);
        let ran = CommandOutput::new(&shell.current_dir(setup.path("")).env_clear().output().unwrap());
        assert!(ran.code == Some(2) && ran.err.contains(said), "{}", ran.err);
    }
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn a_seed_repeats_the_arrivals_and_the_words() {
    let (setup, fake) = answering().await;
    // About 20 arrivals, so it is the duration that ends them.
    let load = ["--request-rate", "80", "--duration", "250ms", "--requests", "60", "--input-tokens", "40"];
    let (mut runs, mut salts) = (Vec::new(), HashSet::new());
    for seed in ["7", "7", "8"] {
        let before = fake.requests().len();
        let ran = bench(&setup, "b/x", &[&load[..], &["--seed", seed]].concat()).await;
        assert_eq!(ran["seed"].to_string(), seed);
        let sent = texts(&fake.requests()[before..]);
        salts.extend(sent.iter().map(|text| text[..18].to_owned()));
        let mut words: Vec<String> = sent.iter().map(|text| text[18..].to_owned()).collect();
        words.sort();
        runs.push(words);
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(salts.len(), fake.requests().len(), "what a server cached of one run helps no other");
    assert!(!runs[2].iter().any(|text| runs[0].contains(text)));
}

#[tokio::test]
async fn a_given_warm_up_is_left_out_and_given_members_are_sent() {
    let (setup, fake) = answering().await;
    let load = ["--request-rate", "20", "--arrivals", "constant", "--requests", "10", "--warm-up", "225ms"];
    let body = ["--body", "{\"ignore_eos\":true,\"temperature\":0.5}", "--output-tokens", "2", "--no-store", "--json"];
    let ran = setup.run(&[&["bench", "b/x"][..], &load, &body].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let stage = &result(&ran.out)["stages"][0];
    // Arrivals at 0, 50, 100, 150 and 200 ms.
    assert_eq!((&stage["warm_up"], &stage["ends"]), (&json!(5), &json!({ "answered": 5 })));
    let sent = fake.requests();
    assert_eq!(sent.len(), 12);
    for body in sent.iter().map(Request::json) {
        assert_eq!(
            (&body["ignore_eos"], &body["temperature"], &body["max_tokens"]),
            (&json!(true), &json!(0.5), &json!(2))
        );
    }
}

#[tokio::test]
async fn a_server_gets_its_dialect_and_its_key() {
    let fake = FakeProvider::answering(|_| Script::of(Dialect::Anthropic).whole_stream(&["Hello", " there"])).await;
    let setup = Setup::new("").env("BENCH_KEY", "planted-key");
    let url = fake.base_url();
    let server = ["--url", &url, "--model", "q", "--dialect", "anthropic", "--key-env", "BENCH_KEY"];
    let ran = setup.run(&[&["bench", "--json"][..], &server, &FEW].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let sent = fake.requests();
    assert_eq!(sent.len(), 10);
    for request in &sent {
        assert_eq!((request.path.as_str(), request.header("x-api-key")), ("/v1/messages", Some("planted-key")));
        assert_eq!((&request.json()["model"], &request.json()["max_tokens"]), (&json!("q"), &json!(2)));
    }
    assert!(!format!("{}{}", ran.out, ran.err).contains("planted-key"));
}

#[tokio::test]
async fn rows_that_the_database_refuses_are_told() {
    let (setup, _fake) = answering().await;
    let run = async || setup.run(&[&["bench", "b/x", "--json"][..], &FEW].concat()).await;
    assert_eq!(run().await.code, Some(0));
    // The store opens, and takes no more rows.
    let full =
        "CREATE TRIGGER full BEFORE INSERT ON race_row BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END";
    sqlx::query(full).execute(&mut setup.connect().await).await.unwrap();
    let ran = run().await;
    assert_eq!(ran.code, Some(0), "they are kept in a file: {}", ran.err);
    assert!(ran.err.contains("the database refuses rows") && ran.err.contains(".refused"), "{}", ran.err);
    assert_eq!(result(&ran.out)["targets"], json!(["b/x"]));
}

#[tokio::test]
async fn a_closed_pipe_does_not_hide_a_missed_condition() {
    let (setup, _fake) = answering().await;
    let mut reader = std::process::Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    let mut command = setup.command(&[&["bench", "b/x", "--no-store", "--fail-if", "ttft_p50>0ms"][..], &FEW].concat());
    let output = tokio::task::spawn_blocking(move || command.stdout(pipe).output().unwrap());
    let ran = CommandOutput::new(&soon("the run ends", output).await.unwrap());
    // 4 where the client was too slow for its figures to count.
    assert!(matches!(ran.code, Some(3 | 4)), "{:?}: {}", ran.code, ran.err);
}

/// Conversations of this many turns with one system text of about 1,000 tokens.
fn conversations(names: &[&str], turns: usize) -> String {
    let row = |name: &str, at: usize| {
        let (role, content) =
            if at % 2 == 1 { ("user", "so on ".repeat(20)) } else { ("assistant", "well ".repeat(10)) };
        let mut row = json!({ "conversation_id": name, "turn": at, "role": role, "content": content });
        if at == 1 {
            row["system"] = "be good ".repeat(500).into();
        }
        format!("{row}\n")
    };
    names.iter().flat_map(|name| (1..2 * turns).map(|at| row(name, at))).collect()
}

#[tokio::test]
async fn a_conversation_of_40_turns_has_the_cached_and_cold_figures_that_the_server_counts() {
    let setup = Setup::new("");
    let simulate = ["simulate", "--listen", "127.0.0.1:0", "--ttft", "1ms", "--jitter", "0", "--tokens", "2"];
    let prefix_cache = ["--prefill", "20000", "--prefix-cache", "--truth", "truth.jsonl"];
    let server = setup.spawn(&[&simulate[..], &prefix_cache].concat());
    let url = format!("http://{}/v1", server.address("base_url=http://").await);
    setup.write("s.jsonl", conversations(&["a", "b"], 40));
    let load = ["--concurrency", "1", "--sessions", "s.jsonl", "--slo", "e2e=1h"];
    let ran = setup.run(&[&["bench", "--url", &url, "--model", "m"][..], &PLAIN, &load].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    server.signal("TERM");
    assert_eq!(server.ended().await, Some(0), "{}", server.log());

    let truth = std::fs::read_to_string(setup.path("truth.jsonl")).unwrap();
    // The first line is the server's; two first requests begin conversations of their own.
    let truth: Vec<Value> = truth.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |line: &Value, name: &str| line[name].as_f64().unwrap();
    let cold = |line: &&Value| count(line, "cached_tokens") <= count(line, "input_tokens") / 2.0;
    assert_eq!(truth[..2].iter().filter(cold).count(), 2, "{truth:?}");
    let truth = &truth[2..];
    let first_turns: Vec<usize> = (0..truth.len()).filter(|at| cold(&&truth[*at])).collect();
    assert_eq!((truth.len(), first_turns.as_slice()), (80, &[0, 40][..]), "a session is cached by itself alone");
    assert_eq!(count(&truth[40], "cached_tokens"), 0.0, "not even its system text, which another session has too");

    let result = result(&ran.out);
    let stage = &result["stages"][0];
    assert_eq!(stage["ends"], json!({ "answered": 80 }), "then the only user has no conversation left");
    let sum = |name: &str| truth.iter().map(|line| count(line, name)).sum::<f64>();
    let close = |figure: &Value, expected: f64| (figure.as_f64().unwrap() - expected).abs() < 1e-6;
    assert!(close(&stage["input_tokens"], sum("input_tokens") / 80.0), "{stage}");
    assert!(close(&stage["cached_share"], sum("cached_tokens") / sum("input_tokens")), "{stage}");
    for (name, is_cold, n) in [("cold_ttft_ms", true, 2), ("cached_ttft_ms", false, 78)] {
        let figures = &stage[name];
        assert_eq!(figures["n"], n, "{stage}");
        let those = truth.iter().filter(|line| cold(line) == is_cold);
        let mut sent: Vec<f64> =
            those.map(|line| (line["events_us"][0].as_f64().unwrap() - count(line, "arrived_us")) / 1e3).collect();
        sent.sort_unstable_by(f64::total_cmp);
        // It is seen later than it was written, by as much as the machine is busy.
        let median = sent[(sent.len() - 1) / 2];
        assert!(figures["p50"]["value"].as_f64().unwrap() > median - 0.5, "{name}: {figures} {median}");
    }
    let again =
        setup.run(&[&["bench", "--url", &url, "--model", "m", "--concurrency", "3"][..], &load[2..]].concat()).await;
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("3 users need 3 conversations, and the file has 2"), "{}", again.err);
}

#[tokio::test]
async fn the_first_user_without_a_conversation_ends_the_window() {
    // The second conversation waits for its second turn until the first one is long over. No user is answered before both
    // have asked; the two first requests are blocks of their own.
    let both_asked = Gate::new();
    let fake = FakeProvider::answering(move |request| {
        if request.number == 3 {
            both_asked.open();
        }
        let held = || Script::sse().role().wait(&both_asked).token("a").finish("stop").usage(40, 2).done().end();
        if request.number == 2 { held() } else { answer() }
    })
    .await;
    let setup = Setup::new(&provider("b", &fake));
    let row = |id: &str, turn: u64, role: &str, delay: f64| {
        format!(
            "{}\n",
            json!({ "conversation_id": id, "turn": turn, "role": role, "content": "x", "delay_seconds": delay })
        )
    };
    let slow = [row("b", 1, "user", 0.0), row("b", 2, "assistant", 0.0), row("b", 3, "user", 3_600.0)];
    setup.write("s.jsonl", row("a", 1, "user", 0.0) + &slow.concat());
    let ran = bench(&setup, "b/x", &["--concurrency", "2", "--sessions", "s.jsonl"]).await;
    assert_eq!(ran["stages"][0]["ends"], json!({ "answered": 2 }));
    assert_eq!(fake.requests().len(), 4, "two first requests; the second turn is not sent");
    assert_eq!(ran["prompts"].as_str().unwrap().len(), 16, "a fingerprint");
}

#[tokio::test]
async fn agents_grow_their_own_prompts() {
    let setup = Setup::new(
        "[providers.sim]\nsimulate = { ttft = \"1ms\", jitter = 0.0, tokens = 2, prefix_cache = true, seed = 1 }\n",
    );
    let load =
        ["--workload", "agent", "--concurrency", "1", "--requests", "12", "--warm-up", "0s", "--no-store", "--json"];
    let ran = setup.run(&[&["bench", "sim/m"][..], &load].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let stage = &result(&ran.out)["stages"][0];
    assert_eq!((&stage["cold_ttft_ms"]["n"], &stage["cached_ttft_ms"]["n"]), (&json!(1), &json!(11)), "{stage}");
    assert!(
        stage["input_tokens"].as_f64().unwrap() > 5_000.0 && stage["cached_share"].as_f64().unwrap() > 0.8,
        "{stage}"
    );
}
