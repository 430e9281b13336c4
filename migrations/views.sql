-- The figures as views over `race` and `attempt`, the same in SQLite and in Postgres. Those with _all have every row, the others those of clients.

-- One row an attempt. TTFT is null where no token was seen: then ttft_obs_ms (with ttft_event = 0) says how long none had been seen, and must
-- not be left out of a quantile.
--
-- TPOT = (last_token - start) / (n - n_first); tok/s = 1 / TPOT. n is the provider's own count, without reasoning that was not streamed; then
-- start is the first answer instead of the first token. n_first is what the first event held, by its share of the characters, at least one.
-- Null for: fewer than 2 tokens (or than 1 after the first event), no time between them, a burst, several choices, a count that is not the
-- provider's. e2e_tok_s is all output tokens over dispatch to last token.
CREATE VIEW attempt_speed_all AS
SELECT race_id, ordinal, provider, upstream, model, started_at, hour, outcome,
       CAST(first_token_us AS double precision) / 1000 AS ttft_ms,
       CAST(ttft_obs_us AS double precision) / 1000 AS ttft_obs_ms,
       ttft_event,
       CAST(first_answer_us AS double precision) / 1000 AS answer_ttft_ms,
       (last_token_us - start_us) / (n - n_first) / 1000 AS tpot_ms,
       (n - n_first) * 1000000 / (last_token_us - start_us) AS tok_s,
       CASE WHEN last_token_us > 0 THEN CAST(n_out AS double precision) * 1000000 / last_token_us END AS e2e_tok_s,
       source
FROM (SELECT *, -- Null n_first makes every figure of decoding null.
             CASE WHEN steady AND n >= 2 AND last_token_us > start_us AND n - share >= 1
                  THEN CASE WHEN share > 1 THEN share ELSE 1.0 END END AS n_first
      FROM (SELECT *, coalesce(CAST(n AS double precision) * chars_first / nullif(chars_total, 0), 1.0) AS share
            FROM (SELECT *, n_out - hidden AS n, CASE WHEN hidden > 0 THEN first_answer_us ELSE first_token_us END AS start_us
                  FROM (SELECT attempt.*, attempt.provider || '/' || attempt.model_sent AS upstream, race.model, race.started_at,
                               coalesce(race.source, 'client') AS source,
                               replace(substr(datetime(race.started_at / 1000000, 'unixepoch'), 1, 13), ' ', 'T') AS hour,
                               coalesce(attempt.burst, 0) = 0 AND coalesce(race.n_choices, 1) = 1 AS steady,
                               CASE WHEN attempt.tok_src IN ('usage', 'partial') THEN attempt.output_tokens END AS n_out,
                               CASE WHEN attempt.reasoning_events = 0 THEN coalesce(attempt.reasoning_tokens, 0) ELSE 0 END AS hidden
                        FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id) AS joined) AS counted) AS shared) AS speed;

CREATE VIEW attempt_speed AS
SELECT race_id, ordinal, provider, upstream, model, started_at, hour, outcome, ttft_ms, ttft_obs_ms, ttft_event, answer_ttft_ms, tpot_ms,
       tok_s, e2e_tok_s
FROM attempt_speed_all WHERE source = 'client';

-- One row a race. overhead_ms is what the gateway itself added before the client's first token; null for a client that did not ask to stream,
-- which gets its first byte when the answer is complete.
CREATE VIEW race_speed_all AS
SELECT race.race_id, race.model, race.started_at,
       replace(substr(datetime(race.started_at / 1000000, 'unixepoch'), 1, 13), ' ', 'T') AS hour,
       race.outcome, race.attempts, attempt.provider || '/' || attempt.model_sent AS upstream,
       CAST(race.first_token_sent_us AS double precision) / 1000 AS client_ttft_ms,
       CASE WHEN race.stream = 1
            THEN CAST(race.first_token_sent_us - (attempt.dispatch_us + attempt.first_token_us) AS double precision) / 1000 END AS overhead_ms,
       CAST(race.done_us AS double precision) / 1000 AS duration_ms, race.source
FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id AND attempt.ordinal = race.winner;

CREATE VIEW race_speed AS
SELECT race_id, model, started_at, hour, outcome, attempts, upstream, client_ttft_ms, overhead_ms, duration_ms
FROM race_speed_all WHERE source = 'client';

-- For a quick look: counts and plain quantiles (the smallest value that at least that share of the values does not exceed), per upstream and
-- hour of the race's start. The TTFT quantiles are of the attempts whose first token was seen and so are too LOW wherever censored > 0;
-- `photofinish stats` estimates them with the censored ones.
CREATE VIEW upstream_hourly AS
SELECT hour, upstream, count(*) AS attempts,
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
FROM (SELECT *, row_number() OVER (PARTITION BY hour, upstream ORDER BY ttft_ms NULLS LAST) AS ttft_rank,
             count(ttft_ms) OVER (PARTITION BY hour, upstream) AS ttft_n,
             row_number() OVER (PARTITION BY hour, upstream ORDER BY tok_s NULLS LAST) AS tok_s_rank,
             count(tok_s) OVER (PARTITION BY hour, upstream) AS tok_s_n
      FROM attempt_speed) AS ranked
GROUP BY hour, upstream;

-- One row an attempt of a client. extra: it was not the answer, so it is what racing cost. Of a request that nobody answered a failed attempt
-- is none, and neither is the first of those that ended with it.
CREATE VIEW attempt_cost AS
SELECT attempt.race_id, attempt.ordinal, attempt.provider, attempt.provider || '/' || attempt.model_sent AS upstream, race.model,
       race.started_at, replace(substr(datetime(race.started_at / 1000000, 'unixepoch'), 1, 13), ' ', 'T') AS hour, attempt.outcome,
       CASE WHEN attempt.outcome = 'drained' THEN 1
            WHEN attempt.ordinal IN (race.winner, race.rescued_by) THEN 0
            WHEN attempt.outcome = 'lost' OR race.winner IS NOT NULL OR race.rescued_by IS NOT NULL THEN 1
            WHEN attempt.outcome IN ('client_gone', 'shutdown', 'shed') AND EXISTS (
                SELECT 1 FROM attempt AS before WHERE before.race_id = attempt.race_id AND before.ordinal < attempt.ordinal
                    AND before.outcome IN ('client_gone', 'shutdown', 'shed')) THEN 1
            ELSE 0 END AS extra,
       attempt.cost_usd_min, attempt.cost_usd_max
FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id
WHERE coalesce(race.source, 'client') = 'client';

-- One row a race of a client that an attempt was started for. An upper bound is null where one attempt has none; a lower bound where none
-- has a price. extra: of the attempts that were not the answer, so what racing cost; 0 where there was none.
CREATE VIEW race_cost AS
SELECT race_id, model, started_at, hour, count(*) AS attempts,
       sum(cost_usd_min) AS cost_usd_min,
       CASE WHEN count(cost_usd_max) = count(*) THEN sum(cost_usd_max) END AS cost_usd_max,
       sum(extra) AS extra_attempts,
       CASE WHEN sum(extra) = 0 THEN 0.0 ELSE sum(cost_usd_min) FILTER (WHERE extra = 1) END AS extra_cost_usd_min,
       CASE WHEN sum(extra) = 0 THEN 0.0
            WHEN count(cost_usd_max) FILTER (WHERE extra = 1) = sum(extra) THEN sum(cost_usd_max) FILTER (WHERE extra = 1) END
           AS extra_cost_usd_max
FROM attempt_cost
GROUP BY race_id, model, started_at, hour;
