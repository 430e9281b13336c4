//! The examples of `docs/limits.md`, as they are there.

use super::{answer, ask, asking, priced, spent, user};
use crate::support::FakeProvider;

#[tokio::test]
async fn the_examples_of_the_document_come_true() {
    let document = include_str!("../../../docs/limits.md");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains(" × "))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 10, "ten examples");
    for row in rows {
        let [limits, requests, expected, cost] = row[..] else { panic!("four columns: {row:?}") };
        let limits = limits.replace(['`'], "").replace("; ", "\n");
        let (times, most) = requests.split_once(" × ").unwrap();
        let (times, most): (usize, u64) = (times.parse().unwrap(), most.parse().unwrap());
        let fake = FakeProvider::answering(|_| answer(10)).await;
        let tables = format!("[users.ann]\ntoken = \"token-of-ann\"\n{limits}");
        let gateway = priced(&[&fake], &tables).start().await;
        let mut codes = Vec::new();
        for _ in 0..times {
            let response = ask(&gateway, "ann", &asking(most)).await;
            spent(&gateway, &user("ann")).await;
            codes.push(if response.status == 200 { "200".to_owned() } else { response.error_code() });
        }
        let mut found = Vec::new();
        for code in codes.chunk_by(|one, other| one == other) {
            found.push(format!("{} of {}", code.len(), code[0]));
        }
        assert_eq!(found.join(", "), expected.replace('`', ""), "{limits}");
        let usd = spent(&gateway, &user("ann")).await as f64 / 1e9;
        assert_eq!(format!("{usd:.2}"), cost, "{limits}");
    }
}
