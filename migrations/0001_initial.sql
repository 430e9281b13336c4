-- The history in SQLite. Columns: docs/measurement.md; docs/keys.md has accounts, docs/quality.md verdicts. views.sql follows.

PRAGMA application_id = 1346916180; -- "PHOT": how photofinish knows its own file

-- Races and attempts as they are stored; the views race and attempt below say what each value means. A name is a number of the table name, or a
-- text. A value that most rows have is null. The columns are in the order of how often they have a value: nulls at the end of a row take no space.
--
-- race_id is a UUID v7, whose text sorts by time, and both tables are clustered by it: rows are appended, and a range of race_id is a range of
-- time that reads nothing else. No foreign key: an attempt may be written before its race is.

CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE race_row (
    race_id TEXT NOT NULL, started_at INTEGER NOT NULL, model ANY NOT NULL, outcome ANY NOT NULL, api ANY NOT NULL, policy ANY, optimise ANY,
    input_bytes INTEGER NOT NULL, attempts INTEGER NOT NULL, in_flight INTEGER NOT NULL, gateway_version ANY NOT NULL, plan ANY, why ANY,
    done_us INTEGER, winner INTEGER, first_token_sent_us INTEGER, caller ANY, max_tokens INTEGER, p_look REAL, stream INTEGER, n_choices INTEGER,
    has_tools INTEGER, input_tokens_estimate INTEGER, http_status INTEGER, rescued_by INTEGER, left_out ANY, source TEXT, run_id TEXT,
    workload ANY, scheduled_us INTEGER, look TEXT, look_out TEXT, team ANY, caller_key ANY, tags TEXT, session INTEGER, PRIMARY KEY (race_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt_row (
    race_id TEXT NOT NULL, ordinal INTEGER NOT NULL, provider ANY NOT NULL, model_sent ANY NOT NULL, outcome ANY NOT NULL,
    start_reason ANY NOT NULL, dialect ANY NOT NULL, dispatch_us INTEGER NOT NULL, p_audit REAL, conn_reused INTEGER, http_version ANY,
    connect_us INTEGER, headers_us INTEGER, first_byte_us INTEGER, tok_src ANY NOT NULL, cost_usd_min REAL, price_source ANY,
    in_flight_upstream INTEGER NOT NULL, predicted_us INTEGER, cancel_us INTEGER, ttft_obs_us INTEGER, ttft_event INTEGER, censor_cause ANY,
    cost_usd_max REAL, first_token_us INTEGER, first_kind ANY, second_token_us INTEGER, last_token_us INTEGER, finish_us INTEGER, eof_us INTEGER,
    payload_events INTEGER, chars_total INTEGER, chars_first INTEGER, gap_p50_us INTEGER, gap_p95_us INTEGER, gap_p99_us INTEGER, gap_max_us INTEGER,
    burst INTEGER, input_tokens INTEGER, output_tokens INTEGER, finish_reason ANY, key_id ANY, response_id TEXT, model_reported ANY,
    p_include REAL, audited INTEGER, first_event_us INTEGER, first_answer_us INTEGER, http_status INTEGER, failure ANY, failure_phase ANY, retry_after_ms INTEGER,
    reasoning_events INTEGER, keepalives INTEGER, client_stalled INTEGER, cached_input_tokens INTEGER, reasoning_tokens INTEGER,
    server_queue_us INTEGER, server_prefill_us INTEGER, server_decode_us INTEGER, server_total_us INTEGER, ratelimit_remaining_requests INTEGER,
    ratelimit_remaining_tokens INTEGER, definition_version INTEGER, cache_write_tokens INTEGER, service_tier ANY, plain INTEGER, calls ANY,
    structured ANY, tool_set INTEGER, PRIMARY KEY (race_id, ordinal)
) STRICT, WITHOUT ROWID;

-- By what the views compute, with COLLATE BINARY behind it, as questions to the views have it: else no question would find it.
CREATE INDEX race_row_apart ON race_row (coalesce(source, 'client'), race_id) WHERE coalesce(source, 'client') COLLATE BINARY <> 'client';
CREATE INDEX race_row_not_ok ON race_row (CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected'
        WHEN 5 THEN 'shutdown' ELSE outcome END, race_id)
    WHERE CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown'
        ELSE outcome END COLLATE BINARY <> 'ok';
CREATE INDEX race_row_look ON race_row (started_at) WHERE look IS NOT NULL;

CREATE VIEW race AS
SELECT race_id, started_at, CASE WHEN caller < '' THEN (SELECT text FROM name WHERE id = caller) ELSE caller END AS caller,
       CASE WHEN api < '' THEN (SELECT text FROM name WHERE id = api) ELSE api END AS api,
       CASE WHEN model < '' THEN (SELECT text FROM name WHERE id = model) ELSE model END AS model, coalesce(stream, 1) AS stream,
       CASE policy WHEN 1 THEN 'adaptive' WHEN 2 THEN 'race' WHEN 3 THEN 'hedge' WHEN 4 THEN 'fallback' WHEN 5 THEN 'weighted' ELSE policy
           END AS policy,
       CASE optimise WHEN 1 THEN 'auto' WHEN 2 THEN 'ttft' WHEN 3 THEN 'completion' WHEN 4 THEN 'goodput' ELSE optimise END AS optimise,
       n_choices, max_tokens, coalesce(has_tools, 0) AS has_tools, input_bytes,
       coalesce(input_tokens_estimate, input_bytes / 4) AS input_tokens_estimate, attempts, winner, first_token_sent_us, done_us,
       CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown'
           ELSE outcome END AS outcome,
       nullif(coalesce(http_status, 200), -1) AS http_status, in_flight,
       CASE WHEN gateway_version < '' THEN (SELECT text FROM name WHERE id = gateway_version) ELSE gateway_version END AS gateway_version,
       CASE WHEN plan < '' THEN (SELECT text FROM name WHERE id = plan) ELSE plan END AS plan,
       CASE WHEN why < '' THEN (SELECT text FROM name WHERE id = why) ELSE why END AS why, rescued_by,
       CASE WHEN left_out < '' THEN (SELECT text FROM name WHERE id = left_out) ELSE left_out END AS left_out,
       coalesce(source, 'client') AS source, run_id,
       CASE WHEN workload < '' THEN (SELECT text FROM name WHERE id = workload) ELSE workload END AS workload, scheduled_us,
       CASE WHEN p_look > 1.0 THEN 1.0 / p_look ELSE p_look END AS p_look, look, look_out,
       CASE WHEN team < '' THEN (SELECT text FROM name WHERE id = team) ELSE team END AS team,
       CASE WHEN caller_key < '' THEN (SELECT text FROM name WHERE id = caller_key) ELSE caller_key END AS caller_key, tags,
       session
FROM race_row;

CREATE VIEW attempt AS
SELECT race_id, ordinal, CASE WHEN provider < '' THEN (SELECT text FROM name WHERE id = provider) ELSE provider END AS provider,
       CASE WHEN model_sent < '' THEN (SELECT text FROM name WHERE id = model_sent) ELSE model_sent END AS model_sent,
       CASE WHEN coalesce(model_reported, model_sent) < '' THEN (SELECT text FROM name WHERE id = coalesce(model_reported, model_sent))
           ELSE coalesce(model_reported, model_sent) END AS model_reported,
       CASE dialect WHEN 1 THEN 'openai' WHEN 2 THEN 'responses' WHEN 3 THEN 'anthropic' WHEN 4 THEN 'gemini' WHEN 5 THEN 'bedrock'
           WHEN 6 THEN 'ollama' ELSE dialect END AS dialect,
       CASE WHEN key_id < '' THEN (SELECT text FROM name WHERE id = key_id) ELSE key_id END AS key_id,
       CASE start_reason WHEN 1 THEN 'first' WHEN 2 THEN 'hedge' WHEN 3 THEN 'fallback' WHEN 4 THEN 'retry' WHEN 5 THEN 'rescue'
           ELSE start_reason END AS start_reason,
       dispatch_us, nullif(coalesce(p_include, 1.0), -1) AS p_include, CASE WHEN p_audit > 1.0 THEN 1.0 / p_audit ELSE p_audit END AS p_audit,
       coalesce(audited, 0) AS audited, conn_reused, CASE http_version WHEN 1 THEN '1.1' WHEN 2 THEN '2' ELSE http_version END AS http_version,
       connect_us, headers_us, first_byte_us, nullif(coalesce(first_event_us, first_byte_us), -1) AS first_event_us, first_token_us,
       CASE first_kind WHEN 1 THEN 'text' WHEN 2 THEN 'reasoning' WHEN 3 THEN 'tool' WHEN 4 THEN 'refusal' WHEN 5 THEN 'audio'
           WHEN 6 THEN 'image' WHEN 7 THEN 'whole' ELSE first_kind END AS first_kind,
       nullif(coalesce(first_answer_us, first_token_us), -1) AS first_answer_us, second_token_us, last_token_us, finish_us, eof_us, cancel_us,
       nullif(coalesce(ttft_obs_us, first_token_us), -1) AS ttft_obs_us, nullif(coalesce(ttft_event, 1), -1) AS ttft_event,
       CASE censor_cause WHEN 1 THEN 'lost' WHEN 2 THEN 'client_gone' WHEN 3 THEN 'timeout' WHEN 4 THEN 'shutdown' ELSE censor_cause
           END AS censor_cause,
       CASE outcome WHEN 1 THEN 'won' WHEN 2 THEN 'lost' WHEN 3 THEN 'drained' WHEN 4 THEN 'failed' WHEN 5 THEN 'failed_mid'
           WHEN 6 THEN 'empty' WHEN 7 THEN 'refused' WHEN 8 THEN 'timeout' WHEN 9 THEN 'client_gone' WHEN 10 THEN 'shutdown' WHEN 11 THEN 'shed'
           ELSE outcome END AS outcome,
       nullif(coalesce(http_status, 200), -1) AS http_status,
       CASE WHEN failure < '' THEN (SELECT text FROM name WHERE id = failure) ELSE failure END AS failure,
       CASE WHEN failure_phase < '' THEN (SELECT text FROM name WHERE id = failure_phase) ELSE failure_phase END AS failure_phase,
       retry_after_ms, coalesce(payload_events, 0) AS payload_events, coalesce(reasoning_events, 0) AS reasoning_events,
       coalesce(chars_total, 0) AS chars_total, coalesce(chars_first, 0) AS chars_first, coalesce(keepalives, 0) AS keepalives, gap_p50_us,
       gap_p95_us, gap_p99_us, gap_max_us, burst, coalesce(client_stalled, 0) AS client_stalled, input_tokens, cached_input_tokens, output_tokens,
       reasoning_tokens,
       CASE tok_src WHEN 1 THEN 'usage' WHEN 2 THEN 'partial' WHEN 3 THEN 'none' WHEN 4 THEN 'tokenizer' WHEN 5 THEN 'chars'
           WHEN 6 THEN 'events' ELSE tok_src END AS tok_src,
       CASE WHEN finish_reason < '' THEN (SELECT text FROM name WHERE id = finish_reason) ELSE finish_reason END AS finish_reason,
       server_queue_us, server_prefill_us, server_decode_us, server_total_us, ratelimit_remaining_requests, ratelimit_remaining_tokens,
       in_flight_upstream, coalesce(definition_version, 1) AS definition_version,
       CASE WHEN cost_usd_min < -1.0 THEN cost_usd_min / -1e10 ELSE cost_usd_min END AS cost_usd_min,
       CASE WHEN coalesce(cost_usd_max, cost_usd_min) < -1.0 THEN coalesce(cost_usd_max, cost_usd_min) / -1e10
           ELSE nullif(coalesce(cost_usd_max, cost_usd_min), -1) END AS cost_usd_max,
       CASE WHEN price_source < '' THEN (SELECT text FROM name WHERE id = price_source) ELSE price_source END AS price_source,
       cache_write_tokens,
       CASE WHEN service_tier < '' THEN (SELECT text FROM name WHERE id = service_tier) ELSE service_tier END AS service_tier,
       coalesce(plain, 0) AS plain, predicted_us, CASE WHEN calls < '' THEN (SELECT text FROM name WHERE id = calls) ELSE calls END AS calls,
       CASE WHEN structured < '' THEN (SELECT text FROM name WHERE id = structured) ELSE structured END AS structured, tool_set,
       response_id
FROM attempt_row;

CREATE TABLE run (
    run_id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, label TEXT, started_at INTEGER NOT NULL, ended_at INTEGER, target TEXT NOT NULL,
    spec TEXT NOT NULL, machine TEXT, trust TEXT, cost_usd_min REAL, cost_usd_max REAL, result TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX run_started_at ON run (started_at);

CREATE TABLE incident (
    incident_id TEXT NOT NULL PRIMARY KEY, upstream TEXT, kind TEXT NOT NULL, state TEXT NOT NULL, began_at INTEGER NOT NULL, ended_at INTEGER,
    last_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, factor REAL, at_least INTEGER NOT NULL, attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL, refusals INTEGER NOT NULL, usual_share REAL NOT NULL, seen INTEGER NOT NULL, expected REAL NOT NULL,
    breaker INTEGER NOT NULL, upstreams INTEGER NOT NULL, part_of TEXT, broke INTEGER NOT NULL, saved INTEGER NOT NULL,
    lost INTEGER NOT NULL, traffic TEXT, callers INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX incident_began_at ON incident (began_at);

-- What is left of attempts when their rows are gone, and what makes long windows quick: one row for each hour (and each day) of every
-- combination of upstream, model and caller. Counts and costs are exact; times are histograms, packed into total, and into parts by input
-- class, concurrency class and streaming.
CREATE TABLE rollup (
    hours INTEGER NOT NULL,         -- 1 or 24
    start INTEGER NOT NULL,
    provider TEXT NOT NULL,         -- empty: requests that no attempt served, or was started for
    model_sent TEXT NOT NULL, model TEXT, caller TEXT, team TEXT, caller_key TEXT, tags TEXT, attempts INTEGER NOT NULL, wins INTEGER NOT NULL, failures INTEGER NOT NULL,
    empty INTEGER NOT NULL, censored INTEGER NOT NULL, ttft_samples INTEGER NOT NULL, cost_usd_min REAL, cost_usd_max REAL,
    extra_cost_usd_min REAL, extra_cost_usd_max REAL, total BLOB NOT NULL, parts BLOB NOT NULL
) STRICT;
CREATE INDEX rollup_start ON rollup (hours, start);

-- Which hours and days are rolled up. state: 0 not (or no longer, since a row came late), 1 rolled up, 2 rolled up and its rows removed, or
-- being removed. batches counts those that brought rows: a roll-up during which one came is not kept.
CREATE TABLE rollup_span (
    hours INTEGER NOT NULL, start INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, batches INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (hours, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollup_span_due ON rollup_span (hours, start) WHERE state = 0;

-- Teams, users and keys that are made at run time. settings: JSON; version: one more with each change; changed_at: microseconds since 1970, UTC.
CREATE TABLE team (
    id TEXT NOT NULL PRIMARY KEY, settings TEXT NOT NULL, version INTEGER NOT NULL, changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE account (
    id TEXT NOT NULL PRIMARY KEY, settings TEXT NOT NULL, version INTEGER NOT NULL, changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE key (
    id TEXT NOT NULL PRIMARY KEY, settings TEXT NOT NULL, version INTEGER NOT NULL, changed_at INTEGER NOT NULL, sha256 BLOB NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- What the issuer may be asked again with, of users who logged in there: encrypted.
CREATE TABLE login (name TEXT NOT NULL PRIMARY KEY, sealed TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- Sessions of the dashboard, by the hash of their secret: encrypted with it. until: microseconds since 1970, UTC.
CREATE TABLE session (hash BLOB NOT NULL PRIMARY KEY, sealed TEXT NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- What of budgets is used up. Whole nano-dollars: sums are exact.
CREATE TABLE budget_window (
    subject TEXT NOT NULL,          -- everybody, team:NAME, user:NAME or key:ID
    span TEXT NOT NULL,             -- day or month, UTC
    start INTEGER NOT NULL,         -- microseconds since 1970, UTC
    spent INTEGER NOT NULL,
    reserved INTEGER NOT NULL,      -- by requests that were running
    estimated INTEGER NOT NULL,     -- part of spent whose exact cost is not known
    PRIMARY KEY (subject, span, start)
) STRICT, WITHOUT ROWID;

-- Who changed what. Lines before the newest 1,000,000 may go, and no others.
CREATE TABLE audit (
    id INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,            -- microseconds since 1970, UTC
    who TEXT NOT NULL,
    origin TEXT NOT NULL,           -- an address, or: command line
    subject TEXT NOT NULL,          -- team:NAME, user:NAME or key:ID
    before TEXT, after TEXT         -- JSON; null: it was made, it was removed
) STRICT;
CREATE TRIGGER audit_insert BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT max(id) FROM audit) - 1000000
BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END;

-- What the audit says about a configuration file, as it was in force last: JSON.
CREATE TABLE audited_file (file TEXT NOT NULL PRIMARY KEY, content TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- What `photofinish verify` found about the hosts of a model. No text of a prompt or an answer.
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

-- Answers of `photofinish verify --sample` until its second session: each letter as a number of 16 bits. at: begin of the session; prompt: its
-- place among the prompts.
CREATE TABLE sample (
    at INTEGER NOT NULL, model TEXT NOT NULL, host TEXT NOT NULL, prompt INTEGER NOT NULL, number INTEGER NOT NULL, letters BLOB NOT NULL,
    PRIMARY KEY (model, host, at, prompt, number)
) STRICT, WITHOUT ROWID;
