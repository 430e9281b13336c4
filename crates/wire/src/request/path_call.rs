//! What a request says in its URL instead of its body: Gemini's model, its call, the form of the answer and the key.

use percent_encoding::percent_decode_str;

use crate::dialect::Surface;

/// A call that the path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCall {
    pub surface: Surface,
    pub model: String,
    pub stream: bool,
    /// The answer is a list of events. The gateway gives it one event, the whole answer.
    pub listed: bool,
}

impl PathCall {
    /// Reads `MODEL:CALL`, the path behind `/v1beta/models/`. None for an unknown call.
    pub fn of_gemini(path: &str, query: &str) -> Option<PathCall> {
        let (model, call) = path.rsplit_once(':')?;
        let events = query.split('&').any(|pair| pair == "alt=sse");
        let (surface, stream, listed) = match call {
            "generateContent" => (Surface::Gemini, false, false),
            "streamGenerateContent" => (Surface::Gemini, events, !events),
            "countTokens" => (Surface::GeminiCount, false, false),
            _ => return None,
        };
        Some(PathCall { surface, model: model.to_owned(), stream, listed })
    }
}

/// The key in a query (`?key=…`).
pub fn key_in(query: &str) -> Option<String> {
    let key = query.split('&').find_map(|pair| pair.strip_prefix("key="))?;
    let key = percent_decode_str(key).decode_utf8().ok()?;
    (!key.is_empty()).then(|| key.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_model_and_call() {
        let of = |path: &str, query: &str| {
            PathCall::of_gemini(path, query).map(|call| (call.surface, call.model, call.stream, call.listed))
        };
        let call = |surface, model: &str, stream, listed| Some((surface, model.to_owned(), stream, listed));
        assert_eq!(of("m:generateContent", "alt=sse"), call(Surface::Gemini, "m", false, false));
        assert_eq!(of("a/m:x:streamGenerateContent", "key=k&alt=sse"), call(Surface::Gemini, "a/m:x", true, false));
        assert_eq!(of("m:streamGenerateContent", ""), call(Surface::Gemini, "m", false, true));
        assert_eq!(of("m:countTokens", ""), call(Surface::GeminiCount, "m", false, false));
        for unknown in ["m", "m:", "m:embedContent", "m:GenerateContent", ":", ""] {
            assert_eq!(of(unknown, ""), None, "{unknown}");
        }
        assert_eq!(key_in("alt=sse&key=a%2Fb").as_deref(), Some("a/b"));
        assert_eq!((key_in("key="), key_in("keys=x"), key_in("")), (None, None, None));
    }
}
