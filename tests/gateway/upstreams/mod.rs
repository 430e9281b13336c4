//! Upstreams that fail: what a failure means for the request, for later requests and for other callers.

mod breaker;
mod caller_isolation;
mod consequences;
mod content_policy;
mod context_length;
mod failures;
mod foreign_reasoning;
mod recovery;
mod retries;
mod simulated;
