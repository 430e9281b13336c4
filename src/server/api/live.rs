//! `/api/live`: the events of races as they happen, as server-sent events. Not for what an event says: see `recorder`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use serde_json::json;

use crate::clock::Instant;
use crate::proxy::{self, Rejection};
use crate::recorder::{LiveWatcher, WATCHERS_MAX};
use crate::server::served_paths::ServedPaths;

/// After this time without an event a comment is sent, and the right to watch is checked again.
const BEAT: Duration = Duration::from_secs(5);

pub async fn live(State(site): State<ServedPaths>, headers: HeaderMap) -> Response<Body> {
    let answer = proxy::admin(&site.gateway, &headers).and_then(|()| {
        let watcher = site.gateway.recorder().watch().ok_or_else(|| Rejection::too_many_watchers(WATCHERS_MAX))?;
        let first = json!({ "event": "watching", "running": site.gateway.races() });
        Ok((watcher, format!("retry: 2000\ndata: {first}\n\n")))
    });
    let (watcher, first) = match answer {
        Ok(watching) => watching,
        Err(rejection) => return rejection.into_response(),
    };
    let watch = Watch { site, headers, watcher, first: Some(first.into()), checked: Instant::now() };
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
    first: Option<Bytes>,
    checked: Instant,
}

impl Watch {
    /// Ends when the gateway drains, and when the session or the right of its user ends.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Watch)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        let shutdown = self.site.gateway.shutdown().clone();
        let bytes = tokio::select! {
            biased;
            () = shutdown.draining() => return None,
            events = self.watcher.next() => events?,
            () = tokio::time::sleep(BEAT) => Bytes::from_static(b": still here\n\n"),
        };
        if self.checked.elapsed() >= BEAT {
            proxy::admin(&self.site.gateway, &self.headers).ok()?;
            self.checked = Instant::now();
        }
        Some((Ok(bytes), self))
    }
}
