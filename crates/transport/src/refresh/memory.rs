//! What is remembered of the address that the last file came from: the file's version there, when it was asked, and
//! whether the file was taken.
//!
//! Only saves work: without this file the next request is unconditional. Not for the catalogue itself: see `replace`.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::replace;
use photofinish_base::clock::{micros, wall_micros};
use photofinish_base::files::{self, FileLimits, FileStamp};
use photofinish_config::config::CatalogueUrl;

/// Bytes of the file; headers have no more.
const MEMORY_MAX: u64 = 64 << 10;

/// What the address calls this version of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileVersion {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// The version of an address's file that was judged last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FetchMemory {
    /// SHA-256 of the address: its query may hold a secret.
    address: Vec<u8>,
    pub(super) file: FileVersion,
    /// None: it was taken, and is the catalogue beside the store.
    pub(super) untaken: Option<UntakenFile>,
    /// Bytes and time of change of the catalogue beside the store, in microseconds since 1970. Once that is another file,
    /// this memory is void.
    stamp: Option<(u64, i64)>,
    /// When the address was asked, in microseconds since 1970.
    asked_at_us: i64,
}

/// A file that was not put beside the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct UntakenFile {
    /// Its day.
    pub date: String,
    /// Why it was not taken.
    pub objections: Vec<String>,
}

impl FetchMemory {
    pub(super) fn new(url: &CatalogueUrl, file: FileVersion) -> FetchMemory {
        FetchMemory { address: hash(url), file, ..FetchMemory::default() }
    }

    /// None: no file of this address was judged since the catalogue at `target` changed. It blocks.
    pub(super) fn of(target: &Path, url: &CatalogueUrl) -> Option<FetchMemory> {
        let content = files::read(&path(target), MEMORY_MAX, FileLimits::regular(false)).ok()?;
        let memory: FetchMemory = serde_json::from_slice(&content.bytes).ok()?;
        let is_known = memory.stamp.is_some() || memory.untaken.is_some();
        let is_of_this = memory.address == hash(url) && memory.stamp == stamp(target);
        (is_known && is_of_this).then_some(memory)
    }

    /// The file at `target` comes from this address.
    pub(super) fn is_taken(&self) -> bool {
        self.untaken.is_none()
    }

    pub(super) fn asked_at_us(&self) -> i64 {
        self.asked_at_us
    }

    /// The same of a file that was not taken.
    pub(super) fn without(self, untaken: UntakenFile) -> FetchMemory {
        FetchMemory { untaken: Some(untaken), ..self }
    }

    /// Remembers that the address was asked now, beside the catalogue at `target`.
    pub(super) fn asked_again(self, target: &Path) {
        let memory = FetchMemory { stamp: stamp(target), asked_at_us: wall_micros(), ..self };
        let written = serde_json::to_vec(&memory).ok().map(|text| replace::replace(&path(target), &text));
        if let Some(Err(error)) = written {
            tracing::debug!(%error, "the version of the catalogue is not remembered");
        }
    }

    /// The catalogue at `target` comes from elsewhere now.
    pub(super) fn forget(target: &Path) {
        // Without the file nothing is remembered either.
        let _ = replace::remove(&path(target));
    }
}

fn path(target: &Path) -> PathBuf {
    target.with_extension("fetched.json")
}

fn hash(url: &CatalogueUrl) -> Vec<u8> {
    let address = format!("{}{}", url.origin(), url.path_and_query());
    digest(&SHA256, address.as_bytes()).as_ref().to_vec()
}

fn stamp(target: &Path) -> Option<(u64, i64)> {
    let stamp = FileStamp::at(target, FileLimits::regular(false))?;
    let changed = stamp.changed.duration_since(UNIX_EPOCH).ok()?;
    Some((stamp.bytes, micros(changed)))
}
