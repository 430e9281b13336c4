//! The routes, and in [`edge`] the layers that a request passes before its handler.
//!
//! Not for connections (see `mod.rs`), nor for anything inside a race: attempts are no services.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::{MethodRouter, any, get, post};
use axum::{Router, middleware};
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use serde_json::json;
use tokio::sync::Semaphore;
use tower::ServiceBuilder;

use super::api;
use super::dashboard::{self, RELOAD};
use super::health;
use super::layers::{CrossOrigin, GOOGLE_KEY, bare, catch_panics, cross_origin, near, nearest_path};
use super::login;
use super::reads::DatabaseReads;
use super::rights::{UNKNOWN, guard, is_guarded};
use super::served_paths::{ReloadCall, ServedPaths};
use super::websocket;
use crate::accounts::AccountKeeper;
use crate::login::{CALLBACK, Logins};
use photofinish_base::telemetry::{LogContext, WithLogContext};
use photofinish_gateway::proxy::{self, Client, Gateway, Rejection, StoredCall};
use photofinish_history::recorder::Recorder;
use photofinish_history::store::AccountKind;
use photofinish_wire::{PassedCall, PathCall, Surface};

/// Every path of the gateway; any other path is a 404 in the shape of the nearest surface.
pub(super) fn router(
    gateway: Arc<Gateway>,
    recorder: Recorder,
    (accounts, logins): (Arc<AccountKeeper>, Arc<Logins>),
    reload: ReloadCall,
) -> Router {
    // A reload does not move the database, even if the new file names another one.
    let store = gateway.live().config.store.address.clone();
    let reads = DatabaseReads::new(store, recorder, gateway.shutdown().clone());
    let cross = Arc::new(CrossOrigin::new(gateway.clone(), logins.clone()));
    let site =
        ServedPaths { gateway, reads, accounts, logins, reload, replays: Arc::new(Semaphore::new(api::REPLAYS_MAX)) };
    let mut router = Router::new().route("/", edge(only_get(get(home)), "/", &cross));
    let mut paths = Vec::new();
    let lists = FILES.into_iter().filter_map(|path| Some((path.strip_suffix("/{*path}")?, any(provider))));
    for (path, served) in routes().into_iter().chain(lists) {
        if let Some(bare) = path.strip_prefix("/v1").filter(|bare| bare.starts_with('/')) {
            // Some clients take a base URL without `/v1`, and append none; those of Azure put a part before it.
            for path_of_some in [bare.to_owned(), format!("/openai{bare}"), format!("/openai{path}")] {
                router = router.route(&path_of_some, edge(served.clone(), path, &cross));
            }
        }
        let mut served = edge(served, path, &cross);
        if path == MODEL {
            // Google's clients call `/v1/models/MODEL:VERB` unless they are given another API version.
            served = served.merge(edge(post(gemini_call), GEMINI, &cross));
        }
        router = router.route(path, served);
        paths.push(path);
    }
    paths.retain(|path| !path.contains('{'));
    let others = any(move |State(gateway): State<Arc<Gateway>>, client: Client, request: Request<Body>| async move {
        let opens = request.method() == Method::GET && websocket::is_asked_for(request.headers());
        match request.uri().path() {
            // Some agents open the WebSocket of the Responses API at their base address.
            "/v1" | "/v1/" if opens => websocket::accept(gateway, client, request),
            path => nothing(path, &paths),
        }
    });
    router.fallback_service(edge(others, UNKNOWN, &cross).with_state(site.clone())).with_state(site)
}

/// What every request to this path passes before its handler, outermost layer first.
pub(super) fn edge(
    served: MethodRouter<ServedPaths>,
    path: &'static str,
    cross: &Arc<CrossOrigin>,
) -> MethodRouter<ServedPaths> {
    let gateway = cross.gateway.clone();
    let gemini = (path == GEMINI).then_some(Surface::Gemini);
    let surface = Surface::ALL.into_iter().find(|surface| surface.path() == path).or(gemini);
    let (name, shape) = (surface.map_or(path, Surface::as_str), surface.unwrap_or(Surface::Chat));
    let is_held = !goes_to_provider(path);
    let limit = move |body| {
        let max = if is_held { gateway.live().config.server.body_max } else { proxy::UPLOAD_MAX };
        proxy::limited(body, max)
    };
    let layers = ServiceBuilder::new()
        .map_future(move |handling| WithLogContext::in_context(handling, LogContext::request(name)))
        .layer(middleware::from_fn_with_state(cross.clone(), cross_origin))
        .map_future(move |handling| catch_panics(handling, shape))
        .map_request(move |request: Request<Body>| request.map(&limit));
    // Innermost: a refusal has the headers for pages of other origins, and its place is known.
    let served = match is_guarded(path) {
        true => served.layer(middleware::from_fn_with_state((cross.gateway.clone(), path), guard)),
        false => served,
    };
    served.layer(layers)
}

/// The routes that answer with data. Axum answers `HEAD` like `GET`, without the body.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<ServedPaths>)> {
    let in_body = Surface::ALL.into_iter().filter(|surface| !surface.has_model_in_path());
    let surfaces = in_body.map(|surface| (surface.path(), surface_route(surface)));
    let of_providers = FILES.into_iter().chain([PROVIDERS]).map(|path| (path, any(provider)));
    let others = [
        ("/v2/rerank", surface_route(Surface::Passed(PassedCall::Rerank))),
        (AZURE, only(post(azure_call), "POST")),
        ("/v1/responses/{id}", only(get(stored).delete(stored), "GET, DELETE")),
        ("/v1/responses/{id}/input_items", only_get(get(stored))),
        ("/v1/responses/{id}/cancel", only(post(stored), "POST")),
        ("/v1/conversations", only(post(stored), "POST")),
        ("/v1/conversations/{id}", only(get(stored).post(stored).delete(stored), "GET, POST, DELETE")),
        ("/v1/conversations/{id}/items", only(get(stored).post(stored), "GET, POST")),
        ("/v1/conversations/{id}/items/{item}", only(get(stored).delete(stored), "GET, DELETE")),
        ("/v1/models", only_get(get(models))),
        (MODEL, only(get(model), "GET, POST")),
        ("/api/stats", only_get(get(api::stats))),
        ("/api/history", only_get(get(api::history))),
        ("/api/races", only_get(get(api::races))),
        ("/api/races/{race_id}", only_get(get(api::race))),
        ("/api/runs", only_get(get(api::runs))),
        ("/api/runs/{run}", only_get(get(api::run))),
        ("/api/routing", only_get(get(api::routing))),
        ("/api/distribution", only_get(get(api::distribution))),
        ("/api/costs", only_get(get(api::costs))),
        ("/api/incidents", only_get(get(api::incidents))),
        ("/api/verdicts", only_get(get(api::verdicts))),
        ("/api/replicas", only_get(get(api::replicas))),
        ("/api/config", only_get(get(api::config))),
        ("/api/live", only_get(get(api::live))),
        ("/api/replay", only_get(get(api::replay))),
        ("/api/usage", only_get(get(api::usage))),
        ("/api/audit", only_get(get(api::audit))),
        ("/api/me", only_get(get(api::me))),
        (RELOAD, only(post(api::reload), "POST")),
        ("/api/openapi.json", only_get(get(api::document))),
        ("/api/tags", only_get(get(tags))),
        ("/api/ps", only_get(get(running))),
        ("/api/version", only_get(get(async || proxy::version()))),
        ("/api/show", only(post(show), "POST")),
        ("/v1beta/models", only_get(get(gemini_models))),
        (GEMINI, only(get(gemini_model).post(gemini_call), "GET, POST")),
        ("/healthz", only_get(get(health::alive))),
        ("/health", only_get(get(health::alive))),
        ("/readyz", only_get(get(health::ready))),
        ("/metrics", only_get(get(health::metrics))),
        ("/dashboard", only_get(get(dashboard::first_page))),
        ("/dashboard/", only_get(get(dashboard::page))),
        ("/dashboard/{*page}", only_get(get(dashboard::page))),
        (
            dashboard::SESSION,
            only(get(dashboard::session).post(dashboard::log_in).delete(dashboard::log_out), "GET, POST, DELETE"),
        ),
    ];
    surfaces.chain(others).chain(accounts()).chain(logins()).chain(of_providers).collect()
}

/// Logins at the issuer.
fn logins() -> [(&'static str, MethodRouter<ServedPaths>); 3] {
    [
        (login::LOGIN, only_get(get(login::begin))),
        (CALLBACK, only_get(get(login::end))),
        (dashboard::API_LOGIN, only(login::of_commands(), "GET, POST")),
    ]
}

/// Teams, users and keys.
fn accounts() -> impl Iterator<Item = (&'static str, MethodRouter<ServedPaths>)> {
    let paths = [
        (AccountKind::Team, "/api/teams", "/api/teams/{id}"),
        (AccountKind::User, "/api/users", "/api/users/{id}"),
        (AccountKind::Key, "/api/keys", "/api/keys/{id}"),
    ];
    let both = paths.into_iter().flat_map(|(kind, all, one)| {
        let of_kind = only(api::of_kind(kind), "GET, POST");
        let one_of_kind = only(api::one_of_kind(kind), "GET, PATCH, DELETE");
        [(all, of_kind), (one, one_of_kind)]
    });
    both.chain([("/api/keys/{id}/rotate", only(api::rotation(), "POST"))])
}

/// The paths of [`routes`].
#[cfg(feature = "test-support")]
pub fn paths() -> Vec<&'static str> {
    routes().into_iter().map(|(path, _)| path).collect()
}

/// A model of the OpenAI surfaces.
const MODEL: &str = "/v1/models/{*id}";
/// A model of Gemini's surface, and behind a colon what is asked of it.
const GEMINI: &str = "/v1beta/models/{*call}";

/// Azure's form of OpenAI's calls: the model, which it calls a deployment, and the call.
const AZURE: &str = "/openai/deployments/{*call}";
/// Any path of a provider, behind its name.
const PROVIDERS: &str = "/providers/{*path}";
/// Files, batches and what belongs to them. They go to the provider that the configuration names.
const FILES: [&str; 6] = [
    "/v1/files/{*path}",
    "/v1/uploads/{*path}",
    "/v1/batches/{*path}",
    "/v1/fine_tuning/{*path}",
    "/v1/vector_stores/{*path}",
    "/v1/containers/{*path}",
];

fn goes_to_provider(path: &str) -> bool {
    path == PROVIDERS || FILES.iter().any(|files| *files == path || files.strip_suffix("/{*path}") == Some(path))
}

async fn provider(State(gateway): State<Arc<Gateway>>, client: Client, request: Request<Body>) -> Response<Body> {
    match *request.method() {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => {
            proxy::pass(gateway, client, request).await
        }
        _ => method(request.method(), Surface::Chat, "GET, POST, PUT, PATCH, DELETE"),
    }
}

async fn azure_call(
    State(gateway): State<Arc<Gateway>>,
    path: Result<Path<String>, PathRejection>,
    client: Client,
    request: Request<Body>,
) -> Response<Body> {
    let call = path.ok().and_then(|Path(path)| PathCall::of_azure(&path));
    let Some(call) = call else {
        let calls = "POST /openai/deployments/MODEL/chat/completions, or another of OpenAI's calls";
        return Rejection::not_found(request.uri().path(), Some(calls)).into_response();
    };
    proxy::serve(gateway, call.surface, client, Some(call), request).await
}

fn surface_route(surface: Surface) -> MethodRouter<ServedPaths> {
    let serve = move |State(gateway): State<Arc<Gateway>>, client: Client, request: Request<Body>| {
        proxy::serve(gateway, surface, client, None, request)
    };
    let others = move |State(gateway): State<Arc<Gateway>>, client: Client, request: Request<Body>| async move {
        if request.method() == Method::GET && websocket::is_asked_for(request.headers()) {
            return match surface {
                Surface::Responses => websocket::accept(gateway, client, request),
                _ => Rejection::no_websocket().answer_to(surface),
            };
        }
        method(request.method(), surface, "POST")
    };
    post(serve).fallback(others)
}

/// What the Responses API stores.
async fn stored(State(gateway): State<Arc<Gateway>>, client: Client, request: Request<Body>) -> Response<Body> {
    let uri = request.uri().clone();
    match StoredCall::of(&request) {
        Some(call) => proxy::serve_stored(gateway, client, call, request).await,
        None => Rejection::not_found(uri.path(), Some("/v1/responses")).answer_to(Surface::Responses),
    }
}

fn only_get(served: MethodRouter<ServedPaths>) -> MethodRouter<ServedPaths> {
    only(served, "GET")
}

/// Other methods than these are refused in the shape of the path's surface.
fn only(served: MethodRouter<ServedPaths>, methods: &'static str) -> MethodRouter<ServedPaths> {
    served.fallback(async move |asked: Method, uri: Uri| method(&asked, near(uri.path()), methods))
}

async fn models(State(gateway): State<Arc<Gateway>>, client: Client, headers: HeaderMap) -> Response<Body> {
    if asks_google(&headers) {
        return gemini_models(State(gateway), client, headers).await;
    }
    proxy::list(&gateway, &client, &headers).unwrap_or_else(|rejection| rejection.into_response())
}

async fn tags(State(gateway): State<Arc<Gateway>>, client: Client, headers: HeaderMap) -> Response<Body> {
    proxy::tags(&gateway, &client, &headers).unwrap_or_else(|rejection| rejection.answer_to(Surface::OllamaChat))
}

async fn running(State(gateway): State<Arc<Gateway>>, client: Client, headers: HeaderMap) -> Response<Body> {
    proxy::running(&gateway, &client, &headers).unwrap_or_else(|rejection| rejection.answer_to(Surface::OllamaChat))
}

async fn show(State(gateway): State<Arc<Gateway>>, client: Client, request: Request<Body>) -> Response<Body> {
    proxy::show(&gateway, &client, request).await.unwrap_or_else(|rejection| rejection.answer_to(Surface::OllamaChat))
}

async fn gemini_models(State(gateway): State<Arc<Gateway>>, client: Client, headers: HeaderMap) -> Response<Body> {
    proxy::gemini_list(&gateway, &client, &headers).unwrap_or_else(|rejection| rejection.answer_to(Surface::Gemini))
}

async fn gemini_model(
    State(gateway): State<Arc<Gateway>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    client: Client,
    headers: HeaderMap,
) -> Response<Body> {
    let Ok(Path(id)) = id else { return unknown_call(&uri) };
    proxy::gemini_one(&gateway, &client, &headers, &id).unwrap_or_else(|rejection| rejection.answer_to(Surface::Gemini))
}

async fn gemini_call(
    State(gateway): State<Arc<Gateway>>,
    path: Result<Path<String>, PathRejection>,
    client: Client,
    request: Request<Body>,
) -> Response<Body> {
    let uri = request.uri().clone();
    let call = path.ok().and_then(|Path(path)| PathCall::of_gemini(&path, uri.query().unwrap_or_default()));
    let Some(call) = call else { return unknown_call(&uri) };
    proxy::serve(gateway, call.surface, client, Some(call), request).await
}

fn unknown_call(uri: &Uri) -> Response<Body> {
    let calls = "POST /v1beta/models/MODEL:generateContent, :streamGenerateContent, :countTokens, :embedContent or :batchEmbedContents";
    Rejection::not_found(uri.path(), Some(calls)).answer_to(Surface::Gemini)
}

/// Google's clients ask under `/v1` too, and only they send a key in this header or in the query: see `layers`.
fn asks_google(headers: &HeaderMap) -> bool {
    headers.contains_key(GOOGLE_KEY)
}

/// The id may be any bytes, so also invalid UTF-8.
async fn model(
    State(gateway): State<Arc<Gateway>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    client: Client,
    headers: HeaderMap,
) -> Response<Body> {
    if asks_google(&headers) {
        return gemini_model(State(gateway), id, uri, client, headers).await;
    }
    let Ok(Path(id)) = id else { return Rejection::not_found(uri.path(), Some("/v1/models")).into_response() };
    proxy::one(&gateway, &client, &headers, &id).unwrap_or_else(|rejection| rejection.into_response())
}

/// People open the base URL in a browser, and some clients request it to see whether a server is there.
async fn home(headers: HeaderMap) -> Response<Body> {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let (kind, text) = if accepts.contains("text/html") {
        // Relative: a proxy may serve it under a path of its own.
        ("text/html; charset=utf-8", HOME.to_owned())
    } else {
        let home = json!({
            "name": "photofinish", "openai_base_url": "/v1", "anthropic_base_url": "/", "models": "/v1/models",
            "dashboard": "/dashboard",
        });
        ("application/json", format!("{home}\n"))
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const HOME: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Photofinish</title>\
<p>Photofinish, a racing LLM gateway. <a href=dashboard>Dashboard</a>\
<p>OpenAI clients take this address with /v1 as their base URL; Anthropic, Gemini and Ollama clients take it without.\n";

/// Answers a method that the path does not serve: it serves these.
fn method(asked: &Method, surface: Surface, served: &'static str) -> Response<Body> {
    if asked != Method::OPTIONS {
        return Rejection::method(served).answer_to(surface);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    // Axum answers HEAD wherever it answers GET.
    let all = format!("{}, OPTIONS", served.replace("GET", "GET, HEAD"));
    if let Ok(all) = HeaderValue::try_from(all) {
        response.headers_mut().insert(ALLOW, all);
    }
    response
}

fn nothing(path: &str, served: &[&'static str]) -> Response<Body> {
    let first = bare(path).split('/').nth(1).unwrap_or_default();
    let rejection = match first {
        "realtime" => Rejection::not_served(path, NO_REALTIME),
        _ if OF_VENDORS.contains(&first) || path.ends_with("/batches") => Rejection::not_served(
            path,
            &format!("it needs one provider, and /providers/NAME{path} goes to that of this name"),
        ),
        _ => Rejection::not_found(path, nearest_path(path, served)),
    };
    rejection.answer_to(near(path))
}

/// Parts of vendors' APIs that the gateway leaves to them: none is a misspelt path of its own.
const OF_VENDORS: [&str; 11] = [
    "assistants",
    "cachedContents",
    "chatkit",
    "corpora",
    "evals",
    "fileSearchStores",
    "organization",
    "organizations",
    "skills",
    "threads",
    "videos",
];
const NO_REALTIME: &str = "a Realtime session is a connection to one provider, over a WebSocket or WebRTC, which the gateway does not \
                           carry: call the provider itself";
