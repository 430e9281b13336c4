//! The words, and the command over a real file.

use std::path::Path;

use clap::Parser as _;
use serde_json::{Value, json};

use super::*;
use crate::cli::text::{joined, wrapped};
use photofinish_base::clock::wall_micros;
use photofinish_facts::estimate::regression::{Finding, Shift};
use photofinish_facts::record::{AttemptRecord, IncidentRecord, sample};
use photofinish_history::store::{Record, Store};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: super::super::StatsOptions,
}

fn parsed(line: &str) -> Result<super::super::StatsOptions, clap::Error> {
    let words = ["stats", "--regressions"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.options)
}

fn output(path: &Path, line: &str) -> String {
    let mut out = Vec::new();
    super::super::run(&super::super::tests::config(path), &parsed(line).unwrap(), crate::cli::screen::PIPED, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

fn text(answer: &Regressions, width: Option<usize>) -> String {
    let mut out = Vec::new();
    write(&RegressionsQuestion::default(), answer, true, width, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// An hour from 2026-01-02T03:00:00Z on.
fn answer(findings: Vec<Finding>, upstreams: usize) -> Regressions {
    let found = |finding| Regression {
        upstream: "groq/llama\u{1b}".into(),
        finding,
        attempts_before: 2_170,
        attempts_now: 310,
    };
    Regressions {
        now: (1_767_322_800_000_000, 1_767_326_400_000_000),
        findings: findings.into_iter().map(found).collect(),
        upstreams,
        attempts_before: 8_901,
        attempts_now: 1_234,
        too_few: Vec::new(),
        incidents: Vec::new(),
    }
}

#[test]
fn quiet_when_there_is_nothing() {
    assert_eq!(
        text(&answer(Vec::new(), 5), None),
        "No regressions: 5 upstreams, 1,234 attempts since 2026-01-02T03:00:00Z, against\n8,901 in the same hours of the 7 \
         days before.\n"
    );
    assert_eq!(text(&answer(Vec::new(), 0), None), "Nothing to compare: no attempts since 2026-01-02T03:00:00Z.\n");
}

#[test]
fn each_finding_is_a_line() {
    let shift = Shift { share: 0.5, before_us: 100_000, now_us: 205_000 };
    let found = answer(
        vec![
            Finding::Ttft { shift: Some(shift), hazard_ratio: 0.4, p_value: 0.000_012 },
            Finding::Ttft { shift: None, hazard_ratio: 0.251, p_value: 0.001 },
            Finding::Tpot { before_us: 20_000.0, now_us: 30_100.0, p_value: 0.0 },
            Finding::Failures { before: 0.012, now: 0.14, p_value: 0.000_3 },
        ],
        1,
    );
    let shown = text(&found, None);
    let name = "groq/llama\\u{1b}";
    for line in [
        format!("{name}: TTFT p50 100 ms → 205 ms (×2.05); p = 1.2e-5; 310 attempts, 2,170 before."),
        format!(
            "{name}: TTFT: at equal waiting times first tokens come 75 % less often (hazard ratio 0.25; the median is not \
             reached); p = 1.0e-3; 310 attempts, 2,170 before."
        ),
        format!("{name}: TPOT p50 20.0 ms → 30.1 ms (×1.50); p < 1e-9; 310 attempts, 2,170 before."),
        format!("{name}: failures 1.2 % → 14.0 % (+12.8 points); p = 3.0e-4; 310 attempts, 2,170 before."),
        "Compared: 1 upstream, 1,234 attempts since 2026-01-02T03:00:00Z, against 8,901 in the same hours of the 7 days \
         before."
            .to_owned(),
    ] {
        let line = wrapped(&line, 80).join("\n") + "\n";
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    assert!(shown.contains("\nHazard ratio: of attempts that have waited equally long"), "{shown}");
    let shifted = answer(vec![Finding::Ttft { shift: Some(shift), hazard_ratio: 0.4, p_value: 0.000_012 }], 1);
    assert!(!text(&shifted, None).contains("azard"));
    let long = format!("provider/{}/end", "x".repeat(200));
    let mut named = found;
    named.findings.iter_mut().for_each(|found| found.upstream.clone_from(&long));
    for width in [40, 80, 160] {
        let fitting = text(&named, Some(width));
        assert!(fitting.lines().all(|line| line.chars().count() <= width), "{fitting}");
        assert!(
            fitting.starts_with("provider/xx") && fitting.contains("x/end: \n") | fitting.contains("x/end:\n"),
            "{fitting}"
        );
    }
    assert!(text(&named, None).starts_with(&format!("{long}:\nTTFT p50")));
}

/// An upstream that failed in one hour and not in the same of the day before, and one that has no day before.
#[tokio::test]
async fn over_a_real_file() {
    const DAY_MS: i64 = 86_400_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let attempt = |record: AttemptRecord| Record::Attempt(Box::new(record));
    let race = |n: i64| Record::Race(Box::new(sample::race(n)));
    let before = (0..100).flat_map(|n| [race(n), attempt(sample::won(n))]);
    let now = (DAY_MS..DAY_MS + 30).flat_map(|n| {
        let failed = AttemptRecord { ordinal: 0, provider: "groq".into(), ..sample::failed(n) };
        [race(n), attempt(failed), attempt(sample::lost(n, 7_000))]
    });
    store.write(&before.chain(now).collect::<Vec<_>>()).unwrap();
    let incident = IncidentRecord { part_of: None, ..sample::incident(24) };
    store.write(&[Record::Incident(Box::new(incident))]).unwrap();

    let hour = "--since 2026-01-03T03:00:00Z --until 2026-01-03T04:00:00Z";
    let shown = joined(&output(&path, hour));
    assert!(shown.starts_with("groq/llama-70b: failures 0.0 % → 100.0 % (+100.0 points); p < 1e-9; "), "{shown}");
    assert!(shown.contains("input classes: cerebras/llama-70b (30, 0 before). "), "{shown}");
    assert!(shown.contains("since 2026-01-03T03:00:00Z and before 2026-01-03T04:00:00Z, against 100 in"), "{shown}");
    let named = "Incident: groq/llama-70b: first tokens took 2.2 times as long from 2026-01-03 03:04 to 04:19 UTC. ";
    assert!(shown.contains(named), "{shown}");
    let objects: Vec<Value> = serde_json::from_str(&output(&path, &format!("--json {hour}"))).unwrap();
    let mut object = objects[0].as_object().unwrap().clone();
    assert!(object.remove("p_value").unwrap().as_f64().unwrap() < 0.001);
    assert_eq!(
        Value::from(object),
        json!({
            "upstream": "groq/llama-70b", "figure": "failures", "quantile": null, "before_ms": null, "now_ms": null,
            "ratio": null, "before_share": 0.0, "now_share": 1.0, "difference": 1.0, "hazard_ratio": null,
            "attempts_before": 100, "attempts_now": 30
        })
    );
    let csv = output(&path, &format!("--csv {hour}"));
    assert!(
        csv.starts_with("upstream,figure,quantile,before_ms,") && csv.contains("\r\ngroq/llama-70b,failures,,,,,0.0,")
    );
    let elsewhere = format!("{hour} --provider mistral");
    let nothing = "Nothing to compare: no attempts since 2026-01-03T03:00:00Z and before\n2026-01-03T04:00:00Z, provider \
                   mistral.\n";
    assert_eq!(
        (output(&path, &elsewhere).as_str(), output(&path, &format!("--json {elsewhere}")).as_str()),
        (nothing, "[]\n")
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for option in ["--by model", "--slo ttft=1s", "--min-samples 1", "--half-life 1h", "--strata hour", "--exact"] {
        let error = parsed(option).map(drop).unwrap_err().to_string();
        let name = option.split(' ').next().unwrap();
        assert!(error.contains("--regressions") && error.contains(name), "{error}");
    }
    assert!(
        parsed("--since 25h").unwrap().question.problem(wall_micros()).is_some_and(|words| words.contains("24h long"))
    );
    assert_eq!(parsed("--since 24h --model a --user b").unwrap().question.problem(wall_micros()), None);
}
