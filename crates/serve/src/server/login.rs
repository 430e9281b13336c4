//! `/dashboard/login`, which leads a browser to the issuer and back, and `/api/login`, by which commands log in. Not for what the issuer
//! is asked: see [`crate::login`].

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::routing::{MethodRouter, get};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use serde_json::json;

use super::dashboard::guarded;
use super::reads::{json as json_answer, pairs};
use super::served_paths::ServedPaths;
use crate::login::{CODE_FOR, DeviceLogin, LoginAnswer, LoginRefusal, Returned, offer};
use photofinish_gateway::proxy::{self, Client, Rejection};
use photofinish_routing::callers::{COOKIE_NAME, SESSION_FOR};

/// Where a browser begins to log in.
pub const LOGIN: &str = "/dashboard/login";
/// Bytes of a command's question.
const BODY_MAX: usize = 64 << 10;
/// The cookie of a login that runs.
const RUNNING: &str = "photofinish-login";

/// What `/api/login` serves.
pub fn of_commands() -> MethodRouter<ServedPaths> {
    let offered = async |State(site): State<ServedPaths>| json_answer(json!(offer(site.logins.issuer())).to_string());
    get(offered).post(device)
}

async fn device(State(site): State<ServedPaths>, client: Client, request: Request<Body>) -> Response<Body> {
    let Ok(body) = to_bytes(request.into_body(), BODY_MAX).await else {
        return Rejection::too_large(BODY_MAX).into_response();
    };
    let asked: DeviceLogin = match serde_json::from_slice(&body) {
        _ if body.is_empty() => DeviceLogin::default(),
        Ok(asked) => asked,
        Err(error) => return Rejection::parameter(None, &error.to_string()).into_response(),
    };
    let (status, answer) = match site.logins.device(asked, client.address.to_string()).await {
        Ok(LoginAnswer::Begun(begun)) => (StatusCode::OK, json!(begun)),
        Ok(LoginAnswer::Waiting) => (StatusCode::ACCEPTED, json!({ "waiting": true })),
        Ok(LoginAnswer::Key(key)) => (StatusCode::CREATED, key),
        Err(refusal) => return refused(refusal).into_response(),
    };
    let mut response = json_answer(answer.to_string());
    *response.status_mut() = status;
    response
}

/// Leads a browser to the issuer.
pub async fn begin(State(site): State<ServedPaths>) -> Response<Body> {
    match site.logins.begin().await {
        Ok((url, kept)) => leading(&url, &[cookie(RUNNING, &kept, CODE_FOR.unsigned_abs(), &site)]),
        Err(refusal) => not_logged_in(refusal),
    }
}

/// Where the issuer sends it back to.
pub async fn end(State(site): State<ServedPaths>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let returned = Returned::of(pairs(uri.query().unwrap_or_default()).unwrap_or_default());
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let kept = pairs.find_map(|(name, value)| (name == RUNNING).then_some(value));
    let session = match site.logins.end(returned, kept).await {
        Ok(user) => proxy::open_session(&site.gateway, &user),
        Err(refusal) => return not_logged_in(refusal),
    };
    match session {
        Ok(secret) => {
            site.logins.share_session(&secret).await;
            let session =
                cookie(COOKIE_NAME, &secret, SESSION_FOR.as_secs(), &site).replace("SameSite=Lax", "SameSite=Strict");
            leading(
                &format!("{}/dashboard/", site.logins.url().unwrap_or_default()),
                &[cookie(RUNNING, "", 0, &site), session],
            )
        }
        Err(rejection) => guarded(rejection.into_response()),
    }
}

/// The issuer's page leads back here, so the browser must send it then.
fn cookie(name: &str, secret: &str, seconds: u64, site: &ServedPaths) -> String {
    let is_tls = site.logins.url().is_some_and(|url| url.starts_with("https:"));
    let secure = if is_tls { "; Secure" } else { "" };
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
}

fn leading(url: &str, cookies: &[String]) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(url) = HeaderValue::try_from(url) {
        headers.insert(LOCATION, url);
    }
    for mut cookie in cookies.iter().filter_map(|cookie| HeaderValue::try_from(cookie).ok()) {
        cookie.set_sensitive(true);
        headers.append(SET_COOKIE, cookie);
    }
    guarded(response)
}

fn refused(refusal: LoginRefusal) -> Rejection {
    let why = refusal.to_string();
    match refusal {
        LoginRefusal::NotOffered => Rejection::unknown_account(&why),
        LoginRefusal::Wrong(_) => Rejection::parameter(None, &why),
        LoginRefusal::Forbidden(_) => Rejection::out_of_reach(&why),
        LoginRefusal::Away(_) => Rejection::login_unavailable(&why),
    }
}

/// For the person at the browser.
fn not_logged_in(refusal: LoginRefusal) -> Response<Body> {
    let why: String = refusal.to_string().chars().map(|c| if "<>&\"'".contains(c) { '\u{b7}' } else { c }).collect();
    let status = refused(refusal).status();
    let mut response = Response::new(Body::from(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Not logged in</title><h1>Not logged in</h1><p>{why}</p>\
         <p><a href=/dashboard/login>Try again</a> or <a href=/dashboard/>log in with a key</a>.\n"
    )));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guarded(response)
}
