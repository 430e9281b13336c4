-- Between which bounds an attempt's cost lies. Both are null where its upstream has no price and named no cost, the upper one
-- also where nothing bounds it. Rows of older editions have neither. Columns: docs/measurement.md.

ALTER TABLE attempt ADD COLUMN cost_usd_min REAL;
ALTER TABLE attempt ADD COLUMN cost_usd_max REAL;

ALTER TABLE rollup ADD COLUMN cost_usd_min REAL;
ALTER TABLE rollup ADD COLUMN cost_usd_max REAL;
ALTER TABLE rollup ADD COLUMN extra_cost_usd_min REAL;
ALTER TABLE rollup ADD COLUMN extra_cost_usd_max REAL;

-- One row an attempt, rows of older editions included: what is exact has two bounds that are the same.
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
FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id;

-- One row a race that an attempt was started for. An upper bound is null where one attempt has none; a lower bound where none
-- has a price. extra: of the losers, so what racing cost; 0 where there was none.
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
