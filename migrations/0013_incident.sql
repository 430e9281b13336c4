-- Stretches of time in which an upstream failed or was slow. Columns: docs/measurement.md.

CREATE TABLE incident (
    incident_id TEXT NOT NULL PRIMARY KEY,
    upstream TEXT,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER,
    last_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    factor REAL,
    at_least INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    refusals INTEGER NOT NULL,
    usual_share REAL NOT NULL,
    seen INTEGER NOT NULL,
    expected REAL NOT NULL,
    breaker INTEGER NOT NULL,
    upstreams INTEGER NOT NULL,
    part_of TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX incident_began_at ON incident (began_at);
