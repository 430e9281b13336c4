//! Decides the cause of a refusal: the model, key or account (for every request), or this one request. Uses known words
//! of vendors; with other words the cause is unknown.
//!
//! Not for the consequences: see `race::verdict`.

use super::words::has_word;

/// The subject of a refusal (402, 403, 404).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalSubject {
    /// The upstream or its key: every request would be refused.
    Upstream,
    /// Something that this request asks for.
    Request,
    /// The words do not show it.
    Unknown,
}

/// Codes that no request can cause.
const UPSTREAM_WORDS: [&str; 10] = [
    "model_not_found",
    "model_not_available",
    "model_deprecated",
    "model_decommissioned",
    "insufficient_quota",
    "insufficient_balance",
    "billing",
    "account_deactivated",
    "organization_restricted",
    "unsupported_country",
];

/// Things that a request may name apart from its model.
const REQUEST_WORDS: [&str; 7] =
    ["previous_response", "container", "vector_store", "conversation", "file_", "image_", "_image"];
const REQUEST_PHRASES: [&str; 26] = [
    "can only afford",
    "fewer max_tokens",
    "previous response",
    "response with id",
    "item with id",
    "prompt with id",
    "conversation",
    "container",
    "vector store",
    "file with id",
    "file not found",
    "no such file",
    "files/",
    "file ",
    "cachedcontent",
    "cached content",
    "endpoints found that",
    "endpoints found matching",
    "data policy",
    "allowed providers",
    "requested parameters",
    "support tool",
    "support image",
    "support audio",
    "image",
    "url",
];

/// Phrases that count together with the word "model".
const MODEL_PHRASES: [&str; 13] = [
    "not found",
    "not exist",
    "no such model",
    "unknown model",
    "access to",
    "decommissioned",
    "deprecated",
    "no longer",
    "not available",
    "unavailable",
    "not supported",
    "end of its life",
    "could not resolve",
];
const ACCOUNT_PHRASES: [&str; 13] = [
    "no endpoints found for",
    "credit balance",
    "insufficient credits",
    "insufficient balance",
    "out of credits",
    "exceeded your current quota",
    "quota exceeded",
    "billing",
    "location is not supported",
    "country, region",
    "key has expired",
    "key expired",
    "reported as leaked",
];
const ACCOUNT_STATES: [&str; 6] = ["suspended", "deactivated", "disabled", "flagged", "not active", "closed"];

/// `words`: type, code and status, in lower case.
pub fn blame(words: &[String], message: &str) -> RefusalSubject {
    // Quoted text may come from the caller.
    let message = without_quotes(&message.to_lowercase());
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if message.starts_with('<') {
        // An HTML page of a proxy before the provider.
        RefusalSubject::Unknown
    } else if has_word(words, &UPSTREAM_WORDS) {
        RefusalSubject::Upstream
    } else if has_word(words, &REQUEST_WORDS) || says(&REQUEST_PHRASES) {
        RefusalSubject::Request
    } else if message.contains("model") && says(&MODEL_PHRASES)
        || message.starts_with("model:") && has_word(words, &["not_found"])
        || concerns_account(&message)
    {
        RefusalSubject::Upstream
    } else {
        RefusalSubject::Unknown
    }
}

/// A 400 that every request would get: the account has no money left, or its country is not served.
pub fn refuses_account(words: &[String], message: &str) -> bool {
    let message = without_quotes(&message.to_lowercase());
    has_word(words, &["billing_hard_limit"])
        || message.starts_with("your credit balance")
        || has_word(words, &["failed_precondition"]) && concerns_account(&message)
}

/// A 401 about the rights of a key. The key may be valid for other calls.
pub fn lacks_rights(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("missing scopes") || message.contains("insufficient permissions")
}

fn concerns_account(message: &str) -> bool {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    says(&ACCOUNT_PHRASES) || message.contains("account") && says(&ACCOUNT_STATES)
}

/// Removes quoted text. An apostrophe within a word is not a quote.
fn without_quotes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut until = None;
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(character) = characters.next() {
        let inside_word = before.is_alphanumeric() && characters.peek().is_some_and(|next| next.is_alphanumeric());
        let is_quote = matches!(character, '"' | '`') || character == '\'' && !inside_word;
        match until {
            Some(end) if end == character && is_quote => until = None,
            Some(_) => {}
            None if is_quote => until = Some(character),
            None => kept.push(character),
        }
        before = character;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_blamed_by_its_words() {
        let table: &[(&[&str], &str, RefusalSubject)] = &[
            (&["invalid_request_error", "model_not_found"], "The model `x` does not exist", RefusalSubject::Upstream),
            (&[], "The model `x` does not exist or you do not have access to it.", RefusalSubject::Upstream),
            (&["not_found_error"], "model: claude-9", RefusalSubject::Upstream),
            (&[], "models/gemini-9 is not found for API version v1beta", RefusalSubject::Upstream),
            (&[], "The model `llama-1` has been decommissioned and is no longer supported.", RefusalSubject::Upstream),
            (&[], "Project `p` does not have access to model `m`", RefusalSubject::Upstream),
            (&[], "You don't have access to the model with the specified model ID.", RefusalSubject::Upstream),
            (&[], "no such model", RefusalSubject::Upstream),
            (&[], "No endpoints found for a/b.", RefusalSubject::Upstream),
            (&["insufficient_quota"], "no", RefusalSubject::Upstream),
            (&[], "Insufficient Balance", RefusalSubject::Upstream),
            (&[], "Your account was flagged", RefusalSubject::Upstream),
            (&[], "User location is not supported for the API use.", RefusalSubject::Upstream),
            (
                &[],
                "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only \
                 afford 9000.",
                RefusalSubject::Request,
            ),
            (
                &["previous_response_not_found"],
                "Previous response with id 'resp_1' not found.",
                RefusalSubject::Request,
            ),
            (&[], "Container with id 'model does not exist' not found.", RefusalSubject::Request),
            (&[], "No such File object: file-1", RefusalSubject::Request),
            (&["permission_denied"], "CachedContent not found (or permission denied)", RefusalSubject::Request),
            (&[], "Error 403 while downloading the image", RefusalSubject::Request),
            (&[], "No endpoints found matching your data policy", RefusalSubject::Request),
            (&[], "No endpoints found that support tool use.", RefusalSubject::Request),
            (&[], "'the model does not exist' was refused", RefusalSubject::Unknown),
            (
                &["permission_error"],
                "Your API key does not have permission to use the specified resource",
                RefusalSubject::Unknown,
            ),
            (&[], "<html><title>Attention Required! | Cloudflare</title><img url=x>", RefusalSubject::Unknown),
            (&[], "Not Found", RefusalSubject::Unknown),
            (&[], "", RefusalSubject::Unknown),
        ];
        for (words, message, expected) in table {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(blame(&words, message), *expected, "{message}");
        }
    }

    #[test]
    fn what_is_quoted_is_left_out() {
        assert_eq!(without_quotes("a 'b c' d's \"e\" `f` 'g"), "a  d's   ");
    }
}
