//! Sessions of the dashboard: an admin's token is exchanged once for a random secret in a cookie.
//!
//! They are kept in memory, as hashes. A session ends after [`SESSION_FOR`], at its log-out, when its user goes or gets
//! another token, and with the process. Not for the headers of a cookie: see `server`.

use std::collections::HashMap;
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

type OpenSessions = HashMap<[u8; 32], DashboardSession>;

struct DashboardSession {
    user: String,
    /// A new token of the user ends the session.
    token_sha256: [u8; 32],
    until: Instant,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions", self.open_now().len())
    }
}

impl Sessions {
    /// Opens a session; returns its secret. None if the system has no random numbers.
    pub fn open(&self, user: &User, now: Instant) -> Option<String> {
        let mut bytes = [0_u8; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let secret = URL_SAFE_NO_PAD.encode(bytes);
        let session =
            DashboardSession { user: user.name.clone(), token_sha256: user.token_sha256, until: now + SESSION_FOR };
        let mut open = self.open_now();
        if open.len() >= SESSIONS_MAX {
            open.retain(|_, session| session.until > now);
            forget_oldest(&mut open, SESSIONS_MAX - 1, |session| session.until);
        }
        open.insert(token_hash(secret.as_bytes()), session);
        Some(secret)
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
            let session = open.get(&hash)?;
            let user = still(&session.user, session.token_sha256).filter(|_| session.until > now);
            if user.is_none() {
                open.remove(&hash);
            }
            user
        })
    }

    /// Ends the sessions in these headers.
    pub fn close(&self, headers: &HeaderMap) {
        let mut open = self.open_now();
        for hash in hashes(headers) {
            open.remove(&hash);
        }
    }

    fn open_now(&self) -> MutexGuard<'_, OpenSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let secrets = pairs.filter_map(|pair| pair.trim_ascii().strip_prefix(COOKIE_NAME.as_bytes())?.strip_prefix(b"="));
    secrets.take(COOKIES_MAX).map(token_hash)
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
    fn the_oldest_session_ends_for_one_too_many() {
        let (sessions, now, ann) = (Sessions::default(), Instant::now(), users(ANN));
        let opened: Vec<HeaderMap> = (0..=SESSIONS_MAX as u64)
            .map(|second| cookie(&sessions.open(&ann[0], now + Duration::from_secs(second)).unwrap()))
            .collect();
        let open = opened.iter().map(|headers| user(&sessions, &ann, headers, now).is_some()).collect::<Vec<_>>();
        assert!(!open[0] && open[1..].iter().all(|open| *open));
    }
}
