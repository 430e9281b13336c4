//! Histories whose truth is known: made-up upstreams are raced, the losers are cut, and the replay of what is left must come
//! near what the same engine gives when it sees everything.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::rehearse::{
    Dispatch, PlayedRace, Rehearsal, SimulatedRequest, SimulatedResponse, SimulatedUpstream, SimulatedWorld,
};
use photofinish_base::clock::SECOND_US;
use photofinish_base::failure::FailureKind;
use photofinish_config::{self as config, ModelConfig, Policy, RaceSettings};
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, RaceSource};
use photofinish_routing::money::tariff::{PromptTokens, Tariff};
use photofinish_wire::answer::judgement::CallsVerdict;

const START_US: i64 = 1_767_323_045_000_000;
/// As in a replay of this number of requests.
const WARM_UP: usize = 300;

fn model(upstreams: &str) -> Arc<ModelConfig> {
    let text = format!(
        "[providers.x]\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.m]\nupstreams = [{upstreams}]\npolicy = \"race\"\nretries = 0\n"
    );
    config::parse(&text, Path::new("x"), &|_| None).unwrap().model("m").unwrap().clone()
}

fn three() -> Arc<ModelConfig> {
    model(
        &["a", "b", "c"]
            .map(|name| format!("{{ upstream = \"x/{name}\", input_price = 1.0, output_price = 4.0 }}"))
            .join(","),
    )
}

/// One draw per request and upstream.
struct World {
    upstreams: Vec<SimulatedUpstream>,
    sizes: Vec<f64>,
    responses: Vec<Vec<SimulatedResponse>>,
}

impl World {
    /// `medians`: ln of seconds. They differ in level, which moves slowly and apart, and scatter with a straggler in fifty.
    fn new(medians: &[f64], requests: usize, seed: u64) -> World {
        let mut draws = fastrand::Rng::with_seed(seed);
        let mut normal = move || (0..12).map(|_| draws.f64()).sum::<f64>() - 6.0;
        let mut levels = vec![0.0; medians.len()];
        let (mut sizes, mut responses) = (Vec::new(), Vec::new());
        for _ in 0..requests {
            let size = (7.0 + 0.8 * normal()).exp();
            sizes.push(size);
            responses.push(
                medians
                    .iter()
                    .zip(&mut levels)
                    .map(|(median, level)| {
                        *level = 0.99 * *level + 0.02 * normal();
                        let straggles = if normal() > 2.05 { 0.8 + normal().abs() } else { 0.0 };
                        let ln = median + 0.5 * (size / 2_000.0).ln_1p() + *level + 0.25 * normal() + straggles;
                        let ttft_us = (ln.exp() * SECOND_US as f64) as i64;
                        match normal() > 2.4 {
                            true => SimulatedResponse::Fails { after_us: 50_000 },
                            false => SimulatedResponse::Answers { ttft_us, tpot_us: 15_000.0 },
                        }
                    })
                    .collect(),
            );
        }
        let upstream = |name: &&str| SimulatedUpstream {
            name: format!("x/{name}"),
            tariff: Tariff { input: 1e-6, cached: 1e-6, output: 4e-6, billed_on: false },
            domain: None,
            weight: 1.0,
            tier: 1,
            in_flight_max: None,
            first_token: Duration::from_secs(30),
        };
        World { upstreams: ["a", "b", "c"][..medians.len()].iter().map(upstream).collect(), sizes, responses }
    }

    fn request(&self, id: usize) -> SimulatedRequest {
        SimulatedRequest { id, at_us: START_US + id as i64 * SECOND_US, output_tokens: 100, whole: false }
    }

    /// As the gateway would have written it down, racing the first `raced` of them; audited, all run to their first token.
    fn recorded(&self, id: usize, raced: usize, audited: bool) -> Recorded {
        let answers =
            self.responses[id][..raced].iter().enumerate().filter_map(|(upstream, response)| match response {
                SimulatedResponse::Answers { ttft_us, .. } => Some((*ttft_us, upstream)),
                _ => None,
            });
        let best = answers.min();
        let attempts = (0..raced).map(|upstream| {
            let (response, won) = (self.responses[id][upstream], best.map(|best| best.1) == Some(upstream));
            let failed = matches!(response, SimulatedResponse::Fails { .. });
            let own_us = if let SimulatedResponse::Answers { ttft_us, .. } = response { ttft_us } else { 0 };
            let seen = won || audited && !failed;
            let ttft_us = if seen { own_us } else { best.map_or(0, |best| best.0) };
            RecordedAttempt {
                ordinal: upstream as i64,
                provider: "x".into(),
                model_sent: ["a", "b", "c"][upstream].into(),
                dispatch_us: 0,
                in_flight: 0,
                ttft_obs_us: (!failed).then_some(ttft_us),
                seen,
                plain: false,
                outcome: match (failed, won) {
                    (true, _) => AttemptOutcome::Failed,
                    (false, true) => AttemptOutcome::Won,
                    _ => AttemptOutcome::Lost,
                },
                failure: failed.then_some(FailureKind::ServerError),
                tpot_us: won.then_some(15_000.0),
                input_tokens: None,
                cached_input_tokens: None,
                output_tokens: won.then_some(100),
                cost_usd: won.then_some(0.001),
                calls: None,
                structured: None,
                tool_set: None,
                ended_us: if failed { 50_000 } else { ttft_us + if won { 99 * 15_000 } else { 0 } },
            }
        });
        Recorded {
            race_id: String::new(),
            started_at: self.request(id).at_us,
            model: "m".into(),
            policy: Some("race".into()),
            stream: true,
            has_tools: false,
            input_tokens_estimate: self.sizes[id] as i64,
            winner: best.map(|best| best.1 as i64),
            client_ttft_us: best.map(|best| best.0),
            done_us: best.map(|best| best.0 + 99 * 15_000),
            outcome: if best.is_some() { RaceOutcome::Ok } else { RaceOutcome::Error },
            source: RaceSource::Client,
            look: None,
            attempts: attempts.collect(),
        }
    }

    fn past(&self, model: &ModelConfig, raced: usize, audited: impl Fn(usize) -> bool) -> PastRequests {
        let mut past = PastRequests::new(model);
        (0..self.sizes.len()).for_each(|id| past.add(&self.recorded(id, raced, audited(id))));
        past.settle();
        past
    }

    /// TTFT p50, p95 and p99 in milliseconds, and the cost, of a policy that sees the world itself.
    fn truth(&mut self, settings: &RaceSettings) -> [f64; 4] {
        let (mut times, mut cost) = (Vec::new(), 0.0);
        let requests: Vec<SimulatedRequest> = (0..self.sizes.len()).map(|id| self.request(id)).collect();
        let rehearsal = Rehearsal { cut_lag_us: 150_000, ..Rehearsal::new(settings.clone(), 1) };
        rehearsal.run(requests, self, &mut |outcome: &PlayedRace<'_>| {
            if outcome.request.id >= WARM_UP {
                times.extend(outcome.ttft_us);
                cost += outcome.attempts.iter().map(|attempt| attempt.cost).sum::<f64>();
            }
        });
        times.sort_unstable();
        let at = |share: f64| times[(share * times.len() as f64) as usize] as f64 / 1e3;
        [at(0.5), at(0.95), at(0.99), cost]
    }
}

impl SimulatedWorld for World {
    fn upstreams(&self) -> &[SimulatedUpstream] {
        &self.upstreams
    }

    fn prompt(&self, request: &SimulatedRequest, _upstream: usize, _at_us: i64) -> PromptTokens {
        PromptTokens { uncached: self.sizes[request.id], cached: 0.0 }
    }

    fn response(&mut self, dispatch: &Dispatch) -> SimulatedResponse {
        self.responses[dispatch.request.id][dispatch.upstream]
    }
}

fn plan(model: &ModelConfig, policy: Policy) -> ReplayedPlan {
    ReplayedPlan {
        name: policy.as_str().into(),
        settings: RaceSettings { policy, ..model.race.clone() },
        as_it_was: false,
    }
}

fn answer(past: &PastRequests, plans: &[ReplayedPlan]) -> ReplayReport {
    answer::drawn_so_often(past, plans, (7, 4), 2, &mut |_, _| true).unwrap()
}

/// TTFT p50, p95, p99 and cost.
fn estimated(figures: &ReplayFigures) -> [f64; 4] {
    [figures[0] / 1e3, figures[1] / 1e3, figures[2] / 1e3, figures[5]]
}

/// How far each figure may be off: of TTFT p50, p95, p99 and of the cost.
fn near_the_truth(audited: impl Fn(usize) -> bool, policies: &[Policy], most: [f64; 4]) -> ReplayReport {
    let model = three();
    let mut world = World::new(&[-1.0, -0.95, -0.8], 3_000, 11);
    let plans: Vec<ReplayedPlan> = policies.iter().map(|policy| plan(&model, *policy)).collect();
    let answer = answer(&world.past(&model, 3, audited), &plans);
    for (plan, row) in plans.iter().zip(&answer.rows) {
        let (truth, estimated) = (world.truth(&plan.settings), estimated(&row.figures));
        let off: Vec<f64> = truth.iter().zip(estimated).map(|(truth, estimated)| estimated / truth - 1.0).collect();
        let p99_is_told = !row.is_guess(ReplayFigure::TtftP99);
        for (place, (off, most)) in off.iter().zip(most).enumerate().filter(|(place, _)| *place != 2 || p99_is_told) {
            assert!(off.abs() < most, "{}, {place}: {off}, truth {truth:?}, estimated {estimated:?}", row.name);
        }
        assert!(!row.is_guess(ReplayFigure::TtftP50), "{}: {}", row.name, row.assumed);
    }
    answer
}

#[test]
fn a_race_tells_what_other_policies_would_have_done() {
    let policies = [Policy::Race, Policy::Fallback, Policy::Hedge, Policy::Adaptive];
    let answer = near_the_truth(|_| false, &policies, [0.05, 0.1, 0.15, 0.03]);
    assert_eq!((answer.requests, answer.warm_up, answer.counted), (3_000, WARM_UP, 2_700));
    let race = &answer.rows[0];
    for (figure, change) in FIGURES.iter().zip(race.changes) {
        assert!(change.abs() < 0.005, "the race itself comes out as it was: {figure:?} {change}");
    }
    assert!(race.seen > 0.99 && race.assumed == 0.0, "{} {}", race.seen, race.assumed);
    // A straggler of its one upstream was always cut by another before it ended.
    assert!(answer.rows[1].is_guess(ReplayFigure::TtftP99), "{}", answer.rows[1].assumed);
}

#[test]
fn with_audits_the_tail_is_known_too() {
    let answer = near_the_truth(|id| id % 3 == 0, &[Policy::Fallback], [0.03, 0.07, 0.35, 0.03]);
    assert!(!answer.rows[0].is_guess(ReplayFigure::TtftP99), "{}", answer.rows[0].assumed);
}

#[test]
fn a_policy_that_asks_what_is_hardly_known_has_no_figure() {
    let model = three();
    // The third is never tried, the second always far behind.
    let world = World::new(&[-1.5, 0.5, -1.0], 400, 3);
    let past = world.past(&model, 2, |_| false);
    assert_eq!(past.little_known, [("x/c".to_owned(), 0)]);
    let was = ReplayedPlan { as_it_was: true, ..plan(&model, Policy::Race) };
    let answer = answer(&past, &[plan(&model, Policy::Fallback), plan(&model, Policy::Race), was]);
    let unknown: Vec<f64> = answer.expected.iter().map(UpstreamModel::unknown).collect();
    assert!(unknown[0] < 0.1 && unknown[1] > 0.5, "{unknown:?}");
    let counts = &answer.counts[1];
    assert_eq!(counts.seen + counts.cut + counts.failed, 400);
    let [fallback, race, was] = [0, 1, 2].map(|place| &answer.rows[place]);
    assert!(counts.cut > 350 && fallback.seen > 0.9 && fallback.little_known.is_empty(), "{counts:?}");
    assert!(fallback.figures.iter().all(|figure| figure.is_finite()), "it asks the third after two failures only");
    assert_eq!(race.little_known, ["x/c"]);
    assert!(race.figures.iter().chain(&race.changes).all(|figure| figure.is_nan()), "{race:?}");
    assert!(race.intervals.iter().all(|interval| interval.low.is_nan()) && !race.is_guess(ReplayFigure::TtftP99));
    assert!(was.little_known.is_empty() && was.changes.iter().all(|change| change.abs() < 0.005), "{was:?}");
}

#[test]
fn the_first_of_a_fallback_is_not_left_out_for_want_of_attempts() {
    // Adaptive has hardly asked the first, which is slow: live a fallback would have asked it each time.
    let model = model("\"x/a\", \"x/b\"");
    let world = World::new(&[0.5, -1.0], 400, 5);
    let mut past = PastRequests::new(&model);
    for id in 0..400 {
        let mut recorded = world.recorded(id, 2, false);
        recorded.attempts.retain(|attempt| id % 20 == 0 || attempt.model_sent == "b");
        past.add(&recorded);
    }
    past.settle();
    assert_eq!(past.little_known, [("x/a".to_owned(), 20)]);
    let rows = answer(&past, &[plan(&model, Policy::Fallback)]).rows;
    assert_eq!((&rows[0].little_known[..], rows[0].figures[0].is_nan()), (&["x/a".to_owned()][..], true));
}

/// `slow` takes 500 ms and is listed first, `quick` takes 60 ms; each request was raced and all were audited.
fn slow_and_quick() -> (Arc<ModelConfig>, PastRequests) {
    let model = model("\"x/a\", \"x/b\"");
    let mut world = World::new(&[0.0, 0.0], 400, 1);
    for responses in &mut world.responses {
        let response = |ttft_ms: i64| SimulatedResponse::Answers { ttft_us: ttft_ms * 1_000, tpot_us: 15_000.0 };
        *responses = vec![response(500), response(60)];
    }
    let past = world.past(&model, 2, |_| true);
    (model, past)
}

fn slow_and_quick_under(policy: Policy, budget: f64, hedge_after: Duration) -> (f64, f64) {
    let (model, past) = slow_and_quick();
    let settings = RaceSettings { policy, budget, hedge_after, ..model.race.clone() };
    let row = answer(&past, &[ReplayedPlan { name: String::new(), settings, as_it_was: false }]).rows.remove(0);
    (row.figures[0] / 1e3, row.figures[6])
}

#[test]
fn without_a_budget_an_unknown_upstream_is_tried_first_as_the_gateway_does() {
    let (p50_ms, attempts) = slow_and_quick_under(Policy::Adaptive, 0.0, Duration::from_secs(1));
    assert!((p50_ms - 60.0).abs() < 1.0, "{p50_ms}");
    assert!((attempts - 1.0).abs() < 1e-9, "{attempts}");
}

#[test]
fn hedge_with_a_given_delay_keeps_the_listed_order_as_the_gateway_does() {
    let (p50_ms, attempts) = slow_and_quick_under(Policy::Hedge, 0.1, Duration::from_millis(200));
    assert!((p50_ms - 260.0).abs() <= 1.0, "{p50_ms}");
    assert!((attempts - 2.0).abs() < 1e-9, "{attempts}");
}

#[test]
fn one_upstream_is_the_same_under_every_policy() {
    let model = model("\"x/a\"");
    let world = World::new(&[-1.0], 300, 5);
    let answer = answer(&world.past(&model, 1, |_| false), &Policy::ALL.map(|policy| plan(&model, policy)));
    assert!(answer.recorded[7] > 0.0, "some fail: {:?}", answer.recorded);
    for row in &answer.rows {
        let off = answer.recorded.iter().zip(row.figures).map(|(was, now)| (was - now).abs() / was.max(1e-9));
        assert!(off.clone().all(|off| off < 1e-3), "{}: {:?}", row.name, off.collect::<Vec<_>>());
        assert!(row.seen > 0.999);
    }
}

#[test]
fn the_same_seed_gives_the_same_answer_and_another_moves_within_the_interval() {
    let model = three();
    let world = World::new(&[-1.0, -0.95, -0.8], 600, 13);
    let (past, plans) = (world.past(&model, 3, |_| false), [plan(&model, Policy::Fallback)]);
    let by = |seed| answer::drawn_so_often(&past, &plans, (seed, 4), 2, &mut |_, _| true).unwrap().rows.remove(0);
    let (one, again, other) = (by(1), by(1), by(2));
    assert_eq!((one.figures, one.intervals, one.changes), (again.figures, again.intervals, again.changes));
    assert_ne!(one.figures, other.figures);
    for (figure, interval) in [0, 1, 3].map(|figure| (figure, one.intervals[figure])) {
        assert!(interval.low < interval.high);
        assert!((interval.low..=interval.high).contains(&other.figures[figure]), "{figure}: {interval:?} {other:?}");
    }
    assert!(one.seen < 0.8, "a fallback on the first rests on draws: {}", one.seen);
}

#[test]
fn own_load_is_played_as_it_was_learnt() {
    let model = model("\"x/a\"");
    let world = World::new(&[-1.0], 1_500, 17);
    let mut past = PastRequests::new(&model);
    for id in 0..1_500 {
        let mut recorded = world.recorded(id, 1, false);
        let load = (id as i64 * 7) % 12;
        let slower = |us: i64| (us as f64 * (0.5 * (load as f64).ln_1p()).exp()) as i64;
        let attempt = &mut recorded.attempts[0];
        (attempt.in_flight, attempt.ttft_obs_us) = (load, attempt.ttft_obs_us.map(slower));
        past.add(&recorded);
    }
    past.settle();
    let slope = UpstreamModel::new(&past, 0).load_slope();
    assert!((slope - 0.5).abs() < 0.1, "{slope}");
}

#[test]
fn nothing_to_play() {
    let model = three();
    let mut past = PastRequests::new(&model);
    past.settle();
    assert!(replay(&past, &[plan(&model, Policy::Race)], 1, 2, &mut |_, _| true).is_none());
    let few = World::new(&[-1.0, -1.0, -1.0], 20, 1).past(&model, 3, |_| false);
    assert_eq!(few.little_known.len(), 3);
    assert!(replay(&few, &[plan(&model, Policy::Race)], 1, 2, &mut |_, _| true).is_none());
}

#[test]
fn who_leaves_ends_a_run_that_is_under_way() {
    let model = three();
    let past = World::new(&[-1.6, -1.0, -0.8], 3_000, 9).past(&model, 3, |_| false);
    let mut calls = Vec::new();
    let answer = replay(&past, &[plan(&model, Policy::Race)], 1, 1, &mut |over, _| {
        calls.push(over);
        calls.len() < 2
    });
    assert!(answer.is_none());
    assert_eq!(calls, [0, 0], "asked twice within the first run, and then no more");
}

#[test]
fn an_upstream_is_worse_from_the_request_on_at_which_it_was_known() {
    let world = World::new(&[-1.0, -1.0], 400, 1);
    let mut past = PastRequests::new(&model("\"x/a\", \"x/b\""));
    for id in 0..400 {
        let mut recorded = world.recorded(id, 2, false);
        recorded.has_tools = id % 4 != 0;
        for attempt in &mut recorded.attempts {
            let broken = attempt.model_sent == "a" && id % 3 == 0;
            attempt.calls = Some(if broken { CallsVerdict::NotJson } else { CallsVerdict::Valid });
            attempt.tool_set = recorded.has_tools.then_some(7);
        }
        past.add(&recorded);
    }
    past.settle();
    let worse = |id: usize, upstream: usize| past.cell(id, upstream).worse;
    assert!(!worse(1, 0) && worse(399, 0) && !worse(399, 1));
    assert!(!worse(396, 0), "it has no tools");
    let first = (0..400).find(|id| worse(*id, 0)).unwrap();
    assert!((30..250).contains(&first), "{first}");
    assert!((first..400).filter(|id| id % 4 != 0).all(|id| worse(id, 0)));
}
