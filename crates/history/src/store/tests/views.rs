//! The views against figures computed by hand, and the plans of the queries over them.

use super::*;
use photofinish_facts::estimate::speed::Decoding;
use photofinish_facts::record::table::Subset as _;
use photofinish_facts::record::{AttemptOutcome, RaceRecord, TokenSource, sample};

/// tpot_ms, tok_s and e2e_tok_s of one attempt of a race.
async fn speed(change_race: impl FnOnce(&mut RaceRecord), change: impl FnOnce(&mut AttemptRecord)) -> [Option<f64>; 3] {
    let (_directory, path, store) = new_store().await;
    let (mut of_race, mut of_attempt) = (sample::race(0), sample::won(0));
    // The sample has streamed reasoning of 5 of its 41 tokens.
    (of_attempt.reasoning_tokens, of_attempt.reasoning_events) = (None, 0);
    change_race(&mut of_race);
    change(&mut of_attempt);
    let in_rust = Decoding::of(&of_attempt).tpot_us(of_race.n_choices).map(|tpot| tpot / 1e3);
    store.write(&[race(of_race), attempt(of_attempt)]).unwrap();
    let sql = "SELECT tpot_ms, tok_s, e2e_tok_s FROM attempt_speed";
    let row: (Option<f64>, Option<f64>, Option<f64>) =
        sqlx::query_as(sql).fetch_one(&mut plain(&path).await).await.unwrap();
    let both = row.0.zip(in_rust);
    assert!(
        both.is_none_or(|(sql, rust)| (sql - rust).abs() < 1e-9) && row.0.is_some() == in_rust.is_some(),
        "{row:?} {in_rust:?}"
    );
    // Rounded to a millionth: the sums use floating point.
    [row.0, row.1, row.2].map(|value| value.map(|value| (value * 1e6).round() / 1e6))
}

const E2E: f64 = 19.52381; // 41 tokens in 2.1 s

#[tokio::test]
async fn the_speed_of_decoding() {
    // 41 tokens, one of them (4 of 164 characters) first: 40 in 2 s.
    assert_eq!(speed(|_| {}, |_| {}).await, [Some(50.0), Some(20.0), Some(E2E)]);
    // The first event had 10 of 41 tokens: 31 in 2 s.
    assert_eq!(speed(|_| {}, |attempt| attempt.chars_first = 40).await, [Some(64.516129), Some(15.5), Some(E2E)]);
    // A share of less than one token counts as one token, and so does an unknown share.
    assert_eq!(speed(|_| {}, |attempt| attempt.chars_first = 1).await[1], Some(20.0));
    assert_eq!(speed(|_| {}, |attempt| attempt.chars_total = 0).await[1], Some(20.0));
}

#[tokio::test]
async fn reasoning_in_the_count_and_in_the_stream() {
    // Streamed reasoning: part of the 41, by the provider's count.
    let streamed = |attempt: &mut AttemptRecord| (attempt.reasoning_tokens, attempt.reasoning_events) = (Some(5), 3);
    assert_eq!(speed(|_| {}, streamed).await, [Some(50.0), Some(20.0), Some(E2E)]);
    // Hidden reasoning: 41 − 21 = 20 tokens, less 1, from the first answer at 200 ms to 2,100 ms.
    let hidden = |attempt: &mut AttemptRecord| {
        (attempt.reasoning_tokens, attempt.first_answer_us) = (Some(21), Some(200_000));
        (attempt.chars_total, attempt.chars_first) = (80, 4);
    };
    assert_eq!(speed(|_| {}, hidden).await, [Some(100.0), Some(10.0), Some(E2E)]);
    // Only hidden reasoning.
    let only = |attempt: &mut AttemptRecord| attempt.reasoning_tokens = Some(41);
    assert_eq!(speed(|_| {}, only).await[..2], [None, None]);
}

#[tokio::test]
async fn where_there_is_no_speed() {
    let nothing = [None, None];
    assert_eq!(speed(|_| {}, |attempt| attempt.output_tokens = Some(1)).await[..2], nothing);
    assert_eq!(speed(|_| {}, |attempt| attempt.burst = Some(true)).await, [None, None, Some(E2E)]);
    assert_eq!(speed(|race| race.n_choices = Some(2), |_| {}).await, [None, None, Some(E2E)]);
    assert_eq!(speed(|race| race.n_choices = None, |_| {}).await[1], Some(20.0));
    assert_eq!(speed(|_| {}, |attempt| attempt.tok_src = TokenSource::Chars).await, [None; 3]);
    assert_eq!(speed(|_| {}, |attempt| attempt.tok_src = TokenSource::Partial).await[1], Some(20.0));
    assert_eq!(speed(|_| {}, |attempt| attempt.output_tokens = None).await, [None; 3]);
    // All in the first event, or all in one read.
    assert_eq!(speed(|_| {}, |attempt| attempt.chars_first = 164).await[..2], nothing);
    assert_eq!(speed(|_| {}, |attempt| attempt.last_token_us = attempt.first_token_us).await[..2], nothing);
}

#[tokio::test]
async fn an_attempt_and_its_race() {
    let (_directory, path, store) = new_store().await;
    let mut unstreamed = sample::race(1);
    unstreamed.stream = false;
    let batch = [
        race(sample::race(0)),
        attempt(sample::won(0)),
        attempt(sample::lost(0, 99_000)),
        race(unstreamed),
        attempt(sample::won(1)),
        race(sample::bare_race(2)),
        attempt(sample::failed(3)),
    ];
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;

    type Attempt = (String, Option<String>, Option<String>, String, Option<f64>, Option<f64>, Option<i64>, Option<f64>);
    let sql = "SELECT upstream, model, hour, outcome, ttft_ms, ttft_obs_ms, ttft_event, answer_ttft_ms
               FROM attempt_speed WHERE race_id IN (?, ?) ORDER BY race_id, ordinal";
    let rows: Vec<Attempt> =
        sqlx::query_as(sql).bind(sample::race_id(0)).bind(sample::race_id(3)).fetch_all(&mut other).await.unwrap();
    let (model, hour) = (Some("llama-3.3-70b".to_owned()), Some("2026-01-02T03".to_owned()));
    let row = |name: &str, outcome: &str| (format!("{name}/llama-70b"), outcome.to_owned());
    let ((won, won_outcome), (lost, lost_outcome)) = (row("groq", "won"), row("cerebras", "lost"));
    let (orphan, orphan_outcome) = row("my-vllm", "failed");
    assert_eq!(
        rows,
        [
            (won, model.clone(), hour.clone(), won_outcome, Some(100.0), Some(100.0), Some(1), Some(100.001)),
            (lost, model, hour, lost_outcome, None, Some(99.0), Some(0), None),
            (orphan, None, None, orphan_outcome, None, None, None, None),
        ]
    );

    type ScannedRace = (Option<String>, Option<f64>, Option<f64>, Option<f64>);
    let sql = "SELECT upstream, client_ttft_ms, overhead_ms, duration_ms FROM race_speed ORDER BY race_id";
    let rows: Vec<ScannedRace> = sqlx::query_as(sql).fetch_all(&mut other).await.unwrap();
    let winner = Some("groq/llama-70b".to_owned());
    assert_eq!(
        rows,
        [
            (winner.clone(), Some(101.5), Some(0.5), Some(2_101.5)),
            (winner, Some(101.5), None, Some(2_101.5)),
            (None, None, None, None),
        ]
    );
}

#[tokio::test]
async fn the_hourly_figures() {
    let (_directory, path, store) = new_store().await;
    let mut batch = Vec::new();
    for n in 0..20 {
        // TTFT 10, 20, … 200 ms; the last four are bursts.
        let mut won = sample::won(n);
        (won.first_token_us, won.ttft_obs_us) = (Some(10_000 * (n + 1)), Some(10_000 * (n + 1)));
        (won.burst, won.reasoning_tokens) = (Some(n >= 16), None);
        won.last_token_us = won.first_token_us.map(|first| first + 40 * 1_000 * (n + 1));
        batch.extend([race(sample::race(n)), attempt(won)]);
    }
    let outcomes = [AttemptOutcome::Empty, AttemptOutcome::Timeout, AttemptOutcome::Refused, AttemptOutcome::Lost];
    for (n, outcome) in (20..).zip(outcomes) {
        let mut other = sample::lost(n, 7_000);
        (other.ordinal, other.provider, other.outcome) = (0, "groq".into(), outcome);
        batch.extend([race(sample::race(n)), attempt(other)]);
    }
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;
    let sql = "SELECT hour, upstream, attempts, wins, failures, empty, censored FROM upstream_hourly";
    let counts: Vec<(String, String, i64, i64, i64, i64, i64)> =
        sqlx::query_as(sql).fetch_all(&mut other).await.unwrap();
    assert_eq!(counts, [("2026-01-02T03".to_owned(), "groq/llama-70b".to_owned(), 24, 20, 2, 1, 4)]);
    let sql = "SELECT ttft_samples, ttft_seen_p50_ms, ttft_seen_p95_ms, tok_s_samples, tok_s_p50, tok_s_p5
               FROM upstream_hourly";
    let figures: Vec<(i64, f64, f64, i64, f64, f64)> = sqlx::query_as(sql).fetch_all(&mut other).await.unwrap();
    // 1 to 16 ms a token, so 1000/16 to 1000 tok/s: of 16 values the 8th from below is 1000/9, the 1st 1000/16.
    assert_eq!(figures, [(20, 100.0, 190.0, 16, 1_000.0 / 9.0, 62.5)]);
}

/// No step of the query plan scans a whole table of the gateway.
#[tokio::test]
async fn since_reads_only_its_time() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..500).flat_map(|n| [race(sample::race(n)), attempt(sample::won(n))]).collect();
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;
    for analysed in [false, true] {
        if analysed {
            sqlx::query("ANALYZE").execute(&mut other).await.unwrap();
        }
        let [races, attempts] = scan::narrow_statements();
        let views = [("attempt", scan::ATTEMPTS.as_str()), ("race", scan::RACES.as_str())];
        for (table, sql) in views.into_iter().chain([("attempt", attempts), ("race", races)]) {
            let steps: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
                    .bind(columns::first_race_id(sample::STARTED_AT))
                    .bind(columns::first_race_id(sample::STARTED_AT + 1_000))
                    .fetch_all(&mut other)
                    .await
                    .unwrap();
            let steps = steps.iter().map(|step| step.3.as_str());
            let plan: Vec<&str> = steps.filter(|step| !is_of_a_name(step)).collect();
            let searched = if sql.contains("_row AS") { table.to_owned() } else { format!("{table}_row") };
            assert_eq!(plan, [format!("SEARCH {searched} USING PRIMARY KEY (race_id>? AND race_id<?)")]);
        }
    }
}

#[tokio::test]
async fn the_filter_cuts_by_time_model_and_provider() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..3)
        .flat_map(|n| [race(sample::race(n)), attempt(sample::won(n)), attempt(sample::lost(n, 90_000))])
        .collect();
    store.write(&batch).unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let all = AttemptFilter::default();
    let since = AttemptFilter { since: Some(sample::STARTED_AT + 1_000), ..all.clone() };
    let provider = AttemptFilter { provider: Some("groq".into()), ..since.clone() };
    let model = AttemptFilter { model: Some("llama-3.3-70b".into()), ..all.clone() };
    let none = AttemptFilter { model: Some("gpt".into()), ..all.clone() };
    for (filter, expected) in [(all, 6), (since, 4), (provider, 2), (model, 6), (none, 0)] {
        assert_eq!(counted(&reader, &filter).unwrap(), expected, "{filter:?}");
    }
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_stopped() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..1_000).map(|n| attempt(sample::won(n))).collect();
    store.write(&batch).unwrap();
    let mut reader = StoreReader::open(&path).unwrap();
    reader.time_limit = std::time::Duration::ZERO;
    let error = counted(&reader, &AttemptFilter::default()).unwrap_err();
    assert!(matches!(error, ReadError::TimeLimit { .. }), "{error}");
    reader.time_limit = std::time::Duration::from_secs(60);
    assert_eq!(counted(&reader, &AttemptFilter::default()).unwrap(), 1_000);
}

#[tokio::test]
async fn costs_lie_between_bounds() {
    use photofinish_facts::estimate::cost::{Cost, CostSum};
    let costs = [
        Cost::exactly(2.0),
        Cost::between(4.0, Some(6.0)),
        Cost::between(0.0, Some(6.0)),
        Cost::between(0.0, None),
        Cost { cost_usd_min: None, cost_usd_max: None },
    ];
    // Each attempt as the loser of a separate race, and all of them in one race.
    let mut races: Vec<Vec<Cost>> = costs.iter().map(|cost| vec![*cost]).collect();
    races.extend([costs.to_vec(), Vec::new()]);
    let (_directory, path, store) = new_store().await;
    let won = |n| AttemptRecord { cost_usd_min: Some(0.0125), cost_usd_max: Some(0.0125), ..sample::won(n) };
    for (n, costs) in (0..).zip(&races) {
        let losers = (1..).zip(costs).map(|(ordinal, cost)| AttemptRecord {
            ordinal,
            cost_usd_min: cost.cost_usd_min,
            cost_usd_max: cost.cost_usd_max,
            ..sample::lost(n, 90_000)
        });
        let rows: Vec<Record> = losers
            .map(attempt)
            .chain([race(RaceRecord { rescued_by: None, ..sample::race(n) }), attempt(won(n))])
            .collect();
        store.write(&rows).unwrap();
    }
    let sql =
        "SELECT cost_usd_min, cost_usd_max, extra_cost_usd_min, extra_cost_usd_max FROM race_cost ORDER BY race_id";
    type Bounds = (Option<f64>, Option<f64>, Option<f64>, Option<f64>);
    let found: Vec<Bounds> = sqlx::query_as(sql).fetch_all(&mut plain(&path).await).await.unwrap();
    let sums = races.iter().map(|costs| {
        let (mut all, mut extra) = (CostSum::default(), CostSum::default());
        all.add(&Cost::of(&won(0)));
        for cost in costs {
            all.add(cost);
            extra.add(cost);
        }
        (all.min_usd(), all.max_usd(), extra.min_usd(), extra.max_usd())
    });
    assert_eq!(found, sums.collect::<Vec<_>>());
}
