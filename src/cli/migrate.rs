//! `photofinish migrate` and `photofinish copy`: the schema of the database, and a history from one database into another.

use std::io::{self, Write};

use anyhow::anyhow;
use clap::Args;
use photofinish_config::{Config, StoreAddress, store_at};
use photofinish_history::report::question::time;
use photofinish_history::store::{CopyProgress, Store, copy_history};

/// Options of `photofinish copy`.
#[derive(Debug, Args)]
pub(super) struct CopyOptions {
    /// The file: `sqlite:PATH`.
    #[arg(long, value_name = "URL")]
    from: String,

    /// The database to copy into: `postgres://USER:PASSWORD@HOST/DATABASE`. Without it: that of the configuration, whose password no other
    /// user of this machine sees.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
}

/// Makes the schema, or brings it up to date, and says which version it has.
pub(super) fn migrate(config: &Config, out: &mut impl Write) -> anyhow::Result<()> {
    let store = &config.store.address;
    match Store::migrate(store)? {
        (0, version) => writeln!(out, "{store}: the tables were made (version {version})")?,
        (before, version) if before == version => writeln!(out, "{store}: up to date (version {version})")?,
        (before, version) => writeln!(out, "{store}: brought from version {before} to {version}")?,
    }
    Ok(())
}

/// Copies a history. `progress`: a terminal that shows how far it is.
pub(super) fn run(
    config: &Config,
    options: &CopyOptions,
    out: &mut impl Write,
    mut progress: Option<&mut dyn Write>,
) -> anyhow::Result<()> {
    let configured = &config.store.address;
    let named = |url: &str| {
        store_at(url, configured).map_err(|problem| anyhow!(problem.replace("\"url\" in [store]", "the URL")))
    };
    let from = named(&options.from)?;
    let to = options.to.as_deref().map_or_else(|| Ok(configured.clone()), named)?;
    anyhow::ensure!(from != to, "--from and --to name the same database");
    let StoreAddress::File(file) = &from else { anyhow::bail!("--from names a server: it takes a file, sqlite:PATH") };
    let copied = copy_history(file, &to, |so_far| {
        if let Some(progress) = &mut progress {
            // Where the terminal is gone, the copy goes on.
            let _ = write!(progress, "\r{} rows, up to {}", so_far.rows, time(so_far.until_us));
        }
    });
    if let Some(progress) = progress {
        writeln!(progress)?;
    }
    let CopyProgress { rows, refused, hours, lines, .. } = copied?;
    writeln!(
        out,
        "{} has the rows of {}: {rows} rows were read, {refused} refused; the figures of {hours} hours and {lines} lines of accounts and \
         verdicts are new",
        to, from
    )?;
    if refused > 0 {
        let _ = writeln!(
            io::stderr(),
            "what was refused is in the file .refused next to the spill file, each row with its reason"
        );
    }
    Ok(())
}
