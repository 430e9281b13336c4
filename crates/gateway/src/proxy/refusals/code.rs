//! The code of each answer of the gateway, with its status and OpenAI's `type`. `docs/http.md` lists them for users.

use http::StatusCode;

/// What kind of answer it is.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    pub status: StatusCode,
    /// OpenAI's `type`.
    pub kind: &'static str,
    /// Begins with `photofinish_`, unless clients know the vendor's own code.
    pub code: &'static str,
}

const fn invalid(status: StatusCode, code: &'static str) -> ErrorCode {
    ErrorCode { status, kind: "invalid_request_error", code }
}

const fn forbidden(code: &'static str) -> ErrorCode {
    ErrorCode { status: StatusCode::FORBIDDEN, kind: "permission_error", code }
}

const fn limited(code: &'static str) -> ErrorCode {
    ErrorCode { status: StatusCode::TOO_MANY_REQUESTS, kind: "rate_limit_error", code }
}

const fn server(status: StatusCode, code: &'static str) -> ErrorCode {
    ErrorCode { status, kind: "server_error", code }
}

pub const BAD_HEADER: ErrorCode = invalid(StatusCode::BAD_REQUEST, "photofinish_bad_header");
pub const BAD_PARAMETER: ErrorCode = invalid(StatusCode::BAD_REQUEST, "photofinish_bad_parameter");
pub const INVALID_REQUEST: ErrorCode = invalid(StatusCode::BAD_REQUEST, "photofinish_invalid_request");
pub const NOT_TRANSLATABLE: ErrorCode = invalid(StatusCode::BAD_REQUEST, "photofinish_not_translatable");
pub const NO_UPSTREAM: ErrorCode = invalid(StatusCode::BAD_REQUEST, "photofinish_no_upstream");
pub const ONLY_HTTPS: ErrorCode = invalid(StatusCode::BAD_REQUEST, "photofinish_only_https");
pub const PREVIOUS_NOT_FOUND: ErrorCode = invalid(StatusCode::BAD_REQUEST, "previous_response_not_found");
pub const NOT_FOUND: ErrorCode = invalid(StatusCode::NOT_FOUND, "photofinish_not_found");
pub const UNKNOWN_MODEL: ErrorCode = invalid(StatusCode::NOT_FOUND, "model_not_found");
pub const UNKNOWN_RACE: ErrorCode = invalid(StatusCode::NOT_FOUND, "photofinish_unknown_race");
pub const UNKNOWN_RUN: ErrorCode = invalid(StatusCode::NOT_FOUND, "photofinish_unknown_run");
pub const METHOD_NOT_ALLOWED: ErrorCode = invalid(StatusCode::METHOD_NOT_ALLOWED, "photofinish_method_not_allowed");
pub const UNKNOWN_ACCOUNT: ErrorCode = invalid(StatusCode::NOT_FOUND, "photofinish_unknown_account");
pub const CONFLICT: ErrorCode = invalid(StatusCode::CONFLICT, "photofinish_conflict");
pub const BODY_TIMEOUT: ErrorCode = invalid(StatusCode::REQUEST_TIMEOUT, "photofinish_body_timeout");
pub const TOO_LARGE: ErrorCode = invalid(StatusCode::PAYLOAD_TOO_LARGE, "photofinish_too_large");
pub const UNSUPPORTED_ENCODING: ErrorCode =
    invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, "photofinish_unsupported_encoding");
pub const NO_WEBSOCKET: ErrorCode = invalid(StatusCode::UPGRADE_REQUIRED, "photofinish_no_websocket");
pub const NOT_RELOADED: ErrorCode = invalid(StatusCode::UNPROCESSABLE_ENTITY, "photofinish_not_reloaded");
pub const UNKNOWN_HOST: ErrorCode = invalid(StatusCode::MISDIRECTED_REQUEST, "photofinish_unknown_host");

pub const UNAUTHORIZED: ErrorCode =
    ErrorCode { status: StatusCode::UNAUTHORIZED, kind: "authentication_error", code: "photofinish_unauthorized" };
pub const FORBIDDEN: ErrorCode = forbidden("photofinish_forbidden");
pub const FORBIDDEN_OVERRIDE: ErrorCode = forbidden("photofinish_forbidden_override");
pub const FORBIDDEN_UPSTREAM: ErrorCode = forbidden("photofinish_forbidden_upstream");
pub const FORBIDDEN_MODEL: ErrorCode = forbidden("photofinish_model_forbidden");
pub const UNPRICED: ErrorCode = forbidden("photofinish_unpriced");
pub const FOREIGN_PAGE: ErrorCode = forbidden("photofinish_foreign_page");
pub const REMOTE_CLIENT: ErrorCode = forbidden("photofinish_remote_client");

pub const COOLING_DOWN: ErrorCode = limited("photofinish_cooling_down");
pub const TOO_MANY_WATCHERS: ErrorCode = limited("photofinish_too_many_watchers");
pub const TOO_MANY_TOKENS: ErrorCode = limited("photofinish_too_many_tokens");
pub const TOO_MANY_STREAMS: ErrorCode = limited("photofinish_too_many_streams");
pub const BUDGET_SPENT: ErrorCode = limited("photofinish_budget_spent");
pub const BUDGET_HELD: ErrorCode = limited("photofinish_budget_held");
pub const RATE_LIMITED: ErrorCode = limited("photofinish_rate_limited");

pub const INTERNAL: ErrorCode = server(StatusCode::INTERNAL_SERVER_ERROR, "photofinish_internal");
pub const HISTORY_BROKEN: ErrorCode = server(StatusCode::INTERNAL_SERVER_ERROR, "photofinish_history_unavailable");
pub const HISTORY_BUSY: ErrorCode = server(StatusCode::SERVICE_UNAVAILABLE, "photofinish_history_unavailable");
pub const ALL_FAILED: ErrorCode = server(StatusCode::BAD_GATEWAY, "photofinish_all_failed");
pub const UPSTREAM_REFUSED: ErrorCode = server(StatusCode::BAD_GATEWAY, "photofinish_upstream_refused");
pub const BUSY: ErrorCode = server(StatusCode::SERVICE_UNAVAILABLE, "photofinish_busy");
pub const KEYS_UNAVAILABLE: ErrorCode = server(StatusCode::SERVICE_UNAVAILABLE, "photofinish_keys_unavailable");
pub const CROWDED: ErrorCode = server(StatusCode::SERVICE_UNAVAILABLE, "photofinish_crowded");
pub const OVERLOADED: ErrorCode = server(StatusCode::SERVICE_UNAVAILABLE, "photofinish_overloaded");
pub const SHUTTING_DOWN: ErrorCode = server(StatusCode::SERVICE_UNAVAILABLE, "photofinish_shutting_down");
pub const TIMEOUT: ErrorCode = server(StatusCode::GATEWAY_TIMEOUT, "photofinish_timeout");
