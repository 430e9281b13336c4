//! How soon a policy leaves a favourite that slows down or hangs, at one request per second, and how many requests are
//! late because of it.

use std::io::{self, Write};

use photofinish_base::clock::{HOUR_US, SECOND_US};
use photofinish_lab::rehearse::{Dispatch, PlayedRace, SimulatedResponse};
use serde_json::{Value, json};

use crate::figures::Run;
use crate::policies::{Policy, play};
use crate::recipe::{Climate, Recipe};
use crate::world::World;

/// When the favourite gets worse. By then its statistics are stable.
const HAPPENS_US: i64 = HOUR_US;
/// The favourite is the upstream with the most first attempts in this time before.
const LATELY_US: i64 = 60 * SECOND_US;
/// Number of worlds; averages out chance.
const PLACES: u64 = 10;
const LASTS_US: i64 = 10 * 60 * SECOND_US;
/// A request is late beyond this multiple of the fastest upstream's time.
const LATE: f32 = 3.0;

/// The result of one policy after its favourite got worse.
pub struct Reaction {
    pub policy: String,
    /// "x5" or "hangs".
    pub what: &'static str,
    /// Per world: late requests within ten minutes whose first attempt went to the favourite.
    pub late: Vec<usize>,
    /// Per world: all requests within that time whose first attempt went to the favourite.
    pub sent: Vec<usize>,
    /// Requests within the ten minutes, in all worlds.
    pub of: usize,
}

/// Runs each policy in each world three times: undisturbed, to find its favourite, then with a slow favourite, then
/// with a hanging one.
pub fn reactions(recipe: &Recipe, seed: u64, policies: &[Policy]) -> anyhow::Result<Vec<Reaction>> {
    let mut found = Vec::new();
    for policy in policies {
        let nothing = |what| Reaction { policy: policy.name(), what, late: Vec::new(), sent: Vec::new(), of: 0 };
        let [mut slows, mut hangs] = ["x5", "hangs"].map(nothing);
        for place in 0..PLACES {
            let seed = seed + 1_000 * (1 + place);
            let mut world = quiet(recipe, seed);
            let favourite = favourite(&world, &heard(&world, policy, seed)?.0);
            world.weather[favourite].slow_down(HAPPENS_US, HAPPENS_US + LASTS_US, 5.0);
            slows.add(&world, policy, seed, favourite)?;
            world.weather[favourite].hang(HAPPENS_US, HAPPENS_US + LASTS_US);
            hangs.add(&world, policy, seed, favourite)?;
        }
        found.extend([slows, hangs]);
    }
    Ok(found)
}

pub fn print(out: &mut impl Write, reactions: &[Reaction]) -> io::Result<()> {
    writeln!(out, "\n## A favourite gets worse for ten minutes, one request a second, in {PLACES} worlds\n")?;
    writeln!(
        out,
        "| policy | what | late by it: mean | most | sent to it first: mean | most | of |\n|{}",
        " --- |".repeat(7)
    )?;
    for Reaction { policy, what, late, sent, of } in reactions {
        let [late, sent] = [late, sent].map(|counts| {
            let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
            format!("{mean:.1} | {}", counts.iter().max().unwrap_or(&0))
        });
        writeln!(out, "| {policy} | {what} | {late} | {sent} | {of} |")?;
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

/// An hour and a half without degradations or outages, so that only the tested change happens.
fn quiet(recipe: &Recipe, seed: u64) -> World {
    let never = 1e9;
    let climate = Climate {
        degraded_every_h: never,
        brown_out_every_h: never,
        surge_every_h: never,
        diurnal: 0.0,
        ..recipe.climate
    };
    World::new(Recipe { days: 0.05, rate: 1.0, climate, ..recipe.clone() }, seed)
}

/// Time and first upstream of each request; and the run.
fn heard(world: &World, policy: &Policy, seed: u64) -> anyhow::Result<(Vec<(i64, usize)>, Run)> {
    let mut firsts = Vec::new();
    let mut hear = |race: &PlayedRace<'_>| {
        if let Some(first) = race.attempts.first() {
            firsts.push((race.request.id, race.request.at_us, first.upstream));
        }
    };
    let run = play(world, policy.rehearsal(world, seed)?, world.requests.iter().copied(), &mut hear);
    firsts.sort_unstable();
    Ok((firsts.into_iter().map(|(_, at_us, first)| (at_us, first)).collect(), run))
}

fn favourite(world: &World, firsts: &[(i64, usize)]) -> usize {
    let mut counts = vec![0; world.upstreams.len()];
    let lately = HAPPENS_US - LATELY_US..HAPPENS_US;
    firsts.iter().filter(|(at_us, _)| lately.contains(at_us)).for_each(|(_, first)| counts[*first] += 1);
    (0..counts.len()).max_by_key(|upstream| counts[*upstream]).unwrap_or(0)
}

impl Reaction {
    fn add(&mut self, world: &World, policy: &Policy, seed: u64, favourite: usize) -> anyhow::Result<()> {
        let (firsts, run) = heard(world, policy, seed)?;
        let meanwhile = HAPPENS_US..HAPPENS_US + LASTS_US;
        let during = firsts.iter().enumerate().filter(|(_, (at_us, _))| meanwhile.contains(at_us));
        let there = during.clone().filter(|(_, (_, first))| *first == favourite);
        let is_late = |id: usize| run.ttft_ms[id] > LATE * best_ms(world, id);
        self.late.push(there.clone().filter(|(id, _)| is_late(*id)).count());
        self.sent.push(there.count());
        self.of += during.count();
        Ok(())
    }
}

/// The fastest upstream's time for a request.
fn best_ms(world: &World, id: usize) -> f32 {
    let request = world.requests[id];
    let times = (0..world.upstreams.len()).filter_map(|upstream| {
        let prompt = world.prompt(id);
        let dispatch = Dispatch { request, upstream, prompt, at_us: request.at_us, in_flight: 0, retry: 0 };
        if let SimulatedResponse::Answers { ttft_us, .. } = world.response(&dispatch) {
            Some(ttft_us as f32 / 1e3)
        } else {
            None
        }
    });
    times.fold(f32::INFINITY, f32::min)
}
