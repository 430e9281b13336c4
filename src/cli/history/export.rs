//! `photofinish history export`: the rows of a table as CSV or as JSON lines, for other programs.
//!
//! Not for figures: `stats --csv` and `history --csv` print those.

use std::io;
use std::ops::ControlFlow;

use photofinish_base::clock::wall_micros;
use photofinish_config::StoreAddress;
use photofinish_facts::record::table::Table;
use photofinish_facts::record::{AttemptRecord, RaceRecord};
use photofinish_history::report::members::{write_names, write_row};
use photofinish_history::report::question::RaceWindow;
use photofinish_history::store::StoreReader;

/// The options of the command.
#[derive(clap::Args, Clone, Debug)]
pub struct Export {
    #[command(flatten)]
    pub window: RaceWindow,
    /// The table.
    #[arg(long, value_enum, default_value = "attempt")]
    table: Exported,
    /// One JSON object per line instead of CSV.
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Exported {
    /// One row for each attempt.
    Attempt,
    /// One row for each client request.
    Race,
}

pub(super) fn run(store: &StoreAddress, options: &Export, out: &mut impl io::Write) -> anyhow::Result<()> {
    match options.table {
        Exported::Attempt => write::<AttemptRecord>(store, options, out),
        Exported::Race => write::<RaceRecord>(store, options, out),
    }
}

fn write<T: Table>(store: &StoreAddress, options: &Export, out: &mut impl io::Write) -> anyhow::Result<()> {
    let names: Vec<&str> = T::COLUMNS.iter().map(|column| column.name).collect();
    let mut out = io::BufWriter::new(out);
    if !options.json {
        write_names(&names, &mut out)?;
    }
    let mut written = Ok(());
    StoreReader::open(store)?.rows::<T>(&options.window.filter(wall_micros()), |row| {
        written = if options.json {
            serde_json::to_writer(&mut out, &row)
                .map_err(io::Error::from)
                .and_then(|()| io::Write::write_all(&mut out, b"\n"))
        } else {
            write_row(&names, &row, &mut out)
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    Ok(io::Write::flush(&mut out)?)
}
