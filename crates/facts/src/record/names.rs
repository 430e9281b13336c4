//! Values that a column stores by name, such as how an attempt ended, and the origin of a request.
//!
//! Not for failures: `failure` names them.

use super::table::{CellValue, FromCell, SqlType, ToCell, cell};
use photofinish_base::clock::Instant;
use photofinish_config::names::names;

/// A value that is stored by its name. When read back, an unknown name (for example from a newer version) becomes `$unknown`.
macro_rules! stored {
    ($($name:ident $(or $unknown:ident)?),+ $(,)?) => {
        $(cell! { $name: Text, |value| value.as_str(); }
        $(impl Default for $name {
            fn default() -> $name {
                $name::$unknown
            }
        }

        impl FromCell for $name {
            fn fill(&mut self, cell: CellValue<'_>) {
                let name = if let CellValue::Text(name) = cell { name } else { "" };
                *self = $name::from_name(name).unwrap_or_default();
            }
        })?)+
    };
}

stored! {
    RaceOutcome or Error,
    RaceSource or Client,
    RunKind or Bench,
    AttemptOutcome or Failed,
    StartReason or First,
    CensorCause,
    TokenSource or None,
    IncidentKind or Failures,
    IncidentState or Ended,
}

names! {
    /// Why an upstream of the model was not raced.
    #[derive(Hash)]
    pub enum LeftOutReason {
        /// None of its dialects has the surface.
        Dialect = "dialect",
        /// Its dialect cannot express all of the request.
        Capability = "capability",
        /// Prompt and answer surely do not fit into its context, or the answer is longer than it writes.
        TooLong = "too_long",
        /// Its provider no longer lists it.
        Unlisted = "unlisted",
        /// Its key or the upstream itself cools down.
        CoolingDown = "cooling_down",
        /// Its circuit breaker is open.
        Breaker = "breaker",
        /// As many as may replace another were listed before it.
        Failovers = "failovers",
        /// The limits of its caller forbid it.
        Forbidden = "forbidden",
        /// A budget of its caller has too little left for it, or it has no price.
        Limit = "limit",
        /// It answers requests with tools or a schema worse than the others.
        Quality = "quality",
        /// It refused the last requests of this kind, and others answered them.
        Refuses = "refuses",
    }
}

names! {
    /// How a race ended.
    #[derive(Hash)]
    pub enum RaceOutcome {
        /// The client got a whole answer.
        Ok = "ok",
        /// The client got an error, or an answer that broke off.
        Error = "error",
        /// The client left.
        ClientGone = "client_gone",
        /// The gateway itself refused the request, after authentication.
        Rejected = "rejected",
        /// The gateway was shut down.
        Shutdown = "shutdown",
    }
}

names! {
    /// Who asked for a race.
    #[derive(Hash)]
    pub enum RaceSource {
        /// A client.
        Client = "client",
        /// A probe: a standard request at a planned time.
        Probe = "probe",
        /// A benchmark.
        Bench = "bench",
        /// A client's request once more, at a newcomer, whose answer reaches no client.
        Shadow = "shadow",
    }
}

names! {
    /// What a run did.
    #[derive(Hash)]
    pub enum RunKind {
        Bench = "bench",
    }
}

names! {
    /// What goes wrong in an incident.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum IncidentKind {
        /// Attempts fail, or are refused.
        Failures = "failures",
        /// First tokens come later.
        Slower = "slower",
        /// Tokens after the first come more slowly.
        TokS = "tok_s",
        /// First tokens came later on the last day than in the week before.
        WeekSlower = "week_slower",
        /// The same of tokens after the first.
        WeekTokS = "week_tok_s",
        /// The model behind the upstream is another.
        Changed = "changed",
    }
}

names! {
    /// How far an incident has come.
    #[derive(Hash)]
    pub enum IncidentState {
        Open = "open",
        Ended = "ended",
        /// It was open when the attempts ceased: its end is unknown.
        EndUnknown = "end_unknown",
    }
}

names! {
    /// How an attempt ended.
    #[derive(Hash)]
    pub enum AttemptOutcome {
        /// It served the client to its end.
        Won = "won",
        /// Cancelled because another attempt won.
        Lost = "lost",
        /// A loser that was read to its end.
        Drained = "drained",
        /// Failed before its first token.
        Failed = "failed",
        /// Failed after its first token.
        FailedMid = "failed_mid",
        /// Finished without error and without payload.
        Empty = "empty",
        /// A content policy refused the request.
        Refused = "refused",
        /// Connect or first-token timeout, or the total deadline.
        Timeout = "timeout",
        /// The client left.
        ClientGone = "client_gone",
        /// The gateway was shut down.
        Shutdown = "shutdown",
        /// Ended by the gateway because descriptors or memory ran out. It says nothing about its upstream.
        Shed = "shed",
    }
}

names! {
    /// Why an attempt was started.
    #[derive(Hash)]
    pub enum StartReason {
        /// At the start.
        First = "first",
        /// Those before were late.
        Hedge = "hedge",
        /// One before had failed.
        Fallback = "fallback",
        /// The same upstream again after a failure.
        Retry = "retry",
        /// The answer had broken off.
        Rescue = "rescue",
    }
}

names! {
    /// Why the observation of an attempt's TTFT ended before its first token.
    #[derive(Hash)]
    pub enum CensorCause {
        Lost = "lost",
        ClientGone = "client_gone",
        Timeout = "timeout",
        Shutdown = "shutdown",
    }
}

names! {
    /// The source of the token count.
    #[derive(Hash)]
    pub enum TokenSource {
        Usage = "usage",
        Partial = "partial",
        Tokenizer = "tokenizer",
        Chars = "chars",
        Events = "events",
        None = "none",
    }
}

impl AttemptOutcome {
    /// It was cut before its end, and not by its upstream.
    pub fn is_cut(self) -> bool {
        matches!(
            self,
            AttemptOutcome::Lost | AttemptOutcome::Timeout | AttemptOutcome::ClientGone | AttemptOutcome::Shutdown
        )
    }

    /// Another attempt won before this one.
    pub fn is_loss(self) -> bool {
        matches!(self, AttemptOutcome::Lost | AttemptOutcome::Drained)
    }
}

/// Who asked for a race, and for which run. A client has no way to set it.
#[derive(Clone, Debug, Default)]
pub struct RequestOrigin {
    pub source: RaceSource,
    /// The run that the request belongs to.
    pub run_id: Option<String>,
    /// The kind of prompt and answer, such as `1k`.
    pub workload: Option<String>,
    /// When the request was to leave, for requests of a schedule.
    pub scheduled: Option<Instant>,
}
