//! Races for clients that do not stream go by the time to the whole answer, whoever taught it: order, hedges, overdue attempts. On a
//! stopped clock.

use std::path::Path;

use super::*;
use crate::forecast::SendConditions;
use crate::learning::{AttemptObserver, ObservedEnd, RequestMemory};
use crate::money::tariff::{PromptTokens, Tariff};
use crate::money::{CostBudget, SpentLately};
use crate::policy::plan::StartRule;
use crate::policy::{CandidateState, CandidateTurn, ContextFits, LookTicket};
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, RaceSource};

const SECOND: i64 = 1_000_000;
const TARIFF: Tariff = Tariff { input: 1.0, cached: 1.0, output: 4.0, billed_on: false };
/// The first tokens of the first one come sooner, the whole answers of the second one. In ms.
const UPSTREAMS: [(&str, i64, i64); 2] = [("talks/m", 100, 6_000), ("answers/m", 900, 2_000)];
const TAUGHT: i64 = 40;

fn spread(ms: i64, n: i64) -> i64 {
    ms * (900 + 50 * (n % 5))
}

fn race_budget(learning: &Learning) -> Arc<RaceBudget> {
    let cost_budget = learning.cost_budget("m", 0.1, false);
    Arc::new(RaceBudget::new(cost_budget, true))
}

/// An attempt that is waited for by `clock`.
fn begun(learning: &Arc<Learning>, name: &str, clock: LatencyClock) -> AttemptObserver {
    AttemptObserver::start(ObserverSpec {
        ordinal: 0,
        learning: learning.clone(),
        known: learning.upstream(name),
        clock,
        race_budget: race_budget(learning),
        tariff: TARIFF,
        sent: SendConditions { uncached_tokens: 500.0, in_flight: 0 },
        prompt: PromptTokens { uncached: 500.0, cached: 0.0 },
        blocks: PrefixBlocks::default(),
        known_tokens: 0.0,
        bytes: 2_000,
    })
}

/// One that took `us`; `end` adds what its end says.
fn attempt(learning: &Arc<Learning>, name: &str, clock: LatencyClock, us: i64, end: ObservedEnd) {
    let mut observer = begun(learning, name, clock);
    observer.first_token(us);
    let waited_us = end.whole_us.unwrap_or(us);
    observer.ended(&ObservedEnd { served: true, billed: true, output_tokens: Some(100), ..end });
    // As the client saw it.
    match clock {
        LatencyClock::FirstToken if end.whole_us.is_none() => race_budget(learning).finished(Some(us), None),
        _ => race_budget(learning).took_whole(waited_us),
    }
}

/// Streams for clients that stream, and plain answers.
fn by_plain_attempts(learning: &Arc<Learning>, n: i64, (name, token_ms, whole_ms): (&str, i64, i64)) {
    attempt(learning, name, LatencyClock::FirstToken, spread(token_ms, n), ObservedEnd::default());
    attempt(learning, name, LatencyClock::WholeAnswer, spread(whole_ms, n), ObservedEnd::default());
}

/// Streams for clients that do not stream.
fn by_streams(learning: &Arc<Learning>, n: i64, (name, token_ms, whole_ms): (&str, i64, i64)) {
    let end = ObservedEnd { whole_us: Some(spread(whole_ms, n)), ..ObservedEnd::default() };
    attempt(learning, name, LatencyClock::FirstToken, spread(token_ms, n), end);
}

/// What the history has of both, at a start.
fn by_history(learning: &Arc<Learning>, n: i64, (name, token_ms, whole_ms): (&str, i64, i64)) {
    let (provider, model_sent) = name.split_once('/').unwrap();
    for plain in [false, true] {
        let ended_us = spread(whole_ms, n);
        let attempt = RecordedAttempt {
            ordinal: 0,
            provider: provider.to_owned(),
            model_sent: model_sent.to_owned(),
            dispatch_us: 0,
            in_flight: 0,
            ttft_obs_us: (!plain).then(|| spread(token_ms, n)),
            seen: !plain,
            plain,
            outcome: AttemptOutcome::Won,
            failure: None,
            tpot_us: None,
            input_tokens: None,
            cached_input_tokens: None,
            output_tokens: Some(100),
            cost_usd: None,
            calls: None,
            structured: None,
            tool_set: None,
            ended_us,
        };
        let recorded = Recorded {
            race_id: String::new(),
            started_at: learning.now_us() - ended_us,
            model: "m".to_owned(),
            policy: None,
            stream: !plain,
            has_tools: false,
            input_tokens_estimate: 500,
            winner: Some(0),
            client_ttft_us: Some(if plain { ended_us } else { spread(token_ms, n) }),
            done_us: Some(ended_us),
            outcome: RaceOutcome::Ok,
            source: RaceSource::Client,
            look: None,
            attempts: vec![attempt],
        };
        let cost_budget = Some(learning.cost_budget("m", 0.1, false));
        learning.remember(&recorded, &RequestMemory { counts: &|_| true, cost_budget, cost: &|_| Some(900.0) });
    }
    learning.publish();
}

type Teach = fn(&Arc<Learning>, i64, (&str, i64, i64));

const TEACHERS: [(&str, Teach); 3] =
    [("plain attempts", by_plain_attempts), ("streams", by_streams), ("the history", by_history)];

fn taught(teach: Teach) -> Arc<Learning> {
    let learning = Arc::new(Learning::stopped());
    for n in 0..TAUGHT {
        learning.set_now_us((1_000 + 10 * n) * SECOND);
        UPSTREAMS.into_iter().for_each(|upstream| teach(&learning, n, upstream));
    }
    learning.set_now_us((1_000 + 10 * TAUGHT) * SECOND);
    learning
}

/// `others`: upstreams of which nothing is known. `plain`: whether they never stream.
fn driver(learning: &Arc<Learning>, race: &str, others: &[&str], plain: bool) -> PolicyDriver {
    let settings = photofinish_config::parse(&format!("[race]\n{race}\n"), Path::new("x"), &|_| None).unwrap().race;
    let names = UPSTREAMS.map(|(name, ..)| name);
    let state = |name: &&str| CandidateState {
        known: learning.upstream(name),
        plain,
        tariff: TARIFF,
        prompt: PromptTokens { uncached: 500.0, cached: 0.0 },
        known_tokens: 0.0,
        domain: None,
        weight: 1.0,
        tier: 1,
        in_flight_max: None,
        worse: false,
        reads_on: false,
        first_token: Duration::from_secs(3),
        turn: CandidateTurn::Usual,
        started: None,
        is_new: false,
    };
    PolicyDriver::new(PolicyDriverParts {
        settings,
        candidates: names.iter().chain(others).map(state).collect(),
        race_budget: race_budget(learning),
        fits: ContextFits::default(),
        began_us: learning.now_us(),
        draw: 0.5,
        look: None,
        in_usd: false,
        for_answer: false,
        pinned: None,
        crowded: false,
    })
}

fn order(plan: &RacePlan) -> Vec<&'static str> {
    plan.entries.iter().map(|entry| UPSTREAMS[entry.candidate].0).collect()
}

#[test]
fn the_order_is_that_of_what_the_client_waits_for() {
    for (who, teach) in TEACHERS {
        let learning = taught(teach);
        for budget in ["0.0", "0.02", "0.1"] {
            let race = format!("policy = \"adaptive\"\nbudget = {budget}");
            let (mut streamed, mut whole) =
                (driver(&learning, &race, &[], false), driver(&learning, &race, &[], false));
            let (tokens, answers) = (streamed.plan(learning.now_us()), whole.plan_whole(learning.now_us()));
            assert_eq!((order(&tokens), streamed.is_plain(0)), (vec!["talks/m", "answers/m"], false), "{who} {budget}");
            assert_eq!((order(&answers), whole.is_plain(0)), (vec!["answers/m", "talks/m"], true), "{who} {budget}");
            let mut never = driver(&learning, &race, &[], true);
            assert_eq!(
                order(&never.plan(learning.now_us())),
                ["answers/m", "talks/m"],
                "{who} {budget}: never streams"
            );
        }
    }
}

#[test]
fn hedges_and_overdue_attempts_go_by_it_too() {
    for (who, teach) in TEACHERS {
        let learning = taught(teach);
        for budget in [0.02, 0.1] {
            let race = format!("policy = \"adaptive\"\nbudget = {budget}");
            // With a full bucket a second attempt would start at once.
            learning.cost_budget("m", budget, false).lock().unwrap().charge(12.0 * 900.0);
            let mut driver = driver(&learning, &race, &[], false);
            let plan = driver.plan_whole(learning.now_us());
            assert!(driver.is_plain(0), "{who} {budget}");
            // A usual answer takes two seconds.
            let ask_after = plan.ask_after.unwrap();
            assert!(ask_after >= Duration::from_millis(1_500), "{who} {budget}: {ask_after:?}");
            let first = plan.entries[0].candidate;
            assert!(plan.entries[0].first_token > Duration::from_secs(3), "{who} {budget}: a usual answer is not late");
            let began_us = learning.now_us();
            driver.started(first, (0, StartReason::First), &learning, PrefixBlocks::default(), 2_000);
            let after = |driver: &mut PolicyDriver, waited_us: i64| {
                driver.replan(&[AttemptView::waiting(first, waited_us)], &[1 - first], began_us + waited_us)
            };
            let early = after(&mut driver, SECOND);
            assert!(!matches!(early, Replan::Start(_) | Replan::Rescue(_)), "{who} {budget}: {early:?}");
            assert_eq!(after(&mut driver, 60 * SECOND), Replan::Rescue(1 - first), "{who} {budget}");
        }
    }
}

#[test]
fn attempts_that_start_at_once_stream_and_are_late_by_their_first_tokens() {
    let learning = taught(by_plain_attempts);
    for (race, others, at_once) in [
        ("policy = \"adaptive\"\nbudget = 0.1", &["new/m"][..], 2),
        ("policy = \"race\"", &[], 2),
        ("policy = \"fallback\"", &[], 1),
        ("policy = \"weighted\"", &[], 1),
    ] {
        let mut driver = driver(&learning, race, others, false);
        let plan = driver.plan_whole(learning.now_us());
        let begin = plan.entries.iter().filter(|entry| entry.start == StartRule::At(Duration::ZERO)).count();
        assert_eq!((begin, driver.is_plain(0)), (at_once, at_once == 1), "{race}");
        let late = plan.entries.iter().map(|entry| entry.first_token).max().unwrap();
        assert_eq!(late > Duration::from_secs(3), at_once == 1, "{race}: {late:?}");
    }
}

#[test]
fn an_upstream_that_fails_gets_no_plain_hedge_either() {
    let learning = taught(by_plain_attempts);
    let throttled = || learning.upstream("talks/m").throttled(learning.now_us());
    let fails =
        |clock| begun(&learning, "talks/m", clock).ended(&ObservedEnd { failed: true, ..ObservedEnd::default() });
    [LatencyClock::FirstToken; 3].into_iter().for_each(fails);
    assert!(!throttled());
    [LatencyClock::WholeAnswer; 3].into_iter().for_each(fails);
    assert!(throttled(), "by both together");
    let mut driver = driver(&learning, "policy = \"adaptive\"\nbudget = 0.1", &[], false);
    let plan = driver.plan_whole(learning.now_us());
    assert_eq!((plan.entries[0].candidate, plan.expected), (1, None));
    for _ in 0..5 {
        attempt(&learning, "talks/m", LatencyClock::WholeAnswer, 6 * SECOND, ObservedEnd::default());
    }
    assert!(!throttled(), "plain answers make up for it");
}

/// With what probability each of two upstreams is drawn. `taken`: looks that each had; `saved`: what looks may cost, in mean attempts.
fn look_shares(race: &str, prices: [f64; 2], taken: [i32; 2], saved: f64, in_doubt: bool) -> Vec<f64> {
    let learning = taught(by_streams);
    let mut driver = driver(&learning, race, &[], false);
    let parts = &mut driver.state.parts;
    for (candidate, price) in parts.candidates.iter_mut().zip(prices) {
        candidate.tariff = Tariff { input: price, cached: price, output: 4.0 * price, billed_on: false };
    }
    let mut cost_budget = CostBudget::new(parts.settings.budget);
    cost_budget.settle(900.0, 0.0, 0.0);
    (0..2).for_each(|at| (0..taken[at]).for_each(|_| cost_budget.looks().took(UPSTREAMS[at].0, learning.now_us())));
    cost_budget.looks().spend(12.0 - saved);
    parts.race_budget = Arc::new(RaceBudget::new(Arc::new(cost_budget.into()), true));
    let plan = driver.plan(learning.now_us());
    driver.state.look_shares(&plan, &LookTicket { upstreams: 2, draw: 0.0, in_doubt }, learning.now_us())
}

#[test]
fn how_often_a_request_looks() {
    // The first candidate leads. It is drawn in a tenth of the requests, for nothing.
    for (race, prices, taken, saved, expected) in [
        ("policy = \"adaptive\"", [1.0, 1.0], [0, 0], 1e9, [0.1, 0.1]),
        ("policy = \"adaptive\"", [1.0, 1.0], [20, 20], 1e9, [0.1, 0.1]),
        ("policy = \"adaptive\"", [1.0, 1.0], [50, 50], 1e9, [0.1, 0.08]),
        ("policy = \"adaptive\"", [1.0, 1.0], [200, 200], 1e9, [0.1, 0.02]),
        ("policy = \"adaptive\"", [1.0, 1.0], [800, 800], 1e9, [0.025, 0.005]),
        ("policy = \"adaptive\"", [1.0, 1.0], [0, 0], 1.0, [0.1, 900.0 / 504.0 / 30.0]),
        ("policy = \"adaptive\"", [1.0, 9.0], [0, 0], 4.0, [0.1, 4.0 / 30.0 * 900.0 / 2520.0]),
        ("policy = \"adaptive\"", [1.0, 1.0], [0, 0], 0.1, [0.0, 0.0]),
        ("policy = \"adaptive\"", [0.0, 0.0], [0, 0], -1.0, [0.1, 0.1]),
        ("policy = \"adaptive\"\nbudget = 0.0", [1.0, 1.0], [0, 0], 0.0, [0.0, 0.0]),
        ("policy = \"adaptive\"\nlook = 0.3", [1.0, 1.0], [900, 900], 1e9, [0.15, 0.15]),
        ("policy = \"adaptive\"\nlook = 0", [1.0, 1.0], [0, 0], 1e9, [0.0, 0.0]),
        ("policy = \"race\"", [1.0, 9.0], [0, 0], -9.0, [0.1, 0.1]),
        ("policy = \"race\"", [1.0, 9.0], [400, 0], -9.0, [0.05, 0.1]),
        ("policy = \"race\"\nlook = 1", [1.0, 1.0], [0, 0], -9.0, [0.5, 0.5]),
        ("policy = \"fallback\"", [1.0, 1.0], [0, 0], 1e9, [0.0, 0.0]),
        ("policy = \"fallback\"\nlook = 0.5", [1.0, 1.0], [0, 0], -9.0, [0.25, 0.25]),
        ("policy = \"fallback\"\nlook = 0.5\nmax_attempts = 1", [1.0, 1.0], [0, 0], 1e9, [0.0, 0.0]),
    ] {
        let found = look_shares(race, prices, taken, saved, false);
        let is_expected = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
        assert!(is_expected, "{race} {prices:?} {taken:?} {saved}: {found:?}, not {expected:?}");
    }
    // A host is in doubt: its answers are to be compared, whatever was seen before.
    let in_doubt = look_shares("policy = \"adaptive\"", [1.0, 1.0], [900, 900], 0.1, true);
    assert!((in_doubt[0] - 0.1).abs() < 1e-6 && (in_doubt[1] - 0.75).abs() < 1e-6, "{in_doubt:?}");
    for race in ["policy = \"adaptive\"\nlook = 0", "policy = \"fallback\""] {
        assert_eq!(look_shares(race, [1.0, 1.0], [0, 0], 1e9, true), [0.0, 0.0], "{race}");
    }
}

#[test]
fn the_drawn_one_starts_beside_the_leader_and_the_leader_alone() {
    let learning = taught(by_streams);
    let one_first = Policy::ALL.into_iter().filter(|policy| policy.order() != UpstreamOrder::AllAtOnce);
    for policy in one_first.map(Policy::as_str) {
        for (look, pinned) in [(None, None), (Some(0), None), (Some(1), None), (Some(1), Some(0))] {
            let mut driver = driver(&learning, &format!("policy = \"{policy}\"\nlook = 1"), &[], false);
            let parts = &mut driver.state.parts;
            let ticket = |at: usize| LookTicket { upstreams: 2, draw: [0.25, 0.55][at], in_doubt: false };
            (parts.look, parts.pinned, parts.draw) = (look.map(ticket), pinned, 0.0);
            // A hedge that starts at once would be no look.
            learning.cost_budget("m", 0.1, false).lock().unwrap().charge(0.1 * 900.0);
            let plan = driver.plan(learning.now_us());
            let is_extra = |entry: &&PlannedStart| entry.trial && entry.start == StartRule::At(Duration::ZERO);
            let extra: Vec<usize> = plan.entries.iter().filter(is_extra).map(|entry| entry.candidate).collect();
            let what = format!("{policy} {look:?} {pinned:?}");
            assert_eq!(plan.entries[0].candidate, 0, "{what}");
            assert_eq!(extra, look.filter(|look| *look == 1).into_iter().collect::<Vec<_>>(), "{what}");
            assert_eq!(plan.trials_win, pinned.is_none(), "{what}");
            assert_eq!([0, 1].map(|candidate| driver.is_watched(candidate)), [0, 1].map(|n| look == Some(n)), "{what}");
            assert_eq!(driver.runs_on_for(1, learning.now_us()), Duration::from_secs(3), "to its timeout");
            assert_eq!(driver.reasons().contains(DecisionReason::Look), look.is_some(), "{what}");
        }
    }
}

#[test]
fn a_look_that_the_budget_does_not_hold_does_not_start() {
    let learning = taught(by_streams);
    learning.cost_budget("m", 0.1, false).lock().unwrap().charge(30.0 * 900.0);
    let mut driver = driver(&learning, "policy = \"adaptive\"", &[], false);
    driver.state.parts.look = Some(LookTicket { upstreams: 2, draw: 0.15, in_doubt: false });
    let plan = driver.plan(learning.now_us());
    assert!(plan.entries.iter().all(|entry| !entry.trial), "{plan:?}");
    assert_eq!(driver.look().unwrap().drawn, Some(1));
    assert!(!driver.is_watched(1) && !driver.reasons().contains(DecisionReason::Look));
    assert!(driver.reasons().contains(DecisionReason::Budget));
}

#[test]
fn a_look_at_a_full_upstream_does_not_start() {
    let learning = taught(by_streams);
    let mut driver = driver(&learning, "policy = \"fallback\"\nlook = 1", &[], false);
    driver.state.parts.look = Some(LookTicket { upstreams: 2, draw: 0.75, in_doubt: false });
    driver.state.parts.candidates[1].in_flight_max = Some(0);
    let plan = driver.plan(learning.now_us());
    assert_eq!((driver.look().unwrap().drawn, driver.is_full(1), driver.is_watched(1)), (Some(1), true, false));
    assert!(plan.entries.iter().all(|entry| !entry.trial), "{plan:?}");
}

#[test]
fn a_look_at_a_plain_request_only_shows_its_first_token() {
    let learning = taught(by_plain_attempts);
    let planned = |draw: f64, never_streams: bool| {
        let mut driver = driver(&learning, "policy = \"fallback\"\nlook = 1", &[], never_streams);
        driver.state.parts.look = Some(LookTicket { upstreams: 2, draw, in_doubt: false });
        let plan = driver.plan_whole(learning.now_us());
        (driver, plan)
    };
    let (mut driver, plan) = planned(0.75, false);
    let shown: Vec<bool> = plan.entries.iter().map(|entry| entry.only_shows).collect();
    assert_eq!((shown, driver.look().unwrap().drawn), (vec![false, true], Some(1)));
    assert_eq!([0, 1].map(|candidate| driver.is_plain(candidate)), [true, false]);
    assert_eq!([0, 1, 1].map(|candidate| driver.only_shows(candidate)), [false, true, false], "asked again it serves");
    let (mut leader, plan) = planned(0.25, false);
    assert!(plan.entries.iter().all(|entry| !entry.only_shows));
    assert_eq!([0, 1].map(|candidate| leader.is_plain(candidate)), [false, true], "the leader streams");
    assert!(!leader.only_shows(0));
    assert_eq!(planned(0.75, true).0.look().unwrap().drawn, None, "who never streams has no first token");
}

#[test]
fn a_breakers_trial_is_no_chosen_extra_even_if_it_wins() {
    let learning = taught(by_streams);
    let spent = |turn: CandidateTurn| {
        let mut driver = driver(&learning, "policy = \"adaptive\"", &[], false);
        driver.state.parts.candidates[1].turn = turn;
        let race_budget = driver.race_budget().clone();
        race_budget.requested(learning.now_us());
        for ordinal in [0, 1] {
            driver.started(ordinal, (ordinal, StartReason::First), &learning, PrefixBlocks::default(), 2_000);
        }
        race_budget.paid(0, 3.0);
        race_budget.paid(1, 10.0);
        race_budget.won(1);
        let before = lately(&learning);
        drop((driver, race_budget));
        let after = lately(&learning);
        [after.base - before.base, after.extras - before.extras, after.rescues - before.rescues]
    };
    assert_eq!((spent(CandidateTurn::Trial), spent(CandidateTurn::Usual)), ([10.0, 0.0, 3.0], [10.0, 3.0, 0.0]));
}

fn lately(learning: &Learning) -> SpentLately {
    learning.cost_budget("m", 0.1, false).lock().unwrap().spent_lately(learning.now_us())
}

#[test]
fn an_upstream_that_answers_worse_starts_after_the_others() {
    let learning = taught(TEACHERS[0].1);
    for policy in Policy::ALL.map(Policy::as_str) {
        let race = format!("policy = \"{policy}\"");
        let planned = |worse: &[usize]| {
            let mut driver = driver(&learning, &race, &[], false);
            worse.iter().for_each(|place| driver.state.parts.candidates[*place].worse = true);
            let plan = driver.plan(learning.now_us());
            (plan, driver.reasons().contains(DecisionReason::Quality))
        };
        let (plan, has_reason) = planned(&[0]);
        let starts: Vec<(usize, StartRule)> = plan.entries.iter().map(|entry| (entry.candidate, entry.start)).collect();
        assert_eq!(starts, [(1, StartRule::At(Duration::ZERO)), (0, StartRule::AfterFailure)], "{policy}");
        assert!(has_reason, "{policy}");
        assert_eq!(planned(&[0, 1]), (planned(&[]).0, false), "{policy}: where all are, none is");
    }
}

#[test]
fn a_loser_ends_soon_if_its_first_token_is_due_and_its_answer_is_short() {
    let learning = Arc::new(Learning::stopped());
    for n in 0..TAUGHT {
        learning.set_now_us((1_000 + 10 * n) * SECOND);
        let end = ObservedEnd { tpot_us: Some(5_000.0), ..ObservedEnd::default() };
        attempt(&learning, "talks/m", LatencyClock::FirstToken, spread(100, n), end);
    }
    let mut driver = driver(&learning, "policy = \"race\"", &[], false);
    driver.plan(learning.now_us());
    let token = |tokens: i64| AttemptView {
        first_token_us: Some(100_000),
        tokens,
        ..AttemptView::waiting(0, 100_000 + 5_000 * tokens)
    };
    let waiting = |us: i64| AttemptView::waiting(0, us);
    for (loser, tokens_max, ends) in [
        (waiting(80_000), Some(1), true),
        (waiting(80_000), Some(10), false),
        (waiting(80_000), None, false),
        (waiting(1_000), Some(1), false),
        (token(1), Some(4), true),
        (token(1), Some(40), false),
        (token(1), None, false),
        (token(95), None, true),
    ] {
        let now_us = learning.now_us() + loser.waited_us;
        let found = driver.ends_within(&loser, tokens_max, Duration::from_millis(50), now_us);
        assert_eq!(found, ends, "{loser:?} {tokens_max:?}");
    }
}

#[test]
fn an_upstream_of_which_nothing_is_seen_runs_on_under_a_policy_that_learns() {
    for (policy, learns) in [("adaptive", true), ("fallback", false), ("race", false), ("weighted", false)] {
        let (learning, taught) = (Arc::new(Learning::stopped()), taught(by_streams));
        for (known, learning) in [(false, &learning), (true, &taught)] {
            let mut driver = driver(learning, &format!("policy = \"{policy}\""), &[], false);
            driver.plan(learning.now_us());
            driver.started(0, (0, StartReason::First), learning, PrefixBlocks::default(), 0);
            assert_eq!(driver.runs_on(0), learns && !known, "{policy}, known: {known}");
        }
    }
}
