//! `photofinish models`: what is served, by which upstreams, and at what price; with a name, one model and every host that the
//! catalogue knows. `check` prints the same.
//!
//! Not for requests to an upstream: see `check --live`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use update::UpdateOptions;

use super::outcome::WrongUse;
use super::provider_state::ProviderState;
use super::routing::{self, GatewayAddress};
use super::screen::ScreenSettings;
use super::text::{GREEN, GREY, ShadedRow, YELLOW, write_columns, write_folded, write_shaded};
use super::verify;
use photofinish_config::offerings::{Offering, OfferingStatus};
use photofinish_config::{Config, ModelConfig, Objective, Price, PriceSource, RaceSettings, UpstreamConfig, units};
use photofinish_routing::policy::{PolicySetting, rules};
use photofinish_routing::status::RoutingReport;

pub mod update;

/// Prints the models of the configuration. `now`: what the running gateway knows beyond it of the models asked for.
///
/// # Errors
/// `WrongUse`: an unknown model or provider. `out` fails.
pub fn run(
    config: &Config,
    options: &ModelsOptions,
    now: Option<&ListedNow>,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    if let Some(name) = &options.provider
        && !config.providers.contains_key(name)
    {
        return Err(WrongUse(config.why_no_provider(name)).into());
    }
    if let Some(name) = &options.name {
        write_details(config, name, options.json, screen, out)?;
        if !options.json {
            let model = config.model(name).map_or(name.as_str(), |model| &model.name);
            verify::write_known(&config.store.address, model, screen, out)?;
        }
    } else if options.json {
        let models: Vec<Value> = options.chosen(config).map(|model| object(config, model)).collect();
        let place = config.catalogue_place.to_string();
        let catalogue = json!({ "date": config.catalogue.date(), "rows": config.catalogue.len(), "source": place });
        writeln!(
            out,
            "{:#}",
            json!({ "catalogue": catalogue, "models": models, "running": now.map(ListedNow::json) })
        )?;
    } else if config.models.is_empty() {
        writeln!(out, "The configuration has no models. A request may name an upstream: provider/model.")?;
    } else if options.chosen(config).next().is_none() {
        writeln!(out, "{} models are served, and none of them matches.", config.models.len())?;
    } else {
        render(config, options, screen, out)?;
        write_folded(&format!("  The catalogue is {}.", config.catalogue_place), screen.columns(), out)?;
    }
    if let Some(now) = now.filter(|_| !options.json) {
        now.write(screen, out)?;
    }
    Ok(())
}

/// Two lines or more for each model: its policy, then its upstreams.
pub fn render(
    config: &Config,
    options: &ModelsOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    for model in options.chosen(config) {
        let shade = (config.upstreams_on(model) == 0).then_some(YELLOW);
        write_shaded("  ", vec![(vec![model_line(config, model)], shade)], screen, out)?;
        upstream_rows(config, model, screen, out)?;
        if config.upstreams_on(model) == 1 && !config.serves_catalogue {
            write_folded("    one upstream: the policy makes no difference", screen.columns(), out)?;
        }
    }
    let sources = || options.chosen(config).flat_map(|model| &model.upstreams).map(|upstream| &upstream.price_source);
    let budgets = options.chosen(config).filter(|model| model.race.policy.spends_budget() && model.upstreams.len() > 1);
    if let Some(least) = budgets.map(|model| model.race.budget).filter(|budget| *budget > 0.0).min_by(f64::total_cmp) {
        let share = 100.0 * least;
        let text = format!(
            "  Budget {least}: attempts that are chosen in addition cost at most {share:.0} % of single ones; what replaces failed and \
             late attempts comes on top."
        );
        write_folded(&text, screen.columns(), out)?;
    }
    if sources().any(Option::is_some) {
        let catalogue = sources().flatten().any(|source| matches!(source, PriceSource::Catalogue(_)));
        let from =
            if catalogue { format!("; ~ by the catalogue of {}", config.catalogue.date()) } else { String::new() };
        write_folded(&format!("  Prices are in US dollars per million tokens{from}."), screen.columns(), out)?;
    }
    Ok(())
}

/// What the command takes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ModelsOptions {
    /// Only this model or alias, with everything that is known of it.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only models that two upstreams or more can serve.
    #[arg(long)]
    pub raceable: bool,
    /// Only models that this provider serves.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// JSON: one object with a list of models.
    #[arg(long)]
    pub json: bool,
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
}

#[derive(clap::Subcommand, Clone, Debug)]
pub enum ModelsAction {
    /// Get a newer catalogue of models and put it next to the store.
    ///
    /// The next start takes it, and a running gateway within seconds. The exit code is 1 where it is refused.
    #[command(after_help = update::EXAMPLES)]
    Update(UpdateOptions),
}

impl ModelsOptions {
    /// The models that they ask for, by name. `name` is another question.
    pub(super) fn chosen<'c>(&'c self, config: &'c Config) -> impl Iterator<Item = &'c Arc<ModelConfig>> {
        let by_provider = |model: &ModelConfig| {
            let of = |name: &String| model.upstreams.iter().any(|upstream| upstream.provider.name == *name);
            self.provider.as_ref().is_none_or(of)
        };
        let is_chosen =
            move |model: &ModelConfig| (!self.raceable || config.upstreams_on(model) > 1) && by_provider(model);
        config.models.values().filter(move |model| is_chosen(model))
    }
}

pub(super) fn upstream_rows(
    config: &Config,
    model: &ModelConfig,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut rows: Vec<ShadedRow> =
        model.upstreams.iter().map(|upstream| upstream_row(config, model, upstream)).collect();
    if let Some(shadow) = &model.shadow {
        let (mut row, shade) = upstream_row(config, model, &shadow.upstream);
        row.push(format!("shadow of {} %", (1e4 * shadow.share).round() / 1e2));
        rows.push((row, shade));
    }
    write_shaded("    ", rows, screen, out)
}

pub(super) fn model_line(config: &Config, model: &ModelConfig) -> String {
    let mut line = format!("{}: {}, {}", model.name, policy(&model.race), config.upstreams_on_text(model));
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
    let told = |setting: &PolicySetting| match setting {
        PolicySetting::HedgeAfter => format!(" after {}", units::format_duration(race.hedge_after)),
        PolicySetting::Objective => objective(race),
        PolicySetting::HoldMax if matches!(race.optimise, Objective::Auto | Objective::Ttft) => String::new(),
        PolicySetting::HoldMax => format!(", hold_max {}", units::format_duration(race.hold_max)),
        PolicySetting::Budget => format!(", budget {}", race.budget),
        PolicySetting::Weights => String::new(),
    };
    let settings: String = rules(race.policy).settings().iter().map(told).collect();
    format!("{}{settings}", race.policy.as_str())
}

/// Empty for the usual objective.
fn objective(race: &RaceSettings) -> String {
    if race.optimise == Objective::Auto {
        return String::new();
    }
    let name = format!(", optimise {}", race.optimise.as_str());
    if race.optimise != Objective::Goodput {
        return name;
    }
    let [ttft, tpot] = [race.slo.ttft, race.slo.tpot].map(units::format_duration);
    format!("{name} (TTFT {ttft}, TPOT {tpot})")
}

fn upstream_row(config: &Config, model: &ModelConfig, upstream: &UpstreamConfig) -> ShadedRow {
    let state = ProviderState::of(config, &upstream.provider);
    let price = match upstream.price {
        Some(Price { input, output, .. }) => {
            let known = matches!(upstream.price_source, Some(PriceSource::Catalogue(_)));
            format!("{}{} in, {} out", if known { "~" } else { "" }, dollars(input), dollars(output))
        }
        None if matches!(state, ProviderState::Off | ProviderState::Simulated) => String::new(),
        None => "no price".to_owned(),
    };
    let mut row = vec![upstream.name(), state.as_str().to_owned(), price];
    if rules(model.race.policy).settings().contains(&PolicySetting::Weights) {
        row.push(format!("weight {}", upstream.weight));
    }
    (row, Some(state.colour()))
}

/// At least cents.
pub(super) fn dollars(usd: f64) -> String {
    let exact = usd.to_string();
    let cents = format!("{usd:.2}");
    if exact.len() > cents.len() { format!("${exact}") } else { format!("${cents}") }
}

pub(super) fn object(config: &Config, model: &ModelConfig) -> Value {
    let upstream = |upstream: &UpstreamConfig| {
        let provider = &upstream.provider;
        json!({
            "upstream": upstream.name(),
            "state": ProviderState::of(config, provider).as_str(),
            "why": provider.why_off(),
            "base_url": if provider.simulate.is_some() { None } else { Some(&provider.base_url) },
            "input_price": upstream.price.map(|price| price.input),
            "cached_price": upstream.price.map(|price| price.cached),
            "cache_write_price": upstream.price.map(|price| price.written),
            "output_price": upstream.price.map(|price| price.output),
            "price_source": upstream.price_source.as_ref().map(ToString::to_string),
            "context": upstream.context,
            "facts": upstream.offering.as_deref().map(facts),
        })
    };
    json!({
        "model": model.name,
        "aliases": aliases(config, model).collect::<Vec<_>>(),
        "policy": model.race.policy.as_str(),
        "upstreams_on": config.upstreams_on(model),
        "upstreams": model.upstreams.iter().map(upstream).collect::<Vec<_>>(),
        "shadow": model.shadow.as_ref().map(|shadow| upstream(&shadow.upstream)),
        "shadow_share": model.shadow.as_ref().map(|shadow| shadow.share),
    })
}

/// Everything that the catalogue says of one offering.
pub(super) fn facts(host: &Offering) -> Value {
    json!({
        "upstream": host.upstream(),
        "model": host.model,
        "input_price": host.input,
        "cached_price": host.cached,
        "cache_write_price": host.written,
        "output_price": host.output,
        "context": host.context,
        "max_output": host.max_output,
        "kinds": host.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>()),
        "tools": host.tools,
        "reasoning": host.reasoning,
        "schema": host.schema,
        "precision": host.precision,
        "region": host.region,
        "status": host.status.as_str(),
        "retires": host.retires,
        "disputed": host.disputed,
        "source": host.source,
        "date": host.date,
        "seen": host.seen,
    })
}

/// Prints one model.
///
/// # Errors
/// `WrongUse` for an unknown one; `out` fails.
pub(super) fn write_details(
    config: &Config,
    name: &str,
    json: bool,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let asked = name;
    let is_known = |name: &str| config.model(name).is_some() || config.catalogue.model(name).is_some();
    let name = config.catalogue.undated_model(name).filter(|_| !is_known(name)).unwrap_or(name);
    let served = config.model(name);
    let known = config.catalogue.model(served.map_or(name, |model| &model.name));
    if served.is_none() && known.is_none() {
        let mut nearest = config.nearest_models(name);
        if nearest.is_empty() {
            nearest = config.nearest_catalogued(name);
        }
        let hint = if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(" or ")) };
        return Err(WrongUse(format!("there is no model {name:?} in the configuration or the catalogue{hint}")).into());
    }
    let hosts = known.map_or(&[][..], |known| &known.hosts);
    if json {
        let hosts: Vec<Value> = hosts.iter().map(|host| facts(host)).collect();
        let model = served.map(|model| object(config, model));
        writeln!(out, "{:#}", json!({ "name": name, "model": model, "hosts": hosts }))?;
        return Ok(());
    }
    if name != asked {
        write_folded(&format!("{asked} is a snapshot of {name}\n"), screen.columns(), out)?;
    }
    match served {
        Some(model) => {
            write_shaded("", vec![(vec![model_line(config, model)], None)], screen, out)?;
            upstream_rows(config, model, screen, out)?;
        }
        None => {
            let why = config.why_not_served(name).unwrap_or_default();
            write_folded(&format!("{name}: not served; {why}"), screen.columns(), out)?;
        }
    }
    if !hosts.is_empty() {
        let (date, place) = (config.catalogue.date(), &config.catalogue_place);
        write_folded(&format!("\nHosts in the catalogue of {date} ({place})"), screen.columns(), out)?;
        let rows = hosts.iter().map(|host| host_row(config, host)).collect();
        write_shaded("  ", rows, screen, out)?;
        writeln!(out)?;
        let notes: Vec<Vec<String>> = hosts.iter().filter_map(|host| notes(host)).collect();
        write_columns("  ", &notes, screen.columns(), out)?;
    }
    Ok(())
}

/// Upstream, on or off, price, window, and what it takes.
fn host_row(config: &Config, host: &Offering) -> ShadedRow {
    let provider = config.providers.get(&host.provider);
    let is_on = provider.is_some_and(|provider| config.provider_is_on(provider));
    let price = match Price::of_offering(host) {
        Some(price) => format!("{} in, {} out", dollars(price.input), dollars(price.output)),
        None => "no price".to_owned(),
    };
    let tokens = |tokens: Option<u64>| tokens.map_or("?".to_owned(), rounded);
    let window = format!("{} / {}", tokens(host.context), tokens(host.max_output));
    let takes = [("tools", host.tools), ("schema", host.schema), ("reasoning", host.reasoning)];
    let takes = takes.into_iter().filter(|(_, has)| *has == Some(true)).map(|(name, _)| name.to_owned());
    let kinds = host.kinds.iter().flatten().map(|kind| kind.as_str().to_owned());
    let takes = kinds.chain(takes).collect::<Vec<_>>().join(" ");
    let state = if is_on { "on" } else { "off" };
    let row = vec![host.upstream(), state.to_owned(), price, window, takes];
    (row, Some(if is_on { GREEN } else { GREY }))
}

/// Tokens in thousands or millions.
fn rounded(tokens: u64) -> String {
    match tokens {
        0..10_000 => tokens.to_string(),
        10_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{}M", (tokens as f64 / 1e5).round() / 10.0),
    }
}

/// What is unusual about a host.
fn notes(host: &Offering) -> Option<Vec<String>> {
    let mut notes = Vec::new();
    notes.extend(host.precision.as_ref().map(|precision| format!("served in {precision}")));
    let is_retired = host.status == OfferingStatus::Retired;
    notes.extend(host.retires.as_ref().filter(|_| !is_retired).map(|day| format!("ends on {day}")));
    notes.extend(host.seen.as_ref().filter(|_| is_retired).map(|day| format!("retired, last seen on {day}")));
    notes.extend(host.region.as_ref().map(|region| format!("region {region}")));
    notes.extend(host.dialect.as_ref().map(|dialect| format!("dialect {dialect} alone")));
    if host.disputed {
        notes.push("sources differ about its price: the dearer counts".to_owned());
    }
    notes.extend(host.tiers.first().map(|tier| format!("dearer above {} tokens", rounded(tier.above))));
    (!notes.is_empty()).then(|| vec![host.upstream(), notes.join(", ")])
}

/// How long `models` waits for a gateway on this machine.
const ANSWER_FOR: Duration = Duration::from_secs(1);

/// How the lists of providers differ from the configuration.
#[derive(Debug, Default)]
pub struct ListedNow {
    /// Upstreams that are the last choice, as `provider/model`, and why.
    unlisted: BTreeMap<String, String>,
    /// Models that are served only because a local server lists them.
    served: Vec<String>,
}

impl ListedNow {
    /// Asks the gateway of this configuration. None: none answers, it has users and answers admins only, or the options
    /// show nothing of its answer.
    pub async fn ask(config: &Config, options: &ModelsOptions) -> Option<ListedNow> {
        if !config.users.is_empty() || (options.name.is_some() && options.json) {
            return None;
        }
        let at = GatewayAddress::listening(&config.server.listen, config.server.tls.is_some()).ok()?;
        let told = tokio::time::timeout(ANSWER_FOR, routing::report(&at)).await.ok()??;
        Some(ListedNow::of(&told, config, options))
    }

    /// What concerns the models that the options ask for.
    fn of(running: &RoutingReport, config: &Config, options: &ModelsOptions) -> ListedNow {
        let models: Vec<&Arc<ModelConfig>> = match &options.name {
            Some(name) => config.model(name).into_iter().collect(),
            None => options.chosen(config).collect(),
        };
        let shown: BTreeSet<String> =
            models.iter().flat_map(|model| &model.upstreams).map(UpstreamConfig::name).collect();
        let mut now = ListedNow::default();
        for model in &running.models {
            if !config.models.contains_key(&model.model) && is_chosen(&model.model, running, options) {
                now.served.push(model.model.clone());
            }
            for reason in model.why.iter().filter(|why| why.code == "unlisted" && shown.contains(&why.upstream)) {
                now.unlisted.entry(reason.upstream.clone()).or_insert_with(|| reason.text.clone());
            }
        }
        now
    }

    pub(super) fn json(&self) -> Value {
        let unlisted: Vec<Value> =
            self.unlisted.iter().map(|(upstream, why)| json!({ "upstream": upstream, "why": why })).collect();
        json!({ "unlisted": unlisted, "served": self.served })
    }

    /// Nothing if no list differs from the configuration.
    fn write(&self, screen: ScreenSettings, out: &mut impl io::Write) -> io::Result<()> {
        if !self.unlisted.is_empty() {
            write_folded("  By the running gateway these are the last choice:", screen.columns(), out)?;
            let rows: Vec<Vec<String>> =
                self.unlisted.iter().map(|(upstream, why)| vec![upstream.clone(), why.clone()]).collect();
            write_columns("    ", &rows, screen.columns(), out)?;
        }
        if !self.served.is_empty() {
            let text = format!("  The running gateway also serves: {}.", self.served.join(", "));
            write_folded(&text, screen.columns(), out)?;
        }
        Ok(())
    }
}

/// Whether the options ask for this model, which the configuration lacks.
fn is_chosen(model: &String, running: &RoutingReport, options: &ModelsOptions) -> bool {
    let upstreams = || running.upstreams.iter().filter(|upstream| upstream.models.contains(model));
    let by_provider = |provider: &String| {
        upstreams().any(|upstream| upstream.upstream.split_once('/').is_some_and(|(name, _)| name == provider))
    };
    options.name.is_none()
        && (!options.raceable || upstreams().filter(|upstream| upstream.on).count() > 1)
        && options.provider.as_ref().is_none_or(by_provider)
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
        let config = photofinish_config::parse(text, Path::new("config.toml"), &|_| None).unwrap();
        let mut out = Vec::new();
        let screen = ScreenSettings { colour, ..PIPED };
        run(&config, &ModelsOptions { json, ..ModelsOptions::default() }, None, screen, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_model_is_listed_with_its_upstreams_and_their_prices() {
        let text = printed(MODELS, false, false);
        let expected = "  fast: adaptive, budget 0.1, 3 of 4 upstreams on, also quick
    groq/x    on         $0.59 in, $0.075 out
    openai/y  off
    sim/z     simulated
    ollama/w  on         no price
  Budget 0.1: attempts that are chosen in addition cost at most 10 % of single
    ones; what replaces failed and late attempts comes on top.
  Prices are in US dollars per million tokens.
  The catalogue is built in.
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
        assert!(
            off.contains(&format!("{YELLOW}off: adaptive, budget 0.1, off: none of its providers is on")),
            "{off:?}"
        );
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
