//! Compares roll-ups with the rows they are made of: the figures are equal, whenever the rows arrived.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::world::{self, DAYS, NOW_US, START_US};
use super::*;
use crate::report::figures::GroupFigures;
use crate::report::question::{from_pairs, time};
use crate::report::stats::{self, Stats, StatsQuestion};
use crate::store::columns::{DAY_US, HOUR_US};
use crate::store::rollup as made;
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::record::sample;

pub const RACES: usize = 1_500;

/// Runs steps until no work is left, each with a new roller, as after a kill. Returns all steps.
pub fn roll(address: impl Into<StoreAddress>, keep_from: Option<i64>) -> Vec<RollupStep> {
    let (address, mut steps) = (address.into(), Vec::new());
    loop {
        match Roller::new(&address, || false).step(NOW_US, keep_from).unwrap() {
            RollupStep::Nothing => return steps,
            step => steps.push(step),
        }
        assert!(steps.len() < 5_000, "it never ends: {:?}", &steps[4_990..]);
    }
}

pub async fn written(records: &[Record]) -> (TempDir, PathBuf, Store) {
    let (directory, path, store) = new_store().await;
    for batch in records.chunks(1_000) {
        store.write(batch).unwrap();
    }
    (directory, path, store)
}

/// Reads from cells as far as they exist.
pub fn of_cells(path: impl Into<StoreAddress>) -> StoreReader {
    StoreReader::open(path).unwrap().with_exact_max(0)
}

pub fn ask(reader: &StoreReader, query: &str) -> Stats {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    // A limit within a bucket would be met by a share of the bucket. This limit avoids that.
    let pairs = [pairs, vec![("slo".to_owned(), "ttft=1d".to_owned())]].concat();
    let question: StatsQuestion = from_pairs(&pairs).unwrap();
    stats::ask(reader, &question, NOW_US).unwrap()
}

/// All counts.
pub fn counts(stats: &Stats) -> Vec<String> {
    let group = |figures: &GroupFigures| {
        let GroupFigures { keys, attempts, wins, failures, failure_kinds, empty, censored, .. } = figures;
        let GroupFigures { ttft, whole, tok_s_samples, requests, attainment, client_ttft_samples, .. } = figures;
        let GroupFigures { without_speed, without_verdict, .. } = figures;
        let costs = [&figures.cost, &figures.extra_cost];
        let costs = costs.map(|cost| (*cost, cost.cost()));
        let [effective, whole_effective] = [ttft, whole].map(|times| (times.effective * 1e6).round());
        let (ttft_samples, whole_samples) = (ttft.samples, whole.samples);
        format!(
            "{keys:?} {attempts} {wins} {failures} {failure_kinds:?} {empty} {censored} {ttft_samples} {tok_s_samples} \
             {requests} {attainment:?} {client_ttft_samples} {without_speed} {without_verdict} {costs:?} {effective} \
             {whole_samples} {whole_effective}"
        )
    };
    let Stats { attempts, without_attempts, without_speed, .. } = stats;
    let of_all = format!("{attempts} {without_attempts} {without_speed}");
    stats.groups.iter().map(group).chain([of_all]).collect()
}

pub fn windows() -> [String; 5] {
    let between = |since: i64, until: i64| format!("since={}&until={}", time(START_US + since), time(START_US + until));
    let minute = HOUR_US / 60;
    [
        "".into(),
        between(DAY_US / 2 + 17 * minute, 3 * DAY_US + 41 * minute),
        between(DAY_US + 5 * HOUR_US + 3 * minute, DAY_US + 5 * HOUR_US + 50 * minute),
        between(DAY_US, 3 * DAY_US),
        format!("since={}", time(START_US + 3 * DAY_US + 7 * HOUR_US)),
    ]
}

pub const GROUPS: [&str; 12] = [
    "upstream",
    "model",
    "user",
    "hour",
    "weekday",
    "input",
    "concurrency",
    "model,upstream",
    "upstream,input",
    "upstream,concurrency",
    "concurrency,user",
    "weekday,hour,input",
];

const FILTERS: [&str; 4] = ["", "model=fast", "user=ann", "provider=my-vllm"];

#[tokio::test]
async fn counts_and_costs_are_those_of_the_rows() {
    let (_directory, path, _store) = written(&world::records(1, RACES)).await;
    let steps = roll(&path, None);
    assert_eq!(steps.iter().filter(|step| **step == RollupStep::Day).count(), DAYS as usize, "{steps:?}");
    let (rows, cells) = (StoreReader::open(&path).unwrap(), of_cells(&path));
    for (turn, window) in windows().iter().enumerate() {
        for (group, by) in GROUPS.iter().enumerate() {
            // Rotates the filters, so that each filter meets each window and each grouping.
            let filter = FILTERS[(turn + group) % FILTERS.len()];
            let query = format!("by={by}&{filter}&{window}");
            let (exact, rolled) = (ask(&rows, &query), ask(&cells, &query));
            assert_eq!(exact.coverage.rolled_until, None);
            assert_eq!(counts(&rolled), counts(&exact), "{query}");
        }
    }
    assert!(ask(&cells, "by=upstream").coverage.rolled_until.is_some_and(|until| until > START_US + 3 * DAY_US));
}

/// One group with everything.
#[derive(Default)]
struct Whole(Summary);

impl Gather for Whole {
    fn attempt(&mut self, facts: &AttemptFacts<'_>) {
        self.0.add(facts, false);
    }

    fn without_attempts(&mut self, _: i64, _: &RequestFacts<'_>) {}

    fn cell(&mut self, cell: &RollupCell<'_>) -> Result<(), ShortBytes> {
        self.0.absorb(cell.summary, cell.upstream.is_none())
    }

    fn merge(&mut self, other: Whole) {
        self.0.merge(other.0);
    }
}

fn whole(reader: &StoreReader, selection: Selection) -> Summary {
    reader.gather(&Selection { now_us: NOW_US, ..selection }, Whole::default).unwrap().0.0
}

#[tokio::test]
async fn quantiles_are_within_a_bucket_and_a_rank() {
    let (_directory, path, _store) = written(&world::records(2, RACES)).await;
    roll(&path, None);
    let (rows, cells) = (StoreReader::open(&path).unwrap(), of_cells(&path));
    for provider in ["groq", "cerebras", "my-vllm"] {
        let filter = AttemptFilter { provider: Some(provider.into()), ..AttemptFilter::default() };
        let selection = Selection { filter, ..Selection::default() };
        let (exact, rolled) = (whole(&rows, selection.clone()), whole(&cells, selection));
        let near = |value: i64, low: i64, high: i64, what: &str| {
            let (low, high) = (low as f64 * 0.984, high as f64 * 1.016);
            assert!((low..=high).contains(&(value as f64)), "{provider} {what}: {value} is not in {low} to {high}");
        };
        let (survival, estimated) = (exact.ttft.survival(), rolled.ttft.survival());
        for p in [0.05, 0.25, 0.5, 0.75] {
            let rank = 1.0 / exact.ttft.effective();
            let at = |p: f64| survival.quantile(p).unwrap().reached().unwrap();
            near(estimated.quantile(p).unwrap().reached().unwrap(), at(p - rank), at(p + rank), "ttft");
            for (what, rows, cells) in
                [("tpot", &exact.tpot, &rolled.tpot), ("client", &exact.client_ttft, &rolled.client_ttft)]
            {
                let rank = 1.0 / rows.count as f64;
                let [low, high] = rows.quantiles([p - rank, p + rank]).map(Option::unwrap);
                near(cells.quantiles([p])[0].unwrap(), low, high, what);
            }
        }
    }
}

#[tokio::test]
async fn a_day_is_the_sum_of_its_hours() {
    let (_directory, path, _store) = written(&world::records(3, RACES)).await;
    roll(&path, None);
    let cells = of_cells(&path);
    let since = AttemptFilter { since: Some(START_US), until: Some(START_US + DAYS * DAY_US), ..Default::default() };
    let selection = Selection { filter: since, ..Selection::default() };
    let by_class = Selection { classes: true, ..selection.clone() };
    let hourly = Selection { hourly: true, ..selection.clone() };
    let of_days = whole(&cells, selection).encode();
    assert_eq!(whole(&cells, hourly).encode(), of_days);
    assert_eq!(whole(&cells, by_class).encode(), of_days);
}

#[tokio::test]
async fn the_newest_hour_is_out_of_rows() {
    let (_directory, path, _store) = written(&world::records(4, RACES)).await;
    roll(&path, None);
    let last = START_US + DAYS * DAY_US - HOUR_US;
    let state: i64 = sqlx::query_scalar("SELECT state FROM rollup_span WHERE hours = 1 AND start = ?")
        .bind(last)
        .fetch_one(&mut plain(&path).await)
        .await
        .unwrap();
    assert_eq!(state, 1);
    assert_eq!(ask(&of_cells(&path), "by=upstream").coverage.rolled_until, Some(last));
}

#[tokio::test]
async fn rows_that_come_late_are_found() {
    let mut records = world::records(5, RACES);
    let (_whole_directory, whole_path, _whole) = written(&records).await;
    fastrand::Rng::with_seed(5).shuffle(&mut records);
    let (early, late) = records.split_at(records.len() * 9 / 10);
    let (_directory, path, store) = written(early).await;
    roll(&path, None);
    store.write(late).unwrap();
    let expected = |query: &str| counts(&ask(&StoreReader::open(&whole_path).unwrap(), query));
    let query = "by=model,upstream,input";
    assert_eq!(counts(&ask(&of_cells(&path), query)), expected(query), "before the next roll-up");
    assert!(!roll(&path, None).is_empty());
    assert_eq!(counts(&ask(&of_cells(&path), query)), expected(query));
    assert_eq!(counts(&ask(&of_cells(&path), "by=user")), expected("by=user"));
    assert_eq!(roll(&path, None), []);
}

/// Writes to the file over another connection: the caller may be within a step.
pub fn write_now(path: &Path, batch: &[Record]) {
    Store::open(path).unwrap().write(batch).unwrap();
}

#[tokio::test]
async fn a_row_that_comes_while_its_hour_is_read_is_not_lost() {
    let hour = START_US + 7 * HOUR_US;
    let of_hour = move |n: usize| {
        let mut won = sample::won(0);
        won.race_id = world::id(n, hour + n as i64 * 1_000);
        attempt(won)
    };
    let (_directory, path, _store) = written(&(1..2_000).map(of_hour).collect::<Vec<_>>()).await;
    let came = Arc::new(AtomicBool::new(false));
    let (late, come) = (path.clone(), Arc::clone(&came));
    let mut roller = Roller::new(&path, move || {
        if !come.swap(true, Relaxed) {
            write_now(&late, &[of_hour(0)]);
        }
        false
    });
    assert_eq!(roller.step(NOW_US, None).unwrap(), RollupStep::RolledUp { attempts: 1_999 });
    assert!(came.load(Relaxed), "the hour was too small");
    assert_eq!(ask(&of_cells(&path), "by=upstream").coverage.rolled_until, None, "what was read is not kept");
    assert_eq!(roller.step(NOW_US, None).unwrap(), RollupStep::RolledUp { attempts: 2_000 });
    assert_eq!(ask(&of_cells(&path), "by=upstream").attempts, 2_000);
}

#[tokio::test]
async fn a_damaged_summary_is_an_error_that_says_so() {
    let (_directory, path, _store) = written(&world::records(14, 300)).await;
    roll(&path, None);
    let mut other = plain(&path).await;
    for broken in ["UPDATE rollup SET total = x'00'", "UPDATE rollup SET total = substr(total, 1, length(total) - 1)"] {
        sqlx::query(broken).execute(&mut other).await.unwrap();
        let question: StatsQuestion = from_pairs(&[]).unwrap();
        let error = stats::ask(&of_cells(&path), &question, NOW_US).unwrap_err().to_string();
        assert!(error.contains("summary is damaged"), "{error}");
    }
}

/// No statement scans a whole table or sorts.
#[tokio::test]
async fn every_statement_searches() {
    let (_directory, path, _store) = written(&world::records(13, 500)).await;
    roll(&path, None);
    let statements = [
        made::FIRST[0],
        made::FIRST[1],
        made::DUE,
        cells::STATE,
        cells::WAITING,
        cells::FORGET,
        cells::COUNT,
        cells::OF_DAY,
        cells::OF_HOUR,
        made::REMOVING,
        made::RACE_TO_STAY,
        made::ATTEMPT_TO_STAY,
        made::REMOVALS[0],
        made::REMOVALS[1],
        write::CAME,
        plan::SPANS,
        &plan::oldest_rows(SourceFilter::Client)[0],
        &plan::oldest_rows(SourceFilter::Client)[1],
        &plan::oldest_rows(SourceFilter::Probe)[0],
        &scan::statements(SourceFilter::Probe)[0],
        &scan::statements(SourceFilter::Bench)[1],
        plan::OLDEST_HOUR,
        plan::REMOVED,
        cells::TOTALS,
        cells::PARTS,
        reader::LAST,
        reader::ROLLED,
        reader::NEW_ROWS,
        crate::store::damage::ROWS_OF_RACE,
    ];
    let connection = open::connect(&path).unwrap();
    for sql in statements.into_iter().chain(crate::store::damage::EDGES) {
        let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = vec![0; explained.parameter_count()];
        let steps: Vec<String> = explained
            .query_map(rusqlite::params_from_iter(parameters), |row| row.get("detail"))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let bad = |step: &&String| {
            let is_scan = step.starts_with("SCAN ")
                && !step.contains("subquery")
                && !["SCAN CONSTANT ROW", "SCAN counted"].contains(&step.as_str());
            step.contains("TEMP B-TREE") || is_scan
        };
        assert_eq!(steps.iter().find(bad), None, "{sql}: {steps:?}");
    }
}
