//! What a model's table says about the hosts that it finds in the catalogue. Not for finding them: see `hosts`.

use crate::offerings::Offering;

/// What a model's table says about its hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostLimits {
    /// Providers that do not race it.
    pub exclude: Vec<String>,
    /// Times the price of the cheapest host.
    pub price_within: Option<f64>,
    pub precision: Precisions,
}

/// The precision of the weights that a host may serve a model with. The first token favours hosts that quantise most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Precisions {
    /// Not known to be below the precision in which the weights were released.
    #[default]
    Native,
    Any,
    /// Known to be one of these, such as `fp8`.
    Listed(Vec<String>),
}

impl Precisions {
    pub fn take(&self, offering: &Offering, released_bits: Option<u8>) -> bool {
        match self {
            Precisions::Any => true,
            Precisions::Native => offering.bits().zip(released_bits).is_none_or(|(bits, released)| bits >= released),
            Precisions::Listed(listed) => {
                offering.precision.as_ref().is_some_and(|precision| listed.contains(precision))
            }
        }
    }
}
