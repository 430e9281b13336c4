//! Whose teams, users and keys somebody may see and change, and how far. Who may do so at all: see `UserRole` of the configuration.
//!
//! A key narrows what its user may do, so what is made with a key lives no longer than this key, and a key with limits of its own
//! makes nothing but its own successor.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::members::{AccountAction, MEMBERS};
use super::refusal::AccountRefusal::{self, Conflict, Forbidden};
use super::settings::{is_expired, micros, role_of};
use photofinish_base::printable::quoted;
use photofinish_config::{Config, Reach, UserRole};
use photofinish_gateway::proxy::Asker;
use photofinish_history::report::question::time;
use photofinish_history::store::{AccountEntry, AccountKind, Author, StoreReader};

/// Keys of one user that count at the same time. Admins may make more.
const KEYS_OF_USER_MAX: usize = 50;
/// Keys that one user ever had, those that were revoked and rotated too. Admins may make more.
const KEYS_EVER_MAX: usize = 1_000;

/// Who asks.
#[derive(Clone, Debug)]
pub struct AccountScope {
    reach: Reach,
    /// None: it has no name here, such as a command on the store.
    user: Option<String>,
    team: Option<String>,
    /// The id of the key that was sent.
    key: Option<String>,
}

impl AccountScope {
    /// Of a command that works on the store.
    pub fn all() -> AccountScope {
        AccountScope { reach: Reach::All, user: None, team: None, key: None }
    }

    pub fn of(asker: &Asker) -> AccountScope {
        let user = asker.user.as_deref();
        AccountScope {
            reach: asker.reach,
            user: user.map(|user| user.name.clone()),
            team: user.and_then(|user| user.team.clone()),
            key: user.and_then(|user| user.key.as_ref()).map(|key| key.id.clone()),
        }
    }

    /// The name of who asks, if they see what is theirs alone.
    pub(super) fn only_own(&self) -> Option<&str> {
        self.user().filter(|_| self.reach == Reach::Own)
    }

    /// The name of who asks.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

/// Who asks, for the audit.
pub fn author(asker: &Asker, address: IpAddr) -> Author {
    let who = asker.user.as_ref().map_or_else(String::new, |user| match &user.key {
        Some(key) => format!("{} (key {})", user.name, key.id),
        None => user.name.clone(),
    });
    Author { who, origin: address.to_string() }
}

/// The users whom somebody may see, with their roles. None: all.
pub(super) type SeenUsers = Option<BTreeMap<String, UserRole>>;

/// What a request about a kind asks of them.
pub(super) struct AccountReach<'d> {
    pub config: &'d Config,
    pub reader: &'d StoreReader,
    pub kind: AccountKind,
    pub scope: &'d AccountScope,
    pub now_us: i64,
}

impl AccountReach<'_> {
    pub fn seen_users(&self) -> Result<SeenUsers, AccountRefusal> {
        let scope = self.scope;
        let is_seen = |name: &str, team: Option<&str>| match scope.reach {
            Reach::All => true,
            Reach::Team => scope.user() == Some(name) || (team.is_some() && team == scope.team.as_deref()),
            Reach::Own => scope.user() == Some(name),
        };
        if scope.reach == Reach::All {
            return Ok(None);
        }
        let mut stored = match &scope.team {
            Some(team) if scope.reach == Reach::Team => self.reader.entries_of(AccountKind::User, "team", team)?,
            _ => Vec::new(),
        };
        let own = scope.user().map(|name| self.reader.account(AccountKind::User, name)).transpose()?;
        stored.extend(own.flatten());
        let stored = stored.into_iter().map(|user| (role_of(&user.settings), user.id));
        let mut seen: BTreeMap<String, UserRole> = stored.map(|(role, id)| (id, role)).collect();
        let of_file = self.config.users.iter().filter(|user| is_seen(&user.name, user.team.as_deref()));
        seen.extend(of_file.map(|user| (user.name.clone(), user.role)));
        Ok(Some(seen))
    }

    /// Whether it is seen at all. `id` and `user`: its own, as in an answer.
    pub fn is_seen(&self, id: &str, user: Option<&Value>, seen: &SeenUsers) -> bool {
        let Some(seen) = seen else { return true };
        match self.kind {
            AccountKind::Team => self.scope.team.as_deref() == Some(id),
            AccountKind::User => seen.contains_key(id),
            AccountKind::Key => user.and_then(Value::as_str).is_some_and(|user| seen.contains_key(user)),
        }
    }

    /// That the asker may change what is this user's: the own keys, and of a team that of its plain users.
    pub fn may_change_of(&self, name: &str) -> Result<(), AccountRefusal> {
        let Some(seen) = self.seen_users()? else { return Ok(()) };
        let own = self.scope.user() == Some(name);
        match (self.kind, seen.get(name)) {
            (AccountKind::Key, Some(_)) if own => Ok(()),
            (_, Some(UserRole::User)) if !own => Ok(()),
            (_, Some(role)) => {
                let role = role.as_str();
                Err(Forbidden(format!("the user {} has role = \"{role}\": only an admin changes that", quoted(name))))
            }
            (_, None) => {
                Err(Forbidden(format!("the user {} is not of yours: only an admin may do this", quoted(name))))
            }
        }
    }

    /// That what a lead asks of a user stays in the team, as a plain user. Puts a new one there.
    pub fn keep_in_team(&self, members: &mut Map<String, Value>, action: AccountAction) -> Result<(), AccountRefusal> {
        if self.scope.reach == Reach::All || self.kind != AccountKind::User {
            return Ok(());
        }
        let team = json!(self.scope.team);
        if action == AccountAction::Make {
            members.entry("team").or_insert_with(|| team.clone());
        }
        if members.get("team").is_some_and(|asked| *asked != team) {
            return Err(Forbidden(format!("you are the lead of the team {team} alone: only an admin changes teams")));
        }
        match members.get("role") {
            Some(role) if *role != UserRole::User.as_str() => {
                Err(Forbidden(format!("a lead makes users with role = \"user\" alone, not {role}")))
            }
            _ => Ok(()),
        }
    }

    /// The key that the asker sent, if it bounds what the asker makes.
    fn bounding_key(&self) -> Result<Option<AccountEntry>, AccountRefusal> {
        match &self.scope.key {
            Some(key) if self.scope.reach != Reach::All => Ok(self.reader.account(AccountKind::Key, key)?),
            _ => Ok(None),
        }
    }

    /// That the key that was sent may do this to the one with this id.
    pub fn bound_by_key(&self, id: &str, action: AccountAction) -> Result<(), AccountRefusal> {
        let Some(key) = self.bounding_key()? else { return Ok(()) };
        let known = MEMBERS.map(|member| member.field.name);
        let has_limits = key.settings.iter().any(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
        let is_itself = key.id == id && matches!(action, AccountAction::Rotate | AccountAction::Remove);
        if has_limits && !is_itself {
            let id = &key.id;
            return Err(Forbidden(format!(
                "the key {id} has limits of its own, so it can rotate and revoke itself alone"
            )));
        }
        Ok(())
    }

    /// Ends a new or changed key with the one that was sent, at the latest.
    pub fn bound_expiry(&self, settings: &mut Map<String, Value>) -> Result<(), AccountRefusal> {
        let Some(key) = self.bounding_key()? else { return Ok(()) };
        let Some(until) = micros(&key.settings, "expires_at") else { return Ok(()) };
        if micros(settings, "expires_at").is_none_or(|asked| asked > until) {
            settings.insert("expires_at".to_owned(), json!(time(until)));
        }
        Ok(())
    }

    /// That this user may have one key more.
    pub fn has_room(&self, user: &str) -> Result<(), AccountRefusal> {
        if self.scope.reach == Reach::All {
            return Ok(());
        }
        let keys = self.reader.entries_of(AccountKind::Key, "user", user)?;
        let counts =
            |key: &&AccountEntry| !key.settings.contains_key("revoked_at") && !is_expired(&key.settings, self.now_us);
        let (active, most, what) = (keys.iter().filter(counts).count(), KEYS_OF_USER_MAX, "that count: revoke one");
        let over = if active >= most { Some((most, what)) } else { None };
        match over.or((keys.len() >= KEYS_EVER_MAX).then_some((KEYS_EVER_MAX, "over time: ask an admin"))) {
            Some((most, what)) => Err(Conflict(format!("the user {} has {most} keys {what}", quoted(user)))),
            None => Ok(()),
        }
    }
}
