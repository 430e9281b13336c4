//! Gateways that report to each other what they use, over a real database.

use std::sync::{Mutex, PoisonError};

use super::cluster::{connect, database};
use crate::store::{Attendance, BudgetRow, ReplicaReport, Replicas, Store, StoreReader};
use photofinish_base::clock::wall_micros;
use photofinish_facts::record::{AttemptRecord, RaceRecord, Record, sample};

fn report(name: &str) -> ReplicaReport {
    ReplicaReport {
        name: name.to_owned(),
        version: "1".to_owned(),
        uses: format!("\"{name}\""),
        ..ReplicaReport::default()
    }
}

/// A process writes its rows with one number: one test at a time reports.
static REPORTING: Mutex<()> = Mutex::new(());

/// An exchange gets as far as its commit.
const REFUSE_COMMITS: &str = "\
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'on purpose'; END $$; \
    CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON replica DEFERRABLE INITIALLY DEFERRED \
    FOR EACH ROW EXECUTE FUNCTION refuse()";

#[test]
fn gateways_hear_what_others_tell_record_and_spend() {
    let _alone = REPORTING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((_directory, server)) = database("replicas") else { return };
    let store = Store::open(&server).unwrap();
    let [mut one, mut other] = [(); 2].map(|()| Replicas::of(&server).unwrap());
    let start = (wall_micros() / 86_400_000_000) * 86_400_000_000;
    let budget = |spent| BudgetRow {
        subject: "user:ann".to_owned(),
        span: "day".to_owned(),
        start,
        spent,
        reserved: 5,
        estimated: 0,
    };

    let first = one.exchange(&report("one")).unwrap();
    assert!(first.others.is_empty() && first.number > 0 && (first.store_us - wall_micros()).abs() < 60_000_000);
    store.save_budgets(&[budget(10)]).unwrap();
    assert!(StoreReader::open(&server).unwrap().budgets().unwrap().is_empty(), "a start hears what was spent");

    let heard = other.exchange(&report("other")).unwrap();
    assert_eq!(heard.others.iter().map(|of| of.report.uses.as_str()).collect::<Vec<_>>(), ["\"one\""]);
    assert_eq!(heard.budgets, [BudgetRow { estimated: 0, ..budget(10) }]);
    store.save_budgets(&[budget(30)]).unwrap();
    store.save_budgets(&[budget(31)]).unwrap();

    // The other one records a request.
    one.exchange(&report("one")).unwrap();
    other.exchange(&report("other")).unwrap();
    let race_id = uuid::Uuid::now_v7().to_string();
    let race = RaceRecord { race_id: race_id.clone(), started_at: wall_micros(), ..sample::race(1) };
    let batch = [
        Record::Race(Box::new(race.clone())),
        Record::Attempt(Box::new(AttemptRecord { race_id, ..sample::failed(1) })),
    ];
    store.write(&batch).unwrap();
    // Sent again, because its answer was lost.
    store.write(&batch).unwrap();
    // The commit of an exchange fails: nothing was heard by it.
    let session = connect(&server).unwrap();
    session.wait_until(std::time::Instant::now() + std::time::Duration::from_secs(60));
    session.batch(REFUSE_COMMITS).unwrap();
    one.exchange(&report("one")).unwrap_err();
    session.batch("DROP TRIGGER refuse ON replica").unwrap();
    let heard = one.exchange(&report("one")).unwrap();
    let ids: Vec<&str> = heard.requests.iter().map(|request| request.race_id.as_str()).collect();
    assert_eq!(ids, [race.race_id.as_str()]);
    assert_eq!(heard.budgets, [budget(31)]);
    assert!(one.exchange(&report("one")).unwrap().requests.is_empty(), "each is heard once");

    // Who leaves is missed at once, and what it spent stays.
    other.leave().unwrap();
    let alone = one.exchange(&report("one")).unwrap();
    assert!(alone.others.is_empty());
    assert_eq!(alone.budgets, [budget(31)]);
    let (listed, _) = StoreReader::open(&server).unwrap().replicas().unwrap();
    assert_eq!(listed.iter().map(|of| of.report.name.as_str()).collect::<Vec<_>>(), ["one"]);
}

#[test]
fn a_database_that_is_set_back_is_noticed() {
    let _alone = REPORTING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((_directory, server)) = database("set_back") else { return };
    let _store = Store::open(&server).unwrap();
    let mut one = Replicas::of(&server).unwrap();
    let session = connect(&server).unwrap();
    session.wait_until(std::time::Instant::now() + std::time::Duration::from_secs(60));
    let first = one.exchange(&report("one")).unwrap();
    assert!(!first.is_older && !one.exchange(&report("one")).unwrap().is_older);
    session.batch("UPDATE replica SET beat_at = beat_at - 1000000").unwrap();
    assert!(one.exchange(&report("one")).unwrap().is_older && !one.exchange(&report("one")).unwrap().is_older);
    session.batch("DELETE FROM replica").unwrap();
    let anew = one.exchange(&report("one")).unwrap();
    assert!(anew.is_older && anew.number > first.number);
}

#[test]
fn whoever_was_kept_from_telling_gives_the_others_time() {
    const SECOND: i64 = 1_000_000;
    let mut attendance = Attendance::default();
    let since: Vec<i64> = [100, 101, 111, 112, 113, 114, 115, 50, 51, 52, 53, 54]
        .into_iter()
        .map(|now| attendance.since(now * SECOND) / SECOND)
        .collect();
    // Away from 101 to 111; then its clock goes back.
    assert_eq!(since, [97, 98, 98, 98, 98, 111, 112, 47, 47, 47, 50, 51]);
}
