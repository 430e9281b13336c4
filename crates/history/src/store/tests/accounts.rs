//! Teams, users and keys in the store, their audit, budgets; and usage against plain sums of the rows.

use serde_json::{Map, Value, json};

use super::*;
use crate::report::question::from_pairs;
use crate::report::usage::{self, UsageAnswer, UsageQuestion};
use photofinish_base::clock::DAY_US;
use photofinish_facts::estimate::cost::CostSum;
use photofinish_facts::record::sample;

fn author() -> Author {
    Author { who: "root".to_owned(), origin: "127.0.0.1".to_owned() }
}

fn entry(kind: AccountKind, id: &str, settings: Value, version: i64) -> AccountEntry {
    let Value::Object(settings) = settings else { panic!("no object") };
    let sha256 = (kind == AccountKind::Key).then_some([id.len() as u8; 32]);
    AccountEntry { kind, id: id.to_owned(), settings, version, sha256 }
}

fn made(entry: &AccountEntry) -> AccountChange {
    AccountChange { before: None, after: Some(entry.clone()) }
}

#[tokio::test]
async fn entries_are_found_by_a_text_of_their_settings_and_behind_an_id() {
    let (_directory, path, store) = new_store().await;
    let users = ["ann", "Ann", "an_", "a%", "a\"b\\", "ä\n", "x\",\"user\":\"ann"];
    let keys = (1..).zip(users).map(|(number, user)| {
        let id = "k".repeat(number);
        made(&entry(AccountKind::Key, &id, json!({ "name": "user", "user": user, "of": { "user": "ann" } }), 1))
    });
    store.change(&keys.collect::<Vec<_>>(), &author(), 7).unwrap();
    let reader = StoreReader::open(&path).unwrap();
    for (number, user) in (1..).zip(users) {
        let found = reader.entries_of(AccountKind::Key, "user", user).unwrap();
        let ids: Vec<usize> = found.iter().map(|key| key.id.len()).collect();
        assert_eq!(ids, [number], "{user}");
    }
    for (after, limit, expected) in
        [("", 2, vec![1, 2]), ("kk", 3, vec![3, 4, 5]), ("kkkkkk", 9, vec![7]), ("l", 9, vec![])]
    {
        let found = reader.entries_after(AccountKind::Key, after, limit).unwrap();
        let ids: Vec<usize> = found.iter().map(|key| key.id.len()).collect();
        assert_eq!(ids, expected, "{after}");
    }
}

#[tokio::test]
async fn a_change_and_its_line_of_the_audit_are_one() {
    let (_directory, path, store) = new_store().await;
    let user = entry(AccountKind::User, "ann", json!({ "rpm": 5 }), 1);
    let key = entry(AccountKind::Key, "k1", json!({ "user": "ann" }), 1);
    store.change(&[made(&user), made(&key)], &author(), 7).unwrap();
    let reader = StoreReader::open(&path).unwrap();
    assert_eq!(reader.accounts(AccountKind::User).unwrap(), std::slice::from_ref(&user));
    assert_eq!(reader.account(AccountKind::Key, "k1").unwrap(), Some(key.clone()));
    assert_eq!((reader.account_count(AccountKind::Key).unwrap(), reader.account_changes().unwrap()), (1, 2));

    // Two admins looked at version 1.
    let after = |rpm: i64| AccountEntry { settings: Map::from_iter([("rpm".to_owned(), json!(rpm))]), ..user.clone() };
    let set = |rpm| AccountChange { before: Some(user.clone()), after: Some(after(rpm)) };
    store.change(&[set(6)], &author(), 8).unwrap();
    // Of several changes none is made.
    let both = [made(&entry(AccountKind::Team, "t", json!({}), 1)), set(9)];
    let conflict = store.change(&both, &author(), 9).unwrap_err();
    assert!(matches!(&conflict, ChangeError::Conflict(subject) if subject == "user:ann"), "{conflict}");
    assert!(store.change(&[made(&user)], &author(), 9).is_err(), "it is there");
    let gone = AccountChange { before: Some(AccountEntry { version: 2, ..user.clone() }), after: None };
    store.change(&[gone], &author(), 10).unwrap();
    assert_eq!(reader.accounts(AccountKind::Team).unwrap(), []);

    let audit = reader.audit(None, None, 9).unwrap();
    let entries: Vec<_> = audit
        .iter()
        .map(|line| (line.at, line.subject.as_str(), line.before.is_some(), line.after.is_some()))
        .collect();
    let ann = "user:ann";
    assert_eq!(
        entries,
        [(10, ann, true, false), (8, ann, true, true), (7, "key:k1", false, true), (7, ann, false, true)]
    );
    assert_eq!(reader.audit(Some(ann), Some(audit[1].id), 9).unwrap().len(), 1);
    let text = format!("{audit:?}");
    assert!(!text.contains("sha256") && !text.contains("0202"), "{text}");

    let mut other = plain(&path).await;
    for change in [
        "UPDATE audit SET who = 'eve'",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit (id, at, who, origin, subject) VALUES (1, 0, 'eve', '', '')",
    ] {
        let error = sqlx::raw_sql(change).execute(&mut other).await.unwrap_err().to_string();
        assert!(error.contains("append-only"), "{change}: {error}");
    }
}

#[tokio::test]
async fn sessions_are_kept_until_they_end_and_the_newest_thousand() {
    let (_directory, path, store) = new_store().await;
    let hash = |number: u16| [[0; 30].as_slice(), &number.to_be_bytes()].concat().try_into().unwrap();
    for number in 0..1_002 {
        store.keep_session(&hash(number), ("sealed", 100 + i64::from(number)), 50).unwrap();
    }
    let reader = StoreReader::open(&path).unwrap();
    let all: Vec<[u8; 32]> = reader.sessions().unwrap().into_iter().collect();
    assert_eq!((all.len(), all[0]), (1_000, hash(2)));
    assert_eq!(reader.session(&hash(2), 101).unwrap(), Some(("sealed".to_owned(), 102)));
    assert_eq!(reader.session(&hash(2), 102).unwrap(), None, "it has ended");
    store.end_sessions(&[hash(3), hash(3), hash(0)]).unwrap();
    assert_eq!(reader.session(&hash(3), 0).unwrap(), None);
    store.keep_session(&hash(0), ("sealed", 9_999), 1_100).unwrap();
    assert_eq!(reader.sessions().unwrap().len(), 2, "those that have ended go");
}

#[tokio::test]
async fn of_the_audit_the_newest_million_lines_are_kept() {
    let (_directory, path, store) = new_store().await;
    let [first, second, third] = ["a", "b", "c"].map(|name| made(&entry(AccountKind::Team, name, json!({}), 1)));
    store.change(&[first, second], &author(), 7).unwrap();
    let line = "INSERT INTO audit (id, at, who, origin, subject) VALUES (1000000, 8, 'root', '', 'team:x')";
    sqlx::raw_sql(line).execute(&mut plain(&path).await).await.unwrap();
    store.change(&[third], &author(), 9).unwrap();
    let audit = StoreReader::open(&path).unwrap().audit(None, None, 9).unwrap();
    assert_eq!(audit.iter().map(|line| line.id).collect::<Vec<_>>(), [1_000_001, 1_000_000, 2]);
}

#[tokio::test]
async fn budgets_are_kept_and_old_ones_are_not() {
    let (_directory, path, store) = new_store().await;
    let row = |start, spent| BudgetRow {
        subject: "user:ann".to_owned(),
        span: "day".to_owned(),
        start,
        spent,
        reserved: 3,
        estimated: 1,
    };
    store.save_budgets(&[row(0, 5), row(DAY_US, 6)]).unwrap();
    store.save_budgets(&[row(DAY_US, 7)]).unwrap();
    assert_eq!(StoreReader::open(&path).unwrap().budgets().unwrap(), [row(0, 5), row(DAY_US, 7)]);
    store.save_budgets(&[row(63 * DAY_US, 8)]).unwrap();
    assert_eq!(StoreReader::open(&path).unwrap().budgets().unwrap(), [row(DAY_US, 7), row(63 * DAY_US, 8)]);
}

fn asked(reader: &StoreReader, by: &str) -> UsageAnswer {
    let question: UsageQuestion = from_pairs(&[("by".to_owned(), by.to_owned())]).unwrap();
    usage::ask(reader, &question, world::NOW_US).unwrap()
}

/// Not the answer: see `estimate::racing`.
const RACING: &str = "CASE WHEN attempt.outcome = 'drained' THEN 1 \
    WHEN attempt.ordinal IN (race.winner, race.rescued_by) THEN 0 \
    WHEN attempt.outcome = 'lost' OR race.winner IS NOT NULL OR race.rescued_by IS NOT NULL THEN 1 \
    ELSE attempt.outcome IN ('client_gone', 'shutdown', 'shed') AND EXISTS ( \
        SELECT 1 FROM attempt AS before WHERE before.race_id = attempt.race_id AND before.ordinal < attempt.ordinal \
            AND before.outcome IN ('client_gone', 'shutdown', 'shed')) END";

/// To the nano-dollar, by SQL of its own; and as far as roll-ups know it, when the rows are gone.
#[tokio::test]
async fn usage_is_the_sum_of_the_rows() {
    let (_directory, path, store) = new_store().await;
    let mut records = world::records(3, 2_000);
    for (n, record) in records.iter_mut().enumerate() {
        if let Record::Race(race) = record {
            race.team = race.user.as_ref().map(|user| format!("team of {user}"));
            race.caller_key = (n % 3 == 0).then(|| "k1".to_owned());
        }
    }
    records.extend([race(sample::race(1)), attempt(sample::won(1)), attempt(sample::lost(1, 9_000))]);
    store.write(&records).unwrap();
    let reader = StoreReader::open(&path).unwrap();
    let mut other = plain(&path).await;
    for (by, columns) in [
        ("user", "caller"),
        ("team", "team"),
        ("key", "caller_key"),
        ("model,user", "model || '/' || coalesce(caller, '')"),
    ] {
        let sql = format!(
            "SELECT {columns}, count(*), \
                    CAST(round(sum(CAST(round(coalesce(cost_usd_min, 0.0) * 1e12) AS INTEGER)) / 1e3) AS INTEGER), \
                    CAST(round(sum(CASE WHEN {RACING} \
                             THEN CAST(round(coalesce(cost_usd_min, 0.0) * 1e12) AS INTEGER) ELSE 0 END) / 1e3) AS INTEGER) \
             FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id \
             WHERE coalesce(source, 'client') = 'client' \
             GROUP BY 1 ORDER BY 1"
        );
        let expected: Vec<(Option<String>, i64, i64, i64)> =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut other).await.unwrap();
        let answer = asked(&reader, by);
        let mut groups: Vec<_> = answer
            .groups
            .iter()
            .map(|(names, used)| {
                let name = match &names[..] {
                    [name] => name.clone(),
                    [model, user] => {
                        model.as_ref().map(|model| format!("{model}/{}", user.as_deref().unwrap_or_default()))
                    }
                    _ => None,
                };
                let nano = |cost: &CostSum| (cost.min_usd().unwrap_or(0.0) * 1e9).round() as i64;
                (name, used.attempts as i64, nano(&used.cost), nano(&used.extra))
            })
            .collect();
        groups.sort();
        assert_eq!(groups, expected, "{by}");
        assert!(answer.total.cost.least() > 0 && answer.total.extra.least() > 0, "{:?}", answer.total);
    }
    let (before, teams) = (asked(&reader, "user"), asked(&reader, "team,key"));
    let mut roller = Roller::new(&path, || false);
    while roller.step(world::NOW_US, Some(world::NOW_US)).unwrap() != RollupStep::Nothing {}
    let (rolled, of_teams) = (asked(&reader, "user"), asked(&reader, "team,key"));
    assert!(rolled.coverage.rolled_until.is_some());
    assert_eq!((rolled.total.attempts, rolled.groups.len()), (before.total.attempts, before.groups.len()));
    assert_eq!(of_teams.groups, teams.groups);
}
