//! `photofinish replicas`: the gateways that share a database. Reads the database only.

use std::io;

use photofinish_config::StoreAddress;
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
pub fn run(store: &StoreAddress, options: &ReplicasOptions, out: &mut impl io::Write) -> anyhow::Result<()> {
    let answer = ask(&StoreReader::open(store)?)?;
    if options.json {
        return Ok(writeln!(out, "{}", answer.json())?);
    }
    if !store.is_server() {
        return Ok(writeln!(
            out,
            "{store} is a file: one gateway has it. Several share a Postgres database (docs/postgres.md)."
        )?);
    }
    if answer.is_empty() {
        return Ok(writeln!(out, "No gateway has used this database within a day.")?);
    }
    // Numbers are aligned to the right.
    Ok(write_lines(&aligned(&answer.rows(), &|column| !matches!(column, 1 | 6 | 7)), out)?)
}
