//! For tests: valid rows of each kind, one with every column set and one with every optional column empty, and the
//! plain quantile.
//!
//! Not for random histories: see `store::tests::world`.

use super::names::{
    AttemptOutcome, CensorCause, IncidentKind, IncidentState, RaceOutcome, RaceSource, RunKind, StartReason,
    TokenSource,
};
use super::tables::{AttemptRecord, DEFINITION_VERSION, IncidentRecord, RaceRecord, RunRecord};

/// 2026-01-02T03:04:05Z
pub const STARTED_AT: i64 = 1_767_323_045_000_000;

/// The id of the `n`th race after [`STARTED_AT`], one each millisecond.
pub fn race_id(n: i64) -> String {
    let ms = (STARTED_AT / 1_000 + n) as u64;
    format!("{:08x}-{:04x}-7000-8000-000000000000", ms >> 16, ms & 0xffff)
}

/// A streamed race of three attempts without errors; `groq/llama-70b` won it.
pub fn race(n: i64) -> RaceRecord {
    RaceRecord {
        race_id: race_id(n),
        started_at: STARTED_AT + n * 1_000,
        user: Some("alice".into()),
        api: "chat",
        model: "llama-3.3-70b".into(),
        stream: true,
        policy: Some("race"),
        optimise: Some("ttft"),
        n_choices: Some(1),
        max_tokens: Some(256),
        has_tools: true,
        input_bytes: 4_001,
        input_tokens_estimate: 1_000,
        attempts: 3,
        winner: Some(0),
        first_token_sent_us: Some(101_500),
        done_us: Some(2_101_500),
        outcome: RaceOutcome::Ok,
        http_status: Some(200),
        in_flight: 7,
        gateway_version: "0.1.0",
        plan: Some("groq/llama-70b@0 cerebras/llama-70b@0".into()),
        why: Some("listed".into()),
        rescued_by: Some(1),
        left_out: Some("my-vllm/llama-70b@breaker".into()),
        source: RaceSource::Client,
        run_id: Some("of no run".into()),
        workload: Some("1k".into()),
        scheduled_us: Some(-70),
        p_look: Some(0.01),
        look: Some("groq/llama".into()),
        look_out: Some("breaker"),
        team: Some("search".into()),
        caller_key: Some("k3yAbcd9".into()),
        tags: Some("job=nightly project=search".into()),
        session: Some(9_007_199_254_740_991),
    }
}

/// A rejected request: every column that may be null is null.
pub fn bare_race(n: i64) -> RaceRecord {
    RaceRecord {
        user: None,
        stream: false,
        policy: None,
        optimise: None,
        n_choices: None,
        max_tokens: None,
        has_tools: false,
        attempts: 0,
        winner: None,
        first_token_sent_us: None,
        done_us: None,
        outcome: RaceOutcome::Rejected,
        http_status: None,
        plan: None,
        why: None,
        rescued_by: None,
        left_out: None,
        run_id: None,
        workload: None,
        scheduled_us: None,
        p_look: None,
        look: None,
        look_out: None,
        team: None,
        caller_key: None,
        tags: None,
        session: None,
        ..race(n)
    }
}

/// A race of this source and its run; `groq/llama-70b` was asked alone.
pub fn race_of(source: RaceSource, n: i64) -> RaceRecord {
    RaceRecord { source, run_id: Some(run(0).run_id), attempts: 1, rescued_by: None, left_out: None, ..race(n) }
}

/// A run that has ended: every column has a value. It began with race `n`.
pub fn run(n: i64) -> RunRecord {
    RunRecord {
        run_id: race_id(n),
        kind: RunKind::Bench,
        label: Some("nightly".into()),
        started_at: STARTED_AT + n * 1_000,
        ended_at: Some(STARTED_AT + n * 1_000 + 900),
        target: "groq/llama-70b".into(),
        spec: r#"{"from":"Frankfurt"}"#.into(),
        machine: Some("4 cores".into()),
        trust: Some("trusted".into()),
        cost_usd_min: Some(0.4),
        cost_usd_max: Some(0.5),
        result: Some(r#"{"stages":[]}"#.into()),
    }
}

/// The run while it runs.
pub fn bare_run(n: i64) -> RunRecord {
    RunRecord {
        label: None,
        ended_at: None,
        machine: None,
        trust: None,
        cost_usd_min: None,
        cost_usd_max: None,
        result: None,
        ..run(n)
    }
}

/// Attempt 0 of race `n`: first token after 100 ms, 41 tokens in 2 s, so 50 ms a token. Every column has a value. No
/// two values of one type are equal, except times that must agree.
pub fn won(n: i64) -> AttemptRecord {
    AttemptRecord {
        dialect: "openai",
        key_id: Some("k1".into()),
        dispatch_us: 1_000,
        p_include: Some(0.75),
        p_audit: Some(0.02),
        audited: false,
        conn_reused: Some(true),
        http_version: Some("2"),
        connect_us: Some(11),
        headers_us: Some(80_000),
        first_byte_us: Some(80_500),
        first_event_us: Some(80_600),
        first_token_us: Some(100_000),
        first_kind: Some("text"),
        first_answer_us: Some(100_001),
        second_token_us: Some(150_000),
        last_token_us: Some(2_100_000),
        finish_us: Some(2_100_100),
        eof_us: Some(2_100_200),
        cancel_us: Some(2_100_300),
        ttft_obs_us: Some(100_000),
        ttft_event: Some(1),
        censor_cause: Some(CensorCause::Shutdown),
        outcome: AttemptOutcome::Won,
        http_status: Some(200),
        failure: Some("reset"),
        failure_phase: Some("stream"),
        payload_events: 41,
        reasoning_events: 3,
        chars_total: 164,
        chars_first: 4,
        keepalives: 2,
        gap_p50_us: Some(50_000),
        gap_p95_us: Some(56_000),
        gap_p99_us: Some(60_000),
        gap_max_us: Some(61_000),
        burst: Some(false),
        client_stalled: true,
        in_flight_upstream: 6,
        definition_version: DEFINITION_VERSION,
        cost_usd_min: Some(0.0125),
        cost_usd_max: Some(0.0125),
        price_source: Some("catalogue 2026-11-22".to_owned()),
        plain: false,
        predicted_us: Some(190_000),
        ..reported(n)
    }
}

/// What the provider reports of attempt 0 of race `n`.
fn reported(n: i64) -> AttemptRecord {
    AttemptRecord {
        model_reported: Some("llama-70b-0115".into()),
        response_id: Some("chatcmpl-1".into()),
        retry_after_ms: Some(1_234),
        input_tokens: Some(1_024),
        cached_input_tokens: Some(512),
        output_tokens: Some(41),
        reasoning_tokens: Some(5),
        tok_src: TokenSource::Usage,
        finish_reason: Some("stop".into()),
        server_queue_us: Some(21),
        server_prefill_us: Some(22),
        server_decode_us: Some(23),
        server_total_us: Some(24),
        ratelimit_remaining_requests: Some(99),
        ratelimit_remaining_tokens: Some(98_000),
        cache_write_tokens: Some(128),
        service_tier: Some("priority"),
        calls: Some("valid"),
        structured: Some("valid"),
        tool_set: Some(3_405_691_582),
        ..AttemptRecord::new(race_id(n), 0, ("groq".into(), "llama-70b".into()), StartReason::First)
    }
}

/// Attempt 1 of race `n`, cut at the winner's first token: every column that may be null is null, except the censored
/// TTFT.
pub fn lost(n: i64, after_us: i64) -> AttemptRecord {
    AttemptRecord {
        ordinal: 1,
        provider: "cerebras".into(),
        ttft_obs_us: Some(after_us),
        ttft_event: Some(0),
        censor_cause: Some(CensorCause::Lost),
        outcome: AttemptOutcome::Lost,
        ..bare_attempt(n)
    }
}

/// Attempt 2 of race `n`, which could not connect.
pub fn failed(n: i64) -> AttemptRecord {
    AttemptRecord {
        ordinal: 2,
        provider: "my-vllm".into(),
        failure: Some("connect"),
        failure_phase: Some("connect"),
        ..bare_attempt(n)
    }
}

fn bare_attempt(n: i64) -> AttemptRecord {
    let AttemptRecord { race_id, ordinal, provider, model_sent, start_reason, dispatch_us, in_flight_upstream, .. } =
        won(n);
    AttemptRecord {
        dispatch_us,
        in_flight_upstream,
        outcome: AttemptOutcome::Failed,
        ..AttemptRecord::new(race_id, ordinal, (provider, model_sent), start_reason)
    }
}

/// An incident of 75 minutes that began `n` hours after [`STARTED_AT`]: first tokens took 2.2 times as long.
pub fn incident(n: i64) -> IncidentRecord {
    let began_at = STARTED_AT + n * 3_600_000_000;
    IncidentRecord {
        incident_id: format!("{began_at}/slower/groq/llama-70b"),
        upstream: Some("groq/llama-70b".into()),
        kind: IncidentKind::Slower,
        state: IncidentState::Ended,
        began_at,
        ended_at: Some(began_at + 4_500_000_000),
        last_at: began_at + 5_400_000_000,
        updated_at: began_at + 5_400_000_000,
        factor: Some(2.2),
        attempts: 1_500,
        failures: 7,
        refusals: 1,
        usual_share: 0.005,
        seen: 800,
        expected: 2_400.5,
        part_of: Some("of none".into()),
        broke: 2,
        saved: 4,
        lost: 900,
        traffic: Some("cerebras/llama-70b".into()),
        callers: 2,
        ..IncidentRecord::default()
    }
}

/// An open one of the gateway: every column that may be null is null.
pub fn bare_incident(n: i64) -> IncidentRecord {
    let (incident_id, kind) = (format!("{n}/failures/gateway"), IncidentKind::Failures);
    let IncidentRecord { began_at, last_at, updated_at, attempts, refusals, .. } = incident(n);
    let known = IncidentRecord { began_at, last_at, updated_at, attempts, refusals, ..IncidentRecord::default() };
    IncidentRecord { incident_id, kind, failures: 900, upstreams: 3, ..known }
}

/// The plain quantile: the smallest value that at least a share `p` of the values does not exceed. Reorders them.
pub fn quantile(values: &mut [f64], p: f64) -> Option<f64> {
    let rank = (p * values.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    if rank > values.len() {
        return None;
    }
    let (_, value, _) = values.select_nth_unstable_by(rank - 1, f64::total_cmp);
    Some(*value)
}
