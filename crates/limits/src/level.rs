//! Whose limits there are: everybody's, a team's, a user's, a key's; and theirs for some models. Not for what they have used: see `book`.

use std::fmt;
use std::sync::Arc;

/// Whose limits they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LevelName {
    Everybody,
    Team(Arc<str>),
    User(Arc<str>),
    /// By its id.
    Key(Arc<str>),
    /// What one of these may spend on some models: `PATTERN of LEVEL`.
    Models(Arc<str>),
}

impl LevelName {
    /// For a label.
    pub fn kind(&self) -> &'static str {
        match self {
            LevelName::Everybody => "everybody",
            LevelName::Team(_) => "team",
            LevelName::User(_) => "user",
            LevelName::Key(_) => "key",
            LevelName::Models(_) => "models",
        }
    }

    pub(super) fn place(&self) -> usize {
        match self {
            LevelName::Everybody => 0,
            LevelName::Team(_) => 1,
            LevelName::User(_) => 2,
            LevelName::Key(_) => 3,
            LevelName::Models(_) => 4,
        }
    }

    /// Empty for everybody.
    pub fn name(&self) -> &str {
        match self {
            LevelName::Everybody => "",
            LevelName::Team(name) | LevelName::User(name) | LevelName::Key(name) | LevelName::Models(name) => name,
        }
    }
}

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LevelName::Everybody => f.write_str("everybody"),
            named => write!(f, "{} {}", named.kind(), named.name()),
        }
    }
}
