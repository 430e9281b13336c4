//! How a table is declared. From one list of columns, `table!` makes the struct, the insert statement, the names in
//! JSON and CSV, the OpenAPI schema and the table of `docs/measurement.md`. `subset!` reads some columns back by name.
//!
//! Not for SQL: `store` converts a [`CellValue`] for its drivers. The schema itself is in `migrations/`; a test
//! compares it with the declarations, which are in `record`.

use serde_json::{Map, Value};

use photofinish_base::failure::FailureKind;
use photofinish_wire::answer::judgement::{CallsVerdict, StructuredVerdict};

/// One column, as it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// The field's documentation, joined into one line.
    pub about: &'static str,
    pub sql_type: SqlType,
    pub nullable: bool,
}

impl Column {
    /// The unit of a number, derived from its name. Empty for counts and non-numbers.
    pub fn unit(&self) -> &'static str {
        let named = |parts: &[&str]| parts.iter().any(|part| self.name.split('_').any(|word| word == *part));
        match self.name {
            "started_at" => "µs",
            _ if named(&["us"]) => "µs",
            _ if named(&["ms"]) => "ms",
            _ if named(&["usd"]) => "USD",
            _ if named(&["bytes"]) => "bytes",
            _ if named(&["tokens"]) => "tokens",
            _ => "",
        }
    }
}

/// The types of SQLite that columns have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    Integer,
    Real,
    Text,
}

/// One stored value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

/// A record that is a row of a table.
pub trait Table {
    const NAME: &'static str;
    /// All columns, in the order of the table.
    const COLUMNS: &'static [Column];

    /// One value for each column, in the same order.
    fn cells(&self) -> impl Iterator<Item = CellValue<'_>>;
}

/// A record as the database would return it.
pub fn object<T: Table>(record: &T) -> Map<String, Value> {
    T::COLUMNS.iter().zip(record.cells()).map(|(column, cell)| (column.name.to_owned(), json(cell))).collect()
}

pub fn json(cell: CellValue<'_>) -> Value {
    match cell {
        CellValue::Null => Value::Null,
        CellValue::Integer(value) => value.into(),
        CellValue::Real(value) => value.into(),
        CellValue::Text(value) => value.into(),
    }
}

/// A struct with some columns of a table.
pub trait Subset: Default {
    type Record: Table;
    const NAMES: &'static [&'static str];

    /// Takes the next cell for each column, in the order of [`Subset::NAMES`]. Strings keep their memory.
    ///
    /// # Errors
    /// The error of `next`.
    fn fill<'c, E>(&mut self, next: impl FnMut() -> Result<CellValue<'c>, E>) -> Result<(), E>;

    /// Copies these columns from a record in memory. Strings keep their memory.
    fn copy(&mut self, record: &Self::Record);

    /// These columns of a record in memory.
    fn of(record: &Self::Record) -> Self {
        let mut subset = Self::default();
        subset.copy(record);
        subset
    }
}

/// A type that a declared field may have.
pub trait ToCell {
    const SQL_TYPE: SqlType;
    const NULLABLE: bool = false;

    fn to_cell(&self) -> CellValue<'_>;
}

/// A type that can be read from a cell.
pub trait FromCell: ToCell + Default {
    /// The tables are strict, so a cell has its column's type. An unknown name gives the default.
    fn fill(&mut self, cell: CellValue<'_>);
}

/// Declares a table: the record and its columns. `= value` sets a default that is not all zero.
macro_rules! table {
    (@new) => { ::std::default::Default::default() };
    (@new $value:expr) => { $value };
    ($(#[doc = $meta:literal])* $record:ident is $table:literal {
        $($(#[doc = $about:literal])+ $column:ident: $type:ty $(= $value:expr)?,)+
    }) => {
        $(#[doc = $meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $record {
            $($(#[doc = $about])+ pub $column: $type,)+
        }

        impl Default for $record {
            fn default() -> $record {
                $record { $($column: table!(@new $($value)?),)+ }
            }
        }

        impl $crate::record::table::Table for $record {
            const NAME: &'static str = $table;
            const COLUMNS: &'static [$crate::record::table::Column] = &[$($crate::record::table::Column {
                name: stringify!($column),
                about: concat!($($about),+).trim_ascii_start(),
                sql_type: <$type as $crate::record::table::ToCell>::SQL_TYPE,
                nullable: <$type as $crate::record::table::ToCell>::NULLABLE,
            }),+];

            fn cells(&self) -> impl Iterator<Item = $crate::record::table::CellValue<'_>> {
                [$($crate::record::table::ToCell::to_cell(&self.$column)),+].into_iter()
            }
        }
    };
}

/// Declares a struct of some columns of a table. An unknown name or a wrong type does not compile.
#[macro_export]
macro_rules! subset {
    ($(#[$meta:meta])* $vis:vis $name:ident of $record:ident {
        $($(#[doc = $about:literal])* $column:ident: $type:ty,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        $vis struct $name {
            $($(#[doc = $about])* pub $column: $type,)+
        }

        impl $crate::record::table::Subset for $name {
            type Record = $record;
            const NAMES: &'static [&'static str] = &[$(stringify!($column)),+];

            fn fill<'c, E>(
                &mut self,
                mut next: impl FnMut() -> Result<$crate::record::table::CellValue<'c>, E>,
            ) -> Result<(), E> {
                $($crate::record::table::FromCell::fill(&mut self.$column, next()?);)+
                Ok(())
            }

            fn copy(&mut self, record: &$record) {
                $($crate::record::table::copy(&record.$column, &mut self.$column);)+
            }
        }
    };
}

/// Makes a record one that can be read back whole. A column that is left out keeps its default: a test compares.
macro_rules! readable {
    ($record:ident: $($column:ident),+ $(,)?) => {
        impl $crate::record::table::Subset for $record {
            type Record = $record;
            const NAMES: &'static [&'static str] = &[$(stringify!($column)),+];

            fn fill<'c, E>(
                &mut self,
                mut next: impl FnMut() -> Result<$crate::record::table::CellValue<'c>, E>,
            ) -> Result<(), E> {
                $($crate::record::table::FromCell::fill(&mut self.$column, next()?);)+
                Ok(())
            }

            fn copy(&mut self, record: &$record) {
                self.clone_from(record);
            }
        }
    };
}

pub use subset;
pub(crate) use {readable, table};

/// Does not compile for two types that are stored differently.
pub fn copy<A: ToCell, B: FromCell>(from: &A, into: &mut B) {
    const { assert!(A::SQL_TYPE as u8 == B::SQL_TYPE as u8 && A::NULLABLE == B::NULLABLE) }
    into.fill(from.to_cell());
}

impl<T: ToCell> ToCell for Option<T> {
    const SQL_TYPE: SqlType = T::SQL_TYPE;
    const NULLABLE: bool = true;

    fn to_cell(&self) -> CellValue<'_> {
        self.as_ref().map_or(CellValue::Null, T::to_cell)
    }
}

macro_rules! cell {
    ($($type:ty: $sql_type:ident, |$value:ident| $stored:expr;)+) => {
        $(impl ToCell for $type {
            const SQL_TYPE: SqlType = SqlType::$sql_type;

            fn to_cell(&self) -> CellValue<'_> {
                let $value = self;
                CellValue::$sql_type($stored)
            }
        })+
    };
}

pub(super) use cell;

macro_rules! number {
    ($($type:ty: $cell:ident($value:ident) => $read:expr;)+) => {
        $(impl FromCell for $type {
            fn fill(&mut self, cell: CellValue<'_>) {
                *self = if let CellValue::$cell($value) = cell { $read } else { Default::default() };
            }
        }

        impl FromCell for Option<$type> {
            fn fill(&mut self, cell: CellValue<'_>) {
                *self = if let CellValue::$cell($value) = cell { Some($read) } else { None };
            }
        })+
    };
}

cell! {
    i64: Integer, |value| *value;
    f64: Real, |value| *value;
    bool: Integer, |value| i64::from(*value);
    String: Text, |value| value;
    &'static str: Text, |value| value;
    FailureKind: Text, |value| value.as_str();
    CallsVerdict: Text, |value| value.as_str();
    StructuredVerdict: Text, |value| value.as_str();
}

number! {
    i64: Integer(value) => value;
    f64: Real(value) => value;
    bool: Integer(value) => value != 0;
}

impl FromCell for String {
    fn fill(&mut self, cell: CellValue<'_>) {
        self.clear();
        if let CellValue::Text(text) = cell {
            self.push_str(text);
        }
    }
}

impl FromCell for Option<String> {
    fn fill(&mut self, cell: CellValue<'_>) {
        match cell {
            CellValue::Text(_) => self.get_or_insert_default().fill(cell),
            _ => *self = None,
        }
    }
}

/// A name that is not known, for example of a newer version, is none.
macro_rules! by_name {
    ($($type:ident),+) => { $(impl FromCell for Option<$type> {
        fn fill(&mut self, cell: CellValue<'_>) {
            *self = if let CellValue::Text(name) = cell { $type::from_name(name) } else { None };
        }
    })+ };
}

by_name! { FailureKind, CallsVerdict, StructuredVerdict }
