//! Reads a [`Config`] from a file or a text. Not for the keys: see `raw` and `resolve`.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use toml::de::DeTable;

use super::catalogue_file::ChosenCatalogue;
use super::environment::Environment;
use super::problem::{self, LocatedProblem, Problems};
use super::raw::RawConfig;
use super::raw::StoreUrl;
use super::reader::ReaderScope;
use super::settings::usual_store;
use super::{Config, ConfigSource, Fingerprint, Keys, Listen, WrittenText, first_token, resolve};
use photofinish_base::files::{self, FileFacts, FileLimits, FileStamp};

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
    let limits = FileLimits::once();
    load_text(&ConfigText::read(source, limits)?, listen, limits)
}

/// The same with a text that was read before.
///
/// # Errors
/// The text has problems, or a variable of the gateway's own is wrong.
pub fn load_text(text: &ConfigText, listen: Option<&Listen>, limits: FileLimits) -> Result<Config, LoadError> {
    let environment = Environment::read(limits);
    let env = |name: &str| environment.get(name);
    let mut config = match text {
        ConfigText::File { path, text, facts } => {
            let given = GivenSettings { listen, store: None, reads_catalogue: true, limits };
            let (mut config, holds_secrets) = read(text, path, &given, &env).map_err(LoadError::Problems)?;
            config.warnings.extend(open_config(path, facts).filter(|_| holds_secrets));
            // A server without a key is asked for its models.
            let asks = config.providers.values().any(|provider| matches!(provider.keys, Keys::NotConfigured));
            if config.models.is_empty() && !asks {
                let what = "no [models], and no key of a provider: apps have to name upstreams, as \"PROVIDER/MODEL\"";
                config.warnings.push(what.to_owned());
            }
            config.text = config.text.filter(|_| facts.is_regular);
            config
        }
        ConfigText::BuiltIn(text) => built_in(text, usual_store(), listen, &env).map_err(LoadError::Problems)?,
    };
    settle(&mut config, listen, limits);
    Ok(config)
}

/// The configuration of this text where there is no file: with its history in the user's state directory.
///
/// # Errors
/// As [`load_text`].
pub fn load_without_file(text: &str, listen: Option<&Listen>) -> Result<Config, LoadError> {
    let environment = Environment::read(FileLimits::once());
    let env = |name: &str| environment.get(name);
    let mut config = built_in(text, usual_store(), listen, &env).map_err(LoadError::Problems)?;
    settle(&mut config, listen, FileLimits::once());
    Ok(config)
}

fn settle(config: &mut Config, listen: Option<&Listen>, limits: FileLimits) {
    config.given_listen = listen.cloned();
    config.warnings.extend(config.server.tls.as_ref().and_then(|tls| open_key(&tls.key, limits)));
    config.warnings.extend(open_database(config.store.address.local_file(), limits));
}

/// The text of a configuration. It may hold secrets.
pub enum ConfigText {
    File {
        path: PathBuf,
        text: String,
        facts: FileFacts,
    },
    /// See [`ConfigSource::BuiltIn`].
    BuiltIn(String),
}

impl ConfigText {
    /// # Errors
    /// The file cannot be read or does not answer, or it is larger than 1 MiB.
    pub fn read(source: &ConfigSource, limits: FileLimits) -> Result<ConfigText, LoadError> {
        let path = match source {
            ConfigSource::File(path) => path,
            ConfigSource::BuiltIn(text) => return Ok(ConfigText::BuiltIn(text.clone())),
        };
        let read = files::read(path, FILE_MAX, limits).and_then(|content| {
            let facts = content.facts;
            Ok(ConfigText::File { path: path.to_owned(), text: content.into_text()?, facts })
        });
        read.map_err(|source| LoadError::Read { path: path.to_owned(), source })
    }

    /// None: it is the built-in one.
    pub fn version(&self) -> Option<FileStamp> {
        match self {
            ConfigText::File { facts, .. } => Some(facts.stamp),
            ConfigText::BuiltIn(_) => None,
        }
    }

    /// None: it is the built-in one.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            ConfigText::File { text, .. } => Some(Fingerprint::of(text)),
            ConfigText::BuiltIn(_) => None,
        }
    }
}

/// The configuration of this text without a file, with its history in `store`. The built-in one is that of an empty text.
pub(super) fn built_in(
    text: &str,
    store: PathBuf,
    listen: Option<&Listen>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Problems> {
    let limits = FileLimits::once();
    let whole = format!("{text}{}", first_token::user_text(&store, listen, env, limits));
    let given = GivenSettings { listen, store: Some(store), reads_catalogue: true, limits };
    let (mut config, _) = read(&whole, Path::new("the environment"), &given, env)?;
    config.source = ConfigSource::BuiltIn(text.to_owned());
    config.text = None;
    config.written = WrittenText::default();
    Ok(config)
}

/// What does not come from the text.
struct GivenSettings<'g> {
    /// Where to listen, whatever the text says.
    listen: Option<&'g Listen>,
    /// The database, whatever the text says.
    store: Option<PathBuf>,
    /// Uses a newer catalogue from the file next to the store.
    reads_catalogue: bool,
    /// How the files are read that the text names.
    limits: FileLimits,
}

/// Reads a config from its text, with the built-in catalogue. Opens only the files that `file:`, `tls` and `ca_file` name;
/// `path` is for messages.
///
/// # Errors
/// All problems of the text at once; broken TOML syntax alone.
pub fn parse(text: &str, path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Problems> {
    let given = GivenSettings { listen: None, store: None, reads_catalogue: false, limits: FileLimits::once() };
    read(text, path, &given, env).map(|(config, _)| config)
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
            config.watched.insert(file.clone(), FileStamp::at(&file, given.limits));
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
            let known = problem::other_language(text).or_else(|| line_at(text, offset).and_then(problem::syntax));
            let key = error.span().and_then(|span| text.get(span)).filter(|_| error.message() == "duplicate key");
            let twice = key.map(|key| format!("\"{}\" stands here a second time: leave one out", problem::shown(key)));
            let why = known.or(twice).unwrap_or_else(|| error.message().to_owned());
            return Err(Problems::new(file, text, vec![LocatedProblem::at(offset, format!("not TOML: {why}"))]));
        }
    };
    let scope = ReaderScope::new(env, given.limits).with_homes(RawConfig::HOMES);
    let mut raw = RawConfig::read(&scope, document);
    if let Some(store) = &given.store {
        raw.store.url = StoreUrl::File(store.clone());
    }
    let chosen = match given.reads_catalogue {
        true => ChosenCatalogue::next_to(raw.store.address().local_file(), &scope),
        false => ChosenCatalogue::built_in(),
    };
    let mut config = resolve::resolve(&scope, raw, path, given.listen, chosen);
    let (holds_secrets, watched) = (scope.holds_secrets(), scope.watched());
    let (found, warnings) = scope.finish(&file, text);
    if !found.is_empty() {
        return Err(Problems::new(file, text, found));
    }
    config.warnings = warnings;
    config.text = Some(Fingerprint::of(text));
    config.written = WrittenText::of(text);
    config.watched = watched;
    Ok((config, holds_secrets))
}

/// The line that this byte is in.
fn line_at(text: &str, offset: usize) -> Option<&str> {
    let (before, after) = text.split_at_checked(offset)?;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().filter(|_| !after.is_empty())
}

/// A warning if others can read a config with keys in it.
fn open_config(path: &Path, facts: &FileFacts) -> Option<String> {
    let mode = mode_for_others(facts)?;
    Some(format!(
        "{path} has keys or tokens in it, and its mode {mode:o} lets other users of this machine at it: chmod 600 {path}, \
         or name variables or files instead of the keys",
        path = path.display()
    ))
}

/// A warning if others can read the private key of the listeners.
fn open_key(path: &Path, limits: FileLimits) -> Option<String> {
    let mode = mode_for_others(&files::facts(path, limits).ok()?)?;
    Some(format!(
        "the private key {path} has the mode {mode:o}, which lets other users of this machine at it: chmod 600 {path}",
        path = path.display()
    ))
}

/// A warning if others can read the database or its spill file.
fn open_database(path: &Path, limits: FileLimits) -> Option<String> {
    let mut spill = path.as_os_str().to_owned();
    spill.push(".spill");
    [path, Path::new(&spill)].into_iter().find_map(|file| {
        let mode = mode_for_others(&files::facts(file, limits).ok()?)?;
        Some(format!(
            "the history {file} has the mode {mode:o}, which lets other users of this machine at it: chmod 600 {path}*",
            file = file.display(),
            path = path.display()
        ))
    })
}

/// The mode, if the group or others have any permission.
fn mode_for_others(facts: &FileFacts) -> Option<u32> {
    (facts.is_regular && facts.mode & 0o077 != 0).then_some(facts.mode)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_that_others_may_read_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("key"), "planted").unwrap();
        let by_file = format!("file:{}", path("key").display());
        for (key, mode, database, expected) in [
            ("planted", 0o600, Some(0o600), vec![]),
            ("planted", 0o644, None, vec!["mode 644"]),
            ("planted", 0o640, Some(0o600), vec!["mode 640"]),
            ("${PHOTOFINISH_TEST_UNSET}", 0o644, None, vec![]),
            (by_file.as_str(), 0o644, None, vec![]),
            ("planted", 0o644, Some(0o644), vec!["config.toml has keys", "history.db has the mode 644"]),
            ("planted", 0o600, Some(0o620), vec!["the mode 620"]),
        ] {
            let set = |name: &str, mode| {
                std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(mode)).unwrap();
            };
            let url = path("history.db");
            let url = url.display();
            let text = format!("store.url = \"sqlite:{url}\"\n[providers.openai]\napi_key = \"{key}\"");
            std::fs::write(path("config.toml"), text).unwrap();
            set("config.toml", mode);
            let _ = std::fs::remove_file(path("history.db"));
            if let Some(mode) = database {
                std::fs::write(path("history.db"), "").unwrap();
                set("history.db", mode);
            }
            let mut warnings = load(&ConfigSource::File(path("config.toml"))).unwrap().warnings;
            warnings.retain(|warning| warning.contains("chmod"));
            assert_eq!(warnings.len(), expected.len(), "{key} {mode:o} {database:?}: {warnings:?}");
            for (warning, words) in warnings.iter().zip(expected) {
                assert!(warning.contains(words), "{words}: {warning}");
                assert!(!warning.contains("planted"), "{warning}");
            }
        }
    }
}
