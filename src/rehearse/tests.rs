//! A small world with tails, and every policy of the product through it; and the engine's own bookkeeping.

use std::path::Path;

use super::*;
use crate::clock::{HOUR_US, SECOND_US};
use crate::config::parse;

const UPSTREAMS: usize = 3;

/// Three upstreams with tails of their own; one draw for each request and upstream.
struct Small {
    tariffs: Vec<SimulatedTariff>,
    /// From then on the first one hangs.
    hangs_from_us: i64,
}

impl Small {
    fn new() -> Small {
        let tariff = SimulatedTariff { input: 1.0, cached: 0.1, output: 4.0, bills_on: false, domain: None };
        Small { tariffs: vec![tariff; UPSTREAMS], hangs_from_us: i64::MAX }
    }
}

impl SimulatedUpstreams for Small {
    fn tariffs(&self) -> &[SimulatedTariff] {
        &self.tariffs
    }

    fn prompt(&self, request: &SimulatedRequest, _: usize, _: i64) -> SimulatedPrompt {
        let uncached = 300.0 * (1 + request.id % 7) as f64;
        SimulatedPrompt { uncached, cached: 0.0 }
    }

    fn fate(&mut self, launch: &SimulatedStart) -> SimulatedOutcome {
        let mut draws = fastrand::Rng::with_seed((launch.request.id * UPSTREAMS + launch.upstream) as u64);
        let body = draws.f64() + draws.f64();
        let tail_ms = if draws.f64() < 0.03 { 400.0 * (1.0 - draws.f64()).powf(-0.8) } else { 0.0 };
        if launch.upstream == 0 && launch.at_us >= self.hangs_from_us {
            return SimulatedOutcome::Hangs;
        }
        if draws.f64() < 0.005 {
            return SimulatedOutcome::Fails { after_us: 50_000 };
        }
        let ttft_ms =
            (120.0 + 20.0 * launch.upstream as f64 + launch.prompt.uncached / 8.0) * (0.6 + 0.4 * body) + tail_ms;
        SimulatedOutcome::Answers { ttft_us: (1e3 * ttft_ms) as i64, tpot_us: 10_000.0 }
    }
}

fn requests(count: usize) -> impl Iterator<Item = SimulatedRequest> {
    (0..count).map(|id| SimulatedRequest { id, at_us: id as i64 * SECOND_US, output_tokens: 100, whole: false })
}

fn routed(field: &Small, lines: &str) -> RoutedModel {
    let config = parse(&format!("[race]\n{lines}"), Path::new("x"), &|_| None).unwrap();
    RoutedModel::new(config.race, field.tariffs(), 1)
}

/// What is kept of a race.
#[derive(Clone, Debug, PartialEq)]
struct Heard {
    id: usize,
    ttft_us: Option<i64>,
    first: usize,
    base: f64,
    extra: f64,
}

fn play(field: &mut Small, steering: &mut impl SimulatedPolicy, count: usize) -> Vec<Heard> {
    let mut heard = Vec::new();
    run(requests(count), field, steering, &RaceRules::default(), &mut |outcome: &Outcome<'_>| {
        heard.push(Heard {
            id: outcome.request.id,
            ttft_us: outcome.ttft_us,
            first: outcome.started[0].upstream,
            base: outcome.base(),
            extra: outcome.extra(),
        });
    });
    heard.sort_by_key(|heard| heard.id);
    heard
}

/// Of the second half, in milliseconds.
fn p99_ms(heard: &[Heard]) -> i64 {
    let mut times: Vec<i64> = heard[heard.len() / 2..].iter().filter_map(|heard| heard.ttft_us).collect();
    times.sort_unstable();
    times[times.len() * 99 / 100] / 1_000
}

#[test]
fn every_policy_ends_every_request_the_same_way_each_time() {
    for policy in ["race", "hedge", "fallback", "weighted", "fastest", "rule", "adaptive"] {
        let lines = format!("policy = \"{policy}\"");
        let once = || play(&mut Small::new(), &mut routed(&Small::new(), &lines), 400);
        let heard = once();
        assert!(heard.iter().map(|heard| heard.id).eq(0..400), "{policy}");
        assert!(heard.iter().all(|heard| heard.ttft_us.is_some()), "{policy}: three upstreams never fail together");
        assert_eq!(heard, once(), "{policy}");
    }
}

#[test]
fn what_learns_is_nearer_to_a_race_of_all_than_to_the_best_alone_and_keeps_to_its_budget() {
    const COUNT: usize = 5_400;
    const BUDGET: f64 = 0.1;
    let p99 = |lines: &str| p99_ms(&play(&mut Small::new(), &mut routed(&Small::new(), lines), COUNT));
    let (alone, all) = (p99("policy = \"fallback\""), p99("policy = \"race\""));
    let adaptive = play(&mut Small::new(), &mut routed(&Small::new(), "policy = \"adaptive\"\nbudget = 0.1"), COUNT);
    let learned = p99_ms(&adaptive);
    assert!(learned - all < alone - learned, "alone {alone}, adaptive {learned}, all {all} ms");
    let mean = adaptive.iter().map(|heard| heard.base).sum::<f64>() / COUNT as f64;
    for hour in adaptive.chunks((HOUR_US / SECOND_US) as usize) {
        let sum = |part: fn(&Heard) -> f64| hour.iter().map(part).sum::<f64>();
        let (base, extra) = (sum(|heard| heard.base), sum(|heard| heard.extra));
        assert!(extra > 0.0 && extra <= BUDGET * base + 200.0 * BUDGET * mean, "{extra} beside {base}");
    }
}

/// The first of two fails for a while.
struct Down {
    tariffs: Vec<SimulatedTariff>,
    seconds: std::ops::Range<i64>,
}

impl SimulatedUpstreams for Down {
    fn tariffs(&self) -> &[SimulatedTariff] {
        &self.tariffs
    }

    fn prompt(&self, _: &SimulatedRequest, _: usize, _: i64) -> SimulatedPrompt {
        SimulatedPrompt { uncached: 300.0, cached: 0.0 }
    }

    fn fate(&mut self, launch: &SimulatedStart) -> SimulatedOutcome {
        let is_down = launch.upstream == 0 && self.seconds.contains(&(launch.at_us / SECOND_US));
        // The favourite is the slower one.
        let ttft_us = if launch.upstream == 0 { 200_000 } else { 100_000 };
        if is_down {
            SimulatedOutcome::Fails { after_us: 50_000 }
        } else {
            SimulatedOutcome::Answers { ttft_us, tpot_us: 1_000.0 }
        }
    }
}

#[test]
fn with_trials_a_healed_favourite_is_found_back_beside_the_first() {
    let mut field = Down { tariffs: Small::new().tariffs[..2].to_vec(), seconds: 10..70 };
    let config = parse("[race]\npolicy = \"fallback\"", Path::new("x"), &|_| None).unwrap();
    let mut routed = RoutedModel::new(config.race, field.tariffs(), 1);
    let rules = RaceRules { breaker_failures: 2, breaker_open_us: 5 * SECOND_US, trials: true, ..RaceRules::default() };
    let (mut firsts, mut asked, mut slow) = (Vec::new(), 0, 0);
    run(requests(100), &mut field, &mut routed, &rules, &mut |outcome: &Outcome<'_>| {
        let during = (12..70).contains(&(outcome.request.at_us / SECOND_US));
        asked += usize::from(during && outcome.started.iter().any(|started| started.upstream == 0));
        slow += usize::from(during && outcome.ttft_us != Some(100_000));
        firsts.push((outcome.request.id, outcome.started[0].upstream));
    });
    firsts.sort_unstable();
    assert!((11..=12).contains(&asked), "{asked} trials in a minute");
    assert_eq!(slow, 0, "no client waits for one");
    let back = firsts.iter().position(|(id, first)| *id >= 70 && *first == 0).unwrap();
    assert!(back <= 76, "first again at {back} s");
    assert!(firsts[back..].iter().all(|(_, first)| *first == 0));
}

#[test]
fn a_favourite_that_hangs_is_left() {
    let mut field = Small { hangs_from_us: 1_200 * SECOND_US, ..Small::new() };
    let mut routed = routed(&field, "policy = \"adaptive\"\nbudget = 0.1");
    let heard = play(&mut field, &mut routed, 1_500);
    let favoured = |heard: &[Heard]| heard.iter().filter(|heard| heard.first == 0).count();
    assert!(favoured(&heard[900..1_200]) > 200, "the fastest was the favourite");
    assert!(favoured(&heard[1_200..]) < 60, "{} of 300 went to one that hangs", favoured(&heard[1_200..]));
    let late = heard[1_200..].iter().filter(|heard| heard.ttft_us.is_none_or(|ttft_us| ttft_us > 2 * SECOND_US));
    assert!(late.clone().count() < 6, "{:?}", late.collect::<Vec<_>>());
}

/// Upstreams of which one is clearly the quickest, all with stragglers; many requests.
struct Apart(Vec<SimulatedTariff>);

impl Apart {
    const MEDIANS_MS: [f64; 5] = [270.0, 330.0, 390.0, 480.0, 660.0];
}

impl SimulatedUpstreams for Apart {
    fn tariffs(&self) -> &[SimulatedTariff] {
        &self.0
    }

    fn prompt(&self, _: &SimulatedRequest, _: usize, _: i64) -> SimulatedPrompt {
        SimulatedPrompt { uncached: 250.0, cached: 0.0 }
    }

    fn fate(&mut self, launch: &SimulatedStart) -> SimulatedOutcome {
        let mut draws = fastrand::Rng::with_seed((launch.request.id * 5 + launch.upstream) as u64);
        let normal = (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0;
        let times = if draws.f64() < 0.03 { 2.0 * (1.0 - draws.f64()).powf(-1.0 / 1.2) } else { 1.0 };
        let ttft_ms = Apart::MEDIANS_MS[launch.upstream] * (0.25 * normal).exp() * times;
        SimulatedOutcome::Answers { ttft_us: (1e3 * ttft_ms) as i64, tpot_us: 10_000.0 }
    }
}

#[test]
fn stragglers_do_not_drive_it_from_the_quickest() {
    for policy in ["fastest", "rule", "adaptive"] {
        let config = parse(&format!("[race]\npolicy = \"{policy}\""), Path::new("x"), &|_| None).unwrap();
        let tariff = SimulatedTariff { input: 1.0, cached: 0.1, output: 4.0, bills_on: false, domain: None };
        let mut field = Apart(vec![tariff; 5]);
        let mut routed = RoutedModel::new(config.race, &field.0, 1);
        let requests = (0..3_000).map(|id| SimulatedRequest {
            id,
            at_us: id as i64 * SECOND_US / 15,
            output_tokens: 20,
            whole: false,
        });
        let mut first = [0; 5];
        let mut count = |outcome: &Outcome<'_>| first[outcome.started[0].upstream] += 1;
        run(requests, &mut field, &mut routed, &RaceRules::default(), &mut count);
        assert!(first[0] > 2_700, "{policy}: {first:?}");
    }
}

/// Starts these one after the other, so long apart.
struct Script {
    order: Vec<usize>,
    apart_us: i64,
    seen: Vec<(usize, ObservedProgress)>,
}

impl SimulatedPolicy for Script {
    fn decide(&mut self, view: &RaceView<'_>, moment: AskReason) -> PolicyAnswer {
        let open = self.order.iter().copied().find(|upstream| view.seats[*upstream].open);
        let start = open.filter(|_| moment != AskReason::Failure || view.running.is_empty());
        PolicyAnswer { start: start.into_iter().collect(), again_after_us: open.map(|_| self.apart_us) }
    }

    fn saw(&mut self, upstream: usize, seen: ObservedProgress, _: i64) {
        self.seen.push((upstream, seen));
    }
}

/// Upstreams with one fate each.
struct Fixed(Vec<SimulatedOutcome>, Vec<SimulatedTariff>);

impl SimulatedUpstreams for Fixed {
    fn tariffs(&self) -> &[SimulatedTariff] {
        &self.1
    }

    fn prompt(&self, _: &SimulatedRequest, _: usize, _: i64) -> SimulatedPrompt {
        SimulatedPrompt { uncached: 100.0, cached: 0.0 }
    }

    fn fate(&mut self, launch: &SimulatedStart) -> SimulatedOutcome {
        self.0[launch.upstream]
    }
}

/// One request of 11 tokens, whose attempts are started 100 ms apart: TTFT and time in ms, winner, costs, and what was seen.
fn one_race(
    fates: &[SimulatedOutcome],
    bills_on: bool,
    whole: bool,
) -> (Option<i64>, i64, Option<usize>, Vec<f64>, Script) {
    let tariff = SimulatedTariff { input: 1.0, cached: 0.1, output: 4.0, bills_on, domain: None };
    let mut field = Fixed(fates.to_vec(), vec![tariff; fates.len()]);
    let mut script = Script { order: (0..fates.len()).collect(), apart_us: 100_000, seen: Vec::new() };
    let mut told = Vec::new();
    let request = SimulatedRequest { id: 0, at_us: 5 * SECOND_US, output_tokens: 11, whole };
    run([request], &mut field, &mut script, &RaceRules::default(), &mut |outcome: &Outcome<'_>| {
        let costs = outcome.started.iter().map(|started| started.cost).collect();
        told.push((outcome.ttft_us.map(|us| us / 1_000), outcome.took_us / 1_000, outcome.winner, costs));
    });
    let (ttft, took, winner, costs) = told.pop().unwrap();
    assert!(told.is_empty(), "one race ends once");
    (ttft, took, winner, costs, script)
}

fn answers(ttft_ms: i64, tpot_ms: f64) -> SimulatedOutcome {
    SimulatedOutcome::Answers { ttft_us: ttft_ms * 1_000, tpot_us: tpot_ms * 1e3 }
}

#[test]
fn the_loser_is_cut_and_pays_its_prompt_and_what_it_wrote_until_it_noticed() {
    let (ttft, took, winner, costs, script) = one_race(&[answers(400, 10.0), answers(150, 20.0)], false, false);
    assert_eq!((ttft, took, winner), (Some(250), 450, Some(1)));
    assert_eq!(costs, [100.0 + 4.0 * 1.0, 100.0 + 4.0 * 11.0], "cut at 250, it goes on to 400: one token");
    let censored = ObservedProgress::Censored { uncached: 100.0, in_flight: 0, waited_us: 250_000 };
    assert!(script.seen.contains(&(0, censored)), "{:?}", script.seen);
    let (.., costs, _) = one_race(&[answers(400, 10.0), answers(150, 20.0)], true, false);
    assert_eq!(costs, [144.0, 144.0], "billed for what nobody read");
}

#[test]
fn failures_are_replaced_at_once_and_a_hang_is_given_up() {
    let (ttft, _, winner, costs, _) =
        one_race(&[SimulatedOutcome::Fails { after_us: 30_000 }, answers(50, 1.0)], false, false);
    assert_eq!((ttft, winner, costs[0]), (Some(80), Some(1), 0.0), "an error is not billed");
    let (ttft, took, winner, costs, script) = one_race(&[SimulatedOutcome::Hangs], false, false);
    assert_eq!((ttft, took, winner, costs), (None, 20_000, None, vec![100.0]));
    assert_eq!(script.seen.last(), Some(&(0, ObservedProgress::Failed)));
}

#[test]
fn where_the_whole_answer_counts_the_first_to_finish_wins() {
    let (ttft, took, winner, ..) = one_race(&[answers(80, 100.0), answers(150, 10.0)], false, true);
    assert_eq!((ttft, took, winner), (Some(1_080), 1_080, Some(0)), "the second is not started beside a first token");
    let (ttft, _, winner, ..) = one_race(&[answers(220, 100.0), answers(150, 10.0)], false, true);
    assert_eq!((ttft, winner), (Some(350), Some(1)));
}

#[test]
fn an_upstream_that_failed_twice_is_left_alone_for_a_while() {
    let fates = vec![SimulatedOutcome::Fails { after_us: 1_000 }, answers(50, 1.0)];
    let mut field = Fixed(fates, Small::new().tariffs[..2].to_vec());
    let mut script = Script { order: vec![0, 1], apart_us: 100_000, seen: Vec::new() };
    let mut tried = Vec::new();
    run(requests(20), &mut field, &mut script, &RaceRules::default(), &mut |outcome: &Outcome<'_>| {
        tried.extend((outcome.started[0].upstream == 0).then_some(outcome.request.id));
    });
    assert_eq!(tried, [0, 1, 12, 13]);
}
