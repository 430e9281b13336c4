//! Comparisons over real files: what is found, what is not, and the words for it.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::report::question::moment;
use crate::store::{Class, Record, Roller, RollupCell, RollupStep, Store};
use photofinish_facts::estimate::class::{Concurrency, Input};
use photofinish_facts::estimate::summary::Summary;
use photofinish_facts::record::{AttemptOutcome, AttemptRecord, CensorCause, sample};

/// 2026-01-09T04:00:00Z: a week after the sample's hour, at its end.
const NOW: i64 = (sample::STARTED_AT / HOUR_US + 1) * HOUR_US + 7 * DAY_US;

/// How an upstream is, on one side.
#[derive(Clone, Copy)]
struct World {
    /// Of groq, in milliseconds; lognormal.
    ttft_ms: f64,
    /// Of its rival.
    rival_ms: f64,
    /// Of groq, for each token.
    tpot_ms: f64,
    /// The share of groq's attempts that cannot connect.
    failing: f64,
    /// The share of losers that run on to their first token.
    audit: f64,
}

const USUAL: World = World { ttft_ms: 300.0, rival_ms: 300.0, tpot_ms: 20.0, failing: 0.02, audit: 0.0 };

impl World {
    /// Races of an hour, from its beginning on.
    fn races(self, hour: i64, count: i64, draws: &mut fastrand::Rng) -> Vec<Record> {
        let from_ms = (hour - sample::STARTED_AT) / 1_000;
        (0..count).flat_map(|n| self.race(from_ms + n * 3_600_000 / count, draws)).collect()
    }

    fn race(self, n: i64, draws: &mut fastrand::Rng) -> Vec<Record> {
        let mut lognormal = |median: f64| {
            let normal = (-2.0 * (1.0 - draws.f64()).ln()).sqrt() * (std::f64::consts::TAU * draws.f64()).cos();
            median * (0.5 * normal).exp()
        };
        let [own, rival, tpot] = [self.ttft_ms, self.rival_ms, self.tpot_ms].map(&mut lognormal);
        let [own_us, rival_us] = [own, rival].map(|ms| (ms * 1e3) as i64);
        let tpot_us = (tpot * 1e3) as i64;
        let fails = draws.f64() < self.failing;
        let mut race = sample::race(n);
        race.input_tokens_estimate = if n % 2 == 0 { 100 } else { 4_000 };
        let groq = match fails {
            true => AttemptRecord { ordinal: 0, provider: "groq".into(), ..sample::failed(n) },
            false => self.ran("groq", (n, 0), own_us, rival_us, tpot_us, draws),
        };
        let rival = self.ran("rival", (n, 1), rival_us, if fails { i64::MAX } else { own_us }, 20_000, draws);
        race.winner = Some(i64::from(groq.outcome != AttemptOutcome::Won));
        let attempts = [groq, rival].map(|attempt| Record::Attempt(Box::new(attempt)));
        [Record::Race(Box::new(race))].into_iter().chain(attempts).collect()
    }

    fn ran(
        self,
        provider: &str,
        (n, ordinal): (i64, i64),
        first_token_us: i64,
        cut_us: i64,
        tpot_us: i64,
        draws: &mut fastrand::Rng,
    ) -> AttemptRecord {
        let won = AttemptRecord { ordinal, provider: provider.into(), failure: None, ..sample::won(n) };
        let seen = AttemptRecord {
            first_token_us: Some(first_token_us),
            ttft_obs_us: Some(first_token_us),
            last_token_us: Some(first_token_us + 40 * tpot_us),
            reasoning_tokens: None,
            reasoning_events: 0,
            p_audit: Some(self.audit),
            ..won
        };
        if first_token_us <= cut_us {
            return seen;
        }
        if draws.f64() < self.audit {
            return AttemptRecord {
                audited: true,
                outcome: AttemptOutcome::Lost,
                output_tokens: None,
                last_token_us: seen.first_token_us,
                ..seen
            };
        }
        AttemptRecord {
            ordinal,
            provider: provider.into(),
            p_audit: Some(self.audit),
            censor_cause: Some(CensorCause::Lost),
            ..sample::lost(n, cut_us)
        }
    }
}

/// The hour before [`NOW`] like `now`, the same hour of the seven days before like `before`.
async fn history(before: World, now: World) -> (TempDir, PathBuf, Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let mut draws = fastrand::Rng::with_seed(7);
    for day in 1..=7 {
        store.write(&before.races(NOW - HOUR_US - day * DAY_US, 60, &mut draws)).unwrap();
    }
    store.write(&now.races(NOW - HOUR_US, 200, &mut draws)).unwrap();
    (directory, path, store)
}

fn answer(path: &Path, question: &RegressionsQuestion) -> Regressions {
    ask(&StoreReader::open(path).unwrap(), question, NOW).unwrap()
}

fn figures(answer: &Regressions) -> Vec<(&str, TestedFigure)> {
    answer.findings.iter().map(|found| (found.upstream.as_str(), found.figure())).collect()
}

const GROQ: &str = "groq/llama-70b";

#[tokio::test]
async fn what_is_worse_is_found() {
    for (now, figure, name) in [
        (World { ttft_ms: 600.0, ..USUAL }, TestedFigure::Ttft, "TTFT p"),
        (World { tpot_ms: 40.0, ..USUAL }, TestedFigure::Tpot, "TPOT p50 "),
        (World { failing: 0.5, ..USUAL }, TestedFigure::Failures, "failures "),
    ] {
        let (_directory, path, _store) = history(USUAL, now).await;
        let answer = answer(&path, &RegressionsQuestion::default());
        assert_eq!(figures(&answer), [(GROQ, figure)]);
        assert_eq!((answer.upstreams, answer.attempts_now, answer.attempts_before), (2, 400, 840));
        let found = &answer.findings[0];
        assert!(found.words().starts_with(name) && found.finding.p_value() <= 0.001, "{}", found.words());
        let object = found.object();
        assert_eq!(object.len(), REGRESSION.len());
        assert_eq!((&object["figure"], &object["attempts_before"]), (&json!(figure.as_str()), &json!(420)));
        let share = figure == TestedFigure::Failures;
        assert_eq!((object["now_ms"].is_null(), object["now_share"].is_null()), (share, !share));
    }
}

#[tokio::test]
async fn a_rival_that_changes_is_no_regression_of_ours() {
    for rival_ms in [150.0, 600.0] {
        let (_directory, path, _store) = history(USUAL, World { rival_ms, ..USUAL }).await;
        let answer = answer(&path, &RegressionsQuestion::default());
        let found = figures(&answer);
        assert!(found.iter().all(|(upstream, _)| *upstream != GROQ), "{found:?}");
        assert_eq!(found.len(), usize::from(rival_ms > 300.0), "{found:?}");
    }
}

#[tokio::test]
async fn nothing_has_changed() {
    let (_directory, path, _store) = history(USUAL, USUAL).await;
    let found = answer(&path, &RegressionsQuestion::default());
    assert_eq!((figures(&found), found.upstreams, found.too_few.len()), (Vec::new(), 2, 0));
    let mut other = RegressionsQuestion::default();
    other.window.provider = Some("rival".into());
    assert_eq!(answer(&path, &other).upstreams, 1);
    other.window.user = Some("bob".into());
    assert_eq!(answer(&path, &other).upstreams, 0);
}

/// The days before as they are left when their rows are gone.
fn roll_up(path: &Path) {
    let mut roller = Roller::new(path, || false);
    while roller.step(NOW, Some(NOW - 20 * HOUR_US)).unwrap() != RollupStep::Nothing {}
}

#[tokio::test]
async fn rolled_up_hours_tell_the_same_as_rows() {
    let usual = World { audit: 0.1, ..USUAL };
    for now in [usual, World { ttft_ms: 500.0, tpot_ms: 30.0, ..usual }, World { rival_ms: 600.0, ..usual }] {
        let (_directory, path, store) = history(usual, now).await;
        store.close();
        let question = RegressionsQuestion::default();
        let of_rows = answer(&path, &question);
        roll_up(&path);
        let of_cells = answer(&path, &question);
        assert_eq!((of_cells.upstreams, of_cells.attempts_before), (2, of_rows.attempts_before));
        assert_eq!(figures(&of_cells), figures(&of_rows));
        for (cells, rows) in of_cells.findings.iter().zip(&of_rows.findings) {
            assert_eq!(cells.words(), rows.words());
            let (cells, rows) = (cells.finding.p_value().ln(), rows.finding.p_value().ln());
            assert!((cells / rows - 1.0).abs() < 0.05, "{cells} {rows}");
        }
    }
}

#[tokio::test]
async fn too_little_is_not_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    let store = Store::open(&path).unwrap();
    let question = RegressionsQuestion::default();
    assert_eq!(answer(&path, &question).upstreams, 0);
    let mut draws = fastrand::Rng::with_seed(8);
    store.write(&USUAL.races(NOW - HOUR_US - DAY_US, 19, &mut draws)).unwrap();
    store.write(&World { failing: 1.0, ..USUAL }.races(NOW - HOUR_US, 200, &mut draws)).unwrap();
    let answer = answer(&path, &question);
    let too_few = |upstream: &str| TooFew { upstream: upstream.into(), attempts_before: 19, attempts_now: 200 };
    assert_eq!((answer.upstreams, answer.findings), (0, Vec::new()));
    assert_eq!(answer.too_few, [too_few(GROQ), too_few("rival/llama-70b")]);
}

#[tokio::test]
async fn a_race_that_still_runs_is_left_out() {
    let (_directory, path, store) = history(USUAL, USUAL).await;
    let runs = |record: &Record| matches!(record, Record::Attempt(_));
    let mut draws = fastrand::Rng::with_seed(9);
    let mut late = World { ttft_ms: 30_000.0, ..USUAL }.races(NOW - HOUR_US + 7_000, 100, &mut draws);
    late.retain(runs);
    store.write(&late).unwrap();
    let answer = answer(&path, &RegressionsQuestion::default());
    assert_eq!((figures(&answer), answer.attempts_now), (Vec::new(), 400));
}

#[test]
fn the_same_hours_are_whole_and_apart() {
    let hours = |from: i64, until: i64| same_hours((from * HOUR_US / 2, until * HOUR_US / 2));
    let noon = 20 * DAY_US / HOUR_US * 2 + 24;
    // Half an hour of an hour: the whole hour of each day.
    let found = hours(noon + 1, noon + 2);
    assert_eq!(found.len(), 7);
    assert_eq!(found[6], (19 * DAY_US + 12 * HOUR_US, 19 * DAY_US + 13 * HOUR_US));
    assert_eq!(found[0].0, 13 * DAY_US + 12 * HOUR_US);
    // An hour across two: both.
    assert_eq!(hours(noon + 1, noon + 3)[6], (19 * DAY_US + 12 * HOUR_US, 19 * DAY_US + 14 * HOUR_US));
    // All day: the week, until now begins.
    assert_eq!(hours(noon + 1, noon + 49), [(13 * DAY_US + 12 * HOUR_US, (noon + 1) * HOUR_US / 2)]);
}

#[test]
fn now_is_an_hour_and_at_most_a_day() {
    let question = |since: Option<&str>, until: Option<&str>| {
        let [since, until] = [since, until].map(|text| text.map(|text| moment(text).unwrap()));
        RegressionsQuestion { window: RaceWindow { since, until, ..RaceWindow::default() } }
    };
    assert_eq!(question(None, None).now(NOW), (NOW - HOUR_US, NOW));
    assert_eq!(question(Some("3h"), Some("1h")).now(NOW), (NOW - 3 * HOUR_US, NOW - HOUR_US));
    assert_eq!(question(None, Some("2200-01-01")).now(NOW), (NOW - HOUR_US, NOW));
    assert_eq!(question(Some("24h"), None).problem(NOW), None);
    assert_eq!(question(Some("30h"), Some("7h")).problem(NOW), None);
    for (since, until) in [("25h", None), ("60h", Some("7h"))] {
        let problem = question(Some(since), until).problem(NOW).unwrap();
        assert!(problem.starts_with("--since 2026-01-0") && problem.contains("more than 24h before"), "{problem}");
    }
    assert!(question(Some("1h"), Some("2h")).problem(NOW).is_some_and(|problem| problem.contains("before --until")));
}

/// Adds a rolled-up hour; `model` is none for attempts without their race.
fn add_hour(sides: &mut UpstreamSides, start_us: i64, model: Option<&str>, attempts: u64) {
    let mut summary = Summary::default();
    summary.attempts = attempts;
    let summary = summary.encode();
    let class = Some(Class { input: Input::of(100), concurrency: Concurrency::of(1), stream: true });
    let upstream = Some(("groq", "llama-70b"));
    let (span_us, count) = (HOUR_US, attempts);
    sides
        .cell(&RollupCell { start_us, span_us, upstream, model, user: None, class, count, summary: &summary })
        .unwrap();
}

#[test]
fn rolled_up_attempts_without_their_race_are_left_out() {
    let mut sides = UpstreamSides::default();
    add_hour(&mut sides, NOW, None, 5);
    assert_eq!(sides.attempts(GROQ), 0);
    add_hour(&mut sides, NOW, Some("m"), 3);
    assert_eq!(sides.attempts(GROQ), 3);
}

#[test]
fn strata_are_in_order_so_that_sums_are_the_same_each_time() {
    let mut sides = UpstreamSides::default();
    for hour in (0..24).rev() {
        add_hour(&mut sides, hour * HOUR_US, Some("m"), hour.unsigned_abs() + 1);
    }
    let shared = sides.shared(&sides, GROQ);
    let attempts: Vec<u64> = shared.strata().iter().map(|stratum| stratum.now.attempts).collect();
    assert_eq!(attempts, (1..=24).collect::<Vec<_>>());
}
