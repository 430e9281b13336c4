//! Retention: old rows are deleted, their totals stay, and the commands show it.

use crate::harness::process::{Setup, provider};
use crate::support::{FakeProvider, Script};

const MODEL: &str = "[models.m]\nupstreams = [\"one/m\"]\n";

#[tokio::test]
async fn old_rows_are_deleted_and_their_totals_kept() {
    let fake = FakeProvider::answering(|_| Script::stream(&["a", "b"])).await;
    let config = format!("store.retention = \"1d\"\n{}{MODEL}", provider("one", &fake));
    let setup = Setup::new(&config);
    let none_yet = setup.run(&["check"]).await;
    assert!(none_yet.code == Some(0) && none_yet.out.contains("none yet"), "{}", none_yet.out);
    let served = setup.serve().await;
    assert_eq!(served.ask("m").await.status, 200);
    let setup = served.stop().await;
    // As if the race had been in 2024: the id contains the time.
    for table in ["UPDATE race_row", "UPDATE attempt_row"] {
        let sql = format!("{table} SET race_id = '01900000' || substr(race_id, 9)");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut setup.connect().await).await.unwrap();
    }
    let hour = "INSERT INTO rollup_span (hours, start) VALUES (1, 0x01900000 * 65536 / 3600000 * 3600000000)";
    sqlx::query(hour).execute(&mut setup.connect().await).await.unwrap();
    // The history has no rows of the days before: a clock that is years ahead would look the same.
    let served = setup.serve().await;
    served.process.logged("old rows are not removed yet").await;
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM attempt").await, 1);
    let days = "INSERT INTO rollup_span (hours, start, state) SELECT 24, (unixepoch() / 86400 - n) * 86400000000, 1 \
                FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3)";
    sqlx::query(days).execute(&mut setup.connect().await).await.unwrap();
    let served = setup.serve().await;
    served.process.logged("removed old rows of the history; their figures stay races=1 older_than=").await;
    assert_eq!(served.ask("m").await.status, 200);
    let setup = served.stop().await;
    assert_eq!(setup.number("SELECT count(*) FROM attempt").await, 1);
    let stats = setup.run(&["stats", "--json"]).await;
    assert!(stats.out.contains("\"attempts\":2") || stats.out.contains("\"attempts\": 2"), "{}", stats.out);
    let checked = setup.run(&["check"]).await;
    for words in ["retention", "1d", "2, since 2024-06-10T02", "until 2024-06-10T03"] {
        assert!(checked.out.contains(words), "{words}: {}", checked.out);
    }
}
