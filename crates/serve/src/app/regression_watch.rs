//! Checks every few minutes whether an upstream has become worse, and reports it in the log and the metrics.
//!
//! `report::regressions` defines what is compared and what counts as worse. No decision depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use photofinish_base::clock::wall_micros;
use photofinish_base::shutdown::Shutdown;
use photofinish_gateway::proxy::Gateway;
use photofinish_history::estimate::regression::TestedFigure;
use photofinish_history::metrics::Metrics;
use photofinish_history::recorder::Recorder;
use photofinish_history::report::regressions::{Regression, RegressionsQuestion, ask};

/// From the end of one check to the start of the next.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// How long a check for regressions may take before it is abandoned.
const LOOK_FOR: Duration = Duration::from_secs(30);
/// Findings of one check; far more than a normal history has.
const FINDINGS_MAX: usize = 1_000;
/// This many checks in a row must agree: a single check is wrong now and then.
const LOOKS: u8 = 2;

/// The findings of a check, or the reason why it failed.
type WatchResult = Result<Vec<Regression>, String>;

/// An upstream and the name of one of its figures.
type UpstreamFigure = (String, TestedFigure);

/// The results of the checks so far.
#[derive(Debug, Default)]
struct WatchHistory {
    known: BTreeMap<UpstreamFigure, WatchedFigure>,
    /// Whether the last check failed.
    failed: bool,
}

/// The state of one figure of one upstream.
#[derive(Debug, Default)]
struct WatchedFigure {
    /// Whether it counts as a regression.
    is_current: bool,
    /// Consecutive checks that contradict `is_current`.
    against: u8,
}

/// The changes since the previous check.
#[derive(Debug, Default, PartialEq)]
struct RegressionChange {
    begun: Vec<UpstreamFigure>,
    gone: Vec<UpstreamFigure>,
}

/// Runs until the gateway drains. `path`: the database file.
pub(super) async fn watch(path: PathBuf, gateway: Arc<Gateway>) {
    let mut looked = WatchHistory::default();
    let report = |found| looked.report(found, gateway.recorder().metrics());
    look_again((&path, gateway.recorder()), gateway.shutdown(), wall_micros, report).await;
}

async fn look_again(
    history: (&Path, &Recorder),
    shutdown: &Shutdown,
    now: fn() -> i64,
    mut report: impl FnMut(WatchResult),
) {
    let mut draining = std::pin::pin!(shutdown.draining());
    loop {
        tokio::select! {
            () = &mut draining => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let Some(found) = look(history, shutdown, now).await else { return };
        report(found);
    }
}

/// None once the gateway drains: nothing waits for the history then. The recorder learns of damage to it.
async fn look((path, recorder): (&Path, &Recorder), shutdown: &Shutdown, now: fn() -> i64) -> Option<WatchResult> {
    let stop = Arc::new(AtomicBool::new(false));
    let (path, recorder, stopped) = (path.to_owned(), recorder.clone(), stop.clone());
    let work = shutdown.run_blocking(move || {
        let reader = recorder.read_history(&path).map_err(|error| error.to_string())?.stopped_by(stopped);
        let answer = ask(&reader, &RegressionsQuestion::default(), now()).map_err(|error| error.to_string())?;
        Ok(answer.findings.into_iter().take(FINDINGS_MAX).collect())
    });
    let limit = async {
        tokio::time::sleep(LOOK_FOR).await;
        // This ends the work, and with it the check.
        stop.store(true, Relaxed);
        pending().await
    };
    tokio::select! {
        biased;
        () = shutdown.draining() => {
            stop.store(true, Relaxed);
            None
        }
        found = work => Some(found.unwrap_or_else(|error| Err(error.to_string()))),
        never = limit => never,
    }
}

impl WatchHistory {
    fn report(&mut self, found: WatchResult, metrics: &Metrics) {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                if !self.failed {
                    tracing::warn!(error, "cannot compare the upstreams with earlier hours");
                }
                self.failed = true;
                return;
            }
        };
        self.failed = false;
        let keys = found.iter().map(|found| (found.upstream.clone(), found.figure())).collect();
        let change = self.look(&keys);
        for key in &change.begun {
            metrics.regression(&key.0, key.1);
            let this = |found: &&Regression| (found.upstream.as_str(), found.figure()) == (key.0.as_str(), key.1);
            for found in found.iter().filter(this) {
                tracing::warn!(
                    upstream = found.upstream.as_str(),
                    figure = found.figure().as_str(),
                    attempts = found.attempts_now,
                    "worse than in the same hours of the days before: {}, {}",
                    found.words(),
                    found.chance(),
                );
            }
        }
        for (upstream, figure) in &change.gone {
            tracing::info!(
                upstream = upstream.as_str(),
                figure = figure.as_str(),
                "no longer worse than in the same hours of the days before"
            );
        }
        let current = self.known.iter().filter(|(_, known)| known.is_current);
        metrics.current_regressions(current.map(|(key, _)| key.clone()).collect());
    }

    /// Applies the findings of one check.
    fn look(&mut self, found: &BTreeSet<UpstreamFigure>) -> RegressionChange {
        for key in found {
            self.known.entry(key.clone()).or_default();
        }
        let mut change = RegressionChange::default();
        self.known.retain(|key, known| {
            if found.contains(key) == known.is_current {
                known.against = 0;
                return known.is_current;
            }
            known.against += 1;
            if known.against == LOOKS {
                *known = WatchedFigure { is_current: !known.is_current, against: 0 };
                if known.is_current { &mut change.begun } else { &mut change.gone }.push(key.clone());
            }
            known.is_current || known.against > 0
        });
        change
    }
}

#[cfg(test)]
mod tests;
