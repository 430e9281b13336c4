//! `[catalogue]`: which version of the catalogue of models counts, and the address of a newer one.
//!
//! Not for getting a newer one: see `refresh`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use super::http_address::HttpAddress;
use super::keys::{self, keys, own};
use super::problem::LocatedProblem;
use super::reader::{ReaderScope, TomlTable};
use crate::offerings::ModelCatalogue;
use photofinish_base::files::{self, FileLimits, FileStamp};

/// The catalogue's file, in the directory of the store. The name is our own: that directory may have files of other programs.
const CATALOGUE_FILE: &str = "photofinish.catalogue.json";
/// Bytes of the largest catalogue of models.
pub const CATALOGUE_MAX: usize = 16 << 20;

/// Where the catalogue that counts comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CataloguePlace {
    BuiltIn,
    File(PathBuf),
}

impl fmt::Display for CataloguePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CataloguePlace::BuiltIn => f.write_str("built in"),
            CataloguePlace::File(path) => path.display().fmt(f),
        }
    }
}

/// The catalogue that counts.
#[derive(Clone)]
pub(super) struct ChosenCatalogue {
    pub(super) catalogue: Arc<ModelCatalogue>,
    pub(super) place: CataloguePlace,
}

impl ChosenCatalogue {
    pub(super) fn built_in() -> ChosenCatalogue {
        ChosenCatalogue { catalogue: ModelCatalogue::built_in().clone(), place: CataloguePlace::BuiltIn }
    }

    /// The file next to this store, if it is not older than the built-in catalogue. A damaged file is only a warning.
    pub(super) fn next_to(store: &Path, scope: &ReaderScope<'_>) -> ChosenCatalogue {
        let path = catalogue_file(&std::path::absolute(store).unwrap_or_else(|_| store.to_owned()));
        // Reads the built-in catalogue, so only where there is a file to compare it with.
        let built_in_date = ModelCatalogue::built_in_date;
        scope.watch(&path, FileStamp::at(&path, scope.limits));
        match read(&path, scope.limits) {
            Ok(Some(catalogue)) if catalogue.date() >= built_in_date() => {
                ChosenCatalogue { catalogue: Arc::new(catalogue), place: CataloguePlace::File(path) }
            }
            Ok(_) => ChosenCatalogue::built_in(),
            Err(why) => {
                scope.warn(format!(
                    "the catalogue {} is not used: {why}; the built-in one of {} counts",
                    path.display(),
                    built_in_date()
                ));
                ChosenCatalogue::built_in()
            }
        }
    }
}

/// The file next to this store. None: it is absent.
fn read(path: &Path, limits: FileLimits) -> Result<Option<ModelCatalogue>, String> {
    match read_catalogue_text(path, limits) {
        Ok(text) => ModelCatalogue::read(&text).map(Some).map_err(|error| error.to_string()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The text of a catalogue's file.
///
/// # Errors
/// It is absent, is no file, cannot be read or does not answer, or has more than [`CATALOGUE_MAX`] bytes.
pub fn read_catalogue_text(path: &Path, limits: FileLimits) -> io::Result<Vec<u8>> {
    let max = u64::try_from(CATALOGUE_MAX).unwrap_or(u64::MAX);
    Ok(files::read(path, max, limits.without_pipes())?.bytes)
}

/// Where a newer catalogue is kept: next to the store.
pub(super) fn catalogue_file(store: &Path) -> PathBuf {
    store.with_file_name(CATALOGUE_FILE)
}

keys! {
    /// `[catalogue]`
    #[derive(Clone)]
    pub(super) struct CatalogueKeys {
        /// The address of a catalogue file: https, or http on this machine. The gateway asks once a day whether it is newer.
        /// Without it nothing is fetched.
        refresh: Option<HttpAddress> = own(read_refresh, |_| keys::text("https?://[^#@]+"));
        /// The public key of minisign of who signs that file, or "none": it needs no signature.
        public_key: Option<String> = own(read_public_key, |_| keys::text("none|RW[A-Za-z0-9+/]{54}"));
    }
}

const EXPECTED: &str = "an https address such as \"https://example.com/catalogue.json\", or http on this machine";

fn read_refresh(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<HttpAddress> {
    let text = table.text(key)?;
    match HttpAddress::parse_secure(&text.value) {
        Ok(url) => Some(url),
        Err(why) => {
            let problem = LocatedProblem::at(text.offset, format!("{} {why}", table.what(key)));
            table.scope.report(problem.expected(EXPECTED));
            None
        }
    }
}

fn read_public_key(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<String> {
    let text = table.text(key)?;
    let is_base64 = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
    if text.value == "none" || text.value.len() == 56 && text.value.starts_with("RW") && is_base64(&text.value) {
        return Some(text.value);
    }
    let problem = LocatedProblem::at(text.offset, format!("{} is no public key of minisign", table.what(key)));
    table
        .scope
        .report(problem.expected("56 characters that begin with RW, or \"none\" for a file without a signature"));
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigSource, load};
    use super::*;

    /// A catalogue with one model of Groq.
    fn text(date: &str) -> String {
        format!(
            r#"{{"format":1,"date":"{date}","sources":{{}},"columns":["id","model","input","output"],
                "models":[],"rows":{{"groq":[["planted-model","planted-model",1,2]]}}}}"#
        )
    }

    /// The configuration with this file next to its store.
    fn with(catalogue: &[u8]) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let store = folder.path().join("history.db");
        std::fs::write(
            &path,
            format!("store.url = \"sqlite:{}\"\nmodels.m.upstreams = [\"groq/planted-model\"]", store.display()),
        )
        .unwrap();
        std::fs::write(folder.path().join(CATALOGUE_FILE), catalogue).unwrap();
        let config = load(&ConfigSource::File(path)).unwrap();
        assert_eq!(config.catalogue_file(), folder.path().join(CATALOGUE_FILE));
        config
    }

    #[test]
    fn the_newer_of_the_two_counts() {
        let newer = with(text("2999-01-01").as_bytes());
        assert_eq!(newer.catalogue.date(), "2999-01-01");
        assert_eq!(newer.catalogue_place, CataloguePlace::File(newer.catalogue_file()));
        assert_eq!(newer.models["m"].upstreams[0].price.map(|price| price.output), Some(2.0));
        let older = with(text("2020-01-01").as_bytes());
        assert_eq!(older.catalogue_place, CataloguePlace::BuiltIn);
        assert!(older.catalogue.len() > 1 && older.warnings.iter().all(|warning| !warning.contains("catalogue")));
    }

    #[test]
    fn a_damaged_file_is_a_warning_and_the_built_in_one_counts() {
        let whole = text("2999-01-01");
        for (bytes, why) in [
            (&whole.as_bytes()[..whole.len() / 2], "it is no catalogue"),
            (b"<html>", "it is no catalogue"),
            (b"", "it is no catalogue"),
            (br#"{"format":2}"#, "a newer photofinish reads it"),
            (&vec![b' '; CATALOGUE_MAX + 1], "larger than 16 MiB"),
        ] {
            let config = with(bytes);
            assert_eq!(config.catalogue_place, CataloguePlace::BuiltIn);
            let warning = config.warnings.iter().find(|warning| warning.contains(CATALOGUE_FILE)).unwrap();
            assert!(warning.contains(why) && warning.contains("the built-in one of 20"), "{warning}");
        }
    }

    #[test]
    fn a_catalogue_is_old_after_sixty_days() {
        let config = with(text("2999-01-01").as_bytes());
        assert_eq!((config.old_catalogue("2999-03-02"), config.old_catalogue("2026-11-23")), (None, None));
        let warning = config.old_catalogue("2999-03-03").unwrap();
        assert!(warning.contains("61 days old") && warning.contains("models update"), "{warning}");
    }
}
