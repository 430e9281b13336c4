//! Teams, users and keys that are made at run time: what a request changes, whether it comes over HTTP or from a command that works
//! on the store alone; and what the gateway knows of them.
//!
//! Not for the routes: see `server`. Not for the rules of limits, which are those of the file.

pub(crate) mod budgets;
mod keeper;
mod logins;
pub mod members;
mod refusal;
mod scope;
mod sessions;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
pub use keeper::AccountKeeper;
pub use logins::{AskAgain, KnownLogin};
pub use members::AccountAction;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
pub use refusal::AccountRefusal;
use refusal::AccountRefusal::{Away, Conflict, Unknown, Wrong};
use scope::{AccountReach, SeenUsers};
pub use scope::{AccountScope, author};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use settings::{is_expired, lead_has_team, login_of, micros, not_of_issuer, role_of};

use photofinish_base::printable::quoted;
use photofinish_config::issued::new_token;
use photofinish_config::units::parse_duration;
use photofinish_config::{Config, IssuedKey, Limits, Permit, Team, User, UserRole, limits_of, token_hash};
use photofinish_history::report::question::{TimePoint, moment, time};
use photofinish_history::store::{
    AccountChange, AccountEntry, AccountKind, Author, ChangeError, ReadError, Store, StoreReader,
};
use photofinish_routing::callers::{MadeCallers, MadeKey};

/// Keys, users or teams that may be there, revoked keys too.
const ACCOUNTS_MAX: u64 = 200_000;
/// Keys, users or teams in a page of a list.
const LISTED_MAX: usize = 10_000;
/// How long a key counts after another one replaces it, unless the request says.
const GRACE: &str = "24h";
const MICROS: i64 = 1_000_000;

/// A request about teams, users or keys.
#[derive(Clone, Debug)]
pub struct AccountRequest {
    pub kind: AccountKind,
    pub action: AccountAction,
    /// A name, or the id of a key; empty for lists and new ones.
    pub id: String,
    pub members: Map<String, Value>,
}

/// What was done.
#[derive(Debug)]
pub struct AccountAnswer {
    /// For the client: of a new key, and only then, with its text.
    pub body: Value,
    pub changes: Vec<AccountChange>,
}

/// The path of all entries of a kind.
pub fn root_of(kind: AccountKind) -> String {
    format!("/api/{}s", kind.as_str())
}

impl AccountRequest {
    /// How a client asks for it.
    pub fn target(&self) -> (Method, String) {
        let root = root_of(self.kind);
        let one = || format!("{root}/{}", utf8_percent_encode(&self.id, NON_ALPHANUMERIC));
        match self.action {
            AccountAction::List => (Method::GET, root),
            AccountAction::Make => (Method::POST, root),
            AccountAction::Show => (Method::GET, one()),
            AccountAction::Set => (Method::PATCH, one()),
            AccountAction::Remove => (Method::DELETE, one()),
            AccountAction::Rotate => (Method::POST, format!("{}/rotate", one())),
        }
    }

    /// Does it. `config`: as it was read. Blocks.
    ///
    /// # Errors
    /// Nothing was done.
    pub fn answer(
        &self,
        config: &Config,
        store: &Store,
        (by, scope): (&Author, &AccountScope),
        now_us: i64,
    ) -> Result<AccountAnswer, AccountRefusal> {
        if config.users.is_empty() && self.action != AccountAction::List {
            let file = &config.source;
            return Err(Conflict(format!(
                "{file} has no users, so nobody needs a key: give it a user with role = \"admin\""
            )));
        }
        // Makes and migrates the file, if need be.
        store.is_open().then_some(()).map_or_else(|| Store::open(store.address()).map(|opened| opened.close()), Ok)?;
        let reader = StoreReader::open(store.address())?;
        let desk = AccountDesk { config, reader, kind: self.kind, scope, now_us };
        let (body, changes) = match self.action {
            AccountAction::List => return Ok(AccountAnswer { body: desk.list(&self.members)?, changes: Vec::new() }),
            AccountAction::Show => (desk.show(&self.id)?, Vec::new()),
            AccountAction::Make => desk.make(&self.members)?,
            AccountAction::Set => desk.set(&self.id, &self.members)?,
            AccountAction::Remove => desk.remove(&self.id, &self.members)?,
            AccountAction::Rotate => desk.rotate(&self.id, &self.members)?,
        };
        if !changes.is_empty() {
            store.change(&changes, by, now_us)?;
        }
        Ok(AccountAnswer { body, changes })
    }
}

struct AccountDesk<'d> {
    config: &'d Config,
    reader: StoreReader,
    kind: AccountKind,
    scope: &'d AccountScope,
    now_us: i64,
}

type Done = Result<(Value, Vec<AccountChange>), AccountRefusal>;

impl AccountDesk<'_> {
    fn within(&self) -> AccountReach<'_> {
        let AccountDesk { config, reader, kind, scope, now_us } = self;
        AccountReach { config, reader, kind: *kind, scope, now_us: *now_us }
    }

    /// A page of them, in the order of the ids. Where a user of the file has the name of a stored one both are on one page.
    fn list(&self, members: &Map<String, Value>) -> Result<Value, AccountRefusal> {
        let of_keys: &[&str] = if self.kind == AccountKind::Key { &["user", "mine"] } else { &[] };
        self.only(members, &[of_keys, &["after", "limit"]].concat())?;
        let text = |member: &str| members.get(member).and_then(Value::as_str);
        let mine = self.scope.user().filter(|_| text("mine") == Some("true"));
        let own = self.scope.only_own().filter(|_| self.kind == AccountKind::Key);
        let limit = members.get("limit").map_or(Ok(LISTED_MAX), page_size)?;
        let after = text("after").unwrap_or_default();
        let seen = self.within().seen_users()?;
        let of_file = self.of_file().into_iter().filter_map(|of| Some((of["name"].as_str()?.to_owned(), of)));
        let is_wanted = |name: &str| name > after && self.within().is_seen(name, None, &seen);
        let mut found: Vec<(String, Value)> = of_file.filter(|(name, _)| is_wanted(name)).collect();
        found.extend(self.stored(mine.or(text("user")).or(own), &seen, after, limit)?);
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut end = limit.min(found.len());
        let id = |place: usize| found.get(place).map(|(id, _)| id);
        end += usize::from(id(end).is_some() && id(end) == id(end - 1));
        let next = id(end).and_then(|_| id(end - 1)).cloned();
        let page: Vec<Value> = found.into_iter().take(end).map(|(_, shown)| shown).collect();
        Ok(json!({ (format!("{}s", self.kind.as_str())): page, "next": next }))
    }

    /// Those that are stored behind an id and seen, of one user or of all: more than `limit`, if there are more.
    fn stored(
        &self,
        user: Option<&str>,
        seen: &SeenUsers,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Value)>, AccountRefusal> {
        let is_seen = |entry: &AccountEntry| self.within().is_seen(&entry.id, entry.settings.get("user"), seen);
        let shown = |entry: AccountEntry| (entry.id.clone(), self.shown(&entry));
        if let Some(user) = user {
            let mut of_user = self.reader.entries_of(self.kind, "user", user)?;
            of_user.retain(|entry| entry.id.as_str() > after && is_seen(entry));
            return Ok(of_user.into_iter().map(shown).collect());
        }
        // Where not all are seen, a page may be far apart.
        let at_once = if seen.is_none() { limit + 1 } else { LISTED_MAX };
        let (mut found, mut from) = (Vec::new(), after.to_owned());
        while found.len() <= limit {
            let read = self.reader.entries_after(self.kind, &from, at_once)?;
            let is_last = read.len() < at_once;
            read.last().into_iter().for_each(|last| from.clone_from(&last.id));
            found.extend(read.into_iter().filter(&is_seen).map(shown));
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// Those that the API cannot change.
    fn of_file(&self) -> Vec<Value> {
        let source = self.config.source.to_string();
        match self.kind {
            AccountKind::Team => {
                self.config.teams.keys().map(|name| json!({ "name": name, "source": source })).collect()
            }
            AccountKind::User => {
                let of = |user: &Arc<User>| json!({ "name": user.name, "role": user.role.as_str(), "team": user.team, "source": source });
                self.config.users.iter().map(of).collect()
            }
            AccountKind::Key => Vec::new(),
        }
    }

    fn show(&self, id: &str) -> Result<Value, AccountRefusal> {
        match self.of_file().into_iter().find(|of| of["name"] == id) {
            Some(of_file) if self.within().is_seen(id, None, &self.within().seen_users()?) => Ok(of_file),
            Some(_) => Err(self.unknown(id)),
            None => self.entry(id).map(|entry| self.shown(&entry)),
        }
    }

    fn is_of_file(&self, kind: AccountKind, name: &str) -> bool {
        match kind {
            AccountKind::Team => self.config.teams.contains_key(name),
            AccountKind::User => self.config.users.iter().any(|user| user.name == name),
            AccountKind::Key => false,
        }
    }

    fn not_of_file(&self, name: &str) -> Result<(), AccountRefusal> {
        if !self.is_of_file(self.kind, name) {
            return Ok(());
        }
        let (kind, file) = (self.kind.as_str(), &self.config.source);
        Err(Conflict(format!("the {kind} {} is in {file}: change it there", quoted(name))))
    }

    /// The stored one, if it is seen: who may not see it does not learn that it is there.
    fn entry(&self, id: &str) -> Result<AccountEntry, AccountRefusal> {
        let seen = self.within().seen_users()?;
        if self.within().is_seen(id, None, &seen) {
            self.not_of_file(id)?;
        }
        let found = self.reader.account(self.kind, id)?;
        let found = found.filter(|entry| self.within().is_seen(id, entry.settings.get("user"), &seen));
        found.ok_or_else(|| self.unknown(id))
    }

    fn unknown(&self, id: &str) -> AccountRefusal {
        let kind = self.kind.as_str();
        Unknown(format!("there is no {kind} {}: `photofinish {kind} list`", quoted(id)))
    }

    /// The same to change it, of the version that the request names.
    fn entry_as_known(
        &self,
        id: &str,
        members: &Map<String, Value>,
        action: AccountAction,
    ) -> Result<AccountEntry, AccountRefusal> {
        let entry = self.entry(id)?;
        self.within().may_change_of(entry.settings.get("user").and_then(Value::as_str).unwrap_or(id))?;
        self.within().bound_by_key(id, action)?;
        match members.get("version") {
            Some(version) if *version != entry.version => Err(ChangeError::Conflict(entry.subject()).into()),
            _ => Ok(entry),
        }
    }

    fn make(&self, members: &Map<String, Value>) -> Done {
        self.check(members, AccountAction::Make)?;
        if self.reader.account_count(self.kind)? >= ACCOUNTS_MAX {
            let kind = self.kind.as_str();
            return Err(Conflict(format!("there are {ACCOUNTS_MAX} {kind}s, the most that are kept")));
        }
        let name = name(members.get("name"))?;
        self.within().bound_by_key("", AccountAction::Make)?;
        let mut members = members.clone();
        self.within().keep_in_team(&mut members, AccountAction::Make)?;
        let mut settings = Map::new();
        merge(&mut settings, &members);
        if self.kind != AccountKind::Key {
            lead_has_team(&settings)?;
            self.not_of_file(&name)?;
            settings.remove("name");
            let entry = AccountEntry { kind: self.kind, id: name, settings, version: 1, sha256: None };
            return Ok((self.shown(&entry), vec![AccountChange { before: None, after: Some(entry) }]));
        }
        let user = members.get("user").and_then(Value::as_str).or(self.scope.user());
        let user = user.ok_or_else(|| Wrong("\"user\" is missing: whose key it is".to_owned()))?;
        self.within().may_change_of(user)?;
        self.must_exist(AccountKind::User, user)?;
        self.within().has_room(user)?;
        settings.insert("user".to_owned(), json!(user));
        self.put_expiry(&mut settings)?;
        self.within().bound_expiry(&mut settings)?;
        let (body, change) = self.new_key(settings)?;
        Ok((body, vec![change]))
    }

    /// A key with these settings, and its text.
    fn new_key(&self, mut settings: Map<String, Value>) -> Result<(Value, AccountChange), AccountRefusal> {
        let (id, text) = new_token().ok_or_else(|| Away("the system has no random numbers".to_owned()))?;
        settings.insert("created_at".to_owned(), json!(time(self.now_us)));
        let sha256 = Some(token_hash(text.expose_secret().as_bytes()));
        let entry = AccountEntry { kind: AccountKind::Key, id, settings, version: 1, sha256 };
        let mut body = self.shown(&entry);
        body["key"] = json!(text.expose_secret());
        Ok((body, AccountChange { before: None, after: Some(entry) }))
    }

    fn set(&self, id: &str, members: &Map<String, Value>) -> Done {
        let before = self.entry_as_known(id, members, AccountAction::Set)?;
        self.check(members, AccountAction::Set)?;
        not_of_issuer(&before, members)?;
        self.within().keep_in_team(&mut members.clone(), AccountAction::Set)?;
        if !members.contains_key("version") {
            return Err(Wrong("\"version\" is missing: of what you looked at, so that nobody's change is lost".into()));
        }
        let mut after = before.clone();
        merge(&mut after.settings, members);
        if self.kind == AccountKind::Key {
            self.not_revoked(&before)?;
            name(after.settings.get("name"))?;
            self.put_expiry(&mut after.settings)?;
            self.within().bound_expiry(&mut after.settings)?;
        }
        lead_has_team(&after.settings)?;
        Ok(self.changed(before, after))
    }

    fn remove(&self, id: &str, members: &Map<String, Value>) -> Done {
        self.only(members, &members::names_of(self.kind, AccountAction::Remove))?;
        let before = self.entry_as_known(id, members, AccountAction::Remove)?;
        let mut changes = Vec::new();
        match self.kind {
            AccountKind::Key if before.settings.contains_key("revoked_at") => {
                return Ok((self.shown(&before), changes));
            }
            AccountKind::Key => return Ok(self.changed(before.clone(), self.revoked(before))),
            // They would count again for the next user of this name.
            AccountKind::User => {
                let keys = self.reader.entries_of(AccountKind::Key, "user", id)?.into_iter();
                let running = keys.filter(|key| !key.settings.contains_key("revoked_at"));
                changes.extend(
                    running.map(|key| AccountChange { after: Some(self.revoked(key.clone())), before: Some(key) }),
                );
            }
            AccountKind::Team => {
                if let Some(member) = self.reader.entries_of(AccountKind::User, "team", id)?.first() {
                    let (team, user) = (quoted(id), quoted(&member.id));
                    return Err(Conflict(format!(
                        "the user {user} is in the team {team}: put its users elsewhere first"
                    )));
                }
            }
        }
        let body = json!({ "removed": id, "keys_revoked": changes.len() });
        changes.push(AccountChange { before: Some(before), after: None });
        Ok((body, changes))
    }

    /// Makes a key that replaces this one, which counts on for the grace.
    fn rotate(&self, id: &str, members: &Map<String, Value>) -> Done {
        self.only(members, &members::names_of(self.kind, AccountAction::Rotate))?;
        let before = self.entry_as_known(id, members, AccountAction::Rotate)?;
        self.within().has_room(before.settings.get("user").and_then(Value::as_str).unwrap_or_default())?;
        self.not_revoked(&before)?;
        if is_expired(&before.settings, self.now_us) {
            return Err(Conflict(format!("the key {id} has expired: make a new one")));
        }
        let grace = members.get("grace").map_or(Ok(GRACE), |grace| grace.as_str().ok_or("it is no text"));
        let grace =
            grace.map_err(str::to_owned).and_then(|grace| parse_duration(grace).map_err(|error| error.to_string()));
        let grace = grace.map_err(|error| Wrong(format!("\"grace\": {error}")))?;
        let mut settings = before.settings.clone();
        settings.insert("replaces".to_owned(), json!(id));
        // What was used counts on.
        settings.entry("first").or_insert_with(|| json!(id));
        // It lives as long as the one before was to.
        let life = micros(&before.settings, "expires_at").zip(micros(&before.settings, "created_at"));
        let until = life.map(|(until, from)| whole(self.now_us.saturating_add(until - from)));
        until.map(|until| settings.insert("expires_at".to_owned(), json!(time(until))));
        settings.extend(members.get("expires").map(|expires| ("expires".to_owned(), expires.clone())));
        self.put_expiry(&mut settings)?;
        self.within().bound_expiry(&mut settings)?;
        let (body, new) = self.new_key(settings)?;
        let mut after = before.clone();
        let ends = self.now_us.saturating_add(i64::try_from(grace.as_micros()).unwrap_or(i64::MAX));
        let ends = micros(&before.settings, "expires_at").map_or(ends, |until| until.min(ends));
        after.settings.insert("expires_at".to_owned(), json!(time(ends)));
        after.settings.insert("replaced_by".to_owned(), body["id"].clone());
        Ok((body, vec![AccountChange { before: Some(before), after: Some(after) }, new]))
    }

    fn revoked(&self, mut key: AccountEntry) -> AccountEntry {
        key.settings.insert("revoked_at".to_owned(), json!(time(self.now_us)));
        key
    }

    fn not_revoked(&self, key: &AccountEntry) -> Result<(), AccountRefusal> {
        match key.settings.get("revoked_at").and_then(Value::as_str) {
            Some(at) => Err(Conflict(format!("the key {} was revoked at {at}: make a new one", key.id))),
            None => Ok(()),
        }
    }

    fn changed(&self, before: AccountEntry, after: AccountEntry) -> (Value, Vec<AccountChange>) {
        let after = AccountEntry { version: before.version + 1, ..after };
        (self.shown(&after), vec![AccountChange { before: Some(before), after: Some(after) }])
    }

    /// Turns `expires`, an age or a time, into `expires_at`.
    fn put_expiry(&self, settings: &mut Map<String, Value>) -> Result<(), AccountRefusal> {
        let Some(expires) = settings.remove("expires") else { return Ok(()) };
        let expires = expires.as_str().unwrap_or_default();
        let at = match moment(expires) {
            Ok(TimePoint::Ago(life)) => self.now_us.saturating_add(i64::try_from(life.as_micros()).unwrap_or(i64::MAX)),
            Ok(TimePoint::At(at)) => at.as_microsecond(),
            Err(_) => {
                let expected = "expected how long it lives (such as 12h or 90d), a day (2026-01-31) or a time with Z";
                return Err(Wrong(format!("\"expires\": {} is neither: {expected}", quoted(expires))));
            }
        };
        if at <= self.now_us {
            return Err(Wrong(format!("\"expires\": {} is in the past", time(at))));
        }
        settings.insert("expires_at".to_owned(), json!(time(whole(at))));
        Ok(())
    }

    /// For clients.
    fn shown(&self, entry: &AccountEntry) -> Value {
        let mut shown = Map::new();
        let id = if entry.kind == AccountKind::Key { "id" } else { "name" };
        shown.insert(id.to_owned(), json!(entry.id));
        shown.extend(entry.settings.clone());
        if entry.kind == AccountKind::Key {
            let state = match () {
                () if entry.settings.contains_key("revoked_at") => "revoked",
                () if is_expired(&entry.settings, self.now_us) => "expired",
                () => "active",
            };
            shown.insert("state".to_owned(), json!(state));
        }
        shown.insert("version".to_owned(), json!(entry.version));
        shown.into()
    }

    /// That each member is known and right.
    fn check(&self, members: &Map<String, Value>, action: AccountAction) -> Result<(), AccountRefusal> {
        limits_of(members, &members::names_of(self.kind, action), &format!("the {}", self.kind.as_str()))
            .map_err(Wrong)?;
        let role = members.get("role").filter(|role| !role.is_null());
        if let Some(role) = role.filter(|role| role.as_str().and_then(UserRole::from_name).is_none()) {
            let names = UserRole::ALL.map(UserRole::as_str).join(", ");
            return Err(Wrong(format!("\"role\": {role} is none: expected one of {names}")));
        }
        match members.get("team") {
            None | Some(Value::Null) => Ok(()),
            Some(team) => self.must_exist(AccountKind::Team, team.as_str().unwrap_or_default()),
        }
    }

    fn only(&self, members: &Map<String, Value>, known: &[&str]) -> Result<(), AccountRefusal> {
        match members.keys().find(|member| !known.contains(&member.as_str())) {
            Some(member) => Err(Wrong(format!("unknown member {}: expected {}", quoted(member), known.join(", ")))),
            None => Ok(()),
        }
    }

    fn must_exist(&self, kind: AccountKind, name: &str) -> Result<(), AccountRefusal> {
        if self.is_of_file(kind, name) || self.reader.account(kind, name)?.is_some() {
            return Ok(());
        }
        let of = kind.as_str();
        Err(Wrong(format!("there is no {of} {}: `photofinish {of} create {}` makes one", quoted(name), name.trim())))
    }
}

/// A name, which must be there.
fn name(member: Option<&Value>) -> Result<String, AccountRefusal> {
    let name = member.and_then(Value::as_str).filter(|name| (1..=64).contains(&name.len()));
    let name = name.filter(|name| !name.contains(char::is_control));
    name.map(str::to_owned)
        .ok_or_else(|| Wrong("\"name\": expected 1 to 64 bytes without control characters".to_owned()))
}

/// How many a list is asked for.
fn page_size(limit: &Value) -> Result<usize, AccountRefusal> {
    let number = limit.as_str().and_then(|text| text.parse().ok()).filter(|limit| (1..=LISTED_MAX).contains(limit));
    number.ok_or_else(|| Wrong(format!("\"limit\": expected a number from 1 to {LISTED_MAX}")))
}

/// Puts the members of a request into settings; null takes one out. What is in an object and not named stays.
fn merge(settings: &mut Map<String, Value>, members: &Map<String, Value>) {
    for (member, value) in members.iter().filter(|(member, _)| *member != "version") {
        match value {
            Value::Null if member == "expires" => drop(settings.remove("expires_at")),
            Value::Null => drop(settings.remove(member)),
            Value::Object(members) if member == "budget" => {
                let into = settings.entry(member.clone()).or_insert_with(|| json!({}));
                into.as_object_mut().into_iter().for_each(|into| merge(into, members));
            }
            value => drop(settings.insert(member.clone(), value.clone())),
        }
    }
}

/// The next whole second: settings have no parts of one.
fn whole(at_us: i64) -> i64 {
    at_us.saturating_add(MICROS - 1).div_euclid(MICROS) * MICROS
}

/// What these make.
pub fn made_callers(entries: &[AccountEntry]) -> MadeCallers {
    let mut made = MadeCallers::default();
    entries.iter().for_each(|entry| put(&mut made, entry));
    made
}

/// All that is stored.
///
/// # Errors
/// The store cannot be read.
pub fn all_entries(reader: &StoreReader) -> Result<Vec<AccountEntry>, ReadError> {
    let mut all = Vec::new();
    for kind in AccountKind::ALL {
        all.extend(reader.accounts(kind)?);
    }
    Ok(all)
}

/// Takes over what was changed.
pub fn take_over(made: &mut MadeCallers, changes: &[AccountChange]) {
    for AccountChange { before, after } in changes {
        if let Some(before) = before {
            match before.kind {
                AccountKind::Team => drop(made.teams.remove(&before.id)),
                AccountKind::User => {
                    made.users.remove(&before.id);
                    made.logins.remove(&before.id);
                }
                AccountKind::Key => drop(before.sha256.and_then(|hash| made.keys.remove(&hash))),
            }
        }
        after.iter().for_each(|after| put(made, after));
    }
}

/// One whose limits cannot be read is left out: it would have none.
fn put(made: &mut MadeCallers, entry: &AccountEntry) {
    let AccountEntry { kind, id, settings, sha256, .. } = entry;
    let stored = members::MEMBERS.map(|member| member.field.name);
    let limits = match limits_of(settings, &stored, &entry.subject()) {
        Ok(limits) => Arc::<Limits>::new(limits),
        Err(problem) => {
            tracing::error!(problem, "its limits cannot be read, so it does not count");
            return;
        }
    };
    let text = |member: &str| settings.get(member).and_then(Value::as_str).map(str::to_owned);
    match kind {
        AccountKind::Team => {
            made.teams.insert(id.clone(), Arc::new(Team { name: id.clone(), limits }));
        }
        AccountKind::User => {
            let user = User {
                name: id.clone(),
                token_sha256: [0; 32],
                role: role_of(settings),
                overrides: Permit::Usual,
                keys: BTreeMap::new(),
                team: text("team"),
                limits,
                key: None,
            };
            made.users.insert(id.clone(), Arc::new(user));
            made.logins.extend(login_of(settings).map(|login| (id.clone(), login)));
        }
        AccountKind::Key => {
            let Some(hash) = sha256.filter(|_| !settings.contains_key("revoked_at")) else { return };
            let issued = Arc::new(IssuedKey { id: id.clone(), first: text("first"), limits });
            let (user, until_us) = (text("user").unwrap_or_default(), micros(settings, "expires_at"));
            made.keys.insert(hash, MadeKey { issued, user, until_us });
        }
    }
}
