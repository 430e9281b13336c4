//! Requests that wait for what others' answers have reserved of a budget, in turn. Not for the decision: see `gate`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use photofinish_routing::limits::{LevelName, LimitLevels};

/// How long a request waits for what other answers hold of a budget: as long as clients hear nothing from an upstream
/// either, before the first keep-alive.
pub const HELD_FOR: Duration = Duration::from_secs(5);
/// How often who waits asks again.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// By level, as long as somebody waits.
#[derive(Default)]
pub struct BudgetLines {
    lines: Mutex<HashMap<LevelName, Arc<tokio::sync::Mutex<()>>>>,
    waiting: AtomicUsize,
}

impl BudgetLines {
    /// The level of these for which others wait: who comes now comes after them.
    pub fn waited_in(&self, levels: &LimitLevels) -> Option<LevelName> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        levels.iter().map(|level| level.name()).find(|name| lines.contains_key(*name)).cloned()
    }

    /// Asks in turn until there is an answer. None: it took too long.
    pub async fn wait<T>(&self, level: &LevelName, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        let place = LinePlace::take(self, level);
        let answered = async {
            let _turn = place.line.lock().await;
            loop {
                if let Some(answer) = ask() {
                    return answer;
                }
                tokio::time::sleep(ASKED_EVERY).await;
            }
        };
        tokio::time::timeout(HELD_FOR, answered).await.ok()
    }
}

/// A place in a line, given up on drop.
struct LinePlace<'l> {
    lines: &'l BudgetLines,
    level: &'l LevelName,
    line: Arc<tokio::sync::Mutex<()>>,
}

impl<'l> LinePlace<'l> {
    fn take(lines: &'l BudgetLines, level: &'l LevelName) -> LinePlace<'l> {
        let mut all = lines.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = all.entry(level.clone()).or_default().clone();
        lines.waiting.fetch_add(1, Ordering::Relaxed);
        LinePlace { lines, level, line }
    }
}

impl Drop for LinePlace<'_> {
    fn drop(&mut self) {
        let mut all = self.lines.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // The map and this place have it.
        if Arc::strong_count(&self.line) == 2 {
            all.remove(self.level);
        }
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
