//! Errors in a 200 that have no `error`: `code` and `message`, `detail`, `success: false`, a sentence. Not for what they mean.

use crate::json::Json;

/// Members that say what failed.
const MESSAGES: [&str; 6] = ["message", "Message", "msg", "error_msg", "error_message", "errorMessage"];
/// Members with a code, which is no failure if it is one of [`GOOD`] or a good status.
const CODES: [&str; 6] = ["code", "status_code", "statusCode", "error_code", "errorCode", "errorType"];
const GOOD: [&str; 6] = ["", "null", "0", "ok", "success", "true"];
/// Members that may stand beside a message which is alone.
const BESIDE: [&str; 8] = ["request_id", "requestId", "requestid", "trace_id", "traceId", "timestamp", "path", "param"];

/// What the members of an object say.
#[derive(Default)]
struct ObjectSays {
    /// A plain statement that it failed.
    failed: bool,
    message: bool,
    code: bool,
    detail: bool,
    /// It is of a kind of its own.
    other_type: bool,
    /// It has members that say something else.
    more: bool,
}

/// Whether an object without a member of its dialect is an error.
pub fn is_bare_error(text: &str) -> bool {
    let mut said = ObjectSays::default();
    let walked = Json::new(text).object(|name, json| {
        let value = json.skip()?;
        said.member(name, value);
        Ok(())
    });
    let ObjectSays { failed, message, code, detail, other_type, more } = said;
    walked.is_ok() && (failed || !other_type && (message && (code || !more) || detail))
}

impl ObjectSays {
    fn member(&mut self, name: &str, value: &str) {
        let word = value.trim_matches('"');
        let is_text = value.starts_with('"') && !GOOD.contains(&word.to_ascii_lowercase().as_str());
        let has_more = is_text || value.starts_with(['[', '{']) && !matches!(value, "[]" | "{}");
        match name {
            "success" | "ok" => self.failed |= value == "false",
            "errors" => self.failed |= has_more,
            "detail" => self.detail |= has_more,
            "status" => {
                self.code |= word.parse().is_ok_and(|status: u16| (400..600).contains(&status));
                self.code |= matches!(word, "error" | "failed" | "fail");
            }
            // A URL names the kind of a problem (RFC 9457).
            "type" => self.other_type |= is_text && !["error", "http", "about:"].iter().any(|part| word.contains(part)),
            name if MESSAGES.contains(&name) => self.message |= is_text,
            name if CODES.contains(&name) => {
                let is_good = GOOD.contains(&word.to_ascii_lowercase().as_str());
                self.code |= !is_good && !word.parse().is_ok_and(|status: u16| (200..300).contains(&status));
            }
            name if BESIDE.contains(&name) => {}
            _ => self.more = true,
        }
    }
}

/// Words of which a sentence about a failure has one; lower case.
const FAILURES: [&str; 20] = [
    "error",
    "fail",
    "exceed",
    "limit",
    "quota",
    "too many",
    "overload",
    "unavailable",
    "upstream",
    "gateway",
    "timeout",
    "timed out",
    "refused",
    "denied",
    "forbidden",
    "not found",
    "not allowed",
    "invalid",
    "unauthorized",
    "not authenticated",
];
/// Bytes of a text that are looked at.
const READ: usize = 4 << 10;
/// How web pages begin; lower case.
const PAGES: [&str; 7] = ["<!", "<html", "<head", "<title", "<body", "<center", "<?xml"];

/// Whether a text that is no JSON is a web page or says in a sentence what failed: some servers and proxies write that into a
/// stream. Other words may be a vendor's own pings, and what has any JSON in it may be a damaged event.
pub fn is_sentence(text: &str) -> bool {
    let text = text.trim_ascii();
    let lower = text[..text.floor_char_boundary(READ)].to_ascii_lowercase();
    if lower.contains("{\"") {
        return false;
    }
    if lower.starts_with('<') {
        return PAGES.iter().any(|page| lower.starts_with(page));
    }
    // A field of an event is `event: ping`.
    let first = lower.split(' ').next().unwrap_or_default();
    let is_field = first.contains(':') && first != "error:";
    lower.starts_with(|c: char| c.is_alphanumeric())
        && !is_field
        && lower.lines().next().is_some_and(|line| line.contains(' '))
        && FAILURES.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_events_of_vendors() {
        for error in [
            r#"{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded","request_id":"r"}"#,
            r#"{"code":50505,"message":"Model service overloaded.","data":null}"#,
            r#"{"code":500,"msg":"busy"}"#,
            r#"{"error_code":17,"error_msg":"Open api daily request limit reached","id":"x"}"#,
            r#"{"errorMessage":"Task timed out","errorType":"Runtime.ExitError"}"#,
            r#"{"detail":"Not authenticated"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"extra"}]}"#,
            r#"{"type":"about:blank","title":"Busy","status":503,"detail":"later"}"#,
            r#"{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"messages":[],"result":null}"#,
            r#"{"success":false}"#,
            r#"{"status":"error","message":"no"}"#,
            r#"{"message":"Internal server error"}"#,
            r#"{"message":"no","requestId":"r"}"#,
            r#"{"type":"error","code":"x","message":"no"}"#,
        ] {
            assert!(is_bare_error(error), "{error}");
        }
        for other in [
            "{}",
            "[]",
            "7",
            r#"{"code":0,"message":"success"}"#,
            r#"{"code":200,"message":"all is well","data":{}}"#,
            r#"{"code":"500","message":""}"#,
            r#"{"message":{"role":"assistant","content":"hi"},"done":false}"#,
            r#"{"message":"working","progress":7}"#,
            r#"{"type":"progress","detail":"thinking"}"#,
            r#"{"type":"codex.rate_limits","message":"7 left"}"#,
            r#"{"success":true,"errors":[],"result":{}}"#,
            r#"{"detail":""}"#,
            r#"{"cost":0.1}"#,
            r#"{"code":"x","message":"cut"#,
        ] {
            assert!(!is_bare_error(other), "{other}");
        }
    }

    #[test]
    fn sentences_are_told_from_pings() {
        for sentence in [
            "Rate limit exceeded",
            "upstream connect error or disconnect/reset before headers",
            "502 Bad Gateway\n",
            "\n<!DOCTYPE html><html>",
            "Error: it broke",
        ] {
            assert!(is_sentence(sentence), "{sentence}");
        }
        for other in [
            "",
            "ping",
            "[DONE]",
            "keep-alive\n",
            "{\"a\": 1",
            "[1, 2",
            "\"a b\"",
            ": a b",
            "event: a b",
            "data: {}",
            "a b {\"c\": 1}",
        ] {
            assert!(!is_sentence(other), "{other}");
        }
    }
}
