//! The time that passes for requests: real time without the server's stalls. Pure.

use std::time::Duration;

use photofinish_base::clock::Instant;
use photofinish_config::config::ServerStall;

/// Knows when the server stands still.
#[derive(Clone, Copy)]
pub(super) struct ServerClock {
    started: Instant,
    stall: Option<ServerStall>,
}

impl ServerClock {
    pub(super) fn new(started: Instant, stall: Option<ServerStall>) -> ServerClock {
        ServerClock { started, stall }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// When `work` that begins at `from` is done. Without work it is the end of the stall at `from`, or `from` itself.
    pub(super) fn after(&self, from: Instant, work: Duration) -> Instant {
        let Some(ServerStall { length, every }) = self.stall else { return from + work };
        let (length, every) = (length.as_nanos(), every.as_nanos());
        let since = (from - self.started).as_nanos();
        // The stall with number k ≥ 1 lasts from k × every on, and begins after every + (k − 1) × (every − length) of work.
        let before = match since / every {
            0 => 0,
            begun => (begun - 1) * length + (since % every).min(length),
        };
        let worked = since - before + work.as_nanos();
        let stalls = worked.checked_sub(every).map_or(0, |further| 1 + further / (every - length));
        self.started + nanos(worked + stalls * length)
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn work_waits_for_the_end_of_each_stall() {
        let start = Instant::now();
        let clock = ServerClock::new(start, Some(ServerStall { length: 2 * S, every: 20 * S }));
        for (from, work, until) in [
            (0, 5, 5),
            (0, 19, 19),
            // What is due at the moment of a stall waits for its end.
            (0, 20, 22),
            (18, 3, 23),
            // Nothing is done in a stall.
            (20, 0, 22),
            (21, 1, 23),
            (22, 18, 42),
            (22, 17, 39),
            (0, 38, 42),
            (0, 56, 62),
            (41, 30, 74),
        ] {
            assert_eq!(clock.after(start + from * S, work * S) - start, until * S, "{work} s of work from {from} s on");
        }
        let without = ServerClock::new(start, None);
        assert_eq!(without.after(start + 20 * S, 3 * S) - start, 23 * S);
    }

    proptest! {
        /// Work in two parts ends when the same work in one part does, and never inside a stall.
        #[test]
        fn parts_of_work_add_up(length in 1_u64..50, more in 1_u64..50, from in 0_u64..500, a in 0_u64..300, b in 0_u64..300) {
            let ms = Duration::from_millis;
            let every = length + more;
            let start = Instant::now();
            let clock = ServerClock::new(start, Some(ServerStall { length: ms(length), every: ms(every) }));
            let first = clock.after(start + ms(from), ms(a));
            prop_assert_eq!(clock.after(first, ms(b)), clock.after(start + ms(from), ms(a + b)));
            let at = u64::try_from((first - start).as_millis()).unwrap();
            prop_assert!(at < every || at % every >= length, "{} is in a stall of {} every {}", at, length, every);
        }
    }
}
