//! Races for clients that do not stream go by the time to the whole answer, whoever taught it: order, hedges, overdue attempts. On a
//! stopped clock.

use std::path::Path;

use super::*;
use crate::forecast::SendConditions;
use crate::learning::{AttemptObserver, ObservedEnd, RequestMemory};
use crate::money::tariff::{PromptTokens, Tariff};
use crate::money::{CostBudget, SpentLately};
use crate::policy::plan::StartRule;
use crate::policy::{CandidateState, ContextFits, LookDraw};
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
    let settings =
        photofinish_config::config::parse(&format!("[race]\n{race}\n"), Path::new("x"), &|_| None).unwrap().race;
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
        last: false,
        first_token: Duration::from_secs(3),
        trial: false,
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
            assert_eq!((order(&tokens), streamed.is_plain()), (vec!["talks/m", "answers/m"], false), "{who} {budget}");
            assert_eq!((order(&answers), whole.is_plain()), (vec!["answers/m", "talks/m"], true), "{who} {budget}");
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
            assert!(driver.is_plain(), "{who} {budget}");
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
        assert_eq!((begin, driver.is_plain()), (at_once, at_once == 1), "{race}");
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

#[test]
fn a_look_draws_each_upstream_with_the_same_chance_and_costs_a_fifth_of_the_budget() {
    let learning = taught(by_streams);
    let draw = |race: &str, prices: [f64; 2], (lately, known): (i32, i32), draw: f64| {
        let mut driver = driver(&learning, race, &[], false);
        let parts = &mut driver.state.parts;
        for (candidate, price) in parts.candidates.iter_mut().zip(prices) {
            candidate.tariff = Tariff { input: price, cached: price, output: 4.0 * price, billed_on: false };
        }
        let mut cost_budget = CostBudget::new(0.1);
        (0..known).for_each(|_| cost_budget.settle(1.0, 0.0, 0.0));
        (0..lately).for_each(|_| cost_budget.requested(1));
        let race_budget = RaceBudget::new(Arc::new(cost_budget.into()), true);
        LookDraw::new(&parts.settings, &parts.candidates, 4, (&race_budget, 1), draw)
    };
    let probability =
        |race: &str, prices: [f64; 2], lately: i32| -> f64 { 4.0 * draw(race, prices, (lately, 200), 1.0).probability };
    for (race, prices, lately, expected) in [
        ("policy = \"adaptive\"", [1.0, 1.0], 10, 0.02),
        ("policy = \"adaptive\"\nlook = 0.001", [1.0, 1.0], 10, 0.001),
        ("policy = \"adaptive\"\nlook = 1", [1.0, 1.0], 10, 0.02),
        ("policy = \"adaptive\"\nbudget = 0.02", [1.0, 1.0], 10, 0.004),
        ("policy = \"adaptive\"\nbudget = 10", [1.0, 1.0], 10, 0.02),
        ("policy = \"adaptive\"\nbudget = 0.0", [1.0, 1.0], 10, 0.0),
        ("policy = \"adaptive\"", [1.0, 9.0], 10, 0.004),
        ("policy = \"adaptive\"", [0.0, 0.0], 10, 0.02),
        ("policy = \"adaptive\"", [1.0, 1.0], 100_000, 800.0 / 2_400_000.0),
        ("policy = \"race\"", [1.0, 9.0], 10, 0.02),
        ("policy = \"fallback\"", [1.0, 1.0], 10, 0.0),
        ("policy = \"fallback\"\nlook = 0.5", [1.0, 1.0], 10, 0.5),
        ("policy = \"fallback\"\nlook = 0.5\nmax_attempts = 1", [1.0, 1.0], 10, 0.0),
        ("policy = \"race\"\nlook = 1", [1.0, 1.0], 10, 1.0),
    ] {
        let probability = probability(race, prices, lately);
        assert!((probability - expected).abs() < 1e-9, "{race} {prices:?} {lately}: {probability}");
    }
    let drawn =
        [0.0, 0.006, 0.011, 0.0199, 0.02, 0.5].map(|at| draw("policy = \"adaptive\"", [1.0, 1.0], (10, 200), at).drawn);
    assert_eq!(drawn, [Some(0), Some(1), Some(2), Some(3), None, None]);
}

#[test]
fn the_drawn_one_starts_beside_the_leader_and_the_leader_alone() {
    let learning = taught(by_streams);
    let one_first = Policy::ALL.into_iter().filter(|policy| policy.order() != UpstreamOrder::AllAtOnce);
    for policy in one_first.map(Policy::as_str) {
        for (look, pinned) in [(None, None), (Some(0), None), (Some(1), None), (Some(1), Some(0))] {
            let mut driver = driver(&learning, &format!("policy = \"{policy}\""), &[], false);
            let parts = &mut driver.state.parts;
            (parts.look, parts.pinned, parts.draw) = (look, pinned, 0.0);
            // A hedge that starts at once would be no look.
            learning.cost_budget("m", 0.1, false).lock().unwrap().charge(0.1 * 900.0);
            let plan = driver.plan(learning.now_us());
            let beside = |entry: &&PlannedStart| entry.trial && entry.start == StartRule::At(Duration::ZERO);
            let extra: Vec<usize> = plan.entries.iter().filter(beside).map(|entry| entry.candidate).collect();
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
    driver.state.parts.look = Some(1);
    let plan = driver.plan(learning.now_us());
    assert!(plan.entries.iter().all(|entry| !entry.trial), "{plan:?}");
    assert!(!driver.is_watched(1) && !driver.reasons().contains(DecisionReason::Look));
    assert!(driver.reasons().contains(DecisionReason::Budget));
}

#[test]
fn a_breakers_trial_is_no_chosen_extra_even_if_it_wins() {
    let learning = taught(by_streams);
    let spent = |trial: bool| {
        let mut driver = driver(&learning, "policy = \"adaptive\"", &[], false);
        driver.state.parts.candidates[1].trial = trial;
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
    assert_eq!((spent(true), spent(false)), ([10.0, 0.0, 3.0], [10.0, 3.0, 0.0]));
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
