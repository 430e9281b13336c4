//! When a finding is reported, and where.

use std::collections::BTreeSet;

use std::io;
use std::sync::Mutex;

use super::*;
use photofinish_base::clock::Instant;
use photofinish_facts::estimate::regression::Finding;
use photofinish_facts::record::{AttemptRecord, sample};
use photofinish_history::metrics::MetricsFormat;
use photofinish_history::store::{Record, Store};

/// 2026-01-09T04:00:00Z
const NOW: i64 = 1_767_931_200_000_000;

#[test]
fn two_looks_in_a_row_decide() {
    // What the checks found, and what is reported after each.
    for (looks, expected) in [
        ("x", "."),
        ("xx", ".+"),
        ("xxxx", ".+.."),
        ("x.x.x.", "......"),
        ("x.xx", "...+"),
        ("xx.", ".+."),
        ("xx..", ".+.-"),
        ("xx.x.x", ".+...."),
        ("xx..xx", ".+.-.+"),
        ("xx.x..", ".+...-"),
    ] {
        let mut looked = WatchHistory::default();
        let key = ("groq/a".to_owned(), TestedFigure::Ttft);
        let other = ("groq/a".to_owned(), TestedFigure::Tpot);
        let said: String = looks
            .chars()
            .map(|look| {
                // The other finding comes and goes and is never reported.
                let found = if look == 'x' { [key.clone()] } else { [other.clone()] };
                let change = looked.look(&found.into());
                match (change.begun.contains(&key), change.gone.contains(&key)) {
                    (true, _) => '+',
                    (_, true) => '-',
                    _ => '.',
                }
            })
            .collect();
        assert_eq!(said, expected, "{looks}");
    }
}

#[test]
fn nothing_is_kept_of_what_is_gone() {
    let mut looked = WatchHistory::default();
    for found in [true, true, false, false] {
        let key = ("groq/a".to_owned(), TestedFigure::Ttft);
        looked.look(&found.then_some(key).into_iter().collect());
    }
    assert!(looked.known.is_empty());
}

/// The log output.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Takes the output since the last call.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }

    fn subscribe(&self) -> tracing::subscriber::DefaultGuard {
        let lines = self.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone());
        tracing::subscriber::set_default(log.finish())
    }
}

fn regression() -> Regression {
    let finding = Finding::Tpot { before_us: 20_000.0, now_us: 40_000.0, p_value: 0.000_2 };
    Regression { upstream: "groq/a".into(), finding, attempts_before: 500, attempts_now: 90 }
}

#[test]
fn the_log_and_the_metrics_are_told_once() {
    let (lines, metrics, mut looked) = (Lines::default(), Metrics::new(), WatchHistory::default());
    let _guard = lines.subscribe();
    let gauge = || {
        let page = metrics.render(MetricsFormat::Text, &BTreeSet::new(), |_| {});
        let of_regressions = page.lines().filter(|line| line.starts_with("photofinish_regressions{"));
        of_regressions.filter_map(|line| line.rsplit(' ').next()).collect::<String>()
    };
    looked.report(Ok(vec![regression()]), &metrics);
    assert_eq!((lines.take().as_str(), gauge().as_str()), ("", ""));
    looked.report(Ok(vec![regression()]), &metrics);
    let line = lines.take();
    for part in ["WARN", "upstream=\"groq/a\"", "figure=\"tpot\"", "TPOT p50 20.0 ms → 40.0 ms (×2.00)", ", p = 2.0e-4"]
    {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!((line.lines().count(), gauge().as_str()), (1, "1"));
    looked.report(Ok(vec![regression()]), &metrics);
    looked.report(Ok(Vec::new()), &metrics);
    assert_eq!((lines.take().as_str(), gauge().as_str()), ("", "1"));
    // A failed check reports nothing about upstreams. The failure is reported once.
    looked.report(Err("locked".into()), &metrics);
    looked.report(Err("locked".into()), &metrics);
    assert_eq!((lines.take().lines().count(), gauge().as_str()), (1, "1"));
    looked.report(Ok(Vec::new()), &metrics);
    let line = lines.take();
    assert!(line.contains("INFO") && line.contains("groq/a") && line.contains("no longer worse"), "{line}");
    assert_eq!(gauge(), "0");
    let page = metrics.render(MetricsFormat::Text, &BTreeSet::new(), |_| {});
    assert!(page.contains("photofinish_regressions_begun_total{upstream=\"other\",figure=\"tpot\"} 1"), "{page}");
}

/// Fifty successful attempts on the day before, and fifty failures in the last hour.
async fn failing(path: &Path) {
    let store = Store::open(path).unwrap();
    let race = |n: i64, failed: bool| {
        let ended = if failed { sample::failed(n) } else { AttemptRecord { ordinal: 2, ..sample::won(n) } };
        let attempt = AttemptRecord { provider: "groq".into(), ..ended };
        [Record::Race(Box::new(sample::race(n))), Record::Attempt(Box::new(attempt))]
    };
    let last_hour = (NOW - sample::STARTED_AT) / 1_000 - 3_600_000;
    let day_before = last_hour - 24 * 3_600_000;
    let rows = (0..50).flat_map(|n| race(day_before + n, false).into_iter().chain(race(last_hour + n, true)));
    store.write(&rows.collect::<Vec<_>>()).unwrap();
    store.close();
}

#[tokio::test]
async fn a_look_at_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (path, shutdown) = (directory.path().join("history.db"), Shutdown::new());
    let missing = look((&path, &Recorder::without_store()), &shutdown, || NOW).await.unwrap();
    assert!(missing.is_err_and(|words| words.contains("history.db")));
    failing(&path).await;
    let found = look((&path, &Recorder::without_store()), &shutdown, || NOW).await.unwrap().unwrap();
    let words: Vec<String> = found.iter().map(Regression::words).collect();
    assert_eq!(words, ["failures 0.0 % → 100.0 % (+100.0 points)"]);
    // The gateway drains during a check: its findings are not used.
    shutdown.drain();
    assert!(look((&path, &Recorder::without_store()), &shutdown, || NOW).await.is_none());
    assert!(shutdown.finished(Duration::from_secs(10)).await);
}

#[tokio::test(start_paused = true)]
async fn it_looks_every_five_minutes_until_the_gateway_drains() {
    let directory = tempfile::tempdir().unwrap();
    let (path, shutdown, began) = (directory.path().join("history.db"), Shutdown::new(), Instant::now());
    let mut looks = Vec::new();
    let report = |found: WatchResult| {
        looks.push((began.elapsed().as_secs(), found.is_err()));
        if looks.len() == 3 {
            shutdown.drain();
        }
    };
    look_again((&path, &Recorder::without_store()), &shutdown, || NOW, report).await;
    assert_eq!(looks, [(300, true), (600, true), (900, true)]);
    assert!(shutdown.finished(Duration::from_secs(1)).await);
}
