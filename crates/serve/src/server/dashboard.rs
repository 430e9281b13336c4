//! `/dashboard`: the pages, which hold no data and need no token, and the session that lets them read `/api`.
//!
//! Not for the files: see [`crate::dashboard`]. Not for the rules of a session: see `proxy`.

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::json;

use super::api::is_account_path;
use super::reads::json as json_answer;
use super::served_paths::ServedPaths;
use crate::dashboard::{self, SiteFile};
use photofinish_config::UserRole;
use photofinish_gateway::proxy::{self, Asker, Client, Rejection};
use photofinish_routing::callers::{COOKIE_NAME, SESSION_FOR};

/// Where a session begins and ends.
pub const SESSION: &str = "/dashboard/session";

/// Where a command logs in.
pub const API_LOGIN: &str = "/api/login";

/// Reads the configuration again.
pub const RELOAD: &str = "/api/reload";

/// The headers of everything under `/dashboard`: nothing from elsewhere, nothing inline, no frame around it.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Whether the gateway's own pages alone may ask for this path, whatever `cors` lists.
pub fn is_own(path: &str) -> bool {
    path == RELOAD
        || path == API_LOGIN
        || is_account_path(path)
        || path.strip_prefix("/dashboard").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub async fn first_page() -> Response<Body> {
    frame("", "dashboard/", "/dashboard")
}

pub async fn page(path: Option<Path<String>>, headers: HeaderMap) -> Response<Body> {
    let path = path.map(|Path(path)| path).unwrap_or_default();
    match path.strip_prefix("assets/") {
        Some(asset) => found(dashboard::asset(asset), &format!("/dashboard/{path}"), &headers),
        None => frame(&path, &"../".repeat(path.matches('/').count()), &format!("/dashboard/{path}")),
    }
}

/// The page at this path, whose addresses are relative, because a proxy may serve it below a path of its own. `root`: how it
/// leads to the folder of the dashboard.
fn frame(page: &str, root: &str, path: &str) -> Response<Body> {
    let answer = dashboard::page(page, root).map(|text| {
        let mut response = Response::new(Body::from(text));
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response
    });
    guarded(answer.unwrap_or_else(|| Rejection::not_found(path, Some("/dashboard")).into_response()))
}

/// Says what the page may read of `/api`.
pub async fn session(Extension(asker): Extension<Asker>) -> Response<Body> {
    let role = asker.user.as_ref().map_or(UserRole::Admin, |user| user.role).as_str();
    let user = asker.user.map(|user| user.name.clone());
    guarded(json_answer(json!({ "user": user, "role": role, "version": env!("CARGO_PKG_VERSION") }).to_string()))
}

/// Exchanges the token in the header `authorization` for a session.
pub async fn log_in(State(site): State<ServedPaths>, client: Client, headers: HeaderMap) -> Response<Body> {
    let answer = proxy::log_in(&site.gateway, &client);
    if let Ok(Some(secret)) = &answer {
        site.logins.share_session(secret).await;
    }
    let answer = answer.map(|secret| no_content(secret.map(|secret| cookie(&secret, SESSION_FOR.as_secs(), &headers))));
    guarded(answer.unwrap_or_else(Rejection::into_response))
}

pub async fn log_out(State(site): State<ServedPaths>, headers: HeaderMap) -> Response<Body> {
    site.logins.end_sessions(&headers).await;
    guarded(no_content(Some(cookie("", 0, &headers))))
}

/// Only the pages of this gateway get it back, no script reads it, and over TLS it stays there.
fn cookie(secret: &str, seconds: u64, headers: &HeaderMap) -> String {
    let is_tls = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let secure = if is_tls { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

fn no_content(cookie: Option<String>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(mut cookie) = cookie.and_then(|cookie| HeaderValue::try_from(cookie).ok()) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn found(file: Option<&'static SiteFile>, path: &str, headers: &HeaderMap) -> Response<Body> {
    let answer = file.map(|file| file_answer(file, headers));
    guarded(answer.unwrap_or_else(|| Rejection::not_found(path, Some("/dashboard")).into_response()))
}

fn file_answer(file: &'static SiteFile, asked: &HeaderMap) -> Response<Body> {
    let gzip = file.gzip.as_ref().filter(|_| takes_gzip(asked));
    let etag = if gzip.is_some() { format!("\"{}-gzip\"", file.hash) } else { format!("\"{}\"", file.hash) };
    let known = asked.get_all(IF_NONE_MATCH).iter().any(|known| {
        known.to_str().is_ok_and(|known| known.split(',').any(|one| one.trim().trim_start_matches("W/") == etag))
    });
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    // Asked for again each time, so that a new version is seen at once: a 304 is small.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::try_from(etag) {
        headers.insert(ETAG, etag);
    }
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    if gzip.is_some() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *response.body_mut() = gzip.unwrap_or(&file.plain).clone().into();
    response
}

/// A client that says `gzip;q=0` does not.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let listed = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    listed.flat_map(|value| value.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let is_zero = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_zero
    })
}

pub(super) fn guarded(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
