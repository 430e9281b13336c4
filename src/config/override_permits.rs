//! Which `x-photofinish-*` headers a user may send: `overrides` in `[users.NAME]`. What they do is said in `proxy`.

/// A header that overrides the plan for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    Policy,
    Upstreams,
    HedgeAfter,
    MaxAttempts,
    Optimise,
    Budget,
    Slo,
    HoldMax,
    Lossy,
}

impl Override {
    pub const ALL: [Override; 9] = [
        Override::Policy,
        Override::Upstreams,
        Override::HedgeAfter,
        Override::MaxAttempts,
        Override::Optimise,
        Override::Budget,
        Override::Slo,
        Override::HoldMax,
        Override::Lossy,
    ];

    /// The header without `x-photofinish-`.
    pub fn as_str(self) -> &'static str {
        match self {
            Override::Policy => "policy",
            Override::Upstreams => "upstreams",
            Override::HedgeAfter => "hedge-after",
            Override::MaxAttempts => "max-attempts",
            Override::Optimise => "optimise",
            Override::Budget => "budget",
            Override::Slo => "slo",
            Override::HoldMax => "hold-max",
            Override::Lossy => "lossy",
        }
    }
}

/// What of it one user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Nothing is said: every header but `budget`, and with shared keys no upstreams but those of the models.
    Usual,
    /// `true`, or no users at all.
    All,
    /// A list; empty for `false`. With `upstreams` among them, any upstream may be named.
    Listed(Vec<Override>),
}

impl Permit {
    pub fn allows(&self, header: Override) -> bool {
        match self {
            Permit::Usual => header != Override::Budget,
            Permit::All => true,
            Permit::Listed(listed) => listed.contains(&header),
        }
    }

    /// Whether upstreams that no model lists may be asked with shared keys.
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
            (Permit::Usual, true, false, true, false),
            (Permit::All, true, true, true, true),
            (listed, true, false, true, true),
            (none, false, false, false, false),
        ] {
            let allows = [Override::Policy, Override::Budget, Override::Upstreams].map(|header| permit.allows(header));
            assert_eq!((allows, permit.any_upstream()), ([policy, budget, upstreams], any), "{permit:?}");
        }
    }
}
