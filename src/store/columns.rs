//! The columns of the two tables, each list written once: it names them in the statement and binds them to it.
//!
//! Columns are called as the fields are, and stand in the order of the migration.

use serde_json::{Map, Value};
use sqlx::Arguments as _;
use sqlx::error::BoxDynError;
use sqlx::sqlite::SqliteArguments;

use crate::history::{
    AttemptOutcome, AttemptRecord, CensorCause, CostBasis, RaceOutcome, RaceRecord, StartReason, TokenSource,
};

/// A record that is a row of a table.
pub(super) trait Row {
    const TABLE: &'static str;
    const COLUMNS: &'static [&'static str];

    /// Adds one value for each column, in their order.
    fn bind(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError>;

    /// The same as it is read back: see [`crate::store::Row`].
    fn row(&self) -> Map<String, Value>;
}

macro_rules! row {
    ($record:ident is $table:literal: $($column:ident),+ $(,)?) => {
        impl Row for $record {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),+];

            fn bind(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
                // Taken apart without `..`: a field that has no column does not compile.
                let $record { $($column),+ } = self;
                $($column.bind(arguments)?;)+
                Ok(())
            }

            fn row(&self) -> Map<String, Value> {
                [$((stringify!($column).to_owned(), self.$column.value())),+].into_iter().collect()
            }
        }
    };
}

row! { RaceRecord is "race":
    race_id, started_at, user, api, model, stream, policy, optimise, n_choices, max_tokens, has_tools, input_bytes,
    input_tokens_estimate, attempts, winner, first_token_sent_us, done_us, outcome, http_status, in_flight,
    gateway_version, plan, why, rescued_by,
}

row! { AttemptRecord is "attempt":
    race_id, ordinal, provider, model_sent, model_reported, dialect, key_id, start_reason, dispatch_us, p_include,
    p_audit, audited, conn_reused, http_version, connect_us, headers_us, first_byte_us, first_event_us, first_token_us,
    first_kind, first_answer_us, second_token_us, last_token_us, finish_us, eof_us, cancel_us, ttft_obs_us, ttft_event,
    censor_cause, outcome, http_status, failure, failure_phase, retry_after_ms, payload_events, reasoning_events,
    chars_total, chars_first, keepalives, gap_p50_us, gap_p99_us, gap_max_us, burst, client_stalled, input_tokens,
    cached_input_tokens, output_tokens, reasoning_tokens, tok_src, finish_reason, server_queue_us, server_prefill_us,
    server_decode_us, server_total_us, ratelimit_remaining_requests, ratelimit_remaining_tokens, cost_usd, cost_basis,
    in_flight_upstream, definition_version, cost_usd_min, cost_usd_max,
}

/// How a field is stored.
trait Column {
    fn bind(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError>;

    fn value(&self) -> Value;
}

macro_rules! column {
    ($($type:ty: |$value:ident| $stored:expr),+ $(,)?) => {
        $(impl Column for $type {
            fn bind(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
                let $value = self;
                arguments.add($stored)
            }

            fn value(&self) -> Value {
                let $value = self;
                Value::from($stored)
            }
        })+
    };
}

column! {
    i64: |value| *value,
    f64: |value| *value,
    bool: |value| i64::from(*value),
    String: |value| value.as_str(),
    &'static str: |value| *value,
    RaceOutcome: |value| value.as_str(),
    AttemptOutcome: |value| value.as_str(),
    StartReason: |value| value.as_str(),
    CensorCause: |value| value.as_str(),
    TokenSource: |value| value.as_str(),
    CostBasis: |value| value.as_str(),
}

impl<T: Column> Column for Option<T> {
    fn bind(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
        match self {
            Some(value) => value.bind(arguments),
            None => arguments.add(None::<i64>),
        }
    }

    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::value)
    }
}
