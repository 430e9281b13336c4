//! Tags: what a request is charged to, by the app that sends it. Not for its session.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Tags of one request.
pub const TAGS_MAX: usize = 8;
/// Bytes of one tag.
pub const TAG_BYTES_MAX: usize = 64;
/// Bytes of `metadata` that are read: OpenAI takes 16 pairs of at most 576 bytes.
const METADATA_MAX: usize = 16 << 10;

/// A word, such as `project=search`: no text of a prompt is one.
pub fn is_tag(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._:=/@+-".contains(&byte);
    (1..=TAG_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// Each once and in order, separated by spaces; beyond [`TAGS_MAX`] the last are left out. None: there is none.
pub fn joined<'t>(tags: impl Iterator<Item = &'t str>) -> Option<String> {
    let tags: BTreeSet<&str> = tags.collect();
    let tags: Vec<&str> = tags.into_iter().take(TAGS_MAX).collect();
    (!tags.is_empty()).then(|| tags.join(" "))
}

/// The pairs of OpenAI's `metadata` that are words, as `KEY=VALUE`.
pub(super) fn of_metadata(json: &str) -> Option<String> {
    if json.len() > METADATA_MAX {
        return None;
    }
    let pairs: Map<String, Value> = serde_json::from_str(json).ok()?;
    let tag = |(key, value): (String, Value)| {
        let value = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return None,
        };
        Some(format!("{key}={value}")).filter(|tag| is_tag(tag) && !key.is_empty() && !key.contains('='))
    };
    let tags: Vec<String> = pairs.into_iter().filter_map(tag).collect();
    joined(tags.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_tags_and_texts_are_none() {
        for (json, tags) in [
            (r#"{"project":"search","job":7,"on":true}"#, Some("job=7 on=true project=search")),
            (r#"{"note":"What is the capital of France?","project":"a"}"#, Some("project=a")),
            (r#"{"a":{"b":1},"c":null,"d":[1]}"#, None),
            (r#"{"a=b":"c","":"d"}"#, None),
            ("{}", None),
            ("[1]", None),
            ("7", None),
        ] {
            assert_eq!(of_metadata(json).as_deref(), tags, "{json}");
        }
        let long = format!(r#"{{"a":"{}","b":"{}"}}"#, "x".repeat(62), "x".repeat(63));
        assert_eq!(of_metadata(&long).unwrap(), format!("a={}", "x".repeat(62)));
        let many: String = (0..20).map(|n| format!(r#""k{n:02}":"v","#)).collect();
        assert_eq!(of_metadata(&format!("{{{many}\"z\":1}}")).unwrap().split(' ').count(), TAGS_MAX);
        assert_eq!(of_metadata(&format!(r#"{{"a":"{}"}}"#, "x".repeat(METADATA_MAX))), None);
    }
}
