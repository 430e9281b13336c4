//! Runs: written when they begin and when they end, found by id, prefix and label, and their rows.

use super::*;
use photofinish_facts::record::{RaceSource, sample};

fn label(search: RunSearch) -> Option<String> {
    match search {
        RunSearch::Found(run) => Some(run["run_id"].as_str()?.to_owned()),
        RunSearch::Several(_) | RunSearch::Nothing => None,
    }
}

#[tokio::test]
async fn a_run_is_there_while_it_runs_and_when_it_has_ended() {
    let (_directory, path, store) = new_store().await;
    let reader = StoreReader::open(&path).unwrap();
    let ended = || reader.runs(&RunFilter { limit: 9, ..RunFilter::default() }).unwrap()[0]["ended_at"].as_i64();
    store.write(&[run(sample::bare_run(0))]).unwrap();
    assert_eq!(ended(), None);
    store.write(&[run(sample::run(0))]).unwrap();
    assert_eq!(ended(), sample::run(0).ended_at);
    // Rows that waited in the spill file may come late.
    store.write(&[run(sample::bare_run(0))]).unwrap();
    assert_eq!(ended(), sample::run(0).ended_at);
    let other = RunRecord { label: Some("renamed".into()), ..sample::run(0) };
    store.write(&[run(other)]).unwrap();
    assert_eq!(label(reader.run("renamed").unwrap()), Some(sample::run(0).run_id));
}

#[tokio::test]
async fn a_run_that_waited_in_the_spill_file_comes_back() {
    let (_directory, path, store) = new_store().await;
    let spill = Spill::of(&path);
    spill.append(&[run(sample::bare_run(0)), run(sample::run(1))]).unwrap();
    assert_eq!(spill.rows().unwrap(), 2);
    store.write(&[run(sample::run(0))]).unwrap();
    assert_eq!(spill.move_some(&store).unwrap(), SpillProgress { rows: 2, more: false, taken: Taken::default() });
    let runs = StoreReader::open(&path).unwrap().runs(&RunFilter { limit: 9, ..RunFilter::default() }).unwrap();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["ended_at"].is_i64()), "{runs:?}");
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_found_by_name() {
    let (_directory, path, store) = new_store().await;
    let of = |n: i64, label: &str| run(RunRecord { label: Some(label.to_owned()), ..sample::run(n) });
    store.write(&[of(0, "main"), of(1, "other"), of(0x10_0000, "main")]).unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let ids = |filter: RunFilter| -> Vec<String> {
        let runs = reader.runs(&filter).unwrap();
        runs.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
    };
    let [first, second, third] = [0, 1, 0x10_0000].map(sample::race_id);
    let all = RunFilter { limit: 2, ..RunFilter::default() };
    assert_eq!(ids(all.clone()), [third.clone(), second.clone()]);
    assert_eq!(ids(RunFilter { before: Some(second.clone()), ..all.clone() }), std::slice::from_ref(&first));
    assert_eq!(ids(RunFilter { since: Some(sample::STARTED_AT + 2_000), ..all }), std::slice::from_ref(&third));
    let found = |name: &str| label(reader.run(name).unwrap());
    assert_eq!(found(&second), Some(second.clone()));
    assert_eq!(found("main"), Some(third.clone()), "the newest of a label");
    assert_eq!(found(&third[..13].to_uppercase()), Some(third.clone()));
    assert_eq!((found("%"), found(""), found("nothing"), found("ffff")), (None, None, None, None));
    assert!(matches!(reader.run(&second[..8]).unwrap(), RunSearch::Several(runs) if runs.len() == 2));
}

#[tokio::test]
async fn the_rows_of_a_run_are_only_its_own() {
    let (_directory, path, store) = new_store().await;
    let run_id = sample::run(0).run_id;
    let foreign = RaceRecord { run_id: Some("another".into()), ..sample::race_of(RaceSource::Bench, 2) };
    let races =
        [sample::race(0), sample::race_of(RaceSource::Bench, 1), foreign, sample::race_of(RaceSource::Probe, 3)];
    for record in races {
        let number = (record.started_at - sample::STARTED_AT) / 1_000;
        store.write(&[race(record), attempt(sample::won(number))]).unwrap();
    }
    let reader = StoreReader::open(&path).unwrap();
    let mut rows = Vec::new();
    let window = (sample::STARTED_AT, None);
    reader
        .rows_of_run(&run_id, window, |row| {
            rows.push(row);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row["race_id"].as_str(), row["workload"].as_str()), (Some(sample::race_id(1).as_str()), Some("1k")));
    assert_eq!((row["ttft_ms"].as_f64(), row["scheduled_us"].as_i64()), (Some(100.0), Some(-70)));
}
