//! A GET whose whole answer is read, within limits: a catalogue, a list of models. Not for the requests of a race.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::{Endpoint, Outgoing, UpstreamClient};
use photofinish_base::failure::Failure;

/// What one GET may take.
#[derive(Clone, Copy, Debug)]
pub struct GetLimits {
    /// From the look-up of the name to the last byte.
    pub time: Duration,
    /// Bytes of the answer's body.
    pub bytes: usize,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct WholeAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("the answer was not complete within {0:?}")]
    Late(Duration),
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    #[error("{}", .0.message)]
    Failed(Failure),
}

impl UpstreamClient {
    /// Gets `path` of the endpoint; `path` may have a query.
    ///
    /// # Errors
    /// No whole answer came within the limits. An answer with an error status is an answer.
    pub async fn get(
        &self,
        endpoint: Endpoint,
        path: String,
        headers: HeaderMap,
        limits: GetLimits,
    ) -> Result<WholeAnswer, GetError> {
        let outgoing = Outgoing {
            endpoint,
            method: Method::GET,
            path: path.into(),
            headers,
            body: Bytes::new(),
            connect_timeout: limits.time,
            fresh: false,
        };
        let answer = tokio::time::timeout(limits.time, self.read_whole(&outgoing, limits.bytes)).await;
        answer.unwrap_or(Err(GetError::Late(limits.time)))
    }

    async fn read_whole(&self, outgoing: &Outgoing, bytes_max: usize) -> Result<WholeAnswer, GetError> {
        let mut response = self.send(outgoing, |_| {}).await.map_err(GetError::Failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.body.next_chunk().await {
            body.extend_from_slice(&chunk.map_err(GetError::Failed)?);
            if body.len() > bytes_max {
                return Err(GetError::TooLong(bytes_max));
            }
        }
        Ok(WholeAnswer { status: response.status, headers: response.headers, body: body.into() })
    }
}
