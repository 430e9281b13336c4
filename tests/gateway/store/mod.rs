//! The history in SQLite as the gateway writes it: columns, who asked and that figures of clients stand apart, retention, shutdown and unusable databases.

mod apart;
mod attempt_columns;
mod origin;
mod recorded_times;
mod retention;
mod shutdown;
mod unusable_database;
