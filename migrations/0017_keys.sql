-- Teams, users and keys that are made at run time, what of budgets is used up, and who changed what. docs/keys.md.

CREATE TABLE team (
    id TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL,         -- JSON
    version INTEGER NOT NULL,       -- one more with each change
    changed_at INTEGER NOT NULL     -- microseconds since 1970, UTC
) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    id TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE key (
    id TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    sha256 BLOB NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- Whole nano-dollars: sums are exact.
CREATE TABLE budget_window (
    subject TEXT NOT NULL,          -- everybody, team:NAME, user:NAME or key:ID
    span TEXT NOT NULL,             -- day or month, UTC
    start INTEGER NOT NULL,         -- microseconds since 1970, UTC
    spent INTEGER NOT NULL,
    reserved INTEGER NOT NULL,      -- by requests that were running
    estimated INTEGER NOT NULL,     -- part of spent whose exact cost is not known
    PRIMARY KEY (subject, span, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,            -- microseconds since 1970, UTC
    who TEXT NOT NULL,
    origin TEXT NOT NULL,           -- an address, or: command line
    subject TEXT NOT NULL,          -- team:NAME, user:NAME or key:ID
    before TEXT,                    -- JSON; null: it was made
    after TEXT                      -- JSON; null: it was removed
) STRICT;

CREATE TRIGGER audit_insert BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;

-- Who paid: rows of older editions have neither. Columns: docs/measurement.md.
ALTER TABLE race ADD COLUMN team TEXT;
ALTER TABLE race ADD COLUMN caller_key TEXT;
