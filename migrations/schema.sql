-- What the migrations make of an empty file. Written by a test: see CONTRIBUTING.md.
PRAGMA application_id = 1346916180;

CREATE TABLE race (
    race_id TEXT NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    caller TEXT,
    api TEXT NOT NULL,
    model TEXT NOT NULL,
    stream INTEGER NOT NULL,
    policy TEXT,
    optimise TEXT,
    n_choices INTEGER,
    max_tokens INTEGER,
    has_tools INTEGER NOT NULL,
    input_bytes INTEGER NOT NULL,
    input_tokens_estimate INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    winner INTEGER,
    first_token_sent_us INTEGER,
    done_us INTEGER,
    outcome TEXT NOT NULL,
    http_status INTEGER,
    in_flight INTEGER NOT NULL,
    gateway_version TEXT NOT NULL
, plan TEXT, why TEXT, rescued_by INTEGER, left_out TEXT, source TEXT NOT NULL DEFAULT 'client', run_id TEXT, workload TEXT, scheduled_us INTEGER, p_look REAL, look TEXT, look_out TEXT, team TEXT, caller_key TEXT) STRICT, WITHOUT ROWID;

CREATE INDEX race_started_at ON race (started_at);

CREATE TABLE attempt (
    race_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model_sent TEXT NOT NULL,
    model_reported TEXT,
    dialect TEXT NOT NULL,
    key_id TEXT,
    start_reason TEXT NOT NULL,
    dispatch_us INTEGER NOT NULL,
    p_include REAL,
    p_audit REAL,
    audited INTEGER NOT NULL,
    conn_reused INTEGER,
    http_version TEXT,
    connect_us INTEGER,
    headers_us INTEGER,
    first_byte_us INTEGER,
    first_event_us INTEGER,
    first_token_us INTEGER,
    first_kind TEXT,
    first_answer_us INTEGER,
    second_token_us INTEGER,
    last_token_us INTEGER,
    finish_us INTEGER,
    eof_us INTEGER,
    cancel_us INTEGER,
    ttft_obs_us INTEGER,
    ttft_event INTEGER,
    censor_cause TEXT,
    outcome TEXT NOT NULL,
    http_status INTEGER,
    failure TEXT,
    failure_phase TEXT,
    retry_after_ms INTEGER,
    payload_events INTEGER NOT NULL,
    reasoning_events INTEGER NOT NULL,
    chars_total INTEGER NOT NULL,
    chars_first INTEGER NOT NULL,
    keepalives INTEGER NOT NULL,
    gap_p50_us INTEGER,
    gap_p99_us INTEGER,
    gap_max_us INTEGER,
    burst INTEGER,
    client_stalled INTEGER NOT NULL,
    input_tokens INTEGER,
    cached_input_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    tok_src TEXT NOT NULL,
    finish_reason TEXT,
    server_queue_us INTEGER,
    server_prefill_us INTEGER,
    server_decode_us INTEGER,
    server_total_us INTEGER,
    ratelimit_remaining_requests INTEGER,
    ratelimit_remaining_tokens INTEGER,
    cost_usd REAL,
    cost_basis TEXT NOT NULL,
    in_flight_upstream INTEGER NOT NULL,
    definition_version INTEGER NOT NULL, cost_usd_min REAL, cost_usd_max REAL, price_source TEXT, cache_write_tokens INTEGER, service_tier TEXT, plain INTEGER NOT NULL DEFAULT 0, predicted_us INTEGER, calls TEXT, structured TEXT, tool_set INTEGER,
    PRIMARY KEY (race_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE VIEW upstream_hourly AS
SELECT hour, upstream,
       count(*) AS attempts,
       count(*) FILTER (WHERE outcome = 'won') AS wins,
       count(*) FILTER (WHERE outcome IN ('failed', 'failed_mid', 'timeout', 'refused')) AS failures,
       count(*) FILTER (WHERE outcome = 'empty') AS empty,
       count(*) FILTER (WHERE ttft_event = 0) AS censored,
       count(ttft_ms) AS ttft_samples,
       min(ttft_ms) FILTER (WHERE ttft_rank >= 0.50 * ttft_n) AS ttft_seen_p50_ms,
       min(ttft_ms) FILTER (WHERE ttft_rank >= 0.95 * ttft_n) AS ttft_seen_p95_ms,
       count(tok_s) AS tok_s_samples,
       min(tok_s) FILTER (WHERE tok_s_rank >= 0.50 * tok_s_n) AS tok_s_p50,
       min(tok_s) FILTER (WHERE tok_s_rank >= 0.05 * tok_s_n) AS tok_s_p5
FROM (SELECT *,
             row_number() OVER (PARTITION BY hour, upstream ORDER BY ttft_ms NULLS LAST) AS ttft_rank,
             count(ttft_ms) OVER (PARTITION BY hour, upstream) AS ttft_n,
             row_number() OVER (PARTITION BY hour, upstream ORDER BY tok_s NULLS LAST) AS tok_s_rank,
             count(tok_s) OVER (PARTITION BY hour, upstream) AS tok_s_n
      FROM attempt_speed)
GROUP BY hour, upstream;

CREATE TABLE rollup (
    hours INTEGER NOT NULL,         -- 1 or 24
    start INTEGER NOT NULL,
    provider TEXT NOT NULL,         -- empty: requests that no attempt served, or was started for
    model_sent TEXT NOT NULL,
    model TEXT,
    caller TEXT,
    attempts INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    empty INTEGER NOT NULL,
    censored INTEGER NOT NULL,
    ttft_samples INTEGER NOT NULL,
    cost_usd REAL,
    total BLOB NOT NULL,
    parts BLOB NOT NULL
, cost_usd_min REAL, cost_usd_max REAL, extra_cost_usd_min REAL, extra_cost_usd_max REAL) STRICT;

CREATE INDEX rollup_start ON rollup (hours, start);

CREATE TABLE rollup_span (
    hours INTEGER NOT NULL,
    start INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    batches INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hours, start)
) STRICT, WITHOUT ROWID;

CREATE INDEX rollup_span_due ON rollup_span (hours, start) WHERE state = 0;

CREATE VIEW race_cost AS
SELECT race_id, model, started_at, hour,
       count(*) AS attempts,
       sum(cost_usd_min) AS cost_usd_min,
       CASE WHEN count(cost_usd_max) = count(*) THEN sum(cost_usd_max) END AS cost_usd_max,
       sum(extra) AS losers,
       CASE WHEN sum(extra) = 0 THEN 0.0 ELSE sum(cost_usd_min) FILTER (WHERE extra) END AS extra_cost_usd_min,
       CASE WHEN sum(extra) = 0 THEN 0.0
            WHEN count(cost_usd_max) FILTER (WHERE extra) = sum(extra)
                THEN sum(cost_usd_max) FILTER (WHERE extra) END AS extra_cost_usd_max
FROM attempt_cost
GROUP BY race_id;

CREATE INDEX race_apart ON race (source, race_id) WHERE source <> 'client';

CREATE TABLE run (
    run_id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    label TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    target TEXT NOT NULL,
    spec TEXT NOT NULL,
    machine TEXT,
    trust TEXT,
    cost_usd REAL,
    result TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX run_started_at ON run (started_at);

CREATE VIEW attempt_speed_all AS
SELECT race_id, ordinal, provider, upstream, model, started_at, hour, outcome,
       first_token_us / 1000.0 AS ttft_ms,
       ttft_obs_us / 1000.0 AS ttft_obs_ms,
       ttft_event,
       first_answer_us / 1000.0 AS answer_ttft_ms,
       (last_token_us - start_us) / (n - n_first) / 1000.0 AS tpot_ms,
       (n - n_first) * 1000000.0 / (last_token_us - start_us) AS tok_s,
       CASE WHEN last_token_us > 0 THEN n_out * 1000000.0 / last_token_us END AS e2e_tok_s,
       source
FROM (SELECT *,
             -- Null n_first makes every figure of decoding null.
             CASE WHEN steady AND n >= 2 AND last_token_us > start_us AND n - first_share >= 1 THEN first_share END AS n_first
      FROM (SELECT *, max(1.0, coalesce(n * 1.0 * chars_first / nullif(chars_total, 0), 1.0)) AS first_share
            FROM (SELECT *,
                         n_out - hidden AS n,
                         CASE WHEN hidden > 0 THEN first_answer_us ELSE first_token_us END AS start_us
                  FROM (SELECT attempt.*,
                               attempt.provider || '/' || attempt.model_sent AS upstream,
                               race.model AS model,
                               race.started_at AS started_at,
                               coalesce(race.source, 'client') AS source,
                               strftime('%Y-%m-%dT%H', race.started_at / 1000000, 'unixepoch') AS hour,
                               coalesce(attempt.burst, 0) = 0 AND coalesce(race.n_choices, 1) = 1 AS steady,
                               CASE WHEN attempt.tok_src NOT IN ('usage', 'partial') THEN NULL
                                    WHEN attempt.reasoning_tokens > attempt.output_tokens
                                        THEN attempt.output_tokens + attempt.reasoning_tokens
                                    ELSE attempt.output_tokens END AS n_out,
                               CASE WHEN attempt.reasoning_events = 0
                                        THEN coalesce(attempt.reasoning_tokens, 0) ELSE 0 END AS hidden
                        FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id))));

CREATE VIEW attempt_speed AS
SELECT race_id, ordinal, provider, upstream, model, started_at, hour, outcome, ttft_ms, ttft_obs_ms, ttft_event,
       answer_ttft_ms, tpot_ms, tok_s, e2e_tok_s
FROM attempt_speed_all WHERE source = 'client';

CREATE VIEW race_speed_all AS
SELECT race.race_id, race.model, race.started_at,
       strftime('%Y-%m-%dT%H', race.started_at / 1000000, 'unixepoch') AS hour,
       race.outcome, race.attempts,
       attempt.provider || '/' || attempt.model_sent AS upstream,
       race.first_token_sent_us / 1000.0 AS client_ttft_ms,
       CASE WHEN race.stream = 1
            THEN (race.first_token_sent_us - (attempt.dispatch_us + attempt.first_token_us)) / 1000.0 END AS overhead_ms,
       race.done_us / 1000.0 AS duration_ms,
       race.source
FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id AND attempt.ordinal = race.winner;

CREATE VIEW race_speed AS
SELECT race_id, model, started_at, hour, outcome, attempts, upstream, client_ttft_ms, overhead_ms, duration_ms
FROM race_speed_all WHERE source = 'client';

CREATE VIEW attempt_cost AS
SELECT attempt.race_id, attempt.ordinal, attempt.provider,
       attempt.provider || '/' || attempt.model_sent AS upstream,
       race.model AS model,
       race.started_at AS started_at,
       strftime('%Y-%m-%dT%H', race.started_at / 1000000, 'unixepoch') AS hour,
       attempt.outcome,
       attempt.outcome IN ('lost', 'drained') AS extra,
       attempt.cost_basis,
       CASE attempt.cost_basis
           WHEN 'reported' THEN attempt.cost_usd
           WHEN 'computed' THEN attempt.cost_usd
           WHEN 'at_least' THEN coalesce(attempt.cost_usd_min, attempt.cost_usd)
           WHEN 'at_most' THEN coalesce(attempt.cost_usd_min, attempt.cost_usd * 0.0)
           ELSE attempt.cost_usd_min END AS cost_usd_min,
       CASE attempt.cost_basis
           WHEN 'reported' THEN attempt.cost_usd
           WHEN 'computed' THEN attempt.cost_usd
           WHEN 'at_most' THEN coalesce(attempt.cost_usd_max, attempt.cost_usd)
           ELSE attempt.cost_usd_max END AS cost_usd_max
FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id
WHERE coalesce(race.source, 'client') = 'client';

CREATE INDEX race_look ON race (started_at) WHERE look IS NOT NULL;

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

CREATE INDEX race_not_ok ON race (outcome, race_id) WHERE outcome <> 'ok';

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

CREATE TABLE sample (
    at INTEGER NOT NULL,            -- begin of the session; microseconds since 1970, UTC
    model TEXT NOT NULL,
    host TEXT NOT NULL,
    prompt INTEGER NOT NULL,        -- its place among the prompts
    number INTEGER NOT NULL,
    letters BLOB NOT NULL,
    PRIMARY KEY (model, host, at, prompt, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT max(id) FROM audit) - 1000000
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;

