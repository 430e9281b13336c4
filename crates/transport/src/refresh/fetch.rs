//! One conditional GET of a catalogue, with a few redirects. Not for judging what came: see `mod`.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::replace::{self, UpdateError};
use crate::upstream::{Endpoint, GetError, GetLimits, UpstreamClient, WholeAnswer};
use photofinish_base::clock::{micros, wall_micros};
use photofinish_base::files::{self, FileLimits, FileStamp};
use photofinish_config::HttpAddress;

/// Redirects that are followed: a release's address has one or two.
const REDIRECTS_MAX: usize = 3;

/// What an origin has.
pub enum ReceivedFile {
    /// The address still has the version that was judged before.
    Known(FetchMemory),
    /// A file that is not judged yet.
    New {
        text: Bytes,
        /// How to ask for a newer one, if it came from an address.
        memory: Option<FetchMemory>,
    },
}

/// Asks for the file, unless it is the `known` version.
pub(super) async fn fetch(
    client: &UpstreamClient,
    url: &HttpAddress,
    known: Option<FetchMemory>,
    limits: GetLimits,
) -> Result<ReceivedFile, UpdateError> {
    let version = known.as_ref().map(|known| &known.file);
    let followed = tokio::time::timeout(limits.time, follow(client, url, version, limits)).await;
    let answer = followed.unwrap_or_else(|_| Err(no_answer(url, &GetError::Late(limits.time))))?;
    match (answer.status, known) {
        (StatusCode::NOT_MODIFIED, Some(known)) => Ok(ReceivedFile::Known(known)),
        (StatusCode::OK, _) => {
            let header = |name: HeaderName| Some(answer.headers.get(name)?.to_str().ok()?.to_owned());
            let version = FileVersion { etag: header(ETAG), last_modified: header(LAST_MODIFIED) };
            Ok(ReceivedFile::New { text: answer.body, memory: Some(FetchMemory::new(url, version)) })
        }
        (status, _) => Err(UpdateError(format!("{url} answers with the status {}", status.as_u16()))),
    }
}

/// The first answer that is no redirect.
async fn follow(
    client: &UpstreamClient,
    url: &HttpAddress,
    known: Option<&FileVersion>,
    limits: GetLimits,
) -> Result<WholeAnswer, UpdateError> {
    let mut at = url.clone();
    for _ in 0..=REDIRECTS_MAX {
        let endpoint = Endpoint::parse(at.origin()).map_err(|error| UpdateError(error.to_string()))?;
        let endpoint = endpoint.with_transport(at.transport());
        let answer = client.get(endpoint, at.path_and_query().to_owned(), headers(known), limits).await;
        let answer = answer.map_err(|error| no_answer(&at, &error))?;
        let is_redirect = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        if !is_redirect {
            return Ok(answer);
        }
        let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        at = at.redirected(location).map_err(|why| UpdateError(format!("the redirect of {at} {why}")))?;
    }
    Err(UpdateError(format!("{url} has more than {REDIRECTS_MAX} redirects")))
}

fn no_answer(url: &HttpAddress, error: &GetError) -> UpdateError {
    UpdateError(format!("cannot get {url}: {error}"))
}

fn headers(known: Option<&FileVersion>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("photofinish/", env!("CARGO_PKG_VERSION"))));
    let conditions = [
        (IF_NONE_MATCH, known.and_then(|known| known.etag.as_deref())),
        (IF_MODIFIED_SINCE, known.and_then(|known| known.last_modified.as_deref())),
    ];
    for (name, value) in conditions {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

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
    /// None: it was taken, and is the catalogue next to the store.
    pub(super) untaken: Option<UntakenFile>,
    /// Bytes and time of change of the catalogue next to the store, in microseconds since 1970. Once that is another file,
    /// this memory is void.
    stamp: Option<(u64, i64)>,
    /// When the address was asked, in microseconds since 1970.
    asked_at_us: i64,
}

/// A file that was not put next to the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct UntakenFile {
    /// Its day.
    pub date: String,
    /// Why it was not taken.
    pub objections: Vec<String>,
}

impl FetchMemory {
    pub(super) fn new(url: &HttpAddress, file: FileVersion) -> FetchMemory {
        FetchMemory { address: hash(url), file, ..FetchMemory::default() }
    }

    /// None: no file of this address was judged since the catalogue at `target` changed. It blocks.
    pub(super) fn of(target: &Path, url: &HttpAddress) -> Option<FetchMemory> {
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

    /// Remembers that the address was asked now, next to the catalogue at `target`.
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

fn hash(url: &HttpAddress) -> Vec<u8> {
    let address = format!("{}{}", url.origin(), url.path_and_query());
    digest(&SHA256, address.as_bytes()).as_ref().to_vec()
}

fn stamp(target: &Path) -> Option<(u64, i64)> {
    let stamp = FileStamp::at(target, FileLimits::regular(false))?;
    let changed = stamp.changed.duration_since(UNIX_EPOCH).ok()?;
    Some((stamp.bytes, micros(changed)))
}
