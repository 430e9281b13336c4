//! One conditional GET of a catalogue, with a few redirects. Not for judging what came: see `mod`.

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::error::UpdateError;
use super::memory::{FetchMemory, FileVersion};
use crate::upstream::{Endpoint, GetError, GetLimits, UpstreamClient, WholeAnswer};
use photofinish_config::config::CatalogueUrl;

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
    url: &CatalogueUrl,
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
    url: &CatalogueUrl,
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

fn no_answer(url: &CatalogueUrl, error: &GetError) -> UpdateError {
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
