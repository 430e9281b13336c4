//! An estimated token count, used if no upstream can count. Not for counts of upstreams.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde_json::json;

use photofinish_base::failure::{Failure, FailureKind};
use photofinish_wire::{ApiRequest, Surface};

/// Bytes per token of the estimate.
const BYTES_PER_TOKEN: usize = 4;

/// Whether an upstream has no such call: many servers of the dialect do not.
pub fn is_lacking(failures: &[(usize, Failure)]) -> bool {
    let lacks = |failure: &Failure| failure.kind == FailureKind::NotFound || failure.status == Some(405);
    failures.iter().any(|(_, failure)| lacks(failure))
}

/// The answer in the vendor's shape; the header `x-photofinish-estimate` marks it.
pub fn estimate(request: &ApiRequest) -> Response<Bytes> {
    let bytes: usize = request.prompt().iter().map(|part| part.len()).sum();
    let name = if request.surface == Surface::GeminiCount { "totalTokens" } else { "input_tokens" };
    let mut response = Response::new(Bytes::from(json!({ name: bytes.div_ceil(BYTES_PER_TOKEN) }).to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-photofinish-estimate", HeaderValue::from_static("bytes/4"));
    response
}
