//! Marks who made a signature. A vendor accepts only reasoning that it signed itself, and most answer 400 to another's.
//!
//! In neutral form every signature (and encrypted reasoning) names its owner: `photofinish.OWNER.DATA`. A dialect's
//! reader adds the mark, and its request accepts only its own. A surface writes its own vendor's signatures bare and
//! others with the mark. So they are recognized when the client sends them back, even in a request that is passed
//! through: see [`cleaned`].
//!
//! A signature without a mark belongs to the vendor whose format it is in. Nothing is guessed from its form, and a mark
//! proves nothing.

use serde_json::Value;

use crate::json::numbers::parse;

/// The prefix before the owner's name.
const MARK: &str = "photofinish.";
/// Replaces the signature of unsigned reasoning, because no vendor can verify it.
pub const UNSIGNED: &str = "photofinish.unsigned";
/// After the owner, in formats that do not record what is signed: the next call.
const CALL: &str = "call.";
/// Likewise: encrypted reasoning.
const REDACTED: &str = "redacted.";

/// Before a short form of a conversation.
const SUMMARY: &str = "photofinish.summary.";

photofinish_base::named! {
    /// A vendor that makes signatures and accepts them back.
    pub enum SignatureOwner {
        /// On every platform: Claude on Bedrock signs in the same way.
        Anthropic = "anthropic",
        /// OpenAI's `encrypted_content`.
        Responses = "responses",
        Gemini = "gemini",
        /// `reasoning_details` of a server of the chat dialect. Any vendor may be behind it.
        OpenAi = "openai",
    }
}

/// The purpose of a signature, in a format with a single place for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureUse {
    /// Reasoning. The data is marked with its owner.
    Thought(String),
    /// Reasoning that is shown only encrypted.
    Redacted(String),
    /// The next call.
    Call(String),
    /// Unsigned reasoning.
    Unsigned,
}

/// Marks a signature from `owner`'s format. An existing mark is kept.
pub fn tag(owner: SignatureOwner, data: &str) -> String {
    if is_tagged(data) { data.to_owned() } else { format!("{MARK}{}.{data}", owner.as_str()) }
}

/// The bare signature, if this owner made it.
pub fn own(owner: SignatureOwner, signature: &str) -> Option<&str> {
    let data = signature.strip_prefix(MARK)?.strip_prefix(owner.as_str())?.strip_prefix('.')?;
    (!data.is_empty()).then_some(data)
}

/// Whether it has a mark. No vendor recognises marked signatures.
pub fn is_tagged(text: &str) -> bool {
    text.starts_with(MARK)
}

/// For `owner`'s format: bare if it is the owner's, else marked.
pub fn shown(owner: SignatureOwner, signature: &str) -> &str {
    own(owner, signature).unwrap_or(signature)
}

/// Marks the signature of the next call.
pub fn of_call(signature: &str) -> String {
    with_use(CALL, signature)
}

/// Marks reasoning that is shown only encrypted.
pub fn of_redacted(signature: &str) -> String {
    with_use(REDACTED, signature)
}

/// Reads the single place that `owner`'s format has for signatures.
pub fn held(owner: SignatureOwner, text: &str) -> SignatureUse {
    if text.is_empty() || text == UNSIGNED {
        return SignatureUse::Unsigned;
    }
    let Some((maker, data)) = split(text) else { return SignatureUse::Thought(tag(owner, text)) };
    let marked = |data: &str| format!("{MARK}{maker}.{data}");
    if let Some(data) = data.strip_prefix(CALL) {
        SignatureUse::Call(marked(data))
    } else if let Some(data) = data.strip_prefix(REDACTED) {
        SignatureUse::Redacted(marked(data))
    } else {
        SignatureUse::Thought(text.to_owned())
    }
}

/// A short form of a conversation, for the place where OpenAI has it encrypted. Every vendor may read it.
pub fn of_summary(text: &str) -> String {
    format!("{SUMMARY}{text}")
}

/// The short form of a conversation, if the gateway had it made.
pub fn summary(encrypted: &str) -> Option<&str> {
    encrypted.strip_prefix(SUMMARY)
}

/// Appends more of the same signature.
pub fn append(signature: &mut String, more: &str) {
    let more = if signature.is_empty() { more } else { split(more).map_or(more, |(_, data)| data) };
    signature.push_str(more);
}

/// Which reasoning of earlier turns to remove from a request that is passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReasoning {
    /// Reasoning with the mark of another owner.
    Foreign,
    /// Remove all: the vendor reported that the reasoning is not its own.
    All,
}

impl RemovedReasoning {
    /// Whether to remove this block or item. Its signature is in one of these members.
    pub fn takes(self, object: &Value, members: &[&str]) -> bool {
        self == RemovedReasoning::All || marks(object, members)
    }

    /// The same for a bare signature.
    pub fn takes_signature(self, text: &str) -> bool {
        self == RemovedReasoning::All || is_tagged(text)
    }
}

/// The request after `clean`, which reports whether it removed anything. None if it removed nothing, the usual case:
/// then the request is passed through.
pub fn cleaned(body: &[u8], taken: RemovedReasoning, clean: impl FnOnce(&mut Value) -> bool) -> Option<Vec<u8>> {
    if taken == RemovedReasoning::Foreign {
        // Without the dot: text has many, and each would be looked at.
        memchr::memmem::find(body, MARK.trim_end_matches('.').as_bytes())?;
    }
    let mut request = parse(body).ok()?;
    clean(&mut request).then(|| request.to_string().into_bytes())
}

/// Whether one of these members has a mark.
fn marks(object: &Value, members: &[&str]) -> bool {
    members.iter().any(|member| object.get(member).and_then(Value::as_str).is_some_and(is_tagged))
}

/// Owner and data.
fn split(signature: &str) -> Option<(&str, &str)> {
    signature.strip_prefix(MARK)?.split_once('.')
}

fn with_use(what: &str, signature: &str) -> String {
    let (maker, data) = split(signature).unwrap_or(("unknown", signature));
    format!("{MARK}{maker}.{what}{data}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_says_who_made_it() {
        let made = tag(SignatureOwner::Gemini, "abc");
        assert_eq!(made, "photofinish.gemini.abc");
        assert_eq!(tag(SignatureOwner::Anthropic, &made), made, "a mark is kept");
        for (owner, data) in
            [(SignatureOwner::Gemini, Some("abc")), (SignatureOwner::Anthropic, None), (SignatureOwner::OpenAi, None)]
        {
            assert_eq!(own(owner, &made), data);
            assert_eq!(shown(owner, &made), data.unwrap_or(&made));
        }
        for nobodys in ["abc", "", UNSIGNED, "photofinish.", "photofinish.gemini", "photofinish.gemini.", "gemini.abc"]
        {
            assert_eq!(own(SignatureOwner::Gemini, nobodys), None, "{nobodys}");
        }
    }

    #[test]
    fn a_place_for_all_signatures_says_what_each_is_for() {
        let made = tag(SignatureOwner::Gemini, "abc");
        for (text, expected) in [
            ("abc", SignatureUse::Thought("photofinish.responses.abc".to_owned())),
            (made.as_str(), SignatureUse::Thought(made.clone())),
            (&of_call(&made), SignatureUse::Call(made.clone())),
            (&of_redacted(&made), SignatureUse::Redacted(made.clone())),
            (UNSIGNED, SignatureUse::Unsigned),
            ("", SignatureUse::Unsigned),
            // A signature of an unknown owner is kept.
            ("photofinish.other.abc", SignatureUse::Thought("photofinish.other.abc".to_owned())),
            (&of_call("abc"), SignatureUse::Call("photofinish.unknown.abc".to_owned())),
        ] {
            assert_eq!(held(SignatureOwner::Responses, text), expected);
        }
    }

    #[test]
    fn a_signature_may_come_in_pieces() {
        let mut signature = String::new();
        ["ab", "c", ""].iter().for_each(|more| append(&mut signature, &tag(SignatureOwner::Anthropic, more)));
        assert_eq!(signature, "photofinish.anthropic.abc");
    }
}
