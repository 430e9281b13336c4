//! The code of each answer of the gateway: its status, OpenAI's `type`, what happened and what to do. `docs/http.md` has the same table
//! for users, and the OpenAPI document the codes.

use http::StatusCode;

/// What kind of answer it is.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    pub status: StatusCode,
    /// OpenAI's `type`.
    pub kind: &'static str,
    /// Begins with `photofinish_`, unless clients know the vendor's own code.
    pub code: &'static str,
    /// What happened.
    pub about: &'static str,
    /// What to do; may be empty.
    pub remedy: &'static str,
}

const INVALID: &str = "invalid_request_error";
const AUTHENTICATION: &str = "authentication_error";
const PERMISSION: &str = "permission_error";
const LIMITED: &str = "rate_limit_error";
const SERVER: &str = "server_error";

/// `NAME = STATUS, KIND, "code" => "what to do";`, where the comment says what happened.
macro_rules! codes {
    ($($(#[doc = $about:literal])+ $name:ident = $status:ident, $kind:ident, $code:expr $(=> $remedy:literal)?;)+) => {
        $($(#[doc = $about])+ pub const $name: ErrorCode = ErrorCode {
            status: StatusCode::$status,
            kind: $kind,
            code: $code,
            about: concat!($($about),+).trim_ascii(),
            remedy: concat!("" $(, $remedy)?),
        };)+

        /// All of them.
        pub const CODES: &[ErrorCode] = &[$($name),+];
    };
}

codes! {
    /// the body is no JSON object or complete form, has no `model` or a member of the wrong type, or broke off; or it
    /// asks for `background`, which none of the upstreams has
    INVALID_REQUEST = BAD_REQUEST, INVALID, "photofinish_invalid_request";

    /// plain HTTP to an address that speaks [TLS](operations.md#tls)
    ONLY_HTTPS = BAD_REQUEST, INVALID, "photofinish_only_https";

    /// an `x-photofinish-…` header is invalid, or `Host` is missing or invalid
    BAD_HEADER = BAD_REQUEST, INVALID, "photofinish_bad_header";

    /// a parameter, an id or a provider's path is invalid
    BAD_PARAMETER = BAD_REQUEST, INVALID, "photofinish_bad_parameter";

    /// none of the model's providers is on for this caller, or none has such a call
    NO_UPSTREAM = BAD_REQUEST, INVALID, "photofinish_no_upstream" => "set a key, or name another upstream";

    /// no upstream's dialect can take a part of the request (`param`)
    NOT_TRANSLATABLE = BAD_REQUEST, INVALID, "photofinish_not_translatable" => "leave it out, or `lossy = \"drop\"`";

    /// no token, or an unknown one
    UNAUTHORIZED = UNAUTHORIZED, AUTHENTICATION, "photofinish_unauthorized";

    /// the [role](keys.md#roles) of the user does not allow it, or not for this user or team
    FORBIDDEN = FORBIDDEN, PERMISSION, "photofinish_forbidden" => "another `role` under `[users.NAME]`";

    /// the caller's [limits](limits.md) forbid the model
    FORBIDDEN_MODEL = FORBIDDEN, PERMISSION, "photofinish_model_forbidden" => "use one of `GET /v1/models`";

    /// the caller has a budget, and no price is known of an upstream, nor of another model of its provider
    UNPRICED = FORBIDDEN, PERMISSION, "photofinish_unpriced";

    /// a browser sent it for a web page of another origin
    FOREIGN_PAGE = FORBIDDEN, PERMISSION, "photofinish_foreign_page" => "name the origin in `cors`";

    /// there are no users, and a [trusted proxy](operations.md#tls) names a client on another machine
    REMOTE_CLIENT = FORBIDDEN, PERMISSION, "photofinish_remote_client" => "add `[users]`";

    /// the user may not send that header, or asks for what may cost more
    FORBIDDEN_OVERRIDE = FORBIDDEN, PERMISSION, "photofinish_forbidden_override" => "ask for less, or set [`overrides`](configuration.md#users)";

    /// the user may not ask an unlisted upstream with a shared key, or a member (`param`) may name another model
    FORBIDDEN_UPSTREAM = FORBIDDEN, PERMISSION, "photofinish_forbidden_upstream" => "bring a key, list it, or set [`overrides`](configuration.md#users)";

    /// no such model, alias or upstream
    UNKNOWN_MODEL = NOT_FOUND, INVALID, "model_not_found" => "`GET /v1/models` lists them";

    /// the database has no such race (yet, or any more)
    UNKNOWN_RACE = NOT_FOUND, INVALID, "photofinish_unknown_race";

    /// no run has this name, or the ids of several begin so
    UNKNOWN_RUN = NOT_FOUND, INVALID, "photofinish_unknown_run";

    /// `previous_response_id` names nothing [stored](responses.md) for this caller
    PREVIOUS_NOT_FOUND = BAD_REQUEST, INVALID, "previous_response_not_found" => "send the whole input";

    /// no such [key, user or team](keys.md) was made
    UNKNOWN_ACCOUNT = NOT_FOUND, INVALID, "photofinish_unknown_account";

    /// no such path; the message names the nearest
    NOT_FOUND = NOT_FOUND, INVALID, "photofinish_not_found";

    /// the path takes other methods, named in `allow`
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, INVALID, "photofinish_method_not_allowed";

    /// a [key, user or team](keys.md#api) is in the configuration, in use, or changed meanwhile
    CONFLICT = CONFLICT, INVALID, "photofinish_conflict";

    /// the body stopped for 30 s, or came slower than 2 KiB/s on average
    BODY_TIMEOUT = REQUEST_TIMEOUT, INVALID, "photofinish_body_timeout" => "send it again";

    /// the body is larger than `body_max`, or takes more than `memory` to translate
    TOO_LARGE = PAYLOAD_TOO_LARGE, INVALID, "photofinish_too_large";

    /// a `content-encoding` that the gateway does not decode, or several
    UNSUPPORTED_ENCODING = UNSUPPORTED_MEDIA_TYPE, INVALID, "photofinish_unsupported_encoding";

    /// there are no users, and `Host` is not in `hosts`
    UNKNOWN_HOST = MISDIRECTED_REQUEST, INVALID, "photofinish_unknown_host" => "use `localhost`, or add the name";

    /// the new configuration is invalid, [drops too much](operations.md#reloading) or is not what `accept` names
    NOT_RELOADED = UNPROCESSABLE_ENTITY, INVALID, "photofinish_not_reloaded" => "correct the file, or accept it";

    /// a handshake where there is no [WebSocket](responses.md#websockets)
    NO_WEBSOCKET = UPGRADE_REQUIRED, INVALID, "photofinish_no_websocket";

    /// 32 clients watch `/api/live` already
    TOO_MANY_WATCHERS = TOO_MANY_REQUESTS, LIMITED, "photofinish_too_many_watchers";

    /// the token is [wrong](operations.md#wrong-tokens), and so were ten others from this address within a minute
    TOO_MANY_TOKENS = TOO_MANY_REQUESTS, LIMITED, "photofinish_too_many_tokens";

    /// every attempt got a 429, or the caller's [rate](limits.md) is used up
    RATE_LIMITED = TOO_MANY_REQUESTS, LIMITED, "photofinish_rate_limited";

    /// the caller's [streams](limits.md) run
    TOO_MANY_STREAMS = TOO_MANY_REQUESTS, LIMITED, "photofinish_too_many_streams";

    /// a [budget](limits.md) of the caller is spent
    BUDGET_SPENT = TOO_MANY_REQUESTS, LIMITED, "photofinish_budget_spent";

    /// other answers hold what is left of a [budget](limits.md)
    BUDGET_HELD = TOO_MANY_REQUESTS, LIMITED, "photofinish_budget_held";

    /// nothing was tried: every upstream cools down after a rate limit
    COOLING_DOWN = TOO_MANY_REQUESTS, LIMITED, "photofinish_cooling_down";

    /// the database cannot be read; 503 where that may pass
    HISTORY_BROKEN = INTERNAL_SERVER_ERROR, SERVER, "photofinish_history_unavailable" => "see the message";

    /// the database cannot be read; 503 where that may pass
    HISTORY_BUSY = SERVICE_UNAVAILABLE, SERVER, "photofinish_history_unavailable" => "see the message";

    /// a fault of the gateway itself
    INTERNAL = INTERNAL_SERVER_ERROR, SERVER, "photofinish_internal" => "report the line of the log";

    /// every attempt failed. The 503 or 529 of an only upstream that has a Retry-After is passed on with both
    ALL_FAILED = BAD_GATEWAY, SERVER, "photofinish_all_failed" => "see the [failures](answers.md#failures)";

    /// nothing was tried: every upstream cools down, and at least one refused its key, model or account
    UPSTREAM_REFUSED = BAD_GATEWAY, SERVER, "photofinish_upstream_refused";

    /// the store of [keys](keys.md) cannot be read yet
    KEYS_UNAVAILABLE = SERVICE_UNAVAILABLE, SERVER, "photofinish_keys_unavailable";

    /// no user can log in now: the issuer or the store does not answer, or too many log in
    LOGIN_UNAVAILABLE = SERVICE_UNAVAILABLE, SERVER, "photofinish_login_unavailable";

    /// four `/api` requests are running, and none ended within 5 s; or a replay is running
    BUSY = SERVICE_UNAVAILABLE, SERVER, "photofinish_busy";

    /// all client connections, or their memory, are in use
    CROWDED = SERVICE_UNAVAILABLE, SERVER, "photofinish_crowded";

    /// [overload](operations.md#overload): places, `memory` or descriptors are used up, or the caller has its
    /// [share](limits.md#fair-shares)
    OVERLOADED = SERVICE_UNAVAILABLE, SERVER, "photofinish_overloaded";

    /// the drain ran out before there was an answer
    SHUTTING_DOWN = SERVICE_UNAVAILABLE, SERVER, "photofinish_shutting_down";

    /// no first token (or no whole answer) within `timeouts.total`
    TIMEOUT = GATEWAY_TIMEOUT, SERVER, "photofinish_timeout" => "raise it, or add upstreams";

    /// an event inside a stream: the winner broke off, or the gateway shut down
    STREAM_BROKEN = OK, SERVER, crate::relay::STREAM_BROKEN;
}
