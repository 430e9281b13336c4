//! Pages of races and single races: filters, order, and query plans.

use super::*;
use photofinish_facts::estimate::facts::{self, MeasuredAttempt, RequestRow};
use photofinish_facts::record::table::Subset as _;
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, sample};

/// Races 0 to 9: all have an attempt at `groq`, and the even ones also at `cerebras`; 3 was rejected, 5 is bob's, 6 has the last first
/// token, and 7 the last end.
async fn ten_races() -> (TempDir, StoreReader) {
    let (directory, path, store) = new_store().await;
    let mut batch = Vec::new();
    for n in 0..10 {
        let mut record = if n == 3 { sample::bare_race(n) } else { sample::race(n) };
        if n == 5 {
            (record.user, record.model) = (Some("bob".into()), "other".into());
        }
        record.first_token_sent_us = record.first_token_sent_us.map(|us| if n == 6 { 900_000 } else { us });
        record.done_us = record.done_us.map(|us| if n == 7 { 9_000_000 } else { us });
        let won = AttemptRecord { response_id: Some(format!("chatcmpl-{n}")), ..sample::won(n) };
        batch.extend([race(record), attempt(won)]);
        let twice = Some("chatcmpl-twice".to_owned());
        let lost = AttemptRecord { response_id: twice, ..sample::lost(n, 99_000) };
        batch.extend((n % 2 == 0).then(|| attempt(lost)));
    }
    store.write(&batch).unwrap();
    (directory, StoreReader::open(&path).unwrap())
}

fn numbers(rows: &[ExportRow]) -> Vec<i64> {
    rows.iter().map(|row| (row["started_at"].as_i64().unwrap() - sample::STARTED_AT) / 1_000).collect()
}

#[tokio::test]
async fn races_are_found_by_what_they_are() {
    let (_directory, reader) = ten_races().await;
    let filter = |races: AttemptFilter| RaceFilter { races, limit: 100, ..RaceFilter::default() };
    let all = AttemptFilter::default();
    let upstream = |provider: &str, model: &str| Some((provider.to_owned(), model.to_owned()));
    let at = |n: i64| Some(sample::STARTED_AT + n * 1_000);
    for (filter, expected) in [
        (filter(all.clone()), vec![9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (RaceFilter { limit: 2, ..filter(all.clone()) }, vec![9, 8]),
        (RaceFilter { before: Some(sample::race_id(2)), ..filter(all.clone()) }, vec![1, 0]),
        (filter(AttemptFilter { since: at(7), ..all.clone() }), vec![9, 8, 7]),
        (filter(AttemptFilter { until: at(2), ..all.clone() }), vec![1, 0]),
        (
            RaceFilter {
                before: Some(sample::race_id(8)),
                ..filter(AttemptFilter { since: at(5), until: at(9), ..all.clone() })
            },
            vec![7, 6, 5],
        ),
        (filter(AttemptFilter { model: Some("other".into()), ..all.clone() }), vec![5]),
        (filter(AttemptFilter { user: Some("bob".into()), ..all.clone() }), vec![5]),
        (filter(AttemptFilter { provider: Some("cerebras".into()), ..all.clone() }), vec![8, 6, 4, 2, 0]),
        (RaceFilter { outcome: Some(RaceOutcome::Rejected), ..filter(all.clone()) }, vec![3]),
        (RaceFilter { upstream: upstream("cerebras", "llama-70b"), ..filter(all.clone()) }, vec![8, 6, 4, 2, 0]),
        (RaceFilter { upstream: upstream("cerebras", "gpt"), ..filter(all.clone()) }, vec![]),
        (RaceFilter { id: Some(sample::race_id(4)), ..filter(all.clone()) }, vec![4]),
        (RaceFilter { id: Some("chatcmpl-4".into()), ..filter(all.clone()) }, vec![4]),
        (RaceFilter { id: Some("chatcmpl-x".into()), ..filter(all.clone()) }, vec![]),
        // A provider's id is looked for within the window, and found in the newest race that has it.
        (RaceFilter { id: Some("chatcmpl-4".into()), ..filter(AttemptFilter { since: at(5), ..all.clone() }) }, vec![]),
        (RaceFilter { id: Some("chatcmpl-twice".into()), ..filter(all.clone()) }, vec![8]),
        (
            RaceFilter { id: Some("chatcmpl-twice".into()), ..filter(AttemptFilter { until: at(7), ..all.clone() }) },
            vec![6],
        ),
        (RaceFilter { order: RaceOrder::Duration, limit: 3, ..filter(all.clone()) }, vec![7, 9, 8]),
        (RaceFilter { order: RaceOrder::Ttft, limit: 3, ..filter(all.clone()) }, vec![6, 9, 8]),
        (RaceFilter { longer_us: Some(3_000_000), ..filter(all.clone()) }, vec![7]),
        (RaceFilter { order: RaceOrder::Ttft, longer_us: Some(500_000), ..filter(all) }, vec![6]),
    ] {
        assert_eq!(numbers(&reader.races(&filter).unwrap()), expected, "{filter:?}");
    }
}

#[tokio::test]
async fn a_race_has_its_rows_and_their_figures() {
    let (_directory, reader) = ten_races().await;
    let (race, attempts) = reader.race(&sample::race_id(4)).unwrap();
    let race = race.unwrap();
    assert_eq!(
        (&race["user"], &race["stream"], &race["upstream"]),
        (&"alice".into(), &1.into(), &"groq/llama-70b".into())
    );
    assert_eq!((&race["client_ttft_ms"], &race["overhead_ms"]), (&101.5.into(), &0.5.into()));
    let ordinals: Vec<&serde_json::Value> = attempts.iter().map(|attempt| &attempt["ordinal"]).collect();
    assert_eq!(ordinals, [0, 1]);
    assert_eq!((&attempts[0]["ttft_ms"], &attempts[0]["cost_usd_max"]), (&100.0.into(), &0.0125.into()));
    assert!(attempts[1]["ttft_ms"].is_null() && attempts[1]["upstream"] == "cerebras/llama-70b");
    assert_eq!(reader.race(&sample::race_id(10)).unwrap(), (None, Vec::new()));
}

#[tokio::test]
async fn a_row_is_told_as_it_is_read_back() {
    let (_directory, path, store) = new_store().await;
    let batch = [race(sample::race(1)), attempt(sample::won(1)), attempt(sample::lost(1, 99_000))];
    store.write(&batch).unwrap();
    let (of_race, of_attempts) = StoreReader::open(&path).unwrap().race(&sample::race_id(1)).unwrap();
    for (record, read) in batch.iter().zip(of_race.into_iter().chain(of_attempts)) {
        let row = record.shown();
        let read: ExportRow = read.into_iter().filter(|(column, _)| row.contains_key(column)).collect();
        assert_eq!(row, read);
    }
}

/// The facts of each attempt, as text.
#[derive(Default)]
struct GatheredRaces(Vec<String>);

impl Gather for GatheredRaces {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        self.0.push(format!("{:?}", AttemptFacts { race: 0, ..*facts }));
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, _: &RollupCell<'_>) -> Result<(), ShortBytes> {
        Ok(())
    }

    fn merge(&mut self, other: GatheredRaces) {
        self.0.extend(other.0);
    }
}

#[tokio::test]
async fn the_facts_of_rows_at_hand_are_those_of_the_database() {
    let (_directory, path, store) = new_store().await;
    let audited = AttemptRecord {
        audited: true,
        p_audit: Some(0.25),
        ttft_event: Some(1),
        first_token_us: Some(150_000),
        ttft_obs_us: Some(150_000),
        censor_cause: None,
        ..sample::lost(1, 99_000)
    };
    let failed = AttemptRecord {
        ordinal: 2,
        outcome: AttemptOutcome::Failed,
        failure: Some("reset"),
        ttft_obs_us: None,
        ttft_event: None,
        ..sample::lost(1, 99_000)
    };
    let attempts = [sample::won(1), audited, failed];
    let batch: Vec<Record> = [race(sample::race(1))].into_iter().chain(attempts.clone().map(attempt)).collect();
    store.write(&batch).unwrap();
    let selection = Selection { now_us: wall_micros(), ..Selection::default() };
    let read = StoreReader::open(&path).unwrap().gather(&selection, GatheredRaces::default).unwrap().0.0;
    let (of_race, started_at) = (RequestRow::of(&sample::race(1)), sample::race(1).started_at);
    let attempts = attempts.each_ref().map(MeasuredAttempt::of);
    let mut made = Vec::new();
    facts::of_race((0, started_at), Some(&of_race), &attempts, |facts| made.push(format!("{facts:?}")));
    assert_eq!(made, read);
    assert!(made[1].contains("lost_us") && made[2].contains("again: true"), "{made:#?}");
}

/// Newest first, using only the primary key: no scan and no sort.
#[tokio::test]
async fn pages_and_races_are_searched_by_the_primary_key() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..500).flat_map(|n| [race(sample::race(n)), attempt(sample::won(n))]).collect();
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;
    for analysed in [false, true] {
        if analysed {
            sqlx::query("ANALYZE").execute(&mut other).await.unwrap();
        }
        let (clients, probes) = (SourceFilter::Client, SourceFilter::Probe);
        let of = |source, outcome| {
            let races = AttemptFilter { source, ..AttemptFilter::default() };
            crate::store::races::page(&RaceFilter { races, outcome, ..RaceFilter::default() })
        };
        let failed = of(clients, Some(RaceOutcome::Error));
        let found = crate::store::races::page(&RaceFilter { id: Some("chatcmpl-1".into()), ..RaceFilter::default() });
        let [clients, probes] = [clients, probes].map(|source| of(source, None));
        let primary = " USING PRIMARY KEY (race_id";
        let [apart, not_ok] =
            ["apart", "not_ok"].map(|rows| format!(" USING INDEX race_row_{rows} (<expr>=? AND race_id"));
        for (sql, steps, first) in [
            (clients.as_str(), 9, primary),
            (failed.as_str(), 9, not_ok.as_str()),
            (probes.as_str(), 9, apart.as_str()),
            (found.as_str(), 10, primary),
            (crate::store::races::RACE.as_str(), 7, primary),
            (crate::store::races::ATTEMPTS.as_str(), 3, primary),
        ] {
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
                    .fetch_all(&mut other)
                    .await
                    .unwrap();
            let lines = plan.iter().map(|(.., line)| line.as_str());
            // The race of a provider's id is looked for once.
            let once = |line: &str| line.starts_with("SCALAR SUBQUERY") || line.starts_with("REUSE SUBQUERY");
            let lines: Vec<&str> = lines.filter(|line| !is_of_a_name(line) && !once(line)).collect();
            let by_key =
                |line: &str| line.starts_with("SEARCH ") && [primary, first].iter().any(|key| line.contains(key));
            assert!(lines.first().is_some_and(|line| line.contains(first)), "{lines:#?}");
            assert!(lines.iter().all(|line| by_key(line)) && lines.len() == steps, "{lines:#?}");
        }
    }
}

#[tokio::test]
async fn what_nobody_waits_for_is_stopped() {
    let (_directory, path, store) = new_store().await;
    let batch: Vec<Record> = (0..1_000).map(|n| attempt(sample::won(n))).collect();
    store.write(&batch).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let reader = StoreReader::open(&path).unwrap().stopped_by(stop.clone());
    assert_eq!(counted(&reader, &AttemptFilter::default()).unwrap(), 1_000);
    let selection = Selection { now_us: wall_micros(), ..Selection::default() };
    let make = || {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        Counted::default()
    };
    for begun in ["in the middle", "before it begins"] {
        let error = reader.gather(&selection, make).map(drop).unwrap_err();
        assert!(matches!(error, ReadError::Stopped { .. }), "{begun}: {error}");
    }
}
