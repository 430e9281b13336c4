-- The history in Postgres: the tables, columns and views of SQLite's, with two partitions for each UTC day instead of narrow tables.
-- Texts sort by their bytes, as in SQLite. Wide numbers come first: so rows have no gaps.

CREATE SEQUENCE arrival;

CREATE TABLE race (
    race_id uuid NOT NULL,
    started_at bigint NOT NULL,
    input_bytes bigint,
    done_us bigint,
    scheduled_us bigint,
    p_look double precision,
    max_tokens integer,
    input_tokens_estimate integer,
    first_token_sent_us integer,
    in_flight integer,
    stream smallint,
    n_choices smallint,
    has_tools smallint,
    attempts smallint,
    winner smallint,
    http_status smallint,
    rescued_by smallint,
    caller text COLLATE "C",
    api text COLLATE "C",
    model text COLLATE "C" NOT NULL,
    policy text COLLATE "C",
    optimise text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    gateway_version text COLLATE "C",
    plan text COLLATE "C",
    why text COLLATE "C",
    left_out text COLLATE "C",
    source text COLLATE "C",
    run_id text COLLATE "C",
    workload text COLLATE "C",
    look text COLLATE "C",
    look_out text COLLATE "C",
    team text COLLATE "C",
    caller_key text COLLATE "C",
    -- Which gateway wrote it, and its place among all that were written: the others read it by that.
    replica integer,
    arrived bigint NOT NULL DEFAULT nextval('arrival'),
    PRIMARY KEY (race_id)
) PARTITION BY RANGE (race_id);

CREATE TABLE attempt (
    race_id uuid NOT NULL,
    p_include double precision,
    p_audit double precision,
    ratelimit_remaining_tokens bigint,
    cost_usd double precision,
    cost_usd_min double precision,
    cost_usd_max double precision,
    tool_set bigint,
    dispatch_us integer,
    connect_us integer,
    headers_us integer,
    first_byte_us integer,
    first_event_us integer,
    first_token_us integer,
    first_answer_us integer,
    second_token_us integer,
    last_token_us integer,
    finish_us integer,
    eof_us integer,
    cancel_us integer,
    ttft_obs_us integer,
    retry_after_ms integer,
    payload_events integer,
    reasoning_events integer,
    chars_total integer,
    chars_first integer,
    keepalives integer,
    gap_p50_us integer,
    gap_p99_us integer,
    gap_max_us integer,
    input_tokens integer,
    cached_input_tokens integer,
    output_tokens integer,
    reasoning_tokens integer,
    server_queue_us integer,
    server_prefill_us integer,
    server_decode_us integer,
    server_total_us integer,
    ratelimit_remaining_requests integer,
    in_flight_upstream integer,
    cache_write_tokens integer,
    predicted_us integer,
    ordinal smallint NOT NULL,
    audited smallint,
    conn_reused smallint,
    ttft_event smallint,
    http_status smallint,
    burst smallint,
    client_stalled smallint,
    definition_version smallint,
    plain smallint,
    provider text COLLATE "C" NOT NULL,
    model_sent text COLLATE "C" NOT NULL,
    model_reported text COLLATE "C",
    dialect text COLLATE "C",
    key_id text COLLATE "C",
    start_reason text COLLATE "C",
    http_version text COLLATE "C",
    first_kind text COLLATE "C",
    censor_cause text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    failure text COLLATE "C",
    failure_phase text COLLATE "C",
    tok_src text COLLATE "C",
    finish_reason text COLLATE "C",
    cost_basis text COLLATE "C",
    price_source text COLLATE "C",
    service_tier text COLLATE "C",
    calls text COLLATE "C",
    structured text COLLATE "C",
    PRIMARY KEY (race_id, ordinal)
) PARTITION BY RANGE (race_id);

CREATE TABLE run (
    run_id text COLLATE "C" PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    label text COLLATE "C",
    started_at bigint NOT NULL,
    ended_at bigint,
    target text COLLATE "C" NOT NULL,
    spec text COLLATE "C" NOT NULL,
    machine text COLLATE "C",
    trust text COLLATE "C",
    cost_usd double precision,
    result text COLLATE "C"
);

CREATE TABLE incident (
    incident_id text COLLATE "C" PRIMARY KEY,
    upstream text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    began_at bigint NOT NULL,
    ended_at bigint,
    last_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    factor double precision,
    at_least bigint NOT NULL,
    attempts bigint NOT NULL,
    failures bigint NOT NULL,
    refusals bigint NOT NULL,
    usual_share double precision NOT NULL,
    seen bigint NOT NULL,
    expected double precision NOT NULL,
    breaker bigint NOT NULL,
    upstreams bigint NOT NULL,
    part_of text COLLATE "C"
);

CREATE INDEX race_apart ON race (source, race_id) WHERE source <> 'client';

CREATE INDEX race_not_ok ON race (outcome, race_id) WHERE outcome <> 'ok';

CREATE INDEX race_look ON race (started_at) WHERE look IS NOT NULL;

CREATE INDEX race_arrived ON race (replica, arrived) WHERE replica IS NOT NULL;

CREATE INDEX run_started_at ON run (started_at);

CREATE INDEX incident_began_at ON incident (began_at);

-- Rows whose time is far away from that of their writing.
CREATE TABLE stray (
    kind text COLLATE "C" NOT NULL,         -- race or attempt
    race_id text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL,                -- -1 for a race
    content jsonb NOT NULL,
    PRIMARY KEY (kind, race_id, ordinal)
);

CREATE TABLE rollup (
    rowid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hours bigint NOT NULL,                  -- 1 or 24
    start bigint NOT NULL,
    provider text COLLATE "C" NOT NULL,     -- empty: requests that no attempt served, or was started for
    model_sent text COLLATE "C" NOT NULL,
    model text COLLATE "C",
    caller text COLLATE "C",
    attempts bigint NOT NULL,
    wins bigint NOT NULL,
    failures bigint NOT NULL,
    empty bigint NOT NULL,
    censored bigint NOT NULL,
    ttft_samples bigint NOT NULL,
    cost_usd double precision,
    total bytea NOT NULL,
    parts bytea NOT NULL,
    cost_usd_min double precision,
    cost_usd_max double precision,
    extra_cost_usd_min double precision,
    extra_cost_usd_max double precision
);

CREATE INDEX rollup_start ON rollup (hours, start);

CREATE TABLE rollup_span (
    hours bigint NOT NULL,
    start bigint NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    batches bigint NOT NULL DEFAULT 0,
    state bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hours, start)
) WITH (fillfactor = 50);

CREATE TABLE team (
    id text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,                 -- JSON
    version bigint NOT NULL,                -- one more with each change
    changed_at bigint NOT NULL              -- microseconds since 1970, UTC
);

CREATE TABLE account (
    id text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    version bigint NOT NULL,
    changed_at bigint NOT NULL
);

CREATE TABLE key (
    id text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL,
    version bigint NOT NULL,
    changed_at bigint NOT NULL,
    sha256 bytea NOT NULL UNIQUE
);

CREATE TABLE budget_window (
    subject text COLLATE "C" NOT NULL,      -- everybody, team:NAME, user:NAME or key:ID
    span text COLLATE "C" NOT NULL,         -- day or month, UTC
    start bigint NOT NULL,                  -- microseconds since 1970, UTC
    spent bigint NOT NULL,
    reserved bigint NOT NULL,               -- by requests that were running
    estimated bigint NOT NULL,              -- part of spent whose exact cost is not known
    replica integer NOT NULL DEFAULT 0,     -- the gateway that used it; 0: from another database
    PRIMARY KEY (subject, span, start, replica)
);

CREATE INDEX budget_window_start ON budget_window (start);

CREATE TABLE audit (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,                     -- microseconds since 1970, UTC
    who text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,       -- an address, or: command line
    subject text COLLATE "C" NOT NULL,      -- team:NAME, user:NAME or key:ID
    before text,                            -- JSON; null: it was made
    after text                              -- JSON; null: it was removed
);

CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.id <= (SELECT max(id) FROM audit) - 1000000 THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit is append-only';
END $$;

CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();

CREATE TABLE verdict (
    at bigint NOT NULL,                     -- microseconds since 1970, UTC; the same for all rows of one call
    model text COLLATE "C" NOT NULL,        -- as it was asked for
    host text COLLATE "C" NOT NULL,         -- provider/model
    fact text COLLATE "C" NOT NULL,
    answer text COLLATE "C" NOT NULL,       -- yes, no, differs or not said
    reference text COLLATE "C" NOT NULL,    -- what the reference says; empty: nobody says it
    detail text NOT NULL,                   -- figures
    wrong bigint NOT NULL,                  -- 1: the host does not do what the reference does
    PRIMARY KEY (model, host, fact, at)
);

CREATE TABLE sample (
    at bigint NOT NULL,                     -- begin of the session; microseconds since 1970, UTC
    model text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    prompt bigint NOT NULL,                 -- its place among the prompts
    number bigint NOT NULL,
    letters bytea NOT NULL,
    PRIMARY KEY (model, host, at, prompt, number)
);

-- The gateways of this database: one row for each start.
CREATE TABLE replica (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    name text COLLATE "C" NOT NULL,         -- of the machine or container
    version text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,             -- microseconds since 1970, UTC, by the clock of the database
    beat_at bigint NOT NULL,                -- when it told last, by the same clock
    clock_us bigint NOT NULL,               -- how far its own clock is ahead of that
    running bigint NOT NULL,                -- requests
    draining boolean NOT NULL,
    configuration text COLLATE "C" NOT NULL, -- a digest
    uses text NOT NULL                      -- what it uses of limits and upstreams, JSON
) WITH (fillfactor = 50);

-- What one of several gateways does for all.
CREATE TABLE duty (
    name text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,                  -- one more with each other replica
    replica text COLLATE "C" NOT NULL,
    until bigint NOT NULL                   -- microseconds since 1970, UTC, by the clock of the database
);

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
FROM (SELECT *,
             -- Null n_first makes every figure of decoding null.
             CASE WHEN steady AND n >= 2 AND last_token_us > start_us AND n - first_share >= 1 THEN first_share END AS n_first
      FROM (SELECT *, greatest(CAST(1 AS double precision), coalesce(CAST(n AS double precision) * chars_first / nullif(chars_total, 0), 1)) AS first_share
            FROM (SELECT *,
                         n_out - hidden AS n,
                         CASE WHEN hidden > 0 THEN first_answer_us ELSE first_token_us END AS start_us
                  FROM (SELECT attempt.*,
                               attempt.provider || '/' || attempt.model_sent AS upstream,
                               race.model AS model,
                               race.started_at AS started_at,
                               coalesce(race.source, 'client') AS source,
                               to_char(to_timestamp(race.started_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') AS hour,
                               coalesce(attempt.burst, 0) = 0 AND coalesce(race.n_choices, 1) = 1 AS steady,
                               CASE WHEN attempt.tok_src NOT IN ('usage', 'partial') THEN NULL
                                    WHEN attempt.reasoning_tokens > attempt.output_tokens
                                        THEN attempt.output_tokens + attempt.reasoning_tokens
                                    ELSE attempt.output_tokens END AS n_out,
                               CASE WHEN attempt.reasoning_events = 0
                                        THEN coalesce(attempt.reasoning_tokens, 0) ELSE 0 END AS hidden
                        FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id) AS joined) AS counted) AS shared) AS speed;

CREATE VIEW attempt_speed AS
SELECT race_id, ordinal, provider, upstream, model, started_at, hour, outcome, ttft_ms, ttft_obs_ms, ttft_event,
       answer_ttft_ms, tpot_ms, tok_s, e2e_tok_s
FROM attempt_speed_all WHERE source = 'client';

CREATE VIEW race_speed_all AS
SELECT race.race_id, race.model, race.started_at,
       to_char(to_timestamp(race.started_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') AS hour,
       race.outcome, race.attempts,
       attempt.provider || '/' || attempt.model_sent AS upstream,
       CAST(race.first_token_sent_us AS double precision) / 1000 AS client_ttft_ms,
       CASE WHEN race.stream = 1
            THEN CAST(race.first_token_sent_us - (attempt.dispatch_us + attempt.first_token_us) AS double precision) / 1000 END AS overhead_ms,
       CAST(race.done_us AS double precision) / 1000 AS duration_ms,
       race.source
FROM race LEFT JOIN attempt ON attempt.race_id = race.race_id AND attempt.ordinal = race.winner;

CREATE VIEW race_speed AS
SELECT race_id, model, started_at, hour, outcome, attempts, upstream, client_ttft_ms, overhead_ms, duration_ms
FROM race_speed_all WHERE source = 'client';

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
      FROM attempt_speed) AS ranked
GROUP BY hour, upstream;

CREATE VIEW attempt_cost AS
SELECT attempt.race_id, attempt.ordinal, attempt.provider,
       attempt.provider || '/' || attempt.model_sent AS upstream,
       race.model AS model,
       race.started_at AS started_at,
       to_char(to_timestamp(race.started_at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') AS hour,
       attempt.outcome,
       CAST(attempt.outcome IN ('lost', 'drained') AS integer) AS extra,
       attempt.cost_basis,
       CASE attempt.cost_basis
           WHEN 'reported' THEN attempt.cost_usd
           WHEN 'computed' THEN attempt.cost_usd
           WHEN 'at_least' THEN coalesce(attempt.cost_usd_min, attempt.cost_usd)
           WHEN 'at_most' THEN coalesce(attempt.cost_usd_min, attempt.cost_usd * 0)
           ELSE attempt.cost_usd_min END AS cost_usd_min,
       CASE attempt.cost_basis
           WHEN 'reported' THEN attempt.cost_usd
           WHEN 'computed' THEN attempt.cost_usd
           WHEN 'at_most' THEN coalesce(attempt.cost_usd_max, attempt.cost_usd)
           ELSE attempt.cost_usd_max END AS cost_usd_max
FROM attempt LEFT JOIN race ON race.race_id = attempt.race_id
WHERE coalesce(race.source, 'client') = 'client';

CREATE VIEW race_cost AS
SELECT race_id, model, started_at, hour,
       count(*) AS attempts,
       sum(cost_usd_min) AS cost_usd_min,
       CASE WHEN count(cost_usd_max) = count(*) THEN sum(cost_usd_max) END AS cost_usd_max,
       sum(extra) AS losers,
       CASE WHEN sum(extra) = 0 THEN 0 ELSE sum(cost_usd_min) FILTER (WHERE extra = 1) END AS extra_cost_usd_min,
       CASE WHEN sum(extra) = 0 THEN 0
            WHEN count(cost_usd_max) FILTER (WHERE extra = 1) = sum(extra)
                THEN sum(cost_usd_max) FILTER (WHERE extra = 1) END AS extra_cost_usd_max
FROM attempt_cost
GROUP BY race_id, model, started_at, hour;

-- Functions of SQLite, so that the queries of the documentation are the same for both.
CREATE FUNCTION unixepoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
RETURN CAST(floor(extract(epoch FROM now())) AS bigint);

CREATE FUNCTION datetime(at bigint, unit text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN to_char(to_timestamp(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS');

CREATE FUNCTION round(value double precision, digits integer) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CAST(round(CAST(value AS numeric), digits) AS double precision);

CREATE FUNCTION count_true(sum bigint, value boolean) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sum + CASE WHEN value THEN 1 ELSE 0 END;

CREATE AGGREGATE sum(boolean) (SFUNC = count_true, STYPE = bigint, INITCOND = '0', PARALLEL = SAFE, COMBINEFUNC = int8pl);

-- PostgreSQL 18 has these two of its own.
CREATE FUNCTION smaller(a uuid, b uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN a < b THEN a ELSE b END;

CREATE FUNCTION larger(a uuid, b uuid) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN a > b THEN a ELSE b END;

CREATE AGGREGATE min(uuid) (SFUNC = smaller, STYPE = uuid, SORTOP = <, COMBINEFUNC = smaller, PARALLEL = SAFE);

CREATE AGGREGATE max(uuid) (SFUNC = larger, STYPE = uuid, SORTOP = >, COMBINEFUNC = larger, PARALLEL = SAFE);
