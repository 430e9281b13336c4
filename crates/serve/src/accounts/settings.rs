//! Single settings of a user or a key, as they are stored. Not for limits: see `made_callers`.

use serde_json::{Map, Value};

use super::refusal::AccountRefusal::{self, Conflict, Wrong};
use photofinish_base::printable::quoted;
use photofinish_config::UserRole;
use photofinish_history::report::question::{TimePoint, moment};
use photofinish_history::store::AccountEntry;
use photofinish_routing::callers::UserLogin;

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

/// What the issuer calls the user.
pub(super) const SUBJECT: &str = "subject";
/// When the issuer last said something new of the user.
pub(super) const SAID_AT: &str = "login_at";
/// When the login ends unless the issuer speaks again.
pub(super) const UNTIL: &str = "login_until";

/// The login that settings speak of.
pub(super) fn login_of(settings: &Map<String, Value>) -> Option<UserLogin> {
    let subject = settings.get(SUBJECT)?.as_str()?.to_owned();
    Some(UserLogin { subject, as_of_us: micros(settings, SAID_AT).unwrap_or(0), until_us: micros(settings, UNTIL) })
}

/// That what the issuer says is not changed by hand.
pub(super) fn not_of_issuer(entry: &AccountEntry, members: &Map<String, Value>) -> Result<(), AccountRefusal> {
    let changed = ["role", "team"].into_iter().find(|member| members.contains_key(*member));
    match changed.filter(|_| entry.settings.contains_key(SUBJECT)) {
        Some(member) => Err(Conflict(format!(
            "the {member} of the user {} follows the groups at the issuer: see [oidc.group] of the configuration",
            quoted(&entry.id)
        ))),
        None => Ok(()),
    }
}
