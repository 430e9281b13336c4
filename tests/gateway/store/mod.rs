//! The history in SQLite as the gateway writes it: columns, who asked, retention, shutdown and unusable databases.

mod attempt_columns;
mod origin;
mod recorded_times;
mod retention;
mod shutdown;
mod unusable_database;
