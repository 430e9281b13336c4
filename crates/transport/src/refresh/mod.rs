//! Gets a newer catalogue of models from a file or an address and puts it next to the store. The next start or reload takes it.
//!
//! Every step may refuse, and then nothing has changed. Not for which catalogue counts: see `config`.

mod fetch;
mod replace;
mod signature;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::upstream::{GetLimits, UpstreamClient};
pub use fetch::ReceivedFile;
use fetch::{FetchMemory, UntakenFile};
use photofinish_base::files::{self, FileLimits};
use photofinish_base::shutdown::Shutdown;
use photofinish_config::offerings::{CatalogueChange, ModelCatalogue, PriceMove};
use photofinish_config::{
    CATALOGUE_MAX, Config, HttpAddress, PriceSource, UpstreamConfig, read_catalogue_text, today, tomorrow,
};
pub use replace::UpdateError;
pub use signature::CatalogueSigner;
use signature::{ENDING, SIGNATURE_MAX, verify};

/// How long one look for a newer catalogue may take, redirects included.
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
    Url(HttpAddress),
}

impl fmt::Display for UpdateOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateOrigin::File(path) => path.display().fmt(f),
            UpdateOrigin::Url(url) => url.fmt(f),
        }
    }
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
    /// Reasons to ask for consent, or not to take it at all.
    pub objections: Vec<String>,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    Written,
    /// The same file is there already.
    Unchanged,
    /// It is older than the built-in catalogue, so it is never used.
    Older,
    /// There are objections and no consent.
    Refused,
}

/// Reads the file, or gets it from the address if it is not the version that is there.
///
/// Judges a file again that was refused before: the user may consent now.
///
/// # Errors
/// The file cannot be read, the address does not answer with a file within the limits, or the signer did not sign it.
pub async fn receive(
    origin: &UpdateOrigin,
    signer: &CatalogueSigner,
    target: &Path,
    client: &UpstreamClient,
    limits: GetLimits,
) -> Result<ReceivedFile, UpdateError> {
    match origin {
        UpdateOrigin::File(path) => {
            let text = read_catalogue_text(path, FileLimits::once());
            let text = text.map_err(|error| UpdateError(format!("cannot read {}: {error}", path.display())))?;
            if let CatalogueSigner::Key(key) = signer {
                let path = PathBuf::from(format!("{}{ENDING}", path.display()));
                let signature = files::read(&path, SIGNATURE_MAX.into(), FileLimits::once().without_pipes());
                let signature = signature.map_err(|error| {
                    UpdateError(format!("it is not signed: cannot read {}: {error}", path.display()))
                })?;
                verify(key, &text, &signature.bytes)?;
            }
            Ok(ReceivedFile::New { text: text.into(), memory: None })
        }
        UpdateOrigin::Url(url) => {
            let known = remembered(target, url).await.filter(FetchMemory::is_taken);
            signed(fetch::fetch(client, url, known, limits).await?, signer, client, url, limits).await
        }
    }
}

/// Gets the file from the address if it is not the version that was judged last, taken or not.
///
/// # Errors
/// The address does not answer with a file within the limits, or the signer did not sign it.
pub async fn look_again(
    url: &HttpAddress,
    signer: &CatalogueSigner,
    target: &Path,
    client: &UpstreamClient,
    limits: GetLimits,
) -> Result<ReceivedFile, UpdateError> {
    let received = fetch::fetch(client, url, remembered(target, url).await, limits).await?;
    signed(received, signer, client, url, limits).await
}

/// The file from this address, if its signature there is the signer's. One that was judged before was signed.
async fn signed(
    received: ReceivedFile,
    signer: &CatalogueSigner,
    client: &UpstreamClient,
    url: &HttpAddress,
    limits: GetLimits,
) -> Result<ReceivedFile, UpdateError> {
    if let (ReceivedFile::New { text, .. }, CatalogueSigner::Key(key)) = (&received, signer) {
        let limits = GetLimits { bytes: SIGNATURE_MAX.into(), ..limits };
        let signature = fetch::fetch(client, &url.with_end(ENDING), None, limits).await;
        let signature = signature.map_err(|error| UpdateError(format!("it is not signed: {error}")))?;
        if let ReceivedFile::New { text: signature, .. } = signature {
            verify(key, text, &signature)?;
        }
    }
    Ok(received)
}

/// When this address was last asked and had the file at `target`, in microseconds since 1970.
pub async fn asked_at_us(target: &Path, url: &HttpAddress) -> Option<i64> {
    remembered(target, url).await.filter(FetchMemory::is_taken).map(|memory| memory.asked_at_us())
}

/// None: no file of this address was judged since the catalogue at `target` changed.
async fn remembered(target: &Path, url: &HttpAddress) -> Option<FetchMemory> {
    let (target, url) = (target.to_owned(), url.clone());
    // No shutdown waits for it: it only reads.
    Shutdown::new().run_blocking(move || FetchMemory::of(&target, &url)).await.ok()?
}

/// Compares the file with the catalogue in use. Puts it next to the store if there is no objection, or if `accept` is the
/// consent. Remembers the version of a file from an address, taken or not.
/// Blocks while it reads and writes.
///
/// # Errors
/// The file is no catalogue, or cannot be written.
pub fn settle(config: &Config, received: ReceivedFile, accept: bool) -> Result<CatalogueUpdate, UpdateError> {
    let target = config.catalogue_file();
    let (text, memory) = match received {
        ReceivedFile::Known(memory) => {
            let update = known(config, &memory);
            memory.asked_again(&target);
            return Ok(update);
        }
        ReceivedFile::New { text, memory } => (text, memory),
    };
    let new = ModelCatalogue::read(&text).map_err(|error| {
        let page = text.trim_ascii_start().starts_with(b"<");
        UpdateError(if page { "it is a page of HTML and no catalogue".to_owned() } else { error.to_string() })
    })?;
    // Where it is tomorrow already, it may be made today.
    let tomorrow = tomorrow();
    if new.date() > tomorrow.as_str() {
        return Err(UpdateError(format!(
            "it is of {}, a day to come: no catalogue after it would be newer",
            new.date()
        )));
    }
    let is_there = read_catalogue_text(&target, FileLimits::once()).is_ok_and(|there| there == text);
    let update = judge(config, &new, is_there, accept);
    let is_taken = matches!(update.outcome, UpdateOutcome::Written | UpdateOutcome::Unchanged);
    if update.outcome == UpdateOutcome::Written {
        replace::replace(&target, &text)?;
    }
    match memory {
        Some(memory) if is_taken => memory.asked_again(&target),
        Some(memory) => {
            let untaken = UntakenFile { date: update.date.clone(), objections: update.objections.clone() };
            memory.without(untaken).asked_again(&target);
        }
        None if is_taken => FetchMemory::forget(&target),
        None => {}
    }
    Ok(update)
}

/// What became of the version that the address still has.
fn known(config: &Config, memory: &FetchMemory) -> CatalogueUpdate {
    let (outcome, date, objections) = match &memory.untaken {
        None => (UpdateOutcome::Unchanged, config.catalogue.date(), Vec::new()),
        Some(UntakenFile { date, objections }) => {
            let is_older = date.as_str() < ModelCatalogue::built_in_date();
            let outcome = if is_older { UpdateOutcome::Older } else { UpdateOutcome::Refused };
            (outcome, date.as_str(), objections.clone())
        }
    };
    let change = CatalogueChange::default();
    CatalogueUpdate { outcome, date: date.to_owned(), change, gone_in_use: Vec::new(), objections }
}

/// What the new catalogue changes, and whether to write it.
fn judge(config: &Config, new: &ModelCatalogue, is_there: bool, accept: bool) -> CatalogueUpdate {
    let change = CatalogueChange::between(&config.catalogue, new);
    let built_in = ModelCatalogue::built_in_date();
    let (outcome, objections) = if new.date() < built_in {
        let why = format!("it is of {}, older than the built-in catalogue of {built_in}", new.date());
        (UpdateOutcome::Older, vec![why])
    } else {
        let objections = objections(config, new, &change);
        let outcome = match objections.is_empty() || accept {
            _ if is_there => UpdateOutcome::Unchanged,
            true => UpdateOutcome::Written,
            false => UpdateOutcome::Refused,
        };
        (outcome, objections)
    };
    let in_use = in_use(config, |_| true);
    let gone_in_use = change.gone.iter().filter(|upstream| in_use.contains(*upstream)).cloned().collect();
    CatalogueUpdate { outcome, date: new.date().to_owned(), change, gone_in_use, objections }
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
        objections
            .push(format!("prices in use move more than threefold: {}", first(&moved, |moved| moved.to_string())));
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
