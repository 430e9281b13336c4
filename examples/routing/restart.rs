//! The first requests after a restart: by a state that ran on, by one that was replayed from what had been seen, and by one
//! that knows nothing.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use photofinish::config::RaceSettings;
use photofinish::rehearse::{
    AskReason, FinishedAttempt, ObservedProgress, Outcome, PolicyAnswer, RaceView, RoutedModel, SimulatedPolicy,
    SimulatedRequest,
};
use serde_json::{Value, json};

use crate::figures::{mean, quantile, sorted};
use crate::policies::{Policy, play};
use crate::world::World;

/// Places of the restart, so that its luck is not one moment's.
const PLACES: usize = 20;
/// Requests that are looked at after each.
const FIRST: usize = 100;
/// Requests whose rows are replayed.
const REPLAYED: usize = 20_000;

/// What a state served: its name, mean and p99 of the TTFT in milliseconds.
pub type Served = (&'static str, f64, f64);

/// All three over the same stretches of a world's requests.
pub fn restarts(world: &World, settings: &RaceSettings, seed: u64) -> Vec<Served> {
    let mut times: [Vec<f32>; 3] = Default::default();
    let count = world.requests.len();
    for place in 1..=PLACES {
        let at = count * place / (PLACES + 1);
        let from = at.saturating_sub(REPLAYED);
        let until = (at + FIRST).min(count);
        let rows = Rc::new(RefCell::new(Vec::new()));
        let routed = || RoutedModel::new(settings.clone(), &world.tariffs, seed);
        let writes = Scribe { inner: routed(), rows: Rc::clone(&rows) };
        let ran_on = play(world, Box::new(writes), world.requests[from..until].iter().copied());
        times[0].extend(&ran_on.ttft_ms[at..until]);
        let mut replayed = routed();
        let stopped_us = world.requests[at].at_us;
        for row in rows.take().iter().filter(|row| row.was_written_before(stopped_us)) {
            row.tell(&mut replayed);
        }
        for (place, state) in [(1, replayed), (2, routed())] {
            let run = play(world, Box::new(state), world.requests[at..until].iter().copied());
            times[place].extend(&run.ttft_ms[at..until]);
        }
    }
    let names = ["ran on", "replayed", "fresh"];
    let of = |(name, times): (&'static str, Vec<f32>)| (name, mean(&times), quantile(&sorted(&times), 0.99));
    names.into_iter().zip(times).map(of).collect()
}

pub fn print(out: &mut impl Write, policy: &Policy, served: &[Served]) -> io::Result<()> {
    writeln!(out, "\n## The first {FIRST} requests after a restart, {PLACES} times, {}\n", policy.name())?;
    writeln!(out, "| state | mean | p99 |\n|{}", " --- |".repeat(3))?;
    for (name, mean, p99) in served {
        writeln!(out, "| {name} | {mean:.0} | {p99:.0} |")?;
    }
    Ok(())
}

pub fn json(served: &[Served]) -> Value {
    let one = |(name, mean, p99): &Served| json!({ "state": name, "mean_ms": mean, "p99_ms": p99 });
    json!({ "restarts": served.iter().map(one).collect::<Vec<_>>() })
}

/// What was written down.
enum Row {
    Attempt {
        upstream: usize,
        /// None: it was started.
        seen: Option<ObservedProgress>,
        now_us: i64,
    },
    Race {
        request: SimulatedRequest,
        ttft_us: Option<i64>,
        took_us: i64,
        winner: Option<usize>,
        tpot_us: Option<f64>,
        started: Vec<FinishedAttempt>,
    },
}

impl Row {
    fn was_written_before(&self, stopped_us: i64) -> bool {
        match self {
            Row::Attempt { now_us, .. } => *now_us < stopped_us,
            Row::Race { request, took_us, .. } => request.at_us + took_us < stopped_us,
        }
    }

    fn tell(&self, routed: &mut RoutedModel) {
        match self {
            Row::Attempt { upstream, seen: Some(seen), now_us } => routed.saw(*upstream, *seen, *now_us),
            Row::Attempt { upstream, seen: None, now_us } => routed.launched(*upstream, *now_us),
            Row::Race { request, ttft_us, took_us, winner, tpot_us, started } => {
                let (ttft_us, took_us, winner, tpot_us) = (*ttft_us, *took_us, *winner, *tpot_us);
                routed.recall(&Outcome { request, ttft_us, took_us, winner, tpot_us, started });
            }
        }
    }
}

/// Writes down what a policy hears.
struct Scribe {
    inner: RoutedModel,
    rows: Rc<RefCell<Vec<Row>>>,
}

impl SimulatedPolicy for Scribe {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        self.inner.decide(view, moment)
    }

    fn launched(&mut self, upstream: usize, now_us: i64) {
        self.rows.borrow_mut().push(Row::Attempt { upstream, seen: None, now_us });
        self.inner.launched(upstream, now_us);
    }

    fn saw(&mut self, upstream: usize, seen: ObservedProgress, now_us: i64) {
        self.rows.borrow_mut().push(Row::Attempt { upstream, seen: Some(seen), now_us });
        self.inner.saw(upstream, seen, now_us);
    }

    fn ended(&mut self, outcome: &Outcome<'_>) {
        let Outcome { ttft_us, took_us, winner, tpot_us, .. } = *outcome;
        let (request, started) = (*outcome.request, outcome.started.to_vec());
        self.rows.borrow_mut().push(Row::Race { request, ttft_us, took_us, winner, tpot_us, started });
        self.inner.ended(outcome);
    }
}
