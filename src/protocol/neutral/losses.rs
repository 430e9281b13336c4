//! Records what a request loses in translation, so that the request is refused or the loss reported, never silent.

/// Lost members, by the caller's names (`seed`, `tools[2]`, `messages[0].content[1]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    meaning: Vec<String>,
    hints: Vec<String>,
}

/// Maximum names of each kind. One more, `...`, replaces the rest.
const NAMES_MAX: usize = 16;
/// Maximum bytes of a name.
const NAME_MAX: usize = 64;

impl Losses {
    /// Records the loss of something that decides the answer.
    pub fn meaning(&mut self, name: impl AsRef<str>) {
        add(&mut self.meaning, name.as_ref());
    }

    /// Records the loss of something that helps the vendor (caching, logs, tiers) and does not change the answer.
    pub fn hint(&mut self, name: impl AsRef<str>) {
        add(&mut self.hints, name.as_ref());
    }

    /// [`Losses::meaning`], if it is lost.
    pub fn meaning_if(&mut self, lost: bool, name: &str) {
        if lost {
            self.meaning(name);
        }
    }

    /// [`Losses::hint`], if it is lost.
    pub fn hint_if(&mut self, lost: bool, name: &str) {
        if lost {
            self.hint(name);
        }
    }

    /// Records the loss of a part that decides the answer. Returns none, in place of the part.
    pub fn part<T>(&mut self, name: impl AsRef<str>) -> Option<T> {
        self.meaning(name);
        None
    }

    /// Adds other losses.
    pub fn extend(&mut self, other: &Losses) {
        other.meaning.iter().for_each(|name| add(&mut self.meaning, name));
        other.hints.iter().for_each(|name| add(&mut self.hints, name));
    }

    /// The same losses under other names.
    pub fn renamed<'a>(&'a self, rename: impl Fn(&'a str) -> &'a str) -> Losses {
        let mut renamed = Losses::default();
        self.meaning.iter().for_each(|name| renamed.meaning(rename(name)));
        self.hints.iter().for_each(|name| renamed.hint(rename(name)));
        renamed
    }

    /// True if nothing lost decides the answer.
    pub fn keeps_meaning(&self) -> bool {
        self.meaning.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.meaning.is_empty() && self.hints.is_empty()
    }

    /// Names of losses that decide the answer, each once.
    pub fn of_meaning(&self) -> &[String] {
        &self.meaning
    }

    /// All names, deciding ones first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.meaning.iter().chain(&self.hints).map(String::as_str)
    }
}

/// Names come from callers: they are cut, white space is removed, and characters outside ASCII become `?`.
fn add(names: &mut Vec<String>, name: &str) {
    let visible = name.chars().filter(|c| !c.is_whitespace() && !c.is_control() && *c != ',');
    let name: String = visible.map(|c| if c.is_ascii() { c } else { '?' }).take(NAME_MAX).collect();
    let name = if name.is_empty() { "?".to_owned() } else { name };
    if names.contains(&name) || names.len() > NAMES_MAX {
        return;
    }
    names.push(if names.len() == NAMES_MAX { "...".to_owned() } else { name });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_within_bounds() {
        let mut losses = Losses::default();
        assert!(losses.is_empty() && losses.keeps_meaning());
        losses.hint("cache_control");
        losses.hint("cache_control");
        assert!(losses.keeps_meaning());
        losses.meaning("a\r\nb, c");
        losses.meaning("x".repeat(1_000));
        losses.meaning("größe");
        losses.meaning("");
        assert_eq!(losses.names().collect::<Vec<_>>(), ["abc", &"x".repeat(NAME_MAX), "gr??e", "?", "cache_control"]);
        let renamed = losses.renamed(|name| if name == "abc" { "d" } else { name });
        assert_eq!((renamed.of_meaning()[0].as_str(), renamed.names().count()), ("d", 5));
        (0..100).for_each(|n| losses.meaning(format!("tools[{n}]")));
        assert_eq!(losses.of_meaning().len(), NAMES_MAX + 1);
        assert_eq!(losses.of_meaning()[NAMES_MAX], "...");
    }
}
