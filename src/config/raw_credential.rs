//! How `[providers.NAME]` gets its key, as it was typed: `api_key`, `aws` or `token`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::problem::LocatedProblem;
use super::reader::{ReaderScope, TomlTable};
use super::text::{self, Secret};
use super::units::DURATION_MAX;
use super::{CredentialSource, Keys, Token};

/// So many keys may be listed.
const KEYS_MAX: usize = 256;
/// Words of a token's command.
const WORDS_MAX: usize = 64;
/// Oftener would be a busy loop.
const REFRESH: RangeInclusive<Duration> = Duration::from_secs(1)..=DURATION_MAX;
/// Most tokens live for an hour.
const REFRESH_UNSAID: Duration = Duration::from_secs(45 * 60);

/// What the keys of the table amount to, and where those come from that are set: names of variables and files.
pub(super) fn read(table: &mut TomlTable<'_, '_>, provider: &str, offset: usize) -> (Keys, Vec<String>) {
    let there: Vec<&str> = ["api_key", "aws", "token"].into_iter().filter(|key| table.has(key)).collect();
    let mut sources = Vec::new();
    let keys = read_keys(table, provider, &mut sources);
    let (aws, token) = (read_aws(table, &mut sources), read_token(table));
    if there.len() > 1 {
        let message = format!("{} has {}", table.name, there.join(" and "));
        table.scope.report(LocatedProblem::at(offset, message).expected("one of them"));
    }
    (token.or(aws).unwrap_or(keys), sources)
}

fn read_keys(table: &mut TomlTable<'_, '_>, provider: &str, sources: &mut Vec<String>) -> Keys {
    let Some(typed) = table.strings("api_key") else { return Keys::NotConfigured };
    let what = table.what("api_key");
    if typed.is_empty() {
        let message = format!("{what} is an empty list");
        table.scope.report(LocatedProblem::at(table.offset, message).expected("a key, or no \"api_key\" at all"));
    }
    if let Some(first) = typed.get(KEYS_MAX) {
        table.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {KEYS_MAX} keys")));
    }
    let (mut keys, mut unset) = (Vec::new(), Vec::new());
    for typed in typed.iter().take(KEYS_MAX) {
        match text::secret(table.scope, &what, typed) {
            Secret::Set(key) => {
                let same = |other: &SecretString| other.expose_secret() == key.expose_secret();
                if keys.iter().any(same) {
                    table.scope.warn(format!("provider {provider}: one of its keys is listed twice; it is used once"));
                } else {
                    keys.push(key);
                    sources.extend(text::sources(&typed.value));
                }
            }
            Secret::Unset(names) => unset.extend(names),
            Secret::Bad => {}
        }
    }
    if keys.is_empty() {
        return Keys::Off(unset);
    }
    if !unset.is_empty() {
        let without = text::not_set(&unset);
        table.scope.warn(format!("provider {provider}: does without the key of {without}"));
    }
    Keys::Keys(keys)
}

/// `aws = { access_key_id, secret_access_key, session_token }`, as one key with colons between.
fn read_aws(table: &mut TomlTable<'_, '_>, sources: &mut Vec<String>) -> Option<Keys> {
    let name = format!("aws of {}", table.name);
    let mut table = table.table("aws", name)?;
    let (mut parts, mut unset) = (Vec::new(), Vec::new());
    for key in ["access_key_id", "secret_access_key"] {
        match read_secret(&mut table, key, sources) {
            Some(Secret::Set(secret)) => parts.push(secret),
            Some(Secret::Unset(names)) => unset.extend(names),
            Some(Secret::Bad) => {}
            None => {
                let message = format!("{} has no \"{key}\"", table.name);
                table
                    .scope
                    .report(LocatedProblem::at(table.offset, message).expected("a variable such as \"${AWS_…}\""));
            }
        }
    }
    // Only credentials that are lent for a time have one.
    if let Some(Secret::Set(secret)) = read_secret(&mut table, "session_token", sources) {
        parts.push(secret);
    }
    table.finish();
    if !unset.is_empty() {
        return Some(Keys::Off(unset));
    }
    let key = parts.iter().map(|part| part.expose_secret()).collect::<Vec<_>>().join(":");
    Some(Keys::Keys(vec![SecretString::from(key)]))
}

fn read_secret(table: &mut TomlTable<'_, '_>, key: &'static str, sources: &mut Vec<String>) -> Option<Secret> {
    let typed = table.string(key)?;
    sources.extend(text::sources(&typed.value));
    Some(secret_without_colon(table.scope, &table.what(key), &typed))
}

fn secret_without_colon(scope: &ReaderScope<'_>, what: &str, typed: &super::reader::Located<String>) -> Secret {
    match text::secret(scope, what, typed) {
        Secret::Set(secret) if secret.expose_secret().contains(':') => {
            scope.report(
                LocatedProblem::at(typed.offset, format!("{what} has a colon in it")).expected("what AWS gave out"),
            );
            Secret::Bad
        }
        secret => secret,
    }
}

/// `token = { command = […] or file = "…", refresh = "…" }`
fn read_token(table: &mut TomlTable<'_, '_>) -> Option<Keys> {
    const EXPECTED: &str = "command = [\"gcloud\", \"auth\", \"print-access-token\"] or file = \"/run/token\"";
    let name = format!("token of {}", table.name);
    let mut table = table.table("token", name)?;
    let (has_command, has_file) = (table.has("command"), table.has("file"));
    let command = read_command(&mut table);
    let file = table.text("file").map(|text| PathBuf::from(text.value.value));
    let refresh = table.duration("refresh", REFRESH).unwrap_or(REFRESH_UNSAID);
    if has_command == has_file {
        let what = if has_file { "both a command and a file" } else { "neither a command nor a file" };
        let message = format!("{} has {what}", table.name);
        table.scope.report(LocatedProblem::at(table.offset, message).expected(EXPECTED));
    }
    table.finish();
    let source = command.map(CredentialSource::Command).or(file.map(CredentialSource::File))?;
    Some(Keys::Token(Arc::new(Token::new(source, refresh))))
}

fn read_command(table: &mut TomlTable<'_, '_>) -> Option<Vec<String>> {
    let typed = table.strings("command")?;
    let what = table.what("command");
    if typed.is_empty() || typed.len() > WORDS_MAX {
        let expected = format!("a program and its arguments, at most {WORDS_MAX} words");
        table.scope.report(LocatedProblem::at(table.offset, format!("{what} is no command")).expected(expected));
        return None;
    }
    let words: Vec<String> =
        typed.into_iter().filter_map(|word| Some(text::plain(table.scope, &what, word)?.value.value)).collect();
    if words.first().is_some_and(String::is_empty) {
        table.scope.report(LocatedProblem::at(table.offset, format!("{what} names no program")));
        return None;
    }
    Some(words)
}
