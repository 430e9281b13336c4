//! Decides a number of times over five upstreams and does nothing else: for counting instructions and allocations with
//! valgrind.
//!
//! `decisions COUNT open|next`: how many, at a request's arrival or at a timer. Two runs with different counts are
//! subtracted, so that the start of the process does not count (`docs/benchmarks.md`).

use std::hint::black_box;
use std::io::{self, Write};

use photofinish::routing::adaptive::{self, Aim, Candidate, Learner, Ledger, Outlook, Question, Running, Sent};

const SECOND: i64 = 1_000_000;
const NOW: i64 = 1_000 * SECOND;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, what] = arguments.as_slice() else {
        return Err(io::Error::other("wanted: COUNT open|next"));
    };
    let count: usize = count.parse().map_err(io::Error::other)?;
    let outlooks: Vec<Outlook> = (0..5).map(outlook).collect();
    let candidates: Vec<Candidate<'_>> = outlooks.iter().map(candidate).collect();
    let mut ledger = Ledger::new(0.1);
    (0..100).for_each(|_| ledger.settle(1.0, 0.0, 0.05));
    let (aim, terms) = (Aim::Ttft, ledger.terms());
    let question = Question { candidates: &candidates, aim, terms, max_running: 3, now: NOW, elapsed_us: 0, draw: 1.0 };
    let timer = Question { elapsed_us: 450_000, ..question };
    let late = [Running { candidate: 0, waited_us: 450_000 }];
    for _ in 0..count {
        if what == "open" {
            black_box(adaptive::open(black_box(&question)));
        } else {
            black_box(adaptive::next(black_box(&timer), black_box(&late)));
        }
    }
    writeln!(io::stdout(), "{count} decisions")
}

/// Of an upstream of which a thousand attempts were seen.
fn outlook(upstream: u64) -> Outlook {
    let mut learner = Learner::new();
    let mut draws = fastrand::Rng::with_seed(upstream);
    for second in 0..1_000 {
        let sent = Sent { uncached_tokens: draws.f64() * 4_000.0, in_flight: draws.u32(0..4) };
        let ttft_us = (200_000.0 + 20_000.0 * upstream as f64) * (0.5 + draws.f64() + 1.0 / (1.0 - draws.f64()) / 20.0);
        learner.launched(second * SECOND);
        learner.first_token(sent, ttft_us as i64, second * SECOND);
    }
    learner.outlook()
}

fn candidate(outlook: &Outlook) -> Candidate<'_> {
    let sent = Sent { uncached_tokens: 1_000.0, in_flight: 1 };
    Candidate { outlook, sent, cost: 1.0, domain: None, may_hedge: true, out: false, waiting: &[] }
}
