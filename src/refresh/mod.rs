//! Gets a newer catalogue of models from a file or an address and puts it beside the store. The next start or reload takes it.
//!
//! Every step may refuse, and then nothing has changed. Not for which catalogue counts: see `config`.

mod error;
mod fetch;
mod memory;
mod replace;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use crate::config::{CATALOGUE_MAX, CatalogueUrl, Config, PriceSource, UpstreamConfig, today};
use crate::offerings::{CatalogueChange, ModelCatalogue, PriceMove};
use crate::upstream::{GetLimits, UpstreamClient};
pub use error::UpdateError;
use fetch::FetchedFile;
use memory::FetchMemory;
pub use memory::asked_at_us;

/// How long one look at an address may take, redirects included.
const FETCH_FOR: Duration = Duration::from_secs(30);
/// Share of the rows that may vanish without consent.
const VANISHED_SHARE: f64 = 0.2;
/// How many times dearer or cheaper a price in use may become without consent.
const MOVED_TIMES: f64 = 3.0;
/// Names that one objection has.
const NAMES_SHOWN: usize = 3;

/// The limits of a look at an address.
pub const LIMITS: GetLimits = GetLimits { time: FETCH_FOR, bytes: CATALOGUE_MAX };

/// Where a newer catalogue comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateOrigin {
    File(PathBuf),
    Url(CatalogueUrl),
}

impl fmt::Display for UpdateOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateOrigin::File(path) => path.display().fmt(f),
            UpdateOrigin::Url(url) => url.fmt(f),
        }
    }
}

/// A file that was read and not judged yet.
pub struct ReceivedFile {
    text: Bytes,
    /// How to ask for a newer one, if it came from an address.
    memory: Option<FetchMemory>,
}

/// What an update found, and what became of it.
#[derive(Debug)]
pub struct CatalogueUpdate {
    pub outcome: UpdateOutcome,
    /// The day of the file.
    pub date: String,
    /// Against the catalogue in use.
    pub change: CatalogueChange,
    /// Rows that are gone and that an upstream of the configuration uses: it has no price and no limits then.
    pub gone_in_use: Vec<String>,
    /// Reasons to ask for consent.
    pub objections: Vec<String>,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    Written,
    /// The same file is there already.
    Unchanged,
    /// There are objections and no consent.
    Refused,
}

/// Reads the file, or gets it from the address if it is not the version that is there. None: it is.
///
/// # Errors
/// The file cannot be read, or the address does not answer with a file within the limits.
pub async fn receive(
    origin: &UpdateOrigin,
    target: &Path,
    client: &UpstreamClient,
    limits: GetLimits,
) -> Result<Option<ReceivedFile>, UpdateError> {
    let url = match origin {
        UpdateOrigin::File(path) => {
            let text = read(path).map_err(|why| UpdateError(format!("cannot read {}: {why}", path.display())))?;
            return Ok(Some(ReceivedFile { text, memory: None }));
        }
        UpdateOrigin::Url(url) => url,
    };
    let known = FetchMemory::of(target, url);
    match fetch::fetch(client, url, known.as_ref().map(|known| &known.file), limits).await? {
        FetchedFile::NotModified => {
            if let Some(known) = known {
                known.asked_again(target);
            }
            Ok(None)
        }
        FetchedFile::File { text, version } => {
            Ok(Some(ReceivedFile { text, memory: Some(FetchMemory::new(url, version)) }))
        }
    }
}

fn read(path: &Path) -> Result<Bytes, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is no file".to_owned());
    }
    let (mut text, limit) = (Vec::new(), u64::try_from(CATALOGUE_MAX).unwrap_or(u64::MAX));
    file.take(limit + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    match text.len() > CATALOGUE_MAX {
        true => Err(format!("it is larger than {} MiB", CATALOGUE_MAX >> 20)),
        false => Ok(text.into()),
    }
}

/// Compares the file with the catalogue in use. Puts it beside the store if there is no objection, or if `accept` is the
/// consent.
/// Blocks while it reads and writes.
///
/// # Errors
/// The file is no catalogue, is older than the built-in one, or cannot be written.
pub fn settle(config: &Config, received: &ReceivedFile, accept: bool) -> Result<CatalogueUpdate, UpdateError> {
    let target = config.catalogue_file();
    let new = ModelCatalogue::read(&received.text).map_err(|error| {
        let page = received.text.trim_ascii_start().starts_with(b"<");
        UpdateError(if page { "it is a page of HTML and no catalogue".to_owned() } else { error.to_string() })
    })?;
    let built_in = ModelCatalogue::built_in_date();
    if new.date() < built_in {
        return Err(UpdateError(format!("it is of {}, older than the built-in catalogue of {built_in}", new.date())));
    }
    let change = CatalogueChange::between(&config.catalogue, &new);
    let objections = objections(config, &new, &change);
    let outcome = if read(&target).is_ok_and(|there| there == received.text) {
        UpdateOutcome::Unchanged
    } else if !objections.is_empty() && !accept {
        UpdateOutcome::Refused
    } else {
        replace::replace(&target, &received.text)?;
        UpdateOutcome::Written
    };
    if outcome != UpdateOutcome::Refused {
        match &received.memory {
            Some(memory) => memory.clone().asked_again(&target),
            None => FetchMemory::forget(&target),
        }
    }
    let in_use = in_use(config, |_| true);
    let gone_in_use = change.gone.iter().filter(|upstream| in_use.contains(*upstream)).cloned().collect();
    Ok(CatalogueUpdate { outcome, date: new.date().to_owned(), change, gone_in_use, objections })
}

/// Why this catalogue needs consent.
fn objections(config: &Config, new: &ModelCatalogue, change: &CatalogueChange) -> Vec<String> {
    let mut objections = Vec::new();
    let (gone, before) = (change.gone.len(), change.rows_before);
    if gone as f64 > before as f64 * VANISHED_SHARE {
        objections.push(format!("{gone} of {before} rows would vanish, more than a fifth"));
    }
    let moved = moved_in_use(config, new, change);
    if !moved.is_empty() {
        let shown = |moved: &&PriceMove| {
            let after = moved.after.map_or("unknown".to_owned(), |after| format!("${after}"));
            format!("{} {} ${} → {after}", moved.upstream, moved.price, moved.before)
        };
        objections.push(format!("prices in use move more than threefold: {}", first(&moved, shown)));
    }
    let date = config.catalogue.date();
    if new.date() < date {
        objections.push(format!("it is of {}, older than the catalogue in use, of {date}", new.date()));
    }
    let is_lost = |name: &&String| config.catalogue.model(name).is_some() && new.model(name).is_none();
    let lost: Vec<&String> = config.models.keys().filter(is_lost).filter(|_| !config.serves_catalogue).collect();
    if !lost.is_empty() {
        objections.push(format!("it lacks models of the configuration: {}", first(&lost, |name| (*name).clone())));
    }
    objections
}

/// The prices that an upstream of the configuration goes by and that move too far. A retired row needs no price.
fn moved_in_use<'c>(config: &Config, new: &ModelCatalogue, change: &'c CatalogueChange) -> Vec<&'c PriceMove> {
    let in_use = in_use(config, |upstream| matches!(upstream.price_source, Some(PriceSource::Catalogue(_))));
    let today = today();
    let is_retired = |upstream: &str| {
        let row = upstream.split_once('/').and_then(|(provider, id)| new.offering(provider, id));
        row.is_some_and(|row| row.is_retired(&today))
    };
    let too_far = |moved: &&PriceMove| {
        moved.ratio() > MOVED_TIMES && in_use.contains(&moved.upstream) && !is_retired(&moved.upstream)
    };
    change.moved.iter().filter(too_far).collect()
}

/// The rows that upstreams of the configuration use, of those that `counts`.
fn in_use(config: &Config, counts: impl Fn(&UpstreamConfig) -> bool) -> BTreeSet<String> {
    let upstreams = config.models.values().flat_map(|model| &model.upstreams).filter(|upstream| counts(upstream));
    upstreams.filter_map(|upstream| Some(upstream.offering.as_ref()?.upstream())).collect()
}

/// The first few with commas, and how many more there are.
pub fn first<T>(items: &[T], shown: impl Fn(&T) -> String) -> String {
    let listed: Vec<String> = items.iter().take(NAMES_SHOWN).map(shown).collect();
    let more = items.len().saturating_sub(NAMES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", listed.join(", "))
}

#[cfg(test)]
mod tests;
