//! The lines and objects of one model: its policy, its upstreams and what is known of them. Not for choosing models: see `models`.

use std::io;

use serde_json::{Value, json};

use crate::cli::provider_state::ProviderState;
use crate::cli::screen::ScreenSettings;
use crate::cli::text::{ShadedRow, write_shaded};
use photofinish_config::config::{
    Config, HedgeAfter, ModelConfig, Objective, Price, PriceSource, RaceSettings, UpstreamConfig, units,
};
use photofinish_config::offerings::Offering;
use photofinish_routing::policy::{PolicySetting, rules};

pub(super) fn upstream_rows(
    config: &Config,
    model: &ModelConfig,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let rows = model.upstreams.iter().map(|upstream| upstream_row(config, model, upstream)).collect();
    write_shaded("    ", rows, screen, out)
}

pub(super) fn model_line(config: &Config, model: &ModelConfig) -> String {
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
    let told = |setting: &PolicySetting| match (setting, race.hedge_after) {
        (PolicySetting::HedgeAfter, HedgeAfter::After(_)) => format!(" after {}", race.hedge_after.text()),
        (PolicySetting::HedgeAfter, HedgeAfter::Quantile(_)) => {
            let unlearned = units::format_duration(race.hedge_after.unlearned());
            format!(" after {} ({unlearned} until learned)", race.hedge_after.text())
        }
        (PolicySetting::Objective, _) => objective(race),
        (PolicySetting::HoldMax, _) if race.optimise == Objective::Ttft => String::new(),
        (PolicySetting::HoldMax, _) => format!(", hold_max {}", units::format_duration(race.hold_max)),
        (PolicySetting::Budget, _) => format!(", budget {}", race.budget),
        (PolicySetting::Weights, _) => String::new(),
    };
    let settings: String = rules(race.policy).settings().iter().map(told).collect();
    format!("{}{settings}", race.policy.as_str())
}

/// Empty for the usual objective.
fn objective(race: &RaceSettings) -> String {
    if race.optimise == Objective::Ttft {
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
    })
}
