-- Run when every row of `race` and `attempt` is in the narrow tables. Needs PRAGMA legacy_alter_table = ON, so that the other views go on
-- naming `race` and `attempt`.

DROP TRIGGER race_comes;
DROP TRIGGER race_changes;
DROP TRIGGER race_goes;
DROP TRIGGER attempt_comes;
DROP TRIGGER attempt_changes;
DROP TRIGGER attempt_goes;
DROP TABLE moved;

ALTER TABLE race RENAME TO race_old;
ALTER TABLE attempt RENAME TO attempt_old;

CREATE VIEW race AS
SELECT race_id,
       started_at,
       CASE WHEN caller < '' THEN (SELECT text FROM name WHERE id = caller) ELSE caller END AS caller,
       CASE WHEN api < '' THEN (SELECT text FROM name WHERE id = api) ELSE api END AS api,
       CASE WHEN model < '' THEN (SELECT text FROM name WHERE id = model) ELSE model END AS model,
       coalesce(stream, 1) AS stream,
       CASE policy WHEN 1 THEN 'adaptive' WHEN 2 THEN 'race' WHEN 3 THEN 'hedge' WHEN 4 THEN 'fallback' WHEN 5 THEN 'weighted' ELSE policy END AS policy,
       CASE optimise WHEN 1 THEN 'auto' WHEN 2 THEN 'ttft' WHEN 3 THEN 'completion' WHEN 4 THEN 'goodput' ELSE optimise END AS optimise,
       n_choices,
       max_tokens,
       coalesce(has_tools, 0) AS has_tools,
       input_bytes,
       coalesce(input_tokens_estimate, input_bytes / 4) AS input_tokens_estimate,
       attempts,
       winner,
       first_token_sent_us,
       done_us,
       CASE outcome WHEN 1 THEN 'ok' WHEN 2 THEN 'error' WHEN 3 THEN 'client_gone' WHEN 4 THEN 'rejected' WHEN 5 THEN 'shutdown' ELSE outcome END AS outcome,
       nullif(coalesce(http_status, 200), -1) AS http_status,
       in_flight,
       CASE WHEN gateway_version < '' THEN (SELECT text FROM name WHERE id = gateway_version) ELSE gateway_version END AS gateway_version,
       CASE WHEN plan < '' THEN (SELECT text FROM name WHERE id = plan) ELSE plan END AS plan,
       CASE WHEN why < '' THEN (SELECT text FROM name WHERE id = why) ELSE why END AS why,
       rescued_by,
       CASE WHEN left_out < '' THEN (SELECT text FROM name WHERE id = left_out) ELSE left_out END AS left_out,
       coalesce(source, 'client') AS source,
       run_id,
       CASE WHEN workload < '' THEN (SELECT text FROM name WHERE id = workload) ELSE workload END AS workload,
       scheduled_us,
       CASE WHEN p_look > 1.0 THEN 1.0 / p_look ELSE p_look END AS p_look,
       look,
       look_out,
       CASE WHEN team < '' THEN (SELECT text FROM name WHERE id = team) ELSE team END AS team,
       CASE WHEN caller_key < '' THEN (SELECT text FROM name WHERE id = caller_key) ELSE caller_key END AS caller_key
FROM race_row;

CREATE TRIGGER race_removed INSTEAD OF DELETE ON race BEGIN
    DELETE FROM race_row WHERE race_id = OLD.race_id;
END;

CREATE VIEW attempt AS
SELECT race_id,
       ordinal,
       CASE WHEN provider < '' THEN (SELECT text FROM name WHERE id = provider) ELSE provider END AS provider,
       CASE WHEN model_sent < '' THEN (SELECT text FROM name WHERE id = model_sent) ELSE model_sent END AS model_sent,
       CASE WHEN coalesce(model_reported, model_sent) < '' THEN (SELECT text FROM name WHERE id = coalesce(model_reported, model_sent)) ELSE coalesce(model_reported, model_sent) END AS model_reported,
       CASE dialect WHEN 1 THEN 'openai' WHEN 2 THEN 'responses' WHEN 3 THEN 'anthropic' WHEN 4 THEN 'gemini' WHEN 5 THEN 'bedrock' WHEN 6 THEN 'ollama' ELSE dialect END AS dialect,
       CASE WHEN key_id < '' THEN (SELECT text FROM name WHERE id = key_id) ELSE key_id END AS key_id,
       CASE start_reason WHEN 1 THEN 'first' WHEN 2 THEN 'hedge' WHEN 3 THEN 'fallback' WHEN 4 THEN 'retry' WHEN 5 THEN 'rescue' ELSE start_reason END AS start_reason,
       dispatch_us,
       nullif(coalesce(p_include, 1.0), -1) AS p_include,
       CASE WHEN p_audit > 1.0 THEN 1.0 / p_audit ELSE p_audit END AS p_audit,
       coalesce(audited, 0) AS audited,
       conn_reused,
       CASE http_version WHEN 1 THEN '1.1' WHEN 2 THEN '2' ELSE http_version END AS http_version,
       connect_us,
       headers_us,
       first_byte_us,
       nullif(coalesce(first_event_us, first_byte_us), -1) AS first_event_us,
       first_token_us,
       CASE first_kind WHEN 1 THEN 'text' WHEN 2 THEN 'reasoning' WHEN 3 THEN 'tool' WHEN 4 THEN 'refusal' WHEN 5 THEN 'audio' WHEN 6 THEN 'image' WHEN 7 THEN 'whole' ELSE first_kind END AS first_kind,
       nullif(coalesce(first_answer_us, first_token_us), -1) AS first_answer_us,
       second_token_us,
       last_token_us,
       finish_us,
       eof_us,
       cancel_us,
       nullif(coalesce(ttft_obs_us, first_token_us), -1) AS ttft_obs_us,
       nullif(coalesce(ttft_event, 1), -1) AS ttft_event,
       CASE censor_cause WHEN 1 THEN 'lost' WHEN 2 THEN 'client_gone' WHEN 3 THEN 'timeout' WHEN 4 THEN 'shutdown' ELSE censor_cause END AS censor_cause,
       CASE outcome WHEN 1 THEN 'won' WHEN 2 THEN 'lost' WHEN 3 THEN 'drained' WHEN 4 THEN 'failed' WHEN 5 THEN 'failed_mid' WHEN 6 THEN 'empty' WHEN 7 THEN 'refused' WHEN 8 THEN 'timeout' WHEN 9 THEN 'client_gone' WHEN 10 THEN 'shutdown' WHEN 11 THEN 'shed' ELSE outcome END AS outcome,
       nullif(coalesce(http_status, 200), -1) AS http_status,
       CASE WHEN failure < '' THEN (SELECT text FROM name WHERE id = failure) ELSE failure END AS failure,
       CASE WHEN failure_phase < '' THEN (SELECT text FROM name WHERE id = failure_phase) ELSE failure_phase END AS failure_phase,
       retry_after_ms,
       coalesce(payload_events, 0) AS payload_events,
       coalesce(reasoning_events, 0) AS reasoning_events,
       coalesce(chars_total, 0) AS chars_total,
       coalesce(chars_first, 0) AS chars_first,
       coalesce(keepalives, 0) AS keepalives,
       gap_p50_us,
       gap_p99_us,
       gap_max_us,
       burst,
       coalesce(client_stalled, 0) AS client_stalled,
       input_tokens,
       cached_input_tokens,
       output_tokens,
       reasoning_tokens,
       CASE tok_src WHEN 1 THEN 'usage' WHEN 2 THEN 'partial' WHEN 3 THEN 'none' WHEN 4 THEN 'tokenizer' WHEN 5 THEN 'chars' WHEN 6 THEN 'events' ELSE tok_src END AS tok_src,
       CASE WHEN finish_reason < '' THEN (SELECT text FROM name WHERE id = finish_reason) ELSE finish_reason END AS finish_reason,
       server_queue_us,
       server_prefill_us,
       server_decode_us,
       server_total_us,
       ratelimit_remaining_requests,
       ratelimit_remaining_tokens,
       cost_usd,
       CASE cost_basis WHEN 1 THEN 'reported' WHEN 2 THEN 'computed' WHEN 3 THEN 'at_least' WHEN 4 THEN 'at_most' WHEN 5 THEN 'unknown' ELSE cost_basis END AS cost_basis,
       in_flight_upstream,
       coalesce(definition_version, 1) AS definition_version,
       nullif(coalesce(cost_usd_min, cost_usd), -1) AS cost_usd_min,
       nullif(coalesce(cost_usd_max, cost_usd), -1) AS cost_usd_max,
       CASE WHEN price_source < '' THEN (SELECT text FROM name WHERE id = price_source) ELSE price_source END AS price_source,
       cache_write_tokens,
       CASE WHEN service_tier < '' THEN (SELECT text FROM name WHERE id = service_tier) ELSE service_tier END AS service_tier,
       coalesce(plain, 0) AS plain,
       predicted_us,
       CASE WHEN calls < '' THEN (SELECT text FROM name WHERE id = calls) ELSE calls END AS calls,
       CASE WHEN structured < '' THEN (SELECT text FROM name WHERE id = structured) ELSE structured END AS structured,
       tool_set
FROM attempt_row;

CREATE TRIGGER attempt_removed INSTEAD OF DELETE ON attempt BEGIN
    DELETE FROM attempt_row WHERE race_id = OLD.race_id AND ordinal = OLD.ordinal;
END;
