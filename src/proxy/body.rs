//! Reads a request's body within its bounds.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;

use super::rejection::Rejection;

/// A body may pause so long.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a body that is too large is read on, so that the client gets to see the answer.
const DISCARD_FOR: Duration = Duration::from_secs(2);

/// The whole body.
///
/// # Errors
/// 413 above `max` bytes, 408 when it stops coming, 400 when it breaks off.
pub async fn read(headers: &HeaderMap, mut body: Body, max: usize) -> Result<Bytes, Rejection> {
    let announced: usize = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0);
    let waits_for_leave = headers.contains_key(http::header::EXPECT);
    if announced > max {
        // A client that asked first has sent nothing yet.
        if !waits_for_leave {
            discard(body, max).await;
        }
        return Err(Rejection::too_large(max));
    }
    let mut bytes = BytesMut::with_capacity(announced);
    loop {
        match tokio::time::timeout(PAUSE_MAX, body.frame()).await {
            Err(_) => return Err(Rejection::body_stopped(PAUSE_MAX)),
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(_))) => return Err(Rejection::body_broke()),
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > max {
                    discard(body, max).await;
                    return Err(Rejection::too_large(max));
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}

/// Reads at most `max` bytes more and drops them.
async fn discard(mut body: Body, max: usize) {
    let read = async {
        let mut left = max;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // Out of time is as good as done.
    let _ = tokio::time::timeout(DISCARD_FOR, read).await;
}
