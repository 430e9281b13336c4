//! Requests of many threads at once, which end at any moment: no level has more of them than its limit, and in the end nothing is
//! held and what is spent is what they cost. `PHOTOFINISH_STORM` sets how many. Not for the decisions themselves: see `model_check`.

use std::sync::Arc;

use fastrand::Rng;

use super::book::{LimitLevels, UsageBook};
use super::level::LevelName;
use super::{AttemptCost, KnownCost, LimitClock, RefusedBy, Written, admit};
use photofinish_config::{Budget, Limits};

/// Unless the environment says.
const REQUESTS: usize = 100_000;
const THREADS: usize = 8;
const STREAMS: u32 = 5;
const NOW: LimitClock = LimitClock { us: 1, wall_us: 1_796_000_000_000_000 };

/// What the requests of one thread did.
#[derive(Default)]
struct StormTally {
    spent: i64,
    refused: usize,
    /// The most that were seen at once.
    most: u32,
}

/// Sends `requests`, one after the other.
fn thread(requests: usize, seed: u64, book: &UsageBook, levels: &LimitLevels) -> StormTally {
    let (mut random, mut tally) = (Rng::with_seed(seed), StormTally::default());
    for _ in 0..requests {
        let usual = random.i64(1..=1_000);
        let cost = AttemptCost { usual, max: usual, prompt: usual, ..AttemptCost::default() };
        let (admission, _) = match admit(levels.clone(), 0, &[cost], NOW) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                assert_eq!(refusal.by, RefusedBy::Streams { limit: STREAMS });
                tally.refused += 1;
                std::thread::yield_now();
                continue;
            }
        };
        for level in levels.iter() {
            tally.most = tally.most.max(book.usage_of(level.name(), level.limits(), NOW).streams.0);
        }
        // Some leave before an attempt starts, some while it runs.
        for attempt in 0..random.usize(0..=2) {
            let Some(reservation) = admission.reserve("p/m", attempt, |_| cost) else { continue };
            std::thread::yield_now();
            tally.spent += match random.u8(0..3) {
                0 => usual,
                1 => {
                    reservation.book(KnownCost::Within(0, Some(usual / 2), Written::Cut(0)));
                    usual / 2
                }
                _ => {
                    let exact = random.i64(0..=2_000);
                    reservation.book(KnownCost::Exact(exact));
                    exact
                }
            };
        }
    }
    tally
}

#[test]
fn requests_of_many_threads_leave_nothing_held() {
    let requests = std::env::var("PHOTOFINISH_STORM").map_or(REQUESTS, |count| count.parse().unwrap()) / THREADS;
    let limits = Limits {
        streams: Some(STREAMS),
        budget: Budget { day: Some(1 << 50), month: Some(1 << 50), ..Budget::default() },
        ..Limits::default()
    };
    let names =
        [LevelName::Everybody, LevelName::Team("t".into()), LevelName::User("u".into()), LevelName::Key("k".into())];
    let book = UsageBook::default();
    let limits = Arc::new(limits);
    let levels = book.levels_of(names.into_iter().map(|name| (name, limits.clone())));
    let tally: Vec<StormTally> = std::thread::scope(|scope| {
        let (book, levels) = (&book, &levels);
        let threads: Vec<_> =
            (0..THREADS as u64).map(|seed| scope.spawn(move || thread(requests, seed, book, levels))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (spent, refused): (i64, usize) =
        (tally.iter().map(|tally| tally.spent).sum(), tally.iter().map(|tally| tally.refused).sum());
    let most = tally.iter().map(|tally| tally.most).max();
    assert!(most == Some(STREAMS) && refused > 0, "{most:?} at once, {refused} refused");
    for level in levels.iter() {
        let used = book.usage_of(level.name(), level.limits(), NOW);
        let periods = used.periods.map(|period| (period.spent, period.reserved));
        assert_eq!((used.streams.0, periods), (0, [(spent, 0); 4]), "{}", level.name());
    }
}
