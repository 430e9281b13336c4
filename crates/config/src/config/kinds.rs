//! The kinds of values that many keys share: durations, sizes, numbers, names. Each kind reads a value, reports what is
//! wrong with it, and describes it to editors.
//!
//! Not for kinds that only one key uses: see `keys::OwnValue`.

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};
use toml::de::DeValue;

use super::keys::{self, ValueKind};
use super::names::NamedChoice;
use super::problem::{LocatedProblem, shown};
use super::reader::{Located, TomlTable, one_of, wrong_type};
use super::text::ExpandedText;
use super::units::{self, format_bytes, format_duration, parse_bytes, parse_duration};

/// A duration within bounds, such as `"250ms"`.
pub(super) struct TimeSpan(pub(super) RangeInclusive<Duration>);

impl ValueKind for TimeSpan {
    type Value = Duration;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Duration> {
        if !table.is_string(key) {
            let Located { offset, value } = table.take(key)?;
            let expected = match &value {
                DeValue::Integer(number) if number.radix() == 10 => format!("a unit: \"{}s\"", number.as_str()),
                _ => "a string such as \"20s\"".to_owned(),
            };
            table.scope.report(wrong_type(offset, &table.what(key), &value, &expected));
            return None;
        }
        let text = table.text(key)?;
        let problem = match parse_duration(&text.value.value) {
            Ok(duration) if self.0.contains(&duration) => return Some(duration),
            Ok(_) => table.bad_value(key, &text).expected(between(&self.0, |bound| format_duration(*bound))),
            Err(error) => table.bad_value(key, &text).expected(error.expected),
        };
        table.scope.report(problem);
        None
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        keys::text(units::DURATION_PATTERN)
    }

    fn written(&self, value: &Duration) -> Option<Value> {
        Some(format_duration(*value).into())
    }
}

/// Bytes within bounds, as a string with a unit or as an integer.
pub(super) struct ByteSize(pub(super) RangeInclusive<usize>);

impl ValueKind for ByteSize {
    type Value = usize;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<usize> {
        if !table.is_string(key) {
            return WholeNumber(self.0.clone()).read(table, key);
        }
        let text = table.text(key)?;
        let bytes = parse_bytes(&text.value.value).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let problem = match bytes {
            Ok(bytes) if self.0.contains(&bytes) => return Some(bytes),
            Ok(_) => table.bad_value(key, &text).expected(between(&self.0, |bound| format_bytes(*bound as u64))),
            Err(error) => table.bad_value(key, &text).expected(error.expected),
        };
        table.scope.report(problem);
        None
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let (text, number) = (keys::text(units::BYTES_PATTERN), WholeNumber(self.0.clone()).schema(generator));
        json_schema!({ "anyOf": [text, number] })
    }

    fn written(&self, value: &usize) -> Option<Value> {
        Some(format_bytes(*value as u64).into())
    }
}

/// An integer within bounds.
pub(super) struct WholeNumber<T>(pub(super) RangeInclusive<T>);

impl<T: TryFrom<u64> + PartialOrd + Clone + Display + Serialize> ValueKind for WholeNumber<T> {
    type Value = T;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<T> {
        let Located { offset, value } = table.take(key)?;
        let DeValue::Integer(integer) = &value else {
            table.scope.report(wrong_type(offset, &table.what(key), &value, "an integer"));
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| T::try_from(n).ok());
        let number = number.filter(|n| self.0.contains(n));
        if number.is_none() {
            let message = format!("bad value {} for {}", shown(&integer.to_string()), table.what(key));
            table.scope.report(LocatedProblem::at(offset, message).expected(between(&self.0, T::to_string)));
        }
        number
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": self.0.start(), "maximum": self.0.end() })
    }

    fn written(&self, value: &T) -> Option<Value> {
        Some(json!(value))
    }
}

/// A finite number within bounds, with or without a fraction.
pub(super) struct RealNumber(pub(super) RangeInclusive<f64>);

impl ValueKind for RealNumber {
    type Value = f64;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<f64> {
        let Located { offset, value } = table.take(key)?;
        let (number, typed) = match &value {
            DeValue::Float(float) => (float.as_str().parse::<f64>().ok(), float.as_str()),
            DeValue::Integer(integer) if integer.radix() == 10 => (integer.as_str().parse().ok(), integer.as_str()),
            other => {
                let expected = format!("a number, {}", between(&self.0, f64::to_string));
                table.scope.report(wrong_type(offset, &table.what(key), other, &expected));
                return None;
            }
        };
        let number = number.filter(|number| number.is_finite() && self.0.contains(number));
        if number.is_none() {
            let message = format!("bad value {} for {}", shown(typed), table.what(key));
            table.scope.report(LocatedProblem::at(offset, message).expected(between(&self.0, f64::to_string)));
        }
        number
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": self.0.start(), "maximum": self.0.end() })
    }

    fn written(&self, value: &f64) -> Option<Value> {
        Some(json!(value))
    }
}

/// `true` or `false`.
pub(super) struct Flag;

impl ValueKind for Flag {
    type Value = bool;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<bool> {
        let Located { offset, value } = table.take(key)?;
        let DeValue::Boolean(boolean) = value else {
            table.scope.report(wrong_type(offset, &table.what(key), &value, "true or false"));
            return None;
        };
        Some(boolean)
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean" })
    }

    fn written(&self, value: &bool) -> Option<Value> {
        Some((*value).into())
    }
}

/// One of a few names.
pub(super) struct OneName<T>(PhantomData<T>);

pub(super) fn choice<T>() -> OneName<T> {
    OneName(PhantomData)
}

impl<T: NamedChoice> ValueKind for OneName<T> {
    type Value = T;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<T> {
        let text = table.text(key)?;
        let found = T::VARIANTS.iter().copied().find(|choice| choice.name() == text.value.value);
        if found.is_none() {
            let names: Vec<&str> = T::VARIANTS.iter().map(|choice| choice.name()).collect();
            let problem = table.bad_value(key, &text).expected(one_of(&names));
            table.scope.report(problem.nearest(&text.value.typed, names));
        }
        found
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        keys::names::<T>()
    }

    fn written(&self, value: &T) -> Option<Value> {
        Some(value.name().into())
    }
}

/// A string with a custom parser.
pub(super) struct ParsedText<T> {
    /// None: the text is wrong.
    pub(super) parse: fn(&str) -> Option<T>,
    /// What a right value looks like, with an example.
    pub(super) expected: &'static str,
    /// A regular expression that all valid texts match.
    pub(super) pattern: &'static str,
    pub(super) format: fn(&T) -> String,
}

impl<T: Clone> ValueKind for ParsedText<T> {
    type Value = T;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<T> {
        if !table.is_string(key) {
            let Located { offset, value } = table.take(key)?;
            table.scope.report(wrong_type(offset, &table.what(key), &value, self.expected));
            return None;
        }
        let text = table.text(key)?;
        let parsed = (self.parse)(&text.value.value);
        if parsed.is_none() {
            table.scope.report(table.bad_value(key, &text).expected(self.expected));
        }
        parsed
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        keys::text(self.pattern)
    }

    fn written(&self, value: &T) -> Option<Value> {
        Some((self.format)(value).into())
    }
}

/// A string with its variables filled in.
pub(super) struct PlainText;

impl ValueKind for PlainText {
    type Value = Located<ExpandedText>;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<ExpandedText>> {
        table.text(key)
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        keys::any_text()
    }
}

/// A string without replaced variables: a secret, or its source.
pub(super) struct TypedText;

impl ValueKind for TypedText {
    type Value = Located<String>;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Located<String>> {
        table.string(key)
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        keys::any_text()
    }
}

fn between<T>(range: &RangeInclusive<T>, show: impl Fn(&T) -> String) -> String {
    format!("{} to {}", show(range.start()), show(range.end()))
}
