//! Why a request is shed. Not for when: see `state::load`.

use photofinish_base::named;

named! {
    /// Why a request is shed. Shed requests are counted and have no row: a flood would fill the history.
    pub enum ShedReason {
        /// `max_in_flight` requests are running, or as many bodies are still coming.
        InFlight = "in_flight",
        /// The caller has its share of them, or of the memory for bodies.
        Share = "share",
        /// `memory` is in use.
        Memory = "memory",
        /// The process is running out of file descriptors.
        Descriptors = "descriptors",
    }
}
