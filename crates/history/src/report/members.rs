//! The members of JSON answers. Each is declared once, with its value, for JSON, CSV and the OpenAPI document.
//!
//! Names are part of the public interface. Not for the columns of the tables: `record::tables` declares those. Definitions:
//! `docs/measurement.md`.

use std::io;

use serde_json::{Map, Value};

use photofinish_facts::record::table::{Column, SqlType};

/// What is declared of one member of an object.
#[derive(Clone, Copy, Debug)]
pub struct MemberField {
    pub name: &'static str,
    pub kind: MemberKind,
    /// Of a number; empty for a count, a share and text.
    pub unit: &'static str,
    pub about: &'static str,
    /// It may be null.
    pub nullable: bool,
    /// It is left out where there is no value.
    pub optional: bool,
}

/// Its type in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    Integer,
    Number,
    Text,
    Boolean,
    /// An object of counts by name.
    Counts,
    /// An object of the schema with this name.
    Object(&'static str),
    Texts,
    /// An object whose members are not described.
    Open,
    /// Such objects.
    OpenList,
    /// A text, or a list of texts.
    TextOrTexts,
    /// At most this many objects of the schema with this name.
    List(&'static str, usize),
}

impl MemberField {
    pub const fn or_null(self) -> MemberField {
        MemberField { nullable: true, ..self }
    }

    /// It is left out instead of null.
    pub const fn if_known(self) -> MemberField {
        MemberField { optional: true, ..self }
    }
}

/// Declares the members of an object and the function that makes one: `name: Kind ["unit"] flags = value;`, where the comment is
/// the description.
#[macro_export]
macro_rules! members {
    ($(#[doc = $meta:literal])* $vis:vis $fields:ident: $function:ident($($given:ident: $type:ty),+) {
        $($(#[doc = $about:literal])*
        $name:ident: $kind:ident $(($($more:expr),+))? $([$unit:literal])? $($flag:ident)* = $value:expr;)+
    }) => {
        $(#[doc = $meta])*
        $vis const $fields: &[$crate::report::members::MemberField] = &[$($crate::report::members::field(
            stringify!($name),
            $crate::report::members::MemberKind::$kind $(($($more),+))?,
            concat!("" $(, $unit)?),
            concat!("" $(, $about)*).trim_ascii_start(),
        )$(.$flag())*),+];

        $(#[doc = $meta])*
        $vis fn $function($($given: $type),+) -> ::serde_json::Map<String, ::serde_json::Value> {
            $crate::report::members::object($fields, [$(::serde_json::json!($value)),+])
        }
    };
}
pub use members;

pub const fn integer(name: &'static str, unit: &'static str, about: &'static str) -> MemberField {
    field(name, MemberKind::Integer, unit, about)
}

pub const fn number(name: &'static str, unit: &'static str, about: &'static str) -> MemberField {
    field(name, MemberKind::Number, unit, about)
}

pub const fn text(name: &'static str, about: &'static str) -> MemberField {
    field(name, MemberKind::Text, "", about)
}

pub const fn field(name: &'static str, kind: MemberKind, unit: &'static str, about: &'static str) -> MemberField {
    MemberField { name, kind, unit, about, nullable: false, optional: false }
}

/// The members that have the names of these columns.
pub fn of_columns(columns: &[Column]) -> Vec<MemberField> {
    let member = |column: &Column| {
        let kind = match column.sql_type {
            SqlType::Integer => MemberKind::Integer,
            SqlType::Real => MemberKind::Number,
            SqlType::Text => MemberKind::Text,
        };
        MemberField { nullable: column.nullable, ..field(column.name, kind, column.unit(), column.about) }
    };
    columns.iter().map(member).collect()
}

/// The object with these members. A member that is left out if it is not known may be null here.
pub fn object(fields: &[MemberField], values: impl IntoIterator<Item = Value>) -> Map<String, Value> {
    let known = fields.iter().zip(values).filter(|(field, value)| !(field.optional && value.is_null()));
    known.map(|(field, value)| (field.name.to_owned(), value)).collect()
}

/// One JSON array.
pub fn write_json(objects: &[Map<String, Value>], out: &mut impl io::Write) -> io::Result<()> {
    // Keeps the error of `out`, so that the caller recognizes a closed pipe.
    serde_json::to_writer_pretty(&mut *out, objects).map_err(io::Error::from)?;
    writeln!(out)
}

/// Objects with these names as lines, as RFC 4180, with a header line; null is empty.
pub fn write_rows(names: &[&str], rows: &[Map<String, Value>], out: &mut impl io::Write) -> io::Result<()> {
    write_names(names, out)?;
    rows.iter().try_for_each(|row| write_row(names, row, out))
}

/// The header line.
pub fn write_names(names: &[&str], out: &mut impl io::Write) -> io::Result<()> {
    write!(out, "{}\r\n", names.join(","))
}

pub fn write_row(names: &[&str], row: &Map<String, Value>, out: &mut impl io::Write) -> io::Result<()> {
    let cells: Vec<String> = names.iter().map(|name| cell(row.get(*name).unwrap_or(&Value::Null))).collect();
    write!(out, "{}\r\n", cells.join(","))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text_cell(text),
        Value::Object(counts) => {
            counts.iter().map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(" ")
        }
        value => value.to_string(),
    }
}

/// Clients choose the names of models, and a spreadsheet would run a name such as `=cmd|…` as a formula. Such names get
/// an apostrophe in front.
fn text_cell(text: &str) -> String {
    let mark = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{mark}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{mark}{text}")
    }
}
