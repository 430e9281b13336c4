//! Reads a [`Config`] from a file or a text. Not for the keys: see `raw` and `resolve`.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::catalogue_choice::ChosenCatalogue;
use super::file_modes;
use super::hints;
use super::problem::{LocatedProblem, Problems};
use super::raw::RawConfig;
use super::reader::ReaderScope;
use super::resolve;
use super::source::usual_store;
use super::{Config, ConfigSource, Listen};

/// Bytes of the largest config file.
const FILE_MAX: u64 = 1 << 20;

/// Why there is no config: a command ends with exit code 2. The message is complete; there is no `source()`.
#[derive(Debug)]
pub enum LoadError {
    Read { path: PathBuf, source: io::Error },
    Problems(Problems),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read { path, source } => {
                write!(f, "cannot read {}: {source}; ", path.display())?;
                f.write_str("name the config file with --config PATH or PHOTOFINISH_CONFIG")?;
                match source.kind() {
                    io::ErrorKind::NotFound => f.write_str(", or write a first one with `photofinish init`"),
                    _ => Ok(()),
                }
            }
            LoadError::Problems(problems) => problems.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// Reads the file, if there is one, and the variables from the environment.
///
/// # Errors
/// The file cannot be read, is larger than 1 MiB, or has problems. A variable of the gateway's own is wrong.
pub fn load(source: &ConfigSource) -> Result<Config, LoadError> {
    load_listening(source, None)
}

/// The same for a gateway that listens on `listen`, if given, whatever the file and the environment say.
///
/// # Errors
/// As [`load`].
pub fn load_listening(source: &ConfigSource, listen: Option<&Listen>) -> Result<Config, LoadError> {
    let env = |name: &str| std::env::var(name).ok();
    let mut config = match source {
        ConfigSource::File(path) => {
            let (text, metadata) = read_file(path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
            let given = GivenSettings { listen, reads_catalogue: true, ..GivenSettings::default() };
            let (mut config, holds_secrets) = read(&text, path, &given, &env).map_err(LoadError::Problems)?;
            config.warnings.extend(file_modes::config(path, &metadata).filter(|_| holds_secrets));
            config
        }
        ConfigSource::BuiltIn => built_in(usual_store(), listen, &env).map_err(LoadError::Problems)?,
    };
    config.given_listen = listen.cloned();
    config.warnings.extend(config.server.tls.as_ref().and_then(|tls| file_modes::key(&tls.key)));
    config.warnings.extend(file_modes::database(&config.store.path));
    Ok(config)
}

/// The built-in configuration: that of an empty file, with its history in `store`.
pub(super) fn built_in(
    store: PathBuf,
    listen: Option<&Listen>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Problems> {
    let given = GivenSettings { listen, store: Some(store), reads_catalogue: true };
    let (mut config, _) = read("", Path::new("the environment"), &given, env)?;
    config.source = ConfigSource::BuiltIn;
    Ok(config)
}

/// What does not come from the text.
#[derive(Default)]
struct GivenSettings<'g> {
    /// Where to listen, whatever the text says.
    listen: Option<&'g Listen>,
    /// The database, whatever the text says.
    store: Option<PathBuf>,
    /// Uses a newer catalogue from the file beside the store.
    reads_catalogue: bool,
}

/// Reads a config from its text, with the built-in catalogue. Opens only the files that `file:`, `tls` and `ca_file` name;
/// `path` is for messages.
///
/// # Errors
/// All problems of the text at once; broken TOML syntax alone.
pub fn parse(text: &str, path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Problems> {
    read(text, path, &GivenSettings::default(), env).map(|(config, _)| config)
}

/// The config, and whether the text itself contains secrets.
///
/// A newer catalogue must not stop the gateway from starting: if it makes the text wrong, for example because it lacks a
/// model, the built-in one counts.
fn read(
    text: &str,
    path: &Path,
    given: &GivenSettings<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Config, bool), Problems> {
    let found = read_once(text, path, given, env);
    let Some(problems) = found.as_ref().err().filter(|_| given.reads_catalogue) else { return found };
    let without = GivenSettings { reads_catalogue: false, store: given.store.clone(), ..*given };
    match read_once(text, path, &without, env) {
        Ok((mut config, holds_secrets)) => {
            let file = config.catalogue_file();
            let why = problems.list.first().map(ToString::to_string).unwrap_or_default();
            config.warnings.push(format!(
                "the catalogue {} is not used, because the configuration does not fit it; the built-in one counts: {why}",
                file.display()
            ));
            Ok((config, holds_secrets))
        }
        Err(_) => found,
    }
}

fn read_once(
    text: &str,
    path: &Path,
    given: &GivenSettings<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Config, bool), Problems> {
    let file = path.display().to_string();
    let document = match DeTable::parse(text) {
        Ok(document) => document.into_inner(),
        Err(error) => {
            // The message names TOML tokens, never the text. Display would quote the line, which may contain a key.
            let offset = error.span().map_or(0, |span| span.start);
            let why = line_at(text, offset).and_then(hints::syntax).unwrap_or_else(|| error.message().to_owned());
            return Err(Problems::new(file, text, vec![LocatedProblem::at(offset, format!("not TOML: {why}"))]));
        }
    };
    let scope = ReaderScope::new(env);
    let mut raw = RawConfig::read(&scope, document);
    if let Some(store) = &given.store {
        raw.store.url.clone_from(store);
    }
    let chosen = match given.reads_catalogue {
        true => ChosenCatalogue::beside(&raw.store.url, &scope),
        false => ChosenCatalogue::built_in(),
    };
    let mut config = resolve::resolve(&scope, raw, path, given.listen, chosen);
    let holds_secrets = scope.holds_secrets();
    let (found, warnings) = scope.finish(&file, text);
    if !found.is_empty() {
        return Err(Problems::new(file, text, found));
    }
    config.warnings = warnings;
    Ok((config, holds_secrets))
}

/// The line that this byte is in.
fn line_at(text: &str, offset: usize) -> Option<&str> {
    let (before, after) = text.split_at_checked(offset)?;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().filter(|_| !after.is_empty())
}

fn read_file(path: &Path) -> io::Result<(String, Metadata)> {
    let mut text = String::new();
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let read = file.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_MAX {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok((text, metadata))
}
