//! Some servers split a character outside the basic plane, and escape each half by itself. Most readers accept such
//! JSON, serde does not. This reads each half as U+FFFD, so that the surrounding text is kept.

use serde_json::Value;

use super::json::unescape;

/// Parses a JSON text that may contain half characters. None if it is not JSON.
pub(super) fn lenient(data: &[u8]) -> Option<Value> {
    serde_json::from_slice(data).or_else(|_| serde_json::from_slice(&without_lone(data))).ok()
}

/// Unescapes the text between the quotes of a string. Empty if it is invalid.
pub(super) fn words(inner: &str) -> String {
    match unescape(inner) {
        Some(text) => text.into_owned(),
        None => serde_json::from_slice(&without_lone(format!("\"{inner}\"").as_bytes())).unwrap_or_default(),
    }
}

fn without_lone(data: &[u8]) -> Vec<u8> {
    let unit = |at: usize| {
        let hex = data.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let mut mended = Vec::with_capacity(data.len());
    let mut at = 0;
    while at < data.len() {
        let len = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                mended.extend_from_slice(b"\\ufffd");
                at += 6;
                continue;
            }
            _ if data[at] == b'\\' => 2,
            _ => 1,
        };
        mended.extend_from_slice(&data[at..data.len().min(at + len)]);
        at += len;
    }
    mended
}
