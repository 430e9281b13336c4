//! Probes of simulated upstreams, and what is refused before one is sent.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::cli::screen::PIPED;
use photofinish_config::parse;
use photofinish_history::store::StoreReader;

const PROVIDERS: &str = "
    providers.a.simulate = { ttft = '20ms', jitter = 0, tokens_per_second = 1000, tokens = 50, prefix_cache = true }
    providers.b.simulate = { ttft = '1ms', jitter = 0 }
    models.m.upstreams = [{ upstream = 'a/m', input_price = 1.0, output_price = 2.0 }, 'b/fail-500']
    models.m.breaker = { failures = 1 }
";

fn config(folder: &Path, more: &str) -> Config {
    let store = folder.join("history.db");
    let text = format!("store.url = 'sqlite:{}'\n{PROVIDERS}\n{more}", store.display());
    parse(&text, Path::new("config.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn probe(config: Config, options: &ProbeOptions) -> (CommandOutcome, Vec<Value>) {
    let mut out = Vec::new();
    let outcome =
        run(config, &ProbeOptions { json: true, ..options.clone() }, PIPED, &mut out, &mut Vec::new()).await.unwrap();
    let lines = std::str::from_utf8(&out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap());
    (outcome, lines.collect())
}

#[tokio::test]
async fn each_upstream_is_measured_and_its_rows_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, lines) = probe(config(folder.path(), ""), &ProbeOptions::default()).await;
    assert_eq!(outcome, CommandOutcome::Failed, "one of the two did not answer");
    let [answered, failed] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&answered["upstream"], &answered["outcome"]), (&"a/m".into(), &"answered".into()));
    assert_eq!((&answered["workload"], &answered["output_tokens"]), (&"1k".into(), &50.into()));
    let input_tokens = answered["input_tokens"].as_i64().unwrap();
    assert!((900..=1_100).contains(&input_tokens), "the ping shows how long a token is: {input_tokens}");
    let ttft_ms = answered["ttft_ms"].as_f64().unwrap();
    assert!((20.0..200.0).contains(&ttft_ms), "{answered}");
    assert!(answered["cost_usd_max"].as_f64().unwrap() > 0.0, "{answered}");
    assert_eq!((&failed["outcome"], &failed["ttft_ms"]), (&"failed".into(), &Value::Null));
    let (reader, mut notes) = (StoreReader::open(folder.path().join("history.db")).unwrap(), Vec::new());
    reader.each_probe((0, None), |probe| notes.push((probe.race.workload.clone(), probe.upstream()))).unwrap();
    let named = |workload: &str, upstream: &str| (Some(workload.to_owned()), upstream.to_owned());
    assert_eq!(
        notes,
        [named("ping", "a/m"), named("1k", "a/m"), named("ping", "b/fail-500")],
        "a ping that fails is the last request"
    );
}

#[tokio::test]
async fn the_cap_of_the_day_holds_across_runs() {
    let folder = tempfile::tempdir().unwrap();
    // Eight times (1.5 × 1,000 × 1 + 1,000 × 2) / 10⁶ USD are set aside, and some for the ping.
    let capped = |cap| config(folder.path(), &format!("[probes]\nworkloads = ['1k']\nmax_cost = {cap}"));
    let only = ProbeOptions { upstreams: vec!["a/m".into()], ..ProbeOptions::default() };
    let (outcome, lines) = probe(capped(0.0320), &only).await;
    assert_eq!((outcome, lines[0]["outcome"].as_str()), (CommandOutcome::Done, Some("answered")), "{lines:?}");
    let (outcome, lines) = probe(capped(0.0320), &only).await;
    assert_eq!((outcome, lines[0]["outcome"].as_str()), (CommandOutcome::Failed, Some("skipped")), "{lines:?}");
    assert_eq!(lines[0]["why"], "the day's max_cost");
}

/// One probe of `10k1k` needs 8 × (1.5 × 10,000 + 1,000) tokens and a few for the ping; without usage it settles 16,316.
#[tokio::test]
async fn a_server_that_reports_no_usage_uses_up_the_tokens_of_the_day_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let silent = "store.url = 'sqlite:F'
        providers.a.simulate = { ttft = '1ms', jitter = 0, tokens_per_second = 1000, tokens = 5, usage = false }
        models.m.upstreams = ['a/m', 'a/n']
        probes = { workloads = ['10k1k'], max_tokens = 140000 }";
    let silent = silent.replace('F', &folder.path().join("history.db").display().to_string());
    let silent = || parse(&silent, Path::new("config.toml"), &|_| None).unwrap_or_else(|why| panic!("{why}"));
    let of = |upstream: &str| ProbeOptions { upstreams: vec![upstream.into()], ..ProbeOptions::default() };
    let (_, lines) = probe(silent(), &ProbeOptions::default()).await;
    let notes =
        |lines: &[Value]| lines.iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(notes(&lines), ["answered", "skipped"], "in one process: {lines:?}");
    let (_, lines) = probe(silent(), &of("a/n")).await;
    assert_eq!((notes(&lines), &lines[0]["why"]), (vec!["skipped".to_owned()], &"the day's max_tokens".into()));
}

#[tokio::test]
async fn ten_at_once_are_told_by_their_median() {
    let folder = tempfile::tempdir().unwrap();
    let only =
        ProbeOptions { upstreams: vec!["a/m".into()], workload: vec!["parallel".into()], ..ProbeOptions::default() };
    let (_, lines) = probe(config(folder.path(), ""), &only).await;
    assert_eq!((lines.len(), &lines[0]["requests"], &lines[0]["outcome"]), (1, &10.into(), &"answered".into()));
    let mut ttft_us = Vec::new();
    let reader = StoreReader::open(folder.path().join("history.db")).unwrap();
    let each = |probe: &photofinish_history::store::RecordedProbe| {
        let is_measured = probe.race.workload.as_deref() == Some("parallel");
        ttft_us.extend(probe.attempt().unwrap().decoding.first_token_us.filter(|_| is_measured));
    };
    reader.each_probe((0, None), each).unwrap();
    ttft_us.sort_unstable();
    assert_eq!(ttft_us.len(), 10);
    assert_eq!(lines[0]["ttft_ms"].as_f64(), Some(ttft_us[4] as f64 / 1e3), "{ttft_us:?}");
    let mut text = Vec::new();
    run(config(folder.path(), ""), &only, PIPED, &mut text, &mut Vec::new()).await.unwrap();
    assert!(String::from_utf8(text).unwrap().contains("parallel, median of 10"));
}

#[tokio::test]
async fn hosted_upstreams_need_a_cap_and_the_cost_is_told_before() {
    let hosted = |more: &str| {
        let text = format!(
            "store.url = 'sqlite:/nowhere/history.db'
            providers.far.base_url = 'https://api.example.com/v1'
            providers.near.simulate = {{}}
            models.m.upstreams = [{{ upstream = 'far/m', input_price = 1.0, output_price = 2.0 }}, 'far/n', 'near/m']
            {more}"
        );
        parse(&text, Path::new("config.toml"), &|_| None).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let asked = async |more: &str, options: ProbeOptions| {
        let mut err = Vec::new();
        let error = run(hosted(more), &options, PIPED, &mut Vec::new(), &mut err).await.unwrap_err();
        (error.to_string(), error.is::<WrongUse>(), String::from_utf8(err).unwrap())
    };
    let of = |upstreams: &[&str]| ProbeOptions {
        upstreams: upstreams.iter().map(|name| (*name).to_owned()).collect(),
        ..ProbeOptions::default()
    };
    let (why, is_wrong_use, notes) = asked("", of(&["far/m", "near/m"])).await;
    assert!(why.starts_with("far/m: a hosted provider bills each request") && why.contains("--max-cost"), "{why}");
    assert!(is_wrong_use && notes.is_empty(), "{notes}");
    let capped = |upstreams: &[&str]| ProbeOptions { max_cost: Some(0.5), ..of(upstreams) };
    let (why, is_wrong_use, _) = asked("", capped(&["far/m", "far/n"])).await;
    assert!(why.starts_with("no price is known for far/n") && why.contains("--max-tokens") && is_wrong_use, "{why}");
    // These go on to the store, which cannot be opened here.
    let (_, is_wrong_use, notes) = asked("", capped(&["far/m", "near/m"])).await;
    // Twice 1.5 × 1,200 + 1,016 tokens; one of them at 1 and 2 USD for a million.
    assert_eq!(notes, "2 probes: about USD 0.0038 and 5632 tokens; this call may spend USD 0.5\n");
    assert!(!is_wrong_use);
    let (_, is_wrong_use, notes) = asked("probes = { workloads = ['1k'], max_tokens = 9000 }", of(&["far/n"])).await;
    assert!(
        !is_wrong_use && notes.ends_with("1 of them have no known price; the\n  cap of a day is 9000 tokens\n"),
        "{notes}"
    );
    let (_, is_wrong_use, notes) = asked("", of(&["near/m"])).await;
    assert!(!is_wrong_use && notes == "1 probe: about USD 0.0000 and 2816 tokens\n", "{notes}");
}

#[tokio::test]
async fn the_cap_of_a_call_holds() {
    let folder = tempfile::tempdir().unwrap();
    let only = ProbeOptions { upstreams: vec!["a/m".into()], ..ProbeOptions::default() };
    // Eight times 0.0035 USD and some for the ping are set aside.
    let capped = |cap| ProbeOptions { max_cost: Some(cap), ..only.clone() };
    let (_, lines) = probe(config(folder.path(), ""), &capped(0.01)).await;
    assert_eq!((&lines[0]["outcome"], &lines[0]["why"]), (&"skipped".into(), &"--max-cost".into()));
    let (_, lines) = probe(config(folder.path(), ""), &capped(0.1)).await;
    assert_eq!(lines[0]["outcome"], "answered");
}

#[tokio::test]
async fn what_is_unknown_is_named_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let problem = async |options: ProbeOptions| {
        run(config(folder.path(), ""), &options, PIPED, &mut Vec::new(), &mut Vec::new()).await.unwrap_err().to_string()
    };
    let upstream = ProbeOptions { upstreams: vec!["a/n".into()], ..ProbeOptions::default() };
    assert_eq!(problem(upstream).await, "there is no upstream \"a/n\", or it is off; did you mean a/m?");
    let workload = ProbeOptions { workload: vec!["100".into()], ..ProbeOptions::default() };
    assert!(problem(workload).await.contains("did you mean 100k?"));
    let plan = ProbeOptions { plan: true, ..ProbeOptions::default() };
    assert!(problem(plan).await.contains("no [probes]"));
}

#[tokio::test]
async fn the_plan_of_a_day_has_each_slot_and_its_cost() {
    let folder = tempfile::tempdir().unwrap();
    let more =
        "[probes]\nworkloads = ['1k', 'agent']\nmax_cost = 1\n[workloads.agent]\ninput_tokens = 10\noutput_tokens = 10";
    let plan = ProbeOptions { plan: true, ..ProbeOptions::default() };
    let (_, lines) = probe(config(folder.path(), more), &plan).await;
    let of = |workload: &str, upstream: &str| {
        lines.iter().filter(|line| line["workload"] == workload && line["upstream"] == upstream).count()
    };
    assert!((7..=9).contains(&of("1k", "a/m")) && (7..=9).contains(&of("agent", "b/fail-500")), "{lines:?}");
    assert!(lines.iter().all(|line| (line["estimate_usd"] == 0.0) == (line["upstream"] == "b/fail-500")));
    let mut text = Vec::new();
    run(config(folder.path(), more), &plan, PIPED, &mut text, &mut Vec::new()).await.unwrap();
    assert!(String::from_utf8(text).unwrap().contains("the cap of a day is USD 1"));
}
