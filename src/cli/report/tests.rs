//! The page of known figures, in each form.

use std::path::Path;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::cli::text::columns;
use photofinish_base::clock::{DAY_US, HOUR_US};
use photofinish_config as config;
use photofinish_facts::estimate::cost::Cost;
use photofinish_facts::estimate::interval::insufficient_for_p99;
use photofinish_facts::record::{AttemptRecord, RaceRecord, RaceSource, Record, RunKind, RunRecord, sample};
use photofinish_history::report::probes::{
    HourMedian, LoadLevel, MeasuredLoad, PingedUpstream, ProbeReport, ProbedFigure, ProbedUpstream, StepMedian,
};
use photofinish_history::report::question::moment;
use photofinish_history::store::Store;

fn figure(p50: f64, samples: usize) -> ProbedFigure {
    let at = |factor: f64| Some(p50 * factor);
    let many = samples >= 72;
    ProbedFigure {
        samples,
        p5: at(0.5),
        p25: at(0.8),
        p50: at(1.0),
        p75: at(1.2),
        p95: at(2.0),
        p50_low: at(0.9).filter(|_| samples >= 6),
        p50_high: at(1.1).filter(|_| samples >= 6),
        p95_low: at(1.9).filter(|_| many),
        p95_high: at(2.2).filter(|_| many),
        steps: (0..3)
            .map(|n| StepMedian { start: String::new(), start_us: n * HOUR_US, p50: p50 * (n + 1) as f64, samples: 1 })
            .collect(),
        by_hour: if many { vec![HourMedian { hour: 3, p50, samples: 5 }] } else { Vec::new() },
    }
}

fn upstream(name: &str, ttft_ms: f64, samples: usize) -> ProbedUpstream {
    ProbedUpstream {
        model: "llama".to_owned(),
        workload: "1k".to_owned(),
        upstream: name.to_owned(),
        answered: samples,
        failed: 1,
        failures: [("rate_limited".to_owned(), 1)].into(),
        short: 0,
        cost: Cost::exactly(0.01),
        ttft_ms: figure(ttft_ms, samples),
        tok_s: figure(50.0, samples),
        end_to_end_ms: figure(10.0 * ttft_ms, samples),
    }
}

fn known() -> ProbeReport {
    ProbeReport {
        since: "2026-01-02T03:04:05Z".to_owned(),
        until: "2026-01-05T03:04:05Z".to_owned(),
        since_us: 0,
        until_us: 2 * HOUR_US,
        hours: 72.0,
        place: Some("Frankfurt".to_owned()),
        definitions: 1,
        upstreams: vec![upstream("slow/llama", 200.0, 5), upstream("fast/llama", 100.0, 24)],
        pings: vec![PingedUpstream {
            model: "llama".to_owned(),
            upstream: "fast/llama".to_owned(),
            failed: 1,
            failures: [("rate_limited".to_owned(), 1)].into(),
            samples: 25,
            ttft_p50_ms: Some(300.0),
            ttft_p50_low_ms: Some(250.0),
            ttft_p50_high_ms: Some(350.0),
        }],
        skipped: [("llama".to_owned(), 2)].into(),
        cost: Cost::between(0.02, Some(0.03)),
        loads: Vec::new(),
    }
}

fn level(target: &str, users: u64, tok_s: f64) -> LoadLevel {
    LoadLevel {
        target: target.to_owned(),
        users: Some(users),
        answered: Some(40),
        ttft_p50_ms: Some(1_000.0 / tok_s),
        ttft_p50_low_ms: Some(900.0 / tok_s),
        ttft_p50_high_ms: Some(1_100.0 / tok_s),
        ttft_p99_insufficient: insufficient_for_p99(40),
        tok_s_p50: Some(tok_s),
        tok_s_all: Some(tok_s * users as f64),
        end_to_end_p50_ms: Some(900.0),
        trusted: true,
        ..LoadLevel::default()
    }
}

fn load(levels: Vec<LoadLevel>) -> MeasuredLoad {
    MeasuredLoad {
        run_id: "r1".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        label: None,
        target: "a/m b/m".to_owned(),
        workload: "1k".to_owned(),
        machine: None,
        trust: None,
        cost: Cost::default(),
        levels,
        found: Vec::new(),
    }
}

/// A configuration with this store.
fn config_of(path: &Path, text: &str) -> Config {
    let mut config = config::parse(text, Path::new("test"), &|_| None).unwrap();
    config.store.address = path.into();
    config
}

fn markdown(report: &ProbeReport) -> String {
    let mut out = Vec::new();
    page::write_markdown(&words::page(report), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn html(report: &ProbeReport) -> String {
    let mut out = Vec::new();
    page::write_html(words::TITLE, &words::page(report), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_page_in_markdown() {
    let page = markdown(&known());
    let (figures, method) = page.split_once("## Method").unwrap();
    let version = concat!("photofinish ", env!("CARGO_PKG_VERSION"));
    assert_eq!(figures.replace(version, "photofinish V"), include_str!("golden.md"));
    assert!(
        method.contains("72 hours are 24 probes")
            && method.contains("Artificial Analysis")
            && method.contains("MLPerf")
    );
}

#[test]
fn the_page_on_a_terminal_fits_its_width() {
    let levels = vec![level("a/m", 1, 80.0), level("a/m", 9, 20.0)];
    for report in [known(), ProbeReport { loads: vec![load(levels)], ..known() }] {
        let blocks = words::page(&report);
        for width in [None, Some(60)] {
            let mut out = Vec::new();
            page::write_text(&blocks, width, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let wide = |line: &&str| columns(line) > width.unwrap_or(80) && line.trim().contains(' ');
            assert_eq!(text.lines().find(wide), None, "{text}");
            for word in [words::TITLE, "fast/llama", "Method"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
}

#[test]
fn the_page_in_html_loads_and_runs_nothing() {
    let page = html(&known());
    for forbidden in ["<script", "http://", "https://", "src=", "@import", "onload"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("<svg") && page.contains("<polyline") && page.contains("Frankfurt"), "{page}");
}

#[test]
fn without_points_there_is_no_title_of_a_chart() {
    let mut report = known();
    for upstream in &mut report.upstreams {
        (upstream.ttft_ms, upstream.tok_s) = (ProbedFigure::default(), ProbedFigure::default());
    }
    let page = markdown(&report);
    assert!(!page.contains("Over time") && !page.contains("medians, from"), "{page}");
}

#[test]
fn levels_of_load_are_a_table() {
    let doubtful = LoadLevel { trusted: false, ..level("a/m", 100, 777.0) };
    let levels = vec![level("a/m", 1, 80.0), level("b/m", 1, 40.0), level("a/m", 10, 60.0), doubtful];
    let report = ProbeReport { upstreams: Vec::new(), pings: Vec::new(), loads: vec![load(levels)], ..known() };
    let page = html(&report);
    assert_eq!((page.matches("<tr>").count(), page.matches("<svg").count()), (1 + 4 + 1, 0), "{page}");
    let page = markdown(&report);
    assert!(
        page.contains("| a/m | 10 users | 40 | 17 ms (15 ms to 18 ms) | insufficient: 40 of 662 | 60.0 |"),
        "{page}"
    );
}

proptest! {
    /// Names come from configurations and providers.
    #[test]
    fn a_name_is_never_markup(name in ".{0,40}", at in 0_usize..5) {
        let hostile = format!("{name}<script>alert('1')</script>\"|`*<b>{name}");
        let loaded = || ProbeReport { loads: vec![load(vec![level("a/m", 1, 80.0), level("a/m", 9, 20.0)])], ..known() };
        let mut report = loaded();
        match at {
            0 => report.upstreams[0].upstream.clone_from(&hostile),
            1 => report.upstreams.iter_mut().for_each(|upstream| upstream.model.clone_from(&hostile)),
            2 => report.upstreams.iter_mut().for_each(|upstream| upstream.workload.clone_from(&hostile)),
            3 => report.loads[0].levels.iter_mut().for_each(|level| level.target.clone_from(&hostile)),
            _ => report.place = Some(hostile.clone()),
        }
        let (page, plain) = (html(&report), html(&loaded()));
        prop_assert!(!page.contains("<script") && !page.contains("<b>"));
        let tags = |page: &str, tag: &str| page.matches(tag).count();
        prop_assert!(tags(&page, "\"") % 2 == 0 && tags(&plain, "<td>") == tags(&page, "<td>"));
        let page = markdown(&report);
        prop_assert!(!page.contains("<script") && !page.contains("<b>"));
        prop_assert_eq!(page.lines().filter(|line| line.starts_with('|')).count(),
            markdown(&loaded()).lines().filter(|line| line.starts_with('|')).count());
    }
}

/// 50 upstreams, two workloads, 8 times a day for 30 days, each with its ping: 48,000 probes.
fn a_month(path: &Path) {
    let now_us = wall_micros();
    let store = Store::open(path).unwrap();
    let mut batch = Vec::new();
    for slot in 0..30 * 8_i64 {
        for number in 0..200_i64 {
            let at_us = now_us - 30 * DAY_US + slot * 3 * HOUR_US + number * 1_000 + HOUR_US;
            let (ms, workload) = (at_us / 1_000, ["1k", "10k", "ping", "ping"][(number % 4) as usize]);
            let race_id = format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff);
            let of_race = RaceRecord {
                race_id: race_id.clone(),
                started_at: at_us,
                model: format!("model-{}", number / 4 % 5),
                workload: Some(workload.to_owned()),
                max_tokens: Some(41),
                ..sample::race_of(RaceSource::Probe, 0)
            };
            let ttft_us = 50_000 + (slot * 37 + number * 91) % 400 * 1_000;
            let of_attempt = AttemptRecord {
                race_id,
                provider: format!("provider-{}", number / 4),
                first_token_us: Some(ttft_us),
                last_token_us: Some(ttft_us + 2_000_000),
                ..sample::won(0)
            };
            batch.extend([Record::Race(Box::new(of_race)), Record::Attempt(Box::new(of_attempt))]);
        }
        store.write(&std::mem::take(&mut batch)).unwrap();
    }
    store.close();
}

#[test]
fn a_month_of_fifty_upstreams_is_quick_and_small() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    a_month(&path);
    let config = config_of(&path, "");
    let question = ProbesQuestion { since: moment("30d").unwrap(), public: false };
    for (html, json) in [(true, false), (false, true), (false, false)] {
        let options = ReportOptions { question: question.clone(), md: false, html, json };
        let (mut out, began) = (Vec::new(), Instant::now());
        run(&config, &options, None, &mut out).unwrap();
        let took = began.elapsed();
        eprintln!("html {html} json {json}: {took:?}, {} bytes", out.len());
        if html {
            assert!(out.len() <= 300_000, "{} bytes", out.len());
        }
        assert!(String::from_utf8(out).unwrap().contains("provider-49/llama-70b"));
    }
}

#[test]
fn without_probes_it_says_what_to_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    Store::open(&path).unwrap().close();
    let config = config_of(&path, "");
    let question = ProbesQuestion { since: moment("72h").unwrap(), public: false };
    let options = |json| ReportOptions { question: question.clone(), md: false, html: false, json };
    let error = run(&config, &options(false), None, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("photofinish probe") && error.contains("photofinish bench"), "{error}");
    let mut out = Vec::new();
    run(&config, &options(true), None, &mut out).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(report["upstreams"], serde_json::json!([]));
}

/// Probes and a benchmark of a minute before. Every name is a vendor's, or the operator's own and begins with `acme`.
fn named_by_acme(now_us: i64) -> Vec<Record> {
    let ms = now_us / 1_000 - 60_000;
    let mut records = Vec::new();
    let upstreams = [
        ("acme-bot", "acme-lab", "acme-tuned", "acme-work"),
        ("gpt-oss-120b", "groq", "openai/gpt-oss-120b", "1k"),
        ("acme-bot", "openai", "ft:gpt-4o:acme::7", "10k"),
    ];
    for (number, (model, provider, model_sent, workload)) in (0_i64..).zip(upstreams) {
        let race_id = format!("{:08x}-{:04x}-7000-8000-{number:012x}", ms >> 16, ms & 0xffff);
        let race = RaceRecord {
            race_id: race_id.clone(),
            started_at: ms * 1_000,
            model: model.to_owned(),
            workload: Some(workload.to_owned()),
            user: Some("acme-user".to_owned()),
            ..sample::race_of(RaceSource::Probe, 0)
        };
        let attempt = AttemptRecord {
            race_id,
            provider: provider.to_owned(),
            model_sent: model_sent.to_owned(),
            model_reported: Some("acme-reported".to_owned()),
            key_id: Some("acme-key".to_owned()),
            ..sample::won(0)
        };
        let skipped = RaceRecord { race_id: race.race_id.replace("-8000-", "-9000-"), attempts: 0, ..race.clone() };
        records.extend([race, skipped].map(|race| Record::Race(Box::new(race))));
        records.push(Record::Attempt(Box::new(attempt)));
    }
    let stage =
        |target: &str| serde_json::json!({"target": target, "users": 1, "tok_s_all": 400.0, "doubts": ["acme-doubt"]});
    let result = serde_json::json!({
        "workload": {"name": "acme-work"}, "label": "acme-label",
        "stages": [stage("model acme-bot, hedge"), stage("acme-lab/acme-tuned"), stage("groq/openai/gpt-oss-120b")],
        "found": [{"target": "model acme-bot, hedge", "attain": 0.9, "passes": 11.4}],
    });
    records.push(Record::Run(Box::new(RunRecord {
        started_at: now_us - 60_000_000,
        kind: RunKind::Bench,
        label: Some("acme-label".to_owned()),
        target: "model acme-bot, hedge acme-lab/acme-tuned groq/openai/gpt-oss-120b".to_owned(),
        machine: Some("acme-machine".to_owned()),
        trust: Some("acme-doubt".to_owned()),
        result: Some(result.to_string()),
        ..sample::run(1)
    })));
    records
}

#[test]
fn it_says_where_from_and_the_public_one_has_no_name_of_the_operator() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    store.write(&named_by_acme(wall_micros())).unwrap();
    store.close();
    let text = "[models.m]\nupstreams = [\"acme-lab/x\"]\n[providers.acme-lab]\nbase_url = \"http://10.0.0.7/v1\"\n\
                [probes]\nmax_cost = 1.0\nfrom = \"Frankfurt\"\n";
    let config = config_of(&path, text);
    for (html, json) in [(true, false), (false, true), (false, false)] {
        let page = |public: bool| {
            let question = ProbesQuestion { since: moment("72h").unwrap(), public };
            let mut out = Vec::new();
            run(&config, &ReportOptions { question, md: !html && !json, html, json }, None, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (all, public) = (page(false), page(true));
        for name in ["acme-bot", "acme-lab/acme-tuned", "acme-work", "ft:gpt-4o:acme::7", "acme-label", "acme-doubt"] {
            assert!(all.contains(name), "{name}: {all}");
        }
        assert!(!public.contains("acme"), "{public}");
        for name in
            ["groq/openai/gpt-oss-120b", "server-1/model-", "openai/model-", "workload-1", "model model-1, hedge"]
        {
            assert!(public.contains(name), "{name}: {public}");
        }
        for page in [all, public] {
            assert!(page.contains(if json { "\"place\": \"Frankfurt\"" } else { "From Frankfurt." }), "{page}");
        }
    }
}
