//! Whose signature it is: a vendor takes back only the reasoning that it signed itself, and most answer 400 to another's.
//!
//! In the neutral form each signature (encrypted reasoning too) says who made it: `photofinish.OWNER.DATA`. A dialect's reader
//! marks what it reads, and its request takes only what is its own. A surface gives its own vendor's signatures bare and others
//! as they are here, so they are known when the client sends them back, also to an upstream that gets the request untouched:
//! see [`cleaned`].
//!
//! What comes without a mark belongs to the vendor whose form it stands in. Nothing is guessed from how it looks: a client that
//! brings a signature from elsewhere in another vendor's form gets that vendor's own answer. A mark proves nothing.

use serde_json::Value;

/// Stands before the owner's name.
const MARK: &str = "photofinish.";
/// In place of a signature where reasoning has none, so that it is not taken for one that a vendor has to know.
pub const UNSIGNED: &str = "photofinish.unsigned";
/// Behind the owner, in a place that does not tell what is signed: it is the call that follows.
const CALL: &str = "call.";
/// Likewise: it is reasoning that is shown encrypted only.
const REDACTED: &str = "redacted.";

/// Who makes signatures and takes them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureOwner {
    /// Wherever it is served: Bedrock's Claude signs alike.
    Anthropic,
    /// OpenAI's `encrypted_content`.
    Responses,
    Gemini,
    /// What a server of the chat dialect puts into `reasoning_details`; it may stand for any vendor's.
    OpenAi,
}

/// What one signature in a form with a single place for all of them is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureUse {
    /// Reasoning. Marked with its owner.
    Thought(String),
    /// Reasoning that is shown encrypted only.
    Redacted(String),
    /// The call that follows.
    Call(String),
    /// Reasoning that nobody signed.
    Unsigned,
}

impl SignatureOwner {
    fn as_str(self) -> &'static str {
        match self {
            SignatureOwner::Anthropic => "anthropic",
            SignatureOwner::Responses => "responses",
            SignatureOwner::Gemini => "gemini",
            SignatureOwner::OpenAi => "openai",
        }
    }
}

/// Marks what stands in `owner`'s form. What has a mark keeps it.
pub fn tag(owner: SignatureOwner, data: &str) -> String {
    if is_tagged(data) { data.to_owned() } else { format!("{MARK}{}.{data}", owner.as_str()) }
}

/// The bare signature, if this owner made it.
pub fn own(owner: SignatureOwner, signature: &str) -> Option<&str> {
    let data = signature.strip_prefix(MARK)?.strip_prefix(owner.as_str())?.strip_prefix('.')?;
    (!data.is_empty()).then_some(data)
}

/// Whether it has the mark, and so is nothing that a vendor knows.
pub fn is_tagged(text: &str) -> bool {
    text.starts_with(MARK)
}

/// As it stands in `owner`'s form: bare if it is the owner's.
pub fn shown(owner: SignatureOwner, signature: &str) -> &str {
    own(owner, signature).unwrap_or(signature)
}

/// Marked as the signature of the call that follows.
pub fn of_call(signature: &str) -> String {
    with_use(CALL, signature)
}

/// Marked as reasoning that is shown encrypted only.
pub fn of_redacted(signature: &str) -> String {
    with_use(REDACTED, signature)
}

/// Reads what stands in the one place that `owner`'s form has.
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

/// Adds more of the same signature.
pub fn append(signature: &mut String, more: &str) {
    let more = if signature.is_empty() { more } else { split(more).map_or(more, |(_, data)| data) };
    signature.push_str(more);
}

/// Which reasoning of earlier turns is taken out of a request that goes up in the form in which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReasoning {
    /// What has the mark of another owner.
    Foreign,
    /// All of it: its vendor said that it is not its own.
    All,
}

impl RemovedReasoning {
    /// Whether this block or item goes, whose signature stands in one of these members.
    pub fn takes(self, object: &Value, members: &[&str]) -> bool {
        self == RemovedReasoning::All || marks(object, members)
    }

    /// The same for a signature that stands alone.
    pub fn takes_signature(self, text: &str) -> bool {
        self == RemovedReasoning::All || is_tagged(text)
    }
}

/// A request without what `clean` takes out of it; it says whether it found anything. None if there is nothing, as nearly
/// always: then the request can go as it is.
pub fn cleaned(body: &[u8], taken: RemovedReasoning, clean: impl FnOnce(&mut Value) -> bool) -> Option<Vec<u8>> {
    if taken == RemovedReasoning::Foreign {
        memchr::memmem::find(body, MARK.as_bytes())?;
    }
    let mut request: Value = serde_json::from_slice(body).ok()?;
    clean(&mut request).then(|| request.to_string().into_bytes())
}

/// Whether one of these members of an object has the mark.
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
