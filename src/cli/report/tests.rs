//! The page of known figures, in each form.

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::clock::{DAY_US, HOUR_US};
use crate::history::{AttemptRecord, RaceRecord, RaceSource, sample};
use crate::report::probes::{HourMedian, ProbeReport, ProbedFigure, ProbedUpstream, StepMedian};
use crate::report::question::moment;
use crate::store::{Record, Store};

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
        cost_usd_min: Some(0.01),
        cost_usd_max: Some(0.01),
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
        skipped: [("llama".to_owned(), 2)].into(),
        cost_usd_min: Some(0.02),
        cost_usd_max: Some(0.03),
        loads: Vec::new(),
    }
}

fn markdown(report: &ProbeReport) -> String {
    let mut out = Vec::new();
    markdown::write(&words::page(report), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn html(report: &ProbeReport) -> String {
    let mut out = Vec::new();
    html::write(words::TITLE, &words::page(report), &mut out).unwrap();
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
fn the_page_in_html_loads_and_runs_nothing() {
    let page = html(&known());
    for forbidden in ["<script", "http://", "https://", "src=", "@import", "onload"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("<svg") && page.contains("<polyline") && page.contains("Frankfurt"), "{page}");
}

proptest! {
    /// Names come from configurations and providers.
    #[test]
    fn a_name_is_never_markup(name in ".{0,40}", at in 0_usize..4) {
        let hostile = format!("{name}<script>alert('1')</script>\"|`*<b>{name}");
        let mut report = known();
        match at {
            0 => report.upstreams[0].upstream.clone_from(&hostile),
            1 => report.upstreams.iter_mut().for_each(|upstream| upstream.model.clone_from(&hostile)),
            2 => report.upstreams.iter_mut().for_each(|upstream| upstream.workload.clone_from(&hostile)),
            _ => report.place = Some(hostile.clone()),
        }
        let (page, plain) = (html(&report), html(&known()));
        prop_assert!(!page.contains("<script") && !page.contains("<b>"));
        let tags = |page: &str, tag: &str| page.matches(tag).count();
        prop_assert!(tags(&page, "\"") % 2 == 0 && tags(&plain, "<td>") == tags(&page, "<td>"));
        let page = markdown(&report);
        prop_assert!(!page.contains("<script") && !page.contains("<b>"));
        prop_assert_eq!(page.lines().filter(|line| line.starts_with('|')).count(),
            markdown(&known()).lines().filter(|line| line.starts_with('|')).count());
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
    let question = ProbesQuestion { since: moment("30d").unwrap(), public: false };
    for (html, json) in [(true, false), (false, true), (false, false)] {
        let options = ReportOptions { question: question.clone(), md: false, html, json };
        let (mut out, began) = (Vec::new(), Instant::now());
        run(&path, None, &options, &mut out).unwrap();
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
    let question = ProbesQuestion { since: moment("72h").unwrap(), public: false };
    let options = |json| ReportOptions { question: question.clone(), md: false, html: false, json };
    let error = run(&path, None, &options(false), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("photofinish probe") && error.contains("photofinish bench"), "{error}");
    let mut out = Vec::new();
    run(&path, None, &options(true), &mut out).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(report["upstreams"], serde_json::json!([]));
}
