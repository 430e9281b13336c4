//! Records what a request loses in translation, so that the request is refused or the loss reported, never silent.
//! `loss_class` says what each loss means.

use serde_json::Value;

use super::loss_class::{LossClass, class_of};

/// Lost members, by the caller's names (`seed`, `tools[2]`, `messages[0].content[1]`). Hints are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    content: Vec<String>,
    settings: Vec<String>,
    forms: Vec<String>,
}

/// Maximum names of each kind. One more, `...`, replaces the rest.
const NAMES_MAX: usize = 16;
/// Maximum bytes of a name.
const NAME_MAX: usize = 64;

impl Losses {
    /// Records the loss of a member; its name decides what that means.
    pub fn lose(&mut self, name: impl AsRef<str>) {
        let name = name.as_ref();
        match class_of(name) {
            LossClass::Hint => {}
            LossClass::Form => add(&mut self.forms, name),
            LossClass::Setting => add(&mut self.settings, name),
            LossClass::Content => add(&mut self.content, name),
        }
    }

    /// [`Losses::lose`], if it is lost.
    pub fn lose_if(&mut self, lost: bool, name: &str) {
        if lost {
            self.lose(name);
        }
    }

    /// [`Losses::lose`] of an unknown member with this value. Inside another member an empty one is nothing, and within
    /// the conversation one without text is a form.
    pub fn lose_value(&mut self, name: &str, value: &Value) {
        let is_inside = name.contains('.');
        match value {
            Value::Null => {}
            Value::String(text) if is_inside && text.is_empty() => {}
            Value::Array(items) if is_inside && items.is_empty() => {}
            Value::Object(members) if is_inside && members.is_empty() => {}
            Value::Bool(_) | Value::Number(_) if is_inside && class_of(name) == LossClass::Content => {
                add(&mut self.forms, name);
            }
            _ => self.lose(name),
        }
    }

    /// [`Losses::lose_value`] of each member of an object that is not known.
    pub fn lose_others<'m>(
        &mut self,
        members: impl IntoIterator<Item = (&'m String, &'m Value)>,
        path: &str,
        known: &[&str],
    ) {
        for (name, value) in members {
            if !known.contains(&name.as_str()) && value != false {
                self.lose_value(&format!("{path}.{name}"), value);
            }
        }
    }

    /// Records a loss that the operator wants, whatever its name.
    pub fn form(&mut self, name: impl AsRef<str>) {
        add(&mut self.forms, name.as_ref());
    }

    /// Records the loss of a part, an item or a tool, whatever its name.
    pub fn content(&mut self, name: impl AsRef<str>) {
        add(&mut self.content, name.as_ref());
    }

    /// [`Losses::content`]. Returns none, in place of the part.
    pub fn part<T>(&mut self, name: impl AsRef<str>) -> Option<T> {
        self.content(name);
        None
    }

    /// Adds other losses.
    pub fn extend(&mut self, other: &Losses) {
        for (into, from) in self.lists_mut().into_iter().zip(other.lists()) {
            from.iter().for_each(|name| add(into, name));
        }
    }

    /// The same losses under other names.
    pub fn renamed<'a>(&'a self, rename: impl Fn(&'a str) -> &'a str) -> Losses {
        let mut renamed = Losses::default();
        for (into, from) in renamed.lists_mut().into_iter().zip(self.lists()) {
            from.iter().for_each(|name| add(into, rename(name)));
        }
        renamed
    }

    /// True if nothing is lost that the request is about.
    pub fn keeps_content(&self) -> bool {
        self.content.is_empty()
    }

    /// True if nothing is lost that the request is about or that shapes the answer.
    pub fn keeps_settings(&self) -> bool {
        self.content.is_empty() && self.settings.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// Names of lost content and settings, each once.
    pub fn deciding(&self) -> impl Iterator<Item = &str> {
        self.content.iter().chain(&self.settings).map(String::as_str)
    }

    /// All names: content, settings, forms.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.lists().into_iter().flatten().map(String::as_str)
    }

    fn lists(&self) -> [&Vec<String>; 3] {
        [&self.content, &self.settings, &self.forms]
    }

    fn lists_mut(&mut self) -> [&mut Vec<String>; 3] {
        [&mut self.content, &mut self.settings, &mut self.forms]
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
        assert!(losses.is_empty() && losses.keeps_settings());
        losses.lose("cache_control");
        assert!(losses.is_empty(), "a hint is dropped silently");
        losses.lose("service_tier");
        losses.lose("service_tier");
        assert!(losses.keeps_settings());
        losses.lose("seed");
        assert!(losses.keeps_content() && !losses.keeps_settings());
        losses.content("a\r\nb, c");
        losses.content("x".repeat(1_000));
        losses.content("größe");
        losses.content("");
        assert!(!losses.keeps_content());
        let names = ["abc", &"x".repeat(NAME_MAX), "gr??e", "?", "seed", "service_tier"];
        assert_eq!(losses.names().collect::<Vec<_>>(), names);
        let renamed = losses.renamed(|name| if name == "abc" { "d" } else { name });
        assert_eq!((renamed.deciding().next(), renamed.names().count()), (Some("d"), 6));
        (0..100).for_each(|n| losses.content(format!("tools[{n}]")));
        assert_eq!(losses.content.len(), NAMES_MAX + 1);
        assert_eq!(losses.content[NAMES_MAX], "...");
    }
}
