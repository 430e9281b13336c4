//! A reader over a parsed TOML table: it takes keys out, reports values of the wrong type, and at the end every key that is left.
//!
//! Not for the meaning of keys: see `raw`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{self, LocatedProblem, shown};
use photofinish_base::files::{FileLimits, FileStamp};

/// A value, and the byte offset at which it begins in the file.
#[derive(Clone)]
pub(super) struct Located<T> {
    pub(super) offset: usize,
    pub(super) value: T,
}

/// What the readers of one file share: its problems and warnings.
pub(super) struct ReaderScope<'s> {
    pub(super) env: &'s dyn Fn(&str) -> Option<String>,
    /// How it reads the files that this one names.
    pub(super) limits: FileLimits,
    /// The tables of the file, each with its keys: people look for some at the top of the file or in another table.
    homes: &'static [(&'static str, &'static [&'static str])],
    found: RefCell<Vec<LocatedProblem>>,
    /// Some with their place in the file.
    warnings: RefCell<Vec<(Option<usize>, String)>>,
    /// The file itself contains a secret.
    holds_secrets: Cell<bool>,
    /// The files to watch, as they were read.
    watched: RefCell<WatchedFiles>,
}

/// Files and the versions of them that were read. None: there was none.
pub type WatchedFiles = BTreeMap<PathBuf, Option<FileStamp>>;

impl<'s> ReaderScope<'s> {
    pub(super) fn new(env: &'s dyn Fn(&str) -> Option<String>, limits: FileLimits) -> ReaderScope<'s> {
        ReaderScope {
            env,
            limits,
            homes: &[],
            found: RefCell::default(),
            warnings: RefCell::default(),
            holds_secrets: Cell::default(),
            watched: RefCell::default(),
        }
    }

    pub(super) fn with_homes(self, homes: &'static [(&'static str, &'static [&'static str])]) -> ReaderScope<'s> {
        ReaderScope { homes, ..self }
    }

    pub(super) fn report(&self, found: LocatedProblem) {
        self.found.borrow_mut().push(found);
    }

    /// Reports what begins at this byte of the file, and what would be right.
    pub(super) fn wrong(&self, offset: usize, message: impl Into<String>, expected: impl Into<String>) {
        self.report(LocatedProblem::at(offset, message).expected(expected));
    }

    pub(super) fn warn(&self, warning: String) {
        self.warnings.borrow_mut().push((None, warning));
    }

    /// A warning about what begins at this byte of the file.
    pub(super) fn warn_at(&self, offset: usize, warning: String) {
        self.warnings.borrow_mut().push((Some(offset), warning));
    }

    /// Notes that the file itself contains a secret.
    pub(super) fn note_secret(&self) {
        self.holds_secrets.set(true);
    }

    pub(super) fn holds_secrets(&self) -> bool {
        self.holds_secrets.get()
    }

    /// A change of this file changes the configuration.
    pub(super) fn watch(&self, path: &Path, read: Option<FileStamp>) {
        self.watched.borrow_mut().insert(path.to_owned(), read);
    }

    pub(super) fn watched(&self) -> WatchedFiles {
        self.watched.borrow().clone()
    }

    /// The problems and the warnings of the file with this name and text.
    pub(super) fn finish(self, file: &str, text: &str) -> (Vec<LocatedProblem>, Vec<String>) {
        let warning = |(offset, warning): (Option<usize>, String)| match offset {
            Some(offset) => format!("{file}:{}", LocatedProblem::at(offset, warning).placed(text)),
            None => warning,
        };
        (self.found.into_inner(), self.warnings.into_inner().into_iter().map(warning).collect())
    }
}

/// A table and the keys that were not read yet. [`TomlTable::finish`] reports those that are left.
pub(super) struct TomlTable<'s, 'i> {
    pub(super) scope: &'s ReaderScope<'s>,
    /// The name in messages: `[race]`.
    pub(super) name: String,
    /// Where it begins.
    pub(super) offset: usize,
    entries: DeTable<'i>,
    /// The keys that a table of this kind may have, in the order in which they were read.
    known: Vec<&'static str>,
    /// The keys that were in the file, of those that were read.
    taken: Vec<&'static str>,
}

impl<'s, 'i> TomlTable<'s, 'i> {
    pub(super) fn new(
        scope: &'s ReaderScope<'s>,
        name: String,
        offset: usize,
        entries: DeTable<'i>,
    ) -> TomlTable<'s, 'i> {
        TomlTable { scope, name, offset, entries, known: Vec::new(), taken: Vec::new() }
    }

    /// The file has this key, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key) || self.taken.contains(&key)
    }

    /// The value of this key is a string, and was not read yet.
    pub(super) fn is_string(&self, key: &str) -> bool {
        matches!(self.entries.get(key).map(Spanned::get_ref), Some(DeValue::String(_)))
    }

    /// The value of this key is a table, and was not read yet.
    pub(super) fn is_table(&self, key: &str) -> bool {
        matches!(self.entries.get(key).map(Spanned::get_ref), Some(DeValue::Table(_)))
    }

    /// The name of a key in messages: `"policy" in [race]`.
    pub(super) fn what(&self, key: &str) -> String {
        format!("\"{}\" in {}", shown(key), self.name)
    }

    /// The value of this key if it is `true` or `false`; any other value stays.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let DeValue::Boolean(flag) = *self.entries.get(key)?.get_ref() else { return None };
        self.take(key)?;
        Some(flag)
    }

    /// A table under this key, whose keys are known.
    pub(super) fn table(&mut self, key: &'static str, name: String) -> Option<TomlTable<'s, 'i>> {
        let value = self.take(key)?;
        as_table(self.scope, &self.what(key), name, value)
    }

    /// A table under this key; messages call it `KEY of [TABLE]`.
    pub(super) fn inner(&mut self, key: &'static str) -> Option<TomlTable<'s, 'i>> {
        self.table(key, format!("{key} of {}", self.name))
    }

    /// The tables under this key, by name; messages call them `[KEY.NAME]`. A table that has one of `marks` inside is one whose name
    /// has a dot and lacks quotes: it is reported, and read under its whole name.
    pub(super) fn named_tables(
        &mut self,
        key: &'static str,
        marks: &[&str],
    ) -> Vec<(Located<String>, TomlTable<'s, 'i>)> {
        let mut tables = Vec::new();
        for (name, value) in self.entries_of(key, format!("[{key}]")) {
            let title = format!("[{key}.{}]", shown(&name.value));
            let what = format!("\"{}\" in [{key}]", shown(&name.value));
            let Located { offset, value: DeValue::Table(mut entries) } = value else {
                self.scope.report(wrong_type(value.offset, &what, &value.value, &format!("a table {title}")));
                continue;
            };
            let parts = split_names(&name, &mut entries, marks);
            if parts.is_empty() || !entries.is_empty() {
                tables.push((name, TomlTable::new(self.scope, title, offset, entries)));
            }
            for (name, offset, entries) in parts {
                let typed = shown(&name.value);
                let quoted = format!("[{key}.\"{typed}\"]");
                let message = format!("[{key}.{typed}] is a table in a table: a name with a dot needs quotes");
                self.scope.wrong(name.offset, message, &quoted);
                tables.push((name, TomlTable::new(self.scope, quoted, offset, entries)));
            }
        }
        tables
    }

    /// The strings under this key, by name; not expanded.
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

    /// A string as it is typed.
    pub(super) fn string(&mut self, key: &'static str) -> Option<Located<String>> {
        let value = self.take(key)?;
        as_string(self.scope, &self.what(key), value)
    }

    /// A string or a list of strings, as typed. None: the key is absent, or no part of its value is a string.
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
        // An empty list is an answer; a list of wrong values is reported already.
        (!any || !strings.is_empty()).then_some(strings)
    }

    /// A list of values of any type.
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

    /// Adds keys to the valid ones before they are read.
    pub(super) fn know(&mut self, keys: &[&'static str]) {
        for key in keys {
            if !self.known.contains(key) {
                self.known.push(key);
            }
        }
    }

    /// Reports the keys that are left as unknown.
    pub(super) fn finish(self) {
        for key in self.entries.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref())) {
            let message = format!("unknown key \"{}\" in {}", shown(key.get_ref()), self.name);
            let problem = LocatedProblem::at(key.span().start, message);
            let expected = one_of(&self.known);
            let home = self.scope.homes.iter().find(|(_, keys)| keys.contains(&key.get_ref().as_ref()));
            self.scope.report(match (problem::usual_name(key.get_ref(), &self.known), home) {
                (Some(usual), _) => problem.meant(usual),
                (None, Some((home, _))) => problem.expected(format!("it under {home}")),
                (None, None) if let Some(instead) = problem::instead(key.get_ref()) => problem.expected(instead),
                (None, None) => problem.expected(expected).nearest(key.get_ref(), self.known.iter().copied()),
            });
        }
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Located<DeValue<'i>>> {
        self.know(&[key]);
        let value = self.entries.remove(key).map(at)?;
        self.taken.push(key);
        Some(value)
    }

    /// The values by name, of a table whose keys may be any.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (Located<String>, Located<DeValue<'i>>)> {
        self.entries.into_iter().map(|(key, value)| {
            let offset = key.span().start;
            (Located { offset, value: key.into_inner().into_owned() }, at(value))
        })
    }

    fn entries_of(&mut self, key: &'static str, name: String) -> Vec<(Located<String>, Located<DeValue<'i>>)> {
        self.table(key, name).map_or_else(Vec::new, |table| table.into_entries().collect())
    }
}

/// Reads a value as a table.
pub(super) fn as_table<'s, 'i>(
    scope: &'s ReaderScope<'s>,
    what: &str,
    name: String,
    value: Located<DeValue<'i>>,
) -> Option<TomlTable<'s, 'i>> {
    match value.value {
        DeValue::Table(entries) => Some(TomlTable::new(scope, name, value.offset, entries)),
        other => {
            // A number alone does not say of which time.
            let is_budget = what.starts_with("\"budget\" in ");
            let expected = if is_budget { "a table, such as { day = 5.0 } or { month = 100.0 }" } else { "a table" };
            scope.report(wrong_type(value.offset, what, &other, expected));
            None
        }
    }
}

/// Reads a value as a string, as typed.
pub(super) fn as_string(scope: &ReaderScope<'_>, what: &str, value: Located<DeValue<'_>>) -> Option<Located<String>> {
    match value.value {
        DeValue::String(string) => Some(Located { offset: value.offset, value: string.into_owned() }),
        other => {
            scope.report(wrong_type(value.offset, what, &other, "a string"));
            None
        }
    }
}

/// The problem of a value of the wrong type. It does not quote the value, which may be a secret.
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

/// Takes out the tables inside that have one of `marks`, each with the name that was meant and its place.
fn split_names<'i>(
    name: &Located<String>,
    entries: &mut DeTable<'i>,
    marks: &[&str],
) -> Vec<(Located<String>, usize, DeTable<'i>)> {
    let mut found = Vec::new();
    for (key, mut value) in std::mem::take(entries) {
        let offset = value.span().start;
        if let DeValue::Table(inner) = value.get_mut() {
            let whole = Located { offset: key.span().start, value: format!("{}.{}", name.value, key.get_ref()) };
            if marks.iter().any(|mark| inner.contains_key(*mark)) {
                found.push((whole, offset, std::mem::take(inner)));
                continue;
            }
            let parts = split_names(&whole, inner, marks);
            // No key begins with a digit, and many names go on with one after their dot.
            if parts.is_empty() && key.get_ref().starts_with(|first: char| first.is_ascii_digit()) {
                found.push((whole, offset, std::mem::take(inner)));
                continue;
            }
            let was_only_a_part = !parts.is_empty() && inner.is_empty();
            found.extend(parts);
            if was_only_a_part {
                continue;
            }
        }
        entries.insert(key, value);
    }
    found
}

fn at(value: Spanned<DeValue<'_>>) -> Located<DeValue<'_>> {
    Located { offset: value.span().start, value: value.into_inner() }
}

pub(super) fn one_of(names: &[&str]) -> String {
    match names {
        [name] => format!("\"{name}\""),
        names => format!("one of {}", names.join(", ")),
    }
}
