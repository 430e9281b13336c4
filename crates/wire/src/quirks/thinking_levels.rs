//! The efforts that a model knows, and which of them is asked for.

use serde::Deserialize;

use crate::conversation::Effort;

/// A set of efforts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct ThinkingLevels(u8);

impl ThinkingLevels {
    pub const USUAL: ThinkingLevels = ThinkingLevels::of(&[Effort::Low, Effort::Medium, Effort::High]);

    const fn of(efforts: &[Effort]) -> ThinkingLevels {
        let (mut set, mut at) = (0, 0);
        while at < efforts.len() {
            set |= 1 << efforts[at] as u8;
            at += 1;
        }
        ThinkingLevels(set)
    }

    pub fn efforts(self) -> impl DoubleEndedIterator<Item = Effort> + Clone {
        Effort::ALL.into_iter().filter(move |effort| self.0 & (1 << *effort as u8) != 0)
    }

    /// The level for this effort: the next one above it, but none above `high` unless that is asked; else the one below it.
    pub fn level(self, effort: Effort) -> Effort {
        let mut above = self.efforts().filter(|level| *level == effort || (effort..=Effort::High).contains(level));
        let mut below = self.efforts().rev().filter(|level| *level < effort);
        above.next().or_else(|| below.next()).or_else(|| self.efforts().next()).unwrap_or(effort)
    }
}

impl TryFrom<Vec<String>> for ThinkingLevels {
    type Error = String;

    /// # Errors
    /// None is named, or one that is no effort.
    fn try_from(names: Vec<String>) -> Result<ThinkingLevels, String> {
        let effort = |name: &String| Effort::from_name(name).ok_or_else(|| format!("{name:?} is no effort"));
        let efforts: Vec<Effort> = names.iter().map(effort).collect::<Result<_, _>>()?;
        if efforts.is_empty() { Err("no effort is named".to_owned()) } else { Ok(ThinkingLevels::of(&efforts)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_becomes_a_level_that_the_model_has() {
        use Effort::{High, Low, Max, Medium, Minimal, None, XHigh};
        for (levels, effort, level) in [
            (&[Low, High][..], Medium, High),
            (&[Low, High], None, Low),
            (&[Low, High], Max, High),
            (&[Minimal, Low, Medium, High], None, Minimal),
            (&[Low, Medium, High, Max], XHigh, High),
            (&[Low, Medium, High, Max], Max, Max),
            (&[Low, Medium, High, XHigh], Max, XHigh),
            (&[XHigh, Max], Low, XHigh),
        ] {
            assert_eq!(ThinkingLevels::of(levels).level(effort), level, "{levels:?} {effort:?}");
        }
        assert!(
            ThinkingLevels::try_from(vec!["huge".to_owned()]).is_err() && ThinkingLevels::try_from(vec![]).is_err()
        );
    }
}
