//! Warnings about files that other users of the machine can read: keys, and the history. Not for changing modes.

use std::path::Path;

use photofinish_base::files::{self, FileFacts, FileLimits};

/// A warning if others can read a config with keys in it.
pub(super) fn config(path: &Path, facts: &FileFacts) -> Option<String> {
    let mode = mode_for_others(facts)?;
    Some(format!(
        "{path} has keys or tokens in it, and its mode {mode:o} lets other users of this machine at it: chmod 600 {path}, \
         or name variables or files instead of the keys",
        path = path.display()
    ))
}

/// A warning if others can read the private key of the listeners.
pub(super) fn key(path: &Path, limits: FileLimits) -> Option<String> {
    let mode = mode_for_others(&files::facts(path, limits).ok()?)?;
    Some(format!(
        "the private key {path} has the mode {mode:o}, which lets other users of this machine at it: chmod 600 {path}",
        path = path.display()
    ))
}

/// A warning if others can read the database or its spill file.
pub(super) fn database(path: &Path, limits: FileLimits) -> Option<String> {
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

    use crate::config::{ConfigSource, load};

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
