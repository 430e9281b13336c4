//! Error shapes of vendors that differ from OpenAI's.

use super::*;
use FailureKind::*;

#[test]
fn google_s_bodies_are_classified() {
    let table: &[(u16, &str, FailureKind)] = &[
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[
                {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
            Unauthorized,
        ),
        (400, r#"{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}"#, BadRequest),
        (
            400,
            r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
            Forbidden,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}"#,
            ContextLength,
        ),
        (403, r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}"#, Forbidden),
        (
            404,
            r#"{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}"#,
            NotFound,
        ),
        (429, r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]"#, RateLimited),
        (500, r#"[{"error":{"code":500,"message":"x","status":"INTERNAL"}}]"#, ServerError),
        (503, r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#, Overloaded),
    ];
    for (status, body, kind) in table {
        assert_eq!(of_body(*status, body.as_bytes()).kind, *kind, "{status} {body}");
    }
    let frames: &[(&str, FailureKind)] = &[
        (r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#, Overloaded),
        (
            r#"[{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
            Unauthorized,
        ),
        (r#"{"error":{"code":401,"message":"x","status":"UNAUTHENTICATED"}}"#, Unauthorized),
        (r#"{"error":{"code":504,"message":"x","status":"DEADLINE_EXCEEDED"}}"#, ServerError),
        (r#"{"error":{"message":"x","details":"none","status":7}}"#, InStreamError),
        (
            r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}"#,
            ContentPolicy,
        ),
    ];
    for (frame, kind) in frames {
        assert_eq!(of_frame(frame.as_bytes()).kind, *kind, "{frame}");
    }
    let blocked = of_frame(br#"{"promptFeedback":{"blockReason":"SAFETY"}}"#);
    assert_eq!((blocked.status, blocked.message.as_str()), (None, "the prompt was blocked: SAFETY"));
}

#[test]
fn ollama_s_plain_text_is_an_error() {
    let missing = of_body(404, br#"{"error":"model \"x\" not found, try pulling it first"}"#);
    assert_eq!((missing.kind, missing.message.as_str()), (NotFound, "model \"x\" not found, try pulling it first"));
    assert_eq!(of_body(400, br#"{"error":"\"m\" does not support tools"}"#).kind, BadRequest);
    assert_eq!(of_body(503, br#"{"error":"server busy, maximum pending requests exceeded"}"#).kind, Overloaded);
    assert_eq!(of_frame(br#"{"error":"an error was encountered while running the model"}"#).kind, InStreamError);
    assert_eq!(of_frame(br#"{"error":"the prompt exceeds the context length"}"#).kind, ContextLength);
}
