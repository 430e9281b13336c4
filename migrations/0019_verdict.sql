-- What `photofinish verify` found about the hosts of a model. No text of a prompt or an answer. docs/quality.md.

CREATE TABLE verdict (
    at INTEGER NOT NULL,            -- microseconds since 1970, UTC; the same for all rows of one call
    model TEXT NOT NULL,            -- as it was asked for
    host TEXT NOT NULL,             -- provider/model
    fact TEXT NOT NULL,
    answer TEXT NOT NULL,           -- yes, no, differs or not said
    reference TEXT NOT NULL,        -- what the reference says; empty: nobody says it
    detail TEXT NOT NULL,           -- figures
    wrong INTEGER NOT NULL,         -- 1: the host does not do what the reference does
    PRIMARY KEY (model, host, fact, at)
) STRICT, WITHOUT ROWID;

-- Answers of `photofinish verify --sample` until its second session: each letter as a number of 16 bits.
CREATE TABLE sample (
    at INTEGER NOT NULL,            -- begin of the session; microseconds since 1970, UTC
    model TEXT NOT NULL,
    host TEXT NOT NULL,
    prompt INTEGER NOT NULL,        -- its place among the prompts
    number INTEGER NOT NULL,
    letters BLOB NOT NULL,
    PRIMARY KEY (model, host, at, prompt, number)
) STRICT, WITHOUT ROWID;
