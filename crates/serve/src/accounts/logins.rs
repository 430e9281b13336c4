//! Users who come from the issuer of `[oidc]`: what it says of them is an entry in the store, like that of any user made at run time, so
//! that keys, limits and every gateway on the database follow it.
//!
//! Not for asking the issuer: see `login`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::refusal::AccountRefusal::{self, Conflict};
use super::settings::{SAID_AT, SUBJECT, UNTIL, login_of, role_of};
use super::{AccountKeeper, take_over};
use photofinish_base::clock::wall_micros;
use photofinish_base::printable::quoted;
use photofinish_history::report::question::time;
use photofinish_history::store::{AccountChange, AccountEntry, AccountKind, Author, Store, StoreReader};
use photofinish_routing::callers::{IssuerWord, UNCONFIRMED_US};

/// What the issuer may be asked again with.
#[derive(Clone, Debug)]
pub enum AskAgain {
    /// As before: the word came in a token.
    AsKnown,
    /// With this, encrypted.
    With(String),
    /// With nothing, any more or at all: the login ends by itself.
    Never,
    /// Not now, since the configuration has no login any more: likewise, unless it has one again.
    Later,
}

/// A user who came by a login.
pub struct KnownLogin {
    pub word: IssuerWord,
    /// What the issuer may be asked again with. None: unknown.
    pub sealed: Option<String>,
    /// It ends by itself.
    pub ends: bool,
}

impl AccountKeeper {
    /// Takes over what the issuer says of a user. In force when it returns. Blocks.
    ///
    /// # Errors
    /// The name is of another user, or the store cannot be read or written.
    pub fn take_word(&self, word: &IssuerWord, again: &AskAgain, issuer: &str) -> Result<(), AccountRefusal> {
        let live = self.gateway.live();
        let IssuerWord { name, subject, issued_at_us, place, .. } = word;
        let taken =
            || Conflict(format!("the name {} is of another user here: an admin can remove that one", quoted(name)));
        if live.config.users.iter().any(|user| user.name == *name) {
            return Err(taken());
        }
        let state = self.state();
        let store = &self.store;
        store.is_open().then_some(()).map_or_else(|| Store::open(store.address()).map(|opened| opened.close()), Ok)?;
        let before = StoreReader::open(store.address())?.account(AccountKind::User, name)?;
        let known = before.as_ref().map(|entry| login_of(&entry.settings));
        if known.as_ref().is_some_and(|login| login.as_ref().is_none_or(|login| login.subject != *subject)) {
            return Err(taken());
        }
        let is_asked_again = known.flatten().is_some_and(|login| login.until_us.is_none());
        let now_us = wall_micros();
        let later = Some(now_us + UNCONFIRMED_US);
        // When the login ends, and with what the issuer may be asked again from now on, if that is new.
        let (until, kept) = match again {
            _ if place.is_none() => (Some(now_us), Some(None)),
            AskAgain::With(sealed) => (None, Some(Some(sealed.as_str()))),
            AskAgain::Never => (later, Some(None)),
            AskAgain::AsKnown if is_asked_again => (None, None),
            AskAgain::AsKnown | AskAgain::Later => (later, None),
        };
        let mut settings = before.as_ref().map(|entry| entry.settings.clone()).unwrap_or_default();
        if let Some((role, team)) = place {
            put(&mut settings, "role", Some(json!(role.as_str())));
            put(&mut settings, "team", team.as_ref().map(|team| json!(team)));
        }
        put(&mut settings, SUBJECT, Some(json!(subject)));
        put(&mut settings, UNTIL, until.map(|until| json!(time(until))));
        let kept = kept.map_or(Ok(()), |sealed| store.keep_login(name, sealed));
        kept.map_err(|error| AccountRefusal::Away(error.to_string()))?;
        if before.as_ref().is_some_and(|entry| entry.settings == settings) {
            return Ok(());
        }
        put(&mut settings, SAID_AT, Some(json!(time(*issued_at_us))));
        let version = before.as_ref().map_or(1, |entry| entry.version + 1);
        let after = AccountEntry { kind: AccountKind::User, id: name.clone(), settings, version, sha256: None };
        let changes = [AccountChange { before, after: Some(after) }];
        let by = Author { who: "the issuer".to_owned(), origin: issuer.to_owned() };
        store.change(&changes, &by, now_us)?;
        if state.seen.is_some() {
            self.gateway.change_made(|made| take_over(made, &changes));
        }
        Ok(())
    }

    /// The users who come from the issuer and may be asked about again. Blocks.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn logins(&self) -> Result<Vec<KnownLogin>, AccountRefusal> {
        let reader = StoreReader::open(self.store.address())?;
        let mut kept = reader.logins()?;
        let entries = reader.accounts(AccountKind::User)?.into_iter().filter_map(|entry| {
            let login = login_of(&entry.settings)?;
            let sealed = kept.remove(&entry.id);
            let ends = login.until_us.is_some();
            if ends && sealed.is_none() {
                return None;
            }
            let team = entry.settings.get("team").and_then(Value::as_str).map(str::to_owned);
            let place = Some((role_of(&entry.settings), team));
            let word = IssuerWord {
                name: entry.id,
                subject: login.subject,
                issued_at_us: login.as_of_us,
                place,
                names_groups: true,
            };
            Some(KnownLogin { word, sealed, ends })
        });
        Ok(entries.collect())
    }

    /// [`AccountKeeper::take_word`] on a thread for it.
    ///
    /// # Errors
    /// As there.
    pub async fn take_word_aside(
        self: &Arc<AccountKeeper>,
        word: IssuerWord,
        again: AskAgain,
        issuer: String,
    ) -> Result<(), AccountRefusal> {
        let keeper = self.clone();
        let taken = self.gateway.shutdown().run_blocking(move || keeper.take_word(&word, &again, &issuer)).await;
        taken.unwrap_or_else(|_| Err(AccountRefusal::Away("the gateway stops".to_owned())))
    }
}

fn put(settings: &mut Map<String, Value>, member: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(settings.insert(member.to_owned(), value)),
        None => drop(settings.remove(member)),
    }
}
