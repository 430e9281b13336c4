//! `/api/live` and `/api/replay`: answers that come as server-sent events. Not for what an event says: see `recorder` and
//! `replay`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, Uri};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::server::reads::{question, unread};
use crate::server::served_paths::ServedPaths;
use photofinish_base::clock::{Instant, wall_micros};
use photofinish_config::Right;
use photofinish_gateway::proxy::{self, Rejection};
use photofinish_history::recorder::{LiveWatcher, WATCHERS_MAX};
use photofinish_history::store::StoreReader;
use photofinish_lab::replay::{self, ReplayQuestion, ReplayedHistory, object};

/// How often it sends the number of running races, and checks the right to watch.
const BEAT: Duration = Duration::from_secs(1);

pub async fn live(State(site): State<ServedPaths>, headers: HeaderMap) -> Response<Body> {
    let Some(watcher) = site.reads.recorder().watch() else {
        return Rejection::too_many_watchers(WATCHERS_MAX).into_response();
    };
    let watch = Watch { site, headers, watcher, first: true, beat: Instant::now() };
    let mut response = Response::new(Body::from_stream(stream::unfold(watch, Watch::next)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather answers before they pass them on.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Watch {
    site: ServedPaths,
    /// With the token or the cookie.
    headers: HeaderMap,
    watcher: LiveWatcher,
    /// Nothing was sent yet.
    first: bool,
    /// When it sends the number of running races next.
    beat: Instant,
}

impl Watch {
    /// Ends when the gateway drains, and when the session or the right of its user ends.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Watch)> {
        let shutdown = self.site.gateway.shutdown().clone();
        tokio::select! {
            biased;
            () = shutdown.draining() => None,
            () = tokio::time::sleep_until(self.beat) => {
                if !proxy::still_has_right(&self.site.gateway, &self.headers, Right::Figures) {
                    return None;
                }
                let running = json!({ "event": "running", "running": self.site.gateway.races() });
                let retry = if std::mem::take(&mut self.first) { "retry: 2000\n" } else { "" };
                self.beat = Instant::now() + BEAT;
                Some((Ok(format!("{retry}data: {running}\n\n").into()), self))
            }
            events = self.watcher.next() => Some((Ok(events?), self)),
        }
    }
}

/// Replays at the same time. One takes a core for seconds, which races need too.
pub const REPLAYS_MAX: usize = 1;
/// Threads of one.
const THREADS_MAX: usize = 1;
/// Tellings of how far it is that wait for a slow reader; further ones are left out.
const PROGRESS_MAX: usize = 8;

pub async fn replay(State(site): State<ServedPaths>, uri: Uri) -> Response<Body> {
    match begin(&site, &uri) {
        Ok(running) => {
            let mut response = Response::new(Body::from_stream(stream::unfold(running, RunningReplay::next)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(rejection) => rejection.into_response(),
    }
}

fn begin(site: &ServedPaths, uri: &Uri) -> Result<RunningReplay, Rejection> {
    let (asked, _) = question(uri, ReplayQuestion::problem)?;
    let live = site.gateway.live();
    let wanted = asked.wanted(&live.config).map_err(|why| Rejection::parameter(Some("model".to_owned()), &why))?;
    let place = site.replays.clone().try_acquire_owned().map_err(|_| Rejection::replaying())?;
    let (sender, progress) = mpsc::channel(PROGRESS_MAX);
    let reads = site.reads.clone();
    let read = move |reader: &StoreReader| {
        let mut last = 0;
        let progress = &mut |over: usize, of: usize| {
            if over > std::mem::replace(&mut last, over) {
                // A slow reader gets it the next time.
                let _ = sender.try_send(json!({ "event": "progress", "over": over, "of": of }));
            }
            !reader.is_stopped()
        };
        let (config, asked) = (&live.config, (asked, wanted.as_ref()));
        replay::ask(reader, config, asked, wall_micros(), THREADS_MAX, progress)
            .map(|history| summary_of(&history))
            .map_err(unread)
    };
    let answer = Box::pin(async move { reads.read(read).await });
    Ok(RunningReplay { progress, answer: Some(answer), _place: place })
}

fn summary_of(history: &ReplayedHistory) -> Value {
    match history {
        ReplayedHistory::Nothing => json!({ "event": "nothing", "requests": 0, "plain": 0 }),
        ReplayedHistory::TooLittle { past, .. } => {
            json!({ "event": "nothing", "requests": past.requests(), "plain": past.plain })
        }
        ReplayedHistory::Played(history) => json!({ "event": "answer", "answer": object(history) }),
    }
}

struct RunningReplay {
    progress: mpsc::Receiver<Value>,
    /// None once it has answered. Dropping it stops the replay.
    answer: Option<BoxFuture<'static, Result<Value, Rejection>>>,
    _place: OwnedSemaphorePermit,
}

impl RunningReplay {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, RunningReplay)> {
        let answer = self.answer.as_mut()?;
        let event = tokio::select! {
            biased;
            Some(progress) = self.progress.recv() => progress,
            answer = answer => {
                self.answer = None;
                answer.unwrap_or_else(|rejection| json!({ "event": "failed", "message": rejection.message() }))
            }
        };
        Some((Ok(Bytes::from(format!("data: {event}\n\n"))), self))
    }
}
