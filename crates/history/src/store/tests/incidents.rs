//! Incidents in the file: they are replaced, read back, selected and removed.

use super::*;
use photofinish_facts::record::table::{Subset as _, Table as _};
use photofinish_facts::record::{IncidentState, sample};

const HOUR: i64 = 3_600_000_000;

#[tokio::test]
async fn an_incident_is_replaced_by_newer_rows_and_comes_back_whole() {
    let (_directory, path, store) = new_store().await;
    let (full, bare) = (sample::incident(0), sample::bare_incident(1));
    store.write(&[incident(full.clone()), incident(bare.clone())]).unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let all = || reader.incidents(&IncidentFilter { limit: 9, ..IncidentFilter::default() }).unwrap();
    assert_eq!(all(), [bare.clone(), full.clone()]);
    let columns: Vec<&str> = IncidentRecord::COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(IncidentRecord::NAMES, columns, "every column is read back");
    // It was ended, and goes on after a gap; an older row of the spill file changes nothing.
    let again =
        IncidentRecord { state: IncidentState::Open, ended_at: None, updated_at: full.updated_at + 1, ..full.clone() };
    store.write(&[incident(again.clone())]).unwrap();
    let spill = Spill::of(&path);
    spill.append(&[incident(full)]).unwrap();
    assert_eq!(spill.rows().unwrap(), 1);
    spill.move_some(&store).unwrap();
    assert_eq!(all(), [bare, again]);
    assert_eq!(spill.rows().unwrap(), 0);
}

#[tokio::test]
async fn they_are_selected_by_time_and_provider() {
    let (_directory, path, store) = new_store().await;
    // From 0:00 to 1:15, from 5:00 to 6:15, and one of the gateway since 2:00.
    store
        .write(&[incident(sample::incident(0)), incident(sample::incident(5)), incident(sample::bare_incident(2))])
        .unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let at = |hours: i64| Some(sample::STARTED_AT + hours * HOUR);
    for (since, until, provider, limit, expected) in [
        (None, None, None, 9, &[5, 2, 0][..]),
        (None, None, None, 2, &[5, 2]),
        (at(1), at(2), None, 9, &[0]),
        (at(2), at(5), None, 9, &[2]),
        (at(7), None, None, 9, &[2]),
        (None, None, Some("groq"), 9, &[5, 2, 0]),
        (None, None, Some("gro"), 9, &[2]),
    ] {
        let provider = provider.map(str::to_owned);
        let found = reader.incidents(&IncidentFilter { since, until, provider, limit }).unwrap();
        let hours: Vec<i64> = found.iter().map(|found| (found.began_at - sample::STARTED_AT) / HOUR).collect();
        assert_eq!(hours, expected);
    }
}

#[tokio::test]
async fn old_ones_are_removed_with_the_rows() {
    let (_directory, path, store) = new_store().await;
    store.write(&[incident(sample::incident(0)), incident(sample::incident(5))]).unwrap();
    let mut roller = Roller::new(&path, || false);
    let now_us = sample::STARTED_AT + 9 * HOUR;
    while roller.step(now_us, Some(sample::STARTED_AT + 3 * HOUR)).unwrap() != RollupStep::Nothing {}
    let reader = StoreReader::open(&path).unwrap();
    let left = reader.incidents(&IncidentFilter { limit: 9, ..IncidentFilter::default() }).unwrap();
    assert_eq!(left, [sample::incident(5)]);
}
