//! Where a configuration comes from: a file, or the environment alone. Not for reading it: see `load`.

use std::fmt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

use photofinish_base::files;

/// The file that is read if none is named.
pub const USUAL_FILE: &str = "config.toml";
const STORE_FILE: &str = "photofinish.db";

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    File(PathBuf),
    /// The built-in configuration: every default, and the keys in the environment.
    BuiltIn,
}

impl ConfigSource {
    /// The file that the user names, else `config.toml` in the working directory, else the built-in configuration.
    pub fn find(named: Option<&Path>) -> ConfigSource {
        match named {
            Some(named) => ConfigSource::File(named.to_owned()),
            None if files::is_there(Path::new(USUAL_FILE)) => ConfigSource::File(PathBuf::from(USUAL_FILE)),
            None => ConfigSource::BuiltIn,
        }
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            ConfigSource::File(path) => Some(path),
            ConfigSource::BuiltIn => None,
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigSource::File(path) => path.display().fmt(f),
            ConfigSource::BuiltIn => f.write_str("built in (there is no config.toml here)"),
        }
    }
}

/// Where the built-in configuration keeps the history: the user's state directory, or the working directory of a user without
/// a home.
pub(super) fn usual_store() -> PathBuf {
    let native = etcetera::base_strategy::choose_native_strategy();
    let directory = native.map(|native| native.state_dir().unwrap_or_else(|| native.data_dir()));
    match directory {
        Ok(directory) => directory.join("photofinish").join(STORE_FILE),
        Err(_) => PathBuf::from(STORE_FILE),
    }
}
