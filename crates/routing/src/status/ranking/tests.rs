//! The order and its reasons, for made-up statistics.

use std::path::Path;

use super::*;
use crate::forecast::Learner;
use crate::money::CostBudget;

const SENT: SendConditions = SendConditions { uncached_tokens: 500.0, in_flight: 0 };
const NOW: i64 = 1_000_000_000;

/// An upstream with this TTFT (± 10 %) and this time per output token.
fn seen(name: &str, ttft_ms: f64, tpot_ms: f64) -> RankedUpstream {
    let mut learner = Learner::new();
    for n in 0..40_i32 {
        let at = NOW - i64::from(40 - n) * 1_000_000;
        learner.launched(at);
        learner.first_token(SENT, (ttft_ms * 1e3 * (0.9 + 0.05 * f64::from(n % 5))) as i64, at);
        learner.decoded(tpot_ms * 1e3, 100, 0, at);
    }
    contender(name, &learner)
}

fn contender(name: &str, learner: &Learner) -> RankedUpstream {
    RankedUpstream {
        name: name.to_owned(),
        forecast: Arc::new(learner.forecast()),
        throttled: learner.forecast().throttled(NOW),
        sent: SENT,
        cost: 1.0,
        price: 1.0,
        domain: None,
        obstacles: Obstacles { off: None, unlisted: None, cooling: None, breaker: BreakerStatus::Closed },
    }
}

fn ranked(contenders: &[RankedUpstream], race: &str) -> (Vec<String>, Vec<(String, String, String)>) {
    let config = photofinish_config::parse(&format!("[race]\n{race}\n"), Path::new("x"), &|_| None).unwrap();
    let mut cost_budget = CostBudget::new(config.race.budget);
    cost_budget.settle(1.0, 0.0, 0.0);
    cost_budget.finished(Some(300_000), Some(200));
    let (order, why) = rank(contenders, (cost_budget.terms(), LatencyClock::FirstToken), (&config.race, false), NOW);
    (order, why.into_iter().map(|reason| (reason.upstream, reason.code, reason.text)).collect())
}

fn codes(why: &[(String, String, String)]) -> Vec<(&str, &str)> {
    why.iter().map(|(upstream, code, _)| (upstream.as_str(), code.as_str())).collect()
}

#[test]
fn the_quickest_is_first_and_the_others_are_told_by_what_they_are_behind() {
    let mut throttled = Learner::new();
    (0..40).for_each(|_| throttled.first_token(SENT, 900_000, NOW));
    (0..5).for_each(|_| throttled.failed(NOW));
    let dear = RankedUpstream { cost: 3.0, price: 3.0, ..seen("b/m", 200.0, 20.0) };
    let contenders = [
        seen("slow/m", 600.0, 20.0),
        contender("bad/m", &throttled),
        dear,
        seen("a/m", 200.0, 20.0),
        seen("c/m", 200.0, 20.0),
    ];
    let (order, why) = ranked(&contenders, "");
    assert_eq!(order, ["a/m", "c/m", "b/m", "slow/m", "bad/m"]);
    let expected = [("a/m", "best"), ("c/m", "close"), ("b/m", "dearer"), ("slow/m", "slower"), ("bad/m", "throttled")];
    assert_eq!(codes(&why), expected);
    assert_eq!(why[2].2, "as quick as a/m, 3.0 × its cost");
    assert!(why[3].2.starts_with("TTFT with") && why[3].2.ends_with(" × that of a/m"), "{}", why[3].2);
}

#[test]
fn who_was_always_cut_off_is_not_called_as_good() {
    let mut cut = Learner::new();
    for n in 0..5 {
        cut.launched(NOW + n);
        cut.censored(SENT, 50_000, NOW + n);
    }
    let (order, why) = ranked(&[contender("cut/m", &cut), seen("a/m", 120.0, 20.0)], "");
    assert_eq!((order, why[1].1.as_str()), (vec!["a/m".to_owned(), "cut/m".to_owned()], "unknown"));
    assert!(why[1].2.contains("in 5 attempts"), "{}", why[1].2);
    let (order, why) = ranked(&[contender("cut/m", &cut), seen("late/m", 9_000.0, 20.0)], "");
    assert_eq!((order[0].as_str(), why[1].1.as_str()), ("cut/m", "slower"));
    assert!(why[1].2.starts_with("behind cut/m"), "{}", why[1].2);
}

#[test]
fn what_is_best_depends_on_the_aim() {
    let contenders = [seen("early/m", 200.0, 80.0), seen("fluent/m", 500.0, 10.0)];
    assert_eq!(ranked(&contenders, "optimise = \"ttft\"").0, ["early/m", "fluent/m"]);
    let (order, why) = ranked(&contenders, "");
    assert_eq!(order, ["fluent/m", "early/m"]);
    assert!(why[1].2.starts_with("TTFT with 15 % of the rest, p"), "{}", why[1].2);
    let (order, why) = ranked(&contenders, "optimise = \"completion\"");
    assert_eq!(order, ["fluent/m", "early/m"]);
    assert!(why[1].2.starts_with("whole answer p"), "{}", why[1].2);
    let goodput = "optimise = \"goodput\"\nslo = { ttft = \"2s\", tpot = \"50ms\" }";
    let (order, why) = ranked(&contenders, goodput);
    assert_eq!(order, ["fluent/m", "early/m"]);
    assert_eq!(why[1].2, "TPOT 80 ms, over the target of 50 ms");
}

#[test]
fn who_is_first_is_whom_a_request_would_ask_first() {
    let mut learner = Learner::new();
    for n in 0..200_i32 {
        let at = NOW - i64::from(200 - n) * 1_000_000;
        learner.launched(at);
        // One of thirteen takes two seconds: a smaller mean, and a longer tail.
        learner.first_token(SENT, if n % 13 == 0 { 2_000_000 } else { 150_000 }, at);
    }
    let contenders = [contender("straggles/m", &learner), seen("steady/m", 300.0, 20.0)];
    let (order, why) = ranked(&contenders, "optimise = \"ttft\"\nbudget = 0.02");
    assert_eq!(order, ["steady/m", "straggles/m"], "its tail weighs more");
    assert!(why[1].2.starts_with("TTFT p9"), "{}", why[1].2);
    assert_eq!(
        ranked(&contenders, "optimise = \"ttft\"\nbudget = 0").0,
        ["straggles/m", "steady/m"],
        "its mean is smaller"
    );
    let (order, why) = ranked(&[seen("a/m", 300.0, 20.0), contender("new/m", &Learner::new())], "budget = 0");
    assert_eq!((order[0].as_str(), why[0].2.as_str()), ("new/m", "too few samples; it is tried first"));
}

#[test]
fn who_cannot_be_asked_stands_behind_with_the_reason() {
    let with = |name: &str, obstacles: Obstacles| RankedUpstream { obstacles, ..seen(name, 50.0, 20.0) };
    let open = |breaker| Obstacles { off: None, unlisted: None, cooling: None, breaker };
    let contenders = [
        with("off/m", Obstacles { off: Some("KEY is not set".to_owned()), ..open(BreakerStatus::Closed) }),
        with("cool/m", Obstacles { cooling: Some(Duration::from_secs(7)), ..open(BreakerStatus::Closed) }),
        with("open/m", open(BreakerStatus::Open(Duration::from_secs(9)))),
        with("due/m", open(BreakerStatus::HalfOpen)),
        contender("new/m", &Learner::new()),
        seen("a/m", 300.0, 20.0),
    ];
    let (order, why) = ranked(&contenders, "");
    assert_eq!(order, ["a/m", "new/m"]);
    let behind = [("off/m", "off"), ("cool/m", "cooling_down"), ("open/m", "breaker"), ("due/m", "breaker")];
    assert_eq!(codes(&why)[2..], behind);
    assert_eq!(why[1].1, "unknown");
    for (place, words) in [(2, "KEY is not set"), (3, "7s"), (4, "9s"), (5, "next request")] {
        assert!(why[place].2.contains(words), "{}", why[place].2);
    }
}

#[test]
fn a_doubtful_one_is_asked_where_there_is_no_other() {
    let obstacles =
        || Obstacles { off: None, unlisted: None, cooling: None, breaker: BreakerStatus::Open(Duration::from_secs(9)) };
    let contenders = [RankedUpstream { obstacles: obstacles(), ..seen("a/m", 300.0, 20.0) }];
    let (order, why) = ranked(&contenders, "");
    assert_eq!((order, codes(&why)), (vec!["a/m".to_owned()], vec![("a/m", "breaker")]));
    assert!(why[0].2.contains("all the same"), "{}", why[0].2);
    let (_, why) = ranked(&[seen("a/m", 300.0, 20.0)], "");
    assert_eq!((why[0].1.as_str(), why[0].2.as_str()), ("best", "the only one that can be asked"));
}

#[test]
fn a_decision_looks_at_no_more_than_it_has_room_for() {
    let contenders: Vec<RankedUpstream> = (0..=CANDIDATES_MAX).map(|n| seen(&format!("p{n}/m"), 300.0, 20.0)).collect();
    let (order, why) = ranked(&contenders, "");
    assert_eq!((order.len(), why.len()), (CANDIDATES_MAX, CANDIDATES_MAX + 1));
    assert_eq!((why[16].0.as_str(), why[16].1.as_str()), ("p16/m", "beyond"));
}

/// What was learned decides nothing there.
#[test]
fn a_policy_that_does_not_learn_has_the_order_of_its_list() {
    let contenders = [seen("slow/m", 600.0, 20.0), seen("quick/m", 200.0, 20.0)];
    for (policy, why) in [
        ("race", ["asked with the others at once"; 2]),
        ("weighted", ["drawn by its weight"; 2]),
        ("fallback", ["number 1 of the list", "number 2 of the list"]),
        ("hedge", ["number 1 of the list", "number 2 of the list"]),
    ] {
        let (order, reasons) = ranked(&contenders, &format!("policy = \"{policy}\""));
        assert_eq!(order, ["slow/m", "quick/m"], "{policy}");
        assert_eq!(reasons.iter().map(|reason| reason.2.as_str()).collect::<Vec<_>>(), why);
        assert!(reasons.iter().all(|reason| reason.1 == "listed"));
    }
}
