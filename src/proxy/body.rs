//! Reads a request's body within its bounds.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;

use super::rejection::Rejection;
use crate::clock::Instant;

/// A body may pause so long, and has so long before its rate counts.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Bytes a second that a body must reach on average over its whole length, once [`PAUSE_MAX`] is over. A poor mobile network
/// manages several times that: an image of 1 MB takes it minutes. A client that sends a byte now and then does not.
const RATE_MIN: u64 = 2 * 1024;
/// How long a body that is too large is read on, so that the client gets to see the answer.
const DISCARD_FOR: Duration = Duration::from_secs(2);

/// The whole body.
///
/// # Errors
/// 413 above `max` bytes, 408 when it stops coming or comes too slowly, 400 when it breaks off.
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
    let began = Instant::now();
    loop {
        let (pause_ends, due) = (Instant::now() + PAUSE_MAX, began + time_for(bytes.len()));
        match tokio::time::timeout_at(pause_ends.min(due), body.frame()).await {
            Err(_) if due < pause_ends => return Err(Rejection::body_slow(RATE_MIN)),
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

/// By when a body of which so many bytes came has to go on.
fn time_for(bytes: usize) -> Duration {
    PAUSE_MAX + Duration::from_millis(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(1_000) / RATE_MIN)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};
    use http::StatusCode;

    use super::*;

    /// So many chunks of so many bytes, each after a pause.
    fn body(chunks: usize, bytes: usize, pause: Duration) -> Body {
        let chunk = Bytes::from(vec![b'x'; bytes]);
        Body::from_stream(stream::iter(0..chunks).then(move |_| {
            let chunk = chunk.clone();
            async move {
                tokio::time::sleep(pause).await;
                Ok::<_, Infallible>(chunk)
            }
        }))
    }

    /// The length or the status, and the seconds that it took.
    async fn read_in(body: Body) -> (Result<usize, StatusCode>, u64) {
        let began = Instant::now();
        let read = read(&HeaderMap::new(), body, 32 << 20).await;
        (read.map(|bytes| bytes.len()).map_err(|rejection| rejection.status()), began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_must_reach_a_rate_over_its_whole_length() {
        let (second, late) = (Duration::from_secs(1), Err(StatusCode::REQUEST_TIMEOUT));
        for (chunks, bytes, pause, expected) in [
            // A byte now and then holds a place no longer than nothing at all.
            (1_000, 1, 29 * second, (late, 30)),
            (1_000, 1, 31 * second, (late, 30)),
            (1_000_000, 1, second / 10, (late, 30)),
            // Half the rate is found out once its head start is used up, and so is a stall behind a fast beginning.
            (1_000, 1_024, second, (late, 59)),
            (2, 1 << 20, 31 * second, (late, 30)),
            // Slow, but it comes: 1 MB in six minutes, and little after a long pause.
            (350, 3_000, second, (Ok(1_050_000), 350)),
            (1, 10, 29 * second, (Ok(10), 29)),
            (3, 60_000, 29 * second, (Ok(180_000), 87)),
        ] {
            assert_eq!(read_in(body(chunks, bytes, pause)).await, expected, "{chunks} × {bytes} B every {pause:?}");
        }
    }
}
