//! Compares the page with rows.

use std::collections::BTreeSet;

use std::path::Path;

use super::users::USERS_MAX;
use super::*;
use photofinish_config::parse;
use photofinish_facts::record::{StartReason, sample};

fn config(models: &str) -> Config {
    parse(&format!("providers.groq.base_url = \"http://h/v1\"\n{models}"), Path::new("x"), &|_| None).unwrap()
}

fn configured(models: &str) -> Metrics {
    let metrics = Metrics::new();
    metrics.configure(&config(models));
    metrics
}

const LLAMA: &str = "[models.\"llama-3.3-70b\"]\nupstreams = [\"groq/llama-70b\"]";

fn page(metrics: &Metrics) -> String {
    metrics.render(MetricsFormat::Text, &BTreeSet::new(), |_| {})
}

fn assert_has(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.lines().any(|known| known == *line), "no {line} in\n{page}");
    }
}

#[test]
fn rows_become_series() {
    let metrics = configured(LLAMA);
    metrics.race(&sample::race(0), Some(400));
    metrics.race(&sample::race(1), None);
    metrics.race(&sample::bare_race(2), None);
    metrics.attempt(&sample::won(0), Some(1), 5_000);
    metrics.attempt(&sample::won(1), Some(2), 5_000);
    metrics.attempt(&sample::lost(0, 99_000), None, 5_000);
    metrics.attempt(&sample::failed(0), None, 5_000);
    assert_has(
        &page(&metrics),
        &[
            "photofinish_races_total{outcome=\"ok\"} 2",
            "photofinish_model_races_total{model=\"llama-3.3-70b\",outcome=\"ok\"} 2",
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
            // 50 ms per token; an attempt with several choices has no speed.
            "photofinish_tpot_seconds_bucket{upstream=\"groq/llama-70b\",le=\"0.03\"} 0",
            "photofinish_tpot_seconds_bucket{upstream=\"groq/llama-70b\",le=\"0.05\"} 1",
            "photofinish_tpot_seconds_count{upstream=\"groq/llama-70b\"} 1",
            "photofinish_tokens_total{upstream=\"groq/llama-70b\",kind=\"input\"} 2048",
            "photofinish_tokens_total{upstream=\"groq/llama-70b\",kind=\"cached_input\"} 1024",
            "photofinish_tokens_total{upstream=\"groq/llama-70b\",kind=\"output\"} 82",
            "photofinish_tokens_total{upstream=\"groq/llama-70b\",kind=\"reasoning\"} 10",
        ],
    );
}

#[test]
fn starts_are_counted_by_their_reason() {
    let metrics = Metrics::new();
    let attempt = |outcome, start_reason| {
        metrics.attempt(&AttemptRecord { outcome, start_reason, ..sample::won(0) }, None, 5_000);
    };
    attempt(AttemptOutcome::Lost, StartReason::First);
    attempt(AttemptOutcome::Won, StartReason::Hedge);
    attempt(AttemptOutcome::Lost, StartReason::Hedge);
    attempt(AttemptOutcome::Failed, StartReason::Retry);
    for refused_hedge in [true, true, false] {
        metrics.decided(refused_hedge, [].into_iter());
    }
    assert_has(
        &page(&metrics),
        &[
            "photofinish_starts_total{reason=\"first\"} 1",
            "photofinish_starts_total{reason=\"hedge\"} 2",
            "photofinish_starts_total{reason=\"fallback\"} 0",
            "photofinish_starts_total{reason=\"retry\"} 1",
            "photofinish_starts_won_total{reason=\"first\"} 0",
            "photofinish_starts_won_total{reason=\"hedge\"} 1",
            "photofinish_starts_refused_total{reason=\"hedge\"} 2",
        ],
    );
}

#[test]
fn upstreams_left_out_are_counted_by_reason() {
    let metrics = Metrics::new();
    for left_out in [&[LeftOutReason::Breaker, LeftOutReason::CoolingDown][..], &[LeftOutReason::Breaker], &[]] {
        metrics.decided(false, left_out.iter().copied());
    }
    assert_has(
        &page(&metrics),
        &[
            "photofinish_left_out_total{reason=\"breaker\"} 2",
            "photofinish_left_out_total{reason=\"cooling_down\"} 1",
            "photofinish_left_out_total{reason=\"dialect\"} 0",
        ],
    );
}

/// Those of these families, without comments.
fn lines_of(metrics: &Metrics, families: &[&str]) -> Vec<String> {
    let page = page(metrics);
    let lines = page.lines().filter_map(|line| line.split_once('_')).filter(|(prefix, _)| *prefix == "photofinish");
    let lines = lines.map(|(_, line)| line);
    lines.filter(|line| families.iter().any(|family| line.starts_with(family))).map(str::to_owned).collect()
}

#[test]
fn costs_are_summed_by_upstream_model_and_user() {
    let metrics = configured(LLAMA);
    let lost = AttemptRecord { provider: "groq".into(), cost_usd_min: Some(0.25), ..sample::lost(0, 99_000) };
    let unknown = AttemptRecord { provider: "groq".into(), cost_usd_min: None, ..sample::failed(0) };
    let elsewhere = AttemptRecord { cost_usd_min: Some(2.0), ..sample::lost(0, 99_000) };
    let won = AttemptRecord { cost_usd_min: Some(0.5), ..sample::won(0) };
    let below_nothing = AttemptRecord { cost_usd_min: Some(-1.0), ..won.clone() };
    let plain = |n| RaceRecord { rescued_by: None, ..sample::race(n) };
    let by_bob = RaceRecord { user: Some("bob".into()), ..plain(2) };
    let gone = RaceRecord { user: Some("gone".into()), model: "groq/made-up".to_owned(), ..plain(3) };
    let costs_of = |race: &RaceRecord, attempts: &[&AttemptRecord]| {
        let series: Vec<_> = attempts.iter().map(|attempt| metrics.attempt(attempt, None, 0)).collect();
        metrics.costs(race, attempts.iter().copied().zip(&series));
    };
    metrics.race(&by_bob, None);
    metrics.race(&gone, None);
    costs_of(&plain(0), &[&won, &lost, &unknown, &elsewhere, &below_nothing]);
    costs_of(&plain(1), &[&won]);
    costs_of(&by_bob, &[&won]);
    costs_of(&gone, &[&won]);
    costs_of(&RaceRecord { user: None, ..plain(4) }, &[&unknown]);
    let families = ["cost_usd_total", "extra_cost_usd_total", "user_races", "user_cost_usd_total"];
    let costs = |metrics: &Metrics| lines_of(metrics, &families);
    let bounds = ["cost_usd_max_total", "cost_open_total", "user_cost_usd_max_total{user=\"alice\"}"];
    let bounds = |metrics: &Metrics| lines_of(metrics, &bounds);
    let llama = "{upstream=\"groq/llama-70b\",model=\"llama-3.3-70b\"}";
    let (of_another, by_another) =
        ("{upstream=\"groq/llama-70b\",model=\"other\"}", "{upstream=\"other\",model=\"llama-3.3-70b\"}");
    let expected = [
        "user_races_total{user=\"bob\",outcome=\"ok\"} 1".to_owned(),
        "user_races_total{user=\"gone\",outcome=\"ok\"} 1".to_owned(),
        "user_cost_usd_total{user=\"alice\"} 3.25".to_owned(),
        "user_cost_usd_total{user=\"bob\"} 0.5".to_owned(),
        "user_cost_usd_total{user=\"gone\"} 0.5".to_owned(),
        format!("cost_usd_total{llama} 1.75"),
        format!("cost_usd_total{of_another} 0.5"),
        format!("cost_usd_total{by_another} 2"),
        format!("extra_cost_usd_total{llama} 0.25"),
        format!("extra_cost_usd_total{of_another} 0"),
        format!("extra_cost_usd_total{by_another} 2"),
    ];
    assert_eq!(costs(&metrics), expected);
    let most = ["user_cost_usd_max_total{user=\"alice\"}"].map(|series| {
        bounds(&metrics).iter().find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok()).unwrap()
    });
    assert!(most[0] >= 3.25, "upper bounds are no less: {most:?}");

    metrics.configure(&config("[models.a]\nupstreams = [\"groq/llama-70b\"]"));
    metrics.choose_users(|user| user == "bob");
    let kept = ["user_races_total{user=\"bob\",outcome=\"ok\"} 1", "user_cost_usd_total{user=\"bob\"} 0.5"];
    let of_another = |family: &str| format!("{family}{of_another} ");
    let expected = [
        kept[0].to_owned(),
        kept[1].to_owned(),
        of_another("cost_usd_total") + "0.5",
        of_another("extra_cost_usd_total") + "0",
    ];
    assert_eq!(costs(&metrics), expected, "a removed name has no series");
}

#[test]
fn a_large_number_of_users_has_a_bounded_page() {
    let metrics = configured("");
    for n in 0..1_000 {
        let race = RaceRecord { user: Some(format!("u{n}")), ..sample::race(n) };
        metrics.race(&race, None);
        let attempt = sample::won(n);
        metrics.costs(&race, [(&attempt, &metrics.attempt(&attempt, None, 0))].into_iter());
    }
    assert_eq!(lines_of(&metrics, &["user_cost_usd_total"]).len(), USERS_MAX + 1);
    assert_eq!(lines_of(&metrics, &["user_races_total"]).len(), USERS_MAX + 1);
}

/// What the specification demands of names, which Prometheus does not check.
#[test]
fn the_names_are_those_of_open_metrics() {
    let metrics = configured(LLAMA);
    metrics.race(&sample::race(0), Some(400));
    metrics.attempt(&sample::won(0), Some(1), 5_000);
    let page = metrics.render(MetricsFormat::OpenMetrics, &BTreeSet::new(), |_| {});
    let page = page.strip_suffix("# EOF\n").unwrap();
    let mut families = BTreeSet::new();
    let mut current = ("", "");
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|family| family.split_once(' ')) {
            assert!(families.insert(name), "two families are called {name}");
            current = (name, kind);
        } else if !line.starts_with("# HELP ") {
            let sample = line.split(['{', ' ']).next().unwrap();
            let suffix = sample.strip_prefix(current.0).unwrap();
            let is_right = match current.1 {
                "counter" => suffix == "_total",
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                _ => suffix.is_empty(),
            };
            assert!(is_right, "{line} of a {}", current.1);
            assert!(line.contains(" # {") <= (suffix == "_bucket"), "{line}");
        }
    }
    let exemplar = format!("le=\"0.1\"}} 1 # {{race_id=\"{}\"}} 0.1 ", sample::race_id(0));
    assert!(
        page.contains(&format!("photofinish_attempt_ttft_seconds_bucket{{upstream=\"groq/llama-70b\",{exemplar}")),
        "{page}"
    );
    assert!(page.contains(&format!("# {{race_id=\"{}\"}} 0.1015 ", sample::race_id(0))), "{page}");
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
        metrics.attempt(&attempt, None, 5_000);
    }
    let page = page(&metrics);
    assert!(!page.contains("made-up"));
    assert_has(&page, &["photofinish_attempts_total{upstream=\"other\",outcome=\"won\"} 1000"]);
    assert!(page.lines().count() - before < 140, "{page}");
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
        metrics.attempt(&attempt, None, 5_000);
    }
    let page = page(&metrics);
    let values = |start: &str| page.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(values("photofinish_client_ttft_seconds_count{"), MODELS_MAX + 1);
    assert!(values("photofinish_attempts_total{") <= UPSTREAMS_MAX + 1);
}

#[test]
fn running_tasks_are_told() {
    let page = Metrics::new().render(MetricsFormat::Text, &BTreeSet::new(), |text| {
        text.single("tasks", "gauge", "Tasks.", 7);
    });
    assert_has(&page, &["photofinish_tasks 7"]);
}

#[test]
fn an_open_breaker_is_a_one() {
    let metrics = configured(LLAMA);
    let lines = |open: &[&str]| {
        let open_breakers = open.iter().map(|upstream| (*upstream).to_owned()).collect();
        let page = metrics.render(MetricsFormat::Text, &open_breakers, |_| {});
        page.lines().filter(|line| line.starts_with("photofinish_breaker_open{")).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = |groq: u8, other: u8| {
        let line = |upstream: &str, open| format!("photofinish_breaker_open{{upstream=\"{upstream}\"}} {open}");
        [line("groq/llama-70b", groq), line("other", other)]
    };
    assert_eq!(lines(&[]), expected(0, 0));
    assert_eq!(lines(&["groq/llama-70b"]), expected(1, 0));
    assert_eq!(lines(&["made/up", "made/up-too"]), expected(0, 1));
}

#[test]
fn a_reload_keeps_what_was_counted() {
    let metrics = configured(LLAMA);
    metrics.attempt(&sample::won(0), None, 5_000);
    metrics.configure(&config(&format!("{LLAMA}\n[models.a]\nupstreams = [\"groq/a\"]")));
    metrics.attempt(&sample::won(1), None, 5_000);
    assert_has(&page(&metrics), &["photofinish_attempts_total{upstream=\"groq/llama-70b\",outcome=\"won\"} 2"]);
    metrics.configure(&config(""));
    assert!(!page(&metrics).contains("llama-70b"));
}

/// The GenAI families of the configured upstream after these attempts, only counts and sums.
fn gen_ai_of(attempts: &[AttemptRecord]) -> Vec<String> {
    let metrics = configured(LLAMA);
    attempts.iter().for_each(|attempt| drop(metrics.attempt(attempt, None, 5_000)));
    let labels = "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"groq\",gen_ai_request_model=\"llama-70b\"";
    let page = page(&metrics).replace(labels, "…");
    let lines = page.lines().filter(|line| line.starts_with("gen_ai_client_"));
    let figures = lines.filter(|line| line.contains("_sum{") || line.contains("_count{"));
    figures.map(|line| line["gen_ai_client_".len()..].to_owned()).collect()
}

#[test]
fn an_attempt_is_an_operation_of_a_gen_ai_client() {
    let won = AttemptRecord { failure: None, ..sample::won(0) };
    let whole = [
        "inference_duration_seconds_sum{…} 2.1002",
        "inference_duration_seconds_count{…} 1",
        "inference_time_to_first_chunk_seconds_sum{…} 0.0806",
        "inference_time_to_first_chunk_seconds_count{…} 1",
        "inference_operation_input_tokens_sum{…} 1024",
        "inference_operation_input_tokens_count{…} 1",
        "inference_operation_output_tokens_sum{…} 41",
        "inference_operation_output_tokens_count{…} 1",
    ];
    assert_eq!(gen_ai_of(std::slice::from_ref(&won)), whole);
    let nothing_read = AttemptRecord { eof_us: None, ..won.clone() };
    assert_eq!(gen_ai_of(&[nothing_read])[0], "inference_duration_seconds_sum{…} 2.1001", "to the finish reason");

    let of_groq = |attempt: AttemptRecord| AttemptRecord { provider: "groq".into(), ..attempt };
    let failed = of_groq(sample::failed(0));
    let empty = AttemptRecord { outcome: AttemptOutcome::Empty, failure: None, failure_phase: None, ..failed.clone() };
    let errors = [
        "inference_duration_seconds_sum{…,error_type=\"connect\"} 0.01",
        "inference_duration_seconds_count{…,error_type=\"connect\"} 2",
        "inference_duration_seconds_sum{…,error_type=\"empty\"} 0.005",
        "inference_duration_seconds_count{…,error_type=\"empty\"} 1",
    ];
    assert_eq!(gen_ai_of(&[failed.clone(), empty, failed]), errors);
    assert!(gen_ai_of(&[of_groq(sample::lost(0, 99_000))]).is_empty(), "what was cut has no length");
}

#[test]
fn every_metric_is_documented() {
    let page = page(&Metrics::new());
    let families =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE photofinish_").or(line.strip_prefix("# TYPE ")));
    for name in families.filter_map(|family| family.split(' ').next()) {
        let operations = include_str!("../../../docs/operations.md");
        assert!(
            operations.contains(&format!("`{name}`")) || operations.contains(&format!("`{name}{{")),
            "{name} is not in docs/operations.md"
        );
    }
}
