-- What is left of attempts when their rows are gone, and what makes long windows quick: one row for each hour (and each
-- day) of every combination of upstream, model and caller. Counts and costs are exact; times are histograms, packed into
-- total, and into parts by input class, concurrency class and streaming. Columns: docs/measurement.md.

CREATE TABLE rollup (
    hours INTEGER NOT NULL,         -- 1 or 24
    start INTEGER NOT NULL,
    provider TEXT NOT NULL,         -- empty: requests that no attempt served, or was started for
    model_sent TEXT NOT NULL,
    model TEXT,
    user TEXT,
    attempts INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    empty INTEGER NOT NULL,
    censored INTEGER NOT NULL,
    ttft_samples INTEGER NOT NULL,
    cost_usd REAL,
    total BLOB NOT NULL,
    parts BLOB NOT NULL
) STRICT;

CREATE INDEX rollup_start ON rollup (hours, start);

-- Which hours and days are rolled up. state: 0 not (or no longer, since a row came late), 1 rolled up, 2 rolled up and
-- its rows removed, or being removed. batches counts those that brought rows: a roll-up during which one came is not kept.
CREATE TABLE rollup_span (
    hours INTEGER NOT NULL,
    start INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    batches INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hours, start)
) STRICT, WITHOUT ROWID;

CREATE INDEX rollup_span_due ON rollup_span (hours, start) WHERE state = 0;
