-- Who asked for a race: a client, a probe or a benchmark; and the runs that made the last two. Rows of older editions are of
-- clients. Columns: docs/measurement.md.

ALTER TABLE race ADD COLUMN source TEXT NOT NULL DEFAULT 'client';
ALTER TABLE race ADD COLUMN run_id TEXT;
ALTER TABLE race ADD COLUMN workload TEXT;
ALTER TABLE race ADD COLUMN scheduled_us INTEGER;

-- Rows of clients are not in it, so it costs them nothing.
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

-- The views that queries know mean clients. Those with _all have every row, and its source.

DROP VIEW attempt_speed;
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

DROP VIEW race_speed;
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

DROP VIEW attempt_cost;
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
