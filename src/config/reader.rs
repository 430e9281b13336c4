//! A small typed reader over a parsed TOML table: it takes keys out, reports what has the wrong type or value, and at
//! the end whatever key is left.
//!
//! It knows nothing of what the keys mean: that is `raw`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{LocatedProblem, shown};
use super::text::{self, ExpandedText};
use super::units;

/// A value and the byte of the file at which it begins.
pub(super) struct Located<T> {
    pub(super) offset: usize,
    pub(super) value: T,
}

/// What all readers of one file share.
pub(super) struct ReaderScope<'s> {
    pub(super) env: &'s dyn Fn(&str) -> Option<String>,
    found: RefCell<Vec<LocatedProblem>>,
    warnings: RefCell<Vec<String>>,
    /// Whether a secret stands in the file itself.
    holds_secrets: Cell<bool>,
}

impl<'s> ReaderScope<'s> {
    pub(super) fn new(env: &'s dyn Fn(&str) -> Option<String>) -> ReaderScope<'s> {
        ReaderScope { env, found: RefCell::default(), warnings: RefCell::default(), holds_secrets: Cell::default() }
    }

    pub(super) fn report(&self, found: LocatedProblem) {
        self.found.borrow_mut().push(found);
    }

    pub(super) fn warn(&self, warning: String) {
        self.warnings.borrow_mut().push(warning);
    }

    /// A secret stands in the file itself.
    pub(super) fn note_secret(&self) {
        self.holds_secrets.set(true);
    }

    pub(super) fn holds_secrets(&self) -> bool {
        self.holds_secrets.get()
    }

    /// The problems and the warnings.
    pub(super) fn finish(self) -> (Vec<LocatedProblem>, Vec<String>) {
        (self.found.into_inner(), self.warnings.into_inner())
    }
}

/// One table, as far as it has not been read yet. End it with [`TomlTable::finish`], which reports the rest.
pub(super) struct TomlTable<'s, 'i> {
    pub(super) scope: &'s ReaderScope<'s>,
    /// As messages call it: `[race]`.
    pub(super) name: String,
    /// Where it begins.
    pub(super) offset: usize,
    entries: DeTable<'i>,
    /// Every key that was asked for.
    known: Vec<&'static str>,
}

impl<'s, 'i> TomlTable<'s, 'i> {
    pub(super) fn new(
        scope: &'s ReaderScope<'s>,
        name: String,
        offset: usize,
        entries: DeTable<'i>,
    ) -> TomlTable<'s, 'i> {
        TomlTable { scope, name, offset, entries, known: Vec::new() }
    }

    /// Whether the key is there, right or wrong. To be asked before it is read.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The name of a key in messages: `"policy" in [race]`.
    pub(super) fn what(&self, key: &str) -> String {
        format!("\"{}\" in {}", shown(key), self.name)
    }

    /// A table under this key, whose keys are known.
    pub(super) fn table(&mut self, key: &'static str, name: String) -> Option<TomlTable<'s, 'i>> {
        let value = self.take(key)?;
        as_table(self.scope, &self.what(key), name, value)
    }

    /// The tables under this key, whose own keys are free names. `[key.NAME]` is what messages call them.
    pub(super) fn named_tables(&mut self, key: &'static str) -> Vec<(Located<String>, TomlTable<'s, 'i>)> {
        let mut tables = Vec::new();
        for (name, value) in self.entries_of(key, format!("[{key}]")) {
            let title = format!("[{key}.{}]", shown(&name.value));
            let what = format!("\"{}\" in [{key}]", shown(&name.value));
            if let Some(table) = as_table(self.scope, &what, title, value) {
                tables.push((name, table));
            }
        }
        tables
    }

    /// The strings under this key, whose own keys are free names; not expanded.
    pub(super) fn named_strings(&mut self, key: &'static str, name: String) -> Vec<(Located<String>, Located<String>)> {
        let mut strings = Vec::new();
        for (entry, value) in self.entries_of(key, name.clone()) {
            let what = format!("\"{}\" in {name}", shown(&entry.value));
            if let Some(string) = as_string(self.scope, &what, value) {
                strings.push((entry, string));
            }
        }
        strings
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<Located<ExpandedText>> {
        let string = self.string(key)?;
        text::plain(self.scope, &self.what(key), string)
    }

    /// A string as it was typed.
    pub(super) fn string(&mut self, key: &'static str) -> Option<Located<String>> {
        let value = self.take(key)?;
        as_string(self.scope, &self.what(key), value)
    }

    /// A string, or a list of strings, as typed. `None` if the key is not there or nothing in it is a string.
    pub(super) fn strings(&mut self, key: &'static str) -> Option<Vec<Located<String>>> {
        let value = self.take(key)?;
        let what = self.what(key);
        let values = match value.value {
            DeValue::Array(values) => values.into_iter().map(at).collect(),
            DeValue::String(_) => vec![value],
            other => {
                self.scope.report(wrong_type(value.offset, &what, &other, "a string or a list of strings"));
                return None;
            }
        };
        let any = !values.is_empty();
        let strings: Vec<_> = values.into_iter().filter_map(|value| as_string(self.scope, &what, value)).collect();
        // Not a list that is empty: one in which everything is wrong, which is reported.
        (!any || !strings.is_empty()).then_some(strings)
    }

    /// `true`, `false`, or a list of names.
    pub(super) fn boolean_or_choices<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Option<Result<bool, Vec<T>>> {
        if matches!(self.entries.get(key).map(Spanned::get_ref), Some(DeValue::Boolean(_))) {
            return self.boolean(key).map(Ok);
        }
        let mut choices = Vec::new();
        for Located { offset, value } in self.list(key, "true, false or a list of names")?.value {
            let Some(typed) = as_string(self.scope, &self.what(key), Located { offset, value }) else { continue };
            match all.iter().copied().find(|choice| name(*choice) == typed.value) {
                Some(choice) => choices.push(choice),
                None => {
                    let names: Vec<&str> = all.iter().copied().map(&name).collect();
                    let message = format!("bad value \"{}\" for {}", shown(&typed.value), self.what(key));
                    let problem = LocatedProblem::at(offset, message).expected(one_of(&names));
                    self.scope.report(problem.nearest(&typed.value, names));
                }
            }
        }
        Some(Err(choices))
    }

    /// A list of whatever.
    pub(super) fn list(
        &mut self,
        key: &'static str,
        expected: &str,
    ) -> Option<Located<VecDeque<Located<DeValue<'i>>>>> {
        let Located { offset, value } = self.take(key)?;
        match value {
            DeValue::Array(values) => Some(Located { offset, value: values.into_iter().map(at).collect() }),
            other => {
                self.scope.report(wrong_type(offset, &self.what(key), &other, expected));
                None
            }
        }
    }

    /// One of a few names.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        let text = self.text(key)?;
        let found = all.iter().copied().find(|choice| name(*choice) == text.value.value);
        if found.is_none() {
            let names: Vec<&str> = all.iter().copied().map(name).collect();
            let problem = self.bad_value(key, &text).expected(one_of(&names));
            self.scope.report(problem.nearest(&text.value.typed, names));
        }
        found
    }

    pub(super) fn duration(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.text(key)?;
        let problem = match units::parse_duration(&text.value.value) {
            Ok(duration) if range.contains(&duration) => return Some(duration),
            Ok(_) => self.bad_value(key, &text).expected(between(range, units::format_duration)),
            Err(error) => self.bad_value(key, &text).expected(error.expected),
        };
        self.scope.report(problem);
        None
    }

    /// Bytes, as a string with a unit or as an integer.
    pub(super) fn bytes(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        if !matches!(self.entries.get(key).map(Spanned::get_ref), Some(DeValue::String(_))) {
            return self.integer(key, range);
        }
        let text = self.text(key)?;
        let problem = match units::parse_bytes(&text.value.value) {
            Ok(bytes) if range.contains(&bytes) => return Some(bytes),
            Ok(_) => self.bad_value(key, &text).expected(between(range, units::format_bytes)),
            Err(error) => self.bad_value(key, &text).expected(error.expected),
        };
        self.scope.report(problem);
        None
    }

    pub(super) fn integer(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let Located { offset, value } = self.take(key)?;
        let DeValue::Integer(integer) = &value else {
            self.scope.report(wrong_type(offset, &self.what(key), &value, "an integer"));
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("bad value {} for {}", shown(&integer.to_string()), self.what(key));
            self.scope.report(LocatedProblem::at(offset, message).expected(between(range, |n| n.to_string())));
        }
        number
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let Located { offset, value } = self.take(key)?;
        let DeValue::Boolean(boolean) = value else {
            self.scope.report(wrong_type(offset, &self.what(key), &value, "true or false"));
            return None;
        };
        Some(boolean)
    }

    /// A finite number, with or without a fraction.
    pub(super) fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let Located { offset, value } = self.take(key)?;
        let (number, typed) = match &value {
            DeValue::Float(float) => (float.as_str().parse::<f64>().ok(), float.as_str()),
            DeValue::Integer(integer) if integer.radix() == 10 => (integer.as_str().parse().ok(), integer.as_str()),
            other => {
                self.scope.report(wrong_type(offset, &self.what(key), other, "a number"));
                return None;
            }
        };
        let number = number.filter(|number| number.is_finite() && range.contains(number));
        if number.is_none() {
            let message = format!("bad value {} for {}", shown(typed), self.what(key));
            self.scope.report(LocatedProblem::at(offset, message).expected(between(range, |n| n.to_string())));
        }
        number
    }

    pub(super) fn bad_value(&self, key: &str, text: &Located<ExpandedText>) -> LocatedProblem {
        LocatedProblem::at(text.offset, format!("bad value \"{}\" for {}", shown(&text.value.typed), self.what(key)))
    }

    /// These keys are valid, though nobody reads them.
    pub(super) fn know(&mut self, keys: &[&'static str]) {
        for key in keys {
            if !self.known.contains(key) {
                self.known.push(key);
            }
        }
    }

    /// Reports the keys that nobody asked for.
    pub(super) fn finish(self) {
        for key in self.entries.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref())) {
            let message = format!("unknown key \"{}\" in {}", shown(key.get_ref()), self.name);
            let problem = LocatedProblem::at(key.span().start, message).expected(one_of(&self.known));
            self.scope.report(problem.nearest(key.get_ref(), self.known.iter().copied()));
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Located<DeValue<'i>>> {
        self.know(&[key]);
        self.entries.remove(key).map(at)
    }

    fn entries_of(&mut self, key: &'static str, name: String) -> Vec<(Located<String>, Located<DeValue<'i>>)> {
        let Some(table) = self.table(key, name) else { return Vec::new() };
        let entries = table.entries.into_iter().map(|(key, value)| {
            let offset = key.span().start;
            (Located { offset, value: key.into_inner().into_owned() }, at(value))
        });
        entries.collect()
    }
}

/// A table, wherever it stands.
pub(super) fn as_table<'s, 'i>(
    scope: &'s ReaderScope<'s>,
    what: &str,
    name: String,
    value: Located<DeValue<'i>>,
) -> Option<TomlTable<'s, 'i>> {
    match value.value {
        DeValue::Table(entries) => Some(TomlTable::new(scope, name, value.offset, entries)),
        other => {
            scope.report(wrong_type(value.offset, what, &other, "a table"));
            None
        }
    }
}

/// A string, wherever it stands, as typed.
pub(super) fn as_string(scope: &ReaderScope<'_>, what: &str, value: Located<DeValue<'_>>) -> Option<Located<String>> {
    match value.value {
        DeValue::String(string) => Some(Located { offset: value.offset, value: string.into_owned() }),
        other => {
            scope.report(wrong_type(value.offset, what, &other, "a string"));
            None
        }
    }
}

/// Names the type only: the value may be a secret.
pub(super) fn wrong_type(offset: usize, what: &str, value: &DeValue<'_>, expected: &str) -> LocatedProblem {
    let kind = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    LocatedProblem::at(offset, format!("{what} is {kind}")).expected(expected)
}

fn at(value: Spanned<DeValue<'_>>) -> Located<DeValue<'_>> {
    Located { offset: value.span().start, value: value.into_inner() }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [name] => format!("\"{name}\""),
        names => format!("one of {}", names.join(", ")),
    }
}

fn between<T: Copy>(range: RangeInclusive<T>, show: impl Fn(T) -> String) -> String {
    format!("{} to {}", show(*range.start()), show(*range.end()))
}
