//! `photofinish migrate` and `photofinish copy`: the schema of the database, and a history from one database into another.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use photofinish_config::config::postgres_url::local_file;
use photofinish_config::config::{Config, store_at};
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
    let path = config.store.path.display();
    match Store::migrate(&config.store.path)? {
        (0, version) => writeln!(out, "{path}: the tables were made (version {version})")?,
        (before, version) if before == version => writeln!(out, "{path}: up to date (version {version})")?,
        (before, version) => writeln!(out, "{path}: brought from version {before} to {version}")?,
    }
    Ok(())
}

/// Copies a history. `progress`: a terminal that is told how far it is.
pub(super) fn run(
    config: &Config,
    options: &CopyOptions,
    out: &mut impl Write,
    mut progress: Option<&mut dyn Write>,
) -> anyhow::Result<()> {
    let spill = local_file(&config.store.path);
    let place =
        |url: &str| store_at(url, &spill).map_err(|problem| anyhow!(problem.replace("\"url\" in [store]", "the URL")));
    let from: PathBuf = place(&options.from)?;
    let to: PathBuf = options.to.as_deref().map_or_else(|| Ok(config.store.path.clone()), place)?;
    anyhow::ensure!(from != to, "--from and --to name the same database");
    let copied = copy_history(&from, &to, |so_far| {
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
        to.display(),
        from.display()
    )?;
    if refused > 0 {
        let _ = writeln!(
            io::stderr(),
            "what was refused is in the file .refused beside the spill file, each row with its reason"
        );
    }
    Ok(())
}
