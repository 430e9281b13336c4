//! Errors as vendors write them.

use super::*;
use FailureKind::*;

#[test]
fn bodies_are_classified_by_status_and_then_by_their_words() {
    let table: &[(u16, &str, FailureKind, &str)] = &[
        (
            400,
            r#"{"error":{"message":"Unknown parameter: 'foo'","type":"invalid_request_error"}}"#,
            BadRequest,
            "Unknown parameter: 'foo'",
        ),
        (400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ContextLength, "x"),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            ContextLength,
            "the request exceeds the available context size",
        ),
        (400, r#"{"error":{"message":"filtered","code":"content_filter"}}"#, ContentPolicy, "filtered"),
        (422, r#"{"detail":"bad field"}"#, BadRequest, "bad field"),
        (422, r#"{"detail":[{"loc":["body"],"msg":"extra"}]}"#, BadRequest, r#"[{"loc":["body"],"msg":"extra"}]"#),
        (401, r#"{"error":"no"}"#, Unauthorized, "no"),
        (307, "", Protocol, "HTTP status 307 without a message"),
        (403, "", Forbidden, "HTTP status 403 without a message"),
        (
            403,
            r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged","metadata":{"flagged_input":"x"}}}"#,
            ContentPolicy,
            "Your chosen model requires moderation and your input was flagged",
        ),
        (403, r#"{"error":{"message":"no","type":"content_policy_violation"}}"#, ContentPolicy, "no"),
        (403, r#"{"error":"Your account was flagged"}"#, Forbidden, "Your account was flagged"),
        (404, r#"{"message":"model gone"}"#, NotFound, "model gone"),
        (404, "<html>nothing here</html>", NotFound, "an HTML page (404)"),
        (
            404,
            r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
            BadRequest,
            "No endpoints found that support tool use.",
        ),
        (
            404,
            r#"{"error":{"message":"No endpoints found for a/b.","code":404}}"#,
            NotFound,
            "No endpoints found for a/b.",
        ),
        (
            404,
            r#"{"error":{"message":"This is not a chat model and thus not supported in the v1/chat/completions endpoint."}}"#,
            NotFound,
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
        ),
        (413, "", TooLarge, "HTTP status 413 without a message"),
        (429, r#"[{"error":{"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]"#, RateLimited, "slow down"),
        (498, "", Overloaded, "HTTP status 498 without a message"),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Overloaded,
            "Overloaded",
        ),
        (502, "<html>bad gateway</html>", ServerError, "an HTML page (502)"),
        (502, r#"{"error":{"message":"<html><title>Down</title>"}}"#, ServerError, "an HTML page (502): \"Down\""),
        (418, r#"{"error":{"message":"teapot","type":"rate_limit"}}"#, BadRequest, "teapot"),
    ];
    for (status, body, kind, message) in table {
        let facts = of_body(*status, body.as_bytes());
        assert_eq!((facts.kind, facts.message.as_str()), (*kind, *message), "{status} {body}");
    }
}

#[test]
fn frames_name_their_own_error() {
    let table: &[(&str, FailureKind, Option<u16>)] = &[
        (r#"{"error":{"message":"boom"}}"#, InStreamError, None),
        (r#"{"error":{"code":429,"message":"slow"}}"#, RateLimited, Some(429)),
        (r#"{"error":{"code":502,"message":"upstream"},"choices":[]}"#, ServerError, Some(502)),
        (r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#, Overloaded, None),
        (
            r#"{"error":{"message":"Tool call validation failed","type":"invalid_request_error","code":"tool_use_failed","status_code":400}}"#,
            BadRequest,
            Some(400),
        ),
        (r#"{"x_groq":{"error":"over capacity"}}"#, InStreamError, None),
        (r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#, ServerError, None),
        (r#"{"type":"error","error":{"type":"timeout_error","message":"x"}}"#, ServerError, None),
        (r#"{"type":"error","error":{"type":"request_too_large","message":"x"}}"#, TooLarge, None),
        (r#"{"type":"error","error":{"type":"billing_error","message":"x"}}"#, Forbidden, None),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}"#,
            ContextLength,
            None,
        ),
        (r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#, RateLimited, None),
        (r#"{"object":"error","message":"x","code":400}"#, BadRequest, Some(400)),
        (r#"{"error":"plain"}"#, InStreamError, None),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}"#,
            RateLimited,
            None,
        ),
        (r#"{"type":"response.failed","response":{"error":{"code":"server_error"}}}"#, ServerError, None),
        (r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt"}}}"#, BadRequest, None),
        (r#"{"type":"response.failed","response":{"error":{"code":"image_file_not_found"}}}"#, BadRequest, None),
        (r#"{"type":"response.failed","response":{"error":null}}"#, InStreamError, None),
        (r#"{"type":"error","code":"insufficient_quota","message":"no","param":null}"#, RateLimited, None),
    ];
    for (frame, kind, status) in table {
        let facts = of_frame(frame.as_bytes());
        assert_eq!((facts.kind, facts.status), (*kind, *status), "{frame}");
    }
}

#[test]
fn a_long_message_is_cut_at_a_character() {
    let body = format!(r#"{{"error":"{}"}}"#, "é".repeat(3_000));
    assert!(of_body(400, body.as_bytes()).message.len() <= MESSAGE_MAX);
}

#[test]
fn a_complaint_about_stream_options_is_recognised() {
    assert!(rejects_stream_options(br#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs"}]}"#));
    for complaint in [
        r#"{"error":{"message":"Unknown parameter","param":"stream_options.include_usage"}}"#,
        r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}}"#,
        r#"[{"error":{"message":"stream_options is not allowed"}}]"#,
        "unknown field `stream_options`",
    ] {
        assert!(rejects_stream_options(complaint.as_bytes()), "{complaint}");
    }
    for other in [
        r#"{"error":"unknown parameter temperature"}"#,
        r#"{"detail":[{"loc":["body","temperature"],"msg":"too hot","input":{"stream_options":{"include_usage":true}}}]}"#,
        r#"{"error":{"message":"too hot","request":"{\"stream_options\":{}}"}}"#,
    ] {
        assert!(!rejects_stream_options(other.as_bytes()), "{other}");
    }
}
