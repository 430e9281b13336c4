//! Sends measured requests, the way of a client's, and finds their rows. Not for when or how many: see `generator`, and
//! `crate::probe` for probes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};

use super::feed::RowFeed;
use super::measured::MeasuredRequest;
use photofinish_gateway::proxy::{self, EndsWithin, Gateway};
use photofinish_history::record::RequestOrigin;
use photofinish_wire::protocol::Surface;

/// Sends measured requests through one gateway.
#[derive(Clone)]
pub struct LoadClient {
    gateway: Arc<Gateway>,
    feed: Arc<RowFeed>,
}

impl LoadClient {
    /// `feed` must observe the races of this gateway.
    pub fn new(gateway: Arc<Gateway>, feed: Arc<RowFeed>) -> LoadClient {
        LoadClient { gateway, feed }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Sends a chat request that streams, and reads the answer to its end, which the gateway brings about `within` this time.
    /// `headers` are the gateway's overrides. The id of its race; none if the gateway refused it before there was one.
    pub async fn ask(
        &self,
        model: &str,
        mut members: Map<String, Value>,
        headers: HeaderMap,
        origin: RequestOrigin,
        within: Duration,
    ) -> Option<String> {
        members.insert("model".to_owned(), model.into());
        members.insert("stream".to_owned(), true.into());
        let mut request = Request::new(Body::from(Value::Object(members).to_string()));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.extensions_mut().insert(origin);
        request.extensions_mut().insert(EndsWithin(within));
        let response = Box::pin(proxy::serve_as(Arc::clone(&self.gateway), Surface::Chat, None, request)).await;
        let race_id = response.headers().get("x-photofinish-race")?.to_str().ok()?.to_owned();
        let mut body = response.into_body();
        // What breaks an answer is in its row.
        while let Some(Ok(_)) = body.frame().await {}
        Some(race_id)
    }

    /// What the rows of a race say, once all of them are there. Its times count from the scheduled time. None: they do not
    /// come.
    pub async fn measured(&self, race_id: &str) -> Option<MeasuredRequest> {
        self.feed.measured(race_id).await
    }
}
