//! Ends of limits that are only in the body.

use super::*;

/// 2026-08-17, midnight by UTC.
const NOW_MS: i64 = 1_786_924_800_000;

fn wait(body: &str) -> Option<f64> {
    Some(of_body(429, body.as_bytes()).reset?.wait(NOW_MS)?.as_secs_f64())
}

#[test]
fn members_say_when_a_limit_ends() {
    for (body, seconds) in [
        (
            r#"{"error":{"code":429,"message":"Please retry in 41.3s.","status":"RESOURCE_EXHAUSTED","details":[
                {"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"41s"}]}}"#,
            Some(41.0),
        ),
        (r#"[{"error":{"details":[{"retryDelay":"37.5s"}]}}]"#, Some(37.5)),
        (r#"{"error":{"details":[{"retryDelay":{"seconds":"9","nanos":1}}]}}"#, Some(9.0)),
        (r#"{"error":{"details":[{"metadata":{"quotaResetDelay":"3h22m20.5s"}}]}}"#, Some(12_140.5)),
        (r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":1800,"resets_at":1}}"#, Some(1_800.0)),
        (r#"{"error":{"type":"usage_limit_reached","resets_at":1786924830}}"#, Some(30.0)),
        (
            r#"{"error":{"message":"Rate limit exceeded: free-models-per-min","code":429,"metadata":{"headers":{
                "X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1786924860000"}}}}"#,
            Some(60.0),
        ),
        (r#"{"message":"You are being rate limited.","retry_after":0.65}"#, Some(0.65)),
        (r#"{"error":{"message":"x"},"retryAfterMs":250}"#, Some(0.25)),
        (r#"{"error":{"reset_at":"2026-08-17T00:00:05Z"}}"#, Some(5.0)),
        (r#"{"error":{"message":"x","retry_after":"soon"}}"#, None),
        (r#"{"error":{"message":"x","retry_after":0}}"#, None),
        (r#"{"error":{"message":"x","retry_after":-7}}"#, None),
        (r#"{"error":{"message":"x","retry_after":null}}"#, None),
        (r#"{"error":{"message":"x","input":{"retry_after":7}}}"#, None),
    ] {
        assert_eq!(wait(body), seconds, "{body}");
    }
}

#[test]
fn messages_say_when_a_limit_ends() {
    for (message, seconds) in [
        ("Rate limit reached for gpt-4o … Please try again in 37.5s. Visit https://x", Some(37.5)),
        ("… Limit 6000, Used 5915. Please try again in 1m26.4s.", Some(86.4)),
        ("Please try again in 558.9ms. Visit", Some(0.5589)),
        ("Please try again in 1h2m.", Some(3_720.0)),
        ("Please try again after 1 seconds", Some(1.0)),
        ("Please retry after 27 seconds.", Some(27.0)),
        ("Retry after 30.", Some(30.0)),
        ("Please wait 42 seconds before retrying.", Some(42.0)),
        ("Please wait before trying again.", None),
        ("Your quota will reset after 3h22m20s.", Some(12_140.0)),
        ("it resets in about 2 hours and 5 minutes, then", Some(7_500.0)),
        // In Beijing it is eight in the morning.
        ("Usage limit reached for 5 hour. Your limit will reset at 2026-08-17 08:56:15", Some(3_375.0)),
        ("Your limit will reset at 2026-08-17 02:56:15", Some(10_575.0)),
        ("Your limit will reset at 2026-08-16 23:56:15", None),
        ("The limit resets at 2026-08-17T00:01:00Z.", Some(60.0)),
        ("The limit resets at 2026-08-17 00:01:00 UTC", Some(60.0)),
        ("The limit resets at 2026-08-17T02:01:00.25+02:00", Some(60.0)),
        ("The limit resets at 1786924830", Some(30.0)),
        ("try again after 5 attempts", None),
        ("Retry after 3 - 4 h", None),
        ("try again in a moment", None),
        ("try again in ", None),
        ("try again in 1e400s", None),
        ("versuch es später, in 3 s", None),
        ("é: TRY AGAIN IN 3 S", Some(3.0)),
    ] {
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        assert_eq!(wait(&body), seconds, "{message}");
    }
    assert_eq!(
        of_frame(b"Rate limit exceeded, try again in 7s").reset,
        Some(Reset::After(std::time::Duration::from_secs(7)))
    );
    assert_eq!(of_body(400, br#"{"error":{"message":"try again in 7s"}}"#).reset, None, "no limit");
}
