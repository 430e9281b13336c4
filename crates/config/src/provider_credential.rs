//! How a provider's table gives its credential: `api_key`, `aws` or `token`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::keys::{self, PlainText, TableKeys as _, TimeSpan, TypedText, keys, own};
use super::problem::LocatedProblem;
use super::reader::{Located, TomlTable};
use super::text::{self, ExpandedText, Secret};
use super::units::DURATION_MAX;
use super::{CredentialSource, Keys, Token};

/// Keys of a provider.
const KEYS_MAX: usize = 256;
/// Words of a token's command.
const WORDS_MAX: usize = 64;
/// More often would be a busy loop.
const REFRESH: RangeInclusive<Duration> = Duration::from_secs(1)..=DURATION_MAX;

/// The keys, and where those that are set come from: names of variables and files.
pub(super) type Credential = (Keys, Vec<String>);

keys! {
    /// `aws = { … }`: credentials that requests are signed with.
    #[derive(Clone)]
    pub(super) struct AwsKeys {
        /// The id of the access key.
        access_key_id: Option<Located<String>> = TypedText;
        /// The secret of the access key.
        secret_access_key: Option<Located<String>> = TypedText;
        /// The session token of temporary credentials.
        session_token: Option<Located<String>> = TypedText;
    }
}

keys! {
    /// `token = { … }`: a key that changes.
    #[derive(Clone)]
    pub(super) struct TokenKeys {
        /// A program and its arguments, without a shell. Its output is the token.
        command: Option<Vec<String>> = own(read_command, |_| keys::one_or_more(keys::any_text()));
        /// A file with the token.
        file: Option<ExpandedText> = PlainText;
        /// How long a token is used before the next one is read. Most tokens live for an hour.
        refresh: Duration = TimeSpan(REFRESH), or Duration::from_secs(45 * 60);
    }
}

/// `api_key = …`. `None`: the key is absent.
pub(super) fn read_api_key(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Credential> {
    let typed = table.strings(key)?;
    let what = table.what(key);
    if typed.is_empty() {
        let message = format!("{what} is an empty list");
        table.scope.wrong(table.offset, message, "a key, or no \"api_key\" at all");
    }
    if let Some(first) = typed.get(KEYS_MAX) {
        table.scope.report(LocatedProblem::at(first.offset, format!("{what} has more than {KEYS_MAX} keys")));
    }
    let (mut keys, mut unset, mut sources) = (Vec::<SecretString>::new(), Vec::new(), Vec::new());
    for typed in typed.iter().take(KEYS_MAX) {
        match text::secret(table.scope, &what, typed) {
            Secret::Set(key) if keys.iter().any(|other| other.expose_secret() == key.expose_secret()) => {
                table.scope.warn(format!("{what} has the same key twice; it is used once"));
            }
            Secret::Set(key) => {
                keys.push(key);
                sources.extend(text::sources(&typed.value));
            }
            Secret::Unset(names) => unset.extend(names),
            Secret::Bad => {}
        }
    }
    if keys.is_empty() {
        return Some((Keys::Off(unset), sources));
    }
    if !unset.is_empty() {
        table.scope.warn(format!("{what} lacks the key of {}", text::not_set(&unset)));
    }
    Some((Keys::Keys(keys), sources))
}

/// `aws = { … }`, as one key with colons between its parts.
pub(super) fn read_aws(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Credential> {
    let mut table = table.inner(key)?;
    let typed = AwsKeys::read(&mut table, &AwsKeys::default());
    let (mut parts, mut unset, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    for (key, typed) in [("access_key_id", &typed.access_key_id), ("secret_access_key", &typed.secret_access_key)] {
        match read_secret(&table, key, typed.as_ref(), &mut sources) {
            Some(Secret::Set(secret)) => parts.push(secret),
            Some(Secret::Unset(names)) => unset.extend(names),
            Some(Secret::Bad) => {}
            None => {
                let message = format!("{} has no \"{key}\"", table.name);
                table.scope.wrong(table.offset, message, "a variable such as \"${AWS_…}\"");
            }
        }
    }
    // Only temporary credentials have one.
    let session = read_secret(&table, "session_token", typed.session_token.as_ref(), &mut sources);
    if let Some(Secret::Set(secret)) = session {
        parts.push(secret);
    }
    table.finish();
    if !unset.is_empty() {
        return Some((Keys::Off(unset), sources));
    }
    let key = parts.iter().map(|part| part.expose_secret()).collect::<Vec<_>>().join(":");
    Some((Keys::Keys(vec![SecretString::from(key)]), sources))
}

fn read_secret(
    table: &TomlTable<'_, '_>,
    key: &str,
    typed: Option<&Located<String>>,
    sources: &mut Vec<String>,
) -> Option<Secret> {
    let typed = typed?;
    sources.extend(text::sources(&typed.value));
    let what = table.what(key);
    Some(match text::secret(table.scope, &what, typed) {
        Secret::Set(secret) if secret.expose_secret().contains(':') => {
            let problem = LocatedProblem::at(typed.offset, format!("{what} has a colon in it"));
            table.scope.report(problem.expected("the value that AWS issued"));
            Secret::Bad
        }
        secret => secret,
    })
}

/// `token = { command = […] or file = "…", refresh = "…" }`
pub(super) fn read_token(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Credential> {
    const EXPECTED: &str = "command = [\"gcloud\", \"auth\", \"print-access-token\"] or file = \"/run/token\"";
    let mut table = table.inner(key)?;
    let TokenKeys { command, file, refresh } = TokenKeys::read(&mut table, &TokenKeys::default());
    let (has_command, has_file) = (table.has("command"), table.has("file"));
    if has_command == has_file {
        let what = if has_file { "both a command and a file" } else { "neither a command nor a file" };
        let message = format!("{} has {what}", table.name);
        table.scope.wrong(table.offset, message, EXPECTED);
    }
    table.finish();
    let file = file.map(|text| CredentialSource::File(PathBuf::from(text.value)));
    let source = command.map(CredentialSource::Command).or(file)?;
    Some((Keys::Token(Arc::new(Token::new(source, refresh))), Vec::new()))
}

fn read_command(table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<String>> {
    let typed = table.strings(key)?;
    let what = table.what(key);
    if typed.is_empty() || typed.len() > WORDS_MAX {
        let expected = format!("a program and its arguments, at most {WORDS_MAX} words");
        table.scope.wrong(table.offset, format!("{what} is no command"), expected);
        return None;
    }
    let words: Vec<String> =
        typed.into_iter().filter_map(|word| Some(text::plain(table.scope, &what, word)?.value)).collect();
    if words.first().is_some_and(String::is_empty) {
        table.scope.report(LocatedProblem::at(table.offset, format!("{what} names no program")));
        return None;
    }
    Some(words)
}
