//! Sessions of the dashboard: an admin's token is exchanged once for a random secret in a cookie.
//!
//! They are kept in memory, as hashes. A session ends after [`SESSION_FOR`], at its log-out, and when its user goes or gets another
//! token. Those that the database has too hold at every gateway on it: see the server's `login`. Not for the headers of a cookie: see
//! `server`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::COOKIE;
use ring::rand::{SecureRandom as _, SystemRandom};

use photofinish_base::clock::Instant;
use photofinish_config::{User, token_hash};

/// The name of the cookie.
pub const COOKIE_NAME: &str = "photofinish-session";
/// How long a session of the dashboard lasts.
pub const SESSION_FOR: Duration = Duration::from_secs(12 * 3_600);
/// Sessions at the same time; the oldest ends for a further one.
const SESSIONS_MAX: usize = 1_000;
/// Cookies of that name that are looked at in one request. A page of another port of the same host can add more.
const COOKIES_MAX: usize = 4;

/// The sessions of one gateway, by the hash of the secret.
#[derive(Default)]
pub struct Sessions(Mutex<OpenSessions>);

#[derive(Default)]
struct OpenSessions {
    by_hash: HashMap<[u8; 32], DashboardSession>,
    /// Those that ended here and that the database still has.
    ended: HashSet<[u8; 32]>,
}

struct DashboardSession {
    user: String,
    /// A new token of the user ends the session.
    token_sha256: [u8; 32],
    until: Instant,
    /// The database has it, and it ends here when it has it no more.
    is_shared: bool,
    /// Its user was known here. Before that, who opened it at another gateway a moment ago is not known here yet.
    has_counted: bool,
}

/// What another gateway has to know of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSession {
    pub user: String,
    pub token_sha256: [u8; 32],
    pub until: Instant,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions", self.open_now().by_hash.len())
    }
}

impl Sessions {
    /// Opens a session; returns its secret. None if the system has no random numbers.
    pub fn open(&self, user: &User, now: Instant) -> Option<String> {
        let mut bytes = [0_u8; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let secret = URL_SAFE_NO_PAD.encode(bytes);
        let (user, token_sha256) = (user.name.clone(), user.token_sha256);
        let session =
            DashboardSession { user, token_sha256, until: now + SESSION_FOR, is_shared: false, has_counted: true };
        self.put(&secret, session, now);
        Some(secret)
    }

    fn put(&self, secret: &str, session: DashboardSession, now: Instant) {
        let mut open = self.open_now();
        if open.by_hash.len() >= SESSIONS_MAX {
            open.by_hash.retain(|_, session| session.until > now);
            forget_oldest(&mut open.by_hash, SESSIONS_MAX - 1, |session| session.until);
        }
        open.by_hash.insert(token_hash(secret.as_bytes()), session);
    }

    /// What other gateways have to know of the session with this secret.
    pub fn of(&self, secret: &str) -> Option<SharedSession> {
        let open = self.open_now();
        let DashboardSession { user, token_sha256, until, .. } = open.by_hash.get(&token_hash(secret.as_bytes()))?;
        Some(SharedSession { user: user.clone(), token_sha256: *token_sha256, until: *until })
    }

    /// Takes over a session that the database has.
    pub fn take_over(&self, secret: &str, session: SharedSession, now: Instant) {
        let SharedSession { user, token_sha256, until } = session;
        let known = self.open_now().by_hash.get(&token_hash(secret.as_bytes())).map(|session| session.has_counted);
        let has_counted = known.unwrap_or_default();
        self.put(secret, DashboardSession { user, token_sha256, until, is_shared: true, has_counted }, now);
    }

    /// The secrets in these headers of no session that is known here.
    pub fn unknown(&self, headers: &HeaderMap) -> Vec<String> {
        let mut secrets = secrets(headers).peekable();
        if secrets.peek().is_none() {
            return Vec::new();
        }
        let open = self.open_now();
        let is_known = |hash| open.by_hash.contains_key(&hash) || open.ended.contains(&hash);
        let unknown = secrets.filter(|secret| !is_known(token_hash(secret)));
        unknown.filter_map(|secret| std::str::from_utf8(secret).ok().map(str::to_owned)).collect()
    }

    /// The hashes of those that the database has.
    pub fn shared(&self) -> Vec<[u8; 32]> {
        let open = self.open_now();
        open.by_hash.iter().filter(|(_, session)| session.is_shared).map(|(hash, _)| *hash).collect()
    }

    /// The database has these no more.
    pub fn forget(&self, hashes: &[[u8; 32]]) {
        let mut open = self.open_now();
        for hash in hashes {
            open.by_hash.remove(hash);
            open.ended.remove(hash);
        }
    }

    /// The hashes of those that ended here and that the database still has.
    pub fn ended(&self) -> Vec<[u8; 32]> {
        self.open_now().ended.iter().copied().collect()
    }

    /// The user of the session in these headers. `still`: the user of a name, if the token or key with this hash still counts.
    pub fn user(
        &self,
        still: impl Fn(&str, [u8; 32]) -> Option<Arc<User>>,
        headers: &HeaderMap,
        now: Instant,
    ) -> Option<Arc<User>> {
        let mut hashes = hashes(headers).peekable();
        hashes.peek()?;
        let mut open = self.open_now();
        hashes.find_map(|hash| {
            let session = open.by_hash.get_mut(&hash)?;
            let is_over = session.until <= now;
            let user = still(&session.user, session.token_sha256).filter(|_| !is_over);
            if user.is_none() && (is_over || session.has_counted) {
                open.end(hash);
            } else {
                session.has_counted |= user.is_some();
            }
            user
        })
    }

    /// Ends the sessions in these headers.
    pub fn close(&self, headers: &HeaderMap) {
        let mut open = self.open_now();
        hashes(headers).for_each(|hash| open.end(hash));
    }

    fn open_now(&self) -> MutexGuard<'_, OpenSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSessions {
    fn end(&mut self, hash: [u8; 32]) {
        let ended = self.by_hash.remove(&hash);
        self.ended.extend(ended.filter(|session| session.is_shared).map(|_| hash));
    }
}

/// Removes those with the least `age` until `keep` are left.
pub fn forget_oldest<K: Copy + Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>, keep: usize, age: fn(&V) -> Instant) {
    while map.len() > keep {
        let oldest = map.iter().min_by_key(|(_, value)| age(value)).map(|(key, _)| *key);
        oldest.and_then(|key| map.remove(&key));
    }
}

/// The hashes of the secrets in these headers.
fn hashes(headers: &HeaderMap) -> impl Iterator<Item = [u8; 32]> + '_ {
    secrets(headers).map(token_hash)
}

fn secrets(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> + '_ {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let secrets = pairs.filter_map(|pair| pair.trim_ascii().strip_prefix(COOKIE_NAME.as_bytes())?.strip_prefix(b"="));
    secrets.take(COOKIES_MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use photofinish_config::parse;

    fn users(text: &str) -> Vec<Arc<User>> {
        parse(text, Path::new("config.toml"), &|_| None).unwrap().users
    }

    fn cookie(secret: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, format!("a=b; {COOKIE_NAME}=old;{COOKIE_NAME}={secret}; c").parse().unwrap());
        headers
    }

    fn user(sessions: &Sessions, users: &[Arc<User>], headers: &HeaderMap, now: Instant) -> Option<Arc<User>> {
        let still =
            |name: &str, hash| users.iter().find(|user| user.name == name && user.token_sha256 == hash).cloned();
        sessions.user(still, headers, now)
    }

    const ANN: &str = "[users.ann]\ntoken = \"ann-token\"\nrole = \"admin\"\n";

    #[test]
    fn a_session_ends_with_its_time_its_log_out_its_user_and_their_token() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let ann = users(ANN);
        let open = || cookie(&sessions.open(&ann[0], now).unwrap());
        let is_open = |users: &[Arc<User>], headers: &HeaderMap, now| user(&sessions, users, headers, now).is_some();
        let (first, second) = (open(), open());
        assert_ne!(first, second);
        assert!(is_open(&ann, &first, now) && is_open(&ann, &second, now + SESSION_FOR - Duration::from_secs(1)));
        assert!(!is_open(&ann, &cookie("wrong"), now) && !is_open(&ann, &HeaderMap::new(), now));
        assert!(!is_open(&ann, &first, now + SESSION_FOR));
        assert!(!is_open(&ann, &first, now), "an ended session does not come back");
        sessions.close(&second);
        assert!(!is_open(&ann, &second, now));
        for other in ["[users.bob]\ntoken = \"ann-token\"", &ANN.replace("ann-token", "new-token")] {
            let third = open();
            assert!(!is_open(&users(other), &third, now), "{other}");
            assert!(!is_open(&ann, &third, now), "{other}: it ended");
        }
        assert_eq!(format!("{sessions:?}"), "0 sessions");
    }

    #[test]
    fn a_session_of_another_gateway_is_taken_over_and_ends_with_the_database_s() {
        let ([one, other], now) = ([(); 2].map(|()| Sessions::default()), Instant::now());
        let ann = users(ANN);
        let is_open = |of: &Sessions, headers: &HeaderMap, now| user(of, &ann, headers, now).is_some();
        let secret = one.open(&ann[0], now).unwrap();
        let headers = cookie(&secret);
        assert_eq!(one.shared(), Vec::<[u8; 32]>::new());
        assert_eq!(
            (one.unknown(&headers), other.unknown(&headers)),
            (vec!["old".into()], vec!["old".into(), secret.clone()])
        );
        let session = one.of(&secret).unwrap();
        for gateway in [&one, &other] {
            gateway.take_over(&secret, session.clone(), now);
            assert_eq!(gateway.shared(), [token_hash(secret.as_bytes())]);
        }
        let later = now + SESSION_FOR - Duration::from_secs(1);
        assert!(is_open(&other, &headers, later) && !is_open(&other, &headers, now + SESSION_FOR));
        other.take_over(&secret, session, now);
        one.close(&headers);
        let hash = [token_hash(secret.as_bytes())];
        assert_eq!((one.ended(), one.unknown(&headers)), (hash.to_vec(), vec!["old".into()]), "it is not looked for");
        one.forget(&hash);
        other.forget(&other.shared());
        assert!(!is_open(&one, &headers, now) && !is_open(&other, &headers, now));
        assert_eq!((one.ended(), one.unknown(&headers).len()), (Vec::new(), 2));
        one.close(&cookie(&one.open(&ann[0], now).unwrap()));
        assert_eq!(one.ended(), Vec::<[u8; 32]>::new(), "the database has it not");
    }

    #[test]
    fn a_session_waits_for_its_user_where_they_are_not_known_yet() {
        let ([one, other], now) = ([(); 2].map(|()| Sessions::default()), Instant::now());
        let (nobody, ann) = (Vec::new(), users(ANN));
        let secret = one.open(&ann[0], now).unwrap();
        let headers = cookie(&secret);
        other.take_over(&secret, one.of(&secret).unwrap(), now);
        assert!(user(&other, &nobody, &headers, now).is_none());
        assert_eq!((other.ended().len(), other.unknown(&headers).len()), (0, 1), "it is kept, and not looked for");
        assert!(user(&other, &ann, &headers, now).is_some());
        assert!(user(&other, &nobody, &headers, now).is_none());
        assert_eq!(other.ended(), [token_hash(secret.as_bytes())], "their user is gone");
        assert!(user(&other, &ann, &headers, now).is_none());
    }

    #[test]
    fn the_oldest_session_ends_for_one_too_many() {
        let (sessions, now, ann) = (Sessions::default(), Instant::now(), users(ANN));
        let opened: Vec<HeaderMap> = (0..=SESSIONS_MAX as u64)
            .map(|second| cookie(&sessions.open(&ann[0], now + Duration::from_secs(second)).unwrap()))
            .collect();
        let open = opened.iter().map(|headers| user(&sessions, &ann, headers, now).is_some()).collect::<Vec<_>>();
        assert!(!open[0] && open[1..].iter().all(|open| *open));
    }
}
