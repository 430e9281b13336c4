//! `/api/replay`: another policy over the recorded requests, as server-sent events: how far it is, then the answer. It ends with its
//! reader. Not for replaying: see `replay`.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::State;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, Uri};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::query::question;
use super::reads::unread;
use crate::server::served_paths::ServedPaths;
use photofinish_base::clock::wall_micros;
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_history::store::StoreReader;
use photofinish_lab::replay::{self, ReplayQuestion, ReplayedHistory, object};

/// Replays at the same time. One takes a core for seconds, which races need too.
pub const REPLAYS_MAX: usize = 1;
/// Threads of one.
const THREADS_MAX: usize = 1;
/// Tellings of how far it is that wait for a slow reader; further ones are left out.
const TOLD_MAX: usize = 8;

pub async fn replay(State(site): State<ServedPaths>, client: Client, uri: Uri) -> Response<Body> {
    match begin(&site, &client, &uri) {
        Ok(running) => {
            let mut response = Response::new(Body::from_stream(stream::unfold(running, RunningReplay::next)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(rejection) => rejection.into_response(),
    }
}

fn begin(site: &ServedPaths, client: &Client, uri: &Uri) -> Result<RunningReplay, Rejection> {
    proxy::admin(&site.gateway, client)?;
    let (asked, _) = question(uri, ReplayQuestion::problem)?;
    let live = site.gateway.live();
    let wanted = asked.wanted(&live.config).map_err(|why| Rejection::parameter(Some("model".to_owned()), &why))?;
    let place = site.replays.clone().try_acquire_owned().map_err(|_| Rejection::replaying())?;
    let (sender, told) = mpsc::channel(TOLD_MAX);
    let reads = site.reads.clone();
    let read = move |reader: &StoreReader| {
        let mut last = 0;
        let progress = &mut |over: usize, of: usize| {
            if over > std::mem::replace(&mut last, over) {
                // A slow reader is told the next time.
                let _ = sender.try_send(json!({ "event": "progress", "over": over, "of": of }));
            }
            !reader.is_stopped()
        };
        let (config, asked) = (&live.config, (asked, wanted.as_ref()));
        replay::ask(reader, config, asked, wall_micros(), THREADS_MAX, progress)
            .map(|history| told_of(&history))
            .map_err(unread)
    };
    let answer = Box::pin(async move { reads.read(read).await });
    Ok(RunningReplay { told, answer: Some(answer), _place: place })
}

fn told_of(history: &ReplayedHistory) -> Value {
    match history {
        ReplayedHistory::Nothing => json!({ "event": "nothing", "requests": 0, "plain": 0 }),
        ReplayedHistory::TooLittle { past, .. } => {
            json!({ "event": "nothing", "requests": past.requests(), "plain": past.plain })
        }
        ReplayedHistory::Played(history) => json!({ "event": "answer", "answer": object(history) }),
    }
}

struct RunningReplay {
    told: mpsc::Receiver<Value>,
    /// None once it has answered. Dropping it stops the replay.
    answer: Option<BoxFuture<'static, Result<Value, Rejection>>>,
    _place: OwnedSemaphorePermit,
}

impl RunningReplay {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, RunningReplay)> {
        let answer = self.answer.as_mut()?;
        let event = tokio::select! {
            biased;
            Some(told) = self.told.recv() => told,
            answer = answer => {
                self.answer = None;
                answer.unwrap_or_else(|rejection| json!({ "event": "failed", "message": rejection.message() }))
            }
        };
        Some((Ok(Bytes::from(format!("data: {event}\n\n"))), self))
    }
}
