//! What is shared: who is known, what an attempt teaches, and that the history teaches the same.

use super::*;
use crate::forecast::SendConditions;
use crate::money::RaceBudget;
use crate::money::tariff::{PromptTokens, Tariff};
use photofinish_base::failure::FailureKind;
use photofinish_facts::bill::PerByte;
use photofinish_facts::record::recorded::{Recorded, RecordedAttempt};
use photofinish_facts::record::{AttemptOutcome, RaceOutcome, RaceSource};

const TARIFF: Tariff = Tariff { input: 1.0, cached: 0.5, output: 4.0, billed_on: false };

fn attempt_observer(
    learning: &Arc<Learning>,
    upstream: &str,
    race_budget: &Arc<RaceBudget>,
    ordinal: usize,
) -> AttemptObserver {
    AttemptObserver::start(ObserverSpec {
        clock: LatencyClock::FirstToken,
        ordinal,
        learning: learning.clone(),
        known: learning.upstream(upstream),
        race_budget: race_budget.clone(),
        tariff: TARIFF,
        sent: SendConditions { uncached_tokens: 100.0, in_flight: 0 },
        prompt: PromptTokens { uncached: 100.0, cached: 0.0 },
        blocks: PrefixBlocks::default(),
        known_tokens: 0.0,
        bytes: 0,
    })
}

fn bucket(cost_budget: &SharedCostBudget) -> f64 {
    lock(cost_budget).terms().bucket
}

#[test]
fn everybody_knows_the_same_of_an_upstream() {
    let learning = Learning::new();
    assert!(Arc::ptr_eq(&learning.upstream("a/m"), &learning.upstream("a/m")));
    assert!(Arc::ptr_eq(&learning.cost_budget("m", 0.1, false), &learning.cost_budget("m", 0.1, false)));
    assert!(
        !Arc::ptr_eq(&learning.cost_budget("m", 0.1, false), &learning.cost_budget("m", 0.2, false)),
        "a budget of its own"
    );
    assert!(
        !Arc::ptr_eq(&learning.cost_budget("n", 0.1, false), &learning.cost_budget("n", 0.1, true)),
        "tokens are no money"
    );
    learning.retain(|_| true, |model| model != "n");
    learning.upstream("b/m");
    let names = |learning: &Learning| -> Vec<String> {
        learning.upstreams().iter().map(|known| known.name().to_owned()).collect()
    };
    assert_eq!(names(&learning), ["a/m", "b/m"]);
    let budgets: Vec<(String, f64)> =
        learning.cost_budgets().into_iter().map(|(key, _)| (key.model.clone(), key.budget())).collect();
    assert_eq!(budgets, [("m".to_owned(), 0.1), ("m".to_owned(), 0.2)]);
    learning.retain(|name| name != "a/m", |_| true);
    assert_eq!(names(&learning), ["b/m"]);
}

#[test]
fn what_callers_name_pushes_out_nothing_that_is_configured() {
    let learning = Learning::new();
    let named_before = learning.upstream("a/m");
    let configure = |upstreams: &[&str], budgets: &[f64]| {
        let cost_budgets = budgets.iter().map(|budget| CostBudgetKey::new("m", *budget, false));
        learning.configure(upstreams.iter().map(|name| (*name).to_owned()), cost_budgets);
    };
    configure(&["a/m", "b/m"], &[0.1]);
    assert!(Arc::ptr_eq(&named_before, &learning.upstream("a/m")), "what is known of it stays");
    let (known, cost_budget) = (learning.upstream("b/m"), learning.cost_budget("m", 0.1, false));
    for at in 0..NAMED_MAX + 50 {
        learning.upstream(&format!("b/{at}"));
        learning.cost_budget("m", at as f64 / 1e4 + 1.0, false);
    }
    assert_eq!((learning.upstreams().len(), learning.cost_budgets().len()), (NAMED_MAX + 2, BROUGHT_MAX + 1));
    assert!(
        Arc::ptr_eq(&known, &learning.upstream("b/m"))
            && Arc::ptr_eq(&cost_budget, &learning.cost_budget("m", 0.1, false))
    );
    configure(&["c/m"], &[]);
    assert!(
        Arc::ptr_eq(&known, &learning.upstream("b/m"))
            && Arc::ptr_eq(&cost_budget, &learning.cost_budget("m", 0.1, false))
    );
    learning.retain(|name| name == "c/m", |_| false);
    assert_eq!((learning.upstreams().len(), learning.cost_budgets().len()), (1, 0));
}

#[test]
fn an_attempt_is_seen_waiting_until_it_tells() {
    let learning = Arc::new(Learning::new());
    let race_budget = Arc::new(RaceBudget::new(learning.cost_budget("m", 0.1, false), true));
    let known = learning.upstream("a/m");
    let waiting = || known.longest_waits(LatencyClock::FirstToken, learning.now_us() + 1).as_slice().len();
    let (mut seen, mut cut, dropped) = (
        attempt_observer(&learning, "a/m", &race_budget, 0),
        attempt_observer(&learning, "a/m", &race_budget, 0),
        attempt_observer(&learning, "a/m", &race_budget, 0),
    );
    assert_eq!(waiting(), 3);
    let before = known.forecast().seen();
    seen.first_token(300_000);
    assert_eq!(waiting(), 2);
    assert!(known.forecast().seen() > before, "at once, not when the answer ends");
    cut.ended(&ObservedEnd { waited_us: Some(200_000), ..ObservedEnd::default() });
    drop(dropped);
    assert_eq!((waiting(), known.forecast().launches()), (0, 3));
}

#[test]
fn only_an_upstream_with_whole_answers_has_statistics_of_them() {
    let learning = Arc::new(Learning::new());
    let whole = |name: &str| learning.upstream(name).forecast_by(LatencyClock::WholeAnswer);
    let spec = |name: &str, clock| ObserverSpec { known: learning.upstream(name), clock, ..observer_spec(&learning) };
    let end = ObservedEnd { waited_us: Some(1_000), ..ObservedEnd::default() };
    AttemptObserver::start(spec("a/m", LatencyClock::FirstToken)).ended(&end);
    assert!(Arc::ptr_eq(&whole("a/m"), &whole("b/m")));
    AttemptObserver::start(spec("b/m", LatencyClock::WholeAnswer)).ended(&end);
    assert!(!Arc::ptr_eq(&whole("a/m"), &whole("b/m")));
    assert_eq!((whole("a/m").launches(), whole("b/m").launches()), (0, 1));
}

#[test]
fn a_race_pays_for_what_is_billed() {
    let learning = Arc::new(Learning::new());
    let cost_budget = learning.cost_budget("m", 0.5, false);
    // Empty enough to hold all that comes.
    lock(&cost_budget).settle(140.0, 0.0, 7_000.0);
    let spent = |endings: [ObservedEnd; 2]| {
        let before = bucket(&cost_budget);
        let race_budget = Arc::new(RaceBudget::new(cost_budget.clone(), true));
        for (ordinal, ending) in endings.into_iter().enumerate() {
            attempt_observer(&learning, "a/m", &race_budget, ordinal).ended(&ending);
        }
        drop(race_budget);
        bucket(&cost_budget) - before
    };
    let billed = ObservedEnd { billed: true, ..ObservedEnd::default() };
    let won = ObservedEnd { served: true, output_tokens: Some(10), ..billed };
    assert!((spent([won, ObservedEnd::default()]) - 0.5 * 140.0).abs() < 1e-9, "the other was refused");
    assert!((spent([won, billed]) - (0.5 * 140.0 - 100.0)).abs() < 1e-9, "the prompt of the other");
    let cut = ObservedEnd { generated: 15, ..billed };
    assert!((spent([won, cut]) - (0.5 * 140.0 - 160.0)).abs() < 1e-9, "and what it had written");
    let counted = ObservedEnd { input_tokens: Some(52), cached_tokens: Some(40), output_tokens: Some(27), ..won };
    assert!((spent([counted, billed]) - (0.5 * (12.0 + 20.0 + 108.0) - 100.0)).abs() < 1e-9, "counted, not guessed");
}

#[test]
fn what_it_reports_of_its_cache_is_believed_by_and_by() {
    let learning = Arc::new(Learning::new());
    let known = learning.upstream("a/m");
    let blocks = learning.blocks(&[&[b'x'; 8_192]]);
    assert_eq!((learning.known_tokens(&known, &blocks, learning.now_us()), known.caching()), (0.0, 0.0));
    for _ in 0..40 {
        let known_tokens = learning.known_tokens(&known, &blocks, learning.now_us());
        let observer_spec = ObserverSpec { blocks: blocks.clone(), known_tokens, ..observer_spec(&learning) };
        let mut attempt_observer = AttemptObserver::start(observer_spec);
        attempt_observer.first_token(1_000);
        attempt_observer.ended(&ObservedEnd {
            input_tokens: Some(2_100),
            cached_tokens: Some(2_048),
            ..ObservedEnd::default()
        });
    }
    assert_eq!(learning.known_tokens(&known, &blocks, learning.now_us()), 2_048.0);
    assert!(known.caching() > 0.95, "{}", known.caching());
}

#[test]
fn what_is_counted_tells_how_many_tokens_the_bytes_of_a_request_make() {
    let learning = Arc::new(Learning::new());
    assert_eq!(AttemptObserver::start(observer_spec(&learning)).per_byte(), (None, None));
    for tokens in [250; 20].into_iter().chain([400]) {
        AttemptObserver::start(observer_spec(&learning))
            .ended(&ObservedEnd { input_tokens: Some(tokens), ..ObservedEnd::default() });
    }
    let learnt = Some(PerByte { least: 0.25, most: 0.4 });
    assert_eq!(AttemptObserver::start(observer_spec(&learning)).per_byte(), (learnt, learnt));
    let other = ObserverSpec { known: learning.upstream("b/m"), ..observer_spec(&learning) };
    assert_eq!(AttemptObserver::start(other).per_byte(), (None, learnt));
}

fn observer_spec(learning: &Arc<Learning>) -> ObserverSpec {
    ObserverSpec {
        ordinal: 0,
        learning: learning.clone(),
        known: learning.upstream("a/m"),
        clock: LatencyClock::FirstToken,
        race_budget: Arc::new(RaceBudget::new(learning.cost_budget("m", 0.1, false), true)),
        tariff: TARIFF,
        sent: SendConditions::default(),
        prompt: PromptTokens::default(),
        blocks: PrefixBlocks::default(),
        known_tokens: 0.0,
        bytes: 1_000,
    }
}

fn recorded(started_at: i64, attempts: &[(&str, Option<i64>, bool)]) -> Recorded {
    let attempt = |(ordinal, (provider, obs, seen)): (usize, &(&str, Option<i64>, bool))| RecordedAttempt {
        ordinal: ordinal as i64,
        provider: (*provider).to_owned(),
        model_sent: "m".to_owned(),
        dispatch_us: 0,
        in_flight: 0,
        ttft_obs_us: *obs,
        seen: *seen,
        plain: false,
        outcome: if *seen { AttemptOutcome::Won } else { AttemptOutcome::Lost },
        failure: obs.is_none().then_some(FailureKind::ServerError),
        tpot_us: seen.then_some(20_000.0),
        input_tokens: None,
        cached_input_tokens: None,
        output_tokens: seen.then_some(100),
        cost_usd: None,
        calls: None,
        structured: None,
        tool_set: None,
        ended_us: 3_000_000,
    };
    Recorded {
        race_id: String::new(),
        started_at,
        model: "m".to_owned(),
        policy: None,
        stream: true,
        has_tools: false,
        input_tokens_estimate: 500,
        winner: Some(0),
        client_ttft_us: attempts[0].1,
        done_us: Some(3_000_000),
        outcome: RaceOutcome::Ok,
        source: RaceSource::Client,
        look: None,
        attempts: attempts.iter().enumerate().map(attempt).collect(),
    }
}

#[test]
fn the_history_teaches_what_was_seen() {
    let learning = Learning::new();
    let began = learning.now_us() - 400_000_000;
    let by = RequestMemory {
        counts: &|_| true,
        cost_budget: Some(learning.cost_budget("m", 0.1, false)),
        cost: &|_| Some(900.0),
    };
    for n in 0..400 {
        let ttft = 200_000 + n % 7 * 10_000;
        let mut request =
            recorded(began + n * 1_000_000, &[("a", Some(ttft), true), ("b", Some(ttft), false), ("c", None, false)]);
        // What was drawn and could not start is no look.
        request.look = ["a/m", "d/m"].get(n as usize % 16).map(|name| (*name).to_owned());
        learning.remember(&request, &by);
    }
    let median = |upstream: &str| {
        let sent = SendConditions { uncached_tokens: 500.0, in_flight: 0 };
        learning.upstream(upstream).forecast().ttft_quantile_us(sent, 0.5, learning.now_us())
    };
    assert_eq!(learning.upstream("a/m").forecast().launches(), 0, "not before it is published");
    learning.publish();
    let a = median("a/m").unwrap();
    assert!((190_000.0..280_000.0).contains(&a), "{a}");
    assert!(learning.upstream("c/m").forecast().throttled(learning.now_us()));
    assert_eq!(learning.upstream("a/m").forecast().launches(), 400);
    let taken =
        |upstream: &str| lock(&learning.cost_budget("m", 0.1, false)).looks().taken(upstream, learning.now_us());
    assert_eq!(["a/m", "b/m", "d/m"].map(taken), [25.0, 0.0, 0.0]);
    let terms = lock(&learning.cost_budget("m", 0.1, false)).terms();
    assert!((terms.answer_tokens - 100.0).abs() < 10.0 && terms.p99_us < 2e6, "{terms:?}");
    assert_eq!((terms.mean_cost, terms.bucket), (900.0, 200.0 * 0.1 * 900.0));
}
