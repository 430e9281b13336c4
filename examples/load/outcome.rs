//! The results of one policy, as lines of the tables.

use std::time::Duration;

use crate::drive::Seen;
use crate::figures::Sample;
use crate::ledger::{Ledger, Span};

/// A request is late if it takes this many times the median before the hang.
const LATE_TIMES: f64 = 3.0;
/// The favourite counts as left after this many consecutive requests that do not begin with it.
const LEFT: usize = 10;

/// When the favourite hangs: relative to the beginning of the run, and by the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Hang {
    pub from: Duration,
    pub until: Duration,
    pub span: Span,
}

impl Hang {
    fn holds(&self, seen: &Seen) -> bool {
        (self.from..self.until).contains(&seen.due)
    }
}

pub const IN_ALL: &str = "requests  failed      p50      p90      p99      max ms   attempts/request   extra cost %";

/// All requests of the run.
pub fn in_all(seen: &[Seen], ledger: &Ledger) -> String {
    let failed = seen.iter().filter(|seen| seen.ttft.is_none()).count();
    format!(
        "{:8}  {failed:6}  {}  {:17.2}  {:13.1}",
        seen.len(),
        quantiles(seen.iter()),
        ledger.attempts_per_race(),
        ledger.extra_percent()
    )
}

pub const IN_THE_HANG: &str =
    "requests  failed      p50      p90      p99      max ms   late (before)     asked it first   left after";

/// Requests that arrived while the favourite hung.
pub fn in_the_hang(seen: &[Seen], ledger: &Ledger, hang: &Hang, favourite: &str, all_at_once: bool) -> String {
    let before: Vec<&Seen> = seen.iter().filter(|seen| seen.due < hang.from).collect();
    let during: Vec<&Seen> = seen.iter().filter(|seen| hang.holds(seen)).collect();
    let [usual, ..] = sample(before.iter().copied()).quantiles();
    let late = |seen: &[&Seen]| {
        let is_late = |seen: &&&Seen| millis(seen).is_none_or(|ms| ms > LATE_TIMES * usual);
        seen.iter().filter(is_late).count() as f64 / seen.len() as f64 * 100.0
    };
    let failed = during.iter().filter(|seen| seen.ttft.is_none()).count();
    let asked = if all_at_once { "all".to_owned() } else { asked_first(ledger, hang, favourite) };
    format!(
        "{:8}  {failed:6}  {}  {:6.1} % ({:4.1} %)  {asked}",
        during.len(),
        quantiles(during.iter().copied()),
        late(&during),
        late(&before)
    )
}

pub const QUANTILES: &str = "     p50      p90      p99      max ms   attempts/request   extra cost %";

/// A few hundred requests.
pub fn hundreds(seen: &[Seen], ledger: &Ledger) -> String {
    let (attempts, extra) = (ledger.attempts_per_race(), ledger.extra_percent());
    format!("{}  {attempts:17.2}  {extra:13.1}", quantiles(seen.iter()))
}

/// How many requests began with the favourite while it hung, and when it was left.
fn asked_first(ledger: &Ledger, hang: &Hang, favourite: &str) -> String {
    let span = hang.span.from_us..hang.span.until_us;
    let opened: Vec<&(i64, String)> = ledger.opened.iter().filter(|(at, _)| span.contains(at)).collect();
    let asked = opened.iter().filter(|(_, provider)| provider == favourite).count();
    let left = opened.windows(LEFT).find(|others| others.iter().all(|(_, provider)| provider != favourite));
    let after = left.and_then(|others| others.first()).map(|(at, _)| (at - span.start) as f64 / 1e6);
    let after = after.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.1} s"));
    format!("{asked:14}   {after:>10}")
}

fn quantiles<'s>(seen: impl Iterator<Item = &'s Seen>) -> String {
    sample(seen).quantiles().map(|ms| format!("{ms:7.1}")).join("  ") + "   "
}

fn sample<'s>(seen: impl Iterator<Item = &'s Seen>) -> Sample {
    let mut sample = Sample::default();
    seen.filter_map(|seen| seen.ttft).for_each(|ttft| sample.add(ttft));
    sample
}

fn millis(seen: &Seen) -> Option<f64> {
    seen.ttft.map(|ttft| ttft.as_secs_f64() * 1e3)
}
