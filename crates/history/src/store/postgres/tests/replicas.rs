//! Gateways that tell each other what they use, over a real database.

use super::cluster::database;
use crate::record::{AttemptRecord, RaceRecord, sample};
use crate::store::{BudgetRow, Record, ReplicaReport, Replicas, Store, StoreReader};
use photofinish_base::clock::wall_micros;
use photofinish_base::failure::FailureKind;

fn report(name: &str) -> ReplicaReport {
    ReplicaReport {
        name: name.to_owned(),
        version: "1".to_owned(),
        uses: format!("\"{name}\""),
        ..ReplicaReport::default()
    }
}

#[test]
fn gateways_hear_what_others_tell_record_and_spend() {
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

    // The other one records a request, of which an attempt met a rate limit.
    one.exchange(&report("one")).unwrap();
    other.exchange(&report("other")).unwrap();
    let race_id = uuid::Uuid::now_v7().to_string();
    let race = RaceRecord { race_id: race_id.clone(), started_at: wall_micros(), ..sample::race(1) };
    let failed = AttemptRecord {
        race_id,
        failure: Some(FailureKind::RateLimited.as_str()),
        key_id: Some("abc".to_owned()),
        retry_after_ms: Some(7_000),
        ..sample::failed(1)
    };
    let batch = [Record::Race(Box::new(race.clone())), Record::Attempt(Box::new(failed.clone()))];
    store.write(&batch).unwrap();
    // Sent again, because its answer was lost.
    store.write(&batch).unwrap();
    let heard = one.exchange(&report("one")).unwrap();
    let ids: Vec<&str> = heard.requests.iter().map(|request| request.race_id.as_str()).collect();
    assert_eq!(ids, [race.race_id.as_str()]);
    let refusal = &heard.refusals[0];
    assert_eq!(
        (refusal.key_id.as_deref(), refusal.retry_after_ms, heard.refusals.len()),
        (Some("abc"), Some(7_000), 1)
    );
    assert_eq!(refusal.provider, failed.provider);
    assert_eq!(heard.budgets, [budget(31)]);
    let again = one.exchange(&report("one")).unwrap();
    assert!(again.requests.is_empty() && again.refusals.is_empty(), "each is heard once");

    // Who leaves is missed at once, and what it spent stays.
    other.leave().unwrap();
    let alone = one.exchange(&report("one")).unwrap();
    assert!(alone.others.is_empty());
    assert_eq!(alone.budgets, [budget(31)]);
    let (listed, _) = StoreReader::open(&server).unwrap().replicas().unwrap();
    assert_eq!(listed.iter().map(|of| of.report.name.as_str()).collect::<Vec<_>>(), ["one"]);
}
