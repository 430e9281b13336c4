//! What is remembered of the address that the catalogue beside the store came from: its version there, and when it was asked.
//!
//! Only saves work: without this file the next request is unconditional. Not for the catalogue itself: see `replace`.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::replace;
use crate::clock::{micros, wall_micros};
use crate::config::CatalogueUrl;

/// Bytes of the file; headers have no more.
const MEMORY_MAX: u64 = 64 << 10;

/// What the address calls this version of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileVersion {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// The version that is beside the store, and where it came from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FetchMemory {
    /// SHA-256 of the address: its query may hold a secret.
    address: Vec<u8>,
    pub file: FileVersion,
    /// Bytes and time of change of the catalogue's file, in microseconds since 1970: another file has no version.
    stamp: Option<(u64, i64)>,
    /// When the address was asked, in microseconds since 1970.
    asked_at_us: i64,
}

impl FetchMemory {
    pub fn new(url: &CatalogueUrl, file: FileVersion) -> FetchMemory {
        FetchMemory { address: hash(url), file, stamp: None, asked_at_us: 0 }
    }

    /// None: the file at `target` does not come from this address.
    pub fn of(target: &Path, url: &CatalogueUrl) -> Option<FetchMemory> {
        let path = path(target);
        if path.metadata().ok()?.len() > MEMORY_MAX {
            return None;
        }
        let memory: FetchMemory = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let is_of_this = memory.address == hash(url) && memory.stamp.is_some() && memory.stamp == stamp(target);
        is_of_this.then_some(memory)
    }

    /// Remembers that the address was asked now and has the file at `target`.
    pub fn asked_again(self, target: &Path) {
        let memory = FetchMemory { stamp: stamp(target), asked_at_us: wall_micros(), ..self };
        let written = serde_json::to_vec(&memory).ok().map(|text| replace::replace(&path(target), &text));
        if let Some(Err(error)) = written {
            tracing::debug!(%error, "the version of the catalogue is not remembered");
        }
    }

    /// The catalogue at `target` comes from elsewhere now.
    pub fn forget(target: &Path) {
        // Without the file nothing is remembered either.
        let _ = std::fs::remove_file(path(target));
    }
}

/// When this address was last asked and had the file at `target`, in microseconds since 1970.
pub fn asked_at_us(target: &Path, url: &CatalogueUrl) -> Option<i64> {
    FetchMemory::of(target, url).map(|memory| memory.asked_at_us)
}

fn path(target: &Path) -> PathBuf {
    target.with_extension("fetched.json")
}

fn hash(url: &CatalogueUrl) -> Vec<u8> {
    let address = format!("{}{}", url.origin(), url.path_and_query());
    digest(&SHA256, address.as_bytes()).as_ref().to_vec()
}

fn stamp(target: &Path) -> Option<(u64, i64)> {
    let metadata = target.metadata().ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((metadata.len(), micros(changed)))
}
