//! `docs/measurement.md` lists every column as it is declared, and the queries of `docs/sql.md` run.

use super::*;
use photofinish_base::clock::wall_micros;
use photofinish_facts::record::sample;
use photofinish_facts::record::table::{Column, Table as _};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measurement.md");
pub const SQL: &str = include_str!("../../../../../docs/sql.md");

/// If set, the test writes the declarations of the tables into the page.
pub(super) const BLESS: &str = "PHOTOFINISH_BLESS";

/// The page with the table of these columns under its heading.
fn with_columns(page: &str, table: &str, declared: &[Column]) -> String {
    let (before, rest) = page.split_once(&format!("\n## Table `{table}`\n")).unwrap();
    let (introduction, rest) = rest.split_once("| --- | --- |\n").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let rows: String =
        declared.iter().map(|column| format!("| `{}` | {} |\n", columns::stored(column.name), column.about)).collect();
    format!("{before}\n## Table `{table}`\n{introduction}| --- | --- |\n{rows}\n{after}")
}

/// The page as it is on disk: a run with [`BLESS`] has just written it.
fn page() -> String {
    std::fs::read_to_string(PAGE).unwrap()
}

/// The first cells of the table under a heading, without their quotes.
fn documented(page: &str, heading: &str) -> Vec<String> {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    cells.map(|(column, _)| column.to_owned()).collect()
}

#[tokio::test]
async fn every_column_is_explained() {
    let mut page = page();
    let should = declared(&page);
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(PAGE, &should).unwrap();
        page.clone_from(&should);
    }
    let differs = page.lines().zip(should.lines()).find(|(is, should)| is != should);
    assert!(
        page == should,
        "docs/measurement.md has other words than the declaration; set {BLESS}=1 once: {differs:#?}"
    );
    let (_directory, path, _store) = new_store().await;
    let mut other = plain(&path).await;
    for (kind, name) in [
        ("Table", "race"),
        ("Table", "attempt"),
        ("Table", "run"),
        ("Table", "incident"),
        ("Table", "rollup"),
        ("Table", "rollup_span"),
        ("View", "attempt_speed"),
        ("View", "attempt_speed_all"),
        ("View", "race_speed"),
        ("View", "race_speed_all"),
        ("View", "upstream_hourly"),
        ("View", "attempt_cost"),
        ("View", "race_cost"),
    ] {
        let columns: Vec<String> =
            sqlx::query_scalar("SELECT name FROM pragma_table_info(?)").bind(name).fetch_all(&mut other).await.unwrap();
        // The page has such a view in one sentence of the other's section.
        let of_clients = name.strip_suffix("_all");
        let mut listed = documented(&page, &format!("{kind} `{}`", of_clients.unwrap_or(name)));
        listed.extend(of_clients.map(|_| "source".to_owned()));
        assert_eq!(listed, columns);
    }
}

/// The page with the columns of the tables as they are declared.
fn declared(page: &str) -> String {
    let page = with_columns(page, RaceRecord::NAME, RaceRecord::COLUMNS);
    let page = with_columns(&page, AttemptRecord::NAME, AttemptRecord::COLUMNS);
    let page = with_columns(&page, RunRecord::NAME, RunRecord::COLUMNS);
    with_columns(&page, IncidentRecord::NAME, IncidentRecord::COLUMNS)
}

#[tokio::test]
async fn the_eleven_queries_find_something() {
    let (_directory, path, store) = new_store().await;
    let mut of_now = sample::race(0);
    of_now.started_at = wall_micros() - 60_000_000;
    let attempts = [sample::won(0), sample::lost(0, 99_000), sample::failed(0)];
    let batch: Vec<Record> = std::iter::once(race(of_now)).chain(attempts.map(attempt)).collect();
    store.write(&batch).unwrap();
    let mut other = plain(&path).await;
    let queries: Vec<&'static str> =
        SQL.split("```sql\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert_eq!(queries.len(), 11);
    for sql in queries {
        let rows = sqlx::query(sql).fetch_all(&mut other).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert!(!rows.is_empty(), "{sql}");
    }
}
