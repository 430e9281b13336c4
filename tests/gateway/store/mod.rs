//! The history as the gateway writes it: columns, who asked, separate figures of clients, retention, shutdown and unusable databases,
//! in SQLite; and several gateways on one Postgres.

mod apart;
mod attempt_columns;
mod origin;
mod recorded_times;
mod retention;
mod several;
mod shutdown;
mod unusable_database;
