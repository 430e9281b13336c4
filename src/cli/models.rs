//! `photofinish models`: what is served, by which upstreams, and at what price. `check` prints the same.
//!
//! Not for requests to an upstream: see `check --live`.

use std::io;

use serde_json::{Value, json};

use super::provider_state::ProviderState;
use super::screen::ScreenSettings;
use super::text::{ShadedRow, YELLOW, write_shaded};
use crate::config::{Config, HedgeAfter, ModelConfig, Objective, Policy, Price, RaceSettings, UpstreamConfig, units};

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct ModelsOptions {
    /// JSON: one object with a list of models.
    #[arg(long)]
    pub json: bool,
}

/// Prints the models of the configuration.
///
/// # Errors
/// `out` fails.
pub fn run(
    config: &Config,
    options: &ModelsOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if options.json {
        let models: Vec<Value> = config.models.values().map(|model| object(config, model)).collect();
        return writeln!(out, "{:#}", json!({ "models": models }));
    }
    if config.models.is_empty() {
        return writeln!(out, "The configuration has no models. A request may name an upstream: provider/model.");
    }
    render(config, screen, out)
}

/// Two lines or more for each model: its policy, then its upstreams.
pub fn render(config: &Config, screen: ScreenSettings, out: &mut impl io::Write) -> io::Result<()> {
    for model in config.models.values() {
        let shade = (config.upstreams_on(model) == 0).then_some(YELLOW);
        write_shaded("  ", vec![(vec![model_line(config, model)], shade)], screen, out)?;
        let rows = model.upstreams.iter().map(|upstream| upstream_row(config, model, upstream)).collect();
        write_shaded("    ", rows, screen, out)?;
        if config.upstreams_on(model) == 1 {
            writeln!(out, "    one upstream: the policy makes no difference")?;
        }
    }
    if config.models.values().flat_map(|model| &model.upstreams).any(|upstream| upstream.price.is_some()) {
        writeln!(out, "  Prices are in US dollars per million tokens.")?;
    }
    Ok(())
}

fn model_line(config: &Config, model: &ModelConfig) -> String {
    let mut line = format!("{}: {}, {}", model.name, policy(&model.race), config.told_on(model));
    if model.race.breaker.failures == 0 {
        line.push_str(", no breaker");
    }
    for alias in aliases(config, model) {
        line.push_str(", also ");
        line.push_str(alias);
    }
    line
}

fn aliases<'c>(config: &'c Config, model: &ModelConfig) -> impl Iterator<Item = &'c str> {
    config.aliases.iter().filter(|(_, name)| **name == model.name).map(|(alias, _)| alias.as_str())
}

/// The policy with the settings that matter to it.
fn policy(race: &RaceSettings) -> String {
    let name = race.policy.as_str();
    match (race.policy, race.hedge_after) {
        (Policy::Race | Policy::Fallback | Policy::Weighted, _) => name.to_owned(),
        (Policy::Hedge, HedgeAfter::After(_)) => format!("{name} after {}", race.hedge_after.text()),
        (Policy::Hedge, HedgeAfter::Quantile(_)) => {
            let unlearned = units::format_duration(race.hedge_after.unlearned());
            format!("{name} after {} ({unlearned} until learned)", race.hedge_after.text())
        }
        (Policy::Fastest, _) => format!("{name}, optimise {}", objective(race)),
        (Policy::Adaptive | Policy::Rule, _) => {
            format!("{name}, optimise {}, budget {}", objective(race), race.budget)
        }
    }
}

fn objective(race: &RaceSettings) -> String {
    let name = race.optimise.as_str();
    let held = match (race.policy, race.optimise) {
        (Policy::Adaptive, Objective::Completion | Objective::Goodput) => {
            format!(", hold_max {}", units::format_duration(race.hold_max))
        }
        _ => String::new(),
    };
    if race.optimise != Objective::Goodput {
        return format!("{name}{held}");
    }
    let [ttft, tpot] = [race.slo.ttft, race.slo.tpot].map(units::format_duration);
    format!("{name} (TTFT {ttft}, TPOT {tpot}){held}")
}

fn upstream_row(config: &Config, model: &ModelConfig, upstream: &UpstreamConfig) -> ShadedRow {
    let state = ProviderState::of(config, &upstream.provider);
    let price = match upstream.price {
        Some(Price { input, output, .. }) => format!("{} in, {} out", dollars(input), dollars(output)),
        None if matches!(state, ProviderState::Off | ProviderState::Simulated) => String::new(),
        None => "no price".to_owned(),
    };
    let mut row = vec![upstream.name(), state.as_str().to_owned(), price];
    if model.race.policy == Policy::Weighted {
        row.push(format!("weight {}", upstream.weight));
    }
    (row, Some(state.colour()))
}

/// At least cents.
fn dollars(usd: f64) -> String {
    let exact = usd.to_string();
    let cents = format!("{usd:.2}");
    if exact.len() > cents.len() { format!("${exact}") } else { format!("${cents}") }
}

fn object(config: &Config, model: &ModelConfig) -> Value {
    let upstream = |upstream: &UpstreamConfig| {
        let provider = &upstream.provider;
        json!({
            "upstream": upstream.name(),
            "state": ProviderState::of(config, provider).as_str(),
            "why": provider.why_off(),
            "base_url": if provider.simulate.is_some() { None } else { Some(&provider.base_url) },
            "input_price": upstream.price.map(|price| price.input),
            "cached_price": upstream.price.map(|price| price.cached),
            "output_price": upstream.price.map(|price| price.output),
            "context": upstream.context,
        })
    };
    json!({
        "model": model.name,
        "aliases": aliases(config, model).collect::<Vec<_>>(),
        "policy": model.race.policy.as_str(),
        "upstreams_on": config.upstreams_on(model),
        "upstreams": model.upstreams.iter().map(upstream).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::screen::PIPED;

    const MODELS: &str = r#"
        [providers]
        groq.api_key = "planted-key"
        openai.api_key = "${UNSET}"
        sim.simulate = {}
        [models.fast]
        upstreams = [{ upstream = "groq/x", input_price = 0.59, output_price = 0.075 }, "openai/y", "sim/z", "ollama/w"]
        aliases = ["quick"]
    "#;

    fn printed(text: &str, json: bool, colour: bool) -> String {
        let config = crate::config::parse(text, Path::new("config.toml"), &|_| None).unwrap();
        let mut out = Vec::new();
        let screen = ScreenSettings { colour, ..PIPED };
        run(&config, &ModelsOptions { json }, screen, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_model_is_listed_with_its_upstreams_and_their_prices() {
        let text = printed(MODELS, false, false);
        let expected = "  fast: race, 3 of 4 upstreams on, also quick
    groq/x    on         $0.59 in, $0.075 out
    openai/y  off
    sim/z     simulated
    ollama/w  on         no price
  Prices are in US dollars per million tokens.
";
        assert_eq!(text, expected, "{text}");
        assert!(printed("", false, false).contains("no models"));
    }

    #[test]
    fn states_are_coloured_on_a_terminal() {
        let text = printed(MODELS, false, true);
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("groq/x").contains("\x1b[32m") && line("openai/y").contains("\x1b[90m"), "{text:?}");
        let off = printed("models.off.upstreams = [\"groq/x\"]", false, true);
        assert!(off.contains(&format!("{YELLOW}off: race, off: none of its providers is on")), "{off:?}");
    }

    #[test]
    fn programs_get_every_upstream_and_no_key() {
        let text = printed(MODELS, true, false);
        let value: Value = serde_json::from_str(&text).unwrap();
        let model = &value["models"][0];
        assert_eq!(
            (&model["model"], &model["aliases"], &model["upstreams_on"]),
            (&json!("fast"), &json!(["quick"]), &json!(3))
        );
        let groq = &model["upstreams"][0];
        assert_eq!(
            (&groq["upstream"], &groq["state"], &groq["input_price"], &groq["output_price"]),
            (&json!("groq/x"), &json!("on"), &json!(0.59), &json!(0.075))
        );
        assert_eq!(groq["base_url"], "https://api.groq.com/openai/v1");
        assert_eq!(model["upstreams"][1]["why"], "UNSET is not set");
        assert!(!text.contains("planted"), "{text}");
    }
}
