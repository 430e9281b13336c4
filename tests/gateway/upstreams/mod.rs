//! Failing upstreams: the effect of a failure on the request, on later requests and on other callers.

mod breaker;
mod caller_isolation;
mod consequences;
mod content_policy;
mod context_length;
mod discovery;
mod errors_in_words;
mod failures;
mod foreign_reasoning;
mod model_lists;
mod probes;
mod recovery;
mod refused_kinds;
mod retries;
mod simulated;
