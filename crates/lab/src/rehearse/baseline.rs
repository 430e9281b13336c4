//! Policies that are not the gateway's, to compare its own with. They make a plan; the race does the rest.

use super::world::SimulatedRequest;
use photofinish_routing::routing::plan::StartRule;
use photofinish_routing::routing::tariff::PromptTokens;

/// A policy of the comparison.
pub trait Baseline {
    /// Upstreams out of `view.able` with their starts, first one first. The others follow after failures.
    fn plan(&mut self, view: &OpeningView<'_>) -> Vec<(usize, StartRule)>;

    fn saw(&mut self, _upstream: usize, _shown: Shown, _now_us: i64) {}
}

/// What a baseline knows when a request arrives.
#[derive(Clone, Copy, Debug)]
pub struct OpeningView<'a> {
    pub request: &'a SimulatedRequest,
    /// Upstreams that may be started, as listed.
    pub able: &'a [usize],
    /// By upstream: attempts that run there.
    pub in_flight: &'a [u32],
    /// By upstream: the request's prompt there.
    pub prompts: &'a [PromptTokens],
}

/// What one attempt showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Its first token, this many microseconds after its start.
    FirstToken(i64),
    Failed,
    /// No first token for this many microseconds; then it was cut.
    Cut(i64),
}
