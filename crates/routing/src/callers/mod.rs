//! Who may call: the users of the configuration by their tokens, and users by keys that were made at run time. Found in maps, by
//! the hash of what was sent.
//!
//! A key is one change of a map, so that one more or one less is in force at once, however many there are. Not for where they
//! are stored.

mod issuer;
mod ring_jwt;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use issuer::{Claims, IssuerKeys, IssuerWord, TokenFault, claimed, is_jwt, word};
use photofinish_config::issued::TokenForm;
use photofinish_config::{Config, IssuedKey, Limits, Team, User, token_hash};
pub use sessions::{COOKIE_NAME, SESSION_FOR, Sessions, SharedSession, forget_oldest};

/// All of them.
#[derive(Default)]
pub struct Callers(RwLock<KnownCallers>);

#[derive(Default)]
struct KnownCallers {
    /// Users of the configuration, by the hash of their token.
    by_token: HashMap<[u8; 32], Arc<User>>,
    /// Users of the configuration, by name.
    configured: HashMap<String, Arc<User>>,
    /// Teams of the configuration.
    teams: BTreeSet<String>,
    /// None before it was read.
    made: Option<MadeCallers>,
    /// Since when a database that others change does not answer; microseconds since 1970, UTC.
    away_since_us: Option<i64>,
}

/// How long keys are believed while the database does not answer: one of them may have been revoked meanwhile. Microseconds.
const STALE_US: i64 = 86_400_000_000;

/// How long a login counts about which the issuer cannot be asked again. Microseconds.
pub const UNCONFIRMED_US: i64 = 86_400_000_000;

/// What was made at run time.
#[derive(Default)]
pub struct MadeCallers {
    /// By name. The configuration's of the same name count instead.
    pub teams: BTreeMap<String, Arc<Team>>,
    /// Likewise; the hash of their token is of no token.
    pub users: BTreeMap<String, Arc<User>>,
    /// By the hash of their text.
    pub keys: HashMap<[u8; 32], MadeKey>,
    /// Of the users who come from the issuer, by name.
    pub logins: BTreeMap<String, UserLogin>,
}

/// What the issuer said last of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserLogin {
    /// Whose login it is, as the issuer knows them.
    pub subject: String,
    /// When the issuer said so; microseconds since 1970, UTC.
    pub as_of_us: i64,
    /// When it ends unless the issuer speaks again. None: it is asked again and again.
    pub until_us: Option<i64>,
}

impl UserLogin {
    fn counts(&self, now_us: i64) -> bool {
        self.until_us.is_none_or(|until_us| until_us > now_us)
    }
}

/// Whom the word of an issuer is about.
#[derive(Clone, Debug)]
pub enum LoggedIn {
    User(Arc<User>),
    /// The word is newer than what is known, and says otherwise: this is to be taken over first.
    New(IssuerWord),
    /// Why they may not come.
    Refused(String),
    /// What was made at run time is not read yet.
    NotRead,
}

/// A key of a user.
#[derive(Clone, Debug)]
pub struct MadeKey {
    pub issued: Arc<IssuedKey>,
    pub user: String,
    /// The last moment at which it counts; microseconds since 1970, UTC.
    pub until_us: Option<i64>,
}

/// Whose token was sent.
#[derive(Clone, Debug)]
pub enum FoundCaller {
    User(Arc<User>),
    /// Unknown. Also a key whose user, or the user's team, is gone.
    Nobody,
    /// A key whose user's login at the issuer has ended; their name.
    LoggedOut(String),
    /// It begins as a key that was made at run time, and is none.
    Mistyped,
    /// The id of the key.
    Expired(String),
    /// Perhaps a key: what was made at run time is not read yet.
    NotRead,
}

impl Callers {
    pub fn new(config: &Config) -> Callers {
        let callers = Callers::default();
        callers.configure(config);
        callers
    }

    /// Puts the users and teams of a configuration in place of those before.
    pub fn configure(&self, config: &Config) {
        let users = &config.users;
        let by_token = users.iter().map(|user| (user.token_sha256, user.clone())).collect();
        let configured = users.iter().map(|user| (user.name.clone(), user.clone())).collect();
        let mut known = self.change();
        (known.by_token, known.configured) = (by_token, configured);
        known.teams = config.teams.keys().cloned().collect();
    }

    /// Changes what was made at run time.
    pub fn change_made(&self, change: impl FnOnce(&mut MadeCallers)) {
        change(self.change().made.get_or_insert_default());
    }

    /// Since when the database with them does not answer; microseconds since 1970, UTC. None: it does. A later begin changes nothing.
    pub fn set_away(&self, since_us: Option<i64>) {
        if self.known().away_since_us.is_some() != since_us.is_some() {
            self.change().away_since_us = since_us;
        }
    }

    /// Teams that were made at run time.
    pub fn made_teams(&self) -> BTreeMap<String, Arc<Team>> {
        self.known().made.as_ref().map(|made| made.teams.clone()).unwrap_or_default()
    }

    /// Whether a user came by a login.
    pub fn has_logins(&self) -> bool {
        self.known().made.as_ref().is_some_and(|made| !made.logins.is_empty())
    }

    /// Users that were made at run time.
    pub fn made_users(&self) -> usize {
        self.known().made.as_ref().map_or(0, |made| made.users.len())
    }

    /// What a user's limits are.
    pub fn limits_of(&self, name: &str) -> Option<Arc<Limits>> {
        let known = self.known();
        let user = known.configured.get(name).or_else(|| known.made.as_ref()?.users.get(name));
        user.map(|user| Arc::clone(&user.limits))
    }

    /// How many keys of this user count.
    pub fn keys_of(&self, name: &str, now_us: i64) -> usize {
        let counts = |key: &&MadeKey| key.user == name && key.until_us.is_none_or(|until_us| until_us >= now_us);
        self.known().made.as_ref().map_or(0, |made| made.keys.values().filter(counts).count())
    }

    /// Whether there is a user of this name. Before what was made is read, there may be.
    pub fn has_user(&self, name: &str) -> bool {
        let known = self.known();
        known.configured.contains_key(name) || known.made.as_ref().is_none_or(|made| made.users.contains_key(name))
    }

    /// `now_us`: microseconds since 1970, UTC.
    pub fn find(&self, token: &[u8], now_us: i64) -> FoundCaller {
        let hash = token_hash(token);
        let known = self.known();
        if let Some(user) = known.by_token.get(&hash) {
            return FoundCaller::User(user.clone());
        }
        match TokenForm::of(token) {
            TokenForm::Issued => known.by_key(hash, now_us),
            TokenForm::Mistyped => FoundCaller::Mistyped,
            TokenForm::Foreign => FoundCaller::Nobody,
        }
    }

    /// The user of this name whose token or key still has this hash.
    pub fn still(&self, name: &str, hash: [u8; 32], now_us: i64) -> Option<Arc<User>> {
        let known = self.known();
        let user = known.by_token.get(&hash).cloned().or_else(|| match known.by_key(hash, now_us) {
            FoundCaller::User(user) => Some(user),
            _ => known.by_login(name, now_us).filter(|user| user.token_sha256 == hash),
        });
        user.filter(|user| user.name == name)
    }

    /// The user whom the issuer speaks of.
    pub fn by_word(&self, word: &IssuerWord, now_us: i64) -> LoggedIn {
        let known = self.known();
        let IssuerWord { name, subject, issued_at_us, .. } = word;
        let of_another =
            || LoggedIn::Refused(format!("the name {name} is of another user here: an admin can remove that one"));
        let Some(made) = &known.made else { return LoggedIn::NotRead };
        if known.configured.contains_key(name) {
            return of_another();
        }
        let (user, login) = match (made.users.get(name), made.logins.get(name)) {
            (Some(user), Some(login)) if login.subject == *subject => (user, login),
            (None, _) if word.place.is_some() => return LoggedIn::New(word.clone()),
            (None, _) => return LoggedIn::Refused(no_group(name)),
            _ => return of_another(),
        };
        // Many tokens name no groups: what is known of them goes on.
        let is_silent = !word.names_groups && login.counts(now_us);
        let place = if is_silent { Some((user.role, user.team.clone())) } else { word.place.clone() };
        let is_as_known = place.as_ref().is_some_and(|(role, team)| (*role, team) == (user.role, &user.team));
        let is_lasting = login.until_us.is_none_or(|until_us| until_us - now_us > UNCONFIRMED_US / 2);
        if *issued_at_us > login.as_of_us && !(is_as_known && is_lasting) && (place.is_some() || login.counts(now_us)) {
            return LoggedIn::New(IssuerWord { place, ..word.clone() });
        }
        match known.by_login(name, now_us) {
            Some(user) => LoggedIn::User(user),
            None if login.counts(now_us) => LoggedIn::Refused(format!("the team of {name} is gone")),
            None if place.is_none() => LoggedIn::Refused(no_group(name)),
            None => LoggedIn::Refused(ended(name)),
        }
    }

    fn known(&self) -> RwLockReadGuard<'_, KnownCallers> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, KnownCallers> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCallers {
    fn by_key(&self, hash: [u8; 32], now_us: i64) -> FoundCaller {
        let Some(made) = &self.made else { return FoundCaller::NotRead };
        if self.away_since_us.is_some_and(|since_us| now_us - since_us > STALE_US) {
            return FoundCaller::NotRead;
        }
        let Some(key) = made.keys.get(&hash) else {
            // Another gateway may have made it.
            return if self.away_since_us.is_some() { FoundCaller::NotRead } else { FoundCaller::Nobody };
        };
        if key.until_us.is_some_and(|until_us| until_us < now_us) {
            return FoundCaller::Expired(key.issued.id.clone());
        }
        let user = self.configured.get(&key.user).or_else(|| made.users.get(&key.user));
        if made.logins.get(&key.user).is_some_and(|login| !login.counts(now_us))
            && !self.configured.contains_key(&key.user)
        {
            return FoundCaller::LoggedOut(key.user.clone());
        }
        user.filter(|user| self.has_team(user)).map_or(FoundCaller::Nobody, |user| {
            FoundCaller::User(Arc::new(User { token_sha256: hash, key: Some(key.issued.clone()), ..(**user).clone() }))
        })
    }

    /// Without their team a user would be limited less.
    fn has_team(&self, user: &User) -> bool {
        let is_made = |team: &String| self.made.as_ref().is_some_and(|made| made.teams.contains_key(team));
        user.team.as_ref().is_none_or(|team| self.teams.contains(team) || is_made(team))
    }

    /// A user who is logged in at the issuer.
    fn by_login(&self, name: &str, now_us: i64) -> Option<Arc<User>> {
        let made = self.made.as_ref().filter(|_| !self.configured.contains_key(name))?;
        let login = made.logins.get(name).filter(|login| login.counts(now_us))?;
        let user = made.users.get(name).filter(|user| self.has_team(user))?;
        Some(Arc::new(User { token_sha256: token_hash(login.subject.as_bytes()), ..(**user).clone() }))
    }
}

fn no_group(name: &str) -> String {
    format!("no group of {name} may come: see [oidc.group] of the configuration")
}

/// The error for a user whose login has ended.
pub fn ended(name: &str) -> String {
    format!("the login of {name} at the issuer has ended: log in again, on the dashboard or with `photofinish login`")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use secrecy::ExposeSecret as _;

    use super::*;
    use photofinish_config::issued::new_token;
    use photofinish_config::{Permit, UserRole, parse};

    /// With these users, of the team of their name if there is one.
    fn config(users: &[(&str, &str)], teams: &str) -> Config {
        let user = |(name, token): &(&str, &str)| format!("[users.{name}]\ntoken = \"{token}\"\n");
        let text: String = users.iter().map(user).collect();
        parse(&format!("{text}{teams}"), Path::new("config.toml"), &|_| None).unwrap()
    }

    fn made_user(name: &str, team: Option<&str>) -> Arc<User> {
        Arc::new(User {
            name: name.to_owned(),
            token_sha256: [0; 32],
            role: UserRole::User,
            overrides: Permit::Usual,
            keys: BTreeMap::new(),
            team: team.map(str::to_owned),
            limits: Arc::default(),
            key: None,
        })
    }

    fn name(found: &FoundCaller) -> Option<(String, Option<String>)> {
        match found {
            FoundCaller::User(user) => Some((user.name.clone(), user.key.as_ref().map(|key| key.id.clone()))),
            _ => None,
        }
    }

    #[test]
    fn a_token_and_a_key_find_their_user() {
        let callers = Callers::new(&config(&[("ada", "token-of-ada"), ("bob", "pf_made_by_hand")], ""));
        let (id, text) = new_token().unwrap();
        let text = text.expose_secret().as_bytes();
        let issued = Arc::new(IssuedKey { id: id.clone(), first: None, limits: Arc::default() });
        let of = |user: &str, until_us| MadeKey { issued: issued.clone(), user: user.to_owned(), until_us };
        assert!(matches!(callers.find(text, 0), FoundCaller::NotRead));
        callers.change_made(|made| drop(made.keys.insert(token_hash(text), of("ada", None))));
        assert_eq!(name(&callers.find(b"token-of-ada", 0)), Some(("ada".to_owned(), None)));
        // One of the file may begin like a key.
        assert_eq!(name(&callers.find(b"pf_made_by_hand", 0)), Some(("bob".to_owned(), None)));
        assert_eq!(name(&callers.find(text, 0)), Some(("ada".to_owned(), Some(id.clone()))));
        assert_eq!(name(&callers.find(b"token-of-eve", 0)), None);
        assert!(matches!(callers.find(&text[..61], 0), FoundCaller::Mistyped));
        let still = |name: &str, now_us| callers.still(name, token_hash(text), now_us).is_some();
        assert!(still("ada", 0) && !still("bob", 0));

        callers.change_made(|made| drop(made.keys.insert(token_hash(text), of("ada", Some(5)))));
        assert!(name(&callers.find(text, 5)).is_some());
        assert!(matches!(callers.find(text, 6), FoundCaller::Expired(expired) if expired == id));
        assert!(!still("ada", 6));
        callers.change_made(|made| drop(made.keys.remove(&token_hash(text))));
        assert!(matches!(callers.find(text, 5), FoundCaller::Nobody));
    }

    #[test]
    fn while_the_database_is_away_a_known_key_counts_for_a_day_and_an_unknown_one_may_be_another_gateway_s() {
        let callers = Callers::new(&config(&[("ada", "token-of-ada")], ""));
        let [known, unknown] = [(); 2].map(|()| new_token().unwrap());
        let issued = Arc::new(IssuedKey { id: known.0, first: None, limits: Arc::default() });
        let [known, unknown] = [known.1, unknown.1].map(|text| text.expose_secret().as_bytes().to_vec());
        let key = MadeKey { issued, user: "ada".to_owned(), until_us: None };
        callers.change_made(|made| drop(made.keys.insert(token_hash(&known), key)));
        callers.set_away(Some(100));
        callers.set_away(Some(200));
        let of = |token: &[u8], now_us| callers.find(token, now_us);
        assert!(name(&of(&known, 100 + STALE_US)).is_some());
        assert!(matches!(of(&known, 101 + STALE_US), FoundCaller::NotRead));
        assert!(matches!(of(&unknown, 100), FoundCaller::NotRead));
        assert!(name(&of(b"token-of-ada", 101 + STALE_US)).is_some(), "the file has it");
        callers.set_away(None);
        assert!(name(&of(&known, 101 + STALE_US)).is_some() && matches!(of(&unknown, 100), FoundCaller::Nobody));
    }

    #[test]
    fn a_key_counts_as_long_as_its_user_and_the_team_are_there() {
        let callers = Callers::new(&config(&[("ada", "token-of-ada")], ""));
        let (id, text) = new_token().unwrap();
        let text = text.expose_secret().as_bytes();
        let issued = Arc::new(IssuedKey { id, first: None, limits: Arc::default() });
        let key = MadeKey { issued, user: "ada".to_owned(), until_us: None };
        callers.change_made(|made| drop(made.keys.insert(token_hash(text), key)));
        let counts = || name(&callers.find(text, 0)).is_some();
        assert!(counts());
        // The file drops its user, and one of that name is made.
        callers.configure(&config(&[("eve", "token-of-eve")], ""));
        assert!(!counts());
        callers.change_made(|made| drop(made.users.insert("ada".to_owned(), made_user("ada", Some("a")))));
        assert!(!counts(), "its team is not there");
        callers.configure(&config(&[("eve", "token-of-eve")], "[teams.a]\nrpm = 5"));
        assert!(counts());
    }

    /// `ann` came by a login, as a plain user of `a`; `made` was made by an admin; `ada` is in the file.
    #[test]
    fn each_word_of_an_issuer_is_decided_once() {
        const DAY: i64 = UNCONFIRMED_US;
        let config = config(&[("ada", "token-of-ada")], "[teams.a]\nrpm = 5\n[teams.b]\nrpm = 5");
        let (user, admin) = (UserRole::User, UserRole::Admin);
        let [a, b] = ["a", "b"].map(|team| Some((user, Some(team.to_owned()))));
        let of = |name: &str, issued_at_us, place: &Option<(UserRole, Option<String>)>| IssuerWord {
            name: name.to_owned(),
            subject: format!("{name} at issuer"),
            issued_at_us,
            place: place.clone(),
            names_groups: true,
        };
        let silent = |issued_at_us, place| IssuerWord { names_groups: false, ..of("ann", issued_at_us, place) };
        let other = IssuerWord { subject: "eve at issuer".to_owned(), ..of("ann", 200, &a) };
        // The word, when the login ends, and what is decided. It was confirmed at 100, and it is `DAY` now.
        let going_on = None;
        let (lasting, ending, ended) = (Some(DAY + DAY / 2 + 1), Some(DAY + DAY / 2), Some(DAY));
        for (case, word, until_us, expected) in [
            ("a name of the file", of("ada", 200, &a), going_on, "the name ada is of another"),
            ("a name that an admin gave", of("made", 200, &a), going_on, "the name made is of another"),
            ("another user of this name", other, going_on, "the name ann is of another"),
            ("a new user", of("new", 0, &a), going_on, "new user a"),
            ("a new admin without a team", of("new", 0, &Some((admin, None))), going_on, "new admin -"),
            ("a new one of no group", of("new", 0, &None), going_on, "no group of new"),
            ("as known", of("ann", 200, &a), going_on, "user a"),
            ("as known, for a while", of("ann", 200, &a), lasting, "user a"),
            ("as known, soon over", of("ann", 200, &a), ending, "new user a"),
            ("as known, over", of("ann", 200, &a), ended, "new user a"),
            ("as known, over, old", of("ann", 100, &a), ended, "the login of ann"),
            ("another team", of("ann", 200, &b), going_on, "new user b"),
            ("another role", of("ann", 200, &Some((admin, Some("a".into())))), going_on, "new admin a"),
            ("another team, old", of("ann", 100, &b), going_on, "user a"),
            ("another team, old, over", of("ann", 100, &b), ended, "the login of ann"),
            ("no group any more", of("ann", 200, &None), going_on, "new nobody"),
            ("no group, old", of("ann", 100, &None), going_on, "user a"),
            ("no group, over", of("ann", 200, &None), ended, "no group of ann"),
            ("names none", silent(200, &None), going_on, "user a"),
            ("names none, soon over", silent(200, &None), ending, "new user a"),
            ("names none, over", silent(200, &None), ended, "no group of ann"),
            ("names none, over, where all may come", silent(200, &b), ended, "new user b"),
        ] {
            let callers = Callers::new(&config);
            assert!(matches!(callers.by_word(&word, DAY), LoggedIn::NotRead), "{case}: nothing is read");
            callers.change_made(|made| {
                made.users.insert("made".to_owned(), made_user("made", Some("a")));
                made.users.insert("ann".to_owned(), made_user("ann", Some("a")));
                let login = UserLogin { subject: "ann at issuer".to_owned(), as_of_us: 100, until_us };
                made.logins.insert("ann".to_owned(), login);
            });
            let said = match callers.by_word(&word, DAY) {
                LoggedIn::User(user) => format!("{} {}", user.role.as_str(), user.team.as_deref().unwrap_or("-")),
                LoggedIn::New(IssuerWord { place: Some((role, team)), .. }) => {
                    format!("new {} {}", role.as_str(), team.as_deref().unwrap_or("-"))
                }
                LoggedIn::New(_) => "new nobody".to_owned(),
                LoggedIn::Refused(why) => why,
                LoggedIn::NotRead => "not read".to_owned(),
            };
            let is_whole = !expected.starts_with("the ") && !expected.starts_with("no ");
            assert!(said.starts_with(expected) && (!is_whole || said == expected), "{case}: {said}");
        }
        let callers = Callers::new(&config);
        callers.change_made(|made| {
            made.users.insert("ann".to_owned(), made_user("ann", Some("gone")));
            let login = UserLogin { subject: "ann at issuer".to_owned(), as_of_us: 100, until_us: None };
            made.logins.insert("ann".to_owned(), login);
        });
        let gone = callers.by_word(&of("ann", 100, &None), DAY);
        assert!(matches!(gone, LoggedIn::Refused(why) if why == "the team of ann is gone"));
    }

    /// They leave nothing behind.
    #[test]
    fn a_million_unknown_keys_take_no_memory() {
        let callers = Callers::new(&config(&[("ada", "token-of-ada")], ""));
        callers.change_made(|_| ());
        let room = || {
            let known = callers.known();
            (known.by_token.capacity(), known.made.as_ref().map(|made| made.keys.capacity()))
        };
        let before = room();
        let (_, text) = new_token().unwrap();
        let mut unknown = text.expose_secret().as_bytes().to_vec();
        for n in 0..1_000_000_usize {
            unknown[12 + n % 43] = b'a' + (n % 26) as u8;
            assert!(matches!(callers.find(&unknown, 0), FoundCaller::Mistyped | FoundCaller::Nobody));
        }
        assert_eq!(room(), before);
    }
}
