//! What steers a plan: its defaults, what a model sets of its own, and what is said of prices that are not known.

use super::*;

#[test]
fn nothing_said_is_the_documented_default() {
    let race = good("").race;
    assert_eq!((race.policy, race.hedge_after), (Policy::Adaptive, Duration::from_secs(1)));
    assert_eq!((race.optimise, race.budget, race.hold_max), (Objective::Auto, 0.1, Duration::from_millis(300)));
    assert_eq!((race.max_attempts, race.failovers, race.patience), (4, 64, 4.0));
    assert_eq!(race.slo, SloSettings { ttft: Duration::from_secs(1), tpot: Duration::from_millis(50) });
    assert_eq!(race.keepalive, Some(Duration::from_secs(5)));
    assert_eq!(good("[providers.ollama]").providers["ollama"].domain, None);
}

#[test]
fn a_model_may_set_part_of_it() {
    let config = good(
        r#"
        race = { optimise = "goodput", budget = 10, slo = { ttft = "2s", tpot = "0.5ms" }, hold_max = "5s", keepalive = "2s" }
        providers.ollama.domain = "park-1"
        providers.s = { simulate = {}, domain = "park-1" }
        [models.m]
        upstreams = ["ollama/x", "s/y", { upstream = "vllm/z", input_price = 2, output_price = 4, cached_price = 0.5, cache_write_price = 2.5 }]
        policy = "hedge"
        hedge_after = "250ms"
        patience = 0
        failovers = 1
        budget = 0
        slo = { ttft = "500ms" }
        hold_max = "0s"
        keepalive = "off"
        "#,
    );
    let race = &config.models["m"].race;
    assert_eq!((race.policy, race.optimise, race.budget), (Policy::Hedge, Objective::Goodput, 0.0));
    assert_eq!((race.patience, race.failovers), (0.0, 1));
    assert_eq!((race.hedge_after, race.hold_max), (Duration::from_millis(250), Duration::ZERO));
    assert_eq!(race.slo, SloSettings { ttft: Duration::from_millis(500), tpot: Duration::from_micros(500) });
    assert_eq!((config.race.budget, config.race.hold_max), (10.0, Duration::from_secs(5)));
    assert_eq!((config.race.keepalive, race.keepalive), (Some(Duration::from_secs(2)), None));
    let upstreams = &config.models["m"].upstreams;
    let domains: Vec<_> = upstreams.iter().map(|upstream| upstream.provider.domain.as_deref()).collect();
    assert_eq!(domains, [Some("park-1"), Some("park-1"), None]);
    assert_eq!(upstreams[2].price, Some(Price { input: 2.0, cached: 0.5, written: 2.5, output: 4.0, long: None }));
}

#[test]
fn what_a_budget_is_counted_in_is_said_where_it_is_not_money() {
    let price = |provider: &str, input: f64, output: f64| {
        format!("{{ upstream = \"{provider}/m\", input_price = {input}, output_price = {output} }}")
    };
    let warnings = |policy: &str, upstreams: &[String]| {
        good(&format!("[models.m]\npolicy = \"{policy}\"\nupstreams = [{}]", upstreams.join(", "))).warnings
    };
    let (none, other) = ("\"groq/m\"".to_owned(), "\"cerebras/m\"".to_owned());
    let unpriced = [none.clone(), other];
    let part = [price("together", 1.0, 9.0), none.clone(), price("fireworks", 2.0, 3.0)];
    let without = "model m: no upstream has a price: its budget counts tokens instead of money";
    assert_eq!(warnings("adaptive", &unpriced), [without]);
    let some = "model m: groq/m without a price: counted at the highest of the others, 2 USD per million input \
                tokens and 9 per million output tokens";
    assert_eq!(warnings("adaptive", &part), [some]);
    let quiet = [
        warnings("adaptive", &[price("together", 1.0, 9.0), price("fireworks", 0.0, 0.0)]),
        warnings("adaptive", &[none]),
        good("models.m.upstreams = [\"ollama/m\", \"vllm/m\"]").warnings,
        warnings("race", &part),
        good("models.m = { upstreams = [\"groq/m\", \"cerebras/m\"], policy = \"adaptive\", budget = 0 }").warnings,
    ];
    assert!(quiet.iter().all(Vec::is_empty), "{quiet:?}");
}
