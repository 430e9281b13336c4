//! The layers of [`edge`](super::routes::edge): cross-origin requests, tokens and panics.
//!
//! Not for checks of a single handler, such as rights.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use futures_util::FutureExt as _;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, COOKIE, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tower::{Layer as _, ServiceExt as _};
use tower_http::cors::{AllowCredentials, AllowHeaders, AllowOrigin, CorsLayer};

use super::host_check::{self, RequestSender};
use crate::login::Logins;
use photofinish_config::Cors;
use photofinish_gateway::proxy::{self, Gateway, Rejection};
use photofinish_wire::Surface;
use photofinish_wire::dialect::key_in;

/// The header with the key of Google's clients.
pub(super) const GOOGLE_KEY: &str = "x-goog-api-key";
/// How long a browser may cache the answer to a preflight request: the longest that any browser accepts.
const MAX_AGE: Duration = Duration::from_secs(86_400);

/// The state of [`cross_origin`].
pub(super) struct CrossOrigin {
    pub gateway: Arc<Gateway>,
    logins: Arc<Logins>,
    /// For `cors = ["*"]`.
    any: CorsLayer,
    /// For a list of origins. It uses the list of the current configuration.
    listed: CorsLayer,
    /// For apps, which send a token. Nothing else of theirs counts.
    apps: CorsLayer,
}

impl CrossOrigin {
    pub fn new(gateway: Arc<Gateway>, logins: Arc<Logins>) -> CrossOrigin {
        let live = gateway.clone();
        let is_listed = move |origin: &HeaderValue| host_check::names(&live.live().config.server.cors, origin);
        let base = CorsLayer::new()
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            // A "*" would not include `authorization`.
            .allow_headers(AllowHeaders::mirror_request())
            // Browsers ask for it when a page of the internet calls a server in the local network.
            .allow_private_network(true)
            .max_age(MAX_AGE)
            .vary([ORIGIN]);
        let allowed = is_listed.clone();
        let listed = base
            .clone()
            .allow_origin(AllowOrigin::predicate(move |origin, _| allowed(origin)))
            // Without this a page that fetches with `credentials: "include"` could not read the answer. Its cookies
            // are dropped.
            .allow_credentials(AllowCredentials::predicate(move |origin, _| is_listed(origin)));
        let apps = base.clone().allow_origin(AllowOrigin::mirror_request());
        CrossOrigin { gateway, logins, any: base.allow_origin(tower_http::cors::Any), listed, apps }
    }
}

/// Refuses a request with a wrong `Host` or from a page that is not listed. Finds out who sends the others, and serves them with
/// CORS headers from the current configuration.
pub(super) async fn cross_origin(
    State(cross): State<Arc<CrossOrigin>>,
    mut request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let live = cross.gateway.live();
    let sender = match host_check::check(&request, &live.config) {
        Ok(sender) => sender,
        Err(rejection) => return rejection.answer_to(near(request.uri().path())),
    };
    if request.headers().contains_key(COOKIE) {
        drop_foreign_cookies(&mut request, sender != RequestSender::Own);
    }
    let cors = match &live.config.server.cors {
        _ if sender == RequestSender::App => Some(&cross.apps),
        Cors::None => None,
        Cors::Any => Some(&cross.any),
        Cors::Only(_) => Some(&cross.listed),
    };
    let (has_issuer, has_users) = (live.config.oidc.is_some(), !live.config.users.is_empty());
    drop(live);
    take_key(&mut request);
    if has_issuer && proxy::unsettled(&cross.gateway, request.headers()).is_some() {
        Box::pin(cross.logins.settle(request.headers())).await;
    }
    if has_users && request.headers().contains_key(COOKIE) {
        let unknown = cross.gateway.sessions().unknown(request.headers());
        if !unknown.is_empty() {
            Box::pin(cross.logins.find_sessions(unknown)).await;
        }
    }
    let slowed = proxy::check_token(&cross.gateway, &mut request);
    let refused = if sender == RequestSender::App && !is_preflight(&request) {
        proxy::missing_token(&cross.gateway, &request)
    } else {
        None
    };
    let response = match refused {
        Some(refused) => readable(refused.answer_to(near(request.uri().path())), request.headers()),
        None => with_cors(cors, request, next).await,
    };
    // Only the answer is held back: the request has left its place and its memory.
    if let Some(slowed) = slowed {
        slowed.over().await;
    }
    response
}

async fn with_cors(cors: Option<&CorsLayer>, request: Request<Body>, next: Next) -> Response<Body> {
    let (is_options, is_from_page) = (request.method() == Method::OPTIONS, request.headers().contains_key(ORIGIN));
    let is_preflight = is_preflight(&request);
    // The layer treats every OPTIONS request as a preflight request, but clients also use OPTIONS to ask which methods
    // a path serves.
    let Some(cors) = cors.filter(|_| is_preflight || !is_options) else { return next.run(request).await };
    let mut response = match cors.layer(next).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if is_preflight {
        *response.status_mut() = StatusCode::NO_CONTENT;
    } else if is_from_page {
        expose(response.headers_mut());
    }
    response
}

/// A browser's question whether a page may send a request.
fn is_preflight<B>(request: &Request<B>) -> bool {
    let asks = |name| request.headers().contains_key(name);
    request.method() == Method::OPTIONS && asks(ORIGIN) && asks(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to an app without a valid token, on whatever path, so that the app can show it.
fn readable(mut response: Response<Body>, asked: &HeaderMap) -> Response<Body> {
    if let Some(origin) = asked.get(ORIGIN) {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        response.headers_mut().insert(VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// The session of the dashboard is for its own pages: a listed page sends a token. Browsers name the origin of every
/// request that changes something, so one that names none comes from no page of ours.
fn drop_foreign_cookies(request: &mut Request<Body>, is_foreign: bool) {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if is_foreign || (changes && !request.headers().contains_key(ORIGIN)) {
        request.headers_mut().remove(COOKIE);
    }
}

/// Google's clients may send the key in the query. On no other path: logs contain addresses.
fn take_key(request: &mut Request<Body>) {
    let uri = request.uri();
    let takes_key = uri.path().starts_with("/v1beta/") || bare(uri.path()).starts_with("/models");
    let key = uri.query().filter(|_| takes_key).and_then(key_in).and_then(|key| HeaderValue::from_str(&key).ok());
    if let Some(mut key) = key {
        key.set_sensitive(true);
        request.headers_mut().entry(GOOGLE_KEY).or_insert(key);
    }
}

/// What Ollama has under `/api` besides its surfaces, served or not.
const OLLAMA_CALLS: [&str; 10] = ["tags", "ps", "show", "version", "pull", "push", "create", "copy", "delete", "blobs"];

/// The surface whose dialect is used for the error of an unknown path.
pub(super) fn near(path: &str) -> Surface {
    if path.starts_with("/v1beta/") {
        return Surface::Gemini;
    }
    let of_ollama = path.strip_prefix("/api/").and_then(|rest| rest.split('/').next());
    if of_ollama.is_some_and(|call| OLLAMA_CALLS.contains(&call)) {
        return Surface::OllamaChat;
    }
    let leads_to = |surface: &Surface| bare(path).starts_with(bare(surface.path()));
    Surface::ALL.into_iter().find(leads_to).unwrap_or(Surface::Chat)
}

/// Lets the page read the gateway's own headers, and those of providers about the request and its limits. Their names
/// depend on the provider, so the layer cannot list them.
fn expose(headers: &mut HeaderMap) {
    let is_exposed = |name: &str| {
        ["x-", "openai-", "anthropic-"].iter().any(|start| name.starts_with(start))
            || ["server-timing", "request-id", "retry-after", "retry-after-ms"].contains(&name)
    };
    let names: Vec<&str> = headers.keys().map(HeaderName::as_str).filter(|name| is_exposed(name)).collect();
    if let Ok(names) = HeaderValue::try_from(names.join(", "))
        && !names.is_empty()
    {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
}

/// Turns a panic of the handler into a 500 in the dialect of `surface`. The panic hook has logged the place.
///
/// `CatchPanic` of tower-http is not used: it boxes every response body, which costs a call per frame.
pub(super) async fn catch_panics<F>(handling: F, surface: Surface) -> Result<Response<Body>, Infallible>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    AssertUnwindSafe(handling).catch_unwind().await.unwrap_or_else(|_| Ok(Rejection::internal().answer_to(surface)))
}

/// The minimum similarity at which a path counts as misspelt; 1 is the same path.
const MISSPELT: f64 = 0.7;

/// The served path that `path` ends with, misspells or begins.
pub(super) fn nearest_path(path: &str, served: &[&'static str]) -> Option<&'static str> {
    let asked = path.trim_end_matches('/');
    let served = || served.iter().copied();
    let nearest = served().filter(|served| asked.ends_with(bare(served))).max_by_key(|served| served.len());
    let nearest = nearest.or_else(|| most_similar(bare(asked), served()));
    let begins = |served: &&str| bare(served).strip_prefix(bare(asked)).is_some_and(|rest| rest.starts_with('/'));
    nearest.or_else(|| served().filter(|_| asked.len() > 3).find(begins))
}

fn most_similar(asked: &str, served: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    // A longer path cannot be similar enough, and comparing it takes time.
    let comparable = served.filter(|served| asked.len() <= 2 * served.len());
    let scored = comparable.map(|served| (strsim::normalized_levenshtein(asked, bare(served)), served));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= MISSPELT).then_some(best.1)
}

/// A path without its version.
pub(super) fn bare(path: &str) -> &str {
    path.strip_prefix("/v1").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use axum::Router;
    use axum::body::to_bytes;
    use axum::routing::any;
    use http::header::HOST;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::accounts::AccountKeeper;
    use crate::server::reads::DatabaseReads;
    use crate::server::routes::edge;
    use crate::server::served_paths::ServedPaths;
    use photofinish_base::shutdown::Shutdown;
    use photofinish_config::{StoreAddress, parse};
    use photofinish_history::recorder::Recorder;
    use photofinish_routing::health::LiveConfig;
    use photofinish_transport::upstream::{UpstreamClient, system_resolver};

    const PAGE: &str = "https://app.example";

    async fn panicking() -> Response<Body> {
        panic!("a mistake in the gateway")
    }

    fn gateway() -> Arc<Gateway> {
        let config = parse(&format!("server.cors = [\"{PAGE}\"]"), Path::new("config.toml"), &|_| None).unwrap();
        let live = LiveConfig::new(config, &HashMap::new()).unwrap();
        let shutdown = Shutdown::new();
        let client = UpstreamClient::with_resolver(shutdown.clone(), system_resolver()).unwrap();
        Arc::new(Gateway::new(live, client, Arc::new(Recorder::without_store()), shutdown))
    }

    #[test]
    fn an_unknown_path_is_answered_in_the_shape_of_the_nearest_surface() {
        for (path, surface) in [
            ("/v1/messages/batches", Surface::Messages),
            ("/messages", Surface::Messages),
            ("/responses/r", Surface::Responses),
            ("/api/chat", Surface::OllamaChat),
            ("/api/tags", Surface::OllamaChat),
            ("/api/blobs/sha256:1", Surface::OllamaChat),
            ("/api/stat", Surface::Chat),
            ("/", Surface::Chat),
        ] {
            assert_eq!(near(path), surface, "{path}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_500_in_the_shape_of_the_surface() {
        let gateway = gateway();
        let accounts = AccountKeeper::new(gateway.clone(), Recorder::without_store());
        let logins = Logins::new(gateway.clone(), accounts.clone());
        let cross = Arc::new(CrossOrigin::new(gateway.clone(), logins.clone()));
        let reads =
            DatabaseReads::new(StoreAddress::File("history.db".into()), Recorder::without_store(), Shutdown::new());
        for surface in Surface::ALL.into_iter().filter(|surface| !surface.has_model_in_path()) {
            let reload = Arc::new(|_, _| Box::pin(std::future::ready(Ok(()))) as _);
            let site = ServedPaths {
                gateway: gateway.clone(),
                reads: reads.clone(),
                accounts: accounts.clone(),
                logins: logins.clone(),
                reload,
                replays: Arc::new(Semaphore::new(1)),
            };
            let router = Router::new().route(surface.path(), edge(any(panicking), surface.path(), &cross));
            let request = Request::post(surface.path()).header(HOST, "localhost").header(ORIGIN, PAGE);
            let response = router.with_state(site).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], PAGE, "the page can read it");
            let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let expected = to_bytes(Rejection::internal().answer_to(surface).into_body(), 1 << 20).await.unwrap();
            assert_eq!(body, expected, "{surface:?}");
        }
    }
}

#[cfg(test)]
mod nearest_path_tests {
    use super::*;
    use photofinish_wire::Surface;

    #[test]
    fn the_path_that_was_meant() {
        let others = ["/v1/models", "/api/stats", "/api/races", "/healthz", "/metrics"];
        let served: Vec<&str> = Surface::ALL.into_iter().map(Surface::path).chain(others).collect();
        for (asked, expected) in [
            ("/v1/chat/completion", Some("/v1/chat/completions")),
            ("/v1/chat/completions/", Some("/v1/chat/completions")),
            ("/v1/v1/chat/completions", Some("/v1/chat/completions")),
            ("/v1/v1/messages", Some("/v1/messages")),
            ("/anthropic/v1/messages/count_tokens", Some("/v1/messages/count_tokens")),
            ("/openai/deployments/m/chat/completions", Some("/v1/chat/completions")),
            ("/v1/chat", Some("/v1/chat/completions")),
            ("/message", Some("/v1/messages")),
            ("/v1/embedding", Some("/v1/embeddings")),
            ("/v1/model", Some("/v1/models")),
            ("/openai/v1/models", Some("/v1/models")),
            ("/api/race", Some("/api/races")),
            ("/api/metrics", Some("/metrics")),
            ("/v1", None),
            ("/", None),
            ("/v1/audio/transcription", Some("/v1/audio/transcriptions")),
            ("/v1/images/edit", Some("/v1/images/edits")),
            ("/v1/images/variations", Some("/v1/images/generations")),
            ("/favicon.ico", None),
        ] {
            assert_eq!(nearest_path(asked, &served), expected, "{asked}");
        }
    }
}
