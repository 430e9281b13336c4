//! Reads whole requests back.

use super::*;
use crate::store::RecordedFilter;
use photofinish_base::failure::FailureKind;
use photofinish_facts::record::recorded::Recorded;
use photofinish_facts::record::{AttemptOutcome, RaceSource, sample};

fn read(path: &std::path::Path, filter: &RecordedFilter) -> Vec<Recorded> {
    let mut read = Vec::new();
    StoreReader::open(path).unwrap().recorded(filter, |recorded| read.push(recorded)).unwrap();
    read
}

#[tokio::test]
async fn requests_come_whole_and_oldest_first() {
    let (_directory, path, store) = new_store().await;
    let mut batch = Vec::new();
    for n in 0..5 {
        batch.extend([attempt(sample::lost(n, 99_000)), attempt(sample::won(n)), attempt(sample::failed(n))]);
        batch.push(race(RaceRecord { model: if n == 3 { "other" } else { "m" }.into(), ..sample::race(n) }));
    }
    batch.push(race(sample::bare_race(9)));
    store.write(&batch).unwrap();
    let at = |n: i64| Some(sample::STARTED_AT + n * 1_000);
    let all = RecordedFilter { newest: 100, ..RecordedFilter::default() };
    for (filter, expected) in [
        (all.clone(), vec![0, 1, 2, 3, 4]),
        (RecordedFilter { newest: 3, ..all.clone() }, vec![3, 4]),
        (RecordedFilter { since: at(1), until: at(3), ..all.clone() }, vec![1, 2]),
        (RecordedFilter { since: at(0), until: at(3), newest: 1, ..all.clone() }, vec![2]),
        (RecordedFilter { model: Some("other".into()), ..all.clone() }, vec![3]),
    ] {
        let read = read(&path, &filter);
        let numbers: Vec<i64> = read.iter().map(|read| (read.started_at - sample::STARTED_AT) / 1_000).collect();
        assert_eq!(numbers, expected, "{filter:?}");
        assert!(read.iter().all(|read| read.attempts.iter().map(|attempt| attempt.ordinal).eq(0..3)));
    }
    let first = read(&path, &all).remove(0);
    assert_eq!((first.winner, first.client_ttft_us, first.done_us), (Some(0), Some(101_500), Some(2_101_500)));
    let [won, lost, failed] = &first.attempts[..] else { panic!("{first:?}") };
    assert_eq!((won.ttft_obs_us, won.seen, won.tpot_us), (Some(100_000), true, Some(50_000.0)));
    assert_eq!((won.input_tokens, won.cached_input_tokens, won.output_tokens), (Some(1_024), Some(512), Some(41)));
    assert_eq!((won.in_flight, won.cost_usd, won.ended_us), (6, Some(0.0125), 2_100_300));
    assert_eq!((lost.ttft_obs_us, lost.seen, lost.outcome), (Some(99_000), false, AttemptOutcome::Lost));
    assert_eq!((failed.ttft_obs_us, failed.failure), (None, Some(FailureKind::Connect)));
}

#[tokio::test]
async fn of_each_upstream_its_newest_come_whatever_else_was_recorded() {
    let (_directory, path, store) = new_store().await;
    let mut batch = Vec::new();
    for n in 0..60 {
        let attempts = match n {
            // First two upstreams; then many others, and one of the two once more, without a time.
            0..4 => vec![sample::lost(n, 99_000), sample::won(n)],
            30 => vec![sample::failed(n)],
            _ => vec![AttemptRecord { model_sent: format!("junk-{n}"), ..sample::won(n) }],
        };
        batch.extend(attempts.into_iter().map(attempt));
        batch.push(race(sample::race(n)));
    }
    store.write(&batch).unwrap();
    let numbers = |upstreams: &[&str], newest: usize| -> Vec<i64> {
        let upstreams: Vec<String> = upstreams.iter().map(|name| (*name).to_owned()).collect();
        let mut read = Vec::new();
        let each = |recorded: Recorded| read.push((recorded.started_at - sample::STARTED_AT) / 1_000);
        StoreReader::open(&path).unwrap().recorded_of(&upstreams, newest, each).unwrap();
        read
    };
    let won = sample::won(0);
    let name = format!("{}/{}", won.provider, won.model_sent);
    let (lost, failed) = (sample::lost(0, 1), sample::failed(0));
    let others = [&lost, &failed].map(|other| format!("{}/{}", other.provider, other.model_sent));
    assert_eq!(numbers(&[name.as_str()], 3), [1, 2, 3], "its newest three");
    assert_eq!(numbers(&[name.as_str(), others[0].as_str()], 2), [2, 3], "both are in these");
    assert!(numbers(&[others[1].as_str()], 9).is_empty(), "no attempt of it shows a time");
    assert!(numbers(&[], 9).is_empty());
    // Probes teach routing. The load of a benchmark says nothing about that of clients.
    let of = |source, n| {
        let of_race = RaceRecord { race_id: sample::race_id(n), ..sample::race_of(source, n) };
        [race(of_race), attempt(sample::won(n))]
    };
    store.write(&[of(RaceSource::Probe, 70), of(RaceSource::Bench, 71)].concat()).unwrap();
    assert_eq!(numbers(&[name.as_str()], 3), [2, 3, 70]);
}
