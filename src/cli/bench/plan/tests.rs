//! Plans that are refused, and why: money and prompts.

use super::*;
use crate::cli::bench::options::typed;

fn read(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("prompts.jsonl");
    std::fs::write(&path, text).unwrap();
    prompts(&path)
}

#[test]
fn prompts_are_read_and_broken_lines_are_named() {
    let good = read("{\"prompt\":\"secret\",\"max_tokens\":7}\n\n{\"messages\":[],\"model\":\"x\"}").unwrap();
    assert_eq!(good.len(), 2);
    assert_eq!((&good[0]["messages"][0]["content"], &good[0]["max_tokens"]), (&json!("secret"), &json!(7)));
    assert!(!good[1].contains_key("model"));
    for (text, said) in [
        ("{\"prompt\":\"a\"}\nsecret", ":2: expected a JSON object"),
        ("{\"prompt\":1}", ":1: \"prompt\" is no text"),
        ("{\"input\":\"secret\"}", ":1: expected \"prompt\" or \"messages\""),
        ("{\"prompt\":\"secret\",\"max_tokens\":null}", ":1: \"max_tokens\" is no whole number above 0"),
        ("\n\n", "has no prompt"),
    ] {
        let why = read(text).unwrap_err();
        assert!(why.contains(said) && !why.contains("secret"), "{why}");
    }
}

#[test]
fn sessions_are_for_users_of_one_target() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s.jsonl");
    let rows =
        ["a", "b"].map(|id| json!({ "conversation_id": id, "turn": 1, "role": "user", "content": "x" }).to_string());
    std::fs::write(&file, rows.join("\n")).unwrap();
    let sessions = ["--sessions", file.to_str().unwrap()];
    let agent = ["--workload", "agent"];
    for (more, said) in [
        (&[&sessions[..], &["--concurrency", "3"]].concat()[..], "3 users need 3 conversations, and the file has 2"),
        (&[&sessions[..], &["near/y", "--concurrency", "2"]].concat(), "sessions are for one target"),
        (&[&agent[..], &["--request-rate", "1"]].concat(), "sessions are for a closed loop"),
        (&[&agent[..], &["--prefix", "0.5"]].concat(), "are not for the workload agent"),
        (&[&agent[..], &["--output-tokens", "5"]].concat(), "are not for the workload agent"),
        (&[&sessions[..], &["--find", "rate", "--slo", "ttft=1s"]].concat(), "cannot be used with"),
    ] {
        let why = plan(&[&["near/x"], more].concat()).err().unwrap_or_default();
        assert!(why.contains(said), "{more:?}: {why}");
    }
    let two = plan(&[&["near/x", "--concurrency", "1,2"], &sessions[..]].concat()).unwrap();
    assert_eq!((two.sessions.unwrap().count(), two.workload.name.as_str()), (Some(2), "sessions"));
    assert_eq!(two.warm_up, Some(Duration::ZERO), "the first turns are no warm-up");
    assert_eq!(plan(&[&["near/x"], &agent[..]].concat()).unwrap().sessions.unwrap().count(), None);
    std::fs::write(&file, "{\"conversation_id\":\"a\",\"turn\":2}").unwrap();
    assert!(plan(&[&["near/x"], &sessions[..]].concat()).unwrap_err().ends_with("s.jsonl:1: \"turn\" is not 1"));
}

pub(in crate::cli::bench) fn plan(arguments: &[&str]) -> Result<BenchPlan, String> {
    let config = r#"
        [providers.near]
        base_url = "http://10.0.0.7:8000/v1"
        [providers.far]
        base_url = "https://api.example.com/v1"
        [models.m]
        upstreams = [{ upstream = "far/y", input_price = 1.0, output_price = 10.0 }, "near/x"]
    "#;
    let config = photofinish_config::parse(config, Path::new("test"), &|_| None).map_err(|why| why.to_string())?;
    let options = typed(arguments)?;
    let config = super::super::target::with_url(config, &options)?;
    let targets = BenchTargets::new(config, &options)?;
    BenchPlan::new(&options, &targets)
}

#[test]
fn money_is_asked_for_where_it_is_spent() {
    let cap = ["--max-cost", "1"];
    for (arguments, said) in [
        (&["far/y"][..], "far/y: a hosted provider bills each request; say with --max-cost"),
        (&["--model", "m"], "far/y: a hosted provider bills each request"),
        (
            &["far/z", "--max-cost", "1"],
            "no price is known for far/z, so --max-cost could not be kept: give it as `input_price`",
        ),
        (
            &["--url", "https://api.example.com/v1", "--model", "z", "--max-cost", "1"],
            "could not be kept: give it with --price",
        ),
        (&["near/x", "--max-cost", "1"], "no price is known for near/x, so --max-cost has no effect"),
        (&["far/y", "--max-cost", "1"], "far/y: up to 50 requests at once to a hosted provider; --yes says"),
        (&["far/y", "--max-cost", "1", "--concurrency", "11"], "up to 11 requests at once"),
        (&["far/y", "--max-cost", "1", "--request-rate", "1"], "up to 10000 requests at once"),
        (&["far/y", "--max-cost", "1", "--request-rate", "1", "--in-flight-max", "11"], "up to 11 requests at once"),
    ] {
        let why = plan(arguments).err().unwrap_or_default();
        assert!(why.contains(said), "{arguments:?}: {why}");
    }
    for arguments in [
        &["near/x"][..],
        &["far/y", "--concurrency", "10"],
        &["far/y", "--yes"],
        &["far/y", "near/x", "--concurrency", "10"],
        &["far/y", "--request-rate", "1", "--in-flight-max", "10"],
        &["--url", "https://api.example.com/v1", "--model", "z", "--price", "1/2", "--concurrency", "1"],
    ] {
        let cap = if arguments == ["near/x"] { &[] } else { &cap[..] };
        assert!(plan(&[arguments, cap].concat()).is_ok(), "{arguments:?}");
    }
}
