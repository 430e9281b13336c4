//! The history in SQLite as the gateway writes it: columns, retention, shutdown and unusable databases.

mod attempt_columns;
mod recorded_times;
mod retention;
mod shutdown;
mod unusable_database;
