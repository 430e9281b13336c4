//! `keys!` declares the keys of a table once, each with its doc comment, type, kind of value and default. It makes the struct,
//! its reader and its part of the JSON Schema.
//!
//! Not for checks between two keys or two tables: see `resolve`.

use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::reader::TomlTable;

/// How the value of a key is read and described, without its default.
pub(super) trait ValueKind {
    type Value: Clone;

    /// None: the key is absent, or its value is wrong and reported.
    fn read(&self, table: &mut TomlTable<'_, '_>, key: &'static str) -> Option<Self::Value>;

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;

    /// A default as it is written in the file. None: it has no short form.
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
}

/// The keys of one table. `keys!` implements it.
pub(super) trait TableKeys: Clone + Default + JsonSchema {
    /// Reads the keys from the table; `base` has the values of absent or wrong keys.
    fn read(table: &mut TomlTable<'_, '_>, base: &Self) -> Self;

    /// The schema of each key.
    fn properties(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)>;
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
    let properties: serde_json::Map<String, Value> =
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
                $name { $($key: $crate::config::keys::keys!(@default $($default)?),)+ }
            }
        }

        impl $crate::config::keys::TableKeys for $name {
            fn read(table: &mut $crate::config::reader::TomlTable<'_, '_>, base: &$name) -> $name {
                use $crate::config::keys::{KeyKind, keys};
                $name { $($key: KeyKind::read(&keys!(@kind $kind $(, $default)?), table, stringify!($key), &base.$key),)+ }
            }

            fn properties(generator: &mut ::schemars::SchemaGenerator) -> Vec<(&'static str, ::schemars::Schema)> {
                use $crate::config::keys::{keys, property};
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
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let properties = <$name as $crate::config::keys::TableKeys>::properties(generator);
                $crate::config::keys::object(properties)
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { $default };
    (@kind $kind:expr) => { $crate::config::keys::WithoutDefault($kind) };
    (@kind $kind:expr, $default:expr) => { $kind };
}
pub(super) use keys;
