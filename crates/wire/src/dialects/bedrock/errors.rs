//! Names of AWS errors: in an exception frame, in `__type` of an error body, and in the header `x-amzn-errortype`.

use serde_json::Value;

use crate::json::values::{PutMember, json};
use crate::stream::binary::BinaryMessage;
use photofinish_base::failure::FailureKind;

/// The kind of an exception. `name` is in lower case and may have a namespace before it (`com.amazon#`) and an address
/// after it (`:http://`).
pub fn kind_of(name: &str) -> Option<FailureKind> {
    let name = name.rsplit('#').next().unwrap_or(name);
    let name = name.split(':').next().unwrap_or(name);
    Some(match name.trim() {
        "throttlingexception"
        | "toomanyrequestsexception"
        | "limitexceededexception"
        | "servicequotaexceededexception" => FailureKind::RateLimited,
        "serviceunavailableexception" | "modelnotreadyexception" => FailureKind::Overloaded,
        "internalserverexception"
        | "internalfailureexception"
        | "modelstreamerrorexception"
        | "modelerrorexception"
        | "modeltimeoutexception" => FailureKind::ServerError,
        "accessdeniedexception" => FailureKind::Forbidden,
        "unrecognizedclientexception"
        | "expiredtokenexception"
        | "invalidsignatureexception"
        | "incompletesignatureexception"
        | "missingauthenticationtokenexception" => FailureKind::Unauthorized,
        "resourcenotfoundexception" => FailureKind::NotFound,
        "validationexception" | "serializationexception" => FailureKind::BadRequest,
        _ => return None,
    })
}

/// An error frame as JSON text for `answer::error`.
pub(super) fn data(message: &BinaryMessage<'_>) -> Vec<u8> {
    let payload: Value = serde_json::from_slice(message.payload).unwrap_or_default();
    let said = ["message", "Message", "originalMessage"].iter().find_map(|name| payload.get(name)?.as_str());
    let mut error = json!({
        "type": message.name,
        "message": said.or(message.error).unwrap_or("The provider names no reason."),
    });
    error.put("status_code", payload.get("originalStatusCode").and_then(Value::as_u64));
    json!({ "error": error }).to_string().into_bytes()
}
