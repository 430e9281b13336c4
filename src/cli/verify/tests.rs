//! `photofinish verify` over simulated hosts: each thing that one can do wrong is found, and the errors of wrong use.

use std::path::{Path, PathBuf};

use super::*;
use photofinish_config::{HostFact, parse};
use photofinish_lab::verify::FactAnswer;

/// Obedient hosts a/m, b/m, c/m and for each of `wrong` one with its name.
fn config(path: &Path, wrong: &[(String, String)]) -> Config {
    let right = ["a", "b", "c"].map(|name| (name.to_owned(), String::new()));
    let (mut providers, mut upstreams) = (String::new(), Vec::new());
    for (name, further) in right.iter().chain(wrong) {
        let settings = "ttft = \"0s\", jitter = 0.0, seed = 7, obeys = true";
        providers.push_str(&format!("{name} = {{ simulate = {{ {settings} {further} }} }}\n"));
        upstreams.push(format!("{{ upstream = \"{name}/m\", context = 4000 }}"));
    }
    let text = format!(
        "store.url = \"sqlite://{}\"\n[providers]\n{providers}[models.m]\nupstreams = [{}]\n",
        path.display(),
        upstreams.join(", ")
    );
    parse(&text, Path::new("config.toml"), &|_| None).unwrap_or_else(|error| panic!("{error}"))
}

fn options(names: &[&str]) -> VerifyOptions {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    VerifyOptions { names, context: true, ..VerifyOptions::default() }
}

async fn verified(config: Config, options: &VerifyOptions) -> (anyhow::Result<CommandOutcome>, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let asks = || panic!("it is free");
    let outcome = run(config, options, super::super::screen::PIPED, asks, &mut out, &mut err).await;
    (outcome, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn database() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    (directory, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_host_is_found_and_no_right_one() {
    let (_directory, path) = database();
    // A build without a name is no difference.
    let facts: Vec<HostFact> = HostFact::ALL.into_iter().filter(|fact| *fact != HostFact::Fingerprint).collect();
    let wrong = |fact: &HostFact| {
        let name = fact.as_str();
        (format!("w{}", name.replace('_', "-")), format!(", wrong = [\"{name}\"]"))
    };
    let config = config(&path, &facts.iter().map(wrong).collect::<Vec<_>>());
    let (outcome, out, err) = verified(config, &options(&["m"])).await;
    assert_eq!(outcome.unwrap(), CommandOutcome::Missed, "{err}");
    let rows = photofinish_history::store::StoreReader::open(&path).unwrap().verdicts(Some("m")).unwrap();
    let wrong = |host: &str| -> Vec<String> {
        rows.iter().filter(|row| row.host == host && row.wrong).map(|row| row.fact.clone()).collect()
    };
    for right in ["a/m", "b/m", "c/m"] {
        assert_eq!(wrong(right), Vec::<String>::new(), "{right}");
        let not_said = rows.iter().filter(|row| row.host == right && row.answer == FactAnswer::NotSaid.as_str());
        assert_eq!(not_said.map(|row| row.fact.clone()).collect::<Vec<_>>(), Vec::<String>::new());
    }
    for fact in &facts {
        let host = format!("w{}/m", fact.as_str().replace('_', "-"));
        let found = wrong(&host);
        assert!(found.contains(&fact.as_str().to_owned()), "{host}: {found:?}");
        // Some mistakes show in two facts.
        assert!(found.len() <= 2, "{host}: {found:?}");
    }
    assert!(out.contains("wtemplate/m         template         differs  +17 tokens in each prompt: another"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_host_is_judged_alone_and_models_shows_what_is_kept() {
    let (_directory, path) = database();
    let config = config(&path, &[("old".to_owned(), ", wrong = [\"effort\"]".to_owned())]);
    let (outcome, out, err) = verified(config.clone(), &options(&["old/m"])).await;
    assert_eq!(outcome.unwrap(), CommandOutcome::Done, "no other host: no difference");
    assert!(out.contains("One host only") && err.contains("one host only: nothing to compare it with"), "{out}{err}");
    let against = VerifyOptions { reference: Some("a/m".to_owned()), json: true, ..options(&["a/m,old/m"]) };
    let (outcome, out, _) = verified(config.clone(), &against).await;
    assert_eq!(outcome.unwrap(), CommandOutcome::Missed);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["model"], &json["reference"]), (&"m".into(), &"a/m".into()));
    let facts = json["hosts"][1]["facts"].as_array().unwrap();
    let wrong: Vec<&serde_json::Value> = facts.iter().filter(|fact| fact["wrong"] == true).collect();
    assert_eq!(wrong.len(), 1, "{out}");
    assert_eq!(
        (&wrong[0]["fact"], &wrong[0]["answer"], &wrong[0]["reference"]),
        (&"effort".into(), &"no".into(), &"yes".into())
    );
    let mut shown = Vec::new();
    write_known(&(&path).into(), "m", super::super::screen::PIPED, &mut shown).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.starts_with("\nVerified 0 min ago\nold/m  effort  no  80 tokens low, 80 high"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_do_not_answer_are_given_up() {
    let (_directory, path) = database();
    let storm = ("storm".to_owned(), ", failures = 1.0, failure = \"429\"".to_owned());
    let empty = ("empty".to_owned(), ", failures = 1.0, failure = \"empty\"".to_owned());
    let config = config(&path, &[storm, empty]);
    let (outcome, out, _) =
        verified(config, &VerifyOptions { json: true, ..options(&["a/m", "storm/m", "empty/m"]) }).await;
    assert_eq!(outcome.unwrap(), CommandOutcome::Missed, "the empty answers call no tool");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["hosts"][1]["requests"], 3);
    assert_eq!(json["hosts"][1]["given_up"], "no answer: rate_limited");
    assert!(json["hosts"][1]["facts"].as_array().unwrap().iter().all(|fact| fact["answer"] == "not said"), "{out}");
    assert_eq!(json["hosts"][2]["given_up"], serde_json::Value::Null);
}

#[tokio::test]
async fn wrong_use_is_told_before_anything_is_sent() {
    let (_directory, path) = database();
    let text = format!(
        "store.url = \"sqlite://{}\"\n[providers]\ngroq.api_key = \"k\"\nopenai.api_key = \"k\"\n\
         [models.llama]\nupstreams = [{{ upstream = \"groq/a\", input_price = 0.15, output_price = 0.6 }}, \"openai/new\"]\n",
        path.display()
    );
    let config = parse(&text, Path::new("config.toml"), &|_| None).unwrap();
    let wrong = |options: VerifyOptions| {
        let (config, mut out, mut err) = (config.clone(), Vec::new(), Vec::new());
        async move {
            let asks = || Ok(false);
            let error = run(config, &options, super::super::screen::PIPED, asks, &mut out, &mut err).await;
            error.map_or_else(
                |error| error.to_string(),
                |outcome| format!("{outcome:?}: {}", String::from_utf8_lossy(&err)),
            )
        }
    };
    for (names, words) in [
        (["lama"].as_slice(), "there is no model \"lama\" in the configuration; did you mean llama?"),
        (&["grok/a"], "grok"),
        (&["llama"], "no price is known for openai/new, so --max-cost could not be kept: allow about"),
    ] {
        let message = wrong(options(names)).await;
        assert!(message.contains(words), "{message}");
    }
    let message = wrong(VerifyOptions { reference: Some("groq/b".into()), ..options(&["groq/a"]) }).await;
    assert_eq!(message, "the reference \"groq/b\" is none of the hosts; did you mean groq/a?");
    let message = wrong(VerifyOptions { max_cost: Some(0.0001), ..options(&["groq/a"]) }).await;
    assert!(message.contains("more than $0.0001: raise --max-cost"), "{message}");
    let message = wrong(options(&["groq/a"])).await;
    assert!(message.starts_with("Failed: 47 requests to 1 host; this costs at most $0.00"), "{message}");
    assert!(message.contains("at 30 requests a") && message.contains("nothing was asked"), "{message}");
}

/// Five hosts at 0.15 and 0.6 US dollars per million tokens.
#[test]
fn five_hosts_cost_less_than_five_cents() {
    let price = photofinish_config::Price { input: 0.15, cached: 0.15, written: 0.15, output: 0.6, long: None };
    let host =
        VerifiedHost { name: "a/m".into(), model: "m".into(), context: None, is_hosted: true, price: Some(price) };
    let usd = 5.0 * host.most_usd(&questions(None)).unwrap();
    assert!(usd > 0.005 && usd < 0.05, "{usd}");
    assert!(host.paced(questions(None).len()) < Duration::from_secs(120));
}

#[test]
fn a_first_session_is_looked_for_on_a_server_too() {
    let text = "store.url = \"postgres://u@127.0.0.1:1/nothing\"";
    let config = parse(text, Path::new("config.toml"), &|_| None).unwrap();
    let error = sampling::first_session(&config.store.address, "m", &[], 0).unwrap_err().to_string();
    assert!(error.contains("postgres://u@127.0.0.1:1/nothing") && error.contains("Start the server"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_find_the_host_that_was_moved() {
    let (_directory, path) = database();
    let config = config(&path, &[("moved".to_owned(), ", moved = 0.4".to_owned())]);
    let options = VerifyOptions { sample: true, context: false, ..options(&["m"]) };
    let (outcome, out, err) = verified(config.clone(), &options).await;
    assert_eq!(outcome.unwrap(), CommandOutcome::Done, "{err}");
    assert!(err.contains("1000 requests to 4 hosts") && out.contains("The first session is kept."), "{out}{err}");
    let (early, _, _) = verified(config.clone(), &options).await;
    assert!(early.unwrap_err().to_string().contains("an hour later at the earliest"));
    let mut rows = photofinish_history::store::StoreReader::open(&path).unwrap().sample("m").unwrap();
    rows.iter_mut().for_each(|row| row.at -= 7_200_000_000);
    Store::open(&path).unwrap().save_sample("m", &rows).unwrap();
    let (outcome, out, _) = verified(config, &options).await;
    assert_eq!(outcome.unwrap(), CommandOutcome::Missed, "{out}");
    assert!(out.contains("moved/m: differs by "), "{out}");
    for right in ["a/m", "b/m", "c/m"] {
        assert!(out.contains(&format!("{right}: no difference found; one of ")), "{out}");
    }
}
