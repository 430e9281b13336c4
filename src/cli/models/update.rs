//! `photofinish models update`: a newer catalogue from a file or an address, put next to the store.
//!
//! Not for the checks that it has to pass: see `refresh`.

use std::io;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::cli::outcome::WrongUse;
use crate::cli::screen::ScreenSettings;
use crate::cli::text::{counted, write_folded};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::offerings::PriceMove;
use photofinish_config::{Config, HttpAddress};
use photofinish_transport::refresh::{self, CatalogueSigner, CatalogueUpdate, UpdateOrigin, UpdateOutcome};
use photofinish_transport::upstream::UpstreamClient;

pub const EXAMPLES: &str = "\
Examples:
  photofinish models update --from https://example.com/catalogue.json --public-key RWQ…
  photofinish models update --from catalogue.json --public-key none
  photofinish models update --accept    from `refresh`, signed by `public_key`, under [catalogue]";

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct UpdateOptions {
    /// A file, or an https address; `refresh` under `[catalogue]` unless given.
    #[arg(long, value_name = "FILE|URL")]
    from: Option<String>,
    /// The public key of minisign of who signs it, whose signature is the same name with `.minisig`; `none` takes a file that
    /// is not signed. `public_key` under `[catalogue]` unless given.
    #[arg(long, value_name = "KEY|none")]
    public_key: Option<String>,
    /// Take it even if more than a fifth of the rows vanish, a price in use moves more than threefold, it is older than the
    /// catalogue in use, or a configured model is not in it.
    #[arg(long)]
    accept: bool,
    /// JSON: one object with what changed.
    #[arg(long)]
    json: bool,
}

impl UpdateOptions {
    /// # Errors
    /// `WrongUse`: there is no origin, or it is an address that is not safe.
    fn origin(&self, config: &Config) -> Result<UpdateOrigin, WrongUse> {
        let Some(from) = &self.from else {
            return config.catalogue_refresh.clone().map(UpdateOrigin::Url).ok_or_else(|| {
                WrongUse(
                    "there is no usual address of newer catalogues: give a file or an https address with --from and who signed \
                     it with --public-key, or set `refresh` and `public_key` under [catalogue]"
                        .to_owned(),
                )
            });
        };
        if !from.contains("://") {
            return Ok(UpdateOrigin::File(PathBuf::from(from)));
        }
        let url = HttpAddress::parse_secure(from);
        url.map(UpdateOrigin::Url).map_err(|why| WrongUse(format!("the address of --from {why}")))
    }

    /// # Errors
    /// `WrongUse`: no signer is given, or it is no key.
    fn signer(&self, config: &Config) -> Result<CatalogueSigner, WrongUse> {
        let Some(key) = self.public_key.as_ref().or(config.catalogue_public_key.as_ref()) else {
            return Err(WrongUse(
                "a newer catalogue has to be signed: give the public key of minisign of who signs it with --public-key, or \
                 `--public-key none` to take it as it is"
                    .to_owned(),
            ));
        };
        CatalogueSigner::parse(key).map_err(|error| WrongUse(error.to_string()))
    }
}

/// Gets the catalogue and prints what it changes.
///
/// # Errors
/// `WrongUse` as above. The catalogue cannot be had, is refused, or cannot be written; `out` fails.
pub async fn run(
    config: &Config,
    options: &UpdateOptions,
    screen: ScreenSettings,
    out: &mut impl io::Write,
) -> anyhow::Result<()> {
    let (origin, signer) = (options.origin(config)?, options.signer(config)?);
    let shutdown = Shutdown::new();
    let client = UpstreamClient::new(shutdown.clone()).context("cannot set up TLS")?;
    let received = refresh::receive(&origin, &signer, &config.catalogue_file(), &client, refresh::LIMITS).await;
    shutdown.cancel();
    let received = received.with_context(|| format!("{origin} is not taken"))?;
    let update = refresh::settle(config, received, options.accept).with_context(|| format!("{origin} is refused"))?;
    if options.json {
        writeln!(out, "{:#}", object(config, &origin, &update))?;
    } else {
        write_folded(&words(config, &origin, &update), screen.columns(), out)?;
    }
    let why = update.objections.join("; ");
    match update.outcome {
        UpdateOutcome::Written | UpdateOutcome::Unchanged => Ok(()),
        UpdateOutcome::Older => bail!("{origin} is refused: {why}"),
        UpdateOutcome::Refused => bail!("{origin} is refused: {why}. With --accept it is taken nevertheless"),
    }
}

fn object(config: &Config, origin: &UpdateOrigin, update: &CatalogueUpdate) -> serde_json::Value {
    let outcome = match update.outcome {
        UpdateOutcome::Unchanged => "unchanged",
        UpdateOutcome::Written => "written",
        UpdateOutcome::Older | UpdateOutcome::Refused => "refused",
    };
    let moved = |moved: &PriceMove| {
        json!({
            "upstream": moved.upstream,
            "price": moved.price,
            "before": moved.before,
            "after": moved.after,
        })
    };
    json!({
        "outcome": outcome,
        "from": origin.to_string(),
        "file": config.catalogue_file(),
        "date_before": config.catalogue.date(),
        "date": update.date,
        "added": update.change.added,
        "gone": update.change.gone,
        "gone_in_use": update.gone_in_use,
        "moved": update.change.moved.iter().map(moved).collect::<Vec<_>>(),
        "objections": update.objections,
    })
}

/// What it changes.
fn words(config: &Config, origin: &UpdateOrigin, update: &CatalogueUpdate) -> String {
    let (date, place) = (config.catalogue.date(), &config.catalogue_place);
    if update.outcome == UpdateOutcome::Unchanged {
        return format!("{origin} has nothing newer: the catalogue in use is of {date} ({place}).");
    }
    let what = format!("{origin}: the catalogue of {}; in use is that of {date} ({place}).", update.date);
    let change = &update.change;
    let names = |names: &[String], what: &str| {
        let rows = counted(names.len() as u64, "row");
        (!names.is_empty()).then(|| format!("  {rows} {what}: {}", refresh::first(names, String::clone)))
    };
    let moved = (!change.moved.is_empty()).then(|| {
        let prices = counted(change.moved.len() as u64, "price");
        format!("  {prices} moved by more than 10 %: {}", refresh::first(&change.moved, PriceMove::to_string))
    });
    let in_use = names(&update.gone_in_use, "gone that the configuration uses");
    let written = (update.outcome == UpdateOutcome::Written).then(|| {
        format!("Written to {}. A running gateway takes it within seconds.", config.catalogue_file().display())
    });
    let lines = [Some(what), names(&change.added, "added"), names(&change.gone, "gone"), in_use, moved, written];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}
