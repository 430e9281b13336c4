//! The candidates of a race in the words of `routing::adaptive`: what each depends on, costs and is known to do. Who is
//! started is the pilot's to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::Guard;

use crate::attempt::Progress;
use crate::clock::micros;
use crate::config::{Objective, RaceSettings};
use crate::learning::{Known, Longest};
use crate::routing::adaptive::{self, Aim, Candidate, Outlook, Running, Sent, Why};
use crate::routing::plan;
use crate::routing::tariff::{Prompt, Tariff};

/// A candidate, and what is known of it.
pub struct Steered {
    pub known: Arc<Known>,
    pub tariff: Tariff,
    pub prompt: Prompt,
    /// Tokens of the prompt that it has read lately, whether it caches or not.
    pub known_tokens: f64,
    pub domain: Option<u32>,
    pub runner: plan::Runner,
    /// What its latest attempt depends on: what is in flight now has that attempt among it.
    pub started: Option<Sent>,
}

/// A candidate that runs, as the race sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub candidate: usize,
    /// Since it was started.
    pub waited: Duration,
    /// None before its first token.
    pub progress: Option<Progress>,
}

/// What is known of a candidate at this moment.
pub struct Looked {
    outlook: Guard<Arc<Outlook>>,
    waits: Longest,
}

impl Steered {
    /// Whoever waits there since before `began_us` is looked at too.
    pub fn look(&self, began_us: i64, now: i64) -> Looked {
        Looked { outlook: self.known.outlook(), waits: self.known.longest_waits(began_us, now) }
    }

    /// What starting it and cutting it costs.
    pub fn cost(&self, answer_tokens: f64) -> f64 {
        self.tariff.started(self.prompt, answer_tokens)
    }

    pub fn candidate<'l>(&self, looked: &'l Looked, out: bool, answer_tokens: f64) -> Candidate<'l> {
        Candidate {
            outlook: &looked.outlook,
            sent: self.started.unwrap_or_else(|| self.sent()),
            cost: self.cost(answer_tokens),
            domain: self.domain,
            may_hedge: true,
            out,
            waiting: looked.waits.as_slice(),
        }
    }

    /// As if it were sent now.
    pub fn sent(&self) -> Sent {
        Sent { uncached_tokens: self.prompt.uncached, in_flight: self.known.in_flight() }
    }

    /// On trial: behind all others.
    pub fn extra(&self) -> bool {
        self.runner.extra
    }
}

pub fn aim(settings: &RaceSettings) -> Aim {
    match settings.optimise {
        Objective::Ttft => Aim::Ttft,
        Objective::Completion => Aim::Completion,
        Objective::Goodput => Aim::Goodput { ttft_us: micros(settings.slo.ttft), tpot_us: micros(settings.slo.tpot) },
    }
}

/// Those that are not on trial.
pub fn regular_of(steered: &[Steered], running: &[Seen]) -> Vec<Seen> {
    running.iter().filter(|seen| !steered[seen.candidate].extra()).copied().collect()
}

/// Those that the client can count on: nobody knows what a trial is worth. It is better than none.
pub fn carrying(steered: &[Steered], running: &[Seen]) -> Vec<Seen> {
    let regular = regular_of(steered, running);
    if regular.is_empty() { running.to_vec() } else { regular }
}

pub fn running_of(seen: &[Seen]) -> Vec<Running> {
    seen.iter().map(|seen| Running { candidate: seen.candidate, waited_us: micros(seen.waited) }).collect()
}

/// An event may hold several tokens; characters tell how many at least.
pub fn progress_of(seen: &Seen) -> adaptive::Progress {
    adaptive::Progress {
        candidate: seen.candidate,
        waited_us: micros(seen.waited),
        first_token_us: seen.progress.map(|progress| progress.first_token_us),
        tokens: seen.progress.map_or(0, |progress| progress.events.max(progress.chars / 4)),
    }
}

/// Why a race was run as it was, gathered until its row is written. Cheap to clone; all clones gather one.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    bits: Arc<AtomicU16>,
}

impl Reasons {
    pub fn add(&self, why: Why) {
        self.bits.fetch_or(bit(why), Relaxed);
    }

    /// Their codes with spaces between; none before there is any.
    pub fn text(&self) -> Option<String> {
        let bits = self.bits.load(Relaxed);
        let codes: Vec<&str> = Why::ALL.into_iter().filter(|why| bits & bit(*why) != 0).map(Why::as_str).collect();
        (!codes.is_empty()).then(|| codes.join(" "))
    }
}

fn bit(why: Why) -> u16 {
    Why::ALL.iter().position(|other| *other == why).map_or(0, |place| 1 << place)
}
