//! Which `x-photofinish-*` headers a user may send: `overrides` in `[users.NAME]`.
//!
//! Not for what the headers do: see `proxy`.

use super::names::names;

names! {
    /// A header that overrides the plan for one request. Its name has no `x-photofinish-` in front.
    pub enum Override {
        Policy = "policy",
        Upstreams = "upstreams",
        HedgeAfter = "hedge-after",
        MaxAttempts = "max-attempts",
        Optimise = "optimise",
        Budget = "budget",
        Slo = "slo",
        HoldMax = "hold-max",
        Lossy = "lossy",
    }
}

/// The headers one user may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The default: every header, as far as the request then costs no more than the model's settings allow; with shared keys only
    /// upstreams that a model lists.
    Usual,
    /// `true`, or a gateway without users.
    All,
    /// A list; empty for `false`. If it has `upstreams`, the user may name any upstream.
    Listed(Vec<Override>),
}

impl Permit {
    pub fn allows(&self, header: Override) -> bool {
        match self {
            Permit::Usual | Permit::All => true,
            Permit::Listed(listed) => listed.contains(&header),
        }
    }

    /// The user may name upstreams that no model lists, with shared keys.
    pub fn any_upstream(&self) -> bool {
        *self != Permit::Usual && self.allows(Override::Upstreams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed() {
        let listed = Permit::Listed(vec![Override::Policy, Override::Upstreams]);
        let none = Permit::Listed(Vec::new());
        for (permit, policy, budget, upstreams, any) in [
            (Permit::Usual, true, true, true, false),
            (Permit::All, true, true, true, true),
            (listed, true, false, true, true),
            (none, false, false, false, false),
        ] {
            let allows = [Override::Policy, Override::Budget, Override::Upstreams].map(|header| permit.allows(header));
            assert_eq!((allows, permit.any_upstream()), ([policy, budget, upstreams], any), "{permit:?}");
        }
    }
}
