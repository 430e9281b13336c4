//! What each role of a user may do: the one place that decides it. Which path is for what: see the server's `rights`.
//!
//! Not for limits, nor for the headers of `overrides`.

use super::names::names;

names! {
    /// What a user may do.
    pub enum UserRole or User {
        /// Everything.
        Admin = "admin",
        /// Asks models and sees all figures; changes no keys, users and teams.
        Viewer = "viewer",
        /// Reads `/metrics` alone, and asks no models.
        Metrics = "metrics",
        /// Asks models, makes and ends users and keys of their team, and sees its figures.
        Lead = "lead",
        /// Asks models, makes and ends their own keys, and sees their own figures.
        User = "user",
    }
}

names! {
    /// What a path is for.
    pub enum Right {
        /// Needs no token.
        Open = "open",
        /// Asking models.
        Ask = "ask models",
        /// What everybody may know who may ask.
        Me = "know oneself",
        /// Figures that can be cut to a user or a team.
        Spent = "races, usage and costs",
        /// Figures of all requests together, and the configuration.
        Figures = "all figures",
        /// `/metrics`.
        Metrics = "metrics",
        SeeKeys = "see keys",
        ChangeKeys = "change keys",
        SeeUsers = "see users and teams",
        ChangeUsers = "change users",
        /// What is left.
        Admin = "everything else",
    }
}

names! {
    /// Whose it may be.
    pub enum Reach {
        All = "all",
        /// Of the user's team.
        Team = "team",
        /// Of the user.
        Own = "own",
    }
}

impl UserRole {
    /// Whose figures, keys and users this role has by a right. None: it does not have the right.
    pub fn may(self, right: Right) -> Option<Reach> {
        match (self, right) {
            (_, Right::Open) | (UserRole::Admin, _) | (UserRole::Metrics, Right::Metrics) => Some(Reach::All),
            (UserRole::Metrics, _) | (_, Right::Admin) => None,
            (_, Right::Ask | Right::Me) => Some(Reach::Own),
            (UserRole::Viewer, Right::ChangeKeys | Right::ChangeUsers) => None,
            (UserRole::Viewer, _) => Some(Reach::All),
            (_, Right::Figures | Right::Metrics) => None,
            (UserRole::Lead, _) => Some(Reach::Team),
            (UserRole::User, Right::SeeUsers | Right::ChangeUsers) => None,
            (UserRole::User, _) => Some(Reach::Own),
        }
    }

    /// The roles that have it, for a message.
    pub fn that_may(right: Right) -> Vec<&'static str> {
        UserRole::ALL.into_iter().filter(|role| role.may(right).is_some()).map(UserRole::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_rights_and_no_more() {
        let row = |role: UserRole| Right::ALL.map(|right| role.may(right).map_or("-", Reach::as_str)).join(" ");
        for (role, expected) in [
            (UserRole::Admin, "all all all all all all all all all all all"),
            (UserRole::Viewer, "all own own all all all all - all - -"),
            (UserRole::Metrics, "all - - - - all - - - - -"),
            (UserRole::Lead, "all own own team - - team team team team -"),
            (UserRole::User, "all own own own - - own own - - -"),
        ] {
            assert_eq!(row(role), expected, "{role:?}");
        }
        assert_eq!(UserRole::that_may(Right::Metrics), ["admin", "viewer", "metrics"]);
    }
}
