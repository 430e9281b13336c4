//! What a prediction depends on at one moment: the load of an upstream, and attempts that wait there. Not for how it is
//! predicted.

/// Waiting attempts of other requests that are looked at for one upstream.
pub const WAITING_MAX: usize = 4;

/// What the prediction of an attempt depends on, at the moment of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendConditions {
    /// Input tokens that this upstream has not cached.
    pub uncached_tokens: f64,
    /// Attempts that this upstream has running for us, this one not counted.
    pub in_flight: u32,
}

/// An attempt of another request that still waits for its first token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OtherWaiting {
    pub sent: SendConditions,
    /// Since it was sent, µs.
    pub waited_us: i64,
}
