//! A client's body on its way to a provider: within the bounds of any body, and never held. Not for bodies that are read: see
//! `request::body`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

use crate::attempt::UploadLook;
use crate::proxy::body::{PAUSE_MAX, RATE_MIN, is_over_limit, time_for};
use crate::proxy::refusals::rejection::Rejection;
use photofinish_base::clock::Instant;
use photofinish_transport::upstream::{BodyError, Upload};

/// Bytes of one body that is passed on to a provider's path: four times the largest file that a vendor takes at once.
pub const UPLOAD_MAX: usize = 2 << 30;

/// How far an upload is. Shared by the body and by those who wait for its answer.
#[derive(Clone, Debug)]
pub struct UploadProgress(Arc<Mutex<ProgressState>>);

#[derive(Debug)]
struct ProgressState {
    bytes: usize,
    moved_at: Instant,
    fault: Option<UploadFault>,
}

/// Why a client's body ended too early.
#[derive(Clone, Copy, Debug)]
enum UploadFault {
    Broke,
    TooLarge,
    Stopped,
    Slow,
}

impl UploadProgress {
    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    pub fn look(&self) -> UploadLook {
        let state = self.state();
        UploadLook { moved_at: state.moved_at, is_broken: state.fault.is_some() }
    }

    /// What was wrong with the client's body.
    pub fn rejection(&self) -> Option<Rejection> {
        Some(match self.state().fault? {
            UploadFault::Broke => Rejection::body_broke(),
            UploadFault::TooLarge => Rejection::upload_too_large(UPLOAD_MAX),
            UploadFault::Stopped => Rejection::body_stopped(PAUSE_MAX),
            UploadFault::Slow => Rejection::body_slow(RATE_MIN),
        })
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body for a connection, and how far it is.
pub fn upload(body: Body) -> (Upload, UploadProgress) {
    let state = ProgressState { bytes: 0, moved_at: Instant::now(), fault: None };
    let progress = UploadProgress(Arc::new(Mutex::new(state)));
    let body = ClientBody { body, progress: progress.clone(), waiting: None, waited: Duration::ZERO };
    (Upload::new(body), progress)
}

struct ClientBody {
    body: Body,
    progress: UploadProgress,
    /// Since when the client sends nothing, and when that is too long.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    /// How long it sent nothing before. Waiting for the provider does not count.
    waited: Duration,
}

impl ClientBody {
    /// Ready: the client has sent nothing for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<UploadFault> {
        let rest = time_for(self.progress.bytes()).saturating_sub(self.waited);
        let (_, timer) = self.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(tokio::time::sleep_until(now + rest.min(PAUSE_MAX))))
        });
        let fault = if rest < PAUSE_MAX { UploadFault::Slow } else { UploadFault::Stopped };
        timer.as_mut().poll(context).map(|()| fault)
    }

    fn fail(&mut self, fault: UploadFault) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.progress.state().fault = Some(fault);
        Poll::Ready(Some(Err("the client's body ended too early".into())))
    }
}

impl http_body::Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(context) else {
            return match self.poll_late(context) {
                Poll::Ready(fault) => self.fail(fault),
                Poll::Pending => Poll::Pending,
            };
        };
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        match next {
            None => Poll::Ready(None),
            Some(Err(error)) if is_over_limit(&error) => self.fail(UploadFault::TooLarge),
            Some(Err(_)) => self.fail(UploadFault::Broke),
            // Trailers are the end, and go no further.
            Some(Ok(frame)) => Poll::Ready(frame.into_data().ok().map(|data| {
                let mut state = self.progress.state();
                state.bytes += data.len();
                state.moved_at = Instant::now();
                Ok(Frame::data(data))
            })),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use http::StatusCode;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::proxy::body::limited;

    /// This many chunks of this many bytes, each after a pause.
    fn body(chunks: usize, bytes: usize, pause: Duration) -> Body {
        Body::from_stream(stream::iter(0..chunks).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Infallible>(vec![b'x'; bytes])
        }))
    }

    async fn sent(body: Body, every: Duration) -> (usize, Option<StatusCode>, u64) {
        let began = Instant::now();
        let (mut upload, progress) = upload(body);
        while let Some(Ok(_)) = upload.frame().await {
            tokio::time::sleep(every).await;
        }
        let status = progress.rejection().map(|rejection| rejection.status());
        (progress.bytes(), status, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_must_send_and_a_provider_may_take_its_time() {
        let (second, late) = (Duration::from_secs(1), Some(StatusCode::REQUEST_TIMEOUT));
        for (chunks, bytes, pause, taken_every, expected) in [
            (3, 60_000, 29 * second, Duration::ZERO, (180_000, None, 87)),
            (9, 60_000, 31 * second, Duration::ZERO, (0, late, 30)),
            (1_000, 1, second, Duration::ZERO, (30, late, 30)),
            (1_000, 1_024, second, Duration::ZERO, (59 * 1_024, late, 59)),
            // The provider takes a piece every hour.
            (5, 10, second, 3_600 * second, (50, None, 5 * 3_600 + 5)),
        ] {
            assert_eq!(
                sent(body(chunks, bytes, pause), taken_every).await,
                expected,
                "{chunks} × {bytes} every {pause:?}"
            );
        }
        let large = limited(body(3, 10, Duration::ZERO), 25);
        assert_eq!(sent(large, Duration::ZERO).await, (20, Some(StatusCode::PAYLOAD_TOO_LARGE), 0));
        assert_eq!(sent(Body::empty(), Duration::ZERO).await, (0, None, 0));
    }

    #[tokio::test]
    async fn a_request_is_made_again_only_while_nothing_of_its_body_was_taken() {
        let (mut upload, _) = upload(body(2, 1, Duration::ZERO));
        assert!(upload.is_whole());
        upload.frame().await.unwrap().unwrap();
        assert!(!upload.is_whole());
        upload.give_up();
        assert!(upload.frame().await.unwrap().is_err());
    }
}
