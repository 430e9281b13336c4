//! Single settings of a user or a key, as they are stored. Not for limits: see `made_callers`.

use serde_json::{Map, Value};

use super::refusal::AccountRefusal::{self, Wrong};
use photofinish_config::UserRole;
use photofinish_history::report::question::{TimePoint, moment};

/// A time among the settings; microseconds since 1970, UTC.
pub(super) fn micros(settings: &Map<String, Value>, member: &str) -> Option<i64> {
    match moment(settings.get(member)?.as_str()?) {
        Ok(TimePoint::At(at)) => Some(at.as_microsecond()),
        _ => None,
    }
}

pub(super) fn is_expired(settings: &Map<String, Value>, now_us: i64) -> bool {
    micros(settings, "expires_at").is_some_and(|until| until < now_us)
}

/// The role among the settings of a user.
pub(super) fn role_of(settings: &Map<String, Value>) -> UserRole {
    settings.get("role").and_then(Value::as_str).and_then(UserRole::from_name).unwrap_or_default()
}

/// That a lead has a team.
pub(super) fn lead_has_team(settings: &Map<String, Value>) -> Result<(), AccountRefusal> {
    match role_of(settings) == UserRole::Lead && !settings.contains_key("team") {
        true => Err(Wrong("\"role\": a lead needs a \"team\"".to_owned())),
        false => Ok(()),
    }
}
