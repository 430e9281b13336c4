-- Narrow rows. `race` and `attempt` become views over these tables, once their rows have been moved: see narrow.sql, which is run then.
--
-- A name is a number of the table `name`, or a text. A value that most rows have is null. The order of the columns is that of how often they
-- have a value, because the nulls at the end of a row take no space. The views say what each value means.

CREATE TABLE name (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE race_row (
    race_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    model ANY NOT NULL,
    outcome ANY NOT NULL,
    api ANY NOT NULL,
    policy ANY,
    optimise ANY,
    input_bytes INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    in_flight INTEGER NOT NULL,
    gateway_version ANY NOT NULL,
    plan ANY,
    why ANY,
    done_us INTEGER,
    winner INTEGER,
    first_token_sent_us INTEGER,
    caller ANY,
    max_tokens INTEGER,
    p_look REAL,
    stream INTEGER,
    n_choices INTEGER,
    has_tools INTEGER,
    input_tokens_estimate INTEGER,
    http_status INTEGER,
    rescued_by INTEGER,
    left_out ANY,
    source TEXT,
    run_id TEXT,
    workload ANY,
    scheduled_us INTEGER,
    look TEXT,
    look_out TEXT,
    team ANY,
    caller_key ANY,
    PRIMARY KEY (race_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt_row (
    race_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    provider ANY NOT NULL,
    model_sent ANY NOT NULL,
    outcome ANY NOT NULL,
    start_reason ANY NOT NULL,
    dialect ANY NOT NULL,
    dispatch_us INTEGER NOT NULL,
    p_audit REAL,
    conn_reused INTEGER,
    http_version ANY,
    connect_us INTEGER,
    headers_us INTEGER,
    first_byte_us INTEGER,
    tok_src ANY NOT NULL,
    cost_basis ANY NOT NULL,
    cost_usd REAL,
    price_source ANY,
    in_flight_upstream INTEGER NOT NULL,
    predicted_us INTEGER,
    cancel_us INTEGER,
    ttft_obs_us INTEGER,
    ttft_event INTEGER,
    censor_cause ANY,
    cost_usd_max REAL,
    first_token_us INTEGER,
    first_kind ANY,
    second_token_us INTEGER,
    last_token_us INTEGER,
    finish_us INTEGER,
    eof_us INTEGER,
    payload_events INTEGER,
    chars_total INTEGER,
    chars_first INTEGER,
    gap_p50_us INTEGER,
    gap_p99_us INTEGER,
    gap_max_us INTEGER,
    burst INTEGER,
    input_tokens INTEGER,
    output_tokens INTEGER,
    finish_reason ANY,
    key_id ANY,
    model_reported ANY,
    p_include REAL,
    audited INTEGER,
    first_event_us INTEGER,
    first_answer_us INTEGER,
    http_status INTEGER,
    failure ANY,
    failure_phase ANY,
    retry_after_ms INTEGER,
    reasoning_events INTEGER,
    keepalives INTEGER,
    client_stalled INTEGER,
    cached_input_tokens INTEGER,
    reasoning_tokens INTEGER,
    server_queue_us INTEGER,
    server_prefill_us INTEGER,
    server_decode_us INTEGER,
    server_total_us INTEGER,
    ratelimit_remaining_requests INTEGER,
    ratelimit_remaining_tokens INTEGER,
    definition_version INTEGER,
    cost_usd_min REAL,
    cache_write_tokens INTEGER,
    service_tier ANY,
    plain INTEGER,
    calls ANY,
    structured ANY,
    tool_set INTEGER,
    PRIMARY KEY (race_id, ordinal)
) STRICT, WITHOUT ROWID;

-- By what the views compute, so that questions to them find it.
CREATE INDEX race_row_apart ON race_row (coalesce(source, 'client'), race_id) WHERE coalesce(source, 'client') <> 'client';
CREATE INDEX race_row_not_ok ON race_row (CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown' ELSE outcome END, race_id) WHERE CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown' ELSE outcome END <> 'ok';
CREATE INDEX race_row_look ON race_row (started_at) WHERE look IS NOT NULL;

-- The rows of races up to this one have been moved.
CREATE TABLE moved (race_id TEXT NOT NULL) STRICT;
INSERT INTO moved VALUES ('');

-- Until all have been moved, what is written to `race` and `attempt` comes here too.
CREATE TRIGGER race_comes AFTER INSERT ON race BEGIN
    INSERT OR IGNORE INTO race_row (
        race_id, started_at, caller, api, model, stream, policy, optimise, n_choices, max_tokens, has_tools, input_bytes,
        input_tokens_estimate, attempts, winner, first_token_sent_us, done_us, outcome, http_status, in_flight, gateway_version,
        plan, why, rescued_by, left_out, source, run_id, workload, scheduled_us, p_look, look, look_out, team, caller_key)
    VALUES (
        NEW.race_id, NEW.started_at, NEW.caller, NEW.api, NEW.model, NEW.stream, NEW.policy, NEW.optimise, NEW.n_choices,
        NEW.max_tokens, NEW.has_tools, NEW.input_bytes, NEW.input_tokens_estimate, NEW.attempts, NEW.winner,
        NEW.first_token_sent_us, NEW.done_us, NEW.outcome, ifnull(NEW.http_status, -1), NEW.in_flight, NEW.gateway_version,
        NEW.plan, NEW.why, NEW.rescued_by, NEW.left_out, NEW.source, NEW.run_id, NEW.workload, NEW.scheduled_us, NEW.p_look,
        NEW.look, NEW.look_out, NEW.team, NEW.caller_key);
END;

CREATE TRIGGER race_changes AFTER UPDATE ON race BEGIN
    DELETE FROM race_row WHERE race_id = OLD.race_id;
    INSERT INTO race_row (
        race_id, started_at, caller, api, model, stream, policy, optimise, n_choices, max_tokens, has_tools, input_bytes,
        input_tokens_estimate, attempts, winner, first_token_sent_us, done_us, outcome, http_status, in_flight, gateway_version,
        plan, why, rescued_by, left_out, source, run_id, workload, scheduled_us, p_look, look, look_out, team, caller_key)
    VALUES (
        NEW.race_id, NEW.started_at, NEW.caller, NEW.api, NEW.model, NEW.stream, NEW.policy, NEW.optimise, NEW.n_choices,
        NEW.max_tokens, NEW.has_tools, NEW.input_bytes, NEW.input_tokens_estimate, NEW.attempts, NEW.winner,
        NEW.first_token_sent_us, NEW.done_us, NEW.outcome, ifnull(NEW.http_status, -1), NEW.in_flight, NEW.gateway_version,
        NEW.plan, NEW.why, NEW.rescued_by, NEW.left_out, NEW.source, NEW.run_id, NEW.workload, NEW.scheduled_us, NEW.p_look,
        NEW.look, NEW.look_out, NEW.team, NEW.caller_key);
END;

CREATE TRIGGER race_goes AFTER DELETE ON race BEGIN
    DELETE FROM race_row WHERE race_id = OLD.race_id;
END;

CREATE TRIGGER attempt_comes AFTER INSERT ON attempt BEGIN
    INSERT OR IGNORE INTO attempt_row (
        race_id, ordinal, provider, model_sent, model_reported, dialect, key_id, start_reason, dispatch_us, p_include, p_audit,
        audited, conn_reused, http_version, connect_us, headers_us, first_byte_us, first_event_us, first_token_us, first_kind,
        first_answer_us, second_token_us, last_token_us, finish_us, eof_us, cancel_us, ttft_obs_us, ttft_event, censor_cause,
        outcome, http_status, failure, failure_phase, retry_after_ms, payload_events, reasoning_events, chars_total, chars_first,
        keepalives, gap_p50_us, gap_p99_us, gap_max_us, burst, client_stalled, input_tokens, cached_input_tokens, output_tokens,
        reasoning_tokens, tok_src, finish_reason, server_queue_us, server_prefill_us, server_decode_us, server_total_us,
        ratelimit_remaining_requests, ratelimit_remaining_tokens, cost_usd, cost_basis, in_flight_upstream, definition_version,
        cost_usd_min, cost_usd_max, price_source, cache_write_tokens, service_tier, plain, predicted_us, calls, structured,
        tool_set)
    VALUES (
        NEW.race_id, NEW.ordinal, NEW.provider, NEW.model_sent, ifnull(NEW.model_reported, 0), NEW.dialect, NEW.key_id,
        NEW.start_reason, NEW.dispatch_us, ifnull(NEW.p_include, -1), NEW.p_audit, NEW.audited, NEW.conn_reused, NEW.http_version,
        NEW.connect_us, NEW.headers_us, NEW.first_byte_us, ifnull(NEW.first_event_us, -1), NEW.first_token_us, NEW.first_kind,
        ifnull(NEW.first_answer_us, -1), NEW.second_token_us, NEW.last_token_us, NEW.finish_us, NEW.eof_us, NEW.cancel_us,
        ifnull(NEW.ttft_obs_us, -1), ifnull(NEW.ttft_event, -1), NEW.censor_cause, NEW.outcome, ifnull(NEW.http_status, -1),
        NEW.failure, NEW.failure_phase, NEW.retry_after_ms, NEW.payload_events, NEW.reasoning_events, NEW.chars_total,
        NEW.chars_first, NEW.keepalives, NEW.gap_p50_us, NEW.gap_p99_us, NEW.gap_max_us, NEW.burst, NEW.client_stalled,
        NEW.input_tokens, NEW.cached_input_tokens, NEW.output_tokens, NEW.reasoning_tokens, NEW.tok_src, NEW.finish_reason,
        NEW.server_queue_us, NEW.server_prefill_us, NEW.server_decode_us, NEW.server_total_us, NEW.ratelimit_remaining_requests,
        NEW.ratelimit_remaining_tokens, NEW.cost_usd, NEW.cost_basis, NEW.in_flight_upstream, NEW.definition_version,
        ifnull(NEW.cost_usd_min, -1), ifnull(NEW.cost_usd_max, -1), NEW.price_source, NEW.cache_write_tokens, NEW.service_tier,
        NEW.plain, NEW.predicted_us, NEW.calls, NEW.structured, NEW.tool_set);
END;

CREATE TRIGGER attempt_changes AFTER UPDATE ON attempt BEGIN
    DELETE FROM attempt_row WHERE race_id = OLD.race_id AND ordinal = OLD.ordinal;
    INSERT INTO attempt_row (
        race_id, ordinal, provider, model_sent, model_reported, dialect, key_id, start_reason, dispatch_us, p_include, p_audit,
        audited, conn_reused, http_version, connect_us, headers_us, first_byte_us, first_event_us, first_token_us, first_kind,
        first_answer_us, second_token_us, last_token_us, finish_us, eof_us, cancel_us, ttft_obs_us, ttft_event, censor_cause,
        outcome, http_status, failure, failure_phase, retry_after_ms, payload_events, reasoning_events, chars_total, chars_first,
        keepalives, gap_p50_us, gap_p99_us, gap_max_us, burst, client_stalled, input_tokens, cached_input_tokens, output_tokens,
        reasoning_tokens, tok_src, finish_reason, server_queue_us, server_prefill_us, server_decode_us, server_total_us,
        ratelimit_remaining_requests, ratelimit_remaining_tokens, cost_usd, cost_basis, in_flight_upstream, definition_version,
        cost_usd_min, cost_usd_max, price_source, cache_write_tokens, service_tier, plain, predicted_us, calls, structured,
        tool_set)
    VALUES (
        NEW.race_id, NEW.ordinal, NEW.provider, NEW.model_sent, ifnull(NEW.model_reported, 0), NEW.dialect, NEW.key_id,
        NEW.start_reason, NEW.dispatch_us, ifnull(NEW.p_include, -1), NEW.p_audit, NEW.audited, NEW.conn_reused, NEW.http_version,
        NEW.connect_us, NEW.headers_us, NEW.first_byte_us, ifnull(NEW.first_event_us, -1), NEW.first_token_us, NEW.first_kind,
        ifnull(NEW.first_answer_us, -1), NEW.second_token_us, NEW.last_token_us, NEW.finish_us, NEW.eof_us, NEW.cancel_us,
        ifnull(NEW.ttft_obs_us, -1), ifnull(NEW.ttft_event, -1), NEW.censor_cause, NEW.outcome, ifnull(NEW.http_status, -1),
        NEW.failure, NEW.failure_phase, NEW.retry_after_ms, NEW.payload_events, NEW.reasoning_events, NEW.chars_total,
        NEW.chars_first, NEW.keepalives, NEW.gap_p50_us, NEW.gap_p99_us, NEW.gap_max_us, NEW.burst, NEW.client_stalled,
        NEW.input_tokens, NEW.cached_input_tokens, NEW.output_tokens, NEW.reasoning_tokens, NEW.tok_src, NEW.finish_reason,
        NEW.server_queue_us, NEW.server_prefill_us, NEW.server_decode_us, NEW.server_total_us, NEW.ratelimit_remaining_requests,
        NEW.ratelimit_remaining_tokens, NEW.cost_usd, NEW.cost_basis, NEW.in_flight_upstream, NEW.definition_version,
        ifnull(NEW.cost_usd_min, -1), ifnull(NEW.cost_usd_max, -1), NEW.price_source, NEW.cache_write_tokens, NEW.service_tier,
        NEW.plain, NEW.predicted_us, NEW.calls, NEW.structured, NEW.tool_set);
END;

CREATE TRIGGER attempt_goes AFTER DELETE ON attempt BEGIN
    DELETE FROM attempt_row WHERE race_id = OLD.race_id AND ordinal = OLD.ordinal;
END;
