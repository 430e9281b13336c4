//! How the tables look: their width, order, colours and notes.

use super::*;

/// With failures, attempts without a price, censored ones, and no window.
#[tokio::test]
async fn six_lines_explain_the_wide_table() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    for line in ["", "--by model", "--by hour,upstream", FORTY_SECONDS] {
        for width in [WIDE, Some(160), Some(120)] {
            let text = shown(&path, &format!("--wide {line}"), width).await;
            let (_, notes) = text.rsplit_once("\n\n").unwrap();
            assert!(notes.lines().count() <= 6, "{line}: {notes}");
            assert!(notes.contains("Upstreams left out of races: breaker 40."), "{line}: {notes}");
            for word in ["120 attempts, ", "> cut off", "--explain", "Failures by kind: connect 41, reset 40."] {
                assert!(notes.contains(word), "{line}, {word}: {notes}");
            }
        }
    }
}

#[tokio::test]
async fn the_default_table_fits_a_laptop() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = shown(&path, FORTY_SECONDS, Some(80)).await;
    let expected = "\
 upstream             n  won %  TTFT p50       p95  tok/s  failed %     cost
 groq/llama-70b      40    100    100 ms   ~100 ms   20.0         0    $0.50
 cerebras/llama-70b  40      0  > 100 ms  > 100 ms      –         3  unknown
 my-vllm/llama-70b   40      0         –         –      –       100  unknown

120 attempts, as asked, 2026-01-02 03:04:00 to 03:04:40 UTC.
Failures by kind: connect 41, reset 40.
Cost: $0.50 or more, of it racing unknown.
~ few samples, > cut before it came, – not known; more: --compare, --wide
";
    let squeezed = |text: &str| text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&text), squeezed(expected), "{text}");
    for line in ["", "--by model", "--by hour,upstream", "--by user"] {
        let text = shown(&path, line, Some(80)).await;
        assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\u{1b}'), "{text}");
        let (table, notes) = text.split_once("\n\n").unwrap();
        assert!(table.lines().count() <= 4 && notes.lines().count() == 4, "{text}");
    }
    // The same in a pipe, whatever the length of the names.
    assert!(output(&path, FORTY_SECONDS).await.starts_with(text.lines().next().unwrap()));
}

/// Forty races that went up plain, from number `from` on: `groq` has all of its answer after 900 ms, and the other is cut then.
fn plain_races(from: i64) -> Vec<Record> {
    let races = (from..from + 40).flat_map(|n| {
        let nothing = AttemptRecord {
            plain: true,
            first_token_us: None,
            first_answer_us: None,
            last_token_us: None,
            ttft_obs_us: None,
            ttft_event: None,
            ..sample::won(n)
        };
        let won = AttemptRecord { eof_us: Some(900_000), failure: None, ..nothing.clone() };
        let lost = AttemptRecord {
            ordinal: 1,
            provider: "cerebras".into(),
            outcome: AttemptOutcome::Lost,
            eof_us: None,
            cancel_us: Some(900_000),
            ..nothing
        };
        [Record::Race(Box::new(sample::race(n))), attempt(won), attempt(lost)]
    });
    races.collect()
}

#[tokio::test]
async fn plain_answers_have_a_time_to_all_of_them_and_no_ttft() {
    let (_directory, path, _store) = store_with(plain_races(0)).await;
    let found: Vec<Value> = serde_json::from_str(&output(&path, &format!("--json {FORTY_SECONDS}")).await).unwrap();
    let names = [
        "upstream",
        "ttft_p50_ms",
        "ttft_samples",
        "whole_p50_ms",
        "whole_p95_ms",
        "whole_p50_over_ms",
        "whole_samples",
    ];
    assert_eq!(
        columns(&found, &names),
        [
            [
                &json!("cerebras/llama-70b"),
                &json!(null),
                &json!(0),
                &json!(null),
                &json!(null),
                &json!(900.0),
                &json!(0)
            ],
            [&json!("groq/llama-70b"), &json!(null), &json!(0), &json!(900.0), &json!(900.0), &json!(null), &json!(40)],
        ]
    );
    let text = shown(&path, FORTY_SECONDS, Some(80)).await;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["upstream", "n", "won", "%", "whole", "p50", "p95", "tok/s", "failed", "%", "cost"]);
    assert_eq!(lines[1][..6], ["groq/llama-70b", "40", "100", "900", "ms", "~900"], "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("> 900 ms"), "{text}");
}

#[tokio::test]
async fn plain_answers_beside_streams_stand_in_the_wide_table() {
    let (_directory, path, _store) = store_with([forty_races(), plain_races(40)].concat()).await;
    let text = output(&path, "").await;
    let has = "more: --compare, --wide (has plain answers)";
    assert!(text.contains("TTFT p50") && joined(&text).contains(has), "{text}");
    let wide = shown(&path, "--wide", WIDE).await;
    assert!(wide.contains("whole p50  whole p95  whole p99  whole n"), "{wide}");
    let csv = output(&path, "--csv").await;
    assert!(csv.lines().next().unwrap().contains(",whole_p50_ms,whole_p50_over_ms,whole_p95_ms,"), "{csv}");
    let (_directory, path, _store) = store_with(forty_races()).await;
    for line in ["", "--wide", "--json"] {
        assert!(!output(&path, line).await.contains("whole"), "{line}");
    }
}

/// Names that differ behind their middle stay different when they are shortened.
#[tokio::test]
async fn long_names_are_shortened_in_their_middle_and_stay_apart() {
    let named = |n: i64, model: &str| {
        let mut won = sample::won(n);
        (won.cost_usd_min, won.cost_usd_max) = (Some(0.01), Some(0.01));
        won.model_sent = format!("meta-llama/llama-{model}-70b-instruct-turbo-preview").as_str().into();
        [Record::Race(Box::new(sample::race(n))), attempt(won)]
    };
    let batch = [named(0, "3.1"), named(1, "3.3")].into_iter().flatten().collect();
    let (_directory, path, _store) = store_with(batch).await;
    let text = shown(&path, "", Some(80)).await;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let names: Vec<&str> = text.lines().skip(1).take(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names[0] != names[1] && names.iter().all(|name| name.contains('…')), "{text}");
    assert!(
        output(&path, "").await.contains("\n groq/meta-llama/llama-3.3-70b-instruct-turbo-preview\n"),
        "whole in a pipe"
    );
}

#[tokio::test]
async fn sizes_that_differ_are_told() {
    let size = |n: i64, tokens| RaceRecord { input_tokens_estimate: tokens, ..sample::race(n) };
    let races = (0..20).flat_map(|n| {
        let upstream = if n < 10 { "groq" } else { "cerebras" };
        let won = AttemptRecord { provider: upstream.into(), ..sample::won(n) };
        [Record::Race(Box::new(size(n, if n == 0 || n > 9 { 9_000 } else { 100 }))), attempt(won)]
    });
    let (_directory, path, _store) = store_with(races.collect()).await;
    let text = shown(&path, "", Some(80)).await;
    let note =
        "Requests of 8k-32k tokens are 100 % of those to cerebras/llama-70b, 10 % of\nthose to groq/llama-70b.\n";
    assert!(text.contains(note), "{text}");
    let alone = shown(&path, "--provider groq", Some(80)).await;
    assert!(!alone.contains("Requests of") && !alone.contains("as asked"), "{alone}");
}

#[tokio::test]
async fn explain_defines_every_column() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = shown(&path, "--explain", Some(80)).await;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (_, definitions) = text.split_once("\nColumns:\n").unwrap();
    for head in [
        "attempts",
        "wins",
        "TTFT p50",
        "whole p50",
        "tok/s p50",
        "failures",
        "cost",
        "censored",
        "goodput",
        "racing",
        "client p50",
        "~",
    ] {
        let mut starts = definitions.lines().map(|line| line.trim_start());
        assert!(starts.any(|line| line.starts_with(head)), "{head}: {definitions}");
    }
    assert!(!shown(&path, "", Some(80)).await.contains("Columns:"));
}

#[tokio::test]
async fn every_line_fits_the_terminal() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    for width in [40, 80, 120, 160] {
        let text = shown(&path, "--wide", Some(width)).await;
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(width) && !text.contains('\u{1b}'), "{width}: {text}");
        // No cell is wrapped or cut, but names in a narrow terminal.
        for cell in ["40 (100 %)", "> 100 ms", "~100 ms"] {
            assert!(text.contains(cell), "{width}: {text}");
        }
        for name in ["groq/llama-70b", "cerebras/llama-70b"] {
            assert!(text.contains(name) || width < 80, "{width}: {text}");
        }
    }
}

#[tokio::test]
async fn a_wide_table_becomes_several_with_the_names_in_each() {
    let (_directory, path, _store) = store_with(forty_races()).await;
    let text = shown(&path, &format!("--wide {FORTY_SECONDS}"), Some(120)).await;
    let tables: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(tables.len(), 4, "{text}");
    for table in &tables[..2] {
        let names: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["upstream", "groq/llama-70b", "cerebras/llama-70b", "my-vllm/llama-70b"], "{text}");
    }
    let heads: Vec<&str> = tables[..2].iter().flat_map(|table| table.lines().take(1)).collect();
    assert!(heads.concat().contains("attempts") && heads.concat().contains("racing"), "{text}");
}

#[tokio::test]
async fn a_name_longer_than_the_terminal_is_cut_there_and_nowhere_else() {
    let long = format!("{}-end", "x".repeat(100));
    let mut won = sample::won(0);
    won.model_sent = long.as_str().into();
    let race = Record::Race(Box::new(sample::race(0)));
    let (_directory, path, _store) = store_with(vec![race, attempt(won)]).await;
    let text = shown(&path, "", Some(80)).await;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.contains("…x") && line.contains("x-end ")), "{text}");
    for line in ["", "--wide", "--json", "--csv"] {
        assert!(output(&path, line).await.contains(&format!("groq/{long}")), "{line}");
    }
}
