//! Teams, users and keys that are made at run time; who changed them; and what of budgets is used up. A change and its line of
//! the audit are one transaction.
//!
//! Not for what settings mean, which are JSON here: see the server's `accounts`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::store::Store;
use crate::store::columns::DAY_US;
use crate::store::database::{AnswerRow, Connection, Result, params};
use crate::store::postgres;
use crate::store::reader::{ReadError, StoreReader};
use crate::store::write::WriteError;
use photofinish_config::names::names;

names! {
    /// What can be made at run time.
    pub enum AccountKind {
        Team = "team",
        User = "user",
        Key = "key",
    }
}

impl AccountKind {
    fn table(self) -> &'static str {
        match self {
            AccountKind::Team => "team",
            // A name that is no function in other databases.
            AccountKind::User => "account",
            AccountKind::Key => "key",
        }
    }

    fn select(self, which: &str) -> String {
        let sha256 = if self == AccountKind::Key { "sha256" } else { "NULL" };
        format!("SELECT id, settings, version, {sha256} FROM {} {which}", self.table())
    }
}

/// A team, a user or a key.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountEntry {
    pub kind: AccountKind,
    /// The name of a team or user; the id of a key.
    pub id: String,
    pub settings: Map<String, Value>,
    /// One more with each change.
    pub version: i64,
    /// Of a key: SHA-256 of its text.
    pub sha256: Option<[u8; 32]>,
}

/// One change.
#[derive(Clone, Debug)]
pub struct AccountChange {
    /// None: it is made.
    pub before: Option<AccountEntry>,
    /// None: it is removed.
    pub after: Option<AccountEntry>,
}

/// Who changes, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub who: String,
    pub origin: String,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It has another version by now, or is there already; its subject.
    #[error("{0} was changed by somebody else in the meantime: look at it again")]
    Conflict(String),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A line of the audit.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditLine {
    pub id: i64,
    /// Microseconds since 1970, UTC.
    pub at: i64,
    pub by: Author,
    pub subject: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// What a changed configuration file did, for a line of the audit.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChange {
    /// `file:KIND:NAME`, or another one that begins with `file:`.
    pub subject: String,
    /// None: it is new.
    pub before: Option<Value>,
    /// None: it is gone.
    pub after: Option<Value>,
}

/// What of a budget is used up; nano-dollars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    /// `everybody`, `team:NAME`, `user:NAME` or `key:ID`.
    pub subject: String,
    /// `day` or `month`.
    pub span: String,
    /// Its begin; microseconds since 1970, UTC.
    pub start: i64,
    pub spent: i64,
    pub reserved: i64,
    pub estimated: i64,
}

impl AccountEntry {
    /// As the audit and messages name it.
    pub fn subject(&self) -> String {
        format!("{}:{}", self.kind.as_str(), self.id)
    }
}

impl Store {
    /// Makes these changes and writes who made them, or does nothing.
    ///
    /// # Errors
    /// One of them is of an older version, or the database cannot be written now.
    pub fn change(&self, changes: &[AccountChange], by: &Author, now_us: i64) -> Result<(), ChangeError> {
        let conflict = self.change_all(|transaction| {
            lock_audit(transaction)?;
            for change in changes {
                if !make(transaction, change, by, now_us)? {
                    return Ok(change.before.as_ref().or(change.after.as_ref()).map(AccountEntry::subject));
                }
            }
            Ok(None)
        })?;
        conflict.map_or(Ok(()), |subject| Err(ChangeError::Conflict(subject)))
    }

    /// Keeps what the issuer may be asked again with about a user, encrypted; none: it may not be asked.
    ///
    /// # Errors
    /// The database cannot be written now.
    pub fn keep_login(&self, name: &str, sealed: Option<&str>) -> Result<(), WriteError> {
        let kept = self.change_all(|transaction| {
            match sealed {
                Some(sealed) => transaction.execute(KEEP_LOGIN, params![name, sealed])?,
                None => transaction.execute("DELETE FROM login WHERE name = ?1", params![name])?,
            };
            Ok(None)
        });
        kept.map(drop)
    }

    /// Keeps a session of the dashboard for all gateways on the database. With too many of them the oldest end.
    ///
    /// # Errors
    /// The database cannot be written now.
    pub fn keep_session(
        &self,
        hash: &[u8; 32],
        (sealed, until_us): (&str, i64),
        now_us: i64,
    ) -> Result<(), WriteError> {
        let kept = self.change_all(|transaction| {
            transaction.execute("DELETE FROM session WHERE until <= ?1", params![now_us])?;
            transaction.execute(END_OLDEST, params![SESSIONS_MAX - 1])?;
            transaction.execute(KEEP_SESSION, params![hash, sealed, until_us])?;
            Ok(None)
        });
        kept.map(drop)
    }

    /// Ends these sessions at all gateways on the database.
    ///
    /// # Errors
    /// The database cannot be written now; then none is.
    pub fn end_sessions(&self, hashes: &[[u8; 32]]) -> Result<(), WriteError> {
        let ended = self.change_all(|transaction| {
            for hash in hashes {
                transaction.execute("DELETE FROM session WHERE hash = ?1", params![hash])?;
            }
            Ok(None)
        });
        ended.map(drop)
    }

    /// Keeps what the audit says about a file that is in force now, and writes what changed since a file of this name was in force last.
    /// `changes` gets what it said then, if there was one.
    ///
    /// # Errors
    /// The database cannot be written now; then no line is, and what changed is found the next time.
    pub fn enter(
        &self,
        (file, content): (&str, &str),
        changes: impl Fn(Option<&str>) -> Vec<FileChange>,
        (by, now_us): (&Author, i64),
    ) -> Result<(), WriteError> {
        let entered = self.change_all(|transaction| {
            lock_audit(transaction)?;
            let before: Option<String> = transaction.find(AUDITED, params![file], |row| row.get(0))?;
            if before.as_deref() == Some(content) {
                return Ok(None);
            }
            for FileChange { subject, before, after } in changes(before.as_deref()) {
                let text = |value: Option<Value>| value.as_ref().map(Value::to_string);
                enter(transaction, (by, now_us), &subject, (text(before).as_deref(), text(after).as_deref()))?;
            }
            transaction.execute(KEEP_AUDITED, params![file, content])?;
            Ok(None)
        });
        entered.map(drop)
    }

    /// Keeps these windows, and removes old ones of the same subjects.
    ///
    /// # Errors
    /// The database cannot be written now; then no window is.
    pub fn save_budgets(&self, rows: &[BudgetRow]) -> Result<(), WriteError> {
        let replica = postgres::number();
        let is_shared = self.address().is_server();
        if is_shared && replica.is_none() {
            return Err(WriteError::early());
        }
        let saved = self.change_all(|transaction| {
            let mut forget = transaction.prepare(FORGET_BUDGETS)?;
            let mut statement = transaction.prepare(if is_shared { SAVE_SHARED_BUDGET } else { SAVE_BUDGET })?;
            for row in rows {
                let BudgetRow { subject, span, start, spent, reserved, estimated } = row;
                forget.execute(params![subject, span, *start - BUDGETS_KEPT_US])?;
                let parameters =
                    params![subject, span, *start, *spent, *reserved, *estimated, i64::from(replica.unwrap_or(0))];
                statement.execute(if is_shared { parameters } else { &parameters[..6] })?;
            }
            Ok(None)
        });
        saved.map(drop)
    }
}

impl StoreReader {
    /// All of this kind.
    ///
    /// # Errors
    /// It takes too long, or the file cannot be read.
    pub fn accounts(&self, kind: AccountKind) -> Result<Vec<AccountEntry>, ReadError> {
        self.ask(|connection| connection.all(&kind.select("ORDER BY id"), &[], |row| entry(kind, row)))
    }

    /// Those of this kind behind an id, at most `limit`, in the order of the ids. Empty: from the first on.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn entries_after(&self, kind: AccountKind, after: &str, limit: usize) -> Result<Vec<AccountEntry>, ReadError> {
        let sql = kind.select("WHERE id > ?1 ORDER BY id LIMIT ?2");
        self.ask(|connection| connection.all(&sql, params![after, limit], |row| entry(kind, row)))
    }

    /// Those of this kind with these ids.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn entries_named(&self, kind: AccountKind, ids: &[&str]) -> Result<Vec<AccountEntry>, ReadError> {
        let (sql, ids) = (kind.select("WHERE id IN (SELECT value FROM json_each(?1))"), json!(ids).to_string());
        self.ask(|connection| connection.all(&sql, params![&ids], |row| entry(kind, row)))
    }

    /// All of this kind that have this text in a member of their settings, in the order of the ids.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn entries_of(&self, kind: AccountKind, member: &str, text: &str) -> Result<Vec<AccountEntry>, ReadError> {
        // Settings are stored as this JSON is written. A member of this name within another one is found too.
        let written = format!("{}:{}", json!(member), json!(text));
        let mut pattern = written.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        pattern = format!("%{pattern}%");
        let sql = kind.select("WHERE settings LIKE ?1 ESCAPE '\\' ORDER BY id");
        let mut found = self.ask(|connection| connection.all(&sql, params![&pattern], |row| entry(kind, row)))?;
        found.retain(|entry| entry.settings.get(member).and_then(Value::as_str) == Some(text));
        Ok(found)
    }

    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn account(&self, kind: AccountKind, id: &str) -> Result<Option<AccountEntry>, ReadError> {
        self.ask(|connection| connection.find(&kind.select("WHERE id = ?1"), params![id], |row| entry(kind, row)))
    }

    /// What the issuer may be asked again with, by user.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn logins(&self) -> Result<BTreeMap<String, String>, ReadError> {
        let all = self.ask(|connection| {
            connection.all("SELECT name, sealed FROM login", &[], |row| Ok((row.get(0)?, row.get(1)?)))
        });
        all.map(|all: Vec<(String, String)>| all.into_iter().collect())
    }

    /// The session with this hash, sealed, and when it ends.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn session(&self, hash: &[u8; 32], now_us: i64) -> Result<Option<(String, i64)>, ReadError> {
        let sql = "SELECT sealed, until FROM session WHERE hash = ?1 AND until > ?2";
        self.ask(|connection| connection.find(sql, params![hash, now_us], |row| Ok((row.get(0)?, row.get(1)?))))
    }

    /// The hashes of all sessions.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn sessions(&self) -> Result<BTreeSet<[u8; 32]>, ReadError> {
        let hash = |row: AnswerRow<'_>| Ok(row.get::<&[u8]>(0)?.try_into().unwrap_or_default());
        let all = self.ask(|connection| connection.all("SELECT hash FROM session", &[], hash));
        all.map(|all: Vec<[u8; 32]>| all.into_iter().collect())
    }

    /// How many of this kind there are.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn account_count(&self, kind: AccountKind) -> Result<u64, ReadError> {
        let sql = format!("SELECT count(*) FROM {}", kind.table());
        self.ask(|connection| connection.one(&sql, &[], |row| row.get(0)))
    }

    /// A number that is another one after each change of teams, users and keys.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn account_changes(&self) -> Result<i64, ReadError> {
        self.ask(|connection| connection.one("SELECT coalesce(max(id), 0) FROM audit", &[], |row| row.get(0)))
    }

    /// What was changed after this number, as subjects. None: many were, by a copy.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn changed_after(&self, number: i64) -> Result<Option<Vec<(AccountKind, String)>>, ReadError> {
        let changed = "SELECT DISTINCT subject FROM audit WHERE id > ?1";
        let subjects: Vec<String> =
            self.ask(|connection| connection.all(changed, params![number], |row| row.get(0)))?;
        // What a file did is in force already.
        let made = subjects.iter().filter(|subject| !subject.starts_with("file:"));
        let changed = made.map(|subject| {
            let (kind, id) = subject.split_once(':')?;
            Some((AccountKind::from_name(kind)?, id.to_owned()))
        });
        Ok(changed.collect())
    }

    /// The newest lines of the audit that are older than `before`, newest first; of one subject.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn audit(&self, subject: Option<&str>, before: Option<i64>, limit: usize) -> Result<Vec<AuditLine>, ReadError> {
        self.ask(|connection| {
            connection.all(AUDIT, params![subject, before.unwrap_or(i64::MAX), limit], |row| {
                Ok(AuditLine {
                    id: row.get(0)?,
                    at: row.get(1)?,
                    by: Author { who: row.get(2)?, origin: row.get(3)? },
                    subject: row.get(4)?,
                    before: row.get::<Option<&str>>(5)?.map(value),
                    after: row.get::<Option<&str>>(6)?.map(value),
                })
            })
        })
    }

    /// Every window that was saved before the start. Of several gateways on one database none takes back what it used before: it counts
    /// with what the others use.
    ///
    /// # Errors
    /// As [`StoreReader::accounts`].
    pub fn budgets(&self) -> Result<Vec<BudgetRow>, ReadError> {
        if self.is_on_server() {
            return Ok(Vec::new());
        }
        self.ask(|connection| {
            connection.all(BUDGETS, &[], |row| {
                Ok(BudgetRow {
                    subject: row.get(0)?,
                    span: row.get(1)?,
                    start: row.get(2)?,
                    spent: row.get(3)?,
                    reserved: row.get(4)?,
                    estimated: row.get(5)?,
                })
            })
        })
    }
}

const KEEP_LOGIN: &str =
    "INSERT INTO login (name, sealed) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed";

/// Sessions of the dashboard over all gateways on a database; the oldest ends for a further one.
const SESSIONS_MAX: i64 = 1_000;

const END_OLDEST: &str =
    "DELETE FROM session WHERE hash IN (SELECT hash FROM session ORDER BY until DESC LIMIT 1000000 OFFSET ?1)";

const KEEP_SESSION: &str =
    "INSERT INTO session (hash, sealed, until) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING";

const AUDITED: &str = "SELECT content FROM audited_file WHERE file = ?1";

const KEEP_AUDITED: &str = "INSERT INTO audited_file (file, content) VALUES (?1, ?2) ON CONFLICT (file) DO UPDATE SET content = excluded.content";

const SAVE_BUDGET: &str = "\
    INSERT INTO budget_window (subject, span, start, spent, reserved, estimated) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
    ON CONFLICT (subject, span, start) DO UPDATE SET spent = excluded.spent, reserved = excluded.reserved, estimated = excluded.estimated";

/// What one of several gateways has used.
const SAVE_SHARED_BUDGET: &str = "\
    INSERT INTO budget_window (subject, span, start, spent, reserved, estimated, replica) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
    ON CONFLICT (subject, span, start, replica) DO UPDATE SET spent = excluded.spent, reserved = excluded.reserved, \
        estimated = excluded.estimated";

/// Windows of a subject that begun so long before its newest are removed.
const BUDGETS_KEPT_US: i64 = 62 * DAY_US;

const FORGET_BUDGETS: &str = "DELETE FROM budget_window WHERE subject = ?1 AND span = ?2 AND start < ?3";

const BUDGETS: &str = "SELECT subject, span, start, spent, reserved, estimated FROM budget_window";

const AUDIT: &str = "\
    SELECT id, at, who, origin, subject, before, after FROM audit \
    WHERE (CAST(?1 AS TEXT) IS NULL OR subject = ?1) AND id < ?2 ORDER BY id DESC LIMIT ?3";

/// Lines of the audit that are kept, the newest. Its triggers let no others be removed.
const LINES_KEPT_MAX: i64 = 1_000_000;

const FORGET_LINES: &str = "DELETE FROM audit WHERE id <= ?1";

const ENTER: &str =
    "INSERT INTO audit (at, who, origin, subject, before, after) VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING id";

/// Whoever looks for changes knows the last number of the audit: a smaller one may not come later. Comes before any change of an account,
/// so that no two wait for each other.
pub(super) fn lock_audit(connection: &Connection<'_>) -> Result<()> {
    connection.lock("audit")
}

/// Teams, users or keys were copied from another database. The audit is locked.
pub(super) fn enter_copy(connection: &Connection<'_>, now_us: i64) -> Result<()> {
    let line = params![now_us, "photofinish copy", "command line", "history:copied", None::<&str>, None::<&str>];
    connection.one(ENTER, line, |_| Ok(()))
}

/// False: the entry is not as `change` expects it.
fn make(connection: &Connection<'_>, change: &AccountChange, by: &Author, now_us: i64) -> Result<bool> {
    let Some(of) = change.before.as_ref().or(change.after.as_ref()) else { return Ok(true) };
    let table = of.kind.table();
    let text = |entry: &Option<AccountEntry>| entry.as_ref().map(|entry| json!(entry.settings).to_string());
    let (before, after) = (text(&change.before), text(&change.after));
    let version = change.before.as_ref().map(|before| before.version);
    let changed = match (version, &change.after) {
        (None, Some(AccountEntry { sha256: Some(sha256), .. })) => {
            let sql = format!(
                "INSERT INTO {table} (id, settings, version, changed_at, sha256) VALUES (?1, ?2, 1, ?3, ?4) ON CONFLICT DO NOTHING"
            );
            connection.execute(&sql, params![&of.id, after.as_deref(), now_us, sha256])?
        }
        (None, _) => {
            let sql = format!(
                "INSERT INTO {table} (id, settings, version, changed_at) VALUES (?1, ?2, 1, ?3) ON CONFLICT DO NOTHING"
            );
            connection.execute(&sql, params![&of.id, after.as_deref(), now_us])?
        }
        (Some(version), Some(_)) => {
            let sql = format!(
                "UPDATE {table} SET settings = ?2, version = version + 1, changed_at = ?3 WHERE id = ?1 AND version = ?4"
            );
            connection.execute(&sql, params![&of.id, after.as_deref(), now_us, version])?
        }
        (Some(version), None) => connection
            .execute(&format!("DELETE FROM {table} WHERE id = ?1 AND version = ?2"), params![&of.id, version])?,
    };
    if changed == 1 {
        let subject = of.subject();
        enter(connection, (by, now_us), &subject, (before.as_deref(), after.as_deref()))?;
    }
    Ok(changed == 1)
}

/// A line of the audit, of which the oldest one is forgotten.
fn enter(
    connection: &Connection<'_>,
    (by, now_us): (&Author, i64),
    subject: &str,
    (before, after): (Option<&str>, Option<&str>),
) -> Result<()> {
    let id: i64 =
        connection.one(ENTER, params![now_us, &by.who, &by.origin, subject, before, after], |row| row.get(0))?;
    connection.execute(FORGET_LINES, params![id - LINES_KEPT_MAX])?;
    Ok(())
}

fn entry(kind: AccountKind, row: AnswerRow<'_>) -> Result<AccountEntry> {
    let settings = match value(row.get(1)?) {
        Value::Object(settings) => settings,
        _ => Map::new(),
    };
    let sha256 = row.get::<Option<&[u8]>>(3)?.and_then(|bytes| bytes.try_into().ok());
    Ok(AccountEntry { kind, id: row.get(0)?, settings, version: row.get(2)?, sha256 })
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
