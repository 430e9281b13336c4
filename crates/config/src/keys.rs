//! `keys!` declares the keys of a table once, each with its doc comment, type, kind of value and default. It makes the struct,
//! its reader and its part of the JSON Schema. The kinds of values that many keys share follow: each reads a value, reports
//! what is wrong with it, and describes it to editors.
//!
//! Not for checks between two keys or two tables: see `resolve`.

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use toml::de::DeValue;

use super::names::NamedChoice;
use super::problem::shown;
use super::reader::{Located, TomlTable, one_of, wrong_type};
use super::text::ExpandedText;
use super::units::{self, format_bytes, format_duration, parse_bytes, parse_duration};

/// How the value of a key is read and described, without its default.
pub(super) trait ValueKind {
    type Value: Clone;

    /// None: the key is absent, or its value is wrong and reported.
    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Self::Value>;

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;

    /// A value as it is written in the file. None: it has no short form.
    fn written(&self, _: &Self::Value) -> Option<Value> {
        None
    }
}

/// How a key is read and described, with its default.
pub(super) trait KeyKind {
    type Value;

    /// The value of the key, or `base` if it is absent or wrong.
    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str, base: &Self::Value) -> Self::Value;

    fn schema(&self, generator: &mut SchemaGenerator, base: &Self::Value) -> Schema;

    /// The value as it is written in the file. None: the key is absent, or it has no short form.
    fn entry(&self, value: &Self::Value) -> Option<Value>;
}

impl<L: ValueKind> KeyKind for L {
    type Value = L::Value;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str, base: &L::Value) -> L::Value {
        ValueKind::read(self, table, key).unwrap_or_else(|| base.clone())
    }

    fn schema(&self, generator: &mut SchemaGenerator, base: &L::Value) -> Schema {
        let mut schema = ValueKind::schema(self, generator);
        if let Some(default) = self.written(base) {
            schema.insert("default".to_owned(), default);
        }
        schema
    }

    fn entry(&self, value: &L::Value) -> Option<Value> {
        self.written(value)
    }
}

/// A key without a default.
pub(super) struct WithoutDefault<L>(pub(super) L);

impl<L: ValueKind> KeyKind for WithoutDefault<L> {
    type Value = Option<L::Value>;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str, base: &Option<L::Value>) -> Option<L::Value> {
        self.0.read(table, key).or_else(|| base.clone())
    }

    fn schema(&self, generator: &mut SchemaGenerator, _: &Option<L::Value>) -> Schema {
        self.0.schema(generator)
    }

    fn entry(&self, value: &Option<L::Value>) -> Option<Value> {
        value.as_ref().and_then(|value| self.0.written(value))
    }
}

/// The keys of one table. `keys!` implements it.
pub(super) trait TableKeys: Clone + Default + JsonSchema {
    const NAMES: &'static [&'static str];

    /// Reads the keys from the table; `base` has the values of absent or wrong keys.
    fn read(table: &mut TomlTable<'_, '_>, base: &Self) -> Self;

    /// The schema of each key.
    fn properties(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)>;

    /// The keys that are not as by default, with their values as they are written in the file.
    fn entries(&self) -> Map<String, Value>;
}

/// A table under a key. Its absent keys keep their defaults.
pub(super) struct NestedTable<T> {
    /// Checks the value after it was read from the table.
    check: fn(&TomlTable<'_, '_>, &T),
}

pub(super) fn nested<T>() -> NestedTable<T> {
    NestedTable { check: |_, _| {} }
}

pub(super) fn checked<T>(check: fn(&TomlTable<'_, '_>, &T)) -> NestedTable<T> {
    NestedTable { check }
}

impl<T: TableKeys> KeyKind for NestedTable<T> {
    type Value = T;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str, base: &T) -> T {
        let Some(mut table) = table.inner(key) else { return base.clone() };
        let keys = T::read(&mut table, base);
        (self.check)(&table, &keys);
        table.finish();
        keys
    }

    fn schema(&self, generator: &mut SchemaGenerator, _: &T) -> Schema {
        generator.subschema_for::<T>()
    }

    fn entry(&self, value: &T) -> Option<Value> {
        Some(value.entries().into())
    }
}

/// An optional table under a key.
pub(super) struct OptionalTable<T>(PhantomData<T>);

pub(super) fn inner<T>() -> OptionalTable<T> {
    OptionalTable(PhantomData)
}

impl<T: TableKeys> ValueKind for OptionalTable<T> {
    type Value = T;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<T> {
        let mut table = table.inner(key)?;
        let keys = T::read(&mut table, &T::default());
        table.finish();
        Some(keys)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// A key with a custom reader.
pub(super) struct OwnValue<T> {
    pub(super) read: fn(&mut TomlTable<'_, '_>, &'static str) -> Option<T>,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
    /// The default, as it is written in the file.
    pub(super) default: Option<&'static str>,
}

pub(super) fn own<T>(
    read: fn(&mut TomlTable<'_, '_>, &'static str) -> Option<T>,
    schema: fn(&mut SchemaGenerator) -> Schema,
) -> OwnValue<T> {
    OwnValue { read, schema, default: None }
}

impl<T> OwnValue<T> {
    pub(super) fn shown(self, default: &'static str) -> OwnValue<T> {
        OwnValue { default: Some(default), ..self }
    }
}

impl<T: Clone> ValueKind for OwnValue<T> {
    type Value = T;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<T> {
        (self.read)(table, key)
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    fn written(&self, _: &T) -> Option<Value> {
        self.default.map(Value::from)
    }
}

/// The schema of a key: the schema of its value, and its doc comment.
pub(super) fn property<K: KeyKind>(generator: &mut SchemaGenerator, about: &str, kind: &K, base: &K::Value) -> Schema {
    let mut schema = kind.schema(generator, base);
    schema.insert("description".to_owned(), joined(about).into());
    schema
}

/// Joins the lines of a doc comment.
pub(super) fn joined(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A table with these keys and no others.
pub(super) fn object(properties: Vec<(&'static str, Schema)>) -> Schema {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(key, schema)| (key.to_owned(), schema.into())).collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A string of this form, or one with a variable in it: its value is unknown before the gateway starts.
pub(super) fn text(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "pattern": format!("^\\s*({pattern})\\s*$|\\$\\{{") })
}

/// Any string.
pub(super) fn any_text() -> Schema {
    json_schema!({ "type": "string" })
}

/// A string or a list of strings.
pub(super) fn one_or_more(item: Schema) -> Schema {
    let item = Value::from(item);
    json_schema!({ "anyOf": [item, { "type": "array", "items": item }] })
}

/// One of several names, each with its meaning; or a string with a variable in it.
pub(super) fn names<T: super::names::NamedChoice>() -> Schema {
    let variants = T::VARIANTS.iter().map(|variant| match joined(variant.about()) {
        about if about.is_empty() => json!({ "const": variant.name() }),
        about => json!({ "const": variant.name(), "description": about }),
    });
    let variable = json!({ "type": "string", "pattern": "\\$\\{" });
    json_schema!({ "anyOf": variants.chain([variable]).collect::<Vec<_>>() })
}

/// Each key is written `/// What it does.` and `key: Type = kind, or default;`. Without a default its type is an `Option`.
macro_rules! keys {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[doc = $about:literal])* $key:ident: $type:ty = $kind:expr $(, or $default:expr)?;)+
        }
    ) => {
        $(#[$meta])*
        $vis struct $name { $($(#[doc = $about])* $vis $key: $type,)+ }

        impl Default for $name {
            fn default() -> $name {
                $name { $($key: $crate::keys::keys!(@default $($default)?),)+ }
            }
        }

        impl $crate::keys::TableKeys for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($key),)+];

            fn read(table: &mut $crate::reader::TomlTable<'_, '_>, base: &$name) -> $name {
                use $crate::keys::{KeyKind, keys};
                $name { $($key: KeyKind::read(&keys!(@kind $kind $(, $default)?), table, stringify!($key), &base.$key),)+ }
            }

            fn properties(generator: &mut ::schemars::SchemaGenerator) -> Vec<(&'static str, ::schemars::Schema)> {
                use $crate::keys::{keys, property};
                let base = <$name>::default();
                vec![$((
                    stringify!($key),
                    property(
                        generator,
                        concat!($($about, "\n",)* ""),
                        &keys!(@kind $kind $(, $default)?),
                        &base.$key,
                    ),
                ),)+]
            }

            fn entries(&self) -> ::serde_json::Map<String, ::serde_json::Value> {
                use $crate::keys::{KeyKind, keys};
                let base = <$name>::default();
                let mut entries = ::serde_json::Map::new();
                $({
                    let kind = keys!(@kind $kind $(, $default)?);
                    let entry = KeyKind::entry(&kind, &self.$key);
                    if let Some(entry) = entry.filter(|entry| KeyKind::entry(&kind, &base.$key).as_ref() != Some(entry)) {
                        entries.insert(stringify!($key).to_owned(), entry);
                    }
                })+
                entries
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let properties = <$name as $crate::keys::TableKeys>::properties(generator);
                $crate::keys::object(properties)
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { $default };
    (@kind $kind:expr) => { $crate::keys::WithoutDefault($kind) };
    (@kind $kind:expr, $default:expr) => { $kind };
}

pub(super) use keys;

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
        let problem = match parse_duration(&text.value) {
            Ok(duration) if self.0.contains(&duration) => return Some(duration),
            Ok(_) => table.bad_value(key, &text).expected(between(&self.0, |bound| format_duration(*bound))),
            Err(error) => table.bad_value(key, &text).expected(error.expected),
        };
        table.scope.report(problem);
        None
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        text(units::DURATION_PATTERN)
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
            return ValueKind::read(&WholeNumber(self.0.clone()), table, key);
        }
        let text = table.text(key)?;
        let bytes = parse_bytes(&text.value).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let problem = match bytes {
            Ok(bytes) if self.0.contains(&bytes) => return Some(bytes),
            Ok(_) => table.bad_value(key, &text).expected(between(&self.0, |bound| format_bytes(*bound as u64))),
            Err(error) => table.bad_value(key, &text).expected(error.expected),
        };
        table.scope.report(problem);
        None
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let (text, number) = (text(units::BYTES_PATTERN), ValueKind::schema(&WholeNumber(self.0.clone()), generator));
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
            table.scope.wrong(offset, message, between(&self.0, T::to_string));
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
            table.scope.wrong(offset, message, between(&self.0, f64::to_string));
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
        let found = T::VARIANTS.iter().copied().find(|choice| choice.name() == text.value);
        if found.is_none() {
            let names: Vec<&str> = T::VARIANTS.iter().map(|choice| choice.name()).collect();
            let problem = table.bad_value(key, &text).expected(one_of(&names));
            table.scope.report(problem.nearest(&text.typed, names));
        }
        found
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        names::<T>()
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
        let parsed = (self.parse)(&text.value);
        if parsed.is_none() {
            table.scope.report(table.bad_value(key, &text).expected(self.expected));
        }
        parsed
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        text(self.pattern)
    }

    fn written(&self, value: &T) -> Option<Value> {
        Some((self.format)(value).into())
    }
}

/// A string with its variables filled in.
pub(super) struct PlainText;

impl ValueKind for PlainText {
    type Value = ExpandedText;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<ExpandedText> {
        table.text(key)
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        any_text()
    }
}

/// A string or a list of at most `max` strings, with their variables filled in.
pub(super) struct Texts {
    pub(super) max: usize,
    /// What they are, in messages.
    pub(super) noun: &'static str,
}

impl ValueKind for Texts {
    type Value = Vec<ExpandedText>;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<ExpandedText>> {
        table.texts(key, self.max, self.noun)
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        one_or_more(any_text())
    }
}

/// The same, each read by a parser. What it does not take is reported and left out.
pub(super) struct ParsedTexts<T> {
    pub(super) texts: Texts,
    pub(super) parse: fn(&str) -> Option<T>,
    pub(super) expected: &'static str,
    pub(super) pattern: &'static str,
    pub(super) format: fn(&T) -> String,
}

impl<T: Clone> ValueKind for ParsedTexts<T> {
    type Value = Vec<T>;

    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Vec<T>> {
        let mut values = Vec::new();
        for text in table.texts(key, self.texts.max, self.texts.noun)? {
            match (self.parse)(&text.value) {
                Some(value) => values.push(value),
                None => table.scope.report(table.bad_value(key, &text).expected(self.expected)),
            }
        }
        Some(values)
    }

    fn schema(&self, _: &mut SchemaGenerator) -> Schema {
        one_or_more(text(self.pattern))
    }

    fn written(&self, value: &Vec<T>) -> Option<Value> {
        Some(value.iter().map(self.format).collect())
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
        any_text()
    }
}

fn between<T>(range: &RangeInclusive<T>, show: impl Fn(&T) -> String) -> String {
    format!("{} to {}", show(range.start()), show(range.end()))
}
