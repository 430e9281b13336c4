-- The history in Postgres: the tables, columns and views of SQLite's (../0001_initial.sql says what they are), with two partitions for each UTC
-- day instead of narrow tables. Texts sort by their bytes, as in SQLite. Wide numbers come first: so rows have no gaps. ../views.sql follows.

CREATE SEQUENCE arrival;

-- replica, arrived: which gateway wrote it, and its place among all that were written: the others read it by that.
CREATE TABLE race (
    race_id uuid NOT NULL, started_at bigint NOT NULL, input_bytes bigint, done_us bigint, scheduled_us bigint, session bigint, p_look double precision,
    max_tokens integer, input_tokens_estimate integer, first_token_sent_us integer, in_flight integer, stream smallint, n_choices smallint,
    has_tools smallint, attempts smallint, winner smallint, http_status smallint, rescued_by smallint, caller text COLLATE "C",
    api text COLLATE "C", model text COLLATE "C" NOT NULL, policy text COLLATE "C", optimise text COLLATE "C", outcome text COLLATE "C" NOT NULL,
    gateway_version text COLLATE "C", plan text COLLATE "C", why text COLLATE "C", left_out text COLLATE "C", source text COLLATE "C",
    run_id text COLLATE "C", workload text COLLATE "C", look text COLLATE "C", look_out text COLLATE "C", team text COLLATE "C",
    caller_key text COLLATE "C", tags text COLLATE "C", replica integer, arrived bigint NOT NULL DEFAULT nextval('arrival'), PRIMARY KEY (race_id)
) PARTITION BY RANGE (race_id);
CREATE INDEX race_apart ON race (source, race_id) WHERE source <> 'client';
CREATE INDEX race_not_ok ON race (outcome, race_id) WHERE outcome <> 'ok';
CREATE INDEX race_look ON race (started_at) WHERE look IS NOT NULL;
CREATE INDEX race_arrived ON race (replica, arrived) WHERE replica IS NOT NULL;

CREATE TABLE attempt (
    race_id uuid NOT NULL, p_include double precision, p_audit double precision, ratelimit_remaining_tokens bigint,
    cost_usd_min double precision, cost_usd_max double precision, tool_set bigint, dispatch_us integer, connect_us integer, headers_us integer,
    first_byte_us integer, first_event_us integer, first_token_us integer, first_answer_us integer, second_token_us integer,
    last_token_us integer, finish_us integer, eof_us integer, cancel_us integer, ttft_obs_us integer, retry_after_ms integer,
    payload_events integer, reasoning_events integer, chars_total integer, chars_first integer, keepalives integer, gap_p50_us integer,
    gap_p95_us integer, gap_p99_us integer, gap_max_us integer, input_tokens integer, cached_input_tokens integer, output_tokens integer,
    reasoning_tokens integer, server_queue_us integer, server_prefill_us integer, server_decode_us integer, server_total_us integer, ratelimit_remaining_requests integer,
    in_flight_upstream integer, cache_write_tokens integer, predicted_us integer, ordinal smallint NOT NULL, audited smallint,
    conn_reused smallint, ttft_event smallint, http_status smallint, burst smallint, client_stalled smallint, definition_version smallint,
    plain smallint, provider text COLLATE "C" NOT NULL, model_sent text COLLATE "C" NOT NULL, model_reported text COLLATE "C",
    dialect text COLLATE "C", key_id text COLLATE "C", start_reason text COLLATE "C", http_version text COLLATE "C", first_kind text COLLATE "C",
    censor_cause text COLLATE "C", outcome text COLLATE "C" NOT NULL, failure text COLLATE "C", failure_phase text COLLATE "C",
    tok_src text COLLATE "C", finish_reason text COLLATE "C", price_source text COLLATE "C", service_tier text COLLATE "C",
    calls text COLLATE "C", structured text COLLATE "C", response_id text COLLATE "C", PRIMARY KEY (race_id, ordinal)
) PARTITION BY RANGE (race_id);

CREATE TABLE run (
    run_id text COLLATE "C" PRIMARY KEY, kind text COLLATE "C" NOT NULL, label text COLLATE "C", started_at bigint NOT NULL, ended_at bigint,
    target text COLLATE "C" NOT NULL, spec text COLLATE "C" NOT NULL, machine text COLLATE "C", trust text COLLATE "C",
    cost_usd_min double precision, cost_usd_max double precision, result text COLLATE "C"
);
CREATE INDEX run_started_at ON run (started_at);

CREATE TABLE incident (
    incident_id text COLLATE "C" PRIMARY KEY, upstream text COLLATE "C", kind text COLLATE "C" NOT NULL, state text COLLATE "C" NOT NULL,
    began_at bigint NOT NULL, ended_at bigint, last_at bigint NOT NULL, updated_at bigint NOT NULL, factor double precision,
    at_least bigint NOT NULL, attempts bigint NOT NULL, failures bigint NOT NULL, refusals bigint NOT NULL,
    usual_share double precision NOT NULL, seen bigint NOT NULL, expected double precision NOT NULL, breaker bigint NOT NULL,
    upstreams bigint NOT NULL, part_of text COLLATE "C", broke bigint NOT NULL, saved bigint NOT NULL,
    lost bigint NOT NULL, traffic text COLLATE "C", callers bigint NOT NULL
);
CREATE INDEX incident_began_at ON incident (began_at);

-- Rows whose time is far away from that of their writing.
CREATE TABLE stray (
    kind text COLLATE "C" NOT NULL,         -- race or attempt
    race_id text COLLATE "C" NOT NULL,
    ordinal bigint NOT NULL,                -- -1 for a race
    content jsonb NOT NULL, PRIMARY KEY (kind, race_id, ordinal)
);

CREATE TABLE rollup (
    rowid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, hours bigint NOT NULL, start bigint NOT NULL, provider text COLLATE "C" NOT NULL,
    model_sent text COLLATE "C" NOT NULL, model text COLLATE "C", caller text COLLATE "C", team text COLLATE "C",
    caller_key text COLLATE "C", tags text COLLATE "C", attempts bigint NOT NULL, wins bigint NOT NULL,
    failures bigint NOT NULL, empty bigint NOT NULL, censored bigint NOT NULL, ttft_samples bigint NOT NULL, total bytea NOT NULL,
    parts bytea NOT NULL, cost_usd_min double precision, cost_usd_max double precision, extra_cost_usd_min double precision,
    extra_cost_usd_max double precision
);
CREATE INDEX rollup_start ON rollup (hours, start);

CREATE TABLE rollup_span (
    hours bigint NOT NULL, start bigint NOT NULL, attempts bigint NOT NULL DEFAULT 0, batches bigint NOT NULL DEFAULT 0,
    state bigint NOT NULL DEFAULT 0, PRIMARY KEY (hours, start)
) WITH (fillfactor = 50);

CREATE TABLE team (
    id text COLLATE "C" PRIMARY KEY, settings text NOT NULL, version bigint NOT NULL, changed_at bigint NOT NULL
);
CREATE TABLE account (
    id text COLLATE "C" PRIMARY KEY, settings text NOT NULL, version bigint NOT NULL, changed_at bigint NOT NULL
);
CREATE TABLE key (
    id text COLLATE "C" PRIMARY KEY, settings text NOT NULL, version bigint NOT NULL, changed_at bigint NOT NULL, sha256 bytea NOT NULL UNIQUE
);

CREATE TABLE login (name text COLLATE "C" PRIMARY KEY, sealed text NOT NULL);
CREATE TABLE session (hash bytea PRIMARY KEY, sealed text NOT NULL, until bigint NOT NULL);

-- replica: the gateway that used it; 0: from another database.
CREATE TABLE budget_window (
    subject text COLLATE "C" NOT NULL, span text COLLATE "C" NOT NULL, start bigint NOT NULL, spent bigint NOT NULL, reserved bigint NOT NULL,
    estimated bigint NOT NULL, replica integer NOT NULL DEFAULT 0, PRIMARY KEY (subject, span, start, replica)
);
CREATE INDEX budget_window_start ON budget_window (start);

CREATE TABLE audit (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, at bigint NOT NULL, who text COLLATE "C" NOT NULL, origin text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL, before text, after text
);
CREATE TABLE audited_file (file text COLLATE "C" PRIMARY KEY, content text NOT NULL);
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.id <= (SELECT max(id) FROM audit) - 1000000 THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'audit is append-only';
END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();

CREATE TABLE verdict (
    at bigint NOT NULL, model text COLLATE "C" NOT NULL, host text COLLATE "C" NOT NULL, fact text COLLATE "C" NOT NULL,
    answer text COLLATE "C" NOT NULL, reference text COLLATE "C" NOT NULL, detail text NOT NULL, wrong bigint NOT NULL,
    PRIMARY KEY (model, host, fact, at)
);

CREATE TABLE sample (
    at bigint NOT NULL, model text COLLATE "C" NOT NULL, host text COLLATE "C" NOT NULL, prompt bigint NOT NULL, number bigint NOT NULL,
    letters bytea NOT NULL, PRIMARY KEY (model, host, at, prompt, number)
);

-- The gateways of this database: one row for each start. Times are microseconds since 1970, UTC, by the clock of the database.
CREATE TABLE replica (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    name text COLLATE "C" NOT NULL,         -- of the machine or container
    version text COLLATE "C" NOT NULL,
    started_at bigint NOT NULL,
    beat_at bigint NOT NULL,                -- when it told last
    clock_us bigint NOT NULL,               -- how far its own clock is ahead
    running bigint NOT NULL,                -- requests
    draining boolean NOT NULL,
    configuration text COLLATE "C" NOT NULL, -- a digest
    uses text NOT NULL                      -- what it uses of limits and upstreams, JSON
) WITH (fillfactor = 50);

-- What one of several gateways does for all, until then. epoch: one more with each other replica.
CREATE TABLE duty (
    name text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL, replica text COLLATE "C" NOT NULL, until bigint NOT NULL
);

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
