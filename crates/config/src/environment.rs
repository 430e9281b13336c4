//! The variables that the configuration is read with: those of the process, and the credentials of its service manager.

use std::collections::BTreeMap;
use std::path::Path;

use photofinish_base::files::{self, FileLimits};

/// The directory of the service's credentials, as systemd names it (`LoadCredential=`).
const DIRECTORY: &str = "CREDENTIALS_DIRECTORY";
/// A credential of a directory of the same name, as systemd names it: `LoadCredential=keys:/etc/photofinish/keys`.
const OF_DIRECTORY: &str = "keys_";
/// Bytes of one credential of the service manager.
const CREDENTIAL_MAX: u64 = 64 << 10;
/// Credentials of the service manager that are read.
const CREDENTIALS_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Environment {
    credentials: BTreeMap<String, String>,
}

impl Environment {
    /// Reads the credentials. Without a directory that can be read there are none.
    pub fn read(limits: FileLimits) -> Environment {
        let directory = std::env::var_os(DIRECTORY).filter(|directory| !directory.is_empty());
        let texts = directory
            .and_then(|directory| files::texts_in(Path::new(&directory), CREDENTIAL_MAX, CREDENTIALS_MAX, limits).ok());
        Environment { credentials: texts.unwrap_or_default() }
    }

    /// The variable, else the credential of that name without the end of its line.
    pub fn get(&self, name: &str) -> Option<String> {
        let credential = || {
            let own = self.credentials.get(name).or_else(|| self.credentials.get(&format!("{OF_DIRECTORY}{name}")));
            own.map(|text| text.trim_end_matches(['\n', '\r']).to_owned())
        };
        std::env::var(name).ok().or_else(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_variable_that_is_not_set() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("PHOTOFINISH_TEST_ONE", "planted\n"), ("keys_PHOTOFINISH_TEST_TWO", "second"), ("PATH", "x")]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::write(folder.path().join("PHOTOFINISH_TEST_BYTES"), [0xff, 0xfe]).unwrap();
        let credentials = files::texts_in(folder.path(), CREDENTIAL_MAX, CREDENTIALS_MAX, FileLimits::once()).unwrap();
        let environment = Environment { credentials };
        assert_eq!(environment.get("PHOTOFINISH_TEST_ONE").as_deref(), Some("planted"));
        assert_eq!(environment.get("PHOTOFINISH_TEST_TWO").as_deref(), Some("second"));
        assert_eq!(environment.get("PATH"), std::env::var("PATH").ok(), "the process's own comes first");
        for absent in ["PHOTOFINISH_TEST_BYTES", "PHOTOFINISH_TEST_ABSENT"] {
            assert_eq!(environment.get(absent), None, "{absent}");
        }
    }
}
