//! `photofinish models`: what is served, by which upstreams, and at what price. `check` prints the same.
//!
//! Not for requests to an upstream: see `check --live`.

mod details;
mod options;
mod rows;
mod running;
pub mod update;

use std::io;

use serde_json::{Value, json};

use super::outcome::WrongUse;
use super::screen::ScreenSettings;
use super::text::{YELLOW, write_shaded};
pub use options::{ModelsAction, ModelsOptions};
use photofinish_config::config::{Config, PriceSource};
use rows::{model_line, object, upstream_rows};
pub use running::ListedNow;

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
        details::run(config, name, options.json, screen, out)?;
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
        writeln!(out, "{} models are served, and none of them is such a one.", config.models.len())?;
    } else {
        render(config, options, screen, out)?;
        writeln!(out, "  The catalogue is {}.", config.catalogue_place)?;
    }
    if let Some(now) = now.filter(|_| !options.json) {
        now.write(out)?;
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
            writeln!(out, "    one upstream: the policy makes no difference")?;
        }
    }
    let sources = || options.chosen(config).flat_map(|model| &model.upstreams).map(|upstream| &upstream.price_source);
    if sources().any(Option::is_some) {
        let catalogue = sources().flatten().any(|source| matches!(source, PriceSource::Catalogue(_)));
        let from =
            if catalogue { format!("; ~ by the catalogue of {}", config.catalogue.date()) } else { String::new() };
        writeln!(out, "  Prices are in US dollars per million tokens{from}.")?;
    }
    Ok(())
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
        let config = photofinish_config::config::parse(text, Path::new("config.toml"), &|_| None).unwrap();
        let mut out = Vec::new();
        let screen = ScreenSettings { colour, ..PIPED };
        run(&config, &ModelsOptions { json, ..ModelsOptions::default() }, None, screen, &mut out).unwrap();
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
