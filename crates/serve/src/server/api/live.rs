//! `/api/live`: the events of races as they happen, as server-sent events. Not for what an event says: see `recorder`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use serde_json::json;

use crate::server::served_paths::ServedPaths;
use photofinish_base::clock::Instant;
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_history::recorder::{LiveWatcher, WATCHERS_MAX};

/// How often it tells how many races run, and checks the right to watch.
const BEAT: Duration = Duration::from_secs(1);

pub async fn live(State(site): State<ServedPaths>, client: Client, headers: HeaderMap) -> Response<Body> {
    let answer = proxy::admin(&site.gateway, &client).and_then(|()| {
        let watcher = site.gateway.recorder().watch().ok_or_else(|| Rejection::too_many_watchers(WATCHERS_MAX))?;
        Ok(Watch { site, headers, watcher, first: true, beat: Instant::now() })
    });
    let watch = match answer {
        Ok(watch) => watch,
        Err(rejection) => return rejection.into_response(),
    };
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
    /// When it is told next how many races run.
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
                if !proxy::is_still_admin(&self.site.gateway, &self.headers) {
                    return None;
                }
                let told = json!({ "event": "running", "running": self.site.gateway.races() });
                let retry = if std::mem::take(&mut self.first) { "retry: 2000\n" } else { "" };
                self.beat = Instant::now() + BEAT;
                Some((Ok(format!("{retry}data: {told}\n\n").into()), self))
            }
            events = self.watcher.next() => Some((Ok(events?), self)),
        }
    }
}
