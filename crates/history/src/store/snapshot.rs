//! What is known of teams, users and keys, in a file next to the spill file, for a start while the database is away. It has hashes of
//! keys and no key. Not for a history in a file, which has them itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::store::accounts::{AccountEntry, AccountKind};
use photofinish_config::StoreAddress;

/// Bytes of the file of known keys that is read: about a hundred thousand keys.
const BYTES_MAX: u64 = 64 << 20;

fn file_of(store: &StoreAddress) -> PathBuf {
    let mut path = store.local_file().as_os_str().to_owned();
    path.push(".keys");
    path.into()
}

/// Keeps them in place of what was kept. Blocks.
///
/// # Errors
/// The file cannot be written; then the one before is still there.
pub fn keep_snapshot(store: &StoreAddress, entries: &[AccountEntry]) -> io::Result<()> {
    let path = file_of(store);
    let mut next = path.clone().into_os_string();
    next.push(".new");
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, 0o600);
    let mut file = open.open(&next)?;
    for entry in entries {
        let AccountEntry { kind, id, settings, version, sha256 } = entry;
        let sha256 = sha256.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let line =
            json!({ "kind": kind.as_str(), "id": id, "settings": settings, "version": version, "sha256": sha256 });
        writeln!(file, "{line}")?;
    }
    file.sync_all()?;
    fs::rename(&next, &path)
}

/// What was kept. None: nothing, or it cannot be read whole. Blocks.
pub fn kept_snapshot(store: &StoreAddress) -> Option<Vec<AccountEntry>> {
    let path = file_of(store);
    if fs::metadata(&path).ok()?.len() > BYTES_MAX {
        return None;
    }
    fs::read_to_string(&path).ok()?.lines().map(entry).collect()
}

fn entry(line: &str) -> Option<AccountEntry> {
    let mut line: Value = serde_json::from_str(line).ok()?;
    let sha256 = match line["sha256"].as_str() {
        None => None,
        Some(text) => Some(hash(text)?),
    };
    let Value::Object(settings) = line["settings"].take() else { return None };
    let kind = AccountKind::from_name(line["kind"].as_str()?)?;
    Some(AccountEntry {
        kind,
        id: line["id"].as_str()?.to_owned(),
        settings,
        version: line["version"].as_i64()?,
        sha256,
    })
}

fn hash(text: &str) -> Option<[u8; 32]> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| byte(pair)).collect::<Option<Vec<u8>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn accounts_come_back_as_they_were_and_half_a_file_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("x.db").into();
        assert_eq!(kept_snapshot(&store), None);
        let mut settings = Map::new();
        settings.insert("rpm".to_owned(), 5.into());
        let of = |kind, id: &str, sha256| AccountEntry {
            kind,
            id: id.to_owned(),
            settings: settings.clone(),
            version: 3,
            sha256,
        };
        let entries = [
            of(AccountKind::Team, "a\nb", None),
            of(AccountKind::User, "ann", None),
            of(AccountKind::Key, "k", Some([0xa5; 32])),
        ];
        keep_snapshot(&store, &entries).unwrap();
        keep_snapshot(&store, &entries).unwrap();
        assert_eq!(kept_snapshot(&store).unwrap(), entries);
        let path = file_of(&store);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        assert_eq!(kept_snapshot(&store), None);
    }
}
