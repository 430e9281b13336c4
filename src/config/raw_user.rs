//! `[users.NAME]` as it was typed. Of the token only its hash is kept.

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::override_permits::{Override, Permit};
use super::problem::LocatedProblem;
use super::reader::{Located, ReaderScope, TomlTable};
use super::text::{self, Secret};

pub(super) struct RawUser {
    pub(super) name: Located<String>,
    /// SHA-256 of the token, and where that stands. None where it was wrong, which is reported.
    pub(super) token: Option<Located<[u8; 32]>>,
    pub(super) admin: bool,
    pub(super) overrides: Permit,
    /// By the name of the provider.
    pub(super) keys: Vec<(Located<String>, Option<SecretString>)>,
}

const TOKEN_EXPECTED: &str = "either token = \"${NAME_TOKEN}\" or token_sha256 = \"64 hexadecimal digits\"";

impl RawUser {
    pub(super) fn read((name, mut table): (Located<String>, TomlTable<'_, '_>)) -> RawUser {
        check_name(table.scope, &name);
        let keys = read_keys(&mut table, &name.value);
        let admin = table.boolean("admin").unwrap_or(false);
        let overrides = match table.boolean_or_choices("overrides", &Override::ALL, Override::as_str) {
            None => Permit::Usual,
            Some(Ok(true)) => Permit::All,
            Some(Ok(false)) => Permit::Listed(Vec::new()),
            Some(Err(listed)) => Permit::Listed(listed),
        };
        table.know(&["token", "token_sha256"]);
        let token = match (table.has("token"), table.has("token_sha256")) {
            (true, false) => read_token(&mut table),
            (false, true) => read_hash(&mut table),
            (both, _) => {
                let has = if both { "has both \"token\" and \"token_sha256\"" } else { "has no token" };
                let message = format!("{} {has}", table.name);
                table.scope.report(LocatedProblem::at(name.offset, message).expected(TOKEN_EXPECTED));
                None
            }
        };
        table.finish();
        RawUser { name, token, admin, overrides, keys }
    }
}

fn check_name(scope: &ReaderScope<'_>, name: &Located<String>) {
    if !(1..=64).contains(&name.value.len()) || name.value.contains(char::is_control) {
        let message = format!("bad user name \"{}\"", super::problem::shown(&name.value));
        scope.report(LocatedProblem::at(name.offset, message).expected("1 to 64 bytes without control characters"));
    }
}

fn read_token(table: &mut TomlTable<'_, '_>) -> Option<Located<[u8; 32]>> {
    let typed = table.string("token")?;
    match text::secret(table.scope, &table.what("token"), &typed) {
        Secret::Set(token) => {
            let hash = Sha256::digest(token.expose_secret().as_bytes()).into();
            Some(Located { offset: typed.offset, value: hash })
        }
        Secret::Unset(names) => {
            table.scope.report(text::unset(typed.offset, &table.what("token"), &names));
            None
        }
        Secret::Bad => None,
    }
}

fn read_hash(table: &mut TomlTable<'_, '_>) -> Option<Located<[u8; 32]>> {
    let typed = table.string("token_sha256")?;
    let what = table.what("token_sha256");
    let text = text::plain(table.scope, &what, typed)?;
    let empty: [u8; 32] = Sha256::digest(b"").into();
    let problem = match from_hex(text.value.value.trim()) {
        Some(hash) if hash != empty => return Some(Located { offset: text.offset, value: hash }),
        Some(_) => LocatedProblem::at(text.offset, format!("{what} is the hash of an empty token")),
        None => LocatedProblem::at(text.offset, format!("{what} is no SHA-256"))
            .expected("64 hexadecimal digits, as `printf %s \"$TOKEN\" | sha256sum` prints them"),
    };
    table.scope.report(problem);
    None
}

fn read_keys(table: &mut TomlTable<'_, '_>, user: &str) -> Vec<(Located<String>, Option<SecretString>)> {
    let name = format!("keys of {}", table.name);
    let mut keys = Vec::new();
    for (provider, typed) in table.named_strings("keys", name.clone()) {
        let what = format!("\"{}\" in {name}", super::problem::shown(&provider.value));
        let key = match text::secret(table.scope, &what, &typed) {
            Secret::Set(key) => Some(key),
            Secret::Unset(names) => {
                let without = text::not_set(&names);
                table.scope.warn(format!(
                    "user {user}: no key of their own for {}: it needs {without}",
                    super::problem::shown(&provider.value)
                ));
                None
            }
            Secret::Bad => None,
        };
        keys.push((provider, key));
    }
    keys
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
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
