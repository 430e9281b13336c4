-- One row for every client request (race) and one for every attempt that was started for it (attempt): raw facts only.
-- The figures (TTFT, TPOT, tok/s) are views, so that a definition can be corrected later. Columns: docs/measurement.md.
--
-- race_id is a UUID v7, whose text sorts by time, and both tables are clustered by it: rows are appended, and a range of
-- race_id is a range of time that reads nothing else. The one index beside is for people who ask by started_at. No foreign
-- key: an attempt may be written before its race is.

PRAGMA application_id = 1346916180; -- "PHOT": how photofinish knows its own file

CREATE TABLE race (
    race_id TEXT NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    user TEXT,
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
) STRICT, WITHOUT ROWID;

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
    definition_version INTEGER NOT NULL,
    PRIMARY KEY (race_id, ordinal)
) STRICT, WITHOUT ROWID;

-- One row an attempt. TTFT is null where no token was seen: then ttft_obs_ms (with ttft_event = 0) says how long none
-- had been seen, and must not be left out of a quantile.
--
-- TPOT = (last_token - start) / (n - n_first); tok/s = 1 / TPOT. n is the provider's own count: reasoning tokens that
-- exceed output_tokens are not among them, so they are added; reasoning that was counted but not streamed is taken out,
-- and start is then the first answer instead of the first token. n_first is what the first event held, by its share of
-- the characters, at least one token.
-- Null for: fewer than 2 tokens (or than 1 after the first event), no time between them, a burst, several choices, a
-- count that is not the provider's. e2e_tok_s is all output tokens over dispatch to last token.
CREATE VIEW attempt_speed AS
SELECT race_id, ordinal, provider, upstream, model, started_at, hour, outcome,
       first_token_us / 1000.0 AS ttft_ms,
       ttft_obs_us / 1000.0 AS ttft_obs_ms,
       ttft_event,
       first_answer_us / 1000.0 AS answer_ttft_ms,
       (last_token_us - start_us) / (n - n_first) / 1000.0 AS tpot_ms,
       (n - n_first) * 1000000.0 / (last_token_us - start_us) AS tok_s,
       CASE WHEN last_token_us > 0 THEN n_out * 1000000.0 / last_token_us END AS e2e_tok_s
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
                               strftime('%Y-%m-%dT%H', race.started_at / 1000000, 'unixepoch') AS hour,
                               coalesce(attempt.burst, 0) = 0 AND coalesce(race.n_choices, 1) = 1 AS steady,
                               CASE WHEN attempt.tok_src NOT IN ('usage', 'partial') THEN NULL
                                    WHEN attempt.reasoning_tokens > attempt.output_tokens
                                        THEN attempt.output_tokens + attempt.reasoning_tokens
                                    ELSE attempt.output_tokens END AS n_out,
                               CASE WHEN attempt.reasoning_events = 0
                                        THEN coalesce(attempt.reasoning_tokens, 0) ELSE 0 END AS hidden
                        FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id))));

-- One row a race. overhead_ms is what the gateway itself added before the client's first token; null for a client that
-- did not ask to stream, which gets its first byte when the answer is complete.
CREATE VIEW race_speed AS
SELECT race.race_id, race.model, race.started_at,
       strftime('%Y-%m-%dT%H', race.started_at / 1000000, 'unixepoch') AS hour,
       race.outcome, race.attempts,
       attempt.provider || '/' || attempt.model_sent AS upstream,
       race.first_token_sent_us / 1000.0 AS client_ttft_ms,
       CASE WHEN race.stream = 1
            THEN (race.first_token_sent_us - (attempt.dispatch_us + attempt.first_token_us)) / 1000.0 END AS overhead_ms,
       race.done_us / 1000.0 AS duration_ms
FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id AND attempt.ordinal = race.winner;

-- For a quick look: counts and plain quantiles (the smallest value that at least that share of the values does not
-- exceed), per upstream and hour of the race's start. The TTFT quantiles are of the attempts whose first token was seen
-- and so are too LOW wherever censored > 0; `photofinish stats` estimates them with the censored ones.
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
