//! `photofinish models NAME`: one model, every host that the catalogue knows, and what is known of each.

use std::io;

use serde_json::{Value, json};

use super::rows::{dollars, facts, model_line, object, upstream_rows};
use crate::cli::outcome::WrongUse;
use crate::cli::screen::ScreenSettings;
use crate::cli::text::{GREEN, GREY, ShadedRow, write_columns, write_shaded};
use photofinish_config::config::{Config, Price};
use photofinish_config::offerings::Offering;

/// Prints one model.
///
/// # Errors
/// `WrongUse` for an unknown one; `out` fails.
pub(super) fn run(
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
        let nearest = config.nearest_models(name);
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
        writeln!(out, "{asked} is a snapshot of {name}\n")?;
    }
    match served {
        Some(model) => {
            write_shaded("", vec![(vec![model_line(config, model)], None)], screen, out)?;
            upstream_rows(config, model, screen, out)?;
        }
        None => writeln!(out, "{name}: not served; {}", config.why_not_served(name).unwrap_or_default())?,
    }
    if !hosts.is_empty() {
        writeln!(out, "\nHosts in the catalogue of {} ({})", config.catalogue.date(), config.catalogue_place)?;
        let rows = hosts.iter().map(|host| row(config, host)).collect();
        write_shaded("  ", rows, screen, out)?;
        writeln!(out)?;
        let notes: Vec<Vec<String>> = hosts.iter().filter_map(|host| notes(host)).collect();
        write_columns("  ", &notes, out)?;
    }
    Ok(())
}

/// Upstream, on or off, price, window, and what it takes.
fn row(config: &Config, host: &Offering) -> ShadedRow {
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
    notes.extend(host.retires.as_ref().map(|day| format!("ends on {day}")));
    notes.extend(host.region.as_ref().map(|region| format!("region {region}")));
    notes.extend(host.dialect.as_ref().map(|dialect| format!("dialect {dialect} alone")));
    if host.disputed {
        notes.push("sources differ about its price: the dearer counts".to_owned());
    }
    notes.extend(host.tiers.first().map(|tier| format!("dearer above {} tokens", rounded(tier.above))));
    (!notes.is_empty()).then(|| vec![host.upstream(), notes.join(", ")])
}
