//! `[users.NAME]`: its keys, and the `x-photofinish-*` headers that a user may send. Only the hash of a token is kept.

use ring::digest::{SHA256, digest};
use schemars::json_schema;
use secrecy::{ExposeSecret, SecretString};

use super::keys::{self, TableKeys as _, TypedText, choice, keys, own};
use super::limits::Limits;
use super::names::names;
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, ReaderScope, TomlTable, as_string, one_of};
use super::role::UserRole;
use super::text::{self, Secret};

keys! {
    /// `[users.NAME]`
    #[derive(Clone)]
    pub(super) struct UserKeys {
        /// The token that the user sends: `${VARIABLE}` or `file:/path`.
        token: Option<Located<String>> = TypedText;
        /// The SHA-256 of the token instead: 64 hexadecimal digits.
        token_sha256: Option<Located<String>> = TypedText;
        /// What the user may do apart from asking models.
        role: UserRole = choice(), or UserRole::User;
        /// The `x-photofinish-*` headers the user may send: `true` for all, `false` for none, or a list of names. Unless set, every
        /// header, as far as the request then costs no more than the settings of its model allow.
        overrides: Permit = own(read_overrides, |_| {
            let name = keys::names::<Override>();
            json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "array", "items": name }] })
        }), or Permit::Usual;
        /// The user's own keys by provider, used instead of the shared ones.
        keys: Vec<(Located<String>, Located<String>)> = own(
            |table, key| Some(table.named_strings(key, format!("{key} of {}", table.name))),
            |_| json_schema!({ "type": "object", "additionalProperties": { "type": "string" } }),
        ), or Vec::new();
        /// The user's team.
        team: Option<Located<String>> = TypedText;
    }
}

/// The name of a provider, and the user's key for it; none if it is unset or wrong.
pub(super) type OwnKey = (Located<String>, Option<SecretString>);

/// A user's table.
pub(super) struct RawUser {
    pub(super) name: Located<String>,
    /// SHA-256 of the token. None: it is wrong, which is reported.
    pub(super) token: Option<Located<[u8; 32]>>,
    pub(super) role: UserRole,
    pub(super) overrides: Permit,
    pub(super) keys: Vec<OwnKey>,
    pub(super) team: Option<Located<String>>,
    pub(super) limits: Limits,
}

/// `[teams.NAME]`
pub(super) struct RawTeam {
    pub(super) name: Located<String>,
    pub(super) limits: Limits,
}

impl RawTeam {
    pub(super) fn read((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> RawTeam {
        check_name(table.scope, "team", &name);
        let limits = Limits::read(&mut table, &Limits::default());
        table.finish();
        RawTeam { name, limits }
    }
}

/// The token in the documents, as a hash.
const SAMPLE_TOKEN: &str = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90";

/// Fewer characters can be guessed: a right token is served also while an address tries many.
const SHORT: usize = 16;

const TOKEN_EXPECTED: &str = "either token = \"${NAME_TOKEN}\" or token_sha256 = \"64 hexadecimal digits\"";

impl RawUser {
    pub(super) fn read((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> RawUser {
        check_name(table.scope, "user", &name);
        let typed = UserKeys::read(&mut table, &UserKeys::default());
        let limits = Limits::read(&mut table, &Limits::default());
        let token = match (table.has("token"), table.has("token_sha256")) {
            (true, false) => typed.token.and_then(|typed| read_token(&table, &name.value, &typed)),
            (false, true) => typed.token_sha256.and_then(|typed| hash(&table, typed)),
            (both, _) => {
                let has = if both { "has both \"token\" and \"token_sha256\"" } else { "has no token" };
                let message = format!("{} {has}", table.name);
                table.scope.wrong(name.offset, message, TOKEN_EXPECTED);
                None
            }
        };
        if token.as_ref().is_some_and(|token| Some(token.value) == from_hex(SAMPLE_TOKEN)) {
            table
                .scope
                .warn(format!("user {}: the token is the one in the documents, which everyone knows", name.value));
        }
        let keys = own_keys(&table, &name.value, typed.keys);
        table.finish();
        let UserKeys { role, overrides, team, .. } = typed;
        RawUser { name, token, role, overrides, keys, team, limits }
    }
}

/// `what`: a user or a team.
pub(super) fn check_name(scope: &ReaderScope<'_>, what: &str, name: &Located<String>) {
    if !(1..=64).contains(&name.value.len()) || name.value.contains(char::is_control) {
        let message = format!("bad {what} name \"{}\"", shown(&name.value));
        scope.wrong(name.offset, message, "1 to 64 bytes without control characters");
    }
}

fn read_token(table: &TomlTable<'_, '_>, user: &str, typed: &Located<String>) -> Option<Located<[u8; 32]>> {
    let what = table.what("token");
    match text::secret(table.scope, &what, typed) {
        Secret::Set(token) => {
            if token.expose_secret().chars().count() < SHORT {
                table.scope.warn(format!(
                    "user {user}: the token has fewer than {SHORT} characters, so it can be guessed: use a longer one, such as \
                     `openssl rand -hex 32` prints"
                ));
            }
            let hash = token_hash(token.expose_secret().as_bytes());
            Some(Located { offset: typed.offset, value: hash })
        }
        Secret::Unset(names) => {
            table.scope.report(text::unset(typed.offset, &what, &names));
            None
        }
        Secret::Bad => None,
    }
}

fn hash(table: &TomlTable<'_, '_>, typed: Located<String>) -> Option<Located<[u8; 32]>> {
    let what = table.what("token_sha256");
    let text = text::plain(table.scope, &what, typed)?;
    let empty = token_hash(b"");
    let problem = match from_hex(text.value.trim()) {
        Some(hash) if hash != empty => return Some(Located { offset: text.offset, value: hash }),
        Some(_) => LocatedProblem::at(text.offset, format!("{what} is the hash of an empty token")),
        None => LocatedProblem::at(text.offset, format!("{what} is no SHA-256"))
            .expected("64 hexadecimal digits, as `printf %s \"$TOKEN\" | sha256sum` prints them"),
    };
    table.scope.report(problem);
    None
}

/// Each key that is set or wrong. A key that is unset is left out with a warning.
fn own_keys(table: &TomlTable<'_, '_>, user: &str, typed: Vec<(Located<String>, Located<String>)>) -> Vec<OwnKey> {
    let mut keys = Vec::new();
    for (provider, typed) in typed {
        let name = shown(&provider.value);
        let what = format!("\"{name}\" in keys of {}", table.name);
        let key = match text::secret(table.scope, &what, &typed) {
            Secret::Set(key) => Some(key),
            Secret::Unset(names) => {
                let missing = text::not_set(&names);
                table.scope.warn(format!("user {user}: has no key of its own for {name}: it needs {missing}"));
                None
            }
            Secret::Bad => None,
        };
        keys.push((provider, key));
    }
    keys
}

fn read_overrides(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Permit> {
    if let Some(flag) = table.flag(key) {
        return Some(if flag { Permit::All } else { Permit::Listed(Vec::new()) });
    }
    let mut listed = Vec::new();
    for entry in table.list(key, "true, false or a list of names")?.value {
        let Some(typed) = as_string(table.scope, &table.what(key), entry) else { continue };
        match Override::from_name(&typed.value) {
            Some(header) => listed.push(header),
            None => {
                let names = Override::ALL.map(Override::as_str);
                let message = format!("bad value \"{}\" for {}", shown(&typed.value), table.what(key));
                let problem = LocatedProblem::at(typed.offset, message).expected(one_of(&names));
                table.scope.report(problem.nearest(&typed.value, names));
            }
        }
    }
    Some(Permit::Listed(listed))
}

/// What is kept of a token: its SHA-256.
pub fn token_hash(token: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token).as_ref());
    hash
}

pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

names! {
    /// A header that overrides the plan for one request. Its name has no `x-photofinish-` in front.
    pub enum Override {
        Policy = "policy",
        Upstreams = "upstreams",
        HedgeAfter = "hedge-after",
        MaxAttempts = "max-attempts",
        Optimise = "optimise",
        Budget = "budget",
        Slo = "slo",
        HoldMax = "hold-max",
        Lossy = "lossy",
    }
}

/// The headers one user may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The default: every header, as far as the request then costs no more than the model's settings allow; with shared keys only
    /// upstreams that a model lists.
    Usual,
    /// `true`, or a gateway without users.
    All,
    /// A list; empty for `false`. If it has `upstreams`, the user may name any upstream.
    Listed(Vec<Override>),
}

impl Permit {
    pub fn allows(&self, header: Override) -> bool {
        match self {
            Permit::Usual | Permit::All => true,
            Permit::Listed(listed) => listed.contains(&header),
        }
    }

    /// The user may name upstreams that no model lists, with shared keys.
    pub fn any_upstream(&self) -> bool {
        *self != Permit::Usual && self.allows(Override::Upstreams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed() {
        let listed = Permit::Listed(vec![Override::Policy, Override::Upstreams]);
        let none = Permit::Listed(Vec::new());
        for (permit, policy, budget, upstreams, any) in [
            (Permit::Usual, true, true, true, false),
            (Permit::All, true, true, true, true),
            (listed, true, false, true, true),
            (none, false, false, false, false),
        ] {
            let allows = [Override::Policy, Override::Budget, Override::Upstreams].map(|header| permit.allows(header));
            assert_eq!((allows, permit.any_upstream()), ([policy, budget, upstreams], any), "{permit:?}");
        }
    }
}
