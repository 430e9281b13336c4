//! How soon a favourite is left that slows down or hangs, at one request a second, and how many requests are late by it.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use photofinish::clock::{HOUR_US, SECOND_US};
use photofinish::rehearse::{Ask, Fate, Launch, Moment, Outcome, Seen, Steering, View};
use serde_json::{Value, json};

use crate::baselines::Boxed;
use crate::policies::{Policy, letter, play};
use crate::recipe::{Climate, Recipe};
use crate::world::World;

/// The favourite is known well by then.
const HAPPENS_US: i64 = 2 * HOUR_US;
const LASTS_US: i64 = 10 * 60 * SECOND_US;
/// Late is whoever waits for so many times what the fastest upstream would have taken.
const LATE: f32 = 3.0;

/// What one policy did when its favourite got worse.
pub struct Reaction {
    pub policy: String,
    /// "x5" or "hangs".
    pub what: &'static str,
    /// Which upstream was first for most requests of the minutes before.
    pub favourite: usize,
    /// Requests that came in those ten minutes, were sent to the favourite first, and were late.
    pub late: usize,
    /// Requests of that time that were sent to it first, late or not.
    pub sent: usize,
    /// Requests in those ten minutes.
    pub of: usize,
}

/// Plays each policy three times: undisturbed, to learn its favourite, then with that one slow, then with it hanging.
pub fn reactions(recipe: &Recipe, seed: u64, policies: &[Policy]) -> Vec<Reaction> {
    let mut found = Vec::new();
    for policy in policies {
        let calm = quiet(recipe, seed);
        let before = first_choices(&calm, policy, seed);
        let favourite = favourite(&calm, &before);
        for what in ["x5", "hangs"] {
            let mut world = quiet(recipe, seed);
            let until_us = HAPPENS_US + LASTS_US;
            match what {
                "x5" => world.weather[favourite].slow_down(HAPPENS_US, until_us, 5.0),
                _ => world.weather[favourite].hang(HAPPENS_US, until_us),
            }
            found.push(reaction(&world, policy, seed, favourite, what));
        }
    }
    found
}

pub fn print(out: &mut impl Write, reactions: &[Reaction]) -> io::Result<()> {
    writeln!(out, "\n## A favourite gets worse for ten minutes, one request a second\n")?;
    writeln!(out, "| policy | favourite | what | late by it | sent to it first | of |\n|{}", " --- |".repeat(6))?;
    for Reaction { policy, what, favourite, late, sent, of } in reactions {
        writeln!(out, "| {policy} | {} | {what} | {late} | {sent} | {of} |", letter(*favourite))?;
    }
    Ok(())
}

pub fn json(reactions: &[Reaction]) -> Value {
    let one = |reaction: &Reaction| {
        json!({ "policy": reaction.policy, "what": reaction.what, "late": reaction.late, "sent": reaction.sent,
            "of": reaction.of })
    };
    json!({ "reactions": reactions.iter().map(one).collect::<Vec<_>>() })
}

/// Three hours without degradations or outages, so that what happens is what is looked at.
fn quiet(recipe: &Recipe, seed: u64) -> World {
    let never = 1e9;
    let climate = Climate {
        degraded_every_h: never,
        brown_out_every_h: never,
        surge_every_h: never,
        diurnal: 0.0,
        ..recipe.climate
    };
    World::new(Recipe { days: 0.125, rate: 1.0, climate, ..recipe.clone() }, seed)
}

/// For each request, the upstream that was asked first.
fn first_choices(world: &World, policy: &Policy, seed: u64) -> Vec<(i64, usize)> {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let tap = Tap { inner: Boxed(policy.steering(world, seed)), firsts: Rc::clone(&heard) };
    play(world, Box::new(tap), world.requests.iter().copied());
    let mut firsts = heard.take();
    firsts.sort_unstable();
    firsts.into_iter().map(|(_, at_us, first)| (at_us, first)).collect()
}

/// Of the ten minutes before it happens.
fn favourite(world: &World, firsts: &[(i64, usize)]) -> usize {
    let mut counts = vec![0; world.tariffs.len()];
    let lately = HAPPENS_US - LASTS_US..HAPPENS_US;
    firsts.iter().filter(|(at_us, _)| lately.contains(at_us)).for_each(|(_, first)| counts[*first] += 1);
    (0..counts.len()).max_by_key(|upstream| counts[*upstream]).unwrap_or(0)
}

fn reaction(world: &World, policy: &Policy, seed: u64, favourite: usize, what: &'static str) -> Reaction {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let tap = Tap { inner: Boxed(policy.steering(world, seed)), firsts: Rc::clone(&heard) };
    let run = play(world, Box::new(tap), world.requests.iter().copied());
    let mut firsts = heard.take();
    firsts.sort_unstable();
    let during = firsts.iter().filter(|(_, at_us, _)| (HAPPENS_US..HAPPENS_US + LASTS_US).contains(at_us));
    let during: Vec<_> = during.collect();
    let there = during.iter().filter(|(_, _, first)| *first == favourite);
    let is_late = |id: usize| run.ttft_ms[id] > LATE * best_ms(world, id);
    let late = there.clone().filter(|(id, ..)| is_late(*id)).count();
    Reaction { policy: policy.name(), what, favourite, late, sent: there.count(), of: during.len() }
}

/// The fastest upstream's time for a request.
fn best_ms(world: &World, id: usize) -> f32 {
    let request = world.requests[id];
    let times = (0..world.tariffs.len()).filter_map(|upstream| {
        let prompt = world.prompt(id);
        let launch = Launch { request, upstream, prompt, at_us: request.at_us, in_flight: 0 };
        if let Fate::Answers { ttft_us, .. } = world.fate(&launch) { Some(ttft_us as f32 / 1e3) } else { None }
    });
    times.fold(f32::INFINITY, f32::min)
}

/// Listens to whom a policy asks first: request, time, upstream.
struct Tap<'w> {
    inner: Boxed<'w>,
    firsts: Rc<RefCell<Vec<(usize, i64, usize)>>>,
}

impl Steering for Tap<'_> {
    fn decide(&mut self, view: &View<'_>, moment: Moment) -> Ask {
        let ask = self.inner.decide(view, moment);
        if let (Moment::Arrival, Some(first)) = (moment, ask.start.first()) {
            self.firsts.borrow_mut().push((view.request.id, view.now_us, *first));
        }
        ask
    }

    fn launched(&mut self, upstream: usize, now_us: i64) {
        self.inner.launched(upstream, now_us);
    }

    fn saw(&mut self, upstream: usize, seen: Seen, now_us: i64) {
        self.inner.saw(upstream, seen, now_us);
    }

    fn ended(&mut self, outcome: &Outcome<'_>) {
        self.inner.ended(outcome);
    }
}
