//! `photofinish bench` as a program: what it sends, what it says, its exit codes, the rows and the run that it leaves.

use serde_json::Value;

use crate::harness::process::{CommandOutput, Setup, provider};
use crate::support::{FakeProvider, Script};

/// A small run. Nothing of it depends on speed.
pub(super) const FEW: [&str; 8] =
    ["--concurrency", "2", "--requests", "8", "--input-tokens", "40", "--output-tokens", "2"];

pub(super) fn answer() -> Script {
    Script::sse().role().tokens(&["Hello", " there"]).finish("stop").usage(40, 2).done().end()
}

/// `a` and `b` answer; requests to `a` cost 0.0001 USD at least.
pub(super) async fn answering() -> (Setup, FakeProvider) {
    let fake = FakeProvider::answering(|_| answer()).await;
    let config = provider("a", &fake)
        + &provider("b", &fake)
        + "\n[models.m]\nupstreams = [{ upstream = \"a/x\", input_price = 1.0, output_price = 10.0 }, \"b/x\"]\n";
    (Setup::new(&config), fake)
}

pub(super) fn result(out: &str) -> Value {
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
async fn given_prompts_are_sent_in_turn_and_none_twice_while_there_are_others() {
    let (setup, fake) = answering().await;
    let lines: String = (0..10).map(|number| format!("{{\"prompt\":\"number {number}\"}}\n")).collect();
    setup.write("prompts.jsonl", lines);
    let load = ["--concurrency", "1", "--requests", "8", "--output-tokens", "2", "--no-store"];
    let ran = setup.run(&[&["bench", "b/x", "--prompts", "prompts.jsonl"][..], &load].concat()).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let sent: Vec<String> = fake
        .requests()
        .iter()
        .map(|request| request.json()["messages"][0]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sent, (0..10).map(|number| format!("number {number}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_key_that_is_refused_costs_one_request() {
    let fake = FakeProvider::answering(|_| Script::status(401, &[], "{\"error\":{\"message\":\"no\"}}")).await;
    let setup = Setup::new(&provider("a", &fake));
    let ran = setup.run(&[&["bench", "a/x"][..], &FEW].concat()).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let said =
        "photofinish: a/x: unauthorized: it needs a key: set api_key under [providers.a] (no); nothing more was sent";
    assert!(ran.said().contains(said), "{}", ran.err);
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn one_s_own_gateway_is_measured_and_says_why_it_refuses() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let users = "[users.ann]\ntoken = \"planted-ann\"\n";
    let config = format!("{}[models.m]\nupstreams = [\"one/m\"]\n{users}", provider("one", &fake));
    let served = Setup::new(&config).serve().await;
    let address = format!("http://{}", served.addr);
    // The file that the gateway was started with names its address.
    let setup = Setup::new(&config).env("ANN", "planted-ann").env("WRONG", "planted-x");
    let text = std::fs::read_to_string(setup.path("config.toml")).unwrap();
    setup.write("config.toml", text.replace("127.0.0.1:0", &served.addr.to_string()));
    for path in ["", "/v1"] {
        let url = format!("{address}{path}");
        let few = ["bench", "--no-store", "--json", "--url", &url, "--model", "m", "--key-env", "ANN"];
        let ran = setup.run(&[&few[..], &FEW].concat()).await;
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert_eq!(result(&ran.out)["stages"][0]["target"], "url/m");
    }
    let sent = fake.requests().len();
    for (model, key, said) in [
        ("m", &[][..], "name its variable with --key-env (no token was sent"),
        ("m", &["--key-env", "WRONG"][..], "the key in WRONG is refused"),
        ("nosuch", &["--key-env", "ANN"], "(the model \"nosuch\" is not configured"),
    ] {
        let url = format!("{address}/v1");
        let ran = setup.run(&[&["bench", "--no-store", "--url", &url, "--model", model][..], key, &FEW].concat()).await;
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let (out, found) = (ran.out.clone(), ran.said());
        assert!(found.contains(said) && found.contains("nothing more was sent"), "{found}");
        assert!(!(out + &found).contains("planted"));
    }
    assert_eq!(fake.requests().len(), sent);
}

#[tokio::test]
async fn a_context_that_is_too_small_is_told_in_the_server_s_words() {
    let said = "This model's maximum context length is 4096 tokens, however you requested 10012 tokens";
    let refusal = format!(
        r#"{{"error":{{"message":"{said}","type":"invalid_request_error","code":"context_length_exceeded"}}}}"#
    );
    let fake = FakeProvider::answering(move |_| Script::status(400, &[], &refusal)).await;
    let setup = Setup::new(&provider("a", &fake));
    let ran = setup.run(&["bench", "a/x", "--workload", "10k"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        ran.said().contains(&format!("a/x: context_length: the prompt is too long, in the server's words: {said}")),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = FakeProvider::answering(|_| answer()).await;
    let location = format!("{}/chat/completions", other.base_url());
    let fake = FakeProvider::answering(move |_| Script::status(307, &[("location", &location)], "")).await;
    let setup = Setup::new(&provider("a", &fake));
    let ran = setup.run(&[&["bench", "a/x"][..], &FEW].concat()).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.said().contains("answers with a redirect, which is not followed"), "{}", ran.err);
    assert_eq!((fake.requests().len(), other.requests().len()), (1, 0), "nothing more was sent");
}

#[tokio::test]
async fn a_server_that_dies_ends_the_stage_and_leaves_its_answers() {
    let answers = std::sync::atomic::AtomicUsize::new(0);
    let fake = FakeProvider::answering(move |_| match answers.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0..22 => answer(),
        22 => Script::sse().role().token("Hel").reset(),
        _ => Script::new().reset(),
    })
    .await;
    let setup = Setup::new(&provider("a", &fake));
    let ran = setup
        .run(&[
            "bench",
            "a/x",
            "--concurrency",
            "2,4",
            "--duration",
            "1h",
            "--output-tokens",
            "2",
            "--no-store",
            "--json",
        ])
        .await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let result = result(&ran.out);
    assert_eq!(result["cut_short"], "a/x, 2 users: it answers no more: reset");
    assert_eq!(result["stages"].as_array().unwrap().len(), 1, "a dead server is not asked again");
    let stage = &result["stages"][0];
    assert_eq!(
        (&stage["ended"], &stage["ended_by"]),
        (&"it answers no more: reset".into(), &"failing".into()),
        "{stage}"
    );
    assert!(stage["ends"]["answered"].as_u64().unwrap() >= 10, "failures are no warm-up: {stage}");
    assert!(stage["notes"][0].as_str().unwrap().starts_with("failed: "), "{stage}");
}

#[tokio::test]
async fn odd_answers_are_measured_and_told() {
    let whole = r#"{"id":"c","object":"chat.completion","model":"x","choices":[{"index":0,"finish_reason":"stop",
        "message":{"role":"assistant","content":"Hello there"}}],"usage":{"prompt_tokens":40,"completion_tokens":2}}"#;
    let fake = FakeProvider::answering(move |request| match request.json()["model"].as_str().unwrap() {
        "whole" => Script::status(200, &[], whole),
        "closes" => answer().close(),
        "silent" => Script::stream(&["Hello", " there"]),
        _ => Script::sse()
            .role()
            .tokens(&["Hello", " there"])
            .finish("stop")
            .usage(10_u64.pow(12), 10_u64.pow(12))
            .done()
            .end(),
    })
    .await;
    let setup = Setup::new(&provider("a", &fake));
    for (model, said) in [
        ("whole", "8 of 8 answers came at once, not as a stream: their TTFT is that of the whole answer"),
        ("closes", "answers needed a new connection, whose handshake is in their TTFT"),
        ("silent", "the server reports no usage that can be read"),
        ("absurd", "the server counts more than 2000000 tokens in 8 of 8 answers: they are in no rate"),
    ] {
        let target = format!("a/{model}");
        let ran = setup.run(&[&["bench", &target, "--no-store", "--warm-up", "0s", "--json"][..], &FEW].concat()).await;
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let stage = &result(&ran.out)["stages"][0];
        assert_eq!(stage["ends"]["answered"], 8, "{stage}");
        let found = stage["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(said));
        assert!(found, "{model}: {stage}");
    }
}

#[tokio::test]
async fn what_cannot_run_is_said_before_a_request() {
    let (setup, fake) = answering().await;
    setup.write("broken.jsonl", "{\"prompt\":\"a\"}\nnot JSON\n");
    for (arguments, said) in [
        (&["a/x", "--prompts", "broken.jsonl"][..], "broken.jsonl:2: expected a JSON object"),
        (&["a/x", "--find", "rate"], "--slo <TARGETS>"),
        (&["a/x", "--attain", "0.8"], "--find <FIND>"),
        (&["a/x", "--margin", "3%"], "--margin is for a comparison"),
        (&["a/x", "--fail-if", "rate<8"], "rate is for --find rate"),
        (&["a/x", "--fail-if", "goodput<8"], "give --slo"),
        (&["--show", "x", "--seed", "1"], "cannot be used with"),
        (&["a/x", "--request-rate", "1", "--concurrency", "1"], "cannot be used with"),
        (&["a/x", "--concurrency", "-1"], "expected a number from 1 to 100000"),
        (&["a/x", "--max-cost", "-1"], "expected a number from 0 to 1000000"),
        (&["a/x", "--workload", "1K"], "did you mean 1k?"),
        (&["--model", "n"], "there is no model \"n\""),
    ] {
        let ran = setup.run(&[&["bench"], arguments].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.said().contains(said), "{arguments:?}: {}", ran.err);
    }
    let program = setup.command(&[]).get_program().to_owned();
    for (load, said) in [
        ("--concurrency 100", "100 users: at least 164 file descriptors are needed; the limit is 70 (ulimit -n)"),
        ("--request-rate 9 --in-flight-max 7", "--in-flight-max 7: at least 71 file descriptors are needed"),
    ] {
        let script = format!("ulimit -n 70; exec \"$0\" bench a/x {load}");
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(&script).arg(&program).current_dir(setup.path("")).env_clear();
        let ran = CommandOutput::new(&shell.output().unwrap());
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.said().contains(said), "{}", ran.err);
    }
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn two_benchmarks_share_a_store() {
    let (setup, _fake) = answering().await;
    let run = async |label: &str| setup.run(&[&["bench", "b/x", "--label", label][..], &FEW].concat()).await;
    let (one, two) = tokio::join!(run("one"), run("two"));
    assert_eq!((one.code, two.code), (Some(0), Some(0)), "{}{}", one.err, two.err);
    assert_eq!(setup.number("SELECT count(*) FROM race WHERE source = 'bench'").await, 20);
    assert_eq!(setup.number("SELECT count(*) FROM run WHERE result IS NOT NULL").await, 2);
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
    assert!(fake.requests().len() < 20, "a key that has to wait is not used again");
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
    let spent = result["cost_usd_max"].as_f64().unwrap();
    assert!(spent > 0.0053 && spent <= 0.006, "{spent}");
    let refused = setup.run(&["bench", "a/x", "--max-cost", "0.0000001"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("--max-cost does not cover one request"), "{}", refused.err);
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

#[tokio::test]
async fn a_second_interrupt_waits_for_nothing() {
    let fake = FakeProvider::answering(|_| answer()).await;
    let setup = Setup::new(&provider("a", &fake));
    let printed = setup.path("printed");
    let out = std::fs::File::create(&printed).unwrap();
    let process = setup.spawn_into(&["bench", "a/x", "--concurrency", "1", "--duration", "1h"], out.into());
    fake.request(20).await;
    // Rows cannot be written, so the end after one signal waits for the store.
    let mut locked = setup.connect().await;
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut locked).await.unwrap();
    process.signal("INT");
    process.logged("it was interrupted").await;
    process.signal("INT");
    assert_eq!(process.ended().await, Some(130), "{}", process.log());
    assert_eq!(std::fs::read_to_string(&printed).unwrap(), "", "after the second, nothing is printed");
}

#[tokio::test]
async fn a_prefix_cache_helps_only_prompts_that_begin_alike() {
    let setup = Setup::new(
        "[providers.sim]\nsimulate = { ttft = \"1ms\", jitter = 0.0, tokens = 2, prefill = 20000, prefix_cache = true, seed = 1 }\n",
    );
    setup.write("fixed.jsonl", format!("{{\"prompt\":\"{}\"}}\n", "again and ".repeat(200)));
    let load =
        ["--concurrency", "1", "--requests", "8", "--output-tokens", "2", "--warm-up", "0s", "--no-store", "--json"];
    let stage = async |prompts: &[&str]| {
        let ran = setup.run(&[&["bench", "sim/m"][..], &load, prompts].concat()).await;
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        result(&ran.out)["stages"][0].clone()
    };
    let share = |stage: &Value| stage["cached_share"].as_f64().unwrap();
    let (unique, half) = (stage(&[]).await, stage(&["--prefix", "0.5"]).await);
    let fixed = stage(&["--prompts", "fixed.jsonl"]).await;
    assert!(share(&unique) < 0.01 && !unique["notes"].to_string().contains("cache"), "{unique}");
    assert!((0.4..0.6).contains(&share(&half)), "{half}");
    assert!(
        share(&fixed) > 0.9 && fixed["notes"].to_string().contains("came from the server's prefix cache"),
        "{fixed}"
    );
}
