//! The page against rows.

use std::path::Path;

use super::*;
use crate::config::parse;
use crate::history::sample;

fn config(models: &str) -> Config {
    parse(&format!("providers.groq.base_url = \"http://h/v1\"\n{models}"), Path::new("x"), &|_| None).unwrap()
}

fn configured(models: &str) -> Metrics {
    let metrics = Metrics::new();
    metrics.configure(&config(models));
    metrics
}

const LLAMA: &str = "[models.\"llama-3.3-70b\"]\nupstreams = [\"groq/llama-70b\"]\naliases = [\"llama\"]";

fn page(metrics: &Metrics) -> String {
    metrics.render(&Elsewhere::default())
}

fn assert_has(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|known| known == *line), "no {line} in\n{page}");
    }
}

#[test]
fn rows_become_series() {
    let metrics = configured(LLAMA);
    let mut aliased = sample::race(1);
    aliased.model = "llama".to_owned();
    metrics.race(&sample::race(0), Some(400));
    metrics.race(&aliased, None);
    metrics.race(&sample::bare_race(2), None);
    metrics.attempt(&sample::won(0), Some(1));
    metrics.attempt(&sample::won(1), Some(2));
    metrics.attempt(&sample::lost(0, 99_000), None);
    metrics.attempt(&sample::failed(0), None);
    assert_has(
        &page(&metrics),
        &[
            "photofinish_races_total{outcome=\"ok\"} 2",
            "photofinish_races_total{outcome=\"rejected\"} 1",
            "photofinish_races_total{outcome=\"shutdown\"} 0",
            "photofinish_client_ttft_seconds_bucket{model=\"llama-3.3-70b\",le=\"0.1\"} 0",
            "photofinish_client_ttft_seconds_bucket{model=\"llama-3.3-70b\",le=\"0.2\"} 2",
            "photofinish_client_ttft_seconds_sum{model=\"llama-3.3-70b\"} 0.203",
            "photofinish_overhead_seconds_bucket{le=\"0.00025\"} 0",
            "photofinish_overhead_seconds_bucket{le=\"0.0005\"} 1",
            "photofinish_overhead_seconds_count 1",
            "photofinish_attempts_total{upstream=\"groq/llama-70b\",outcome=\"won\"} 2",
            "photofinish_attempts_total{upstream=\"other\",outcome=\"lost\"} 1",
            "photofinish_attempts_total{upstream=\"other\",outcome=\"failed\"} 1",
            "photofinish_attempt_ttft_seconds_bucket{upstream=\"groq/llama-70b\",le=\"0.05\"} 0",
            "photofinish_attempt_ttft_seconds_bucket{upstream=\"groq/llama-70b\",le=\"0.1\"} 2",
            "photofinish_attempt_ttft_seconds_count{upstream=\"groq/llama-70b\"} 2",
            // 50 ms a token; several choices have no speed.
            "photofinish_tpot_seconds_bucket{upstream=\"groq/llama-70b\",le=\"0.03\"} 0",
            "photofinish_tpot_seconds_bucket{upstream=\"groq/llama-70b\",le=\"0.05\"} 1",
            "photofinish_tpot_seconds_count{upstream=\"groq/llama-70b\"} 1",
        ],
    );
}

#[test]
fn names_that_nobody_configured_share_one_series() {
    let metrics = configured(LLAMA);
    let before = page(&metrics).lines().count();
    for n in 0..1_000 {
        let (mut race, mut attempt) = (sample::race(n), sample::won(n));
        race.model = format!("made-up-{n}\n");
        attempt.model_sent = format!("made-up-{n}\"");
        metrics.race(&race, None);
        metrics.attempt(&attempt, None);
    }
    let page = page(&metrics);
    assert!(!page.contains("made-up"));
    assert_has(&page, &["photofinish_attempts_total{upstream=\"other\",outcome=\"won\"} 1000"]);
    assert!(page.lines().count() - before < 70, "{page}");
}

#[test]
fn a_large_config_has_a_bounded_page() {
    let models: String =
        (0..500).map(|n| format!("[models.m{n}]\nupstreams = [\"groq/u{n}\", \"groq/v{n}\"]\n")).collect();
    let metrics = configured(&models);
    for n in 0..500 {
        let (mut race, mut attempt) = (sample::race(n), sample::won(n));
        race.model = format!("m{n}");
        attempt.model_sent = format!("u{n}");
        metrics.race(&race, None);
        metrics.attempt(&attempt, None);
    }
    let page = page(&metrics);
    let values = |start: &str| page.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(values("photofinish_client_ttft_seconds_count{"), MODELS_MAX + 1);
    assert!(values("photofinish_attempts_total{") <= UPSTREAMS_MAX + 1);
}

#[test]
fn a_reload_keeps_what_was_counted() {
    let metrics = configured(LLAMA);
    metrics.attempt(&sample::won(0), None);
    metrics.configure(&config(&format!("{LLAMA}\n[models.a]\nupstreams = [\"groq/a\"]")));
    metrics.attempt(&sample::won(1), None);
    assert_has(&page(&metrics), &["photofinish_attempts_total{upstream=\"groq/llama-70b\",outcome=\"won\"} 2"]);
    metrics.configure(&config(""));
    assert!(!page(&metrics).contains("llama-70b"));
}

#[test]
fn every_metric_is_in_the_readme() {
    let page = page(&Metrics::new());
    for name in page.lines().filter_map(|line| line.strip_prefix("# TYPE photofinish_")?.split(' ').next()) {
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&format!("`{name}`")) || readme.contains(&format!("`{name}{{")), "{name}");
    }
}
