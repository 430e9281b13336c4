//! The log of `serve`: every line of a request names its race, model, user and surface. The lines of an attempt also
//! name its upstream.

use serde_json::Value;

use crate::harness::process::{Setup, asking, provider};
use crate::support::{FakeProvider, Script};

const AUTH: [(&str, &str); 1] = [("authorization", "Bearer t")];
/// The debug lines of a request that falls back from one upstream to the next, and whether an attempt logs each line.
const SAID: [(&str, bool); 5] = [
    ("planned", false),
    ("an attempt failed", true),
    ("whether it is asked again", true),
    ("the attempt is over", true),
    ("the race is over", false),
];

/// Serves one request, whose first upstream answers with `status`. Returns the race's id and the log.
async fn served(format: &str, level: &str, status: u16) -> (String, String) {
    let bad = FakeProvider::answering(move |_| Script::status(status, &[], "{}")).await;
    let good = FakeProvider::answering(|_| Script::stream(&["a"])).await;
    let config = format!(
        "server.log = \"{format}\"\nrace.policy = \"fallback\"\n{}{}[users.ann]\ntoken = \"t\"\n[models.m]\n\
         upstreams = [\"one/x\", \"two/y\"]\n",
        provider("one", &bad),
        provider("two", &good)
    );
    let setup = Setup::new(&config).env("PHOTOFINISH_LOG", level);
    let served = setup.serve().await;
    let answer = served.chat(&AUTH, &asking("m")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let race_id = answer.header("x-photofinish-race").to_owned();
    served.process.signal("TERM");
    served.process.ended().await;
    (race_id, served.process.log())
}

#[tokio::test]
async fn every_line_of_a_request_names_it_in_json() {
    let (race_id, log) = served("json", "photofinish=debug", 500).await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["spans"][0]["race_id"] == line["race_id"]), "also without a race: {log}");
    for (said, by_attempt) in SAID {
        let found: Vec<&Value> = lines.iter().filter(|line| line["message"] == said).collect();
        assert!(!found.is_empty(), "{said}: {log}");
        for line in found {
            let request = &line["spans"][0];
            assert_eq!(request["race_id"], race_id, "{line}");
            assert_eq!(line["race_id"], race_id, "{line}");
            assert_eq!((&request["model"], &request["user"]), (&"m".into(), &"ann".into()), "{line}");
            assert_eq!(request["surface"], "chat", "{line}");
            let attempt = &line["spans"][1];
            assert_eq!(attempt.is_object(), by_attempt, "{line}");
            if by_attempt {
                let named = (attempt["upstream"].as_str(), attempt["ordinal"].as_u64(), attempt["reason"].as_str());
                let expected = [(Some("one/x"), Some(0), Some("first")), (Some("two/y"), Some(1), Some("fallback"))];
                assert!(expected.contains(&named), "{line}");
            }
        }
    }
}

#[tokio::test]
async fn every_line_of_a_request_names_it_in_text() {
    let (race_id, log) = served("text", "photofinish=debug", 500).await;
    let request = format!("request{{surface=\"chat\" race_id=\"{race_id}\" user=\"ann\" model=\"m\"}}:");
    for (said, by_attempt) in SAID {
        let found: Vec<&str> = log.lines().filter(|line| line.contains(&format!(": {said}"))).collect();
        assert!(!found.is_empty(), "{said}: {log}");
        for line in found {
            assert!(line.contains(&request), "{line}");
            assert_eq!(line.contains(":attempt{upstream=\""), by_attempt, "{line}");
        }
    }
}
