//! `photofinish replicas`: the gateways that share a database. Reads the database only.

use std::io;
use std::path::Path;

use photofinish_config::config::postgres_url::is_postgres;
use photofinish_history::report::replicas::ask;
use photofinish_history::store::StoreReader;

use super::text::{aligned, write_lines};

/// What the command takes.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplicasOptions {
    /// One object, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Writes text or JSON to `out`.
pub fn run(store_path: &Path, options: &ReplicasOptions, out: &mut impl io::Write) -> anyhow::Result<()> {
    let answer = ask(&StoreReader::open(store_path)?)?;
    if options.json {
        return Ok(writeln!(out, "{}", answer.json())?);
    }
    if !is_postgres(store_path) {
        let path = store_path.display();
        return Ok(writeln!(
            out,
            "{path} is a file: one gateway has it. Several share a Postgres database (docs/postgres.md)."
        )?);
    }
    if answer.is_empty() {
        return Ok(writeln!(out, "No gateway has used this database within a day.")?);
    }
    // Numbers are aligned to the right.
    Ok(write_lines(&aligned(&answer.rows(), &|column| !matches!(column, 1 | 6 | 7)), out)?)
}
